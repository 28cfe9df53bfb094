"""Draw figures 7, 8, 9 and 13, the comparison of estimators, and local privacy beside the true privacy loss."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from calibration import equal_subset, square
from claims import WHOLE
from harness.pictures import curves, panels, save
from harness.results import Point, Results
from location_privacy import bayes_adversary, sampling_adversary
from protocol import HERE
from sources import parts_of, points_of, present

import heathaze as hz
from heathaze.local.disk_area import paper_radius

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can distinguish; marker and dash differ too.
STYLES = {
    "DAM": ("#0072B2", "o", "-"),
    "DAM-NS": ("#56B4E9", "s", "--"),
    "HUEM": ("#009E73", "^", "-."),
    "MDSW": ("#D55E00", "D", "-"),
    "MDSW, users": ("#E69F00", "v", ":"),
    "SEM-Geo-I": ("#CC79A7", "P", (0, (5, 1, 1, 1))),
}
ESTIMATORS = {
    "EM": ("#D55E00", "s", "--"),
    "EM, 60 steps": ("#E69F00", "^", "-."),
    "EMS": ("#CC79A7", "v", ":"),
    "ours": ("#0072B2", "o", "-"),
}
NAMES = {
    "crime parts": "Houston crimes, A–C",
    "gowalla parts": "New York check-ins, A–C",
    "normal": "Normal",
    "szipf": "SZipf",
    "mnormal": "MNormal",
    "crime": "Houston crimes, whole",
    "gowalla": "New York check-ins, whole",
    "accidents": "Great Britain, accidents",
}
SHORT = {
    "normal": "Normal", "szipf": "SZipf", "mnormal": "MNormal", "gowalla": "Gowalla", "accidents": "accidents",
}  # fmt: skip
"""The names below the columns of the estimators."""
ROWS = {"figure9": ("crime parts", "gowalla parts", "normal", "szipf", "mnormal"), "figure13": WHOLE}
FIGURES = {
    "few_cells": "ε = 3.5",
    "many_cells": "ε = 5",
    "small_epsilon": "5 × 5 cells",
    "large_epsilon": "15 × 15 cells",
    "wide_discs": "15 × 15 cells",
}
W2 = "W₂, side of the box = 1"
NOTE = "mean and 95 % band; SEM-Geo-I misleads as far as DAM (local privacy), which is no ε-LDP"


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure for which there are results, and return the files."""
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    files = [_figure7(config, folder / "figure7.png")]
    measured = [source for source in NAMES if source in results.sources("figure8")]
    files.append(_figure8(results, measured, folder / "figure8.png"))
    for name, sources in ROWS.items():
        here = [source for source in sources if source in measured]
        if here:
            files.append(_figure9(results, here, name, folder / f"{name}.png"))
    files.append(_in_cells(results, measured, folder / "figure9_cells.png"))
    files.append(_estimators(results, measured, folder / "estimators.png"))
    files.append(_local_privacy(folder / "local_privacy.png"))
    return files


def _figure7(config: Mapping[str, Any], path: Path) -> Path:
    """Draw the data sets of the paper's figures as maps of 100 × 100 cells, with the parts of table III."""
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    whole = {made["whole"]: name for name, made in config["table3"].items()}
    sources = [source for source in (*whole, "normal", "szipf", "mnormal") if present(source, config)]
    title = "Figure 7 · the data sets, points per cell of 100 × 100 · the truth, not private"
    figure, axes = panels(1, len(sources), title, width=3.1, height=2.9)
    for axis, source in zip(axes, sources, strict=True):
        made = config["data"][source]
        counts, _, _ = np.histogram2d(*points_of(source, 0, config), bins=100, range=[made["x"], made["y"]])
        shown = axis.imshow(
            np.where(counts > 0, counts, np.nan).T, origin="lower", extent=(*made["x"], *made["y"]), aspect="auto",
            cmap="viridis", norm=LogNorm(1, counts.max()), interpolation="nearest",
        )  # fmt: skip
        figure.colorbar(shown, ax=axis, pad=0.02).ax.tick_params(labelsize=7)
        for part in parts_of(whole[source], config) if source in whole else ():
            (west, east), (south, north) = part["x"], part["y"]
            style = {"fill": False, "edgecolor": "#D55E00", "linewidth": 1.5}
            axis.add_patch(Rectangle((west, south), east - west, north - south, label="parts of table III", **style))
            tag = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            axis.text(west, south, part["name"], fontsize=8, color="#D55E00", weight="bold", va="top", bbox=tag)
        axis.set_title(NAMES[source], fontsize=9)
        axis.set_xlabel("longitude, degrees" if source in whole else "x", fontsize=8.5)
        axis.set_ylabel("latitude, degrees" if source in whole else "y", fontsize=8.5)
        axis.tick_params(labelsize=7.5)
        axis.locator_params(nbins=5)
    return save(figure, axes, path, "")


def _figure8(results: Results, sources: list[str], path: Path) -> Path:
    title = "Figure 8 · W₂ over the radius · 15 × 15 cells, ε = 3.5"
    columns = math.ceil(len(sources) / 2)
    figure, axes = panels(2, columns, title, width=2.9, height=2.6)
    for axis in axes[len(sources) :]:
        axis.set_axis_off()
    for axis, source in zip(axes, sources, strict=False):
        points = results.series("figure8", source)
        curves(axis, results, points, "W2", STYLES, W2 if axis in axes[::columns] else "")
        axis.set_title(NAMES[source], fontsize=9)
        axis.set_xticks([point.x for point in points])
        axis.set_xlabel("radius b in cells", fontsize=8.5)
        axis.set_ylim(bottom=0)
    return save(figure, axes, path)


def _figure9(results: Results, sources: list[str], name: str, path: Path) -> Path:
    titles = {"figure9": "Figure 9", "figure13": "Figure 13 (first row), and two more data sets"}
    title = f"{titles[name]} · W₂ over cells a side d and privacy loss ε"
    figure, axes = panels(len(sources), len(FIGURES), title, width=3, height=2.6)
    for place, axis in enumerate(axes):
        source, kind = sources[place // len(FIGURES)], list(FIGURES)[place % len(FIGURES)]
        points = _beyond_one_cell(results.series(kind, source))
        curves(axis, results, points, "W2", STYLES, W2 if kind == "few_cells" else "")
        axis.set_title(f"{NAMES[source]} · {FIGURES[kind]}", fontsize=8.5)
        _ticks(axis, points, "cells" in kind)
        _plain_log(axis)
    return save(figure, axes, path, NOTE)


def _in_cells(results: Results, sources: list[str], path: Path) -> Path:
    title = "Figures 9 and 13 in cells · W₂ over cells a side · ε = 5"
    columns = math.ceil(len(sources) / 2)
    figure, axes = panels(2, columns, title, width=2.9, height=2.6)
    for axis in axes[len(sources) :]:
        axis.set_axis_off()
    for axis, source in zip(axes, sources, strict=False):
        points = _beyond_one_cell(results.series("many_cells", source))
        label = "W₂ in cells" if axis in axes[::columns] else ""
        curves(axis, results, points, "W2", STYLES, label, lambda point: point.x)
        axis.set_title(NAMES[source], fontsize=9)
        _ticks(axis, points, True)
        _plain_log(axis)
    return save(figure, axes, path, NOTE)


def _estimators(results: Results, sources: list[str], path: Path) -> Path:
    """Draw the four estimators, with one column for each data set, size and ε."""
    rows = sorted(
        (point for point, method, metric in results.values if (method, metric) == ("ours", "EMD")),
        key=lambda point: (len(point.figure), point.figure, sources.index(point.source), point.x),
    )
    figure, axes = panels(2, 1, "From the reports of DAM to a map · 100,000 reports", width=11, height=3)
    words = {"EMD": "EMD, side of the box = 1\n(less is better)", "SIM": "SIM, similarity\n(more is better)"}
    for axis, (metric, label) in zip(axes, words.items(), strict=True):
        for shift, (method, (colour, marker, _)) in enumerate(ESTIMATORS.items()):
            at = np.arange(len(rows)) + 0.14 * (shift - 1.5)
            means = [results.mean(point, method, metric) for point in rows]
            errors = [2 * results.error(point, method, metric) for point in rows]
            axis.errorbar(at, means, errors, fmt=marker, color=colour, markersize=5.5, capsize=2, label=method)
        axis.set_ylabel(label, fontsize=8.5)
        axis.grid(axis="y", alpha=0.25, linewidth=0.5)
        axis.tick_params(labelsize=8)
        for place in range(0, len(rows), 2):
            axis.axvspan(place - 0.5, place + 0.5, color="#000000", alpha=0.04, linewidth=0)
        axis.set_xlim(-0.5, len(rows) - 0.5)
        names = [f"{SHORT[point.source]}\n{point.figure[12:]}\nε = {point.x:g}" for point in rows]
        axis.set_xticks(range(len(rows)), names, fontsize=7.5)
    _plain_log(axes[0])
    axes[1].set_ylim(0, 1)
    return save(figure, axes, path, "mean and two standard errors")


def _local_privacy(path: Path) -> Path:
    """Draw the errors of the paper's adversary and the best adversary, and the true privacy loss of each mechanism."""
    title = "Local privacy is no promise · 15 × 15 cells, all cells equally likely"
    figure, axes = panels(1, 2, title, width=5)
    losses = [3.5, 4, 5, 6, 7, 8, 9]
    grid = square(15)
    found: dict[str, list[tuple[float, float, float]]] = {"DAM": [], "SEM-Geo-I": []}
    for epsilon in losses:
        k, price = equal_subset(15, epsilon)
        disc = hz.local.DiskArea(grid, epsilon, radius=math.floor(paper_radius(grid, epsilon)))
        sets = hz.local.SubsetExponential(grid, price, size=k)
        for name, matrix in (("DAM", disc.transition_matrix()), ("SEM-Geo-I", sets.transition_matrix())):
            seen = matrix[:, matrix.sum(axis=0) > 0]
            worst = float(np.log(seen.max(axis=0) / seen.min(axis=0)).max())
            guesses = (adversary(matrix, grid.shape) for adversary in (sampling_adversary, bayes_adversary))
            found[name].append((*guesses, worst))
    for name, numbers in found.items():
        colour, marker, _ = STYLES[name]
        sampled, best, worst = zip(*numbers, strict=True)
        style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.4}
        axes[0].plot(losses, sampled, linestyle="-", label=f"{name}: the paper's adversary", **style)
        axes[0].plot(losses, best, linestyle=":", label=f"{name}: best guess", **style)
        axes[1].plot(losses, worst, linestyle="-", **style)
    for axis, label in zip(axes, ("error of the guess, in cells", "enumerated worst loss (nats)"), strict=True):
        axis.set_xlabel("ε of DAM", fontsize=8.5)
        axis.set_ylabel(label, fontsize=8.5)
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.tick_params(labelsize=8)
        axis.set_ylim(bottom=0)
    return save(figure, axes, path, "SEM-Geo-I with the price that makes the paper's adversary err as far")


def _beyond_one_cell(points: list[Point]) -> list[Point]:
    """Leave out maps of one cell: their error is 0, which a logarithmic axis cannot show."""
    return [point for point in points if "cells" not in point.figure or point.x > 1]


def _ticks(axis: Axes, points: list[Point], over_cells: bool) -> None:
    places = [point.x for point in points]
    if over_cells and places[-1] > 5:
        axis.set_xscale("log")
    axis.set_xticks(places, [f"{place:g}" for place in places])
    axis.minorticks_off()
    axis.set_xlabel("cells a side d" if over_cells else "privacy loss ε", fontsize=8.5)


def _plain_log(axis: Axes) -> None:
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    ticks = [digit * 10.0**power for power in range(-4, 2) for digit in (1, 2, 3, 5, 7)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    axis.minorticks_off()
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
