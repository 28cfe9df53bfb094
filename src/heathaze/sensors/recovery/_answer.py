"""From draws of the posterior to the recovered sources: shares of the candidates, and sources matched across draws.

The shares minimise the mean earth mover's distance to the draws, which is the expected error under the posterior. On a
line the minimum is exact. In the plane and on a graph it is the solution of a linear program over a selection of places
and draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as member

import numpy as np
import numpy.typing as npt

from heathaze.sensors.emd import cheapest_plan, euclidean
from heathaze.sensors.physics.field import Field
from heathaze.types import Floats, Integers

ANCHORS = 40
"""Largest number of places that get a share, in the plane and on a graph."""

_FITTED = 40
"""Number of draws to which the shares are fitted; as many other draws are used to choose between two answers."""

_LIKELY = 8
"""The middle of several nodes is chosen among this many of the most frequent nodes."""

Places = npt.NDArray[np.generic]
"""Places of sources: coordinates of shape (…, dimensions), or indices of candidates of shape (…)."""


@dataclass(eq=False)
class Metric:
    """Distances between places of a field: Euclidean, or along the edges of a network.

    Args:
        field: The field.
    """

    field: Field
    _known: dict[int, Floats] = member(default_factory=dict)

    @property
    def line(self) -> Floats | None:
        """Coordinates of the candidates if the space has one dimension, else None."""
        if self.field.network is not None or self.field.positions is None or np.shape(self.field.positions)[1] != 1:
            return None
        return np.asarray(self.field.positions, dtype=np.float64)[:, 0]

    @property
    def pooled(self) -> int:
        """Number of places from the draws among which :func:`nearest_shares` chooses."""
        # On a large network each place needs a shortest-path search, so fewer places are used.
        return 60 if self.field.network is not None and self.field.shape[1] > 5000 else 240

    def between(self, ones: Places, others: Places) -> Floats:
        """Matrix of distances from each place in ``ones`` to each place in ``others``."""
        if self.field.network is not None:
            if len(new := np.setdiff1d(ones, list(self._known))):
                self._known.update(zip(new.tolist(), self.field.network.distances(new), strict=True))
            return np.stack([self._known[int(one)][others] for one in ones])
        return euclidean(self._coordinates(ones), self._coordinates(others))

    def middle(self, places: Places) -> Places:
        """Middle of some places: their mean, or among candidates a frequent one with the least mean distance to all."""
        if self.field.bounds is not None:
            return np.asarray(places.mean(axis=0))
        distinct, times = np.unique(places, return_counts=True)
        likely = distinct[np.argsort(-times, kind="stable")[:_LIKELY]]
        return np.asarray(likely[np.argmin(self.between(likely, distinct) @ times)])

    def candidate(self, places: Places) -> Integers:
        """Index of the candidate nearest to each place."""
        if self.field.bounds is None:
            return np.asarray(places, dtype=np.int64)
        from scipy.spatial import cKDTree

        assert self.field.positions is not None
        return np.asarray(cKDTree(self.field.positions).query(places)[1])

    def _coordinates(self, places: Places) -> Floats:
        if self.field.bounds is not None:
            return np.asarray(places, dtype=np.float64)
        assert self.field.positions is not None
        return np.asarray(np.asarray(self.field.positions, dtype=np.float64)[places])


def median_shares(candidates: Floats, places: Floats, shares: Floats) -> Floats:
    """Shares of the candidates on a line with the least mean earth mover's distance to the draws.

    The distance is ∫ |F − G|, where F and G are the running sums of two sets of shares. The mean distance is least if F
    is, at every point, the median of the running sums G of the draws.

    Args:
        candidates: Coordinates, shape (n,), in any order.
        places: Coordinates of the sources in each draw, shape (draws, sources).
        shares: Shares of the sources in each draw, shape (draws, sources); each draw sums to 1.

    >>> median_shares(np.array([0.0, 1, 2]), np.array([[0.1], [1.2], [1.9]]), np.ones((3, 1))).tolist()
    [0.0, 1.0, 0.0]
    """
    order = np.argsort(candidates, kind="stable")
    between = (candidates[order][1:] + candidates[order][:-1]) / 2
    running = np.empty(len(between))
    for start in range(0, len(between), 256):
        some = between[start : start + 256]
        below = np.zeros((len(places), len(some)))
        for j in range(places.shape[1]):
            below += shares[:, j, None] * (places[:, j, None] <= some)
        running[start : start + 256] = np.median(below, axis=0)
    answer = np.empty(len(candidates))
    answer[order] = np.maximum(np.diff(running, prepend=0.0, append=1.0), 0.0)
    return np.asarray(answer / answer.sum())


@dataclass(frozen=True, eq=False)
class Anchored:
    """A selection of places with their shares of the strength."""

    places: Places
    shares: Floats


def nearest_shares(
    number: Integers, places: Places, shares: Floats, distances: Callable[[Places, Places], Floats], most: int
) -> Anchored:
    """Shares of places in the plane and on a graph with a small mean earth mover's distance to the draws.

    The result is the better of two answers, compared on draws that were not used for fitting. One answer is the mean of
    the draws. The other minimises the mean distance to a selection of draws, by a linear program:

        minimise  Σ_i Σ_aj γ_i(a, j) · d(a, x_ij)   with  Σ_j γ_i(a, j) = f(a),  Σ_a γ_i(a, j) = share of source j.

    Here f(a) is the share of place a, and γ_i(a, j) is the mass that moves from a to the source j of draw i, at x_ij.
    """
    every = np.unique(np.linspace(0, len(number) - 1, 4 * _FITTED).astype(np.int64))
    present = np.arange(shares.shape[1]) < number[:, None]
    pool, which = np.unique(places[every][present[every]], axis=0, return_inverse=True)
    weights = np.asarray(np.bincount(which.ravel(), shares[every][present[every]]), dtype=np.float64)
    if len(pool) > most:
        kept = np.sort(np.argsort(-weights, kind="stable")[:most])
        pool, weights = pool[kept], weights[kept]
    anchors = pool[_spread_out(distances(pool, pool), weights, ANCHORS)]
    # The costs and masses of each draw.
    draws = [(distances(anchors, places[i][present[i]]), shares[i][present[i]]) for i in every]
    mean = np.zeros(len(anchors))
    for cost, mass in draws:
        np.add.at(mean, cost.argmin(axis=0), mass / len(every))
    answers = [mean, _least(draws[::2][:_FITTED])]
    judged = [sum(transport(cost, answer, mass) for cost, mass in draws[1::2][:_FITTED]) for answer in answers]
    return Anchored(anchors, answers[int(np.argmin(judged))])


def transport(cost: Floats, here: Floats, there: Floats) -> float:
    """Least cost of moving the masses ``here`` (rows of the cost) to the masses ``there`` (columns); both sum to 1."""
    if cost.shape[1] == 1:
        return float(cost[:, 0] @ here)
    held = np.flatnonzero(here > 1e-12)
    return cheapest_plan(cost[held], here[held], there)[0]


def _least(draws: list[tuple[Floats, Floats]]) -> Floats:
    """Shares of the anchor places with the least mean earth mover's distance to some draws, by a linear program.

    A draw is given by the costs from each anchor to each of its sources, and by the masses of its sources.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_array, block_diag, csr_array, eye_array, kron, vstack

    anchors = len(draws[0][0])
    leaves, arrives, right = [], [], []
    for index, (_, mass) in enumerate(draws):
        # The equations of the first draw make the shares sum to 1, so the last equation of every other draw follows.
        kept = len(mass) if index == 0 else len(mass) - 1
        leaves.append(kron(eye_array(anchors), np.ones((1, len(mass)))))
        arrives.append(csr_array(kron(np.ones((1, anchors)), eye_array(len(mass))))[:kept])
        right.append((mass / mass.sum())[:kept])
    shared = vstack([-eye_array(anchors)] * len(draws))
    equal = block_array([[block_diag(leaves), shared], [block_diag(arrives), None]], format="csr")
    target = np.concatenate([np.zeros(anchors * len(draws)), *right])
    scale = max(float(max(cost.max() for cost, _ in draws)), 1e-300)
    weights = np.concatenate([*(cost.ravel() / scale for cost, _ in draws), np.zeros(anchors)])
    found = linprog(weights, A_eq=equal, b_eq=target, method="highs")
    shares = np.maximum(found.x[-anchors:], 0.0)
    return np.asarray(shares / shares.sum())


def _spread_out(distance: Floats, weights: Floats, count: int) -> Integers:
    """Choose anchor places greedily, so that the mean distance of the weight to the nearest anchor is small."""
    nearest = np.full(len(weights), np.inf)
    chosen: list[int] = []
    for _ in range(min(count, len(weights))):
        best = int(np.argmin(np.minimum(distance, nearest) @ weights))
        if chosen and nearest[best] == 0:
            break
        chosen.append(best)
        nearest = np.minimum(nearest, distance[best])
    return np.array(chosen)


@dataclass(frozen=True, eq=False)
class Matched:
    """One source matched across draws: its place and strength in each draw, and the middle of its places."""

    middle: Places
    places: Places
    strengths: Floats


def match_sources(places: Places, strengths: Floats, first: int, metric: Metric) -> list[Matched]:
    """Match the sources of all draws with each other, because the order of sources within a draw is arbitrary.

    The sources of one draw serve as first middles. The sources of every draw are assigned to the middles with the least
    sum of distances, and the middles are computed again, until the assignment no longer changes.

    Args:
        places: Places of the sources, shape (draws, sources) or (draws, sources, dimensions).
        strengths: Strengths of the sources, shape (draws, sources).
        first: Index of the draw to begin with.
        metric: The distances between places, and the middle of several places.
    """
    from scipy.optimize import linear_sum_assignment

    draws, sources = strengths.shape
    chosen, middles = places, places[first]
    order = np.tile(np.arange(sources), (draws, 1))
    for _ in range(20):
        apart = metric.between(middles, places.reshape(draws * sources, *places.shape[2:]))
        apart = apart.reshape(sources, draws, sources).transpose(1, 0, 2)
        matched = np.stack([linear_sum_assignment(cost)[1] for cost in apart])
        if (matched == order).all():
            break
        order = matched
        chosen = np.take_along_axis(places, order.reshape(*order.shape, *[1] * (places.ndim - 2)), axis=1)
        middles = np.stack([metric.middle(chosen[:, j]) for j in range(sources)])
    powers = np.take_along_axis(strengths, order, axis=1)
    return [Matched(metric.middle(chosen[:, j]), chosen[:, j], powers[:, j]) for j in range(sources)]
