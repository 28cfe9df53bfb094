"""Draw table 1, figures 7 and 8, the maps of the surveys, and the shares of figure 9."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from harness.data import seed_of
from harness.pictures import curves, panels, save
from harness.results import Point, Results
from protocol import HERE, cohort_of, flag_odds, flagged
from sources import people_of, present, raster_of
from variants import PAPER

import heathaze as hz
from heathaze.distributed import AdaptiveQuadtree, Survey, proportions, simulate
from heathaze.domain.partition import cell_codes
from heathaze.privacy.noise_shares import realised_epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can distinguish; marker and dash differ too.
STYLES = {
    "non-private": ("#000000", "x", ":"),
    "the paper's": ("#D55E00", "s", "--"),
    "ours": ("#0072B2", "o", "-"),
}
ROWS = (
    "non-private", "ours, default settings", "ours", "last round, default settings", "the paper's", "adaptive grid",
    "adaptive grid, as printed", "hierarchical", "hierarchical, best split", "spatial decomposition",
    "spatial decomposition, best layer", "count-min", "count-min, best split", "flat",
)  # fmt: skip
SETTINGS = {
    ("table1", 10_000): ("10,000 people", "#0072B2", "o"),
    ("table1", 100_000): ("100,000 in ten shards", "#D55E00", "s"),
    ("table1, 10% lost", 100_000): ("100,000, 10 % lost", "#009E73", "^"),
}
NAMES = {"manhattan": "Manhattan", "nyc": "New York", "synthetic": "synthetic city"}
MSE = "MSE (1e-13)"


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure for which there are results, and return the files."""
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    files = [
        _table1(results, folder / "table1.png"),
        _figure7(results, folder / "figure7.png"),
        _figure8(results, folder / "figure8.png"),
    ]
    here = [source for source in ("manhattan", "synthetic") if present(source, config)]
    files += [_maps(source, config, folder / f"maps_{source}.png") for source in here]
    files.append(_figure9(here[0], config, folder / "figure9.png"))
    return files


def _table1(results: Results, path: Path) -> Path:
    sources = [name for name in NAMES if name in results.sources("table1")]
    figure, axes = panels(1, len(sources), "Table 1 · mean squared error at ε = 1", width=4.6, height=4.2)
    for axis, source in zip(axes, sources, strict=True):
        for shift, ((name, people), (label, colour, marker)) in enumerate(SETTINGS.items()):
            point = Point(name, source, people)
            methods = [method for method in ROWS if (point, method, "MSE") in results.values]
            if not methods:
                continue
            means = [results.mean(point, method, "MSE") for method in methods]
            errors = [2 * results.error(point, method, "MSE") for method in methods]
            at = np.array([ROWS.index(method) for method in methods]) + 0.2 * (shift - 1)
            axis.errorbar(means, at, xerr=errors, fmt=marker, color=colour, markersize=5, capsize=2, label=label)
        axis.set_title(NAMES[source], fontsize=9)
        labels = [f"{row} *" if "best" in row else row for row in ROWS] if axis is axes[0] else [""] * len(ROWS)
        axis.set_yticks(range(len(ROWS)), labels, fontsize=8)
        axis.set_ylim(len(ROWS) - 0.5, -0.5)
        for place in range(0, len(ROWS), 2):
            axis.axhspan(place - 0.5, place + 0.5, color="#000000", alpha=0.04, linewidth=0)
        _plain_log(axis, "x")
        axis.set_xlabel(MSE, fontsize=8.5)
        axis.grid(axis="x", alpha=0.25, linewidth=0.5)
    return save(
        figure,
        axes,
        path,
        "mean and two standard errors; * chosen by the truth: no server can; ours, the paper's: the paper's setting",
    )


def _figure7(results: Results, path: Path) -> Path:
    sources = [name for name in NAMES if name in results.sources("samples")]
    figure, axes = panels(len(sources), 3, "Figure 7 · sample size and calibration c · ε = 1", width=4, height=2.9)
    for row, source in enumerate(sources):
        for column, (name, metric, label) in enumerate(
            (
                ("samples", "MSE", MSE),
                ("early_noise", "MSE", MSE),
                ("early_noise", "numbers", "integers a person sends"),
            )
        ):
            axis, points = axes[3 * row + column], results.series(name, source)
            curves(axis, results, points, metric, STYLES, label)
            axis.set_title(NAMES[source], fontsize=9)
            axis.set_xscale("log")
            axis.set_xticks(
                [point.x for point in points],
                [f"{point.x:,.0f}" if point.x >= 1 else f"{point.x:g}" for point in points],
                fontsize=7,
            )
            axis.minorticks_off()
            axis.set_xlabel("people asked" if name == "samples" else "calibration c", fontsize=8.5)
            if metric == "MSE":
                _plain_log(axis, "y")
            else:
                axis.set_ylim(bottom=0)
    return save(figure, axes, path)


def _figure8(results: Results, path: Path) -> Path:
    sources = [name for name in NAMES if name in results.sources("shard")]
    title = "Figure 8 · 8 × 8 squares, ε = 0.1: shards, lost people, modulus"
    figure, axes = panels(len(sources), 4, title, width=3.6, height=3)
    marks = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", "-."))
    words = {
        "shard": "people in a shard",
        "threshold": "DP shard size: noise is shaped for so many",
        "bits": "bits of the modulus (line: as many as we take)",
    }
    for row, source in enumerate(sources):
        for column, (name, label) in enumerate(words.items()):
            axis, points = axes[4 * row + column], results.series(name, source)
            for method, (colour, marker, dash) in zip(_methods(results, points), marks, strict=False):
                held = [point for point in points if method in results.methods(point)]
                means = np.array([results.mean(point, method, "MSE") for point in held])
                errors = np.array([2 * results.error(point, method, "MSE") for point in held])
                places = [point.x for point in held]
                axis.plot(
                    places, means, color=colour, marker=marker, linestyle=dash, markersize=4, linewidth=1.4,
                    label=method.replace("%", " %"),
                )  # fmt: skip
                axis.fill_between(places, means - errors, means + errors, color=colour, alpha=0.18, linewidth=0)
            axis.set_title(NAMES[source], fontsize=9)
            axis.set_xlabel(label, fontsize=8.5)
            axis.set_ylabel("MSE of a square's share (1e-6)" if column == 0 else "", fontsize=8.5)
            axis.grid(alpha=0.25, linewidth=0.5)
            axis.tick_params(labelsize=8)
            axis.legend(fontsize=7.5, frameon=False)
            if name == "shard":
                axis.set_xscale("log")
                _plain_log(axis, "y")
            elif name == "bits":
                axis.set_yscale("log")
                axis.axvline(results.mean(points[-1], "centred", "chosen"), color="#000000", linewidth=0.8)
            else:
                axis.set_ylim(bottom=0)
        if row:
            axes[4 * row + 3].set_axis_off()
        else:
            _realised(axes[3], marks)
    return _save_plain(figure, path)


def _realised(axis: Axes, marks: tuple[tuple[str, str, str], ...]) -> None:
    """Draw the true ε in place of 0.1, if a shard were opened with fewer people than its noise was computed for."""
    sizes = np.arange(5_500, 10_001, 500)
    for lost, (colour, _, dash) in zip((0, 0.1, 0.2), marks, strict=True):
        left = round(10_000 * (1 - lost))
        kept = [float(realised_epsilon(0.1, min(1, left / size))) for size in sizes.tolist()]
        axis.plot(sizes, kept, color=colour, linestyle=dash, linewidth=1.4, label=f"{lost:.0%} lost".replace("%", " %"))
    axis.set_title("if opened all the same (we give it up)", fontsize=9)
    axis.set_xlabel("DP shard size: noise is shaped for so many", fontsize=8.5)
    axis.set_ylabel("realised ε", fontsize=8.5)
    axis.grid(alpha=0.25, linewidth=0.5)
    axis.tick_params(labelsize=8)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=7.5, frameon=False)


def _maps(source: str, config: dict[str, Any], path: Path) -> Path:
    """Draw the truth, the paper's estimate, and the published map with default settings."""
    from matplotlib.colors import PowerNorm

    grid, truth = raster = raster_of(source, config["data"]["file"], config["full"]["size"])
    epsilon = config["protocol"]["epsilon"]
    shown = {"truth": truth}
    for people in (10_000, 100_000):
        population = people_of(raster, people, source, 0)
        theirs, ours = (
            simulate(
                Survey(mechanism, cohort_of(people, 0, config)),
                population,
                randomness=hz.Simulation(seed_of("noise", source, 0, people, 0.0)),
            )
            for mechanism in (AdaptiveQuadtree(grid, epsilon, **PAPER), AdaptiveQuadtree(grid, epsilon))
        )
        shown[f"the paper's, {people:,} people"] = theirs.rounds[-1].density().dense().values
        shown[f"ours, default, {people:,} people"] = ours.estimate(draws=0).density.dense().values
    title = f"{NAMES[source]} · ε = 1 · {grid.rows} × {grid.cols} cells"
    figure, axes = panels(1, len(shown), title, width=3.1, height=3)
    norm = PowerNorm(0.5, vmin=0, vmax=float(np.quantile(truth[truth > 0], 0.995)) * 1e6)
    for axis, (name, values) in zip(axes, shown.items(), strict=True):
        image = _image(axis, grid, values * 1e6, first=axis is axes[0], norm=norm)
        error = "" if name == "truth" else f"\nMSE {hz.metrics.mse(truth, values) / 1e-13:.1f}e-13"
        axis.set_title(name + error, fontsize=8.5)
    bar = figure.colorbar(image, ax=axes, shrink=0.85, pad=0.01)
    bar.set_label("share of the people a cell (1e-6)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return _save_plain(figure, path)


def _figure9(source: str, config: dict[str, Any], path: Path) -> Path:
    """Draw the true share of people with the flag, its estimate, and the width of its interval."""
    grid, truth = raster = raster_of(source, config["data"]["file"], config["full"]["size"])
    people, width = 100_000, config["full"]["shares"]["width"]
    population = flagged(raster, people, source, 0)
    inhabited = truth > 0
    figure, axes = panels(
        1, 5, f"Figure 9 · share of people with a flag · {NAMES[source]}, 100,000 people, ε = 1", width=3.1, height=3
    )
    first = _image(axes[0], grid, np.where(inhabited, flag_odds(truth.shape), np.nan), first=True, vmin=0, vmax=0.7)
    axes[0].set_title("truth", fontsize=8.5)
    places = iter(axes[1:])
    for words, interval in (("split by people", None), ("split by width", width)):
        epsilon = config["protocol"]["epsilon"]
        mechanism = AdaptiveQuadtree(grid, epsilon, flagged=True, interval=interval, **PAPER)
        survey = simulate(
            Survey(mechanism, cohort_of(people, 0, config)), population, randomness=hz.Simulation(seed_of("flag"))
        )
        found = proportions(survey)
        regions = found.partition.locate(cell_codes(grid)).reshape(grid.shape)
        for name, values, top in (("share", found.share, 0.7), ("interval", found.width, 1.0)):
            axis = next(places)
            drawn = np.where(inhabited, values[regions], np.nan)
            image = _image(axis, grid, drawn, vmin=0, vmax=top, cmap="cividis" if name == "share" else "magma")
            axis.set_title(f"{words}: {name}\n{len(found.partition):,} regions", fontsize=8.5)
    for drawn, label in ((first, "share with the flag"), (image, "width of the 90 % interval")):
        bar = figure.colorbar(drawn, ax=axes, shrink=0.85, pad=0.01)
        bar.set_label(label, fontsize=8)
        bar.ax.tick_params(labelsize=7)
    return _save_plain(figure, path)


# ── what they share ─────────────────────────────────────────────────────────────────────────────────────────────────


def _image(
    axis: Axes, grid: hz.Grid, values: np.ndarray, *, first: bool = False, cmap: str = "cividis", **limits: Any
) -> Any:
    """Draw a map of at most 256 cells a side, with axes in degrees on the globe or kilometres on the plane."""
    geographic = grid.projection.is_geographic
    step = max(1, len(values) // 256)
    thin = values[: len(values) // step * step, : len(values) // step * step]
    with np.errstate(invalid="ignore"):
        small = thin.reshape(len(thin) // step, step, -1, step).mean(axis=(1, 3))
    extent = (*grid.x, *grid.y) if geographic else (*grid.x, *grid.y[::-1])
    height, width = grid.cell_size
    aspect = (height * grid.rows / (grid.y[1] - grid.y[0])) / (width * grid.cols / (grid.x[1] - grid.x[0]))
    image = axis.imshow(small, cmap=cmap, extent=extent, aspect=aspect, interpolation="nearest", **limits)
    axis.tick_params(labelsize=6.5)
    axis.locator_params(nbins=4)
    axis.set_xlabel("longitude (°)" if geographic else "km", fontsize=7.5)
    axis.set_ylabel(("latitude (°)" if geographic else "km") if first else "", fontsize=7.5)
    return image


def _methods(results: Results, points: list[Point]) -> list[str]:
    return list(dict.fromkeys(method for point in points for method in results.methods(point)))


def _plain_log(axis: Axes, which: str) -> None:
    """Make an axis logarithmic, with labels as plain numbers."""
    axis.set(**{f"{which}scale": "log"})
    low, high = axis.get_xlim() if which == "x" else axis.get_ylim()
    ticks = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 3, 5, 7)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    axis.minorticks_off()
    axis.set(**{f"{which}ticks": ticks, f"{which}ticklabels": [f"{tick:g}" for tick in ticks]})
    axis.tick_params(labelsize=8)


def _save_plain(figure: Figure, path: Path) -> Path:
    """Save a figure of maps in 256 colours, without a common legend."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    return path
