"""How a place becomes entries of the vector that a device sends: the public half of a question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.domain.quadtree import Codes
from heathaze.errors import InvalidInput

Integers = npt.NDArray[np.int64]


class Encoding(Protocol):
    """Which entries a place belongs to. ``touched`` of them for every place: that is its sensitivity."""

    @property
    def grid(self) -> Grid:
        """The public frame."""

    @property
    def length(self) -> int:
        """How many entries there are."""

    @property
    def touched(self) -> int:
        """How many entries one place belongs to."""

    def entries(self, codes: Codes) -> Integers:
        """The entries of each cell (named by its code at the finest level): a row of ``touched`` numbers each."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, for questions."""


@dataclass(frozen=True, eq=False)
class Regions:
    """One entry for each region of a partition: a place belongs to the deepest node that holds it.

    >>> regions = Regions(Partition.whole_level(Grid.plane(x=(0, 4), y=(0, 4), size=4), 1))
    >>> regions.length, regions.entries(np.array([0, 15])).tolist()
    (4, [[0], [3]])
    """

    partition: Partition

    touched = 1

    @property
    def grid(self) -> Grid:
        """The public frame."""
        return self.partition.grid

    @property
    def length(self) -> int:
        """One entry a region."""
        return len(self.partition)

    def entries(self, codes: Codes) -> Integers:
        """The region of each cell."""
        return self.partition.locate(codes)[:, None]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, for questions."""
        return {"kind": "regions", **self.partition.to_dict()}


def encoding_from_dict(grid: Grid, fields: Mapping[str, Any]) -> Encoding:
    """Undo ``to_dict``; the fields come from a server, so the partition looks at each."""
    if fields["kind"] == "regions":
        return Regions(Partition(grid, np.array(fields["levels"]), np.array(fields["codes"])))
    raise InvalidInput(f"Nobody knows the encoding {fields['kind']!r}; the question may come from a newer version.")
