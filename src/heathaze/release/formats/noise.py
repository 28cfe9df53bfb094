"""The noisy counts behind a map, as one text in a release file: they let whoever loads it say how sure it is.

The field ``noisy`` has the number of ``nodes`` and ``packed``: the base64 of a zlib block that holds, one array after
the other and little-endian, the levels (uint8), codes (int64), values (float64) and scales (float64) of all nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.errors import UnreadableData
from heathaze.inference._split_tree import closed
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.release.formats.packed import pack, unpack

MAX_NODES = 2**21
"""More than a whole tree of 1024 cells a side; beyond it counts are neither written nor read."""

LONGEST_TEXT = 2**27
"""The text of :data:`MAX_NODES` nodes that do not compress, and room for the rest of a release's fields."""

_KINDS = {"levels": "|u1", "codes": "<i8", "values": "<f8", "scales": "<f8"}
_BYTES_A_NODE = sum(np.dtype(kind).itemsize for kind in _KINDS.values())
_LARGEST, _SMALLEST_SCALE = 1e10, 1e-6
"""More than all people, and less noise than any epsilon in use asks for; inference is sound between them."""


def to_fields(noisy: NoisyCounts | None, grid: Grid) -> dict[str, Any] | None:
    """Plain fields; ``None`` where there are no counts that a file can carry, or they speak of another grid."""
    if noisy is None or noisy.grid != grid or not _can_be_kept(noisy):
        return None
    block = b"".join(getattr(noisy, name).astype(kind).tobytes() for name, kind in _KINDS.items())
    return {"nodes": len(noisy.codes), "packed": pack(block)}


def from_fields(grid: Grid, fields: Any) -> NoisyCounts:
    """Undo :func:`to_fields`; sizes are checked before anything is unpacked, and what does not fit is refused."""
    nodes, packed = fields["nodes"], fields["packed"]
    if type(nodes) is not int or not 0 < nodes <= MAX_NODES or not isinstance(packed, str):
        raise _unsound()
    block = unpack(packed, nodes * _BYTES_A_NODE)
    if block is None:
        raise _unsound()
    arrays, at = {}, 0
    for name, kind in _KINDS.items():
        arrays[name] = np.frombuffer(block, kind, nodes, at)
        at += nodes * np.dtype(kind).itemsize
    noisy = NoisyCounts(grid, **arrays)
    if not _can_be_kept(noisy):
        raise _unsound()
    return noisy


def _can_be_kept(noisy: NoisyCounts) -> bool:
    """Is this something to infer a map from? Not with numbers beyond all people, nor exact counts without their sum."""
    scales = noisy.scales
    exact = bool((scales == 0).all() and (noisy.values >= 0).all()) and len(noisy.at(0)[0]) == 1
    blurred = bool(((scales >= _SMALLEST_SCALE) & (scales <= _LARGEST)).all())
    if len(scales) > MAX_NODES or not (exact or blurred) or (np.abs(noisy.values) > _LARGEST).any():
        return False
    # Nodes strewn over deep levels bring all that lies above them and beside that.
    return sum(map(len, closed(noisy))) <= 2 * MAX_NODES


def _unsound() -> UnreadableData:
    return UnreadableData("The noisy counts of the file are damaged or were edited; get it again or save it anew.")
