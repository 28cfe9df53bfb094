"""Flat: Laplace noise on every cell, negatives to zero. The baseline everybody knows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.domain.density import MAX_DENSE_CELLS, Density
from heathaze.domain.grid import Grid
from heathaze.errors import TooLarge
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import DiscreteLaplace
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers


@dataclass(frozen=True)
class Flat:
    """Discrete Laplace noise on every cell of the grid, negative cells set to zero; see ``flat.md``."""

    grid: Grid
    epsilon: Fraction

    if TYPE_CHECKING:  # callers may write epsilon as any number; it is kept as an exact fraction

        def __init__(self, grid: Grid, epsilon: Number) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_every_cell(self.grid)

    def event(self, bound: int) -> DiscreteLaplace:
        """One discrete Laplace release of the cells, which are a partition."""
        return DiscreteLaplace(bound, laplace_scale(bound, self.epsilon))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Every cell plus noise, cut at zero."""
        return estimate(noisy_cells(counts, self.event(counts.bound).scale, randomness), counts)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon)}


def check_every_cell(grid: Grid) -> None:
    """Refuse a grid with more cells than noise can be drawn for."""
    if grid.cells > MAX_DENSE_CELLS:
        raise TooLarge(
            f"{grid.rows} × {grid.cols} cells are too many to draw noise for each; use Pyramid, whose cost does not "
            "grow with the resolution, or a coarser grid."
        )


def noisy_cells(counts: Counts, scale: Fraction, randomness: Randomness) -> Integers:
    """Every cell's mass plus discrete Laplace noise."""
    return counts.dense() + discrete_laplace(scale, counts.grid.cells, randomness).reshape(counts.grid.shape)


def estimate(noisy: Integers, counts: Counts) -> Estimate:
    """The density of noisy cells cut at zero."""
    mass = np.maximum(noisy, 0)
    return Estimate(Density.from_mass(counts.grid, mass), total=float(mass.sum(dtype=np.float64)) / counts.one)
