"""The protocol of an engine: a program that runs our SQL on one table of visits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from heathaze.ingest.columns import Kind
from heathaze.ingest.source import Files
from heathaze.types import Integers

Answer = dict[str, Integers]

RAW = "heathaze_raw"
"""What ``attach`` keeps: the wanted columns as c0, c1, …, read once, without an expression or a condition."""

SOURCE = "heathaze_source"
"""The view on it that ``attach`` makes: canonical types, and ``flaw``, 0 unless the engine saw one (columns.Flaw)."""


class Engine(Protocol):
    """Runs SQL on one table of visits. No value of the data reaches an error sentence."""

    keep: str
    """How a statement begins that keeps its answer under a name."""

    day_number: str
    """The number of a date's day, counted from 1970-01-01."""

    def attach(self, source: Files | Any, wanted: Sequence[str]) -> list[Kind]:
        """Keep the wanted columns, make the view ``heathaze_source`` of them, and say which types it has."""

    def forget_source(self) -> None:
        """Free what :meth:`attach` kept, once the visits themselves are kept."""

    def parts(self) -> Iterator[None]:
        """Make the view ``heathaze_part`` of the visits of some units, then of others, until all had their turn.

        What is counted part by part needs less memory at a time. All visits of a unit are in one part.
        """

    def run(self, sql: str, parameters: Sequence[int | float | str | bool] = ()) -> Answer:
        """Run a statement; integers come back, nulls as 0."""
