"""Counts: integer mass per cell, at most ``bound`` per protected unit. Secret; prints no values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import deinterleave, exists, interleave
from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy.guarantee import Unit
from heathaze.types import Integers


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Integer mass on the cells of a grid. Secret: it is what a mechanism reads, and it prints no values.

    Adding or removing one unit changes the mass by at most ``bound`` in ℓ1. That is the sensitivity of every level of
    the quadtree, because each level is a partition (errata E0-2).

    Args:
        grid: The public frame.
        codes: Morton codes of the non-empty cells, ascending.
        mass: Their integer mass, not negative.
        bound: The largest mass that one unit adds.
        one: The mass of one unit (weight "share") or of one presence; counts are divided by it after the noise.
        unit: What is protected.
        at_most: How many distinct cells of a unit count at most, or None for all.
        weight: "share" or "presence".
    """

    grid: Grid
    codes: Integers
    mass: Integers
    bound: int
    one: int
    unit: Unit
    at_most: int | None = None
    weight: str = "share"
    _sums: Integers = field(init=False)

    def __post_init__(self) -> None:
        codes = np.ascontiguousarray(self.codes, dtype=np.int64)
        mass = np.ascontiguousarray(self.mass, dtype=np.int64)
        if codes.shape != mass.shape or codes.ndim != 1:
            raise InvalidInput("Counts need one mass for each cell.")
        if (np.diff(codes) <= 0).any() or (mass < 0).any():
            raise InvalidInput("Counts need ascending cells and masses that are not negative.")
        if not exists(self.grid, self.grid.depth, codes).all() or (codes < 0).any():
            raise InvalidInput("Counts hold a cell that the grid does not have.")
        if self.bound < 1 or self.one < 1:
            raise InvalidInput("Counts need a positive bound per unit.")
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "mass", mass)
        object.__setattr__(self, "_sums", np.concatenate([[0], np.cumsum(mass, dtype=np.int64)]))

    @classmethod
    def from_cells(
        cls,
        grid: Grid,
        rows: npt.ArrayLike,
        cols: npt.ArrayLike,
        mass: npt.ArrayLike,
        *,
        bound: int,
        one: int,
        unit: Unit,
        at_most: int | None = None,
        weight: str = "share",
    ) -> Counts:
        """Counts from rows, columns and masses in any order, each cell once; the rest as in :class:`Counts`."""
        codes = interleave(rows, cols)
        order = np.argsort(codes)
        masses = np.asarray(mass, dtype=np.int64)
        return cls(grid, codes[order], masses[order], bound, one, unit, at_most, weight)

    def at(self, level: int, nodes: Integers) -> Integers:
        """Mass inside each node of a level: two look-ups in a running sum, at any size of the grid.

        Args:
            level: Level of the quadtree, 0 for the root.
            nodes: Morton codes of nodes of that level.
        """
        shift = 2 * (self.grid.depth - level)
        first = np.searchsorted(self.codes, nodes << shift)
        last = np.searchsorted(self.codes, (nodes + 1) << shift)
        return self._sums[last] - self._sums[first]

    def dense(self) -> Integers:
        """Mass per cell as an array of the grid's shape."""
        if self.grid.cells > 2**26:
            raise TooLarge(
                f"{self.grid.rows} × {self.grid.cols} cells do not fit densely; use a mechanism on the tree."
            )
        image = np.zeros(self.grid.shape, dtype=np.int64)
        image[deinterleave(self.codes)] = self.mass
        return image

    def __repr__(self) -> str:
        return f"<Counts: secret, on {self.grid.rows} × {self.grid.cols} cells, unit {self.unit.value}>"
