"""One frozen class for each message between consumer, curator and owners. None prints what it carries.

    herding                                             rounds
    consumer ─► curator   Wanted                        consumer ─► curator   Wanted
    curator  ─► owners    Broadcast (target)            curator  ─► owners    Broadcast (target; summary at times)
    owner    ─► curator   Profile                       curator  ─► owners    CallForBids, each round
    curator  ─► owner     Quota                         owner    ─► curator   Bid
    owner    ─► curator   Offer                         curator  ─► owners    Ask (all, some, or by logistic coins)
    curator  ─► consumer  Purchase                      owner    ─► curator   Offer (one point, or none)
                                                        curator  ─► consumer  Purchase

What goes to owners is what the promise is about; what goes to the curator and to the consumer is not protected from
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heathaze.types import Floats, Integers


@dataclass(frozen=True, eq=False)
class Broadcast:
    """Curator to owners: a mean hash with noise, of the target or of the summary. Public.

    ``members`` is how many points the mean is of; ``deviation`` is that of the noise in each number; ``plan`` is the
    fingerprint of what everyone agreed on.
    """

    about: str
    values: Floats = field(repr=False)
    deviation: float
    members: int
    plan: str = field(default="", repr=False)


@dataclass(frozen=True, eq=False)
class Wanted:
    """Consumer to curator: its target, for the curator's eyes alone, and what owners may be told of it."""

    points: Floats = field(repr=False)
    broadcast: Broadcast


@dataclass(frozen=True, eq=False)
class Profile:
    """Owner to curator: the sum of its hashes and their number, with the owner's own noise. Public."""

    values: Floats = field(repr=False)
    count: float = field(repr=False)
    deviation: float


@dataclass(frozen=True)
class Quota:
    """Curator to owner: how many points to offer. Follows from what is public."""

    points: int


@dataclass(frozen=True, eq=False)
class Offer:
    """Owner to curator: points for sale, the first one wanted most, and which rows of its own they are."""

    rows: Integers = field(repr=False)
    points: Floats = field(repr=False)


@dataclass(frozen=True)
class CallForBids:
    """Curator to owners: a round begins; ``members`` points are in the summary, which is public."""

    round: int
    members: int


@dataclass(frozen=True)
class Bid:
    """Owner to curator: the score of its best point that the curator has not seen; none if it has no more."""

    round: int
    score: float | None = field(repr=False)


@dataclass(frozen=True)
class Ask:
    """Curator to owner: send the point you bid with."""

    round: int


@dataclass(frozen=True, eq=False)
class Purchase:
    """Curator to consumer: the chosen points in the order of choice, whose they are, and which of the owner's rows.

    ``offered`` is how many points each owner showed to the curator; ``notes`` are sentences about what went wrong.
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
        """Points that the curator saw for each point it kept; 1 is the least."""
        return self.seen / max(1, len(self.rows))


ToOwner = Broadcast | Quota | CallForBids | Ask
FromOwner = Profile | Offer | Bid
