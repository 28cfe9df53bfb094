"""Exact random selection: the exponential mechanism and logistic coins, in integer arithmetic only (errata X2).

Both use a coin that is True with probability exp(−x) for a rational x. The coin compares uniform integers (Canonne,
Kamath and Steinke 2020, Algorithm 1). No float is drawn or compared, so no probability is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from heathaze.checks import shown
from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness

_WORDS_AT_ONCE = 256
"""The number of random words that are fetched at a time; one selection seldom needs more."""


def exponential_choice(scores: Sequence[int], rate: Fraction, randomness: Randomness) -> int:
    """Choose an index by the exponential mechanism: Pr[i] ∝ exp(rate · scores[i]), exactly (McSherry and Talwar 2007).

    A uniform index i is drawn and accepted with probability exp(−rate · (greatest score − scores[i])). If it is not
    accepted, another index is drawn.

    Args:
        scores: Whole numbers, at least one of them.
        rate: At least 0. A score that is larger by 1 multiplies the odds of its index by e^rate. ε-differential privacy
            needs a rate of at most ε/2Δ for scores of sensitivity Δ.
        randomness: The source of random bits.

    Returns:
        The index of the chosen score.

    Raises:
        InvalidInput: There are no scores, or the rate is negative.

    Cost: the expected number of tries is Σ 1 / Σ exp(−rate · (greatest − score)), at most the number of scores.

    >>> from heathaze.privacy.randomness import Simulation
    >>> exponential_choice([0, 10**6, 0], Fraction(1), Simulation(1))
    1
    """
    if len(scores) == 0:
        raise InvalidInput("There are no scores to choose from; give at least one.")
    if rate < 0:
        raise InvalidInput(f"The rate of a choice is {shown(rate)}; give 0 (a uniform choice) or a positive number.")
    numbers = [int(score) for score in scores]
    best = max(numbers)
    integers = _Integers(randomness)
    while True:
        index = integers.below(len(numbers))
        if _exp_coin(rate * (best - numbers[index]), integers):
            return index


def logistic_coin(exponent: Fraction, randomness: Randomness) -> bool:
    """Draw a logistic coin, which is True with probability 1 / (1 + e^exponent), exactly.

    For an exponent x ≥ 0 a fair coin is thrown. Tails gives False. Heads gives True with probability e^−x, and another
    throw otherwise. So the odds of True to False are e^−x to 1. For a negative exponent, −x is used and the result is
    negated.

    Args:
        exponent: Any rational.
        randomness: The source of random bits.

    >>> from heathaze.privacy.randomness import Simulation
    >>> logistic_coin(Fraction(-200), Simulation(1)), logistic_coin(Fraction(200), Simulation(1))
    (True, False)
    """
    return _logistic(exponent, _Integers(randomness))


def logistic_coins(exponents: Sequence[Fraction], randomness: Randomness) -> list[bool]:
    """Draw independent logistic coins, one for each exponent; see :func:`logistic_coin`.

    Args:
        exponents: Any rationals.
        randomness: The source of random bits.
    """
    integers = _Integers(randomness)
    return [_logistic(exponent, integers) for exponent in exponents]


class _Integers:
    """Draws uniform integers of any size from random words, which are fetched in blocks."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._words: list[int] = []

    def below(self, bound: int) -> int:
        """Draw a uniform integer from 0 to bound − 1, by rejection."""
        if bound == 1:
            return 0
        words = 1 + (bound.bit_length() - 1) // 64
        limit = 2 ** (64 * words) // bound * bound
        while True:
            number = 0
            for _ in range(words):
                if not self._words:
                    self._words = self._randomness.words(_WORDS_AT_ONCE).tolist()
                number = number << 64 | self._words.pop()
            if number < limit:
                return number % bound


def _logistic(exponent: Fraction, integers: _Integers) -> bool:
    if exponent < 0:
        return not _logistic(-exponent, integers)
    while True:
        if integers.below(2) == 0:
            return False
        if _exp_coin(exponent, integers):
            return True


def _exp_coin(exponent: Fraction, integers: _Integers) -> bool:
    """Draw a coin that is True with probability exp(−x) for x = ``exponent`` ≥ 0.

    exp(−x) = exp(−1)^⌊x⌋ · exp(−(x − ⌊x⌋)).
    """
    whole, rest = divmod(exponent.numerator, exponent.denominator)
    for _ in range(whole):
        if not _small_exp_coin(1, 1, integers):
            return False
    return _small_exp_coin(rest, exponent.denominator, integers)


def _small_exp_coin(numerator: int, denominator: int, integers: _Integers) -> bool:
    """Draw a coin that is True with probability exp(−x) for x = numerator/denominator, 0 ≤ x ≤ 1.

    Round k = 1, 2, … succeeds with probability x/k. The coin is True if the first round that fails is odd, which has
    probability Σ (−x)^k / k! = exp(−x).
    """
    k = 1
    while integers.below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1
