"""UniformGrid: noisy counts of equal blocks; the number of people sets their size (UG, Qardaji et al. 2013)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.central.mechanism import check_every_cell, check_people
from heathaze.central.nonnegative import nonnegative_cells
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
"""The paper's c. With about c/ε units in a block, noise and unevenness inside blocks cause equal errors."""

TOTAL_SHARE = Fraction(1, 50)
"""The share of ε that is spent on counting all units when the caller gives no guess of their number."""


@dataclass(frozen=True, init=False)
class UniformGrid:
    """Discrete Laplace noise on m × m blocks of cells, each spread evenly over its cells; see ``uniform_grid.md``.

    The number of blocks along a side is m = √(N ε / 10) for N units.

    Args:
        grid: The public frame, at most 2^24 cells.
        epsilon: Privacy loss of the whole release, above 0.
        people: About how many units are expected: a public guess made before the data are seen. Without a guess, 2 % of
            ε is spent on counting the units. A wrong guess costs accuracy, never privacy.

    Raises:
        TooLarge: The grid has more than 2^24 cells.
        InvalidInput: ``people`` is not a whole number of at least 1.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=64)
    >>> len(UniformGrid(grid, epsilon=1).event(1).events), len(UniformGrid(grid, epsilon=1, people=500).event(1).events)
    (2, 1)
    """

    grid: Grid
    epsilon: Fraction
    people: int | None

    def __init__(self, grid: Grid, epsilon: Number, people: int | None = None) -> None:
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), people=check_people(people))
        check_every_cell(grid)

    def event(self, bound: int) -> Composition:
        """Describe one or two releases with Laplace noise: the total (if no guess was given) and the blocks.

        One unit changes the counts of each release by at most ``bound`` in ℓ1, because blocks do not overlap.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event, from which the privacy loss is computed.
        """
        total, rest = budgets(self.epsilon, self.people)
        return Composition(
            tuple(DiscreteLaplace(bound, laplace_scale(bound, epsilon)) for epsilon in (total, rest) if epsilon)
        )

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Add noise to every block, spread each block evenly over its cells, and make the cells non-negative.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The estimate.
        """
        total, rest = budgets(self.epsilon, self.people)
        sums = running_sums(counts)
        units = noisy_units(sums, counts.bound, total, randomness) if total else float(self.people or 0)
        blocks = float(blocks_a_side(units, rest, UNITS_A_BLOCK))
        down, across = borders(self.grid.rows, blocks), borders(self.grid.cols, blocks)
        exact = masses(sums, down[:-1, None], down[1:, None], across[:-1], across[1:])
        noise = discrete_laplace(laplace_scale(counts.bound, rest), exact.size, randomness).reshape(exact.shape)
        noisy = (exact + noise).astype(np.float64)
        if total:
            # in units of 2 B²/ε², the noise of the sum of all blocks has variance (number of blocks) / (1 − s)²
            noisy += missing(units * counts.bound, noisy, noisy.size / (1 - TOTAL_SHARE) ** 2) / noisy.size
        heights, widths = np.diff(down), np.diff(across)
        even = noisy / (heights[:, None] * widths)
        mass = nonnegative_cells(self.grid, np.repeat(np.repeat(even, heights, axis=0), widths, axis=1))
        return Estimate(
            Density.from_mass(self.grid, mass), total=float(mass.sum()) / counts.one, simulated=randomness.simulated
        )

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon), "people": self.people}


def budgets(epsilon: Fraction, people: int | None) -> tuple[Fraction, Fraction]:
    """Split ε between the noisy number of units (0 if the caller gave a guess) and the counts of the blocks.

    >>> budgets(Fraction(1), None), budgets(Fraction(1), 500)
    ((Fraction(1, 50), Fraction(49, 50)), (Fraction(0, 1), Fraction(1, 1)))
    """
    return (epsilon * TOTAL_SHARE, epsilon * (1 - TOTAL_SHARE)) if people is None else (Fraction(0), epsilon)


def noisy_units(sums: Integers, bound: int, epsilon: Fraction, randomness: Randomness) -> float:
    """Count all units with noise, to set the size of the blocks: (total mass + noise) / ``bound``.

    Args:
        sums: Running sums of the secret mass.
        bound: The most mass of one unit.
        epsilon: The privacy loss of this count.
        randomness: The source of the noise.
    """
    noise = discrete_laplace(laplace_scale(bound, epsilon), 1, randomness)
    return float(sums[-1, -1] + noise[0]) / bound


def missing(total: float, noisy: Floats, variance: Fraction | float) -> float:
    """Compute how much mass to add to noisy counts so that they sum to the best estimate of the total.

    The best estimate is the average of the noisy total and the sum of the counts, with weights inverse to their
    variances. In units of 2 B²/ε², the noisy total has variance 1/s², with s = TOTAL_SHARE.

    Args:
        total: The noisy total, which cost the share s of ε.
        noisy: The noisy counts.
        variance: The variance of their sum, in units of 2 B²/ε².

    >>> missing(130.0, np.array([60.0, 40.0]), 2500)    # both have variance 2500, so the best estimate is 115
    15.0
    """
    weight = float(variance / (variance + 1 / TOTAL_SHARE**2))
    return weight * (total - float(noisy.sum()))


def blocks_a_side(units: npt.ArrayLike, epsilon: Fraction | float, units_a_block: float) -> Floats:
    """Compute the number of blocks along a side, m = √(N ε / c), at least 1 and not rounded; infinite without noise.

    Args:
        units: The number of units N in the area that is cut into blocks; an array for several areas.
        epsilon: Privacy loss of the counts of the blocks.
        units_a_block: The paper's constant c, see UNITS_A_BLOCK.

    >>> float(blocks_a_side(1000, Fraction(1), 10))
    10.0
    """
    held = np.maximum(np.asarray(units, dtype=np.float64), 0)
    if epsilon == math.inf:
        return np.full_like(held, math.inf)
    return np.maximum(1, np.sqrt(held * float(epsilon) / units_a_block))


def borders(length: int, parts: float) -> Integers:
    """Cut a side of the map into nearly equal parts of whole cells, see :func:`whole_parts`.

    Args:
        length: The number of cells along the side.
        parts: The wanted number of parts.

    Returns:
        The borders of the parts, from 0 to ``length``.

    >>> borders(12, 3.0).tolist(), borders(10, 3.0).tolist(), borders(2, 3.0).tolist()
    ([0, 4, 8, 12], [0, 3, 5, 8, 10], [0, 1, 2])
    """
    count = whole_parts(np.int64(length), np.float64(parts))
    return border(np.arange(int(count) + 1), np.int64(length), np.int64(count))


def whole_parts(length: Integers | np.int64, parts: Floats | np.float64) -> Integers:
    """Compute into how many parts a side of whole cells is cut: the fewest of at most ⌊length / parts⌋ cells each.

    Cutting 128 cells into 100 parts would make parts of one and of two cells. The larger parts would lose detail that
    the noise does not hide, so the side is cut into 128 parts instead. A part has at least one cell.

    Args:
        length: The number of cells along the side.
        parts: The wanted number of parts, at least 1.

    >>> int(whole_parts(np.int64(128), np.float64(32))), int(whole_parts(np.int64(128), np.float64(100)))
    (32, 128)
    """
    most = np.maximum(1, np.floor(length / parts)).astype(np.int64)
    return np.asarray(-(-length // most), dtype=np.int64)


def border(k: Integers, length: Integers | np.int64, parts: Integers | np.int64) -> Integers:
    """Find the cell at which part k of a side begins: k · length / parts, rounded to the nearest whole cell.

    No part is empty if parts ≤ length.
    """
    return np.asarray((2 * k * length + parts) // (2 * parts), dtype=np.int64)


def running_sums(counts: Counts) -> Integers:
    """Sum the mass above and to the left of each corner of a cell; the mass of a rectangle is then four look-ups."""
    sums = np.zeros((counts.grid.rows + 1, counts.grid.cols + 1), dtype=np.int64)
    np.cumsum(counts.dense(), axis=0, out=sums[1:, 1:])
    np.cumsum(sums[1:, 1:], axis=1, out=sums[1:, 1:])
    return sums


def masses(sums: Integers, top: Integers, bottom: Integers, left: Integers, right: Integers) -> Integers:
    """Compute the mass of each rectangle of cells from running sums; ``bottom`` and ``right`` are one past the last."""
    return sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
