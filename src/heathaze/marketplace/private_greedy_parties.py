"""What owners and curator do in private greedy.

    the curator expects
    Bid    ◄── those called   whom to ask: everyone, a public few, or by coins                           ──► Ask
    Offer  ◄── those asked    the best of all it has seen and not bought is bought, by the
                              score that owners use; then the next round                                 ──► CallForBids
    and before some rounds, the summary's noisy mean hash                                                ──► Broadcast

If owners run out of points, calls, asks and broadcasts go on with the member count that the plan says: how many records
owners have is private. An owner that has none left bids nothing and sends an empty offer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from heathaze.errors import UnexpectedMessage
from heathaze.marketplace.auction import Coins, LogisticAuction, default_auction
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Ask, Bid, Broadcast, CallForBids, Delivery, FromOwner, Offer, ToOwner, Wanted
from heathaze.marketplace.private_greedy import PrivateGreedy
from heathaze.marketplace.protocol import Curator, Unusable, usable_offer, usable_score
from heathaze.privacy.randomness import Randomness, Secret
from heathaze.types import Floats, Integers


def redundancy(members: int) -> float:
    """q/(q + 1), the weight of similarity to the summary in a score, for a summary of q members (errata E2-1).

    Args:
        members: q.

    >>> redundancy(3)
    0.75
    """
    return members / (members + 1)


# ── the owner ───────────────────────────────────────────────────────────────────────────────────────────────────────


class PrivateGreedyOwner(Secret):
    """One owner in one purchase: it bids with its best point, and sends that point if asked.

    The score of a point with hash h, common to all owners and to the curator, follows from the broadcasts alone:

        g̃ᵀh − q/(q + 1) · gᵀh,   g̃ and g the last noisy mean hashes of target and summary, q members now

    Its products are exact, so the curator finds the very same score, and no other record moves it. A point that was
    sent is not bid with again: the curator may choose it in this round or in a later one.

    Cost: numbers · points for each broadcast, and one look at every point for each call.

    Args:
        features: How points are hashed.
        points: The owner's points, a row each.
    """

    def __init__(self, features: Features, points: Floats) -> None:
        self._features = features
        self._points = points
        self._hashes: Floats | None = None
        self._target: Broadcast | None = None
        self._summary: Broadcast | None = None
        self._similarity = np.zeros(len(points))
        self._similarity_to_summary = np.zeros(len(points))
        self._left = len(points)
        self._call: CallForBids | None = None
        self._bid: Bid | None = None
        self._best = 0
        self._offer: Offer | None = None

    def receive(self, message: ToOwner) -> Bid | Offer | None:
        """Answer the curator; the same message again gets the same answer.

        Args:
            message: A broadcast, which needs no answer, a call for bids or an ask.

        Raises:
            UnexpectedMessage: It is another message, out of turn, or contradicts an earlier one.
        """
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
        """The score of the best point that was not sent yet, as a bid; arguments and errors as in :meth:`receive`."""
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
        # Sent points have a similarity of −∞; of equals the first row wins, in every world the same one.
        scores = self._similarity - redundancy(call.members) * self._similarity_to_summary
        self._best = int(np.argmax(scores))
        self._bid = Bid(call.round, float(scores[self._best]))
        return self._bid

    def offer(self, ask: Ask) -> Offer:
        """The point of the last bid, or an empty offer if it had none; arguments and errors as in :meth:`receive`."""
        if self._bid is None or ask.round != self._bid.round:
            last = "none was made" if self._bid is None else f"{self._bid.round}, that of the last bid"
            raise UnexpectedMessage("The round of an ask", ask.round, last)
        if self._offer is None:
            rows = np.array([] if self._bid.score is None else [self._best], dtype=np.int64)
            self._similarity[rows] = -np.inf
            self._left -= len(rows)
            self._offer = Offer(rows, self._points[rows])
        return self._offer

    def _learn_target(self, broadcast: Broadcast) -> None:
        if self._target is not None:
            if not np.array_equal(broadcast.values, self._target.values):
                raise UnexpectedMessage("A second broadcast of the target", "different", "the same again")
            return
        self._check_shape(broadcast)
        self._hashes = self._features.of(self._points)
        self._target = broadcast
        self._similarity = self._features.products(self._hashes, broadcast.values)

    def _learn_summary(self, broadcast: Broadcast) -> None:
        if self._hashes is None:
            raise UnexpectedMessage("The subject of a broadcast", "the summary", "the target first")
        self._check_shape(broadcast)
        if self._summary is not None and broadcast.members <= self._summary.members:
            if broadcast.members != self._summary.members or not np.array_equal(broadcast.values, self._summary.values):
                raise UnexpectedMessage("A broadcast of the summary", "out of turn", "one with more members")
            return
        self._summary = broadcast
        self._similarity_to_summary = self._features.products(self._hashes, broadcast.values)

    def _check_shape(self, broadcast: Broadcast) -> None:
        if broadcast.values.shape != (self._features.dimension,) or not np.isfinite(broadcast.values).all():
            raise UnexpectedMessage("A broadcast", "no mean hash", f"{self._features.dimension} finite numbers")


# ── the curator ─────────────────────────────────────────────────────────────────────────────────────────────────────


class PrivateGreedyCurator(Curator):
    """One purchase in rounds.

    The curator knows the exact summary and the exact target and must use neither: under exact scores the summaries of
    two neighbouring worlds drift apart, and noise for one swapped member no longer hides it (``private_greedy.md``). So
    it scores points with what it has broadcast, as owners do. Points that were sent and not bought stay in a cache and
    compete again in each round in which their owner is called and still takes part.

    Of equal scores the first name wins, then the first row, whatever order the names are given in or messages come in.

    Args:
        plan: What everyone agreed on.
        owners: Names of the owners.
        wanted: What the consumer sent.
        randomness: Where the noise of the summary and the auction's coins come from; owners have paid for both.
    """

    plan: PrivateGreedy

    def __init__(self, plan: PrivateGreedy, owners: Sequence[str], wanted: Wanted, randomness: Randomness) -> None:
        super().__init__(plan, sorted(owners), wanted)
        plan.check_signal()
        self._auction = plan.auction or default_auction(len(owners), plan.features.seed)
        self._coins: Coins | None = None
        if isinstance(self._auction, LogisticAuction):
            self._coins = self._auction.coins(plan.points, plan.epsilon, plan.delta)
        self._randomness = randomness
        self._round = 0
        self._called: tuple[str, ...] = ()
        self._bids: dict[str, Bid] = {}
        self._cache = Cache(plan.features, wanted.broadcast.values)
        self._initial: Floats = np.empty((0, plan.features.dimension))
        if plan.initial is not None:
            self._initial = plan.features.of(plan.initial)
        self._chosen: list[int] = []
        self._last: dict[str, Offer] = {}

    @property
    def _since(self) -> str:
        return f" from round {self._round} on"

    def begin(self) -> tuple[Delivery, ...]:
        """The broadcasts of the target and of the seeds, for every owner, and the call of the first round."""
        if self._round:
            raise UnexpectedMessage("The purchase", "under way", "one that has not begun", "begin another")
        broadcasts = [self._wanted.broadcast]
        if len(self._initial):
            # The seeds are public, so is their hash: it needs no noise.
            mean = self._initial.mean(axis=0)
            self._cache.rescore(mean)
            broadcasts.append(Broadcast("summary", mean, 0.0, len(self._initial), self.plan.fingerprint))
        first = tuple(Delivery(owner, message) for message in broadcasts for owner in self._owners)
        return (*first, *self._next_round())

    def _next_step(self) -> tuple[Delivery, ...]:
        if self.expected is Bid:
            return self._ask_bidders() or self._next_round()
        if self.expected is Offer:
            self._buy()
            return self._next_round()
        return ()

    # ── one round ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _next_round(self) -> tuple[Delivery, ...]:
        """Call the next round in which an owner can answer; in others a point of the cache may still be bought."""
        deliveries: list[Delivery] = []
        while self._round < self.plan.points:
            if self._round in self.plan.marks:
                deliveries += self._broadcast_summary()
            self._round += 1
            self._bids = {}
            self._called = self._auction.called(self._round, self._owners)
            present = [owner for owner in self._called if owner in self._active]
            if present:
                self._ask(Bid, present)
                call = CallForBids(self._round, self.plan.members(self._round - 1))
                return (*deliveries, *(Delivery(owner, call) for owner in present))
            self._buy()
        seen = self._cache
        offered = {owner: seen.count(owner) for owner in self._owners}
        self._finish(seen.owners(self._chosen), seen.rows(self._chosen), seen.points(self._chosen), offered)
        return ()

    def _broadcast_summary(self) -> list[Delivery]:
        """The summary's mean hash with noise, over as many members as the plan says that it has by now."""
        noise = self.plan.summary_sum
        if noise is None:
            return []
        members = self.plan.members(self._round)
        hashes = np.concatenate([self._initial, self._cache.hashes(self._chosen)])
        values = self.plan.summary_hash(hashes, self._round, self._randomness)
        self._cache.rescore(values)
        message = Broadcast("summary", values, noise.deviation / members, members, self.plan.fingerprint)
        return [Delivery(owner, message) for owner in self._active]

    def _ask_bidders(self) -> tuple[Delivery, ...]:
        """Ask all who bid, or those whose coin says so; without anyone to ask, buy from the cache."""
        bidders = [owner for owner in self._called if owner in self._bids]
        if self._coins is not None:
            # Names are sorted and the sort is stable, so equal bids rank by name.
            ranked = sorted(bidders, key=lambda owner: -_value(self._bids[owner]))
            asked = set(self._coins.asked(ranked, self._randomness))
            bidders = [owner for owner in bidders if owner in asked]
        if not bidders:
            self._buy()
            return ()
        self._ask(Offer, bidders)
        return tuple(Delivery(owner, Ask(self._round)) for owner in bidders)

    def _buy(self) -> None:
        """Buy the best point of the cache, among owners who were called in this round and still take part.

        Points of other owners stay out: some of theirs were sent and some were not, which ones differs between
        neighbouring worlds, and one swap could become two (``private_greedy.md``).
        """
        competing = [owner for owner in self._called if owner in self._active]
        best = self._cache.best(redundancy(self.plan.members(self._round - 1)), competing)
        if best is not None:
            self._chosen.append(best)

    # ── one answer ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, owner: str, message: FromOwner) -> None:
        if isinstance(message, Bid):
            if message.round != self._round:
                raise UnexpectedMessage("The round of a bid", message.round, self._round)
            self._bids[owner] = Bid(message.round, usable_score(message.score))
        elif isinstance(message, Offer):
            if self._is_repeated(owner, message):
                raise UnexpectedMessage("An offer", "the one before again", "that of this round")
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
        """Whether it is the owner's last offer, delivered once more; then it is no answer to this round."""
        last = self._last.get(owner)
        return (
            last is not None
            and len(last.rows) > 0
            and np.array_equal(message.rows, last.rows)
            and np.array_equal(message.points, last.points)
        )


def _value(bid: Bid) -> float:
    return -math.inf if bid.score is None else bid.score


class Cache(Secret):
    """The points that the curator has seen, bought ones too, with their scores under the last broadcasts.

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
        self._similarity = np.empty(16)
        self._similarity_to_summary = np.empty(16)
        self._row = np.empty(16, dtype=np.int64)
        self._whose = np.empty(16, dtype=np.int64)
        self._left = np.zeros(16, dtype=bool)
        self._names: dict[str, int] = {}
        self._seen: dict[tuple[str, int], int] = {}

    def rescore(self, summary: Floats) -> None:
        """Score every point anew, under a new broadcast of the summary's mean hash."""
        self._summary = summary
        self._similarity_to_summary[: self._count] = self._features.products(self._hashes[: self._count], summary)

    def has(self, owner: str, row: int) -> bool:
        """Whether this row was seen before."""
        return (owner, row) in self._seen

    def add(self, owner: str, row: int, point: Floats, weight: float) -> tuple[float, int]:
        """Keep a point.

        Args:
            owner: Whose it is.
            row: Which of the owner's rows.
            point: The point, as a table of one row.
            weight: What similarity to the summary counts for.

        Returns:
            Its score under the last broadcasts, and its place in the cache.
        """
        if self._count == len(self._row):
            self._grow()
        place = self._count
        hashed = self._features.of(point)[0]
        self._points[place], self._hashes[place] = point[0], hashed
        for similarity, mean in ((self._similarity, self._target), (self._similarity_to_summary, self._summary)):
            similarity[place] = self._features.products(hashed[None], mean)[0]
        self._row[place] = row
        self._whose[place] = self._names.setdefault(owner, len(self._names))
        self._left[place] = True
        self._seen[owner, row] = place
        self._count += 1
        return float(self._similarity[place] - weight * self._similarity_to_summary[place]), place

    def remove(self, place: int) -> None:
        """Exclude a point from being bought."""
        self._left[place] = False

    def best(self, weight: float, owners: Sequence[str]) -> int | None:
        """Take the best point left of some owners; of equal points the one of the first name, and its first row.

        Args:
            weight: What similarity to the summary counts for.
            owners: Names of the owners.

        Returns:
            Its place in the cache, or None if no point is left.
        """
        numbers = [self._names[owner] for owner in owners if owner in self._names]
        there = self._left[: self._count]
        if len(numbers) < len(self._names):
            there = there & np.isin(self._whose[: self._count], numbers)
        places = np.flatnonzero(there)
        if not places.size:
            return None
        scores = self._similarity[places] - weight * self._similarity_to_summary[places]
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
        for name in ("_points", "_hashes", "_similarity", "_similarity_to_summary", "_row", "_whose", "_left"):
            array = getattr(self, name)
            more = np.zeros((2 * len(array), *array.shape[1:]), dtype=array.dtype)
            more[: len(array)] = array
            setattr(self, name, more)
