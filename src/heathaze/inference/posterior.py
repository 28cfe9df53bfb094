"""The posterior over maps given noisy counts: the expected map, its uncertainty, and samples.

The likelihood is the distribution of the noise. The prior is a Pólya tree whose smoothness is learned from the same
noisy counts (prior.py). On a tree, inference is exact up to numerical integration: messages go up once and beliefs come
down once (_messages.py), so the time is linear in the number of nodes. All of this is post-processing: the code sees no
secret data and costs no budget.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from heathaze.domain.density import MAX_DENSE_CELLS, Density, TreeDensity, part_inside, render_deviations
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import children, deinterleave, exists
from heathaze.inference import prior
from heathaze.inference._beliefs import Beliefs
from heathaze.inference.noisy_counts import NONE, NoisyCounts
from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.types import Booleans, Floats, Integers

MOST_CELLS = 2**20
"""If the grid has at most this many cells, the prior fills in detail (shades) down to single cells."""

MOST_SQUARES = 2**17
"""On a larger grid, leaves are divided and shaded only until the map has this many squares."""

SHADED_WIDENING = 1.05
"""Deviations below the measured leaves are widened by this factor, since the prior ignores errors of its surface."""

DRAWS = 128
"""The number of samples from which an interval is computed; the error of its ends is about a tenth of its width."""


@dataclass(frozen=True, eq=False)
class LevelBelief:
    """Mean and standard deviation of the mass (in people) of nodes of one level.

    Attributes:
        codes: The nodes, ascending.
        mean: Mean of their masses.
        deviation: Standard deviation of their masses.
        leaf: Whether each node is not divided further.
        measured: Whether noisy counts inform about each node; if not, only the prior divides its parent's mass.
        shown: Masses in the published map, if they differ from the mean; else None.
        drawn: Masses in each drawn map, if maps were drawn; else None.
    """

    codes: Integers
    mean: Floats
    deviation: Floats
    leaf: Booleans
    measured: Booleans
    shown: Floats | None = None
    drawn: Floats | None = None


@dataclass(frozen=True, eq=False)
class Posterior:
    """A probability distribution over maps, given noisy counts; see :func:`posterior`.

    ``density`` and ``total`` are the mean of the distribution. ``levels[i]`` has the means and standard deviations of
    the nodes of level i.
    """

    grid: Grid
    levels: list[LevelBelief]
    _beliefs: Beliefs | None

    @property
    def total(self) -> float:
        """Expected number of people on the whole map."""
        return float(self.levels[0].mean[0])

    @functools.cached_property
    def density(self) -> Density | TreeDensity:
        """The expected map."""
        return self._drawn([level.mean for level in self.levels])

    @functools.cached_property
    def squares(self) -> tuple[Integers, Integers, Floats, Floats]:
        """Level, code, mean and standard deviation (in people) of every square of the density."""
        leaves = [belief.leaf for belief in self.levels]
        return (
            np.concatenate([np.full(leaf.sum(), level) for level, leaf in enumerate(leaves)]),
            np.concatenate([belief.codes[belief.leaf] for belief in self.levels]),
            np.concatenate([belief.mean[belief.leaf] for belief in self.levels]),
            np.concatenate([belief.deviation[belief.leaf] for belief in self.levels]),
        )

    def deviations(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Floats:
        """Standard deviation of every cell of the rendered density, as a share of the mass of the whole map.

        Args:
            window: The part of the map to render; all of it if left out.
            shape: Rows and columns of the result; those of the grid if left out.
        """
        levels, codes, _, deviations = self.squares
        return render_deviations(self.grid, levels, codes, deviations / max(self.total, 1e-300), window, shape)

    def unresolved(self, box: Box) -> float:  # noqa: ARG002
        """Return 0: the prior covers every place, so no mass remains that may lie inside or outside of a box."""
        return 0.0

    def belief(self, box: Box, share: float) -> tuple[float, float]:
        """Mean and standard deviation of the share of the mass that lies in a box.

        Args:
            box: The box.
            share: The share in the estimated density, which is the mean.
        """
        return share, self.share_deviation(box)

    def share_deviation(self, box: Box) -> float:
        """Standard deviation of the share of the mass that lies in a box.

        Args:
            box: The box.
        """
        if self._beliefs is None:
            return 0.0
        tree, parts, cut = self._beliefs.tree, [], 0.0
        for level, place in enumerate(tree.place):
            leaf = tree.left[place] == NONE
            part = part_inside(self.grid, level, tree.codes[level][leaf], box)
            parts.append(part)
            # If the border of the box cuts a leaf, only the prior says how the leaf's mass is divided.
            second = self._beliefs.second[place[leaf]]
            concentration = self._beliefs.concentration(level, self._beliefs.first[place[leaf]])
            cut += float((second * part * (1 - part) / (concentration + 1)).sum())
        shares = self._leaf_draws @ np.concatenate(parts) / np.maximum(self._leaf_draws.sum(axis=1), 1e-300)
        return math.sqrt(float(shares.var()) + cut / max(self.total, 1e-300) ** 2)

    @functools.cached_property
    def _leaf_draws(self) -> Floats:
        """Masses of the measured leaves in DRAWS samples. The seed is fixed, so that an answer can be repeated."""
        assert self._beliefs is not None
        tree = self._beliefs.tree
        leaves = np.concatenate([place[tree.left[place] == NONE] for place in tree.place])
        bits = Simulation(0)
        return np.stack([self._beliefs.draw(bits)[leaves] for _ in range(DRAWS)])

    def sample(self, randomness: Randomness) -> Density | TreeDensity:
        """Draw one map from the posterior.

        Args:
            randomness: The source of random bits.
        """
        if self._beliefs is None:
            return self.density
        mass = self._beliefs.draw(randomness)
        drawn: list[Floats] = []
        for level, belief in enumerate(self.levels):
            here = np.zeros(len(belief.codes))
            if level <= self._beliefs.tree.depth:
                here[belief.measured] = self._beliefs.at(level, mass)
            shaded = np.flatnonzero(~belief.measured)
            if len(shaded):
                here[shaded] = self._shares(level, belief.codes[shaded], drawn[-1], randomness)
            drawn.append(here)
        return self._drawn(drawn)

    def _shares(self, level: int, codes: Integers, above: Floats, randomness: Randomness) -> Floats:
        """Draw the masses of nodes below the measured leaves: their parents' masses, divided by random shares."""
        assert self._beliefs is not None
        coarse = self.levels[level - 1]
        parents = np.unique(codes >> 2)
        at = np.searchsorted(coarse.codes, parents)
        position = np.searchsorted(self.levels[level].codes, codes)
        expected = np.zeros((len(parents), 4))
        expected[np.searchsorted(parents, codes >> 2), codes & 3] = self.levels[level].mean[position]
        shares = self._beliefs.random_shares(level - 1, expected, randomness)
        mass = above[at][:, None] * shares
        return np.asarray(mass[np.searchsorted(parents, codes >> 2), codes & 3])

    def _drawn(self, masses: list[Floats]) -> Density | TreeDensity:
        mass = np.concatenate([here[belief.leaf] for here, belief in zip(masses, self.levels, strict=True)])
        levels, codes = self.squares[:2]
        if len(codes) == self.grid.cells <= MAX_DENSE_CELLS:
            image = np.zeros(self.grid.shape)
            image[deinterleave(codes)] = mass
            return Density.from_mass(self.grid, image)
        return TreeDensity.from_mass(self.grid, levels, codes, mass)


def posterior(noisy: NoisyCounts) -> Posterior:
    """Infer the posterior over maps from noisy counts; the prior's smoothness is learned from the same counts.

    Args:
        noisy: Counts of quadtree nodes with noise of known scale.

    Cost: linear in the number of nodes; 3.4 s for a full tree of 256 × 256 cells on two cores.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> counts = NoisyCounts(grid, [0, 1, 1, 1, 1], [0, 0, 1, 2, 3], [100, 61, 22, 12, -2], [5, 1, 1, 1, 1])
    >>> posterior(counts).density.dense().values.round(2).tolist()
    [[0.64, 0.23], [0.13, 0.0]]
    """
    if (noisy.scales == 0).all():
        return _as_given(noisy)
    beliefs = Beliefs.infer(noisy)
    return Posterior(noisy.grid, _shaded(beliefs), beliefs)


def _as_given(noisy: NoisyCounts) -> Posterior:
    """Make the posterior of counts without noise: the counts themselves, with no uncertainty."""
    levels = []
    for level in range(int(noisy.levels.max()) + 1):
        codes, values, _ = noisy.at(level)
        below = noisy.at(level + 1)[0] >> 2 if level < noisy.levels.max() else np.zeros(0, np.int64)
        leaf = ~np.isin(codes, below)
        levels.append(LevelBelief(codes, values, np.zeros(len(codes)), leaf, np.ones(len(codes), np.bool_)))
    return Posterior(noisy.grid, levels, None)


def _shaded(beliefs: Beliefs) -> list[LevelBelief]:
    """Compute means and deviations of every level's nodes: from the counts, and below their leaves from the prior."""
    grid, tree = beliefs.tree.grid, beliefs.tree
    further = _levels_to_shade(beliefs)
    surface = prior.Surface(grid)
    codes = np.zeros(1, np.int64)
    mean, second = beliefs.at(0, beliefs.first), beliefs.at(0, beliefs.second)
    measured, until = np.ones(1, np.bool_), np.zeros(1, np.int64)
    levels: list[LevelBelief] = []
    for level in range(grid.depth + 1):
        surface.add(codes, mean)
        inner = np.zeros(len(codes), np.bool_)
        if level <= tree.depth:
            inner[measured] = tree.left[tree.place[level]] != NONE
        until = np.where(measured & ~inner, min(level + further, grid.depth), until)
        shading = np.flatnonzero(~inner & (until > level))
        deviation = np.sqrt(np.maximum(second - mean**2, 0)) * np.where(measured, 1.0, SHADED_WIDENING)
        leaf = ~inner
        leaf[shading] = False
        levels.append(LevelBelief(codes, mean, deviation, leaf, measured))
        if leaf.all():
            break
        # Below the measured leaves, the prior's surface divides the mass, and each halving adds variance.
        shares = surface.expected_shares(codes[shading])
        ratio = beliefs.second_moment_ratio(level, shares, mean[shading])
        below = children(codes[shading])
        there = exists(grid, level + 1, below)
        shaded = (
            below[there],
            (mean[shading, None] * shares).ravel()[there],
            (second[shading, None] * shares**2 * ratio).ravel()[there],
            np.repeat(until[shading], 4)[there],
        )
        counted = np.zeros(0, np.int64) if level >= tree.depth else tree.codes[level + 1]
        counted_mean = np.zeros(0) if level >= tree.depth else _consistent(beliefs, level, codes, mean, inner)
        counted_second = np.zeros(0) if level >= tree.depth else beliefs.at(level + 1, beliefs.second)
        codes = np.concatenate([counted, shaded[0]])
        order = np.argsort(codes)
        codes = codes[order]
        mean = np.concatenate([counted_mean, shaded[1]])[order]
        second = np.concatenate([counted_second, shaded[2]])[order]
        until = np.concatenate([np.zeros(len(counted), np.int64), shaded[3]])[order]
        measured = np.concatenate([np.ones(len(counted), np.bool_), np.zeros(there.sum(), np.bool_)])[order]
    return levels


def _consistent(beliefs: Beliefs, level: int, codes: Integers, mean: Floats, inner: Booleans) -> Floats:
    """Scale the means of the next level's counted nodes so that children sum to their parent exactly.

    Without scaling, the sums would differ by the error of the numerical integration.
    """
    below = beliefs.at(level + 1, beliefs.first)
    parents, parent_mean = codes[inner], mean[inner]
    parent = np.searchsorted(parents, beliefs.tree.codes[level + 1] >> 2)
    sums = np.bincount(parent, weights=below, minlength=len(parents))
    scale = np.divide(parent_mean, sums, out=np.ones(len(parents)), where=sums > 0)
    return below * scale[parent]


def _levels_to_shade(beliefs: Beliefs) -> int:
    """Choose by how many levels the prior divides (shades) the measured leaves of a map."""
    tree = beliefs.tree
    leaves = [int((tree.left[place] == NONE).sum()) for place in tree.place]
    depth = tree.grid.depth
    if tree.grid.cells <= MOST_CELLS:
        return depth
    for further in range(depth, 0, -1):
        if sum(n * 4 ** (min(depth, level + further) - level) for level, n in enumerate(leaves)) <= MOST_SQUARES:
            return further
    return 0
