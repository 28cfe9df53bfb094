"""PlanarLaplace: report a cell near the true cell with geo-indistinguishability, a privacy loss of ε per metre."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction

from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.local._window import Window
from heathaze.local.geo_indistinguishability import adjacency_by_length, decay, parse_cutoff
from heathaze.local.mechanism import WindowMechanism
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.loss import Number


@dataclass(frozen=True, init=False)
class PlanarLaplace(WindowMechanism):
    """Planar Laplace noise on a grid; see ``planar_laplace.md``.

        Pr[reported cell u | true cell v] ∝ exp(−ε · min(distance of u and v, cutoff))

    Args:
        grid: The public grid.
        epsilon: Privacy loss for each metre on the globe, or for each unit of length on a plane.
        cutoff: The distance beyond which all weights are equal, in the same unit of length. If left out, the shortest
            cutoff for which at most 1 % of all weight is spread evenly over the outputs, if the map allows that.

    Raises:
        InvalidInput: ε is not positive or too small for this grid, or the cutoff cannot be used.
        TooLarge: The grid has too many cells.

    >>> PlanarLaplace(Grid.plane(x=(0, 10), y=(0, 10), size=10), epsilon=1).cutoff
    Fraction(19, 2)
    """

    cutoff: Fraction

    def __init__(self, grid: Grid, epsilon: Number, cutoff: Number | None = None) -> None:
        super().__init__(grid, epsilon)
        assign(self, cutoff=parse_cutoff(grid, self.epsilon, cutoff, margin=True))

    @property
    def adjacency(self) -> Adjacency:
        """A privacy loss per metre on the globe, or per unit of length on a plane."""
        return adjacency_by_length(self.grid)

    @functools.cached_property
    def window(self) -> Window:
        """The weights: they fall with the distance from the true cell, and are equal beyond the cutoff."""
        weights = decay(self.grid, self.epsilon, self.cutoff, margin=True)
        return Window(self.grid.shape, weights.low, weights.excess, weights.support)
