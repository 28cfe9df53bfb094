"""Draw MMD² over ε, over the number of points and over the points seen, and the probability of being asked."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from experiments import EPSILON, OVER_EPSILON, OVER_OWNERS, OVER_POINTS, OVER_SEEN
from harness.pictures import curves, panels, save
from harness.results import Point, Results
from printed import PrintedAuction, RepairedAuction
from protocol import EXACT, GREEDY, HERDING, MMD, NETWORK, POOL, PRIVATE, RIGHT, ROUNDS, SVM, UNIFORM

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can distinguish; marker and dash differ too.
STYLES = {
    HERDING: ("#0072B2", "o", "-"),
    ROUNDS: ("#D55E00", "s", "-"),
    GREEDY: ("#000000", "x", "--"),
    EXACT: ("#009E73", "+", "--"),
    POOL: ("#56B4E9", "^", "-."),
    RIGHT: ("#CC79A7", "v", ":"),
    UNIFORM: ("#E69F00", "d", ":"),
}
NAMES = {
    "mnist": "MNIST, five owners by digits",
    "adult": "adult, five owners by countries",
    "digits": "digits, five owners by digits",
}
ROWS = ((MMD, "MMD² to target points held out"), (SVM, "accuracy, linear SVM"), (NETWORK, "accuracy, network"))


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure for which there are results, and return the files."""
    files = [
        _over(results, OVER_EPSILON, "privacy loss ε of a record (δ = 1e-6)", folder / "over_epsilon.png"),
        _auction(folder / "auction.png"),
    ]
    if results.sources(OVER_POINTS):
        files.append(
            _over(results, OVER_POINTS, f"points bought (ε = {EPSILON}, δ = 1e-6)", folder / "over_points.png")
        )
    if results.sources(OVER_SEEN):
        files.append(_parsimony(results, folder / "parsimony.png"))
    return files


def _over(results: Results, figure: str, label: str, path: Path) -> Path:
    sources = [name for name in NAMES if name in results.sources(figure)]
    title = "Herding and rounds are private; random pool and uniform need not be; the others are not private"
    drawn, axes = panels(len(ROWS), len(sources), title, width=4.3, height=2.7)
    for place, axis in enumerate(axes):
        (metric, words), name = ROWS[place // len(sources)], sources[place % len(sources)]
        series = results.series(figure, name)
        curves(axis, results, series, metric, {method: STYLES[method] for method in PRIVATE}, words)
        # Without bands: seven of them would hide each other.
        for method in (method for method in STYLES if method not in PRIVATE):
            colour, marker, dash = STYLES[method]
            means = [results.mean(point, method, metric) for point in series]
            axis.plot(
                [point.x for point in series], means, color=colour, marker=marker, linestyle=dash, markersize=4,
                linewidth=1.2, label=method,
            )  # fmt: skip
        _across(axis, [point.x for point in series], label)
        if metric == MMD:
            axis.set_yscale("log")
            axis.set_title(NAMES[name], fontsize=9)
    return save(drawn, axes, path, "mean, and 95 % band of the private ones")


def _parsimony(results: Results, path: Path) -> Path:
    (name, *_) = results.sources(OVER_SEEN)
    owners = name in results.sources(OVER_OWNERS)
    title = f"{NAMES[name].split(',')[0]} · ε = {EPSILON}, δ = 1e-6"
    drawn, axes = panels(1, 2 if owners else 1, title, width=5.0, height=3.2)
    series = results.series(OVER_SEEN, name)
    curves(axes[0], results, series, MMD, STYLES, ROWS[0][1])
    for method in (GREEDY, EXACT):
        colour, _, dash = STYLES[method]
        level = results.mean(Point(OVER_EPSILON, name, EPSILON), method, MMD)
        axes[0].axhline(level, color=colour, linestyle=dash, linewidth=1.2, label=f"{method} (sees all)")
    _across(axes[0], [point.x for point in series], "points the curator sees for each point it buys")
    if owners:
        series = results.series(OVER_OWNERS, name)
        curves(axes[1], results, series, MMD, STYLES, ROWS[0][1])
        _across(axes[1], [point.x for point in series], "owners")
        seen = set(axes[0].get_legend_handles_labels()[1])
        for line in axes[1].get_lines():
            if line.get_label() not in seen:
                # One legend serves both panels.
                axes[0].plot(
                    [],
                    [],
                    color=line.get_color(),
                    marker=line.get_marker(),
                    linestyle=line.get_linestyle(),
                    markersize=4,
                    label=line.get_label(),
                )
    for axis in axes:
        axis.set_yscale("log")
    return save(drawn, axes, path)


def _auction(path: Path) -> Path:
    """Draw the probability of being asked, and the privacy loss of not being asked."""
    drawn, axes = panels(1, 2, "Who is asked for a point · stated ε = 0.1 a round", width=4.8, height=3.2)
    ranks = np.arange(1, 81)
    stated = Fraction(1, 10)
    for name, auction, style in (
        ("as printed", PrintedAuction(stated), STYLES[ROUNDS]),
        ("logistic, top bid missed once in 1,000", RepairedAuction(stated, 1e-3), STYLES[HERDING]),
    ):
        colour, marker, dash = style
        odds = auction.odds(ranks)
        axes[0].plot(ranks, odds, color=colour, linestyle=dash, marker=marker, markevery=8, markersize=4, label=name)
        with np.errstate(divide="ignore"):
            loss = np.log((1 - odds[1:]) / (1 - odds[:-1]))
        axes[1].plot(
            ranks[:-1][np.isfinite(loss)], loss[np.isfinite(loss)], color=colour, linestyle=dash, marker=marker,
            markevery=8, markersize=4,
        )  # fmt: skip
    axes[1].plot([1], [1.05], marker="^", color=STYLES[ROUNDS][0], markersize=8, clip_on=False)
    axes[1].annotate("infinite at rank 1", (1, 1.05), (5, 1.0), fontsize=8.5)
    axes[1].axhline(float(stated), color="#000000", linestyle=":", linewidth=1)
    axes[1].annotate("stated", (70, 0.115), fontsize=8.5)
    axes[1].set_ylim(0, 1.1)
    for axis, words in zip(
        axes, ("probability of being asked", "loss ε of “not asked”, to the next rank"), strict=True
    ):
        axis.set_xlabel("rank of the owner's bid", fontsize=8.5)
        axis.set_ylabel(words, fontsize=8.5)
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.tick_params(labelsize=8)
    return save(drawn, axes, path, "errata E2-6")


def _across(axis: Axes, values: list[float], label: str) -> None:
    axis.set_xscale("log")
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.minorticks_off()
    axis.set_xlabel(label, fontsize=8.5)
