"""PrivTree: a quadtree that is split by biased noisy counts and then counted at its leaves (Zhang, Xiao, Xie 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from heathaze.central.nonnegative import nonnegative_leaves
from heathaze.checks import assign
from heathaze.domain.density import TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import BiasedSplits, Composition, DiscreteLaplace
from heathaze.privacy.loss import Number, exact, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers

LOG_4 = Fraction(1_386_294_362, 10**9)
"""ln 4, rounded up; a node has 4 children (the paper's β)."""

_SCALE_BITS = 40
"""The number of binary digits of a scale. With 40 digits, rounding up wastes less than a millionth of the budget."""


@dataclass(frozen=True, init=False)
class PrivTree:
    """A tree of squares, small where people are; its privacy loss does not grow with its depth. See ``priv_tree.md``.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release, above 0.
        share: The share of ε that is spent on finding the squares, between 0 and 1. The rest is spent on counting them.

    Raises:
        InvalidInput: The share is not between 0 and 1.

    >>> tree = PrivTree(Grid.plane(x=(0, 1), y=(0, 1), size=2**20), epsilon=1)
    >>> splits = tree.splits(bound=2**20)
    >>> round(float(splits.scale) / 2**20, 3), round(float(splits.bias / splits.scale), 3)    # 14/3 people, ln 4
    (4.667, 1.386)
    """

    grid: Grid
    epsilon: Fraction
    share: Fraction

    def __init__(self, grid: Grid, epsilon: Number, share: Number = Fraction(1, 2)) -> None:
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), share=_parse_share(share))

    def splits(self, bound: int) -> BiasedSplits:
        """Choose the scale and the bias of the noise with which squares are split; all splits together cost share · ε.

        The bias is a whole number, δ = ⌈λ ln 4⌉ at the paper's scale λ = B/ε · 7/3. The scale is the smallest one that
        stays within the budget with this bias. The scale is at most λ, because δ was rounded up.

        Args:
            bound: The most mass of one unit, B.

        Returns:
            The privacy event of the splits.
        """
        if self.epsilon == math.inf:
            return BiasedSplits(bound, Fraction(0), 0)
        epsilon = self.epsilon * self.share
        # λ = B/ε · (2β − 1)/(β − 1), β = 4
        enough = laplace_scale(7 * bound, 3 * epsilon)
        bias = math.ceil(enough * LOG_4)
        return BiasedSplits(bound, _least_scale(bound, bias, epsilon, enough), bias)

    def event(self, bound: int) -> Composition:
        """Describe the noisy splits and one release with discrete Laplace noise: the leaves, which do not overlap.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event, from which the privacy loss is computed.
        """
        counted = laplace_scale(bound, self.epsilon * (1 - self.share))
        return Composition((self.splits(bound), DiscreteLaplace(bound, counted)))

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Find the squares, count each once with noise, make the counts non-negative, and spread each over its square.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The estimate.
        """
        leaves = self.grow(counts, randomness)
        scale = laplace_scale(counts.bound, self.epsilon * (1 - self.share))
        noisy = {
            level: (nodes, (counts.at(level, nodes) + discrete_laplace(scale, len(nodes), randomness)).astype(float))
            for level, nodes in leaves.items()
        }
        levels = np.concatenate([np.full(len(nodes), level) for level, nodes in leaves.items()])
        kept = nonnegative_leaves(noisy)
        mass = np.concatenate([kept[level] for level in leaves])
        density = TreeDensity.from_mass(self.grid, levels, np.concatenate(list(leaves.values())), mass)
        return Estimate(density, total=float(mass.sum()) / counts.one, simulated=randomness.simulated)

    def grow(self, counts: Counts, randomness: Randomness) -> dict[int, Integers]:
        """Grow the tree by noisy splits (Algorithm 2 of the paper with threshold θ = 0).

        Noise is drawn for the visited nodes only, level by level. Nodes of the finest level are always leaves. Nodes in
        the padding do not exist.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The Morton codes of the leaves of each level; a level without leaves has no entry.
        """
        splits = self.splits(counts.bound)
        leaves: dict[int, Integers] = {}
        nodes = np.zeros(1, dtype=np.int64)
        for level in range(self.grid.depth):
            # b(v) = max(c(v) − depth · δ, θ − δ), θ = 0
            biased = np.maximum(counts.at(level, nodes) - level * splits.bias, -splits.bias)
            split = biased + discrete_laplace(splits.scale, len(nodes), randomness) > 0
            leaves[level] = nodes[~split]
            nodes = children(nodes[split])
            nodes = nodes[exists(self.grid, level + 1, nodes)]
            if len(nodes) == 0:
                break
        leaves[self.grid.depth] = nodes
        return {level: found for level, found in leaves.items() if len(found)}

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon), "share": str(self.share)}


def _parse_share(value: Number) -> Fraction:
    try:
        if isinstance(value, bool):
            raise TypeError
        share = exact(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidInput(f"share is {value!r}; give the part of epsilon that finds the squares, as 0.5.") from None
    if not 0 < share < 1:
        raise InvalidInput(f"share is {value}; give the part of epsilon that finds the squares, between 0 and 1.")
    return share


@lru_cache(maxsize=64)
def _least_scale(bound: int, bias: int, epsilon: Fraction, enough: Fraction) -> Fraction:
    """Find the smallest scale of 40 binary digits at which PrivTree's splits cost at most ε.

    The search is a bisection, since a larger scale always costs less. ``enough`` is a scale that is large enough.
    """
    unit = 2 ** max(0, _SCALE_BITS - math.ceil(enough).bit_length())
    # Even with an infinite bias the splits cost 2 B/λ, so a scale below 2 B/ε is too small.
    too_small, fits = math.floor(2 * bound / epsilon * unit) - 1, math.ceil(enough * unit)
    while fits - too_small > 1:
        middle = (too_small + fits) // 2
        if BiasedSplits(bound, Fraction(middle, unit), bias).epsilon <= epsilon:
            fits = middle
        else:
            too_small = middle
    return Fraction(fits, unit)
