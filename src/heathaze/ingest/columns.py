"""SQL that converts the columns of a source of visits to the columns unit, x and y.

The SQL has the same meaning in both engines (DuckDB and Spark). Numbers written as text are read strictly, with only
digits, sign, point and exponent, because the casts of the engines differ ('1_0' is a number for one engine, '1.5f' for
the other).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass

from heathaze.errors import InvalidInput, UnreadableData, expect
from heathaze.ingest.times import UTC, Clock
from heathaze.privacy.guarantee import Unit

VISITS = "heathaze_visits"
"""The name of the view of all visits, with the columns unit, x, y, amount and flaw."""

LARGEST_WEIGHT = 2**32
"""The largest weight of one visit; a larger weight counts as this. Weights are read to a thousandth."""

PART = "heathaze_part"
"""The name of the view of the visits of some units, which count_cells.sql reads."""


class Kind(enum.Enum):
    """The type of a column of visits, after an engine has converted it to a canonical type."""

    INTEGER = "whole numbers"
    FLOATING = "numbers with a fraction"
    TEXT = "text"
    TIME = "dates or times"  # as the number of the day
    INSTANT = "instants"  # as seconds since 1970
    OTHER = "something else"


class Flaw(enum.IntEnum):
    """The faults of a visit, by rising priority. The error names the fault of the largest number that occurs."""

    NONE = 0
    NO_UNIT = 1
    X_NOT_A_NUMBER = 2
    Y_NOT_A_NUMBER = 3
    NOT_A_TIME = 4
    FRACTIONAL_ID = 5
    MANGLED_ID = 6
    WEIGHT_NOT_A_NUMBER = 7
    NEGATIVE_WEIGHT = 8


@dataclass(frozen=True)
class Columns:
    """The names of the columns of visits, and how their texts are read.

    Args:
        x: Column of the horizontal coordinate.
        y: Column of the vertical coordinate.
        person: Column of the person; None if the protected unit needs no person.
        time: Column of the time; None if the protected unit needs no time.
        weight: Column of the weight of a visit; None if all visits weigh the same.
        only: Columns of the row filter with the texts to keep. A row is kept if each column holds one of its texts.
        clock: How times are written, and in which zone days begin.
        decimal: The decimal sign of numbers that are written as text, "." or ",".
        trip: Column of the journey to which a position belongs; None if visits are not journeys.
        moment: Column of the time or number that orders the positions of a journey; None if visits are not journeys.
    """

    x: str
    y: str
    person: str | None = None
    time: str | None = None
    weight: str | None = None
    only: tuple[tuple[str, tuple[str, ...]], ...] = ()
    clock: Clock = UTC
    decimal: str = "."
    trip: str | None = None
    moment: str | None = None

    @property
    def wanted(self) -> list[str]:
        """The names of the columns, each once, in the order of c0, c1, … in the source table."""
        read = (self.x, self.y, self.person, self.time, self.weight, self.trip, self.moment)
        names = (*read, *(name for name, _ in self.only))
        return list(dict.fromkeys(name for name in names if name is not None))

    @property
    def ids(self) -> list[str]:
        """The columns of the ids of people and journeys; no conversion may make two different ids equal."""
        return list(dict.fromkeys(name for name in (self.person, self.trip) if name is not None))

    def place(self, name: str | None) -> int:
        """The number k of the column ck that holds a named column; −1 for None."""
        return -1 if name is None else self.wanted.index(name)

    def sentence(self, flaw: Flaw) -> str:
        """Write the error sentence about a fault of a visit. It names the column, never the value."""
        sign, other = ("comma", "point") if self.decimal == "," else ("point", "comma")
        number = (
            f"holds text that is not a number with a decimal {sign}; correct it, declare the decimal sign if it is a "
            f"{other} (--decimal {other})"
        )
        position = f"{number}, or leave the field empty where there is no position"
        missing = f"person {self.person!r}" if self.time is None else f"person {self.person!r} or time {self.time!r}"
        row = "visit" if self.moment is None else "position"
        return {
            Flaw.NO_UNIT: f"A {row} has no {missing}, so its influence has no bound; fill it in or drop such rows.",
            Flaw.X_NOT_A_NUMBER: f"Column {self.x!r} {position}.",
            Flaw.Y_NOT_A_NUMBER: f"Column {self.y!r} {position}.",
            Flaw.NOT_A_TIME: f"Column {self.time!r} holds a value that is not {self.clock.sentence}.",
            Flaw.FRACTIONAL_ID: fractional(*self.ids),
            Flaw.MANGLED_ID: f"Column {' or '.join(map(repr, self.ids))} holds text that is not UTF-8, so two people "
            "or journeys could become one; save the file as UTF-8.",
            Flaw.WEIGHT_NOT_A_NUMBER: f"Column {self.weight!r} {number}, or leave the field empty.",
            Flaw.NEGATIVE_WEIGHT: f"Column {self.weight!r} holds a negative weight; weights are 0 or more.",
        }[flaw]


def locate(names: Sequence[str], wanted: Sequence[str], where: str, text: bool = False) -> list[int]:
    """Find the wanted columns of a source of visits by their exact names.

    Args:
        names: Names of all columns, in their order.
        wanted: Names of the wanted columns.
        where: The name of the source in errors.
        text: Whether the names come from a text file. An error about a text file quotes names only if a wanted name is
            among them. Otherwise the first line may be a visit instead of a header, and the error would print a
            position.

    Returns:
        The index of each wanted column.

    Raises:
        UnreadableData: A wanted column is missing or occurs twice, or two names differ only in case, because some
            readers confuse such names.
    """
    for name in wanted:
        if names.count(name) > 1:
            raise UnreadableData(f"{where} has several columns {name!r}; rename all but one.")
        if name not in names:
            if text and not {_loosely(column) for column in names} & {_loosely(column) for column in wanted}:
                known = (
                    f"nor any of {', '.join(map(repr, wanted))}: its first line must hold the names of the columns, "
                    "and a declared separator must be that of the file"
                )
            else:
                known = "it has " + ", ".join(repr(column) for column in names)
            raise UnreadableData(f"{where} has no column {name!r}; {known}.")
    first: dict[str, int] = {}
    for place, name in enumerate(names):
        other = first.setdefault(name.casefold(), place)
        if names[other] != name:
            # The names are not quoted for a text file, whose first line may be a visit instead of a header.
            shown = (f"{other + 1} and {place + 1}, whose names") if text else f"{names[other]!r} and {name!r}, which"
            raise UnreadableData(f"{where} has columns {shown} differ only in case; rename one.")
    return [list(names).index(name) for name in wanted]


def sql_text(text: str) -> str:
    """Write a text as SQL, in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """Write the name of a column as SQL, in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def _loosely(name: str) -> str:
    return name.strip().casefold()


def check_names(columns: Columns, geographic: bool) -> None:
    """Refuse names of columns that are not text, or that are probably swapped."""
    for name in (columns.x, columns.y, *columns.wanted):
        expect(str, name, "The name of a column")
    if columns.decimal not in (".", ","):
        raise InvalidInput(f"The decimal sign is {columns.decimal!r}; choose '.' or ','.")
    if columns.x == columns.y:
        raise InvalidInput(f"Both coordinates are read from column {columns.x!r}; give two different columns.")
    if geographic and _sounds_like("lat", columns.x) and _sounds_like("lon|lng|long", columns.y):
        raise InvalidInput(
            f"lon is column {columns.x!r} and lat is column {columns.y!r}: the two are probably swapped."
        )


def _sounds_like(stem: str, name: str) -> bool:
    return re.search(rf"(?<![a-z])({stem})(itude)?(?![a-z])", name.lower()) is not None


def fractional(*names: str) -> str:
    """Write the error sentence about a column of ids (or one of several) that holds floating-point numbers."""
    return (
        f"Column {' or '.join(map(repr, names))} holds numbers with a fraction, or whole numbers stored as such "
        "(pandas does that where an id is missing); rounding could merge two ids into one: drop rows without an id, "
        "and convert the ids to integers or text."
    )


def visits_sql(columns: Columns, kinds: Sequence[Kind], unit: Unit, source: str, day_number: str, mangled: bool) -> str:
    """Write the SQL query that selects the columns unit, x, y, amount and flaw of all visits from a source.

    Args:
        columns: The names of the source's columns.
        kinds: The types of these columns, in the same order.
        unit: The protected unit, which the column unit identifies.
        source: Name of the table with the columns c0, c1, … and flaw.
        day_number: The engine's SQL expression for the day number of a date.
        mangled: Whether to look for ids that were not UTF-8, as in text files.
    """

    def at(name: str | None) -> tuple[str, Kind]:
        return f"c{columns.place(name)}", kinds[columns.place(name)]

    x, x_flawed = _number(*at(columns.x), columns.x, columns.decimal)
    y, y_flawed = _number(*at(columns.y), columns.y, columns.decimal)
    flaws = [(x_flawed, Flaw.X_NOT_A_NUMBER), (y_flawed, Flaw.Y_NOT_A_NUMBER)]
    amount = "cast(1 as bigint)"
    if columns.weight is not None:
        weight, weight_flawed = _number(*at(columns.weight), columns.weight, columns.decimal, "weights")
        flaws += [(weight_flawed, Flaw.WEIGHT_NOT_A_NUMBER), (f"{weight} < 0", Flaw.NEGATIVE_WEIGHT)]
        amount = _amount(weight)
        x = f"case when {amount} > 0 then {x} end"  # a visit of weight 0 counts as a visit without a position
    key, inner = "cast(0 as bigint)", "*"
    if unit is not Unit.VISIT:
        person, kind = at(columns.person)
        key = _person(person, kind, str(columns.person))
    if mangled:
        ids = [name for name in columns.ids if unit is not Unit.VISIT or name != columns.person]
        flaws += [(f"coalesce(position('\ufffd' in {at(name)[0]}), 0) > 0", Flaw.MANGLED_ID) for name in ids]
    if unit is Unit.PERSON_DAY:
        day, seconds, day_flawed = _time(*at(columns.time), str(columns.time), columns.clock, day_number)
        inner = f"*, {day} as written_day, {seconds} as moment"
        local = columns.clock.local_day("moment")
        key = f"cast(coalesce(written_day, {local}) as string) || '|' || cast({key} as string)"
        flaws.append((day_flawed, Flaw.NOT_A_TIME))
    cases = " ".join(f"when {condition} then {flaw:d}" for condition, flaw in flaws if condition)
    flaw = f"case {cases} else flaw end" if cases else "flaw"
    rows = f"(select {inner} from {source}) as rows_read" if inner != "*" else source
    journey = ""
    if columns.moment is not None:
        trip = "cast(0 as bigint)" if columns.trip is None else _person(*at(columns.trip), columns.trip, "journeys")
        journey = f", {trip} as trip, moment, numbered"
    kept = " and ".join(_is_any(*at(name), name, texts) for name, texts in columns.only)
    return (
        f"select {key} as unit, {x} as x, {y} as y, {amount} as amount, {flaw} as flaw{journey} from {rows}"
        + (f" where {kept}" if kept else "")
    )  # fmt: skip


def _person(column: str, kind: Kind, name: str, what: str = "people") -> str:
    if kind is Kind.FLOATING:
        raise UnreadableData(fractional(name))
    if kind is Kind.TEXT:
        return f"nullif({column}, '')"  # an empty id counts as missing
    if kind is not Kind.INTEGER:
        raise UnreadableData(f"Column {name!r} holds {kind.value}; {what} are told apart by integers or text.")
    return column


def _is_any(column: str, kind: Kind, name: str, texts: Sequence[str]) -> str:
    """Write SQL for the condition that a column holds one of some texts. No other row has an influence."""
    if kind not in (Kind.TEXT, Kind.INTEGER):
        raise UnreadableData(f"Column {name!r} holds {kind.value}; rows are chosen by text or whole numbers.")
    value = column if kind is Kind.TEXT else f"cast({column} as string)"
    return f"coalesce({value} in ({', '.join(map(sql_text, texts))}), false)"


def _amount(weight: str) -> str:
    """Write SQL for a weight as a whole number of thousandths; a missing or infinite weight is 0."""
    return (
        f"case when {weight} > 0 and {weight} <= {LARGEST_WEIGHT} then cast(floor({weight} * 1000) as bigint) "
        f"when {weight} > {LARGEST_WEIGHT} and {weight} <= 1.7976931348623157e308 "
        f"then cast({1000 * LARGEST_WEIGHT} as bigint) else cast(0 as bigint) end"
    )


ABSENT = "('', 'nan', '+nan', '-nan', 'inf', '+inf', '-inf', 'infinity', '+infinity', '-infinity')"


def _number(column: str, kind: Kind, name: str, decimal: str, what: str = "coordinates") -> tuple[str, str]:
    """Write SQL for a number as a double (null if missing), and for the condition that its text is not a number."""
    if kind in (Kind.INTEGER, Kind.FLOATING):
        return f"cast({column} as double)", ""
    if kind is not Kind.TEXT:
        raise UnreadableData(f"Column {name!r} holds {kind.value}; {what} must be numbers.")
    # Only spaces are trimmed and only the letters of "nan", "infinity" and "e" are lowered, because engines disagree
    # about other characters.
    text = f"translate(trim(both ' ' from {column}), 'AEFINTY', 'aefinty')"
    pointed = text if decimal == "." else f"replace({text}, ',', '.')"
    value = f"try_cast({pointed} as double)"
    plain = f"translate({text}, '0123456789+-{decimal}e', '') = ''"
    return (
        f"case when {plain} then {value} end",
        f"{text} not in {ABSENT} and not ({plain} and {value} is not null)",
    )


def _time(column: str, kind: Kind, name: str, clock: Clock, day_number: str) -> tuple[str, str, str]:
    """Write SQL for the written day (null for an instant), for an instant's seconds, and for a faulty time."""
    if kind is Kind.TIME:
        return column, "cast(null as bigint)", ""
    if kind is Kind.INSTANT:
        return "cast(null as bigint)", column, ""
    if kind in (Kind.INTEGER, Kind.FLOATING) and clock.counts_units:
        seconds, known = clock.of_number(column)
        # NaN is a missing time. It is above every number in both engines, so it is found without isnan.
        return "cast(null as bigint)", seconds, f"not {known} and {column} <= 1.7976931348623157e308"
    if kind is not Kind.TEXT:
        raise UnreadableData(
            f"Column {name!r} holds {kind.value}; a time must be a date, a timestamp or text, or a number with "
            "time_format='seconds' or 'milliseconds' (since 1970)."
        )
    text = f"trim(both ' ' from {column})"
    day, seconds, readable = clock.of_text(text, day_number)
    return day, seconds, f"{text} <> '' and not {readable}"
