"""k-median clustering of weighted points under ℓ1: the centres of a release (Ghazi et al., appendix A).

By Corollary A.2 of the paper, any non-private algorithm may run on the released masses. The algorithm in this file is
deterministic, so the same release always gives the same centres. It has two steps. On a sample of the points, centres
are chosen greedily and improved by swapping one centre at a time; a local optimum of swaps costs at most 5 times the
optimum (Arya et al., SIAM J. on Computing 33(3), 2004), and in practice a few percent more. On all points, the
algorithm then alternates between assigning points to centres and moving centres to medians.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.domain.quadtree import interleave
from heathaze.errors import InvalidInput
from heathaze.types import Floats, Indices

CANDIDATES = 1200
"""The first centres are chosen among at most this many points; the distances between all pairs take 12 MB."""

ROUNDS = 200
"""The most swaps, and the most alternations; the search usually ends much earlier."""


@dataclass(frozen=True)
class _Weighted:
    """Distinct points with positive weights that sum to 1."""

    points: Floats
    weights: Floats


def k_median(points: npt.ArrayLike, weights: npt.ArrayLike, k: int) -> Floats:
    """Find k centres such that the mean ℓ1 distance of the weight to its nearest centre is small.

        minimise  Σ_i w_i · min_c ‖x_i − c‖₁  over k centres c

    Here x_i are the points and w_i their weights. The minimum is hard to find in general. In practice the cost of the
    returned centres is within a few percent of the minimum.

    Args:
        points: (n, 2) positions, in any unit that is the same for both axes.
        weights: (n,) masses, not negative.
        k: The number of centres, at least 1 and at most the number of distinct points that have weight.

    Returns:
        (k, 2) centres; the centre to which the most weight belongs comes first.

    Raises:
        InvalidInput: k is out of range, the arrays do not fit together, or no point has weight.

    Cost: O(n·k) for a round of alternation, O(min(n, 1200)²) for a swap; 65,536 points with k = 20 take about a second.

    >>> k_median([(0, 0), (0, 2), (9, 9)], [1, 1, 1], k=1).tolist()
    [[0.0, 2.0]]
    >>> k_median([(0, 0), (0, 2), (9, 9)], [1, 5, 1], k=2).tolist()
    [[0.0, 2.0], [9.0, 9.0]]
    """
    everything = _checked(points, weights, k)
    sample = _sample(everything, max(CANDIDATES, k))
    centres = _alternate(everything, sample.points[_seeds(sample, k)])
    nearest, _ = _assign(everything.points, centres)
    served = np.bincount(nearest, everything.weights, minlength=k)
    return centres[np.lexsort((centres[:, 1], centres[:, 0], -served))]


def cost(points: npt.ArrayLike, weights: npt.ArrayLike, centres: npt.ArrayLike) -> float:
    """Compute the mean ℓ1 distance of the weight to its nearest centre.

    Args:
        points: (n, 2) positions.
        weights: (n,) masses.
        centres: (k, 2) centres.

    >>> cost([(0, 0), (4, 0)], [3, 1], [(0, 0)])
    1.0
    """
    mass = np.asarray(weights, dtype=np.float64)
    _, distance = _assign(np.asarray(points, dtype=np.float64), np.asarray(centres, dtype=np.float64))
    return float(mass @ distance / mass.sum())


def _checked(points: npt.ArrayLike, weights: npt.ArrayLike, k: int) -> _Weighted:
    places, mass = np.asarray(points, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if places.ndim != 2 or places.shape[1] != 2 or mass.shape != places.shape[:1]:
        raise InvalidInput(f"k-median needs (n, 2) points and n weights; got shapes {places.shape} and {mass.shape}.")
    if not (np.isfinite(places).all() and np.isfinite(mass).all()) or (mass < 0).any():
        raise InvalidInput("k-median needs finite points and finite weights that are not negative.")
    whole(k, "k", "the number of centres")
    held = mass > 0
    distinct, which = np.unique(places[held], axis=0, return_inverse=True)
    if k > len(distinct):
        raise InvalidInput(f"k is {k}, but only {len(distinct)} distinct points have weight; give at most that many.")
    merged = np.bincount(which.ravel(), mass[held] / mass.max(), minlength=len(distinct))
    return _Weighted(distinct, merged / merged.sum())


def _sample(everything: _Weighted, size: int) -> _Weighted:
    """Choose at most ``size`` points that represent all points in the search for centres.

    The points are sorted along a plane-filling curve, and one point is taken for each 1/size of the weight.
    """
    points, weights = everything.points, everything.weights
    if len(points) <= size:
        return everything
    low = points.min(axis=0)
    steps = (points - low) / max(float(np.ptp(points, axis=0).max()), np.finfo(float).tiny) * 65_535
    order = np.argsort(interleave(steps[:, 0].astype(np.int64), steps[:, 1].astype(np.int64)), kind="stable")
    running = np.cumsum(weights[order])
    strata = (np.arange(size) + 0.5) / size * running[-1]
    picked, times = np.unique(np.minimum(np.searchsorted(running, strata), len(order) - 1), return_counts=True)
    chosen = order[picked]
    if len(chosen) < size:
        # A heavy point stands for several shares of the weight. The sample is filled up with the heaviest other points.
        rest = np.setdiff1d(np.argsort(-weights, kind="stable")[: 2 * size], chosen)
        extra = rest[np.argsort(-weights[rest], kind="stable")][: size - len(chosen)]
        return _Weighted(
            np.concatenate([points[chosen], points[extra]]), np.concatenate([times / size, weights[extra]])
        )
    return _Weighted(points[chosen], times / size)


def _seeds(sample: _Weighted, k: int) -> Indices:
    """Choose the first k centres among the points: greedily, then improved by the best single swap until none helps."""
    points, weights = sample.points, sample.weights
    distance = np.abs(points[:, None, :] - points[None, :, :]).sum(axis=2)
    chosen: list[int] = []
    nearest = np.full(len(points), np.inf)
    for _ in range(k):
        total = weights @ np.minimum(distance, nearest[:, None])
        total[chosen] = np.inf
        chosen.append(int(np.argmin(total)))
        nearest = np.minimum(nearest, distance[:, chosen[-1]])
    seeds = np.array(chosen)
    for _ in range(ROUNDS):
        better = _best_swap(distance, weights, seeds)
        if better is None:
            break
        seeds[better[0]] = better[1]
    return seeds


def _best_swap(distance: Floats, weights: Floats, seeds: Indices) -> tuple[int, int] | None:
    """Find the centre (seed) to replace and the point that replaces it, for the largest decrease of the cost.

    Let d₁ and d₂ be the distances of a point to its nearest and second nearest seed, and d_c its distance to the new
    seed c. After seed s is replaced by c, the point pays min(d_c, d₂) if s was its nearest seed, and min(d_c, d₁)
    otherwise. So one pass over all pairs gives the cost of every swap.

    Returns:
        The index of the seed and of the point, or None if no swap saves more than a thousandth of the cost.
    """
    if len(seeds) == len(weights):
        return None
    to_seeds = distance[:, seeds]
    owner = np.argmin(to_seeds, axis=1)
    first = to_seeds[np.arange(len(owner)), owner]
    # If the only seed is removed, a point has no other seed.
    second = np.partition(to_seeds, 1, axis=1)[:, 1] if len(seeds) > 1 else np.full(len(owner), np.inf)
    with_first = np.minimum(distance, first[:, None])
    worse = (np.minimum(distance, second[:, None]) - with_first) * weights[:, None]
    members = np.zeros((len(seeds), len(owner)))
    members[owner, np.arange(len(owner))] = 1.0
    total = weights @ with_first + members @ worse
    total[:, seeds] = np.inf
    best = int(np.argmin(total))
    if total.flat[best] >= (1 - 1e-3) * (weights @ first):
        return None
    return best // total.shape[1], best % total.shape[1]


def _alternate(everything: _Weighted, centres: Floats) -> Floats:
    """Assign points to centres and move every centre to the medians of its points, until the cost no longer falls."""
    points, weights = everything.points, everything.weights
    best, least = centres, np.inf
    for _ in range(ROUNDS):
        nearest, distance = _assign(points, centres)
        now = float(weights @ distance)
        if now >= least * (1 - 1e-9):
            break
        best, least = centres, now
        centres = _medians(points, weights, nearest, distance, len(centres))
    return best


def _assign(points: Floats, centres: Floats) -> tuple[Indices, Floats]:
    """Find the nearest centre of each point (the first of equally near ones) and its distance."""
    nearest = np.zeros(len(points), dtype=np.intp)
    least = np.full(len(points), np.inf)
    for c, (x, y) in enumerate(centres):
        distance = np.abs(points[:, 0] - x) + np.abs(points[:, 1] - y)
        closer = distance < least
        nearest[closer] = c
        least[closer] = distance[closer]
    return nearest, least


def _medians(points: Floats, weights: Floats, nearest: Indices, distance: Floats, k: int) -> Floats:
    """Move each centre to the weighted median of its points on each axis, which is the best centre under ℓ1.

    If two values are medians, the lower one is taken. A centre without points moves to the point with the largest cost.
    """
    centres = np.empty((k, 2))
    served = np.bincount(nearest, minlength=k)
    for axis in range(2):
        order = np.lexsort((points[:, axis], nearest))
        running = np.cumsum(weights[order])
        ends = np.cumsum(served)
        for c in np.flatnonzero(served):
            start, end = ends[c] - served[c], ends[c]
            before = running[start - 1] if start else 0.0
            middle = np.searchsorted(running[start:end], before + (running[end - 1] - before) / 2)
            centres[c, axis] = points[order[start + min(int(middle), served[c] - 1)], axis]
    idle = np.flatnonzero(served == 0)
    centres[idle] = points[np.argsort(-(weights * distance), kind="stable")[: len(idle)]]
    return centres
