"""The posterior sampler of sources: annealed sequential Monte Carlo (Del Moral, Doucet and Jasra 2006).

A particle is one set of sources. Particles begin as draws from the prior. The likelihood is then raised to a power β
that grows from 0 to 1. Each stage increases β until the effective sample size is half the number of particles,
resamples the particles by their weights, and moves the particles so that copies differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heathaze.privacy.randomness import Randomness
from heathaze.sensors.recovery._moves import Moves
from heathaze.sensors.recovery._prior import Prior
from heathaze.sensors.recovery._space import Particles, Space
from heathaze.types import Floats, Integers

_LEAST_EFFECTIVE = 0.5
"""Smallest effective sample size after a stage, as a fraction of the number of particles."""

_SURPRISE = 6.0
"""Number of standard deviations by which the best particle's misfit may exceed the misfit that noise explains."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Result of the sampler: particles from the posterior.

    Attributes:
        particles: The particles.
        widened: Factor, 1 or larger, by which the noise was assumed larger.
        stages: Number of times that β was increased.
        evidence: Logarithm of the Bayes factor of "some sources" against "no source".
    """

    particles: Particles
    widened: float
    stages: int
    evidence: float


def sample(
    space: Space,
    prior: Prior,
    readings: Floats,
    bits: Randomness,
    *,
    count: int,
    unseen: float,
    rows: int,
    sweeps: int = 2,
    last: int = 6,
) -> Sampled:
    """Draw particles from the posterior of sources.

    Sometimes no sources explain the readings, because the physics is not exact or there are more sources than allowed.
    Then the noise is assumed to be larger, so that intervals are not too narrow: annealing ends at a β < 1 with

        β · (misfit of the best particle) = m + 6·√(2m) + 36   for m readings.

    Args:
        space: The space of possible places.
        prior: The prior of the number and the strengths of sources.
        readings: Readings scaled to noise 1 and projected like the space's columns, shape (directions,).
        bits: Source of random numbers.
        count: Number of particles.
        unseen: Squared length of the part of the readings that the projection removes and no source explains.
        rows: Number of readings before the projection.
        sweeps: Number of rounds of moves in each stage.
        last: Number of rounds of moves at the end.
    """
    found = Particles.drawn(space, prior, readings, count, bits)
    moves = Moves(space, prior, bits, beta=0.0)
    silent = float(readings @ readings)
    stages, evidence = 0, 0.0
    while moves.beta < 1:
        misfit = found.misfit()
        # Upper limit of a chi-square variable with one degree of freedom for each reading.
        allowed = rows + _SURPRISE * math.sqrt(2 * rows) + _SURPRISE**2
        least = float(misfit.min()) + unseen
        if moves.beta * least > allowed:
            break
        next_beta = _next_beta(misfit, moves.beta, min(1.0, allowed / least * 1.01 if least > allowed else 1.0))
        weights = (moves.beta - next_beta) / 2 * (misfit - misfit.min())
        # Without sources the misfit is ‖readings‖².
        evidence += float(np.log(np.exp(weights).mean()) + (next_beta - moves.beta) / 2 * (silent - misfit.min()))
        found = found.chosen(_resampled(weights, bits))
        moves.beta = next_beta
        found.settle()
        for _ in range(sweeps):
            moves.sweep(found)
        stages += 1
    for _ in range(last):
        moves.sweep(found)
    found.settle()
    return Sampled(found, 1 / math.sqrt(moves.beta), stages, evidence)


def _next_beta(misfit: Floats, beta: float, most: float) -> float:
    """Find the largest next β, up to ``most``, that keeps the effective sample size of the particles."""
    above = misfit - misfit.min()

    def effective(step: float) -> float:
        weights = np.exp(-step / 2 * above)
        return float(weights.sum() ** 2 / (weights**2).sum() / len(above))

    if effective(most - beta) >= _LEAST_EFFECTIVE:
        return most
    # Bisection on the logarithm of the step, because steps may be many orders of magnitude smaller than 1.
    big = math.log(most - beta)
    small = big - 80
    for _ in range(60):
        middle = (small + big) / 2
        small, big = (middle, big) if effective(math.exp(middle)) >= _LEAST_EFFECTIVE else (small, middle)
    return min(most, beta + math.exp(small))


def _resampled(log_weights: Floats, bits: Randomness) -> Integers:
    """Resample particles by their weights (systematic resampling: evenly spaced points of the running sum)."""
    running = np.cumsum(np.exp(log_weights - log_weights.max()))
    count = len(running)
    marks = (np.arange(count) + bits.uniforms(1)[0]) / count * running[-1]
    return np.asarray(np.minimum(np.searchsorted(running, marks, side="right"), count - 1))
