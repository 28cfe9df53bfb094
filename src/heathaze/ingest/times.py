"""How times of visits are written, and in which zone their days begin: SQL that gives the day of each visit.

Each row is read by itself. A time is a date, a local time, or an instant:

- A time with an offset (``+02:00``, ``Z``), a typed instant and a number of seconds since 1970 are instants. In every
  zone, an instant lies on exactly one day, even if clocks are changed on that day.
- A time without an offset belongs to the day that is written in it. If clocks skip or repeat the written hour, it
  belongs to the same day, so a clock change never moves such a row.

The offsets of a zone come from Python's ``zoneinfo`` and are written into the SQL as integers. The zone tables of the
engines, which may differ, are not used.
"""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from dataclasses import dataclass

import numpy as np

from heathaze.errors import InvalidInput, expect
from heathaze.types import Integers

DAY = 86_400
FIRST, LAST = 0, 47_482 * DAY
"""The offsets of a zone are known from 1970 to 2099; before and after, its first and last offset are used."""

MOST_SECONDS = 2**31 * DAY
"""Instants further from 1970 than this are refused: no engine has such dates."""

ISO_TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?$"
OFFSET = "([+-])([0-9]{2}):?([0-9]{2})$"
INSTANT = "(Z|[+-][0-9]{2}:?[0-9]{2})$"

_UNITS = {"seconds": 1, "milliseconds": 1000}
_PARTS = {
    "Y": "[0-9]{4}", "y": "[0-9]{2}", "m": "[0-9]{1,2}", "d": "[0-9]{1,2}", "H": "[0-9]{1,2}", "I": "[0-9]{1,2}",
    "M": "[0-9]{1,2}", "S": "[0-9]{1,2}", "f": "[0-9]{1,9}", "p": "[AaPp][Mm]", "z": "Z|[+-][0-9]{2}:?[0-9]{2}",
}  # fmt: skip
"""The parts of a time format and their texts, as in Python's strptime; a day, month or hour may have one digit."""


@dataclass(frozen=True)
class Clock:
    """How times are written, and in which zone days begin.

    Args:
        format: "iso", "seconds" or "milliseconds" since 1970, or a format such as "%d.%m.%Y %H:%M".
        zone: Name of a time zone, such as "Europe/Berlin"; None for UTC.

    Raises:
        InvalidInput: There is no such format or zone.

    >>> Clock("%d.%m.%Y %H:%M", "Europe/Berlin").local_days(np.array([1333841400]))  # 23:30 UTC
    array([15438])
    """

    format: str = "iso"
    zone: str | None = None

    def __post_init__(self) -> None:
        expect(str, self.format, "The time format")
        if self.format != "iso" and self.format not in _UNITS:
            _check_format(self.format)
        if self.zone is not None:
            expect(str, self.zone, "The time zone")
            _offsets(self.zone)

    @property
    def counts_units(self) -> bool:
        """Whether times are numbers of seconds or milliseconds since 1970."""
        return self.format in _UNITS

    @property
    def sentence(self) -> str:
        """What a time must look like, for errors."""
        if self.format == "iso":
            return "an ISO time; write 2024-05-31 or 2024-05-31T12:30:00Z, or name the format (--time-format)"
        how = f"in {self.format} since 1970" if self.format in _UNITS else f"in the format {self.format!r}"
        return f"a time {how}; correct it, or name the format in which times are written (--time-format)"

    def local_days(self, seconds: Integers) -> Integers:
        """Return the day number of instants, given in seconds since 1970, in the zone."""
        if self.zone is None:
            return seconds // DAY
        starts, offsets = (np.array(part, dtype=np.int64) for part in zip(*_offsets(self.zone), strict=True))
        place = np.searchsorted(starts, seconds, side="right") - 1
        return np.asarray((seconds + offsets[np.maximum(place, 0)]) // DAY)

    def local_day(self, seconds: str) -> str:
        """Write SQL for the day number of an instant, given by SQL for its seconds since 1970."""
        table = [(FIRST, 0)] if self.zone is None else _offsets(self.zone)
        return _whole_days(f"({seconds} + {_search(seconds, table)})")

    def of_text(self, text: str, day_number: str) -> tuple[str, str, str]:
        """Write SQL for a time that is written as text.

        Args:
            text: SQL for the text, without blanks around it.
            day_number: The engine's SQL expression for the day number of a date.

        Returns:
            SQL for the written day number, or null if the time is an instant; for the seconds of an instant, or null;
            and for the condition that the text is such a time.
        """
        if self.format in _UNITS:
            plain = f"regexp_replace({text}, '^[+-]?[0-9]{{1,17}}([.][0-9]+)?$', '') = '' and {text} <> ''"
            seconds, known = self.of_number(f"case when {plain} then try_cast({text} as double) end")
            return "cast(null as bigint)", seconds, f"({plain} and {known})"
        if self.format == "iso":
            return self._iso(text, day_number)
        return self._formatted(text, day_number)

    def of_number(self, number: str) -> tuple[str, str]:
        """Write SQL for the seconds of an instant in seconds or milliseconds, and for the condition that it is one."""
        seconds = f"floor(cast({number} as double) / {_UNITS[self.format]})"
        known = f"({seconds} >= -{MOST_SECONDS} and {seconds} <= {MOST_SECONDS})"
        return f"case when {known} then cast({seconds} as bigint) end", known

    def _iso(self, text: str, day_number: str) -> tuple[str, str, str]:
        date = f"try_cast(substr({text}, 1, 10) as date)"
        hour, minute, second = (f"coalesce(try_cast(substr({text}, {at}, 2) as int), 0)" for at in (12, 15, 18))
        readable = f"regexp_replace({text}, '{ISO_TIME}', '') = '' and {text} <> '' and {date} is not null"
        readable = f"({readable} and {hour} < 24 and {minute} < 60)"
        return self._split(text, day_number.format(date), hour, minute, second, text, readable)

    def _formatted(self, text: str, day_number: str) -> tuple[str, str, str]:
        def part(letter: str) -> str:
            return f"regexp_extract({text}, '{_pattern(self.format, letter)}', 1)"

        def number(letter: str) -> str:
            return f"coalesce(try_cast({part(letter)} as int), 0)" if f"%{letter}" in self.format else "0"

        year = part("Y")
        if "%y" in self.format:  # as in POSIX: 69 to 99 are 1969 to 1999
            year = f"case when {number('y')} < 69 then '20' else '19' end || {part('y')}"
        date = f"try_cast({year} || '-' || lpad({part('m')}, 2, '0') || '-' || lpad({part('d')}, 2, '0') as date)"
        hour, fits = number("H"), f"{number('H')} < 24"
        if "%I" in self.format:
            after_noon = f"case when {part('p')} in ('PM', 'pm', 'Pm', 'pM') then 12 else 0 end"
            hour, fits = f"({number('I')} % 12 + {after_noon})", f"{number('I')} >= 1 and {number('I')} <= 12"
        whole = f"regexp_replace({text}, '{_pattern(self.format)}', '') = '' and {text} <> '' and {date} is not null"
        readable = f"({whole} and {fits} and {number('M')} < 60 and {number('S')} < 61)"
        offset = part("z") if "%z" in self.format else "''"
        return self._split(offset, day_number.format(date), hour, number("M"), number("S"), offset, readable)

    def _split(
        self, ending: str, day: str, hour: str, minute: str, second: str, offset: str, readable: str
    ) -> tuple[str, str, str]:
        """Tell instants, whose text ends with an offset, from times that belong to the written day."""
        sign, *ahead = (f"regexp_extract({offset}, '{OFFSET}', {group})" for group in (1, 2, 3))
        hours, minutes = (f"coalesce(try_cast({part} as int), 0)" for part in ahead)
        ahead_of_utc = f"case when {sign} = '-' then -1 else 1 end * ({hours} * 60 + {minutes})"
        is_instant = f"regexp_extract({ending}, '{INSTANT}', 1) <> ''"
        seconds = f"cast({day} as bigint) * {DAY} + ({hour} * 60 + {minute} - {ahead_of_utc}) * 60 + {second}"
        return (
            f"case when {readable} and not {is_instant} then cast({day} as bigint) end",
            f"case when {readable} and {is_instant} then {seconds} end",
            readable,
        )


UTC = Clock()
"""ISO times, and days in UTC."""


def _whole_days(seconds: str) -> str:
    """Write SQL for ⌊seconds / 86400⌋; the remainder is subtracted first, so both engines give the same integer."""
    rest = f"(({seconds} % {DAY} + {DAY}) % {DAY})"
    return f"cast(({seconds} - {rest}) / {DAY} as bigint)"


def _search(seconds: str, table: list[tuple[int, int]]) -> str:
    """Write SQL for the offset of a zone at an instant: a balanced tree of comparisons."""
    if len(table) == 1:
        return f"({table[0][1]})"
    middle = len(table) // 2
    before, after = _search(seconds, table[:middle]), _search(seconds, table[middle:])
    return f"case when {seconds} < {table[middle][0]} then {before} else {after} end"


@functools.cache
def _offsets(zone: str) -> list[tuple[int, int]]:
    """List the offsets of a zone in seconds, each with the instant at which it begins."""
    try:
        where = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"There is no time zone {zone!r}; give a name such as 'Europe/Berlin' (on a system without time zones, "
            "install the package tzdata)."
        ) from None

    def at(second: int) -> int:
        ahead = datetime.datetime.fromtimestamp(second, where).utcoffset()
        assert ahead is not None
        return int(ahead.total_seconds())

    found = [(FIRST, at(FIRST))]
    for end in range(FIRST + DAY, LAST, DAY):
        if at(end) != found[-1][1]:
            low, high = end - DAY, end
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if at(middle) != found[-1][1] else (middle, high)
            found.append((high, at(end)))
    return found


def _check_format(given: str) -> None:
    letters = re.findall(r"%(.?)", given)
    known = "%Y %y %m %d %H %I %M %S %f %p %z"
    if any(letter not in _PARTS for letter in letters) or len(set(letters)) < len(letters):
        raise InvalidInput(
            f"The time format {given!r} has unknown or repeated parts; use each of {known} at most once."
        )
    rest = re.sub(r"%.", "", given)
    if not re.fullmatch(r"[A-Za-z .,:/_-]*", rest):
        raise InvalidInput(f"The time format {given!r} has other signs than letters, blanks and . , : / _ - between.")
    if not {"m", "d"} < set(letters) or ("Y" in letters) == ("y" in letters):
        raise InvalidInput(f"The time format {given!r} gives no date; it needs %Y (or %y), %m and %d.")
    if ("I" in letters) != ("p" in letters) or ("I" in letters and "H" in letters):
        raise InvalidInput(f"The time format {given!r} needs %p (AM or PM) together with %I, and not with %H.")


def _pattern(given: str, captured: str = "") -> str:
    """Write the regular expression of a time format, with a group around one part; backslashes are not needed."""
    tokens = re.findall(r"%.|[^%]", given)
    written = ""
    for token, after in zip(tokens, [*tokens[1:], ""], strict=True):
        if not token.startswith("%"):
            written += "[.]" if token == "." else token
            continue
        text = _PARTS[token[1]]
        if after.startswith("%"):  # another part follows at once, so a single digit would be ambiguous
            text = text.replace("{1,2}", "{2}")
        written += f"({text})" if token[1] == captured else f"(?:{text})"
    return f"^{written}$"
