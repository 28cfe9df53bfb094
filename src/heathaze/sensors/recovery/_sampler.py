"""Guesses of sources from the posterior: annealed sequential Monte Carlo (Del Moral, Doucet and Jasra 2006).

Guesses begin as draws from the prior. Readings are then heard louder and louder, each time by as much as half of the
guesses can bear; guesses that fit badly are replaced by copies of those that fit well, and moves tell copies apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heathaze.privacy.randomness import Randomness
from heathaze.sensors.recovery._moves import Moves
from heathaze.sensors.recovery._prior import Prior
from heathaze.sensors.recovery._space import Guesses, Space
from heathaze.types import Floats, Integers

_BORNE = 0.5
"""Part of the guesses that must still count after readings are heard louder (effective sample size)."""

_SURPRISE = 6.0
"""Standard deviations by which the misfit of the best guess may exceed what noise explains."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Guesses from the posterior, and by how much the noise was taken to be larger than said.

    ``evidence`` is the logarithm of how much likelier the readings are with sources, on average over the prior, than
    with none.
    """

    guesses: Guesses
    widened: float
    stages: int
    evidence: float


def sample(
    space: Space,
    prior: Prior,
    readings: Floats,
    bits: Randomness,
    *,
    guesses: int,
    unseen: float,
    rows: int,
    sweeps: int = 2,
    last: int = 6,
) -> Sampled:
    """Draw guesses.

    Args:
        space: Where sources may be.
        prior: How many and how strong they may be.
        readings: As the space's columns are: scaled to noise 1, shape (directions,).
        bits: Where random bits come from.
        guesses: How many.
        unseen: Squared length of what turning the readings left out; no source explains that.
        rows: Number of readings before turning.
        sweeps: Rounds of moves for each stage.
        last: Rounds of moves at the end.

    It may be that no sources explain the readings: the physics are not quite so, or more sources are at work. Rather
    than be falsely sure, noise is then taken to be larger, just so large that it may well leave that much unexplained:

        β · (misfit of the best guess) = m + 6·√(2m) + 36   for m readings; annealing ends at this β < 1.
    """
    found = Guesses.drawn(space, prior, readings, guesses, bits)
    moves = Moves(space, prior, bits, heat=0.0)
    silent = float(readings @ readings)
    stages, evidence = 0, 0.0
    while moves.heat < 1:
        misfit = found.misfit()
        # How many standard deviations a chi-square of so many readings may vary, and what it then allows.
        allowed = rows + _SURPRISE * math.sqrt(2 * rows) + _SURPRISE**2
        least = float(misfit.min()) + unseen
        if moves.heat * least > allowed:
            break
        louder = _louder(misfit, moves.heat, min(1.0, allowed / least * 1.01 if least > allowed else 1.0))
        weights = (moves.heat - louder) / 2 * (misfit - misfit.min())
        # Without sources all of the readings is misfit.
        evidence += float(np.log(np.exp(weights).mean()) + (louder - moves.heat) / 2 * (silent - misfit.min()))
        found = found.chosen(_resampled(weights, bits))
        moves.heat = louder
        found.settle()
        for _ in range(sweeps):
            moves.sweep(found)
        stages += 1
    for _ in range(last):
        moves.sweep(found)
    found.settle()
    return Sampled(found, 1 / math.sqrt(moves.heat), stages, evidence)


def _louder(misfit: Floats, heat: float, most: float) -> float:
    """The next heat, at most ``most``: as far as part of the guesses still counts."""
    above = misfit - misfit.min()

    def counting(step: float) -> float:
        weights = np.exp(-step / 2 * above)
        return float(weights.sum() ** 2 / (weights**2).sum() / len(above))

    if counting(most - heat) >= _BORNE:
        return most
    # Halving the exponent: steps may be many orders of magnitude smaller than 1.
    big = math.log(most - heat)
    small = big - 80
    for _ in range(60):
        middle = (small + big) / 2
        small, big = (middle, big) if counting(math.exp(middle)) >= _BORNE else (small, middle)
    return min(most, heat + math.exp(small))


def _resampled(log_weights: Floats, bits: Randomness) -> Integers:
    """Which guesses go on, evenly spaced along the running sum of their weights."""
    running = np.cumsum(np.exp(log_weights - log_weights.max()))
    count = len(running)
    marks = (np.arange(count) + bits.uniforms(1)[0]) / count * running[-1]
    return np.asarray(np.minimum(np.searchsorted(running, marks, side="right"), count - 1))
