"""Private greedy: points are bought in rounds, one each; the paper's protocol, corrected (errata part 3).

    consumer ─ target, noisy mean hash ─► curator ─ noisy mean hash ─► owners
    in each round    owners ─ bids ─► curator ─ asks ─► owners ─ points ─► curator, who keeps the best and the others
    now and then     curator ─ noisy mean hash of the summary ─► owners
    consumer ◄─ the chosen points ─ curator

Each broadcast of the summary costs privacy. :class:`Herding` broadcasts no summary and matches better; private greedy
is here because the paper has it.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy.typing as npt

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput, TooLarge, expect
from heathaze.marketplace.auction import AskEveryone, AskPublicFew, Auction, LogisticAuction
from heathaze.marketplace.features import Features
from heathaze.marketplace.mwem import Mwem, MwemSum
from heathaze.marketplace.noisy_sum import NoisySum
from heathaze.marketplace.plan import Plan
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Composition, Event
from heathaze.privacy.loss import Number, decimal
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats

MOST_BROADCASTS = 200
"""The planner tries no more broadcasts; the best number grows with the cube root of the budget."""

_REPLACED = 2
"""Vectors by which neighbouring sums differ: one is replaced, in the target and, by the swap lemma, in the summary."""


@dataclass(frozen=True, init=False, eq=False)
class PrivateGreedy(Plan):
    """The paper's plan: what everyone agrees on before a purchase in rounds. Public.

    Consumer and owners hold different records, so each side gets the whole ε: a record of the target is in the target's
    hash and nowhere else, a record of an owner is in the summary's hashes (and the auction's coins) and nowhere else.

    Args:
        features: How points are hashed.
        points: How many points to buy, from 1 to 10,000,000; as many rounds.
        target_points: How many points the target has; public.
        epsilon: Privacy loss of a record of the target, and of a record of an owner.
        delta: Probability with which the promise may fail, at most 0.01.
        broadcasts: How often the summary is broadcast, less than ``points``. Left out, the number with the smallest
            predicted error.
        auction: Which owners are asked in each round. Left out, all of up to 32 owners, else a public random 32.
        initial: Points of a public seed set with which the summary starts and which are not bought; or None.
        mechanism: ``"gaussian"``, or :class:`Mwem` as in the paper.

    Raises:
        InvalidInput: A number is out of range.

    >>> plan = PrivateGreedy(Features(columns=4, gamma=0.5), points=1000, target_points=250, epsilon=2)
    >>> plan.marks
    (150, 256, 363, 469, 575, 682, 788, 894)
    """

    broadcasts: int | None
    auction: Auction | None
    initial: Floats | None = field(repr=False)
    mechanism: Literal["gaussian"] | Mwem

    def __init__(
        self,
        features: Features,
        points: int,
        target_points: int,
        epsilon: Number,
        delta: Number = Fraction(1, 10**6),
        broadcasts: int | None = None,
        auction: Auction | None = None,
        initial: npt.ArrayLike | None = None,
        mechanism: Literal["gaussian"] | Mwem = "gaussian",
    ) -> None:
        super().__init__(features, points, target_points, epsilon, delta)
        if broadcasts is not None:
            meaning = "how often the summary is broadcast"
            broadcasts = whole(broadcasts, "broadcasts", meaning, least=0, most=self.points - 1)
        if auction is not None:
            expect((AskEveryone, AskPublicFew, LogisticAuction), auction, "auction")
        table: Floats | None = None
        if initial is not None:
            table = features.checked(initial).copy()
            table.flags.writeable = False
        if mechanism != "gaussian":
            expect(Mwem, mechanism, "The mechanism, if not 'gaussian',")
        assign(self, broadcasts=broadcasts, auction=auction, initial=table, mechanism=mechanism)

    # ── how much noise ──────────────────────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def target_sum(self) -> NoisySum | MwemSum:
        """The noise of the sum of the target's hashes, of which one is replaced."""
        return self._sum(self.epsilon, 1)

    @functools.cached_property
    def summary_sum(self) -> NoisySum | MwemSum | None:
        """The noise of the summary's broadcasts, with one member replaced in all of them. None without broadcasts."""
        count = len(self.marks)
        return None if count == 0 else self._affordable(count)

    def _sum(self, epsilon: Fraction, sums: int) -> NoisySum | MwemSum:
        if isinstance(self.mechanism, Mwem):
            return MwemSum(self.features, self.mechanism, epsilon, self.delta, sums)
        return NoisySum(self.features.dimension, 1.0, _REPLACED, epsilon, self.delta, sums)

    def _affordable(self, count: int) -> NoisySum | MwemSum:
        """Sums that cost no more than ε together with the coins of the auction, if there are any."""
        if self._coins is None:
            return self._sum(self.epsilon, count)
        # The loss of both together is less than the sum of the two, and grows with that of the sums: bisection.
        low, high = Fraction(0), self.epsilon
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if self._fits(middle, count, self._coins) else (low, middle)
        return self._sum(low, count)

    def _fits(self, epsilon: Fraction, count: int, coins: Event) -> bool:
        """Whether sums at this ε and the auction's coins together cost no more than is promised."""
        try:
            sums = self._sum(epsilon, count).event
        except (InvalidInput, TooLarge):  # so small an ε that no noise would do
            return True
        try:
            return compose([sums, coins], self.delta).epsilon <= self.epsilon
        except InvalidInput:  # so large a loss that δ cannot hold the chance of a missed bid
            return False

    @functools.cached_property
    def _coins(self) -> Event | None:
        """What the auction's coins do to records; refused if they alone cost more than is promised."""
        if not isinstance(self.auction, LogisticAuction):
            return None
        event = self.auction.event(self.points, self.epsilon, self.delta)
        # What is missed takes its share of δ at a loss of ε; beyond, it has no price.
        cost = compose([replace(event, failure_probability=Fraction(0))], self.delta * (1 - self.auction.share)).epsilon
        if cost >= self.epsilon:
            raise InvalidInput(
                f"The auction's coins alone cost ε = {decimal(cost)}, and {decimal(self.epsilon)} is promised in all; "
                "give the auction a smaller epsilon, or leave it out: to ask all owners, or a public few, is free."
            )
        return event

    # ── when the summary is broadcast ───────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def marks(self) -> tuple[int, ...]:
        """How many points are bought when the summary is broadcast, for each broadcast.

        The first broadcast waits until the summary has so many members that its hash is longer than the expected noise.
        From then on broadcasts are equally spaced.
        """
        if self.points == 1:
            return ()
        if self.broadcasts is not None:
            return self._marks(self.broadcasts)
        tried = range(1, min(MOST_BROADCASTS, self.points - 1) + 1)
        best = min(tried, key=self._predicted)
        # If none would carry a signal, there is one broadcast; check_signal refuses the plan.
        return self._marks(1 if self._predicted(best) == math.inf else best)

    def _marks(self, count: int) -> tuple[int, ...]:
        if count == 0:
            return ()
        first = min(max(self.points / (count + 1), self._length(count) - self._seeds), self.points - count)
        spacing = (self.points - first) / count
        return tuple(math.ceil(first + k * spacing - 1e-9) for k in range(count))

    def _predicted(self, count: int) -> float:
        """The error of the summary's mean hash when the last point is bought, at worst.

        The n of p points since the last broadcast were bought without regard to each other: an error of up to n/p. The
        broadcast has noise of length ν. The two are independent, so

            error² = (n/p)² + ν²,   n about p/(B + 1) and ν about √B · σ√d/p: smallest at B + 1 = (2p²/σ²d)^⅓.
        """
        marks = self._marks(count)
        noise = self._length(count) / (self._seeds + marks[-1])
        if self._length(count) > self._seeds + marks[0]:
            return math.inf
        return math.hypot((self.points - marks[-1]) / (self._seeds + self.points), noise)

    def _length(self, count: int) -> float:
        """Expected length of the noise of each of ``count`` sums, with a thousandth more for rounding.

        The noise grows with the root of the number of sums that share a budget.
        """
        declared = isinstance(self.mechanism, Mwem) and self.mechanism.epsilon_per_step is not None
        return 1.001 * self._length_of_one * (1 if declared else math.sqrt(count))

    @functools.cached_property
    def _length_of_one(self) -> float:
        return self._affordable(1).approximate_deviation * math.sqrt(self.features.dimension)

    @property
    def _seeds(self) -> int:
        return 0 if self.initial is None else len(self.initial)

    def members(self, bought: int) -> int:
        """Members of the summary after ``bought`` rounds; public, whether or not there was a point left to buy."""
        return self._seeds + bought

    # ── is it worth it ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def noise_to_signals(self) -> tuple[float, ...]:
        """Expected length of the noise of each mean hash, that of the target first; a mean hash is at most 1 long."""
        root = math.sqrt(self.features.dimension)
        noise = self.summary_sum
        summary = (
            ()
            if noise is None
            else tuple(noise.approximate_deviation * root / self.members(mark) for mark in self.marks)
        )
        return (self.target_sum.approximate_deviation * root / self.target_points, *summary)

    def check_signal(self) -> None:
        """Refuse a plan in which owners would bid for nothing but noise (errata E2-4).

        Raises:
            InvalidInput: The noise is longer than a mean hash can be; the sentence says which change would be enough.
        """
        target, *summary = self.noise_to_signals
        self._check_ratio(target, self.target_points, "target_points")
        for ratio, mark in zip(summary, self.marks, strict=True):
            self._check_ratio(ratio, self.members(mark), "points")

    # ── what is released ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def event_for_owners(self) -> Event:
        """What happens to the records of each owner."""
        sums = () if self.summary_sum is None else (self.summary_sum.event,)
        return Composition(sums if self._coins is None else (*sums, self._coins))

    def summary_hash(self, hashes: Floats, bought: int, randomness: Randomness) -> Floats:
        """The mean hash of the summary, with noise.

        Args:
            hashes: Hashes of the summary's members, a row each.
            bought: How many rounds there were.
            randomness: Where the noise comes from.

        Raises:
            InvalidInput: The plan has no broadcasts.
        """
        members, noise = self.members(bought), self.summary_sum
        if noise is None:
            raise InvalidInput("This plan never broadcasts the summary; give it a number of broadcasts.")
        if isinstance(noise, MwemSum):
            return noise.of(hashes, randomness, members) / members
        return noise.of(hashes, randomness) / members

    def check_owners(self, owners: Sequence[str]) -> None:
        """Refuse owners with whom no purchase can be made.

        Args:
            owners: Their names.

        Raises:
            InvalidInput: There is no owner, two have one name, or there are more than the auction pays for.
        """
        super().check_owners(owners)
        if isinstance(self.auction, LogisticAuction) and len(owners) > self.auction.owners:
            raise InvalidInput(
                f"There are {len(owners)} owners, and the auction is paid for {self.auction.owners}; give it as many."
            )

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        return {
            **super().parameters(),
            "protocol": "private-greedy",
            "broadcasts": len(self.marks),
            "auction": None if self.auction is None else self.auction.parameters(),
            "seeds": self._seeds,
            "seeds_digest": None if self.initial is None else hashlib.sha256(self.initial.tobytes()).hexdigest(),
            **(self.mechanism.parameters() if isinstance(self.mechanism, Mwem) else {"mechanism": "gaussian"}),
        }
