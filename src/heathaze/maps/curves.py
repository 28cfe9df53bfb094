"""A picture of a plan: curves of error and similarity over epsilon, with their range over the cities."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from heathaze.errors import InvalidInput
from heathaze.maps.figure import FAINT, INK, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ORANGE, _BLUE = "#d55e00", "#0072b2"
"""Two colours from the palette of Okabe and Ito, which colour-blind readers can distinguish."""


@dataclass(frozen=True)
class Curve:
    """A curve of a plan: the mean of a quantity at each epsilon, and the range from ``low`` to ``high``."""

    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def draw_plan(
    epsilons: Sequence[float],
    emd: Curve,
    sim: Curve,
    *,
    marked: float,
    title: str,
    caption: str,
    path: Path | BinaryIO,
) -> None:
    """Draw a plan as a PNG at 150 dots per inch: EMD on the left and SIM on the right, over the same epsilons.

    Args:
        epsilons: The epsilons in ascending order, each above 0.
        emd: EMD in units of the map's longer side.
        sim: SIM from 0 to 1.
        marked: The epsilon to mark; one of ``epsilons``.
        title: Text above the curves.
        caption: Text below the curves, wrapped to the width.
        path: A file, or a binary stream.

    Raises:
        InvalidInput: ``marked`` is not among the epsilons.
    """
    if marked not in epsilons:
        raise InvalidInput(f"The epsilon to mark, {marked:g}, is none of those drawn; give one of them.")
    lines = textwrap.wrap(caption, 145, break_on_hyphens=False)
    wide, tall = 9.0, 4.1 + 0.175 * len(lines)
    below, height = (0.75 + 0.175 * len(lines)) / tall, 2.7 / tall
    figure = new_figure(wide, tall)
    left, right = (figure.add_axes((start, below, 0.385, height)) for start in (0.085, 0.585))
    _draw_curve(left, epsilons, emd, marked, _ORANGE)
    _draw_curve(right, epsilons, sim, marked, _BLUE)
    left.set_ylim(0, 1.08 * max(max(emd.high), 1e-9))
    right.set_ylim(max(0.0, min(sim.low) - 0.08), 1)
    for axes, heading, label in (
        (left, "Error: smaller is better", "EMD (1 = longer side of the map)"),
        (right, "Similarity: larger is better", "SIM (1 = equal, 0 = disjoint)"),
    ):
        axes.set_title(heading, size=10, color=INK, loc="left")
        axes.set_ylabel(label, size=8, color=INK)
    text: dict[str, Any] = {"color": INK, "va": "top"}
    figure.text(0.25 / wide, 1 - 0.16 / tall, title, size=12, weight="bold", parse_math=False, **text)
    figure.text(0.25 / wide, (0.2 + 0.175 * len(lines)) / tall, "\n".join(lines), size=8, parse_math=False, **text)
    save_figure(figure, path)


def _draw_curve(axes: Axes, epsilons: Sequence[float], curve: Curve, marked: float, colour: str) -> None:
    at = list(epsilons).index(marked)
    axes.set_xscale("log", base=2)
    axes.fill_between(
        epsilons, curve.low, curve.high, color=colour, alpha=0.22, linewidth=0, label="10 to 90 % of cities"
    )
    axes.plot(epsilons, curve.mean, color=colour, linewidth=1.8, marker="o", markersize=4, label="mean over cities")
    axes.axvline(marked, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    axes.plot([marked], [curve.mean[at]], marker="o", markersize=9, color=colour, markeredgecolor=INK, zorder=3)
    axes.annotate(
        f"ε = {marked:g}: {curve.mean[at]:.2g}",
        (marked, curve.mean[at]),
        xytext=(9, 9 if curve.mean[0] > curve.mean[-1] else -16),
        textcoords="offset points",
        size=9,
        color=INK,
    )
    axes.set_xticks(list(epsilons), [f"{epsilon:.3g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("ε (privacy loss; smaller is more private)", size=8, color=INK)
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, colors=FAINT, length=3, width=0.6)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="best")
    for name, spine in axes.spines.items():
        spine.set(color=FAINT, linewidth=0.6)
        spine.set_visible(name in ("left", "bottom"))
