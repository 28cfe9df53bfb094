"""Dense: noise on one level of the quadtree, then a non-negative fit (appendix D of Ghazi et al. 2023).

The mechanism suits maps on which people are spread everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.central.tree_fit import Level, fit_tree
from heathaze.checks import assign, whole
from heathaze.domain.density import TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import nodes_at
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import DiscreteLaplace
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness

FINEST_LEVEL = 11
"""The finest level that is used. It has four million nodes; a finer level would need more than 4^12/ε people."""


@dataclass(frozen=True, init=False)
class Dense:
    """Discrete Laplace noise on the level of the quadtree that balances noise against resolution; see ``dense.md``.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release, above 0.
        people: About how many units are expected, at least 1. This is a public guess made before the data are seen,
            because the true number of units is private when units may be added or removed (errata E0-3). A wrong guess
            costs accuracy, never privacy.

    Raises:
        InvalidInput: ``people`` is not a whole number of at least 1.

    >>> Dense(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=1, people=1000).level    # log₂ √1000
    5
    """

    grid: Grid
    epsilon: Fraction
    people: int

    def __init__(self, grid: Grid, epsilon: Number, people: int) -> None:
        guess = whole(people, "people", "about how many people you expect", most=2**53)
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), people=guess)

    @property
    def level(self) -> int:
        """The level that gets noise: ℓ* = log₂ √(ε n) for n people, rounded and limited to the levels of the grid."""
        finest = min(self.grid.depth, FINEST_LEVEL)
        if self.epsilon == math.inf:
            return finest
        return max(0, min(finest, round(math.log2(math.sqrt(float(self.epsilon) * self.people)))))

    def event(self, bound: int) -> DiscreteLaplace:
        """Describe one release with discrete Laplace noise: the counts of one level, whose nodes do not overlap.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event, from which the privacy loss is computed.
        """
        return DiscreteLaplace(bound, laplace_scale(bound, self.epsilon))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Add noise to the counts of the level, and fit the non-negative masses that are closest in the tree norm.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The estimate.
        """
        nodes = nodes_at(self.grid, self.level)
        noise = discrete_laplace(self.event(counts.bound).scale, len(nodes), randomness)
        levels = [Level(nodes, counts.at(self.level, nodes) + noise)]
        for _ in range(self.level):
            levels.insert(0, _parents(levels[0]))
        fit = fit_tree(self.grid, 0, levels)
        density = TreeDensity.from_mass(self.grid, fit.levels, fit.codes, fit.mass)
        return Estimate(
            density, total=float(fit.mass.sum(dtype=np.float64)) / counts.one, simulated=randomness.simulated
        )

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon), "people": self.people, "level": self.level}


def _parents(level: Level) -> Level:
    """Make the next coarser level of noisy counts: the count of each parent is the sum of its children's counts."""
    codes, firsts = np.unique(level.codes >> 2, return_index=True)
    return Level(codes, np.add.reduceat(level.counts, firsts))
