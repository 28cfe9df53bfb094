"""What a private choice is measured against: choices by a curator who holds everything, and choices at random.

NOT PRIVATE, except for :func:`uniform` and :func:`random_pool`, whose messages to owners do not depend on any data. For
papers, tests and the consumer's own report; nothing here may decide what an owner is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.marketplace.features import Features
from heathaze.marketplace.greedy import herd, kernel_greedy
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

Owners = Mapping[str, npt.ArrayLike]
"""Points of every owner, by name."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """Points in the order of choice, whose they are, and which of the owner's rows."""

    owners: tuple[str, ...] = field(repr=False)
    rows: Integers = field(repr=False)
    points: Floats = field(repr=False)

    def first(self, count: int) -> Chosen:
        """The choice as it was after so many points."""
        return Chosen(self.owners[:count], self.rows[:count], self.points[:count])


def greedy(features: Features, target: npt.ArrayLike, owners: Owners, count: int) -> Chosen:
    """NOT PRIVATE: the paper's reference. The best marginal gain each time, in the space of hashes, over all points.

    >>> greedy(Features(1, gamma=1.0), [[0.0]], {"far": [[9.0]], "near": [[0.1], [5.0]]}, 1).owners
    ('near',)
    """
    pool = _Pool.of(features, owners)
    return pool.chosen(herd(features.of(pool.points), features.of(_some(target)).mean(axis=0), count))


def exact_greedy(features: Features, target: npt.ArrayLike, owners: Owners, count: int) -> Chosen:
    """NOT PRIVATE: the same with the kernel itself instead of its features."""
    pool = _Pool.of(features, owners)
    return pool.chosen(kernel_greedy(pool.points, features.checked(_some(target)), features.gamma, count))


def target_only(features: Features, target: npt.ArrayLike, owners: Owners, count: int) -> Chosen:
    """NOT PRIVATE: the points most like the target, however much they are like each other."""
    pool = _Pool.of(features, owners)
    scores = features.of(pool.points) @ features.of(_some(target)).mean(axis=0)
    return pool.chosen(np.argsort(-scores, kind="stable")[:count])


def uniform(owners: Owners, count: int, randomness: Randomness) -> Chosen:
    """Random points, the same number from every owner as far as it has them; nobody looks at the target.

    Costs no privacy towards owners: none is told anything about others.
    """
    pool = _Pool.of(None, owners)
    return pool.chosen(pool.in_turn(randomness)[:count])


def random_pool(
    features: Features, target: npt.ArrayLike, owners: Owners, count: int, *, seen: float, randomness: Randomness
) -> Chosen:
    """Every owner sends random points, ``seen`` times ``count`` in all, of which the curator keeps the best.

    Costs no privacy towards owners, and nothing of the target leaves the curator: whatever pays for more must beat it.
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
