"""Draw figures 1 to 3, the table of errors, the error over n, m, T and ε, and the lab."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from calibration import scaling, slope
from experiments import SWEEPS, figure1_trial
from harness.pictures import curves, panels, save
from harness.results import Config, Point, Results
from protocol import (
    HERE,
    KNOWN,
    POSTERIOR,
    PRINTED,
    PURSUIT,
    UNIFORM,
    InRoom,
    OnGraph,
    graph_answers,
    graph_readings,
    line_answers,
    line_of,
    read_graph,
    read_line,
    read_room,
)
from sources import community, lab_sensors

from heathaze.sensors.readings import Readings
from heathaze.sensors.recovery.posterior import find_sources
from heathaze.sensors.recovery_floor import fano_floor, recovery_floor
from heathaze.sensors.sensitivity import sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can distinguish; marker and dash differ too.
STYLES = {
    PURSUIT: ("#D55E00", "s", "--"),
    POSTERIOR: ("#0072B2", "o", "-"),
    KNOWN: ("#56B4E9", "^", "-."),
    UNIFORM: ("#000000", "x", ":"),
}
FLOOR, FANO, GREY = "#009E73", "#CC79A7", "#999999"
LABELS = {
    "n": "places n",
    "m": "sensors m",
    "T": "diffusivity · time T (length of the line = 1)",
    "epsilon": "privacy loss ε",
}
GUESSES = 400
"""The number of draws from the posterior for pictures."""


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure for which there are results, and return the files."""
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    files = [
        _figure1(results, config, folder / "figure1.png"),
        _figure2(config, folder / "figure2.png"),
        _figure3(config, folder / "figure3.png"),
        _table(results, folder / "table.png"),
    ]
    if results.series("over T", "line"):
        files.append(_sweeps(results, config, folder / "emd.png"))
    if results.sources("lab") and lab_sensors(config) is not None:
        files.append(_lab(results, config, folder / "lab.png"))
    return files


# ── the line ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure1(results: Results, config: Config, path: Path) -> Path:
    (point,) = results.series("figure1", "line")
    runs = len(results.of(point, PURSUIT, "EMD"))
    answers: list[dict[str, np.ndarray]] = []
    for run in range(runs):
        trial = figure1_trial(config, run, GUESSES)
        _, values, sigma = read_line(trial, config)
        answers.append({name: found / found.sum() for name, found in line_answers(trial, values, sigma).items()})
    places = line_of(trial.n, trial.m, trial.T).positions[:, 0]
    title = "Figure 1 · two unit sources · n = 100, m = 50, T = 0.05, σ = 0.1 (no promise)"
    figure, axes = panels(1, 3, title, width=4.1, height=3.2)
    for axis, named in zip(axes, ("the first run", f"average of {runs} runs"), strict=False):
        for name in (PURSUIT, POSTERIOR, KNOWN):
            colour, _, dash = STYLES[name]
            shown = answers[0][name] if axis is axes[0] else np.mean([found[name] for found in answers], axis=0)
            axis.step(places, shown, where="mid", color=colour, linestyle=dash, linewidth=1.4, label=name)
        top = 0.52 if axis is axes[0] else 0.3
        peaks = config["line"]["peaks"]
        axis.plot(peaks, [0.965 * top] * 2, "v", color="#000000", markersize=8, label="truth, 0.5 each")
        axis.set_title(named, fontsize=9)
        axis.set_ylim(0, top)
        axis.set_xlim(0, 1)
        _label(axis, "place (length of the line = 1)", "share of all strength")
    last = axes[2]
    for place, name in enumerate((PURSUIT, POSTERIOR, KNOWN, UNIFORM)):
        colour, marker, _ = STYLES[name]
        found = results.of(point, name, "EMD")
        at = place + np.linspace(-0.25, 0.25, len(found))
        last.plot(at, found, marker, color=colour, markersize=3.5, linestyle="none")
        last.hlines(found.mean(), place - 0.35, place + 0.35, color=colour, linewidth=2)
    last.set_xticks(range(4), ["basis\npursuit", "posterior", "posterior,\nknown", "uniform"])
    last.set_title("every run, and the mean", fontsize=9)
    last.set_ylim(bottom=0)
    _label(last, "", "EMD (length of the line = 1)")
    return save(figure, axes, path, "known: that there are two sources of strength 1")


def _table(results: Results, path: Path) -> Path:
    sources = [name for name in ("apart", "anywhere") if name in results.sources("table")]
    figure, axes = panels(1, len(sources), "Two unit sources · ε = 1, δ = 1e-5 · n = 100, m = 50, T = 0.05", width=4.8)
    words = {"apart": "sources in [0.1, 0.9], at least 0.25 apart", "anywhere": "sources anywhere"}
    for axis, source in zip(axes, sources, strict=True):
        points = results.series("table", source)
        # Without a reach the noise is as large as with a reach of 0.002, and there is no zero on a logarithmic axis.
        at = [max(point.x, 0.002) for point in points]
        for name, (colour, marker, dash) in STYLES.items():
            means = np.array([results.mean(point, name, "EMD") for point in points])
            band = 1.96 * np.array([results.error(point, name, "EMD") for point in points])
            axis.plot(at, means, color=colour, marker=marker, linestyle=dash, markersize=4, linewidth=1.4, label=name)
            axis.fill_between(at, means - band, means + band, color=colour, alpha=0.18, linewidth=0)
        axis.set_xscale("log")
        axis.set_xticks(at, ["none" if point.x == 0 else f"{point.x:g}" for point in points])
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.set_title(words[source], fontsize=9)
        _label(axis, "reach α hidden (length of the line = 1)", "EMD (length of the line = 1)")
    return save(figure, axes, path)


def _sweeps(results: Results, config: Config, path: Path) -> Path:
    reach = config["full"]["sweeps"]["reach"]
    title = f"EMD at an honest calibration · reach {reach}, ε = 1 · n = 100, m = 50, T = 0.05 unless on the axis"
    figure, axes = panels(1, 4, title, width=3.4, height=3)
    for axis, name in zip(axes, SWEEPS, strict=True):
        points = results.series(f"over {name}", "line")
        curves(axis, results, points, "EMD", STYLES, "EMD (length of the line = 1)" if axis is axes[0] else "")
        x = [point.x for point in points]
        floors = [_floors(results, config, name, point) for point in points]
        axis.plot(
            x, [floor for floor, _ in floors], color=FLOOR, linewidth=1.2, label="two sources: no method is below"
        )
        label = "theorem 15, constant corrected"
        axis.plot(x, [fano for _, fano in floors], color=FANO, linestyle="--", linewidth=1.2, label=label)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_ylim(0.0002, 0.5)
        axis.set_xticks(x, [f"{value:g}" for value in x])
        axis.xaxis.minorticks_off()
        axis.set_yticks([0.001, 0.01, 0.1], ["0.001", "0.01", "0.1"])
        axis.set_xlabel(LABELS[name], fontsize=8.5)
    note = "mean and 95 % band; the lower bounds are for the worst places of sources, the means for random ones"
    return save(figure, axes, path, note)


def _floors(results: Results, config: Config, name: str, point: Point) -> tuple[float, float]:
    line = config["line"]
    settings = {"n": line["n"], "m": line["m"], "T": line["T"]}
    if name != "epsilon":
        settings[name] = point.x if name == "T" else int(point.x)
    lipschitz = sensitivity(line_of(**settings), 1).per_length
    sigma = results.mean(point, UNIFORM, "sigma")
    floor = recovery_floor(sigma, lipschitz, strength=2, sources=2)
    return float(floor), float(fano_floor(sigma, lipschitz, strength=2))


# ── Δ₂ ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure2(config: Config, path: Path) -> Path:
    found, usual = scaling(config), config["scaling"]
    setting = f"n = {usual['n']}, m = {usual['m']}, T = {usual['T']:g} unless on the axis"
    figure, axes = panels(1, 3, f"Figure 2 · Δ₂ on the line for reach 1 · {setting}", width=4.1, height=3.2)
    for axis, (name, (x, y)) in zip(axes, found.items(), strict=True):
        values, rates = np.array(x, dtype=float), np.array(y)
        axis.loglog(values, rates, color="#0072B2", marker="o", markersize=4, label="Δ₂")
        middle = len(values) // 2
        if name == "n":
            axis.loglog(values, rates / values, color="#D55E00", marker="s", linestyle="--", markersize=4)
            axis.set_ylim(rates[-1] / values[-1] / 3, 3 * rates[0])
            axis.text(values[1], rates[1] / values[1] * 2, "without the factor n: falls like 1/n", fontsize=8)
            axis.text(values[0], rates[0] * 1.25, "with it: the same for all n", fontsize=8)
        elif name == "m":
            expected = rates[middle] * np.sqrt(values / values[middle])
            axis.loglog(values, expected, color=GREY, linewidth=4, alpha=0.5, zorder=0)
            axis.text(
                values[0], rates[-1] / 1.2, f"measured exponent {slope(x, y, 0, np.inf):.2f}; √m in grey", fontsize=8
            )
        else:
            printed = rates[-1] * (values / values[-1]) ** -1.5
            axis.loglog(values, printed, color="#D55E00", linestyle="--")
            axis.set_ylim(rates[-1] / 3, rates[0] * 300)
            axis.text(0.003, rates[0] * 2, "printed: T^−1.5 everywhere", fontsize=8, color="#D55E00")
            axis.text(
                0.00013, rates[0] / 60, f"{slope(x, y, 0, 0.01):.2f}".replace("-", "−") + "\nfor T ≤ 0.01", fontsize=8
            )
            axis.text(
                0.3, rates[-1] * 4, f"{slope(x, y, 10, np.inf):.2f}".replace("-", "−") + "\nfor T ≥ 10", fontsize=8
            )
            axis.set_xticks([1e-4, 1e-2, 1, 100], ["0.0001", "0.01", "1", "100"])
        if name != "T":
            axis.set_xticks(x, [f"{value:,}" for value in x], fontsize=7)
            ticks = (0.01, 0.1, 1, 10) if name == "n" else (7, 10, 15, 20, 30, 40)
            axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        _label(axis, LABELS[name], "Δ₂" if axis is axes[0] else "")
    return save(figure, axes, path, "Δ₂ in readings, for a unit of strength moved along the whole line")


# ── the graph ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure3(config: Config, path: Path) -> Path:
    """Draw the average answers about one source, with nodes placed by the two slowest modes of diffusion."""
    lengths = [int(length) for length in config["full"]["figure3"]["runs"]]
    shown = (PURSUIT, PRINTED, POSTERIOR)
    title = "Figure 3 · one unit source in the left community · n = 500, τ = 2, ε = 4, δ = 0.1, reach 1 edge"
    figure, axes = panels(len(lengths), len(shown), title, width=4, height=3.4)
    for row, length in enumerate(lengths):
        readings = graph_readings(0, length, config)
        x, y = _modes(readings.field.network.laplacian().toarray())
        source, average, silent = _averages(readings, length, shown)
        here = axes[row * len(shown) : (row + 1) * len(shown)]
        for axis, name in zip(here, shown, strict=True):
            shares = average[name] / max(average[name].sum(), 1e-12)
            order = np.argsort(shares)  # Nodes with large strengths are drawn last, so that they stay visible.
            colours = {"c": np.maximum(shares[order], 1e-5), "cmap": "cividis_r", "norm": _log(1e-4, 1e-1)}
            drawn = axis.scatter(x[order], y[order], s=12, **colours)
            axis.plot(x[source], y[source], "o", color="#D55E00", markersize=11, fillstyle="none", markeredgewidth=1.6)
            axis.set_title(f"{name}; edges across {length} long\n{_said(shares, silent[name])}", fontsize=8)
            _label(axis, "slowest mode of heat", "second slowest, by rank" if axis is here[0] else "")
            axis.set_xticks([])
            axis.set_yticks([])
        bar = figure.colorbar(drawn, ax=here, shrink=0.8)
        bar.set_label("share of all strength", fontsize=8)
        bar.ax.tick_params(labelsize=7)
    return _save_alone(figure, path)


def _said(shares: np.ndarray, silent: int) -> str:
    if silent == RUNS:
        return "no answer in any run"
    text = f"{shares[community(len(shares)) == 0].sum():.0%} of the mass on the left"
    return f"{text}; no answer in {silent} of {RUNS} runs" if silent else text


RUNS = 20
"""The number of runs whose average figure 3 shows."""


def _averages(
    readings: Readings, length: int, shown: tuple[str, ...]
) -> tuple[int, dict[str, np.ndarray], dict[str, int]]:
    """The average answer of each method over runs with the same source, and the share of runs without an answer."""
    source, _, _ = read_graph(readings, OnGraph(0, GUESSES, 0, length))
    heat = readings.field.responses([source])[:, 0]
    sums = {name: np.zeros(readings.field.shape[1]) for name in shown}
    silent = dict.fromkeys(shown, 0)
    for run in range(RUNS):
        noise = readings.deviation * np.random.default_rng(run).normal(size=len(heat))
        answers = graph_answers(readings.field, heat + noise, readings.deviation, GUESSES)
        for name in shown:
            total = answers[name].sum()
            silent[name] += int(total < 1e-9)
            if total >= 1e-9:
                sums[name] += answers[name] / total
    return source, sums, silent


def _modes(laplacian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of nodes from the second and third eigenvector, with the first community on the left.

    The third eigenvector is large only at a few nodes with a single edge, so its ranks are used; they spread out the
    other nodes too.
    """
    vectors = np.linalg.eigh(laplacian)[1]
    x, y = vectors[:, 1], vectors[:, 2]
    return (x if x[: len(x) // 2].mean() < 0 else -x), np.argsort(np.argsort(y)) / len(y)


def _log(low: float, high: float) -> object:
    from matplotlib.colors import LogNorm

    return LogNorm(low, high, clip=True)


# ── the room ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lab(results: Results, config: Config, path: Path) -> Path:
    from matplotlib.patches import Circle

    points = results.series("lab", "lab")
    title = "Intel's lab · 54 sensors, two simulated unit sources · reach 0.5 m, δ = 1e-5, T = 20 m², insulated walls"
    figure, axes = panels(1, 3, title, width=4.3, height=3.4)
    curves(axes[0], results, points, "EMD", STYLES, "EMD in metres")
    axes[0].set_xscale("log")
    axes[0].set_xticks([point.x for point in points], [f"{point.x:g}" for point in points])
    axes[0].minorticks_off()
    axes[0].set_ylim(bottom=0)
    axes[0].set_xlabel("privacy loss ε", fontsize=8.5)
    for axis, epsilon in zip(axes[1:], (points[0].x, points[-1].x), strict=True):
        trial = InRoom(1, GUESSES, int(epsilon))
        places, values, readings = read_room(trial, config)
        field = readings.field
        found = find_sources(field, values, readings.deviation, draws=GUESSES)
        width, height = field.size
        axis.imshow(
            found.shares.reshape(field.grid_shape) ** 0.5, origin="lower", extent=(0, width, 0, height), cmap="Greys",
            interpolation="nearest",
        )  # fmt: skip
        axis.plot(*field.sensors.T, ".", color=GREY, markersize=4, label="sensor")
        axis.plot(*places.T, "*", color="#D55E00", markersize=13, label="true source")
        for number, one in enumerate(found.found):
            named = "found, with its 90 % circle" if number == 0 else None
            axis.plot(*one.position, "o", color="#0072B2", markersize=6, label=named)
            axis.add_patch(Circle(one.position, one.position_error, fill=False, color="#0072B2", linewidth=1.2))
        axis.set_xlim(0, width)
        axis.set_ylim(0, height)
        axis.set_title(f"one run at ε = {epsilon:g}, number and strengths unknown", fontsize=9)
        _label(axis, "metres", "metres")
        axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)
    return save(figure, axes, path, "mean and 95 % band; grey cells: where the answer puts strength")


# ── small things ────────────────────────────────────────────────────────────────────────────────────────────────────


def _label(axis: Axes, x: str, y: str) -> None:
    axis.set_xlabel(x, fontsize=8.5)
    axis.set_ylabel(y, fontsize=8.5)
    axis.grid(alpha=0.25, linewidth=0.5)
    axis.tick_params(labelsize=8)


def _save_alone(figure: Figure, path: Path) -> Path:
    """Save a figure without a legend."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    return path
