"""The fields of a release file from which error bars are computed: the noisy counts or the drawn maps.

With these fields, a release that is loaded has the same error bars as the release that was saved. Arrays are packed as
text: little-endian numbers, compressed with zlib, in base64.

- ``noisy`` has two fields: ``nodes`` is the number of nodes, and ``packed`` holds one array after the other, the levels
  (uint8), codes (int64), values (float64) and scales (float64) of all nodes.
- ``drawn`` has the number of ``maps``, the ``side`` of a square in cells, ``within`` (see DrawnMaps) and ``packed``,
  the shares (float32), map after map and row after row. An optional field ``asked`` is packed too: the level (uint8) of
  the smallest measured region around every square.
- ``density`` is the map itself, in files whose polygons are its certain squares: ``packed`` holds the numbers (float64)
  of all cells row after row, or the levels (int64), codes (int64) and masses (float64) of ``squares`` tree squares. It
  is left out if the map follows from the noisy counts.
"""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any

import numpy as np

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.errors import UnreadableData
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.noisy_counts import NoisyCounts, closed
from heathaze.types import Floats, Integers

MAX_NODES = 2**21
"""The most nodes in a file, more than a full tree on 1024 × 1024 cells has. Larger trees are not written or read."""

LONGEST_TEXT = 2**27
"""The most bytes of a release's fields, enough for :data:`MAX_NODES` nodes that do not compress."""

_KINDS = {"levels": "|u1", "codes": "<i8", "values": "<f8", "scales": "<f8"}
_BYTES_A_NODE = sum(np.dtype(kind).itemsize for kind in _KINDS.values())
_LARGEST, _SMALLEST_SCALE = 1e10, 1e-6
"""The largest value or scale (more than all people), and the smallest scale (less noise than any epsilon in use needs).

Inference is numerically stable between these limits.
"""

_MOST_MAPS, _MOST_SQUARES = 1000, 2**22


def noisy_to_fields(noisy: NoisyCounts | None, grid: Grid) -> dict[str, Any] | None:
    """Pack noisy counts into fields of a release file.

    Returns:
        The fields, or None if there are no counts, a file cannot hold them, or they have another grid than the map.
    """
    if noisy is None or noisy.grid != grid or not _can_be_kept(noisy):
        return None
    block = b"".join(getattr(noisy, name).astype(kind).tobytes() for name, kind in _KINDS.items())
    return {"nodes": len(noisy.codes), "packed": pack(block)}


def noisy_from_fields(grid: Grid, fields: Any) -> NoisyCounts:
    """Unpack noisy counts from the fields of a release file; sizes are checked before anything is unpacked.

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
    """Check that a map can be inferred from noisy counts of a file.

    No value may be larger than the number of all people. Counts without noise must be complete: the root and nodes of
    every level below it are among them.
    """
    scales = noisy.scales
    exact = bool((scales == 0).all() and (noisy.values >= 0).all()) and len(noisy.at(0)[0]) == 1
    exact &= len(np.unique(noisy.levels)) == int(noisy.levels.max(initial=0)) + 1
    blurred = bool(((scales >= _SMALLEST_SCALE) & (scales <= _LARGEST)).all())
    if len(scales) > MAX_NODES or not (exact or blurred) or (np.abs(noisy.values) > _LARGEST).any():
        return False
    # The closed tree also contains the ancestors of each node and all their children.
    return sum(map(len, closed(noisy))) <= 2 * MAX_NODES


def drawn_to_fields(drawn: DrawnMaps | None, grid: Grid) -> dict[str, Any] | None:
    """Pack drawn maps into fields of a release file.

    Returns:
        The fields, or None if there are no drawn maps, a file cannot hold them, or they have another grid than the map.
    """
    if drawn is None or drawn.grid != grid:
        return None
    if len(drawn.shares) > _MOST_MAPS or drawn.shares.size > _MOST_SQUARES:
        return None
    packed = pack(drawn.shares.astype("<f4").tobytes())
    fields = {"maps": len(drawn.shares), "side": drawn.side, "within": drawn.within, "packed": packed}
    return fields if drawn.asked is None else fields | {"asked": pack(drawn.asked.astype(np.uint8).tobytes())}


def drawn_from_fields(grid: Grid, fields: Any) -> DrawnMaps:
    """Unpack drawn maps from the fields of a release file; sizes are checked before anything is unpacked.

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


def density_to_fields(density: Density | TreeDensity) -> dict[str, Any]:
    """Pack a density into fields of a release file."""
    if isinstance(density, Density):
        return {"packed": pack(density.values.astype("<f8").tobytes())}
    arrays = (density.levels.astype("<i8"), density.codes.astype("<i8"), density.mass.astype("<f8"))
    return {"squares": len(density.codes), "packed": pack(b"".join(array.tobytes() for array in arrays))}


def density_from_fields(form: str, grid: Grid, fields: Any, most: int) -> tuple[Integers, Integers, Floats]:
    """Unpack a density from the fields of a release file; sizes are checked before anything is unpacked.

    Args:
        form: ``"dense"`` or ``"tree"``.
        grid: The grid of the file.
        fields: The fields.
        most: The most squares of a tree.

    Returns:
        Row and column of each cell, or level and code of each square; and its share.

    Raises:
        UnreadableData: The fields do not fit together.
    """
    if form == "dense":
        values = np.frombuffer(_unpacked(fields["packed"], 8 * grid.cells, "density"), "<f8")
        row, col = np.divmod(np.arange(grid.cells), grid.cols)
        return row, col, values
    squares = fields["squares"]
    if type(squares) is not int or not 0 < squares <= most:
        raise _unsound("density")
    block = _unpacked(fields["packed"], 24 * squares, "density")
    levels, codes = (np.frombuffer(block, "<i8", squares, 8 * squares * k) for k in range(2))
    return levels, codes, np.frombuffer(block, "<f8", squares, 16 * squares)


def pack(block: bytes) -> str:
    """Pack a block of bytes of a release file as ASCII text: zlib, then base64."""
    return base64.b64encode(zlib.compress(block)).decode()


def unpack(text: str, length: int) -> bytes | None:
    """Unpack a text of :func:`pack`. If the block is damaged or does not have the given length, return None.

    At most one byte more than the given length is unpacked, so a hostile file cannot fill the memory.

    >>> unpack(pack(b"map"), 3), unpack(pack(b"map"), 2), unpack("!", 3)
    (b'map', None, None)
    """
    unpacker = zlib.decompressobj()
    try:
        # If one byte more than the length can be unpacked, the block is too long, and the rest need not be unpacked.
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
