"""SquareWave2D: randomise the row and the column of the true cell separately, each within a band around the truth."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.local._window import MAX_MATRIX, Window
from heathaze.local.channels import Channel, Marginals, Separable
from heathaze.local.disk_area import best_area_ratio
from heathaze.local.mechanism import LocalMechanism, check_below
from heathaze.local.weights import finest_low, floor_exp, largest_exponent
from heathaze.privacy.loss import Number, exact
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers


@dataclass(frozen=True, init=False)
class SquareWave2D(LocalMechanism):
    """The square wave mechanism on both coordinates (MDSW); see ``square_wave.md``.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.
        split: ``"budget"`` reports both coordinates with ε/2 each. ``"users"`` reports one coordinate, which a fair
            coin chooses, with all of ε.

    Raises:
        InvalidInput: ε is not positive, or the split is unknown.
        TooLarge: The grid has too many cells.

    >>> SquareWave2D(Grid.plane(x=(0, 1), y=(0, 1), size=8), 2).outcomes
    144
    """

    split: Literal["budget", "users"]

    def __init__(self, grid: Grid, epsilon: Number, split: Literal["budget", "users"] = "budget") -> None:
        super().__init__(grid, epsilon)
        if split not in ("budget", "users"):
            raise InvalidInput(f"There is no split {split!r}; choose 'budget' or 'users'.")
        assign(self, split=split)

    @functools.cached_property
    def down(self) -> Window:
        """The weights of the rows around the true row."""
        return wave(self.grid.rows, self._epsilon_of_one)

    @functools.cached_property
    def across(self) -> Window:
        """The weights of the columns around the true column."""
        return wave(self.grid.cols, self._epsilon_of_one)

    @property
    def _epsilon_of_one(self) -> Fraction:
        return self.epsilon / 2 if self.split == "budget" else self.epsilon

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """A report is one number."""
        return 1

    @property
    def limit(self) -> int:
        """Every report is below the number of outcomes."""
        return self.outcomes

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw a report for each true cell: the index of a pair (row, column), or of one row or one column.

        If a report holds one row or one column, the indices of all rows come before the indices of the columns.

        Args:
            cells: Index of each true cell in the grid.
            randomness: The source of the draws.

        Returns:
            One index for each cell.
        """
        rows, cols = np.divmod(cells, self.grid.cols)
        if self.split == "budget":
            down, across = self.down.draw(rows, randomness), self.across.draw(cols, randomness)
            return (down * self._outcomes[1] + across)[:, None]
        which = randomness.below(2, len(cells)) == 0
        ids = np.empty(len(cells), dtype=np.int64)
        ids[which] = self.down.draw(rows[which], randomness)
        ids[~which] = self._outcomes[0] + self.across.draw(cols[~which], randomness)
        return ids[:, None]

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _outcomes(self) -> tuple[int, int]:
        """How many rows and how many columns can be reported."""
        return self.down.frame[0], self.across.frame[0]

    @property
    def outcomes(self) -> int:
        """The number of pairs (row, column) if the budget is split; the number of rows plus columns if users are."""
        return math.prod(self._outcomes) if self.split == "budget" else sum(self._outcomes)

    def tally(self, reports: Integers) -> Integers:
        """Count how often each outcome was reported; every outcome can occur.

        Args:
            reports: Index of each report.

        Returns:
            One count for each outcome.
        """
        check_below(reports, self.outcomes)
        return np.bincount(reports[:, 0], minlength=self.outcomes)

    def channel(self) -> Channel:
        """The channel of reports of both coordinates, or of one coordinate that a fair coin chooses."""
        down, across = self.down.transition_matrix(), self.across.transition_matrix()
        return Separable(down, across) if self.split == "budget" else Marginals(down, across)

    def transition_matrix(self) -> Floats:
        """Pr[report | true cell] as a matrix: one row for each cell, one column for each outcome.

        Raises:
            TooLarge: The matrix does not fit into memory.
        """
        if self.grid.cells * self.outcomes > MAX_MATRIX:
            raise TooLarge(f"A matrix of {self.grid.cells} cells does not fit into memory; use a smaller grid.")
        down, across = self.down.transition_matrix(), self.across.transition_matrix()
        if self.split == "budget":
            return np.asarray(np.kron(down, across), dtype=np.float64)
        return np.hstack([down.repeat(self.grid.cols, axis=0), np.tile(across, (self.grid.rows, 1))]) / 2


def wave(side: int, epsilon: Fraction) -> Window:
    """The square wave on a line of cells: weight e^ε within :func:`wave_radius` of the true cell, 1 elsewhere."""
    radius = wave_radius(side, epsilon)
    width, outputs = 2 * radius + 1, side + 2 * radius
    exponent = largest_exponent(width, outputs, epsilon)
    low = finest_low(outputs, width, exponent)
    excess = np.full((width, 1), floor_exp(low, exponent) - low, dtype=np.int64)
    return Window((side, 1), low, excess, np.ones((width, 1), dtype=np.bool_))


def wave_radius(side: int, epsilon: Number) -> int:
    """The best half width of the square wave, in cells; a half width of 0 is randomised response.

    On a line of length 1 the best half width is

        b = (ε e^ε − e^ε + 1) / (2 e^ε (e^ε − 1 − ε)).

    The result is b times the number of cells, rounded down.

    >>> wave_radius(100, 1), wave_radius(100, 1e-6), wave_radius(100, 20)
    (25, 49, 0)
    """
    return math.floor(best_area_ratio(float(exact(epsilon))) / 2 * side)
