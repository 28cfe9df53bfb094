"""Count visits: turn a file or table of visits into :class:`Counts`, the only data that mechanisms see."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import resources
from typing import Any

import numpy as np

from heathaze.checks import shown, whole
from heathaze.domain.grid import Grid
from heathaze.domain.projection import Projection
from heathaze.errors import InvalidInput, SensitivityExceeded, UnreadableData, expect
from heathaze.ingest.columns import VISITS, Columns, Flaw, Kind, check_names, visits_sql
from heathaze.ingest.counts import Counts
from heathaze.ingest.engines import RAW, SOURCE, Answer, Engine
from heathaze.ingest.places import open_visits
from heathaze.ingest.source import Dialect, Files
from heathaze.ingest.times import Clock
from heathaze.privacy.guarantee import Unit
from heathaze.types import Integers

SALT = "heathaze"
"""A public text in the hash that orders the cells of a unit which has more than ``at_most`` cells."""

LARGEST = 2**30
"""The largest ``mass`` and ``at_most``, so that their products with a unit's visits stay below 2^63."""

NO_CELL, HEAVIEST_UNIT = -1, -2
"""Special cell numbers in the answer of a query: the mass of visits without a cell, and the largest mass of a unit."""

Parameters = list[int | float | str | bool]
Only = Mapping[str, "str | int | Sequence[str | int]"]
"""A row filter: names of columns, each with the value or the values to keep."""

WEIGHTED = {
    "count(*) as visits": "cast(sum(amount) as bigint) as visits",
    "from parts\n": "from whole_parts where part > 0 and whole > 0\n",
    "weighted as (": """coarse_parts as (
    select *, cast(floor((whole - whole % 4294967296) / 4294967296 + 0.5) as bigint) + 1 as coarse from parts
),

whole_parts as (
    select
        unit, cell,
        cast(floor((part - part % coarse) / coarse + 0.5) as bigint) as part,
        cast(floor((whole - whole % coarse) / coarse + 0.5) as bigint) as whole
    from coarse_parts
),

weighted as (""",
}
"""The replacements in count_cells.sql if visits have weights. A unit's weights are divided by s = ⌊whole / 2^32⌋ + 1
and rounded down, so that M times a part stays below 2^63."""


def count(
    source: Any,
    grid: Grid,
    *,
    person: str | None,
    lon: str = "lon",
    lat: str = "lat",
    x: str = "x",
    y: str = "y",
    at_most: int | None = None,
    weight: str = "share",
    unit: str | Unit | None = None,
    time: str | None = None,
    time_format: str = "iso",
    time_zone: str | None = None,
    weight_column: str | None = None,
    only: Only | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    separator: str | None = None,
    decimal: str = ".",
    layer: str | None = None,
    engine: str = "duckdb",
    mass: int = 2**20,
) -> Counts:
    """Count visits per cell so that one unit has at most the mass ``bound``.

    Weight "share" divides the mass M over the cells of a unit. A unit with n visits inside the grid, n_i of them in
    cell i, gets the integer mass z_i in cell i:

        z_i = ⌊M n_i / n⌋,   bound = one = M

    With ``weight_column``, n_i and n are sums of the visits' weights in whole thousandths (docs/decisions/0002).

    Weight "presence" gives the mass 1 to each distinct cell of a unit, for at most k = ``at_most`` cells: bound = k,
    one = 1. For the unit "visit" the bound is 1, because a visit is in one cell. Visits outside the grid or without a
    finite position are not counted.

    Args:
        source: Path (or pattern) of .csv, .tsv (also .gz; each line one row), .parquet, .jsonl, .ndjson, .json (one
            object a line), .geojson, .geoparquet, .gpkg, .gpx or .shp (points); or a DataFrame of pandas, GeoPandas or
            polars, an Arrow table, a DuckDB relation, a dict of arrays or lists; with ``engine="spark"`` also a Spark
            DataFrame, or the address of Parquet files. Positions of points are read as lon and lat (x and y).
        grid: The public grid, never made from the data.
        person: Column with the person of a visit, integers or text; None makes each row its own unit, and then the unit
            must be "visit". This argument has no default.
        lon: Column of the longitude in degrees, for grids on the globe.
        lat: Column of the latitude in degrees, for grids on the globe.
        x: Column of the horizontal coordinate, for grids on a plane.
        y: Column of the vertical coordinate, for grids on a plane.
        at_most: The largest number of distinct cells that count for one unit, 1 to 2^30. If a unit has more cells, a
            public hash of unit and cell chooses among them.
        weight: "share" or "presence".
        unit: "person", "person-day" (needs ``time``), "trip" (``person`` is then the column of trips) or "visit". If
            left out, "person" with ``person``, else "visit"; with the format "mds", which names no people, "trip".
        time: Column of dates, timestamps, text or numbers, for the unit "person-day".
        time_format: How times are written: "iso", "seconds" or "milliseconds" since 1970, or a format such as
            "%d.%m.%Y %H:%M".
        time_zone: Zone in which days begin, such as "Europe/Berlin"; UTC if left out. A time without an offset belongs
            to the day that is written in it, even if clocks skip or repeat its hour on that day.
        weight_column: Column of weights (seconds spent, for example) in proportion to which a unit's mass is divided;
            numbers of at least 0, read to a thousandth.
        only: Columns with the value or values to keep, such as ``{"kind": "walk"}``; other rows are not read.
        format: The format of a file, if its ending does not say: "csv", "tsv", "parquet", "jsonl", "geojson",
            "geoparquet", "gpkg", "gpx", "shp", or "mds" for trips of the Mobility Data Specification.
        encoding: Encoding of a text file: "utf-8", "utf-16", "latin-1" or "windows-1252".
        separator: Separator of a CSV file; the most frequent one of its header if left out.
        decimal: Decimal sign of numbers that are written as text: "." or ",".
        layer: Layer of a GeoPackage that has several.
        engine: "duckdb" (embedded) or "spark" (for data that one machine cannot hold).
        mass: M, the integer that stands for one unit, 1 to 2^30.

    Returns:
        The counts. They do not depend on the engine or on the order of the rows.

    Raises:
        UnreadableData: There is no such file or column, a coordinate is not a number, a visit has no person, or no
            visit lies in the grid.
        UnknownFormat: The file has an unknown ending.
        SensitivityExceeded: A unit has more mass than the bound, which would be an error of the engine.
        InvalidInput: An argument has a wrong value, or does not fit another argument.

    Cost:
        About twice the time of one ``select distinct person, cell`` over the data.

    >>> visits = {"who": np.array([1, 1, 2]), "x": np.array([0.5, 1.5, 1.5]), "y": np.array([0.5, 0.5, 0.5])}
    >>> counts = count(visits, Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), person="who", mass=10)
    >>> counts.dense().tolist(), counts.bound
    ([[5, 15]], 10)
    """
    expect(Grid, grid, "The grid")
    kind = _unit(person, unit, time, format)
    at_most, mass = _check(at_most, weight, kind, mass)
    if weight_column is not None and (weight != "share" or kind is Unit.VISIT):
        raise InvalidInput(
            "weight_column divides a person's mass over places; use it with weight 'share' and a person column."
        )
    columns = Columns(
        lon if grid.projection.is_geographic else x,
        lat if grid.projection.is_geographic else y,
        None if kind is Unit.VISIT else person,
        time if kind is Unit.PERSON_DAY else None,
        weight_column,
        kept_rows(only),
        Clock(time_format, time_zone),
        decimal,
    )
    check_names(columns, grid.projection.is_geographic)
    dialect = Dialect(format, encoding, separator, layer)
    given = os.fspath(source) if _is_path(source, engine) else source
    with open_visits(given, dialect, columns, grid.projection) as table, _open_engine(engine) as opened:
        read_visits(opened, table, columns, kind)
        if kind is Unit.VISIT:
            one = bound = mass if weight == "share" else 1
            answers = [opened.run(_sql("count_rows.sql"), [*_placing(grid), bound])]
        else:
            one, bound = (mass, mass) if weight == "share" else (1, at_most or 1)
            parameters = [*_placing(grid), *_weighing(at_most, weight, mass)]
            query = _weighted(_sql("count_cells.sql")) if columns.weight is not None else _sql("count_cells.sql")
            answers = [opened.run(query, parameters) for _ in opened.parts()]
        cells, masses = _added_up(answers, bound)
        if not len(cells):
            raise UnreadableData(nothing_inside(opened, grid, columns, "visit"))
    rows, cols = np.divmod(cells[masses > 0], grid.cols)
    return Counts.from_cells(
        grid, rows, cols, masses[masses > 0], bound=bound, one=one, unit=kind, at_most=at_most, weight=weight
    )


def _open_engine(name: str) -> AbstractContextManager[Engine]:
    """Open an engine for counting visits; it is closed at the end of a ``with`` block."""
    if name == "duckdb":
        from heathaze.ingest.engines.duckdb import open_duckdb

        return open_duckdb()
    if name == "spark":
        from heathaze.ingest.engines.spark import open_spark

        return open_spark()
    raise InvalidInput(f"There is no engine {name!r}; choose 'duckdb' or 'spark'.")


def _unit(person: str | None, unit: str | Unit | None, time: str | None, format: str | None) -> Unit:
    names_people = format != "mds"
    if unit is None:
        kind = Unit.VISIT if person is None else Unit.PERSON if names_people else Unit.TRIP
    else:
        kind = Unit.TRIP if unit in (Unit.TRIP, "trip") else Unit.parse(unit)
    if not names_people and kind in (Unit.PERSON, Unit.PERSON_DAY):
        raise InvalidInput(
            f"Trips of MDS do not say who rode, so the unit {kind.value!r} cannot be protected; choose 'trip'."
        )
    if person is None and kind is not Unit.VISIT:
        raise InvalidInput(
            f"The unit {kind.value!r} needs to know whose visits they are; give its column (person, "
            "or --person COLUMN)."
        )
    if kind is Unit.PERSON_DAY and time is None:
        raise InvalidInput(
            "The unit 'person-day' needs to know the day of a visit; give its column (time, or --time COLUMN)."
        )
    return kind


def _check(at_most: int | None, weight: str, unit: Unit, mass: int) -> tuple[int | None, int]:
    if weight not in ("share", "presence"):
        raise InvalidInput(f"There is no weight {weight!r}; choose 'share' or 'presence'.")
    mass = whole(mass, "mass", most=LARGEST)
    at_most = None if at_most is None else whole(at_most, "at_most", most=LARGEST)
    if weight == "presence" and at_most is None and unit is not Unit.VISIT:
        raise InvalidInput("The weight 'presence' needs at_most, the largest number of cells that count for one unit.")
    return at_most, mass


def kept_rows(only: Only | None) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Convert a row filter to texts; whole numbers and booleans are compared as they are written in files.

    Args:
        only: Names of columns, each with the value or the values to keep.

    Raises:
        InvalidInput: A value is neither text nor a whole number.

    >>> kept_rows({"kind": ["walk", "ride"], "floor": 2})
    (('kind', ('walk', 'ride')), ('floor', ('2',)))
    """
    expect((Mapping, type(None)), only, "The row filter (only)")
    found = []
    for name, given in (only or {}).items():
        values = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        if not values or not all(isinstance(value, str | int) for value in values):
            raise InvalidInput(
                f"The row filter only[{name!r}] is {shown(given)}; give a text, a whole number, or a list of them."
            )
        texts = tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in values)
        found.append((name, texts))
    return tuple(found)


def _weighted(query: str) -> str:
    """Change the query so that it adds up weights instead of counting visits."""
    for text, instead in WEIGHTED.items():
        assert query.count(text) == 1, text
        query = query.replace(text, instead)
    return query


def _is_path(source: Any, engine: str) -> bool:
    """Return whether a source of visits is a local path; Spark reads an address such as hdfs://… itself."""
    return isinstance(source, str | os.PathLike) and not (engine == "spark" and "://" in os.fspath(source))


def read_visits(engine: Engine, table: Any, columns: Columns, unit: Unit) -> None:
    """Let an engine read the visits into a table, and refuse visits that cannot be counted.

    The engine copies the columns before it evaluates any condition on them. If a condition were a part of the statement
    that reads a file, the engine could decide the condition from the file's statistics. The rows of one person could
    then change how others are counted.

    Args:
        engine: An open engine; afterwards it has the view ``heathaze_visits``.
        table: Files, or a table in memory that the engine can read.
        columns: The names of the columns to read.
        unit: The protected unit.

    Raises:
        UnreadableData: A visit has no person, or a value of the wrong type.
    """
    kinds = engine.attach(table, columns)
    if isinstance(table, Files) and table.rows is not None:
        read = engine.run(f"select count(*) as visits from {RAW}")["visits"][0]
        if read != table.rows:
            raise UnreadableData(
                f"{table.given!r} has another number of rows than the engine read; save the table as Parquet."
            )
    text = isinstance(table, Files) and table.is_text
    visits = visits_sql(columns, kinds, unit, SOURCE, engine.day_number, mangled=text)
    numbers = (columns.x, columns.y, columns.time, columns.weight)
    if any(kinds[columns.place(name)] is Kind.TEXT for name in numbers if name is not None):
        # Text is converted to numbers once and kept. Typed columns are not copied, because reading them again is quick.
        engine.run(f"{engine.keep.format(VISITS)} {visits}")
        engine.forget_source()
    else:
        engine.run(f"create temporary view {VISITS} as {visits}")
    flaws = engine.run(
        f"select max(greatest(case when unit is null then 1 else 0 end, flaw)) as flaw from {VISITS} "
        "where unit is null or flaw > 0"
    )
    flaw = Flaw(int(flaws["flaw"][0]))
    if flaw is not Flaw.NONE:
        raise UnreadableData(columns.sentence(flaw))


def _placing(grid: Grid) -> Parameters:
    """Return the parameters of count_cells.sql that locate the cell of a visit, in the order of its placeholders."""
    south, north = (float(bound) for bound in grid.projection.forward(grid.y))
    # (north − y)·s and (y − north)·(−s) are the same float, so a negative scale makes rows count from north to south.
    origin, scale = (north, -(grid.rows / (north - south)))
    if not grid.projection.is_geographic:
        origin, scale = (south, grid.rows / (north - south))
    across = grid.cols / (grid.x[1] - grid.x[0])
    mercator = grid.projection is Projection.WEB_MERCATOR
    bent: Parameters = [mercator, math.pi / 4, math.pi / 360, origin, scale]
    rows: Parameters = [grid.rows, grid.rows + 1, grid.rows - 1]
    cols: Parameters = [grid.cols, grid.cols + 1, grid.cols - 1]
    return [*bent, origin, scale, grid.x[0], across, *grid.x, *grid.y, *rows, grid.cols, *cols]


def _weighing(at_most: int | None, weight: str, mass: int) -> Parameters:
    """Return the parameters of count_cells.sql that limit a unit's cells and split its mass, in their order."""
    most = LARGEST if at_most is None else at_most
    # A unit with c cells has c hashes, which are like uniform draws below p. For all but one unit in thousands, the k
    # smallest hashes lie below (k + 3√k + 8) p / c. An exceptional unit keeps fewer than k cells.
    cut = (2**31 - 1) * (most + 3 * math.isqrt(most) + 8)
    return [SALT, most, cut, most, most, weight == "share", mass, mass]


def _added_up(answers: Sequence[Answer], bound: int) -> tuple[Integers, Integers]:
    """Add up the masses of cells over all parts; refuse a unit with more mass than the bound (errata X6)."""
    cells = np.concatenate([answer["cell"] for answer in answers])
    masses = np.concatenate([answer["mass"] for answer in answers])
    if masses[cells == NO_CELL].sum() > bound or (masses[cells == HEAVIEST_UNIT] > bound).any():
        raise SensitivityExceeded(
            f"A unit weighs more than the bound {bound}; nothing may be released from these counts."
        )
    found, place = np.unique(cells[cells >= 0], return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, place, masses[cells >= 0])
    return found, total


def no_rows(columns: Columns) -> str:
    """Write the error sentence about a source without a row, or without a row that fits the filter."""
    if not columns.only:
        return "There is not a single row of data; there is nothing to count."
    wanted = " and ".join(f"{name!r} is {' or '.join(map(repr, texts))}" for name, texts in columns.only)
    return f"No row fits the row filter (only): {wanted}. Texts must fit exactly; capitals and small letters differ."


def nothing_inside(engine: Engine, grid: Grid, columns: Columns, row: str) -> str:
    """Write the error sentence that explains why no row, a visit or a position, lies in the grid."""
    answer = engine.run(
        "select count(*) as visits, max(case when y >= ? and y <= ? and x >= ? and x <= ? then 1 else 0 end) "
        f"as swapped from {VISITS}",
        [*grid.x, *grid.y],
    )
    if not answer["visits"][0]:
        return no_rows(columns)
    sentence = f"No {row} lies inside the box of the grid (columns {columns.x!r} and {columns.y!r})"
    if answer["swapped"][0]:
        return (
            f"{sentence}, but some would with the coordinates exchanged: the columns, or the bounds of the box, "
            "are probably swapped."
        )
    return f"{sentence}; check the bounds and the units of the coordinates."


def _sql(name: str) -> str:
    return resources.files("heathaze.ingest").joinpath(name).read_text("utf-8")
