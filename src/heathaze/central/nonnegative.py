"""Make noisy counts non-negative without changing their total, from coarse squares to fine ones.

Setting negative counts to zero adds mass: noise of mean zero becomes noise of positive mean. Subtracting one constant
from all counts before they are set to zero would keep the total, but would move people from full regions into empty
ones: full regions lose the constant in every cell, and empty regions keep the noise that exceeds the constant.

Here the counts are added up to the nodes of a quadtree. Beginning with the root, the four children of a node are
replaced by the closest non-negative numbers that sum to the node's mass (Euclidean projection). Sums over large regions
hardly change, because they are seldom negative. Only noisy numbers are used, so this is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import deinterleave, nodes_at
from heathaze.types import Floats, Integers

Leaves = Mapping[int, tuple[Integers, Floats]]
"""The leaves of a quadtree by level: their Morton codes, ascending, and their counts."""


def nonnegative_cells(grid: Grid, cells: Floats) -> Floats:
    """Replace the noisy counts of all cells by non-negative ones with the same total (0 if the total is negative).

    Args:
        grid: The frame.
        cells: The noisy count of each cell, rows × cols.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> nonnegative_cells(grid, np.array([[7.0, 3.0], [-2.0, 0.5]])).tolist()
    [[6.25, 2.25], [0.0, 0.0]]
    """
    codes = nodes_at(grid, grid.depth)
    rows, cols = deinterleave(codes)
    found = np.empty(grid.shape)
    found[rows, cols] = nonnegative_leaves({grid.depth: (codes, cells[rows, cols])})[grid.depth]
    return found


def nonnegative_leaves(leaves: Leaves) -> dict[int, Floats]:
    """Replace the noisy counts of the leaves of a quadtree by non-negative ones with the same total.

    Args:
        leaves: Codes and noisy counts of the leaves of each level; together they tile the grid.

    Returns:
        The new counts of the leaves of each level, in the given order.

    Cost: linear in the number of leaves times their depth, whatever the number of cells.
    """
    deepest = max(leaves)
    codes, counts, isleaf = _with_leaves(leaves, deepest, np.zeros(0, np.int64), np.zeros(0))
    layers = [(codes, counts, isleaf)]
    for level in range(deepest - 1, -1, -1):
        firsts = np.flatnonzero(np.diff(codes >> 2, prepend=-1))
        codes, counts, isleaf = _with_leaves(leaves, level, codes[firsts] >> 2, np.add.reduceat(counts, firsts))
        layers.append((codes, counts, isleaf))
    found: dict[int, Floats] = {}
    kept = np.maximum(counts, 0)
    for level, (codes, _, isleaf) in enumerate(reversed(layers)):
        if level in leaves:
            found[level] = kept[isleaf]
        if level < deepest:
            below, counts, _ = layers[deepest - level - 1]
            # Codes are ascending on both levels, so the parent of each node of the finer level is found by its code.
            parent = np.searchsorted(codes, below >> 2)
            kept = _shrink(counts, parent, below & 3, kept)
    return found


def _with_leaves(leaves: Leaves, level: int, codes: Integers, counts: Floats) -> tuple[Integers, Floats, Integers]:
    """Add the leaves of a level to its inner nodes; return codes, counts, and the places of the leaves."""
    if level not in leaves:
        return codes, counts, np.zeros(0, np.int64)
    order = np.argsort(np.concatenate([codes, leaves[level][0]]), kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return (
        np.concatenate([codes, leaves[level][0]])[order],
        np.concatenate([counts, leaves[level][1]])[order],
        places[len(codes) :],
    )


def _shrink(counts: Floats, parent: Integers, quadrant: Integers, mass: Floats) -> Floats:
    """Find the non-negative numbers closest to the counts that sum to the mass of their parent: max(count − t, 0).

    The mass of a parent is at most the sum of its children's positive counts, so its t is at least 0. At most four
    rounds find t. Each round sets t = (Σ counts − mass) / number, over the children whose count exceeds the last t.
    """
    families = np.zeros((len(mass), 4))
    families[parent, quadrant] = counts
    t = np.zeros(len(mass))
    for _ in range(4):
        above = families > t[:, None]
        excess = np.where(above, families, 0.0).sum(axis=1) - mass
        t = np.maximum(t, excess / np.maximum(above.sum(axis=1), 1))
    return np.asarray(np.maximum(counts - t[parent], 0))
