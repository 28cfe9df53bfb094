"""How many colluders one of several shards may hold, when shards are dealt at random from one list of people."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

EXCESS = Fraction(1, 2**40)
"""How likely it may be, in one round, that some shard holds more colluders than are planned for."""

_UNIT = 2**128
"""One, in the fixed-point numbers below."""

_LARGEST = 2**20
"""Larger shards, which no secure sum takes, are bounded by a formula instead of a sum of many terms."""


@functools.lru_cache(maxsize=64)
def most_in_a_shard(people: int, corrupt: int, shards: int) -> int:
    """The least c with  shards · Pr[X > c] ≤ 2^−40,  X the colluders among the people of one shard.

        Pr[X = x] = C(corrupt, x) · C(people − corrupt, shard − x) / C(people, shard),   shard = people / shards

    X is hypergeometric: the people of one shard are drawn without replacement. Shards depend on each other, and the
    union bound over them holds all the same. In whole numbers, what is summed rounded up and what it is divided by
    rounded down, so that c is never too small; tests compare it with exact binomials.

    >>> most_in_a_shard(people=10_000, corrupt=500, shards=10), most_in_a_shard(10_000, 500, 2)
    (104, 327)
    """
    shard = people // shards
    first, last = max(0, shard - (people - corrupt)), min(corrupt, shard)
    if shards == 1 or first == last:
        return last
    if shard > _LARGEST:
        return min(last, _hoeffding(people, corrupt, shards))
    # Weights relative to that of the mode, where they are largest: away from it they only fall.
    mode = (shard + 1) * (corrupt + 1) // (people + 2)
    above = [_UNIT]
    for x in range(mode, last):
        # The ratio of the probabilities of x + 1 and x:
        ways, of = (corrupt - x) * (shard - x), (x + 1) * (people - corrupt - shard + x + 1)
        above.append(-(-above[-1] * ways // of))
        if above[-1] == 1:
            # Rounded up, it stays at 1 from here on.
            above += [last - x - 1]
            break
    whole = _whole(people, corrupt, shard, mode)
    tails = list(itertools.accumulate(reversed(above)))[::-1]
    # tails[k] ≥ Pr[X ≥ mode + k], in units of `whole`
    for k in range(1, len(tails)):
        if shards * tails[k] * EXCESS.denominator <= whole:
            return min(last, mode + k - 1)
    return last


def _whole(people: int, corrupt: int, shard: int, mode: int) -> int:
    """All weights relative to that of the mode, added up and rounded down."""
    total = weight = _UNIT
    for x in itertools.count(mode):
        weight = weight * (corrupt - x) * (shard - x) // ((x + 1) * (people - corrupt - shard + x + 1))
        if weight <= 0:
            break
        total += weight
    weight = _UNIT
    for x in range(mode, 0, -1):
        weight = weight * x * (people - corrupt - shard + x) // ((corrupt - x + 1) * (shard - x + 1))
        if weight <= 0:
            break
        total += weight
    return total


def _hoeffding(people: int, corrupt: int, shards: int) -> int:
    """mean + √(shard · ln(shards · 2^40) / 2), rounded up (Hoeffding 1963, Theorem 2 and Section 6)."""
    shard = people // shards
    # ln 2 < 0.6932
    bits = EXCESS.denominator.bit_length() + shards.bit_length()
    return -(-shard * corrupt // people) + math.isqrt(-(-shard * bits * 6932 // 20_000)) + 1
