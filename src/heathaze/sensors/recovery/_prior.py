"""The prior of sources: the probabilities of their number and of their strengths.

The prior of unknown strengths is hierarchical. Each strength is normal with a common mean, the ``centre`` c, and
standard deviation ``spread`` · c, truncated to positive numbers. Centre and spread are unknown too and are sampled with
the sources, so the sampler learns from the readings whether sources are equally strong.

Given all other unknowns, the likelihood of one strength s is proportional to exp(s·b − s²·g/2), with numbers b and g
that depend on the readings. The product with the prior is a truncated normal distribution. So a strength can be
integrated out and drawn exactly, and moves of places do not depend on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heathaze.types import Booleans, Floats, Integers

SPREADS = np.array([0.1, 0.3, 1.0])
"""Possible spreads: strengths are nearly equal, similar, or between 0 and a few times the centre."""

SPREAD_PROBABILITIES = np.array([4.0, 1.0, 1.0]) / 6
"""Prior probability of each spread; nearly equal strengths are the most likely."""

WIDE = 1.0
"""Prior standard deviation of the logarithm of the centre."""

_NARROW = 1e-5
"""On intervals shorter than this many standard deviations, the normal density is taken as constant."""

_FAR = 1e4
"""Farther than this many standard deviations from the mean, the normal tail is exponential to eight digits."""

_TINY = 1e-280


@dataclass(frozen=True, eq=False)
class Prior:
    """The prior of the number and the strengths of sources.

    Args:
        number: ``number[k]`` is the logarithm of the probability of k sources; −∞ for impossible numbers.
        low: Smallest strength.
        high: Largest strength. If it equals ``low``, strengths are known. If it is finite, the prior is uniform from
            ``low`` to ``high``. If it is infinite, the prior is hierarchical.
        total: For the hierarchical prior, a rough estimate of the sum of strengths.
    """

    number: Floats
    low: float
    high: float
    total: float = 1.0

    @property
    def most(self) -> int:
        """Largest number of sources with a positive prior."""
        return len(self.number) - 1

    @property
    def fixed(self) -> bool:
        """Whether the strengths of sources are known."""
        return self.low == self.high

    @property
    def alike(self) -> bool:
        """Whether strengths are unknown and have the hierarchical prior with a common centre."""
        return math.isinf(self.high)

    @property
    def counted(self) -> bool:
        """Whether the number of sources is known."""
        return int(np.isfinite(self.number).sum()) == 1

    def draw(self, number: Integers, uniforms: Floats) -> tuple[Floats, Floats, Floats]:
        """Draw centres, spreads and strengths from the prior, by uniform numbers of shape (particles, most + 2).

        In a particle with k sources, strengths after the first k are 0.
        """
        from scipy.special import ndtri

        centre, spread = np.ones(len(number)), np.ones(len(number))
        if self.alike:
            about = ndtri(uniforms[:, 0].clip(2.0**-54, 1 - 2.0**-53))
            centre = self.total / number * np.exp(WIDE * about)
            spread = SPREADS[np.searchsorted(np.cumsum(SPREAD_PROBABILITIES)[:-1], uniforms[:, 1], side="right")]
        flat = np.zeros(uniforms[:, 2:].size)
        many, wide = np.repeat(centre, self.most), np.repeat(spread, self.most)
        strengths = self.conditional(many, wide, flat, flat, uniforms[:, 2:].ravel()).reshape(-1, self.most)
        return centre, spread, np.where(np.arange(self.most) < number[:, None], strengths, 0.0)

    def log_number(self, number: Integers, centre: Floats) -> Floats:
        """Log prior of the number of sources and, if strengths are unknown, of the logarithm of the centre."""
        if not self.alike:
            return self.number[number]
        about = np.log(centre * np.maximum(number, 1) / self.total) / WIDE
        return np.asarray(self.number[number] - about**2 / 2)

    def log_strengths(self, centre: Floats, spread: Floats, strengths: Floats) -> Floats:
        """Log prior of all strengths of each particle, shape (particles, any); zeros do not count as sources."""
        from scipy.special import log_ndtr

        present = strengths > 0
        if self.fixed:
            return np.zeros(len(strengths))
        if not self.alike:
            outside = present & ((strengths < self.low) | (strengths > self.high))
            flat = -present.sum(axis=1) * math.log(self.high - self.low)
            return np.where(outside.any(axis=1), -np.inf, flat)
        deviation = centre * spread
        squares = np.where(present, (strengths - centre[:, None]) / deviation[:, None], 0.0) ** 2
        each = np.log(deviation) + math.log(2 * math.pi) / 2 + log_ndtr(1 / spread)
        return np.asarray(-squares.sum(axis=1) / 2 - present.sum(axis=1) * each)

    def _combined(self, centre: Floats, spread: Floats, pull: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Combine prior and likelihood of a strength: prior · exp(s·b − s²·g/2) is proportional to exp(s·b' − s²·g'/2).

        Takes b = ``pull`` and g = ``weight``, and returns b' and g'.
        """
        if not self.alike:
            return pull, np.maximum(weight, _TINY)
        precise = 1 / (centre * spread) ** 2
        return pull + centre * precise, weight + precise

    def best(self, centre: Floats, spread: Floats, pull: Floats, weight: Floats) -> Floats:
        """Log of prior times likelihood at the best strength, a fast substitute for :meth:`log_integral`."""
        if self.fixed:
            return np.asarray(self.low * pull - self.low**2 * weight / 2)
        b, g = self._combined(centre, spread, pull, weight)
        strength = np.clip(b / g, self.low, self.high)
        return np.asarray(strength * (b - strength * g / 2))

    def log_integral(self, centre: Floats, spread: Floats, pull: Floats, weight: Floats) -> Floats:
        """Log evidence for one source: log ∫ p(s) exp(s·b − s²·g/2) ds, with b = ``pull`` and g = ``weight``.

        For the hierarchical prior, prior times likelihood is proportional to exp(s·b' − s²·g'/2). With z = −b'/√g' the
        log evidence is

            log √(2π/g') + log(e^{z²/2} Φ(−z))  −  the same expression for the prior without data.
        """
        from scipy.special import log_ndtr

        if self.fixed:
            return np.asarray(self.low * pull - self.low**2 * weight / 2)
        b, g = self._combined(centre, spread, pull, weight)
        height = 0.5 * np.log(2 * math.pi / g)
        if self.alike:
            whole = np.log(centre * spread * math.sqrt(2 * math.pi)) + 1 / (2 * spread**2) + log_ndtr(1 / spread)
            return np.asarray(height + _log_tail(-b / np.sqrt(g)) - whole)
        middle, root = b / g, np.sqrt(g)
        share = _log_between((self.low - middle) * root, (self.high - middle) * root)
        return np.asarray(share + height + b * middle / 2 - math.log(self.high - self.low))

    def conditional(self, centre: Floats, spread: Floats, pull: Floats, weight: Floats, uniforms: Floats) -> Floats:
        """Draw strengths from the conditional density p(s) exp(s·b − s²·g/2), with b = ``pull``, g = ``weight``."""
        from scipy.special import log_ndtr, ndtri_exp

        if self.fixed:
            return np.full(len(pull), self.low)
        b, g = self._combined(centre, spread, pull, weight)
        root = np.sqrt(g)
        if self.alike:
            z = -b / root
            far = z > _FAR
            log = np.log1p(-uniforms)
            tail = -log / np.where(far, -b, 1.0)
            body = -z - ndtri_exp(np.minimum(log + log_ndtr(-np.where(far, 0.0, z)), -_TINY))
            return np.maximum(np.where(far, tail, body / root), _TINY)
        middle = b / g
        low, high = (self.low - middle) * root, (self.high - middle) * root
        a, b, mirrored = _in_lower_tail(low, high)
        log_a, log_b = log_ndtr(a), log_ndtr(b)
        inside = log_b + np.log(np.maximum(uniforms + (1 - uniforms) * np.exp(log_a - log_b), _TINY))
        drawn = ndtri_exp(np.minimum(inside, log_b))
        drawn = np.where(b - a < _NARROW, a + uniforms * (b - a), drawn)
        return np.clip(middle + np.where(mirrored, -drawn, drawn) / root, max(self.low, _TINY), self.high)


def _log_tail(z: Floats) -> Floats:
    """Compute log(e^{z²/2} Φ(−z)) of a truncated normal strength, without overflow for large or small z."""
    from scipy.special import erfcx, log_ndtr

    above, below = np.maximum(z, 0), np.minimum(z, 0)
    return np.asarray(np.where(z > 0, np.log(erfcx(above / math.sqrt(2)) / 2), below**2 / 2 + log_ndtr(-below)))


def _log_between(low: Floats, high: Floats) -> Floats:
    """Compute log(Φ(high) − Φ(low)), the log probability of an interval of a normal strength."""
    from scipy.special import log_ndtr

    a, b, _ = _in_lower_tail(low, high)
    log_b = log_ndtr(b)
    wide = log_b + np.log(np.maximum(-np.expm1(log_ndtr(a) - log_b), _TINY))
    flat = np.log(np.maximum(b - a, _TINY)) - ((a + b) / 2) ** 2 / 2 - math.log(2 * math.pi) / 2
    return np.asarray(np.where(b - a < _NARROW, flat, wide))


def _in_lower_tail(low: Floats, high: Floats) -> tuple[Floats, Floats, Booleans]:
    """Mirror intervals of the upper tail of a normal strength into the lower tail, where floats are more exact.

    Returns both ends of each interval, and which intervals were mirrored.
    """
    mirrored = low + high > 0
    return np.where(mirrored, -high, low), np.where(mirrored, -low, high), mirrored
