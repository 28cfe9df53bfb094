"""Messages of a secure sum: one frozen class for each kind, in the order in which they are sent, and their bytes.

The repr of a message never shows its content. The bytes of each kind, in version 1, are listed below. The numbers are
sizes in bytes. Integers are little-endian, and … stands for a list up to the end of the message.

    Advertise    32 mask key
    Neighbours   (4 index · 32 mask key) …
    Shares       32 commitment · 82 sealed …
    Forwarded    (4 index · 82 sealed) …
    Masked       ⌈length · bits / 8⌉ packed vector
    Survivors    ⌈clients / 8⌉ bitmap, client 0 in the lowest bit of the first byte
    Agreed       32 digest · 16 tag …
    Agreement    (4 index · 16 tag) …
    Revealed     4 number of seed shares · (4 index · 33 share) … · (4 index · 33 share) …

Each message has exactly one encoding: indices ascend, and unused bits are 0. Every other sequence of bytes is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from heathaze.errors import UnexpectedMessage
from heathaze.secagg import masks
from heathaze.secagg.keys import KEY_BYTES, SEAL_BYTES, TAG_BYTES
from heathaze.secagg.masks import Words
from heathaze.secagg.parameters import Parameters
from heathaze.secagg.shamir import PRIME, SHARE_BYTES


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


# ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SEALED_BYTES = 2 * SHARE_BYTES + SEAL_BYTES

_COUNT, _SHARE = struct.Struct("<I"), struct.Struct(f"<I{SHARE_BYTES}s")

_ROWS: dict[type[Message], struct.Struct] = {
    Neighbours: struct.Struct(f"<I{KEY_BYTES}s"),
    Forwarded: struct.Struct(f"<I{SEALED_BYTES}s"),
    Agreement: struct.Struct(f"<I{TAG_BYTES}s"),
}
"""The kinds of messages that consist of rows; each row is an index and some bytes."""

_PIECES: dict[type[Message], int] = {Shares: SEALED_BYTES, Agreed: TAG_BYTES}
"""The kinds of messages that consist of 32 bytes and a list of pieces, with the size of a piece."""


def encode(message: Message, parameters: Parameters) -> bytes:
    """Encode a message of a secure sum as bytes.

    Args:
        message: The message to send.
        parameters: The parameters of the round.
    """
    match message:
        case Advertise(mask_key):
            return mask_key
        case Neighbours(rows) | Forwarded(rows) | Agreement(rows):
            return _join(_ROWS[type(message)], rows)
        case Shares(first, pieces) | Agreed(first, pieces):
            return first + b"".join(pieces)
        case Masked(vector):
            return masks.pack(vector, parameters.bits)
        case Survivors(members):
            return bitmap(members, parameters.clients)
        case Revealed(seeds, mask_keys):
            shares = [(index, share.to_bytes(SHARE_BYTES, "little")) for index, share in (*seeds, *mask_keys)]
            return _COUNT.pack(len(seeds)) + _join(_SHARE, shares)


def decode(kind: type[Message], payload: bytes, parameters: Parameters) -> Message:
    """Decode a message of a secure sum from bytes.

    Args:
        kind: The class of the message.
        payload: The bytes, from an untrusted sender.
        parameters: The parameters of the round.

    Raises:
        UnexpectedMessage: The payload differs from the encoding that :func:`encode` makes.
    """
    name = kind.__name__
    make: Callable[..., Message] = kind
    if kind in _ROWS:
        return make(_rows(name, _ROWS[kind], payload, parameters))
    if kind in _PIECES:
        return make(payload[:KEY_BYTES], _pieces(name, payload, _PIECES[kind]))
    if kind is Advertise:
        return Advertise(_sized(name, payload, KEY_BYTES))
    if kind is Masked:
        return _masked(_sized(name, payload, masks.packed_size(parameters)), parameters)
    if kind is Survivors:
        return _survivors(_sized(name, payload, (parameters.clients + 7) // 8), parameters)
    return _revealed(payload, parameters)


def bitmap(members: Iterable[int], clients: int) -> bytes:
    """Encode a set of clients as a bitmap: one bit for each client, 1 for members of the set.

    Args:
        members: Indices of the clients in the set.
        clients: The number of all clients.

    >>> bitmap({0, 9}, 10).hex()
    '0102'
    """
    bits = np.zeros(clients, np.uint8)
    bits[list(members)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _masked(payload: bytes, parameters: Parameters) -> Message:
    spare = 8 * len(payload) - parameters.length * parameters.bits
    if spare and payload[-1] >> (8 - spare):
        raise UnexpectedMessage("The rest of the last byte of Masked", "not 0", "0")
    return Masked(masks.unpack(payload, parameters.length, parameters.bits))


def _survivors(payload: bytes, parameters: Parameters) -> Message:
    bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
    if bits[parameters.clients :].any():
        raise UnexpectedMessage("The rest of the last byte of Survivors", "not 0", "0")
    return Survivors(frozenset(np.flatnonzero(bits).tolist()))


def _revealed(payload: bytes, parameters: Parameters) -> Message:
    if len(payload) < _COUNT.size:
        raise UnexpectedMessage("The length of Revealed", f"{len(payload)} bytes", f"at least {_COUNT.size}")
    (count,) = _COUNT.unpack_from(payload)
    cut = _COUNT.size + min(count, len(payload)) * _SHARE.size
    if cut > len(payload):
        raise UnexpectedMessage("The number of seed shares", count, "as many as there are")
    seeds = _rows("Revealed", _SHARE, payload[_COUNT.size : cut], parameters)
    mask_keys = _rows("Revealed", _SHARE, payload[cut:], parameters)
    return Revealed(_numbers(seeds), _numbers(mask_keys))


def _numbers(rows: tuple[tuple[int, bytes], ...]) -> tuple[tuple[int, int], ...]:
    found = tuple((index, int.from_bytes(share, "little")) for index, share in rows)
    if any(share >= PRIME for _, share in found):
        raise UnexpectedMessage("A share", "no element of the field", "less than 2^256 + 297")
    return found


def _join(row: struct.Struct, rows: Iterable[tuple[int, bytes]]) -> bytes:
    return b"".join(row.pack(*fields) for fields in rows)


def _rows(name: str, row: struct.Struct, payload: bytes, parameters: Parameters) -> tuple[tuple[int, bytes], ...]:
    if len(payload) % row.size:
        raise UnexpectedMessage(f"The length of {name}", f"{len(payload)} bytes", f"a multiple of {row.size}")
    rows = tuple(row.iter_unpack(payload))
    before = -1
    for index, _ in rows:
        if index <= before:
            raise UnexpectedMessage(f"A client in {name}", index, f"more than {before}, the one before it")
        before = index
    if before >= parameters.clients:
        raise UnexpectedMessage(f"A client in {name}", before, f"less than {parameters.clients}")
    return rows


def _pieces(name: str, payload: bytes, size: int) -> tuple[bytes, ...]:
    rest = len(payload) - KEY_BYTES
    if rest < 0 or rest % size:
        raise UnexpectedMessage(
            f"The length of {name}", f"{len(payload)} bytes", f"{KEY_BYTES} and a multiple of {size}"
        )
    return tuple(payload[start : start + size] for start in range(KEY_BYTES, len(payload), size))


def _sized(name: str, payload: bytes, size: int) -> bytes:
    if len(payload) != size:
        raise UnexpectedMessage(f"The length of {name}", f"{len(payload)} bytes", f"{size} bytes")
    return payload
