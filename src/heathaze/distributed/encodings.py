"""Encodings: which entries of a device's vector a place belongs to.

An encoding has ``length`` entries, and every place belongs to the same number of entries, ``touched``. The sensitivity
of a part of a question is therefore mass · touched for any data.

| encoding | entries | touched | asked by |
|---|---|---|---|
| `Regions` | regions of a partition; a cell belongs to the deepest node that contains it | 1 | `AdaptiveQuadtree` |
| `Squares` | squares of one level of the quadtree, row by row | 1 | mechanisms of `levels` |
| `Mesh` | the grid cut into blocks, and each block into pieces | 1 | `AdaptiveGrid` |
| `Sketch` | `depth` rows of `width` entries for some levels, by public hashes | depth · levels | `CountMin` |

A question comes from a server that may be hostile. So every field of an encoding is checked, and the length is known
before a vector is made.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from heathaze.checks import assign, shown, whole
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.domain.quadtree import deinterleave
from heathaze.errors import InvalidInput
from heathaze.types import Integers, Words

MOST_BLOCKS = 2**20
"""The largest number of blocks of a mesh; a device reads every block."""

MOST_HASHES = 2**12
"""The largest number of rows of a sketch over all levels. A place touches one entry of each row."""

WIDEST = 2**20
"""The largest width of a sketch. Its hashes have 25 bits, so a larger width would be filled unevenly."""


class Encoding(Protocol):
    """Which entries of a device's vector a place belongs to: exactly ``touched`` entries for every place."""

    @property
    def grid(self) -> Grid:
        """The public grid."""

    @property
    def length(self) -> int:
        """How many entries there are."""

    @property
    def touched(self) -> int:
        """How many entries one place belongs to."""

    def entries(self, codes: Integers) -> Integers:
        """The entries of the vector to which each cell belongs.

        Args:
            codes: Quadtree codes of cells at the finest level.

        Returns:
            The indices of ``touched`` entries, as one row for each cell.
        """

    def to_dict(self) -> dict[str, Any]:
        """The encoding as plain numbers and texts, for questions."""


@dataclass(frozen=True, eq=False)
class Regions:
    """Encoding with one entry for each region of a partition. A place belongs to the deepest node that contains it.

    >>> regions = Regions(Partition.whole_level(Grid.plane(x=(0, 4), y=(0, 4), size=4), 1))
    >>> regions.length, regions.entries(np.array([0, 15])).tolist()
    (4, [[0], [3]])
    """

    partition: Partition

    touched = 1

    @property
    def grid(self) -> Grid:
        """The public grid."""
        return self.partition.grid

    @property
    def length(self) -> int:
        """One entry for each region."""
        return len(self.partition)

    def entries(self, codes: Integers) -> Integers:
        """The index of the region of each cell."""
        return self.partition.locate(codes)[:, None]

    def to_dict(self) -> dict[str, Any]:
        """The encoding as plain numbers and texts, for questions."""
        return {"kind": "regions", **self.partition.to_dict()}


@dataclass(frozen=True)
class Squares:
    """Encoding with one entry for each square of one level of the quadtree, row by row.

    ``Partition.whole_level`` has the same squares in another order.

    >>> squares = Squares(Grid.plane(x=(0, 4), y=(0, 4), size=4), 1)
    >>> squares.shape, squares.entries(np.array([0, 7, 15])).tolist()
    ((2, 2), [[0], [1], [3]])
    """

    grid: Grid
    level: int

    touched = 1

    def __post_init__(self) -> None:
        assign(self, level=whole(self.level, "level", "a level of this grid", least=0, most=self.grid.depth))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of squares."""
        side = 1 << (self.grid.depth - self.level)
        return -(-self.grid.rows // side), -(-self.grid.cols // side)

    @property
    def length(self) -> int:
        """One entry for each square."""
        rows, cols = self.shape
        return rows * cols

    def entries(self, codes: Integers) -> Integers:
        """The index of the square of each cell."""
        return self.named(codes >> (2 * (self.grid.depth - self.level)))[:, None]

    def named(self, codes: Integers) -> Integers:
        """The index of each square of this level, given the code of the square."""
        row, col = deinterleave(codes)
        return row * self.shape[1] + col

    def to_dict(self) -> dict[str, Any]:
        """The encoding as plain numbers and texts, for questions."""
        return {"kind": "squares", "level": self.level}


@dataclass(frozen=True, eq=False)
class Mesh:
    """Encoding with one entry for each piece of a block of the grid.

    The grid is cut into rows × cols blocks, and block k into parts[k] × parts[k] pieces.

    Piece j along a side begins at cell ⌊j · cells / parts⌋, so borders lie between whole cells. If a side has fewer
    cells than parts, a piece is one cell long.

    >>> mesh = Mesh(Grid.plane(x=(0, 4), y=(0, 4), size=4), 1, 2, np.array([1, 2]))
    >>> mesh.length, mesh.areas.tolist(), mesh.entries(np.array([0, 4, 15])).tolist()
    (5, [8, 2, 2, 2, 2], [[0], [1], [4]])
    """

    grid: Grid
    rows: int
    cols: int
    parts: Integers

    touched = 1

    def __post_init__(self) -> None:
        for name, found, most in (("rows", self.rows, self.grid.rows), ("cols", self.cols, self.grid.cols)):
            assign(self, **{name: whole(found, name, f"{name} of blocks of the mesh", most=most)})
        if self.rows * self.cols > MOST_BLOCKS:
            raise InvalidInput(f"A mesh has {self.rows * self.cols} blocks; expected at most {MOST_BLOCKS}.")
        parts = np.array(self.parts)
        if parts.shape != (self.rows * self.cols,) or parts.dtype.kind not in "iu":
            raise InvalidInput(f"A mesh needs one whole number of parts for each of {self.rows * self.cols} blocks.")
        longest = max(self.grid.shape)
        if (parts < 1).any() or (parts > longest).any():
            raise InvalidInput(
                f"Blocks of a mesh are cut into {parts.min()} to {parts.max()} parts a side; expected 1 to {longest}."
            )
        parts = parts.astype(np.int64)
        parts.flags.writeable = False
        assign(self, parts=parts)

    @property
    def borders(self) -> tuple[Integers, Integers]:
        """The borders between blocks, in cells: of the rows of blocks and of the columns of blocks."""
        down = np.arange(self.rows + 1) * self.grid.rows // self.rows
        across = np.arange(self.cols + 1) * self.grid.cols // self.cols
        return down, across

    @functools.cached_property
    def _pieces(self) -> tuple[Integers, Integers, Integers]:
        """For every block: the number of pieces down, the number of pieces across, and the index of its first piece."""
        down, across = self.borders
        tall = np.minimum(self.parts, np.repeat(np.diff(down), self.cols))
        wide = np.minimum(self.parts, np.tile(np.diff(across), self.rows))
        return tall, wide, np.cumsum(tall * wide) - tall * wide

    @property
    def length(self) -> int:
        """One entry for each piece."""
        tall, wide, _ = self._pieces
        return int((tall * wide).sum())

    @functools.cached_property
    def blocks(self) -> Integers:
        """The index of the block that contains each piece."""
        tall, wide, _ = self._pieces
        return np.repeat(np.arange(len(tall)), tall * wide)

    @functools.cached_property
    def areas(self) -> Integers:
        """The number of cells of each piece."""
        down, across = self.borders
        tall, wide, first = self._pieces
        row, col = np.divmod(np.arange(self.length) - first[self.blocks], wide[self.blocks])
        block_row, block_col = np.divmod(self.blocks, self.cols)
        height, width = np.diff(down)[block_row], np.diff(across)[block_col]
        tall, wide = tall[self.blocks], wide[self.blocks]
        return np.asarray(
            ((row + 1) * height // tall - row * height // tall) * ((col + 1) * width // wide - col * width // wide)
        )

    def entries(self, codes: Integers) -> Integers:
        """The index of the piece of each cell."""
        down, across = self.borders
        row, col = deinterleave(codes)
        block_row = np.searchsorted(down, row, side="right") - 1
        block_col = np.searchsorted(across, col, side="right") - 1
        block = block_row * self.cols + block_col
        tall, wide, first = self._pieces
        # Piece k of n begins at ⌊k·h/n⌋ of h cells, so cell i lies in the largest k with k·h < (i + 1)·n.
        piece_row = ((row - down[block_row] + 1) * tall[block] - 1) // np.diff(down)[block_row]
        piece_col = ((col - across[block_col] + 1) * wide[block] - 1) // np.diff(across)[block_col]
        return np.asarray(first[block] + piece_row * wide[block] + piece_col)[:, None]

    def to_dict(self) -> dict[str, Any]:
        """The encoding as plain numbers and texts, for questions."""
        return {"kind": "mesh", "rows": self.rows, "cols": self.cols, "parts": self.parts.tolist()}


@dataclass(frozen=True, eq=False)
class Sketch:
    """Encoding as count-min sketches of quadtree levels: a place has one entry in every row of every level.

    Each row of a level hashes the code x of the square that contains the place, with the public keys a and b of the
    row:

        entry = ⌊width · h / 2^25⌋,   h = the highest 25 of the 64 bits of a·x + b

    Codes have at most 40 bits, so for random keys two squares share an entry of a row with probability 1/width
    (Dietzfelbinger's multiply-add-shift). Which squares share an entry is public.

    Args:
        grid: The public grid.
        levels: The levels of the quadtree that have a sketch.
        width: Number of entries of a row.
        keys: For every level, one pair (a, b) of numbers below 2^64 for each row of its sketch.

    >>> sketch = Sketch(Grid.plane(x=(0, 4), y=(0, 4), size=4), (1, 2), 8, (((3 << 60, 0),), ((5 << 58, 7),)))
    >>> sketch.length, sketch.touched, sketch.entries(np.array([5])).tolist()
    (16, 2, [[1, 11]])
    """

    grid: Grid
    levels: tuple[int, ...]
    width: int
    keys: tuple[tuple[tuple[int, int], ...], ...]

    def __post_init__(self) -> None:
        for level in self.levels:
            whole(level, "level", "a level of this grid", least=0, most=self.grid.depth)
        if not self.levels:
            raise InvalidInput("A sketch has no levels; give at least one.")
        if len(set(self.levels)) != len(self.levels):
            raise InvalidInput(f"A sketch has levels {self.levels!r}; expected each at most once.")
        assign(self, width=whole(self.width, "width", "entries of a row of the sketch", most=WIDEST))
        depths = {len(rows) for rows in self.keys}
        if len(self.keys) != len(self.levels) or len(depths) != 1 or depths == {0}:
            raise InvalidInput("A sketch needs keys for every level, the same number for each.")
        if self.touched > MOST_HASHES:
            raise InvalidInput(f"A sketch has {self.touched} rows in all; expected at most {MOST_HASHES}.")
        for rows in self.keys:
            for pair in rows:
                if len(pair) != 2 or any(type(key) is not int or not 0 <= key < 2**64 for key in pair):
                    raise InvalidInput("The keys of a sketch must be pairs of whole numbers from 0 to 2^64 − 1.")

    @property
    def depth(self) -> int:
        """The number of rows of each level's sketch."""
        return len(self.keys[0])

    @property
    def length(self) -> int:
        """The number of entries: levels × depth × width."""
        return self.touched * self.width

    @property
    def touched(self) -> int:
        """One entry in every row of every level (errata E3-11)."""
        return len(self.levels) * self.depth

    @functools.cached_property
    def _keys(self) -> Words:
        return np.array(self.keys, dtype=np.uint64)

    def entries(self, codes: Integers) -> Integers:
        """The indices of the entries of each cell, level by level."""
        return np.concatenate([self.named(level, codes >> (2 * (self.grid.depth - level))) for level in self.levels], 1)

    def named(self, level: int, codes: Integers) -> Integers:
        """The indices of the ``depth`` entries of each square of one level, given the code of the square.

        Args:
            level: The level of the squares.
            codes: Codes of the squares.
        """
        place = self.levels.index(level)
        a, b = self._keys[place, :, 0], self._keys[place, :, 1]
        mixed = (np.asarray(codes).astype(np.uint64)[:, None] * a + b) >> np.uint64(39)
        entry = (mixed.astype(np.int64) * self.width) >> 25
        return np.asarray(entry + (place * self.depth + np.arange(self.depth)) * self.width)

    def to_dict(self) -> dict[str, Any]:
        """The encoding as plain numbers and texts, for questions."""
        keys = [[list(pair) for pair in rows] for rows in self.keys]
        return {"kind": "sketch", "levels": list(self.levels), "width": self.width, "keys": keys}


def encoding_from_dict(grid: Grid, fields: Mapping[str, Any]) -> Encoding:
    """Rebuild an encoding from the fields that its ``to_dict`` returned.

    Args:
        grid: The public grid.
        fields: The fields, from a server that may be hostile; every field is checked.

    Raises:
        InvalidInput: The kind is unknown or a field is out of range.
    """
    match fields["kind"]:
        case "regions":
            return Regions(Partition(grid, np.array(fields["levels"]), np.array(fields["codes"])))
        case "squares":
            return Squares(grid, fields["level"])
        case "mesh":
            return Mesh(grid, fields["rows"], fields["cols"], np.array(fields["parts"]))
        case "sketch":
            keys = tuple(tuple(tuple(pair) for pair in rows) for rows in fields["keys"])
            return Sketch(grid, tuple(fields["levels"]), fields["width"], keys)
    raise InvalidInput(
        f"Unknown encoding {shown(fields['kind'])}; expected regions, squares, mesh or sketch. The question may "
        "come from a newer version."
    )
