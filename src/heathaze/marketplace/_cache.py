"""What the curator has seen: points by owner and row, and what each is worth under the broadcast score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heathaze.marketplace.features import Features
from heathaze.privacy.secret import Secret
from heathaze.types import Floats, Integers


class Cache(Secret):
    """Points seen, bought ones among them.

    Args:
        features: How points are hashed.
        target: The noisy mean hash of the target.
    """

    def __init__(self, features: Features, target: Floats) -> None:
        self._features = features
        self._target = target
        self._summary = np.zeros(features.dimension)
        self._count = 0
        self._points = np.empty((16, features.columns))
        self._hashes = np.empty((16, features.dimension))
        self._likeness = np.empty(16)
        self._likeness_to_summary = np.empty(16)
        self._row = np.empty(16, dtype=np.int64)
        self._whose = np.empty(16, dtype=np.int64)
        self._left = np.zeros(16, dtype=bool)
        self._names: dict[str, int] = {}
        self._seen: dict[tuple[str, int], int] = {}

    def tell(self, summary: Floats) -> None:
        """A new broadcast: every point is scored anew."""
        self._summary = summary
        self._likeness_to_summary[: self._count] = self._features.products(self._hashes[: self._count], summary)

    def has(self, owner: str, row: int) -> bool:
        """Was this row seen before?"""
        return (owner, row) in self._seen

    def add(self, owner: str, row: int, point: Floats, weight: float) -> tuple[float, int]:
        """Keep a point; its score under the broadcast now, and its place."""
        if self._count == len(self._row):
            self._grow()
        place = self._count
        hashed = self._features.of(point)[0]
        self._points[place], self._hashes[place] = point[0], hashed
        for likeness, told in ((self._likeness, self._target), (self._likeness_to_summary, self._summary)):
            likeness[place] = self._features.products(hashed[None], told)[0]
        self._row[place] = row
        self._whose[place] = self._names.setdefault(owner, len(self._names))
        self._left[place] = True
        self._seen[owner, row] = place
        self._count += 1
        return float(self._likeness[place] - weight * self._likeness_to_summary[place]), place

    def remove(self, place: int) -> None:
        """A point that must not be bought."""
        self._left[place] = False

    def best(self, weight: float, owners: Sequence[str]) -> int | None:
        """Take the best point left of these owners; of equal ones that of the first name, and its first row."""
        numbers = [self._names[owner] for owner in owners if owner in self._names]
        there = self._left[: self._count]
        if len(numbers) < len(self._names):
            there = there & np.isin(self._whose[: self._count], numbers)
        places = np.flatnonzero(there)
        if not places.size:
            return None
        scores = self._likeness[places] - weight * self._likeness_to_summary[places]
        names = {number: name for name, number in self._names.items()}
        equals = places[scores == scores.max()]
        place = int(min(equals, key=lambda k: (names[int(self._whose[k])], int(self._row[k]))))
        self._left[place] = False
        return place

    def count(self, owner: str) -> int:
        """Points seen of an owner."""
        number = self._names.get(owner, -1)
        return int((self._whose[: self._count] == number).sum())

    def hashes(self, places: Sequence[int]) -> Floats:
        """Hashes of some points."""
        return self._hashes[np.asarray(places, dtype=np.int64)]

    def points(self, places: Sequence[int]) -> Floats:
        """Some points."""
        return self._points[np.asarray(places, dtype=np.int64)]

    def rows(self, places: Sequence[int]) -> Integers:
        """Which rows of their owners they are."""
        return self._row[np.asarray(places, dtype=np.int64)]

    def owners(self, places: Sequence[int]) -> tuple[str, ...]:
        """Whose they are."""
        names = {number: name for name, number in self._names.items()}
        return tuple(names[int(self._whose[place])] for place in places)

    def _grow(self) -> None:
        for name in ("_points", "_hashes", "_likeness", "_likeness_to_summary", "_row", "_whose", "_left"):
            array = getattr(self, name)
            more = np.zeros((2 * len(array), *array.shape[1:]), dtype=array.dtype)
            more[: len(array)] = array
            setattr(self, name, more)
