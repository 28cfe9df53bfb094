"""Sums of hashes with Gaussian noise: vectors become integers first, and the noise is exact (errata E2-4, X2).

Each vector is rounded on its own to integers in steps of 2⁻²¹ to 2⁻²² of the noise. The integers are added up,
discrete Gaussian noise is added, and only then do the numbers become floats again. ``sensors/readings.md`` proves what
this noise costs.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from heathaze.checks import assign
from heathaze.errors import SensitivityExceeded, TooLarge
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Composition, FineGaussian
from heathaze.privacy.loss import MOST_DELTA, Number, PrivacyLoss, parse_delta, parse_epsilon
from heathaze.privacy.noise import discrete_gaussian
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats

FINENESS = 21
"""The standard deviation of the noise is 2^21 to 2^22 steps, and a little more for rounding."""

_BITS = 24
"""The exact sampler takes a standard deviation of at most 2^24 steps."""

_BLOCK = 2**13
"""Vectors that are rounded at a time."""


@dataclass(frozen=True, init=False)
class NoisySum:
    """How much noise sums of vectors of bounded length need.

    Several sums, each over vectors that are chosen in view of the sums before, compose to one Gaussian mechanism with
    √sums times the noise.

    Args:
        dimension: Numbers of a vector.
        max_norm: Euclidean length that no vector exceeds.
        vectors: By how many vectors two neighbouring sums differ: 1 if one is added or removed, 2 if one is replaced.
        epsilon: Privacy loss of all sums together.
        delta: Probability with which the promise may fail, at most 0.01.
        sums: How many sums are released.

    Raises:
        InvalidInput: ε or δ is out of range.

    >>> round(NoisySum(140, 1.0, 2, epsilon=1, delta=1e-6).deviation, 3)
    8.45
    """

    dimension: int
    max_norm: float
    vectors: int
    epsilon: Fraction
    delta: Fraction
    sums: int

    def __init__(
        self, dimension: int, max_norm: float, vectors: int, epsilon: Number, delta: Number, sums: int = 1
    ) -> None:
        assign(
            self,
            dimension=dimension,
            max_norm=max_norm,
            vectors=vectors,
            epsilon=parse_epsilon(epsilon),
            delta=parse_delta(delta, zero=False, most=MOST_DELTA),
            sums=sums,
        )

    @functools.cached_property
    def _ratio(self) -> float:
        """Standard deviation over sensitivity, as of the analytic Gaussian mechanism (Balle and Wang 2018)."""
        from dp_accounting import get_sigma_gaussian

        return float(get_sigma_gaussian(float(self.epsilon), float(self.delta))) * math.sqrt(self.sums) * (1 + 1e-9)

    @property
    def approximate_deviation(self) -> float:
        """The standard deviation without what rounding adds. It exists also where the noise is too large to draw."""
        return self._ratio * self.vectors * self.max_norm

    @functools.cached_property
    def _noise(self) -> tuple[int, int, int]:
        """The exponent of a step as a power of two, the longest vector in steps, and the noise in steps."""
        steps = math.floor(math.log2(self.approximate_deviation)) - FINENESS
        # Rounding moves each number by half a step at most, and floats are exact enough to be within another tenth.
        longest = math.ceil(math.ldexp(self.max_norm, -steps) * (1 + 1e-12) + 0.6 * math.sqrt(self.dimension))
        sigma = math.ceil(self._ratio * self.vectors * longest)
        while sigma.bit_length() <= _BITS and (cost := self._cost(longest, sigma)) > self.epsilon:
            sigma = max(sigma + 1, math.ceil(sigma * cost / self.epsilon))
        if sigma.bit_length() > _BITS:
            raise TooLarge(
                f"Sums of {self.dimension} numbers at {PrivacyLoss(self.epsilon, self.delta)} need noise of more than "
                f"2^{_BITS} steps, too much to draw exactly; give a larger epsilon."
            )
        return steps, longest, sigma

    def _cost(self, longest: int, sigma: int) -> Fraction:
        return compose([self._event(longest, sigma)], self.delta).epsilon

    def _event(self, longest: int, sigma: int) -> Composition:
        return Composition((FineGaussian(self.vectors * longest, sigma, self.dimension),) * self.sums)

    @property
    def event(self) -> Composition:
        """What happens to the data."""
        _, longest, sigma = self._noise
        return self._event(longest, sigma)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in each number of a sum."""
        steps, _, sigma = self._noise
        return math.ldexp(sigma, steps)

    def of(self, vectors: Floats, randomness: Randomness) -> Floats:
        """The sum of some vectors, with noise.

        Args:
            vectors: A row for each vector.
            randomness: Where the noise comes from.

        Returns:
            As many numbers as a vector has.

        Raises:
            SensitivityExceeded: A vector is longer than ``max_norm``; no noise was drawn.
        """
        steps, longest, sigma = self._noise
        total = np.zeros(self.dimension, dtype=np.int64)
        for start in range(0, len(vectors), _BLOCK):
            block = np.rint(np.ldexp(vectors[start : start + _BLOCK], -steps))
            if not (np.linalg.norm(block, axis=1) <= longest).all():
                raise SensitivityExceeded(
                    f"A vector is longer than {self.max_norm:g}, for which the noise is made; nothing was released."
                )
            total += block.astype(np.int64).sum(axis=0)
        return np.ldexp((total + discrete_gaussian(sigma, self.dimension, randomness)).astype(np.float64), steps)
