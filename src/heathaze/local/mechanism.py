"""What all mechanisms share that report one cell of a window."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from heathaze.domain.density import MAX_DENSE_CELLS
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.local._window import Window
from heathaze.local.channels import Channel, Convolution
from heathaze.privacy.events import Event, RandomizedReport
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

# TODO-merged from local._report: What one report promises, unless a mechanism says otherwise, and what the simplest mechanisms are made of.


class OneReport:
    """ε for one report, between any two positions."""

    epsilon: Fraction

    @property
    def adjacency(self) -> Adjacency:
        """Any two positions."""
        return Adjacency.ANY_TWO

    @property
    def event(self) -> RandomizedReport:
        """One report; geo-indistinguishable ones are priced by length."""
        return RandomizedReport(self.epsilon, self.adjacency.length)


@dataclass(frozen=True)
class OnCells(OneReport):
    """A mechanism that needs to know no more than a grid and ε.

    Mechanisms built on it are dataclasses with ``init=False``, which keeps the constructor below.
    """

    grid: Grid
    epsilon: Fraction

    if TYPE_CHECKING:  # callers may write epsilon as any number; it is kept as an exact fraction

        def __init__(self, grid: Grid, epsilon: Number) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_local_grid(self.grid)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon)}


def check_local_grid(grid: Grid) -> None:
    """Refuse a grid with more cells than reports can be tallied for."""
    if grid.cells > MAX_DENSE_CELLS:
        raise TooLarge(f"{grid.rows} × {grid.cols} cells are too many to tally reports for each; use a coarser grid.")


LEFT_OUT: Any = None
"""Stands for a parameter that the caller left to the mechanism, until the mechanism has settled it."""


class Randomizer(Protocol):
    """The device's half of a local mechanism: what it needs to turn a cell into a report."""

    @property
    def grid(self) -> Grid:
        """The public frame."""

    @property
    def epsilon(self) -> Fraction:
        """The declared loss of one report."""

    @property
    def adjacency(self) -> Adjacency:
        """Any two positions, or a price for each metre between them."""

    @property
    def event(self) -> Event:
        """What happens to one position."""

    @property
    def numbers(self) -> int:
        """How many numbers a report is made of."""

    @property
    def limit(self) -> int:
        """Every number of a report lies below this."""

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """One report, a row of numbers, for each cell; cells are numbered row by row. Shape (cells, numbers)."""

    def parameters(self) -> dict[str, Any]:
        """Public parameters, which both halves share."""


class Estimator(Randomizer, Protocol):
    """The server's half: what it needs to tally reports and to go back from tallies to a map. It is given no point."""

    @property
    def outcomes(self) -> int:
        """How many tallies are kept."""

    def tally(self, reports: Integers) -> Integers:
        """How often each outcome is found in some reports; refuses reports that no device could have made."""

    def channel(self) -> Channel:
        """Which outcome a cell is tallied as, and how likely."""

    def transition_matrix(self) -> Floats:
        """Probability of every report for every cell, on small grids: what a sceptic can print and check."""


class WindowMechanism(OneReport, abc.ABC):
    """Both halves of a mechanism that reports the id of one cell, drawn from a window around the true one."""

    grid: Grid
    epsilon: Fraction
    numbers = 1

    @property
    @abc.abstractmethod
    def window(self) -> Window:
        """The weights."""

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def limit(self) -> int:
        """Ids lie below the number of cells of the frame."""
        return self.outcomes

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """The id of one output for each cell."""
        return self.window.draw(cells, randomness)[:, None]

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outcomes(self) -> int:
        """A tally for every cell of the frame."""
        return self.window.frame[0] * self.window.frame[1]

    def tally(self, reports: Integers) -> Integers:
        """How often each id was reported."""
        ids = reports[:, 0]
        check_below(ids, self.outcomes)
        counts = np.bincount(ids, minlength=self.outcomes)
        if counts.sum() != counts[self.window.outputs].sum():
            raise InvalidInput("A report names a cell that this mechanism never reports; it is damaged or made up.")
        return counts

    def channel(self) -> Channel:
        """The window, as probabilities."""
        window = self.window
        occurs = np.zeros(window.frame, dtype=np.bool_)
        occurs.flat[window.outputs] = True
        kernel = window.excess / window.total
        return Convolution(window.shape, kernel, window.low / window.total, occurs, window.reach)

    def transition_matrix(self) -> Floats:
        """Pr[report | cell]: a row for each cell, a column for each id."""
        return self.window.transition_matrix()


def check_below(numbers: Integers, limit: int) -> None:
    """Refuse numbers that no report can hold."""
    if numbers.size and (numbers.min() < 0 or numbers.max() >= limit):
        raise InvalidInput(f"A report holds a number outside 0 … {limit - 1}; it is damaged or of other parameters.")
