"""Pictures for readers: the certain squares of a map on light or dark paper, and the glowing map for slides.

A picture has a title, the map with its legend, a scale bar and a north arrow, and below the map one plain sentence
about privacy, the exact guarantee, the source and the day. A report adds the densest places and how the map was made.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from heathaze.checks import whole
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import node_extent
from heathaze.errors import InvalidInput
from heathaze.maps.backdrop import Backdrop, draw_backdrop
from heathaze.maps.figure import DOTS_PER_INCH, new_figure, save_figure
from heathaze.maps.shade import Shade, degrees, height_over_width
from heathaze.maps.squares import HATCHING, UNKNOWN, WHITE, Squares, how_sure, number, ramp, side_lengths
from heathaze.types import Booleans, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = ("squares", "glow", "pair", "report")
THEMES = ("light", "dark")

SMALLEST_SEAM = 6 / 150
"""Squares with a shorter side than this, in inches (6 pixels at 150 dots per inch), have no seam around them."""

PAPER, INK, FAINT = (
    {"light": "#ffffff", "dark": "#15171c"},
    {"light": "#1f2328", "dark": "#eceae6"},
    {"light": "#5f6672", "dark": "#a7adb8"},
)
"""The colours of paper, text and small print in each theme."""

# All lengths in inches.
_WIDEST, _TALLEST, _SHORTEST = 6.6, 6.6, 1.2
_MARGIN, _GAP, _COLUMN = 0.45, 0.4, 2.75
_SWATCH = (0.42, 0.26)
_LARGEST_SAMPLE = 0.62
_PLACES, _APART = 6, 1 / 16
"""The most places in the table of a report, and how far they are apart, as a fraction of the longer side."""


@dataclass(frozen=True)
class Look:
    """How a picture looks, and the texts that the user gives it.

    Args:
        title: Text above the map; if empty, the map names itself.
        subtitle: Text below the title; if empty, it says how many people there are.
        source: Where the data come from.
        style: ``"squares"``: the certain squares. ``"glow"``: a smooth dark map, for slides. ``"pair"``: the smooth map
            beside its uncertainty. ``"report"``: the squares with a table of the densest places, for print.
        theme: ``"light"`` or ``"dark"``; if None, dark for glow and light for the others.
        dpi: Dots per inch of a PNG.
        backdrop: Public geography that is drawn below and above the map.

    Raises:
        InvalidInput: There is no such style or theme, or they do not go together.

    >>> Look(style="glow").paper, Look().paper
    ('dark', 'light')
    """

    title: str = ""
    subtitle: str = ""
    source: str = ""
    style: str = "squares"
    theme: str | None = None
    dpi: int = DOTS_PER_INCH
    backdrop: Backdrop | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise InvalidInput(f"There is no style {self.style!r}; choose {', '.join(STYLES[:-1])} or {STYLES[-1]}.")
        if self.theme is not None and self.theme not in THEMES:
            raise InvalidInput(f"There is no theme {self.theme!r}; choose light or dark.")
        if (self.style, self.theme) in (("glow", "light"), ("pair", "dark")):
            raise InvalidInput(f"The style {self.style} has no {self.theme} theme; leave --theme out, or use squares.")
        whole(self.dpi, "dpi", "dots per inch", least=20, most=1200)

    @property
    def paper(self) -> str:
        """The theme that is drawn."""
        return self.theme or ("dark" if self.style == "glow" else "light")


@dataclass(frozen=True)
class Words:
    """The texts of a picture that come from the release.

    Args:
        title: The title if the user gives none.
        subtitle: The subtitle if the user gives none.
        promise: The guarantee as one sentence for everybody.
        guarantee: The guarantee in its exact terms.
        made: When and with what the map was made.
        facts: Name and value of facts about the map, for a report.
    """

    title: str
    subtitle: str
    promise: str
    guarantee: str
    made: str
    facts: Mapping[str, str] = field(default_factory=dict)


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
    sheet = _Sheet(squares.grid, words, look, _legend_height(squares), rows)
    _draw_mosaic(sheet.axes, squares, look, sheet.width, sheet.height)
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
    sheet = _Sheet(density.grid, words, look, 3.6, [])
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
    doubt = "Smoothed. Doubt is not shown;\nthe style squares shows it."
    sheet.text(left, top + 2.98, doubt, size=8.5, linespacing=1.35, faint=True)
    sheet.save(path, kind)


class _Sheet:
    """The paper of a picture: title, panel of the map, scale bar, north arrow, and the texts below.

    Positions are in inches from the left and from the top.
    """

    def __init__(self, grid: Grid, words: Words, look: Look, legend: float, table: Sequence[Sequence[str]]) -> None:
        ratio = height_over_width(grid)
        self.width = min(_WIDEST, _TALLEST / ratio)
        self.height = self.width * ratio
        grown = max(1.0, _SHORTEST / min(self.width, self.height))
        self.width, self.height = self.width * grown, self.height * grown
        self.theme, self.look = look.paper, look
        wide = 2 * _MARGIN + self.width + _GAP + _COLUMN
        room = wide - 2 * _MARGIN
        title = _wrapped(look.title or words.title, room, 17)
        subtitle = _wrapped(look.subtitle or words.subtitle, room, 11)
        top = 0.3 + 0.33 * len(title) + 0.24 * len(subtitle) + 0.2
        promise, exact = _wrapped(words.promise, room, 9.5), _wrapped(words.guarantee, room, 7.5)
        source = _wrapped(f"{words.made} Source: {look.source}" if look.source else words.made, room, 7.5)
        body = max(self.height + 0.55, legend)
        facts = list(words.facts.items()) if table else []
        extra = 0.42 + 0.21 * max(len(table), len(facts)) + 0.15 if table else 0.0
        tall = top + body + extra + 0.1 + 0.2 * len(promise) + 0.155 * (len(exact) + len(source)) + 0.3
        self.size = (wide, tall)
        self.figure: Figure = new_figure(wide, tall)
        self.figure.set(facecolor=PAPER[self.theme])
        self.text(_MARGIN, 0.3, "\n".join(title), size=17, weight="bold", linespacing=1.2)
        self.text(_MARGIN, 0.34 + 0.33 * len(title), "\n".join(subtitle), size=11, faint=True, linespacing=1.3)
        self.column = (_MARGIN + self.width + _GAP, top)
        self.axes = self.panel(_MARGIN, top, self.width, self.height)
        self._scale_bar(grid, top + self.height + 0.16)
        at = top + body
        if table:
            self._report(table, facts, at)
        at += extra + 0.1
        self.text(_MARGIN, at, "\n".join(promise), size=9.5, linespacing=1.4)
        at += 0.2 * len(promise) + 0.06
        self.text(_MARGIN, at, "\n".join([*exact, *source]), size=7.5, faint=True, linespacing=1.45)

    def panel(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add axes from 0 to 1 with a thin frame and no ticks."""
        wide, tall = self.size
        axes = self.figure.add_axes((left / wide, 1 - (top + height) / tall, width / wide, height / tall))
        axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[], facecolor=PAPER[self.theme])
        for spine in axes.spines.values():
            spine.set(color=FAINT[self.theme], linewidth=0.7, zorder=6)
        return axes

    def text(self, left: float, top: float, text: str, *, faint: bool = False, **style: Any) -> None:
        """Write a text whose upper left corner lies at a position."""
        colour = (FAINT if faint else INK)[self.theme]
        style = {"va": "top", "color": colour, "parse_math": False, **style}
        self.figure.text(left / self.size[0], 1 - top / self.size[1], text, **style)

    def line(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Draw a line through positions."""
        from matplotlib.lines import Line2D

        places = [x / self.size[0] for x in xs], [1 - y / self.size[1] for y in ys]
        self.figure.add_artist(Line2D(*places, color=INK[self.theme], linewidth=1.1, solid_capstyle="butt"))

    def _scale_bar(self, grid: Grid, top: float) -> None:
        """Draw a bar of a round length below the map, and an arrow to the north."""
        whole_width = grid.cell_size[1] * grid.cols
        step = 10.0 ** np.floor(np.log10(whole_width / 3))
        length = max(factor * step for factor in (1, 2, 5) if factor * step <= whole_width / 3)
        inches = self.width * length / whole_width
        self.line([_MARGIN, _MARGIN, _MARGIN + inches, _MARGIN + inches], [top - 0.05, top, top, top - 0.05])
        name = f"{number(length)} in the units of x"
        if grid.projection.is_geographic:
            name = f"{number(length / 1000)} km" if length >= 1000 else f"{number(length)} m"
            self.text(_MARGIN + self.width - 0.12, top - 0.09, "▲", size=8, ha="center")
            self.text(_MARGIN + self.width - 0.12, top + 0.05, "N", size=8.5, ha="center")
        self.text(_MARGIN, top + 0.05, name, size=8.5)

    def _report(self, table: Sequence[Sequence[str]], facts: Sequence[tuple[str, str]], top: float) -> None:
        """Write the densest places on the left, and the facts on the right."""
        half = _MARGIN + 0.58 * (self.size[0] - 2 * _MARGIN)
        self.text(_MARGIN, top + 0.1, "Densest places", size=10, weight="bold")
        self.text(half + 0.2, top + 0.1, "How the map was made", size=10, weight="bold")
        for k, row in enumerate(table):
            for cell, at in zip(row, (0.0, 1.55, 2.5), strict=True):
                self.text(_MARGIN + at, top + 0.38 + 0.21 * k, cell, size=8, weight="bold" if k == 0 else "normal")
        for k, (name, value) in enumerate(facts):
            self.text(half + 0.2, top + 0.38 + 0.21 * k, name, size=8, faint=True)
            self.text(half + 1.25, top + 0.38 + 0.21 * k, textwrap.shorten(value, 48, placeholder=" …"), size=8)

    def save(self, path: Path | BinaryIO, kind: str) -> None:
        """Write the picture."""
        with warnings.catch_warnings():
            # A title may hold characters that the font lacks; they are drawn as boxes.
            warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
            save_figure(self.figure, path, kind, self.look.dpi)


def _draw_mosaic(axes: Axes, squares: Squares, look: Look, width: float, height: float) -> None:
    """Draw the squares onto a panel from 0 to 1, and label the densest."""
    from matplotlib.collections import PolyCollection

    theme, grid = look.paper, squares.grid
    top, bottom, left, right = node_extent(grid, squares.levels, squares.codes)
    x0, x1, y0, y1 = left / grid.cols, right / grid.cols, 1 - bottom / grid.rows, 1 - top / grid.rows
    corners = np.stack([x0, y0, x1, y0, x1, y1, x0, y1], axis=1).reshape(-1, 4, 2)
    wide = np.minimum((x1 - x0) * width, (y1 - y0) * height) >= SMALLEST_SEAM
    colours = ramp(len(squares.classes), theme)
    for kind, colour in enumerate(colours):
        for seam in (False, True):
            here = (squares.kinds == kind) & (wide == seam)
            # Without a seam, an edge of the same colour closes the hairlines between neighbours.
            edge, line = (PAPER[theme], 0.5) if seam else (colour, 0.1)
            look_of: dict[str, Any] = {"facecolors": colour, "edgecolors": edge, "linewidths": line, "zorder": 1}
            axes.add_collection(PolyCollection(corners[here], **look_of), autolim=False)
    ground, lines = HATCHING[theme]
    here = squares.kinds == UNKNOWN
    for part, colour in ((here & wide, ground), (here & ~wide, lines)):  # some are too small for lines
        axes.add_collection(PolyCollection(corners[part], facecolors=colour, edgecolors=colour, linewidths=0.3), False)
    here &= wide
    _hatch(axes, x0[here], x1[here], y0[here], y1[here], width, height, lines)
    if look.backdrop is not None:
        draw_backdrop(axes, look.backdrop, theme)
    if (k := squares.densest) is not None:
        _label_densest(axes, float(x0[k] + x1[k]) / 2, float(y0[k] + y1[k]) / 2, theme)


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


def _label_densest(axes: Axes, x: float, y: float, theme: str) -> None:
    from matplotlib.patheffects import withStroke

    # The text stands on the side of the middle of the map, where there is room.
    right, up = (-1 if x > 0.5 else 1), (-1 if y > 0.5 else 1)
    axes.annotate(
        "densest",
        (x, y),
        xytext=(26 * right, 20 * up),
        textcoords="offset points",
        ha="left" if right > 0 else "right",
        va="center",
        size=9,
        color=INK[theme],
        arrowprops={"arrowstyle": "-", "color": INK[theme], "linewidth": 0.8, "shrinkA": 1, "shrinkB": 0},
        path_effects=[withStroke(linewidth=2.5, foreground=PAPER[theme])],
        zorder=5,
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
        shown.append(
            (UNKNOWN, [squares.name(UNKNOWN), f"(mostly up to about {number(_unknown_up_to(squares, unknown))})"])
        )
    return shown


def _unknown_up_to(squares: Squares, unknown: Booleans) -> float:
    """Return the density below which nine tenths of the unknown area surely lie, with two significant digits."""
    area = np.divide(squares.people, squares.density, out=np.zeros(len(squares)), where=squares.density > 0)[unknown]
    most = np.divide(squares.high[unknown], area, out=np.zeros(len(area)), where=area > 0)
    order = np.argsort(most)
    until = np.searchsorted(np.cumsum(area[order]), 0.9 * area.sum())
    return float(f"{most[order][min(until, len(order) - 1)]:.2g}")


def _sizes(squares: Squares, width: float, height: float) -> list[tuple[float, float, str]]:
    """Choose at most three sizes of coloured squares: width and height in inches on the picture, and in words."""
    grid, found = squares.grid, []
    for level in np.unique(squares.levels[squares.kinds >= 0])[::-1].tolist():
        cells = 1 << (grid.depth - level)
        wide, tall = (length * min(cells, count) / count for length, count in ((width, grid.cols), (height, grid.rows)))
        if max(wide, tall) <= _LARGEST_SAMPLE:
            found.append((wide, tall, side_lengths(grid, level)))
        elif not found:
            fit = _LARGEST_SAMPLE / max(wide, tall)
            return [(wide * fit, tall * fit, side_lengths(grid, level))]
    return [found[k] for k in np.unique(np.linspace(0, len(found) - 1, min(3, len(found))).astype(np.int64))]


def _legend_height(squares: Squares) -> float:
    lines = sum(0.08 + 0.24 * len(texts) for _, texts in _legend_texts(squares))
    return 0.4 + lines + (2.6 if squares.densest is not None else 0.0)


def _draw_legend(sheet: _Sheet, squares: Squares) -> None:
    """Draw the classes, the sizes of squares and the densest place, in the column on the right of the map."""
    left, top = sheet.column
    theme = sheet.theme
    sheet.text(left, top - 0.02, squares.unit[:1].upper() + squares.unit[1:], size=11, weight="bold")
    top += 0.32
    colours = ramp(len(squares.classes), theme)
    for kind, texts in _legend_texts(squares):
        swatch = sheet.panel(left, top, *_SWATCH)
        swatch.set_facecolor(colours[kind] if kind >= 0 else PAPER[theme])
        if kind == UNKNOWN:
            swatch.set_facecolor(HATCHING[theme][0])
            one, none = np.ones(1), np.zeros(1)
            _hatch(swatch, none, one, none, one, *_SWATCH, HATCHING[theme][1])
        sheet.text(left + 0.54, top + 0.05, "\n".join(texts), size=9.5, linespacing=1.25)
        top += 0.08 + 0.24 * len(texts)
    if (k := squares.densest) is None:
        return
    top += 0.22
    sheet.text(left, top, "Size of a square", size=9.5, weight="bold")
    words = "Small: known to the block.\nLarge: known as a whole, not where inside."
    sheet.text(left, top + 0.2, words, size=8.5, linespacing=1.35, faint=True)
    top += 0.66
    at, sizes = left, _sizes(squares, sheet.width, sheet.height)
    base = top + max(tall for _, tall, _ in sizes)
    for wide, tall, name in sizes:
        swatch = sheet.panel(at, base - tall, wide, tall)
        swatch.set_facecolor(colours[len(colours) // 2])
        sheet.text(at, base + 0.05, name, size=8, faint=True)
        at += max(wide, 0.066 * len(name)) + 0.12
    top = base + 0.38
    low, high = (squares.density[k] / squares.people[k] * end for end in (squares.low[k], squares.high[k]))
    within = f"({number(float(low))} to {number(float(high))}, {how_sure(squares.confidence)}),"
    where = f"in a square of {side_lengths(squares.grid, int(squares.levels[k]))}"
    sheet.text(left, top, "Densest place", size=9.5, weight="bold")
    about = f"about {number(float(squares.density[k]))} {squares.unit}"
    sheet.text(left, top + 0.2, f"{about}\n{within}\n{where}", size=8.5, linespacing=1.35, faint=True)


def _table(squares: Squares) -> list[tuple[str, str, str]]:
    """Write the densest coloured squares as rows of a table, with a heading."""
    coloured = np.flatnonzero(squares.kinds >= 0)
    rows = [("middle of the square", "side", f"{squares.unit} ({how_sure(squares.confidence)})")]
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
        value = f"about {number(float(squares.density[k]))} ({ends})"
        rows.append((where, side_lengths(squares.grid, int(squares.levels[k])), value))
    return rows


def _wrapped(text: str, inches: float, points: float) -> list[str]:
    """Wrap a text of a picture to a width; a letter is about 0.52 times as wide as the size of the font."""
    return textwrap.wrap(text, max(20, int(inches * 72 / (points * 0.52))), break_on_hyphens=False)
