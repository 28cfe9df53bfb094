"""PlanarLaplace: report a cell near the true one; the price is counted for each metre. Geo-indistinguishability."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction

from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.local._window import Window
from heathaze.local.geo_indistinguishability import decay, parse_cutoff, price_for_each
from heathaze.local.mechanism import WindowMechanism
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.loss import Number


@dataclass(frozen=True, init=False)
class PlanarLaplace(WindowMechanism):
    """Planar Laplace noise on a grid; see ``planar_laplace.md``.

        Pr[u | v] ∝ exp(−ε · min(distance of u and v, reach))

    Args:
        grid: The public frame.
        epsilon: Price for each metre on the globe, for each unit of length on a plane.
        reach: Where the weights stop falling, in the same unit. Left out, where one in a hundred reports lies beyond.
    """

    cutoff: Fraction

    def __init__(self, grid: Grid, epsilon: Number, cutoff: Number | None = None) -> None:
        super().__init__(grid, epsilon)
        assign(self, cutoff=parse_cutoff(grid, self.epsilon, cutoff, margin=True))

    @property
    def adjacency(self) -> Adjacency:
        """A price for each metre, or each unit of length."""
        return price_for_each(self.grid)

    @functools.cached_property
    def window(self) -> Window:
        """The weights: largest at the true cell, falling with the distance, and equal beyond the reach."""
        weights = decay(self.grid, self.epsilon, self.cutoff, margin=True)
        return Window(self.grid.shape, weights.low, weights.excess, weights.support)
