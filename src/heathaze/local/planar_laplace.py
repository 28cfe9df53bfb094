"""PlanarLaplace: report a cell near the true one; the price is counted for each metre. Geo-indistinguishability."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from heathaze.domain.grid import Grid
from heathaze.local._window import Window
from heathaze.local.geo_indistinguishability import decay, parse_reach, price_for_each
from heathaze.local.mechanism import LEFT_OUT, WindowMechanism, check_local_grid
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.loss import Number, parse_epsilon


@dataclass(frozen=True)
class PlanarLaplace(WindowMechanism):
    """Planar Laplace noise on a grid; see ``planar_laplace.md``.

        Pr[u | v] ∝ exp(−ε · min(distance of u and v, reach))

    Args:
        grid: The public frame.
        epsilon: Price for each metre on the globe, for each unit of length on a plane.
        reach: Where the weights stop falling, in the same unit. Left out, where one in a hundred reports lies beyond.
    """

    grid: Grid
    epsilon: Fraction
    reach: Fraction = LEFT_OUT

    if TYPE_CHECKING:  # callers may leave the reach out and write numbers as they like; all is settled below

        def __init__(self, grid: Grid, epsilon: Number, reach: Number | None = None) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_local_grid(self.grid)
        object.__setattr__(self, "reach", parse_reach(self.grid, self.epsilon, self.reach, margin=True))

    @property
    def adjacency(self) -> Adjacency:
        """A price for each metre, or each unit of length."""
        return price_for_each(self.grid)

    @functools.cached_property
    def window(self) -> Window:
        """The weights: largest at the true cell, falling with the distance, and equal beyond the reach."""
        weights = decay(self.grid, self.epsilon, self.reach, margin=True)
        return Window(self.grid.shape, weights.low, weights.excess, weights.support)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon), "reach": str(self.reach)}
