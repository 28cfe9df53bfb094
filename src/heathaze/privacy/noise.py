"""Exact integer noise: discrete Laplace and discrete Gaussian, without floats (errata X2).

The algorithms are from Canonne, Kamath and Steinke (2020, Algorithms 1 to 3), compiled with numba. The tests compare
their draws with those of OpenDP's samplers, which make about a hundredth as many draws a second (benchmarks/noise.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from heathaze.checks import positive, shown, whole
from heathaze.errors import InvalidInput
from heathaze.privacy.loss import Number, exact, parse_epsilon
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers

_MAX_LAPLACE_BITS = 52
"""A scale has a numerator and denominator below 2^52, so that noise exceeds int64 with probability below exp(−2000)."""

_LARGEST_SCALE_BITS = 46
"""A scale is at most 2^46, so that sums of millions of draws stay within int64. No mechanism needs a larger scale."""

_MAX_SIGMA_BITS = 24
"""A σ has a numerator and denominator below 2^24, so that every product in the acceptance step fits into 64 bits."""

_WORDS_AT_ONCE = 2**14
"""The size of the buffer of random words: 128 KiB, which stay in the processor's cache."""

Kernel = Callable[..., tuple[int, int]]


def laplace_scale(sensitivity: int, epsilon: Fraction | float) -> Fraction:
    """Compute the scale of discrete Laplace noise for a sensitivity and an ε.

    The result is sensitivity / ε, rounded up to a fraction of about 40 bits whose denominator is a power of two.
    Rounding up means slightly more noise, never less.

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


def sigma_from_epsilon(epsilon: Number, sensitivity: int = 1) -> float:
    """Return the standard deviation of discrete Laplace noise for ε and an ℓ1 sensitivity Δ (errata E3-6).

        σ = 1 / (√2 · sinh(ε/2Δ))

    Args:
        epsilon: ε, from 1e-6 to 1000.
        sensitivity: Δ, a whole number of at least 1.

    Raises:
        InvalidInput: A value is out of range.

    >>> round(sigma_from_epsilon(0.1), 7)
    14.1362448
    """
    return laplace_deviation(float(parse_epsilon(epsilon) / whole(sensitivity, "sensitivity")))


def epsilon_from_sigma(sigma: float, sensitivity: int = 1) -> float:
    """Return the ε of discrete Laplace noise with standard deviation σ and ℓ1 sensitivity Δ (errata E3-6).

        ε = 2Δ · asinh(1/(√2 σ)),   the inverse of :func:`sigma_from_epsilon`

    Args:
        sigma: σ, above 0.
        sensitivity: Δ, a whole number of at least 1.

    Raises:
        InvalidInput: A value is out of range.

    >>> round(epsilon_from_sigma(10), 9)
    0.141303769
    """
    deviation = positive(sigma, "sigma", "a standard deviation")
    return 2 * whole(sensitivity, "sensitivity") * math.asinh(1 / (math.sqrt(2) * deviation))


def laplace_deviation(rate: float) -> float:
    """Compute the standard deviation of discrete Laplace noise of scale 1/rate, 1 / (√2 · sinh(rate/2)).

    The formula is written as √2 · e^(−rate/2) / (1 − e^(−rate)), which does not overflow.
    """
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)


def discrete_laplace(scale: Number, size: int, randomness: Randomness) -> Integers:
    """Draw independent discrete Laplace noise: Pr[x] = (1 − r)/(1 + r) · r^|x| with r = exp(−1/scale).

    Args:
        scale: A rational of at least 0, with numerator and denominator below 2^52. Scale 0 gives zeros.
        size: The number of integers to draw.
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
    """Draw independent discrete Gaussian noise: Pr[x] ∝ exp(−x² / 2σ²).

    Args:
        sigma: σ, a rational of at least 0, with numerator and denominator below 2^24. With σ = 0 all draws are zero.
        size: The number of integers to draw.
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
    """Parse a parameter of noise: a rational of at least 0, short enough for the 64-bit arithmetic of the samplers.

    Args:
        value: The number that the caller gave.
        bits: The largest number of bits that the numerator and the denominator may have.
        what: A name of the parameter that begins the error sentence, such as "The scale of discrete Laplace noise".

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
    """Draw ``size`` integers with a compiled sampler (kernel), refilling its buffer of random words when it is empty.

    A kernel that reaches the end of the buffer inside a draw discards that draw. The draw is then repeated with the
    same words, followed by new words. A repetition with new words only would favour draws that need few words.

    Args:
        kernel: A ``fill_…`` function of :mod:`heathaze.privacy._samplers`.
        size: The number of integers to draw.
        randomness: The source of random bits.
        parameters: The parameters of the kernel's distribution.
        at_once: The size of the buffer, in words.
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
