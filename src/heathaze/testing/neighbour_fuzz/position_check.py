"""The property for reports: whose position is reported does not depend on anybody else's rows.

With no person given, the positions of everybody are those of each person alone, together; with one, every person
reports one of their own positions, and nobody else any.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heathaze.errors import HeathazeError
from heathaze.ingest.positions import positions
from heathaze.testing.neighbour_fuzz.check import Checker, Refused
from heathaze.testing.neighbour_fuzz.sources import write
from heathaze.testing.neighbour_fuzz.table import Table, Visit

Position = tuple[float, float]
Found = list[Position] | Refused
PositionReader = Callable[..., Any]
"""Takes a source, a grid and the names of columns, as ``heathaze.ingest.positions.positions`` does."""

NOTHING = "not a single"
"""Words of the refusal that means no position at all."""


class PositionChecker(Checker):
    """Checks positions out of tables; see :class:`Checker`."""

    def __init__(self, folder: Path, read_positions: PositionReader = positions) -> None:
        super().__init__(folder)
        self.read_positions = read_positions

    def check_positions(self, table: Table) -> None:
        """Both ways to read positions, on one table; violations go to the report."""
        self.report.tables += 1
        every = self.positions(table, table.visits, None)
        if isinstance(every, Refused):
            self.report.refused += 1
            return
        alone = {person: self.positions(table, table.of(person), None) for person in table.people}
        together: Counter[Position] = Counter()
        for person, found in alone.items():
            if isinstance(found, Refused):
                self._violation(table, "refused alone", f"person {person} alone is refused: {found.sentence}")
                return
            together.update(found)
        self._same_positions(table, "positions of everybody", together, every)
        if table.known:
            right = [visit.place for visit in table.visits if all(map(math.isfinite, visit.place))]
            self._same_positions(table, "meaning of positions", Counter(right), every)
        if any(table.folders):
            elsewhere = self.positions(table, table.visits, None, plain=True)
            if isinstance(elsewhere, Refused) or Counter(elsewhere) != Counter(every):
                self._violation(table, "same bytes in a plain folder", f"{every} became {elsewhere}")
        self._check_drawn(table)

    def _check_drawn(self, table: Table) -> None:
        """One position a person, out of their own: those of the person's rows, by the generator's own rule."""
        drawn = self.positions(table, table.visits, table.names["person"])
        if isinstance(drawn, Refused) or not table.known:
            return
        if any(visit.id in (None, "") for visit in table.visits):
            self._violation(table, "meaning of positions", "a visit has no person, and positions are drawn")
            return
        owned = [{visit.place for visit in table.of(person)} for person in table.people]
        owned = [{place for place in places if all(map(math.isfinite, place))} for places in owned]
        owned = [places for places in owned if places]
        if len(drawn) != len(owned) or not _can_be_dealt(drawn, owned):
            self._violation(table, "one position a person", f"{drawn} are not one each of {owned}")

    def _same_positions(self, table: Table, rule: str, expected: Counter[Position], found: Sequence[Position]) -> None:
        if expected != Counter(found):
            missing, added = expected - Counter(found), Counter(found) - expected
            self._violation(table, rule, f"missing {dict(missing)}, added {dict(added)}")

    def positions(self, table: Table, visits: Sequence[Visit], person: str | None, *, plain: bool = False) -> Found:
        """Positions out of some of a table's visits, as pairs of floats."""
        self.report.counted += 1
        self._written += 1
        folder = self.folder / f"{self._written}"
        x, y = ("lon", "lat") if table.grid.projection.is_geographic else ("x", "y")
        options = {x: table.names["x"], y: table.names["y"], "person": person}
        try:
            found = self.read_positions(write(table, folder, visits, plain=plain), table.grid, **options)
            return [(float(pair[0]), float(pair[1])) for pair in found]
        except HeathazeError as refusal:
            return [] if NOTHING in str(refusal) else Refused(str(refusal))
        except Exception as error:  # a raw error may quote the data
            self._violation(table, "raw error", f"{type(error).__name__}: {str(error)[:200]}")
            return Refused(type(error).__name__)


def _can_be_dealt(drawn: Sequence[Position], owned: Sequence[set[Position]]) -> bool:
    """Whether each can be given one of their own: few people, so all ways are tried."""
    if not drawn:
        return True
    return any(
        drawn[0] in places and _can_be_dealt(drawn[1:], [*owned[:place], *owned[place + 1 :]])
        for place, places in enumerate(owned)
    )
