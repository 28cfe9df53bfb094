"""The map that tallies of local reports tell: as detailed as they can show and no more, and how sure it is.

Converged EM overfits: reports of a window tell neighbouring cells apart only by the window's rim, so on a fine grid the
likeliest density is a field of spikes. Here the logarithm of the density has a prior (log_pyramid.py) whose roughness
is learned from the tallies themselves:

1. Roughness: how quickly detail loses height, so that a map fitted to most of the tallies foretells the rest best.
2. Map: the most probable density under that prior (L-BFGS over its knots).
3. Polish: a few EM steps. What reports determine well, they settle in these; what they do not is left as it is.
4. Doubt: maps drawn from the posterior, each the most probable one for tallies and prior means shaken by their own
   noise (exact for a linear model). Their spread is what the reports leave open.

Everything is post-processing of reports that are private already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.inference.linear_map import minimise
from heathaze.inference.log_pyramid import LogPyramid
from heathaze.local.channels import Channel, Convolution
from heathaze.local.expectation_maximisation import expectation_maximisation
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.types import Floats

COARSE = 64
"""Cells a side on which roughness is learned and maps are drawn; finer detail than this is the prior's alone."""

POLISH = 30
"""EM steps at the end."""

KEPT = 0.7
"""Part of the tallies that a map is fitted to while the roughness is learned; the rest judges it."""

HEIGHT = 8.0
"""Of the coarsest surface: one quarter of the box may well hold thousands of times as much as another."""

_FALLS = (0.35, 0.45, 0.55, 0.65)
"""How quickly detail loses height: from gentle hills to the streets of a city. The best of these is learned."""


_MANY = 1e8
"""From here on a count is normal to all digits that matter, and scipy's inverse of its law begins to fail."""


@dataclass(frozen=True, eq=False)
class SmoothMap:
    """A fitted density (rows × columns, sum 1), its prior, and what is needed to draw others like it."""

    density: Floats
    prior: LogPyramid
    _problem: _Problem
    _knots: Floats

    def draws(self, count: int, randomness: Randomness | None = None) -> Iterator[Floats]:
        """Maps that the tallies could have come from, on at most :data:`COARSE` cells a side."""
        source = Simulation(0) if randomness is None else randomness
        return (self._problem.draw(self._knots, source) for _ in range(count))


def smooth_map(channel: Channel, tallies: npt.ArrayLike) -> SmoothMap:
    """Fit a map to tallies.

    >>> from heathaze.local.channels import Dense
    >>> coin = Dense((1, 2), np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> smooth_map(coin, [70_000, 30_000]).density.round(2).tolist()
    [[0.75, 0.25]]
    """
    counts = np.asarray(tallies, dtype=np.float64).ravel()
    coarse, *finer = _from_coarse_to_fine(channel, counts)
    fall = _learn_fall(*coarse)
    problem = _Problem(*coarse, LogPyramid(coarse[0].shape, HEIGHT, fall))
    knots = coarse_knots = problem.solve(np.zeros(problem.prior.size))
    prior = problem.prior
    for views in finer:
        # What is settled coarsely is settled cheaply: a finer view begins where the coarser one ended.
        sharper = _Problem(*views, LogPyramid(views[0].shape, HEIGHT, fall))
        knots = sharper.solve(sharper.prior.lifted(knots, prior), steps=_steps(views[0]))
        prior = sharper.prior
    fitted = prior.density(knots)
    polished = expectation_maximisation(channel, counts, start=fitted, steps=POLISH, tolerance=0.0, accelerate=False)
    return SmoothMap(polished.density, prior, problem, coarse_knots)


class _Problem:
    """The most probable density for tallies under a prior."""

    def __init__(self, channel: Channel, counts: Floats, prior: LogPyramid) -> None:
        self.channel, self.counts, self.prior = channel, counts, prior

    def solve(
        self, start: Floats, *, mean: Floats | None = None, counts: Floats | None = None, steps: int = 300
    ) -> Floats:
        """Minimise  −Σ n log(fᵀM) + ½ |z − mean|²  over the knots z of log f."""
        tallied = self.counts if counts is None else counts
        found = np.flatnonzero(tallied)
        seen = tallied[found]
        ratio = np.zeros(self.channel.outcomes)
        centre = np.zeros(self.prior.size) if mean is None else mean

        def cost(knots: Floats) -> tuple[float, Floats]:
            density = self.prior.density(knots)
            expected = self.channel.forward(density)[found]
            ratio[found] = seen / expected
            pull = self.channel.backward(ratio)
            slopes = density * (pull - (density * pull).sum())
            away = knots - centre
            value = -float((seen * np.log(expected)).sum()) + 0.5 * float((away * away).sum())
            return value, away - self.prior.adjoint(slopes)

        return minimise(cost, start, steps=steps)

    def draw(self, knots: Floats, randomness: Randomness) -> Floats:
        """One density that the tallies could have come from."""
        from scipy.special import ndtri, pdtrik

        found = np.flatnonzero(self.counts)
        shaken = np.zeros_like(self.counts)
        # Inverse distribution functions: a Poisson number for each tally, a normal one for each knot.
        uniforms, tallied = _inner(randomness, found.size), self.counts[found]
        few = np.ceil(np.maximum(pdtrik(uniforms, np.minimum(tallied, _MANY)), 0.0))
        shaken[found] = np.where(tallied < _MANY, few, tallied + np.sqrt(tallied) * ndtri(uniforms))
        mean = ndtri(_inner(randomness, self.prior.size))
        return self.prior.density(self.solve(knots, mean=mean, counts=shaken, steps=100))


def _from_coarse_to_fine(channel: Channel, counts: Floats) -> list[tuple[Channel, Floats]]:
    """The same tallies on at most :data:`COARSE` cells a side, on twice as many, and so on up to the grid's own."""
    halvings = max(0, math.ceil(math.log2(max(channel.shape) / COARSE)))
    views: list[tuple[Channel, Floats]] = [(channel, counts)]
    if isinstance(channel, Convolution):
        for power in range(1, halvings + 1):
            merged, outcome = channel.merged(2**power)
            views.append((merged, np.asarray(np.bincount(outcome, counts, merged.outcomes), dtype=np.float64)))
    return views[::-1]


def _steps(channel: Channel) -> int:
    """How many steps to take on a view: fewer where each is dear, since coarser ones have done most."""
    return max(20, min(200, round(200 * (2 * COARSE / max(channel.shape)) ** 2)))


def _learn_fall(channel: Channel, counts: Floats) -> float:
    """The fall under which most of the tallies foretell the rest best, in two ways of dividing them."""
    parts = [_divided(counts, Simulation(seed)) for seed in (0, 1)]

    def foretold(fall: float) -> float:
        prior = LogPyramid(channel.shape, HEIGHT, fall)
        gained = 0.0
        for kept, rest in parts:
            knots = _Problem(channel, kept, prior).solve(np.zeros(prior.size), steps=150)
            judged = np.flatnonzero(rest)
            expected = channel.forward(prior.density(knots))[judged]
            gained += float((rest[judged] * np.log(expected)).sum())
        return gained

    return max(_FALLS, key=foretold)


def _divided(counts: Floats, randomness: Randomness) -> tuple[Floats, Floats]:
    """A binomial part of each tally, by the inverse distribution function, and what is left of it."""
    from scipy.special import bdtrik, ndtri

    found = np.flatnonzero(counts)
    kept = np.zeros_like(counts)
    uniforms, whole = _inner(randomness, found.size), counts[found]
    few = np.ceil(bdtrik(uniforms, np.minimum(whole, _MANY), KEPT))
    many = np.round(KEPT * whole + np.sqrt(KEPT * (1 - KEPT) * whole) * ndtri(uniforms))
    kept[found] = np.clip(np.where(whole < _MANY, few, many), 0.0, whole)
    return kept, counts - kept


def _inner(randomness: Randomness, count: int) -> Floats:
    """Uniform numbers strictly between 0 and 1."""
    return np.maximum(randomness.uniforms(count), 2.0**-53)
