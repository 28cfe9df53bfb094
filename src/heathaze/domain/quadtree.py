"""The quadtree over a grid, with nodes named by Morton codes.

A grid's longer side is padded to 2^ℓ cells (ℓ = ``grid.depth``). Level i cuts the padded square into 4^i squares;
the node in row r and column c of level i is named by interleaving the bits of r and c (row bit first), so the four
children of node n are 4n, 4n+1, 4n+2, 4n+3 (north-west, north-east, south-west, south-east) and every node's cells are
one contiguous range of codes. Nodes that lie wholly in the padding do not exist: they get no noise and no budget
(errata E0-11).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import Grid
from heathaze.errors import TooLarge
from heathaze.types import Booleans, Integers

_SPREAD_STEPS = (
    (16, 0x0000_FFFF_0000_FFFF),
    (8, 0x00FF_00FF_00FF_00FF),
    (4, 0x0F0F_0F0F_0F0F_0F0F),
    (2, 0x3333_3333_3333_3333),
    (1, 0x5555_5555_5555_5555),
)

_GATHER_STEPS = (
    (1, 0x3333_3333_3333_3333),
    (2, 0x0F0F_0F0F_0F0F_0F0F),
    (4, 0x00FF_00FF_00FF_00FF),
    (8, 0x0000_FFFF_0000_FFFF),
    (16, 0x0000_0000_FFFF_FFFF),
)


def interleave(row: npt.ArrayLike, col: npt.ArrayLike) -> Integers:
    """Morton code of (row, col), row bit above column bit.

    >>> interleave([0, 0, 1, 1], [0, 1, 0, 1]).tolist()
    [0, 1, 2, 3]
    """
    return (_spread(row) << 1) | _spread(col)


def deinterleave(codes: npt.ArrayLike) -> tuple[Integers, Integers]:
    """Row and column of Morton codes.

    >>> row, col = deinterleave(interleave([5, 1_000_000], [9, 77]))
    >>> row.tolist(), col.tolist()
    ([5, 1000000], [9, 77])
    """
    whole = np.asarray(codes, dtype=np.int64)
    return _gather(whole >> 1), _gather(whole)


def children(codes: Integers) -> Integers:
    """The four children of each node, in order.

    >>> children(np.array([0, 2])).tolist()
    [0, 1, 2, 3, 8, 9, 10, 11]
    """
    return (codes[:, None] * 4 + np.arange(4)).ravel()


def node_extent(grid: Grid, level: int, codes: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """First and last-plus-one row, first and last-plus-one column of each node, cut to the grid."""
    size = 1 << (grid.depth - level)
    row, col = deinterleave(codes)
    return (
        row * size,
        np.minimum((row + 1) * size, grid.rows),
        col * size,
        np.minimum((col + 1) * size, grid.cols),
    )


def exists(grid: Grid, level: int, codes: Integers) -> Booleans:
    """Does the node hold at least one cell of the grid?"""
    size = 1 << (grid.depth - level)
    row, col = deinterleave(codes)
    return (row * size < grid.rows) & (col * size < grid.cols)


def nodes_at(grid: Grid, level: int) -> Integers:
    """All nodes of a level, in order of their codes.

    >>> sum(len(nodes_at(Grid.plane(x=(0, 320), y=(0, 240), shape=(240, 320)), level)) for level in range(10))
    102409
    """
    size = 1 << (grid.depth - level)
    rows, cols = -(-grid.rows // size), -(-grid.cols // size)
    if rows * cols > 2**26:
        raise TooLarge(f"Level {level} of this grid has {rows * cols} nodes, more than fit; use a coarser grid.")
    row, col = np.divmod(np.arange(rows * cols), cols)
    return np.sort(interleave(row, col))


def _spread(values: npt.ArrayLike) -> Integers:
    bits = np.array(values, dtype=np.int64)
    for shift, mask in _SPREAD_STEPS:
        bits = (bits | (bits << shift)) & mask
    return bits


def _gather(codes: Integers) -> Integers:
    bits = codes & 0x5555_5555_5555_5555
    for shift, mask in _GATHER_STEPS:
        bits = (bits | (bits >> shift)) & mask
    return bits
