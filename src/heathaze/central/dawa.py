"""Dawa: a private partition of the cells into buckets of similar cells, then noisy bucket counts (Li et al. 2014).

The cells are put in the order of a Hilbert curve, so that neighbours on the curve are neighbours on the map. A binary
tree halves the curve again and again. A partition of the map is a set of nodes of this tree that covers every cell
once; its nodes are the buckets. The page ``dawa.md`` has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.central.nonnegative import nonnegative_cells
from heathaze.checks import assign
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import Composition, DiscreteLaplace, ExponentialChoice
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness
from heathaze.privacy.selection import logistic_coins
from heathaze.types import Booleans, Integers

PARTITION_SHARE = Fraction(1, 3)
"""The share of ε that chooses the partition."""

TOTAL_SHARE = Fraction(1, 30)
"""The share of ε that counts all units; the buckets get the rest."""

SPLIT = Fraction(2, 5)
"""The probability that a node is split if all cells are equal. A value below 1/2 gives empty regions few buckets."""

FIRST_BLOCKS = 6
"""The number of tree levels that are always split: the whole curve is halved six times, into 64 blocks."""

MOST_CELLS = 2**20
"""The most cells of a grid: the coins of all nodes are thrown one by one."""

UNITS = 16
"""Energies are integers in units of 2^−16 of a mass of 1, so that rounding them costs next to no privacy."""

_LARGEST = 2**45
"""Larger deviations are cut off at this value, so that energies fit into 64 bits. Ten million people come near."""

_ALWAYS = -(2**62)
"""Stands for the energy difference of a node that is always split."""

_LEAST_RATE = Fraction(1, 2**49)
"""The smallest rate. With a smaller one, the error of a logarithm in floats would exceed half a unit of energy."""


@dataclass(frozen=True, init=False)
class Dawa:
    """Buckets of similar cells along a Hilbert curve, chosen privately and counted with noise; see ``dawa.md``.

    Args:
        grid: The public frame, at most 2^20 cells.
        epsilon: Privacy loss of the whole release, above 0.

    Raises:
        TooLarge: The grid has more than 2^20 cells.

    >>> Dawa(Grid.plane(x=(0, 1), y=(0, 1), size=64), epsilon=1).parameters()
    {'epsilon': '1'}
    """

    grid: Grid
    epsilon: Fraction

    def __init__(self, grid: Grid, epsilon: Number) -> None:
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon))
        if grid.cells > MOST_CELLS:
            raise TooLarge(
                f"{grid.rows} × {grid.cols} cells are too many for Dawa, which takes at most 2^20; use a coarser grid, "
                "or PrivTree, whose cost does not grow with the resolution."
            )

    def event(self, bound: int) -> Composition:
        """Describe the choice of the partition and two releases with Laplace noise: the total and the buckets.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event, from which the privacy loss is computed.

        Raises:
            InvalidInput: ε is too small for exact arithmetic.
        """
        counted = 1 - PARTITION_SHARE - TOTAL_SHARE
        return Composition(
            (
                self.choice(bound),
                DiscreteLaplace(bound, laplace_scale(bound, self.epsilon * TOTAL_SHARE)),
                DiscreteLaplace(bound, laplace_scale(bound, self.epsilon * counted)),
            )
        )

    def choice(self, bound: int) -> ExponentialChoice:
        """Compute the rate at which energy makes a partition less likely: rate = ε/3 over the sensitivity.

        Adding one grain (a mass of 1) changes a partition's energy by −1 to 3 grains, and rounding the energies of the
        nodes above the grain adds up to 4 units for each of the tree's levels.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event of the choice.

        Raises:
            InvalidInput: ε is too small for exact arithmetic.
        """
        sensitivity = bound * (4 * 2**UNITS + 4 * _height(self.grid.cells))
        rate = self.epsilon * PARTITION_SHARE / sensitivity
        if rate < _LEAST_RATE:
            raise InvalidInput(
                f"epsilon is {float(self.epsilon):.3g}; Dawa needs a larger one, or a smaller mass for each unit."
            )
        return ExponentialChoice(sensitivity, rate)

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Choose the buckets, count them and the total with noise, reconcile, spread, and make non-negative.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The estimate.
        """
        order = hilbert_order(self.grid)
        line = np.zeros(2 ** _height(self.grid.cells), dtype=np.int64)
        line[: self.grid.cells] = counts.dense().ravel()[order]
        rate = None if self.epsilon == math.inf else self.choice(counts.bound).rate
        starts = choose_buckets(line, self.grid.cells, rate, randomness)
        counted = 1 - PARTITION_SHARE - TOTAL_SHARE
        scales = [laplace_scale(counts.bound, self.epsilon * share) for share in (TOTAL_SHARE, counted)]
        total = float(line.sum() + discrete_laplace(scales[0], 1, randomness)[0])
        noisy = (np.add.reduceat(line, starts) + discrete_laplace(scales[1], len(starts), randomness)).astype(float)
        # The sum of n buckets has variance ∝ n/counted², the total 1/share². They are averaged by inverse variances.
        weight = float(len(starts) * TOTAL_SHARE**2 / (len(starts) * TOTAL_SHARE**2 + counted**2))
        noisy += weight * (total - noisy.sum()) / len(starts)
        sizes = np.diff(starts, append=self.grid.cells)
        cells = np.empty(self.grid.cells)
        cells[order] = np.repeat(noisy / sizes, sizes)
        mass = nonnegative_cells(self.grid, cells.reshape(self.grid.shape))
        return Estimate(
            Density.from_mass(self.grid, mass), total=float(mass.sum()) / counts.one, simulated=randomness.simulated
        )

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon)}


def _height(cells: int) -> int:
    """The number of levels below the root of the binary tree over a line of cells."""
    return (cells - 1).bit_length()


def hilbert_order(grid: Grid) -> Integers:
    """Order the cells of a grid along a Hilbert curve through the square around the grid.

    Args:
        grid: The frame.

    Returns:
        For each place on the curve, the index of its cell in row-major order.

    >>> hilbert_order(Grid.plane(x=(0, 1), y=(0, 1), size=2)).tolist()
    [0, 2, 3, 1]
    """
    row, col = np.divmod(np.arange(grid.cells), grid.cols)
    place = np.zeros(grid.cells, dtype=np.int64)
    half = 2**grid.depth // 2
    while half:
        down, right = (row & half) > 0, (col & half) > 0
        place += half * half * np.where(right, np.where(down, 2, 3), np.where(down, 1, 0))
        # The first and the last quarter of the curve are turned, so that quarters follow each other without a jump.
        row, col = row & (half - 1), col & (half - 1)
        last = right & ~down
        row, col = np.where(last, half - 1 - row, row), np.where(last, half - 1 - col, col)
        row, col = np.where(down, row, col), np.where(down, col, row)
        half //= 2
    return np.argsort(place)


def deviations(line: Integers) -> list[Integers]:
    """Measure for each node of the binary tree how uneven its cells are, in integers.

    The deviation of cells x_i is  min over c of Σ 3 (x_i − c)⁺ + (c − x_i)⁺,  which is attained at their upper
    quartile c. It is 0 if all cells are equal. One more grain changes it by −1 to 3.

    Args:
        line: Mass of each cell along the curve; the length is a power of two.

    Returns:
        For each height above the cells, from 0, the deviation of each node.

    >>> [found.tolist() for found in deviations(np.array([5, 5, 0, 8]))]
    [[0, 0, 0, 0], [0, 8], [14]]
    """
    found = [np.zeros(len(line), dtype=np.int64)]
    sorted_cells = line[:, None]
    while len(sorted_cells) > 1:
        # Two sorted halves are merged into one sorted row.
        sorted_cells = np.sort(sorted_cells.reshape(len(sorted_cells) // 2, -1), axis=1, kind="stable")
        cells = sorted_cells.shape[1]
        above = cells // 4
        quartile = sorted_cells[:, cells - above - 1]
        most, rest = sorted_cells[:, cells - above :].sum(axis=1), sorted_cells[:, : cells - above].sum(axis=1)
        found.append(np.minimum(3 * (most - above * quartile) + ((cells - above) * quartile - rest), _LARGEST))
    return found


def split_exponents(uneven: list[Integers], rate: Fraction | None, first: int = FIRST_BLOCKS) -> list[Integers]:
    """Compute for each node the energy of splitting it minus the energy of keeping it as a bucket, in units.

    Let k be the deviation of a node, s the sum of its children's free energies, a and b the public energies of keeping
    and splitting. The free energy of the node is

        g = −ln(exp(−rate (k + a)) + exp(−rate (s + b))) / rate,  rounded to a whole unit,

    and the exact law of partitions splits a node with probability 1/(1 + exp(rate (s + b − k − a))).

    Args:
        uneven: Deviation of each node, by height.
        rate: The rate of the choice; None for no noise, and then the smaller energy is always chosen.
        first: The number of levels from the root that are always split.

    Returns:
        For each height from 0, the difference s + b − k − a of each node; nodes that are always split have _ALWAYS.
    """
    keep = split = 0
    if rate is not None:
        keep, split = (round(-math.log(chance) / rate) for chance in (1 - SPLIT, SPLIT))
    free = np.zeros(len(uneven[0]), dtype=np.int64)
    found = [np.zeros(len(free), dtype=np.int64)]
    for height in range(1, len(uneven)):
        if height > len(uneven) - 1 - first:
            found.append(np.full(len(uneven[height]), _ALWAYS))
            continue
        below = free[::2] + free[1::2] + split
        above = (uneven[height] << UNITS) + keep
        found.append(below - above)
        free = np.minimum(above, below)
        if rate is not None:
            slow = float(rate)
            free = free - np.rint(np.log1p(np.exp(-slow * np.abs(found[-1]))) / slow).astype(np.int64)
    return found


def choose_buckets(
    line: Integers, cells: int, rate: Fraction | None, randomness: Randomness, first: int = FIRST_BLOCKS
) -> Integers:
    """Choose a partition of the line into buckets by the exponential mechanism.

    Args:
        line: Secret mass of each cell along the curve, followed by zeros up to a power of two.
        cells: The number of cells; buckets beyond them are left out.
        rate: The rate of the choice, for each unit of energy; None for no noise.
        randomness: The source of random bits.
        first: The number of levels from the root that are always split.

    Returns:
        The place on the line where each bucket begins, ascending.
    """
    exponents = split_exponents(deviations(line), rate, first)
    starts: list[Integers] = []
    nodes = np.zeros(1, dtype=np.int64)
    for height in range(len(exponents) - 1, -1, -1):
        nodes = nodes[nodes << height < cells]
        split = _throw(exponents[height][nodes], rate, randomness) if height else np.zeros(len(nodes), dtype=np.bool_)
        starts.append(nodes[~split] << height)
        nodes = (2 * nodes[split][:, None] + np.arange(2)).ravel()
    return np.sort(np.concatenate(starts))


def _throw(exponents: Integers, rate: Fraction | None, randomness: Randomness) -> Booleans:
    """Throw for each node the exact coin that splits it; without noise a node is split if this lowers the energy."""
    if rate is None or (exponents == _ALWAYS).all():
        return exponents < 0
    return np.array(logistic_coins([rate * int(exponent) for exponent in exponents], randomness), dtype=np.bool_)
