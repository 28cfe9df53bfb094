"""The uncertainty of a map, from maps that were drawn beside it: their spread is what the data leave open."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from heathaze.checks import assign
from heathaze.domain.density import Density, part_inside
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import interleave
from heathaze.errors import InvalidInput
from heathaze.inference.log_pyramid import LogPyramid
from heathaze.inference.posterior import LevelBelief
from heathaze.types import Floats, Integers

INFLATION = 1.2
"""Factor of the spread of drawn maps: they ignore that the learned roughness is uncertain too."""


@dataclass(frozen=True, eq=False)
class DrawnMaps:
    """Maps drawn from the posterior, on squares of cells. Public.

    Args:
        grid: The public grid.
        side: Cells on a side of a square, a power of two.
        shares: The maps (count × rows × columns of squares), each summing to 1; at least two.
        within: Standard deviation of the logarithm of the density inside a square, which the maps do not show.
        asked: For each square, the level of the smallest region around it that a number was measured of; inside of that
            region only the prior decides. None if every square was measured.

    Raises:
        InvalidInput: The maps do not fit the grid, or are not shares.
    """

    grid: Grid
    side: int
    shares: Floats
    within: float
    asked: Integers | None = None

    def __post_init__(self) -> None:
        shares = np.array(self.shares, dtype=np.float64)
        fits = 1 <= self.side <= 1 << self.grid.depth and not self.side & (self.side - 1)
        squares = tuple(-(-length // self.side) for length in self.grid.shape) if fits else ()
        if not fits or shares.ndim != 3 or shares.shape[1:] != squares:
            raise InvalidInput("Drawn maps hold one share for each square of a power of two cells a side.")
        if len(shares) < 2 or not np.isfinite(shares).all() or (shares < 0).any():
            raise InvalidInput("Drawn maps are at least two, of shares that are finite and not negative.")
        if not np.allclose(shares.sum(axis=(1, 2)), 1.0, atol=1e-3) or not 0 <= self.within < 1e3:
            raise InvalidInput("The shares of a drawn map sum to 1.")
        shares.flags.writeable = False
        assign(self, shares=shares)
        if self.asked is not None:
            asked = np.array(self.asked, dtype=np.int64)
            if asked.shape != squares or ((asked < 0) | (asked > self.grid.depth)).any():
                raise InvalidInput("Drawn maps name one level of the grid for each square that was asked about.")
            asked.flags.writeable = False
            assign(self, asked=asked)

    @classmethod
    def of(cls, grid: Grid, shares: Floats, prior: LogPyramid, asked: Integers | None = None) -> DrawnMaps:
        """Maps drawn under a prior.

        Args:
            grid: The public grid.
            shares: The maps, on squares of a power of two cells a side.
            prior: The prior, which says how much the density varies inside a square.
            asked: As in the class.
        """
        side = 2 ** round(math.log2(max(grid.shape) / max(shares.shape[1:])))
        finer = prior.height * prior.fall ** np.arange(grid.depth - (side.bit_length() - 1) + 1, grid.depth + 1)
        return cls(grid, side, shares, math.sqrt(float((finer**2).sum())), asked)


@dataclass(frozen=True, eq=False)
class DrawnPosterior:
    """The uncertainty of an estimate by drawn maps, in the form of :class:`heathaze.inference.posterior.Posterior`.

    Args:
        drawn: The maps.
        density: The estimate.
        total: The number of reports or people.
    """

    drawn: DrawnMaps
    density: Density
    total: float

    @property
    def grid(self) -> Grid:
        """The public frame."""
        return self.drawn.grid

    @functools.cached_property
    def levels(self) -> list[LevelBelief]:
        """Mean and standard deviation (in reports) of every node of the quadtree down to the drawn squares."""
        found = []
        deepest = self.grid.depth - (self.drawn.side.bit_length() - 1)
        for level in range(deepest, -1, -1):
            factor = 1 << (deepest - level)
            masses = self.total * np.stack([_summed(shares, factor) for shares in self.drawn.shares])
            rows, cols = np.indices(masses.shape[1:])
            codes = interleave(rows.ravel(), cols.ravel())
            order = np.argsort(codes)
            shown = self.total * _summed(self._squares, factor).ravel()[order]
            drawn = masses.reshape(len(masses), -1)[:, order]
            mean, deviation = self._believed(drawn, shown, whole=self.total)
            leaf = np.full(len(codes), level == deepest)
            measured = np.ones(len(codes), np.bool_)
            if self.drawn.asked is not None:
                measured = _least(self.drawn.asked, factor).ravel()[order] >= level
            found.append(LevelBelief(codes[order], mean, deviation, leaf, measured, shown, drawn))
        return found[::-1]

    @functools.cached_property
    def squares(self) -> tuple[Integers, Integers, Floats, Floats]:
        """Level, code, mean and standard deviation (in reports) of every square of the drawn maps."""
        last = self.levels[-1]
        return np.full(len(last.codes), len(self.levels) - 1), last.codes, last.mean, last.deviation

    def belief(self, box: Box, share: float) -> tuple[float, float]:
        """Mean and standard deviation of the share of the mass in a box.

        Args:
            box: The box, in the grid's coordinates.
            share: The estimate's share.
        """
        drawn = np.array([density.mass_in(box) for density in self._fine])
        centre, deviation = self._believed(drawn, np.asarray(share), whole=1.0)
        # The whole mass of a region that the box cuts may lie in one place, inside or outside of the box.
        lumps = sum(float((mass**2 * part * (1 - part)).sum()) for mass, part, _ in self._cut(box))
        return float(centre), math.hypot(float(deviation), math.sqrt(lumps))

    def unresolved(self, box: Box) -> float:
        """The share of regions that a box cuts and that are not smaller than it: it may lie inside or outside."""
        covered = sum(float((area * part).sum()) for _, part, area in self._cut(box))
        return sum(
            float(mass[(part > 0) & (part < 1) & (area >= covered)].sum()) for mass, part, area in self._cut(box)
        )

    def _cut(self, box: Box) -> list[tuple[Floats, Floats, Floats]]:
        """The share of every region, the part of its area in a box, and its area in squares."""
        return [(mass, part_inside(self.grid, level, codes, box), area) for level, codes, mass, area in self._regions]

    def deviations(self, window: Box | None = None, shape: tuple[int, int] | None = None, sigma: float = 0.0) -> Floats:
        """Standard deviation of every cell of a picture, as a share of the whole map.

        Args:
            window: The part of the map in the picture; all of it if left out.
            shape: Rows and columns of the picture; the grid's if left out.
            sigma: Standard deviation of the picture's smoothing, in its cells.
        """
        inside = 1.0
        if window is not None:
            inside = self.density.mass_in(window)
        maps = [density.render(window, shape).smooth(sigma).values for density in self._fine]
        mean = self.density.render(window, shape).smooth(sigma)
        _, between = self._believed(np.stack(maps), mean.values, whole=1.0)
        # Cells smaller than a square divide its mass as the prior says.
        across = (window or self.grid.box).x
        cells = self.grid.cols * (across[1] - across[0]) / (self.grid.x[1] - self.grid.x[0]) / mean.grid.cols
        within = self.drawn.within if max(cells, 2 * sigma * cells) < self.drawn.side else 0.0
        spread = np.hypot(between, within * mean.values)
        return np.asarray(np.hypot(inside * spread, self._lumps(mean.grid, cells, sigma)))

    def _lumps(self, target: Grid, cells: float, sigma: float) -> Floats | float:
        """Deviation of each target cell because the whole mass of a region may lie in one place, which is unknown."""
        if not self._regions:
            return 0.0
        squares = np.zeros((2, *self.drawn.shares.shape[1:]))
        for level, codes, mass, area in self._regions:
            assert self.drawn.asked is not None
            asked = np.flatnonzero(self.drawn.asked.ravel() == level)
            place = np.searchsorted(codes, self._nodes(level)[asked])
            squares.reshape(2, -1)[:, asked] = mass[place], area[place]
        row = (self.grid.down(target.y_at(np.arange(target.rows) + 0.5)) / self.drawn.side).astype(np.int64)
        col = (self.grid.across(target.x_at(np.arange(target.cols) + 0.5)) / self.drawn.side).astype(np.int64)
        mass, area = (part[np.ix_(row.clip(0, len(part) - 1), col.clip(0, part.shape[1] - 1))] for part in squares)
        # The place is as large as a cell, or as the smoothing; a smoothed cell holds its part of it.
        spot = max(1.0, 2 * sigma) ** 2
        part = np.minimum(1.0, spot * (cells / self.drawn.side) ** 2 / np.maximum(area, 1.0))
        return np.asarray(mass * np.sqrt(part * (1 - part)) / spot)

    @functools.cached_property
    def _regions(self) -> list[tuple[int, Integers, Floats, Floats]]:
        """The regions that were measured, by level: codes of their nodes, shares, and areas in squares."""
        if self.drawn.asked is None:
            return []
        found = []
        for level in np.unique(self.drawn.asked):
            here = self.drawn.asked.ravel() == level
            codes, place = np.unique(self._nodes(int(level))[here], return_inverse=True)
            mass = np.asarray(np.bincount(place, self._squares.ravel()[here]), dtype=np.float64)
            found.append((int(level), codes, mass, np.bincount(place).astype(np.float64)))
        return found

    def _nodes(self, level: int) -> Integers:
        """The node of a level in which each square lies; for levels finer than the squares, the square's node."""
        deepest = self.grid.depth - (self.drawn.side.bit_length() - 1)
        rows, cols = np.indices(self.drawn.shares.shape[1:])
        return interleave(rows.ravel(), cols.ravel()) >> (2 * max(0, deepest - level))

    def _believed(self, drawn: Floats, estimate: Floats, whole: float) -> tuple[Floats, Floats]:
        """Centre and standard deviation of some amounts; each drawn map has one value of each.

        Where the estimate is nearly zero the drawn maps may have more, and their mean is the better centre. The maps
        are of probabilities; the positions that people really had add the variance of a count.

        Args:
            drawn: The values of the drawn maps, one row for each map.
            estimate: The values of the estimate.
            whole: The amount of the whole map.
        """
        unsure = ((drawn - estimate) ** 2).mean(axis=0) > np.square(estimate)
        centre = np.where(unsure, np.maximum(drawn.mean(axis=0), estimate), estimate)
        spread = ((drawn - centre) ** 2).mean(axis=0)
        by_chance = centre * np.maximum(1 - centre / whole, 0) * (whole / self.total)
        return centre, np.sqrt(INFLATION**2 * spread + by_chance)

    @functools.cached_property
    def _squares(self) -> Floats:
        return _summed(self.density.values, self.drawn.side)

    @functools.cached_property
    def _fine(self) -> list[Density]:
        """Every drawn map in the cells of the grid: each square is divided as the estimate divides it."""
        side, (rows, cols) = self.drawn.side, self.grid.shape
        size = _spread(_summed(np.ones(self.grid.shape), side), side)[:rows, :cols]
        whole = _spread(self._squares, side)[:rows, :cols]
        part = np.divide(self.density.values, whole, out=1 / size, where=whole > 0)
        return [
            Density.from_mass(self.grid, _spread(shares, side)[:rows, :cols] * part) for shares in self.drawn.shares
        ]


def _summed(values: Floats, side: int) -> Floats:
    """The sum of every square of ``side`` × ``side`` numbers."""
    rows, cols = (np.arange(0, length, side) for length in values.shape)
    return np.asarray(np.add.reduceat(np.add.reduceat(values, rows, axis=0), cols, axis=1))


def _least(values: Integers, side: int) -> Integers:
    """The smallest number of every square of ``side`` × ``side`` numbers."""
    rows, cols = (np.arange(0, length, side) for length in values.shape)
    return np.asarray(np.minimum.reduceat(np.minimum.reduceat(values, rows, axis=0), cols, axis=1))


def _spread(values: Floats, side: int) -> Floats:
    return np.repeat(np.repeat(values, side, axis=0), side, axis=1)
