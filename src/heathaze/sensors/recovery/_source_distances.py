"""How far places are apart: straight, or along the edges of a network."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as member
from typing import Self

import numpy as np
import numpy.typing as npt

from heathaze.sensors.physics.field import Field
from heathaze.types import Floats, Integers

_LIKELY = 8
"""The middle of places on a network is sought among so many of the most frequent."""


@dataclass(eq=False)
class Apart:
    """Distances between places of a field; ``line`` has the coordinates of candidates where there is but one axis."""

    field: Field
    line: Floats | None
    pooled: int
    _known: dict[int, Floats] = member(default_factory=dict)

    @classmethod
    def of(cls, field: Field) -> Self:
        """Distances in the space of a field."""
        line = None
        if field.network is None and field.positions is not None and np.shape(field.positions)[1] == 1:
            line = np.asarray(field.positions, dtype=np.float64)[:, 0]
        # A search of a network takes time for each place.
        large = field.network is not None and field.shape[1] > 5000
        return cls(field, line, 60 if large else 240)

    def between(self, ones: npt.NDArray[np.generic], others: npt.NDArray[np.generic]) -> Floats:
        """From each of some places to each of others."""
        if self.field.network is not None:
            self._search(np.unique(ones))
            return np.stack([self._known[int(one)][others] for one in ones])
        here, there = self._coordinates(ones), self._coordinates(others)
        return np.asarray(np.sqrt(((here[:, None, :] - there[None, :, :]) ** 2).sum(axis=2)))

    def middle(self, places: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The mean of coordinates; of candidates, that of the most frequent from which all are nearest on average."""
        if self.field.bounds is not None:
            return np.asarray(places.mean(axis=0))
        distinct, times = np.unique(places, return_counts=True)
        likely = distinct[np.argsort(-times, kind="stable")[:_LIKELY]]
        return np.asarray(likely[np.argmin(self.between(likely, distinct) @ times)])

    def candidate(self, places: npt.NDArray[np.generic]) -> Integers:
        """The candidate nearest to each place."""
        if self.field.bounds is None:
            return np.asarray(places, dtype=np.int64)
        from scipy.spatial import cKDTree

        assert self.field.positions is not None
        return np.asarray(cKDTree(self.field.positions).query(places)[1])

    def _coordinates(self, places: npt.NDArray[np.generic]) -> Floats:
        if self.field.bounds is not None:
            return np.asarray(places, dtype=np.float64)
        assert self.field.positions is not None
        return np.asarray(np.asarray(self.field.positions, dtype=np.float64)[places])

    def _search(self, starts: Integers) -> None:
        from scipy.sparse.csgraph import dijkstra

        assert self.field.network is not None
        new = [int(start) for start in starts if int(start) not in self._known]
        if new:
            rows = dijkstra(self.field.network.adjacency(), directed=False, indices=new)
            self._known.update(zip(new, rows, strict=True))
