"""A window around the true cell: every output has the same small weight, those in the window weigh more.

    weight(output u | cell v) = low + excess[u − v],   Pr[u | v] = weight / total

The outputs are all cells that some window reaches, so no window is cut off and ``total`` is the same for every v. Then
the ratio of two inputs' probabilities is a ratio of two weights, and if every weight lies between low and high,

    Pr[u | v] / Pr[u | v'] ≤ high / low ≤ e^ε.

All weights are whole numbers and one draw below ``total`` decides (errata E1-7): what is promised is what is sampled.
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
"""Entries of a transition matrix that is still written out (512 MB)."""


@dataclass(frozen=True, eq=False)
class Window:
    """Whole-number weights of a window, and the cells it moves over.

    ``excess`` has an odd number of rows and columns, the true cell in the middle; ``support`` marks the offsets that
    count as part of the window even where their excess is 0.
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
        """Rows and columns of the rectangle that holds every output; an output's id is its place in it, row by row."""
        return self.shape[0] + 2 * self.half_width[0], self.shape[1] + 2 * self.half_width[1]

    @functools.cached_property
    def outputs(self) -> Integers:
        """The ids that occur: cells of the frame that the window reaches from some cell of the grid."""
        return np.flatnonzero(_dilated(self.shape, self.support))

    @functools.cached_property
    def total(self) -> int:
        """Sum of the weights of all outputs: the same for every cell."""
        return self.low * self.outputs.size + exact_sum(self.excess)

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """One output for each cell (numbered row by row); constant work a cell."""
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
        """Running sum of the excess, offset by offset, and each offset as a step between ids."""
        rows, cols = np.nonzero(self.excess)
        steps = (rows - self.half_width[0]) * self.frame[1] + cols - self.half_width[1]
        return np.cumsum(self.excess[rows, cols]), steps

    def probabilities(self) -> Floats:
        """The window's weights as probabilities, outside of it ``low / total``."""
        return (self.low + self.excess) / self.total

    def transition_matrix(self) -> Floats:
        """Pr[output | cell]: a row for each cell of the grid, a column for each id in the frame (0 where none)."""
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
        """An upper bound of what a report tells about its cell, in nats, whatever the map (errata E1-5).

        log |outputs| − H(output | cell)
        """
        return float(np.log(self.outputs.size)) - self._noise()

    def information(self) -> float:
        """What a report tells about its cell, in nats, when all cells of the map are equally likely.

        H(output) − H(output | cell)
        """
        # How likely an output is: the mean over the cells, whose windows are summed by running sums.
        cells = self.shape[0] * self.shape[1]
        near = _box_sums(_box_sums(self.excess.astype(np.float64), self.shape[0], axis=0), self.shape[1], axis=1)
        shares = (self.low + np.maximum(near.ravel()[self.outputs], 0.0) / cells) / self.total
        return float(-(shares * np.log(shares)).sum()) - self._noise()

    def _noise(self) -> float:
        """H(output | cell), the same for every cell: the entropy of the window and of the outputs outside of it."""
        shares = (self.low + self.excess[self.support].astype(np.float64)) / self.total
        outside = self.low / self.total
        return float(-(shares * np.log(shares)).sum() - (self.outputs.size - shares.size) * outside * np.log(outside))


def exact_sum(weights: Integers) -> int:
    """Sum of whole numbers that may together leave 64 bits: upper and lower halves are summed on their own."""
    half = np.int64(31)
    return (int((weights >> half).sum()) << 31) + int((weights & np.int64(2**31 - 1)).sum())


def part_of(share: Floats, weight: Integers | int) -> Integers:
    """⌊share · weight⌋ for shares between 0 and 1, in whole numbers; a share of 1 gives the whole weight.

    The share is first rounded down to s/2^30. With weight = 2^30 · a + c, no product leaves 64 bits:

        ⌊s · weight / 2^30⌋ = s · a + ⌊s · c / 2^30⌋
    """
    steps = np.floor(share * 2.0**30).astype(np.int64)
    whole = np.asarray(weight, dtype=np.int64)
    return np.asarray(steps * (whole >> 30) + ((steps * (whole & (2**30 - 1))) >> 30))


def _dilated(shape: tuple[int, int], support: Booleans) -> Booleans:
    """Which cells of the frame some window covers: those with an offset of the support back into the grid."""
    down = _box_sums(support.astype(np.int32), shape[0], axis=0) > 0
    return np.asarray(_box_sums(down.astype(np.int32), shape[1], axis=1) > 0)


def _box_sums(values: npt.NDArray[Any], length: int, axis: int) -> npt.NDArray[Any]:
    """The sum of every ``length`` neighbours along an axis, those reaching over the ends included; by a running sum."""
    padding = [(0, 0), (0, 0)]
    padding[axis] = (length, length - 1)
    running = np.swapaxes(np.cumsum(np.pad(values, padding), axis=axis, dtype=values.dtype), 0, axis)
    return np.swapaxes(running[length:] - running[:-length], 0, axis)
