"""The engines that read visits and run SQL: DuckDB inside the process, Spark for data that one machine cannot hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from heathaze.ingest.columns import Columns, Kind
from heathaze.ingest.source import Files
from heathaze.types import Integers

Answer = dict[str, Integers]

RAW = "heathaze_raw"
"""The table that ``attach`` makes: the wanted columns as c0, c1, …, copied without any expression or condition."""

SOURCE = "heathaze_source"
"""The view of RAW that ``attach`` makes: columns of canonical types, and ``flaw``, a fault of the row or 0
(columns.Flaw)."""


class Engine(Protocol):
    """An engine that reads one table of visits and runs SQL on it. Its errors quote no data."""

    keep: str
    """The beginning of the SQL statement that stores a result as a table; {} is the table's name."""

    day_number: str
    """The SQL expression for the number of days from 1970-01-01 to a date; {} is the date."""

    def attach(self, source: Files | Any, columns: Columns) -> list[Kind]:
        """Copy the wanted columns, make the view ``heathaze_source`` of them, and return the columns' types."""

    def forget_source(self) -> None:
        """Drop the table of :meth:`attach`, once the visits are stored in a table of their own."""

    def parts(self) -> Iterator[None]:
        """Divide the units into parts; make the view ``heathaze_part`` of the visits of one part after the other.

        Counting part by part needs less memory. All visits of a unit are in the same part.
        """

    def run(self, sql: str, parameters: Sequence[int | float | str | bool] = ()) -> Answer:
        """Run an SQL statement and return its integer columns; nulls become 0."""
