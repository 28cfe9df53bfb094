"""Sums of hashes with discrete Gaussian noise, computed in integers (errata E2-4, X2).

Each vector is rounded on its own to whole multiples of a step, which is 2⁻²² to 2⁻²¹ of the noise's standard deviation.
The integers are added up, discrete Gaussian noise is added, and only then is the sum converted back to floats.
``sensors/readings.md`` proves the privacy loss of this noise.
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
from heathaze.privacy.loss import MOST_DELTA, PrivacyLoss, parse_delta, parse_epsilon
from heathaze.privacy.noise import discrete_gaussian
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats

FINENESS = 21
"""The noise has a standard deviation of 2^21 to 2^22 rounding steps, plus a little because vectors are rounded."""

_BITS = 24
"""The exact sampler of discrete Gaussian noise accepts standard deviations below 2^24 steps."""

_BLOCK = 2**13
"""Number of vectors that are rounded at a time."""


@dataclass(frozen=True)
class NoisySum:
    """Gaussian noise for one or several sums of vectors of bounded length: its scale, its cost and its drawing.

    Several sums cost as much as one sum with 1/√sums of the noise, even if the vectors of a sum depend on earlier noisy
    sums.

    Args:
        dimension: Number of coordinates of a vector.
        max_norm: Largest Euclidean length of a vector.
        vectors: Number of vectors by which neighbouring sums differ: 1 if a vector is added or removed, 2 if one is
            replaced.
        epsilon: Privacy loss ε of all sums together.
        delta: The δ of the promise, a small probability by which its bound may be exceeded, at most 0.01.
        sums: Number of sums that are released.

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
    sums: int = 1

    def __post_init__(self) -> None:
        delta = parse_delta(self.delta, zero=False, most=MOST_DELTA)
        assign(self, epsilon=parse_epsilon(self.epsilon), delta=delta)

    @functools.cached_property
    def _ratio(self) -> float:
        """Noise standard deviation over sensitivity, by the analytic Gaussian mechanism (Balle and Wang 2018)."""
        from dp_accounting import get_sigma_gaussian

        return float(get_sigma_gaussian(float(self.epsilon), float(self.delta))) * math.sqrt(self.sums) * (1 + 1e-9)

    @property
    def approximate_deviation(self) -> float:
        """Standard deviation of the noise without the margin for rounding; known even if such noise cannot be drawn."""
        return self._ratio * self.vectors * self.max_norm

    @functools.cached_property
    def _noise(self) -> tuple[int, int, int]:
        """Scale of the noise: log₂ of a rounding step, then largest vector length and standard deviation, in steps."""
        steps = math.floor(math.log2(self.approximate_deviation)) - FINENESS
        # Rounding moves each coordinate by at most half a step; float errors add less than a tenth of a step.
        longest = math.ceil(math.ldexp(self.max_norm, -steps) * (1 + 1e-12) + 0.6 * math.sqrt(self.dimension))
        sigma = math.ceil(self._ratio * self.vectors * longest)
        while sigma.bit_length() <= _BITS and (cost := self._cost(longest, sigma)) > self.epsilon:
            sigma = max(sigma + 1, math.ceil(sigma * cost / self.epsilon))
        if sigma.bit_length() > _BITS:
            raise TooLarge(
                f"Sums of {self.dimension} numbers at {PrivacyLoss(self.epsilon, self.delta)} need noise of more than "
                f"2^{_BITS} steps, too much to draw exactly; give a larger epsilon or fewer numbers."
            )
        return steps, longest, sigma

    def _cost(self, longest: int, sigma: int) -> Fraction:
        return compose([self._event(longest, sigma)], self.delta).epsilon

    def _event(self, longest: int, sigma: int) -> Composition:
        return Composition((FineGaussian(self.vectors * longest, sigma, self.dimension),) * self.sums)

    @property
    def event(self) -> Composition:
        """The privacy event that a ledger charges for all sums."""
        _, longest, sigma = self._noise
        return self._event(longest, sigma)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in each coordinate of a sum."""
        steps, _, sigma = self._noise
        return math.ldexp(sigma, steps)

    def of(self, vectors: Floats, randomness: Randomness) -> Floats:
        """Add up vectors and add Gaussian noise.

        Args:
            vectors: One vector per row.
            randomness: Source of the noise.

        Returns:
            The noisy sum, a vector of ``dimension`` coordinates.

        Raises:
            SensitivityExceeded: A vector is longer than ``max_norm``; no noise was drawn.
        """
        steps, longest, sigma = self._noise
        total = np.zeros(self.dimension, dtype=np.int64)
        for start in range(0, len(vectors), _BLOCK):
            block = np.rint(np.ldexp(vectors[start : start + _BLOCK], -steps))
            if not (np.linalg.norm(block, axis=1) <= longest).all():
                raise SensitivityExceeded(
                    f"A vector is longer than {self.max_norm:g}, the length that the noise is made for; scale the "
                    "vectors, or give a larger max_norm. Nothing was released."
                )
            total += block.astype(np.int64).sum(axis=0)
        return np.ldexp((total + discrete_gaussian(sigma, self.dimension, randomness)).astype(np.float64), steps)
