"""Synthetic data for demonstrations, tests and papers. It contains no real person."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heathaze.datasets.city import city
from heathaze.datasets.mixtures import mixture
from heathaze.datasets.owners import market
from heathaze.datasets.rides import rides
from heathaze.datasets.rooms import room
from heathaze.errors import CannotWrite

__all__ = ["city", "market", "mixture", "rides", "room"]


def write_parquet(table: Mapping[str, Any], path: str | Path) -> Path:
    """Write a synthetic table to a Parquet file.

    Args:
        table: Columns of equal length by name, such as :func:`heathaze.datasets.city` returns.
        path: The file; an existing file is replaced.

    Returns:
        The path.

    Raises:
        CannotWrite: The folder does not exist or cannot be written to.
    """
    import duckdb

    with duckdb.connect() as connection:
        connection.register("made", dict(table))
        try:
            connection.sql("select * from made").write_parquet(str(path))
        except duckdb.IOException:
            raise CannotWrite(f"Cannot write {path}; choose another folder.") from None
    return Path(path)
