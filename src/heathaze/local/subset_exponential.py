"""SubsetExponential: report a set of cells, of which one is drawn near the true cell and the others uniformly."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.local._window import MAX_MATRIX, check_true_cells
from heathaze.local.channels import Channel, Convolution
from heathaze.local.geo_indistinguishability import Decay, adjacency_by_length, decay, parse_cutoff, smallest_distance
from heathaze.local.mechanism import LocalMechanism, check_below
from heathaze.local.weights import floor_exp
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.randomness import Randomness
from heathaze.types import Booleans, Floats, Integers


@dataclass(frozen=True, init=False)
class SubsetExponential(LocalMechanism):
    """The subset exponential mechanism with a privacy loss per metre (SEM-Geo-I); see ``subset_exponential.md``.

        Pr[first member u | v] = w(u, v) / W(v),   w(u, v) = exp(−ε/2 · min(distance, cutoff)),   W(v) = Σ w(u, v)

    Here v is the true cell. The other k − 1 members are drawn uniformly from the remaining cells. A report is the
    sorted set of its k members.

    Args:
        grid: The public grid.
        epsilon: Privacy loss for each metre on the globe, or for each unit of length on a plane.
        size: The number k of cells in a report, at most half of the cells. If left out, :func:`paper_size`.
        cutoff: The distance beyond which all weights are equal, in the same unit of length. If left out, the shortest
            cutoff for which at most 1 % of all weight is spread evenly over the cells, if the map allows that.

    Raises:
        InvalidInput: ε is not positive or too small for this grid, or size or cutoff cannot be used.
        TooLarge: The grid has too many cells.

    >>> SubsetExponential(Grid.plane(x=(0, 10), y=(0, 10), size=10), epsilon=1).size
    36
    """

    size: int
    cutoff: Fraction

    def __init__(self, grid: Grid, epsilon: Number, size: int | None = None, cutoff: Number | None = None) -> None:
        super().__init__(grid, epsilon)
        chosen = paper_size(grid, self.epsilon) if size is None else size
        assign(
            self,
            size=whole(chosen, "size", "cells, at most half of the map", most=max(1, grid.cells // 2)),
            cutoff=parse_cutoff(grid, self.epsilon / 2, cutoff, margin=False),
        )

    @property
    def adjacency(self) -> Adjacency:
        """A privacy loss per metre on the globe, or per unit of length on a plane."""
        return adjacency_by_length(self.grid)

    @functools.cached_property
    def weights(self) -> Decay:
        """The weight of the first member for each offset from the true cell.

        The weights use ε/2, because their sum W(v) differs from cell to cell.
        """
        return decay(self.grid, self.epsilon / 2, self.cutoff, margin=False)

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """One number for each member of the set."""
        return self.size

    @property
    def limit(self) -> int:
        """Every member is the index of a cell of the grid."""
        return self.grid.cells

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw a sorted set of cells for each true cell. Sorting hides which member was drawn first.

        Args:
            cells: Index of each true cell in the grid.
            randomness: The source of the draws.

        Returns:
            One row for each report: the indices of its cells, in ascending order.
        """
        check_true_cells(cells, self.grid.cells)
        first = self._members(cells, randomness)
        others = randomness.below(self.grid.cells, len(cells) * (self.size - 1)).astype(np.int64)
        return _made_distinct(
            np.column_stack([first, others.reshape(len(cells), self.size - 1)]), self.grid.cells, randomness
        )

    def _members(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw the first member of each set by its weight, by rejection: draws outside of the grid are repeated."""
        weights, (height, width) = self.weights, self.grid.shape
        rows, cols = np.nonzero(weights.support)
        ladder = np.cumsum(weights.excess[rows, cols])
        rows, cols = rows - weights.excess.shape[0] // 2, cols - weights.excess.shape[1] // 2
        everywhere = weights.low * self.grid.cells
        members, left = np.empty(len(cells), dtype=np.int64), np.arange(len(cells))
        while left.size:
            ticket = randomness.below(everywhere + int(ladder[-1]), left.size).astype(np.int64)
            step = np.searchsorted(ladder[:-1], ticket - everywhere, side="right")
            row, col = np.divmod(cells[left], width)
            row, col = row + rows[step], col + cols[step]
            even = ticket < everywhere
            members[left] = np.where(even, ticket // weights.low, row * width + col)
            left = left[~even & ((row < 0) | (row >= height) | (col < 0) | (col >= width))]
        return members

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outcomes(self) -> int:
        """One count for each cell."""
        return self.grid.cells

    def tally(self, reports: Integers) -> Integers:
        """Count in how many reports each cell is a member.

        Args:
            reports: One row for each report.

        Returns:
            One count for each cell of the grid.

        Raises:
            InvalidInput: The cells of a report are not sorted, not distinct, or not in the grid.
        """
        check_below(reports, self.limit)
        if (np.diff(reports, axis=1) <= 0).any():
            raise InvalidInput("The cells of a report are not sorted or not distinct; the report is damaged or forged.")
        return np.bincount(reports.ravel(), minlength=self.outcomes)

    def channel(self) -> Channel:
        """The expected share of each cell u in all counts, if v is the true cell: Pr[u is a member | v] / k.

        Pr[u is a member | v] = p + (1 − p)(k − 1)/(n − 1), where p = w(u, v)/W(v) and n is the number of cells.
        """
        kernel = self._everywhere() / self.weights.low
        occurs = np.ones(self.grid.shape, dtype=np.bool_)
        totals = Convolution(self.grid.shape, kernel, 0.0, occurs, (0, 0)).backward(occurs.astype(np.float64))
        by_chance = self._by_chance()
        return Convolution(
            self.grid.shape, kernel, by_chance / self.size, occurs, (0, 0), (1 - by_chance) / (self.size * totals)
        )

    def transition_matrix(self) -> Floats:
        """Pr[set | true cell v] as a matrix: one row for each v, one column for each set in lexicographic order.

        Pr[set | v] = Σ_{u in the set} w(u, v) / (W(v) · C(n − 1, k − 1)), where n is the number of cells.

        Raises:
            TooLarge: The matrix does not fit into memory.
        """
        cells, size = self.grid.cells, self.size
        if math.comb(cells, size) * max(cells, size) > MAX_MATRIX:
            raise TooLarge(f"There are too many sets of {size} among {cells} cells; use a smaller grid.")
        sets = np.array(list(itertools.combinations(range(cells), size)), dtype=np.int64)
        weights = self._pairs()
        totals = weights.sum(axis=1, keepdims=True) * float(math.comb(cells - 1, size - 1))
        return np.asarray(sum(weights[:, sets[:, place]] for place in range(size)) / totals)

    def _by_chance(self) -> float:
        """The probability (k − 1)/(n − 1) that a cell other than the first member is in the set."""
        return (self.size - 1) / (self.grid.cells - 1) if self.size > 1 else 0.0

    def _everywhere(self) -> Floats:
        """Tabulate the weight of each cell as the first member, by its offset (rows, columns) from the true cell."""
        rows, cols = self.grid.shape
        down, across = (
            side - 1 - length // 2 for side, length in zip((rows, cols), self.weights.excess.shape, strict=True)
        )
        return np.pad(self.weights.excess, ((down, down), (across, across))).astype(np.float64) + self.weights.low

    def _pairs(self) -> Floats:
        """The weights w(u, v) of first members as a matrix: a row for each true cell v, a column for each cell u."""
        rows, cols = self.grid.shape
        kernel = self._everywhere()
        row, col = np.divmod(np.arange(self.grid.cells), cols)
        return np.asarray(kernel[row - row[:, None] + rows - 1, col - col[:, None] + cols - 1])


def paper_size(grid: Grid, epsilon: Number) -> int:
    """The paper's number k of cells in a reported set: n / e^ε, at least 1 and at most half of the n cells.

    In this formula ε is the privacy loss over the smallest distance of two cells.

    >>> paper_size(Grid.plane(x=(0, 10), y=(0, 10), size=10), 1)
    36
    """
    price = parse_epsilon(epsilon) * smallest_distance(grid)
    return max(1, min(grid.cells // 2, floor_exp(grid.cells, -price)))


def _made_distinct(sets: Integers, cells: int, randomness: Randomness) -> Integers:
    """Make the cells of each reported set distinct: sort each row, and redraw duplicates until there are none.

    The procedure treats all cells other than the first member alike, so every set of other members is equally likely.
    """
    sets.sort(axis=1)
    rows = np.arange(len(sets))
    while rows.size:
        again: Booleans = np.zeros((rows.size, sets.shape[1]), dtype=np.bool_)
        again[:, 1:] = sets[rows, 1:] == sets[rows, :-1]
        rows, again = rows[again.any(axis=1)], again[again.any(axis=1)]
        redrawn = sets[rows]
        redrawn[again] = randomness.below(cells, int(again.sum())).astype(np.int64)
        redrawn.sort(axis=1)
        sets[rows] = redrawn
    return sets
