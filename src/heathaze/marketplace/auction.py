"""The auction of private greedy: which owners the curator asks for a point in each round.

The curator asks all owners, a public random few, or each owner by a coin whose bias depends on the rank of the bid.
"""

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
"""Default number of owners asked in a round; if there are no more owners than this, all are asked."""

_SMALLEST_ODDS = 64
"""The odds of being asked are never below e^−64. Without a limit, floats could underflow to 0."""


@dataclass(frozen=True)
class AskEveryone:
    """Auction in which every owner is asked in every round. Asking does not depend on data, so it costs no privacy.

    >>> AskEveryone().called(1, ["coast", "hills"])
    ('coast', 'hills')
    """

    def called(self, _: int, owners: Sequence[str]) -> tuple[str, ...]:
        """Names of the owners who are called for bids in a round: all of them.

        Args:
            owners: Names of all owners.
        """
        return tuple(owners)

    def parameters(self) -> dict[str, Any]:
        """Public parameters of the auction, for reports."""
        return {"asked": "everyone"}


@dataclass(frozen=True, init=False)
class AskPublicFew:
    """Auction that asks a public random sample of owners in each round. The sample uses no data and costs no privacy.

    Args:
        owners: Number of owners asked in a round, at least 1.
        seed: Seed of the public random sample; the same seed gives the same owners.

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
        """Draw the owners who are called for bids in a round.

        Args:
            number: Index of the round.
            owners: Names of all owners.

        Returns:
            Names drawn without replacement, in the order of ``owners``.
        """
        count = len(owners)
        if count <= self.owners:
            return tuple(owners)
        # Each round has its own seed, so the sample does not depend on earlier answers.
        public = Simulation(self.seed * 2**64 + number)
        places = list(range(count))
        for k in range(self.owners):
            other = k + int(public.below(count - k, 1)[0])
            places[k], places[other] = places[other], places[k]
        return tuple(owners[place] for place in sorted(places[: self.owners]))

    def parameters(self) -> dict[str, Any]:
        """Public parameters of the auction, for reports."""
        return {"asked": "public-few", "owners": self.owners, "seed": self.seed}


@dataclass(frozen=True, init=False)
class LogisticAuction:
    """Auction in which all owners bid, and a better bid is more likely to be asked (errata E2-6, repaired).

    Whether an owner is asked depends on how many other owners bid more. So asking reveals something about the records
    of these owners and costs privacy. The auction is useful only with hundreds of owners and a curator who must not see
    many points.

    Args:
        epsilon: Change of the log-odds of being asked from one rank to the next.
        owners: Largest number of owners; the coins of this many owners are charged in each round.
        share: Fraction of δ, between 0 and 1, for the probability that the best bid is not asked in some round.

    Raises:
        InvalidInput: A number is out of range.

    >>> auction = LogisticAuction(epsilon=1, owners=1000)
    >>> auction.coins(points=500, epsilon=Fraction(2), delta=Fraction(1, 10**6)).expected_asks(1000) < 30
    True
    """

    epsilon: Fraction
    owners: int
    share: Fraction

    def __init__(self, epsilon: Number, owners: int, share: Number = Fraction(1, 10)) -> None:
        try:
            part = exact(share)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            raise InvalidInput(f"share is {share!r}; give a fraction of delta, such as 0.1.") from None
        if not 0 < part < 1:
            raise InvalidInput(f"share is {share}; give a fraction of delta between 0 and 1, such as 0.1.")
        assign(
            self,
            epsilon=parse_epsilon(epsilon, "epsilon of the auction"),
            owners=whole(owners, "owners", "how many owners may bid"),
            share=part,
        )

    def called(self, _: int, owners: Sequence[str]) -> tuple[str, ...]:
        """Names of the owners who are called for bids in a round: all of them.

        Args:
            owners: Names of all owners.
        """
        return tuple(owners)

    def coins(self, points: int, epsilon: Fraction, delta: Fraction) -> Coins:
        """Make the biased coins of the auction for a whole purchase.

        Let a be the log-odds that the best bid is asked. In each round the best bid is missed with probability
        1/(1 + e^a) < e^−a. This probability times (1 + e^ε) · points must not exceed share · δ, so

            a = ln((1 + e^ε) · points / (share · δ)),   rounded up to a thousandth.

        Args:
            points: Number of points to buy, which is the number of rounds.
            epsilon: ε of the whole purchase.
            delta: δ of the whole purchase.

        Returns:
            The coins.
        """
        worlds = math.log1p(math.exp(-float(epsilon))) + float(epsilon)
        head_start = worlds + math.log(points) - math.log(float(self.share * delta))
        return Coins(self.epsilon, Fraction(math.ceil(head_start * 1000 + 1), 1000))

    def event(self, points: int, epsilon: Fraction, delta: Fraction) -> PureSteps:
        """Describe the privacy loss of a record by the auction: by the random draws of all other owners, in all rounds.

        Args:
            points: Number of points to buy, which is the number of rounds.
            epsilon: ε of the whole purchase.
            delta: δ of the whole purchase.

        Returns:
            The privacy event.
        """
        head_start = self.coins(points, epsilon, delta).head_start
        # The bound 1/(1 + e^a) < e^−a, times 1 + 1e-9 against rounding, and at least 1e-320, because floats underflow.
        missed = max(Fraction(points * math.exp(-float(head_start)) * (1 + 1e-9)), Fraction(1, 10**320))
        return PureSteps(self.epsilon, (self.owners - 1) * points, True, missed)

    def parameters(self) -> dict[str, Any]:
        """Public parameters of the auction, for reports."""
        fields = {"epsilon": str(self.epsilon), "owners": self.owners, "share": str(self.share)}
        return {"asked": "logistic-auction", **fields}


@dataclass(frozen=True)
class Coins:
    """The logistic auction: the owner of the i-th best bid is asked for a record with probability p_i.

        p_i = 1 / (1 + e^(ε(i − 1) − a))

    A change of the rank by one changes the odds of being asked by a factor of at most e^ε.

    Args:
        epsilon: ε, the change of the log-odds from one rank to the next.
        head_start: The number a, the log-odds that the best bid is asked.
    """

    epsilon: Fraction
    head_start: Fraction

    def exponent(self, rank: int) -> Fraction:
        """Log-odds ε(rank − 1) − a that the bid of this rank is *not* asked, limited to 64."""
        return min(self.epsilon * (rank - 1) - self.head_start, Fraction(_SMALLEST_ODDS))

    def chance(self, rank: int) -> float:
        """Probability that the owner whose bid has this rank is asked, as a float; :meth:`asked` draws exactly."""
        return 1 / (1 + math.exp(self.exponent(rank)))

    def expected_asks(self, owners: int) -> float:
        """Expected number of owners asked in a round of the auction.

        >>> round(Coins(Fraction(1), Fraction(math.log(999))).expected_asks(10_000), 1)
        7.4
        """
        return math.fsum(self.chance(rank) for rank in range(1, owners + 1))

    def asked(self, ranked: Sequence[str], randomness: Randomness) -> tuple[str, ...]:
        """Decide at random which bidders are asked for their record in one round.

        Args:
            ranked: Names of all owners who bid, best bid first.
            randomness: Source of the coins.

        Returns:
            Names of the owners who are asked, in the same order.
        """
        from heathaze.privacy.selection import logistic_coins

        # Fractions are slow to compute, and the same ranks occur in every round.
        self._exponents.extend(self.exponent(rank) for rank in range(len(self._exponents) + 1, len(ranked) + 1))
        tossed = logistic_coins(self._exponents[: len(ranked)], randomness)
        return tuple(owner for owner, heads in zip(ranked, tossed, strict=True) if heads)

    @functools.cached_property
    def _exponents(self) -> list[Fraction]:
        """The exponents of the first ranks, as many as were needed so far."""
        return []


Auction = AskEveryone | AskPublicFew | LogisticAuction


def default_auction(owners: int, seed: int) -> Auction:
    """Choose the default auction, which costs no privacy: ask all of up to :data:`FEW` owners, or a public random few.

    Args:
        owners: Number of owners.
        seed: Seed of the public random sample.
    """
    return AskEveryone() if owners <= FEW else AskPublicFew(FEW, seed)
