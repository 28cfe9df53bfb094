"""Exact integer noise: discrete Laplace and discrete Gaussian, without floats (errata X2).

The samplers are those of Canonne, Kamath and Steinke (2020, Algorithms 1 to 3), compiled. The tests compare them with
OpenDP's samplers, which make about a hundredth as many draws a second (benchmarks/noise.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from heathaze.checks import shown
from heathaze.errors import InvalidInput
from heathaze.privacy.loss import Number, exact
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers

_MAX_LAPLACE_BITS = 52
"""The numerator of a scale stays below 2^52, so that noise beyond int64 has probability below exp(−2000)."""

_LARGEST_SCALE_BITS = 46
"""Sums of millions of draws of this scale stay within int64. No mechanism needs a larger scale."""

_MAX_SIGMA_BITS = 24
"""The numerator of a sigma stays below 2^24, so that every product in the acceptance step fits into 64 bits."""

_WORDS_AT_ONCE = 2**14
"""128 KiB of words stay in the processor's cache."""

Kernel = Callable[..., tuple[int, int]]


def laplace_scale(sensitivity: int, epsilon: Fraction | float) -> Fraction:
    """Return the smallest scale t/2^k of about 40 bits with sensitivity / scale ≤ ε. Rounding up never loses noise.

    Args:
        sensitivity: ℓ1 sensitivity, at least 1.
        epsilon: ε, above 0. An infinite ε gives scale 0, for tests; no mechanism accepts it from a caller.

    Raises:
        InvalidInput: The scale would be above 2^46.

    >>> laplace_scale(1, Fraction(1, 2))
    Fraction(2, 1)
    """
    if epsilon == math.inf:
        return Fraction(0)
    wanted = sensitivity / exact(epsilon)
    if wanted > 2**_LARGEST_SCALE_BITS:
        raise InvalidInput(
            f"Noise of scale {float(wanted):.3g} does not fit into 64 bits; use a larger epsilon or a smaller mass for "
            "each unit."
        )
    binary_places = max(0, 40 - math.ceil(wanted).bit_length())
    return Fraction(math.ceil(wanted * 2**binary_places), 2**binary_places)


def discrete_laplace(scale: Number, size: int, randomness: Randomness) -> Integers:
    """Draw independent integers with Pr[x] = (1 − r)/(1 + r) · r^|x|, r = exp(−1/scale).

    Args:
        scale: A rational of at least 0, with numerator and denominator below 2^52; 0 gives zeros.
        size: How many integers.
        randomness: The source of random bits.

    Raises:
        InvalidInput: The scale is out of range.

    >>> from heathaze.privacy.randomness import Simulation
    >>> discrete_laplace(0, 3, Simulation(1)).tolist()
    [0, 0, 0]
    """
    ratio = short_rational(scale, _MAX_LAPLACE_BITS, "The scale of discrete Laplace noise")
    if ratio == 0:
        return np.zeros(size, dtype=np.int64)
    from heathaze.privacy._samplers import fill_laplace

    return draw(fill_laplace, size, randomness, np.uint64(ratio.numerator), np.uint64(ratio.denominator))


def discrete_gaussian(sigma: Number, size: int, randomness: Randomness) -> Integers:
    """Draw independent integers with Pr[x] ∝ exp(−x² / 2σ²).

    Args:
        sigma: σ, a rational of at least 0, with numerator and denominator below 2^24; 0 gives zeros.
        size: How many integers.
        randomness: The source of random bits.

    Raises:
        InvalidInput: σ is out of range.

    >>> from heathaze.privacy.randomness import Simulation
    >>> discrete_gaussian(0, 3, Simulation(1)).tolist()
    [0, 0, 0]
    """
    ratio = short_rational(sigma, _MAX_SIGMA_BITS, "The sigma of discrete Gaussian noise")
    if ratio == 0:
        return np.zeros(size, dtype=np.int64)
    from heathaze.privacy._samplers import fill_gaussian

    return draw(fill_gaussian, size, randomness, np.uint64(ratio.numerator), np.uint64(ratio.denominator))


def short_rational(value: Number, bits: int, what: str) -> Fraction:
    """Return a rational of at least 0 whose numerator and denominator are short enough for 64-bit arithmetic.

    Args:
        value: What the caller gave.
        bits: The most bits that the numerator and the denominator may have.
        what: What the number is, for the error sentence.

    Raises:
        InvalidInput: The value is not such a number.
    """
    try:
        ratio = exact(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        ratio = Fraction(-1)
    if ratio < 0 or max(ratio.numerator, ratio.denominator).bit_length() > bits:
        raise InvalidInput(
            f"{what} is {shown(value)}; give a rational of at least 0 with numerator and denominator below 2^{bits}."
        )
    return ratio


def draw(
    kernel: Kernel, size: int, randomness: Randomness, *parameters: np.uint64, at_once: int = _WORDS_AT_ONCE
) -> Integers:
    """Fill ``size`` integers with a compiled kernel, giving it new words as it needs them.

    A kernel that runs out of words inside a draw discards that draw. The draw is repeated with the same words and new
    ones after them. To repeat it with new words only would favour draws that need few words.

    Args:
        kernel: One of :mod:`heathaze.privacy._samplers`.
        size: How many integers.
        randomness: The source of random bits.
        parameters: The kernel's own parameters.
        at_once: How many words are held at a time.
    """
    out = np.empty(size, dtype=np.int64)
    words = np.empty(min(8 * size + 64, at_once), dtype=np.uint64)
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
