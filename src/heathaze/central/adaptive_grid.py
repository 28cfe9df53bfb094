"""AdaptiveGrid: a coarse grid, each block cut again according to its noisy count (AG of Qardaji, Yang, Li 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from heathaze.central.mechanism import check_every_cell, check_people
from heathaze.central.nonnegative import nonnegative_cells
from heathaze.central.uniform_grid import (
    TOTAL_SHARE,
    UNITS_A_BLOCK,
    blocks_a_side,
    border,
    borders,
    budgets,
    masses,
    missing,
    noisy_units,
    running_sums,
    whole_parts,
)
from heathaze.checks import assign
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
"""The share of the budget for counts that the coarse blocks get (the paper's α); the parts get the rest."""

LEAST_BLOCKS = 10
"""The least number of coarse blocks along a side of the map, before the blocks are rounded to whole cells."""

COARSENING = 4
"""UniformGrid's number of blocks along a side, divided by that of the coarse grid."""

UNITS_A_PART = UNITS_A_BLOCK / 2
"""The paper's c2 = c/2. Parts may be smaller than UniformGrid's blocks, since the coarse count lowers their error."""


@dataclass(frozen=True, init=False)
class AdaptiveGrid:
    """Noisy counts of coarse blocks, each cut into more parts the larger its count is; see ``adaptive_grid.md``.

    Args:
        grid: The public frame, at most 2^24 cells.
        epsilon: Privacy loss of the whole release, above 0.
        people: About how many units are expected: a public guess made before the data are seen. Without a guess, 2 % of
            ε is spent on counting the units. A wrong guess costs accuracy, never privacy.

    Raises:
        TooLarge: The grid has more than 2^24 cells.
        InvalidInput: ``people`` is not a whole number of at least 1.

    >>> AdaptiveGrid(Grid.plane(x=(0, 1), y=(0, 1), size=64), epsilon=1, people=500).parameters()
    {'epsilon': '1', 'people': 500}
    """

    grid: Grid
    epsilon: Fraction
    people: int | None

    def __init__(self, grid: Grid, epsilon: Number, people: int | None = None) -> None:
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), people=check_people(people))
        check_every_cell(grid)

    def event(self, bound: int) -> Composition:
        """Describe up to three releases with Laplace noise: the total (if no guess was given), the blocks, the parts.

        One unit changes the counts of each release by at most ``bound`` in ℓ1, because blocks and parts do not overlap.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event, from which the privacy loss is computed.
        """
        total, rest = budgets(self.epsilon, self.people)
        spent = (total, rest * ALPHA, rest * (1 - ALPHA))
        return Composition(tuple(DiscreteLaplace(bound, laplace_scale(bound, epsilon)) for epsilon in spent if epsilon))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Count blocks, cut each into parts by its noisy count, count the parts, reconcile, spread, make non-negative.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The estimate.
        """
        total, rest = budgets(self.epsilon, self.people)
        sums = running_sums(counts)
        units = noisy_units(sums, counts.bound, total, randomness) if total else float(self.people or 0)
        blocks = cut_coarsely(self.grid, float(blocks_a_side(units, rest, UNITS_A_BLOCK)))
        coarse = self._noisy(sums, blocks, rest * ALPHA, counts.bound, randomness)
        wanted = blocks_a_side(coarse / counts.bound, rest * (1 - ALPHA), UNITS_A_PART)
        parts, inside = cut_finely(blocks, wanted)
        fine = self._noisy(sums, parts, rest * (1 - ALPHA), counts.bound, randomness)
        noisy = reconcile(coarse, fine, inside)
        if total:
            # in units of 2 B²/ε², a reconciled block of k parts has variance 1 / (1 − s)² / (α² + (1 − α)²/k)
            parts_a_block = np.bincount(inside)
            variance = float(np.sum(1 / (float(ALPHA) ** 2 + float(1 - ALPHA) ** 2 / parts_a_block)))
            more = missing(units * counts.bound, noisy, variance / float(1 - TOTAL_SHARE) ** 2)
            noisy += (more / len(blocks.top) / parts_a_block)[inside]
        even = noisy / ((parts.bottom - parts.top) * (parts.right - parts.left))
        mass = nonnegative_cells(self.grid, even[which(self.grid, parts)])
        return Estimate(
            Density.from_mass(self.grid, mass), total=float(mass.sum()) / counts.one, simulated=randomness.simulated
        )

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon), "people": self.people}

    def _noisy(
        self, sums: Integers, rectangles: Rectangles, epsilon: Fraction, bound: int, randomness: Randomness
    ) -> Integers:
        scale = laplace_scale(bound, epsilon)
        return masses(sums, *rectangles) + discrete_laplace(scale, len(rectangles.top), randomness)


class Rectangles(NamedTuple):
    """Rectangles of cells: first row and column (``top``, ``left``), and one past the last (``bottom``, ``right``)."""

    top: Integers
    bottom: Integers
    left: Integers
    right: Integers


def cut_coarsely(grid: Grid, uniform: float) -> Rectangles:
    """Cut the map into the coarse blocks of AdaptiveGrid: m1 = max(10, √(N ε / c) / 4) along each side.

    Args:
        grid: The frame.
        uniform: The number of blocks along a side that UniformGrid would have, √(N ε / c) for N units.

    Returns:
        The blocks, row by row.
    """
    blocks = max(LEAST_BLOCKS, uniform / COARSENING)
    # A block has at least two cells along a side: a block of one cell would be counted twice.
    sizes = [min(side, max(2, round(side / blocks))) for side in grid.shape]
    down, across = (borders(side, side / size) for side, size in zip(grid.shape, sizes, strict=True))
    row, col = np.divmod(np.arange((len(down) - 1) * (len(across) - 1)), len(across) - 1)
    return Rectangles(down[row], down[row + 1], across[col], across[col + 1])


def cut_finely(blocks: Rectangles, wanted: Floats) -> tuple[Rectangles, Integers]:
    """Cut every coarse block of AdaptiveGrid into parts, see :func:`heathaze.central.uniform_grid.whole_parts`.

    Args:
        blocks: The blocks.
        wanted: For each block, the number of parts along a side.

    Returns:
        The parts, and for each part the index of its block.
    """
    heights, widths = blocks.bottom - blocks.top, blocks.right - blocks.left
    rows, cols = whole_parts(heights, wanted), whole_parts(widths, wanted)
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
    """Adjust the parts so that they sum to the best estimate of their block (the paper's constrained inference).

    A block of k parts has two estimates: its own noisy count, with variance ∝ 1/α², and the sum of its parts, with
    variance ∝ k/(1 − α)². Among unbiased averages, the one weighted by the inverse variances has the least variance.
    The difference between this average and the sum of the parts is spread evenly over the parts.

    Args:
        coarse: Noisy count of each block.
        fine: Noisy count of each part.
        inside: For each part the index of its block, ascending.

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
    """Find for every cell of the grid the index of the rectangle that contains it; the rectangles tile the grid."""
    marks = np.zeros((grid.rows + 1, grid.cols + 1), dtype=np.int64)
    numbers = np.arange(len(parts.top))
    # Each corner of a rectangle is marked with the rectangle's index, and running sums spread the index over the
    # rectangle. No two rectangles share the same north-west corner (or any other of the four), so no mark is lost.
    marks[parts.top, parts.left] += numbers
    marks[parts.bottom, parts.right] += numbers
    marks[parts.top, parts.right] -= numbers
    marks[parts.bottom, parts.left] -= numbers
    np.cumsum(marks, axis=0, out=marks)
    np.cumsum(marks, axis=1, out=marks)
    return marks[:-1, :-1]
