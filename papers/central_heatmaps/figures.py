"""Draw figures 1 and 2 for each data set, figures 10 and 11 for mixtures, and those of the appendices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from figures_appendices import draw_appendices
from harness.pictures import curves, panels, save
from harness.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can distinguish; marker and dash differ too.
STYLES = {
    "pyramid": ("#0072B2", "o", "-"),
    "flat": ("#D55E00", "s", "--"),
    "top 0.1 %": ("#009E73", "^", "-."),
    "top 0.01 %": ("#CC79A7", "v", ":"),
    "top 0.001 %": ("#E69F00", "D", (0, (5, 1, 1, 1))),
}
LABELS = {
    "SIM": "SIM, similarity (more is better)",
    "CC": "CC, correlation (more is better)",
    "KL": "KL in nats (less is better)",
    "EMD": "EMD, side of the box = 1 (less is better)",
}
NAMES = {"gowalla": "Gowalla check-ins, New York", "synthetic": "synthetic people, 6 places"}


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure for which there are results, and return the files."""
    files = [_figure1(results, source, folder) for source in results.sources("figure1")]
    files += [_figure2(results, source, folder) for source in results.sources("users") if results.sources("resolution")]
    if results.series("sparsity", "mixture") and results.series("clusters", "mixture"):
        files.append(_mixtures(results, folder))
    return files + draw_appendices(results, folder, STYLES)


def _figure1(results: Results, source: str, folder: Path) -> Path:
    figure, axes = panels(2, 2, f"Figure 1 · {NAMES[source]} · 200 people, 256 × 256 cells")
    points = results.series("figure1", source)
    for axis, metric in zip(axes, LABELS, strict=True):
        curves(axis, results, points, metric, STYLES, LABELS[metric])
        axis.set_xscale("log")
        axis.set_xticks([point.x for point in points], [f"{point.x:g}" for point in points])
        axis.minorticks_off()
        axis.set_xlabel("privacy loss ε")
        if metric == "KL":
            _plain_log(axis)
    return save(figure, axes, folder / f"figure1_{source}.png")


def _figure2(results: Results, source: str, folder: Path) -> Path:
    figure, axes = panels(1, 2, f"Figure 2 · {NAMES[source]} · ε = 10")
    for axis, name, label in zip(axes, ("users", "resolution"), ("people", "cells a side"), strict=True):
        points = results.series(name, source)
        curves(axis, results, points, "EMD", STYLES, LABELS["EMD"])
        if name == "resolution":
            axis.set_xscale("log", base=2)
            axis.set_xticks([point.x for point in points], [f"{point.x:g}" for point in points])
        axis.set_xlabel(label)
        axis.set_ylim(bottom=0)
    return save(figure, axes, folder / f"figure2_{source}.png")


def _mixtures(results: Results, folder: Path) -> Path:
    figure, axes = panels(2, 2, "Figures 10 and 11 · mixtures of Gaussians · 200 people, ε = 1, 256 × 256 cells")
    few = {method: STYLES[method] for method in ("pyramid", "flat", "top 0.01 %")}
    shown = (("sparsity", "SIM"), ("sparsity", "EMD"), ("clusters", "SIM"), ("clusters", "EMD"))
    for axis, (name, metric) in zip(axes, shown, strict=True):
        points = results.series(name, "mixture")
        curves(axis, results, points, metric, few, LABELS[metric])
        if name == "clusters":
            axis.set_xscale("log")
            axis.set_xticks([point.x for point in points], [f"{point.x:g}" for point in points])
            axis.minorticks_off()
            axis.set_xlabel("Gaussians (sparsity grows with them, 2 % to 75 %)")
        else:
            axis.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
            axis.set_xlabel("cells that hold a point, of 20 Gaussians")
        axis.set_ylim(bottom=0)
    return save(figure, axes, folder / "figures10_11_mixtures.png")


def _plain_log(axis: Axes) -> None:
    axis.set_yscale("log")
    ticks = [0.2, 0.5, 1, 2, 5, 10, 20]
    low, high = axis.get_ylim()
    axis.set_yticks([tick for tick in ticks if low <= tick <= high], [f"{t:g}" for t in ticks if low <= t <= high])
    axis.minorticks_off()
