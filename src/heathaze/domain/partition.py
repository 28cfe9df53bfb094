"""Partitions: a map divided into regions of different size, given by a set of quadtree nodes.

Each cell belongs to the deepest node of the set that contains the cell. The region of a node is therefore its square
without the squares of deeper nodes in the set. The set may contain only some children of a node, or a grandchild
without the child between. The set always contains the root, so every cell belongs to a region. A node whose square is
covered by deeper nodes has no region and no entry in sums. The set keeps such a node, so that it gets cells again
when a deeper node is removed. Partitions are public: they are chosen from noisy numbers, never from data.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from heathaze.checks import assign
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists, interleave, node_areas, nodes_at
from heathaze.errors import InvalidInput, expect
from heathaze.types import Booleans, Floats, Integers

MOST_NODES = 2**22
"""The largest number of nodes of a partition: a device sends one number for each region."""


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of a grid: a set of quadtree nodes in order of level and code (:mod:`heathaze.domain.quadtree`).

    Args:
        grid: The grid.
        levels: Level of each node.
        codes: Code of each node. The root, level 0 and code 0, must be among the nodes.

    Raises:
        InvalidInput: The nodes are not a partition of the grid.

    >>> grid = Grid.plane(x=(0, 4), y=(0, 4), size=4)
    >>> corner = Partition(grid, np.array([0, 2]), np.array([0, 15]))
    >>> corner.areas.tolist(), corner.locate(np.array([0, 14, 15])).tolist()
    ([15, 1], [0, 0, 1])
    """

    grid: Grid
    levels: Integers
    codes: Integers

    def __post_init__(self) -> None:
        expect(Grid, self.grid, "The grid")
        if np.asarray(self.levels).dtype.kind not in "iu" or np.asarray(self.codes).dtype.kind not in "iu":
            raise InvalidInput("The levels and codes of a partition are no integers; give whole numbers below 2^63.")
        levels, codes = np.array(self.levels, dtype=np.int64), np.array(self.codes, dtype=np.int64)
        if levels.ndim != 1 or levels.shape != codes.shape or not 1 <= len(levels) <= MOST_NODES:
            raise InvalidInput(f"Give 1 to {MOST_NODES} nodes of a partition, with one level and one code each.")
        if ((levels < 0) | (levels > self.grid.depth)).any() or ((codes < 0) | (codes >> (2 * levels) != 0)).any():
            raise InvalidInput("A partition names a node that its grid does not have; remove it.")
        order = np.lexsort((codes, levels))
        levels, codes = levels[order], codes[order]
        if ((np.diff(levels) == 0) & (np.diff(codes) == 0)).any():
            raise InvalidInput("A partition names a node twice; name each once.")
        if levels[0] != 0:
            raise InvalidInput("A partition lacks the root, which holds the cells of no other node; add it.")
        if not exists(self.grid, levels, codes).all():
            raise InvalidInput("A partition names a node in the padding, where there are no cells; remove it.")
        for name, array in (("levels", levels), ("codes", codes)):
            array.flags.writeable = False
            assign(self, **{name: array})

    @classmethod
    def whole_level(cls, grid: Grid, level: int) -> Partition:
        """Return the partition whose regions are all squares of one level; the set also contains their ancestors.

        Args:
            grid: The grid.
            level: From 0 to ``grid.depth``.

        Raises:
            InvalidInput: The grid has no such level.

        >>> len(Partition.whole_level(Grid.plane(x=(0, 4), y=(0, 4), size=4), 1))
        4
        """
        if not 0 <= level <= grid.depth:
            raise InvalidInput(f"There is no level {level}; this grid has levels 0 to {grid.depth}.")
        nodes = [nodes_at(grid, above) for above in range(level + 1)]
        return cls(grid, np.repeat(np.arange(level + 1), [len(codes) for codes in nodes]), np.concatenate(nodes))

    @classmethod
    def suited_to(cls, density: Density | TreeDensity, regions: int, least: float = 0.0) -> Partition:
        """Return a partition that is fine where a density is high, by splitting the squares with the largest mass.

        A square never has more mass than its parent, so the parent of every split square is split as well.

        Args:
            density: A public density on the grid of the partition.
            regions: The approximate number of regions.
            least: A square with at most this share of the mass is not split.
        """
        dense = density.dense()
        grid = dense.grid
        nodes = [nodes_at(grid, level) for level in range(grid.depth)]
        shares = [_shares(dense, level) for level in range(grid.depth)]
        level = np.repeat(np.arange(grid.depth), [len(codes) for codes in nodes])
        share, codes = np.concatenate([[], *shares]), np.concatenate([np.empty(0, np.int64), *nodes])
        fullest = np.argsort(-share, kind="stable")[: max(0, (regions - 1) // 3)]
        split = fullest[share[fullest] > least]
        below, born = np.repeat(level[split] + 1, 4), children(codes[split])
        real = exists(grid, below, born)
        return cls(grid, np.concatenate([[0], below[real]]), np.concatenate([[0], born[real]]))

    def __len__(self) -> int:
        """Return the number of regions, which is the number of nodes with at least one cell of their own."""
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
        """The number of cells that belong to each node, without the cells of deeper nodes."""
        own = node_areas(self.grid, self.levels, self.codes)
        above = np.zeros(len(self.levels), dtype=np.int64)
        begins, _ = self._ranges
        for level in np.unique(self.levels):
            here = np.flatnonzero(self.levels == level)
            above[here] = self._deepest(begins[here], below=int(level))
        covered = np.zeros_like(own)
        np.add.at(covered, above[1:], own[1:])  # the root comes first and has no node above it
        return own - covered

    @functools.cached_property
    def regions(self) -> Integers:
        """The indices of the nodes that have a region. Entry k of a sum belongs to node ``regions[k]``."""
        return np.flatnonzero(self.areas)

    @functools.cached_property
    def region_areas(self) -> Integers:
        """The number of cells of each region."""
        return self.areas[self.regions]

    def locate(self, codes: Integers) -> Integers:
        """Return the index of the region of each cell.

        Args:
            codes: Codes of cells at the finest level.
        """
        breaks, owners = self._segments
        cells = 4**self.grid.depth
        if len(codes) > cells:  # one table of all cells is cheaper than a search for each code
            table = np.repeat(self._entry[owners], np.diff(np.append(breaks, cells)))
            return np.asarray(table[codes])
        place = np.searchsorted(breaks, codes, side="right") - 1
        return np.asarray(self._entry[owners[place]])

    def squares(self) -> tuple[Integers, Integers, Integers]:
        """Divide the regions into disjoint quadtree squares, without squares in the padding.

        Returns:
            The level and the code of each square, and the index of its region.
        """
        breaks, owners = self._segments
        begins = breaks.copy()
        ends = np.append(breaks[1:], 4**self.grid.depth)
        found: list[tuple[Integers, Integers, Integers]] = []
        # A region is one or more intervals of codes. Levels are visited from coarse to fine. Each level takes its
        # complete squares out of the middle of an interval, and leaves the two ends for finer levels.
        for level in range(self.grid.depth + 1):
            size = 4 ** (self.grid.depth - level)
            first, last = -(-begins // size), ends // size
            full = np.flatnonzero(last > first)
            counts = (last - first)[full]
            names = np.repeat(first[full] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            owner = np.repeat(owners[full], counts)
            real = exists(self.grid, level, names)
            found.append((np.full(real.sum(), level), names[real], self._entry[owner[real]]))
            rest = np.concatenate(
                [
                    np.stack([begins[full], first[full] * size, owners[full]]),
                    np.stack([last[full] * size, ends[full], owners[full]]),
                    np.delete(np.stack([begins, ends, owners]), full, axis=1),
                ],
                axis=1,
            )
            begins, ends, owners = rest[:, rest[1] > rest[0]]
        levels, codes, entries = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return levels, codes, entries

    def density(self, values: Floats) -> TreeDensity:
        """Convert one number for each region to a density that is even inside each region.

        Args:
            values: The mass of each region. Negative numbers count as 0.
        """
        levels, codes, entries = self.squares()
        mass = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
        share = node_areas(self.grid, levels, codes) / self.region_areas[entries]
        return TreeDensity.from_mass(self.grid, levels, codes, mass[entries] * share)

    def sums(self, density: Density | TreeDensity) -> Floats:
        """Return the mass of a density in each region.

        Args:
            density: A density on the same grid.
        """
        dense = density.dense().values
        entries = self.locate(cell_codes(self.grid))
        return np.asarray(np.bincount(entries, dense.ravel(), len(self)), dtype=np.float64)

    # ── the next partition ──────────────────────────────────────────────────────────────────────────────────────────

    def changed(self, split: Booleans | Integers, collapse: Booleans) -> Partition:
        """Return a partition in which some regions are split into squares and others are merged into the node above.

        A node of the finest level is never split, and the root is never removed.

        Args:
            split: For each region, how many times to split it: 0 for never, 1 into quarters, 2 into sixteenths.
            collapse: For each region, whether to merge it into the node above.

        >>> whole = Partition.whole_level(Grid.plane(x=(0, 8), y=(0, 8), size=8), 0)
        >>> len(whole.changed(np.array([2]), np.array([False])))
        16
        """
        kept = np.ones(len(self.levels), dtype=np.bool_)
        kept[self.regions[collapse]] = False
        kept[0] = True
        levels, codes = [self.levels[kept]], [self.codes[kept]]
        times = np.asarray(split, dtype=np.int64)
        above, names = self.levels[self.regions], self.codes[self.regions]
        while (parents := (times > 0) & (above < self.grid.depth)).any():
            above, names = np.repeat(above[parents] + 1, 4), children(names[parents])
            times = np.repeat(times[parents] - 1, 4)
            real = exists(self.grid, above, names)
            above, names, times = above[real], names[real], times[real]
            levels.append(above)
            codes.append(names)
            # A quarter that was a node before has a count of its own. Only that count decides whether it is split.
            new = ~np.isin(_keys(above, names), _keys(self.levels, self.codes))
            above, names, times = above[new], names[new], times[new]
        return Partition(self.grid, *np.unique(np.stack([np.concatenate(levels), np.concatenate(codes)]), axis=1))

    def to_dict(self) -> dict[str, list[int]]:
        """Convert levels and codes to plain numbers, for messages to devices. The grid is not included."""
        return {"levels": self.levels.tolist(), "codes": self.codes.tolist()}

    # ── intervals of cell codes ─────────────────────────────────────────────────────────────────────────────────────

    @functools.cached_property
    def _entry(self) -> Integers:
        """The index of each node's region; −1 for a node without a region."""
        entry = np.full(len(self.levels), -1, dtype=np.int64)
        entry[self.regions] = np.arange(len(self.regions))
        return entry

    @functools.cached_property
    def _ranges(self) -> tuple[Integers, Integers]:
        """The first cell code inside each node, and the first cell code after the node."""
        shift = 2 * (self.grid.depth - self.levels)
        return self.codes << shift, (self.codes + 1) << shift

    @functools.cached_property
    def _segments(self) -> tuple[Integers, Integers]:
        """The cell codes at which the deepest node changes, and the deepest node from each such code on."""
        begins, ends = self._ranges
        breaks = np.unique(np.concatenate([begins, ends]))[:-1]
        return breaks, self._deepest(breaks, below=self.grid.depth + 1)

    def _deepest(self, codes: Integers, below: int) -> Integers:
        """Return the deepest node that contains each cell, among the nodes with a level smaller than ``below``."""
        begins, ends = self._ranges
        owner = np.zeros(len(codes), dtype=np.int64)
        for level in np.unique(self.levels[self.levels < below]):
            first, last = np.searchsorted(self.levels, [level, level + 1])
            place = first + np.maximum(np.searchsorted(begins[first:last], codes, side="right") - 1, 0)
            inside = (begins[place] <= codes) & (codes < ends[place])
            owner[inside] = place[inside]
        return owner


def _keys(levels: Integers, codes: Integers) -> Integers:
    """One integer for each node: its code with a bit in front that tells the level."""
    return np.asarray(codes + (np.int64(1) << (2 * levels)))


def _shares(density: Density, level: int) -> Floats:
    """Return the mass of a density in every node of a level, in order of their codes."""
    side = 1 << (density.grid.depth - level)
    rows, cols = (np.arange(0, length, side) for length in density.grid.shape)
    sums = np.add.reduceat(np.add.reduceat(density.values, rows, axis=0), cols, axis=1)
    row, col = np.indices(sums.shape)
    return np.asarray(sums.ravel()[np.argsort(interleave(row.ravel(), col.ravel()))])


def cell_codes(grid: Grid) -> Integers:
    """Return the quadtree code of every cell of a grid, row by row."""
    rows, cols = np.indices(grid.shape)
    return interleave(rows.ravel(), cols.ravel())
