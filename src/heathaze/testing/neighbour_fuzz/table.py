"""A hostile table: visits with their meaning, the way in which they are written, and the right counts.

This module uses no engine. :func:`heathaze.testing.neighbour_fuzz.hostile_table` makes a table from a seed and a
number, and the table is the same on every machine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heathaze.domain.grid import Grid

Cells = dict[int, int]
"""The mass of each cell with mass above 0, by the index of the cell, row · columns + column."""


@dataclass(frozen=True)
class Visit:
    """One row of a hostile table. ``person``, ``day`` and ``place`` are its meaning; the other fields are written."""

    person: int
    id: Any
    x: Any
    y: Any
    place: tuple[float, float]
    """The position as two floats; NaN for a missing coordinate."""
    day: int = 0
    time: Any = None
    note: str = ""
    file: int = 0
    """The index of the file that holds the visit."""
    line: bytes = b""
    """The line of the visit in a text file, with the end of the line."""
    weight: Any = None
    kind: str = ""
    """The value in the column of a row filter."""
    amount: int = 1
    """The weight in thousandths, or 1 if visits have no weights."""
    kept: bool = True
    """Whether the row filter keeps the visit."""

    def other(self, role: str) -> str:
        """Return the value in a column that no option names. Columns named like the person column hold other ids."""
        return f"{self.person % 2}" if role.startswith("twin") else self.note


@dataclass(frozen=True)
class Recipe:
    """The source of a hostile table, such as "csv", and the fault of the source."""

    source: str
    fault: str = "none"

    def __str__(self) -> str:
        return self.source if self.fault == "none" else f"{self.source}, {self.fault}"


@dataclass(frozen=True)
class Table:
    """A hostile table: visits of a few people, and all settings to write some or all of the visits to a source."""

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
    """The folder of each file, relative to the folder of the table."""
    style: Mapping[str, Any] = field(default_factory=dict)
    """Settings for the writer of the source: quoting, row groups, header."""
    known: bool = True
    """Whether the right counts are known. They are unknown if a damaged file may be read in several ways."""
    guilty: int | None = None
    """The person whose rows are damaged, if only one person has damaged rows."""

    @property
    def people(self) -> list[int]:
        """The numbers of all people in the table, in rising order."""
        return sorted({visit.person for visit in self.visits})

    @property
    def leaver(self) -> int:
        """The person to leave out in a check that leaves out only one person: the person with damaged rows, if any."""
        people = self.people
        return self.guilty if self.guilty in people else people[self.number % len(people)]

    @property
    def options(self) -> dict[str, Any]:
        """The options with which ``heathaze.count`` reads the table."""
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
        wanted |= {"time": self.names["time"]} if self.unit == "person-day" else {}
        return wanted | dict(self.style.get("options", {}))

    @property
    def bound(self) -> int:
        """The largest mass that one unit may have in the counts."""
        if self.weight == "share":
            return self.mass
        return 1 if self.unit == "visit" else self.at_most or 1

    @property
    def must_be_refused(self) -> bool:
        """Whether a reader must refuse the table, because a visit has no person and its influence has no bound."""
        nobody = any(visit.kept and (visit.id is None or visit.id == "") for visit in self.visits)
        return self.known and self.unit != "visit" and nobody

    def of(self, person: int) -> list[Visit]:
        """Return the visits of one person."""
        return [visit for visit in self.visits if visit.person == person]

    def without(self, person: int) -> list[Visit]:
        """Return the visits of all other people."""
        return [visit for visit in self.visits if visit.person != person]

    def units(self, visits: Sequence[Visit]) -> dict[Any, list[Visit]]:
        """Group visits by their protected unit."""
        found: defaultdict[Any, list[Visit]] = defaultdict(list)
        for place, visit in enumerate(visits):
            day = (visit.person, visit.day)
            found[visit.person if self.unit == "person" else day if self.unit == "person-day" else place].append(visit)
        return found

    def right(self, visits: Sequence[Visit]) -> Cells | None:
        """Compute the right counts of some visits, without an engine; None if they are not known.

        They are not known if a damaged file may be read in several ways, or if a unit has more cells than ``at_most``.
        A public hash then chooses the cells, and its choice is not part of the documented behaviour.
        """
        total: Counter[int] = Counter()
        for together in self.units([visit for visit in visits if visit.kept]).values():
            cells: Counter[int] = Counter()
            for visit, cell in zip(together, self.cells(together), strict=True):
                if cell is not None and visit.amount:
                    cells[cell] += visit.amount
            whole = sum(cells.values())
            coarse = whole // 2**32 + 1
            if self.unit != "visit" and len(cells) > (self.at_most or len(cells)):
                return None
            for cell, n in cells.items():
                total[cell] += self.mass * (n // coarse) // (whole // coarse) if self.weight == "share" else 1
        return {cell: mass for cell, mass in total.items() if mass} if self.known else None

    def cells(self, visits: Sequence[Visit]) -> list[int | None]:
        """Return the index of the cell of each visit; None for a visit outside the grid."""
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
