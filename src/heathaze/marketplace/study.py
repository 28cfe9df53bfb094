"""The study: which columns count and which values they may have, agreed on before any data is read.

    table, by columns ─► Study.encode ─► points: a number in [0, 1] for a number, a place for each level of a category

Ranges and levels are public. Taken from the data, they would reveal its extremes and differ between owners.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, UnreadableData
from heathaze.files import replacing
from heathaze.ingest.tables import NUMBER, Table, Tables
from heathaze.marketplace.features import Features
from heathaze.types import Floats

SPREAD = 2.0
"""The default γ makes γ · (mean squared distance of two points drawn evenly over the ranges and levels) this number."""

_SETTINGS = ("gamma", "frequencies", "seed")


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


@dataclass(frozen=True, eq=False)
class Encoded:
    """Points of one table, and how well each column fits the study. NOT PRIVATE: for the holder of the table."""

    points: Floats = field(repr=False)
    fits: Mapping[str, ColumnFit] = field(repr=False)


@dataclass(frozen=True)
class Study:
    """The public columns of a purchase, in order, and the kernel on them. Make one with :meth:`of` or :meth:`read`.

    Args:
        columns: The columns, with their ranges or levels.
        gamma: γ of the kernel exp(−γ‖x − y‖²), positive.
        frequencies: Frequencies of the hash, which has twice as many numbers.
        seed: Seed of the hash; the same for all parties, and no secret.

    Raises:
        InvalidInput: There is no column, one stands there twice, or a number is out of range.

    >>> study = Study.of({"age": (17, 90), "sex": ("Female", "Male")}, seed=7)
    >>> study.encode({"age": [17, 200], "sex": ["Male", "unknown"], "income": [1, 2]}).points.round(2).tolist()
    [[0.0, 0.0, 0.71], [1.0, 0.0, 0.0]]
    """

    columns: tuple[NumberColumn | CategoryColumn, ...]
    gamma: float
    frequencies: int = 70
    seed: int = 0

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise InvalidInput("The study has no columns; name at least one, with its range or its levels.")
        if len(set(names)) < len(names):
            raise InvalidInput("The study has a column twice; name each column once.")
        assert self.features  # whose own checks say what is wrong with gamma, frequencies or seed

    @classmethod
    def of(
        cls,
        columns: Mapping[str, Sequence[float] | Sequence[str]],
        *,
        gamma: float | None = None,
        frequencies: int = 70,
        seed: int = 0,
    ) -> Self:
        """A study from ranges and levels.

        Args:
            columns: Each with the lowest and the highest number that may occur, or with its levels as texts.
            gamma: γ of the kernel exp(−γ‖x − y‖²). Left out, γ · E‖x − y‖² = 2 for x, y drawn evenly over the ranges
                and levels, so it follows from public numbers alone.
            frequencies: Frequencies of the hash, see :class:`~heathaze.marketplace.features.Features`.
            seed: Seed of the hash; the same for all parties, and no secret.

        Returns:
            The study.

        Raises:
            InvalidInput: A column has neither a range nor levels, or a number is out of range.

        >>> Study.of({"age": (17, 90), "sex": ("Female", "Male")}).features.columns
        3
        """
        kinds = tuple(_kind(name, given) for name, given in columns.items())
        return cls(kinds, _default_gamma(kinds) if gamma is None else gamma, frequencies, seed)

    @functools.cached_property
    def features(self) -> Features:
        """How the points of this study are hashed."""
        width = sum(column.width for column in self.columns)
        return Features(columns=width, gamma=self.gamma, frequencies=self.frequencies, seed=self.seed)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def encode(self, table: Mapping[str, npt.ArrayLike], where: str = "The table") -> Encoded:
        """The rows of a table as points; columns that are not in the study are ignored.

        Numbers outside of the range are moved to its nearer end, missing ones to its middle. Levels that are not in the
        list, or missing, become zeros. None of this is an error, because an error would reveal something of the data.

        Args:
            table: Columns by their names.
            where: How an error sentence calls the table.

        Returns:
            The points, and how well each column fits the study.

        Raises:
            UnreadableData: A column is missing, of another length than the rest, or of another kind.
        """
        missing = [name for name in self.names if name not in table]
        if missing:
            raise UnreadableData(
                f"{where} has no column {', '.join(map(repr, missing))}; a table has all columns of the study, "
                f"{', '.join(map(repr, self.names))}, and others as it likes."
            )
        called = where[:1].lower() + where[1:] if where.startswith("The ") else where
        encoded = [column.encode(table[column.name], called) for column in self.columns]
        if len({len(points) for points, _ in encoded}) > 1:
            raise UnreadableData(f"The columns of {called} have different lengths.")
        fits = {column.name: fit for column, (_, fit) in zip(self.columns, encoded, strict=True)}
        return Encoded(np.hstack([points for points, _ in encoded]), fits)

    def encode_file(self, tables: Tables, table: Table) -> Encoded:
        """The rows of a file as points, as :meth:`encode` makes them.

        Args:
            tables: What holds the rows.
            table: The file, as ``tables.read`` returned it.

        Returns:
            The points, and how well each column fits the study.

        Raises:
            UnreadableData: A column is missing or of another kind.
        """
        numbers = [column.name for column in self.columns if isinstance(column, NumberColumn)]
        texts = [column.name for column in self.columns if isinstance(column, CategoryColumn)]
        return self.encode(tables.cells(table, numbers=numbers, texts=texts), str(table.path))

    # ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a study from a TOML file; study.md describes the file.

        Args:
            path: The file.

        Raises:
            UnreadableData: It cannot be read, or is no study.
        """
        import tomllib

        try:
            fields = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as problem:
            raise UnreadableData(f"Cannot read {path}: {(problem.strerror or 'refused').lower()}.") from None
        except UnicodeDecodeError:
            raise UnreadableData(f"{path} is not text; a study is a TOML file.") from None
        except tomllib.TOMLDecodeError as problem:
            raise UnreadableData(f"{path} is not TOML: {problem}.") from None
        unknown = sorted(set(fields) - {*_SETTINGS, "columns"})
        if unknown:
            raise UnreadableData(
                f"{path} has {unknown[0]!r}, which no study has; it has columns and perhaps {', '.join(_SETTINGS)}."
            )
        if not isinstance(fields.get("columns"), dict):
            raise UnreadableData(
                f'{path} has no table [columns]; write it, and below it lines such as age = [17, 90] or sex = ["f", '
                '"m"].'
            )
        settings = {name: fields[name] for name in _SETTINGS if name in fields}
        try:
            return cls.of(fields["columns"], **settings)
        except InvalidInput as problem:
            raise UnreadableData(f"{path} cannot be used: {problem}") from None

    def write(self, path: str | Path) -> None:
        """Write the study to a file that :meth:`read` takes.

        Args:
            path: The file.

        Raises:
            CannotWrite: The disk or the directory refuses.
        """
        lines = [f"gamma = {self.gamma!r}", f"frequencies = {self.frequencies}", f"seed = {self.seed}", "", "[columns]"]
        for column in self.columns:
            given: list[Any] = [column.low, column.high] if isinstance(column, NumberColumn) else list(column.levels)
            lines.append(f"{_key(column.name)} = [{', '.join(_quoted(value) for value in given)}]")
        _save(path, "\n".join(lines) + "\n")


_EXAMPLES = {
    "number": "number: lowest and highest, such as [0, 100]",
    "text": 'text: its levels, such as ["yes", "no"]',
    "date": "date: leave out, or turn into numbers first",
}


def skeleton(columns: Mapping[str, str]) -> str:
    """A study file to fill in: the names of the columns and what they hold, and nothing else of the data.

    Args:
        columns: "number", "text" or "date" for each column.

    Returns:
        The text of the file.

    >>> print(skeleton({"age": "number", "sex": "text"}).splitlines()[-1])
    sex = []   # text: its levels, such as ["yes", "no"]
    """
    lines = [
        "# Fill in from public knowledge, never from the data; delete the lines of columns that shall not count.",
        "# Delete ids, names and the label that a model will predict: rows are matched by what is left.",
        "seed = 0",
        "",
        "[columns]",
    ]
    lines += [f"{_key(name)} = []   # {_EXAMPLES[kind]}" for name, kind in columns.items()]
    return "\n".join(lines) + "\n"


def write_skeleton(columns: Mapping[str, str], path: str | Path) -> None:
    """Write :func:`skeleton` to a file.

    Args:
        columns: "number", "text" or "date" for each column.
        path: The file.

    Raises:
        CannotWrite: The disk or the directory refuses.
    """
    _save(path, skeleton(columns))


# ── one column ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _kind(name: str, given: Any) -> NumberColumn | CategoryColumn:
    """Two numbers are a range, texts are levels."""
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


def _default_gamma(columns: Sequence[NumberColumn | CategoryColumn]) -> float:
    mean = sum(column.squared_distance for column in columns)
    if columns and mean == 0:
        raise InvalidInput("Every column of the study has a single level, so all points are alike; add a column.")
    return SPREAD / mean if columns else 1.0


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


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(value: str | float) -> str:
    """A text or a number as TOML has it; whole numbers without a point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _save(path: str | Path, text: str) -> None:
    with replacing(Path(path)) as (part,):
        part.write_text(text, encoding="utf-8")
