"""Private greedy: points are bought in rounds, one point per round; the paper's protocol, corrected (errata part 3).

    consumer ─ target, noisy mean hash ─► curator ─ noisy mean hash ─► owners
    in each round    owners ─ bids ─► curator ─ asks ─► owners ─ points ─► curator, who buys the best point seen so far
    in some rounds   curator ─ noisy mean hash of the summary ─► owners
    consumer ◄─ the chosen points ─ curator

The summary is the set of points bought so far. Each broadcast of the summary costs privacy. :class:`Herding` broadcasts
no summary and matches the target better; private greedy is included for comparison with the paper.
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
"""Largest number of broadcasts that the planner tries. The best number grows only slowly with points and ε."""

_REPLACED = 2
"""Number of hashes by which neighbouring sums differ: one hash is replaced by another, so two hashes differ.

Two hashes differ for the target by definition, and for the summary by the swap lemma (``private_greedy.md``).
"""


@dataclass(frozen=True, init=False, eq=False)
class PrivateGreedy(Plan):
    """The paper's plan of a purchase: private greedy, in which owners bid for one point per round. Public.

    The full ε applies to each record: a record of the target influences only the target's noisy hash, and a record of
    an owner influences only the summary's noisy hashes (and the auction's coins).

    Args:
        features: The public hash of points.
        points: Number of points to buy, which is also the number of rounds, from 1 to 10,000,000.
        target_points: Number of points in the target; public.
        epsilon: Privacy loss ε for a record of the target, and also for a record of an owner.
        delta: The δ of the promise, a small probability by which its bound may be exceeded, at most 0.01.
        broadcasts: Number of broadcasts of the summary, less than ``points``. By default the number with the smallest
            predicted error.
        auction: Rule by which owners are asked in each round. By default all owners are asked if there are at most 32,
            otherwise a public random choice of 32.
        initial: Public points with which the summary starts, which are not bought; or None.
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
        """Noise for the sum of the target's hashes; neighbouring targets differ in one replaced hash."""
        return self._sum(self.epsilon, 1)

    @functools.cached_property
    def summary_sum(self) -> NoisySum | MwemSum | None:
        """Noise for all broadcasts of the summary, or None without any; neighbouring summaries differ in one hash."""
        count = len(self.marks)
        return None if count == 0 else self._affordable(count)

    def _sum(self, epsilon: Fraction, sums: int) -> NoisySum | MwemSum:
        if isinstance(self.mechanism, Mwem):
            return MwemSum(self.features, self.mechanism, epsilon, self.delta, sums)
        return NoisySum(self.features.dimension, 1.0, _REPLACED, epsilon, self.delta, sums)

    def _affordable(self, count: int) -> NoisySum | MwemSum:
        """Noise for ``count`` broadcasts that, together with the auction's coins (if any), cost no more than ε."""
        if self._coins is None:
            return self._sum(self.epsilon, count)
        # The joint loss of sums and coins grows with the loss of the sums, so bisection finds the largest loss of the
        # sums that fits.
        low, high = Fraction(0), self.epsilon
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if self._fits(middle, count, self._coins) else (low, middle)
        return self._sum(low, count)

    def _fits(self, epsilon: Fraction, count: int, coins: Event) -> bool:
        """Whether broadcasts at this ε and the auction's coins together cost no more than the plan's ε."""
        try:
            sums = self._sum(epsilon, count).event
        except (InvalidInput, TooLarge):  # ε is so small that its noise cannot be drawn; try a larger ε
            return True
        try:
            return compose([sums, coins], self.delta).epsilon <= self.epsilon
        except InvalidInput:  # the loss is so large that δ does not cover the chance of a missed bid
            return False

    @functools.cached_property
    def _coins(self) -> Event | None:
        """The privacy event of the auction's coins; a plan whose coins cost all of ε is refused."""
        if not isinstance(self.auction, LogisticAuction):
            return None
        event = self.auction.event(self.points, self.epsilon, self.delta)
        # The chance of a missed best bid takes its share of δ. The coins' own loss is computed from the rest of δ.
        cost = compose([replace(event, failure_probability=Fraction(0))], self.delta * (1 - self.auction.share)).epsilon
        if cost >= self.epsilon:
            raise InvalidInput(
                f"The auction's coins cost ε = {decimal(cost)}, but the whole plan promises {decimal(self.epsilon)}; "
                "give the auction a smaller epsilon, or leave it out: asking all owners, or a public few, is free."
            )
        return event

    # ── when the summary is broadcast ───────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def marks(self) -> tuple[int, ...]:
        """Schedule of the broadcasts: for each broadcast, the number of points bought before it.

        The first broadcast waits until the summary has enough members for its mean hash to be longer than the expected
        noise. Later broadcasts are equally spaced.
        """
        if self.points == 1:
            return ()
        if self.broadcasts is not None:
            return self._marks(self.broadcasts)
        tried = range(1, min(MOST_BROADCASTS, self.points - 1) + 1)
        best = min(tried, key=self._predicted)
        # If no number of broadcasts carries a signal, plan one broadcast; check_signal then refuses the plan.
        return self._marks(1 if self._predicted(best) == math.inf else best)

    def _marks(self, count: int) -> tuple[int, ...]:
        if count == 0:
            return ()
        first = min(max(self.points / (count + 1), self._length(count) - self._seeds), self.points - count)
        spacing = (self.points - first) / count
        return tuple(math.ceil(first + k * spacing - 1e-9) for k in range(count))

    def _predicted(self, count: int) -> float:
        """Predict the largest error of the broadcast mean hash of the summary when the last point is bought.

        Let p be the number of points to buy, B the number of broadcasts (``count``), d the number of coordinates of a
        hash, and σ the noise of a single sum. The n points bought since the last broadcast are missing from its mean
        hash, which is an error of up to n/p. The noise of the broadcast has length ν. Both errors are independent, so

            error² = (n/p)² + ν²,   n about p/(B + 1) and ν about √B · σ√d/p: smallest at B + 1 = (2p²/σ²d)^⅓.
        """
        marks = self._marks(count)
        noise = self._length(count) / (self._seeds + marks[-1])
        if self._length(count) > self._seeds + marks[0]:
            return math.inf
        return math.hypot((self.points - marks[-1]) / (self._seeds + self.points), noise)

    def _length(self, count: int) -> float:
        """Expected length of the noise of a broadcast sum if there are ``count`` broadcasts, plus 0.1% for rounding.

        The noise grows with the square root of the number of sums that share a budget.
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
        """Public number of members of the summary after ``bought`` rounds, even if owners ran out of points.

        Args:
            bought: Number of rounds so far.
        """
        return self._seeds + bought

    # ── is it worth it ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def noise_to_signals(self) -> tuple[float, ...]:
        """Expected length of the noise in each broadcast mean hash, the target's first; a mean hash has length ≤ 1."""
        if self.summary_sum is None:
            return super().noise_to_signals
        length = self.summary_sum.approximate_deviation * math.sqrt(self.features.dimension)
        return (*super().noise_to_signals, *(length / self.members(mark) for mark in self.marks))

    def check_signal(self) -> None:
        """Refuse a plan in which the owners' bids would follow mere noise (errata E2-4).

        Raises:
            InvalidInput: The noise is longer than a mean hash can be; the sentence names changes that would be enough.
        """
        super().check_signal()
        for ratio, mark in zip(self.noise_to_signals[1:], self.marks, strict=True):
            self._check_ratio(ratio, self.members(mark), "points")

    # ── what is released ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def event_for_owners(self) -> Event:
        """The privacy event that the purchase charges to the ledger of each owner."""
        sums = () if self.summary_sum is None else (self.summary_sum.event,)
        return Composition(sums if self._coins is None else (*sums, self._coins))

    def summary_hash(self, hashes: Floats, bought: int, randomness: Randomness) -> Floats:
        """Compute the noisy mean hash of the summary, for a broadcast.

        Args:
            hashes: Hashes of the summary's members, one per row.
            bought: Number of rounds so far.
            randomness: Source of the noise.

        Returns:
            The noisy mean hash, one number for each coordinate of a hash.

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
        """Refuse a list of owners that does not fit the plan.

        Args:
            owners: Names of the owners.

        Raises:
            InvalidInput: There is no owner, two owners have the same name, or the auction covers fewer owners.
        """
        super().check_owners(owners)
        if isinstance(self.auction, LogisticAuction) and len(owners) > self.auction.owners:
            raise InvalidInput(
                f"There are {len(owners)} owners, but the auction covers {self.auction.owners}; give the auction "
                f"owners={len(owners)}."
            )

    def parameters(self) -> dict[str, Any]:
        """Public parameters of the private greedy plan, for reports."""
        return {
            **super().parameters(),
            "protocol": "private-greedy",
            "broadcasts": len(self.marks),
            "auction": None if self.auction is None else self.auction.parameters(),
            "seeds": self._seeds,
            "seeds_digest": None if self.initial is None else hashlib.sha256(self.initial.tobytes()).hexdigest(),
            **(self.mechanism.parameters() if isinstance(self.mechanism, Mwem) else {"mechanism": "gaussian"}),
        }
