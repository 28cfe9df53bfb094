"""Belief propagation on the tree of halvings (see noisy_counts.py), from noisy counts to the posterior of every mass.

A rough estimate gives the surface on which the prior is centred (prior.py). The prior is learned on a part of the tree.
Messages go from the leaves to the root, and beliefs (posterior probabilities) come back down. Then the surface is
computed again, from the posterior means, and everything is repeated once.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.inference import prior
from heathaze.inference.noisy_counts import NONE, NoisyCounts, SplitTree, build
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

_ENOUGH_NODES = 96
"""The prior is learned from at most this many divided nodes of each level, taken at equal distances."""

_STEPS, _LAST_STEPS = 4, 2
"""The steps of learning with the first surface, and with the second."""

_LUMP_DEVIATION = 0.7
"""Prior standard deviation of the logarithm of the lump. Its prior mean is 0: each person is at one place."""

_WORTH_A_THREAD = 256
"""The least number of nodes for a thread: they take about 4 ms, and the start of a thread takes 0.1 ms."""

BATCHES = 16
"""Samples are drawn in this many batches, each with other parameters of the prior."""


class Beliefs:
    """The posterior of the mass of every node and pair of a tree of halvings, given noisy counts.

    ``first`` and ``second`` are the first and second moments of the masses; :meth:`draws` samples the masses.
    """

    def __init__(self, tree: SplitTree, surface_odds: Floats | None = None, depth: int | None = None) -> None:
        from heathaze.inference import _grids, _messages

        count, points = len(tree.left), _messages.POINTS
        self.tree = tree
        self.combined, self.variance = np.zeros(count), np.zeros(count)
        _grids.combine(tree.left, tree.right, tree.value, tree.scale, self.combined, self.variance)
        self._low, self._step = np.zeros(count), np.zeros(count)
        _grids.place_grids(tree.left, tree.right, self.combined, self.variance, self._low, self._step, points)
        self._messages, self._weights = np.zeros((count, points)), np.zeros((count, points))
        self.first, self.second = np.zeros(count), np.zeros(count)
        self.group = 2 * tree.level + (tree.kind > 0)
        self.surface_odds = self._rough_surface() if surface_odds is None else surface_odds
        self.learned: prior.Learned | None = None
        self.learner = self
        self.use(prior.SharePrior.typical(tree.depth if depth is None else depth))

    @classmethod
    def infer(cls, noisy: NoisyCounts) -> Beliefs:
        """Infer the posterior of noisy counts; if the tree is large, the prior is learned from a part of it."""
        whole = cls(build(noisy))
        part, where = whole._part(_ENOUGH_NODES)
        learner = whole if part is whole.tree else cls(part, whole.surface_odds[where], whole.tree.depth)
        learner.learn(_STEPS, lump=True)
        whole.surface_odds = whole._better_surface(learner.prior)
        learner.surface_odds = whole.surface_odds if learner is whole else whole.surface_odds[where]
        learner.use(learner.prior)
        learner.learn(_LAST_STEPS)
        whole.use(learner.prior.changed(prior.EMPTIER, 0.0, 0.0, 0.0))
        whole.settle()
        whole.learned, whole.learner = learner.learned, learner
        return whole

    def use(self, chosen: prior.SharePrior) -> None:
        """Change the prior. Messages and moments are out of date until :meth:`settle` is called."""
        self.prior = chosen
        self.centre = chosen.centre(self.group, self.surface_odds)

    def learn(self, steps: int, lump: bool = False) -> None:
        """Improve the prior by some steps; with ``lump``, also choose the lump, after half of the steps."""
        halvings = self.tree.right != NONE
        for step in range(steps):
            used, gradient = np.zeros((len(halvings), len(prior.SLABS) + 1)), np.zeros(len(halvings))
            self.settle(used, gradient)
            # Halvings of only a few people are left out, because all slabs predict the same for them.
            informed = np.flatnonzero(halvings & (self.first > 3 * self.prior.lump))
            facts = (self.group[informed], self.surface_odds[informed], used[informed], gradient[informed])
            self.learned = prior.improve(self.prior, *facts, over_relax=step < steps - 1)
            self.use(self.learned.prior)
            if lump and step == steps // 2:
                self._learn_lump()

    def _learn_lump(self) -> None:
        """Choose the lump, a power of two, by its evidence and prior."""

        def value(lump: float) -> float:
            self.use(replace(self.prior, lump=lump))
            return self.evidence() - 0.5 * (math.log(lump) / _LUMP_DEVIATION) ** 2

        best, most = 1.0, value(1.0)
        for factor in (2.0, 0.5):
            while 2**-6 <= best * factor <= 2**10:
                tried = value(best * factor)
                if tried <= most:
                    break
                best, most = best * factor, tried
            if best != 1:
                break
        self.use(replace(self.prior, lump=best))

    def evidence(self) -> float:
        """Send messages up; return the evidence: the log-probability (density) of the noisy counts, given the prior."""
        from heathaze.inference import _messages

        tree, arrays = self.tree, (self._low, self._step, self._messages)
        counts = (tree.left, tree.right, tree.value, tree.scale)
        for start, stop in reversed(tree.stages):
            _in_pieces(_messages.upward, start, stop, *counts, *self._parameters, *arrays)
        return float(_messages.root(*arrays, self._weights, self.first, self.second))

    def settle(self, used: Floats | None = None, gradient: Floats | None = None) -> None:
        """Compute the moments of all masses by belief propagation, given the prior.

        Args:
            used: If given, receives the posterior probability that each halving used each slab, or a spike.
            gradient: If given, receives the derivative of the log-evidence by the centre of each halving.
        """
        from heathaze.inference import _messages

        for moments in (self._weights, self.first, self.second):
            moments[:] = 0
        self.evidence()
        tree, arrays = self.tree, (self._low, self._step, self._messages, self._weights, self.first, self.second)
        learning = (np.zeros((0, 0)), np.zeros(0)) if used is None or gradient is None else (used, gradient)
        for start, stop in tree.stages:
            halves = (tree.left, tree.right)
            _in_pieces(_messages.downward, start, stop, *halves, *self._parameters, *arrays, *learning)

    def at(self, level: int, numbers: Floats) -> Floats:
        """Select the values of the quadtree nodes of one level from an array with values of all nodes and pairs."""
        return numbers[self.tree.place[level]]

    def group_below(self, level: int) -> int:
        """Return the group of the first halving of nodes of a level; below the tree, that of its deepest level."""
        return 2 * max(0, min(level, self.tree.depth - 1))

    def quantile(self, nodes: Integers, probability: float) -> Floats:
        """Compute a quantile of the posterior of the masses of some nodes.

        The probability of a stored mass is spread evenly up to half a step to both sides, and that of the lowest stored
        mass, which may be an empty node, stays there.

        Args:
            nodes: The indices of the nodes.
            probability: The probability below the quantile.
        """
        weights = self._weights[nodes]
        until = np.cumsum(weights, axis=1)
        wanted = probability * until[:, -1]
        each, at = np.arange(len(nodes)), (until < wanted[:, None]).sum(axis=1)
        here = weights[each, at]
        part = np.divide(wanted - until[each, at] + here, here, out=np.zeros(len(nodes)), where=here > 0)
        return np.asarray(self._low[nodes] + np.where(at == 0, 0.0, at - 0.5 + part) * self._step[nodes])

    def draw(self, randomness: Randomness) -> Floats:
        """Draw one sample of the masses of all nodes and pairs from the posterior, given the prior."""
        return self._placed(randomness.uniforms(len(self.tree.left)))

    def _placed(self, uniforms: Floats) -> Floats:
        """Draw one sample by one uniform random number for each node and pair."""
        from heathaze.inference import _messages

        tree, mass = self.tree, np.zeros(len(uniforms))
        arrays = (self._low, self._step, self._messages, self._weights)
        _messages.draw(tree.left, tree.right, *self._parameters, *arrays, uniforms, mass)
        return mass

    def draws(self, count: int, randomness: Randomness) -> tuple[Floats, list[prior.SharePrior]]:
        """Draw samples of all masses; every batch of samples has its own parameters of the prior.

        Args:
            count: The number of samples, a multiple of :data:`BATCHES`.
            randomness: The source of random bits.

        Returns:
            (count, nodes) masses, and the prior of each batch.
        """
        assert self.learned is not None
        kept, priors = self.prior, []
        found: list[Floats] = []
        mean, deviation = self.learner._common_changes()
        emptier, doubt = prior.EMPTIER_DRAWN
        mean[0], deviation[0] = mean[0] + emptier, math.hypot(deviation[0], doubt)
        size = self.learned.counts.size + len(self.learned.precision)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            for _ in range(BATCHES):
                change = mean + deviation * _normals(randomness, len(mean))
                self.use(self.learned.drawn(randomness.uniforms(size), change))
                self.evidence()
                priors.append(self.prior)
                uniforms = [randomness.uniforms(len(self.tree.left)) for _ in range(count // BATCHES)]
                found += threads.map(self._placed, uniforms)
        self.use(kept)
        self.settle()
        return np.stack(found), priors

    def _common_changes(self) -> tuple[Floats, Floats]:
        """Find mean and deviation of changes of the whole prior, by fitting a parabola to the evidence on each axis."""
        kept = self.prior

        def value(axis: int, change: float) -> float:
            self.use(kept.changed(*(change if k == axis else 0.0 for k in range(len(prior.COMMON)))))
            return self.evidence() - 0.5 * (change / float(prior.COMMON[axis])) ** 2

        here, mean, deviation = value(0, 0.0), [], []
        for axis, wide in enumerate(prior.COMMON):
            for step in (0.7 * wide, 0.28 * wide, 0.11 * wide):
                up, down = value(axis, step) - here, value(axis, -step) - here
                if min(up, down) > -4:  # near enough for a parabola
                    break
            curvature = max(-(up + down) / step**2, wide**-2)
            mean.append(min(max((up - down) / (2 * step * curvature), -step), step))
            deviation.append(min(math.sqrt(prior.TEMPERATURE / curvature), wide))
        self.use(kept)
        self.settle()
        return np.array(mean), np.array(deviation)

    @property
    def _parameters(self) -> tuple[Any, ...]:
        return self.group, self.centre, self.prior.weights, self.prior.spikes, self.prior.lump

    def _part(self, most: int | None, until: int | None = None) -> tuple[SplitTree, Integers]:
        """Select a part of a large tree, and the index of each of its nodes in the whole tree.

        Where a branch is cut off, the best linear estimate of its mass replaces the counts below.

        Args:
            most: The number of divided nodes of each level that are kept, at equal distances; all if None.
            until: Nodes of this level, and below, are not divided.
        """
        tree = self.tree
        if sum(len(codes) for codes in tree.codes) <= 4 * _ENOUGH_NODES:
            return tree, np.arange(len(tree.left))
        levels, codes, values, scales = [], [], [], []
        kept = np.zeros(1, np.int64)
        for level, nodes in enumerate(tree.codes[: None if until is None else until + 1]):
            here = np.isin(nodes >> 2, kept) if level else np.ones(1, np.bool_)
            place = tree.place[level][here]
            inner = np.flatnonzero(tree.left[place] != NONE)
            if level == until:
                inner = inner[:0]
            elif most is not None and len(inner) > most:
                inner = inner[np.linspace(0, len(inner) - 1, most).astype(np.int64)]
            cut = np.ones(len(place), np.bool_)
            cut[inner] = False
            kept = nodes[here][inner]
            value = np.where(cut, self.combined[place], tree.value[place])
            scale = np.where(cut, np.sqrt(self.variance[place] / 2), tree.scale[place])
            known = np.isfinite(scale)
            levels.append(np.full(known.sum(), level))
            codes.append(nodes[here][known])
            values.append(value[known])
            scales.append(scale[known])
        part = build(NoisyCounts(tree.grid, *(np.concatenate(parts) for parts in (levels, codes, values, scales))))
        where = np.zeros(len(part.left), np.int64)
        for level, nodes in enumerate(part.codes):
            where[part.place[level]] = tree.place[level][np.searchsorted(tree.codes[level], nodes)]
        for kind, halves in ((1, tree.left), (2, tree.right)):
            pairs = part.kind == kind
            where[pairs] = halves[where[part.owner[pairs]]]
        return part, where

    def _better_surface(self, learned: prior.SharePrior) -> Floats:
        """Compute the surface's log-odds from posterior means of a tree whose last halvings are left out."""
        tree = self.tree
        part, where = self._part(None, tree.depth - 1)
        coarse = self if part is tree else Beliefs(part, self.surface_odds[where], tree.depth)
        coarse.use(learned)
        coarse.settle()
        return _surface_odds(tree, lambda level, _: np.maximum(coarse.at(level, coarse.first), 1e-9))

    def _rough_surface(self) -> Floats:
        """Compute the surface's log-odds from a rough estimate: positive masses, children summing to their parents."""
        tree, combined, variance = self.tree, self.combined, self.variance

        def masses(level: int, above: Floats) -> Floats:
            return _rough(tree, level - 1, above, combined, variance) if level else np.maximum(combined[:1], 1e-3)

        return _surface_odds(tree, masses)


def _normals(randomness: Randomness, count: int) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(randomness.uniforms(count), 1e-12, 1 - 1e-12)))


def _in_pieces(kernel: Callable[..., None], start: int, stop: int, *arrays: npt.NDArray[Any]) -> None:
    """Run a belief propagation kernel over one stage of the tree, in several threads if the stage has many nodes.

    The nodes of a stage do not depend on each other.
    """
    pieces = min(os.cpu_count() or 1, (stop - start) // _WORTH_A_THREAD)
    if pieces < 2:
        kernel(start, stop, *arrays)
        return
    borders = np.linspace(start, stop, pieces + 1).astype(np.int64).tolist()
    (_, own), *others = itertools.pairwise(borders)
    with ThreadPoolExecutor(pieces - 1) as threads:
        running = [threads.submit(kernel, *ends, *arrays) for ends in others]
        kernel(start, own, *arrays)
        for piece in running:
            piece.result()


def _surface_odds(tree: SplitTree, masses: Callable[[int, Floats], Floats]) -> Floats:
    """Compute the log-odds of every halving under a surface (prior.py).

    Args:
        tree: The tree of halvings.
        masses: Gives the masses of the nodes of a level, from the level and the masses of the level above.
    """
    odds, surface, mass = np.zeros(len(tree.left)), prior.Surface(tree.grid), np.zeros(0)
    for level in range(tree.depth):
        mass = masses(level, mass)
        surface.add(tree.codes[level], mass)
        place = tree.place[level]
        node = place[tree.left[place] != NONE]
        first, north, south = prior.log_odds(surface.expected_shares(tree.codes[level][tree.left[place] != NONE]))
        odds[node] = first
        left, right = tree.left[node], tree.right[node]
        whole = tree.kind[left] == 1
        odds[left[whole]], odds[right[whole]] = north[whole], south[whole]
    return odds


def _rough(tree: SplitTree, level: int, above: Floats, combined: Floats, variance: Floats) -> Floats:
    """Estimate the masses of the next level roughly: linear estimates, made positive and to sum to their parents."""
    place = tree.place[level + 1]
    parent = np.searchsorted(tree.codes[level], tree.codes[level + 1] >> 2)

    def total(numbers: Floats) -> Floats:
        return np.asarray(np.bincount(parent, weights=numbers, minlength=len(above))[parent], dtype=np.float64)

    value, spread = combined[place], variance[place]
    free = ~np.isfinite(spread)
    # The parent's mass minus the mass of measured children goes to the children that were not measured. If all were
    # measured, the difference is divided among them in proportion to their variances.
    known = np.where(free, 0.0, value)
    number = total(free.astype(np.float64))
    finite = np.where(free, 0.0, spread)
    shared = total(finite)
    missing = above[parent] - total(known)
    by_variance = known + missing * np.divide(finite, shared, out=np.zeros_like(finite), where=shared > 0)
    rest = np.where(free, missing / np.maximum(number, 1), known)
    weight = np.maximum(np.where(number > 0, rest, by_variance), 0) + np.where(
        free, 0.025 * above[parent], 0.1 * np.sqrt(finite)
    )
    sums = total(weight)
    return np.asarray(above[parent] * np.divide(weight, sums, out=np.full_like(weight, 0.25), where=sums > 0))
