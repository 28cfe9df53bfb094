"""A hostile table: visits, what each of them means, how they are written down, and the counts that are right.

Nothing here asks an engine. A table is made by :func:`heathaze.testing.neighbour_fuzz.hostile_table` from two numbers,
a seed and its own number, and is the same on every machine.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heathaze.domain.grid import Grid

Cells = dict[int, int]
"""Mass by the number of the cell, row · columns + column; only those with any mass."""


@dataclass(frozen=True)
class Visit:
    """One row. ``person``, ``day`` and ``place`` are what it means; the rest is how it is written."""

    person: int
    id: Any
    x: Any
    y: Any
    place: tuple[float, float]
    """The position as two floats, NaN where there is none."""
    day: int = 0
    time: Any = None
    note: str = ""
    file: int = 0
    """Which of several files it stands in."""
    line: bytes = b""
    """What it is in a file of text, with the end of the line."""

    def other(self, role: str) -> str:
        """The value in a column that is not wanted; a twin beside the person says something else about everybody."""
        return f"{self.person % 2}" if role.startswith("twin") else self.note


@dataclass(frozen=True)
class Recipe:
    """Where the visits stand, and what is wrong with that place."""

    source: str
    fault: str = "none"

    def __str__(self) -> str:
        return self.source if self.fault == "none" else f"{self.source}, {self.fault}"


@dataclass(frozen=True)
class Table:
    """Visits of a few people and everything that is needed to write them down, in part or in whole."""

    seed: int
    number: int
    recipe: Recipe
    grid: Grid
    visits: tuple[Visit, ...]
    names: Mapping[str, str]
    """Names of the columns by their roles: person, x, y, time, and others that are not wanted."""
    order: tuple[str, ...]
    """Roles in the order of the columns."""
    unit: str = "person"
    weight: str = "share"
    at_most: int | None = None
    mass: int = 12
    id_kind: str = "text"
    coordinate_kind: str = "double"
    time_kind: str = "date"
    folders: tuple[str, ...] = ("",)
    """The folder of each file, below the one it is written to."""
    style: Mapping[str, Any] = field(default_factory=dict)
    """What only the writer of this source knows: quoting, row groups, header."""
    known: bool = True
    """Whether the right counts are known: not where a damaged file may be read in several ways."""
    guilty: int | None = None
    """The person whose rows are damaged, if it is one."""

    @property
    def people(self) -> list[int]:
        """Numbers of the people."""
        return sorted({visit.person for visit in self.visits})

    @property
    def leaver(self) -> int:
        """Somebody to leave out where there is time for one person only: whose leaving is most likely to matter."""
        people = self.people
        return self.guilty if self.guilty in people else people[self.number % len(people)]

    @property
    def options(self) -> dict[str, Any]:
        """How ``heathaze.count`` is to be called."""
        x, y = ("lon", "lat") if self.grid.projection.is_geographic else ("x", "y")
        wanted: dict[str, Any] = {
            "person": self.names["person"],
            x: self.names["x"],
            y: self.names["y"],
            "unit": self.unit,
            "weight": self.weight,
            "at_most": self.at_most,
            "mass": self.mass,
        }
        return {**wanted, "time": self.names["time"]} if self.unit == "person-day" else wanted

    @property
    def bound(self) -> int:
        """The most that one unit may weigh."""
        if self.weight == "share":
            return self.mass
        return 1 if self.unit == "visit" else self.at_most or 1

    @property
    def must_be_refused(self) -> bool:
        """Whether a visit has no person, so that nobody can say whom the bound protects."""
        return self.known and self.unit != "visit" and any(visit.id is None or visit.id == "" for visit in self.visits)

    def of(self, person: int) -> list[Visit]:
        """One person's visits."""
        return [visit for visit in self.visits if visit.person == person]

    def without(self, person: int) -> list[Visit]:
        """Everybody else's visits."""
        return [visit for visit in self.visits if visit.person != person]

    def units(self, visits: Sequence[Visit]) -> dict[Any, list[Visit]]:
        """Visits by the unit they belong to."""
        found: defaultdict[Any, list[Visit]] = defaultdict(list)
        for place, visit in enumerate(visits):
            day = (visit.person, visit.day)
            found[visit.person if self.unit == "person" else day if self.unit == "person-day" else place].append(visit)
        return found

    def right(self, visits: Sequence[Visit]) -> Cells | None:
        """The right counts of some visits; None where they are not known, or depend on the choice of cells.

        Where a unit has more cells than ``at_most``, a public hash chooses; what it chooses is no promise.
        """
        total: Counter[int] = Counter()
        for together in self.units(visits).values():
            cells = Counter(cell for cell in self.cells(together) if cell is not None)
            whole = sum(cells.values())
            if self.unit != "visit" and len(cells) > (self.at_most or len(cells)):
                return None
            for cell, n in cells.items():
                total[cell] += self.mass * n // whole if self.weight == "share" else 1
        return {cell: mass for cell, mass in total.items() if mass} if self.known else None

    def cells(self, visits: Sequence[Visit]) -> list[int | None]:
        """The cell of each visit; None outside the box."""
        xs, ys = (np.array([visit.place[axis] for visit in visits], dtype=np.float64) for axis in (0, 1))
        rows, cols, inside = self.grid.cell_of(xs, ys)
        numbers = rows.astype(np.int64) * self.grid.cols + cols.astype(np.int64)
        return [int(cell) if there else None for cell, there in zip(numbers, inside, strict=True)]

    def __str__(self) -> str:
        columns = ", ".join(f"{role} {self.names[role]!r}" for role in self.order)
        return (
            f"table (seed {self.seed}, number {self.number}): {self.recipe}; {len(self.people)} people, "
            f"{len(self.visits)} visits; ids {self.id_kind}, coordinates {self.coordinate_kind}"
            + (f", times {self.time_kind}" if self.unit == "person-day" else "")
            + f"; unit {self.unit}, weight {self.weight}, at_most {self.at_most}, mass {self.mass}; "
            f"grid {self.grid.projection.value} {self.grid.x} × {self.grid.y}, {self.grid.shape}; columns {columns}"
            + (f"; folders {self.folders}" if any(self.folders) else "")
            + (f"; {dict(self.style)}" if self.style else "")
        )


def number_or_nan(value: Any) -> float:
    """A stored coordinate as the float it stands for; NaN where there is none."""
    return math.nan if value is None else float(value)


def as_cells(counts: Any) -> Cells:
    """Counts by the number of the cell."""
    from heathaze.domain.quadtree import deinterleave

    rows, cols = deinterleave(counts.codes)
    return dict(zip((rows * counts.grid.cols + cols).tolist(), counts.mass.tolist(), strict=True))
