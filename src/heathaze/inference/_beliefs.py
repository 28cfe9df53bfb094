"""Belief propagation on the tree of halvings (see noisy_counts.py), from noisy counts to the posterior of every mass.

A rough estimate centres the prior, the smoothness is learned by maximising the evidence, messages go from the leaves to
the root, and beliefs (posterior probabilities) come back down.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.inference import prior
from heathaze.inference.noisy_counts import NONE, NoisyCounts, SplitTree, build
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats

_ENOUGH_NODES = 512
"""The smoothness is learned from at most this many nodes of each level, taken at equal distances."""

_WORTH_A_THREAD = 256
"""The least number of nodes for a thread: they take about 4 ms, and the start of a thread takes 0.1 ms."""


class Beliefs:
    """The posterior of the mass of every node and pair of a tree of halvings, given noisy counts.

    ``first`` and ``second`` are the first and second moments of the masses; :meth:`draw` samples the masses.
    """

    def __init__(self, tree: SplitTree) -> None:
        from heathaze.inference import _messages

        count = len(tree.left)
        self.tree = tree
        self.combined, self.variance = np.zeros(count), np.zeros(count)
        _messages.combine(tree.left, tree.right, tree.value, tree.scale, self.combined, self.variance)
        self._low, self._step = np.zeros(count), np.zeros(count)
        _messages.place_grids(tree.left, tree.right, self.combined, self.variance, self._low, self._step)
        self._messages = np.zeros((count, _messages.POINTS))
        self._log_odds, self._expected = _expectations(tree, self.combined, self.variance)
        self._sharpness = np.ones(count)
        self.smoothness = prior.Smoothness()
        self.first, self.second = np.zeros(count), np.zeros(count)
        self._weights = np.zeros((count, _messages.POINTS))

    @classmethod
    def infer(cls, noisy: NoisyCounts) -> Beliefs:
        """Infer the posterior of noisy counts; if the tree is large, the smoothness is learned from a part of it."""
        whole = cls(build(noisy))
        part = whole._thinned()
        learner = whole if part is None else cls(build(part))
        whole.settle(prior.learn(learner.evidence))
        return whole

    def evidence(self, smoothness: prior.Smoothness) -> float:
        """Compute the evidence: the log-probability (density) of the noisy counts, given the smoothness."""
        from heathaze.inference import _messages

        tree = self.tree
        concentration = smoothness.concentration(tree.level, self._expected)
        self._sharpness = np.where(tree.kind == 0, concentration / 2, concentration / 4)
        arrays = (tree.left, tree.right, tree.value, tree.scale, self._sharpness, self._log_odds)
        for start, stop in reversed(tree.stages):
            _in_pieces(_messages.upward, start, stop, *arrays, self._low, self._step, self._messages)
        return float(_messages.root(self._low, self._step, self._messages, self._weights, self.first, self.second))

    def at(self, level: int, numbers: Floats) -> Floats:
        """Select the values of the quadtree nodes of one level from an array with values of all nodes and pairs."""
        return numbers[self.tree.place[level]]

    def draw(self, randomness: Randomness) -> Floats:
        """Draw one sample of the masses of all nodes and pairs from the posterior."""
        from heathaze.inference import _messages

        tree, mass = self.tree, np.zeros(len(self.tree.left))
        _messages.draw(
            tree.left,
            tree.right,
            self._sharpness,
            self._log_odds,
            self._low,
            self._step,
            self._messages,
            self._weights,
            randomness.uniforms(len(mass)),
            mass,
        )
        return mass

    def concentration(self, level: int, mass: Floats) -> Floats:
        """Compute the concentration A of nodes of a level with the learned smoothness (see prior.py)."""
        return self.smoothness.concentration(level, mass)

    def second_moment_ratio(self, level: int, shares: Floats, mass: Floats) -> Floats:
        """Compute E[s²] / E[s]² under the prior for the share s of each child of a node below the measured leaves."""
        first, north, south = prior.log_odds(shares)
        concentration = self.concentration(level, mass)
        whole = shares[:, 3] > 0
        ratio = np.empty(shares.shape)
        rows = prior.squared_share_ratio(first, concentration / 2), prior.squared_share_ratio(-first, concentration / 2)
        for child in range(4):
            pair, sign = (north, south)[child // 2], 1 if child % 2 == 0 else -1
            within = np.where(whole, prior.squared_share_ratio(sign * pair, concentration / 4), 1.0)
            ratio[:, child] = np.where(whole, rows[child // 2], rows[min(child, 1)]) * within
        return np.where((shares > 0).sum(axis=1, keepdims=True) == 1, 1.0, ratio)

    def random_shares(self, level: int, expected: Floats, randomness: Randomness) -> Floats:
        """Draw the shares of the four children of each node from the prior, centred on the expected masses."""
        whole = expected.sum(axis=1, keepdims=True)
        shares = np.divide(expected, whole, out=np.full(expected.shape, 0.25), where=whole > 0)
        first, north, south = prior.log_odds(shares)
        concentration = self.concentration(level, whole[:, 0])
        uniforms = np.clip(randomness.uniforms(3 * len(shares)).reshape(3, -1), 1e-12, 1 - 1e-12)
        logits = np.log(uniforms / (1 - uniforms))
        upper = _logistic(logits[0] / (concentration / 2) + first)
        west_north = _logistic(logits[1] / (concentration / 4) + north)
        west_south = _logistic(logits[2] / (concentration / 4) + south)
        drawn = np.stack(
            [upper * west_north, upper * (1 - west_north), (1 - upper) * west_south, (1 - upper) * (1 - west_south)],
            axis=1,
        )
        # If a node has two children, the first halving divides them. A single child takes all the mass.
        narrow = shares[:, 3] == 0
        drawn[narrow] = np.stack([upper, 1 - upper, 1 - upper, np.zeros(len(upper))], axis=1)[narrow]
        drawn = np.where(shares > 0, drawn, 0.0)
        return np.asarray(drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-300))

    def settle(self, smoothness: prior.Smoothness) -> None:
        """Compute the moments of all masses by belief propagation, given the smoothness."""
        from heathaze.inference import _messages

        self.smoothness = smoothness
        tree, arrays = self.tree, (self._low, self._step, self._messages, self._weights, self.first, self.second)
        for moments in (self._weights, self.first, self.second):
            moments[:] = 0
        self.evidence(smoothness)
        for start, stop in tree.stages:
            _in_pieces(_messages.downward, start, stop, tree.left, tree.right, self._sharpness, self._log_odds, *arrays)

    def _thinned(self) -> NoisyCounts | None:
        """Select a part of a large tree, to learn the smoothness from; None if the tree is small.

        Where a branch is cut off, the best linear estimate of its mass replaces the counts below.
        """
        tree = self.tree
        if sum(len(codes) for codes in tree.codes) <= 4 * _ENOUGH_NODES:
            return None
        levels, codes, values, scales = [], [], [], []
        kept = np.zeros(1, np.int64)
        for level, nodes in enumerate(tree.codes):
            here = np.isin(nodes >> 2, kept) if level else np.ones(1, np.bool_)
            place = tree.place[level][here]
            inner = np.flatnonzero(tree.left[place] != NONE)
            if len(inner) > _ENOUGH_NODES:
                inner = inner[np.linspace(0, len(inner) - 1, _ENOUGH_NODES).astype(np.int64)]
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
        return NoisyCounts(tree.grid, *(np.concatenate(parts) for parts in (levels, codes, values, scales)))


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


def _expectations(tree: SplitTree, combined: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Compute the prior's log-odds of every halving, and the expected mass that it divides.

    Both come from a rough estimate, in which masses are positive and children sum to their parents.
    """
    odds, expected = np.zeros(len(tree.left)), np.zeros(len(tree.left))
    surface = prior.Surface(tree.grid)
    mass = np.maximum(combined[:1], 1e-3)
    for level in range(tree.depth + 1):
        surface.add(tree.codes[level], mass)
        place = tree.place[level]
        expected[place] = mass
        if level == tree.depth:
            break
        inner = np.flatnonzero(tree.left[place] != NONE)
        first, north, south = prior.log_odds(surface.expected_shares(tree.codes[level][inner]))
        odds[place[inner]] = first
        left, right = tree.left[place[inner]], tree.right[place[inner]]
        whole = (left < len(tree.kind)) & (tree.kind[left] == 1)
        odds[left[whole]], odds[right[whole]] = north[whole], south[whole]
        mass = _rough(tree, level, mass, combined, variance)
    return odds, expected[tree.owner]


def _logistic(numbers: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(numbers, -700, 700)))


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
