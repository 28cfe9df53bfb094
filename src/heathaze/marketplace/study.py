"""The study: the columns that are compared and their possible values, agreed on before any data is read.

    table, by columns ─► Study.encode ─► points: one coordinate in [0, 1] for a number, one per level for a category

Ranges and levels are public. If they were taken from the data, they would reveal extreme values and would differ
between owners.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, UnreadableData
from heathaze.files import replacing
from heathaze.ingest.tables import Table, Tables
from heathaze.marketplace.columns import CategoryColumn, Column, ColumnFit, NumberColumn, column_of
from heathaze.marketplace.features import Features
from heathaze.types import Floats

SPREAD = 2.0
"""The default γ is this number over the mean squared distance of two points drawn uniformly from ranges and levels."""

_SETTINGS = ("gamma", "frequencies", "seed")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table encoded as points of the study, with counts of values that do not fit. NOT PRIVATE: for its holder."""

    points: Floats = field(repr=False)
    fits: Mapping[str, ColumnFit] = field(repr=False)


@dataclass(frozen=True)
class Study:
    """A study: the public columns that a purchase compares, and the kernel. Make one with :meth:`of` or :meth:`read`.

    Args:
        columns: The columns in order, with their ranges or levels.
        gamma: Parameter γ of the kernel exp(−γ‖x − y‖²), positive.
        frequencies: Number of frequencies of the hash; a hash has two coordinates for each frequency.
        seed: Seed of the hash. It is the same for all parties and not secret.

    Raises:
        InvalidInput: There is no column, a column is named twice, or a number is out of range.

    >>> study = Study.of({"age": (17, 90), "sex": ("Female", "Male")}, seed=7)
    >>> study.encode({"age": [17, 200], "sex": ["Male", "unknown"], "income": [1, 2]}).points.round(2).tolist()
    [[0.0, 0.0, 0.71], [1.0, 0.0, 0.0]]
    """

    columns: tuple[Column, ...]
    gamma: float
    frequencies: int = 70
    seed: int = 0

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise InvalidInput("The study has no columns; name at least one, with its range or its levels.")
        if len(set(names)) < len(names):
            raise InvalidInput("The study has a column twice; name each column once.")
        assert self.features  # making the features checks gamma, frequencies and seed

    @classmethod
    def of(
        cls,
        columns: Mapping[str, Sequence[float] | Sequence[str]],
        *,
        gamma: float | None = None,
        frequencies: int = 70,
        seed: int = 0,
    ) -> Self:
        """Make a study from the range or the levels of each column.

        Args:
            columns: For each column name, the lowest and the highest number that may occur, or the levels as texts.
            gamma: Parameter γ of the kernel exp(−γ‖x − y‖²). By default γ = 2 / E‖x − y‖², where x and y are drawn
                uniformly from the ranges and levels, so the default depends on public numbers only.
            frequencies: Number of frequencies of the hash, see :class:`~heathaze.marketplace.features.Features`.
            seed: Seed of the hash. It is the same for all parties and not secret.

        Returns:
            The study.

        Raises:
            InvalidInput: A column has neither a range nor levels, or a number is out of range.

        >>> Study.of({"age": (17, 90), "sex": ("Female", "Male")}).features.columns
        3
        """
        kinds = tuple(column_of(name, given) for name, given in columns.items())
        return cls(kinds, _default_gamma(kinds) if gamma is None else gamma, frequencies, seed)

    @functools.cached_property
    def features(self) -> Features:
        """The public hash for points of this study."""
        width = sum(column.width for column in self.columns)
        return Features(columns=width, gamma=self.gamma, frequencies=self.frequencies, seed=self.seed)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the study's columns, in order."""
        return tuple(column.name for column in self.columns)

    def encode(self, table: Mapping[str, npt.ArrayLike], where: str = "The table") -> Encoded:
        """Encode the rows of a table as points of the study; columns that are not in the study are ignored.

        A number outside of the range is clipped to the range, and a missing number becomes the middle of the range. A
        category that is missing or not among the levels becomes zeros. Such values raise no error, because an error
        would reveal something about the data.

        Args:
            table: Columns by their names.
            where: Name of the table in error sentences.

        Returns:
            The points, and the counts of values that do not fit.

        Raises:
            UnreadableData: A column is missing, has another length than the others, or holds another type.
        """
        missing = [name for name in self.names if name not in table]
        if missing:
            raise UnreadableData(
                f"{where} has no column {', '.join(map(repr, missing))}; give a table with all columns of the study, "
                f"{', '.join(map(repr, self.names))}. Further columns are ignored."
            )
        called = where[:1].lower() + where[1:] if where.startswith("The ") else where
        encoded = [column.encode(table[column.name], called) for column in self.columns]
        if len({len(points) for points, _ in encoded}) > 1:
            raise UnreadableData(f"The columns of {called} have different lengths; give one value for each row.")
        fits = {column.name: fit for column, (_, fit) in zip(self.columns, encoded, strict=True)}
        return Encoded(np.hstack([points for points, _ in encoded]), fits)

    def encode_file(self, tables: Tables, table: Table) -> Encoded:
        """Encode the rows of a file as points of the study; see :meth:`encode`.

        Args:
            tables: The reader that holds the rows.
            table: The file, as returned by ``tables.read``.

        Returns:
            The points, and the counts of values that do not fit.

        Raises:
            UnreadableData: A column is missing or holds another type.
        """
        numbers = [column.name for column in self.columns if isinstance(column, NumberColumn)]
        texts = [column.name for column in self.columns if isinstance(column, CategoryColumn)]
        return self.encode(tables.cells(table, numbers=numbers, texts=texts), str(table.path))

    # ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a study from a TOML file; ``study.md`` describes the format.

        Args:
            path: The file.

        Returns:
            The study.

        Raises:
            UnreadableData: The file cannot be read or does not describe a study.
        """
        import tomllib

        try:
            fields = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as problem:
            raise UnreadableData(f"Cannot read {path}: {(problem.strerror or 'refused').lower()}.") from None
        except UnicodeDecodeError:
            raise UnreadableData(f"{path} is not text; give a study as a TOML file.") from None
        except tomllib.TOMLDecodeError as problem:
            raise UnreadableData(f"{path} is not TOML: {problem}.") from None
        unknown = sorted(set(fields) - {*_SETTINGS, "columns"})
        if unknown:
            raise UnreadableData(
                f"{path} has {unknown[0]!r}, which no study has; a study has a table [columns] and may set "
                f"{', '.join(_SETTINGS)}."
            )
        if not isinstance(fields.get("columns"), dict):
            raise UnreadableData(
                f"{path} has no table [columns]; add it, with lines such as age = [17, 90] or "
                'sex = ["f", "m"] below it.'
            )
        settings = {name: fields[name] for name in _SETTINGS if name in fields}
        try:
            return cls.of(fields["columns"], **settings)
        except InvalidInput as problem:
            raise UnreadableData(f"{path} cannot be used: {problem}") from None

    def write(self, path: str | Path) -> None:
        """Write the study to a TOML file, for :meth:`read`.

        Args:
            path: The file.

        Raises:
            CannotWrite: The file cannot be written.
        """
        lines = [f"gamma = {self.gamma!r}", f"frequencies = {self.frequencies}", f"seed = {self.seed}", "", "[columns]"]
        for column in self.columns:
            given: list[Any] = [column.low, column.high] if isinstance(column, NumberColumn) else list(column.levels)
            lines.append(f"{_key(column.name)} = [{', '.join(_quoted(value) for value in given)}]")
        _save(path, "\n".join(lines) + "\n")


def _default_gamma(columns: Sequence[Column]) -> float:
    mean = sum(column.squared_distance for column in columns)
    if columns and mean == 0:
        raise InvalidInput("Every column of the study has a single level, so all points are equal; add a column.")
    return SPREAD / mean if columns else 1.0


_EXAMPLES = {
    "number": "number: lowest and highest, such as [0, 100]",
    "text": 'text: its levels, such as ["yes", "no"]',
    "date": "date: leave out, or turn into numbers first",
}


def skeleton(columns: Mapping[str, str]) -> str:
    """Make the text of a study file to fill in, from the names and types of a table's columns only.

    Args:
        columns: For each column name, "number", "text" or "date".

    Returns:
        The text of the file.

    >>> print(skeleton({"age": "number", "sex": "text"}).splitlines()[-1])
    sex = []   # text: its levels, such as ["yes", "no"]
    """
    lines = [
        "# Fill in from public knowledge, never from the data; delete the lines of columns that must not count.",
        "# Delete ids, names and the label that a model will predict: rows are matched by the remaining columns.",
        "seed = 0",
        "",
        "[columns]",
    ]
    lines += [f"{_key(name)} = []   # {_EXAMPLES[kind]}" for name, kind in columns.items()]
    return "\n".join(lines) + "\n"


def write_skeleton(columns: Mapping[str, str], path: str | Path) -> None:
    """Write a study file to fill in; see :func:`skeleton`.

    Args:
        columns: For each column name, "number", "text" or "date".
        path: The file.

    Raises:
        CannotWrite: The file cannot be written.
    """
    _save(path, skeleton(columns))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(value: str | float) -> str:
    """Format a text or a number for the study's TOML file; whole numbers get no decimal point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _save(path: str | Path, text: str) -> None:
    with replacing(Path(path)) as (part,):
        part.write_text(text, encoding="utf-8")
