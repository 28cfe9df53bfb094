"""A noisy mean hash, as an owner sees it who knows in which directions data of its kind vary."""

from __future__ import annotations

import math

import numpy as np

from heathaze.types import Floats

_SPREADS = np.exp(np.linspace(-12.0, 8.0, 81))
"""How far a target's mean may lie from an owner's, in units of the owner's own variance; the likeliest is taken."""


def denoise(values: Floats, deviation: float, hashes: Floats) -> Floats:
    """The mean hash that is likeliest to lie behind a noisy one (a Wiener filter).

    Means of records like the owner's differ from the owner's mean m along its own covariance C. With the difference
    N(0, τC) and the noise N(0, s²) the posterior mean is m + τC (τC + s²)⁻¹ (g̃ − m), and τ is what makes g̃ likeliest.
    White noise has most of its length in directions in which no data vary, and there it goes.

    Only the owner's own records and what is public enter, and the result leaves only as the owner's offer.
    """
    if len(hashes) < 2:
        return values
    mean = hashes.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov(hashes, rowvar=False))
    variances = np.maximum(variances, 0.0)
    along = axes.T @ (values - mean)
    # Without noise there is nothing to take off; the floor keeps the logarithm finite.
    noise = max(deviation**2, math.ulp(1.0))
    spread = _SPREADS[:, None] * variances + noise
    likelihood = -(np.log(spread) + along**2 / spread).sum(axis=1)
    signal = _SPREADS[int(np.argmax(likelihood))] * variances
    shrunk: Floats = mean + axes @ (signal / (signal + noise) * along)
    return shrunk
