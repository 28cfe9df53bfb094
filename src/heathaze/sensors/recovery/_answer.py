"""From guesses of sources to an answer: shares of the candidates that lie nearest to all guesses, and sources by name.

Nearest means least mean earth mover's distance, the posterior's expected error. On a line that is solved exactly; in
the plane and on a graph by a linear program over some places and some guesses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.types import Floats, Integers

ANCHORS = 40
"""Places among which the answer divides its mass, in the plane and on a graph."""

_FITTED = 40
"""Guesses to which the answer is fitted; as many others judge it."""

_POOLED = 240
"""Places of guesses from which anchors are chosen."""

Distances = Callable[[npt.NDArray[np.generic], npt.NDArray[np.generic]], Floats]
"""Between each of some places and each of others."""


def median_shares(candidates: Floats, places: Floats, shares: Floats) -> Floats:
    """On a line: the running sum of the answer is at every point the median of those of the guesses.

    The distance is ∫ |F − G| of running sums, so its mean is least where F is the median of G at every point.

    Args:
        candidates: (n,) coordinates, in any order.
        places: (guesses, sources) coordinates.
        shares: (guesses, sources), each guess summing to 1.

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
    """Shares of some places."""

    places: npt.NDArray[np.generic]
    shares: Floats


def nearest_shares(
    number: Integers, places: npt.NDArray[np.generic], shares: Floats, distances: Distances, most: int
) -> Anchored:
    """In the plane and on a graph: the better of two answers, judged by guesses that neither was fitted to.

    One is the mean of guesses. The other has the least mean distance from some of them, a linear program:

        minimise  Σ_i Σ_aj γ_i(a, j) · d(a, x_ij)   with  Σ_j γ_i(a, j) = f(a),  Σ_a γ_i(a, j) = share of source j.
    """
    every = np.unique(np.linspace(0, len(number) - 1, 4 * _FITTED).astype(np.int64))
    fitted, judges = every[::2][:_FITTED], every[1::2][:_FITTED]
    present = np.arange(shares.shape[1]) < number[:, None]
    pool = places[every][present[every]]
    weights = shares[every][present[every]]
    pool, which = np.unique(pool, axis=0, return_inverse=True)
    weights = np.asarray(np.bincount(which.ravel(), weights))
    if len(pool) > most:
        kept = np.sort(np.argsort(-weights, kind="stable")[:most])
        pool, weights = pool[kept], weights[kept]
    anchors = pool[_spread_out(distances(pool, pool), weights, ANCHORS)]
    cost = {int(i): distances(anchors, places[i][present[i]]) for i in np.concatenate([fitted, judges])}
    mean = np.zeros(len(anchors))
    for i in every:
        nearest = distances(anchors, places[i][present[i]]).argmin(axis=0)
        np.add.at(mean, nearest, shares[i][present[i]] / len(every))
    masses = {i: shares[i][present[i]] for i in cost}
    answers = [mean, _least([cost[int(i)] for i in fitted], [masses[int(i)] for i in fitted])]
    judged = [sum(transport(cost[int(i)], answer, masses[int(i)]) for i in judges) for answer in answers]
    return Anchored(anchors, answers[int(np.argmin(judged))])


def transport(cost: Floats, here: Floats, there: Floats) -> float:
    """The least cost of bringing the masses of rows to those of columns; both sum to 1."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, kron, vstack

    if cost.shape[1] == 1:
        return float(cost[:, 0] @ here)
    held = np.flatnonzero(here > 1e-12)
    rows, cols = len(held), cost.shape[1]
    equal = [kron(eye_array(rows), np.ones((1, cols))), kron(np.ones((1, rows)), eye_array(cols))]
    sums = np.concatenate([here[held] / here[held].sum(), there / there.sum()])
    # The last sum follows from the others; kept, rounding could make it contradict them.
    found = linprog(cost[held].ravel(), A_eq=csr_array(vstack(equal))[:-1], b_eq=sums[:-1], method="highs")
    return float(found.fun)


def _least(costs: list[Floats], masses: list[Floats]) -> Floats:
    """Shares of the anchors with the least mean distance from guesses."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    anchors = len(costs[0])
    blocks_rows, blocks_cols, right = [], [], []
    sizes = [cost.size for cost in costs]
    total = sum(sizes)
    start = 0
    for cost, mass in zip(costs, masses, strict=True):
        cols = cost.shape[1]
        before, after = csr_array((anchors, start)), csr_array((anchors, total - start - cost.size))
        ours = kron(eye_array(anchors), np.ones((1, cols)))
        blocks_rows.append(hstack([before, ours, after, -eye_array(anchors)]))
        before, after = csr_array((cols, start)), csr_array((cols, total - start - cost.size + anchors))
        # All shares sum to 1 by the first guess, so the last sum of every other one follows.
        kept = cols if start == 0 else cols - 1
        blocks_cols.append(csr_array(hstack([before, kron(np.ones((1, anchors)), eye_array(cols)), after]))[:kept])
        right.append((mass / mass.sum())[:kept])
        start += cost.size
    equal = csr_array(vstack([*blocks_rows, *blocks_cols]))
    target = np.concatenate([np.zeros(anchors * len(costs)), *right])
    scale = max(float(max(cost.max() for cost in costs)), 1e-300)
    weights = np.concatenate([*(cost.ravel() / scale for cost in costs), np.zeros(anchors)])
    found = linprog(weights, A_eq=equal, b_eq=target, method="highs")
    shares = np.maximum(found.x[total:], 0.0)
    return np.asarray(shares / shares.sum())


def _spread_out(distance: Floats, weights: Floats, count: int) -> Integers:
    """Some of the places, so that the weight is near one of them: greedily, each the one that helps most."""
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
class Named:
    """One source through all guesses of the likeliest number: its places and strengths there, and its middle."""

    middle: npt.NDArray[np.generic]
    places: npt.NDArray[np.generic]
    strengths: Floats


def named(
    places: npt.NDArray[np.generic],
    strengths: Floats,
    first: int,
    distances: Distances,
    middle: Callable[[npt.NDArray[np.generic]], npt.NDArray[np.generic]],
) -> list[Named]:
    """Which source of one guess is which of another: matched so that all lie close about a middle each.

    Guesses say nothing of order. Beginning with one guess, sources are matched to the middles by the least sum of
    distances, and middles found anew, until that no longer changes anything.
    """
    from scipy.optimize import linear_sum_assignment

    guesses, sources = strengths.shape
    middles = places[first]
    order = np.tile(np.arange(sources), (guesses, 1))
    for _ in range(20):
        apart = distances(middles, places.reshape(guesses * sources, *places.shape[2:]))
        apart = apart.reshape(sources, guesses, sources).transpose(1, 0, 2)
        matched = np.stack([linear_sum_assignment(cost)[1] for cost in apart])
        if (matched == order).all():
            break
        order = matched
        chosen = np.take_along_axis(places, order.reshape(*order.shape, *[1] * (places.ndim - 2)), axis=1)
        middles = np.stack([middle(chosen[:, j]) for j in range(sources)])
    chosen = np.take_along_axis(places, order.reshape(*order.shape, *[1] * (places.ndim - 2)), axis=1)
    powers = np.take_along_axis(strengths, order, axis=1)
    return [Named(middle(chosen[:, j]), chosen[:, j], powers[:, j]) for j in range(sources)]
