"""Rows of a file in the marketplace: nobody's row changes how another one is encoded, and no folder changes any.

The tables are those of the net of hostile tables; coordinates are numbers of the study, ids and notes are levels.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from heathaze.errors import HeathazeError
from heathaze.ingest.tables import Tables
from heathaze.marketplace.study import Study
from heathaze.testing.neighbour_fuzz import Recipe, Table, Visit, hostile_table
from heathaze.testing.neighbour_fuzz.sources import write

SEED = 16
FAULTS = {
    "csv": (
        "none",
        "column folders",
        "stray quotes",
        "forged lines",
        "line break in quotes",
        "quote in a field",
        "unterminated quote",
        "text after quote",
        "short row",
        "long row",
        "mixed line ends",
        "no-break space",
        "NUL byte",
        "not UTF-8",
        "packed",
    ),
    "parquet": ("none", "column folders", "wrong statistics", "wrong null counts", "unusual types"),
}
RECIPES = [Recipe(source, fault) for source, faults in FAULTS.items() for fault in faults]


def one_file(table: Table) -> Table:
    """All visits in one file: an owner has one."""
    visits = tuple(dataclasses.replace(visit, file=0) for visit in table.visits)
    return dataclasses.replace(table, visits=visits, folders=table.folders[:1])


def study(table: Table) -> Study:
    """Ranges and levels that know some of the values and not others."""
    levels = sorted({f"{visit.id}" for visit in table.visits if visit.id is not None} - {""})
    columns = {
        table.names["x"]: table.grid.x,
        table.names["y"]: table.grid.y,
        table.names["note1"]: ("hi", "ü", "1.5"),
    }
    people = [level for level in levels if not level.strip().lstrip("+-0").replace(".", "").isdigit()]
    return Study.of({**columns, table.names["person"]: [*people[:3], "somebody"]})


def encoded(table: Table, visits: Sequence[Visit], folder: Path, plain: bool = False) -> list[bytes] | None:
    """Each row's point as bytes; None where the file is refused."""
    path = write(table, folder, visits, plain=plain)
    try:
        with Tables() as tables:
            points = study(table).encode_file(tables, tables.read(path)).points
    except HeathazeError:
        return None
    return [np.ascontiguousarray(point).tobytes() for point in points]


def problems(table: Table, folder: Path) -> list[str]:
    """What does not hold on a table."""
    everybody = encoded(table, table.visits, folder / "all")
    if everybody is None:
        return []
    found = []
    together: Counter[bytes] = Counter()
    for person in table.people:
        alone = encoded(table, table.of(person), folder / f"{person}")
        if alone is None:
            return [f"person {person} alone is refused"]
        together.update(alone)
        mine = [place for place, visit in enumerate(table.visits) if visit.person == person]
        if table.known and len(everybody) == len(table.visits) and [everybody[place] for place in mine] != alone:
            found.append(f"rows of person {person} are others among others")
    if together != Counter(everybody):
        found.append("the rows of all are not those of each alone")
    if table.known and len(everybody) != len(table.visits):
        found.append(f"{len(table.visits)} rows became {len(everybody)}")
    if any(table.folders) and everybody != encoded(table, table.visits, folder / "elsewhere", plain=True):
        found.append("the same bytes in a plain folder are other rows")
    return found


def report(folder: Path, numbers: range) -> list[str]:
    broken = []
    for number in numbers:
        table = one_file(hostile_table(SEED, number, RECIPES[number % len(RECIPES)]))
        broken += [f"{problem}: {table}" for problem in problems(table, folder / f"{number}")]
    return broken


def test_the_net_on_rows(tmp_path: Path) -> None:
    assert report(tmp_path, range(4 * len(RECIPES))) == []


@pytest.mark.slow
def test_the_net_on_rows_at_length(tmp_path: Path) -> None:
    assert report(tmp_path, range(1000, 1000 + 50 * len(RECIPES))) == []


# ── leak 4, by itself ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["sex=f", "age=90", "sex=f/age=90", "c0=1", "r0=1", "__heathaze_row=7"])
def test_names_of_folders_say_nothing_about_rows(tmp_path: Path, name: str) -> None:
    people = Study.of({"age": (0, 100), "sex": ("f", "m")})
    points = []
    for folder in (tmp_path / "plain", tmp_path / name):
        folder.mkdir(parents=True)
        (folder / "t.csv").write_text("age,sex\n20,m\n30,f\n40,m\n")
        with Tables() as tables:
            points.append(people.encode_file(tables, tables.read(folder / "t.csv")).points.tolist())
    assert points[0] == points[1]
    assert [row[0] for row in points[0]] == [0.2, 0.3, 0.4]
