"""Whom the curator asks for a point in each round of private greedy: everyone, a public few, or by biased coins."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput
from heathaze.privacy.events import PureSteps
from heathaze.privacy.loss import Number, exact, parse_epsilon
from heathaze.privacy.randomness import Randomness, Simulation

FEW = 32
"""Up to this many owners all are asked; of more owners, this many in each round."""

_SMALLEST_ODDS = 64
"""Odds of being asked do not fall below e^−64: nothing that rare happens, and floats would make a true 0 of it."""


@dataclass(frozen=True)
class AskEveryone:
    """Every owner is asked in every round. Being asked depends on no data, so it costs nothing."""

    def called(self, _: int, owners: Sequence[str]) -> tuple[str, ...]:
        """Owners that are called for bids in a round."""
        return tuple(owners)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        return {"asked": "everyone"}


@dataclass(frozen=True, init=False)
class AskPublicFew:
    """A public random few are asked in each round. Being asked depends on no data, so it costs nothing.

    Args:
        owners: How many owners are asked in a round, at least 1.
        seed: Seed of the public draw; the same seed asks the same owners.

    Raises:
        InvalidInput: A number is out of range.

    >>> AskPublicFew(2, seed=1).called(1, ["a", "b", "c"]) == AskPublicFew(2, seed=1).called(1, ["a", "b", "c"])
    True
    """

    owners: int
    seed: int

    def __init__(self, owners: int = FEW, seed: int = 0) -> None:
        assign(self, owners=whole(owners, "owners"), seed=whole(seed, "seed", least=0))

    def called(self, number: int, owners: Sequence[str]) -> tuple[str, ...]:
        """Owners that are called for bids in a round.

        Args:
            number: Number of the round.
            owners: Names of all owners.

        Returns:
            Some of them, drawn without replacement, in the order of ``owners``.
        """
        count = len(owners)
        if count <= self.owners:
            return tuple(owners)
        # Each round has its own draw: whom the curator asks never depends on earlier answers.
        public = Simulation(self.seed * 2**64 + number)
        places = list(range(count))
        for k in range(self.owners):
            other = k + int(public.below(count - k, 1)[0])
            places[k], places[other] = places[other], places[k]
        return tuple(owners[place] for place in sorted(places[: self.owners]))

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        return {"asked": "public-few", "owners": self.owners, "seed": self.seed}


@dataclass(frozen=True, init=False)
class LogisticAuction:
    """All owners bid; the better the bid, the more likely the ask (errata E2-6, repaired).

    Whether an owner is asked depends on how many others bid more, so it reveals something about their records and is
    paid for. It is worth its price only with hundreds of owners and a curator who must not see many points.

    Args:
        epsilon: By how much one rank changes the log-odds of being asked.
        owners: How many owners there are at most; each of their coins is paid for in each round.
        share: The part of δ, between 0 and 1, for the chance that the best bid is not asked in some round.

    Raises:
        InvalidInput: A number is out of range.
    """

    epsilon: Fraction
    owners: int
    share: Fraction

    def __init__(self, epsilon: Number, owners: int, share: Number = Fraction(1, 10)) -> None:
        try:
            part = exact(share)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            raise InvalidInput(f"share is {share!r}; give a part of delta such as 0.1.") from None
        if not 0 < part < 1:
            raise InvalidInput(f"share is {share}; give a part of delta between 0 and 1, such as 0.1.")
        assign(
            self,
            epsilon=parse_epsilon(epsilon, "epsilon of the auction"),
            owners=whole(owners, "owners", "how many owners may bid"),
            share=part,
        )

    def called(self, _: int, owners: Sequence[str]) -> tuple[str, ...]:
        """Owners that are called for bids in a round."""
        return tuple(owners)

    def coins(self, points: int, epsilon: Fraction, delta: Fraction) -> Coins:
        """The coins of a purchase.

        The best bid is missed with probability 1/(1 + e^a) < e^−a in a round, and (1 + e^ε) · points times that must
        not exceed its share of δ, which

            a = ln((1 + e^ε) · points / (share · δ)),   rounded up to a thousandth, ensures.

        Args:
            points: How many points are bought, as many rounds.
            epsilon: ε of the whole purchase.
            delta: δ of the whole purchase.
        """
        worlds = math.log1p(math.exp(-float(epsilon))) + float(epsilon)
        head_start = worlds + math.log(points) - math.log(float(self.share * delta))
        return Coins(self.epsilon, Fraction(math.ceil(head_start * 1000 + 1), 1000))

    def event(self, points: int, epsilon: Fraction, delta: Fraction) -> PureSteps:
        """What the coins of all other owners in all rounds do to a record; arguments as in :meth:`coins`."""
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

    One rank more or less changes the odds of being asked, and of not being asked, by a factor of at most e^ε.

    Args:
        epsilon: ε, by how much one rank changes the log-odds.
        head_start: a, the log-odds of the best bid.
    """

    epsilon: Fraction
    head_start: Fraction

    def exponent(self, rank: int) -> Fraction:
        """The log-odds of *not* being asked, ε(rank − 1) − a, but at most 64."""
        return min(self.epsilon * (rank - 1) - self.head_start, Fraction(_SMALLEST_ODDS))

    def chance(self, rank: int) -> float:
        """p_rank as a float; the coins below have it exactly."""
        return 1 / (1 + math.exp(self.exponent(rank)))

    def expected_asks(self, owners: int) -> float:
        """Owners asked in a round, on average.

        >>> round(Coins(Fraction(1), Fraction(math.log(999))).expected_asks(10_000), 1)
        7.4
        """
        return math.fsum(self.chance(rank) for rank in range(1, owners + 1))

    def asked(self, ranked: Sequence[str], randomness: Randomness) -> tuple[str, ...]:
        """Toss the coins of one round.

        Args:
            ranked: All owners that bid, the best bid first.
            randomness: Where the coins come from.

        Returns:
            The owners that are asked, in the same order.
        """
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


Auction = AskEveryone | AskPublicFew | LogisticAuction


def default_auction(owners: int, seed: int) -> Auction:
    """Ask everyone up to :data:`FEW` owners, else a public random few; neither costs any privacy.

    Args:
        owners: How many owners there are.
        seed: Seed of the public draw.
    """
    return AskEveryone() if owners <= FEW else AskPublicFew(FEW, seed)
