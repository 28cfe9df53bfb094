"""The study: which columns count and which values they may have, agreed on before any data is read.

    table, by columns ─► Study.encode ─► points: a number in [0, 1] for a number, a place for each level of a category

Ranges and levels are public. Taken from the data, they would reveal its extremes and differ between owners.
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
"""The default γ makes γ · (mean squared distance of two points drawn evenly over the ranges and levels) this number."""

_SETTINGS = ("gamma", "frequencies", "seed")


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
        kinds = tuple(column_of(name, given) for name, given in columns.items())
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


def _default_gamma(columns: Sequence[Column]) -> float:
    mean = sum(column.squared_distance for column in columns)
    if columns and mean == 0:
        raise InvalidInput("Every column of the study has a single level, so all points are alike; add a column.")
    return SPREAD / mean if columns else 1.0


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
