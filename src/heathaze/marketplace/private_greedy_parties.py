"""The curator's half of rounds.

    BID     Bid    ◄── those called   whom to ask: all, a public few, or by coins                        ──► Ask
    OFFER   Offer  ◄── those asked    the best of all it has seen and not bought is bought, by the
                                      score that owners use; then the next round                         ──► CallForBids
    and now and then, before a round, the summary's noisy mean hash                                      ──► Broadcast

A step ends when all who were asked have answered, or when :meth:`RoundsCurator.close_step` says that time is up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from heathaze.errors import UnexpectedMessage
from heathaze.marketplace.auction import Coins, LogisticAuction, default_asking
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Ask, Bid, Broadcast, CallForBids, FromOwner, Offer, Purchase, ToOwner, Wanted
from heathaze.marketplace.protocol import (
    Parcel,
    Unusable,
    check_turn,
    check_wanted,
    fingerprint,
    usable_offer,
    usable_score,
)
from heathaze.privacy.randomness import Randomness
from heathaze.privacy.secret import Secret
from heathaze.types import Floats, Integers

if TYPE_CHECKING:
    from heathaze.marketplace.private_greedy import Rounds


# TODO-merged from marketplace._cache: What the curator has seen: points by owner and row, and what each is worth under the broadcast score.


class Cache(Secret):
    """Points seen, bought ones among them.

    Args:
        features: How points are hashed.
        target: The noisy mean hash of the target.
    """

    def __init__(self, features: Features, target: Floats) -> None:
        self._features = features
        self._target = target
        self._summary = np.zeros(features.dimension)
        self._count = 0
        self._points = np.empty((16, features.columns))
        self._hashes = np.empty((16, features.dimension))
        self._likeness = np.empty(16)
        self._likeness_to_summary = np.empty(16)
        self._row = np.empty(16, dtype=np.int64)
        self._whose = np.empty(16, dtype=np.int64)
        self._left = np.zeros(16, dtype=bool)
        self._names: dict[str, int] = {}
        self._seen: dict[tuple[str, int], int] = {}

    def tell(self, summary: Floats) -> None:
        """A new broadcast: every point is scored anew."""
        self._summary = summary
        self._likeness_to_summary[: self._count] = self._features.products(self._hashes[: self._count], summary)

    def has(self, owner: str, row: int) -> bool:
        """Was this row seen before?"""
        return (owner, row) in self._seen

    def add(self, owner: str, row: int, point: Floats, weight: float) -> tuple[float, int]:
        """Keep a point; its score under the broadcast now, and its place."""
        if self._count == len(self._row):
            self._grow()
        place = self._count
        hashed = self._features.of(point)[0]
        self._points[place], self._hashes[place] = point[0], hashed
        for likeness, told in ((self._likeness, self._target), (self._likeness_to_summary, self._summary)):
            likeness[place] = self._features.products(hashed[None], told)[0]
        self._row[place] = row
        self._whose[place] = self._names.setdefault(owner, len(self._names))
        self._left[place] = True
        self._seen[owner, row] = place
        self._count += 1
        return float(self._likeness[place] - weight * self._likeness_to_summary[place]), place

    def remove(self, place: int) -> None:
        """A point that must not be bought."""
        self._left[place] = False

    def best(self, weight: float, owners: Sequence[str]) -> int | None:
        """Take the best point left of these owners; of equal ones that of the first name, and its first row."""
        numbers = [self._names[owner] for owner in owners if owner in self._names]
        there = self._left[: self._count]
        if len(numbers) < len(self._names):
            there = there & np.isin(self._whose[: self._count], numbers)
        places = np.flatnonzero(there)
        if not places.size:
            return None
        scores = self._likeness[places] - weight * self._likeness_to_summary[places]
        names = {number: name for name, number in self._names.items()}
        equals = places[scores == scores.max()]
        place = int(min(equals, key=lambda k: (names[int(self._whose[k])], int(self._row[k]))))
        self._left[place] = False
        return place

    def count(self, owner: str) -> int:
        """Points seen of an owner."""
        number = self._names.get(owner, -1)
        return int((self._whose[: self._count] == number).sum())

    def hashes(self, places: Sequence[int]) -> Floats:
        """Hashes of some points."""
        return self._hashes[np.asarray(places, dtype=np.int64)]

    def points(self, places: Sequence[int]) -> Floats:
        """Some points."""
        return self._points[np.asarray(places, dtype=np.int64)]

    def rows(self, places: Sequence[int]) -> Integers:
        """Which rows of their owners they are."""
        return self._row[np.asarray(places, dtype=np.int64)]

    def owners(self, places: Sequence[int]) -> tuple[str, ...]:
        """Whose they are."""
        names = {number: name for name, number in self._names.items()}
        return tuple(names[int(self._whose[place])] for place in places)

    def _grow(self) -> None:
        for name in ("_points", "_hashes", "_likeness", "_likeness_to_summary", "_row", "_whose", "_left"):
            array = getattr(self, name)
            more = np.zeros((2 * len(array), *array.shape[1:]), dtype=array.dtype)
            more[: len(array)] = array
            setattr(self, name, more)


# TODO-merged from marketplace._bidder: What an owner does in rounds: it bids with its best point under the score that all share, and sends it if asked.


def redundancy(members: int) -> float:
    """q/(q + 1), what similarity to the summary counts for in a score when the summary has q members (errata E2-1).

    >>> redundancy(3)
    0.75
    """
    return members / (members + 1)


class Bidder(Secret):
    """One owner in one purchase.

    The score of a point with hash h, common to all owners and to the curator, follows from what was broadcast alone:

        g̃ᵀh − q/(q + 1) · gᵀh,   g̃ and g the last noisy mean hashes of target and summary, q members now

    Its products are exact, so the curator finds the very same score, and no other record moves it.

    A point that was sent is not bid with again: it is the curator's to choose, in this round or in a later one.

    Cost: numbers · points for each broadcast, and as much as looking at every point once for each call.
    """

    def __init__(self, features: Features, points: Floats) -> None:
        self._features = features
        self._points = points
        self._hashes: Floats | None = None
        self._target: Broadcast | None = None
        self._summary: Broadcast | None = None
        self._likeness = np.zeros(len(points))
        self._likeness_to_summary = np.zeros(len(points))
        self._left = len(points)
        self._call: CallForBids | None = None
        self._bid: Bid | None = None
        self._best = 0
        self._offer: Offer | None = None

    def receive(self, message: ToOwner) -> Bid | Offer | None:
        """Answer the curator; broadcasts need no answer, and the same message again gets the same answer."""
        match message:
            case Broadcast(about="target"):
                self._learn_target(message)
            case Broadcast(about="summary"):
                self._learn_summary(message)
            case CallForBids():
                return self.bid(message)
            case Ask():
                return self.offer(message)
            case _:
                found = type(message).__name__
                raise UnexpectedMessage("The kind of a message", found, "Broadcast, CallForBids or Ask")
        return None

    def bid(self, call: CallForBids) -> Bid:
        """The score of the best point that was not sent yet."""
        if self._target is None:
            raise UnexpectedMessage("The kind of a message", "CallForBids", "the broadcast of the target first")
        if call == self._call and self._bid is not None:
            return self._bid
        if self._call is not None and call.round <= self._call.round:
            raise UnexpectedMessage("The round of a call", call.round, f"above {self._call.round}, the last one")
        if call.members < 0:
            raise UnexpectedMessage("The number of members", call.members, "none or more")
        self._call, self._offer = call, None
        if not self._left:
            self._bid = Bid(call.round, None)
            return self._bid
        # Sent points have a likeness of −∞; of equals the first row wins, in every world the same one.
        scores = self._likeness - redundancy(call.members) * self._likeness_to_summary
        self._best = int(np.argmax(scores))
        self._bid = Bid(call.round, float(scores[self._best]))
        return self._bid

    def offer(self, ask: Ask) -> Offer:
        """The point of the last bid, or an empty offer if there was none."""
        if self._bid is None or ask.round != self._bid.round:
            last = "none was made" if self._bid is None else f"{self._bid.round}, that of the last bid"
            raise UnexpectedMessage("The round of an ask", ask.round, last)
        if self._offer is None:
            rows = np.array([] if self._bid.score is None else [self._best], dtype=np.int64)
            self._likeness[rows] = -np.inf
            self._left -= len(rows)
            self._offer = Offer(rows, self._points[rows])
        return self._offer

    def _learn_target(self, told: Broadcast) -> None:
        if self._target is not None:
            if not np.array_equal(told.values, self._target.values):
                raise UnexpectedMessage("A second broadcast of the target", "different", "the same again")
            return
        self._check(told)
        self._hashes = self._features.of(self._points)
        self._target = told
        self._likeness = self._features.products(self._hashes, told.values)

    def _learn_summary(self, told: Broadcast) -> None:
        if self._hashes is None:
            raise UnexpectedMessage("The subject of a broadcast", "the summary", "the target first")
        self._check(told)
        if self._summary is not None and told.members <= self._summary.members:
            if told.members != self._summary.members or not np.array_equal(told.values, self._summary.values):
                raise UnexpectedMessage("A broadcast of the summary", "out of turn", "one with more members")
            return
        self._summary = told
        self._likeness_to_summary = self._features.products(self._hashes, told.values)

    def _check(self, told: Broadcast) -> None:
        if told.values.shape != (self._features.dimension,) or not np.isfinite(told.values).all():
            raise UnexpectedMessage("A broadcast", "no mean hash", f"{self._features.dimension} finite numbers")


class Step(IntEnum):
    """What owners are asked for."""

    BID = 0
    OFFER = 1


_KIND: dict[Step, type[FromOwner]] = {Step.BID: Bid, Step.OFFER: Offer}


class RoundsCurator(Secret):
    """One purchase.

    The curator knows the summary exactly and must not use it: under exact scores the summaries of two neighbouring
    worlds drift apart, and noise for one swapped member no longer hides it (``rounds.md``). So it scores with what it
    has broadcast, as owners do.

    Args:
        plan: What everyone agreed on.
        owners: Their names.
        wanted: What the consumer told.
        randomness: Of the noise, and of the auction's coins.
    """

    def __init__(self, plan: Rounds, owners: Sequence[str], wanted: Wanted, randomness: Randomness) -> None:
        plan.check_owners(owners)
        # Of equal scores the first name wins, whatever order the names are given in or their messages come in.
        names = tuple(sorted(owners))
        self.plan = plan
        self.step: Step | None = None
        self._asking = plan.asking or default_asking(len(names), plan.features.seed)
        self._coins: Coins | None = None
        if isinstance(self._asking, LogisticAuction):
            self._coins = self._asking.coins(plan.points, plan.epsilon, plan.delta)
        plan.check_signal()
        self._owners = names
        self._wanted = check_wanted(plan, wanted)
        self._randomness = randomness
        self._round = 0
        self._active = dict.fromkeys(names)
        self._waiting: set[str] = set()
        self._called: tuple[str, ...] = ()
        self._bids: dict[str, Bid] = {}
        self._cache = Cache(plan.features, wanted.broadcast.values)
        self._initial: Floats = np.empty((0, plan.features.dimension))
        if plan.initial is not None:
            self._initial = plan.features.of(plan.initial)
        self._chosen: list[int] = []
        self._last: dict[str, Offer] = {}
        self._notes: list[str] = []
        self._purchase: Purchase | None = None

    @property
    def waiting(self) -> frozenset[str]:
        """Owners who have not answered in this step."""
        return frozenset(self._waiting)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what went wrong so far; they hold no data."""
        return tuple(self._notes)

    @property
    def purchase(self) -> Purchase | None:
        """What was bought, once it is."""
        return self._purchase

    def begin(self) -> tuple[Parcel, ...]:
        """Tell every owner about the target and the seeds, and call the first round."""
        if self._round:
            raise UnexpectedMessage("The purchase", "under way", "one that has not begun", "begin another")
        told = [self._wanted.broadcast]
        if len(self._initial):
            # The seeds are public, so is their hash: it needs no noise.
            seeds = Broadcast("summary", self._initial.mean(axis=0), 0.0, len(self._initial), fingerprint(self.plan))
            self._cache.tell(seeds.values)
            told.append(seeds)
        first = tuple(Parcel(owner, message) for message in told for owner in self._owners)
        return (*first, *self._next())

    def receive(self, owner: str, message: FromOwner) -> tuple[Parcel, ...]:
        """Take one message of an owner; the last one of a step closes it.

        An answer that cannot be used sets its owner aside, with a note; the purchase goes on without it.

        Raises:
            UnexpectedMessage: It comes from a stranger, a second time or out of turn; nothing changes.
        """
        check_turn(owner, message, None if self.step is None else _KIND[self.step], self._active, self._waiting)
        if isinstance(message, Bid) and message.round != self._round:
            raise UnexpectedMessage("The round of a bid", message.round, self._round)
        if isinstance(message, Offer) and self._is_repeated(owner, message):
            raise UnexpectedMessage("An offer", "the one before again", "that of this round")
        try:
            self._take(owner, message)
        except Unusable as why:
            self._set_aside(owner, str(why))
        self._waiting.discard(owner)
        return () if self._waiting else self.close_step()

    def close_step(self) -> tuple[Parcel, ...]:
        """Time is up: go on with those who answered."""
        for owner in sorted(self._waiting):
            self._set_aside(owner, "it did not answer")
        self._waiting = set()
        match self.step:
            case Step.BID:
                return self._ask() or self._next()
            case Step.OFFER:
                self._buy()
                return self._next()
        return ()

    # ── one round ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _next(self) -> tuple[Parcel, ...]:
        """Call the next round in which somebody can answer; in others what was seen before may still be bought."""
        parcels: list[Parcel] = []
        while self._round < self.plan.points:
            if self._round in self.plan.marks:
                parcels += self._tell()
            self._round += 1
            self._bids = {}
            self._called = self._asking.called(self._round, self._owners)
            present = [owner for owner in self._called if owner in self._active]
            if present:
                self.step, self._waiting = Step.BID, set(present)
                call = CallForBids(self._round, self.plan.members(self._round - 1))
                return (*parcels, *(Parcel(owner, call) for owner in present))
            self._buy()
        self._finish()
        return ()

    def _tell(self) -> list[Parcel]:
        """The summary's mean hash with noise, over as many members as it should have by now."""
        told = self.plan.summary_sum
        if told is None:
            return []
        members = self.plan.members(self._round)
        hashes = np.concatenate([self._initial, self._cache.hashes(self._chosen)])
        values = self.plan.summary_hash(hashes, self._round, self._randomness)
        self._cache.tell(values)
        message = Broadcast("summary", values, told.deviation / members, members, fingerprint(self.plan))
        return [Parcel(owner, message) for owner in self._active]

    def _ask(self) -> tuple[Parcel, ...]:
        """Ask those whom the plan says, whatever they bid, or those whose coin falls right."""
        bidders = [owner for owner in self._called if owner in self._bids]
        if self._coins is not None:
            # Names are sorted and the sort is stable, so equal bids rank by name.
            ranked = sorted(bidders, key=lambda owner: -_value(self._bids[owner]))
            asked = set(self._coins.asked(ranked, self._randomness))
            bidders = [owner for owner in bidders if owner in asked]
        if not bidders:
            self._buy()
            return ()
        self.step, self._waiting = Step.OFFER, set(bidders)
        return tuple(Parcel(owner, Ask(self._round)) for owner in bidders)

    def _buy(self) -> None:
        """The best of what was seen and not bought, of those owners who were called in this round and still take part.

        Points of others stay out: some of theirs were sent and some cannot be had, which ones differs between
        neighbouring worlds, and one swap could become two (``rounds.md``).
        """
        competing = [owner for owner in self._called if owner in self._active]
        best = self._cache.best(redundancy(self.plan.members(self._round - 1)), competing)
        if best is not None:
            self._chosen.append(best)

    def _finish(self) -> None:
        self.step, self._waiting = None, set()
        found = self._cache
        if len(self._chosen) < self.plan.points:
            self._notes.append(
                f"Only {len(self._chosen)} of {self.plan.points} points could be bought: no more were offered."
            )
        offered = {owner: found.count(owner) for owner in self._owners}
        self._purchase = Purchase(
            found.owners(self._chosen), found.rows(self._chosen), found.points(self._chosen), offered, self.notes
        )

    # ── one answer ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, owner: str, message: FromOwner) -> None:
        """Keep an answer that can be used."""
        if isinstance(message, Bid):
            self._bids[owner] = Bid(message.round, usable_score(message.score))
        elif isinstance(message, Offer):
            self._take_offer(owner, message)

    def _take_offer(self, owner: str, message: Offer) -> None:
        bid = self._bids[owner].score
        expected = 0 if bid is None else 1
        offer = usable_offer(message, self.plan.features, expected)
        if len(offer.rows) < expected:
            raise Unusable("it bid, and offered nothing")
        self._last[owner] = offer
        if bid is None:
            return
        row = int(offer.rows[0])
        if self._cache.has(owner, row):
            raise Unusable("it offered the same row a second time")
        score, place = self._cache.add(owner, row, offer.points, redundancy(self.plan.members(self._round - 1)))
        if score != bid:  # scores are exact, so an owner that keeps to the plan finds the very same one
            self._cache.remove(place)
            raise Unusable("its point contradicts its bid")

    def _is_repeated(self, owner: str, message: Offer) -> bool:
        """Is it the offer before, delivered once more? Then it is no answer to this round."""
        last = self._last.get(owner)
        return (
            last is not None
            and len(last.rows) > 0
            and np.array_equal(message.rows, last.rows)
            and np.array_equal(message.points, last.points)
        )

    def _set_aside(self, owner: str, why: str) -> None:
        self._active.pop(owner, None)
        self._notes.append(f"{owner} is left out from round {self._round} on: {why}.")


def _value(bid: Bid) -> float:
    return -math.inf if bid.score is None else bid.score
