"""Read journeys: positions of people in the order of time, as secret lines, each with the unit to which it belongs.

These public rules apply to input that is not as expected:

- A journey is the rows with the same person and the same trip, in the order of ``time``. Rows with equal times are
  ordered by their coordinates, so the order of the rows in the file never matters. Two people may use the same trip id.
- With ``pause``, a journey is cut between two consecutive positions whose times differ by more than ``pause`` seconds.
  If there is no trip column, ``pause`` is required.
- Positions without finite coordinates are left out. Positions outside the grid are left out too, unless ``outside``
  keeps them for reports of the local model. Two consecutive positions are joined by a straight line, even if they are
  far apart.
- A journey keeps its first 10,000 positions. A journey of one position has length 0.
- A row without a person, trip or time is an error, and so is a column of times in which some rows hold plain numbers.
  After such an error, nothing is charged to a budget.

None of the rules can give a unit more influence than its bound, because a unit's mass is divided over its journeys
after they are cut (see ``trajectories/journey_trees.md``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from heathaze.checks import assign, positive
from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput, UnreadableData, expect
from heathaze.ingest.columns import VISITS, Columns, check_names
from heathaze.ingest.count import Only, kept_rows, no_rows, nothing_inside, read_visits
from heathaze.ingest.dataframes import is_arrow, is_pandas
from heathaze.ingest.places import open_visits
from heathaze.ingest.source import Dialect
from heathaze.privacy.guarantee import Unit
from heathaze.types import Floats, Integers

LONGEST = 10_000
"""The most positions of one journey; later ones are left out."""


_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""The number of units in a second, for each unit of time."""


@dataclass(frozen=True, eq=False, repr=False)
class Journeys:
    """Secret journeys, the input of trajectory mechanisms. It prints no values.

    Args:
        grid: The public frame.
        lines: The journeys.
        owner: The number of the unit that each journey belongs to, from 0 without gaps.
        unit: The protected unit, a person or a trip.
        begins: The time of each journey's first position in seconds, or None if nothing is known about times.

    Raises:
        InvalidInput: There is not one owner for each journey, a unit without a journey, or a unit that is neither a
            person nor a trip.

    >>> grid = Grid.plane(x=(0, 8), y=(0, 8), size=8)
    >>> Journeys(grid, Lines.from_points([[(1, 1), (7, 7)], [(7, 7), (1, 1)]]), np.array([0, 0]), Unit.PERSON).units
    1
    """

    grid: Grid
    lines: Lines
    owner: Integers
    unit: Unit
    begins: Floats | None = None

    def __post_init__(self) -> None:
        expect(Grid, self.grid, "The grid")
        expect(Lines, self.lines, "The journeys")
        if self.unit not in (Unit.PERSON, Unit.TRIP):
            raise InvalidInput("The unit of journeys is a person or a trip; give Unit.PERSON or Unit.TRIP.")
        owner = np.asarray(self.owner)
        if owner.shape != (len(self.lines),) or not len(owner):
            raise InvalidInput("Journeys need one owner for each of at least one journey.")
        # An owner's number that is not below the number of journeys is refused first, because counting up to it could
        # fill the memory.
        if owner.dtype.kind not in "iu" or owner.min() < 0 or owner.max() >= len(owner) or not np.bincount(owner).all():
            raise InvalidInput("The owners of journeys are whole numbers from 0, without gaps.")
        begins = self.begins if self.begins is None else np.asarray(self.begins)
        if begins is not None and (
            begins.shape != owner.shape or begins.dtype.kind not in "iuf" or not np.isfinite(begins).all()
        ):
            raise InvalidInput("Journeys with times need one finite time for each journey.")
        assign(self, owner=owner.astype(np.int64), begins=None if begins is None else begins.astype(np.float64))

    @property
    def units(self) -> int:
        """The number of units. It is secret."""
        return int(self.owner.max()) + 1

    def __repr__(self) -> str:
        return f"<Journeys: secret, on {self.grid.rows} × {self.grid.cols} cells, unit {self.unit.value}>"


def read_journeys(
    source: Any,
    grid: Grid,
    *,
    person: str | None,
    time: str,
    trip: str | None = None,
    pause: float | None = None,
    unit: str = "person",
    outside: bool = False,
    lon: str = "lon",
    lat: str = "lat",
    x: str = "x",
    y: str = "y",
    only: Only | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    separator: str | None = None,
    decimal: str = ".",
    layer: str | None = None,
) -> Journeys:
    """Read the journeys of a file or table; the rules are those of this module.

    Args:
        source: A path, or a table in memory, as in :func:`heathaze.count`: one row for each position.
        grid: The public grid, never made from the data.
        person: Column with the person of a position; None only with the unit "trip" and a trip column.
        time: Column of times, or of numbers that order the positions of a journey. Text is read as ISO time or number.
        trip: Column with the journey of a position, whole numbers or text.
        pause: If given, a journey ends where the next position is more than this many seconds later. Numbers in the
            time column count as seconds.
        unit: The protected unit: "person" (all journeys of a person together), or "trip" (each journey by itself; the
            privacy losses of a person's journeys add up).
        outside: Whether to keep positions outside the grid. Reports of the local model need them: a missing report
            would reveal that the person is elsewhere, so positions outside count as the nearest place of the map.
        lon: Column of the longitude in degrees, for grids on the globe.
        lat: Column of the latitude in degrees.
        x: Column of the horizontal coordinate, for grids on a plane.
        y: Column of the vertical coordinate.
        only: Columns with the value or values to keep; other rows are not read.
        format: The format of a file, if its ending does not say.
        encoding: Encoding of a text file.
        separator: Separator of a CSV file.
        decimal: Decimal sign of numbers that are written as text: "." or ",".
        layer: Layer of a GeoPackage that has several.

    Returns:
        The secret journeys.

    Raises:
        InvalidInput: Neither a trip column nor a pause is given, or the unit needs a person column.
        UnreadableData: The source cannot be read, a row has no person, trip or time, or no position is in the grid.

    >>> rows = {"who": [1, 1, 1, 2], "ride": [1, 1, 2, 1], "t": [0, 9, 50, 3], "x": [0, 1, 1, 0], "y": [0, 1, 1, 0]}
    >>> found = read_journeys(rows, Grid.plane(x=(0, 2), y=(0, 2), size=2), person="who", trip="ride", time="t")
    >>> len(found.lines), found.units
    (3, 2)
    """
    from heathaze.ingest.engines.duckdb import open_duckdb

    expect(Grid, grid, "The grid")
    kind = _unit(unit, person, trip)
    if trip is None and pause is None:
        raise InvalidInput(
            "Rows do not say where a journey ends; give a column (trip, or --trip COLUMN) or seconds (pause, or "
            "--pause SECONDS)."
        )
    longest_pause = None if pause is None else positive(pause, "pause", "seconds between two journeys")
    geographic = grid.projection.is_geographic
    axes = (lon, lat) if geographic else (x, y)
    columns = Columns(*axes, person, only=kept_rows(only), decimal=decimal, trip=trip, moment=time)
    check_names(columns, geographic)
    given = os.fspath(source) if isinstance(source, os.PathLike) else source
    dialect = Dialect(format, encoding, separator, layer)
    with open_visits(given, dialect, columns, grid.projection) as opened, open_duckdb() as engine:
        read_visits(engine, _with_seconds(opened, time), columns, Unit.VISIT if person is None else Unit.PERSON)
        _refuse_gaps(engine, columns)
        found = engine.fetch(
            "select dense_rank() over (order by unit) as person, dense_rank() over (order by trip) as trip, moment, "
            f"x, y from {VISITS} where isfinite(x) and isfinite(y) and x >= ? and x <= ? and y >= ? and y <= ?",
            [-np.inf, np.inf, -np.inf, np.inf] if outside else [*grid.x, *grid.y],
        )
        if not len(found["x"]) and not outside:
            raise UnreadableData(nothing_inside(engine, grid, columns, "position"))
    whose, ride, moment, across, down = (np.ma.getdata(found[k]) for k in ("person", "trip", "moment", "x", "y"))
    if not len(whose):
        raise UnreadableData("There is not a single position with finite coordinates; check the columns.")
    order = np.lexsort((down, across, moment, ride, whose))
    whose, ride, moment, across, down = (column[order] for column in (whose, ride, moment, across, down))
    new = np.ones(len(whose), np.bool_)
    new[1:] = (np.diff(whose) != 0) | (np.diff(ride) != 0)
    if longest_pause is not None:
        new[1:] |= moment[1:] > moment[:-1] + longest_pause
    journey = np.cumsum(new) - 1
    place = np.arange(len(new)) - np.flatnonzero(new)[journey]
    kept = place < LONGEST
    journey, across, down = journey[kept], across[kept], down[kept]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(journey))])
    owner = np.arange(len(offsets) - 1)
    if kind is Unit.PERSON:
        owner = np.unique(whose[np.flatnonzero(new)], return_inverse=True)[1]
    return Journeys(grid, Lines(across, down, offsets), owner, kind, moment[new])


def _unit(unit: str, person: str | None, trip: str | None) -> Unit:
    kinds = {"person": Unit.PERSON, "trip": Unit.TRIP}
    if unit not in kinds:
        raise InvalidInput(f"There is no unit {unit!r} of journeys; choose 'person' or 'trip'.")
    if person is None and (unit == "person" or trip is None):
        raise InvalidInput(
            f"The unit {unit!r} needs to know whose journeys they are; give its column (person, or --person COLUMN)."
        )
    return kinds[unit]


def _with_seconds(table: Any, time: str) -> Any:
    """Replace a typed time column of a table in memory with seconds since 1970; engines would keep its day only."""
    if is_arrow(table):
        place = table.schema.get_field_index(time)
        seconds = None if place < 0 else _arrow_seconds(table.column(place))
        return table if seconds is None else table.set_column(place, time, seconds)
    if not (is_pandas(table) or isinstance(table, dict)) or time not in table:
        return table
    given = table[time]
    if not hasattr(given, "dtype"):  # a list: numpy would choose one unit of time for all by what one person wrote
        return table
    values = np.asarray(given)
    if values.dtype.kind == "O" and hasattr(getattr(given, "dt", None), "tz_convert"):  # times with a zone
        values = given.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    if values.dtype.kind != "M":
        return table
    micro = values.astype("datetime64[us]")
    missing = np.isnat(micro) | np.ma.getmaskarray(given) if isinstance(given, np.ma.MaskedArray) else np.isnat(micro)
    seconds = np.where(missing, np.nan, micro.astype(np.int64) / 1e6)
    return table.assign(**{time: seconds}) if is_pandas(table) else {**table, time: seconds}


def _arrow_seconds(column: Any) -> Any:
    """Convert Arrow's instants and dates, in any unit, to seconds since 1970; None if the column has another type.

    Numbers are divided after they are read, because a cast to another unit fails with an error that quotes a time.
    """
    import pyarrow as arrow

    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if arrow.types.is_date(column.type):
        column = column.cast(arrow.timestamp("ms"))
    if not arrow.types.is_timestamp(column.type):
        return None
    numbers = np.asarray(column.cast(arrow.int64()).to_numpy(), np.float64)
    return arrow.array(numbers / _A_SECOND[column.type.unit], from_pandas=True)


def _refuse_gaps(engine: Any, columns: Columns) -> None:
    """Refuse an empty table, a row without a trip, and a row without a time, which has no place in its journey."""
    gaps = engine.fetch(
        "select count(*) as every, count(*) filter (trip is null) as trip, count(*) filter (moment is null or not "
        f"isfinite(moment)) as moment, count(*) filter (numbered) as numbers from {VISITS}"
    )
    if not gaps["every"][0]:
        raise UnreadableData(no_rows(columns))
    if gaps["trip"][0]:
        raise UnreadableData(f"A row has no trip {columns.trip!r}; fill it in or drop such rows.")
    if gaps["moment"][0]:
        raise UnreadableData(
            f"Column {columns.moment!r} holds a value that is neither a time nor a number; write "
            "2024-05-31T12:30:00, or numbers."
        )
    if 0 < gaps["numbers"][0] < gaps["every"][0]:
        raise UnreadableData(
            f"Column {columns.moment!r} holds times in some rows and plain numbers in others; write all of them in "
            "one way."
        )
