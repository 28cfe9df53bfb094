"""Messages of a secure sum: one frozen class for each kind, in the order in which they are sent.

The repr of a message never shows its content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from heathaze.secagg.masks import Words


class Phase(IntEnum):
    """The five phases of a secure sum. In each phase every client sends one message to the server."""

    ADVERTISE = 0
    SHARE = 1
    MASK = 2
    AGREE = 3
    REVEAL = 4


@dataclass(frozen=True)
class Advertise:
    """Client to server: the client's public mask key for this round."""

    mask_key: bytes = field(repr=False)


@dataclass(frozen=True)
class Neighbours:
    """Server to client: the client's neighbours in ascending order, with their public mask keys."""

    keys: tuple[tuple[int, bytes], ...] = field(repr=False)


@dataclass(frozen=True)
class Shares:
    """Client to server: a commitment to the client's seed, and for each neighbour, in order, two encrypted shares."""

    commitment: bytes = field(repr=False)
    sealed: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Forwarded:
    """Server to client: the encrypted shares that the client's remaining neighbours made for it."""

    sealed: tuple[tuple[int, bytes], ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Masked:
    """Client to server: the client's vector with all its masks added."""

    vector: Words = field(repr=False)


@dataclass(frozen=True)
class Survivors:
    """Server to client: the clients whose vectors arrived and will be summed."""

    members: frozenset[int] = field(repr=False)


@dataclass(frozen=True)
class Agreed:
    """Client to server: the digest of the announced survivors, and a tag for each surviving neighbour to confirm it."""

    survivors: bytes = field(repr=False)
    tags: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Agreement:
    """Server to client: the tags with which the client's neighbours confirm the survivors."""

    tags: tuple[tuple[int, bytes], ...] = field(repr=False)


@dataclass(frozen=True)
class Revealed:
    """Client to server: a share of the seed of each surviving neighbour, and of the mask key of each lost neighbour."""

    seeds: tuple[tuple[int, int], ...] = field(repr=False)
    mask_keys: tuple[tuple[int, int], ...] = field(repr=False)


Message = Advertise | Neighbours | Shares | Forwarded | Masked | Survivors | Agreed | Agreement | Revealed

KINDS: tuple[type[Message], ...] = (
    Advertise, Neighbours, Shares, Forwarded, Masked, Survivors, Agreed, Agreement, Revealed,
)  # fmt: skip
"""All kinds of messages. The number of a kind in an envelope is its index in this tuple."""
