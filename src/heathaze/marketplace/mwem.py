"""MWEM, the paper's second hash h₂: multiplicative weights with the exponential mechanism, constants corrected (E2-2).

MWEM releases a sum of hashes through a model of the sum. In each step the exponential mechanism chooses a coordinate at
which the model is far from the true sum, the sum's value at this coordinate is released with Laplace noise, and the
model moves towards the noisy value. Both the choice and the noisy value cost privacy.
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
"""Coordinates of a hash are rounded to multiples of 1/128 of their largest possible value; the paper's η is 1/128."""

_MOST_STEPS = 10**6


@dataclass(frozen=True, init=False)
class Mwem:
    """Parameters of MWEM: the number of steps, each of which releases a chosen coordinate and its noisy value.

    Args:
        steps: Number T of steps for each mean hash, from 1 to 1,000,000.
        epsilon_per_step: Privacy loss ε of one choice, and also of one noisy value; a step costs both. By default the
            steps share the whole budget.

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
        """Public parameters of MWEM, for reports."""
        epsilon = None if self.epsilon_per_step is None else str(self.epsilon_per_step)
        return {"mechanism": "mwem", "steps": self.steps, "epsilon_per_step": epsilon}


@dataclass(frozen=True)
class MwemSum:
    """Release sums of hashes by :class:`Mwem`; neighbouring sums differ in one replaced hash.

    The class has the same methods as :class:`~heathaze.marketplace.noisy_sum.NoisySum`.

    Args:
        features: The public hash of points.
        mwem: Number of steps, and the privacy loss of a step.
        epsilon: Privacy loss ε of all sums together.
        delta: The δ of the promise, a small probability by which its bound may be exceeded.
        sums: Number of sums that are released.
    """

    features: Features
    mwem: Mwem
    epsilon: Fraction
    delta: Fraction
    sums: int = 1

    @functools.cached_property
    def epsilon_per_step(self) -> Fraction:
        """Privacy loss ε of one choice, and of one noisy value: as declared, or the largest that the budget allows."""
        if self.mwem.epsilon_per_step is not None:
            declared = self.mwem.epsilon_per_step
            cost = compose([self._event(declared)], self.delta).epsilon
            if cost > self.epsilon:
                raise InvalidInput(
                    f"{self.sums} times {self.mwem.steps} steps at {decimal(declared)} cost ε = {decimal(cost)}, but "
                    f"the plan promises {decimal(self.epsilon)}; give a smaller epsilon_per_step, or leave it out."
                )
            return declared
        # Choices and noise are drawn with exact fractions. ε is a multiple of 2^−40, because short fractions are fast.
        low, high = 0, math.ceil(self.epsilon) * 2**40
        while high - low > max(1, low >> 20):
            middle = (low + high) // 2
            fits = compose([self._event(Fraction(middle, 2**40))], self.delta).epsilon <= self.epsilon
            low, high = (middle, high) if fits else (low, middle)
        if Fraction(low, 2**40) < SMALLEST_EPSILON:
            raise InvalidInput(
                f"{self.mwem.steps} steps leave an epsilon below {decimal(SMALLEST_EPSILON)} for each step; take fewer "
                "steps, or give a larger epsilon."
            )
        return Fraction(low, 2**40)

    def _event(self, epsilon: Fraction) -> Composition:
        """Privacy event of all MWEM steps: choices are charged by bounded range, Laplace values as pure ε (E2-3)."""
        steps = self.sums * self.mwem.steps
        return Composition((PureSteps(epsilon, steps, True), PureSteps(epsilon, steps, False)))

    @property
    def event(self) -> Composition:
        """The privacy event that a ledger charges for all sums."""
        return self._event(self.epsilon_per_step)

    @property
    def deviation(self) -> float:
        """Standard deviation √2 · 2/ε of the Laplace noise in a released value, scaled to the units of hashes."""
        return 2 * math.sqrt(2) / float(self.epsilon_per_step) / math.sqrt(self.features.frequencies)

    @property
    def approximate_deviation(self) -> float:
        """Standard deviation of the noise; for MWEM the same as :attr:`deviation`."""
        return self.deviation

    def of(self, vectors: Floats, randomness: Randomness, members: int | None = None) -> Floats:
        """Release a sum of hashes by MWEM: the sum that the model predicts, averaged over all steps.

        Args:
            vectors: Hashes, one per row.
            randomness: Source of the random choices and the noise.
            members: Public number of hashes in the sum. By default the number of rows.

        Returns:
            The released sum, with one value for each coordinate of a hash.

        Raises:
            SensitivityExceeded: A coordinate exceeds the largest possible value of a hash; nothing was released.
        """
        return self._noisy(_counted(vectors, self.features), members or max(1, len(vectors)), randomness)

    def _noisy(self, sums: Integers, members: int, randomness: Randomness) -> Floats:
        """Run the MWEM steps on integers (Algorithm 2, lines 4 to 9).

        The model depends on the data only through the choices and the noisy values, so the average is post-processing.
        """
        model = _Model(len(sums))
        average = np.zeros(len(sums))
        scale = laplace_scale_of(self.epsilon_per_step)
        rate = choice_rate_of(self.epsilon_per_step)
        for _ in range(self.mwem.steps):
            expected = model.means * members * GRID
            # The scores of the choice are whole numbers of grid steps, so float rounding cannot influence the choice.
            wrong = np.abs(np.rint(expected).astype(np.int64) - sums)
            place = exponential_choice(wrong.tolist(), rate, randomness)
            noisy = int(sums[place]) + int(discrete_laplace(scale, 1, randomness)[0])
            model.move(place, (noisy - expected[place]) / (2 * members * GRID))
            average += model.means
        result: Floats = average / self.mwem.steps * members / math.sqrt(self.features.frequencies)
        return result


def choice_rate_of(epsilon: Fraction) -> Fraction:
    """Factor of the score ψ in the weight exp(ε ψ / 4) of the exponential mechanism in MWEM, with ψ in grid steps.

    Replacing a hash changes ψ by at most 2 · 128 grid steps.

    Args:
        epsilon: Privacy loss of one choice.
    """
    return epsilon / (4 * GRID)


def laplace_scale_of(epsilon: Fraction) -> Fraction:
    """Scale 2/ε of the Laplace noise in MWEM, in grid steps, rounded up to a multiple of 2^−10 for the exact sampler.

    Args:
        epsilon: Privacy loss of one noisy value.
    """
    return Fraction(math.ceil(2 * GRID / epsilon * 2**10), 2**10)


def _counted(vectors: Floats, features: Features) -> Integers:
    """Round each coordinate of each hash to the MWEM grid, then add up the hashes."""
    counted = np.rint(vectors * (math.sqrt(features.frequencies) * GRID))
    if not (np.abs(counted) <= GRID).all():
        raise SensitivityExceeded(
            "A hash has a coordinate larger than a hash can have; make hashes with Features.of. Nothing was released."
        )
    sums: Integers = counted.astype(np.int64).sum(axis=0)
    return sums


class _Model:
    """The model of MWEM: one distribution over the grid for each coordinate of a hash, uniform at first.

    A move of coordinate i multiplies its probability of each grid value s by exp(s · move). So for each coordinate only
    the sum of its moves is stored, which is called its tilt.
    """

    def __init__(self, numbers: int) -> None:
        self.means = np.zeros(numbers)
        self._tilt = np.zeros(numbers)
        self._grid = np.arange(-GRID, GRID + 1) / GRID

    def move(self, place: int, by: float) -> None:
        """Move one coordinate of the model: Lemma 1(b) with the corrected exponent s · (μ − w) / 2q (errata E2-4).

        Here s is a grid value, μ the noisy value, w the model's value and q the number of hashes; ``by`` is
        (μ − w) / 2q.
        """
        self._tilt[place] += by
        exponent = self._grid * self._tilt[place]
        weight = np.exp(exponent - exponent.max())
        self.means[place] = float(weight @ self._grid / weight.sum())
