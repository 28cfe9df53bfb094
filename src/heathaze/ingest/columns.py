"""SQL that converts the columns of a source of visits to the columns unit, x and y.

The SQL has the same meaning in both engines. Numbers written as text are read strictly, with only digits, sign, point
and exponent, because the casts of the engines differ ('1_0' is a number for one engine, '1.5f' for the other).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass

from heathaze.errors import InvalidInput, UnreadableData, expect
from heathaze.privacy.guarantee import Unit

VISITS = "heathaze_visits"
"""The name of the view of all visits, with the columns unit, x, y and flaw."""

PART = "heathaze_part"
"""The name of the view of the visits of some units, which count_cells.sql reads."""


class Kind(enum.Enum):
    """The type of a column of visits, after an engine has converted it to a canonical type."""

    INTEGER = "whole numbers"
    FLOATING = "numbers with a fraction"
    TEXT = "text"
    TIME = "dates or times"  # as the number of the day
    OTHER = "something else"


class Flaw(enum.IntEnum):
    """The faults of a visit, by rising priority: the error names the fault of the largest number that was found."""

    NONE = 0
    NO_UNIT = 1
    X_NOT_A_NUMBER = 2
    Y_NOT_A_NUMBER = 3
    NOT_A_TIME = 4
    FRACTIONAL_PERSON = 5
    MANGLED_PERSON = 6


@dataclass(frozen=True)
class Columns:
    """The names of the columns of visits. ``person`` and ``time`` are None if the unit does not need them."""

    x: str
    y: str
    person: str | None = None
    time: str | None = None

    @property
    def wanted(self) -> list[str]:
        """The names of the columns, in the order of c0, c1, … in the source table."""
        return [name for name in (self.x, self.y, self.person, self.time) if name is not None]

    def sentence(self, flaw: Flaw) -> str:
        """Write the error sentence about a fault of a visit. It names the column, never the value."""
        number = "holds text that is not a number; correct it, or leave the field empty where there is no position"
        missing = f"person {self.person!r}" if self.time is None else f"person {self.person!r} or time {self.time!r}"
        return {
            Flaw.NO_UNIT: f"A visit has no {missing}, so its influence has no bound; fill it in or drop such rows.",
            Flaw.X_NOT_A_NUMBER: f"Column {self.x!r} {number}.",
            Flaw.Y_NOT_A_NUMBER: f"Column {self.y!r} {number}.",
            Flaw.NOT_A_TIME: f"Column {self.time!r} holds text that is not an ISO time; write 2024-05-31 or "
            "2024-05-31T12:30:00Z.",
            Flaw.FRACTIONAL_PERSON: fractional(str(self.person)),
            Flaw.MANGLED_PERSON: f"Column {self.person!r} holds text that is not UTF-8, so two people could become "
            "one; save the file as UTF-8.",
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
                known = f"nor any of {', '.join(map(repr, wanted))}: its first line must hold the names of the columns"
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
    for name in (columns.x, columns.y):
        expect(str, name, "The name of a column")
    if columns.x == columns.y:
        raise InvalidInput(f"Both coordinates are read from column {columns.x!r}; give two different columns.")
    if geographic and _sounds_like("lat", columns.x) and _sounds_like("lon|lng|long", columns.y):
        raise InvalidInput(
            f"lon is column {columns.x!r} and lat is column {columns.y!r}: the two are probably swapped."
        )


def _sounds_like(stem: str, name: str) -> bool:
    return re.search(rf"(?<![a-z])({stem})(itude)?(?![a-z])", name.lower()) is not None


def fractional(person: str) -> str:
    """Write the error sentence about a person column of floating-point numbers."""
    return (
        f"Column {person!r} holds numbers with a fraction, or whole numbers stored as such (pandas does that where an "
        "id is missing); rounding could merge two people into one and break the bound: drop rows without an id, and "
        "convert the ids to integers or text."
    )


def visits_sql(columns: Columns, kinds: Sequence[Kind], unit: Unit, source: str, day_number: str, mangled: bool) -> str:
    """Write the SQL query that selects the columns unit, x, y and flaw of all visits from a source.

    Args:
        columns: The names of the source's columns.
        kinds: The types of these columns, in the same order.
        unit: The protected unit, which the column unit identifies.
        source: Name of the table with the columns c0, c1, … and flaw.
        day_number: The engine's SQL expression for the day number of a date.
        mangled: Whether to look for ids of people that were not UTF-8, as in text files.
    """
    x, x_flawed = _number("c0", columns.x, kinds[0])
    y, y_flawed = _number("c1", columns.y, kinds[1])
    flaws = [(x_flawed, Flaw.X_NOT_A_NUMBER), (y_flawed, Flaw.Y_NOT_A_NUMBER)]
    key = "cast(0 as bigint)"
    if unit is not Unit.VISIT:
        key = _person(str(columns.person), kinds[2])
        if mangled:
            flaws.append(("coalesce(position('\ufffd' in c2), 0) > 0", Flaw.MANGLED_PERSON))
    if unit is Unit.PERSON_DAY:
        day, day_flawed = _day(str(columns.time), kinds[3], day_number)
        key = f"cast({day} as string) || '|' || cast({key} as string)"
        flaws.append((day_flawed, Flaw.NOT_A_TIME))
    cases = " ".join(f"when {condition} then {flaw:d}" for condition, flaw in flaws if condition)
    flaw = f"case {cases} else flaw end" if cases else "flaw"
    return f"select {key} as unit, {x} as x, {y} as y, {flaw} as flaw from {source}"


def _person(name: str, kind: Kind) -> str:
    if kind is Kind.FLOATING:
        raise UnreadableData(fractional(name))
    if kind is Kind.TEXT:
        return "nullif(c2, '')"  # an empty id counts as missing
    if kind is not Kind.INTEGER:
        raise UnreadableData(f"Column {name!r} holds {kind.value}; people are told apart by integers or text.")
    return "c2"


ABSENT = "('', 'nan', '+nan', '-nan', 'inf', '+inf', '-inf', 'infinity', '+infinity', '-infinity')"


def _number(column: str, name: str, kind: Kind) -> tuple[str, str]:
    """Write SQL for a coordinate as a double (null if missing), and for the condition that its text is not a number."""
    if kind in (Kind.INTEGER, Kind.FLOATING):
        return f"cast({column} as double)", ""
    if kind is not Kind.TEXT:
        raise UnreadableData(f"Column {name!r} holds {kind.value}; coordinates must be numbers.")
    # Only spaces are trimmed and only these letters are lowered, because engines disagree about other characters.
    text = f"translate(trim(both ' ' from {column}), 'AEFINTY', 'aefinty')"
    value = f"try_cast({text} as double)"
    plain = f"translate({text}, '0123456789+-.e', '') = ''"
    return (
        f"case when {plain} then {value} end",
        f"{text} not in {ABSENT} and not ({plain} and {value} is not null)",
    )


ISO_TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?$"
OFFSET = "([+-])([0-9]{2}):?([0-9]{2})$"


def _day(name: str, kind: Kind, day_number: str) -> tuple[str, str]:
    """Write SQL for the day number in UTC (null if missing), and for the condition that the text is not a time."""
    if kind is Kind.TIME:
        return "c3", ""
    if kind is not Kind.TEXT:
        raise UnreadableData(f"Column {name!r} holds {kind.value}; a time must be a date, a timestamp or ISO text.")
    text = "trim(both ' ' from c3)"
    date = f"try_cast(substr({text}, 1, 10) as date)"
    hour, minute = (f"coalesce(try_cast(substr({text}, {place}, 2) as int), 0)" for place in (12, 15))
    sign, *ahead = (f"regexp_extract({text}, '{OFFSET}', {group})" for group in (1, 2, 3))
    hours, minutes = (f"coalesce(try_cast({part} as int), 0)" for part in ahead)
    # Minutes since midnight in UTC are local time − offset. Outside 0 … 1439 they mean the day before or after.
    passed = f"({hour} * 60 + {minute} - case when {sign} = '-' then -1 else 1 end * ({hours} * 60 + {minutes}))"
    day = f"{day_number.format(date)} + case when {passed} < 0 then -1 when {passed} >= 1440 then 1 else 0 end"
    readable = f"regexp_replace({text}, '{ISO_TIME}', '') = '' and {date} is not null and {hour} < 24 and {minute} < 60"
    return f"case when {readable} then {day} end", f"{text} <> '' and not ({readable})"
