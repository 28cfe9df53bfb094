"""Codec: the bytes of each kind of message of a secure sum, version 1.

The numbers below are sizes in bytes. Integers are little-endian, and … stands for a list up to the end of the message.

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
from collections.abc import Iterable

import numpy as np

from heathaze.errors import UnexpectedMessage
from heathaze.secagg import masks, messages
from heathaze.secagg.keys import KEY_BYTES, SEAL_BYTES, TAG_BYTES
from heathaze.secagg.messages import Message
from heathaze.secagg.parameters import Parameters
from heathaze.secagg.shamir import PRIME, SHARE_BYTES

SEALED_BYTES = 2 * SHARE_BYTES + SEAL_BYTES

_COUNT = struct.Struct("<I")
_KEYED = struct.Struct(f"<I{KEY_BYTES}s")
_SEALED = struct.Struct(f"<I{SEALED_BYTES}s")
_TAGGED = struct.Struct(f"<I{TAG_BYTES}s")
_SHARE = struct.Struct(f"<I{SHARE_BYTES}s")


def encode(message: Message, parameters: Parameters) -> bytes:
    """Encode a message of a secure sum as bytes.

    Args:
        message: The message to send.
        parameters: The parameters of the round.
    """
    match message:
        case messages.Advertise(mask_key):
            return mask_key
        case messages.Neighbours(keys):
            return _join(_KEYED, keys)
        case messages.Shares(commitment, sealed):
            return commitment + b"".join(sealed)
        case messages.Forwarded(sealed):
            return _join(_SEALED, sealed)
        case messages.Masked(vector):
            return masks.pack(vector, parameters.bits)
        case messages.Survivors(members):
            return bitmap(members, parameters.clients)
        case messages.Agreed(survivors, tags):
            return survivors + b"".join(tags)
        case messages.Agreement(tags):
            return _join(_TAGGED, tags)
        case messages.Revealed(seeds, mask_keys):
            rows = [(index, share.to_bytes(SHARE_BYTES, "little")) for index, share in (*seeds, *mask_keys)]
            return _COUNT.pack(len(seeds)) + _join(_SHARE, rows)


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
    if kind is messages.Advertise:
        return messages.Advertise(_sized(name, payload, KEY_BYTES))
    if kind is messages.Neighbours:
        return messages.Neighbours(_rows(name, _KEYED, payload, parameters))
    if kind is messages.Shares:
        return messages.Shares(payload[:KEY_BYTES], _pieces(name, payload, SEALED_BYTES))
    if kind is messages.Forwarded:
        return messages.Forwarded(_rows(name, _SEALED, payload, parameters))
    if kind is messages.Masked:
        return _masked(_sized(name, payload, masks.packed_size(parameters)), parameters)
    if kind is messages.Survivors:
        return _survivors(_sized(name, payload, (parameters.clients + 7) // 8), parameters)
    if kind is messages.Agreed:
        return messages.Agreed(payload[:KEY_BYTES], _pieces(name, payload, TAG_BYTES))
    if kind is messages.Agreement:
        return messages.Agreement(_rows(name, _TAGGED, payload, parameters))
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
    return messages.Masked(masks.unpack(payload, parameters.length, parameters.bits))


def _survivors(payload: bytes, parameters: Parameters) -> Message:
    bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
    if bits[parameters.clients :].any():
        raise UnexpectedMessage("The rest of the last byte of Survivors", "not 0", "0")
    return messages.Survivors(frozenset(np.flatnonzero(bits).tolist()))


def _revealed(payload: bytes, parameters: Parameters) -> Message:
    if len(payload) < _COUNT.size:
        raise UnexpectedMessage("The length of Revealed", f"{len(payload)} bytes", f"at least {_COUNT.size}")
    (count,) = _COUNT.unpack_from(payload)
    cut = _COUNT.size + min(count, len(payload)) * _SHARE.size
    if cut > len(payload):
        raise UnexpectedMessage("The number of seed shares", count, "as many as there are")
    seeds = _rows("Revealed", _SHARE, payload[_COUNT.size : cut], parameters)
    mask_keys = _rows("Revealed", _SHARE, payload[cut:], parameters)
    return messages.Revealed(_numbers(seeds), _numbers(mask_keys))


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
