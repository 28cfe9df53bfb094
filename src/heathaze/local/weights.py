"""Whole-number weights of local reports: their ratio is at most e^ε without rounding error, on every machine."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

LARGEST_TOTAL = 2**62
"""The weights of one draw sum to less than this number, so that one 64-bit random word selects the output."""

_FINEST = 32
"""The whole number that stands for a weight of 1 is at most 2^32; at 2^32, rounding e^ε lowers ε by less than 1e-9."""


def floor_exp(low: int, exponent: Fraction | Decimal) -> int:
    """The largest whole-number weight w with w / low ≤ e^exponent, which is ⌊low · e^exponent⌋.

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
        # exp of a Decimal is accurate to half a unit in the last digit. A relative 1e-55 covers this error and the
        # division.
        product = low * power.exp()
        least = math.floor(product * (1 - Decimal("1e-55")))
        # For a rational exponent other than 0 the power is irrational, so the product is never exactly a whole number.
        return low if exponent == 0 else least


def finest_low(cells: int, raised_cells: int, epsilon: Fraction) -> int:
    """The whole number that stands for a weight of 1: the largest power of two for which all weights fit into 62 bits.

    The sum of all weights must stay below :data:`LARGEST_TOTAL`.

    Args:
        cells: The number of outputs; each has a weight of at least 1.
        raised_cells: The number of outputs that may have a weight up to e^ε.
        epsilon: The exponent ε.

    >>> finest_low(437, 45, Fraction(7, 2)) == 2**32, finest_low(2**20, 1, Fraction(40))
    (True, 16)
    """
    # The sum of all weights in units of 2^−64, rounded up. Whole numbers give the same result on every machine.
    total = (cells << 64) + raised_cells * (floor_exp(2**64, epsilon) + 1 - 2**64)
    room = (LARGEST_TOTAL << 64).bit_length() - 1
    return int(2 ** max(0, min(_FINEST, room - total.bit_length())))


def largest_exponent(raised_cells: int, cells: int, epsilon: Fraction) -> Fraction:
    """The largest exponent up to ε for which all whole-number weights of a report fit into 62 bits.

    The exponent is ε itself if it fits, and otherwise a whole number. A whole number is needed only if ε is so large
    that just about one report in 10^9 is not the true cell.

    Args:
        raised_cells: The number of outputs that may have a weight up to e^ε.
        cells: The number of outputs.
        epsilon: The privacy loss ε of one report.

    >>> largest_exponent(1, 100, Fraction(7, 2)), largest_exponent(1, 100, Fraction(1000))
    (Fraction(7, 2), Fraction(42, 1))
    """

    def fits(exponent: Fraction) -> bool:
        return floor_exp(raised_cells, exponent) < LARGEST_TOTAL - cells

    if fits(epsilon):
        return epsilon
    return Fraction(max(whole for whole in range(43) if fits(Fraction(whole))))
