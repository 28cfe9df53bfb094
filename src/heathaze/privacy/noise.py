"""Exact integer noise: discrete Laplace and discrete Gaussian, no floats anywhere (errata X2).

The samplers are those of Canonne, Kamath and Steinke (2020, Algorithms 1 to 3), compiled. OpenDP's are the oracle in
the tests; they make about a hundredth as many draws a second (benchmarks/noise.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from heathaze.errors import InvalidInput
from heathaze.privacy.loss import Number, exact
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers

_MAX_LAPLACE_BITS = 52
"""Numerator of a scale stays below 2^52: noise beyond int64 then has probability below exp(−2000)."""

_LARGEST_SCALE_BITS = 46
"""No mechanism needs noise of a larger scale, and sums of millions of draws stay within int64."""

_MAX_SIGMA_BITS = 24
"""Numerator of a sigma stays below 2^24: every product in the acceptance step then fits 64 bits."""

_ROOM = 2**14
"""Words held at a time: 128 KiB stay in the processor's cache, and making them costs less than using them."""

Kernel = Callable[..., tuple[int, int]]


def laplace_scale(sensitivity: int, epsilon: Fraction | float) -> Fraction:
    """Smallest convenient scale t/2^k with sensitivity / scale ≤ ε: rounded up, so never less noise than owed.

    An infinite ε gives scale 0, no noise: for checks of the plumbing, since no mechanism accepts it from a caller.

    >>> laplace_scale(1, Fraction(1, 2))
    Fraction(2, 1)
    """
    if epsilon == math.inf:
        return Fraction(0)
    wanted = sensitivity / exact(epsilon)
    if wanted > 2**_LARGEST_SCALE_BITS:
        raise InvalidInput(
            f"Noise of scale {float(wanted):.3g} leaves no room in 64 bits; use a larger epsilon or a smaller "
            "mass a unit."
        )
    binary_places = max(0, 40 - math.ceil(wanted).bit_length())
    return Fraction(math.ceil(wanted * 2**binary_places), 2**binary_places)


def discrete_laplace(scale: Number, size: int, randomness: Randomness) -> Integers:
    """Independent integers with Pr[x] = (1 − r)/(1 + r) · r^|x|, r = exp(−1/scale).

    Args:
        scale: A rational of at most 52 bits above and below the line; 0 gives zeros.
        size: How many.
        randomness: Where the bits come from.

    >>> from heathaze.privacy.randomness import Simulation
    >>> discrete_laplace(0, 3, Simulation(1)).tolist()
    [0, 0, 0]
    """
    ratio = exact(scale)
    if ratio < 0 or max(ratio.numerator, ratio.denominator).bit_length() > _MAX_LAPLACE_BITS:
        raise InvalidInput(f"The scale of discrete Laplace noise is {scale}; give a rational of at most 52 bits, ≥ 0.")
    if ratio == 0 or size == 0:
        return np.zeros(size, dtype=np.int64)
    from heathaze.privacy._samplers import fill_laplace

    return _draw(fill_laplace, size, randomness, np.uint64(ratio.numerator), np.uint64(ratio.denominator))


def discrete_gaussian(sigma: Number, size: int, randomness: Randomness) -> Integers:
    """Independent integers with Pr[x] ∝ exp(−x² / 2σ²).

    Args:
        sigma: A rational of at most 24 bits above and below the line; 0 gives zeros.
        size: How many.
        randomness: Where the bits come from.
    """
    ratio = exact(sigma)
    if ratio < 0 or max(ratio.numerator, ratio.denominator).bit_length() > _MAX_SIGMA_BITS:
        raise InvalidInput(f"The sigma of discrete Gaussian noise is {sigma}; give a rational of at most 24 bits, ≥ 0.")
    if ratio == 0 or size == 0:
        return np.zeros(size, dtype=np.int64)
    from heathaze.privacy._samplers import fill_gaussian

    return _draw(fill_gaussian, size, randomness, np.uint64(ratio.numerator), np.uint64(ratio.denominator))


def _draw(kernel: Kernel, size: int, randomness: Randomness, *parameters: np.uint64, room: int = _ROOM) -> Integers:
    """Fill ``size`` numbers, feeding the kernel words as it asks for them.

    A kernel that runs out of words inside a draw takes that draw back; the draw is replayed from the very same words
    with fresh ones behind them. Starting it over on fresh words alone would favour draws that need few words.
    """
    out = np.empty(size, dtype=np.int64)
    words = np.empty(min(8 * size + 64, room), dtype=np.uint64)
    done = left = 0
    while done < size:
        randomness.fill(words[left:])
        made, used = kernel(words, out[done:], *parameters)
        done += made
        left = len(words) - used
        if used:
            words[:left] = words[used:]
        else:  # one draw is longer than the whole buffer
            words = np.concatenate([words, np.empty_like(words)])
    return out
