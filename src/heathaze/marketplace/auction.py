"""Whom the curator asks for a point in each round: all owners, a public few, or by coins that their bids bias."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.errors import InvalidInput
from heathaze.privacy.events import PureSteps
from heathaze.privacy.loss import Number, exact, parse_epsilon
from heathaze.privacy.randomness import Randomness, Simulation

FEW = 32
"""Up to so many owners all are asked, and of more of them so many."""

_SMALLEST_ODDS = 64
"""Odds of being asked do not fall below e^−64: nothing that rare happens, and floats would make a true 0 of it."""


@dataclass(frozen=True)
class AskAll:
    """Every owner is asked in every round. Being asked says nothing, so it costs nothing."""

    def called(self, _: int, owners: Sequence[str]) -> tuple[str, ...]:
        """Who is called for bids in a round."""
        return tuple(owners)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        return {"asked": "all"}


@dataclass(frozen=True)
class AskSome:
    """A public random few are asked in every round, others in the next. It costs nothing either.

    Args:
        owners: How many in a round.
        seed: Of the public draw; the same seed asks the same owners.

    >>> AskSome(2, seed=1).called(1, ["a", "b", "c"]) == AskSome(2, seed=1).called(1, ["a", "b", "c"])
    True
    """

    owners: int = FEW
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("owners", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InvalidInput(f"{name} is {value!r}; give a whole number, {least} or larger.")
            object.__setattr__(self, name, int(value))

    def called(self, number: int, owners: Sequence[str]) -> tuple[str, ...]:
        """Who is called for bids in a round: drawn without replacement, in the order of ``owners``."""
        count = len(owners)
        if count <= self.owners:
            return tuple(owners)
        # A draw of its own for each round: whom the curator asks never depends on what came back before.
        public = Simulation(self.seed * 2**64 + number)
        places = list(range(count))
        for k in range(self.owners):
            other = k + int(public.below(count - k, 1)[0])
            places[k], places[other] = places[other], places[k]
        return tuple(owners[place] for place in sorted(places[: self.owners]))

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        return {"asked": "some", "owners": self.owners, "seed": self.seed}


@dataclass(frozen=True)
class LogisticAuction:
    """All bid, and the better the bid the likelier the ask: the best is hardly ever missed (errata E2-6, repaired).

    Whether an owner is asked depends on how many others bid more, so it tells something of their records and is paid
    for. It pays where there are hundreds of owners and the curator must not see many points.

    Args:
        epsilon: By how much one rank changes the log-odds of being asked.
        owners: How many there are at most; each of their coins is paid for in each round.
        share: Part of δ for the chance that the best bid is not asked in some round.
    """

    epsilon: Fraction
    owners: int
    share: Fraction = Fraction(1, 10)

    if TYPE_CHECKING:

        def __init__(self, epsilon: Number, owners: int, share: Number = Fraction(1, 10)) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon, "epsilon of the auction"))
        if isinstance(self.owners, bool) or not isinstance(self.owners, int | np.integer) or self.owners < 1:
            raise InvalidInput(f"owners is {self.owners!r}; give how many owners may bid, 1 or more.")
        object.__setattr__(self, "owners", int(self.owners))
        try:
            share = exact(self.share)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            raise InvalidInput(f"share is {self.share!r}; give a part of delta such as 0.1.") from None
        if not 0 < share < 1:
            raise InvalidInput(f"share is {self.share}; give a part of delta between 0 and 1, such as 0.1.")
        object.__setattr__(self, "share", share)

    def called(self, _: int, owners: Sequence[str]) -> tuple[str, ...]:
        """Who is called for bids in a round."""
        return tuple(owners)

    def coins(self, points: int, epsilon: Fraction, delta: Fraction) -> Coins:
        """The coins of a purchase of ``points`` that promises (ε, δ) in all.

        The best bid is missed with probability 1/(1 + e^a) < e^−a in a round, and (1 + e^ε) · points times that must
        not exceed its share of δ, which

            a = ln((1 + e^ε) · points / (share · δ)),   rounded up to a thousandth, makes sure of.
        """
        ways = math.log1p(math.exp(-float(epsilon))) + float(epsilon)
        head_start = ways + math.log(points) - math.log(float(self.share * delta))
        return Coins(self.epsilon, Fraction(math.ceil(head_start * 1000 + 1), 1000))

    def event(self, points: int, epsilon: Fraction, delta: Fraction) -> PureSteps:
        """What the coins of all other owners in all rounds cost together; arguments as in :meth:`coins`."""
        head_start = self.coins(points, epsilon, delta).head_start
        # 1/(1 + e^a) < e^−a; the last places are given away, and what is too small for a float is 1e-320.
        missed = max(Fraction(points * math.exp(-float(head_start)) * (1 + 1e-9)), Fraction(1, 10**320))
        return PureSteps(self.epsilon, (self.owners - 1) * points, True, missed)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        fields = {"epsilon": str(self.epsilon), "owners": self.owners, "share": str(self.share)}
        return {"asked": "logistic-auction", **fields}


@dataclass(frozen=True)
class Coins:
    """The i-th best bid is asked with probability p_i = 1 / (1 + e^(ε(i − 1) − a)).

    One rank more or less changes the odds of being asked by a factor of at most e^ε, and those of not being asked too.

    Args:
        epsilon: ε.
        head_start: a, the log-odds of the best bid.
    """

    epsilon: Fraction
    head_start: Fraction

    def exponent(self, rank: int) -> Fraction:
        """ε(rank − 1) − a, frozen where it would no longer matter: the log-odds of *not* being asked."""
        return min(self.epsilon * (rank - 1) - self.head_start, Fraction(_SMALLEST_ODDS))

    def chance(self, rank: int) -> float:
        """p_rank, rounded; it is what the coin below has exactly."""
        return 1 / (1 + math.exp(self.exponent(rank)))

    def expected_asks(self, owners: int) -> float:
        """Owners asked in a round, on average.

        >>> round(Coins(Fraction(1), Fraction(math.log(999))).expected_asks(10_000), 1)
        7.4
        """
        return math.fsum(self.chance(rank) for rank in range(1, owners + 1))

    def asked(self, ranked: Sequence[str], randomness: Randomness) -> tuple[str, ...]:
        """Who is asked; ``ranked`` is all owners, the best bid first."""
        from heathaze.privacy.selection import logistic_coins

        tossed = logistic_coins([self._exponents(rank) for rank in range(1, len(ranked) + 1)], randomness)
        return tuple(owner for owner, heads in zip(ranked, tossed, strict=True) if heads)

    @functools.cached_property
    def _known(self) -> dict[int, Fraction]:
        return {}

    def _exponents(self, rank: int) -> Fraction:
        # Fractions are slow to make, and the same ranks come back in every round.
        if rank not in self._known:
            self._known[rank] = self.exponent(rank)
        return self._known[rank]


Asking = AskAll | AskSome | LogisticAuction


def default_asking(owners: int, seed: int) -> Asking:
    """All of them up to :data:`FEW` owners, else a public random few; neither costs any privacy."""
    return AskAll() if owners <= FEW else AskSome(FEW, seed)
