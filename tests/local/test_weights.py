"""Whole-number weights: never above e^ε, as near to it as they can be, and within 62 bits."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.local.weights import LARGEST_TOTAL, finest_low, floor_exp, largest_exponent

EXPONENTS = st.fractions(min_value=-50, max_value=1000, max_denominator=10**12)


def power(exponent: Fraction, digits: int = 80) -> tuple[Fraction, Fraction]:
    """Bounds on e^exponent, by its series in whole numbers and squaring; no library's exponential is trusted.

    e^x = (e^(x / 2^k))^(2^k), and every term of the series is rounded down by less than one place in the last.
    """
    scale = 10 ** (digits + 40)
    halvings = max(0, math.ceil(math.log2(float(abs(exponent)) + 1)) + 4)
    part = abs(exponent) / 2**halvings
    low = term = Fraction(1)
    for place in range(1, 60):
        term = Fraction(math.floor(term * part / place * scale), scale)
        low += term
    high = low + Fraction(1, 10 ** (digits + 20))
    for _ in range(halvings):
        low = Fraction(math.floor(low * low * scale), scale)
        high = Fraction(math.ceil(high * high * scale), scale)
    return (low, high) if exponent >= 0 else (1 / high, 1 / low)


@given(st.integers(1, 2**64), EXPONENTS)
def test_a_weight_never_exceeds_its_power(low: int, exponent: Fraction) -> None:
    """And the next whole number does, as far as 50 digits tell."""
    least, most = power(exponent)
    weight = floor_exp(low, exponent)
    assert weight <= low * least or exponent == 0
    assert (weight + 1) * (1 + Fraction(1, 10**50)) > low * most


@given(st.integers(1, 2**64), EXPONENTS)
def test_decimals_of_eighty_digits_agree(low: int, exponent: Fraction) -> None:
    with localcontext(Context(prec=80, traps=[])):
        product = low * (Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
        weight = Decimal(floor_exp(low, exponent))
        assert weight <= product * (1 + Decimal("1e-75"))
        assert (weight + 1) * (1 + Decimal("1e-50")) > product


def test_the_golden_weight() -> None:
    """Errata part 6: ⌊2^32 e^3.5⌋."""
    assert floor_exp(2**32, Fraction(7, 2)) == 142229783154
    least, most = power(Fraction(7, 2))
    assert 142229783154 <= 2**32 * least <= 2**32 * most < 142229783155


def test_the_bounds_of_this_test_are_right() -> None:
    for exponent in (Fraction(0), Fraction(1), Fraction(7, 2), Fraction(-3), Fraction(40)):
        least, most = power(exponent)
        assert least <= most
        assert float(least) == pytest.approx(math.exp(exponent), rel=1e-14)
        assert (most - least) / most < Fraction(1, 10**60)


@pytest.mark.parametrize("low", [1, 7, 2**32, 2**64])
def test_e_to_the_nothing_is_one(low: int) -> None:
    assert floor_exp(low, Fraction(0)) == low
    assert floor_exp(low, Decimal(0)) == low
    assert floor_exp(low, Fraction(1, 10**30)) == low


def test_a_decimal_is_as_good_as_its_fraction() -> None:
    assert floor_exp(2**40, Decimal("3.5")) == floor_exp(2**40, Fraction(7, 2))


@given(st.integers(1, 2**24), st.integers(1, 2**24), st.fractions(Fraction(1, 10**6), 1000, max_denominator=10**6))
def test_all_weights_fit_and_are_as_fine_as_can_be(cells: int, raised_cells: int, epsilon: Fraction) -> None:
    raised_cells = min(cells, raised_cells)
    exponent = largest_exponent(raised_cells, cells, epsilon)
    assert 0 <= exponent <= epsilon
    low = finest_low(cells, raised_cells, exponent)

    def total(scale: int) -> int:
        return cells * scale + raised_cells * (floor_exp(scale, exponent) - scale)

    assert low in [2**place for place in range(33)]
    assert total(low) < LARGEST_TOTAL
    assert low == 2**32 or total(4 * low) >= LARGEST_TOTAL


def test_an_epsilon_without_room_is_cut_to_what_is_of_use() -> None:
    """Beyond it a report is the truth but for one in 10^9."""
    assert largest_exponent(1, 100, Fraction(7, 2)) == Fraction(7, 2)
    exponent = largest_exponent(1, 100, Fraction(1000))
    assert exponent == 42
    assert 100 / math.exp(exponent) < 1e-9
    assert largest_exponent(2**24, 2**24, Fraction(1000)) < 42
