"""Compiled integer samplers of noise shares (numba): Poisson numbers and the terms of a Pólya number. No float enters.

Kernels read words, count draws and leave a cut one uncounted just as those of ``_samplers`` do (see noise._draw).
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from heathaze.privacy._samplers import _NOTHING, OUT_OF_WORDS, _0, _1, _below, _bernoulli_exp, _bernoulli_exp_one
from heathaze.types import Integers, Words

# A Poisson number of mean 1 is n with a weight of 1/n!, or of 16!/n!. For n ≤ 16 these weights are integers; those of
# all larger n together are below 1. So of ``_LISTED`` + 1 tickets all but the last one belong to a listed n.
_LAST_LISTED = 16
_ENDS = np.cumsum([math.factorial(_LAST_LISTED) // math.factorial(n) for n in range(_LAST_LISTED + 1)], dtype=np.uint64)
_LISTED = np.uint64(_ENDS[-1])
_FIRST_UNLISTED = np.uint64(_LAST_LISTED + 1)

MAX_BEYOND = 12
"""Block M + 12 and those after it are left out: they begin at 2^11 scales or more, where a term has probability below
exp(−2048)."""

_2 = np.uint64(2)
_3 = np.uint64(3)
_MAX_BEYOND = np.uint64(MAX_BEYOND)


@nb.njit(cache=True)
def _one_poisson(words: Words, at: int) -> tuple[np.int64, int]:
    """One Poisson number of mean 1: nearly always one word."""
    while True:
        ticket, at = _below(words, at, _LISTED + _1)
        if at < 0:
            return _NOTHING, at
        if ticket < _LISTED:
            n = 0
            while ticket >= _ENDS[n]:
                n += 1
            return np.int64(n), at
        # The last ticket: n = 17 with probability 1/17, n = 18 with 1/(17·18), and so on; otherwise start over.
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

    Of a Poisson number of things of mean 1 each is kept with that probability; what is left is Poisson of that mean.
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
        # The coin of exp(−1) reaches its third round with probability 1/2 and is never true before: 2/e from there on.
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
