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
        power = (
            Decimal(exponent.numerator) / Decimal(exponent.denominator) if isinstance(exponent, Fraction) else exponent
        )
        # Decimal's exp is good to half a unit of its last digit; 1e-55 of the result covers that and the division.
        product = low * power.exp()
        least = math.floor(product * (1 - Decimal("1e-55")))
        # Only e^0 is a whole multiple; everything else is irrational and far from one.
        return low if exponent == 0 else least


def finest_low(cells: int, raised_cells: int, epsilon: Fraction) -> int:
    """The largest power of two to write a weight of 1 as so that all weights together stay below LARGEST_TOTAL.

    Args:
        cells: How many outputs weigh at least 1.
        raised_cells: How many of them may weigh as much as e^ε.
        epsilon: The exponent.

    >>> finest_low(437, 45, Fraction(7, 2)) == 2**32, finest_low(2**20, 1, Fraction(40))
    (True, 16)
    """
    # In units of 2^−64, rounded up; whole numbers alone, so that every machine finds the same power.
    total = (cells << 64) + raised_cells * (raised(2**64, epsilon) + 1 - 2**64)
    room = (LARGEST_TOTAL << 64).bit_length() - 1
    return int(2 ** max(0, min(_FINEST, room - total.bit_length())))


def most_useful(raised_cells: int, cells: int, epsilon: Fraction) -> Fraction:
    """ε, or the largest whole number that 62 bits have room for: beyond it a report is the truth but for one in 10^9.

    >>> most_useful(1, 100, Fraction(7, 2)), most_useful(1, 100, Fraction(1000))
    (Fraction(7, 2), Fraction(42, 1))
    """

    def fits(exponent: Fraction) -> bool:
        return raised(raised_cells, exponent) < LARGEST_TOTAL - cells

    if fits(epsilon):
        return epsilon
    return Fraction(max(whole for whole in range(43) if fits(Fraction(whole))))
