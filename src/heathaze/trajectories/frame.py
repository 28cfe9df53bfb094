"""The public numbers with which journeys are counted and made up. They follow from the grid alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.types import Floats, Integers

LENGTHS = 23
"""The number of classes of length."""

LENGTH_RATIO = 1.35
"""Each class of length ends at this many times the length at which it begins."""

LONGEST = 3.0
"""The last class of length begins at this many diagonals of the map, and has no upper end."""

STRAIGHTNESS = (1.1, 1.2, 1.35, 1.6, 2.2, 4.0)
"""Borders of the seven classes of straightness: length divided by the distance from start to end."""

BENDS = len(STRAIGHTNESS) + 1
"""The number of classes of straightness."""

HOURS = 24
"""The number of classes of the time of day at which a journey begins."""

DAY = 86_400
"""Seconds of a day."""

_DIGITS = 10
"""The most digits of the Morton code of a square: a map has at most 1,024 squares a side."""


@dataclass(frozen=True)
class Frame:
    """The frames of the tables: visited squares, pairs of first and last square, shapes, and hours.

    Args:
        grid: The grid that the caller gave. Its box is the map.
        depth: The map of visits has 2^depth squares a side.
        pair_depth: Starts and ends are distinguished on 2^pair_depth squares a side, at most 2^depth.
    """

    grid: Grid
    depth: int
    pair_depth: int

    @property
    def squares(self) -> Grid:
        """The squares that journeys visit."""
        return self.grid.resized((2**self.depth, 2**self.depth))

    @property
    def ends(self) -> Grid:
        """The squares in which journeys start and end."""
        return self.grid.resized((2**self.pair_depth, 2**self.pair_depth))

    @property
    def pairs(self) -> Grid:
        """A frame for pairs of squares: a quadtree whose levels divide the start and the end in turn.

        A cell of this grid is a pair; see :func:`pair_codes`. The grid has no meaning as a map.
        """
        return Grid.plane(x=(0, 1), y=(0, 1), size=4**self.pair_depth)

    @property
    def shapes(self) -> Grid:
        """A frame for shapes: a row for each class of length, and a column for each class of straightness."""
        return Grid.plane(x=(0, 1), y=(0, 1), shape=(LENGTHS, BENDS))

    @property
    def hours(self) -> Grid:
        """A frame for hours: a column for each hour of the day in which a journey begins."""
        return Grid.plane(x=(0, HOURS), y=(0, 1), shape=(1, HOURS))

    @property
    def length_borders(self) -> Floats:
        """The inner borders of the classes of length, ascending, in metres (or units of a plane)."""
        height, width = self.squares.cell_size
        diagonal = 2**self.depth * float(np.hypot(height, width))
        return np.asarray(LONGEST * diagonal * LENGTH_RATIO ** -np.arange(LENGTHS - 2, -1, -1.0))


def shape_of(length: Floats, distance: Floats, borders: Floats) -> tuple[Integers, Integers]:
    """Return the class of length and the class of straightness of each journey.

    Args:
        length: Travelled length.
        distance: Distance from start to end.
        borders: ``Frame.length_borders``.

    >>> [part.tolist() for part in shape_of(np.array([2.0, 3.0]), np.array([2.0, 0.0]), np.array([1.0, 2.5]))]
    [[1, 2], [0, 6]]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        bent = np.where(distance > 0, length / distance, np.where(length > 0, np.inf, 1.0))
    return np.searchsorted(borders, length, "right"), np.searchsorted(STRAIGHTNESS, bent, "right")


def pair_codes(start: Integers, end: Integers) -> Integers:
    """Interleave the digits (pairs of bits) of the Morton codes of start and end, the digit of the start first.

    So a node of an even level of the quadtree of pairs is a pair of two squares of equal size.

    >>> pair_codes(np.array([0b11_01]), np.array([0b10_00])).tolist() == [0b11_10_01_00]
    True
    """
    codes = np.zeros_like(start)
    for digit in range(_DIGITS):
        codes |= ((start >> (2 * digit)) & 3) << (4 * digit + 2)
        codes |= ((end >> (2 * digit)) & 3) << (4 * digit)
    return codes


def split_pairs(levels: Integers, codes: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Return level and code of the start square, and level and code of the end square, of nodes of pairs.

    >>> level, code = np.array([3]), np.array([0b11_10_01])
    >>> [int(part[0]) for part in split_pairs(level, code)] == [2, 0b11_01, 1, 0b10]
    True
    """
    end_level = levels // 2
    odd = levels % 2 == 1
    aligned = np.where(odd, codes << 2, codes)
    start, end = np.zeros_like(codes), np.zeros_like(codes)
    for digit in range(_DIGITS):
        start |= ((aligned >> (4 * digit + 2)) & 3) << (2 * digit)
        end |= ((aligned >> (4 * digit)) & 3) << (2 * digit)
    return levels - end_level, start, end_level, np.where(odd, end >> 2, end)
