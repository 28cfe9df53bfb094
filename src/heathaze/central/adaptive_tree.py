"""AdaptiveTree: noisy counts of quadtree nodes, finer where the counts above were large, and a map inferred from them.

**Search.** The search goes down the quadtree level by level. Every measured node has a coarse count and a remaining
budget. If the noise would hide all detail inside a node, the node becomes a leaf, and its remaining budget buys a
sharper count. Otherwise the node is divided by one or several levels at once, and a share of its remaining budget buys
coarse counts of its descendants. Coarse counts are public, and decisions depend on them only.

**Gradual release.** A coarse count and a later sharp count of the same node cost together only as much as the sharp
count. Let t ≤ T be two scales and X discrete Laplace noise of scale t. Let Z be 0 with probability

    w = (sinh(1 / 2T) / sinh(1 / 2t))²

and discrete Laplace noise of scale T otherwise. Then X + Z is discrete Laplace noise of scale T, as a comparison of the
characteristic functions shows. The sharp count is ``count + X``, and the coarse count is ``sharp + Z``. With B the most
mass of one unit, the coarse count without the sharp one costs B/T. Both together cost B/t, since Z does not depend on
the data.

The number w is irrational. The code rounds w down to a multiple of 2^-52, so that the coin for Z is exact. A smaller w
is safe: X + Z is then a mixture of two noises, one of scale T, and one of scale T with independent noise added.

The proofs are in ``adaptive_tree.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import exists
from heathaze.errors import PromiseBroken
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import LaplaceOnPaths
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.noise import discrete_laplace, laplace_scale
from heathaze.privacy.randomness import Randomness
from heathaze.types import Booleans, Floats, Integers

PARTS = 4096
"""The number of equal parts into which ε is divided. Budgets are whole numbers of parts, so no rounding overspends."""

LEAST_PARTS = PARTS // 64
"""The least budget of a count, in parts."""

TOTAL_PARTS = PARTS // 16
"""The budget of the total, in parts. Every other number of the map is a share of it."""

DIVIDE_ABOVE = 0.75
"""A node is divided if its children are expected to differ by at least this many times their noise."""

VISIBLE_ABOVE = 1.5
"""A level is expected to be visible if its nodes differ by at least this many times their noise."""

STRIDE = 2 / 3
"""One step goes down this share of the levels that are expected to be visible, since deep predictions are poor."""

TO_THE_CELLS = 0.5
"""A step goes down to single cells if all levels down to the cells, except for this part of a level, are expected to be
visible. Counts of levels in between would take budget from the cells and add little to sums of cells."""

HEADROOM = 0.5
"""Budget is kept for this many levels beyond those expected to be visible, since some places are denser than others."""

GROWTH = 1.5
"""Each level gets this many times the budget of the level above it."""

LONGEST_STRIDE = 2
"""The most levels that one step goes down. Longer steps would skip coarse levels, which large regions need."""

MOST_NODES = 2**19
"""The most nodes of a tree. A map of more nodes could not be inferred in the memory of a laptop."""

_BITS = 52
"""The probability w of the gradual release is a multiple of 2^-52."""


@dataclass(frozen=True, init=False)
class AdaptiveTree:
    """Noisy counts of quadtree nodes, finer where the counts above were large; see ``adaptive_tree.md``.

    The counts on a path from the root to a leaf cost ε together. The release contains the noisy counts, so every place
    of the map has error bars. There is nothing to tune: the noisy counts that are already published decide how the
    remaining budget is spent.

    Args:
        grid: The public frame.
        epsilon: Privacy loss of the whole release, above 0.

    >>> AdaptiveTree(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=0.5).parameters()
    {'epsilon': '1/2'}
    """

    grid: Grid
    epsilon: Fraction

    def __init__(self, grid: Grid, epsilon: Number) -> None:
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon))

    def event(self, bound: int) -> LaplaceOnPaths:
        """Describe noisy counts, each chosen from earlier ones, that cost at most ε on every path from root to leaf.

        Args:
            bound: The most mass of one unit.

        Returns:
            The privacy event, from which the privacy loss is computed.

        Raises:
            InvalidInput: The noise would not fit into 64 bits; give a larger epsilon.
        """
        laplace_scale(bound, self.epsilon * LEAST_PARTS / PARTS)  # too much noise is refused before any charge
        return LaplaceOnPaths(bound, self.epsilon)

    def run(self, counts: Counts, randomness: Randomness) -> Estimate:
        """Count nodes with noise, then infer the map from the noisy counts only.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The estimate.
        """
        return Estimate.infer(self.measure(counts, randomness), simulated=randomness.simulated)

    def measure(self, counts: Counts, randomness: Randomness) -> NoisyCounts:
        """Count the nodes of an adaptive tree with noise, each once; the counts on every path cost at most ε together.

        Args:
            counts: The secret counts.
            randomness: The source of the noise.

        Returns:
            The noisy counts of the tree.
        """
        return _Search(counts, self.epsilon, randomness).run()

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the provenance."""
        return {"epsilon": str(self.epsilon)}


@dataclass(frozen=True, eq=False, repr=False)
class GradualRelease:
    """Two noisy versions of the same counts: ``coarse`` is public, and ``sharp`` stays secret until it is paid for."""

    coarse: Integers
    sharp: Integers


def release_gradually(
    counts: Integers, coarse_scale: Fraction, sharp_scale: Fraction, randomness: Randomness
) -> GradualRelease:
    """Add noise of two scales to the same counts: the sharp count, and the coarse one that adds more noise to it.

    Args:
        counts: The secret counts.
        coarse_scale: Scale of the coarse noise, T.
        sharp_scale: Scale of the sharp noise, t ≤ T.
        randomness: The source of the noise.
    """
    sharp = counts + discrete_laplace(sharp_scale, len(counts), randomness)
    if coarse_scale == sharp_scale:
        return GradualRelease(sharp, sharp)
    more = discrete_laplace(coarse_scale, len(counts), randomness)
    coin = (randomness.words(len(counts)) >> np.uint64(64 - _BITS)).astype(np.int64)
    return GradualRelease(np.where(coin < _chance_of_nothing(coarse_scale, sharp_scale), sharp, sharp + more), sharp)


def _chance_of_nothing(coarse_scale: Fraction, sharp_scale: Fraction) -> int:
    """Compute the probability w that a coarse count equals its sharp count, in units of 2^-52.

    The result is rounded down by more than the error of floats.
    """
    ratio = math.sinh(0.5 / float(coarse_scale)) / math.sinh(0.5 / float(sharp_scale))
    return int(ratio**2 * (1 - 2.0**-40) * 2**_BITS)


@dataclass(frozen=True, eq=False)
class _Measured:
    """Measured nodes of one level. ``spent`` parts paid for ``coarse``; the remaining ``left`` parts can buy ``sharp``.

    ``estimate`` is the expected count in units of the bound B, the most mass of one unit.
    """

    codes: Integers
    spent: Integers
    left: Integers
    coarse: Integers
    sharp: Integers
    estimate: Floats

    def take(self, which: Booleans | Integers) -> _Measured:
        return _Measured(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    @staticmethod
    def together(parts: list[_Measured]) -> _Measured:
        names = _Measured.__dataclass_fields__
        whole = _Measured(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
        return whole.take(np.argsort(whole.codes))


@dataclass(eq=False, repr=False)
class _Search:
    """The search of AdaptiveTree, which chooses the nodes to measure and the budget of each.

    Estimates are in units of the bound B (the most mass of one unit), so noise that costs e has scale 1/e.

    Fields that the search fills:
        pending: For each level, the measured nodes that are neither divided nor leaves yet.
        found: Level, codes, published counts and parts spent; for each level first the leaves, then the divided nodes.
        evenness: For each past division: level, weight, and the probability that two people are in the same child.
        scales: The scale of the noise for each number of parts.
        measured: The number of nodes measured so far.
    """

    counts: Counts
    epsilon: Fraction | float
    randomness: Randomness
    pending: dict[int, list[_Measured]] = field(default_factory=dict)
    found: list[tuple[int, Integers, Integers, Integers]] = field(default_factory=list)
    evenness: list[tuple[int, Floats, Floats]] = field(default_factory=list)
    scales: dict[int, Fraction] = field(default_factory=dict)
    measured: int = 0

    def run(self) -> NoisyCounts:
        depth = self.counts.grid.depth
        root = np.zeros(1, np.int64)
        self._measure(0, root, TOTAL_PARTS, PARTS)
        for level in range(depth + 1):
            if level not in self.pending:
                continue
            here = _Measured.together(self.pending.pop(level))
            signal = self._signal(level, here)
            stride, spend = _plan(signal, here.left, max(depth - level, 1))
            closed = (signal < DIVIDE_ABOVE) & (level > 0) | (level == depth)
            closed |= self._too_many(signal, np.where(closed, 0, 4**stride))
            leaves, inner = here.take(closed), here.take(~closed)
            self.found.append((level, leaves.codes, leaves.sharp, leaves.spent + leaves.left))
            self.found.append((level, inner.codes, inner.coarse, inner.spent))
            self._divide(level, inner, stride[~closed], spend[~closed])
        return self._result()

    def _signal(self, level: int, nodes: _Measured) -> Floats:
        """Predict how much the children of each node differ from each other, in units of the noise they would get."""
        if self.epsilon == math.inf:
            return np.where(nodes.estimate > 0, math.inf, 0.0)
        return np.asarray(nodes.estimate * self._budget(nodes.left) * self._unevenness(level))

    def _too_many(self, signal: Floats, nodes: Integers) -> Booleans:
        """Find the nodes that must not be divided because the tree would get too large: those with the least signal."""
        order = np.argsort(-signal, kind="stable")
        needed = np.empty(len(nodes), np.int64)
        needed[order] = np.cumsum(nodes[order])
        return (needed > MOST_NODES - self.measured) & (nodes > 0)

    def _divide(self, level: int, nodes: _Measured, stride: Integers, spend: Integers) -> None:
        """Measure the descendants of divided nodes; nodes with equal stride and equal budgets are measured together."""
        for key in np.unique(np.stack([stride, nodes.left, spend], axis=1), axis=0):
            far, left, parts = key.tolist()
            group = nodes.take((stride == far) & (nodes.left == left) & (spend == parts))
            below = (group.codes[:, None] << (2 * far)) + np.arange(4**far)
            there = exists(self.counts.grid, level + far, below.ravel())
            parent = np.repeat(np.arange(len(below)), 4**far)[there]
            self._measure(level + far, below.ravel()[there], parts, left, group, parent)

    def _measure(
        self,
        level: int,
        codes: Integers,
        spend: int,
        left: int,
        above: _Measured | None = None,
        parent: Integers | None = None,
    ) -> None:
        """Take coarse counts of nodes, each for ``spend`` of its ``left`` parts; sharp counts would cost all parts."""
        self.measured += len(codes)
        seen = release_gradually(self.counts.at(level, codes), self._scale(spend), self._scale(left), self.randomness)
        estimate = seen.coarse / self.counts.bound
        if self.epsilon != math.inf:
            budget = float(self._budget(spend))
            if above is None or parent is None:
                estimate = _expected_count(estimate, 1 / budget)
            else:
                estimate = self._reconcile(level, estimate, budget, above, parent)
        same = np.ones(len(codes), np.int64)
        nodes = _Measured(codes, spend * same, (left - spend) * same, seen.coarse, seen.sharp, np.maximum(estimate, 0))
        self.pending.setdefault(level, []).append(nodes)

    def _reconcile(self, level: int, values: Floats, budget: float, above: _Measured, parent: Integers) -> Floats:
        """Make the counts of a node's descendants agree with the node's own count, and record how uneven they are.

        The node's count and the sum of its descendants are averaged with their precisions as weights. The difference
        between this average and the sum is spread evenly over the descendants.
        """
        count = len(above.codes)
        number = np.bincount(parent, minlength=count)
        sums = np.bincount(parent, weights=values, minlength=count)
        precision = self._budget(above.spent) ** 2 / 2, budget**2 / (2 * number)
        total = (precision[0] * above.estimate + precision[1] * sums) / (precision[0] + precision[1])
        values = values + ((total - sums) / number)[parent]
        noise = 2 / budget**2
        squares = np.bincount(parent, weights=values**2 - noise, minlength=count)
        held = total > 0
        strength = (total * budget) ** 2 / ((total * budget) ** 2 + 16.0 * number)
        strides = np.log2(np.maximum(number, 1)) / 2
        far = max(1, round(float(strides.max())))
        together = np.clip(squares[held] / total[held] ** 2, 0.25**far, 1.0) ** (1 / far)
        self.evenness.append((level, strength[held], together))
        return values

    def _unevenness(self, level: int) -> float:
        """Predict the standard deviation σ of a child's share of its parent's count from past divisions.

        Let r be the probability that two people of a node are in the same child. It is 1/4 if people are spread evenly
        over the children, and 1 if all are in one child: r = 1/4 + 4 σ². The prediction averages r over past divisions,
        and divisions on near levels weigh most. A prior value r = 1/2 has the weight of four divisions.
        """
        weighted, weight = 4 * 0.5, 4.0
        for seen, strength, together in self.evenness:
            faded = strength * 0.5 ** max(0, level - seen)
            weighted += float((faded * together).sum())
            weight += float(faded.sum())
        return math.sqrt((min(max(weighted / weight, 0.255), 0.95) - 0.25) / 4)

    def _budget(self, parts: Integers | int) -> Floats:
        return np.asarray(parts * float(self.epsilon) / PARTS)

    def _scale(self, parts: int) -> Fraction:
        if parts not in self.scales:
            self.scales[parts] = laplace_scale(self.counts.bound, self.epsilon * Fraction(parts, PARTS))
        return self.scales[parts]

    def _result(self) -> NoisyCounts:
        _check_paths(self.found)
        scales = [[float(self._scale(parts)) for parts in spent.tolist()] for _, _, _, spent in self.found]
        return NoisyCounts(
            self.counts.grid,
            np.concatenate([np.full(len(codes), level) for level, codes, _, _ in self.found]),
            np.concatenate([codes for _, codes, _, _ in self.found]),
            np.concatenate([values for _, _, values, _ in self.found]) / self.counts.one,
            np.concatenate(scales) / self.counts.one,
        )


def _expected_count(values: Floats, scale: float) -> Floats:
    """Compute the expected true count given a noisy count, if all counts from zero up are equally likely beforehand.

    The result is never zero. A noisy total that is negative by chance therefore does not end the search at the root.
    """
    beyond = np.exp(-np.maximum(values, 0) / scale)
    return np.where(values < 0, scale, (2 * values + scale * beyond) / (2 - beyond))


def _plan(signal: Floats, left: Integers, room: int) -> tuple[Integers, Integers]:
    """Choose the number of levels by which each node is divided in one step, and the budget (in parts) of the step.

    If the signal of a node is VISIBLE_ABOVE · 4^k, the k + 1 levels below it are expected to be visible. The remaining
    budget is shared among these levels in powers of GROWTH. One step spends the shares of all levels
    that it goes down. ``left`` is the remaining budget of each node in parts, and ``room`` the number of levels below
    the nodes.
    """
    with np.errstate(divide="ignore"):
        worth = 1 + np.maximum(np.log2(signal / VISIBLE_ABOVE) / 2, 0)
    if np.isinf(worth).any():  # without noise, go down one level at a time
        return np.ones(len(signal), np.int64), np.full(len(signal), LEAST_PARTS)
    worth = np.round(2 * np.minimum(worth, room)) / 2
    to_the_cells = worth >= room - TO_THE_CELLS
    stride = np.where(to_the_cells, room, (worth * STRIDE + 0.5).astype(np.int64))
    stride = np.clip(stride, 1, min(room, LONGEST_STRIDE))
    worth = np.maximum(worth, stride)
    planned = np.minimum(worth + np.where(signal > VISIBLE_ABOVE, HEADROOM, 0.0), room)
    share = GROWTH ** (stride - planned) * (1 - GROWTH**-stride) / (1 - GROWTH**-planned)
    spend = np.maximum(np.floor(share * left).astype(np.int64), LEAST_PARTS)
    return stride, np.where((share >= 0.9) | (spend + LEAST_PARTS > left), left, spend)


def _check_paths(found: list[tuple[int, Integers, Integers, Integers]]) -> None:
    """Refuse a finished tree in which a path from the root to a node spent more than its budget of PARTS."""
    known: list[tuple[Integers, Integers]] = []
    for level in range(max(level for level, *_ in found) + 1):
        codes = np.concatenate([np.zeros(0, np.int64), *(codes for here, codes, _, _ in found if here == level)])
        spent = np.concatenate([np.zeros(0, np.int64), *(parts for here, _, _, parts in found if here == level)])
        order = np.argsort(codes)
        codes, spent = codes[order], spent[order]
        if (np.diff(codes) == 0).any():
            raise PromiseBroken("A node was measured twice; do not use this map.")
        above, unknown = codes, np.arange(len(codes))
        for coarser, sums in reversed(known):
            above = above >> 2
            if not len(coarser) or not len(unknown):
                continue
            place = np.minimum(np.searchsorted(coarser, above[unknown]), len(coarser) - 1)
            hit = coarser[place] == above[unknown]
            spent[unknown[hit]] += sums[place[hit]]
            unknown = unknown[~hit]
        if (spent > PARTS).any():
            raise PromiseBroken("A path of the tree spent more than its budget; do not use this map.")
        known.append((codes, spent))
