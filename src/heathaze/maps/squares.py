"""Certain squares: a map as quadtree squares, each as small as a release is sure of, in a few classes of density.

A square is white paper if its density is surely below the first class, it has the colour of a class if the release is
sure of the class or of the next one, and it is hatched if the release does not know: there may be few people or many.
Pictures, pages and files of polygons all show these squares. ``release.squares()`` makes them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import node_extent
from heathaze.types import Floats, Integers

WHITE, UNKNOWN = -1, -2
"""The kinds of squares without a class: surely below the first class, and unknown."""

MOST_CLASSES = 7


@dataclass(frozen=True, eq=False)
class Squares:
    """Disjoint quadtree squares that cover a grid, each with its class of density.

    Attributes:
        grid: The public frame.
        classes: The lower limits of the coloured classes in ``unit``, ascending. The last class has no upper limit.
        unit: The unit of densities, such as "people per km²".
        levels: Level of each square in the quadtree.
        codes: Code of each square (see :mod:`heathaze.domain.quadtree`).
        kinds: The class of each square, from 0; or :data:`WHITE` or :data:`UNKNOWN`.
        people: Estimated number of people (or of what the map counts) in each square.
        low: Lower end of the interval of this number; NaN if the map has no error bars.
        high: Upper end of the interval; NaN if the map has no error bars.
        density: Estimated density of each square, in ``unit``.
        confidence: Probability that an interval contains the true number.
        white: Estimate and interval of the people in all white squares together, or None if unknown.
    """

    grid: Grid
    classes: tuple[float, ...]
    unit: str
    levels: Integers
    codes: Integers
    kinds: Integers
    people: Floats
    low: Floats
    high: Floats
    density: Floats
    confidence: float
    white: tuple[float, float, float] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def bounds(self) -> Floats:
        """Return west, south, east and north of each square (n × 4), in the coordinates of the grid."""
        top, bottom, left, right = node_extent(self.grid, self.levels, self.codes)
        ys = np.sort(np.stack([self.grid.y_at(top), self.grid.y_at(bottom)]), axis=0)
        return np.stack([self.grid.x_at(left), ys[0], self.grid.x_at(right), ys[1]], axis=1)

    @property
    def white_people(self) -> tuple[float, float, float]:
        """The estimate and the interval of the people in all white squares together."""
        if self.white is not None:
            return self.white
        here = self.kinds == WHITE
        return float(self.people[here].sum()), float(self.low[here].sum()), float(self.high[here].sum())

    @functools.cached_property
    def densest(self) -> int | None:
        """The index of the coloured square with the largest density, or None if no square is coloured."""
        if not (self.kinds >= 0).any():
            return None
        return int(np.argmax(np.where(self.kinds >= 0, self.density, -1.0)))

    @property
    def has_error_bars(self) -> bool:
        """Whether every square has an interval."""
        return bool(np.isfinite(self.high).all())

    @property
    def counted(self) -> str:
        """What the map counts, such as "people"."""
        return self.unit.split(" per ")[0]

    def name(self, kind: int) -> str:
        """Name a kind of square in words, as in a legend.

        Args:
            kind: A class from 0, or :data:`WHITE` or :data:`UNKNOWN`.
        """
        if kind == UNKNOWN:
            return "unknown: may be few or many"
        if kind == WHITE:
            return f"under {number(self.classes[0])}"
        if kind == len(self.classes) - 1:
            return f"{number(self.classes[-1])} and more"
        return f"{number(self.classes[kind])} to {number(self.classes[kind + 1])}"


def number(value: float) -> str:
    """Write a number for readers: at most three significant digits, thousands with commas, never an exponent.

    >>> number(20234.5), number(16.27), number(0.3), number(0.0000581), number(0)
    ('20,200', '16.3', '0.3', '0.0000581', '0')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "any number"
    places = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    return f"{rounded:,.{max(places, 0)}f}".rstrip("0").rstrip(".") if places > 0 else f"{rounded:,.0f}"


# ── how squares look and are described ──────────────────────────────────────────────────────────────────────────────

RAMPS = {
    "light": ("#fee391", "#fec44f", "#fe9929", "#ec7014", "#cc4c02", "#993404", "#662506"),
    "dark": ("#6b3512", "#8f460d", "#b85c0c", "#df7a1c", "#f7a03f", "#fdc96d", "#fff0b5"),
}
"""Colours of the classes, from the lowest: darker is more on light paper, and brighter is more on dark paper."""

HATCHING = {"light": ("#eef0f3", "#9aa1ac"), "dark": ("#22252b", "#6d7480")}
"""Ground and lines of the hatching of unknown squares."""


OTHER_MAPS = "On another map, the same colour can mean another density: compare the numbers."
"""What a legend says about the colours of other maps, whose first class may have another limit."""


NO_ERROR_BARS = "this map has no error bars"
"""What a picture or page says of a map whose squares have no intervals."""


def ramp(classes: int, theme: str = "light") -> list[str]:
    """Choose the colours of a map with few classes from the middle of the ramp, at most two steps apart.

    If a map with two classes had the two ends of the ramp, the classes would look like the densest and the emptiest
    place possible, although they are neighbours.

    Args:
        classes: The number of classes, 1 to 7.
        theme: ``"light"`` or ``"dark"``.

    >>> [RAMPS["light"].index(colour) for colour in ramp(3)], len(ramp(1))
    ([1, 3, 5], 1)
    """
    half = min(MOST_CLASSES - 1, 2 * (classes - 1)) / 2
    places = np.round(np.linspace(3 - half, 3 + half, classes)).astype(np.int64)
    return [RAMPS[theme][place] for place in places.tolist()]


def how_sure(confidence: float) -> str:
    """Write the confidence of squares in words, for the text beside a map.

    >>> how_sure(0.9), how_sure(0.95)
    ('9 times in 10', '95 times in 100')
    """
    tenths = 10 * confidence
    return f"{tenths:.3g} times in 10" if abs(tenths - round(tenths)) < 1e-9 else f"{100 * confidence:.4g} times in 100"


def side_lengths(grid: Grid, level: int) -> str:
    """Write the size of the squares of a level: "140 m", or "140 × 160 m" if the sides differ by a tenth or more.

    Args:
        grid: The grid.
        level: The level in the quadtree.

    >>> side_lengths(Grid.over(lon=(0, 1), lat=(-0.5, 0.5), size=256), 8)
    '430 m'
    """
    size = 1 << (grid.depth - level)
    unit = " m" if grid.projection.is_geographic else ""
    height, width = grid.cell_size
    sides = [width * min(size, grid.cols), height * min(size, grid.rows)]
    if max(sides) < 1.1 * min(sides):
        sides = [sum(sides) / 2]
    if unit and max(sides) >= 1000:
        sides, unit = [side / 1000 for side in sides], " km"
    return " × ".join(number(float(f"{side:.2g}")) for side in sides) + unit
