"""Greedy choices by a party that holds everything, and choices at random: what a private purchase is compared with.

With S the q points taken so far, ḡ their mean hash and g̃ the target's, the objective is

    J(S) = 2 g̃·ḡ − ‖ḡ‖²,                                       (equation 3 of the paper)
    J(S ∪ {x}) − J(S) = 2/(q + 1) · (g̃·h − q/(q + 1) · ḡ·h) + a term that does not depend on x,

for hashes h of one length. So the best next point has the largest g̃·h − q/(q + 1) · ḡ·h. The paper prints the two terms
in the other order, which takes the worst point (errata E2-1).

NOT PRIVATE, except for :func:`uniform` and :func:`random_pool`, whose messages to owners do not depend on any data. The
baselines are for papers, tests and the consumer's report; they must not decide what owners are sent. Owners and
curators use :func:`herd` and :func:`kernel_greedy` on what they hold anyway.
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
"""Numbers in a table of points from which on products are made in single precision: half the memory to walk through."""


def herd(hashes: Floats, target_mean: Floats, count: int) -> Integers:
    """Choose hashes one by one so that their mean follows the target's; of equal hashes the first is taken.

    A longer choice begins with the shorter one.

    Args:
        hashes: A row for each hash.
        target_mean: The target's mean hash, with or without noise.
        count: How many to choose, at least 0; fewer come back if there are fewer.

    Returns:
        The rows in the order of choice.

    Cost: hashes × their length for each row chosen.

    >>> herd(np.eye(3), np.array([0.2, 0.5, 0.3]), 2).tolist()
    [1, 2]
    """
    count = _possible(count, len(hashes))
    rough = hashes.astype(np.float32)
    # Products of single precision are off by at most this part of both lengths. Rows that are that near to the best
    # are compared again in double precision, so that the choice is the one of double precision.
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
        # A row at a time and not by a matrix product, which may round equal rows differently.
        row = near[np.argmax((hashes[near] * wanted).sum(axis=1))]
        rows[q], taken[row] = row, True
        summed += hashes[row]
    return rows


def kernel_greedy(points: Floats, target: Floats, gamma: float, count: int) -> Integers:
    """Choose points one by one as :func:`herd` does, with the exact kernel exp(−gamma ‖x − y‖²) instead of hashes.

    Args:
        points: A row for each point.
        target: The target's points, a row each.
        gamma: γ of the kernel, positive.
        count: How many to choose, at least 0; fewer come back if there are fewer.

    Returns:
        The rows in the order of choice.

    Cost: points × columns for each row chosen, and points × target × columns once.

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
    """J(S ∪ {x}) − J(S) from its definition, with J(∅) = 0. For tests and papers.

    Args:
        hashes: A row for each hash.
        target_mean: The target's mean hash.
        taken: The rows of S.
        row: The row of x.

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
"""Points of every owner, by name."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """Points in the order of choice, whose they are, and which of the owner's rows."""

    owners: tuple[str, ...] = field(repr=False)
    rows: Integers = field(repr=False)
    points: Floats = field(repr=False)

    def first(self, count: int) -> Chosen:
        """The first ``count`` points of the choice."""
        return Chosen(self.owners[:count], self.rows[:count], self.points[:count])


def greedy(features: Features, target: npt.ArrayLike, owners: Owners, count: int) -> Chosen:
    """NOT PRIVATE: the paper's reference. It takes the point with the best marginal gain by hashes, over all points.

    Args:
        features: How points are hashed.
        target: The target's points, a row each.
        owners: Points of every owner, by name.
        count: How many points to choose.

    >>> greedy(Features(1, gamma=1.0), [[0.0]], {"far": [[9.0]], "near": [[0.1], [5.0]]}, 1).owners
    ('near',)
    """
    pool = _Pool.of(features, owners)
    return pool.chosen(herd(features.of(pool.points), features.of(_some(target)).mean(axis=0), count))


def exact_greedy(features: Features, target: npt.ArrayLike, owners: Owners, count: int) -> Chosen:
    """NOT PRIVATE: :func:`greedy` with the exact kernel instead of hashes; same arguments."""
    pool = _Pool.of(features, owners)
    return pool.chosen(kernel_greedy(pool.points, features.checked(_some(target)), features.gamma, count))


def target_only(features: Features, target: npt.ArrayLike, owners: Owners, count: int) -> Chosen:
    """NOT PRIVATE: the points most like the target, however similar to each other; arguments of :func:`greedy`."""
    pool = _Pool.of(features, owners)
    scores = features.of(pool.points) @ features.of(_some(target)).mean(axis=0)
    return pool.chosen(np.argsort(-scores, kind="stable")[:count])


def uniform(owners: Owners, count: int, randomness: Randomness) -> Chosen:
    """Random points, the same number from every owner as far as it has them; the target is not used.

    It costs owners no privacy, because no message to an owner depends on data of others.

    Args:
        owners: Points of every owner, by name.
        count: How many points to choose.
        randomness: Where the order comes from.
    """
    pool = _Pool.of(None, owners)
    return pool.chosen(pool.in_turn(randomness)[:count])


def random_pool(
    features: Features, target: npt.ArrayLike, owners: Owners, count: int, *, seen: float, randomness: Randomness
) -> Chosen:
    """Every owner sends random points, ``seen`` times ``count`` in all, of which the curator keeps the best.

    It costs owners no privacy, and nothing of the target leaves the curator. A private purchase must do better.

    Args:
        features: How points are hashed.
        target: The target's points, a row each.
        owners: Points of every owner, by name.
        count: How many points to choose.
        seen: How many points the curator sees for each point it keeps.
        randomness: Where the order comes from.
    """
    pool = _Pool.of(features, owners)
    sent = pool.in_turn(randomness)[: round(seen * count)]
    kept = kernel_greedy(pool.points[sent], features.checked(_some(target)), features.gamma, count)
    return pool.chosen(sent[kept])


@dataclass(frozen=True)
class _Pool:
    """All points of all owners in one table."""

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
            raise InvalidInput("There is no owner; give at least one.")
        return cls(np.concatenate(tables), tuple(owners), np.array([len(table) for table in tables], dtype=np.int64))

    def chosen(self, rows: Integers) -> Chosen:
        ends = np.cumsum(self.sizes)
        whose = np.searchsorted(ends, rows, side="right")
        return Chosen(
            tuple(self.names[one] for one in whose), rows - (ends - self.sizes)[whose], self.points[rows]
        )  # fmt: skip

    def in_turn(self, randomness: Randomness) -> Integers:
        """All rows in a random order, one of every owner, then the next of every owner, while it has some."""
        starts = np.cumsum(self.sizes) - self.sizes
        # Words in the order of their size: a random order, as 64 bits are hardly ever equal.
        shuffled = [
            start + np.argsort(randomness.words(int(size))) for start, size in zip(starts, self.sizes, strict=True)
        ]
        turn = np.concatenate([np.arange(size) for size in self.sizes])
        order: Integers = np.concatenate(shuffled)[np.argsort(turn, kind="stable")]
        return order


def _some(target: npt.ArrayLike) -> npt.ArrayLike:
    if not np.size(target):
        raise InvalidInput("The target has no points; give at least one.")
    return target
