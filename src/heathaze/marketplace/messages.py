"""The messages between consumer, curator and owners, one frozen class each, and the checks of messages from others.

    herding                                             private greedy
    consumer ─► curator   Wanted                        consumer ─► curator   Wanted
    curator  ─► owners    Broadcast (target)            curator  ─► owners    Broadcast (target; summary at times)
    owner    ─► curator   Profile                       curator  ─► owners    CallForBids, each round
    curator  ─► owner     Quota                         owner    ─► curator   Bid
    owner    ─► curator   Offer                         curator  ─► owners    Ask (all, some, or by logistic coins)
    curator  ─► consumer  Purchase                      owner    ─► curator   Offer (one point, or none)
                                                        curator  ─► consumer  Purchase

The privacy promise covers the messages to owners. It does not protect data from the curator or the consumer, who
receive exact points. Printing a message shows no private data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from heathaze.errors import InvalidInput, expect
from heathaze.marketplace.features import Features
from heathaze.marketplace.plan import Plan
from heathaze.types import Floats, Integers

_ODD = (TypeError, ValueError, OverflowError, AttributeError)
"""Exceptions that numpy and Python raise for message fields of the wrong type."""

_SLACK = 10
"""A message is refused if its noise would be more than this many standard deviations longer than expected.

Honest noise practically never exceeds this limit.
"""

_MOST_ROWS = 2**48
"""Largest number of rows of an owner. A sum of hashes with a coordinate this large is refused."""


class Unusable(Exception):
    """Raised for an owner's answer that cannot be used; the owner is excluded, and the text says why."""


def _length(values: Floats) -> float:
    """Euclidean length of a vector in a message; infinite if a coordinate is NaN or very large."""
    return float(np.linalg.norm(values)) if np.abs(values).max(initial=0) < _MOST_ROWS else math.inf


@dataclass(frozen=True, eq=False)
class Broadcast:
    """Message from curator to owners: the noisy mean hash of the target or of the summary. Public.

    Args:
        about: "target" or "summary" (the points bought so far).
        values: The noisy mean hash.
        deviation: Standard deviation of the noise in each coordinate.
        members: Number of points over which the mean is taken.
        plan: Fingerprint of the plan that all parties agreed on.
        simulated: Whether the noise came from a seed and can be repeated.
    """

    about: str
    values: Floats = field(repr=False)
    deviation: float
    members: int
    plan: str = field(default="", repr=False)
    simulated: bool = False


@dataclass(frozen=True, eq=False)
class Wanted:
    """Message from consumer to curator: the exact target, only for the curator, and the noisy broadcast for owners."""

    points: Floats = field(repr=False)
    broadcast: Broadcast

    def check(self, plan: Plan) -> None:
        """Refuse a consumer's message that does not fit the plan.

        A mean hash that is far too long is refused. With it, scores would become so large that rounding errors would
        exclude honest owners.

        Raises:
            InvalidInput: The message does not fit the plan.
        """
        expect(Broadcast, self.broadcast, "The broadcast about the target")
        broadcast, points = self.broadcast, plan.features.checked(self.points)
        longest = 1 + plan.target_deviation * (math.sqrt(plan.features.dimension) + _SLACK)
        try:
            values = np.asarray(broadcast.values, dtype=np.float64)
            fits = values.shape == (plan.features.dimension,) and _length(values) <= longest
            public = (broadcast.about, broadcast.deviation, broadcast.members, broadcast.plan)
            fits = fits and public == ("target", plan.target_deviation, plan.target_points, plan.fingerprint)
        except _ODD:
            fits = False
        if not fits or len(points) != plan.target_points:
            raise InvalidInput("The consumer's message does not fit the plan; make a Consumer with the same plan.")


@dataclass(frozen=True, eq=False)
class Profile:
    """Message from owner to curator: the noisy sum of the owner's hashes and the noisy number of records. Public.

    Args:
        values: The noisy sum of the owner's hashes.
        count: The noisy number of records.
        deviation: Standard deviation of the noise in each number.
        simulated: Whether the noise came from a seed and can be repeated.
    """

    values: Floats = field(repr=False)
    count: float = field(repr=False)
    deviation: float
    simulated: bool = False

    def usable(self, features: Features, deviation: float) -> Profile:
        """Check a profile that an owner sent; the deviation of its noise is taken from the plan, not from the message.

        Raises:
            Unusable: The profile cannot be a noisy sum of hashes.
        """
        try:
            values, count = np.array(self.values, dtype=np.float64), float(self.count)
            longest = abs(count) + deviation * (math.sqrt(features.dimension) + _SLACK)
            fits = values.shape == (features.dimension,) and _length(values) <= 10 * longest < math.inf
        except _ODD:
            fits = False
        if not fits or not abs(count) < _MOST_ROWS:
            raise Unusable(f"its profile is no sum of hashes of {features.dimension} numbers")
        return Profile(values, count, deviation, self.simulated is not False)


@dataclass(frozen=True)
class Quota:
    """Message from curator to owner: the number of points to offer, computed from public (noisy) numbers."""

    points: int


@dataclass(frozen=True, eq=False)
class Offer:
    """Message from owner to curator: points for sale, best first, and the index of each point in the owner's table."""

    rows: Integers = field(repr=False)
    points: Floats = field(repr=False)

    def usable(self, features: Features, most: int) -> Offer:
        """Check an offer that an owner sent: at most ``most`` points, from different rows.

        Raises:
            Unusable: The offer has too many points, repeated rows or invalid values.
        """
        try:
            rows = np.asarray(self.rows)
            points = features.checked(self.points)
            integers = rows.ndim == 1 and (rows.dtype.kind in "iu" or not rows.size)
            fits = integers and all(0 <= int(row) < _MOST_ROWS for row in rows)
        except InvalidInput as error:
            raise Unusable(f"its offer cannot be used ({error})".replace(".)", ")")) from None
        except _ODD:
            raise Unusable("its offer is no table of points") from None
        if not fits:
            raise Unusable("its offer does not give a row number for each point")
        if len(rows) != len(points) or len(rows) > most:
            raise Unusable(
                f"it offered {len(points)} points with {len(rows)} row numbers, but at most {most} were wanted"
            )
        if len(np.unique(rows)) < len(rows):
            raise Unusable("it offered the same row twice")
        return Offer(rows.astype(np.int64), np.array(points))


@dataclass(frozen=True)
class CallForBids:
    """Message from curator to owners: a round begins, with ``members`` points in the summary (a public number)."""

    round: int
    members: int


@dataclass(frozen=True)
class Bid:
    """Message from owner to curator: the score of the owner's best unsent point, or None if all points were sent."""

    round: int
    score: float | None = field(repr=False)

    def usable(self) -> Bid:
        """Check a bid that an owner sent.

        Raises:
            Unusable: The score is neither None nor a finite number.
        """
        try:
            if self.score is None or (isinstance(self.score, float | int) and math.isfinite(self.score)):
                return Bid(self.round, None if self.score is None else float(self.score))
        except OverflowError:
            pass
        raise Unusable("its bid is not a finite number")


@dataclass(frozen=True)
class Ask:
    """Message from curator to owner: a request to send the point of the owner's last bid."""

    round: int


@dataclass(frozen=True, eq=False)
class Purchase:
    """Message from curator to consumer: the bought points in the order of choice. NOT PRIVATE.

    Args:
        owners: The owner of each point.
        rows: The index of each point in its owner's table, from 0.
        points: The bought points, one per row.
        offered: Number of points that each owner sent to the curator.
        notes: Sentences about what went wrong; they contain no data.
        simulated: Whether some noise came from a seed and can be repeated, as in tests and papers: noise of the
            consumer, of an owner or of the curator.

    >>> Purchase(("coast",), np.array([7]), np.array([[0.5]]), offered={"coast": 3, "hills": 0}).offered["coast"]
    3
    """

    owners: tuple[str, ...] = field(repr=False)
    rows: Integers = field(repr=False)
    points: Floats = field(repr=False)
    offered: Mapping[str, int] = field(repr=False)
    notes: tuple[str, ...] = ()
    simulated: bool = False

    @property
    def seen(self) -> int:
        """Number of points that owners sent to the curator."""
        return sum(self.offered.values())

    @property
    def parsimony(self) -> float:
        """Number of points that the curator saw for each point bought; at least 1."""
        return self.seen / max(1, len(self.rows))


ToOwner = Broadcast | Quota | CallForBids | Ask
FromOwner = Profile | Offer | Bid


class Delivery(NamedTuple):
    """A message of the curator, and the owner who is to receive the message."""

    owner: str
    message: ToOwner
