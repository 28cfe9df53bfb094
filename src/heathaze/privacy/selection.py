"""Exact random choices: the exponential mechanism and logistic coins, in integer arithmetic alone (errata X2).

All of it rests on a coin with probability exp(−x), x rational, by races of uniform integers (Canonne, Kamath and
Steinke 2020, Algorithm 1). No float is ever drawn or compared, so no probability is off by a rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness

_ROOM = 256
"""Words fetched at a time; a choice seldom needs more."""


def exponential_choice(scores: Sequence[int], rate: Fraction, randomness: Randomness) -> int:
    """A place i with Pr[i] ∝ exp(rate · scores[i]), exactly (McSherry and Talwar 2007).

    A uniform place is accepted with probability exp(−rate · (greatest score − its score)), else another is tried.

    Args:
        scores: Whole numbers, at least one.
        rate: What a score of one more multiplies the odds by is e to this; ε/2Δ for scores of sensitivity Δ.
        randomness: Where the bits come from.

    Returns:
        The place of the chosen score.

    Cost: expected tries are Σ 1 / Σ exp(−rate · (greatest − score)), at most the number of scores.

    >>> from heathaze.privacy.randomness import Simulation
    >>> exponential_choice([0, 10**6, 0], Fraction(1), Simulation(1))
    1
    """
    if len(scores) == 0:
        raise InvalidInput("There is nothing to choose from; give at least one score.")
    if rate < 0:
        raise InvalidInput(f"The rate of a choice is {rate}; give 0 (any is as good) or a positive number.")
    wanted = [int(score) for score in scores]
    best = max(wanted)
    bits = _Integers(randomness)
    while True:
        place = bits.below(len(wanted))
        if _exp_coin(rate * (best - wanted[place]), bits):
            return place


def logistic_coin(exponent: Fraction, randomness: Randomness) -> bool:
    """True with probability 1 / (1 + e^exponent), exactly.

    For an exponent x ≥ 0 a fair coin is thrown: tails is False, heads is True with probability e^−x and else another
    throw, so the two stand to each other as e^−x to 1. A negative exponent is the opposite of the positive one.

    >>> from heathaze.privacy.randomness import Simulation
    >>> logistic_coin(Fraction(-200), Simulation(1)), logistic_coin(Fraction(200), Simulation(1))
    (True, False)
    """
    return _logistic(exponent, _Integers(randomness))


def logistic_coins(exponents: Sequence[Fraction], randomness: Randomness) -> list[bool]:
    """Independent coins, one for each exponent; see :func:`logistic_coin`."""
    bits = _Integers(randomness)
    return [_logistic(exponent, bits) for exponent in exponents]


class _Integers:
    """Uniform integers of any size, words fetched by the block."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._words: list[int] = []

    def below(self, bound: int) -> int:
        """0 … bound − 1, each as likely; what lies beyond the last whole multiple of ``bound`` is drawn again."""
        if bound == 1:
            return 0
        words = 1 + (bound.bit_length() - 1) // 64
        limit = 2 ** (64 * words) // bound * bound
        while True:
            number = 0
            for _ in range(words):
                if not self._words:
                    self._words = self._randomness.words(_ROOM).tolist()
                number = number << 64 | self._words.pop()
            if number < limit:
                return number % bound


def _logistic(exponent: Fraction, bits: _Integers) -> bool:
    if exponent < 0:
        return not _logistic(-exponent, bits)
    while True:
        if bits.below(2) == 0:
            return False
        if _exp_coin(exponent, bits):
            return True


def _exp_coin(exponent: Fraction, bits: _Integers) -> bool:
    """True with probability exp(−exponent), exponent ≥ 0.

    exp(−x) = exp(−1)^⌊x⌋ · exp(−(x − ⌊x⌋)); for x ≤ 1 the first k that loses a race of probability x/k is odd with
    probability Σ (−x)^k / k!.
    """
    whole, rest = divmod(exponent.numerator, exponent.denominator)
    for _ in range(whole):
        if not _small_exp_coin(1, 1, bits):
            return False
    return _small_exp_coin(rest, exponent.denominator, bits)


def _small_exp_coin(above: int, below: int, bits: _Integers) -> bool:
    k = 1
    while bits.below(below * k) < above:
        k += 1
    return k % 2 == 1
