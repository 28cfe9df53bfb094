"""The engines that read visits and run SQL: DuckDB inside the process, Spark for data that one machine cannot hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from heathaze.errors import InvalidInput
from heathaze.ingest.engine import Engine


@contextlib.contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    """Open an engine for counting visits, and close it at the end of the ``with`` block.

    Args:
        name: "duckdb" or "spark".

    Raises:
        InvalidInput: There is no engine of this name.
        MissingExtra: The engine's package, or Java for Spark, is not installed.
    """
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
