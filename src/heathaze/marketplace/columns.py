"""Columns of a study: how the values of a table become numbers, each value alone.

What a value becomes depends on its column's public range or levels, and on nothing else in the table.
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
    """How well the values of one column fit the study. NOT PRIVATE: for the holder of the table."""

    rows: int = field(repr=False)
    outside: int = field(repr=False)
    """Numbers outside of the range, or levels that are not in the list."""
    missing: int = field(repr=False)

    @property
    def doubtful(self) -> bool:
        """Whether most values are outside or missing; a wrong range or a misspelt level is the likely cause."""
        return 2 * (self.outside + self.missing) > self.rows


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, with its public range.

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
    """Mean over two even draws from [0, 1]."""

    def encode(self, column: npt.ArrayLike, where: str = "the table") -> tuple[Floats, ColumnFit]:
        """One number in [0, 1] for each row: ½ where it is missing, 0 or 1 where it is outside of the range.

        Args:
            column: One value for each row.
            where: How an error sentence calls the table.

        Returns:
            The numbers, and how well the column fits.

        Raises:
            UnreadableData: The column does not hold numbers.
        """
        values = _numbers(f"The column {self.name!r} of {where}", column)
        outside = int(((values < self.low) | (values > self.high)).sum())
        fit = ColumnFit(len(values), outside, int(np.isnan(values).sum()))
        # Halves first: the difference of two huge ends would overflow.
        scaled = (np.clip(values, self.low, self.high) / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return np.where(np.isnan(scaled), 0.5, scaled)[:, None], fit


@dataclass(frozen=True)
class CategoryColumn:
    """A column of names out of a public list; a value that is not in the list, or missing, becomes zeros.

    Args:
        name: Name of the column.
        levels: The list.

    Raises:
        InvalidInput: A level stands in the list twice.
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
        """Numbers a row becomes."""
        return len(self.levels)

    @property
    def squared_distance(self) -> float:
        """Mean over two even draws of a level: different ones are at distance 1."""
        return 1 - 1 / len(self.levels)

    def encode(self, column: npt.ArrayLike, where: str = "the table") -> tuple[Floats, ColumnFit]:
        """1/√2 in the level's place and 0 elsewhere, so that two levels are at distance 1.

        Every value is looked up alone, by its text; the other rows do not matter.

        Args:
            column: One value for each row.
            where: How an error sentence calls the table.

        Returns:
            As many numbers for each row as there are levels, and how well the column fits.

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
        """Of a level, however it is written; −1 for any other."""
        plain = text.strip()
        # A day without a time is written as a day.
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
    """A column from its range or its levels: two numbers are a range, texts are levels.

    Args:
        name: Name of the column.
        given: The range or the levels.

    Raises:
        InvalidInput: It is neither.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        given = [None]
    if not given:
        raise InvalidInput(
            f"The column {name!r} has neither a range nor levels yet; fill them in from public knowledge, or delete "
            "its line if the column shall not count."
        )
    if all(isinstance(value, str) for value in given):
        return CategoryColumn(name, tuple(given))
    if len(given) == 2 and all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        return NumberColumn(name, float(given[0]), float(given[1]))
    raise InvalidInput(
        f"The column {name!r} has neither two numbers, the lowest and the highest, nor a list of levels as texts, such "
        'as ["1", "2", "3"]; give one of them.'
    )


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _values(what: str, column: Any) -> list[Any]:
    """A column as a list of plain values, each made plain on its own; None where one is missing.

    A list does not become an array: numpy would make texts of all numbers for the sake of one text among them.
    """
    if hasattr(column, "to_pylist"):  # Arrow makes floats of all whole numbers if one is missing
        column = column.to_pylist()
    if hasattr(column, "__array__"):
        array = np.asanyarray(column)
        if array.ndim != 1:
            raise UnreadableData(f"{what} is not one value a row; give a list of values.")
        # Whole seconds, since nanoseconds would become plain integers.
        column = (array.astype("datetime64[s]") if array.dtype.kind == "M" else array).tolist()
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise UnreadableData(f"{what} is not one value a row; give a list of values.")
    values = [_plain(value) for value in column]
    if any(isinstance(value, Collection) and not isinstance(value, str | bytes) for value in values):
        raise UnreadableData(f"{what} holds lists or the like; the study has one value a row.")
    return values


def _numbers(what: str, column: npt.ArrayLike) -> Floats:
    """A column as numbers, NaN where one is missing."""
    try:
        array = np.asanyarray(column)
    except ValueError:  # rows of different lengths
        raise UnreadableData(f"{what} is not one value a row; give a list of values.") from None
    if isinstance(array, np.ma.MaskedArray) or array.dtype == object or array.ndim != 1:
        array = np.array([math.nan if value is None else value for value in _values(what, column)])
    if array.dtype.kind not in "biuf" and array.dtype != object and len(array):
        raise UnreadableData(f"{what} holds {_held(array)}; the study says that it holds numbers.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UnreadableData(f"{what} holds more than numbers; the study says that it holds numbers.") from None


def _held(array: npt.NDArray[Any]) -> str:
    return {"U": "text", "S": "text", "M": "dates", "m": "durations", "c": "complex numbers"}.get(
        array.dtype.kind, "something else"
    )


def _plain(value: Any) -> Any:
    """A value without numpy around it; None if it is missing."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[s]")
    if isinstance(value, np.generic):
        value = value.item()
    nothing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return None if nothing or (isinstance(value, float) and math.isnan(value)) else value


def _text(value: Any) -> str:
    """A value as the study writes it: 3 is "3", and True is "true" as in files."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):  # str() refuses those with thousands of digits
        return format(Decimal(value), "f")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _number(text: str) -> Decimal | None:
    """What a text stands for if it is a number, exactly: 3, 3.0 and +3 are one level, and 03 is a name.

    >>> _number("3.0") == _number("3"), _number("03")
    (True, None)
    """
    try:
        return Decimal(text) if re.fullmatch(NUMBER, text) else None
    except InvalidOperation:  # beyond all exponents
        return None
