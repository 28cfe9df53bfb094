"""The quadtree over a grid, with nodes named by Morton codes.

The grid is padded to a square of 2^ℓ × 2^ℓ cells, where ℓ = ``grid.depth``. Level i divides the padded square into 4^i
squares, the nodes. The code of the node in row r and column c of level i interleaves the bits of r and c (row bit
first). So the four children of node n are 4n, 4n+1, 4n+2, 4n+3 (north-west, north-east, south-west, south-east), and
the codes of the cells inside a node are consecutive. Nodes that lie entirely in the padding do not exist: they get no
noise and no budget (errata E0-11).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import Grid
from heathaze.errors import TooLarge
from heathaze.types import Booleans, Integers

_MASKS = {
    32: 0x0000_0000_FFFF_FFFF,
    16: 0x0000_FFFF_0000_FFFF,
    8: 0x00FF_00FF_00FF_00FF,
    4: 0x0F0F_0F0F_0F0F_0F0F,
    2: 0x3333_3333_3333_3333,
    1: 0x5555_5555_5555_5555,
}
"""For each n, the mask that keeps n bits, drops the next n bits, and so on."""


def interleave(row: npt.ArrayLike, col: npt.ArrayLike) -> Integers:
    """Compute Morton codes from rows and columns; each row bit stands above its column bit.

    Args:
        row: Rows, from 0 to 2^31 − 1.
        col: Columns, in the same range.

    >>> interleave([0, 0, 1, 1], [0, 1, 0, 1]).tolist()
    [0, 1, 2, 3]
    """
    return (_spread(row) << 1) | _spread(col)


def deinterleave(codes: npt.ArrayLike) -> tuple[Integers, Integers]:
    """Compute the rows and columns from Morton codes; the inverse of :func:`interleave`.

    >>> row, col = deinterleave(interleave([5, 1_000_000], [9, 77]))
    >>> row.tolist(), col.tolist()
    ([5, 1000000], [9, 77])
    """
    whole = np.asarray(codes, dtype=np.int64)
    return _gather(whole >> 1), _gather(whole)


def children(codes: Integers) -> Integers:
    """Return the codes of the four children of each quadtree node, in order.

    >>> children(np.array([0, 2])).tolist()
    [0, 1, 2, 3, 8, 9, 10, 11]
    """
    return (codes[:, None] * 4 + np.arange(4)).ravel()


def node_extent(grid: Grid, level: int | Integers, codes: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the range of rows and columns that each quadtree node covers, without the padding.

    Args:
        grid: The grid.
        level: The level of all nodes, or an array with the level of each node.
        codes: The code of each node.

    Returns:
        First row, last row plus one, first column and last column plus one of each node.

    >>> node_extent(Grid.plane(x=(0, 3), y=(0, 3), size=3), 1, np.array([3]))
    (array([2]), array([3]), array([2]), array([3]))
    """
    size = 1 << (grid.depth - level)
    row, col = deinterleave(codes)
    return (row * size, np.minimum((row + 1) * size, grid.rows), col * size, np.minimum((col + 1) * size, grid.cols))


def node_areas(grid: Grid, level: int | Integers, codes: Integers) -> Integers:
    """Count the grid cells in each quadtree node. The arguments are as in :func:`node_extent`."""
    top, bottom, left, right = node_extent(grid, level, codes)
    return (bottom - top) * (right - left)


def exists(grid: Grid, level: int | Integers, codes: Integers) -> Booleans:
    """Return whether each quadtree node holds a cell of the grid. The arguments are as in :func:`node_extent`."""
    size = 1 << (grid.depth - level)
    row, col = deinterleave(codes)
    return (row * size < grid.rows) & (col * size < grid.cols)


def nodes_at(grid: Grid, level: int) -> Integers:
    """Return the codes of all quadtree nodes of a level, in rising order, without nodes in the padding.

    Args:
        grid: The grid.
        level: From 0 (the root) to ``grid.depth`` (the cells).

    Raises:
        TooLarge: The level has more than 2^26 nodes.

    >>> sum(len(nodes_at(Grid.plane(x=(0, 320), y=(0, 240), shape=(240, 320)), level)) for level in range(10))
    102409
    """
    size = 1 << (grid.depth - level)
    rows, cols = -(-grid.rows // size), -(-grid.cols // size)
    if rows * cols > 2**26:
        raise TooLarge(f"Level {level} of this grid has {rows * cols} nodes, and 2^26 is the most; use a coarser grid.")
    row, col = np.divmod(np.arange(rows * cols), cols)
    return np.sort(interleave(row, col))


def _spread(values: npt.ArrayLike) -> Integers:
    bits = np.array(values, dtype=np.int64)
    for shift in (16, 8, 4, 2, 1):
        bits = (bits | (bits << shift)) & _MASKS[shift]
    return bits


def _gather(codes: Integers) -> Integers:
    bits = codes & _MASKS[1]
    for shift in (1, 2, 4, 8, 16):
        bits = (bits | (bits >> shift)) & _MASKS[2 * shift]
    return bits
