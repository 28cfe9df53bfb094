"""Shamir's secret sharing over the prime field of 2^256 + 297 elements.

The secret is the value at 0 of a random polynomial of degree t − 1. The shares are the values of the polynomial at 1,
2, 3, …. Any t shares determine the polynomial. Any t − 1 shares reveal nothing about the secret, because for every
possible secret exactly one polynomial fits these shares.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from heathaze.privacy.randomness import Randomness

PRIME = 2**256 + 297
SHARE_BYTES = 33
_BITS = 257
_WORDS = 5


def split(secret: int, needed: int, count: int, randomness: Randomness) -> list[int]:
    """Split a secret into ``count`` Shamir shares; any ``needed`` shares determine the secret.

    Args:
        secret: An integer from 0 to ``PRIME`` − 1.
        needed: How many shares determine the secret.
        count: How many shares to make.
        randomness: The source of the polynomial's coefficients.

    Returns:
        The shares: the values of the polynomial at 1 … count.
    """
    return evaluate([secret, *uniform(needed - 1, randomness)], count)


def evaluate(coefficients: Sequence[int], count: int, prime: int = PRIME) -> list[int]:
    """Evaluate the polynomial of a secret at 1 … count, which gives the shares.

    Args:
        coefficients: Coefficients of the polynomial; the constant coefficient comes first.
        count: The number of places.
        prime: The size of the field.

    >>> evaluate([1, 2], 4, prime=7)
    [3, 5, 0, 2]
    """
    downwards = list(reversed(coefficients))
    values = []
    for x in range(1, count + 1):
        value = 0
        for coefficient in downwards:
            # x is small, so the value stays short and is reduced only once, at the end.
            value = value * x + coefficient
        values.append(value % prime)
    return values


def combine(shares: Mapping[int, int], prime: int = PRIME) -> int:
    """Reconstruct a secret from its Shamir shares, by Lagrange's formula at 0.

    f is the polynomial, and x_i are the places of the shares.

        f(0) = Σ_i f(x_i) · Π_{j ≠ i} x_j / (x_j − x_i)
             = Π_j x_j · Σ_i f(x_i) / (x_i · Π_{j ≠ i} (x_j − x_i))

    Args:
        shares: The shares by place, at least as many as are needed.
        prime: The size of the field.

    >>> combine({1: 3, 4: 2}, prime=7)
    1
    """
    denominators = [here * math.prod(there - here for there in shares if there != here) % prime for here in shares]
    inverses = _inverses(denominators, prime)
    total = sum(share * inverse for share, inverse in zip(shares.values(), inverses, strict=True))
    return total * math.prod(shares) % prime


def uniform(count: int, randomness: Randomness) -> list[int]:
    """Draw uniform elements of the field: 257 random bits, drawn again if they exceed the field."""
    found: list[int] = []
    while len(found) < count:
        # Nearly half of the draws are too large.
        draws = 2 * (count - len(found)) + 8
        block = randomness.words(_WORDS * draws).tobytes()
        for start in range(0, len(block), 8 * _WORDS):
            number = int.from_bytes(block[start : start + SHARE_BYTES], "little") & (2**_BITS - 1)
            if number < PRIME:
                found.append(number)
    return found[:count]


def _inverses(numbers: Sequence[int], prime: int) -> list[int]:
    """The inverses of all numbers in the field, computed with a single inversion: that of their product."""
    running = list(itertools.accumulate(numbers, lambda product, number: product * number % prime, initial=1))
    inverse = pow(running[-1], -1, prime)
    found = []
    for number, before in zip(reversed(numbers), reversed(running[:-1]), strict=True):
        found.append(inverse * before % prime)
        inverse = inverse * number % prime
    return found[::-1]
