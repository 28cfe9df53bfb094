"""One frozen class for each message, in the order in which they are sent. None prints what it carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from heathaze.secagg.masks import Words


class Step(IntEnum):
    """The five steps of a round; in each, every client sends one message to the server."""

    ADVERTISE = 0
    SHARE = 1
    MASK = 2
    AGREE = 3
    REVEAL = 4


@dataclass(frozen=True)
class Advertise:
    """Client to server: the public mask key of this round."""

    mask_key: bytes = field(repr=False)


@dataclass(frozen=True)
class Neighbours:
    """Server to client: its neighbours in ascending order, with their public mask keys."""

    keys: tuple[tuple[int, bytes], ...] = field(repr=False)


@dataclass(frozen=True)
class Shares:
    """Client to server: for each neighbour, in order, two shares sealed for its eyes; and a commitment to the seed."""

    commitment: bytes = field(repr=False)
    sealed: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Forwarded:
    """Server to client: what the neighbours that are still there sealed for it."""

    sealed: tuple[tuple[int, bytes], ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Masked:
    """Client to server: its vector under all its masks."""

    vector: Words = field(repr=False)


@dataclass(frozen=True)
class Survivors:
    """Server to client: whose vectors arrived, and will be summed."""

    members: frozenset[int] = field(repr=False)


@dataclass(frozen=True)
class Agreed:
    """Client to server: the digest of the survivors it was told, and a tag of it for each surviving neighbour."""

    survivors: bytes = field(repr=False)
    tags: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Agreement:
    """Server to client: the tags its neighbours made for it."""

    tags: tuple[tuple[int, bytes], ...] = field(repr=False)


@dataclass(frozen=True)
class Revealed:
    """Client to server: a share of the seed of each surviving neighbour, of the mask key of each lost one."""

    seeds: tuple[tuple[int, int], ...] = field(repr=False)
    mask_keys: tuple[tuple[int, int], ...] = field(repr=False)


Message = Advertise | Neighbours | Shares | Forwarded | Masked | Survivors | Agreed | Agreement | Revealed

KINDS: tuple[type[Message], ...] = (
    Advertise, Neighbours, Shares, Forwarded, Masked, Survivors, Agreed, Agreement, Revealed,
)  # fmt: skip
"""A message's kind on the wire is its place in this row."""
