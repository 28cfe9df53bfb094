"""UnaryEncoding: report one bit for every cell; the true cell's is a coin, the others are rarely set."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from heathaze.errors import InvalidInput, TooLarge
from heathaze.local._window import MAX_MATRIX
from heathaze.local.channels import Channel, membership_channel
from heathaze.local.mechanism import LocalMechanism, check_below, report_blocks
from heathaze.local.weights import raised
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

WORDS = 2**64
"""A bit is set when a random word is below its threshold."""


@dataclass(frozen=True, init=False)
class UnaryEncoding(LocalMechanism):
    """Optimised unary encoding on the cells of a grid; see ``unary_encoding.md``.

    Pr[bit of the true cell] = 1/2,   Pr[bit of another cell] = 1 / (e^ε + 1)
    """

    @functools.cached_property
    def threshold(self) -> int:
        """A of Pr[bit of another cell] = A / 2^64, rounded up: (2^64 − A)/A ≤ e^ε.

        A = ⌈2^64 / (e^ε + 1)⌉, with e^ε rounded down
        """
        power = raised(WORDS, self.epsilon)
        return -(-(WORDS**2) // (power + WORDS))

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """Eight cells a number."""
        return -(-self.grid.cells // 8)

    @property
    def limit(self) -> int:
        """Numbers are bytes."""
        return 256

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """One bit for each cell of the grid, eight in a byte, the first in the highest place; padded with zeros."""
        reports = np.empty((len(cells), self.numbers), dtype=np.int64)
        block = report_blocks(len(cells), self.grid.cells)
        for start in block:
            here = cells[start : start + block.step]
            words = randomness.words(len(here) * self.grid.cells).reshape(len(here), -1)
            bits = words < np.uint64(self.threshold)
            # The true cell's own word again, against one half.
            true = np.arange(len(here)), here
            bits[true] = words[true] < np.uint64(WORDS // 2)
            reports[start : start + block.step] = np.packbits(bits, axis=1)
        return reports

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outcomes(self) -> int:
        """A tally for every cell."""
        return self.grid.cells

    def tally(self, reports: Integers) -> Integers:
        """In how many reports each cell's bit is set."""
        check_below(reports, self.limit)
        counts = np.zeros(self.numbers * 8, dtype=np.int64)
        block = report_blocks(len(reports), self.grid.cells)
        for start in block:
            here = reports[start : start + block.step].astype(np.uint8)
            counts += np.unpackbits(here, axis=1).sum(axis=0, dtype=np.int64)
        if counts[self.outcomes :].any():
            raise InvalidInput("A report has a bit set for a cell that does not exist; it is damaged or made up.")
        return counts[: self.outcomes]

    def channel(self) -> Channel:
        """Which share of all set bits a cell has."""
        return membership_channel(self.grid.shape, 0.5, self.threshold / WORDS)

    def transition_matrix(self) -> Floats:
        """Pr[report | cell] for all 2^cells reports, numbered by their bits, the first cell's in the highest place."""
        cells = self.grid.cells
        if cells * 2**cells > MAX_MATRIX:
            raise TooLarge(
                f"{cells} cells have too many reports to write out, 2^{cells}; ask for them on a small grid."
            )
        bits = np.arange(2**cells)[:, None] >> np.arange(cells)[::-1] & 1
        set_, clear = self.threshold / WORDS, 1 - self.threshold / WORDS
        others = np.where(bits, set_, clear)
        # One half for the true cell's bit, whatever it is, in place of another cell's probability.
        return np.asarray((others.prod(axis=1, keepdims=True) / others * 0.5).T)
