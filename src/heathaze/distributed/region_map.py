"""Region map: fit one map to the noisy counts of regions from all rounds of a survey.

Each round divides the map into different regions and counts the people in each region, with noise. All counts y are
measurements of one density, which is fitted by :mod:`heathaze.inference.smooth_map`:

    y ~ N(n·F, σ² + n·F(1 − F)),   F = share of the density in a region, n = people asked, σ² = variance of the noise.

The term n·F(1 − F) is the variance of sampling: the people asked are a sample of the people that the map describes.
Rounds with less noise have more weight, and the prior connects neighbouring regions. At the end, the fit is corrected
towards the counts of the last round, as far as the differences are larger than noise and sampling explain. The counts
are already private, so everything here is post-processing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heathaze.checks import assign
from heathaze.domain.density import TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition, cell_codes
from heathaze.domain.quadtree import node_areas
from heathaze.errors import InvalidInput
from heathaze.inference.smooth_map import Cost, MapProblem, SmoothMap, learn_prior, refine
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.types import Booleans, Floats, Integers

_FALLS = (0.5, 0.6, 0.65, 0.7)
"""Candidates for the factor by which detail shrinks from one level of the prior to the next; the counts choose one."""

_COARSE = 6
"""The quadtree level on which the prior is learned and maps are drawn: 64 squares on a side."""

_FINE = 8
"""The level up to which the map is always fitted, if the grid is fine enough: 256 squares on a side."""

_FINEST = 9
"""The finest level to which the map is fitted, if regions are small.

A square of this level that contains smaller regions is divided in proportion to their counts.
"""


@dataclass(frozen=True, eq=False)
class NoisyRegions:
    """The noisy counts of one round: the number of people in every region of a partition. Public.

    Args:
        partition: The regions.
        values: One noisy count for each region.
        variance: Variance of the noise of each count.
        people: Number of people who answered.

    Raises:
        InvalidInput: A value is missing or not finite, or variance or people are out of range.
    """

    partition: Partition
    values: Floats
    variance: float
    people: float

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.shape != (len(self.partition),) or not np.isfinite(values).all():
            raise InvalidInput(f"Noisy regions need one finite number for each of the {len(self.partition)} regions.")
        if not (math.isfinite(self.variance) and self.variance >= 0 and math.isfinite(self.people) and self.people > 0):
            raise InvalidInput("Noisy regions need a variance of zero or more and a number of people above zero.")
        values.flags.writeable = False
        assign(self, values=values)


def region_map(rounds: Sequence[NoisyRegions]) -> SmoothMap[TreeDensity]:
    """Fit one map to the noisy counts of regions from all rounds of a survey.

    Args:
        rounds: The noisy counts of each round. The last round is the most detailed.

    Returns:
        The map. The maps drawn from it have at most 64 squares on a side.

    Raises:
        InvalidInput: There are no rounds.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> sums = NoisyRegions(Partition.whole_level(grid, 1), np.array([1e6, 2e6, 3e6, 4e6]), variance=1.0, people=1e7)
    >>> region_map([sums]).density.dense().values.round(3).tolist()
    [[0.1, 0.2], [0.3, 0.4]]
    """
    if not rounds:
        raise InvalidInput("There are no noisy regions to make a map from; give at least one round.")
    grid = rounds[-1].partition.grid
    deepest = max(int(regions.partition.levels.max()) for regions in rounds)
    coarse = min(grid.depth, _COARSE)
    finest = min(grid.depth, _FINEST, max(_FINE, deepest + 1))
    levels = {level: [_View.of(regions, level) for regions in rounds] for level in range(coarse, finest + 1)}
    views = levels[coarse]
    problem = MapProblem(views, learn_prior(_square_shape(grid, coarse), _FALLS, _trials(views), steps=100, repeats=2))
    knots = problem.solve(np.zeros(problem.prior.size), steps=100, repeats=3)
    prior, sharp = refine(
        problem.prior,
        knots,
        (
            (_square_shape(grid, level), levels[level], 100 if level <= _FINE else 40)
            for level in range(coarse + 1, finest + 1)
        ),
    )
    fitted = _settled(levels[finest][-1], prior.density(sharp))
    return SmoothMap(_with_detail(rounds[-1], finest, fitted), prior, problem, knots, _normals, steps=60)


# ── the squares of one level ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class _View:
    """The noisy regions of one round, seen on the squares of one quadtree level: each square belongs to one region.

    A square that contains smaller regions counts as one region, with the sum of their counts.
    """

    labels: Integers
    values: Floats
    noise: Floats
    people: float

    @classmethod
    def of(cls, regions: NoisyRegions, level: int) -> _View:
        partition = regions.partition
        grid = partition.grid
        codes = _square_codes(grid, level)
        labels = partition.locate(codes << (2 * (grid.depth - level)))
        levels, names, entries = partition.squares()
        inner = levels > level
        levels, names, entries = levels[inner], names[inner], entries[inner]
        cut, square = np.unique(names >> (2 * (levels - level)), return_inverse=True)
        # If a region lies partly in such a square, its people are divided in proportion to area.
        pairs, pair = np.unique(entries * len(cut) + square, return_inverse=True)
        part = np.bincount(pair, node_areas(grid, levels, names) / partition.region_areas[entries])
        region, into = np.divmod(pairs, max(len(cut), 1))
        rest = 1 - np.bincount(region, part, len(partition))
        values = np.concatenate([rest * regions.values, np.bincount(into, part * regions.values[region], len(cut))])
        noise = regions.variance * np.concatenate([rest**2, np.bincount(into, part**2, len(cut))])
        here = np.minimum(np.searchsorted(cut, codes), max(len(cut) - 1, 0))
        is_cut = np.isin(codes, cut)
        labels = np.where(is_cut, len(partition) + here, labels)
        kept = np.bincount(labels, minlength=len(values)) > 0
        number = np.cumsum(kept) - 1
        return cls(number[labels], values[kept], noise[kept], regions.people)

    def misfit(self, likely: Floats | None) -> Cost:
        """The misfit Σ (y − n·F)² / 2v of a density, and its gradient.

        y are the counts, n·F the expected counts, and v their variance under the likely density. Without a likely
        density, v is computed from the counts.
        """
        weight = 1 / self.variance(self.values if likely is None else self.expected(likely))

        def cost(density: Floats) -> tuple[float, Floats]:
            miss = self.expected(density) - self.values
            pull = (self.people * weight * miss)[self.labels]
            return 0.5 * float((weight * miss * miss).sum()), pull.reshape(density.shape)

        return cost

    def repeated(self, density: Floats, randomness: Randomness) -> _View:
        """The same regions with a new random error added to every count."""
        deviation = np.sqrt(self.variance(self.expected(density)))
        return replace(self, values=self.values + deviation * _normals(randomness, len(self.values)))

    def expected(self, density: Floats) -> Floats:
        """The expected number of people in every region under a density."""
        return np.asarray(self.people * np.bincount(self.labels, density.ravel(), len(self.values)))

    def variance(self, expected: Floats) -> Floats:
        """The variance of every count: the variance of the noise plus the variance of sampling."""
        inside = np.clip(expected, 0.0, self.people)
        return self.noise + np.maximum(inside * (1 - inside / self.people), 1.0)


def _trials(views: Sequence[_View]) -> list[tuple[list[_View], Callable[[Floats], float]]]:
    """Two trials to learn the prior: fit all earlier rounds and half of the last one, and score the other half."""
    *before, last = views
    coin = Simulation(0).words(len(last.values)) & np.uint64(1) == 0

    def score(density: Floats, judged: Booleans) -> float:
        expected = last.expected(density)[judged]
        variance = last.noise[judged] + np.maximum(expected, 1.0)
        return -float(((last.values[judged] - expected) ** 2 / variance + np.log(variance)).sum())

    # Counts that are left out of a trial get so large a variance that they have no influence.
    blind = [replace(last, noise=np.where(kept, last.noise, 1e12 * last.people**2)) for kept in (coin, ~coin)]
    return [
        ([*before, view], functools.partial(score, judged=judged))
        for view, judged in zip(blind, (~coin, coin), strict=True)
    ]


def _settled(last: _View, density: Floats) -> Floats:
    """Correct the fitted map towards the counts y of the last round, mostly in regions with many people.

    The fit e moves by a share of the difference y − e: the larger one of

        1 − 9v/(y − e)²     and     (t·e)²/((t·e)² + v),   t² = Σ ((y − e)² − v)/v² / Σ e²/v²,

    where v is the variance of the count. The first is positive for differences of more than three standard deviations
    (after James and Stein). The second is the weight of the count if the fit by itself is wrong by the share t of the
    people of a region. This share is estimated from all regions, and it is 0 if the differences are not larger than
    noise and sampling explain. On rough maps t is 0.1 to 0.3, and the counts of regions with many people are kept. On
    smooth maps t is 0.
    """
    expected = last.expected(density)
    variance = last.variance(expected)
    miss = last.values - expected
    excess, scale = ((miss**2 - variance) / variance**2).sum(), (expected**2 / variance**2).sum()
    wrong = max(float(excess / max(scale, 1e-300)), 0.0) * expected**2
    sure = np.maximum(1 - 9 * variance / np.maximum(miss**2, 1e-300), wrong / (wrong + variance))
    # A count of half a standard deviation cannot be told from 0. Without this lower bound, regions with negative noise
    # would become empty.
    least = np.minimum(expected, 0.5 * np.sqrt(last.noise))
    factor = np.maximum(expected + sure * miss, least) / np.maximum(expected, 1e-300)
    settled = density * factor[last.labels].reshape(density.shape)
    total = settled.sum()
    return np.asarray(settled / total) if total > 0 else density


def _with_detail(last: NoisyRegions, level: int, shares: Floats) -> TreeDensity:
    """Make a map from the shares of squares; a square with smaller regions is divided in proportion to their counts."""
    grid = last.partition.grid
    codes = _square_codes(grid, level)
    order = np.argsort(codes)
    codes, mass = codes[order], shares.ravel()[order]
    levels, names, entries = last.partition.squares()
    inner = levels > level
    levels, names, entries = levels[inner], names[inner], entries[inner]
    if not len(names):
        return TreeDensity.from_mass(grid, np.full(len(codes), level), codes, mass)
    square = np.searchsorted(codes, names >> (2 * (levels - level)))
    areas = node_areas(grid, levels, names)
    weight = (np.maximum(last.values, 0.0) / last.partition.region_areas)[entries] * areas
    whole = np.bincount(square, weight, len(codes))
    # A square in which all counts are 0 gets a constant density.
    flat = np.bincount(square, areas, len(codes))
    part = np.where(whole[square] > 0, weight / np.maximum(whole[square], 1e-300), areas / flat[square])
    cut = np.zeros(len(codes), dtype=np.bool_)
    cut[square] = True
    return TreeDensity.from_mass(
        grid,
        np.concatenate([np.full((~cut).sum(), level), levels]),
        np.concatenate([codes[~cut], names]),
        np.concatenate([mass[~cut], mass[square] * part]),
    )


def _square_shape(grid: Grid, level: int) -> tuple[int, int]:
    side = 1 << (grid.depth - level)
    return -(-grid.rows // side), -(-grid.cols // side)


def _square_codes(grid: Grid, level: int) -> Integers:
    """The codes of all squares of a quadtree level, row by row."""
    return cell_codes(grid.resized(_square_shape(grid, level)))


def _normals(randomness: Randomness, count: int) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri((randomness.uniforms(count) + 2.0**-54).clip(2.0**-54, 1 - 2.0**-54)))
