"""FlatTop: Laplace noise on every cell, and only the largest noisy cells kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.central.flat import check_every_cell, estimate, noisy_cells
from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import DiscreteLaplace
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import laplace_scale
from heathaze.privacy.randomness import Randomness


@dataclass(frozen=True, init=False)
class FlatTop:
    """Discrete Laplace noise on every cell, all but the largest noisy cells set to zero; see ``flat_top.md``.

    Args:
        grid: The public frame, at most 2^24 cells.
        epsilon: Privacy loss of the whole release, above 0.
        share: Which part of all cells is kept, above 0 and at most 1 (the paper's "top 0.01 %" is 0.0001). Choose it
            before the data are seen: tuning it on them would cost budget (errata E0-13).

    Raises:
        TooLarge: The grid has more cells.
        InvalidInput: The share is out of range.

    >>> FlatTop(Grid.plane(x=(0, 1), y=(0, 1), size=8), epsilon=1, share=0.25).parameters()
    {'epsilon': '1', 'share': 0.25}
    """

    grid: Grid
    epsilon: Fraction
    share: float

    def __init__(self, grid: Grid, epsilon: Number, share: float) -> None:
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), share=share)
        check_every_cell(grid)
        if not 0 < share <= 1:
            raise InvalidInput(f"share is {share}; give the fraction of cells to keep, above 0 and at most 1.")

    def event(self, bound: int) -> DiscreteLaplace:
        """One discrete Laplace release of the cells, which are a partition.

        Args:
            bound: The most mass of one unit.
        """
        return DiscreteLaplace(bound, laplace_scale(bound, self.epsilon))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Every cell plus noise; the largest are kept, and the first of equal ones.

        Args:
            counts: The secret counts.
            randomness: Where the noise comes from.
        """
        noisy = noisy_cells(counts, self.event(counts.bound).scale, randomness)
        kept = np.argsort(-noisy, axis=None, kind="stable")[: math.ceil(self.share * counts.grid.cells)]
        top = np.zeros_like(noisy)
        top.flat[kept] = noisy.flat[kept]
        return estimate(top, counts)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon), "share": self.share}
