"""Pictures for readers: the certain squares of a map on light or dark paper, and the glowing map for slides.

``sheet.py`` has the paper: the title, the scale bar, and the texts below the map.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from heathaze.domain.density import Density
from heathaze.domain.quadtree import node_extent
from heathaze.maps.backdrop import COLOURS, GROUNDS, Backdrop, draw_backdrop
from heathaze.maps.shade import Shade, degrees
from heathaze.maps.sheet import COLUMN, INK, PAPER, Look, Sheet, Words, map_size, wrapped
from heathaze.maps.squares import (
    HATCHING,
    NO_ERROR_BARS,
    OTHER_MAPS,
    UNKNOWN,
    WHITE,
    Squares,
    how_sure,
    number,
    ramp,
    side_lengths,
)
from heathaze.types import Booleans, Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST_SEAM = 6 / 150
"""Squares with a shorter side than this, in inches (6 pixels at 150 dots per inch), have no seam around them."""

# All lengths in inches.
_SWATCH, _SAMPLES_APART = (0.42, 0.26), 0.12
_WIDEST_SAMPLE, _TALLEST_SAMPLE, _REDUCED_SAMPLE = 1.7, 1.4, 0.7
"""The largest square that the legend draws to scale, and the side of one that it draws smaller."""

_PLACES, _APART = 6, 1 / 16
"""The most places in the table of a report, and how far they are apart, as a fraction of the longer side."""


def draw_squares(squares: Squares, words: Words, look: Look, path: Path | BinaryIO, kind: str = "png") -> None:
    """Draw certain squares as a picture for readers.

    Args:
        squares: The squares.
        words: The texts that come from the release.
        look: The texts and the look that the user chose.
        path: A file, or a binary stream.
        kind: ``"png"``, ``"svg"`` or ``"pdf"``.
    """
    rows = [] if look.style != "report" else _table(squares)
    sheet = Sheet(squares.grid, words, look, _legend_height(squares, look.backdrop), rows)
    draw_mosaic(sheet.axes, squares, look, sheet.width, sheet.height)
    _draw_legend(sheet, squares)
    sheet.save(path, kind)


def draw_glow(
    density: Density, per_cell: float, unit: str, words: Words, look: Look, path: Path | BinaryIO, kind: str = "png"
) -> None:
    """Draw a smooth map that glows on dark paper.

    Args:
        density: The map, with at most about 1024 cells along a side.
        per_cell: The density of a cell that holds the whole mass, in ``unit``.
        unit: The unit of densities, such as "people per km²".
        words: The texts that come from the release.
        look: The texts and the look that the user chose.
        path: A file, or a binary stream.
        kind: ``"png"``, ``"svg"`` or ``"pdf"``.
    """
    sheet = Sheet(density.grid, words, look, 4.2, [])
    shade = Shade.of(density.values * per_cell, "sqrt")
    sheet.axes.imshow(shade.colours(density.values * per_cell), extent=(0, 1, 0, 1), aspect="auto", zorder=0)
    if look.backdrop is not None:
        draw_backdrop(sheet.axes, look.backdrop, look.paper)
    left, top = sheet.column
    sheet.text(left, top, unit[:1].upper() + unit[1:], size=11, weight="bold")
    bar = sheet.panel(left, top + 0.3, 0.22, 2.5)
    bar.imshow(shade.colours(shade.backward(np.linspace(1, 0, 256))[:, None]), extent=(0, 1, 0, 1), aspect="auto")
    for tick in shade.ticks():
        place = top + 0.3 + 2.5 * (1 - float(shade.forward(tick)))
        sheet.text(left + 0.32, place, number(tick), size=9, va="center")
    doubt = ["Smoothed. Doubt is not shown;", "the style squares shows it.", *wrapped(OTHER_MAPS, COLUMN, 8.5)]
    sheet.text(left, top + 2.98, "\n".join(doubt), size=8.5, linespacing=1.35, faint=True)
    if look.backdrop is not None and "water" in look.backdrop.shown_grounds:
        draw_swatch(sheet, left, top + 3.75, "water", ["water"], Shade.of([0.0]).colours([0.0])[0] / 255)
    sheet.save(path, kind)


def draw_mosaic(
    axes: Axes,
    squares: Squares,
    look: Look,
    width: float,
    height: float,
    other: tuple[Integers, Sequence[str]] | None = None,
) -> None:
    """Draw the squares onto a panel from 0 to 1, and label the densest.

    Args:
        axes: The panel.
        squares: The squares.
        look: The look that the user chose.
        width: Width of the panel in inches.
        height: Its height.
        other: Kinds to draw instead of those of ``squares``, with their colours. If given, no square is labelled.
    """
    from matplotlib.collections import PolyCollection

    theme, grid = look.paper, squares.grid
    top, bottom, left, right = node_extent(grid, squares.levels, squares.codes)
    x0, x1, y0, y1 = left / grid.cols, right / grid.cols, 1 - bottom / grid.rows, 1 - top / grid.rows
    corners = np.stack([x0, y0, x1, y0, x1, y1, x0, y1], axis=1).reshape(-1, 4, 2)
    wide = np.minimum((x1 - x0) * width, (y1 - y0) * height) >= SMALLEST_SEAM
    kinds, colours = other or (squares.kinds, ramp(len(squares.classes), theme))
    for kind, colour in enumerate(colours):
        for seam in (False, True):
            here = (kinds == kind) & (wide == seam)
            # Without a seam, an edge of the same colour closes the hairlines between neighbours.
            edge, line = (PAPER[theme], 0.5) if seam else (colour, 0.1)
            look_of: dict[str, Any] = {"facecolors": colour, "edgecolors": edge, "linewidths": line, "zorder": 1}
            axes.add_collection(PolyCollection(corners[here], **look_of), autolim=False)
    here = kinds == UNKNOWN
    # A small square shows few lines of hatching, so it is filled with about the mean colour of hatching.
    for part, colour in ((here & wide, HATCHING[theme][0]), (here & ~wide, _grey(theme))):
        axes.add_collection(PolyCollection(corners[part], facecolors=colour, edgecolors=colour, linewidths=0.3), False)
    _hatch(axes, x0[here], x1[here], y0[here], y1[here], width, height, HATCHING[theme][1])
    if look.backdrop is not None:
        draw_backdrop(axes, look.backdrop, theme)
    if other is None and (k := squares.densest) is not None and squares.levels[k] > 0:
        _label_densest(axes, float(x0[k]), float(x1[k]), float(y0[k]), float(y1[k]), theme)


def _grey(theme: str) -> str:
    """Mix two parts of the ground colour of the hatching with one part of the colour of its lines."""
    from matplotlib.colors import to_hex, to_rgb

    ground, lines = (np.array(to_rgb(colour)) for colour in HATCHING[theme])
    return to_hex(ground + (lines - ground) / 3)


def _hatch(
    axes: Axes, x0: Floats, x1: Floats, y0: Floats, y1: Floats, width: float, height: float, colour: str
) -> None:
    """Draw slanted lines through rectangles. The lines of neighbours continue each other, so a region is one surface.

    A line is x · width − y · height = k · 0.05 inch, for a whole number k; it is cut to each rectangle.
    """
    from matplotlib.collections import LineCollection

    step, segments = 0.05, []
    for left, right, low, high in zip(x0 * width, x1 * width, y0 * height, y1 * height, strict=True):
        offsets = step * np.arange(np.ceil((left - high) / step), np.floor((right - low) / step) + 1)
        start, end = np.maximum(left, low + offsets), np.minimum(right, high + offsets)
        ends = np.stack([start / width, (start - offsets) / height, end / width, (end - offsets) / height], axis=1)
        segments.append(ends.reshape(-1, 2, 2))
    every = np.concatenate(segments) if segments else np.zeros((0, 2, 2))
    axes.add_collection(LineCollection(list(every), colors=colour, linewidths=0.5, zorder=1.5), autolim=False)


def _label_densest(axes: Axes, x0: float, x1: float, y0: float, y1: float, theme: str) -> None:
    """Frame a square, and write beside it that it is the densest."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    # The frame has a least size, so that it surrounds a small square and does not cover it.
    box, least = axes.get_window_extent(), 0.06 * axes.figure.dpi
    more_x, more_y = max(0.0, least / box.width - (x1 - x0)) / 2, max(0.0, least / box.height - (y1 - y0)) / 2
    x0, x1, y0, y1 = x0 - more_x, x1 + more_x, y0 - more_y, y1 + more_y
    # The lines have a border of the colour of paper, so that they show on dark squares too.
    border: dict[str, Any] = {"path_effects": [withStroke(linewidth=2.5, foreground=PAPER[theme])]}
    frame = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=INK[theme], linewidth=1, zorder=5, **border)
    axes.add_patch(frame)
    # The text stands on the side of the square that faces the middle of the map, where there is room.
    right, up = (-1 if x0 + x1 > 1 else 1), (-1 if y0 + y1 > 1 else 1)
    axes.annotate(
        "densest",
        (x1 if right > 0 else x0, y1 if up > 0 else y0),
        xytext=(26 * right, 20 * up),
        textcoords="offset points",
        ha="left" if right > 0 else "right",
        va="center",
        size=9,
        color=INK[theme],
        arrowprops={"arrowstyle": "-", "color": INK[theme], "linewidth": 0.8, "shrinkA": 1, "shrinkB": 0, **border},
        zorder=5,
        **border,
    )


# ── the legend ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _legend_texts(squares: Squares) -> list[tuple[int, list[str]]]:
    """Write the lines of the legend for each kind of square, the highest class first."""
    shown = [(kind, [squares.name(kind)]) for kind in range(len(squares.classes) - 1, -1, -1)]
    if (squares.kinds == WHITE).any():
        people = squares.white_people[0]
        about = f"about {number(float(f'{people:.2g}'))}" if people >= 1 else "fewer than 1"
        shown.append(
            (WHITE, [f"{squares.name(WHITE)}: nobody, or thinly", f"spread ({about} {squares.counted} in all)"])
        )
    if (unknown := squares.kinds == UNKNOWN).any():
        most = number(_unknown_up_to(squares, unknown))
        shown.append((UNKNOWN, [squares.name(UNKNOWN), f"(most of this area: below {most})"]))
    return shown


def _unknown_up_to(squares: Squares, unknown: Booleans) -> float:
    """Return the density below which nine tenths of the unknown area surely lie, with two significant digits."""
    area = np.divide(squares.people, squares.density, out=np.zeros(len(squares)), where=squares.density > 0)[unknown]
    most = np.divide(squares.high[unknown], area, out=np.zeros(len(area)), where=area > 0)
    order = np.argsort(most)
    until = np.searchsorted(np.cumsum(area[order]), 0.9 * area.sum())
    return float(f"{most[order][min(until, len(order) - 1)]:.2g}")


@dataclass(frozen=True)
class _Sample:
    """A square of the legend: its sides in inches, its size in words, and whether it is drawn to the map's scale."""

    width: float
    height: float
    lines: tuple[str, ...]
    to_scale: bool = True

    @property
    def room(self) -> float:
        """The width that the square and the words below it take, in inches."""
        return max(self.width, *(0.066 * len(line) for line in self.lines))


def _sizes(squares: Squares, width: float, height: float) -> list[_Sample]:
    """Choose the smallest and the largest size of coloured squares, and one between them if there is room.

    Args:
        squares: The squares; some must be coloured.
        width: The width of the map in inches.
        height: The height of the map in inches.

    Returns:
        The smallest first. A square that is too large for the legend is drawn smaller, and its words say so.
    """
    grid, found = squares.grid, []
    for level in np.unique(squares.levels[squares.kinds >= 0])[::-1].tolist():
        cells, name = 1 << (grid.depth - level), side_lengths(grid, level)
        wide, tall = (length * min(cells, count) / count for length, count in ((width, grid.cols), (height, grid.rows)))
        if wide <= _WIDEST_SAMPLE and tall <= _TALLEST_SAMPLE:
            found.append(_Sample(wide, tall, (name,)))
        else:
            fit = _REDUCED_SAMPLE / max(wide, tall)
            found.append(_Sample(wide * fit, tall * fit, (name, "(drawn smaller)"), to_scale=False))
    ends = found[:1] + found[1:][-1:]
    # Between the two ends stands the middle one of the sizes that are drawn to scale.
    between = [one for one in found[1:-1] if one.to_scale]
    chosen = [*ends[:1], *between[len(between) // 2 :][:1], *ends[1:]]
    return chosen if sum(one.room + _SAMPLES_APART for one in chosen) <= COLUMN else ends


def _ground_texts(squares: Squares, backdrop: Backdrop | None) -> list[tuple[str, list[str]]]:
    """Write the lines of the legend for water, or for what lies outside of districts.

    The tint of water or ground shows only where no square is drawn, so it means the same as a white square.
    """
    below = f"(no square on it: {squares.name(WHITE)})"
    grounds = () if backdrop is None else backdrop.shown_grounds
    return [(ground, [*textwrap.wrap(GROUNDS[ground], 28), below]) for ground in grounds]


def legend_length(squares: Squares, backdrop: Backdrop | None) -> float:
    """Compute the height of what :func:`draw_classes` draws, in inches."""
    lines = [*_legend_texts(squares), *_ground_texts(squares, backdrop)]
    return 0.4 + sum(0.08 + 0.24 * len(texts) for _, texts in lines)


def _legend_height(squares: Squares, backdrop: Backdrop | None) -> float:
    height = legend_length(squares, backdrop) + 0.3
    if squares.densest is None:
        return height
    samples = _sizes(squares, *map_size(squares.grid))
    below = 0.15 * (max(len(one.lines) for one in samples) - 1)
    return height + 2.0 + max(one.height for one in samples) + below


def draw_classes(sheet: Sheet, squares: Squares, left: float, top: float) -> float:
    """Draw the unit, the classes of squares and the ground at a position, and return where they end."""
    theme = sheet.theme
    sheet.text(left, top - 0.02, squares.unit[:1].upper() + squares.unit[1:], size=11, weight="bold")
    top += 0.32
    colours = ramp(len(squares.classes), theme)
    for kind, texts in _legend_texts(squares):
        colour = colours[kind] if kind >= 0 else PAPER[theme] if kind == WHITE else HATCHING[theme][0]
        top = draw_swatch(sheet, left, top, "unknown" if kind == UNKNOWN else "", texts, colour)
    for ground, texts in _ground_texts(squares, sheet.look.backdrop):
        top = draw_swatch(sheet, left, top, ground, texts, COLOURS[theme][ground])
    return top


def draw_swatch(sheet: Sheet, left: float, top: float, pattern: str, texts: Sequence[str], colour: Any) -> float:
    """Draw one entry of a legend, and return where it ends.

    Args:
        sheet: The paper.
        left: Position from the left, in inches.
        top: Position from the top, in inches.
        pattern: ``"unknown"`` for hatching, ``"water"`` for level lines; others have none.
        texts: The lines beside the swatch.
        colour: The colour of its ground.
    """
    swatch = sheet.panel(left, top, *_SWATCH)
    swatch.set_facecolor(colour)
    if pattern == "unknown":
        one, none = np.ones(1), np.zeros(1)
        _hatch(swatch, none, one, none, one, *_SWATCH, HATCHING[sheet.theme][1])
    elif pattern == "water":
        swatch.hlines([1 / 6, 1 / 2, 5 / 6], 0, 1, colors=COLOURS[sheet.theme]["wave"], linewidths=0.5)
    sheet.text(left + 0.54, top + 0.05, "\n".join(texts), size=9.5, linespacing=1.25)
    return top + 0.08 + 0.24 * len(texts)


def _draw_legend(sheet: Sheet, squares: Squares) -> None:
    """Draw the classes, the sizes of squares and the densest place, in the column on the right of the map."""
    left, top = sheet.column
    colours = ramp(len(squares.classes), sheet.theme)
    top = draw_classes(sheet, squares, left, top)
    small: dict[str, Any] = {"size": 8.5, "linespacing": 1.35, "faint": True}
    sheet.text(left, top, "\n".join(wrapped(OTHER_MAPS, COLUMN, 8.5)), **small)
    top += 0.3
    if (k := squares.densest) is None:
        return
    top += 0.22
    samples = _sizes(squares, sheet.width, sheet.height)
    sheet.text(left, top, "Size of a square", size=9.5, weight="bold")
    words = "As small as the data allow. The mean density may\nbe one class off; who is where inside is unknown."
    if not squares.has_error_bars:
        words = f"{NO_ERROR_BARS[:1].upper()}{NO_ERROR_BARS[1:]}, so a square\nmay have the colour of a wrong class."
    sheet.text(left, top + 0.2, words, **small)
    top += 0.66
    at, base = left, top + max(one.height for one in samples)
    for one in samples:
        swatch = sheet.panel(at, base - one.height, one.width, one.height)
        swatch.set_facecolor(colours[len(colours) // 2])
        for spine in swatch.spines.values():
            spine.set(linestyle="-" if one.to_scale else (0, (3, 2)), linewidth=0.7 if one.to_scale else 1.2)
        sheet.text(at, base + 0.05, "\n".join(one.lines), size=8, faint=True)
        at += one.room + _SAMPLES_APART
    top = base + 0.38 + 0.15 * (max(len(one.lines) for one in samples) - 1)
    within = ","
    if squares.has_error_bars:
        low, high = (squares.density[k] / squares.people[k] * end for end in (squares.low[k], squares.high[k]))
        within = f"\n({number(float(low))} to {number(float(high))}, {how_sure(squares.confidence)}),"
    inside = number(float(f"{squares.people[k]:.2g}"))
    where = f"{inside} {squares.counted} in a square of {side_lengths(squares.grid, int(squares.levels[k]))}"
    sheet.text(left, top, "Densest place", size=9.5, weight="bold")
    about = f"about {number(float(squares.density[k]))} {squares.unit}"
    sheet.text(left, top + 0.2, f"{about}{within}\n{where}", **small)


def _table(squares: Squares) -> list[tuple[str, str, str]]:
    """Write the densest coloured squares as rows of a table, with a heading."""
    coloured = np.flatnonzero(squares.kinds >= 0)
    sure = f" ({how_sure(squares.confidence)})" if squares.has_error_bars else ""
    rows = [("middle of the square", "side", f"{squares.unit}{sure}")]
    bounds = squares.bounds()
    top, bottom, left, right = node_extent(squares.grid, squares.levels, squares.codes)
    middle = np.stack([top + bottom, left + right], axis=1) / 2 / max(squares.grid.shape)
    best: list[int] = []
    for k in coloured[np.argsort(-squares.density[coloured], kind="stable")].tolist():
        # Neighbours of a dense square are often dense too, so places are some way apart.
        if all(np.abs(middle[k] - middle[other]).max() >= _APART for other in best):
            best.append(k)
        if len(best) == _PLACES:
            break
    for k in best:
        x, y = (bounds[k, 0] + bounds[k, 2]) / 2, (bounds[k, 1] + bounds[k, 3]) / 2
        where = f"{number(float(x))}, {number(float(y))}"
        if squares.grid.projection.is_geographic:
            where = f"{degrees(y, 'N', 'S', 3)} {degrees(x, 'E', 'W', 3)}"
        scale = squares.density[k] / squares.people[k]
        ends = f"{number(float(squares.low[k] * scale))} to {number(float(squares.high[k] * scale))}"
        value = f"about {number(float(squares.density[k]))}" + (f" ({ends})" if squares.has_error_bars else "")
        rows.append((where, side_lengths(squares.grid, int(squares.levels[k])), value))
    return rows
