"""The map that noisy sums over regions tell: every round of a survey at once, as detailed as they can show.

Each round cut the map into other regions and learned how many people each holds, with noise. Here they all speak about
one density, whose logarithm has the prior of log_pyramid.py:

    y ~ N(n·F, σ² + n·F(1 − F)),   F = share of the density in a region, n = people asked, σ² = variance of the noise.

The second part of the variance is chance: those asked are a sample of those the map is about. Rounds with little noise
weigh more, and neighbouring regions inform each other. How quickly detail loses height is learned: the value under
which part of the regions foretells the rest best. Where the last round knows better than the fit, it is right.
Everything is post-processing of numbers that are private already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heathaze.domain.density import TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition, cell_codes, square_areas
from heathaze.errors import InvalidInput
from heathaze.inference.linear_map import minimise
from heathaze.inference.log_pyramid import LogPyramid
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.types import Floats, Integers

HEIGHT = 8.0
"""Of the coarsest surface: one quarter of the map may well hold thousands of times as much as another."""

_FALLS = (0.5, 0.6, 0.65, 0.7)
"""How quickly detail loses height; the best of these is learned."""

_COARSE = 6
"""Level on which roughness is learned and maps are drawn: 64 squares a side."""

_FINE = 8
"""Level that is always fitted, if the grid is so fine: 256 squares a side. The prior smooths across regions there."""

_FINEST = 9
"""Finest level that is fitted, where regions are small. Still smaller ones divide their square as their sums say."""


@dataclass(frozen=True, eq=False)
class NoisyRegions:
    """What one round told: the noisy number of people in every region of a partition. Public.

    ``variance`` is that of the noise of each number, ``people`` how many were asked and answered.
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
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, eq=False)
class RegionMap:
    """A fitted density and what is needed to draw others that the sums could have come from."""

    density: TreeDensity
    prior: LogPyramid
    _problem: _Problem
    _knots: Floats

    def draws(self, count: int, randomness: Randomness | None = None) -> Iterator[Floats]:
        """Maps that the sums could have come from, on at most 64 squares a side."""
        source = Simulation(0) if randomness is None else randomness
        return (self._problem.draw(self._knots, source) for _ in range(count))


def region_map(rounds: Sequence[NoisyRegions]) -> RegionMap:
    """Fit a map to the sums of one or more rounds, the last of them the most detailed."""
    if not rounds:
        raise InvalidInput("There are no sums to make a map from.")
    grid = rounds[-1].partition.grid
    deepest = max(int(told.partition.levels.max()) for told in rounds)
    coarse = min(grid.depth, _COARSE)
    finest = min(grid.depth, _FINEST, max(_FINE, deepest + 1))
    views = [_View.of(told, coarse) for told in rounds]
    fall = _learn_fall(views, _square_shape(grid, coarse))
    problem = _Problem(views, LogPyramid(_square_shape(grid, coarse), HEIGHT, fall))
    knots = coarse_knots = problem.solve(np.zeros(problem.prior.size))
    prior = problem.prior
    for level in range(coarse + 1, finest + 1):
        # What is settled coarsely is settled cheaply: a finer view begins where the coarser one ended.
        views = [_View.of(told, level) for told in rounds]
        finer = _Problem(views, LogPyramid(_square_shape(grid, level), HEIGHT, fall))
        knots = finer.solve(finer.prior.lifted(knots, prior), repeats=1, steps=100 if level <= _FINE else 40)
        prior = finer.prior
    fitted = _settled(views[-1], prior.density(knots))
    return RegionMap(_with_detail(rounds[-1], finest, fitted), problem.prior, problem, coarse_knots)


# ── the squares of one level ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class _View:
    """One round seen on the squares of a level: which region each square belongs to.

    A square that regions cut through is a region of its own here, and holds what the regions inside it hold.
    """

    labels: Integers
    values: Floats
    noise: Floats
    people: float

    @classmethod
    def of(cls, told: NoisyRegions, level: int) -> _View:
        partition = told.partition
        grid = partition.grid
        codes = _square_codes(grid, level)
        labels = partition.locate(codes << (2 * (grid.depth - level)))
        levels, names, entries = partition.squares()
        inner = levels > level
        levels, names, entries = levels[inner], names[inner], entries[inner]
        cut, square = np.unique(names >> (2 * (levels - level)), return_inverse=True)
        # A region of which a cut square holds a part, by area, has that part of its people there.
        pairs, pair = np.unique(entries * len(cut) + square, return_inverse=True)
        part = np.bincount(pair, square_areas(grid, levels, names) / partition.region_areas[entries])
        region, into = np.divmod(pairs, max(len(cut), 1))
        rest = 1 - np.bincount(region, part, len(partition))
        values = np.concatenate([rest * told.values, np.bincount(into, part * told.values[region], len(cut))])
        noise = told.variance * np.concatenate([rest**2, np.bincount(into, part**2, len(cut))])
        here = np.minimum(np.searchsorted(cut, codes), max(len(cut) - 1, 0))
        is_cut = np.isin(codes, cut)
        labels = np.where(is_cut, len(partition) + here, labels)
        kept = np.bincount(labels, minlength=len(values)) > 0
        number = np.cumsum(kept) - 1
        return cls(number[labels], values[kept], noise[kept], told.people)

    def expected(self, density: Floats) -> Floats:
        """People in every region, if a density is the truth."""
        return np.asarray(self.people * np.bincount(self.labels, density.ravel(), len(self.values)))

    def variance(self, expected: Floats) -> Floats:
        """Of every value: noise, and the chance of who was asked."""
        inside = np.clip(expected, 0.0, self.people)
        return self.noise + np.maximum(inside * (1 - inside / self.people), 1.0)


class _Problem:
    """The most probable density for some views under a prior."""

    def __init__(self, views: Sequence[_View], prior: LogPyramid) -> None:
        self.views, self.prior = views, prior

    def solve(
        self,
        start: Floats,
        *,
        mean: Floats | None = None,
        values: Sequence[Floats] | None = None,
        repeats: int = 3,
        steps: int = 100,
    ) -> Floats:
        """Minimise  Σ (y − n·F)² / 2v + ½ |z − mean|²  over the knots z; v follows the fit a few times."""
        told = [view.values for view in self.views] if values is None else values
        centre = np.zeros(self.prior.size) if mean is None else mean
        knots: Floats = start
        for _ in range(repeats):
            density = self.prior.density(knots)
            # At first there is no fit to follow, only what was told.
            likely = [
                view.expected(density) if knots.any() else value for view, value in zip(self.views, told, strict=True)
            ]
            weights = [1 / view.variance(value) for view, value in zip(self.views, likely, strict=True)]

            def cost(knots: Floats, weights: Sequence[Floats] = weights) -> tuple[float, Floats]:
                density = self.prior.density(knots)
                away = knots - centre
                value, pull = 0.5 * float((away * away).sum()), np.zeros(density.size)
                for view, found, weight in zip(self.views, told, weights, strict=True):
                    miss = view.expected(density) - found
                    value += 0.5 * float((weight * miss * miss).sum())
                    pull += (view.people * weight * miss)[view.labels]
                slopes = pull.reshape(density.shape)
                return value, away + self.prior.adjoint(density * (slopes - (density * slopes).sum()))

            knots = minimise(cost, knots, steps=steps)
        return knots

    def draw(self, knots: Floats, randomness: Randomness) -> Floats:
        """One density that the sums could have come from: exact where the model is linear."""
        density = self.prior.density(knots)
        shaken = []
        for view in self.views:
            deviation = np.sqrt(view.variance(view.expected(density)))
            shaken.append(view.values + deviation * _normal(randomness, len(view.values)))
        mean = _normal(randomness, self.prior.size)
        return self.prior.density(self.solve(knots, mean=mean, values=shaken, repeats=1, steps=60))


def _learn_fall(views: Sequence[_View], shape: tuple[int, int]) -> float:
    """The fall under which one half of the last round's regions, with the rounds before, foretells the other best."""
    *before, last = views
    coin = Simulation(0).words(len(last.values)) & np.uint64(1) == 0
    gained = []
    for fall in _FALLS:
        prior = LogPyramid(shape, HEIGHT, fall)
        gain = 0.0
        for kept in (coin, ~coin):
            # What is left out gets a noise that drowns it.
            blind = replace(last, noise=np.where(kept, last.noise, 1e12 * last.people**2))
            knots = _Problem([*before, blind], prior).solve(np.zeros(prior.size), repeats=2)
            expected = last.expected(prior.density(knots))[~kept]
            variance = last.noise[~kept] + np.maximum(expected, 1.0)
            gain -= float(((last.values[~kept] - expected) ** 2 / variance + np.log(variance)).sum())
        gained.append(gain)
    return _FALLS[int(np.argmax(gained))]


def _settled(last: _View, density: Floats) -> Floats:
    """The last round has the final word where it knows better: regions that the fit misses by more than chance.

    A miss beyond two standard deviations is made good by the part 1 − 4v/miss² of it (after James and Stein). Where
    there are many people the noise is small and that is nearly all; where there are few the prior stands.
    """
    expected = last.expected(density)
    miss = last.values - expected
    sure = np.maximum(0.0, 1 - 4 * last.variance(expected) / np.maximum(miss**2, 1e-300))
    # Nobody can tell less than half a deviation of the noise from nothing; without this, bad luck leaves black holes.
    least = np.minimum(expected, 0.5 * np.sqrt(last.noise))
    factor = np.maximum(expected + sure * miss, least) / np.maximum(expected, 1e-300)
    settled = density * factor[last.labels].reshape(density.shape)
    total = settled.sum()
    return np.asarray(settled / total) if total > 0 else density


def _with_detail(last: NoisyRegions, level: int, shares: Floats) -> TreeDensity:
    """Shares of squares as a density; a square cut by finer regions is divided as their sums say."""
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
    areas = square_areas(grid, levels, names)
    weight = (np.maximum(last.values, 0.0) / last.partition.region_areas)[entries] * areas
    whole = np.bincount(square, weight, len(codes))
    # Where nothing was found the square is flat.
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
    """Codes of the squares of a level, row by row."""
    return cell_codes(grid.resized(_square_shape(grid, level)))


def _normal(randomness: Randomness, count: int) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri((randomness.uniforms(count) + 2.0**-54).clip(2.0**-54, 1 - 2.0**-54)))
