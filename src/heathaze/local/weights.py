"""Whole-number weights whose ratio is at most e^ε exactly, and the same on every machine."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

LARGEST_TOTAL = 2**62
"""The weights of one draw sum to less than this, so that one 64-bit word decides."""

_FINEST = 32
"""A weight of 1 is written as at most 2^32; rounding e^ε down then costs less than 1e-9 of ε."""


def floor_exp(low: int, exponent: Fraction | Decimal) -> int:
    """⌊low · e^exponent⌋: the largest whole number w with w / low ≤ e^exponent.

    Args:
        low: A whole number of at least 1.
        exponent: Any rational number or decimal.

    >>> floor_exp(2**32, Fraction(7, 2)), floor_exp(1, Fraction(0))
    (142229783154, 1)
    """
    with localcontext(Context(prec=60, rounding=ROUND_FLOOR, traps=[])):
        power = (
            Decimal(exponent.numerator) / Decimal(exponent.denominator) if isinstance(exponent, Fraction) else exponent
        )
        # Decimal's exp is accurate to half a unit of its last digit; 1e-55 of the result covers that and the division.
        product = low * power.exp()
        least = math.floor(product * (1 - Decimal("1e-55")))
        # Only e^0 is rational; all other powers are irrational, so the product is not a whole number.
        return low if exponent == 0 else least


def finest_low(cells: int, raised_cells: int, epsilon: Fraction) -> int:
    """The whole number that stands for a weight of 1: the largest power of two for which all weights fit.

    All weights together must stay below :data:`LARGEST_TOTAL`.

    Args:
        cells: How many outputs have a weight of at least 1.
        raised_cells: How many of them may have a weight of e^ε.
        epsilon: The exponent.

    >>> finest_low(437, 45, Fraction(7, 2)) == 2**32, finest_low(2**20, 1, Fraction(40))
    (True, 16)
    """
    # In units of 2^−64, rounded up; only whole numbers, so that every machine finds the same power.
    total = (cells << 64) + raised_cells * (floor_exp(2**64, epsilon) + 1 - 2**64)
    room = (LARGEST_TOTAL << 64).bit_length() - 1
    return int(2 ** max(0, min(_FINEST, room - total.bit_length())))


def largest_exponent(raised_cells: int, cells: int, epsilon: Fraction) -> Fraction:
    """ε, or the largest whole number below it for which all weights fit into 62 bits.

    Such an exponent is so large that only one report in 10^9 is not the true cell.

    Args:
        raised_cells: How many outputs may have a weight of e^ε.
        cells: How many outputs there are.
        epsilon: The exponent.

    >>> largest_exponent(1, 100, Fraction(7, 2)), largest_exponent(1, 100, Fraction(1000))
    (Fraction(7, 2), Fraction(42, 1))
    """

    def fits(exponent: Fraction) -> bool:
        return floor_exp(raised_cells, exponent) < LARGEST_TOTAL - cells

    if fits(epsilon):
        return epsilon
    return Fraction(max(whole for whole in range(43) if fits(Fraction(whole))))
