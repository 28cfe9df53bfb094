"""A check of how journeys are read: the rows of one person must not change the counts of another person's journeys.

    facts(everybody) = Σ over people of facts(that person alone), as integers, in every table of facts,

and the facts of a person alone have at most the mass M in each table, for each unit of this person. If both hold,
adding or removing one person changes each table by at most M, which is all that the proof of
``trajectories/journey_trees.md`` needs. Journeys are read in every way that the reader has, one way for each table:
divided by pauses or by a column of trips, with the person or the trip as unit, with or without a person column, and
with positions outside the map, as for reports of the local model.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heathaze.ingest.journeys import read_journeys
from heathaze.testing.neighbour_fuzz import ROUND
from heathaze.testing.neighbour_fuzz.check import Checker, Refused
from heathaze.testing.neighbour_fuzz.table import Table, Visit
from heathaze.trajectories.facts import MASS, count_facts
from heathaze.trajectories.frame import Frame

Facts = dict[tuple[str, int], int]
"""Mass by the name of a table of facts and the code of a cell in it; and the number of units, as ("units", 0)."""

PAUSE = 3600.0
"""Seconds after which a journey of a hostile table ends, if journeys are divided by pauses."""

WAYS = ("pauses", "trips", "outside", "nobody")
"""The ways in which journeys are read: with pauses; with a column of trips, each a unit; with both and positions
outside the map; and with a column of trips but none of people."""

_OPTIONS = frozenset(inspect.signature(read_journeys).parameters)


class JourneyChecker(Checker):
    """Checks a reader of journeys on hostile tables with a column of times; see :class:`Checker`."""

    def __init__(self, folder: Path, read: Callable[..., Any] = read_journeys) -> None:
        super().__init__(folder)
        self.read_journeys = read

    def check_journeys(self, table: Table) -> None:
        """Check the facts of one table, and add violations to the report. A table without times is left out."""
        if "time" not in table.order and table.names.get("time") != "time":
            return
        self.report.tables += 1
        way = WAYS[(table.number + table.number // len(ROUND)) % len(WAYS)]
        every = self.facts(table, table.visits, way)
        if isinstance(every, Refused):
            self.report.refused += 1
            return
        if table.known and any(visit.kept and visit.id in (None, "") for visit in table.visits):
            self._violation(table, "meaning of journeys", "a row has no person, and journeys are counted")
        together: Counter[tuple[str, int]] = Counter()
        for person in table.people:
            alone = self.facts(table, table.of(person), way)
            if isinstance(alone, Refused):
                self._violation(table, "refused alone", f"person {person} alone is refused: {alone.sentence}")
                return
            units = alone.pop(("units", 0), 0)
            if way in ("pauses", "outside") and units > 1:
                self._violation(table, "units of journeys", f"person {person} alone is {units} people")
            for name in {name for name, _ in alone}:
                if sum(mass for (where, _), mass in alone.items() if where == name) > MASS * units:
                    self._violation(table, "bound of journeys", f"person {person} has too much mass in {name}")
            together.update(alone)
            together["units", 0] += units
        if dict(together) != every:
            both = together.keys() | every.keys()
            l1 = sum(abs(together.get(key, 0) - every.get(key, 0)) for key in both)
            self._violation(table, "sum of journeys", f"an l1 of {l1} between everybody and the sum of people")

    def facts(self, table: Table, visits: Sequence[Visit], way: str) -> Facts | Refused:
        """Write some visits of a table to a source, read them as journeys in one way, and count their facts."""
        options = {name: value for name, value in table.options.items() if name in _OPTIONS}
        # A column that no option names serves as the column of trips. Several people have the same ids in it, and the
        # reader must not join their journeys.
        trip = "twin0" if "twin0" in table.order else "note1" if all(visit.note for visit in table.visits) else "person"
        person, divided = table.names["person"], table.names[trip]
        ways: dict[str, dict[str, Any]] = {
            "pauses": {"trip": None, "pause": PAUSE, "unit": "person"},
            "trips": {"trip": divided, "pause": None, "unit": "trip"},
            "outside": {"trip": divided, "pause": PAUSE, "unit": "person", "outside": True},
            "nobody": {"person": None, "trip": person, "pause": None, "unit": "trip"},
        }
        options |= ways[way] | {"time": table.names["time"]}

        def read(source: Any) -> Facts:
            found = count_facts(self.read_journeys(source, table.grid, **options), Frame(table.grid, 3, 2), hours=True)
            tables = {"visits": found.visits, "pairs": found.pairs, "shapes": found.shapes, "hours": found.hours}
            return {("units", 0): found.units} | {
                (name, code): mass
                for name, one in tables.items()
                if one is not None
                for code, mass in zip(one.codes.tolist(), one.mass.tolist(), strict=True)
                if mass
            }

        with self._source(table, visits, False) as source:
            return self._attempt(table, lambda: read(source), {})
