"""Baselines that a private purchase is compared with: greedy choices over the points of all owners, and random choices.

Let S be the set of the q points chosen so far, ḡ the mean of their hashes, g̃ the mean hash of the target, and h the
hash of a further point x. All hashes have the same length ‖h‖. The objective of the greedy choices is

    J(S) = 2 g̃·ḡ − ‖ḡ‖²,                                       (equation 3 of the paper)
    J(S ∪ {x}) − J(S) = 2/(q + 1) · (g̃·h − q/(q + 1) · ḡ·h) + a term that does not depend on x.

So the best next point has the largest g̃·h − q/(q + 1) · ḡ·h. The paper prints these two terms in the other order,
which takes the worst point (errata E2-1).

The baselines are NOT PRIVATE, except for :func:`uniform` and :func:`random_pool`, whose messages to owners do not
depend on any data. Use baselines in papers, tests and the consumer's report only; messages to owners must not depend on
the result of a baseline.
The herding protocol uses two functions of this file: an owner calls :func:`herd` on the owner's own points, and the
curator calls :func:`kernel_greedy` on the points that owners offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from heathaze.checks import positive, whole
from heathaze.errors import InvalidInput
from heathaze.marketplace.features import Features
from heathaze.marketplace.mmd import centred, kernel_means
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

LARGE = 2**22
"""Baseline setting: tables of points with more numbers than this are multiplied in single precision, for speed."""


def herd(hashes: Floats, target_mean: Floats, count: int) -> Integers:
    """Baseline greedy choice with hashes: add one hash at a time, so that the chosen mean approaches the target's mean.

    Among equal hashes, the first row is chosen first. A choice of n hashes begins with the choice of any smaller number
    of hashes. Owners in the herding protocol use this function on their own points.

    Args:
        hashes: One hash per row.
        target_mean: The mean hash of the target, with or without noise.
        count: Number of hashes to choose, at least 0. If there are fewer hashes, all are chosen.

    Returns:
        Row indices of the chosen hashes, in the order of choice.

    Cost: number of hashes × length of a hash, for each hash chosen.

    >>> herd(np.eye(3), np.array([0.2, 0.5, 0.3]), 2).tolist()
    [1, 2]
    """
    count = _possible(count, len(hashes))
    rough = hashes.astype(np.float32)
    # A product in single precision has an error of at most ``off`` times the length of ``wanted``. Rows whose score is
    # within that error of the best are compared again in double precision, so rounding does not change the choice.
    longest = float(np.sqrt((hashes**2).sum(axis=1).max(initial=0)))
    off = 2 * (hashes.shape[1] + 4) * 2.0**-24 * longest
    taken = np.zeros(len(hashes), dtype=bool)
    summed = np.zeros(hashes.shape[1])
    rows = np.empty(count, dtype=np.int64)
    for q in range(count):
        wanted = target_mean - summed / (q + 1)  # g̃ − q/(q + 1) ḡ
        scores = rough @ wanted.astype(np.float32)
        scores[taken] = -np.inf
        near = np.flatnonzero(scores >= scores.max() - off * float(np.sqrt(wanted @ wanted)))
        near = near[~taken[near]]
        # Each row is multiplied and summed separately, because a matrix product may round equal rows differently.
        row = near[np.argmax((hashes[near] * wanted).sum(axis=1))]
        rows[q], taken[row] = row, True
        summed += hashes[row]
    return rows


def kernel_greedy(points: Floats, target: Floats, gamma: float, count: int) -> Integers:
    """Baseline greedy choice with the exact kernel exp(−gamma ‖x − y‖²): like :func:`herd`, but without hashes.

    The curator in the herding protocol uses this function on the points that owners offer.

    Args:
        points: One point per row.
        target: The points of the target, one per row.
        gamma: The kernel's parameter γ, positive.
        count: Number of points to choose, at least 0. If there are fewer points, all are chosen.

    Returns:
        Row indices of the chosen points, in the order of choice.

    Cost: points × columns for each point chosen, and points × target points × columns once.

    >>> kernel_greedy(np.array([[0.0], [5.0], [1.0]]), np.array([[0.1], [1.0]]), 0.5, 2).tolist()
    [2, 0]
    """
    gamma = positive(gamma, "gamma", "the kernel's γ")
    count = _possible(count, len(points))
    if not count:
        return np.empty(0, dtype=np.int64)
    points, target = centred(points, target)
    wanted = kernel_means(points, target, gamma)
    table = points.astype(np.float32) if points.size > LARGE else points
    squares = (points**2).sum(axis=1)
    with_taken = np.zeros(len(points))
    rows = np.empty(count, dtype=np.int64)
    for q in range(count):
        row = int(np.argmax(wanted - with_taken / (q + 1)))
        rows[q], wanted[row] = row, -np.inf
        distances = squares + squares[row] - 2.0 * (table @ table[row])
        with_taken += np.exp(-gamma * np.maximum(distances, 0))
    return rows


def marginal_gain(hashes: Floats, target_mean: Floats, taken: Integers, row: int) -> float:
    """Baseline formula for tests and papers: the marginal gain J(S ∪ {x}) − J(S) of a point x, computed by definition.

    The objective J is defined at the top of this file; J of the empty set is 0.

    Args:
        hashes: One hash per row.
        target_mean: The mean hash of the target.
        taken: Row indices of the points in S.
        row: Row index of x.

    >>> float(marginal_gain(np.eye(2), np.array([0.5, 0.5]), np.array([], dtype=np.int64), 0))
    0.0
    """
    return _objective(hashes[[*taken, row]], target_mean) - _objective(hashes[taken], target_mean)


def _objective(chosen: Floats, target_mean: Floats) -> float:
    if not len(chosen):
        return 0.0
    mean = chosen.mean(axis=0)
    return float(2 * target_mean @ mean - mean @ mean)


def _possible(count: int, available: int) -> int:
    return min(whole(count, "The number of points to choose", least=0), available)


# ── baselines ───────────────────────────────────────────────────────────────────────────────────────────────────────

Owners = Mapping[str, npt.ArrayLike]
"""Baseline input: the points of each owner, by the owner's name."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """Baseline result: the chosen points in the order of choice, each with its owner and row index."""

    owners: tuple[str, ...] = field(repr=False)
    rows: Integers = field(repr=False)
    points: Floats = field(repr=False)

    def first(self, count: int) -> Chosen:
        """Baseline result cut to the first ``count`` points."""
        return Chosen(self.owners[:count], self.rows[:count], self.points[:count])


def greedy(features: Features, target: npt.ArrayLike, owners: Owners, count: int) -> Chosen:
    """Baseline, NOT PRIVATE: the paper's reference, a greedy choice with hashes among the points of all owners.

    Each step takes the point with the largest marginal gain.

    Args:
        features: The map from points to hashes.
        target: The points of the target, one per row.
        owners: The points of each owner, by the owner's name.
        count: Number of points to choose.

    >>> greedy(Features(1, gamma=1.0), [[0.0]], {"far": [[9.0]], "near": [[0.1], [5.0]]}, 1).owners
    ('near',)
    """
    pool = _Pool.of(features, owners)
    return pool.chosen(herd(features.of(pool.points), features.of(_some(target)).mean(axis=0), count))


def exact_greedy(features: Features, target: npt.ArrayLike, owners: Owners, count: int) -> Chosen:
    """Baseline, NOT PRIVATE: a greedy choice with the exact kernel; takes the same arguments as :func:`greedy`."""
    pool = _Pool.of(features, owners)
    return pool.chosen(kernel_greedy(pool.points, features.checked(_some(target)), features.gamma, count))


def target_only(features: Features, target: npt.ArrayLike, owners: Owners, count: int) -> Chosen:
    """Baseline, NOT PRIVATE: choose the points most similar to the target, even if they are similar to each other.

    The arguments are the same as for :func:`greedy`.
    """
    pool = _Pool.of(features, owners)
    scores = features.of(pool.points) @ features.of(_some(target)).mean(axis=0)
    return pool.chosen(np.argsort(-scores, kind="stable")[:count])


def uniform(owners: Owners, count: int, randomness: Randomness) -> Chosen:
    """Baseline without a target: choose random points, equally many from each owner.

    An owner with too few points gives all of them, and the other owners give more to reach ``count``. The choice costs
    owners no privacy, because no message to an owner depends on data of other parties.

    Args:
        owners: The points of each owner, by the owner's name.
        count: Number of points to choose.
        randomness: Source of the random order.
    """
    pool = _Pool.of(None, owners)
    return pool.chosen(pool.in_turn(randomness)[:count])


def random_pool(
    features: Features, target: npt.ArrayLike, owners: Owners, count: int, *, seen: float, randomness: Randomness
) -> Chosen:
    """Baseline without noise: owners send random points, and the curator keeps the best ``count`` of them.

    The owners send ``seen`` × ``count`` points in total. The choice costs owners no privacy, and the curator sends no
    data of the target. A private purchase is useful only if it matches the target better than this baseline.

    Args:
        features: The map from points to hashes; its kernel parameter γ is used here.
        target: The points of the target, one per row.
        owners: The points of each owner, by the owner's name.
        count: Number of points to choose.
        seen: Number of points that the curator receives for each point that is kept.
        randomness: Source of the random order.
    """
    pool = _Pool.of(features, owners)
    sent = pool.in_turn(randomness)[: round(seen * count)]
    kept = kernel_greedy(pool.points[sent], features.checked(_some(target)), features.gamma, count)
    return pool.chosen(sent[kept])


@dataclass(frozen=True)
class _Pool:
    """Baseline helper: the points of all owners, joined into one table."""

    points: Floats
    names: tuple[str, ...]
    sizes: Integers

    @classmethod
    def of(cls, features: Features | None, owners: Owners) -> _Pool:
        tables = [
            np.asarray(points, dtype=np.float64) if features is None else features.checked(points)
            for points in owners.values()
        ]
        if not tables:
            raise InvalidInput("There is no owner; give the points of at least one owner.")
        return cls(np.concatenate(tables), tuple(owners), np.array([len(table) for table in tables], dtype=np.int64))

    def chosen(self, rows: Integers) -> Chosen:
        ends = np.cumsum(self.sizes)
        whose = np.searchsorted(ends, rows, side="right")
        owners = tuple(self.names[one] for one in whose)
        return Chosen(owners, rows - (ends - self.sizes)[whose], self.points[rows])

    def in_turn(self, randomness: Randomness) -> Integers:
        """Baseline order: row indices that visit the owners in turn, with each owner's rows in random order."""
        starts = np.cumsum(self.sizes) - self.sizes
        # Sorting random 64-bit words gives a random order, because two words are practically never equal.
        shuffled = [
            start + np.argsort(randomness.words(int(size))) for start, size in zip(starts, self.sizes, strict=True)
        ]
        turn = np.concatenate([np.arange(size) for size in self.sizes])
        order: Integers = np.concatenate(shuffled)[np.argsort(turn, kind="stable")]
        return order


def _some(target: npt.ArrayLike) -> npt.ArrayLike:
    if not np.size(target):
        raise InvalidInput("The target has no points; give at least one point.")
    return target
