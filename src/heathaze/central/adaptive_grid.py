"""AdaptiveGrid: a coarse grid, each block cut again by what it was found to hold (AG of Qardaji, Yang, Li 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heathaze.central.flat import check_every_cell
from heathaze.central.uniform_grid import (
    UNITS_A_BLOCK,
    blocks_a_side,
    border,
    borders,
    budgets,
    check_people,
    masses,
    noisy_units,
    running_sums,
)
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import Composition, DiscreteLaplace
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

ALPHA = Fraction(1, 2)
"""Part of the counting budget that the coarse blocks get (the paper's α)."""

LEAST_BLOCKS = 10
"""The coarse grid has at least so many blocks a side, as far as there are cells."""

COARSENING = 4
"""The coarse grid has a quarter of the blocks a side that UniformGrid would have."""

UNITS_A_PART = UNITS_A_BLOCK / 2
"""The paper's c2 = c/2: parts may be smaller than UniformGrid's blocks, since the blocks' own counts steady them."""


@dataclass(frozen=True)
class AdaptiveGrid:
    """Discrete Laplace noise on coarse blocks and on parts of them, more parts where more mass was found; see
    ``adaptive_grid.md``.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release.
        people: About how many units are expected: a public guess made before the data are seen. Without it, 2 % of ε
            counts them. A wrong guess costs accuracy, never privacy.
    """

    grid: Grid
    epsilon: Fraction
    people: int | None = None

    if TYPE_CHECKING:  # callers may write epsilon as any number; it is kept as an exact fraction

        def __init__(self, grid: Grid, epsilon: Number, people: int | None = None) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_every_cell(self.grid)
        check_people(self.people)

    def event(self, bound: int) -> Composition:
        """The total, if nobody guessed it, the blocks and the parts; each is a partition."""
        total, rest = budgets(self.epsilon, self.people)
        spent = (total, rest * ALPHA, rest * (1 - ALPHA))
        return Composition(tuple(DiscreteLaplace(bound, laplace_scale(bound, epsilon)) for epsilon in spent if epsilon))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Count the blocks, cut each by its count, count the parts, reconcile, cut at zero, spread evenly."""
        total, rest = budgets(self.epsilon, self.people)
        sums = running_sums(counts)
        units = noisy_units(sums, counts.bound, total, randomness) if total else float(self.people or 0)
        blocks = cut_coarsely(self.grid, float(blocks_a_side(units, rest, UNITS_A_BLOCK)))
        coarse = self._noisy(sums, blocks, rest * ALPHA, counts.bound, randomness)
        wanted = blocks_a_side(coarse / counts.bound, rest * (1 - ALPHA), UNITS_A_PART)
        parts, inside = cut_finely(blocks, wanted)
        fine = self._noisy(sums, parts, rest * (1 - ALPHA), counts.bound, randomness)
        mass = np.maximum(reconcile(coarse, fine, inside), 0)
        even = mass / ((parts.bottom - parts.top) * (parts.right - parts.left))
        density = Density.from_mass(self.grid, even[which(self.grid, parts)])
        return Estimate(density, total=float(mass.sum(dtype=np.float64)) / counts.one)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon), "people": self.people}

    def _noisy(
        self, sums: Integers, rectangles: Rectangles, epsilon: Fraction, bound: int, randomness: Randomness
    ) -> Integers:
        scale = laplace_scale(bound, epsilon)
        return masses(sums, *rectangles) + discrete_laplace(scale, len(rectangles.top), randomness)


class Rectangles(NamedTuple):
    """First and last-plus-one row, first and last-plus-one column of each."""

    top: Integers
    bottom: Integers
    left: Integers
    right: Integers


def cut_coarsely(grid: Grid, uniform: float) -> Rectangles:
    """The blocks of the first level, row by row: m1 = max(10, √(N ε / c) / 4) a side."""
    blocks = max(LEAST_BLOCKS, uniform / COARSENING)
    down, across = borders(grid.rows, blocks), borders(grid.cols, blocks)
    row, col = np.divmod(np.arange((len(down) - 1) * (len(across) - 1)), len(across) - 1)
    return Rectangles(down[row], down[row + 1], across[col], across[col + 1])


def cut_finely(blocks: Rectangles, wanted: Floats) -> tuple[Rectangles, Integers]:
    """The parts of every block, ⌈wanted⌉ a side as far as there are cells, and the block that each lies in."""
    heights, widths = blocks.bottom - blocks.top, blocks.right - blocks.left
    rows = np.ceil(np.minimum(wanted, heights)).astype(np.int64)
    cols = np.ceil(np.minimum(wanted, widths)).astype(np.int64)
    inside = np.repeat(np.arange(len(rows)), rows * cols)
    firsts = np.cumsum(rows * cols) - rows * cols
    row, col = np.divmod(np.arange(len(inside)) - firsts[inside], cols[inside])
    parts = Rectangles(
        blocks.top[inside] + border(row, heights[inside], rows[inside]),
        blocks.top[inside] + border(row + 1, heights[inside], rows[inside]),
        blocks.left[inside] + border(col, widths[inside], cols[inside]),
        blocks.left[inside] + border(col + 1, widths[inside], cols[inside]),
    )
    return parts, inside


def reconcile(coarse: Integers, fine: Integers, inside: Integers) -> Floats:
    """Parts that sum to the best estimate of their block (the paper's constrained inference).

    A block of k parts is known twice: by its own count, of variance ∝ 1/α², and by the sum of its parts, of variance
    ∝ k/(1 − α)². The average weighted by the inverse variances is the best; its difference to the sum is handed out
    evenly.

    >>> reconcile(np.array([10]), np.array([4, 1]), np.array([0, 0])).round(3).tolist()    # 2/3 of 10, 1/3 of 5
    [5.667, 2.667]
    """
    parts = np.bincount(inside, minlength=len(coarse))
    alpha = float(ALPHA)
    # w = α² k / (α² k + (1 − α)²)
    weight = alpha**2 * parts / (alpha**2 * parts + (1 - alpha) ** 2)
    firsts = np.cumsum(parts) - parts
    missing = weight * (coarse - np.add.reduceat(fine, firsts)) / parts
    return np.asarray(fine + missing[inside], dtype=np.float64)


def which(grid: Grid, parts: Rectangles) -> Integers:
    """For every cell, the rectangle that it lies in: corners marked with the rectangle's number, and summed up."""
    marks = np.zeros((grid.rows + 1, grid.cols + 1), dtype=np.int64)
    numbers = np.arange(len(parts.top))
    # Rectangles that tile the grid have different north-west corners, and so on round; no mark is lost.
    marks[parts.top, parts.left] += numbers
    marks[parts.bottom, parts.right] += numbers
    marks[parts.top, parts.right] -= numbers
    marks[parts.bottom, parts.left] -= numbers
    np.cumsum(marks, axis=0, out=marks)
    np.cumsum(marks, axis=1, out=marks)
    return marks[:-1, :-1]
