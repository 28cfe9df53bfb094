"""Owner and curator of the private greedy protocol.

    the curator receives          and then                                                               sends
    Bid, from called owners       chooses whom to ask: everyone, a public few, or by coins               Ask
    Offer, from asked owners      buys the best point that it has seen and not bought, by the
                                  score that owners use, and begins the next round                       CallForBids
                                  and, before some rounds, the noisy mean hash of the summary            Broadcast

The number of records of an owner is private. So if owners run out of points, calls, asks and broadcasts go on, and the
member count still grows by one in each round. An owner without points sends a bid without a score, and an empty offer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from heathaze.errors import UnexpectedMessage
from heathaze.marketplace.auction import Coins, LogisticAuction, default_auction
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Ask, Bid, Broadcast, CallForBids, FromOwner, Offer, ToOwner, Unusable, Wanted
from heathaze.marketplace.private_greedy import PrivateGreedy
from heathaze.marketplace.protocol import Curator, Deliveries
from heathaze.privacy.randomness import Randomness, Secret
from heathaze.types import Floats, Integers


def redundancy(members: int) -> float:
    """Weight q/(q + 1) of the similarity to the summary in the score of a bid, for q members (errata E2-1).

    Args:
        members: Number q of members of the summary.

    >>> redundancy(3)
    0.75
    """
    return members / (members + 1)


# ── the owner ───────────────────────────────────────────────────────────────────────────────────────────────────────


class PrivateGreedyOwner(Secret):
    """An owner in one purchase by private greedy: bids with the best unsent point, and sends that point if asked.

    All owners and the curator use the same score of a point with hash h:

        g̃ᵀh − q/(q + 1) · gᵀh

    Here g̃ and g are the last broadcast mean hashes of target and summary, and q is the number of members of the
    summary. The products are exact, so the curator computes the same score, and other records do not influence the
    score. A point that was sent is not bid again, because the curator keeps the point and may buy it in a later round.

    Cost: points × coordinates of a hash for each broadcast, and one pass over all points for each call.

    Args:
        features: The public hash of points.
        points: The owner's points, one per row.
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
        """Answer a message of the curator; a repeated message gets the same answer.

        Args:
            message: A broadcast (which needs no answer), a call for bids or an ask.

        Raises:
            UnexpectedMessage: The message is of another kind, out of turn, or contradicts an earlier message.
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
        """Answer a call with a bid: the score of the best unsent point; raises the same errors as :meth:`receive`."""
        if self._target is None:
            raise UnexpectedMessage("The kind of a message", "CallForBids", "the broadcast of the target first")
        if call == self._call and self._bid is not None:
            return self._bid
        if self._call is not None and call.round <= self._call.round:
            raise UnexpectedMessage("The round of a call", call.round, f"above {self._call.round}, the last one")
        if call.members < 0:
            raise UnexpectedMessage("The number of members", call.members, "none or more")
        self._call, self._offer = call, None
        score = None
        if self._left:
            # Sent points have a similarity of −∞. Among equal scores the first row wins, also on neighbouring data.
            scores = self._similarity - redundancy(call.members) * self._similarity_to_summary
            self._best = int(np.argmax(scores))
            score = float(scores[self._best])
        self._bid = Bid(call.round, score)
        return self._bid

    def offer(self, ask: Ask) -> Offer:
        """Answer an ask with the point of the last bid, or with an empty offer; same errors as :meth:`receive`."""
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
    """The curator of one purchase by private greedy.

    The curator knows the exact summary and the exact target but must not use these to score points. With exact scores,
    the summaries on two neighbouring inputs would drift apart, and noise for one swapped member would no longer hide
    the difference (``private_greedy.md``). So the curator scores points with the broadcast hashes, as owners do. Points
    that were sent but not bought stay in a cache. Points in the cache compete in each round in which their owner is
    called and takes part.

    Among equal scores, the owner whose name sorts first wins, and then the first row. The order of the names and of the
    messages does not matter.

    Args:
        plan: The plan that all parties agreed on.
        owners: Names of the owners.
        wanted: The consumer's message.
        randomness: Source of the summary's noise and of the auction's coins; the owners' ledgers were charged for both.
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
        self._simulated |= randomness.simulated
        self._round = 0
        self._called: tuple[str, ...] = ()
        self._bids: dict[str, Bid] = {}
        self._cache = Cache(plan.features, wanted.broadcast.values)
        self._initial = (
            np.empty((0, plan.features.dimension)) if plan.initial is None else plan.features.of(plan.initial)
        )
        self._chosen: list[int] = []
        self._last: dict[str, Offer] = {}

    @property
    def _since(self) -> str:
        return f" from round {self._round} on"

    def begin(self) -> Deliveries:
        """Begin the purchase: broadcast the target and the public seed points, and call the first round."""
        if self._round:
            raise UnexpectedMessage("The purchase", "under way", "one that has not begun", "begin another")
        broadcasts = [self._wanted.broadcast]
        if len(self._initial):
            # The seed points are public, so their mean hash needs no noise.
            mean = self._initial.mean(axis=0)
            self._cache.rescore(mean)
            broadcasts.append(Broadcast("summary", mean, 0.0, len(self._initial), self.plan.fingerprint))
        first = [delivery for message in broadcasts for delivery in self._deliver(self._owners, message)]
        return (*first, *self._next_round())

    def _next_step(self) -> Deliveries:
        if self.expected is Bid:
            return self._ask_bidders() or self._next_round()
        if self.expected is Offer:
            self._buy()
            return self._next_round()
        return ()

    # ── one round ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _next_round(self) -> Deliveries:
        """Begin the next round in which a called owner takes part; nothing is bought in the rounds that are skipped."""
        deliveries: Deliveries = ()
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
                return (*deliveries, *self._deliver(present, call))
            self._buy()
        counts = self._cache.counts()
        self._finish(*self._cache.bought(self._chosen), {owner: counts[owner] for owner in self._owners})
        return ()

    def _broadcast_summary(self) -> Deliveries:
        """Broadcast the noisy mean hash of the summary; the sum is divided by the plan's public member count."""
        noise = self.plan.summary_sum
        if noise is None:
            return ()
        members = self.plan.members(self._round)
        hashes = np.concatenate([self._initial, self._cache.hashes(self._chosen)])
        values = self.plan.summary_hash(hashes, self._round, self._randomness)
        self._cache.rescore(values)
        deviation = noise.deviation / members
        message = Broadcast("summary", values, deviation, members, self.plan.fingerprint, self._simulated)
        return self._deliver(self._active, message)

    def _ask_bidders(self) -> Deliveries:
        """Ask all owners who bid, or those whose coin is True; if nobody is asked, buy from the cache."""
        bidders = [owner for owner in self._called if owner in self._bids]
        if self._coins is not None:
            # Names are sorted and the sort is stable, so equal bids are ranked by name.
            ranked = sorted(bidders, key=lambda owner: -_value(self._bids[owner]))
            asked = set(self._coins.asked(ranked, self._randomness))
            bidders = [owner for owner in bidders if owner in asked]
        if not bidders:
            self._buy()
            return ()
        self._ask(Offer, bidders)
        return self._deliver(bidders, Ask(self._round))

    def _buy(self) -> None:
        """Buy the best point of the cache, among owners who were called in this round and still take part.

        Points of other owners do not compete. Neighbouring inputs can differ in which points of these owners are in the
        cache, so one swapped member could become two (``private_greedy.md``).
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
            self._bids[owner] = message.usable()
        elif isinstance(message, Offer):
            if self._is_repeated(owner, message):
                raise UnexpectedMessage("An offer", "the one before again", "that of this round")
            self._take_offer(owner, message)

    def _take_offer(self, owner: str, message: Offer) -> None:
        bid = self._bids[owner].score
        expected = 0 if bid is None else 1
        offer = message.usable(self.plan.features, expected)
        if len(offer.rows) < expected:
            raise Unusable("it made a bid but offered no point")
        self._last[owner] = offer
        if bid is None:
            return
        row = int(offer.rows[0])
        if self._cache.has(owner, row):
            raise Unusable("it offered the same row a second time")
        score, place = self._cache.add(owner, row, offer.points, redundancy(self.plan.members(self._round - 1)))
        if score != bid:  # scores are exact, so an honest owner computes the same score
            self._cache.remove(place)
            raise Unusable("its point contradicts its bid")

    def _is_repeated(self, owner: str, message: Offer) -> bool:
        """Whether an offer is the owner's previous offer, delivered again; it does not answer the ask of this round."""
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
    """The curator's cache in private greedy: all points received so far, with their similarity to the last broadcasts.

    Args:
        features: The public hash of points.
        target: The noisy mean hash of the target.
    """

    def __init__(self, features: Features, target: Floats) -> None:
        self._features = features
        self._target, self._summary = target, np.zeros(features.dimension)
        self._received: list[tuple[str, int, Floats]] = []
        """Owner, row index and point, by the point's index in the cache."""
        self._seen: set[tuple[str, int]] = set()
        self._numbers: dict[str, int] = {}
        # The arrays below may be longer than the list of received points, to have room for further points.
        self._whose = np.empty(16, dtype=np.int64)
        self._hashes = np.empty((16, features.dimension))
        self._similarity = np.empty(16)
        self._similarity_to_summary = np.empty(16)
        self._left = np.zeros(16, dtype=bool)

    def rescore(self, summary: Floats) -> None:
        """Update the similarity of every cached point to a new broadcast of the summary's mean hash."""
        self._summary, count = summary, len(self._received)
        self._similarity_to_summary[:count] = self._features.products(self._hashes[:count], summary)

    def has(self, owner: str, row: int) -> bool:
        """Whether the curator has already received this row of this owner."""
        return (owner, row) in self._seen

    def add(self, owner: str, row: int, point: Floats, weight: float) -> tuple[float, int]:
        """Add a received point to the cache.

        Args:
            owner: Name of the point's owner.
            row: Index of the point in the owner's table.
            point: The point, as a table of one row.
            weight: Weight of the similarity to the summary, see :func:`redundancy`.

        Returns:
            The point's score under the last broadcasts, and its index in the cache.
        """
        place, hashed = len(self._received), self._features.of(point)
        if place == len(self._left):
            for name in ("_whose", "_hashes", "_similarity", "_similarity_to_summary", "_left"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        self._received.append((owner, row, point[0]))
        self._seen.add((owner, row))
        self._whose[place] = self._numbers.setdefault(owner, len(self._numbers))
        self._hashes[place] = hashed[0]
        self._similarity[place] = self._features.products(hashed, self._target)[0]
        self._similarity_to_summary[place] = self._features.products(hashed, self._summary)[0]
        self._left[place] = True
        return float(self._similarity[place] - weight * self._similarity_to_summary[place]), place

    def remove(self, place: int) -> None:
        """Exclude a cached point from being bought."""
        self._left[place] = False

    def best(self, weight: float, owners: Sequence[str]) -> int | None:
        """Buy the cached point with the best score among some owners, and exclude it from further rounds.

        Among equal scores, the owner whose name sorts first wins, and then the first row.

        Args:
            weight: Weight of the similarity to the summary, see :func:`redundancy`.
            owners: Names of the owners whose points compete.

        Returns:
            The point's index in the cache, or None if no point is left.
        """
        numbers = [self._numbers[owner] for owner in owners if owner in self._numbers]
        there = self._left[: len(self._received)]
        if len(numbers) < len(self._numbers):
            there = there & np.isin(self._whose[: len(there)], numbers)
        places = np.flatnonzero(there)
        if not places.size:
            return None
        scores = self._similarity[places] - weight * self._similarity_to_summary[places]
        place = int(min(places[scores == scores.max()], key=lambda k: self._received[k][:2]))
        self._left[place] = False
        return place

    def counts(self) -> Counter[str]:
        """Number of points that the curator has received, by owner."""
        return Counter(owner for owner, _ in self._seen)

    def hashes(self, places: Sequence[int]) -> Floats:
        """Hashes of the cached points at some indices."""
        return self._hashes[np.asarray(places, dtype=np.int64)]

    def bought(self, places: Sequence[int]) -> tuple[tuple[str, ...], Integers, Floats]:
        """Owners of the cached points at some indices, their row indices in the owners' tables, and the points."""
        chosen = [self._received[place] for place in places]
        points = np.array([point for _, _, point in chosen]).reshape(len(chosen), self._features.columns)
        return tuple(owner for owner, _, _ in chosen), np.array([row for _, row, _ in chosen], dtype=np.int64), points
