"""Whole-number weights whose ratios keep a promise exactly: e^ε rounded down, the same on every machine."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

LARGEST_TOTAL = 2**62
"""All weights of one draw sum to less than this, so that one 64-bit word decides."""

_FINEST = 32
"""A weight of 1 is written as up to 2^32: what rounding e^ε down costs is then below 1e-9 of ε."""


def raised(low: int, exponent: Fraction | Decimal) -> int:
    """The largest whole number w with w / low ≤ e^exponent.

    >>> raised(2**32, Fraction(7, 2)), raised(1, Fraction(0))
    (142229783154, 1)
    """
    with localcontext(Context(prec=60, rounding=ROUND_FLOOR, traps=[])):
        power = Decimal(exponent.numerator) / Decimal(exponent.denominator) if isinstance(exponent, Fraction) else exponent
        # Decimal's exp is good to half a unit of its last digit; 1e-55 of the result covers that and the division.
        product = low * power.exp()
        least = math.floor(product * (1 - Decimal("1e-55")))
        # Only e^0 is a whole multiple; everything else is irrational and far from one.
        return low if exponent == 0 else least


def finest_low(cells: float, raised_cells: float, epsilon: float) -> int:
    """The largest power of two to write a weight of 1 as, so that all weights together stay below :data:`LARGEST_TOTAL`.

    Args:
        cells: How many outputs weigh at least 1.
        raised_cells: How many of them may weigh as much as e^ε.
        epsilon: The exponent.
    """
    weight = math.log2(cells) + math.log2(1 + raised_cells / cells * math.expm1(min(epsilon, 700.0)))
    return 2 ** max(0, min(_FINEST, math.floor(61 - weight)))


def most_useful(raised_cells: int, cells: int, epsilon: Fraction) -> Fraction:
    """ε, or the largest whole number that 62 bits have room for: beyond it a report is the truth but for one in 10^9."""
    room = math.floor(math.log((LARGEST_TOTAL - cells) / max(1, raised_cells)))
    return min(epsilon, Fraction(room))
