"""Smooth maps from linear measurements: the most probable density under a prior, and maps drawn from the posterior.

A measurement is a noisy number whose mean is linear in the density: the tally of an outcome in the local model, or the
sum over a region in the distributed model. The logarithm of the density has the prior of :class:`LogPyramid`. A map is
found in four steps:

1. Roughness. The prior's ``fall`` says how quickly the height of detail decreases from level to level. It is learned by
   cross-validation: maps with different falls are fitted to one part of the measurements, and the fall that predicts
   the other part best is chosen (:func:`learn_prior`).
2. Map. The most probable density is found on a coarse grid by L-BFGS over the knots of the prior
   (:meth:`MapProblem.solve`).
3. Detail. The same problem is solved on finer and finer grids; each solution is the starting point on the next grid
   (:func:`refine`).
4. Uncertainty. Maps are drawn from the posterior on the coarse grid. A drawn map is the most probable map after fresh
   noise was added to the measurements and to the prior's mean (:meth:`SmoothMap.draws`). This is exact for a linear
   model.

All of this is post-processing of numbers that already have noise.
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

MEMORY = 8
"""The number of earlier steps from which L-BFGS estimates the curvature. More steps converge sooner and cost more."""

Cost = Callable[[Floats], tuple[float, Floats]]
"""A function that returns the value and the gradient of a cost."""

Normals = Callable[[Randomness, int], Floats]
"""A function that draws a given number of standard normal numbers."""

DensityT = TypeVar("DensityT")


class Measurements(Protocol):
    """Noisy numbers whose means are linear in a density."""

    def misfit(self, likely: Floats | None) -> Cost:
        """Return a function of the density (rows × columns): minus the log-likelihood of the measurements.

        Args:
            likely: A density near the result, from which variances may be taken; None before the first fit.
        """

    def repeated(self, density: Floats, randomness: Randomness) -> Measurements:
        """Add fresh noise to the measurements, to draw another map; ``density`` is the fitted density."""


@dataclass(frozen=True, eq=False)
class MapProblem:
    """The most probable map under a prior, for measurements that are linear in the density, as a problem to solve.

    Args:
        parts: The measurements.
        prior: The prior of the density.
        memory: How many earlier steps the minimisation remembers.
    """

    parts: Sequence[Measurements]
    prior: LogPyramid
    memory: int = MEMORY

    def solve(self, start: Floats, *, steps: int, repeats: int = 1, mean: Floats | None = None) -> Floats:
        """Find the knots z of the most probable log-density: minimise  misfit(f(z)) + ½ |z − mean|².

        Args:
            start: The knots to start from.
            steps: The most steps of one minimisation.
            repeats: The number of minimisations. Each takes the variances of the measurements from the last result.
            mean: The prior's mean of the knots; zero if left out.

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

            knots = minimise(cost, knots, steps=steps, memory=self.memory)
        return knots


@dataclass(frozen=True, eq=False)
class SmoothMap(Generic[DensityT]):
    """A fitted density with its prior; :meth:`draws` draws other maps from the posterior.

    Args:
        density: The fitted density, in the form that the model uses.
        prior: The prior on the finest grid that was fitted.
        problem: The problem on the coarse grid.
        knots: The solution of that problem.
        normals: The function that draws normal numbers.
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
            count: The number of maps.
            randomness: The source of random bits; a fixed seed if left out, so that the draws can be repeated.

        Returns:
            Densities on the coarse grid, each summing to 1.
        """
        source = Simulation(0) if randomness is None else randomness
        return (self._draw(source) for _ in range(count))

    def _draw(self, randomness: Randomness) -> Floats:
        prior = self.problem.prior
        density = prior.density(self.knots)
        fresh = [part.repeated(density, randomness) for part in self.problem.parts]
        again = MapProblem(fresh, prior, self.problem.memory)
        mean = self.normals(randomness, prior.size)
        return prior.density(again.solve(self.knots, mean=mean, steps=self.steps))


def learn_prior(
    shape: tuple[int, int],
    falls: Sequence[float],
    trials: Sequence[tuple[Sequence[Measurements], Callable[[Floats], float]]],
    *,
    steps: int,
    repeats: int = 1,
    memory: int = MEMORY,
) -> LogPyramid:
    """Learn the prior of a map by cross-validation: one part of the measurements should predict the other part best.

    Args:
        shape: Rows and columns of the coarse grid.
        falls: The candidates for the prior's fall.
        trials: Pairs of measurements to fit, and a function that scores the fitted density by the other measurements.
        steps: As in :meth:`MapProblem.solve`.
        repeats: As in :meth:`MapProblem.solve`.
        memory: As in :class:`MapProblem`.

    Returns:
        The prior with the highest sum of scores.
    """

    def score(prior: LogPyramid) -> float:
        total = 0.0
        for parts, judge in trials:
            knots = MapProblem(parts, prior, memory).solve(np.zeros(prior.size), steps=steps, repeats=repeats)
            total += judge(prior.density(knots))
        return total

    return max((LogPyramid(shape, HEIGHT, fall) for fall in falls), key=score)


def refine(
    prior: LogPyramid, knots: Floats, finer: Iterable[tuple[tuple[int, int], Sequence[Measurements], int]]
) -> tuple[LogPyramid, Floats]:
    """Refine a fitted map: solve the same problem on finer and finer grids, each from the solution on the grid before.

    Args:
        prior: The prior on the coarse grid.
        knots: The solution on the coarse grid.
        finer: For each finer grid its shape, the measurements as functions on this grid, and the most steps.

    Returns:
        The prior and the solution on the finest grid.
    """
    for shape, parts, steps in finer:
        sharper = LogPyramid(shape, HEIGHT, prior.fall)
        knots = MapProblem(parts, sharper).solve(sharper.lifted(knots, prior), steps=steps)
        prior = sharper
    return prior, knots


# ── minimising a smooth function of many numbers ────────────────────────────────────────────────────────────────────

_ENOUGH = 1e-4
"""A step must lower the cost by at least this fraction of the decrease that the gradient predicts (Armijo)."""


def minimise(cost: Cost, start: Floats, *, steps: int, tolerance: float = 1e-10, memory: int = MEMORY) -> Floats:
    """Minimise a smooth function by limited-memory BFGS (Nocedal 1980).

    scipy has the same method, but computes inner products in several BLAS threads. On a busy machine these threads wait
    for each other and take many times as long as the function itself. Here inner products are computed in one thread.

    Args:
        cost: Value and gradient of the function.
        start: The starting point.
        steps: The most steps.
        tolerance: Stop if a step lowers the value by less than this fraction of the value.
        memory: How many earlier steps to remember.

    Returns:
        The point with the lowest value that was found.

    >>> minimise(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.zeros(2), steps=20).round(6).tolist()
    [3.0, 3.0]
    """
    here = start
    value, slope = cost(here)
    earlier: deque[tuple[Floats, Floats, float]] = deque(maxlen=memory)
    for _ in range(steps):
        direction = -_bent(slope, earlier)
        steep = _inner(direction, slope)
        if steep >= 0:  # rounding errors have spoilt the remembered curvature
            earlier.clear()
            direction, steep = -slope, -_inner(slope, slope)
        if steep == 0:
            break
        # With a remembered curvature, 1 is the right length of a step. Without one, the step moves by at most 1.
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
    """Search along a direction for a point with a sufficiently lower cost, with shorter and shorter steps."""
    there, found, slope = here, value, direction
    for _ in range(20):
        there = here + length * direction
        found, slope = cost(there)
        if found <= value + _ENOUGH * length * steep:
            break
        # The next length is the minimum of the parabola through the known values and slope, within bounds.
        best = -steep * length**2 / (2 * (found - value - steep * length)) if np.isfinite(found) else 0.0
        length = min(max(best, 0.1 * length), 0.5 * length)
    return there, found, slope


def _bent(slope: Floats, earlier: deque[tuple[Floats, Floats, float]]) -> Floats:
    """Multiply the gradient by the inverse curvature estimated from earlier steps (two-loop recursion of L-BFGS)."""
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
    """Compute an inner product in one thread, without BLAS."""
    return float(np.einsum("i,i->", first, second))
