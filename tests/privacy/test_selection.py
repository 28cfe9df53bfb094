"""Exact choices follow their laws, and wrong ones are told apart."""

import math
from fractions import Fraction

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Simulation
from heathaze.privacy.selection import exponential_choice, logistic_coin, logistic_coins
from heathaze.testing.statistics import chi_square

ALPHA = 1e-6
DRAWS = 12_000


def law(scores: list[int], rate: float) -> np.ndarray:
    weight = np.exp(rate * (np.array(scores) - max(scores)))
    return weight / weight.sum()


@pytest.mark.parametrize(
    ("scores", "rate"),
    [
        ([0, 1, 2, 3], Fraction(1, 2)),
        ([5, 5, 5], Fraction(3)),
        ([-3, 4, 0, 4], Fraction(1, 7)),
        ([10**9, 10**9 - 400, 0], Fraction(1, 300)),
        ([0, 7], Fraction(0)),
    ],
)
def test_choices_follow_the_exponential_law(scores: list[int], rate: Fraction) -> None:
    randomness = Simulation(11)
    found = np.bincount([exponential_choice(scores, rate, randomness) for _ in range(DRAWS)], minlength=len(scores))
    assert chi_square(found, DRAWS * law(scores, float(rate))) >= ALPHA
    if len(set(scores)) > 1:
        # The printed rate, four times too large, or one that is not looked at at all, is told apart.
        wrong = 4 * float(rate) if rate else 1.0
        assert chi_square(found, DRAWS * law(scores, wrong)) < ALPHA


def test_one_score_leaves_no_choice() -> None:
    assert exponential_choice([-5], Fraction(10), Simulation(1)) == 0


def test_a_hopeless_score_is_never_chosen() -> None:
    randomness = Simulation(2)
    assert {exponential_choice([0, 10**12], Fraction(1), randomness) for _ in range(200)} == {1}


@pytest.mark.parametrize(("scores", "rate"), [([], Fraction(1)), ([1, 2], Fraction(-1))])
def test_bad_choices_are_refused(scores: list[int], rate: Fraction) -> None:
    with pytest.raises(InvalidInput, match="give"):
        exponential_choice(scores, rate, Simulation(1))


@pytest.mark.parametrize("exponent", ["0", "1/100", "1", "-1", "5/2", "-7/3", "4"])
def test_coins_follow_the_logistic_law(exponent: str) -> None:
    x = Fraction(exponent)
    heads = sum(logistic_coins([x] * DRAWS, Simulation(5)))
    chance = 1 / (1 + math.exp(x))
    assert chi_square([heads, DRAWS - heads], [DRAWS * chance, DRAWS * (1 - chance)]) >= ALPHA
    other = 1 / (1 + math.exp(x + 1))
    assert chi_square([heads, DRAWS - heads], [DRAWS * other, DRAWS * (1 - other)]) < ALPHA


def test_one_coin_is_as_many_coins() -> None:
    exponents = [Fraction(k, 3) for k in range(-9, 10)]
    many = logistic_coins(exponents, Simulation(3))
    assert len(many) == 19
    assert many[0] == logistic_coin(exponents[0], Simulation(3))


def test_numbers_beyond_a_word_are_exact() -> None:
    """A rate whose denominator has 200 bits: exp(−1/2) give or take nothing."""
    rate = Fraction(2**199 + 1, 2**200)
    randomness = Simulation(8)
    found = sum(exponential_choice([1, 0], rate, randomness) for _ in range(DRAWS))
    wanted = DRAWS * law([1, 0], 0.5)
    assert chi_square([DRAWS - found, found], wanted) >= ALPHA
