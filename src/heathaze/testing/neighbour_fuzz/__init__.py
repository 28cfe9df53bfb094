"""Fuzz tests of readers: find readers in which the rows of one person change the counts of other people.

A counting query has a bounded sensitivity only if the contribution of each person depends on this person's rows alone.
Readers may break this condition silently. A quotation mark swallows lines of other people, wrong statistics in a file
disable a comparison for everybody, or a folder called ``u=7`` gives all people the same id. In symmetric test data such
errors cancel out. This package generates hostile tables, with sources, faults, ids and positions that are known to
confuse an engine. On each table it checks one property exactly:

    count(everybody) = Σ over people of count(that person alone)

    from heathaze.testing.neighbour_fuzz import Checker, hostile_table

    checker = Checker(tmp_path, "duckdb")
    for number in range(300):
        checker.check(hostile_table(14, number))
    checker.report.raise_if_any()

To check your own reader, give a function from source, grid and options to Counts: ``Checker(tmp_path, read=mine)``. A
failure prints the seed and the number of its table, and ``hostile_table(seed, number)`` makes this table again. All
values are synthetic.

How a table is made:

    (seed, number) ─► recipe ─► columns ─► people, ids, positions, times ─► folders ─► lines of text ─► Table

The recipe (source and fault) depends only on the number. Recipes take turns, so that a few hundred tables contain every
source without a fault and with each of its faults. Everything else is random. Faults that readers should refuse share
turns, so that only about a quarter of all tables is refused. A refused table gives no counts to compare.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from heathaze.testing.neighbour_fuzz import dialects, values
from heathaze.testing.neighbour_fuzz.check import Checker, PositionChecker, Refused, Report, Violation, shrunk
from heathaze.testing.neighbour_fuzz.places import ENDINGS
from heathaze.testing.neighbour_fuzz.table import Recipe, Table, Visit
from heathaze.testing.neighbour_fuzz.text_files import csv_lines, json_lines
from heathaze.testing.neighbour_fuzz.values import pick

__all__ = [
    "ROUND", "Checker", "PositionChecker", "Recipe", "Refused", "Report", "Table", "Violation", "Visit",
    "hostile_table", "shrunk",
]  # fmt: skip

# ── recipes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_TURNS = """
parquet; csv: forged lines; parquet: wrong statistics; json lines: column folders; csv: stray quotes;
lists, arrays, pandas: mixed ids; csv; parquet, csv, arrow: names differ in case; parquet: person in folder names;
csv: column folders; arrow; pandas; csv: line break in quotes; parquet; json lines;
parquet: person in folder names only; csv: mixed line ends, lone CR; lists: NUL ids; parquet: wrong null counts;
csv: short row, long row; csv; parquet: column folders; json lines: escaped NUL;
csv: quote in a field, unterminated quote, text after quote; arrow; parquet: several files;
csv: no-break space, NUL byte, not UTF-8; arrays; parquet; pandas;
json lines: huge ids, keys differ in case, duplicate keys; csv: several files; parquet: unusual types; csv: packed;
lists; arrow: unusual types; parquet: wrong statistics; arrays: NUL ids; json lines: column folders; parquet; csv;
arrow; relation; parquet: several files; pandas; json lines; csv: column folders; parquet; relation; arrow;
csv: latin-1, windows-1252, utf-16, tabs; csv: decimal comma; csv, parquet, json lines, arrow: weights;
csv, parquet, json lines, geojson: row filter; csv, arrow, lists: local times; csv, parquet, arrays: epoch;
geojson; geopackage; geoparquet; gpx: none, equal names, tracks; mds, shapefile; polars, geopandas
"""


def _turn(text: str) -> tuple[Recipe, ...]:
    """Read the recipes of one turn: each of its sources with each of its faults, or without a fault."""
    sources, _, faults = text.partition(":")
    return tuple(
        Recipe(source.strip(), fault.strip())
        for source in sources.split(",")
        for fault in (faults or "none").split(",")
    )


ROUND = tuple(map(_turn, _TURNS.split(";")))
"""The turns of recipes. A round takes one recipe of each turn. About forty tables contain every source, and every fault
that once let the rows of one person change the counts of others."""


def _recipe_of(number: int) -> Recipe:
    """Return the recipe of the table with a given number.

    >>> str(_recipe_of(0)), str(_recipe_of(1)), str(_recipe_of(16)), str(_recipe_of(78))
    ('parquet', 'csv, forged lines', 'csv, mixed line ends', 'csv, lone CR')
    """
    turn = ROUND[number % len(ROUND)]
    return turn[number // len(ROUND) % len(turn)]


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = (
    {"person": "u", "x": "x", "y": "y", "time": "t"},
    {"person": "u", "x": "x", "y": "y", "time": "t"},
    {"person": "who", "x": "easting", "y": "northing", "time": "when"},
    {"person": "u.v", "x": "x y", "y": "`y`", "time": "t'"},
    {"person": 'u"v', "x": "select", "y": "y;", "time": "tést"},
    {"person": "u_1", "x": "r0", "y": "c0", "time": "flaw"},
    {"person": "unit", "x": "y", "y": "x", "time": "c3"},
)
FOLDERS = ("{person}=7", "{person}=bob", "{x}=3.5", "{y}=-0.5", "c0=1", "c2=bob", "{person}=7/{x}=3.5")
NUMBERED_FOLDERS = ("r{place}=0.5", "r{place}=0.5", "r{place}=bob", "{person}=7/{x}=3.5")
"""Folders with names like the numbered columns r0, r1, … in which a reader of CSV may hold its fields."""
ABOUT_IDS = ("names differ in case", "mixed ids", "NUL ids", "huge ids", "escaped NUL", "unusual types")
"""Faults that matter only with a person column. Faults with people in the names of folders belong here too."""

TEXT_SOURCES = ("csv", "json lines")
POINTS = (*ENDINGS, "geoparquet", "geopandas")
"""Sources that hold points instead of two columns of coordinates."""


def hostile_table(seed: int, number: int, recipe: Recipe | None = None) -> Table:
    """Generate the hostile table of a seed and a number.

    Args:
        seed: The seed of the whole run.
        number: The number of the table. It decides the recipe, if ``recipe`` is left out.
        recipe: A recipe to use instead, to look at one source or fault.

    >>> print(str(hostile_table(1, 0))[:33])
    table (seed 1, number 0): parquet
    """
    recipe = recipe or _recipe_of(number)
    rng = np.random.default_rng([seed, number])
    grid = values.GRIDS[int(rng.choice(len(values.GRIDS), p=[0.25, 0.15, 0.12, 0.15, 0.13, 0.05, 0.15]))]
    unit = str(rng.choice(["person", "person-day", "visit"], p=[0.65, 0.25, 0.1]))
    if recipe.fault in ABOUT_IDS or recipe.fault.startswith("person in folder names"):
        unit = "person" if unit == "visit" else unit
    if recipe.fault in ("local times", "epoch"):
        unit = "person-day"
    if recipe.fault == "weights" or recipe.source in ("gpx", "mds"):
        unit = "person" if unit == "visit" else unit
    weight = str(rng.choice(["share", "presence"], p=[0.7, 0.3]))
    at_most = pick(rng, [None, None, 1, 2, 5])
    table = Table(
        seed=seed,
        number=number,
        recipe=recipe,
        grid=grid,
        visits=(),
        names=pick(rng, NAMES),
        order=(),
        unit=unit,
        weight=weight,
        at_most=5 if weight == "presence" and unit != "visit" and at_most is None else at_most,
        mass=int(pick(rng, [12, 2**20, 7, 2**30])),
        coordinate_kind=_coordinate_kind(rng, recipe, grid.x[1] - grid.x[0] > 2),
        time_kind=_time_kind(rng, recipe),
        style=_style(rng, recipe),
    )
    for step in (_columns, _people, dialects.apply, _points, _files):
        table = step(rng, table)
    if recipe.source == "csv":
        return csv_lines(rng, table)
    return json_lines(rng, table) if recipe.source == "json lines" else table


def _coordinate_kind(rng: np.random.Generator, recipe: Recipe, wide: bool) -> str:
    if recipe.source == "csv":
        return "text"
    if recipe.source in POINTS:
        return "double"
    if recipe.source == "json lines" or recipe.fault in ("wrong statistics", "wrong null counts") or not wide:
        return "double"
    if recipe.source in ("lists", "arrays"):
        return str(pick(rng, ["double", "double", "integer"]))
    return str(pick(rng, ["double", "double", "double", "double", "float", "integer", "decimal", "text"]))


def _time_kind(rng: np.random.Generator, recipe: Recipe) -> str:
    if recipe.source in (*TEXT_SOURCES, *POINTS, "lists") or recipe.fault == "local times":
        return "text"
    kinds = {"arrays": ["date", "timestamp", "text"], "pandas": ["timestamp", "instant", "text"]}
    return str(pick(rng, kinds.get(recipe.source, ["date", "timestamp", "instant", "text"])))


def _style(rng: np.random.Generator, recipe: Recipe) -> dict[str, Any]:
    """Choose at random how a table is written to a file, such as its quoting or the size of its row groups."""
    if recipe.source == "parquet":
        lying = recipe.fault in ("wrong statistics", "wrong null counts")
        # DuckDB always writes statistics in the same way, and renames columns whose names differ only in case.
        by_pyarrow = lying or recipe.fault == "names differ in case" or rng.random() < 0.8
        return {
            "writer": "pyarrow" if by_pyarrow else "duckdb",
            "row_group_size": int(rng.integers(1, 8)),
            "dictionary": bool(rng.integers(2)) and not lying,
            "statistics": lying or bool(rng.random() < 0.8),
            "page_index": bool(rng.integers(2)),
            "compression": str(pick(rng, ["none", "snappy", "zstd"])),
            "lie": str(pick(rng, ["outside", "inside"])),
            **({"id_type": _id_type(rng)} if recipe.fault == "unusual types" else {}),
        }
    if recipe.source == "arrow":
        unusual = {"id_type": _id_type(rng)} if recipe.fault == "unusual types" else {}
        return {"row_group_size": int(rng.integers(1, 8)), **unusual}
    if recipe.source == "pandas":
        kinds = ["object", "string", "category", "Int64", "arrow", "string[pyarrow]"]
        return {"pandas": "object" if recipe.fault == "mixed ids" else str(pick(rng, kinds))}
    if recipe.source == "arrays":
        return {"objects": recipe.fault in ("NUL ids", "mixed ids") or bool(rng.integers(2))}
    if recipe.source == "json lines":
        return {"ending": str(pick(rng, ["jsonl", "ndjson", "json", "jsonl.gz"]))}
    return {"packed": recipe.fault == "packed", "open_end": bool(rng.integers(2))} if recipe.source == "csv" else {}


def _id_type(rng: np.random.Generator) -> str:
    return str(pick(rng, ["dictionary", "large_string", "string_view", "uuid"]))


def _columns(rng: np.random.Generator, table: Table) -> Table:
    """Draw the columns of a table: the wanted and other columns in random order.

    The last column of a CSV file is free text, in which most faults are placed.
    """
    names = dict(table.names)
    roles = ["person", "x", "y", *(["time"] if table.unit == "person-day" else [])]
    if table.recipe.fault == "names differ in case":
        # An engine that ignores case in names renames the second column to u_1, and the third column to u_1_1.
        trio = pick(rng, [("u_1", "U", "u"), ("u_1", "U", "u"), ("u", "U", "u_1"), ("U", "u_1", "u")])
        names.update(zip(("person", "twin0", "twin1"), trio, strict=True))
        roles += ["twin0", "twin1"]
    if rng.random() < 0.5:
        names["note0"] = "before, and after" if table.recipe.source != "csv" else "before"
        roles.append("note0")
    rng.shuffle(roles)
    names["note1"] = "note"
    return dataclasses.replace(table, names=names, order=(*roles, "note1"))


def _points(rng: np.random.Generator, table: Table) -> Table:
    """Name the columns of the position, of a track and of a trip as the readers of points do."""
    source = table.recipe.source
    if source not in POINTS:
        return table
    axes = ("lon", "lat") if table.grid.projection.is_geographic else ("x", "y")
    names = {**table.names, "x": axes[0], "y": axes[1]}
    options = dict(table.style.get("options", {}))
    if source == "gpx":
        names |= {"person": "track" if table.recipe.fault == "tracks" else "file", "time": "time"}
    elif source == "mds":
        names |= {"person": "trip_id", "time": "time"}
        options["format"] = "mds"
    del rng
    return dataclasses.replace(table, names=names, style={**table.style, "options": options})


# ── people ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _people(rng: np.random.Generator, table: Table) -> Table:
    """Draw three to five people with different numbers of visits, whose rows are in random order."""
    kind, names = values.ids(rng, table, int(pick(rng, [3, 3, 4, 4, 5])))
    # The first person has extreme positions, which widen a file's statistics. At least two others are inside the grid.
    profiles = [pick(rng, ["outside", "anything"]), "holes", "inside", *(pick(rng, values.PROFILES) for _ in names)]
    sizes = rng.permutation([1, 2, 3, 4, 6])
    far = table.recipe.source not in ("pandas", "polars") and rng.random() < 0.2
    visits = []
    for person, name in enumerate(names):
        for place in values.positions(rng, table.grid, profiles[person], int(sizes[person % 5])):
            day, second = int(pick(rng, values.FAR_DAYS if far else values.ORDINARY_DAYS)), int(rng.integers(86400))
            if table.time_kind == "text":
                day = min(max(day, values.FIRST_WRITTEN), values.LAST_WRITTEN)
            stored = [values.coordinate(rng, value, table.coordinate_kind) for value in place]
            visits.append(
                Visit(
                    person=person,
                    id=name,
                    x=stored[0],
                    y=stored[1],
                    place=(_number_or_nan(stored[0]), _number_or_nan(stored[1])),
                    day=day,
                    time=values.time_of(rng, day, second, table.time_kind),
                    note=str(pick(rng, ["", "hi", "a, b; c|d", 'he said "hi"', "  ", "ü", "1.5"])),
                )
            )
    rng.shuffle(visits)
    nullable = table.recipe.source not in ("arrays", "relation") and kind.name != "floating"
    nullable = nullable and not table.recipe.fault.startswith("person in folder names") and table.recipe.source != "gpx"
    if nullable and rng.random() < (0.5 if table.recipe.fault == "wrong null counts" else 0.03):
        chosen = int(rng.integers(len(visits)))
        nobody = "" if table.recipe.source == "csv" or (kind.name == "text" and rng.random() < 0.5) else None
        visits[chosen] = dataclasses.replace(visits[chosen], id=nobody, person=-1)
    known = kind.name not in ("floating", "mixed")
    return dataclasses.replace(table, visits=tuple(visits), id_kind=kind.name, known=known)


def _number_or_nan(value: Any) -> float:
    return math.nan if value is None else float(value)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _files(rng: np.random.Generator, table: Table) -> Table:
    """Assign each visit to a file, and draw the names of the folders."""
    fault, visits = table.recipe.fault, table.visits
    if table.recipe.source == "gpx":
        visits = tuple(dataclasses.replace(visit, file=table.people.index(visit.person)) for visit in visits)
        return dataclasses.replace(table, visits=visits)
    if fault.startswith("person in folder names"):
        # Each person has one file, in a folder that is named after this person or after somebody else.
        names = values.spellings(rng, 6)
        if fault == "person in folder names only":
            names = [str(visit.id) for person in table.people for visit in table.of(person)[:1]]
        folders = tuple(f"{table.names['person']}={name}" for name in names)
        visits = tuple(dataclasses.replace(visit, file=table.people.index(visit.person)) for visit in visits)
        return dataclasses.replace(table, visits=visits, folders=folders, guilty=0)
    if fault == "column folders":
        places = int(rng.integers(1, 3))
        which = NUMBERED_FOLDERS if table.recipe.source == "csv" else FOLDERS
        field = table.order.index(str(pick(rng, ["x", "y", "person"])))
        folders = tuple(str(pick(rng, which)).format(place=field, **table.names) for _ in range(places))
    else:
        places, folders = (3, ("",)) if fault == "several files" else (1, ("",))
    visits = tuple(dataclasses.replace(visit, file=int(rng.integers(places))) for visit in visits)
    return dataclasses.replace(table, visits=visits, folders=folders)
