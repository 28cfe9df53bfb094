"""A map cut into regions of different size: a set of quadtree nodes, each place belonging to the deepest that holds it.

A node stands for its square less the squares of the nodes below it, so it may have some of its children, or a
grandchild and no child between them. The root is always there: no place is without a region. A node that is covered
wholly by others stands for nothing and takes part in no sum; it is kept so that a place whose node is taken out falls
to the next one above. Public: a partition is chosen in view of noisy numbers, never of data.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists, interleave, node_extent, nodes_at
from heathaze.errors import InvalidInput
from heathaze.types import Booleans, Floats, Integers

MOST_NODES = 2**22
"""A partition of more nodes is refused: four million numbers are more than any device should send."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Nodes of a grid's quadtree, in order of level and code (see :mod:`heathaze.domain.quadtree`).

    >>> grid = Grid.plane(x=(0, 4), y=(0, 4), size=4)
    >>> corner = Partition(grid, np.array([0, 2]), np.array([0, 15]))
    >>> corner.areas.tolist(), corner.locate(np.array([0, 14, 15])).tolist()
    ([15, 1], [0, 0, 1])
    """

    grid: Grid
    levels: Integers
    codes: Integers

    def __post_init__(self) -> None:
        if np.asarray(self.levels).dtype.kind not in "iu" or np.asarray(self.codes).dtype.kind not in "iu":
            raise InvalidInput("The levels and codes of a partition are whole numbers below 2^63.")
        levels, codes = np.array(self.levels, dtype=np.int64), np.array(self.codes, dtype=np.int64)
        if levels.ndim != 1 or levels.shape != codes.shape or not 1 <= len(levels) <= MOST_NODES:
            raise InvalidInput(f"A partition has 1 to {MOST_NODES} nodes, with one level and one code each.")
        if ((levels < 0) | (levels > self.grid.depth)).any() or ((codes < 0) | (codes >> (2 * levels) != 0)).any():
            raise InvalidInput("A partition names a node that its grid does not have.")
        order = np.lexsort((codes, levels))
        levels, codes = levels[order], codes[order]
        if ((np.diff(levels) == 0) & (np.diff(codes) == 0)).any():
            raise InvalidInput("A partition names a node twice.")
        if levels[0] != 0:
            raise InvalidInput("A partition lacks the root, to which every place belongs that no other node holds.")
        for level in np.unique(levels):
            if not exists(self.grid, int(level), codes[levels == level]).all():
                raise InvalidInput("A partition names a node in the padding, where there are no cells.")
        for name, array in (("levels", levels), ("codes", codes)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def whole_level(cls, grid: Grid, level: int) -> Partition:
        """All squares of one level, and their ancestors.

        >>> len(Partition.whole_level(Grid.plane(x=(0, 4), y=(0, 4), size=4), 1))
        4
        """
        if not 0 <= level <= grid.depth:
            raise InvalidInput(f"Level {level} does not exist; this grid has levels 0 to {grid.depth}.")
        nodes = [nodes_at(grid, above) for above in range(level + 1)]
        return cls(grid, np.repeat(np.arange(level + 1), [len(codes) for codes in nodes]), np.concatenate(nodes))

    @classmethod
    def suited_to(cls, density: Density | TreeDensity, regions: int, least: float = 0.0) -> Partition:
        """About so many regions, small where a density is high: the fullest squares are split first.

        A square with a share of at most ``least`` is not split. A square is never fuller than the one around it, so
        whatever is split lies in something that is split as well.
        """
        dense = density.dense()
        grid = dense.grid
        nodes = [nodes_at(grid, level) for level in range(grid.depth)]
        shares = [_shares(dense, level) for level in range(grid.depth)]
        level = np.repeat(np.arange(grid.depth), [len(codes) for codes in nodes])
        share, codes = np.concatenate([[], *shares]), np.concatenate([np.empty(0, np.int64), *nodes])
        fullest = np.argsort(-share, kind="stable")[: max(0, (regions - 1) // 3)]
        split = fullest[share[fullest] > least]
        born = children(codes[split])
        below = np.repeat(level[split] + 1, 4)
        real = np.concatenate([[True], *(exists(grid, int(k), born[below == k]) for k in np.unique(below))])
        order = np.argsort(below, kind="stable")
        levels = np.concatenate([[0], below[order]])[real]
        return cls(grid, levels, np.concatenate([[0], born[order]])[real])

    def __len__(self) -> int:
        """How many regions there are: nodes that stand for at least one cell."""
        return len(self.regions)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Partition)
            and self.grid == other.grid
            and np.array_equal(self.levels, other.levels)
            and np.array_equal(self.codes, other.codes)
        )

    __hash__ = None  # type: ignore[assignment]

    # ── regions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def areas(self) -> Integers:
        """Cells that each node stands for, those of the nodes below it left out."""
        own = np.empty(len(self.levels), dtype=np.int64)
        above = np.zeros(len(self.levels), dtype=np.int64)
        begins, _ = self._ranges
        for level in np.unique(self.levels):
            here = np.flatnonzero(self.levels == level)
            top, bottom, left, right = node_extent(self.grid, int(level), self.codes[here])
            own[here] = (bottom - top) * (right - left)
            above[here] = self._deepest(begins[here], below=int(level))
        covered = np.zeros_like(own)
        np.add.at(covered, above[1:], own[1:])  # the root, first, has nothing above it
        return own - covered

    @functools.cached_property
    def regions(self) -> Integers:
        """The nodes that stand for at least one cell, in order: entry k of a sum is that of node ``regions[k]``."""
        return np.flatnonzero(self.areas)

    @functools.cached_property
    def region_areas(self) -> Integers:
        """Cells of each region."""
        return self.areas[self.regions]

    def locate(self, codes: Integers) -> Integers:
        """The region of each cell; cells are named by their codes at the finest level."""
        breaks, owners = self._segments
        cells = 4**self.grid.depth
        if len(codes) > cells:  # a table of all cells is cheaper than so many searches
            table = np.repeat(self._entry[owners], np.diff(np.append(breaks, cells)))
            return np.asarray(table[codes])
        place = np.searchsorted(breaks, codes, side="right") - 1
        return np.asarray(self._entry[owners[place]])

    def squares(self) -> tuple[Integers, Integers, Integers]:
        """Every region as disjoint squares: their levels, codes and regions. Squares in the padding are left out."""
        breaks, owners = self._segments
        begins = breaks.copy()
        ends = np.append(breaks[1:], 4**self.grid.depth)
        found: list[tuple[Integers, Integers, Integers]] = []
        # From coarse to fine: a run of codes gives up the whole squares in its middle and keeps its two rims.
        for level in range(self.grid.depth + 1):
            size = 4 ** (self.grid.depth - level)
            first, last = -(-begins // size), ends // size
            whole = np.flatnonzero(last > first)
            counts = (last - first)[whole]
            names = np.repeat(first[whole] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            owner = np.repeat(owners[whole], counts)
            real = exists(self.grid, level, names)
            found.append((np.full(real.sum(), level), names[real], self._entry[owner[real]]))
            rims = np.concatenate(
                [
                    np.stack([begins[whole], first[whole] * size, owners[whole]]),
                    np.stack([last[whole] * size, ends[whole], owners[whole]]),
                    np.delete(np.stack([begins, ends, owners]), whole, axis=1),
                ],
                axis=1,
            )
            begins, ends, owners = rims[:, rims[1] > rims[0]]
        levels, codes, entries = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return levels, codes, entries

    def density(self, values: Floats) -> TreeDensity:
        """Numbers of the regions as a density: what is negative counts as nothing, the rest is spread evenly."""
        levels, codes, entries = self.squares()
        mass = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
        share = square_areas(self.grid, levels, codes) / self.region_areas[entries]
        return TreeDensity.from_mass(self.grid, levels, codes, mass[entries] * share)

    def sums(self, density: Density | TreeDensity) -> Floats:
        """Share of a density that lies in each region, for a density with at least one square or cell a region."""
        dense = density.dense().values
        entries = self.locate(cell_codes(self.grid))
        return np.asarray(np.bincount(entries, dense.ravel(), len(self)), dtype=np.float64)

    # ── the next partition ──────────────────────────────────────────────────────────────────────────────────────────

    def changed(self, split: Booleans, collapse: Booleans) -> Partition:
        """Regions split into the children of their nodes, or given back to the node above.

        A node of the finest level stays as it is when it is to be split, and the root when it is to be collapsed.
        """
        kept = np.ones(len(self.levels), dtype=np.bool_)
        kept[self.regions[collapse]] = False
        kept[0] = True
        parents = self.regions[split]
        parents = parents[self.levels[parents] < self.grid.depth]
        levels, codes = [self.levels[kept]], [self.codes[kept]]
        for level in np.unique(self.levels[parents]):
            born = children(self.codes[parents[self.levels[parents] == level]])
            born = born[exists(self.grid, int(level) + 1, born)]
            levels.append(np.full(len(born), level + 1))
            codes.append(born)
        nodes = np.unique(np.stack([np.concatenate(levels), np.concatenate(codes)]), axis=1)
        return Partition(self.grid, nodes[0], nodes[1])

    def to_dict(self) -> dict[str, list[int]]:
        """Plain numbers, for questions; the grid travels beside it."""
        return {"levels": self.levels.tolist(), "codes": self.codes.tolist()}

    # ── runs of codes ───────────────────────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def _entry(self) -> Integers:
        """Region of each node, −1 for one that stands for nothing."""
        entry = np.full(len(self.levels), -1, dtype=np.int64)
        entry[self.regions] = np.arange(len(self.regions))
        return entry

    @functools.cached_property
    def _ranges(self) -> tuple[Integers, Integers]:
        """The cells of each node are one run of codes: where it begins and where it ends."""
        shift = 2 * (self.grid.depth - self.levels)
        return self.codes << shift, (self.codes + 1) << shift

    @functools.cached_property
    def _segments(self) -> tuple[Integers, Integers]:
        """Where the deepest node changes along the codes, and which node it is from there on."""
        begins, ends = self._ranges
        breaks = np.unique(np.concatenate([begins, ends]))[:-1]
        return breaks, self._deepest(breaks, below=self.grid.depth + 1)

    def _deepest(self, codes: Integers, below: int) -> Integers:
        """The deepest node, of a level above ``below``, that holds each cell."""
        begins, ends = self._ranges
        owner = np.zeros(len(codes), dtype=np.int64)
        for level in np.unique(self.levels[self.levels < below]):
            first, last = np.searchsorted(self.levels, [level, level + 1])
            place = first + np.maximum(np.searchsorted(begins[first:last], codes, side="right") - 1, 0)
            inside = (begins[place] <= codes) & (codes < ends[place])
            owner[inside] = place[inside]
        return owner


def _shares(density: Density, level: int) -> Floats:
    """Share of every node of a level, in order of their codes."""
    side = 1 << (density.grid.depth - level)
    rows, cols = (np.arange(0, length, side) for length in density.grid.shape)
    sums = np.add.reduceat(np.add.reduceat(density.values, rows, axis=0), cols, axis=1)
    row, col = np.indices(sums.shape)
    return np.asarray(sums.ravel()[np.argsort(interleave(row.ravel(), col.ravel()))])


def square_areas(grid: Grid, levels: Integers, codes: Integers) -> Integers:
    """Cells of the grid in each square."""
    areas = np.empty(len(codes), dtype=np.int64)
    for level in np.unique(levels):
        here = levels == level
        top, bottom, left, right = node_extent(grid, int(level), codes[here])
        areas[here] = (bottom - top) * (right - left)
    return areas


def cell_codes(grid: Grid) -> Integers:
    """Code of every cell, row by row."""
    rows, cols = np.indices(grid.shape)
    return interleave(rows.ravel(), cols.ravel())
