"""Losses in exact rationals, and the ε that are refused."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.errors import InvalidInput
from heathaze.privacy.loss import PrivacyLoss, decimal, decimal_down, exact, parse_epsilon


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (1, Fraction(1)),
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        (Decimal("0.25"), Fraction(1, 4)),
        (Fraction(2, 7), Fraction(2, 7)),
        (np.float64(0.3), Fraction(3, 10)),
        (1e-6, Fraction(1, 10**6)),
    ],
)
def test_numbers_mean_what_was_written(written, meant: Fraction) -> None:
    assert exact(written) == meant
    assert parse_epsilon(written) == meant


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (0, "epsilon is 0; give a positive number"),
        (-1, "epsilon is -1; give a positive number"),
        (math.nan, "epsilon is not a number"),
        (math.inf, "epsilon is infinite, which promises nothing"),
        (-math.inf, "epsilon is infinite"),
        ("much", "epsilon is 'much'; give a positive number"),
        (None, "epsilon is None; give a positive number"),
        (True, "epsilon is True; give a positive number"),
        ("1/0", "epsilon is '1/0'; give a positive number"),
        (1e-9, "below 1e-06 nothing but noise is left"),
        ([1], "give a positive number"),
    ],
)
def test_a_bad_epsilon_gets_a_sentence(value, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        parse_epsilon(value)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_what_is_shown_is_never_less_than_the_loss(value: Fraction) -> None:
    shown = Fraction(decimal(value))
    assert value <= shown <= value * (1 + Fraction(1, 10**5))
    assert value * (1 - Fraction(1, 10**5)) <= Fraction(decimal_down(value)) <= value


def test_numbers_beyond_floats_are_shown_too() -> None:
    assert [decimal(Fraction(10**4000)), decimal(Fraction(1, 10**4000))] == ["more than 1e+300", "1e-300"]
    assert [decimal_down(Fraction(1, 10**4000)), decimal(Fraction(0)), decimal_down(Fraction(0))] == ["0"] * 3


def test_losses_add_up() -> None:
    assert sum([PrivacyLoss(Fraction(1, 10), Fraction(1, 100))] * 9, PrivacyLoss(Fraction(1, 10))) == PrivacyLoss(
        Fraction(1), Fraction(9, 100)
    )
    assert str(PrivacyLoss(Fraction(1, 2))) == "ε = 0.5"
    assert str(PrivacyLoss(Fraction(1, 2), Fraction(1, 10**6))) == "ε = 0.5, δ = 1e-06"


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (1, -1), (1, 1)])
def test_an_impossible_loss_is_refused(epsilon: int, delta: int) -> None:
    with pytest.raises(InvalidInput, match=r"A privacy loss has epsilon .*; give epsilon ≥ 0 and 0 ≤ delta < 1"):
        PrivacyLoss(Fraction(epsilon), Fraction(delta))
