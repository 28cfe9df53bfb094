"""The paper's second hash h₂: multiplicative weights with the exponential mechanism, with corrected constants (E2-2).

In each step the exponential mechanism chooses the number of the sum that the model gets most wrong, that number is
released with Laplace noise, and the model moves towards it. Both the choice and the number are paid for.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput, SensitivityExceeded
from heathaze.marketplace.features import Features
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Composition, PureSteps
from heathaze.privacy.loss import SMALLEST_EPSILON, Number, decimal, parse_epsilon
from heathaze.privacy.noise import discrete_laplace
from heathaze.privacy.randomness import Randomness
from heathaze.privacy.selection import exponential_choice
from heathaze.types import Floats, Integers

GRID = 128
"""Numbers of a hash lie on whole multiples of 1/128 of the greatest they can have; the paper's η is 1/128."""

_MOST_STEPS = 10**6


@dataclass(frozen=True, init=False)
class Mwem:
    """How many steps release a mean hash; each step releases one choice and one number.

    Args:
        steps: T, the steps for each mean hash, from 1 to 1,000,000.
        epsilon_per_step: ε of a choice, and of a number: a step costs both. Left out, the steps share the whole budget.

    Raises:
        InvalidInput: A number is out of range.

    >>> Mwem(100, epsilon_per_step="1/50").parameters()
    {'mechanism': 'mwem', 'steps': 100, 'epsilon_per_step': '1/50'}
    """

    steps: int
    epsilon_per_step: Fraction | None

    def __init__(self, steps: int, epsilon_per_step: Number | None = None) -> None:
        each = None if epsilon_per_step is None else parse_epsilon(epsilon_per_step, "epsilon_per_step")
        assign(self, steps=whole(steps, "steps", most=_MOST_STEPS), epsilon_per_step=each)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        epsilon = None if self.epsilon_per_step is None else str(self.epsilon_per_step)
        return {"mechanism": "mwem", "steps": self.steps, "epsilon_per_step": epsilon}


@dataclass(frozen=True)
class MwemSum:
    """Sums of hashes released by :class:`Mwem`, where one hash may be replaced. It has the methods of ``NoisySum``.

    Args:
        features: How points are hashed.
        mwem: Steps, and what each costs.
        epsilon: Privacy loss of all sums together.
        delta: Probability with which the promise may fail.
        sums: How many sums are released.
    """

    features: Features
    mwem: Mwem
    epsilon: Fraction
    delta: Fraction
    sums: int = 1

    @functools.cached_property
    def epsilon_per_step(self) -> Fraction:
        """What a choice, and a number, costs: as declared, or the most that the budget allows."""
        if self.mwem.epsilon_per_step is not None:
            declared = self.mwem.epsilon_per_step
            cost = compose([self._event(declared)], self.delta).epsilon
            if cost > self.epsilon:
                raise InvalidInput(
                    f"{self.sums} times {self.mwem.steps} steps at {decimal(declared)} cost ε = {decimal(cost)}, and "
                    f"the plan promises {decimal(self.epsilon)}; give a smaller epsilon_per_step, or leave it out."
                )
            return declared
        # Whole multiples of 2^−40: the laws below are drawn in exact rationals, and short ones are quick.
        low, high = 0, math.ceil(self.epsilon) * 2**40
        while high - low > max(1, low >> 20):
            middle = (low + high) // 2
            fits = compose([self._event(Fraction(middle, 2**40))], self.delta).epsilon <= self.epsilon
            low, high = (middle, high) if fits else (low, middle)
        if Fraction(low, 2**40) < SMALLEST_EPSILON:
            raise InvalidInput(f"{self.mwem.steps} steps leave next to nothing for each; take fewer steps.")
        return Fraction(low, 2**40)

    def _event(self, epsilon: Fraction) -> Composition:
        """A choice by the exponential mechanism is of bounded range, a number with Laplace noise is not (E2-3)."""
        steps = self.sums * self.mwem.steps
        return Composition((PureSteps(epsilon, steps, True), PureSteps(epsilon, steps, False)))

    @property
    def event(self) -> Composition:
        """What happens to the data."""
        return self._event(self.epsilon_per_step)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in a released number of the sum: √2 · 2/ε, in the scale of hashes."""
        return 2 * math.sqrt(2) / float(self.epsilon_per_step) / math.sqrt(self.features.frequencies)

    @property
    def approximate_deviation(self) -> float:
        """The same as :attr:`deviation`."""
        return self.deviation

    def of(self, vectors: Floats, randomness: Randomness, members: int | None = None) -> Floats:
        """The sum that the average model of all steps has.

        Args:
            vectors: Hashes, a row each.
            randomness: Where the noise comes from.
            members: How many hashes the sum is declared to have; public. Left out, as many as there are.

        Returns:
            As many numbers as a hash has.

        Raises:
            SensitivityExceeded: A number of a hash is larger than any can be; nothing was released.
        """
        return self._noisy(_counted(vectors, self.features), members or max(1, len(vectors)), randomness)

    def _noisy(self, sums: Integers, members: int, randomness: Randomness) -> Floats:
        """Algorithm 2, lines 4 to 9, on integers. The model sees μ alone, so P_avg is post-processing."""
        model = _Model(len(sums))
        average = np.zeros(len(sums))
        scale = laplace_scale_of(self.epsilon_per_step)
        rate = choice_rate_of(self.epsilon_per_step)
        for _ in range(self.mwem.steps):
            expected = model.means * members * GRID
            # ψ is a whole number of grid steps: only integers decide.
            wrong = np.abs(np.rint(expected).astype(np.int64) - sums)
            place = exponential_choice(wrong.tolist(), rate, randomness)
            noisy = int(sums[place]) + int(discrete_laplace(scale, 1, randomness)[0])
            model.move(place, (noisy - expected[place]) / (2 * members * GRID))
            average += model.means
        result: Floats = average / self.mwem.steps * members / math.sqrt(self.features.frequencies)
        return result


def choice_rate_of(epsilon: Fraction) -> Fraction:
    """The factor of ψ in exp(ε ψ / 4), with ψ in steps of the grid; replacing a hash moves ψ by at most 2 · 128 steps.

    Args:
        epsilon: What a choice costs.
    """
    return epsilon / (4 * GRID)


def laplace_scale_of(epsilon: Fraction) -> Fraction:
    """The scale of Lap(2/ε) in steps of the grid, rounded up to a multiple of 2^−10 for the exact sampler.

    Args:
        epsilon: What a number costs.
    """
    return Fraction(math.ceil(2 * GRID / epsilon * 2**10), 2**10)


def _counted(vectors: Floats, features: Features) -> Integers:
    """Each number of each hash rounded to the grid on its own, then added up."""
    counted = np.rint(vectors * (math.sqrt(features.frequencies) * GRID))
    if not (np.abs(counted) <= GRID).all():
        raise SensitivityExceeded("A hash has a number that is larger than any can be; nothing was released.")
    sums: Integers = counted.astype(np.int64).sum(axis=0)
    return sums


class _Model:
    """A product of distributions over the grid, one for each number; they start uniform.

    Moving number i multiplies its probabilities by exp(s · move) for each grid point s. So each distribution is the
    uniform one tilted by the sum of its moves, and only that sum is stored.
    """

    def __init__(self, numbers: int) -> None:
        self.means = np.zeros(numbers)
        self._tilt = np.zeros(numbers)
        self._grid = np.arange(-GRID, GRID + 1) / GRID

    def move(self, place: int, by: float) -> None:
        """Lemma 1(b) with the corrected exponent s · (μ − w) / 2q (errata E2-4)."""
        self._tilt[place] += by
        exponent = self._grid * self._tilt[place]
        weight = np.exp(exponent - exponent.max())
        self.means[place] = float(weight @ self._grid / weight.sum())
