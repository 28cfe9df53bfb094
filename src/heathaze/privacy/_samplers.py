"""Samplers of integer noise and of noise shares, compiled with numba, without floats.

Every probability is a ratio of integers below 2^63. CKS means Canonne, Kamath, Steinke, "The Discrete Gaussian for
Differential Privacy" (2020).

Each kernel (a ``fill_…`` function) reads random words from the front of a buffer and makes as many draws as the words
allow. It returns the number of complete draws and the number of words that these draws used. A draw that is cut off by
the end of the buffer does not count (see ``noise.draw``).

Each helper reads words from the position ``at`` and returns its result and the next position. The position is
``OUT_OF_WORDS`` if the buffer ended first.
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
_2 = np.uint64(2)
_NOTHING = np.int64(0)
OUT_OF_WORDS = -1

# CKS Algorithm 1 for exp(−1) asks "is a uniform number below 1/k?" for k = 1, 2, 3, … It returns True if the first "no"
# comes at an odd k. The answers to the first 16 questions have probabilities that are multiples of 1/16!. One uniform
# integer below 16! therefore answers all 16 questions. The value 0 means "16 times yes, so ask question 17".
# _ODD other values mean "the first no is at an odd k": Σ over odd k ≤ 16 of 16!/(k−1)! − 16!/k!.
_ROUNDS = 16
_ALL = math.factorial(_ROUNDS)
_FACTORIAL = np.uint64(_ALL)
_ODD = np.uint64(sum(_ALL // math.factorial(k - 1) - _ALL // math.factorial(k) for k in range(1, _ROUNDS + 1, 2)))
_NEXT_ROUND = np.uint64(_ROUNDS + 1)


@nb.njit(cache=True)
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Multiply two 64-bit words; return the high and the low half of the 128-bit product."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    low, middle1, middle2, high = a0 * b0, a1 * b0, a0 * b1, a1 * b1
    carry = (low >> _32) + (middle1 & _LOW) + (middle2 & _LOW)
    return high + (middle1 >> _32) + (middle2 >> _32) + (carry >> _32), a * b


@nb.njit(cache=True)
def _below(words: Words, at: int, bound: np.uint64) -> tuple[np.uint64, int]:
    """Draw a uniform integer in [0, bound) exactly, by Lemire's multiplication (2019, Algorithm 5)."""
    while at < len(words):
        high, low = _product(words[at], bound)
        at += 1
        # The remainder 2^64 mod bound is below the bound, so the slow division is needed only if low < bound.
        if low >= bound or low >= (_0 - bound) % bound:
            return high, at
    return _0, OUT_OF_WORDS


@nb.njit(cache=True)
def _bernoulli_exp(
    words: Words, at: int, numerator: np.uint64, denominator: np.uint64, k: np.uint64
) -> tuple[bool, int]:
    """Draw a coin that is True with probability exp(−numerator/denominator) ≥ exp(−1) (CKS Algorithm 1, γ ≤ 1).

    ``k`` is the round to begin with. It is above 1 if the earlier rounds are already decided.
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
    """Draw a coin that is True with probability exp(−1); one integer below 16! decides the first 16 rounds."""
    drawn, at = _below(words, at, _FACTORIAL)
    if at >= 0 and drawn == _0:
        kept, at = _bernoulli_exp(words, at, _1, _1, _NEXT_ROUND)
        return kept, at
    return drawn <= _ODD, at


@nb.njit(cache=True)
def _bernoulli_exp_any(words: Words, at: int, numerator: np.uint64, denominator: np.uint64) -> tuple[bool, int]:
    """Draw a coin that is True with probability exp(−numerator/denominator), for any exponent (CKS Algorithm 1)."""
    for _ in range(numerator // denominator):
        kept, at = _bernoulli_exp_one(words, at)
        if at < 0 or not kept:
            return False, at
    return _bernoulli_exp(words, at, numerator % denominator, denominator, _1)


@nb.njit(cache=True)
def _one_laplace(words: Words, at: int, t: np.uint64, s: np.uint64) -> tuple[np.int64, int]:
    """Draw one discrete Laplace number of scale t/s, Pr[x] ∝ exp(−|x| s/t) (CKS Algorithm 2)."""
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
            continue  # +0 and −0 are the same number, which must not be twice as likely
        return (-magnitude if negative else magnitude), at


@nb.njit(cache=True)
def fill_laplace(words: Words, out: Integers, t: np.uint64, s: np.uint64) -> tuple[int, int]:
    """Fill ``out`` with draws of discrete Laplace noise of scale t/s."""
    used = 0
    for i in range(len(out)):
        drawn, at = _one_laplace(words, used, t, s)
        if at < 0:
            return i, used
        out[i], used = drawn, at
    return len(out), used


@nb.njit(cache=True)
def fill_gaussian(words: Words, out: Integers, p: np.uint64, q: np.uint64) -> tuple[int, int]:
    """Fill ``out`` with draws of discrete Gaussian noise of σ = p/q (CKS Algorithm 3 with t = σ).

    A proposal y is drawn from discrete Laplace noise of scale σ and accepted with probability exp(−(|y| − σ)²/2σ²).
    The product of the two probabilities is proportional to exp(−y²/2σ²).
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
                continue  # such a y is accepted with probability below exp(−1800); its square may exceed 64 bits
            kept, at = _bernoulli_exp_any(words, at, distance * distance, _2 * p * p)
            if at < 0:
                return i, used
            if kept:
                out[i], used = drawn, at
                break
    return len(out), used


# ── noise shares: Poisson numbers, and the terms of a Pólya number ──────────────────────────────────────────────────

# A Poisson number of mean 1 is n with probability proportional to 16!/n!. For n ≤ 16 these weights are integers, with
# sum ``_LISTED``. The weights of all n > 16 together are below 1. So a uniform integer below ``_LISTED`` + 1 decides n,
# except for its last value, which stands for all n > 16.
_LAST_LISTED = 16
_ENDS = np.cumsum([math.factorial(_LAST_LISTED) // math.factorial(n) for n in range(_LAST_LISTED + 1)], dtype=np.uint64)
_LISTED = np.uint64(_ENDS[-1])
_FIRST_UNLISTED = np.uint64(_LAST_LISTED + 1)

MAX_BEYOND = 12
"""Block M + 12 and later blocks (see :mod:`heathaze.privacy.noise_shares`) are left out. A term in
them is at least 2^11 · scale, and such a term has probability below exp(−2048)."""

_3 = np.uint64(3)
_MAX_BEYOND = np.uint64(MAX_BEYOND)


@nb.njit(cache=True)
def _one_poisson(words: Words, at: int) -> tuple[np.int64, int]:
    """Draw one Poisson number of mean 1, which nearly always takes one word."""
    while True:
        value, at = _below(words, at, _LISTED + _1)
        if at < 0:
            return _NOTHING, at
        if value < _LISTED:
            n = 0
            while value >= _ENDS[n]:
                n += 1
            return np.int64(n), at
        # The last value: accept n = 17 with probability 1/17, n = 18 with 1/(17·18), and so on; otherwise start over.
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
    """Fill ``out`` with Poisson numbers of mean p = numerator/denominator ≤ 1, by thinning.

    Draw a number of points that is Poisson with mean 1, and keep each point with probability p. The number of kept
    points is Poisson with mean p.
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
    """Draw a coin that is True with probability exp(−k s/t) · 2^i, where i = ``beyond`` and k s/t ≥ i.

    exp(−k s/t) · 2^i = exp(−(k s/t − i)) · (2/e)^i
    """
    kept, at = _bernoulli_exp_any(words, at, k * s - beyond * t, t)
    if at < 0 or not kept:
        return False, at
    for _ in range(beyond):
        # The coin of probability exp(−1) reaches its third round with probability 1/2, and is never True if it stops
        # in an earlier round. So a coin that begins in the third round is True with probability 2/e.
        kept, at = _bernoulli_exp(words, at, _1, _1, _3)
        if at < 0 or not kept:
            return False, at
    return True, at


@nb.njit(cache=True)
def _one_term(words: Words, at: int, blocks: np.uint64, t: np.uint64, s: np.uint64) -> tuple[np.int64, int]:
    """Propose one term of a Pólya number as in :mod:`heathaze.privacy.noise_shares`; 0 if the term is not kept."""
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
    """Fill ``out`` with proposed terms of a Pólya number of scale t/s, 0 where a term is not kept; ``blocks`` is M."""
    used = 0
    for i in range(len(out)):
        drawn, at = _one_term(words, used, blocks, t, s)
        if at < 0:
            return i, used
        out[i], used = drawn, at
    return len(out), used
