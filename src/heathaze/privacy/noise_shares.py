"""Noise shares: each device adds a little noise, and the sum over all devices has discrete Laplace noise.

A Pólya number of shape a is a negative binomial number with a fractional shape: Pr[x] ∝ β^x Γ(x + a) / x! with
β = exp(−1/scale). The sum of Pólya numbers with the same β is a Pólya number whose shape is the sum of their shapes.
The difference of two Pólya numbers of shape 1 is discrete Laplace noise. So each of n devices adds the difference of
two Pólya numbers of shape 1/n (errata E3-4).

**The shares are drawn exactly, without floats.** The generating function of a Pólya number is
((1 − β)/(1 − βz))^a = exp(a Σ_k (β^k/k)(z^k − 1)). So a Pólya number is the sum Σ k·N_k with independent
N_k ~ Poisson(a β^k/k). In other words, it is the sum of all points of a Poisson process on k = 1, 2, … with intensity
a β^k/k. The sampler draws a denser process and thins it. Let M ≥ 0 be the smallest integer with 2^(M+1) ≥ scale.
Block m holds the integers k in [2^m, 2^(m+1)), and a proposal in block m is uniform over them:

    block       rate of proposals    rate for each k    probability of keeping k
    m < M       a                    a/2^m              (2^m/k) · exp(−k/scale)
    m = M + i   a · 2^−i             a · 2^−i/2^m       (2^m/k) · exp(−k/scale) · 2^i

In each line the rate for k times the probability of keeping k is a β^k/k. The factor exp(−k/scale) · 2^i is at most 1,
since k/scale ≥ 2^(i−1) ≥ i for i ≥ 1. The number of all proposals is Poisson(a · (M + 2)). This mean is rational, so no
logarithm of β is needed. The processes of all coordinates and both signs are independent and alike. The code therefore
draws the proposals of a whole vector together, and gives each one that is kept to a coordinate and a sign, which are
chosen uniformly at random (this splits one Poisson process into many independent ones). The time grows with the number
of nonzero entries of a share, not with its length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from heathaze.checks import shown, whole
from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy.loss import Number, exact, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, draw, laplace_deviation, short_rational
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers

MAX_SHARE_BITS = 47
"""The largest number of bits of the numerator and denominator of a scale. A term is below 2^12 · max(1, scale) (see
MAX_BEYOND), so every product stays below 2^59."""

MAX_SHAPE = 2**10
"""The largest shape. Noise of this shape and the largest scale exceeds 64 bits with probability below exp(−2000)."""

MAX_SHAPE_BITS = 62
"""The largest number of bits of the numerator and denominator of a shape, to fit the bound of a uniform integer."""

MAX_MODULUS_BITS = 62
"""The largest number of bits of a modulus, so that a sum and its noise fit into a signed 64-bit integer."""

_AT_ONCE = 2**16
"""The number of proposals that are drawn at a time, to limit memory."""


# ── drawing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def noise_share(scale: Number, shape: Number, size: int, randomness: Randomness) -> Integers:
    """Draw the noise share of one device: independent integers, each the difference of two Pólya draws.

    To simulate the sum of the shares of many devices with one draw, give the sum of their shapes.

    Args:
        scale: Scale of the noise in the whole sum, a rational of at least 0, with numerator and denominator below 2^47.
            Scale 0 gives zeros.
        shape: Shape of the share, from :func:`share_shape`: a rational above 0 and at most 1024, with numerator and
            denominator below 2^62.
        size: The number of integers to draw.
        randomness: The source of random bits.

    Raises:
        InvalidInput: The scale or the shape is out of range.

    Cost: size · ⌊shape⌋ draws of discrete Laplace noise, and about 2 · size · r · (log2(scale) + 1) proposals, where r
    is the fractional part of the shape.

    >>> from heathaze.privacy.randomness import Simulation
    >>> noise_share(0, Fraction(1, 9500), 3, Simulation(1)).tolist()
    [0, 0, 0]
    """
    ratio, part = _parse_scale(scale), _parse_shape(shape)
    share = np.zeros(size, dtype=np.int64)
    if ratio == 0 or size == 0:
        return share
    for _ in range(math.floor(part)):  # shape 1 is discrete Laplace
        share += discrete_laplace(ratio, size, randomness)
    from heathaze.privacy._samplers import fill_terms

    blocks = _blocks(ratio)
    proposals = _poisson(2 * size * (part % 1) * (blocks + 2), randomness)
    parameters = np.uint64(blocks), np.uint64(ratio.numerator), np.uint64(ratio.denominator)
    for count in _pieces(proposals):
        terms = draw(fill_terms, count, randomness, *parameters)
        terms = terms[terms > 0]
        places = randomness.below(2 * size, len(terms)).astype(np.int64)  # a coordinate and a sign
        np.add.at(share, places >> 1, np.where(places & 1, -terms, terms))
    return share


def _blocks(scale: Fraction) -> int:
    """Compute M of the module docstring: the smallest integer M ≥ 0 with 2^(M+1) ≥ scale."""
    return max(0, (math.ceil(scale) - 1).bit_length() - 1)


def _poisson(mean: Fraction, randomness: Randomness) -> int:
    """Draw one Poisson number of a rational mean, as a sum of Poisson numbers of mean 1 and one of a smaller mean."""
    from heathaze.privacy._samplers import fill_poisson

    units, rest = divmod(mean, 1)
    one = np.uint64(1)
    total = sum(int(draw(fill_poisson, count, randomness, one, one).sum()) for count in _pieces(units))
    if rest:
        total += int(draw(fill_poisson, 1, randomness, np.uint64(rest.numerator), np.uint64(rest.denominator))[0])
    return total


def _pieces(count: int) -> Iterator[int]:
    """Split a number of draws into batches that need little memory."""
    for start in range(0, count, _AT_ONCE):
        yield min(_AT_ONCE, count - start)


def split_mass(mass: int, counts: Integers, randomness: Randomness) -> Integers:
    """Divide a person's integer mass over the places of the person by systematic rounding (errata E3-8).

        z_i = ⌊(mass · C_i + u)/n⌋ − ⌊(mass · C_(i−1) + u)/n⌋

    z_i is the mass of entry i, C_i are the cumulative counts, n is the total count, and u is uniform in 0 … n − 1. The
    z_i add up to ``mass`` exactly, for every u. Each z_i has the expectation mass · count_i / n, and differs from it by
    less than 1.

    Args:
        mass: The mass of one person.
        counts: How often the person was in each entry; at least one is positive.
        randomness: The source of u.

    >>> from heathaze.privacy.randomness import Simulation
    >>> split_mass(10, np.array([1, 2]), Simulation(1)).sum()
    np.int64(10)
    """
    total = int(counts.sum())
    cumulative = np.concatenate([[0], np.cumsum(counts)]).astype(object) * mass
    rounded = (cumulative + int(randomness.below(total, 1)[0])) // total
    return np.diff(rounded).astype(np.int64)


# ── shapes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def share_shape(threshold: int, colluders: int) -> Fraction:
    """Return the shape parameter of the Pólya distribution of one device's noise share, 1 / (t − c).

    With this shape, the honest devices of any sum that is opened add noise of shape 1 or more (errata E3-2, E3-5).

    Args:
        threshold: t, the smallest number of devices whose sum is opened. It is not the number of invited devices.
        colluders: c, the number of these devices that may reveal their own shares. Revealed shares can be subtracted.

    Raises:
        InvalidInput: ``colluders`` is negative, or not below ``threshold``.

    >>> share_shape(9500, 2500)
    Fraction(1, 7000)
    """
    if not 0 <= colluders < threshold:
        raise InvalidInput(
            f"{colluders} of {threshold} devices may collude, which leaves no honest device; raise the threshold or "
            "allow fewer colluders."
        )
    return Fraction(1, threshold - colluders)


def surviving_shape(shape: Fraction, delivered: int, colluders: int) -> Fraction:
    """Return the shape of the noise that colluders cannot subtract, (delivered − colluders) · shape.

    The paper gives each of S devices the shape 1 / ((1 − δ) S), where a share δ of the devices may drop out. If a share
    c of the devices collude, the surviving shape is (1 − δ − c)/(1 − δ), which is below 1 (errata E3-5).

    Args:
        shape: Shape of one share.
        delivered: The number of devices that added their share.
        colluders: The number of these devices that may reveal their share.

    Raises:
        InvalidInput: ``colluders`` is negative, or not below ``delivered``.

    >>> surviving_shape(Fraction(1, 9500), 9500, 2500)
    Fraction(14, 19)
    """
    if not 0 <= colluders < delivered:
        raise InvalidInput(
            f"{colluders} of the {delivered} devices in the sum may collude, which leaves no noise; refuse this sum."
        )
    return (delivered - colluders) * exact(shape)


# ── how large ───────────────────────────────────────────────────────────────────────────────────────────────────────


def share_deviation(scale: Number, shape: Number = 1) -> float:
    """Return the standard deviation σ of the noise of a share, or of several shares together.

    For shape a and β = exp(−1/scale):

        σ² = 2 a β/(1 − β)²,   so   σ = √(a/2) / sinh(1/(2 scale))

    Args:
        scale: As in :func:`noise_share`.
        shape: As in :func:`noise_share`; 1 is discrete Laplace noise.

    Raises:
        InvalidInput: The scale or the shape is out of range.

    >>> round(share_deviation(1), 9)
    1.356962486
    """
    ratio, part = _parse_scale(scale), _parse_shape(shape)
    if ratio == 0:
        return 0.0
    return math.sqrt(part) * laplace_deviation(float(1 / ratio))


# ── what it promises ────────────────────────────────────────────────────────────────────────────────────────────────


def realised_epsilon(epsilon: Number, shape: Number, sensitivity: int = 1) -> Fraction:
    """Return the actual ε' of noise that was scaled for ``epsilon`` but has only the shape ``shape`` (errata E3-1).

        ε' = Δ · ln(f(0)/f(1)) for a shape r below 1,   ε' = ε for a shape of 1 or more

    Δ is the ℓ1 sensitivity. f(z) is the probability that the difference of two Pólya numbers of shape r and
    β = exp(−ε/Δ) equals z ≥ 0:

        f(z) = (1 − β)^2r β^z A(z),   A(z) = Σ_n β^2n c(n) c(n + z),   c(n) = r (r + 1) … (r + n − 1) / n!

    *Shape below 1.* c(n + 1)/c(n) = (n + r)/(n + 1) grows with n, so c is log-convex. A is a sum of log-convex
    functions of z and therefore log-convex. So f(z)/f(z + 1) = A(z)/(β A(z + 1)) falls with z and is largest at z = 0.
    For z < 0 the ratio f(z)/f(z + 1) is below 1, because f is symmetric and falls with |z|.
    *Shape 1 and above.* The noise is discrete Laplace noise plus independent noise, so ε' ≤ ε. c(n + 1)/c(n) tends
    to 1, so f(z)/f(z + 1) tends to 1/β = e^(ε/Δ), and ε' cannot be smaller than ε.
    *Vectors.* Let L(j) be the loss of one coordinate that changes by j. L(i + j) ≤ L(i) + L(j), so a vector that
    changes by at most Δ in ℓ1 loses at most Δ · L(1). The loss is equal to Δ · L(1) if Δ coordinates change by one
    each. The result is an upper bound for vectors of every length; a vector of fewer than Δ coordinates may lose less.

    Args:
        epsilon: The target ε, from 1e-6 to 1000.
        shape: The shape r of the noise that colluders cannot subtract, from :func:`surviving_shape`.
        sensitivity: Δ, a whole number of at least 1.

    Returns:
        Exactly ``epsilon`` for a shape of 1 or more; otherwise ε', rounded up in the twelfth digit.

    Raises:
        InvalidInput: A value is out of range.

    >>> realised_epsilon(1, Fraction(21, 20)), float(round(realised_epsilon(1, Fraction(9, 10)), 3))
    (Fraction(1, 1), 1.099)
    """
    target, part, steps = parse_epsilon(epsilon), _parse_shape(shape), whole(sensitivity, "sensitivity")
    if part >= 1:
        return target
    loss = _loss_of_one_step(float(target / steps), float(part))
    return max(target, Fraction(steps * loss * (1 + 1e-12)))


def _loss_of_one_step(rate: float, shape: float) -> float:
    """Compute ln(f(0)/f(1)) of :func:`realised_epsilon` for β = exp(−rate) and a shape below 1.

    The result is too small by a relative error of at most 1e-12.
    """
    if rate >= 0.5:
        # ln(A(0)/(β A(1))) is computed from the sums A(0) and A(1), whose terms fall at least as fast as e^(−n).
        n = np.arange(50)
        c = np.concatenate([[1.0], np.cumprod((n + shape) / (n + 1))])
        weights = np.exp(-2 * rate * n) * c[:-1]
        return float(rate + np.log((weights * c[:-1]).sum() / (weights * c[1:]).sum()))
    # For a small rate the sums have many terms and their ratio is near 1. The Fourier integrals over θ = 0 … π,
    #     f(0) = (1/π) ∫ g dθ,   f(0) − f(1) = (1/π) ∫ 2 sin²(θ/2) g dθ,   g = (1 + sin²(θ/2)/sinh²(rate/2))^(−r),
    # lose no digits by cancellation. The substitution tan(θ/2) = e^x gives integrals over all real x, with
    # dθ = dx/cosh x and sin²(θ/2) = 1/(1 + e^(−2x)). The integrand is analytic up to ±iπ/2, so the trapezium rule of
    # step h errs by e^(−π²/h), which is 1e-17 for h = 1/4.
    spread = 1 / math.sinh(rate / 2) ** 2
    x = np.arange(-math.log1p(spread) / 2 - 42, 42, 0.25)
    squared_sine = 1 / (1 + np.exp(-2 * x))
    g = (1 + spread * squared_sine) ** -shape / np.cosh(x)
    loss = float(-np.log1p(-2 * (squared_sine * g).sum() / g.sum()))
    # A tiny shape has a tiny f(1), and computing it from f(0) − f(1) loses digits. The second term bounds that error.
    return loss + 1e-14 * math.expm1(loss)


# ── sums modulo a power of two ──────────────────────────────────────────────────────────────────────────────────────


def wrap_bits(
    people: int, per_person: int, scale: Number, shape: Number, length: int, probability: float = 2.0**-40
) -> int:
    """Return the number of bits of a modulus so large that a noisy sum almost never wraps around it.

    This is the smallest b with 2^b > people · per_person + 2t (errata E3-9), where the noise Z of every coordinate lies
    within ±t except with the given probability. Chernoff's bound gives t: for every θ below η = 1/scale,

        Pr[Z ≥ x] ≤ e^(−θx) · E[e^(θZ)],   E[e^(θZ)] = (1 − sinh²(θ/2) / sinh²(η/2))^(−shape)

    so t = (ln(2 · length/probability) + ln E[e^(θZ)]) / θ is enough. The factor 2 covers both signs, and the factor
    ``length`` all coordinates. A search over θ finds a small t. Every θ gives a valid t, so the search may be coarse.
    :func:`decode` reads the sum.

    Args:
        people: The largest number of people who add to the sum, at least 1.
        per_person: The largest number that one person may add to one coordinate, at least 1.
        scale: Scale of the noise.
        shape: Shape of the noise of all people together: ``people`` times the shape of one share.
        length: The number of coordinates of the vector, at least 1.
        probability: Bound on the probability that any coordinate wraps, between 0 and 1.

    Returns:
        The number of bits, at most 62.

    Raises:
        InvalidInput: A value is out of range.
        TooLarge: More than 62 bits would be needed.

    >>> wrap_bits(10_000, 1, scale=1, shape=1, length=1254)
    14
    """
    ratio, part = _parse_scale(scale), _parse_shape(shape)
    for name, count in (("people", people), ("per_person", per_person), ("length", length)):
        whole(count, name)
    if not 0 < probability < 1:
        raise InvalidInput(f"The probability of wrapping is {probability}; give one between 0 and 1, such as 2**-40.")
    largest = people * per_person + 2 * _tail(ratio, float(part), math.log(2 * length) - math.log(probability))
    bits = largest.bit_length()  # 2^bits > largest
    if bits > MAX_MODULUS_BITS:
        raise TooLarge(
            f"The sum and its noise need a modulus of {bits} bits, and at most {MAX_MODULUS_BITS} are possible; sum "
            "over fewer people or use less noise."
        )
    return bits


def _tail(scale: Fraction, shape: float, log_rarity: float) -> int:
    """Return a whole number t that the noise Z exceeds with probability at most exp(−log_rarity)."""
    if scale == 0:
        return 0
    rate = float(1 / scale)
    part = np.concatenate([np.linspace(0, 1, 1001)[1:-1], 1 - np.geomspace(1e-3, 1e-6, 100)])  # θ/η
    # sinh(θ/2)/sinh(η/2) is written as e^((θ − η)/2) · (1 − e^(−θ))/(1 − e^(−η)), which does not overflow.
    ratio = np.exp((part - 1) * rate / 2) * np.expm1(-part * rate) / math.expm1(-rate)
    beyond = (log_rarity - shape * np.log1p(-(ratio**2))) / (part * rate)
    return max(0, math.ceil(float(beyond.min()) * (1 + 1e-9)) - 1)


def decode(sums: npt.ArrayLike, bits: int, people: int, per_person: int) -> Integers:
    """Decode the noisy sums of one shard from their residues modulo m = 2^bits (errata E3-9).

    Decode each shard before shards are added. The residues above the largest true sum, people · per_person, are split
    in two halves. A residue of the lower half stands for a sum with positive noise, and one of the upper half for a
    negative number. With the largest t for which m > people · per_person + 2t, a residue v is decoded as

        v − m   if   v ≥ m − t,   otherwise v

    Args:
        sums: Residues, whole numbers from 0 to m − 1.
        bits: The number of bits of the modulus, from :func:`wrap_bits`, from 1 to 62.
        people: The largest number of people who may have added to the sum.
        per_person: The largest number that one person may have added to one coordinate.

    Raises:
        InvalidInput: The modulus is too small for so many people, or a residue is not in 0 … m − 1.

    >>> decode([0, 5, 15], bits=4, people=5, per_person=1).tolist()
    [0, 5, -1]
    """
    if not 1 <= bits <= MAX_MODULUS_BITS:
        raise InvalidInput(f"The modulus has {bits} bits; give a number from 1 to {MAX_MODULUS_BITS}.")
    modulus, largest = 2**bits, people * per_person
    if largest < 0 or modulus <= largest:
        raise InvalidInput(
            f"Sums up to {largest} do not fit a modulus of {bits} bits; use the number of bits that wrap_bits returns."
        )
    residues = np.asarray(sums)
    if residues.dtype.kind not in "iu" and residues.size:
        raise InvalidInput(f"Sums are whole numbers; found {residues.dtype}. Give an array of integers.")
    if residues.size and (residues.min() < 0 or residues.max() >= modulus):
        raise InvalidInput(f"A sum lies outside 0 … 2^{bits} − 1; it is damaged or has another modulus, so drop it.")
    values = residues.astype(np.int64)
    margin = (modulus - largest - 1) // 2
    return np.where(values >= modulus - margin, values - modulus, values)


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _parse_scale(scale: Number) -> Fraction:
    return short_rational(scale, MAX_SHARE_BITS, "The scale of a noise share")


def _parse_shape(shape: Number) -> Fraction:
    part = short_rational(shape, MAX_SHAPE_BITS, "The shape of a noise share")
    if not 0 < part <= MAX_SHAPE:
        raise InvalidInput(
            f"The shape of a noise share is {shown(shape)}; give a rational above 0 and at most {MAX_SHAPE}, such as "
            "Fraction(1, 9500)."
        )
    return part
