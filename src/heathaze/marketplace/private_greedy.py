"""Buying points that match a target in rounds, one point each: the paper's protocol put right (errata part 3).

    consumer ─ target, noisy mean hash ─► curator ─ noisy mean hash ─► owners
    in each round    owners ─ bids ─► curator ─ asks ─► owners ─ points ─► curator, who keeps the best and the others
    now and then     curator ─ noisy mean hash of the summary ─► owners
    consumer ◄─ the chosen points ─ curator

Owners hear of the summary again and again, and pay for each time. :class:`Herding` needs none of that and is better;
this is here since it is what the paper does, made to hold its promise.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, TooLarge, expect
from heathaze.marketplace.auction import AskAll, Asking, AskSome, LogisticAuction
from heathaze.marketplace.features import Features
from heathaze.marketplace.mwem import Mwem, MwemSum
from heathaze.marketplace.noisy_sum import MOST_DELTA, NoisySum
from heathaze.marketplace.protocol import check_signal, named_once, whole
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Composition, Event
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import Number, PrivacyLoss, decimal, parse_delta, parse_epsilon
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.types import Floats

if TYPE_CHECKING:
    from heathaze.marketplace.messages import Wanted
    from heathaze.marketplace.private_greedy_parties import Bidder, RoundsCurator


MOST_BROADCASTS = 200
"""The planner tries no more; the best number grows with the cube root of the budget."""

_REPLACED = 2
"""Vectors by which neighbouring sums differ: one is replaced, in the target and, by the swap lemma, in the summary."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """What everyone agrees on before a purchase. Public.

    Consumer and owners hold different records, so each side gets the whole ε: a record of the target is in the target's
    hash and nowhere else, a record of an owner is in the summary's hashes (and the auction's coins) and nowhere else.

    Args:
        features: How points are hashed.
        points: How many to buy, as many rounds.
        target_points: How many the target has; public.
        epsilon: Privacy loss of a record of the target, and of a record of an owner.
        delta: Of the promise.
        broadcasts: How often owners are told of the summary. Left out, the number with the least predicted error.
        asking: Whom to ask in each round. Left out, all of up to 32 owners, else a public random 32 of them.
        initial: Points of a public seed set which the summary starts with and which is not bought; or none.
        mechanism: ``"gaussian"``, or :class:`Mwem` as in the paper.

    >>> plan = Rounds(Features(columns=4, gamma=0.5), points=1000, target_points=250, epsilon=2)
    >>> plan.marks
    (150, 256, 363, 469, 575, 682, 788, 894)
    """

    features: Features
    points: int
    target_points: int
    epsilon: Fraction
    delta: Fraction = Fraction(1, 10**6)
    broadcasts: int | None = None
    asking: Asking | None = None
    initial: Floats | None = field(default=None, repr=False)
    mechanism: Literal["gaussian"] | Mwem = "gaussian"

    if TYPE_CHECKING:

        def __init__(
            self,
            features: Features,
            points: int,
            target_points: int,
            epsilon: Number,
            delta: Number = Fraction(1, 10**6),
            broadcasts: int | None = None,
            asking: Asking | None = None,
            initial: npt.ArrayLike | None = None,
            mechanism: Literal["gaussian"] | Mwem = "gaussian",
        ) -> None: ...

    def __post_init__(self) -> None:
        expect(Features, self.features, "features")
        object.__setattr__(self, "points", whole("points", self.points))
        object.__setattr__(self, "target_points", whole("target_points", self.target_points))
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        object.__setattr__(self, "delta", parse_delta(self.delta, zero=False, most=MOST_DELTA))
        if self.broadcasts is not None and not _is_whole(self.broadcasts, self.points - 1):
            raise InvalidInput(
                f"broadcasts is {self.broadcasts!r}; give a whole number below the {self.points} points to buy, or "
                "leave it out."
            )
        if self.asking is not None:
            expect((AskAll, AskSome, LogisticAuction), self.asking, "asking")
        if self.initial is not None:
            table = self.features.checked(self.initial).copy()
            table.flags.writeable = False
            object.__setattr__(self, "initial", table)
        if self.mechanism != "gaussian":
            expect(Mwem, self.mechanism, "The mechanism, if not 'gaussian',")

    # ── how much noise ──────────────────────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def target_sum(self) -> NoisySum | MwemSum:
        """The noise of the target's hash: one record is replaced."""
        return self._sum(self.epsilon, 1)

    @functools.cached_property
    def summary_sum(self) -> NoisySum | MwemSum | None:
        """The noise of the summary's hashes: one record is replaced in all of them. None if none is told."""
        count = len(self.marks)
        return None if count == 0 else self._affordable(count)

    def _sum(self, epsilon: Fraction, sums: int) -> NoisySum | MwemSum:
        if isinstance(self.mechanism, Mwem):
            return MwemSum(self.features, self.mechanism, epsilon, self.delta, sums)
        return NoisySum(self.features.dimension, 1.0, _REPLACED, epsilon, self.delta, sums)

    def _affordable(self, count: int) -> NoisySum | MwemSum:
        """Sums whose event costs no more than ε together with that of the auction, if there is one."""
        if self._auction is None:
            return self._sum(self.epsilon, count)
        # The loss of both together is less than the sum of losses, and grows with that of the sums: bisection.
        low, high = Fraction(0), self.epsilon
        for _ in range(20):
            middle = (low + high) / 2
            try:
                fits = compose([self._sum(middle, count).event, self._auction], self.delta).epsilon <= self.epsilon
            except (InvalidInput, TooLarge):  # so little that no noise would do
                fits = True
            low, high = (middle, high) if fits else (low, middle)
        return self._sum(low, count)

    @functools.cached_property
    def _auction(self) -> Event | None:
        """What the coins cost; refused if they alone cost more than is promised."""
        if not isinstance(self.asking, LogisticAuction):
            return None
        event = self.asking.event(self.points, self.epsilon, self.delta)
        # What is missed takes its share of δ at a loss of ε; beyond, it has no price.
        cost = compose([replace(event, failure_probability=Fraction(0))], self.delta * (1 - self.asking.share)).epsilon
        if cost >= self.epsilon:
            raise InvalidInput(
                f"The auction's coins alone cost ε = {decimal(cost)}, and {decimal(self.epsilon)} is promised in all; "
                "give the auction a smaller epsilon, or leave asking out: to ask all owners, or a public few, is free."
            )
        return event

    # ── when owners are told of the summary ─────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def marks(self) -> tuple[int, ...]:
        """Points bought when owners are told of the summary, each time.

        The first time is not before the summary has enough members that its hash is longer than its noise can be
        expected to be; from then on they are equally spaced.
        """
        if self.points == 1:
            return ()
        if self.broadcasts is not None:
            return self._marks(self.broadcasts)
        tried = range(1, min(MOST_BROADCASTS, self.points - 1) + 1)
        best = min(tried, key=self._predicted)
        # If none would carry a signal, it is once; check_signal refuses the plan.
        return self._marks(1 if self._predicted(best) == math.inf else best)

    def _marks(self, count: int) -> tuple[int, ...]:
        if count == 0:
            return ()
        first = min(max(self.points / (count + 1), self._length(count) - self._seeds), self.points - count)
        spacing = (self.points - first) / count
        return tuple(math.ceil(first + k * spacing - 1e-9) for k in range(count))

    def _predicted(self, count: int) -> float:
        """The error of the summary's mean hash when the last point is bought, at worst.

        What was bought since the last broadcast, n of p points, went all the same way: up to n/p. What was broadcast
        has noise of length ν. The two have nothing to do with each other, so

            error² = (n/p)² + ν²,   n about p/(B + 1) and ν about √B · σ√d/p: least at B + 1 = (2p²/σ²d)^⅓.
        """
        marks = self._marks(count)
        noise = self._length(count) / (self._seeds + marks[-1])
        if self._length(count) > self._seeds + marks[0]:
            return math.inf
        return math.hypot((self.points - marks[-1]) / (self._seeds + self.points), noise)

    def _length(self, count: int) -> float:
        """Expected length of the noise of a sum of hashes, if so many are told, with a thousandth more for rounding.

        Noise grows with the root of the number of sums that share a budget.
        """
        declared = isinstance(self.mechanism, Mwem) and self.mechanism.epsilon_per_step is not None
        return 1.001 * self._length_of_one * (1 if declared else math.sqrt(count))

    @functools.cached_property
    def _length_of_one(self) -> float:
        return self._affordable(1).about * math.sqrt(self.features.dimension)

    @property
    def _seeds(self) -> int:
        return 0 if self.initial is None else len(self.initial)

    def members(self, bought: int) -> int:
        """Members of the summary after so many rounds: public, whether or not there was a point left to buy."""
        return self._seeds + bought

    # ── is it worth it ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def target_deviation(self) -> float:
        """Of the noise in each number of the target's mean hash."""
        return self.target_sum.deviation / self.target_points

    @property
    def noise_to_signals(self) -> tuple[float, ...]:
        """Expected length of the noise of each mean hash, that of the target first; a hash is no longer than 1."""
        root = math.sqrt(self.features.dimension)
        told = self.summary_sum
        summary = () if told is None else tuple(told.about * root / self.members(mark) for mark in self.marks)
        return (self.target_sum.about * root / self.target_points, *summary)

    @property
    def noise_to_signal(self) -> float:
        """The greatest of :attr:`noise_to_signals`."""
        return max(self.noise_to_signals)

    def check_signal(self) -> None:
        """Refuse a budget with which owners would bid for nothing but noise (errata E2-4)."""
        target, *summary = self.noise_to_signals
        check_signal(self, target, self.target_points, "target_points")
        for ratio, members in zip(summary, self._told_members, strict=True):
            check_signal(self, ratio, members, "points")

    @property
    def _told_members(self) -> tuple[int, ...]:
        return tuple(self.members(mark) for mark in self.marks)

    # ── what is promised ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def event_for_target(self) -> Event:
        """What happens to the target."""
        return self.target_sum.event

    @property
    def event_for_owners(self) -> Event:
        """What happens to the records of each owner."""
        told = () if self.summary_sum is None else (self.summary_sum.event,)
        return Composition(told if self._auction is None else (*told, self._auction))

    @property
    def guarantee_for_target(self) -> Guarantee:
        """What is promised to each record of the target."""
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.RECORD, Adjacency.REPLACE, Trust.CURATOR)

    @property
    def guarantee_for_owners(self) -> Guarantee:
        """What is promised to each record of an owner."""
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.RECORD, Adjacency.ADD_REMOVE, Trust.CURATOR)

    # ── the parts ───────────────────────────────────────────────────────────────────────────────────────────────────

    def target_hash(self, hashes: Floats, randomness: Randomness) -> Floats:
        """The mean hash of the target, with noise."""
        return self.target_sum.of(hashes, randomness) / self.target_points

    def summary_hash(self, hashes: Floats, bought: int, randomness: Randomness) -> Floats:
        """The mean hash of the summary after ``bought`` rounds, with noise; ``hashes`` are those of its members."""
        members, told = self.members(bought), self.summary_sum
        if told is None:
            raise InvalidInput("This plan tells owners nothing of the summary; give it a number of broadcasts.")
        if isinstance(told, MwemSum):
            return told.of(hashes, randomness, members) / members
        return told.of(hashes, randomness) / members

    def check_owners(self, owners: Sequence[str]) -> None:
        """Refuse owners with whom no purchase can be made."""
        count = len(named_once(owners))
        if isinstance(self.asking, LogisticAuction) and count > self.asking.owners:
            raise InvalidInput(
                f"There are {count} owners, and the auction is paid for {self.asking.owners}; give it as many."
            )

    def seller(self, points: Floats, randomness: Randomness) -> Bidder:  # noqa: ARG002
        """An owner's part; it needs no randomness."""
        from heathaze.marketplace.private_greedy_parties import Bidder

        return Bidder(self.features, points)

    def curator(self, owners: Sequence[str], wanted: Wanted, randomness: Randomness | None = None) -> RoundsCurator:
        """The curator's part."""
        from heathaze.marketplace.private_greedy_parties import RoundsCurator

        return RoundsCurator(self, owners, wanted, SecureRandomness() if randomness is None else randomness)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        gaussian = {"mechanism": "gaussian"}
        return {
            "way": "rounds",
            "points": self.points,
            "target_points": self.target_points,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "broadcasts": len(self.marks),
            "asking": None if self.asking is None else self.asking.parameters(),
            "seeds": self._seeds,
            "seeds_digest": None if self.initial is None else hashlib.sha256(self.initial.tobytes()).hexdigest(),
            **(self.mechanism.parameters() if isinstance(self.mechanism, Mwem) else gaussian),
            "features": self.features.to_dict(),
        }


def _is_whole(value: object, most: int) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | np.integer) and 0 <= int(value) <= most
