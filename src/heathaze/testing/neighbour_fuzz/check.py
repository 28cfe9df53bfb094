"""Check of a reader: the rows of one person must not change the counts of another person.

    count(everybody) = Σ over people of count(that person alone), as integers, cell by cell,

and the counts of a person alone have at most the mass ``bound`` for each unit of that person. If both hold, adding or
removing one person changes the counts by at most that mass, whoever the other people are. An error that affects all
people in the same way does not change the equation. Such an error is found by comparison with the same bytes in another
folder, with the right counts (if they are known), and with another engine.

Readers of positions are checked in a similar way. Without a person column, the positions that are read from a table
must be the positions that are read from each person's rows alone, joined. With a person column, the reader must return
one position for each person, and it must occur in this person's rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import deinterleave
from heathaze.errors import HeathazeError
from heathaze.ingest.count import count
from heathaze.ingest.positions import positions
from heathaze.testing.neighbour_fuzz.sources import FILES, arrow_table, write
from heathaze.testing.neighbour_fuzz.table import Cells, Table, Visit

Found = TypeVar("Found")
Reader = Callable[[Any, Grid, Mapping[str, Any]], Any]
"""A function from a source, a grid and the options of ``heathaze.count`` to Counts. It raises UnreadableData to refuse
a source."""

NOTHING = ("lies inside the box", "not a single", "No row fits the row filter")
"""Parts of error sentences which mean that no visit was inside the grid, or that there was no position."""


@dataclass(frozen=True)
class Refused:
    """The result of a reader that refused a table: its error sentence."""

    sentence: str


@dataclass(frozen=True)
class Violation:
    """A rule that a reader broke, and the table. The data is synthetic, so it may be printed."""

    table: Table
    engine: str
    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule} ({self.engine}): {self.detail}\n  {self.table}"


@dataclass
class Report:
    """The violations that a run of the fuzz test found."""

    tables: int = 0
    refused: int = 0
    counted: int = 0
    """The number of counts that were made."""
    violations: list[Violation] = field(default_factory=list)

    def raise_if_any(self) -> None:
        """Raise AssertionError with the first few violations, each with the seed and number of its table."""
        if self.violations:
            shown = "\n".join(str(violation) for violation in self.violations[:5])
            raise AssertionError(f"{len(self.violations)} violations in {self.tables} tables:\n{shown}")


def _heathaze_reader(engine: str) -> Reader:
    """Return ``heathaze.count`` on one engine as a reader to check."""
    return lambda source, grid, options: count(source, grid, engine=engine, **options)


class Checker:
    """Checks a reader on hostile tables, one after the other.

    Args:
        folder: A folder for files. The files of a table are deleted after its check.
        engine: The name of the engine that reads.
        read: The reader to check; ``heathaze.count`` on the engine if left out.
    """

    def __init__(self, folder: Path, engine: str = "duckdb", read: Reader | None = None) -> None:
        self.folder = folder
        self.engine = engine
        self.read = read or _heathaze_reader(engine)
        self.report = Report()
        self._written = 0

    def check(self, table: Table) -> Cells | Refused:
        """Check all rules on one table, add violations to the report, and return the counts of everybody."""
        self.report.tables += 1
        everybody = self.count(table, table.visits)
        if isinstance(everybody, Refused):
            self.report.refused += 1
        else:
            self._check_sum(table, everybody)
            self._check_meaning(table, everybody)
        if any(table.folders):
            self._same(table, "same bytes in a plain folder", everybody, self.count(table, table.visits, plain=True))
        return everybody

    def check_against(self, table: Table, other: Checker) -> None:
        """Compare the counts of everybody, and of everybody but one, with the right counts or with another engine.

        Suppose that the other engine's counts of everybody are the sum of its counts of each person alone. Two counts
        of this engine are then enough to check the same property: count(everybody) must be that sum, and count(all but
        one person) must be that sum without the person.
        """
        self.report.tables += 1
        everybody = self.count(table, table.visits)
        theirs = other.count(table, table.visits)
        right = table.right(table.visits)
        self._same(table, "engine against engine", theirs, everybody, other.engine)
        if isinstance(everybody, Refused):
            self.report.refused += 1
            return
        self._check_meaning(table, everybody, right)
        person = table.leaver
        alone = table.right(table.of(person)) if right is not None else other.count(table, table.of(person))
        if not isinstance(alone, dict):
            return
        rest = self.count(table, table.without(person))
        expected = _difference(everybody, alone)
        if isinstance(rest, Refused) or rest != expected:
            self._violation(table, "all but one person", f"person {person} leaves: {_shown(expected, rest)}")

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_sum(self, table: Table, everybody: Cells) -> None:
        total: Counter[int] = Counter()
        for person in table.people:
            visits = table.of(person)
            alone = self.count(table, visits)
            if isinstance(alone, Refused):
                self._violation(table, "refused alone", f"person {person} alone is refused: {alone.sentence}")
                return
            weight, most = sum(alone.values()), table.bound * len(table.units(visits))
            if weight > most:
                self._violation(table, "bound", f"person {person} alone weighs {weight}, more than {most}")
            total.update(alone)
        if dict(total) != everybody:
            self._violation(table, "sum of people", _shown(dict(total), everybody))

    def _check_meaning(self, table: Table, everybody: Cells, right: Cells | None = None) -> None:
        right = table.right(table.visits) if right is None else right
        if table.must_be_refused:
            self._violation(table, "meaning", "a visit has no person, and the table is counted")
        elif right is not None:
            if right != everybody:
                self._violation(table, "meaning", _shown(right, everybody))
        elif table.known and table.recipe.source in FILES:
            memory = self._counted(table, arrow_table(table, table.visits))
            self._same(table, "file against memory", memory, everybody)

    def _same(self, table: Table, rule: str, first: Any, second: Any, against: str = "") -> None:
        both_refused = isinstance(first, Refused) and isinstance(second, Refused)
        if first != second and not both_refused:
            self._violation(table, rule + (f" {against}" if against else ""), _shown(first, second))

    def _violation(self, table: Table, rule: str, detail: str) -> None:
        self.report.violations.append(Violation(table, self.engine, rule, detail))

    # ── counting ────────────────────────────────────────────────────────────────────────────────────────────────────

    def count(self, table: Table, visits: Sequence[Visit], *, plain: bool = False) -> Cells | Refused:
        """Write some visits of a table to a source and count them; without any visit inside, there are no cells."""
        with self._source(table, visits, plain) as source:
            return self._counted(table, source)

    def _counted(self, table: Table, source: Any) -> Cells | Refused:
        return self._attempt(table, lambda: _as_cells(self.read(source, table.grid, table.options)), {})

    @contextlib.contextmanager
    def _source(self, table: Table, visits: Sequence[Visit], plain: bool) -> Iterator[Any]:
        """Write some visits of a table to a source, and delete its files after the block."""
        self._written += 1
        folder = self.folder / f"{self._written}"
        try:
            yield write(table, folder, visits, self.engine, plain=plain)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _attempt(self, table: Table, read: Callable[[], Found], nothing: Found) -> Found | Refused:
        """Read a source; return ``nothing`` if the reader says that it holds no visits, and its refusal otherwise."""
        self.report.counted += 1
        try:
            return read()
        except HeathazeError as refusal:
            return nothing if any(words in str(refusal) for words in NOTHING) else Refused(str(refusal))
        except Exception as error:  # a raw error may quote the data
            self._violation(table, "raw error", f"{type(error).__name__}: {str(error)[:200]}")
            return Refused(type(error).__name__)


def _as_cells(counts: Any) -> Cells:
    """Convert Counts to a dictionary from the index of a cell to its mass."""
    rows, cols = deinterleave(counts.codes)
    return dict(zip((rows * counts.grid.cols + cols).tolist(), counts.mass.tolist(), strict=True))


def shrunk(table: Table, fails: Callable[[Table], bool], most: int = 40) -> Table:
    """Shrink a table that fails a check: leave out people and visits one by one, as long as the check still fails."""
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        parts = [table.without(person) for person in table.people]
        parts += [[*table.visits[:place], *table.visits[place + 1 :]] for place in range(len(table.visits))]
        for part in parts:
            tries += 1
            if tries > most:
                return table
            candidate = dataclasses.replace(table, visits=tuple(part))
            if part and fails(candidate):
                table, smaller = candidate, True
                break
    return table


def _difference(everybody: Cells, alone: Mapping[int, int]) -> Cells:
    rest = Counter(everybody)
    rest.subtract(alone)
    return {cell: mass for cell, mass in rest.items() if mass}


def _shown(expected: Cells | Refused, found: Cells | Refused) -> str:
    if isinstance(expected, Refused) or isinstance(found, Refused):
        return f"expected {_part(expected)}, found {_part(found)}"
    cells = sorted(cell for cell in expected.keys() | found.keys() if expected.get(cell) != found.get(cell))
    l1 = sum(abs(expected.get(cell, 0) - found.get(cell, 0)) for cell in cells)
    shown = ", ".join(f"cell {cell}: {expected.get(cell, 0)} → {found.get(cell, 0)}" for cell in cells[:4])
    return f"an l1 of {l1} between expected and found; {shown}"


def _part(value: Cells | Refused) -> str:
    return f"a refusal ({value.sentence})" if isinstance(value, Refused) else f"{dict(list(value.items())[:6])}"


# ── positions ───────────────────────────────────────────────────────────────────────────────────────────────────────

Position = tuple[float, float]
PositionReader = Callable[..., Any]
"""Takes a source, a grid and the names of columns, as ``heathaze.ingest.positions.positions`` does."""


class PositionChecker(Checker):
    """Checks a reader of positions on hostile tables; see :class:`Checker`."""

    def __init__(self, folder: Path, read_positions: PositionReader = positions) -> None:
        super().__init__(folder)
        self.read_positions = read_positions

    def check_positions(self, table: Table) -> None:
        """Check positions with and without a person column on one table, and add violations to the report."""
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
        """Check that every person reports one position, which occurs in the rows of this person."""
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

    def positions(
        self, table: Table, visits: Sequence[Visit], person: str | None, *, plain: bool = False
    ) -> list[Position] | Refused:
        """Write some visits of a table to a source, and read their positions as pairs of floats."""
        x, y = ("lon", "lat") if table.grid.projection.is_geographic else ("x", "y")
        options = {x: table.names["x"], y: table.names["y"], "person": person}
        with self._source(table, visits, plain) as source:
            return self._attempt(
                table, lambda: [(float(x), float(y)) for x, y in self.read_positions(source, table.grid, **options)], []
            )


def _can_be_dealt(drawn: Sequence[Position], owned: Sequence[set[Position]]) -> bool:
    """Return whether the drawn positions can be assigned to people so that each gets a position of their own.

    All assignments are tried, because there are few people.
    """
    if not drawn:
        return True
    return any(
        drawn[0] in places and _can_be_dealt(drawn[1:], [*owned[:place], *owned[place + 1 :]])
        for place, places in enumerate(owned)
    )
