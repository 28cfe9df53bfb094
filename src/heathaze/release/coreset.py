"""Coresets: a release as few weighted points with nearly the same k-median cost (Ghazi et al., appendix A.1).

The k-median cost of a set C of centres is the sum over all people of the ℓ1 distance to the nearest centre. A coreset
is a set of weighted points whose cost is close to the cost of the map for *every* set of at most k centres. Corollary
A.1 of the paper takes the released masses themselves as the coreset. Here squares of the quadtree are merged into their
centres as well, as far as a proven bound allows:

- Moving mass by a distance d changes the cost of any centres by at most mass · d. So the sum of mass · radius over the
  merged squares, ``moved``, bounds the change for all centres at once.
- No k centres can cost less than ``least``. Points closer than half a side of a node to a centre lie in at most 4 nodes
  of the level, or in at most 9 nodes of the next finer level. On the finest level all mass lies at the centres of
  cells, and no two cells are both closer than half a side. So the mass farther than half a side is at least the mass
  outside the 4k heaviest nodes of a level, outside the 9k heaviest nodes of the next finer level, and outside the k
  heaviest cells. The cost is the integral of the mass farther than t over all distances t, and the half sides of all
  levels bound this integral from below.

Squares are divided until moved ≤ tolerance · least. Then |cost of coreset − cost of map| ≤ tolerance · cost of map for
every set of at most k centres. Everything here is post-processing of the released map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.checks import positive, whole
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists, interleave, node_areas, node_extent
from heathaze.errors import InvalidInput, TooLarge
from heathaze.types import Floats, Integers

MOST_POINTS = 2**20
"""The most points of a coreset."""


@dataclass(frozen=True, eq=False)
class Coreset:
    """Weighted points that stand for a released map in k-median clustering. Make one with ``release.coreset(k)``.

    Distances are ℓ1, in metres on the globe and in the units of a plane.

    Attributes:
        grid: The public frame of the map.
        points: (m, 2) coordinates x, y.
        weights: (m,) estimated number of people at each point.
        k: The largest number of centres for which the bound was chosen.
        moved: For every set of centres, the cost of the coreset differs from the cost of the map by at most this.
        least: The cost of the map is at least this for every set of at most k centres.
    """

    grid: Grid
    points: Floats
    weights: Floats
    k: int
    moved: float
    least: float

    def cost(self, centers: npt.ArrayLike) -> float:
        """Compute the k-median cost of a set of centres: the sum over all people of the distance to the nearest centre.

        Args:
            centers: (c, 2) coordinates x, y, at least one.

        Returns:
            People times distance, in metres or in the units of the plane.

        Raises:
            InvalidInput: The centres are not finite pairs of coordinates.
        """
        places = np.asarray(centers, dtype=np.float64)
        if places.ndim != 2 or places.shape[1] != 2 or not len(places) or not np.isfinite(places).all():
            raise InvalidInput("The centres are not an array of finite pairs x, y; give at least one pair.")
        here, there = _lengths(self.grid, self.points), _lengths(self.grid, places)
        nearest = np.full(len(here), np.inf)
        for place in there:
            nearest = np.minimum(nearest, np.abs(here - place).sum(axis=1))
        return float(self.weights @ nearest)

    def __len__(self) -> int:
        return len(self.weights)


def build_coreset(density: Density | TreeDensity, total: float, k: int, tolerance: float = 0.1) -> Coreset:
    """Merge squares of a map into weighted points; see ``Release.coreset``.

    Args:
        density: The released map.
        total: The estimated number of people.
        k: The number of centres, at least 1.
        tolerance: The largest relative change of the cost of any k centres, above 0 and below 1.

    Raises:
        InvalidInput: ``k`` or ``tolerance`` is out of range.
        TooLarge: More than 2^20 points would be needed.
    """
    whole(k, "k", "the number of centres")
    if positive(tolerance, "tolerance", "the relative change of the cost") >= 1:
        raise InvalidInput(f"tolerance is {tolerance}; give a relative change of the cost below 1.")
    grid, masses = density.grid, _Masses(density)
    levels, codes, mass = np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1)
    while True:
        top, bottom, left, right = node_extent(grid, levels, codes)
        moved = mass * _radius(grid, bottom - top, right - left)
        least = _least_cost(grid, levels, codes, mass, k)
        if moved.sum() <= tolerance * least or not moved.any():
            break
        # The squares that account for half of the sum are divided.
        order = np.argsort(-moved, kind="stable")
        worst = order[: int(np.searchsorted(np.cumsum(moved[order]), moved.sum() / 2)) + 1]
        stay = np.ones(len(levels), dtype=bool)
        stay[worst] = False
        below, inner = np.repeat(levels[worst] + 1, 4), children(codes[worst])
        held = exists(grid, below, inner)
        below, inner = below[held], inner[held]
        share = masses.of(below, inner)
        some = share > 0
        levels = np.concatenate([levels[stay], below[some]])
        codes = np.concatenate([codes[stay], inner[some]])
        mass = np.concatenate([mass[stay], share[some]])
        if len(levels) > MOST_POINTS:
            raise TooLarge(f"The coreset would have more than 2^20 points; give a tolerance above {tolerance}.")
    points = np.column_stack([grid.x_at((left + right) / 2), grid.y_at((top + bottom) / 2)])
    return Coreset(grid, points, total * mass, k, total * float(moved.sum()), total * least)


class _Masses:
    """The mass of any quadtree node: the sum of the map's pieces inside it, or its part by area of a larger piece."""

    def __init__(self, density: Density | TreeDensity) -> None:
        self.grid = density.grid
        if isinstance(density, TreeDensity):
            levels, codes, mass = density.levels, density.codes, density.mass
        else:
            rows, cols = np.nonzero(density.values)
            codes, mass = interleave(rows, cols), density.values[rows, cols]
            levels = np.full(len(codes), self.grid.depth)
        starts, _ = self._span(levels, codes)
        order = np.argsort(starts)
        self.levels, self.codes, self.mass = levels[order], codes[order], mass[order]
        self.starts, self.ends = self._span(self.levels, self.codes)
        self.areas = node_areas(self.grid, self.levels, self.codes)
        self.before = np.concatenate([[0.0], np.cumsum(self.mass)])

    def of(self, levels: Integers, codes: Integers) -> Floats:
        """The mass of each node; exactly 0 for a node without any piece."""
        start, end = self._span(levels, codes)
        first, last = np.searchsorted(self.starts, start), np.searchsorted(self.starts, end)
        found = np.where(last > first, self.before[last] - self.before[first], 0.0)
        around = np.maximum(np.searchsorted(self.starts, start, side="right") - 1, 0)
        inside = (self.starts[around] <= start) & (end <= self.ends[around])
        part = node_areas(self.grid, levels, codes) / self.areas[around]
        return np.asarray(np.where(inside, self.mass[around] * part, np.maximum(found, 0.0)))

    def _span(self, levels: Integers, codes: Integers) -> tuple[Integers, Integers]:
        """First code and last code plus one of the cells of each node."""
        shift = 2 * (self.grid.depth - levels)
        return codes << shift, (codes + 1) << shift


def _radius(grid: Grid, rows: Integers, cols: Integers) -> Floats:
    """The largest ℓ1 distance from the middle of a block of cells to the middle of one of its cells."""
    height, width = grid.cell_size
    return np.asarray(((rows - 1) * height + (cols - 1) * width) / 2)


def _least_cost(grid: Grid, levels: Integers, codes: Integers, mass: Floats, k: int) -> float:
    """A lower bound on the k-median cost of a map of mass 1 that is known on a partition into squares.

    A square that is coarser than a level counts as one node of the level. This can only overestimate the mass of the
    heaviest nodes, so the bound stays a lower bound.
    """
    side, found, before = min(grid.cell_size), 0.0, 0.0
    within = 0.0  # the most mass in the 9k heaviest nodes of the finer level
    for level in range(grid.depth, -1, -1):
        fine = levels >= level
        _, which = np.unique(codes[fine] >> (2 * (levels[fine] - level)), return_inverse=True)
        items = np.sort(np.concatenate([np.bincount(which, mass[fine]), mass[~fine]]))[::-1]
        half = side * 2.0 ** (grid.depth - level) / 2
        near = k if level == grid.depth else 4 * k
        # cost = ∫ (mass farther than t) dt ≥ Σ (half side − next smaller half side) · (mass farther than half side)
        covered = items[:near].sum()
        farther = max(1 - covered, 1 - within if level < grid.depth else 0.0, 0.0)
        found, before, within = found + (half - before) * farther, half, items[: 9 * k].sum()
    return float(found)


def _lengths(grid: Grid, points: Floats) -> Floats:
    """Positions on the map in metres, or in the units of a plane."""
    height, width = grid.cell_size
    return np.column_stack([grid.across(points[:, 0]) * width, grid.down(points[:, 1]) * height])
