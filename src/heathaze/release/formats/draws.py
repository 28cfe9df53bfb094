"""The maps drawn beside an estimate, as one text in a release file: they let whoever loads it say how sure it is.

The field ``drawn`` has the number of ``maps``, the ``side`` of a square in cells, ``within`` (see DrawnMaps) and
``packed``: the base64 of a zlib block of little-endian float32, map after map, row after row. ``asked``, if it is
there, is a block of bytes: the level of every square that was asked about.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.errors import UnreadableData
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.release.formats.packed import pack, unpack

_MOST_MAPS, _MOST_SQUARES = 1000, 2**22


def to_fields(drawn: DrawnMaps | None, grid: Grid) -> dict[str, Any] | None:
    """Plain fields; ``None`` where there are no maps, or they speak of another grid."""
    if drawn is None or drawn.grid != grid:
        return None
    if len(drawn.shares) > _MOST_MAPS or drawn.shares.size > _MOST_SQUARES:  # nobody could load them
        return None
    packed = pack(drawn.shares.astype("<f4").tobytes())
    fields = {"maps": len(drawn.shares), "side": drawn.side, "within": drawn.within, "packed": packed}
    return fields if drawn.asked is None else fields | {"asked": pack(drawn.asked.astype(np.uint8).tobytes())}


def from_fields(grid: Grid, fields: Any) -> DrawnMaps:
    """Undo :func:`to_fields`; sizes are checked before anything is unpacked, and what does not fit is refused."""
    maps, side, within, packed = (fields[name] for name in ("maps", "side", "within", "packed"))
    if (
        type(maps) is not int
        or type(side) is not int
        or type(within) not in (int, float)
        or not isinstance(packed, str)
    ):
        raise _unsound()
    if not (2 <= maps <= _MOST_MAPS and 1 <= side <= 2**20 and 0 <= within < 1e3):
        raise _unsound()
    rows, cols = (-(-length // side) for length in grid.shape)
    size = maps * math.prod((rows, cols))
    if size > _MOST_SQUARES:
        raise _unsound()
    block = unpack(packed, 4 * size)
    if block is None:
        raise _unsound()
    asked = None
    if fields.get("asked") is not None:
        levels = unpack(fields["asked"], rows * cols) if isinstance(fields["asked"], str) else None
        if levels is None:
            raise _unsound()
        asked = np.frombuffer(levels, np.uint8).reshape(rows, cols).astype(np.int64)
    return DrawnMaps(grid, side, np.frombuffer(block, "<f4").reshape(maps, rows, cols), float(within), asked)


def _unsound() -> UnreadableData:
    return UnreadableData("The drawn maps of the file are damaged or were edited; get it again or save it anew.")
