"""Smooth maps from linear measurements: the most probable density under a prior, and others that fit as well.

A measurement is a noisy number whose mean is linear in the density: the tally of an outcome in the local model, the
sum over a region in the distributed model. The logarithm of the density has the prior of :class:`LogPyramid`. A map is
found in four steps:

1. Roughness. The prior's ``fall`` says how quickly detail loses height. It is learned by cross-validation: the map is
   fitted to a part of the measurements, and the fall is chosen that predicts the rest best (:func:`learn_prior`).
2. Map. The most probable density is found on a coarse grid by L-BFGS over the knots of the prior
   (:meth:`MapProblem.solve`).
3. Detail. The same problem is solved on finer and finer grids, each starting from the result before
   (:func:`refine`).
4. Uncertainty. Maps are drawn from the posterior on the coarse grid: each is the most probable map after fresh noise
   was added to the measurements and to the prior's mean (:meth:`SmoothMap.draws`). This is exact for a linear model.

Everything here is post-processing of numbers that are private already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from heathaze.inference.log_pyramid import LogPyramid
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.types import Floats

HEIGHT = 8.0
"""Height of the prior's coarsest surface: one quarter of the map may hold thousands of times as much as another."""

Cost = Callable[[Floats], tuple[float, Floats]]
"""A function that gives its value and its gradient."""

Normals = Callable[[Randomness, int], Floats]
"""A function that draws so many standard normal numbers."""

DensityT = TypeVar("DensityT")


class Measurements(Protocol):
    """Noisy numbers whose means are linear in a density."""

    def misfit(self, likely: Floats | None) -> Cost:
        """Minus the log-likelihood of a density (rows × columns), and its gradient.

        Args:
            likely: A density near the result, from which variances may be taken; None before the first fit.
        """

    def repeated(self, density: Floats, randomness: Randomness) -> Measurements:
        """The same measurements with fresh noise on top; ``density`` is the fitted one."""


@dataclass(frozen=True, eq=False)
class MapProblem:
    """The most probable density for some measurements under a prior."""

    parts: Sequence[Measurements]
    prior: LogPyramid

    def solve(self, start: Floats, *, steps: int, repeats: int = 1, mean: Floats | None = None) -> Floats:
        """Minimise  misfit(f(z)) + ½ |z − mean|²  over the knots z of log f.

        Args:
            start: The knots to start from.
            steps: The most steps of one minimisation.
            repeats: How often to minimise; before each time the variances are taken from the last result.
            mean: The prior's mean; zero if left out.

        Returns:
            The knots of the most probable density.
        """
        centre = np.zeros(self.prior.size) if mean is None else mean
        knots = start
        for _ in range(repeats):
            likely = self.prior.density(knots) if knots.any() else None
            misfits = [part.misfit(likely) for part in self.parts]

            def cost(knots: Floats, misfits: Sequence[Cost] = misfits) -> tuple[float, Floats]:
                density = self.prior.density(knots)
                away = knots - centre
                value, slope = 0.5 * float((away * away).sum()), np.zeros(density.shape)
                for misfit in misfits:
                    more, pull = misfit(density)
                    value += more
                    slope += pull
                return value, away + self.prior.adjoint(density * (slope - (density * slope).sum()))

            knots = minimise(cost, knots, steps=steps)
        return knots


@dataclass(frozen=True, eq=False)
class SmoothMap(Generic[DensityT]):
    """A fitted density, its prior, and what is needed to draw other maps that fit as well.

    Args:
        density: The fitted density, in the form that the model uses.
        prior: The prior on the finest grid that was fitted.
        problem: The problem on the coarse grid.
        knots: The solution of that problem.
        normals: How normal numbers are drawn.
        steps: The most steps for one drawn map.
    """

    density: DensityT
    prior: LogPyramid
    problem: MapProblem
    knots: Floats
    normals: Normals
    steps: int

    def draws(self, count: int, randomness: Randomness | None = None) -> Iterator[Floats]:
        """Draw maps from the posterior.

        Args:
            count: How many maps.
            randomness: A source of random bits; always the same one if left out, so that draws can be repeated.

        Returns:
            Densities on the coarse grid, each summing to 1.
        """
        source = Simulation(0) if randomness is None else randomness
        return (self._draw(source) for _ in range(count))

    def _draw(self, randomness: Randomness) -> Floats:
        prior = self.problem.prior
        density = prior.density(self.knots)
        again = MapProblem([part.repeated(density, randomness) for part in self.problem.parts], prior)
        mean = self.normals(randomness, prior.size)
        return prior.density(again.solve(self.knots, mean=mean, steps=self.steps))


def learn_prior(
    shape: tuple[int, int],
    falls: Sequence[float],
    trials: Sequence[tuple[Sequence[Measurements], Callable[[Floats], float]]],
    *,
    steps: int,
    repeats: int = 1,
) -> LogPyramid:
    """The prior under which a part of the measurements predicts the rest best.

    Args:
        shape: Rows and columns of the coarse grid.
        falls: The values of the prior's fall to choose from.
        trials: Pairs of the measurements to fit and a function that scores the fitted density by the others.
        steps: As in :meth:`MapProblem.solve`.
        repeats: As in :meth:`MapProblem.solve`.

    Returns:
        The prior with the highest sum of scores.
    """

    def score(prior: LogPyramid) -> float:
        total = 0.0
        for parts, judge in trials:
            knots = MapProblem(parts, prior).solve(np.zeros(prior.size), steps=steps, repeats=repeats)
            total += judge(prior.density(knots))
        return total

    return max((LogPyramid(shape, HEIGHT, fall) for fall in falls), key=score)


def refine(
    prior: LogPyramid, knots: Floats, finer: Iterable[tuple[tuple[int, int], Sequence[Measurements], int]]
) -> tuple[LogPyramid, Floats]:
    """Solve the same problem on finer and finer grids. Each starts from the result before, so it needs few steps.

    Args:
        prior: The prior on the coarse grid.
        knots: The solution there.
        finer: For each finer grid its shape, the measurements as seen on it, and the most steps.

    Returns:
        The prior on the finest grid, and the solution there.
    """
    for shape, parts, steps in finer:
        sharper = LogPyramid(shape, HEIGHT, prior.fall)
        knots = MapProblem(parts, sharper).solve(sharper.lifted(knots, prior), steps=steps)
        prior = sharper
    return prior, knots


# ── minimising a smooth function of many numbers ────────────────────────────────────────────────────────────────────

_MEMORY = 8
"""Earlier steps that shape the next."""

_ENOUGH = 1e-4
"""Part of the promised decrease that a step must bring (Armijo)."""


def minimise(cost: Cost, start: Floats, *, steps: int, tolerance: float = 1e-10) -> Floats:
    """Minimise a smooth function by limited-memory BFGS (Nocedal 1980).

    scipy has the same method. Its inner products go through a threaded BLAS, whose threads wait for each other on a
    busy machine and then take many times as long as the function itself. Here they stay in one thread.

    Args:
        cost: Value and gradient of the function.
        start: Where to begin.
        steps: The most steps.
        tolerance: Stop when a step lowers the value by less than this part of it.

    Returns:
        The point with the lowest value that was found.

    >>> minimise(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.zeros(2), steps=20).round(6).tolist()
    [3.0, 3.0]
    """
    here = start
    value, slope = cost(here)
    earlier: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    for _ in range(steps):
        direction = -_bent(slope, earlier)
        steep = _inner(direction, slope)
        if steep >= 0:  # rounding has spoilt what was remembered
            earlier.clear()
            direction, steep = -slope, -_inner(slope, slope)
        if steep == 0:
            break
        # A remembered curvature makes 1 the right length; without one, a length of 1 at most.
        length = 1.0 if earlier else min(1.0, (-steep) ** -0.5)
        there, lower, slope_there = _along(cost, here, value, direction, steep, length)
        if lower >= value:
            break
        moved, turned = there - here, slope_there - slope
        curvature = _inner(moved, turned)
        if curvature > 1e-10 * _inner(turned, turned):
            earlier.append((moved, turned, 1 / curvature))
        done = value - lower <= tolerance * max(abs(lower), 1.0)
        here, value, slope = there, lower, slope_there
        if done:
            break
    return here


def _along(
    cost: Cost, here: Floats, value: float, direction: Floats, steep: float, length: float
) -> tuple[Floats, float, Floats]:
    """A point along the direction where the cost is lower by enough; lengths are tried, each shorter than the last."""
    there, found, slope = here, value, direction
    for _ in range(20):
        there = here + length * direction
        found, slope = cost(there)
        if found <= value + _ENOUGH * length * steep:
            break
        # The least point of the parabola through what is known, kept within bounds.
        best = -steep * length**2 / (2 * (found - value - steep * length)) if np.isfinite(found) else 0.0
        length = min(max(best, 0.1 * length), 0.5 * length)
    return there, found, slope


def _bent(slope: Floats, earlier: deque[tuple[Floats, Floats, float]]) -> Floats:
    """The slope times an inverse curvature made of earlier steps: the two-loop recursion."""
    bent = slope.copy()
    parts = []
    for moved, turned, weight in reversed(earlier):
        part = weight * _inner(moved, bent)
        bent -= part * turned
        parts.append(part)
    if earlier:
        _, turned, weight = earlier[-1]
        bent /= weight * _inner(turned, turned)
    for (moved, turned, weight), part in zip(earlier, reversed(parts), strict=True):
        bent += (part - weight * _inner(turned, bent)) * moved
    return bent


def _inner(first: Floats, second: Floats) -> float:
    """Inner product without BLAS."""
    return float(np.einsum("i,i->", first, second))
