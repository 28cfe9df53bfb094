"""What one report promises, unless a mechanism says otherwise, and what the simplest mechanisms are made of."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from heathaze.domain.density import MAX_DENSE_CELLS
from heathaze.domain.grid import Grid
from heathaze.errors import TooLarge
from heathaze.privacy.events import RandomizedReport
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.trust import Adjacency


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
