"""Pyramid: noisy counts on the levels of a quadtree, the heaviest kept, a non-negative fit (Ghazi et al. 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.central.tree_fit import Level, fit_tree
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


@dataclass(frozen=True)
class Pyramid:
    """The sparse aggregation of "Differentially Private Heatmaps" with the errata; see ``pyramid.md``.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release.
        w: Nodes kept a level (the paper's w).
        gamma: Share of a level's budget that the next finer level gets (the paper's γ; 1/√2 is optimal, errata E0-9).

    >>> pyramid = Pyramid(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=1)
    >>> {level: round(float(epsilon), 4) for level, epsilon in pyramid.level_epsilons().items()}
    {2: 0.3213, 3: 0.2272, 4: 0.1606, 5: 0.1136, 6: 0.0803, 7: 0.0568, 8: 0.0402}
    """

    grid: Grid
    epsilon: Fraction
    w: int = 20
    gamma: float = math.sqrt(0.5)

    if TYPE_CHECKING:  # callers may write epsilon as any number; it is kept as an exact fraction

        def __init__(self, grid: Grid, epsilon: Number, w: int = 20, gamma: float = math.sqrt(0.5)) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        if isinstance(self.w, bool) or not isinstance(self.w, int) or not 1 <= self.w <= 2**20:
            raise InvalidInput(f"w is {self.w!r}; give the number of nodes to keep a level, 1 to {2**20}.")
        if not 0 < self.gamma <= 1 or 0 in self.level_epsilons().values():
            raise InvalidInput(f"gamma is {self.gamma}; give a decay at most 1 that leaves every level some budget.")

    @property
    def top(self) -> int:
        """First measured level q = ⌊log₂ √w⌋: the finest with at most w nodes (errata E0-4)."""
        return min((self.w.bit_length() - 1) // 2, self.grid.depth)

    def level_epsilons(self) -> dict[int, Fraction]:
        """ε_i ∝ γ^(i − q), rounded down so that the sum is at most ε."""
        levels = range(self.top, self.grid.depth + 1)
        weights = [self.gamma ** (level - self.top) for level in levels]
        shares = [Fraction(math.floor(weight / math.fsum(weights) * 2**50), 2**50) for weight in weights]
        return {level: self.epsilon * share for level, share in zip(levels, shares, strict=True)}

    def event(self, bound: int) -> Composition:
        """One discrete Laplace release of a whole partition for each level."""
        return Composition(tuple(DiscreteLaplace(bound, scale) for scale in self._scales(bound).values()))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Algorithms 1 and 2: measure, keep the heaviest, fit."""
        fit = fit_tree(self.grid, self.top, self.measure(counts, randomness))
        density = TreeDensity.from_mass(self.grid, fit.levels, fit.codes, fit.mass)
        return Estimate(density, total=float(fit.mass.sum(dtype=np.float64)) / counts.one)

    def measure(self, counts: Counts, randomness: Randomness) -> list[Level]:
        """Noisy counts of the w heaviest nodes of each level, among the children of those kept above.

        Noise is drawn for the visited nodes only; the others' is independent and never read.
        """
        measured: list[Level] = []
        for level, scale in self._scales(counts.bound).items():
            nodes = nodes_at(self.grid, level) if level == self.top else self._offspring(level, measured[-1].codes)
            noisy = counts.at(level, nodes) + discrete_laplace(scale, len(nodes), randomness)
            kept = heaviest(noisy, self.w)
            measured.append(Level(nodes[kept], noisy[kept]))
        return measured

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon), "w": self.w, "gamma": self.gamma}

    def _scales(self, bound: int) -> dict[int, Fraction]:
        if self.epsilon == math.inf:
            return dict.fromkeys(range(self.top, self.grid.depth + 1), Fraction(0))
        return {level: laplace_scale(bound, epsilon) for level, epsilon in self.level_epsilons().items()}

    def _offspring(self, level: int, parents: Integers) -> Integers:
        nodes = children(parents)
        return nodes[exists(self.grid, level, nodes)]


def heaviest(noisy: Integers, count: int) -> Integers:
    """Places of the ``count`` largest numbers, ascending; of equals the first is kept, whatever the data."""
    return np.sort(np.lexsort((np.arange(len(noisy)), -noisy))[:count])
