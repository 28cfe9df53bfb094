"""What a release file says about uncertainty: the noisy counts or the drawn maps behind a density, as fields of text.

With them, the file that is loaded has the same error bars as the release that was saved. Arrays are packed: the base64
of a zlib block of known length, little-endian.

- ``noisy`` has the number of ``nodes`` and ``packed``: one array after the other, the levels (uint8), codes (int64),
  values (float64) and scales (float64) of all nodes.
- ``drawn`` has the number of ``maps``, the ``side`` of a square in cells, ``within`` (see DrawnMaps) and ``packed``:
the
  shares (float32), map after map, row after row. ``asked``, if it is there, is packed too: the level (uint8) of every
  square that was asked about.
"""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.errors import UnreadableData
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.noisy_counts import NoisyCounts, closed

MAX_NODES = 2**21
"""More than a whole tree of 1024 cells a side; larger trees are neither written nor read."""

LONGEST_TEXT = 2**27
"""The text of :data:`MAX_NODES` nodes that do not compress, and room for the rest of a release's fields."""

_KINDS = {"levels": "|u1", "codes": "<i8", "values": "<f8", "scales": "<f8"}
_BYTES_A_NODE = sum(np.dtype(kind).itemsize for kind in _KINDS.values())
_LARGEST, _SMALLEST_SCALE = 1e10, 1e-6
"""More than all people, and less noise than any epsilon in use needs; inference is stable between them."""

_MOST_MAPS, _MOST_SQUARES = 1000, 2**22


def noisy_to_fields(noisy: NoisyCounts | None, grid: Grid) -> dict[str, Any] | None:
    """Noisy counts as plain fields; None where there are no counts that a file can hold, or they have another grid."""
    if noisy is None or noisy.grid != grid or not _can_be_kept(noisy):
        return None
    block = b"".join(getattr(noisy, name).astype(kind).tobytes() for name, kind in _KINDS.items())
    return {"nodes": len(noisy.codes), "packed": pack(block)}


def noisy_from_fields(grid: Grid, fields: Any) -> NoisyCounts:
    """Undo :func:`noisy_to_fields`; sizes are checked before anything is unpacked.

    Raises:
        UnreadableData: The fields do not fit together.
    """
    nodes, packed = fields["nodes"], fields["packed"]
    if type(nodes) is not int or not 0 < nodes <= MAX_NODES:
        raise _unsound("noisy counts")
    block = _unpacked(packed, nodes * _BYTES_A_NODE, "noisy counts")
    arrays, at = {}, 0
    for name, kind in _KINDS.items():
        arrays[name] = np.frombuffer(block, kind, nodes, at)
        at += nodes * np.dtype(kind).itemsize
    noisy = NoisyCounts(grid, **arrays)
    if not _can_be_kept(noisy):
        raise _unsound("noisy counts")
    return noisy


def _can_be_kept(noisy: NoisyCounts) -> bool:
    """Whether a map can be inferred from the counts: no numbers above all people, no exact counts without their sum."""
    scales = noisy.scales
    exact = bool((scales == 0).all() and (noisy.values >= 0).all()) and len(noisy.at(0)[0]) == 1
    blurred = bool(((scales >= _SMALLEST_SCALE) & (scales <= _LARGEST)).all())
    if len(scales) > MAX_NODES or not (exact or blurred) or (np.abs(noisy.values) > _LARGEST).any():
        return False
    # The closed tree also contains the ancestors of each node and all their children.
    return sum(map(len, closed(noisy))) <= 2 * MAX_NODES


def drawn_to_fields(drawn: DrawnMaps | None, grid: Grid) -> dict[str, Any] | None:
    """Drawn maps as plain fields; None where there are none that a file can hold, or they have another grid."""
    if drawn is None or drawn.grid != grid:
        return None
    if len(drawn.shares) > _MOST_MAPS or drawn.shares.size > _MOST_SQUARES:
        return None
    packed = pack(drawn.shares.astype("<f4").tobytes())
    fields = {"maps": len(drawn.shares), "side": drawn.side, "within": drawn.within, "packed": packed}
    return fields if drawn.asked is None else fields | {"asked": pack(drawn.asked.astype(np.uint8).tobytes())}


def drawn_from_fields(grid: Grid, fields: Any) -> DrawnMaps:
    """Undo :func:`drawn_to_fields`; sizes are checked before anything is unpacked.

    Raises:
        UnreadableData: The fields do not fit together.
    """
    maps, side, within, packed = (fields[name] for name in ("maps", "side", "within", "packed"))
    if type(maps) is not int or type(side) is not int or type(within) not in (int, float):
        raise _unsound("drawn maps")
    if not (2 <= maps <= _MOST_MAPS and 1 <= side <= 2**20 and 0 <= within < 1e3):
        raise _unsound("drawn maps")
    rows, cols = (-(-length // side) for length in grid.shape)
    size = maps * math.prod((rows, cols))
    if size > _MOST_SQUARES:
        raise _unsound("drawn maps")
    shares = np.frombuffer(_unpacked(packed, 4 * size, "drawn maps"), "<f4").reshape(maps, rows, cols)
    asked = None
    if fields.get("asked") is not None:
        levels = _unpacked(fields["asked"], rows * cols, "drawn maps")
        asked = np.frombuffer(levels, np.uint8).reshape(rows, cols).astype(np.int64)
    return DrawnMaps(grid, side, shares, float(within), asked)


def pack(block: bytes) -> str:
    """A block of bytes as ASCII text."""
    return base64.b64encode(zlib.compress(block)).decode()


def unpack(text: str, length: int) -> bytes | None:
    """Undo :func:`pack`; None for a block of another length, of which no more than this length is unpacked.

    >>> unpack(pack(b"map"), 3), unpack(pack(b"map"), 2), unpack("!", 3)
    (b'map', None, None)
    """
    unpacker = zlib.decompressobj()
    try:
        # One byte more than wanted shows that a block is longer, without unpacking it.
        block = unpacker.decompress(base64.b64decode(text, validate=True), length + 1)
    except (ValueError, zlib.error):
        return None
    return block if len(block) == length and unpacker.eof and not unpacker.unused_data else None


def _unpacked(text: object, length: int, what: str) -> bytes:
    block = unpack(text, length) if isinstance(text, str) else None
    if block is None:
        raise _unsound(what)
    return block


def _unsound(what: str) -> UnreadableData:
    return UnreadableData(f"The {what} of the file are damaged or were edited; get it again or save it anew.")
