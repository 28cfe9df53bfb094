"""The one seam of the secret side: who runs the SQL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.ingest.columns import Kind
from heathaze.ingest.source import Files

Answer = dict[str, npt.NDArray[np.int64]]

SOURCE = "heathaze_source"
"""What ``attach`` makes: the wanted columns as c0, c1, … and ``flaw``, 0 unless the engine saw one (columns.Flaw)."""


class Engine(Protocol):
    """Runs one SQL text on one table of visits. Nothing of the data reaches an error text."""

    keep: str
    """How a statement begins that reads the visits once and keeps them under a name."""

    def attach(self, source: Files | Any, wanted: Sequence[str]) -> list[Kind]:
        """Make the table ``heathaze_source`` of the wanted columns, and say which canonical types they have."""

    def run(self, sql: str, parameters: Sequence[int | float | str | bool] = ()) -> Answer:
        """Run a statement; integers come back, nulls as 0."""


@contextlib.contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    """An engine by its name, closed afterwards."""
    if name == "duckdb":
        from heathaze.ingest.engines.duckdb import open_duckdb

        with open_duckdb() as engine:
            yield engine
    elif name == "spark":
        from heathaze.ingest.engines.spark import open_spark

        with open_spark() as spark:
            yield spark
    else:
        raise InvalidInput(f"There is no engine {name!r}; choose 'duckdb' or 'spark'.")
