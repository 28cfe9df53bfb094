"""Pyramid: noisy counts on the levels of a quadtree, of which the heaviest are kept and fitted (Ghazi et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.central.tree_fit import Level, fit_tree, heaviest
from heathaze.checks import assign, whole
from heathaze.domain.density import TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists, nodes_at
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import Composition, DiscreteLaplace
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers


@dataclass(frozen=True, init=False)
class Pyramid:
    """The algorithm of the paper "Differentially Private Heatmaps" with its errata corrected; see ``pyramid.md``.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release, above 0.
        w: The number of nodes that are kept on each level (the paper's w), 1 to 2^20.
        gamma: The budget of a level divided by the budget of the level above (the paper's γ), above 0 and at most 1;
            1/√2 is optimal (errata E0-9).

    Raises:
        InvalidInput: ``w`` or ``gamma`` is out of range.

    >>> pyramid = Pyramid(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=1)
    >>> {level: round(float(epsilon), 4) for level, epsilon in pyramid.level_epsilons().items()}
    {2: 0.3213, 3: 0.2272, 4: 0.1606, 5: 0.1136, 6: 0.0803, 7: 0.0568, 8: 0.0402}
    """

    grid: Grid
    epsilon: Fraction
    w: int
    gamma: float

    def __init__(self, grid: Grid, epsilon: Number, w: int = 20, gamma: float = math.sqrt(0.5)) -> None:
        kept = whole(w, "w", "the number of nodes to keep on each level", most=2**20)
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), w=kept, gamma=gamma)
        if not 0 < gamma <= 1 or 0 in self.level_epsilons().values():
            raise InvalidInput(f"gamma is {gamma}; give a decay at most 1 that leaves every level some budget.")

    @property
    def top(self) -> int:
        """The first measured level q = ⌊log₂ √w⌋, which is the finest level with at most w nodes (errata E0-4)."""
        return min((self.w.bit_length() - 1) // 2, self.grid.depth)

    def level_epsilons(self) -> dict[int, Fraction]:
        """Divide ε among the measured levels: ε_i ∝ γ^(i − q) for level i from q = ``top``, rounded down.

        Returns:
            The ε of each measured level.
        """
        levels = range(self.top, self.grid.depth + 1)
        weights = [self.gamma ** (level - self.top) for level in levels]
        shares = [Fraction(math.floor(weight / math.fsum(weights) * 2**50), 2**50) for weight in weights]
        return {level: self.epsilon * share for level, share in zip(levels, shares, strict=True)}

    def event(self, bound: int) -> Composition:
        """Describe one release with discrete Laplace noise for each level; the nodes of a level do not overlap.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event, from which the privacy loss is computed.
        """
        return Composition(tuple(DiscreteLaplace(bound, scale) for scale in self._scales(bound).values()))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Count nodes with noise, keep the heaviest, and fit masses to the noisy counts (Algorithms 1 and 2).

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The estimate.
        """
        fit = fit_tree(self.grid, self.top, self.measure(counts, randomness))
        density = TreeDensity.from_mass(self.grid, fit.levels, fit.codes, fit.mass)
        return Estimate(
            density, total=float(fit.mass.sum(dtype=np.float64)) / counts.one, simulated=randomness.simulated
        )

    def measure(self, counts: Counts, randomness: Randomness) -> list[Level]:
        """Count the children of the nodes kept on the level above with noise, and keep the w heaviest of each level.

        Noise is drawn for the visited nodes only. The noise of all other nodes is independent and would never be read.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The nodes that were kept on each level, from ``top`` to the finest.
        """
        measured: list[Level] = []
        for level, scale in self._scales(counts.bound).items():
            nodes = nodes_at(self.grid, level) if level == self.top else self._offspring(level, measured[-1].codes)
            noisy = counts.at(level, nodes) + discrete_laplace(scale, len(nodes), randomness)
            kept = heaviest(noisy, self.w)
            measured.append(Level(nodes[kept], noisy[kept]))
        return measured

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon), "w": self.w, "gamma": self.gamma}

    def _scales(self, bound: int) -> dict[int, Fraction]:
        if self.epsilon == math.inf:
            return dict.fromkeys(range(self.top, self.grid.depth + 1), Fraction(0))
        return {level: laplace_scale(bound, epsilon) for level, epsilon in self.level_epsilons().items()}

    def _offspring(self, level: int, parents: Integers) -> Integers:
        nodes = children(parents)
        return nodes[exists(self.grid, level, nodes)]
