"""Window: draw a reported cell by whole-number weights that are raised in a window around the true cell.

    weight(output u | true cell v) = low + excess[u − v],   Pr[u | v] = weight / total

Every output has at least the weight ``low``, and an output in the window of v has ``excess`` more. The outputs are all
cells that lie in the window of some cell of the grid. No window is cut off at the border, so ``total``, the sum of all
weights, is the same for every v. The probabilities of one output u for two true cells v and v' therefore have the same
ratio as their weights. If every weight lies between ``low`` and some ``high`` ≤ low · e^ε, then

    Pr[u | v] / Pr[u | v'] ≤ high / low ≤ e^ε.

All weights are whole numbers, and one uniform whole number below ``total`` selects the output (errata E1-7). The
sampler therefore has exactly the probabilities of this proof, without rounding.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import PromiseBroken, TooLarge
from heathaze.local.weights import LARGEST_TOTAL
from heathaze.privacy.randomness import Randomness
from heathaze.types import Booleans, Floats, Integers

MAX_MATRIX = 2**26
"""The largest number of entries of a transition matrix; 2^26 entries take 512 MB."""


def check_true_cells(cells: Integers, number: int) -> None:
    """Refuse to randomise a true cell that does not exist, because no mechanism hides it among existing cells.

    The error names no cell, since true cells are secret.

    Args:
        cells: Indices of true cells.
        number: The number of cells.

    Raises:
        PromiseBroken: A cell is negative, or not below the number of cells.
    """
    if cells.size and (cells.min() < 0 or cells.max() >= number):
        raise PromiseBroken("A position lies in a cell that does not exist. Nothing was reported; please report this.")


@dataclass(frozen=True, eq=False)
class Window:
    """The whole-number weights of the cells around a true cell, and the grid on which the true cell lies.

    Args:
        shape: Rows and columns of the grid.
        low: The weight of every output outside of the window.
        excess: The weight added to ``low``, one entry for each offset from the true cell. The array has odd numbers of
            rows and columns, and the true cell is its middle.
        support: Whether each offset belongs to the window. An offset of the window may have an excess of 0.

    Raises:
        PromiseBroken: A weight is below ``low``, an offset outside of the window has an excess, or the weights sum to
            2^62 or more.

    >>> window = Window((1, 2), low=1, excess=np.array([[2]]), support=np.array([[True]]))
    >>> window.transition_matrix().tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """

    shape: tuple[int, int]
    low: int
    excess: Integers
    support: Booleans

    def __post_init__(self) -> None:
        if self.low < 1 or (self.excess < 0).any() or (self.excess[~self.support] != 0).any():
            raise PromiseBroken(
                "A window has a weight below low, or an excess outside of its support; correct low, excess or support."
            )
        if self.total >= LARGEST_TOTAL:
            raise PromiseBroken("The weights of a window sum to 2^62 or more; give smaller weights.")

    @property
    def half_width(self) -> tuple[int, int]:
        """How many cells the window extends from the true cell: rows up and down, columns left and right."""
        return self.excess.shape[0] // 2, self.excess.shape[1] // 2

    @property
    def frame(self) -> tuple[int, int]:
        """Rows and columns of the frame: the smallest rectangle that holds every output.

        The index of a cell of the frame is counted row by row.
        """
        return self.shape[0] + 2 * self.half_width[0], self.shape[1] + 2 * self.half_width[1]

    @functools.cached_property
    def outputs(self) -> Integers:
        """Indices of the outputs in the frame: its cells that lie in the window of some cell of the grid."""
        return np.flatnonzero(_dilated(self.shape, self.support))

    @functools.cached_property
    def total(self) -> int:
        """The sum of the weights of all outputs; the sum is the same for every true cell."""
        return self.low * self.outputs.size + exact_sum(self.excess)

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw one output of the window for each true cell.

        Args:
            cells: Indices of the true cells in the grid, counted row by row.
            randomness: The source of random bits.

        Returns:
            The index of one output in the frame for each true cell.
        """
        check_true_cells(cells, self.shape[0] * self.shape[1])
        ticket = randomness.below(self.total, len(cells)).astype(np.int64)
        everywhere = self.low * self.outputs.size
        ids = self.outputs[np.minimum(ticket // self.low, self.outputs.size - 1)]
        near = np.flatnonzero(ticket >= everywhere)
        row, col = np.divmod(cells[near], self.shape[1])
        centre = (row + self.half_width[0]) * self.frame[1] + col + self.half_width[1]
        cumulative, steps = self._ladder
        ids[near] = centre + steps[np.searchsorted(cumulative, ticket[near] - everywhere, side="right")]
        return ids

    @functools.cached_property
    def _ladder(self) -> tuple[Integers, Integers]:
        """The cumulative excess over the offsets of the window, and each offset as a step of the index in the frame."""
        rows, cols = np.nonzero(self.excess)
        steps = (rows - self.half_width[0]) * self.frame[1] + cols - self.half_width[1]
        return np.cumsum(self.excess[rows, cols]), steps

    def probabilities(self) -> Floats:
        """The probability of each offset of the window. An output outside of the window has ``low / total``."""
        return (self.low + self.excess) / self.total

    def transition_matrix(self) -> Floats:
        """Pr[output | true cell] as a matrix: one row for each cell of the grid, one column for each cell of the frame.

        Raises:
            TooLarge: The matrix does not fit into memory.
        """
        rows, cols = self.shape
        if rows * cols * self.frame[0] * self.frame[1] > MAX_MATRIX:
            raise TooLarge(
                f"A transition matrix of {rows} × {cols} cells does not fit into memory; use a smaller grid."
            )
        matrix = np.zeros((rows, cols, *self.frame))
        matrix.reshape(rows * cols, -1)[:, self.outputs] = self.low
        height, width = self.excess.shape
        for row in range(rows):
            for col in range(cols):
                matrix[row, col, row : row + height, col : col + width] += self.excess
        return matrix.reshape(rows * cols, -1) / self.total

    def information_bound(self) -> float:
        """An upper bound on the information of a report about its true cell, in nats, for any map (errata E1-5).

            log |outputs| − H(output | cell)

        H is the entropy in nats, and |outputs| the number of outputs.
        """
        return float(np.log(self.outputs.size)) - self._noise()

    def information(self) -> float:
        """The information of a report about its true cell, in nats, if all cells of the map are equally likely.

            H(output) − H(output | cell)

        H is the entropy in nats.
        """
        # The probability of an output is its mean over all true cells. Running sums add the windows of all cells.
        cells = self.shape[0] * self.shape[1]
        near = _box_sums(_box_sums(self.excess.astype(np.float64), self.shape[0], axis=0), self.shape[1], axis=1)
        shares = (self.low + np.maximum(near.ravel()[self.outputs], 0.0) / cells) / self.total
        return float(-(shares * np.log(shares)).sum()) - self._noise()

    def _noise(self) -> float:
        """H(output | cell): the entropy of the output in nats, given the true cell.

        It is the same for every true cell.
        """
        shares = (self.low + self.excess[self.support].astype(np.float64)) / self.total
        outside = self.low / self.total
        return float(-(shares * np.log(shares)).sum() - (self.outputs.size - shares.size) * outside * np.log(outside))


def exact_sum(weights: Integers) -> int:
    """Add 64-bit weights exactly, even if the sum exceeds 64 bits: upper and lower halves are added separately."""
    half = np.int64(31)
    return (int((weights >> half).sum()) << 31) + int((weights & np.int64(2**31 - 1)).sum())


def floor_product(share: Floats, weight: Integers | int) -> Integers:
    """Multiply a weight by a share from 0 to 1 and round down to a whole number; a share of 1 gives the whole weight.

    The share is first rounded down to s/2^30 for a whole number s. The weight is written as 2^30 · a + c, so that no
    product exceeds 64 bits:

        ⌊s · weight / 2^30⌋ = s · a + ⌊s · c / 2^30⌋
    """
    steps = np.floor(share * 2.0**30).astype(np.int64)
    whole = np.asarray(weight, dtype=np.int64)
    return np.asarray(steps * (whole >> 30) + ((steps * (whole & (2**30 - 1))) >> 30))


def _dilated(shape: tuple[int, int], support: Booleans) -> Booleans:
    """Mark the cells of the frame that lie in the window of some cell of the grid."""
    down = _box_sums(support.astype(np.int32), shape[0], axis=0) > 0
    return np.asarray(_box_sums(down.astype(np.int32), shape[1], axis=1) > 0)


def _box_sums(values: npt.NDArray[Any], length: int, axis: int) -> npt.NDArray[Any]:
    """Add every ``length`` consecutive values along an axis, with zeros beyond the ends, by one running sum."""
    padding = [(0, 0), (0, 0)]
    padding[axis] = (length, length - 1)
    running = np.swapaxes(np.cumsum(np.pad(values, padding), axis=axis, dtype=values.dtype), 0, axis)
    return np.swapaxes(running[length:] - running[:-length], 0, axis)
