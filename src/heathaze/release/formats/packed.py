"""Blocks of numbers as text, and back: the base64 of a zlib block of known length."""

from __future__ import annotations

import base64
import zlib


def pack(block: bytes) -> str:
    """The block as ASCII."""
    return base64.b64encode(zlib.compress(block)).decode()


def unpack(text: str, length: int) -> bytes | None:
    """Undo :func:`pack`; ``None`` for anything but a block of exactly this length, which is all that is unpacked.

    >>> unpack(pack(b"map"), 3), unpack(pack(b"map"), 2), unpack("!", 3)
    (b'map', None, None)
    """
    unpacker = zlib.decompressobj()
    try:
        # One byte more than wanted, so that a longer block shows itself without being unpacked.
        block = unpacker.decompress(base64.b64decode(text, validate=True), length + 1)
    except (ValueError, zlib.error):
        return None
    return block if len(block) == length and unpacker.eof and not unpacker.unused_data else None
