"""The uncertainty of a map from maps drawn from its posterior: where the drawn maps differ, the map is uncertain."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from heathaze.checks import assign
from heathaze.domain.density import Density, coverage, part_inside
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import interleave
from heathaze.domain.region import Region
from heathaze.errors import InvalidInput
from heathaze.inference.interval import interval
from heathaze.inference.log_pyramid import LogPyramid
from heathaze.inference.posterior import LevelBelief
from heathaze.types import Floats, Integers

INFLATION = 1.2
"""The spread of drawn maps is widened by this factor, because drawn maps ignore the uncertainty of the roughness."""


@dataclass(frozen=True, eq=False)
class DrawnMaps:
    """Maps drawn from the posterior, on squares of cells. Public.

    Args:
        grid: The public grid.
        side: Cells on a side of a square, a power of two.
        shares: The maps (count × rows × columns of squares), each summing to 1; at least two.
        within: Standard deviation of the logarithm of the density inside a square, which the maps do not show.
        asked: For each square, the quadtree level of the smallest measured region that contains it. How the mass lies
            inside this region is known from the prior only. None if every square was measured.

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
            raise InvalidInput("Drawn maps hold one share for each square, whose side is a power of two cells.")
        if len(shares) < 2 or not np.isfinite(shares).all() or (shares < 0).any():
            raise InvalidInput("There must be at least two drawn maps, with shares that are finite and not negative.")
        if not np.allclose(shares.sum(axis=(1, 2)), 1.0, atol=1e-3) or not 0 <= self.within < 1e3:
            raise InvalidInput("The shares of a drawn map sum to 1.")
        shares.flags.writeable = False
        assign(self, shares=shares)
        if self.asked is not None:
            asked = np.array(self.asked, dtype=np.int64)
            if asked.shape != squares or ((asked < 0) | (asked > self.grid.depth)).any():
                raise InvalidInput("Drawn maps with measured levels need one level of the grid for each square.")
            asked.flags.writeable = False
            assign(self, asked=asked)

    @classmethod
    def of(cls, grid: Grid, shares: Floats, prior: LogPyramid, asked: Integers | None = None) -> DrawnMaps:
        """Make drawn maps from arrays of shares and the prior under which they were drawn.

        Args:
            grid: The public grid.
            shares: The maps, on squares whose side is a power of two cells.
            prior: The prior. It says how much the density varies inside a square.
            asked: The level of the smallest measured region around each square, as in the class.
        """
        side = 2 ** round(math.log2(max(grid.shape) / max(shares.shape[1:])))
        finer = prior.height * prior.fall ** np.arange(grid.depth - (side.bit_length() - 1) + 1, grid.depth + 1)
        return cls(grid, side, shares, math.sqrt(float((finer**2).sum())), asked)


@dataclass(frozen=True, eq=False)
class DrawnPosterior:
    """The posterior of an estimate, represented by drawn maps.

    It has the same methods as :class:`heathaze.inference.posterior.Posterior`.

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
        """Level, code, mean and standard deviation (in reports) of every square, over maps of the posterior."""
        last = self.levels[-1]
        return np.full(len(last.codes), len(self.levels) - 1), last.codes, last.mean, last.deviation

    def intervals(self, confidence: float) -> list[tuple[Floats, Floats]]:
        """Compute an interval for the mass (in reports) of every measured node.

        Args:
            confidence: Probability of each interval, between 0 and 1.

        Returns:
            For each level the lower and the upper ends, in the order of the level's measured nodes.
        """
        found = []
        for belief in self.levels:
            assert belief.shown is not None
            ends = self._ends(belief.mean, belief.deviation, belief.shown, confidence)
            found.append((ends[0][belief.measured], ends[1][belief.measured]))
        return found

    def sum_interval(self, nodes: list[Integers], confidence: float) -> tuple[float, float]:
        """Compute an interval for the mass (in reports) of some disjoint nodes together.

        Args:
            nodes: The nodes of each level, as indices into the level's measured nodes.
            confidence: Probability of the interval, between 0 and 1.
        """
        drawn, shown = np.zeros(len(self.drawn.shares)), 0.0
        for here, belief in zip(nodes, self.levels, strict=True):
            assert belief.drawn is not None
            assert belief.shown is not None
            chosen = np.flatnonzero(belief.measured)[here]
            drawn += belief.drawn[:, chosen].sum(axis=1)
            shown += float(belief.shown[chosen].sum())
        mean, deviation = self._believed(drawn, np.asarray(shown), whole=self.total)
        low, high = self._ends(mean, deviation, np.asarray(shown), confidence)
        return float(low), float(high)

    def interval(self, box: Box | Region, share: float, confidence: float) -> tuple[float, float]:
        """Compute an interval for the share of the mass that lies in a box.

        If the box cuts measured regions that are at least as large as the box, their whole mass may lie inside or
        outside of the box. The interval is extended by this mass.

        Args:
            box: The box, in the grid's coordinates, or a region of the grid.
            share: The estimate's share. The interval contains it.
            confidence: Probability of the interval, between 0 and 1.
        """
        mean, deviation = (np.asarray(self.total * number) for number in self.belief(box, share))
        low, high = self._ends(mean, deviation, np.asarray(self.total * share), confidence)
        unresolved = self.unresolved(box)
        ends = float(low) / self.total, float(high) / self.total
        return max(0.0, min(ends[0], share - unresolved)), min(1.0, max(ends[1], share + unresolved))

    def _ends(self, mean: Floats, deviation: Floats, shown: Floats, confidence: float) -> tuple[Floats, Floats]:
        """Compute intervals of amounts between 0 and the total; each interval contains the shown amount.

        The upper end for at most half of the total is at least −log(1 − confidence) people, because a few people may be
        where the maps have nobody: a Poisson number with this mean is 0 with probability 1 − confidence.
        """
        # For more than half of the total, the interval is computed for the rest (the total minus the amount).
        rest = mean > self.total / 2
        low, high = interval(np.maximum(np.where(rest, self.total - mean, mean), 0), deviation, confidence)
        high = np.where(rest, high, np.maximum(high, -math.log1p(-confidence)))
        low, high = np.where(rest, self.total - high, low), np.where(rest, self.total - low, high)
        return np.maximum(np.minimum(low, shown), 0), np.minimum(np.maximum(high, shown), self.total)

    def belief(self, box: Box | Region, share: float) -> tuple[float, float]:
        """Mean and standard deviation of the share of the mass in a box.

        Args:
            box: The box, in the grid's coordinates, or a region of the grid.
            share: The estimate's share.
        """
        if isinstance(box, Region):
            inside = coverage(box)
            drawn = np.array([float((density.values * inside).sum()) for density in self._fine])
        else:
            drawn = np.array([density.mass_in(box) for density in self._fine])
        centre, deviation = self._believed(drawn, np.asarray(share), whole=1.0)
        # If the box cuts a region, the whole mass of the region may lie in one place, inside or outside of the box.
        lumps = sum(float((mass**2 * part * (1 - part)).sum()) for mass, part, _ in self._cut(box))
        return float(centre), math.hypot(float(deviation), math.sqrt(lumps))

    def unresolved(self, box: Box | Region) -> float:
        """Sum the shares of the measured regions that a box cuts and that are at least as large as the box.

        It is unknown whether the mass of such a region lies inside or outside of the box.
        """
        covered = sum(float((area * part).sum()) for _, part, area in self._cut(box))
        return sum(
            float(mass[(part > 0) & (part < 1) & (area >= covered)].sum()) for mass, part, area in self._cut(box)
        )

    def _cut(self, box: Box | Region) -> list[tuple[Floats, Floats, Floats]]:
        """For every measured region, return its share, the part of its area inside a box, and its area in squares."""
        return [(mass, part_inside(self.grid, level, codes, box), area) for level, codes, mass, area in self._regions]

    def deviations(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Floats:
        """Compute the standard deviation of every cell of a picture of the map, as a share of the whole map.

        Args:
            window: The part of the map in the picture; all of it if left out.
            shape: Rows and columns of the picture; the grid's if left out.
        """
        inside = 1.0
        if window is not None:
            inside = self.density.mass_in(window)
        maps = [density.render(window, shape).values for density in self._fine]
        mean = self.density.render(window, shape)
        _, between = self._believed(np.stack(maps), mean.values, whole=1.0)
        # If picture cells are smaller than a square, the prior says how unevenly they divide the mass of the square.
        across = (window or self.grid.box).x
        cells = self.grid.cols * (across[1] - across[0]) / (self.grid.x[1] - self.grid.x[0]) / mean.grid.cols
        within = self.drawn.within if cells < self.drawn.side else 0.0
        spread = np.hypot(between, within * mean.values)
        return np.asarray(np.hypot(inside * spread, self._lumps(mean.grid, cells)))

    def _lumps(self, target: Grid, cells: float) -> Floats | float:
        """Compute the part of each target cell's deviation that comes from regions measured only as a whole.

        The whole mass of such a region may lie in one place, and the place is unknown.
        """
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
        # The place is as large as one cell.
        part = np.minimum(1.0, (cells / self.drawn.side) ** 2 / np.maximum(area, 1.0))
        return np.asarray(mass * np.sqrt(part * (1 - part)))

    @functools.cached_property
    def _regions(self) -> list[tuple[int, Integers, Floats, Floats]]:
        """The measured regions of each level: level, codes of the nodes, estimated shares, and areas in squares."""
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
        """Find the quadtree node of a level that contains each square, or the square itself if the level is finer."""
        deepest = self.grid.depth - (self.drawn.side.bit_length() - 1)
        rows, cols = np.indices(self.drawn.shares.shape[1:])
        return interleave(rows.ravel(), cols.ravel()) >> (2 * max(0, deepest - level))

    def _believed(self, drawn: Floats, estimate: Floats, whole: float) -> tuple[Floats, Floats]:
        """Compute the centre and the standard deviation of some amounts from their values in the drawn maps.

        If the drawn maps differ from the estimate by more than its own size, their mean is a better centre. The
        drawn maps are maps of probabilities; the number of people in a square varies about its probability, like a
        binomial count, and this variance is added.

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
        """Every drawn map on the cells of the grid; a square's mass is divided among its cells as in the estimate."""
        side, (rows, cols) = self.drawn.side, self.grid.shape
        size = _spread(_summed(np.ones(self.grid.shape), side), side)[:rows, :cols]
        whole = _spread(self._squares, side)[:rows, :cols]
        part = np.divide(self.density.values, whole, out=1 / size, where=whole > 0)
        return [
            Density.from_mass(self.grid, _spread(shares, side)[:rows, :cols] * part) for shares in self.drawn.shares
        ]


def _summed(values: Floats, side: int) -> Floats:
    """Sum the numbers of a map in squares of ``side`` × ``side`` cells."""
    rows, cols = (np.arange(0, length, side) for length in values.shape)
    return np.asarray(np.add.reduceat(np.add.reduceat(values, rows, axis=0), cols, axis=1))


def _least(values: Integers, side: int) -> Integers:
    """Find the smallest number of a map in each square of ``side`` × ``side`` cells."""
    rows, cols = (np.arange(0, length, side) for length in values.shape)
    return np.asarray(np.minimum.reduceat(np.minimum.reduceat(values, rows, axis=0), cols, axis=1))


def _spread(values: Floats, side: int) -> Floats:
    return np.repeat(np.repeat(values, side, axis=0), side, axis=1)
