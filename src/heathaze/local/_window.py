"""Whole-number weights in a window around the true cell: every output has the same low weight, those in it more.

    weight(output u | cell v) = low + excess[u − v],   Pr[u | v] = weight / total

The outputs are all cells that lie in the window of some cell of the grid. So no window is cut off, and ``total`` is the
same for every v. The ratio of two cells' probabilities is then a ratio of two weights, and if every weight lies between
low and high,

    Pr[u | v] / Pr[u | v'] ≤ high / low ≤ e^ε.

All weights are whole numbers, and one uniform number below ``total`` decides (errata E1-7). So the probabilities that
are promised are exactly those that are sampled.
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
"""The most entries of a transition matrix (512 MB)."""


@dataclass(frozen=True, eq=False)
class Window:
    """Whole-number weights of a window, and the grid that it moves over.

    Args:
        shape: Rows and columns of the grid.
        low: The weight of every output outside of the window.
        excess: What is added in the window, by offset; odd numbers of rows and columns, the true cell in the middle.
        support: The offsets that are part of the window, also those whose excess is 0.

    Raises:
        PromiseBroken: A weight is below ``low``, or the weights do not fit into 62 bits.

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
            raise PromiseBroken("The weights of a window are at least its low weight, and equal to it outside.")
        if self.total >= LARGEST_TOTAL:
            raise PromiseBroken("The weights of a window do not fit into 62 bits.")

    @property
    def half_width(self) -> tuple[int, int]:
        """How many cells the window has on each side of the true one: down and across."""
        return self.excess.shape[0] // 2, self.excess.shape[1] // 2

    @property
    def frame(self) -> tuple[int, int]:
        """Rows and columns of the rectangle that holds every output; outputs are numbered in it row by row."""
        return self.shape[0] + 2 * self.half_width[0], self.shape[1] + 2 * self.half_width[1]

    @functools.cached_property
    def outputs(self) -> Integers:
        """The numbers of the outputs: cells of the frame that lie in the window of some cell of the grid."""
        return np.flatnonzero(_dilated(self.shape, self.support))

    @functools.cached_property
    def total(self) -> int:
        """The sum of the weights of all outputs; it is the same for every cell."""
        return self.low * self.outputs.size + exact_sum(self.excess)

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw one output for each cell.

        Args:
            cells: Numbers of the true cells, counted row by row.
            randomness: The source of random bits.

        Returns:
            The number of an output for each cell.
        """
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
        """The running sum of the excess, offset by offset, and each offset as a difference of numbers in the frame."""
        rows, cols = np.nonzero(self.excess)
        steps = (rows - self.half_width[0]) * self.frame[1] + cols - self.half_width[1]
        return np.cumsum(self.excess[rows, cols]), steps

    def probabilities(self) -> Floats:
        """The weights of the window as probabilities; outside of it they are ``low / total``."""
        return (self.low + self.excess) / self.total

    def transition_matrix(self) -> Floats:
        """Pr[output | cell]: one row for each cell of the grid, one column for each cell of the frame.

        Raises:
            TooLarge: The matrix does not fit into memory.
        """
        rows, cols = self.shape
        if rows * cols * self.frame[0] * self.frame[1] > MAX_MATRIX:
            raise TooLarge(f"A transition matrix of {rows} × {cols} cells does not fit; ask for one on a small grid.")
        matrix = np.zeros((rows, cols, *self.frame))
        matrix.reshape(rows * cols, -1)[:, self.outputs] = self.low
        height, width = self.excess.shape
        for row in range(rows):
            for col in range(cols):
                matrix[row, col, row : row + height, col : col + width] += self.excess
        return matrix.reshape(rows * cols, -1) / self.total

    def information_bound(self) -> float:
        """An upper bound on the information of a report about its cell, in nats, for any map (errata E1-5).

        log |outputs| − H(output | cell)
        """
        return float(np.log(self.outputs.size)) - self._noise()

    def information(self) -> float:
        """The information of a report about its cell, in nats, if all cells of the map are equally likely.

        H(output) − H(output | cell)
        """
        # The probability of an output is the mean over all cells; their windows are added by running sums.
        cells = self.shape[0] * self.shape[1]
        near = _box_sums(_box_sums(self.excess.astype(np.float64), self.shape[0], axis=0), self.shape[1], axis=1)
        shares = (self.low + np.maximum(near.ravel()[self.outputs], 0.0) / cells) / self.total
        return float(-(shares * np.log(shares)).sum()) - self._noise()

    def _noise(self) -> float:
        """H(output | cell): the entropy of the window and of the outputs outside of it; the same for every cell."""
        shares = (self.low + self.excess[self.support].astype(np.float64)) / self.total
        outside = self.low / self.total
        return float(-(shares * np.log(shares)).sum() - (self.outputs.size - shares.size) * outside * np.log(outside))


def exact_sum(weights: Integers) -> int:
    """The sum of whole numbers, which may exceed 64 bits: the upper and the lower halves are added separately."""
    half = np.int64(31)
    return (int((weights >> half).sum()) << 31) + int((weights & np.int64(2**31 - 1)).sum())


def floor_product(share: Floats, weight: Integers | int) -> Integers:
    """⌊share · weight⌋ for shares from 0 to 1, in whole numbers; a share of 1 gives the whole weight.

    The share is first rounded down to s/2^30. With weight = 2^30 · a + c, no product exceeds 64 bits:

        ⌊s · weight / 2^30⌋ = s · a + ⌊s · c / 2^30⌋
    """
    steps = np.floor(share * 2.0**30).astype(np.int64)
    whole = np.asarray(weight, dtype=np.int64)
    return np.asarray(steps * (whole >> 30) + ((steps * (whole & (2**30 - 1))) >> 30))


def _dilated(shape: tuple[int, int], support: Booleans) -> Booleans:
    """Which cells of the frame lie in the window of some cell of the grid."""
    down = _box_sums(support.astype(np.int32), shape[0], axis=0) > 0
    return np.asarray(_box_sums(down.astype(np.int32), shape[1], axis=1) > 0)


def _box_sums(values: npt.NDArray[Any], length: int, axis: int) -> npt.NDArray[Any]:
    """The sum of every ``length`` neighbours along an axis, with zeros beyond the ends; by a running sum."""
    padding = [(0, 0), (0, 0)]
    padding[axis] = (length, length - 1)
    running = np.swapaxes(np.cumsum(np.pad(values, padding), axis=axis, dtype=values.dtype), 0, axis)
    return np.swapaxes(running[length:] - running[:-length], 0, axis)
