"""Columns of a study: encode the values of a table as numbers, each value separately.

The encoding of a value depends only on the value and on the public range or levels of its column. The encoding does not
depend on other values in the table.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, UnreadableData
from heathaze.ingest.tables import NUMBER
from heathaze.types import Floats


@dataclass(frozen=True)
class ColumnFit:
    """How many values of one column fit the range or the levels of the study. NOT PRIVATE: for the table's holder."""

    rows: int = field(repr=False)
    outside: int = field(repr=False)
    """Count of numbers outside of the range, or of values that are not among the levels."""
    missing: int = field(repr=False)

    @property
    def doubtful(self) -> bool:
        """Whether most values of the column are outside or missing, as with a wrong range or a misspelt level."""
        return 2 * (self.outside + self.missing) > self.rows


@dataclass(frozen=True)
class NumberColumn:
    """A column of a study that holds numbers, with its public range.

    Args:
        name: Name of the column.
        low: The lowest number that may occur.
        high: The highest number that may occur.

    Raises:
        InvalidInput: The range is empty or not finite.
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidInput(
                f"The range of the column {self.name!r} is [{self.low:g}, {self.high:g}]; give two finite numbers, the "
                "lowest one that may occur and a higher one."
            )

    width = 1
    squared_distance = 1 / 6
    """Mean squared difference of two numbers drawn uniformly from [0, 1]."""

    def encode(self, column: npt.ArrayLike, where: str = "the table") -> tuple[Floats, ColumnFit]:
        """Scale the values of a column to [0, 1]; a missing value becomes ½, a value outside of the range 0 or 1.

        Args:
            column: One value for each row.
            where: Name of the table in error sentences.

        Returns:
            One number for each row, and the counts of values that do not fit.

        Raises:
            UnreadableData: The column does not hold numbers.
        """
        values = _numbers(f"The column {self.name!r} of {where}", column)
        outside = int(((values < self.low) | (values > self.high)).sum())
        fit = ColumnFit(len(values), outside, int(np.isnan(values).sum()))
        # All numbers are halved first, because the difference between two huge ends could overflow.
        scaled = (np.clip(values, self.low, self.high) / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return np.where(np.isnan(scaled), 0.5, scaled)[:, None], fit


@dataclass(frozen=True)
class CategoryColumn:
    """A column of a study that holds categories out of a public list of levels.

    A value that is missing or not among the levels is encoded as zeros.

    Args:
        name: Name of the column.
        levels: The public list of levels.

    Raises:
        InvalidInput: The list names a level twice.
    """

    name: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        numbers = [number for level in self.levels if (number := _number(level.strip())) is not None]
        if len(set(self.levels)) < len(self.levels) or len(set(numbers)) < len(numbers):
            raise InvalidInput(
                f"The column {self.name!r} has a level twice; name each level once (1 and 1.0 are the same)."
            )

    @property
    def width(self) -> int:
        """Number of coordinates that encode one value."""
        return len(self.levels)

    @property
    def squared_distance(self) -> float:
        """Mean squared distance of two levels drawn uniformly; different levels are at distance 1."""
        return 1 - 1 / len(self.levels)

    def encode(self, column: npt.ArrayLike, where: str = "the table") -> tuple[Floats, ColumnFit]:
        """Encode each category as 1/√2 at the index of its level and 0 elsewhere, so that two levels are at distance 1.

        Each value is looked up separately, by its text. Other rows do not influence the result.

        Args:
            column: One value for each row.
            where: Name of the table in error sentences.

        Returns:
            One row for each value, with one coordinate for each level; and the counts of values that do not fit.

        Raises:
            UnreadableData: The column does not hold one value for each row.
        """
        values = _values(f"The column {self.name!r} of {where}", column)
        texts = [None if value is None else _text(value) for value in values]
        places = {text: -1 if text is None else self._place(text) for text in set(texts)}
        found = np.array([places[text] for text in texts], dtype=np.int64)
        points = np.zeros((len(found), self.width))
        known = np.flatnonzero(found >= 0)
        points[known, found[known]] = math.sqrt(0.5)
        missing = texts.count(None)
        return points, ColumnFit(len(found), len(found) - len(known) - missing, missing)

    def _place(self, text: str) -> int:
        """Index of the level that a text spells (for example "3.0" for the level "3"), or −1 if it spells none."""
        plain = text.strip()
        # A date with the time 00:00:00 is also looked up without the time.
        spellings = (text, plain, plain.removesuffix(" 00:00:00"), _number(plain))
        return next((self._places[spelling] for spelling in spellings if spelling in self._places), -1)

    @functools.cached_property
    def _places(self) -> dict[str | Decimal | None, int]:
        places: dict[str | Decimal | None, int] = {}
        for place, level in enumerate(self.levels):
            places[level] = place
            if (number := _number(level.strip())) is not None:
                places[number] = place
        return places


Column = NumberColumn | CategoryColumn


def column_of(name: str, given: Any) -> Column:
    """Make a column of a study from its range (two numbers) or its levels (texts).

    Args:
        name: Name of the column.
        given: The range or the levels.

    Raises:
        InvalidInput: ``given`` is neither a range nor levels.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        given = [None]
    if not given:
        raise InvalidInput(
            f"The column {name!r} has neither a range nor levels yet; fill them in from public knowledge, or delete "
            "its line to leave the column out of the study."
        )
    if all(isinstance(value, str) for value in given):
        return CategoryColumn(name, tuple(given))
    if len(given) == 2 and all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        return NumberColumn(name, float(given[0]), float(given[1]))
    raise InvalidInput(
        f"The column {name!r} has neither a range nor levels; give two numbers, the lowest and the highest, or a list "
        'of texts, such as ["1", "2", "3"].'
    )


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _values(what: str, column: Any) -> list[Any]:
    """Convert a column to a list of plain Python values, each converted separately; a missing value becomes None.

    A list is not converted to a numpy array, because one text in it would make numpy turn all its numbers into texts.
    """
    if hasattr(column, "to_pylist"):  # in a numpy array, one missing value would turn all integers into floats
        column = column.to_pylist()
    if hasattr(column, "__array__"):
        array = np.asanyarray(column)
        if array.ndim != 1:
            raise UnreadableData(f"{what} does not hold one value for each row; give a list of values.")
        # Dates are cut to whole seconds, because numpy would turn nanoseconds into plain integers.
        column = (array.astype("datetime64[s]") if array.dtype.kind == "M" else array).tolist()
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise UnreadableData(f"{what} does not hold one value for each row; give a list of values.")
    values = [_plain(value) for value in column]
    if any(isinstance(value, Collection) and not isinstance(value, str | bytes) for value in values):
        raise UnreadableData(f"{what} holds lists or other collections; give one plain value for each row.")
    return values


def _numbers(what: str, column: npt.ArrayLike) -> Floats:
    """Convert a column to floats; a missing value becomes NaN."""
    try:
        array = np.asanyarray(column)
    except ValueError:  # rows of different lengths
        raise UnreadableData(f"{what} does not hold one value for each row; give a list of values.") from None
    if isinstance(array, np.ma.MaskedArray) or array.dtype == object or array.ndim != 1:
        array = np.array([math.nan if value is None else value for value in _values(what, column)])
    if array.dtype.kind not in "biuf" and array.dtype != object and len(array):
        raise UnreadableData(f"{what} holds {_held(array)}; the study has a range for it, so give numbers.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UnreadableData(
            f"{what} holds values that are not numbers; the study has a range for it, so give numbers."
        ) from None


def _held(array: npt.NDArray[Any]) -> str:
    return {"U": "text", "S": "text", "M": "dates", "m": "durations", "c": "complex numbers"}.get(
        array.dtype.kind, "something else"
    )


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to a plain Python value; a missing value becomes None."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[s]")
    if isinstance(value, np.generic):
        value = value.item()
    nothing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return None if nothing or (isinstance(value, float) and math.isnan(value)) else value


def _text(value: Any) -> str:
    """The text by which a value is looked up among the levels: 3 becomes "3", and True becomes "true", as in files."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):  # str() refuses integers with thousands of digits
        return format(Decimal(value), "f")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _number(text: str) -> Decimal | None:
    """The exact number that a level's text spells, or None: 3, 3.0 and +3 are one number, but 03 is only a name.

    >>> _number("3.0") == _number("3"), _number("03")
    (True, None)
    """
    try:
        return Decimal(text) if re.fullmatch(NUMBER, text) else None
    except InvalidOperation:  # the exponent is too large
        return None
