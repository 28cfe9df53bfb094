"""The paper of a picture: its title, the panels of its maps, a scale bar, a north arrow, and the texts below.

Below the map stand one plain sentence about privacy, the exact guarantee, the source and the day. A report adds the
densest places and how the map was made.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from heathaze.checks import whole
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.maps.backdrop import Backdrop
from heathaze.maps.figure import DOTS_PER_INCH, new_figure, save_figure
from heathaze.maps.shade import height_over_width
from heathaze.maps.squares import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = ("squares", "glow", "pair", "report")
THEMES = ("light", "dark")

PAPER, INK, FAINT = (
    {"light": "#ffffff", "dark": "#15171c"},
    {"light": "#1f2328", "dark": "#eceae6"},
    {"light": "#5f6672", "dark": "#a7adb8"},
)
"""The colours of paper, text and small print in each theme."""

# All lengths in inches.
COLUMN = 2.75
"""The width of the column of the legend."""

_WIDEST, _TALLEST, _SHORTEST = 6.6, 6.6, 1.2
_MARGIN, _GAP, _APART_WIDE = 0.45, 0.4, 0.3
_WIDE_ENOUGH = 9.4
"""The least width of a report, whose table and facts stand side by side."""


@dataclass(frozen=True)
class Look:
    """How a picture looks, and the texts that the user gives it.

    Args:
        title: Text above the map; if empty, the map names itself.
        subtitle: Text below the title; if empty, it says how many people there are.
        source: Where the data come from.
        style: ``"squares"``: the certain squares. ``"glow"``: a smooth dark map, for slides. ``"pair"``: the squares
            beside a map of how sure they are. ``"report"``: the squares with a table of the densest places, for print.
        theme: ``"light"`` or ``"dark"``; if None, dark for glow and light for the others.
        dpi: Dots per inch of a PNG.
        backdrop: Public geography that is drawn below and above the map.
        tiles: The address of street tiles, with {z}, {x} and {y}, for pages on the globe.

    Raises:
        InvalidInput: There is no such style or theme, they do not go together, or the address is none of tiles.

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
    tiles: str = ""

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise InvalidInput(f"There is no style {self.style!r}; choose {', '.join(STYLES[:-1])} or {STYLES[-1]}.")
        if self.theme is not None and self.theme not in THEMES:
            raise InvalidInput(f"There is no theme {self.theme!r}; choose light or dark.")
        if self.style == "glow" and self.theme == "light":
            raise InvalidInput("The style glow has no light theme; leave --theme out, or use squares.")
        # The address becomes part of the policy of the page, so its server is a plain name.
        known = re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d+)?/[^\s\"'<>;,]*", self.tiles)
        if self.tiles and (known is None or not all(name in self.tiles for name in ("{z}", "{x}", "{y}"))):
            raise InvalidInput(
                f"The address of tiles is {self.tiles!r}; give one such as https://tile.example.org/{{z}}/{{x}}/{{y}}.png."
            )
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


def map_size(grid: Grid) -> tuple[float, float]:
    """Compute the width and height of the map on a picture, in inches."""
    ratio = height_over_width(grid)
    width = min(_WIDEST, _TALLEST / ratio)
    grown = max(1.0, _SHORTEST / min(width, width * ratio))
    return width * grown, width * ratio * grown


@dataclass(frozen=True)
class _Texts:
    """The lines of the texts above and below the maps of a sheet."""

    title: list[str]
    subtitle: list[str]
    promise: list[str]
    exact: list[str]

    @classmethod
    def of(cls, words: Words, look: Look, inches: float) -> _Texts:
        """Wrap the texts to a width."""
        source = f"{words.made} Source: {look.source}" if look.source else words.made
        return cls(
            wrapped(look.title or words.title, inches, 19),  # bold letters are wider than others of size 17
            wrapped(look.subtitle or words.subtitle, inches, 11),
            wrapped(words.promise, inches, 9.5),
            [*wrapped(words.guarantee, inches, 7.5), *wrapped(source, inches, 7.5)],
        )

    @property
    def above(self) -> float:
        """The height of title and subtitle, in inches."""
        return 0.33 * len(self.title) + 0.24 * len(self.subtitle)

    @property
    def below(self) -> float:
        """The height of the texts below the maps, in inches."""
        return 0.2 * len(self.promise) + 0.155 * len(self.exact)


class Sheet:
    """The paper of a picture: title, panel of the map, scale bar, north arrow, and the texts below.

    Positions are in inches from the left and from the top.
    """

    def __init__(self, grid: Grid, words: Words, look: Look, legend: float, table: Sequence[Sequence[str]]) -> None:
        self.width, self.height = map_size(grid)
        self.theme, self.look = look.paper, look
        wide = 2 * _MARGIN + self.width + _GAP + COLUMN
        wide = max(wide, _WIDE_ENOUGH) if table else wide
        room = wide - 2 * _MARGIN
        texts = _Texts.of(words, look, room)
        top = 0.3 + texts.above + 0.2
        body = max(self.height + 0.55, legend)
        facts = list(words.facts.items()) if table else []
        extra = 0.42 + 0.21 * max(len(table), len(facts)) + 0.15 if table else 0.0
        self._begin(wide, top + body + extra + 0.1 + texts.below + 0.3, texts)
        self.column = (_MARGIN + self.width + _GAP, top)
        self.axes = self.panel(_MARGIN, top, self.width, self.height)
        self._scale_bar(grid, top + self.height + 0.16)
        if table:
            self._report(table, facts, top + body)
        self._end(top + body + extra + 0.1, texts)

    def _begin(self, wide: float, tall: float, texts: _Texts) -> None:
        """Cut the paper, and write the title and the subtitle."""
        self.size = (wide, tall)
        self.figure: Figure = new_figure(wide, tall)
        self.figure.set(facecolor=PAPER[self.theme])
        self.text(_MARGIN, 0.3, "\n".join(texts.title), size=17, weight="bold", linespacing=1.2)
        under = 0.34 + 0.33 * len(texts.title)
        self.text(_MARGIN, under, "\n".join(texts.subtitle), size=11, faint=True, linespacing=1.3)

    def _end(self, top: float, texts: _Texts) -> None:
        """Write the texts below the map."""
        self.text(_MARGIN, top, "\n".join(texts.promise), size=9.5, linespacing=1.4)
        top += 0.2 * len(texts.promise) + 0.06
        self.text(_MARGIN, top, "\n".join(texts.exact), size=7.5, faint=True, linespacing=1.45)

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


class WideSheet(Sheet):
    """A sheet with several maps side by side, each with its legend below it."""

    def __init__(
        self, grid: Grid, words: Words, look: Look, headings: Sequence[str], legend: float, side: float
    ) -> None:
        """Make the sheet.

        Args:
            grid: The grid of all maps.
            words: The texts that come from the release.
            look: The texts and the look that the user chose.
            headings: The text above each map.
            legend: The height of the longest legend, in inches.
            side: The largest width of a map, in inches.
        """
        ratio = height_over_width(grid)
        self.width = max(min(side, 1.25 * side / ratio), 1.6)
        self.height = max(self.width * ratio, 0.9)
        self.theme, self.look = look.paper, look
        column = max(self.width, 3.2)
        room = len(headings) * column + (len(headings) - 1) * _APART_WIDE
        wide = room + 2 * _MARGIN
        texts = _Texts.of(words, look, room)
        top = 0.3 + texts.above + 0.45
        below = top + self.height + 0.6
        self._begin(wide, below + legend + 0.25 + texts.below + 0.35, texts)
        self.lefts = [_MARGIN + k * (column + _APART_WIDE) for k in range(len(headings))]
        for left, heading in zip(self.lefts, headings, strict=True):
            self.text(left, top - 0.27, heading, size=11, weight="bold")
        self.maps = [self.panel(left, top, self.width, self.height) for left in self.lefts]
        self._scale_bar(grid, top + self.height + 0.16)
        self.column = (self.lefts[0], below)
        self._end(below + legend + 0.1, texts)


def wrapped(text: str, inches: float, points: float) -> list[str]:
    """Wrap a text of a picture to a width; a letter is about 0.52 times as wide as the size of the font.

    The last line has at least two words, if some lines above it can be shorter.

    >>> wrapped("made of six or more short words", 1.35, 7)
    ['made of six or more', 'short words']
    """
    text = re.sub(r"([εδ]) = (?=\S)", "\\1\u00a0=\u00a0", re.sub(r"(?<=\d) (?=(m|km|%)\b)", "\u00a0", text))
    widest = max(20, int(inches * 72 / (points * 0.52)))
    lines = textwrap.wrap(text, widest, break_on_hyphens=False)
    for width in range(widest - 1, widest * 3 // 4, -1):
        if len(lines) < 2 or " " in lines[-1]:
            break
        shorter = textwrap.wrap(text, width, break_on_hyphens=False)
        if len(shorter) == len(lines):
            lines = shorter
    return lines
