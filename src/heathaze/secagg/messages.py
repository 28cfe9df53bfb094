"""The messages of a secure sum, one frozen class each, in the order in which they are sent.

No message prints its content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from heathaze.secagg.masks import Words


class Phase(IntEnum):
    """The five phases of a round. In each phase every client sends one message to the server."""

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
    """Client to server: a commitment to the seed; for each neighbour, in order, two shares sealed for it."""

    commitment: bytes = field(repr=False)
    sealed: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Forwarded:
    """Server to client: what the neighbours that are still there sealed for it."""

    sealed: tuple[tuple[int, bytes], ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Masked:
    """Client to server: its vector with all its masks added."""

    vector: Words = field(repr=False)


@dataclass(frozen=True)
class Survivors:
    """Server to client: the clients whose vectors arrived and will be summed."""

    members: frozenset[int] = field(repr=False)


@dataclass(frozen=True)
class Agreed:
    """Client to server: the digest of the announced survivors, and a tag of it for each surviving neighbour."""

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
"""The kind of a message on the wire is its index here."""
