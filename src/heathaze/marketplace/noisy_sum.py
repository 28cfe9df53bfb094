"""Sums of hashes that may be told: integers first, then exact noise (errata E2-4, X2)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from heathaze.errors import SensitivityExceeded, TooLarge
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Composition, FineGaussian
from heathaze.privacy.loss import Number, PrivacyLoss, parse_delta, parse_epsilon
from heathaze.privacy.noise import discrete_gaussian
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats

FINENESS = 21
"""Noise is 2^21 to 2^22 steps, and more by what rounding adds."""

_BITS = 24
"""Of the noise in steps: what the exact sampler can take."""

_BLOCK = 2**13
"""Vectors rounded at a time."""

MOST_DELTA = Fraction(1, 100)
"""The largest δ of a marketplace: it belongs well below one in the number of records."""


@dataclass(frozen=True)
class NoisySum:
    """How much noise sums of short vectors need, so that one vector more, less or other makes no visible difference.

    Args:
        numbers: Of a vector.
        longest: Length that no vector exceeds.
        vectors: By how many vectors two neighbouring sums differ: 1 if one is added or removed, 2 if one is replaced.
        epsilon: Privacy loss of all sums together.
        delta: Of the promise.
        sums: How many sums are told, each over vectors that may be chosen in view of the sums before.
    """

    numbers: int
    longest: float
    vectors: int
    epsilon: Fraction
    delta: Fraction
    sums: int = 1

    if TYPE_CHECKING:

        def __init__(
            self, numbers: int, longest: float, vectors: int, epsilon: Number, delta: Number, sums: int = 1
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        object.__setattr__(self, "delta", parse_delta(self.delta, zero=False, most=MOST_DELTA))

    @functools.cached_property
    def _ratio(self) -> float:
        """Noise over what a sum changes by: that of the analytic Gaussian mechanism (Balle and Wang 2018)."""
        from dp_accounting import get_sigma_gaussian

        return float(get_sigma_gaussian(float(self.epsilon), float(self.delta))) * math.sqrt(self.sums) * (1 + 1e-9)

    @property
    def about(self) -> float:
        """The deviation but for what rounding adds, also where it is too large to be drawn."""
        return self._ratio * self.vectors * self.longest

    @functools.cached_property
    def _noise(self) -> tuple[int, int, int]:
        """Steps as a power of two, the longest vector in steps, and the noise in steps."""
        steps = math.floor(math.log2(self.about)) - FINENESS
        # Rounding moves each number by half a step at most, and floats are exact enough to be within another tenth.
        longest = math.ceil(math.ldexp(self.longest, -steps) * (1 + 1e-12) + 0.6 * math.sqrt(self.numbers))
        sigma = math.ceil(self._ratio * self.vectors * longest)
        while sigma.bit_length() <= _BITS and (cost := self._price(longest, sigma)) > self.epsilon:
            sigma = max(sigma + 1, math.ceil(sigma * cost / self.epsilon))
        if sigma.bit_length() > _BITS:
            raise TooLarge(
                f"Sums of {self.numbers} numbers at {PrivacyLoss(self.epsilon, self.delta)} need noise of more than 2^{_BITS} "
                "steps, too much to draw exactly; give a larger epsilon."
            )
        return steps, longest, sigma

    def _price(self, longest: int, sigma: int) -> Fraction:
        return compose([self._event(longest, sigma)], self.delta).epsilon

    def _event(self, longest: int, sigma: int) -> Composition:
        return Composition((FineGaussian(self.vectors * longest, sigma, self.numbers),) * self.sums)

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
        """The sum with noise: each vector is rounded to integers on its own, and only integers are added up.

        Raises:
            SensitivityExceeded: A vector is longer than was promised; nothing was drawn.
        """
        steps, longest, sigma = self._noise
        total = np.zeros(self.numbers, dtype=np.int64)
        for start in range(0, len(vectors), _BLOCK):
            block = np.rint(np.ldexp(vectors[start : start + _BLOCK], -steps))
            if not (np.linalg.norm(block, axis=1) <= longest).all():
                raise SensitivityExceeded(
                    f"A vector is longer than {self.longest:g}, for which the noise is made; nothing was told."
                )
            total += block.astype(np.int64).sum(axis=0)
        return np.ldexp((total + discrete_gaussian(sigma, self.numbers, randomness)).astype(np.float64), steps)
