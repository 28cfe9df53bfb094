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

import numpy as np
import numpy.typing as npt

from heathaze.errors import PromiseBroken, TooLarge
from heathaze.privacy.randomness import Randomness
from heathaze.privacy.weights import LARGEST_TOTAL

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

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
    support: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.low < 1 or (self.excess < 0).any() or (self.excess[~self.support] != 0).any():
            raise PromiseBroken("The weights of a window are at least its low weight, and equal to it outside.")
        if self.low * self.outputs.size + int(self.excess.sum(dtype=object)) >= LARGEST_TOTAL:
            raise PromiseBroken("The weights of a window do not fit into 62 bits.")

    @property
    def reach(self) -> tuple[int, int]:
        """How many cells the window reaches beyond the true one: down and across."""
        return self.excess.shape[0] // 2, self.excess.shape[1] // 2

    @property
    def frame(self) -> tuple[int, int]:
        """Rows and columns of the rectangle that holds every output; an output's id is its place in it, row by row."""
        return self.shape[0] + 2 * self.reach[0], self.shape[1] + 2 * self.reach[1]

    @functools.cached_property
    def outputs(self) -> Integers:
        """The ids that occur: cells of the frame that the window reaches from some cell of the grid."""
        return np.flatnonzero(_dilated(self.shape, self.support))

    @property
    def total(self) -> int:
        """Sum of the weights of all outputs: the same for every cell."""
        return self.low * self.outputs.size + int(self.excess.sum())

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """One output for each cell (numbered row by row); constant work a cell."""
        ticket = randomness.below(self.total, len(cells)).astype(np.int64)
        everywhere = self.low * self.outputs.size
        ids = self.outputs[np.minimum(ticket // self.low, self.outputs.size - 1)]
        near = np.flatnonzero(ticket >= everywhere)
        row, col = np.divmod(cells[near], self.shape[1])
        centre = (row + self.reach[0]) * self.frame[1] + col + self.reach[1]
        cumulative, steps = self._ladder
        ids[near] = centre + steps[np.searchsorted(cumulative, ticket[near] - everywhere, side="right")]
        return ids

    @functools.cached_property
    def _ladder(self) -> tuple[Integers, Integers]:
        """Running sum of the excess, offset by offset, and each offset as a step between ids."""
        rows, cols = np.nonzero(self.excess)
        steps = (rows - self.reach[0]) * self.frame[1] + cols - self.reach[1]
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

    def information(self) -> float:
        """An upper bound of what a report tells about its cell, in nats (errata E1-5).

            log |outputs| − H(output | cell)
        """
        weights = np.append(self.low + self.excess[self.support].astype(np.float64), float(self.low))
        times = np.append(np.ones(weights.size - 1), self.outputs.size - (weights.size - 1))
        shares = weights / self.total
        return float(np.log(self.outputs.size) + (times * shares * np.log(shares)).sum())


def _dilated(shape: tuple[int, int], support: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which cells of the frame some window covers: those with an offset of the support back into the grid."""
    covered = np.zeros((shape[0] + support.shape[0], shape[1] + support.shape[1]), dtype=np.int64)
    height, width = support.shape
    # Number of support offsets (i, j) with row − rows < i ≤ row and col − cols < j ≤ col, by running sums.
    covered[1 : height + 1, 1 : width + 1] = support
    covered[height + 1 :] = 0
    running = covered.cumsum(axis=0).cumsum(axis=1)
    bottom = running[1:, 1:]
    top = np.zeros_like(bottom)
    top[shape[0] :] = running[1 : height, 1:] if height > 1 else 0
    left = np.zeros_like(bottom)
    left[:, shape[1] :] = running[1:, 1:width] if width > 1 else 0
    corner = np.zeros_like(bottom)
    if height > 1 and width > 1:
        corner[shape[0] :, shape[1] :] = running[1:height, 1:width]
    return np.asarray(bottom - top - left + corner > 0)
