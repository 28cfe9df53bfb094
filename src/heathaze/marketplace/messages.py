"""The messages between consumer, curator and owners, one frozen class each. Printing a message shows no private data.

    herding                                             private greedy
    consumer ─► curator   Wanted                        consumer ─► curator   Wanted
    curator  ─► owners    Broadcast (target)            curator  ─► owners    Broadcast (target; summary at times)
    owner    ─► curator   Profile                       curator  ─► owners    CallForBids, each round
    curator  ─► owner     Quota                         owner    ─► curator   Bid
    owner    ─► curator   Offer                         curator  ─► owners    Ask (all, some, or by logistic coins)
    curator  ─► consumer  Purchase                      owner    ─► curator   Offer (one point, or none)
                                                        curator  ─► consumer  Purchase

The privacy promise covers the messages to owners. It does not protect data from the curator or the consumer, who
receive exact points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from heathaze.types import Floats, Integers


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


@dataclass(frozen=True)
class Quota:
    """Message from curator to owner: the number of points to offer, computed from public (noisy) numbers."""

    points: int


@dataclass(frozen=True, eq=False)
class Offer:
    """Message from owner to curator: points for sale, best first, and the index of each point in the owner's table."""

    rows: Integers = field(repr=False)
    points: Floats = field(repr=False)


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
