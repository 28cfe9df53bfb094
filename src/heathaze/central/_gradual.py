"""Gradual release: a coarse look at some counts that can be sharpened later, for the price of the sharp one alone.

Let X be discrete Laplace noise of scale t, and T ≥ t. With Z = 0 with probability

    w = (sinh(1 / 2T) / sinh(1 / 2t))²

and discrete Laplace of scale T otherwise, X + Z is discrete Laplace of scale T: the characteristic functions are
(cosh(1/t) − 1) / (cosh(1/t) − cos θ), and both sides agree. So ``sharp = count + X`` and ``coarse = sharp + Z``: coarse
alone costs B/T, and both together cost B/t, since coarse is made from sharp by adding noise of its own.

w is irrational. Any smaller w is safe too: X + Z is then a mixture of noise of scale T and of its sum with X, and both
keep the promise of scale T. So w is rounded down to a multiple of 2^-52, and the coin is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from heathaze.privacy.noise import discrete_laplace
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers

_BITS = 52


@dataclass(frozen=True, eq=False, repr=False)
class Glance:
    """``coarse`` is public. ``sharp`` is secret until it is paid for, and then stands for both."""

    coarse: Integers
    sharp: Integers


def glance(counts: Integers, coarse_scale: Fraction, sharp_scale: Fraction, randomness: Randomness) -> Glance:
    """Noise of two scales on the same counts, the sharp one inside the coarse one."""
    sharp = counts + discrete_laplace(sharp_scale, len(counts), randomness)
    if coarse_scale == sharp_scale:
        return Glance(sharp, sharp)
    more = discrete_laplace(coarse_scale, len(counts), randomness)
    coin = (randomness.words(len(counts)) >> np.uint64(64 - _BITS)).astype(np.int64)
    return Glance(np.where(coin < _chance_of_nothing(coarse_scale, sharp_scale), sharp, sharp + more), sharp)


def _chance_of_nothing(coarse_scale: Fraction, sharp_scale: Fraction) -> int:
    """w in units of 2^-52, rounded down by more than floats can err."""
    ratio = math.sinh(0.5 / float(coarse_scale)) / math.sinh(0.5 / float(sharp_scale))
    return int(ratio**2 * (1 - 2.0**-40) * 2**_BITS)
