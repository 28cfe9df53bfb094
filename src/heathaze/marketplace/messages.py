"""One frozen class for each message between consumer, curator and owners. No message prints what it carries.

    herding                                             private greedy
    consumer ─► curator   Wanted                        consumer ─► curator   Wanted
    curator  ─► owners    Broadcast (target)            curator  ─► owners    Broadcast (target; summary at times)
    owner    ─► curator   Profile                       curator  ─► owners    CallForBids, each round
    curator  ─► owner     Quota                         owner    ─► curator   Bid
    owner    ─► curator   Offer                         curator  ─► owners    Ask (all, some, or by logistic coins)
    curator  ─► consumer  Purchase                      owner    ─► curator   Offer (one point, or none)
                                                        curator  ─► consumer  Purchase

The promise covers what goes to owners. What goes to the curator and to the consumer is not protected from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from heathaze.types import Floats, Integers


@dataclass(frozen=True, eq=False)
class Broadcast:
    """Curator to owners: a mean hash with noise, of the target or of the summary. Public.

    Args:
        about: "target" or "summary".
        values: The mean hash.
        deviation: Standard deviation of the noise in each number.
        members: How many points the mean is of.
        plan: Fingerprint of the plan that everyone agreed on.
    """

    about: str
    values: Floats = field(repr=False)
    deviation: float
    members: int
    plan: str = field(default="", repr=False)


@dataclass(frozen=True, eq=False)
class Wanted:
    """Consumer to curator: its target, for the curator alone, and the broadcast about it for owners."""

    points: Floats = field(repr=False)
    broadcast: Broadcast


@dataclass(frozen=True, eq=False)
class Profile:
    """Owner to curator: the sum of its hashes and their number, with the owner's noise. Public."""

    values: Floats = field(repr=False)
    count: float = field(repr=False)
    deviation: float


@dataclass(frozen=True)
class Quota:
    """Curator to owner: how many points to offer. It follows from public numbers."""

    points: int


@dataclass(frozen=True, eq=False)
class Offer:
    """Owner to curator: points for sale, the most wanted first, and which of the owner's rows they are."""

    rows: Integers = field(repr=False)
    points: Floats = field(repr=False)


@dataclass(frozen=True)
class CallForBids:
    """Curator to owners: a round begins; the summary has ``members`` points, a public number."""

    round: int
    members: int


@dataclass(frozen=True)
class Bid:
    """Owner to curator: the score of its best point that the curator has not seen; None if it has no more points."""

    round: int
    score: float | None = field(repr=False)


@dataclass(frozen=True)
class Ask:
    """Curator to owner: send the point that you bid with."""

    round: int


@dataclass(frozen=True, eq=False)
class Purchase:
    """Curator to consumer: the chosen points in the order of choice. NOT PRIVATE.

    Args:
        owners: The owner of each point.
        rows: Which row of its owner each point is, from 0.
        points: The points, a row each.
        offered: How many points each owner showed to the curator.
        notes: Sentences about what went wrong; they hold no data.
        simulated: Whether the noise can be repeated, as in tests and papers.
    """

    owners: tuple[str, ...] = field(repr=False)
    rows: Integers = field(repr=False)
    points: Floats = field(repr=False)
    offered: Mapping[str, int] = field(repr=False)
    notes: tuple[str, ...] = ()
    simulated: bool = False

    @property
    def seen(self) -> int:
        """Points that the curator saw."""
        return sum(self.offered.values())

    @property
    def parsimony(self) -> float:
        """Points that the curator saw for each point it bought; at least 1."""
        return self.seen / max(1, len(self.rows))


ToOwner = Broadcast | Quota | CallForBids | Ask
FromOwner = Profile | Offer | Bid


class Delivery(NamedTuple):
    """A message and the owner to carry it to."""

    owner: str
    message: ToOwner
