"""Lines: journeys as straight lines between points, and the cells, lengths and distances of each of them.

The numbers do not depend on how often a journey was recorded: two points on a straight road and two hundred points on
the same road visit the same cells and have the same length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.types import Floats, Integers

STEPS_A_CELL = 4
"""A line is followed in steps of at most a quarter of a cell's side, so that it skips only corners of cells."""

_DIRECTIONS = 32
"""The extent of a journey is measured in this many directions; the largest one is its diameter, within 0.5 %."""

_BLOCK = 2**20
"""Lines are followed in blocks of about this many steps."""


@dataclass(frozen=True, eq=False, repr=False)
class Lines:
    """Journeys: points in the coordinates of a grid, and where the points of each journey begin.

    The points may be secret, so neither ``repr`` nor an error shows any of them.

    Args:
        x: Horizontal coordinates of all points, journey after journey; longitudes on the globe.
        y: Vertical coordinates; latitudes on the globe.
        offsets: The index of each journey's first point, and the number of all points at the end.

    Raises:
        InvalidInput: The arrays do not fit together, a journey has no point, or a coordinate is not finite.

    >>> lines = Lines.from_points([[(0.5, 0.5), (3.5, 0.5)], [(1.0, 1.0)]])
    >>> len(lines), lines.lengths(Grid.plane(x=(0, 4), y=(0, 4), size=4)).tolist()
    (2, [3.0, 0.0])
    """

    x: Floats
    y: Floats
    offsets: Integers

    def __post_init__(self) -> None:
        x, y = np.asarray(self.x, dtype=np.float64), np.asarray(self.y, dtype=np.float64)
        offsets = np.asarray(self.offsets, dtype=np.int64)
        if x.ndim != 1 or x.shape != y.shape or offsets.ndim != 1 or not len(offsets):
            raise InvalidInput("Journeys need one x and one y for each point, and an offset for each journey.")
        if offsets[0] != 0 or offsets[-1] != len(x) or (np.diff(offsets) < 1).any():
            raise InvalidInput("Every journey needs at least one point, and every point belongs to one journey.")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise InvalidInput("A journey has a point without a finite position; leave such points out.")
        assign(self, x=x, y=y, offsets=offsets)

    @classmethod
    def from_points(cls, journeys: Iterable[npt.ArrayLike]) -> Lines:
        """Make lines from one array of rows (x, y) for each journey.

        Args:
            journeys: The journeys; each has at least one point.

        Returns:
            The journeys.

        Raises:
            InvalidInput: An array has another shape.
        """
        try:
            arrays = [np.asarray(points, dtype=np.float64) for points in journeys]
        except (TypeError, ValueError):  # the error would quote a value
            raise InvalidInput("A journey has a position that is not two numbers; give rows (x, y).") from None
        if any(points.ndim != 2 or points.shape[1] != 2 for points in arrays):
            raise InvalidInput("Give each journey as rows (x, y).")
        rows = np.concatenate([np.zeros((0, 2)), *arrays])
        return cls(rows[:, 0], rows[:, 1], np.concatenate([[0], np.cumsum([len(points) for points in arrays])]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return "<Lines>"

    @property
    def counts(self) -> Integers:
        """The number of points of each journey."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> Integers:
        """The number of the journey to which each point belongs."""
        return np.repeat(np.arange(len(self)), self.counts)

    def take(self, which: Integers) -> Lines:
        """Return some of the journeys, in the given order.

        Args:
            which: Numbers of journeys.
        """
        counts = self.counts[which]
        ends = np.cumsum(counts)
        place = np.arange(int(counts.sum())) + np.repeat(self.offsets[:-1][which] - ends + counts, counts)
        return Lines(self.x[place], self.y[place], np.concatenate([[0], ends]))

    def metres(self, grid: Grid) -> tuple[Floats, Floats]:
        """Return the points in metres (or units of a plane) right of and below the grid's corner at row and column 0.

        Args:
            grid: The frame. On the globe, metres are measured in its middle.
        """
        height, width = grid.cell_size
        return grid.across(self.x) * width, grid.down(self.y) * height

    def lengths(self, grid: Grid) -> Floats:
        """Compute the travelled length of each journey in metres (or units of a plane).

        Args:
            grid: The grid, which says whether coordinates are degrees.

        Returns:
            One length for each journey.
        """
        right, down = self.metres(grid)
        steps = np.hypot(np.diff(right, prepend=right[:1]), np.diff(down, prepend=down[:1]))
        steps[self.offsets[:-1]] = 0
        return np.add.reduceat(steps, self.offsets[:-1]) if len(self) else np.zeros(0)

    def travelled(self, grid: Grid) -> Floats:
        """Compute the length from the first point of its journey to each point, in metres (or units of a plane).

        Args:
            grid: The grid, which says whether coordinates are degrees.

        Returns:
            One length for each point.

        >>> line = Lines.from_points([[(0, 0), (3, 0), (3, 1)], [(2, 2)]])
        >>> line.travelled(Grid.plane(x=(0, 4), y=(0, 4), size=4)).tolist()
        [0.0, 3.0, 4.0, 0.0]
        """
        right, down = self.metres(grid)
        steps = np.hypot(np.diff(right, prepend=right[:1]), np.diff(down, prepend=down[:1]))
        steps[self.offsets[:-1]] = 0
        sums = np.cumsum(steps)
        return np.asarray(sums - np.repeat(sums[self.offsets[:-1]], self.counts))

    def distances(self, grid: Grid) -> Floats:
        """Compute the distance from the first to the last point of each journey, in metres (or units of a plane).

        Args:
            grid: The grid, which says whether coordinates are degrees.

        Returns:
            One distance for each journey.
        """
        right, down = self.metres(grid)
        first, last = self.offsets[:-1], self.offsets[1:] - 1
        return np.hypot(right[last] - right[first], down[last] - down[first])

    def diameters(self, grid: Grid) -> Floats:
        """Compute the largest distance between two points of each journey, at most 0.5 % too small.

        Args:
            grid: The grid, which says whether coordinates are degrees.

        Returns:
            One distance for each journey, in metres (or units of a plane).

        >>> square = Lines.from_points([[(0, 0), (3, 0), (3, 4), (0, 4), (0, 0)]])
        >>> round(float(square.diameters(Grid.plane(x=(0, 4), y=(0, 4), size=4))[0]), 1)
        5.0
        """
        right, down = self.metres(grid)
        widest = np.zeros(len(self))
        if len(self):
            for angle in np.arange(_DIRECTIONS) * (np.pi / _DIRECTIONS):
                along = np.cos(angle) * right + np.sin(angle) * down
                extent = np.maximum.reduceat(along, self.offsets[:-1]) - np.minimum.reduceat(along, self.offsets[:-1])
                widest = np.maximum(widest, extent)
        return widest

    def visits(self, grid: Grid) -> tuple[Integers, Integers]:
        """Follow the lines of each journey over a grid and list the cells that it visits, without repeats in a row.

        Args:
            grid: The grid. A point outside visits the nearest cell.

        Returns:
            The number of the journey and the number of the cell (row · columns + column) of each visit, in order.

        >>> plane = Grid.plane(x=(0, 4), y=(0, 1), shape=(1, 4))
        >>> Lines.from_points([[(0.5, 0.5), (3.5, 0.5), (2.5, 0.5)]]).visits(plane)[1].tolist()
        [0, 1, 2, 3, 2]
        """
        across = np.clip(grid.across(np.clip(self.x, *grid.x)), 0, np.nextafter(grid.cols, 0))
        down = np.clip(grid.down(np.clip(self.y, *grid.y)), 0, np.nextafter(grid.rows, 0))
        owner = self.owner
        if not len(owner):
            return owner, owner
        longest = np.maximum(np.abs(np.diff(across)), np.abs(np.diff(down)))
        steps = np.ones(len(owner), np.int64)
        steps[:-1] = np.where(owner[1:] == owner[:-1], np.maximum(1, np.ceil(STEPS_A_CELL * longest)), 1)
        # Points are processed in blocks to limit memory: a line across the map may have hundreds of steps.
        firsts = np.unique(np.searchsorted(np.cumsum(steps), np.arange(0, int(steps.sum()), _BLOCK), "right"))
        parts = [
            _follow(across, down, owner, steps, int(first), int(last), grid.shape)
            for first, last in zip(firsts, [*firsts[1:], len(owner)], strict=True)
        ]
        return _without_repeats(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _follow(
    across: Floats, down: Floats, owner: Integers, steps: Integers, first: int, last: int, shape: tuple[int, int]
) -> tuple[Integers, Integers]:
    """Follow the lines that begin at the points from ``first`` to ``last`` − 1, each in its number of steps."""
    counts = steps[first:last]
    start = np.repeat(np.arange(first, last), counts)
    part = (np.arange(len(start)) - np.repeat(np.cumsum(counts) - counts, counts)) / steps[start]
    end = np.minimum(start + 1, len(owner) - 1)
    # Between two points at the border of the map, rounding can lead to a cell beyond the border.
    row = np.minimum(np.floor(down[start] * (1 - part) + down[end] * part).astype(np.int64), shape[0] - 1)
    col = np.minimum(np.floor(across[start] * (1 - part) + across[end] * part).astype(np.int64), shape[1] - 1)
    return _without_repeats(owner[start], row * shape[1] + col)


def _without_repeats(whose: Integers, cell: Integers) -> tuple[Integers, Integers]:
    """Leave out a visit of the cell in which the journey already is."""
    new = np.ones(len(cell), np.bool_)
    new[1:] = (cell[1:] != cell[:-1]) | (whose[1:] != whose[:-1])
    return whose[new], cell[new]
