"""SquareWave2D: report row and column on their own, each near the true one."""

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
from heathaze.local.disk_area import in_over_out
from heathaze.local.mechanism import LocalMechanism, check_below
from heathaze.local.weights import finest_low, most_useful, raised
from heathaze.privacy.loss import Number, exact
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers


@dataclass(frozen=True, init=False)
class SquareWave2D(LocalMechanism):
    """The square wave mechanism on both coordinates (MDSW); see ``square_wave.md``.

    Args:
        grid: The public frame.
        epsilon: PrivacyLoss of one report.
        split: ``"budget"`` reports both coordinates with ε/2 each; ``"users"`` reports one of them, which a fair coin
            chooses, with all of ε.
    """

    split: Literal["budget", "users"]

    def __init__(self, grid: Grid, epsilon: Number, split: Literal["budget", "users"] = "budget") -> None:
        super().__init__(grid, epsilon)
        if split not in ("budget", "users"):
            raise InvalidInput(f"There is no split {split!r}; choose 'budget' or 'users'.")
        assign(self, split=split)

    @functools.cached_property
    def down(self) -> Window:
        """The weights of rows around the true one."""
        return wave(self.grid.rows, self._epsilon_of_one)

    @functools.cached_property
    def across(self) -> Window:
        """The weights of columns around the true one."""
        return wave(self.grid.cols, self._epsilon_of_one)

    @property
    def _epsilon_of_one(self) -> Fraction:
        return self.epsilon / 2 if self.split == "budget" else self.epsilon

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """One id."""
        return 1

    @property
    def limit(self) -> int:
        """Ids lie below the number of outcomes."""
        return self.outcomes

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """The id of a row and a column, or of one of them: rows are numbered first, then columns."""
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
        """Rows and columns that can be reported."""
        return self.down.frame[0], self.across.frame[0]

    @property
    def outcomes(self) -> int:
        """Pairs of a row and a column, or rows and columns together."""
        return math.prod(self._outcomes) if self.split == "budget" else sum(self._outcomes)

    def tally(self, reports: Integers) -> Integers:
        """How often each id was reported; every id can be."""
        check_below(reports, self.outcomes)
        return np.bincount(reports[:, 0], minlength=self.outcomes)

    def channel(self) -> Channel:
        """Both coordinates on their own, or one of them."""
        down, across = self.down.transition_matrix(), self.across.transition_matrix()
        return Separable(down, across) if self.split == "budget" else Marginals(down, across)

    def transition_matrix(self) -> Floats:
        """Pr[report | cell]: a row for each cell, a column for each id."""
        if self.grid.cells * self.outcomes > MAX_MATRIX:
            raise TooLarge(f"A matrix of {self.grid.cells} cells does not fit; ask for one on a small grid.")
        down, across = self.down.transition_matrix(), self.across.transition_matrix()
        if self.split == "budget":
            return np.asarray(np.kron(down, across), dtype=np.float64)
        return np.hstack([down.repeat(self.grid.cols, axis=0), np.tile(across, (self.grid.rows, 1))]) / 2


def wave(side: int, epsilon: Fraction) -> Window:
    """Weights on a line of ``side`` cells: e^ε up to :func:`wave_radius` away from the true one, 1 elsewhere."""
    radius = wave_radius(side, epsilon)
    width, outputs = 2 * radius + 1, side + 2 * radius
    exponent = most_useful(width, outputs, epsilon)
    low = finest_low(outputs, width, exponent)
    excess = np.full((width, 1), raised(low, exponent) - low, dtype=np.int64)
    return Window((side, 1), low, excess, np.ones((width, 1), dtype=np.bool_))


def wave_radius(side: int, epsilon: Number) -> int:
    """The half width that is best on a line of length 1, times its cells and rounded down; 0 is randomised response.

        b = (ε e^ε − e^ε + 1) / (2 e^ε (e^ε − 1 − ε))

    >>> wave_radius(100, 1), wave_radius(100, 1e-6), wave_radius(100, 20)
    (25, 49, 0)
    """
    return math.floor(in_over_out(float(exact(epsilon))) / 2 * side)
