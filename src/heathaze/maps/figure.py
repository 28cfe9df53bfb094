"""Pictures of maps and of plans, as PNG files.

A picture shows one or more maps, side by side on one colour scale, with a caption. It is for comparisons of methods;
``mosaic`` draws the map of a release. The picture of a plan has curves of error and similarity over epsilon, with their
range over the cities.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.maps.shade import Scale, Shade, degrees, height_over_width, percent
from heathaze.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150

# All lengths in inches.
_AREA = 4.6**2
_SHORTEST, _LONGEST, _WIDEST = 0.9, 9.0, 13.0
_LEFT, _BETWEEN, _RIGHT = 0.85, 0.5, 1.15
_LINE = 0.175
INK, FAINT = "#1f2328", "#6b7280"
"""The colours of text (INK) and of axes (FAINT)."""


@dataclass(frozen=True)
class _Panel:
    """One map of a picture; ``bar`` is the label of its colour bar, or None if a panel further right has the bar."""

    heading: str
    values: Floats
    shade: Shade
    palette: str
    bar: str | None = None


def draw(
    panels: Sequence[tuple[str, Density]],
    *,
    caption: str,
    path: Path | BinaryIO,
    title: str | None = None,
    scale: str | Scale = "sqrt",
    units: str = "share of people per cell",
    palette: str = "inferno",
) -> None:
    """Draw one or more maps as a PNG.

    Args:
        panels: Heading and density of each map; all on the same grid, with at most about 1024 cells along a side.
        caption: Text below the maps, wrapped to the width; usually the guarantee.
        path: A file, or a binary stream.
        title: Text above the maps.
        scale: ``"linear"``, ``"sqrt"`` or ``"log"``, shared by all panels.
        units: The label of the colour bar, which says what a value is.
        palette: ``"inferno"``, ``"cividis"`` or ``"viridis"``.

    Raises:
        InvalidInput: There is no panel, or the panels have different grids.
    """
    if not panels:
        raise InvalidInput("A picture needs at least one panel; give a heading and a density.")
    grid = panels[0][1].grid
    if any(density.grid != grid for _, density in panels):
        raise InvalidInput(
            "The panels lie on different grids, so one colour scale cannot hold for all; resample first."
        )
    shade = Shade.of(np.stack([density.values for _, density in panels]), scale)
    drawn = [_Panel(heading, density.values, shade, palette) for heading, density in panels]
    drawn[-1] = dataclasses.replace(drawn[-1], bar=units)

    height, width = _panel_size(grid, len(drawn))
    room = [width + (_BETWEEN if panel.bar is None else _room_for_bar(panel, height)) for panel in drawn]
    wide = _LEFT + sum(room)
    caption_lines = _wrapped(caption, wide - 0.5, 8)
    title_lines = _wrapped(title or "", wide - 0.5, 12)
    headed = any(panel.heading for panel in drawn)
    above = 0.2 + 0.26 * len(title_lines) + (0.3 if headed else 0.05)
    room_for_axis = 0.48 if grid.projection.is_geographic else 0.62
    below = room_for_axis + _LINE * len(caption_lines) + 0.12
    tall = above + height + below

    figure = new_figure(wide, tall)
    for k, panel in enumerate(drawn):
        left = _LEFT + sum(room[:k])
        axes = figure.add_axes((left / wide, below / tall, width / wide, height / tall))
        _draw_panel(axes, panel, grid)
        _label_axes(axes, grid, height, width, with_labels=k == 0)
        if panel.bar is not None:
            place = ((left + width + 0.14) / wide, below / tall, 0.14 / wide, height / tall)
            _draw_bar(figure, place, panel, _wrapped(panel.bar, height, 8))
    text: dict[str, Any] = {"color": INK, "parse_math": False, "linespacing": 1.25}
    figure.text(0.25 / wide, 1 - 0.16 / tall, "\n".join(title_lines), size=12, weight="bold", va="top", **text)
    figure.text(0.25 / wide, (below - room_for_axis + 0.04) / tall, "\n".join(caption_lines), size=8, va="top", **text)

    with warnings.catch_warnings():
        # A heading may hold characters that the font lacks; they are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        save_figure(figure, path)


def new_figure(width: float, height: float) -> Figure:
    """Make an empty white figure for a picture, at 150 dots per inch.

    Args:
        width: Width in inches.
        height: Height in inches.
    """
    # matplotlib is imported here, so that `import heathaze` stays quick. pyplot is not used, because it keeps global
    # state and may need a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


_NO_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}


def save_figure(figure: Figure, path: Path | BinaryIO, kind: str = "png", dpi: int = DOTS_PER_INCH) -> None:
    """Write a figure, without the time, name and web address that matplotlib would add.

    Args:
        figure: The figure.
        path: A file, or a binary stream.
        kind: ``"png"``, ``"svg"`` or ``"pdf"``.
        dpi: Dots per inch of a PNG.
    """
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "heathaze"}):  # otherwise the names inside an SVG are random
        figure.savefig(path, format=kind, metadata=_NO_METADATA[kind], dpi=dpi, facecolor=figure.get_facecolor())


def _panel_size(grid: Grid, panels: int) -> tuple[float, float]:
    """Compute the height and width of a panel in inches; the area is the same for every shape, within limits."""
    ratio = height_over_width(grid)
    height, width = math.sqrt(_AREA * ratio), math.sqrt(_AREA / ratio)
    shrink = min(1.0, _LONGEST / max(height, width), _WIDEST / (panels * width))
    # A panel is never so thin that axis labels do not fit. Both sides grow by the same factor, so the shape is kept.
    shrink = max(shrink, _SHORTEST / min(height, width))
    return height * shrink, width * shrink


def _room_for_bar(panel: _Panel, height: float) -> float:
    """Compute the width of a colour bar with its numbers and its label, which needs more lines on a low picture."""
    longest = max(len(percent(tick)) for tick in panel.shade.ticks())
    return max(_RIGHT, 0.66 + 0.067 * longest + 0.14 * (len(_wrapped(panel.bar or "", height, 8)) - 1))


def _draw_panel(axes: Axes, panel: _Panel, grid: Grid) -> None:
    shade = panel.shade
    top, bottom = grid.projection.forward(grid.y_at([0, grid.rows])).tolist()
    from matplotlib.colors import FuncNorm

    axes.imshow(
        panel.values,
        extent=(grid.x[0], grid.x[1], bottom, top),
        aspect="auto",
        cmap=panel.palette,
        norm=FuncNorm((shade.forward, shade.backward), vmin=shade.low, vmax=shade.top, clip=True),
    )
    axes.set_title(panel.heading, size=10, color=INK, loc="left", parse_math=False)


def _label_axes(axes: Axes, grid: Grid, height: float, width: float, *, with_labels: bool) -> None:
    """Label the axes of a map with degrees or with the units of the plane.

    On a Web-Mercator map latitudes are not evenly spaced, so each label is placed at its projected latitude.
    """
    from matplotlib.ticker import MaxNLocator

    for axis, bounds, inches, names in (
        (axes.xaxis, grid.x, width / 0.75, ("E", "W")),
        (axes.yaxis, grid.y, height / 0.6, ("N", "S")),
    ):
        locator = MaxNLocator(nbins=max(1, min(6, int(inches))), steps=[1, 2, 2.5, 5, 10])
        placeable = np.asarray(locator.tick_values(*bounds), dtype=np.float64)
        ticks = placeable[(placeable >= bounds[0]) & (placeable <= bounds[1])]
        places = _decimals(ticks)
        if grid.projection.is_geographic:
            labels = [degrees(float(tick), *names, places) for tick in ticks]
        else:
            labels = [f"{tick:,.{places}f}".replace(",", " ") if abs(tick) < 1e7 else f"{tick:.3g}" for tick in ticks]
        placed = grid.projection.forward(ticks) if axis is axes.yaxis else ticks
        axis.set_ticks(placed, labels if with_labels or axis is axes.xaxis else [""] * len(labels))
    if not grid.projection.is_geographic:
        axes.set_xlabel("x", size=8, color=FAINT, labelpad=1)
        if with_labels:
            axes.set_ylabel("y", size=8, color=FAINT, labelpad=2)
    _draw_frame(axes)


def _draw_bar(figure: Figure, place: tuple[float, float, float, float], panel: _Panel, label: list[str]) -> None:
    axes = figure.add_axes(place)
    axes.imshow(np.linspace(1, 0, 256)[:, None], extent=(0, 1, 0, 1), aspect="auto", cmap=panel.palette)
    ticks = panel.shade.ticks()
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.set_yticks(panel.shade.forward(ticks).tolist(), [percent(tick) for tick in ticks])
    _draw_frame(axes)
    axes.set_ylabel("\n".join(label), size=8, color=INK, parse_math=False, labelpad=4)


def _draw_frame(axes: Axes) -> None:
    axes.tick_params(labelsize=8, colors=FAINT, length=3, width=0.6)
    for spine in axes.spines.values():
        spine.set(color=FAINT, linewidth=0.6)


def _wrapped(text: str, inches: float, points: float) -> list[str]:
    """Wrap a text of a picture to a width; a letter is about 0.54 times as wide as the size of the font."""
    return textwrap.wrap(text, max(20, int(inches * 72 / (points * 0.54))), break_on_hyphens=False)


def _decimals(ticks: Floats) -> int:
    """Find the smallest number of decimals with which every tick of an axis is written exactly."""
    for places in range(12):
        if np.allclose(ticks, np.round(ticks, places), rtol=0, atol=10.0 ** -(places + 4)):
            return places
    return 12


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_ORANGE, _BLUE = "#d55e00", "#0072b2"
"""Two colours from the palette of Okabe and Ito, which colour-blind readers can distinguish."""


@dataclass(frozen=True)
class Curve:
    """A curve of a plan: the mean of a quantity at each epsilon, and the range from ``low`` to ``high``."""

    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def draw_plan(
    epsilons: Sequence[float], emd: Curve, sim: Curve, *, marked: float, title: str, caption: str, path: Path | BinaryIO
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
    _draw_frame(axes)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="best")
    axes.spines[["top", "right"]].set_visible(False)
