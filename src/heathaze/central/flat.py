"""Laplace noise on every cell: ``Flat`` keeps the noisy total, and ``FlatTop`` keeps only the largest noisy cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.central.mechanism import check_every_cell
from heathaze.central.nonnegative import nonnegative_cells
from heathaze.checks import assign, positive
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import DiscreteLaplace
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers


@dataclass(frozen=True, init=False)
class Flat:
    """Discrete Laplace noise on every cell of the grid, made non-negative with the noisy total; see ``flat.md``.

    Args:
        grid: The public frame, at most 2^24 cells.
        epsilon: Privacy loss of the whole release, above 0.

    Raises:
        TooLarge: The grid has more than 2^24 cells.

    >>> float(Flat(Grid.plane(x=(0, 1), y=(0, 1), size=8), epsilon=0.5).event(bound=1).scale)
    2.0
    """

    grid: Grid
    epsilon: Fraction

    def __init__(self, grid: Grid, epsilon: Number) -> None:
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon))
        check_every_cell(grid)

    def event(self, bound: int) -> DiscreteLaplace:
        """Describe one release with discrete Laplace noise: the cells, which do not overlap.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event, from which the privacy loss is computed.
        """
        return DiscreteLaplace(bound, laplace_scale(bound, self.epsilon))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Add noise to every cell, and make the cells non-negative without changing their sum.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The estimate.
        """
        noisy = _noisy_cells(counts, self.event(counts.bound).scale, randomness)
        mass = nonnegative_cells(self.grid, noisy.astype(np.float64))
        return Estimate(
            Density.from_mass(self.grid, mass), total=float(mass.sum()) / counts.one, simulated=randomness.simulated
        )

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon)}


def _noisy_cells(counts: Counts, scale: Fraction, randomness: Randomness) -> Integers:
    """Add discrete Laplace noise to the mass of every cell.

    Args:
        counts: The secret counts.
        scale: Scale of the noise, in mass.
        randomness: The source of the noise.
    """
    return counts.dense() + discrete_laplace(scale, counts.grid.cells, randomness).reshape(counts.grid.shape)


@dataclass(frozen=True, init=False)
class FlatTop:
    """Discrete Laplace noise on every cell, all but the largest noisy cells set to zero; see ``flat_top.md``.

    Args:
        grid: The public frame, at most 2^24 cells.
        epsilon: Privacy loss of the whole release, above 0.
        share: The share of all cells that is kept, above 0 and at most 1 (the paper's "top 0.01 %" is 0.0001). Choose
            the share before the data are seen: tuning it on the data would cost budget (errata E0-13).

    Raises:
        TooLarge: The grid has more than 2^24 cells.
        InvalidInput: The share is out of range.

    >>> FlatTop(Grid.plane(x=(0, 1), y=(0, 1), size=8), epsilon=1, share=0.25).parameters()
    {'epsilon': '1', 'share': 0.25}
    """

    grid: Grid
    epsilon: Fraction
    share: float

    def __init__(self, grid: Grid, epsilon: Number, share: float) -> None:
        share = positive(share, "share", "the fraction of cells to keep")
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), share=share)
        check_every_cell(grid)
        if share > 1:
            raise InvalidInput(f"share is {share}; give the fraction of cells to keep, above 0 and at most 1.")

    def event(self, bound: int) -> DiscreteLaplace:
        """Describe one release with discrete Laplace noise: the cells, which do not overlap.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event, from which the privacy loss is computed.
        """
        return DiscreteLaplace(bound, laplace_scale(bound, self.epsilon))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Add noise to every cell, and keep only the largest noisy cells; the first of equal cells is kept.

        Kept cells that are negative become zero. The total is the sum of all noisy cells, which has no bias.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The estimate.
        """
        noisy = _noisy_cells(counts, self.event(counts.bound).scale, randomness)
        kept = np.argsort(-noisy, axis=None, kind="stable")[: math.ceil(self.share * counts.grid.cells)]
        top = np.zeros_like(noisy)
        top.flat[kept] = noisy.flat[kept]
        total = max(0.0, float(noisy.sum(dtype=np.float64)))
        return Estimate(
            Density.from_mass(self.grid, np.maximum(top, 0)), total=total / counts.one, simulated=randomness.simulated
        )

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon), "share": self.share}
