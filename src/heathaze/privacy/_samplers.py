"""Compiled integer samplers (numba) of noise and of noise shares, without floats.

Every probability is a ratio of integers below 2^63. CKS is Canonne, Kamath, Steinke, "The Discrete Gaussian for
Differential Privacy" (2020).

Each kernel reads words from the front of a buffer and fills as many draws as the words allow. It returns how many draws
are complete and how many words they used. A draw that is cut off by the end of the buffer does not count (noise.draw).
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from heathaze.types import Integers, Words

_LOW = np.uint64(0xFFFF_FFFF)
_32 = np.uint64(32)
_0 = np.uint64(0)
_1 = np.uint64(1)
_NOTHING = np.int64(0)
OUT_OF_WORDS = -1

# CKS Algorithm 1 for exp(−1) asks "is a uniform below 1/k?" for k = 1, 2, 3, … and is true if the first "no" comes at
# an odd k. The answers to the first 16 questions have probabilities that are multiples of 1/16!, so one uniform integer
# below 16! answers them all: one value (we take 0) means "16 times yes, ask on", and this many mean "no at an odd k":
# Σ over odd k ≤ 16 of 16!/(k−1)! − 16!/k!.
_ROUNDS = 16
_ALL = math.factorial(_ROUNDS)
_FACTORIAL = np.uint64(_ALL)
_ODD = np.uint64(sum(_ALL // math.factorial(k - 1) - _ALL // math.factorial(k) for k in range(1, _ROUNDS + 1, 2)))
_NEXT_ROUND = np.uint64(_ROUNDS + 1)


@nb.njit(cache=True)
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """High and low half of the 128-bit product."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    low, middle1, middle2, high = a0 * b0, a1 * b0, a0 * b1, a1 * b1
    carry = (low >> _32) + (middle1 & _LOW) + (middle2 & _LOW)
    return high + (middle1 >> _32) + (middle2 >> _32) + (carry >> _32), a * b


@nb.njit(cache=True)
def _below(words: Words, at: int, bound: np.uint64) -> tuple[np.uint64, int]:
    """Uniform integer in [0, bound) by Lemire's multiplication (2019, Algorithm 5): exact, rejects almost never."""
    while at < len(words):
        high, low = _product(words[at], bound)
        at += 1
        # The remainder is below the bound, so the slow division is only needed when the first comparison fails.
        if low >= bound or low >= (_0 - bound) % bound:
            return high, at
    return _0, OUT_OF_WORDS


@nb.njit(cache=True)
def _bernoulli_exp(
    words: Words, at: int, numerator: np.uint64, denominator: np.uint64, k: np.uint64
) -> tuple[bool, int]:
    """True with probability exp(−numerator/denominator), 0 ≤ numerator ≤ denominator (CKS Algorithm 1, γ ≤ 1).

    ``k`` is the round to begin with: 1, unless the earlier ones are already answered.
    """
    while True:
        drawn, at = _below(words, at, denominator * k)
        if at < 0:
            return False, at
        if drawn >= numerator:
            return k & _1 == _1, at
        k += _1


@nb.njit(cache=True)
def _bernoulli_exp_one(words: Words, at: int) -> tuple[bool, int]:
    """True with probability exp(−1): the first 16 rounds of CKS Algorithm 1 from one integer below 16!."""
    drawn, at = _below(words, at, _FACTORIAL)
    if at >= 0 and drawn == _0:
        kept, at = _bernoulli_exp(words, at, _1, _1, _NEXT_ROUND)
        return kept, at
    return drawn <= _ODD, at


@nb.njit(cache=True)
def _one_laplace(words: Words, at: int, t: np.uint64, s: np.uint64) -> tuple[np.int64, int]:
    """One draw with Pr[x] ∝ exp(−|x| s/t) (CKS Algorithm 2)."""
    while True:
        u, at = _below(words, at, t)
        if at < 0:
            return _NOTHING, at
        kept, at = _bernoulli_exp(words, at, u, t, _1)
        if at < 0:
            return _NOTHING, at
        if not kept:
            continue
        v = _0
        while True:
            again, at = _bernoulli_exp_one(words, at)
            if at < 0:
                return _NOTHING, at
            if not again:
                break
            v += _1
        magnitude = np.int64((u + t * v) // s)
        if at >= len(words):
            return _NOTHING, OUT_OF_WORDS
        negative = words[at] & _1 == _1
        at += 1
        if negative and magnitude == 0:
            continue  # zero must not count twice
        return (-magnitude if negative else magnitude), at


@nb.njit(cache=True)
def fill_laplace(words: Words, out: Integers, t: np.uint64, s: np.uint64) -> tuple[int, int]:
    """Discrete Laplace of scale t/s."""
    used = 0
    for i in range(len(out)):
        drawn, at = _one_laplace(words, used, t, s)
        if at < 0:
            return i, used
        out[i], used = drawn, at
    return len(out), used


@nb.njit(cache=True)
def _accepts_gaussian(words: Words, at: int, distance: np.uint64, p: np.uint64) -> tuple[bool, int]:
    """True with probability exp(−distance² / 2p²), however large the exponent (CKS Algorithm 1, γ > 1)."""
    numerator, denominator = distance * distance, np.uint64(2) * p * p
    for _ in range(numerator // denominator):
        kept, at = _bernoulli_exp_one(words, at)
        if at < 0 or not kept:
            return False, at
    kept, at = _bernoulli_exp(words, at, numerator % denominator, denominator, _1)
    return kept, at


@nb.njit(cache=True)
def fill_gaussian(words: Words, out: Integers, p: np.uint64, q: np.uint64) -> tuple[int, int]:
    """Discrete Gaussian of σ = p/q (CKS Algorithm 3 with t = σ).

    Proposes y from Laplace of scale σ and accepts with exp(−(|y| − σ)²/2σ²); the product is ∝ exp(−y²/2σ²).
    """
    used = 0
    for i in range(len(out)):
        at = used
        while True:
            drawn, at = _one_laplace(words, at, p, q)
            if at < 0:
                return i, used
            scaled = np.uint64(abs(drawn)) * q
            distance = scaled - p if scaled >= p else p - scaled
            if distance >= np.uint64(60) * p:
                continue  # probability below exp(−1800) either way; keeps the square within 64 bits
            kept, at = _accepts_gaussian(words, at, distance, p)
            if at < 0:
                return i, used
            if kept:
                out[i], used = drawn, at
                break
    return len(out), used


# ── noise shares: Poisson numbers, and the terms of a Pólya number ──────────────────────────────────────────────────

# A Poisson number of mean 1 is n with probability proportional to 16!/n!. For n ≤ 16 these weights are integers; those
# of all larger n together are below 1. So all but the last of ``_LISTED`` + 1 uniform values belong to a listed n.
_LAST_LISTED = 16
_ENDS = np.cumsum([math.factorial(_LAST_LISTED) // math.factorial(n) for n in range(_LAST_LISTED + 1)], dtype=np.uint64)
_LISTED = np.uint64(_ENDS[-1])
_FIRST_UNLISTED = np.uint64(_LAST_LISTED + 1)

MAX_BEYOND = 12
"""Block M + 12 and later blocks are left out. They begin at 2^11 scales or more, where a term has probability below
exp(−2048)."""

_2 = np.uint64(2)
_3 = np.uint64(3)
_MAX_BEYOND = np.uint64(MAX_BEYOND)


@nb.njit(cache=True)
def _one_poisson(words: Words, at: int) -> tuple[np.int64, int]:
    """One Poisson number of mean 1: nearly always one word."""
    while True:
        value, at = _below(words, at, _LISTED + _1)
        if at < 0:
            return _NOTHING, at
        if value < _LISTED:
            n = 0
            while value >= _ENDS[n]:
                n += 1
            return np.int64(n), at
        # The last value: n = 17 with probability 1/17, n = 18 with 1/(17·18), and so on; otherwise start over.
        unlisted = _FIRST_UNLISTED
        while True:
            answer, at = _below(words, at, unlisted)
            if at < 0:
                return _NOTHING, at
            if answer == _0:
                return np.int64(unlisted), at
            if answer > _1:
                break
            unlisted += _1


@nb.njit(cache=True)
def fill_poisson(words: Words, out: Integers, numerator: np.uint64, denominator: np.uint64) -> tuple[int, int]:
    """Poisson numbers of mean numerator/denominator ≤ 1.

    If each of a Poisson number of things, of mean 1, is kept with that probability, the number kept is Poisson of that
    mean.
    """
    used = 0
    for i in range(len(out)):
        drawn, at = _one_poisson(words, used)
        if at < 0:
            return i, used
        kept = drawn
        if numerator < denominator:
            for _ in range(drawn):
                answer, at = _below(words, at, denominator)
                if at < 0:
                    return i, used
                if answer >= numerator:
                    kept -= 1
        out[i], used = kept, at
    return len(out), used


@nb.njit(cache=True)
def _keeps(words: Words, at: int, k: np.uint64, beyond: np.uint64, t: np.uint64, s: np.uint64) -> tuple[bool, int]:
    """True with probability exp(−k s/t) · 2^beyond, where k s/t ≥ beyond.

    exp(−k s/t) · 2^i = exp(−(k s/t − i)) · (2/e)^i
    """
    exponent = k * s - beyond * t
    for _ in range(exponent // t):
        kept, at = _bernoulli_exp_one(words, at)
        if at < 0 or not kept:
            return False, at
    kept, at = _bernoulli_exp(words, at, exponent % t, t, _1)
    if at < 0 or not kept:
        return False, at
    for _ in range(beyond):
        # The coin of exp(−1) comes to its third round with probability 1/2 and is never true before it. So it is true
        # with probability 2/e from there on.
        kept, at = _bernoulli_exp(words, at, _1, _1, _3)
        if at < 0 or not kept:
            return False, at
    return True, at


@nb.njit(cache=True)
def _one_term(words: Words, at: int, blocks: np.uint64, t: np.uint64, s: np.uint64) -> tuple[np.int64, int]:
    """One proposed term, or 0 if it is not kept; the proposal is that of :mod:`heathaze.privacy.noise_shares`."""
    block, at = _below(words, at, blocks + _2)
    if at < 0:
        return _NOTHING, at
    beyond = _0
    if block >= blocks:
        if at >= len(words):
            return _NOTHING, OUT_OF_WORDS
        coins = words[at]
        at += 1
        while coins & _1 == _1:
            coins >>= _1
            beyond += _1
            if beyond == _MAX_BEYOND:
                return _NOTHING, at
        block = blocks + beyond
    if at >= len(words):
        return _NOTHING, OUT_OF_WORDS
    first = _1 << block
    k = first + (words[at] & (first - _1))
    at += 1
    answer, at = _below(words, at, k)
    if at < 0 or answer >= first:
        return _NOTHING, at
    kept, at = _keeps(words, at, k, beyond, t, s)
    return (np.int64(k) if kept else _NOTHING), at


@nb.njit(cache=True)
def fill_terms(words: Words, out: Integers, blocks: np.uint64, t: np.uint64, s: np.uint64) -> tuple[int, int]:
    """Proposed terms of a Pólya number of scale t/s, 0 where a proposal is not kept; ``blocks`` is M."""
    used = 0
    for i in range(len(out)):
        drawn, at = _one_term(words, used, blocks, t, s)
        if at < 0:
            return i, used
        out[i], used = drawn, at
    return len(out), used
