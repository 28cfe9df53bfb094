"""UnaryEncoding: report one bit for every cell; the true cell's bit is a fair coin, the other bits are rarely set."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from heathaze.errors import InvalidInput, TooLarge
from heathaze.local._window import MAX_MATRIX, check_true_cells
from heathaze.local.channels import Channel, membership_channel
from heathaze.local.mechanism import LocalMechanism, check_below, report_blocks
from heathaze.local.weights import floor_exp
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

WORDS = 2**64
"""The number of 64-bit words. A bit of a report is set if a uniform random word is below the bit's threshold."""


@dataclass(frozen=True, init=False)
class UnaryEncoding(LocalMechanism):
    """Optimised unary encoding (OUE) on the cells of a grid; see ``unary_encoding.md``.

        Pr[bit of the true cell is set] = 1/2,   Pr[bit of another cell is set] = 1 / (e^ε + 1)

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.

    Raises:
        InvalidInput: ε is not positive.
        TooLarge: The grid has too many cells.

    >>> from heathaze.domain.grid import Grid
    >>> UnaryEncoding(Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), 1).transition_matrix().round(3).tolist()
    [[0.366, 0.134, 0.366, 0.134], [0.366, 0.366, 0.134, 0.134]]
    """

    @functools.cached_property
    def threshold(self) -> int:
        """The number A in Pr[bit of another cell is set] = A / 2^64.

        A = ⌈2^64 / (e^ε + 1)⌉   with e^ε rounded down, so that (2^64 − A)/A ≤ e^ε
        """
        power = floor_exp(WORDS, self.epsilon)
        return -(-(WORDS**2) // (power + WORDS))

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """The number of bytes in a report; each byte holds the bits of eight cells."""
        return -(-self.grid.cells // 8)

    @property
    def limit(self) -> int:
        """A report consists of bytes, which are below 256."""
        return 256

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw one report for each true cell: one bit for each cell of the grid, packed in bytes.

        The first of eight cells has the highest bit of a byte. Unused bits of the last byte are 0.

        Args:
            cells: Index of each true cell in the grid.
            randomness: The source of the draws.

        Returns:
            One row of bytes for each report.
        """
        check_true_cells(cells, self.grid.cells)
        reports = np.empty((len(cells), self.numbers), dtype=np.int64)
        block = report_blocks(len(cells), self.grid.cells)
        for start in block:
            here = cells[start : start + block.step]
            words = randomness.words(len(here) * self.grid.cells).reshape(len(here), -1)
            bits = words < np.uint64(self.threshold)
            # The bit of the true cell is set with probability 1/2.
            true = np.arange(len(here)), here
            bits[true] = words[true] < np.uint64(WORDS // 2)
            reports[start : start + block.step] = np.packbits(bits, axis=1)
        return reports

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outcomes(self) -> int:
        """One count for each cell."""
        return self.grid.cells

    def tally(self, reports: Integers) -> Integers:
        """Count for each cell how many reports have its bit set.

        Args:
            reports: One row of bytes for each report.

        Returns:
            One count for each cell of the grid.

        Raises:
            InvalidInput: A report has a bit set for a cell that does not exist.
        """
        check_below(reports, self.limit)
        counts = np.zeros(self.numbers * 8, dtype=np.int64)
        block = report_blocks(len(reports), self.grid.cells)
        for start in block:
            here = reports[start : start + block.step].astype(np.uint8)
            counts += np.unpackbits(here, axis=1).sum(axis=0, dtype=np.int64)
        if counts[self.outcomes :].any():
            raise InvalidInput(
                "A report has a bit set for a cell that does not exist; the report is damaged or forged."
            )
        return counts[: self.outcomes]

    def channel(self) -> Channel:
        """The expected share of each cell in all set bits, for each true cell."""
        return membership_channel(self.grid.shape, 0.5, self.threshold / WORDS)

    def transition_matrix(self) -> Floats:
        """Pr[report | true cell] as a matrix: one row for each cell, one column for each of the 2^cells reports.

        The index of a report is the number with its bits; the first cell has the highest bit.

        Raises:
            TooLarge: The matrix does not fit into memory.
        """
        cells = self.grid.cells
        if cells * 2**cells > MAX_MATRIX:
            raise TooLarge(f"{cells} cells have too many reports to write out, 2^{cells}; use a smaller grid.")
        bits = np.arange(2**cells)[:, None] >> np.arange(cells)[::-1] & 1
        set_, clear = self.threshold / WORDS, 1 - self.threshold / WORDS
        others = np.where(bits, set_, clear)
        # Either value of the true cell's bit has probability 1/2, which replaces the probability of another cell's bit.
        return np.asarray((others.prod(axis=1, keepdims=True) / others * 0.5).T)
