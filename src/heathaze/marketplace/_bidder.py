"""What an owner does in rounds: it bids with its best point under the score that all share, and sends it if asked."""

from __future__ import annotations

import numpy as np

from heathaze.errors import UnexpectedMessage
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Ask, Bid, Broadcast, CallForBids, Offer, ToOwner
from heathaze.privacy.secret import Secret
from heathaze.types import Floats


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
