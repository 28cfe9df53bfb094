"""Counts of visits: secret integer mass per cell, with at most the mass ``bound`` for each protected unit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import deinterleave, exists, interleave
from heathaze.errors import InvalidInput, TooLarge, expect
from heathaze.privacy.guarantee import Unit
from heathaze.types import Integers


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Counts of visits, the secret input of mechanisms: integer mass on the cells of a grid. It prints no values.

    Adding or removing one unit changes the mass by at most ``bound`` in ℓ1. This is also the sensitivity of the node
    masses of every level of the quadtree, because each cell lies in exactly one node of each level (errata E0-2).

    Args:
        grid: The public grid.
        codes: Morton codes of the non-empty cells, in rising order.
        mass: The integer mass of each of these cells, at least 0.
        bound: The largest mass that one unit adds.
        one: The mass of one unit (weight "share"), or of one cell of a unit (weight "presence"). Noisy masses are
            divided by this number.
        unit: The protected unit.
        at_most: The largest number of distinct cells that count for one unit, or None for all its cells.
        weight: "share" or "presence".

    Raises:
        InvalidInput: Cells and masses do not fit together or the grid, or the bound or ``one`` is below 1.

    >>> grid = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    >>> counts = Counts.from_cells(grid, rows=[0, 0], cols=[0, 1], mass=[5, 15], bound=10, one=10, unit=Unit.PERSON)
    >>> counts, counts.dense().tolist()
    (<Counts: secret, on 1 × 2 cells, unit person>, [[5, 15]])
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
        expect(Grid, self.grid, "The grid")
        codes = np.ascontiguousarray(self.codes, dtype=np.int64)
        mass = np.ascontiguousarray(self.mass, dtype=np.int64)
        if codes.shape != mass.shape or codes.ndim != 1:
            raise InvalidInput("Counts need one mass for each cell.")
        if (np.diff(codes) <= 0).any() or (mass < 0).any():
            raise InvalidInput("Counts need ascending cells and masses that are not negative.")
        if not exists(self.grid, self.grid.depth, codes).all() or (codes < 0).any():
            raise InvalidInput("Counts hold a cell that the grid does not have.")
        if len(mass) and float(mass.sum(dtype=np.float64)) >= 2**62:
            raise InvalidInput("Counts hold more mass than 64 bits can add up; give each unit less mass.")
        if self.bound < 1 or self.one < 1:
            raise InvalidInput("Counts need a positive bound per unit.")
        assign(self, codes=codes, mass=mass, _sums=np.concatenate([[0], np.cumsum(mass, dtype=np.int64)]))

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
        """Make counts from cells in any order.

        Args:
            grid: The public grid.
            rows: Row of each cell; no cell occurs twice.
            cols: Column of each cell.
            mass: Integer mass of each cell, at least 0.
            bound: The largest mass that one unit adds.
            one: The mass of one unit, or of one cell of a unit, as in the class.
            unit: The protected unit.
            at_most: The largest number of distinct cells that count for one unit, or None for all its cells.
            weight: "share" or "presence".

        Returns:
            The counts, with their cells in the order of the codes.

        Raises:
            InvalidInput: A cell occurs twice, or the numbers do not fit together as in the class.
        """
        codes = interleave(rows, cols)
        order = np.argsort(codes)
        if (np.diff(codes[order]) == 0).any():
            raise InvalidInput("A cell is given twice; give each cell once, with all its mass.")
        masses = np.asarray(mass, dtype=np.int64)
        return cls(grid, codes[order], masses[order], bound, one, unit, at_most, weight)

    def at(self, level: int, nodes: Integers) -> Integers:
        """Return the mass in each quadtree node of a level, by two binary searches in the cumulative mass.

        Args:
            level: Level of the quadtree, 0 for the root.
            nodes: Morton codes of nodes of this level.
        """
        shift = 2 * (self.grid.depth - level)
        first = np.searchsorted(self.codes, nodes << shift)
        last = np.searchsorted(self.codes, (nodes + 1) << shift)
        return self._sums[last] - self._sums[first]

    def dense(self) -> Integers:
        """Return the mass of every cell, as an array of the grid's shape.

        Raises:
            TooLarge: The grid has more than 2^26 cells.
        """
        if self.grid.cells > 2**26:
            raise TooLarge(
                f"{self.grid.rows} × {self.grid.cols} cells do not fit densely; use a mechanism on the tree."
            )
        image = np.zeros(self.grid.shape, dtype=np.int64)
        image[deinterleave(self.codes)] = self.mass
        return image

    def __repr__(self) -> str:
        return f"<Counts: secret, on {self.grid.rows} × {self.grid.cols} cells, unit {self.unit.value}>"
