"""FlatTop: Laplace noise on every cell, and only the largest noisy cells kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.central.flat import check_every_cell, estimate, noisy_cells
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import DiscreteLaplace
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import laplace_scale
from heathaze.privacy.randomness import Randomness


@dataclass(frozen=True)
class FlatTop:
    """Discrete Laplace noise on every cell, all but the largest ``share`` of noisy cells set to zero; see
    ``flat_top.md``.

    ``share`` is a fraction of all cells, above 0 and at most 1 (the paper's "top 0.01 %" is 0.0001). Chosen before
    the data are seen: tuning it on them would cost budget (errata E0-13).
    """

    grid: Grid
    epsilon: Fraction
    share: float

    if TYPE_CHECKING:  # callers may write epsilon as any number; it is kept as an exact fraction

        def __init__(self, grid: Grid, epsilon: Number, share: float) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_every_cell(self.grid)
        if not 0 < self.share <= 1:
            raise InvalidInput(f"share is {self.share}; give the fraction of cells to keep, above 0 and at most 1.")

    def event(self, bound: int) -> DiscreteLaplace:
        """One discrete Laplace release of the cells, which are a partition."""
        return DiscreteLaplace(bound, laplace_scale(bound, self.epsilon))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Every cell plus noise; the largest kept, of equals the first."""
        noisy = noisy_cells(counts, self.event(counts.bound).scale, randomness)
        kept = np.argsort(-noisy, axis=None, kind="stable")[: math.ceil(self.share * counts.grid.cells)]
        top = np.zeros_like(noisy)
        top.flat[kept] = noisy.flat[kept]
        return estimate(top, counts)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon), "share": self.share}
