"""UniformGrid: noisy counts of equal blocks, whose size follows from the number of people (UG, Qardaji et al. 2013)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.central.mechanism import check_every_cell, check_people
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

UNITS_A_BLOCK = 10
"""The paper's c: with about c/ε units in a block, the errors by noise and by unevenness inside blocks are equal."""

TOTAL_SHARE = Fraction(1, 50)
"""Part of ε that counts all units when the caller gives no guess of their number."""


@dataclass(frozen=True, init=False)
class UniformGrid:
    """Discrete Laplace noise on m × m blocks of cells, m = √(N ε / 10), spread evenly; see ``uniform_grid.md``.

    Args:
        grid: The public frame, at most 2^24 cells.
        epsilon: Privacy loss of the whole release, above 0.
        people: About how many units are expected: a public guess made before the data are seen. Without it, 2 % of ε is
            spent on counting them. A wrong guess costs accuracy, never privacy.

    Raises:
        TooLarge: The grid has more cells.
        InvalidInput: ``people`` is no whole number from 1.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=64)
    >>> len(UniformGrid(grid, epsilon=1).event(1).events), len(UniformGrid(grid, epsilon=1, people=500).event(1).events)
    (2, 1)
    """

    grid: Grid
    epsilon: Fraction
    people: int | None

    def __init__(self, grid: Grid, epsilon: Number, people: int | None = None) -> None:
        check_every_cell(grid)
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), people=check_people(people))

    def event(self, bound: int) -> Composition:
        """The total, if no guess was given, and the blocks; each is a partition.

        Args:
            bound: The most mass of one unit.
        """
        total, rest = budgets(self.epsilon, self.people)
        return Composition(
            tuple(DiscreteLaplace(bound, laplace_scale(bound, epsilon)) for epsilon in (total, rest) if epsilon)
        )

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Every block plus noise, cut at zero, spread evenly over its cells.

        Args:
            counts: The secret counts.
            randomness: Where the noise comes from.
        """
        total, rest = budgets(self.epsilon, self.people)
        sums = running_sums(counts)
        units = noisy_units(sums, counts.bound, total, randomness) if total else float(self.people or 0)
        blocks = float(blocks_a_side(units, rest, UNITS_A_BLOCK))
        down, across = borders(self.grid.rows, blocks), borders(self.grid.cols, blocks)
        exact = masses(sums, down[:-1, None], down[1:, None], across[:-1], across[1:])
        noise = discrete_laplace(laplace_scale(counts.bound, rest), exact.size, randomness).reshape(exact.shape)
        mass = np.maximum(exact + noise, 0)
        heights, widths = np.diff(down), np.diff(across)
        even = mass / (heights[:, None] * widths)
        density = Density.from_mass(self.grid, np.repeat(np.repeat(even, heights, axis=0), widths, axis=1))
        return Estimate(density, total=float(mass.sum(dtype=np.float64)) / counts.one)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon), "people": self.people}


def budgets(epsilon: Fraction, people: int | None) -> tuple[Fraction, Fraction]:
    """ε of the total (0 if a guess is given), and ε of everything else.

    >>> budgets(Fraction(1), None), budgets(Fraction(1), 500)
    ((Fraction(1, 50), Fraction(49, 50)), (Fraction(0, 1), Fraction(1, 1)))
    """
    return (epsilon * TOTAL_SHARE, epsilon * (1 - TOTAL_SHARE)) if people is None else (Fraction(0), epsilon)


def noisy_units(sums: Integers, bound: int, epsilon: Fraction, randomness: Randomness) -> float:
    """A noisy number of units: the noisy mass divided by the most mass of one unit, at least 0.

    Args:
        sums: Running sums of the secret mass.
        bound: The most mass of one unit.
        epsilon: What this count costs.
        randomness: Where the noise comes from.
    """
    noise = discrete_laplace(laplace_scale(bound, epsilon), 1, randomness)
    return max(0.0, float(sums[-1, -1] + noise[0]) / bound)


def blocks_a_side(units: npt.ArrayLike, epsilon: Fraction | float, units_a_block: float) -> Floats:
    """How many blocks a side: m = √(N ε / c), at least 1 and not yet rounded; infinite without noise.

    Args:
        units: N, the number of units, one or many.
        epsilon: Privacy loss of the counts.
        units_a_block: c.

    >>> float(blocks_a_side(1000, Fraction(1), 10))
    10.0
    """
    held = np.maximum(np.asarray(units, dtype=np.float64), 0)
    if epsilon == math.inf:
        return np.full_like(held, math.inf)
    return np.maximum(1, np.sqrt(held * float(epsilon) / units_a_block))


def borders(length: int, parts: float) -> Integers:
    """Where a side is cut into ⌈parts⌉ nearly equal parts, at whole cells and at most one part a cell.

    Args:
        length: Cells of the side.
        parts: How many parts are wanted.

    Returns:
        Borders from 0 to ``length``.

    >>> borders(10, 3.0).tolist(), borders(2, 3.0).tolist()
    ([0, 3, 7, 10], [0, 1, 2])
    """
    count = math.ceil(min(parts, length))
    return border(np.arange(count + 1), np.int64(length), np.int64(count))


def border(k: Integers, length: Integers | np.int64, parts: Integers | np.int64) -> Integers:
    """Where part k begins: k · length / parts, rounded to the nearest cell. No part is empty if parts ≤ length."""
    return np.asarray((2 * k * length + parts) // (2 * parts), dtype=np.int64)


def running_sums(counts: Counts) -> Integers:
    """Mass above and to the left of each corner of the cells, so that the mass of a rectangle is four look-ups."""
    sums = np.zeros((counts.grid.rows + 1, counts.grid.cols + 1), dtype=np.int64)
    np.cumsum(counts.dense(), axis=0, out=sums[1:, 1:])
    np.cumsum(sums[1:, 1:], axis=1, out=sums[1:, 1:])
    return sums


def masses(sums: Integers, top: Integers, bottom: Integers, left: Integers, right: Integers) -> Integers:
    """Mass of each rectangle of cells, from running sums and the first and last-plus-one rows and columns."""
    return sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
