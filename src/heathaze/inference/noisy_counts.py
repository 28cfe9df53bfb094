"""Noisy counts of quadtree nodes, and the binary tree on which a map is inferred from them. Both are public.

**Tree of halvings.** A node of the quadtree divides its mass among four children by three halvings. The first separates
north from south, and the other two separate west from east in the northern and in the southern half. Each of these two
halves is called a pair, because it holds two children. The nodes of the tree of halvings are the nodes of the quadtree
and the pairs. They are ordered in stages: the nodes of a level, then the pairs of this level, then the nodes of the
next level. The members of a stage do not depend on each other.

The quadtree is closed first: all ancestors of measured nodes are added, and all children of these ancestors.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists
from heathaze.errors import InvalidInput
from heathaze.types import Floats, Integers

NONE = -1
"""Marks a half that does not exist."""


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Counts of some quadtree nodes with discrete Laplace noise of known scale, in people (or presences).

    Any set of nodes is allowed, each at most once: whole levels, the leaves of a tree, an adaptive tree with its inner
    nodes.

    Args:
        grid: The public frame.
        levels: Level of each node.
        codes: Morton code of each node.
        values: Noisy count of each node.
        scales: Scale of the noise of each node: Pr[x] ∝ exp(−|x| / scale). A scale of 0 means no noise.

    Raises:
        InvalidInput: The arrays do not fit together, or name a node twice or one that the grid does not have.
    """

    grid: Grid
    levels: Integers
    codes: Integers
    values: Floats
    scales: Floats

    def __post_init__(self) -> None:
        levels, codes = np.array(self.levels, dtype=np.int64), np.array(self.codes, dtype=np.int64)
        values, scales = np.array(self.values, dtype=np.float64), np.array(self.scales, dtype=np.float64)
        if not levels.shape == codes.shape == values.shape == scales.shape or levels.ndim != 1 or not len(levels):
            raise InvalidInput("Noisy counts need one level, code, value and scale for each of at least one node.")
        if not (np.isfinite(values).all() and np.isfinite(scales).all() and (scales >= 0).all()):
            raise InvalidInput("Noisy counts need finite values and scales that are finite and not negative.")
        if ((levels < 0) | (levels > self.grid.depth)).any() or ((codes < 0) | (codes >> (2 * levels) != 0)).any():
            raise InvalidInput("Noisy counts name a node that their grid does not have.")
        order = np.lexsort((codes, levels))
        if ((np.diff(levels[order]) == 0) & (np.diff(codes[order]) == 0)).any():
            raise InvalidInput("Noisy counts name a node twice; combine its counts first.")
        for name, array in (("levels", levels), ("codes", codes), ("values", values), ("scales", scales)):
            array = array[order]
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        for level in np.unique(levels):
            if not exists(self.grid, int(level), self.at(int(level))[0]).all():
                raise InvalidInput("Noisy counts name a node in the padding, where there are no cells.")

    def at(self, level: int) -> tuple[Integers, Floats, Floats]:
        """Codes, values and scales of one level, in order of the codes.

        Args:
            level: Level of the quadtree.
        """
        first, last = np.searchsorted(self.levels, [level, level + 1])
        return self.codes[first:last], self.values[first:last], self.scales[first:last]


@dataclass(frozen=True)
class SplitTree:
    """The tree of halvings: nodes and pairs, parents first.

    Attributes:
        grid: The public frame.
        codes: ``codes[i]`` are the quadtree nodes of level i, ascending.
        place: ``place[i]`` are the indices of these nodes in the arrays below.
        left: Index of the first half of each node or pair, or NONE.
        right: Index of the second half, or NONE.
        value: The noisy count; 0 if nothing was measured.
        scale: Scale of the noise; infinite if nothing was measured.
        level: Level of the quadtree node that is divided.
        kind: 0 for a node (its first halving), 1 for its northern or only pair, 2 for its southern pair.
        owner: Index of the quadtree node that is divided.
    """

    grid: Grid
    codes: list[Integers]
    place: list[Integers]
    left: Integers
    right: Integers
    value: Floats
    scale: Floats
    level: Integers
    kind: Integers
    owner: Integers

    @property
    def stages(self) -> list[tuple[int, int]]:
        """The first index of each stage, and the index one past its last; parents come first."""
        borders = [0]
        for level, places in enumerate(self.place):
            following = self.place[level + 1][0] if level < self.depth else len(self.left)
            borders += [int(places[-1]) + 1, int(following)]
        return [(start, stop) for start, stop in itertools.pairwise(borders) if start < stop]

    @property
    def depth(self) -> int:
        """The deepest level that has nodes."""
        return len(self.codes) - 1


def closed(noisy: NoisyCounts) -> list[Integers]:
    """Close the quadtree of some noisy counts: the measured nodes, all their ancestors, and all children of ancestors.

    Returns:
        The codes of the nodes of each level, ascending.
    """
    deepest = int(noisy.levels.max())
    inner: list[Integers] = [np.zeros(0, np.int64)] * (deepest + 1)
    for level in range(deepest - 1, -1, -1):
        below = np.concatenate([noisy.at(level + 1)[0], inner[level + 1]])
        inner[level] = np.unique(below >> 2)
    levels = [np.zeros(1, np.int64)]
    for level in range(1, deepest + 1):
        nodes = children(inner[level - 1])
        levels.append(nodes[exists(noisy.grid, level, nodes)])
    return levels


def build(noisy: NoisyCounts) -> SplitTree:
    """Build the tree of halvings of some noisy counts."""
    codes = closed(noisy)
    place: list[Integers] = []
    parts: list[tuple[Integers, ...]] = []
    values: list[Floats] = []
    scales: list[Floats] = []
    start = 0
    for level, nodes in enumerate(codes):
        place.append(start + np.arange(len(nodes)))
        value, scale = np.zeros(len(nodes)), np.full(len(nodes), np.inf)
        measured, noisy_value, noisy_scale = noisy.at(level)
        where = np.searchsorted(nodes, measured)
        value[where], scale[where] = noisy_value, noisy_scale
        stage, pairs = _halvings(codes, level, start)
        parts += [stage, pairs]
        values += [value, np.zeros(len(pairs[0]))]
        scales += [scale, np.full(len(pairs[0]), np.inf)]
        start += len(nodes) + len(pairs[0])
    left, right, levels, kind, owner = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return SplitTree(
        noisy.grid, codes, place, left, right, np.concatenate(values), np.concatenate(scales), levels, kind, owner
    )


def _halvings(codes: list[Integers], level: int, start: int) -> tuple[tuple[Integers, ...], tuple[Integers, ...]]:
    """Compute left, right, level, kind and owner (see SplitTree) of the nodes of a level and of its pairs."""
    count = len(codes[level])
    nodes, below = codes[level], codes[level + 1] if level + 1 < len(codes) else np.zeros(0, np.int64)
    left, right = np.full(count, NONE), np.full(count, NONE)
    # The children of a node are next to each other in the next level, in the order of their codes.
    first = np.searchsorted(below, nodes * 4)
    number = np.searchsorted(below, nodes * 4 + 4) - first
    whole = np.flatnonzero(number == 4)
    pairs = 2 * len(whole)
    next_stage = start + count + pairs
    left[whole] = start + count + 2 * np.arange(len(whole))
    right[whole] = left[whole] + 1
    # At the border of the grid a node may have only two children, or only one.
    some = np.flatnonzero((number == 1) | (number == 2))
    left[some] = next_stage + first[some]
    two = np.flatnonzero(number == 2)
    right[two] = next_stage + first[two] + 1
    here = np.full(count, level)
    own = start + np.arange(count)
    stage = (left, right, here, np.zeros(count, np.int64), own)
    pair_left = next_stage + (first[whole][:, None] + np.array([0, 2])).ravel()
    kind = np.tile([1, 2], len(whole))
    return stage, (pair_left, pair_left + 1, np.full(pairs, level), kind, np.repeat(own[whole], 2))
