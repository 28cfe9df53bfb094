"""Some of a table's visits, written down as a source that ``heathaze.count`` takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heathaze.testing.neighbour_fuzz import csv_files, json_files, typed
from heathaze.testing.neighbour_fuzz.table import Table, Visit

FILES = ("csv", "json lines", "parquet")


def write(table: Table, folder: Path, visits: Sequence[Visit], engine: str = "duckdb", *, plain: bool = False) -> Any:
    """Write visits down in the table's own way.

    Args:
        table: Whose way it is.
        folder: An empty folder for files.
        visits: Some of the table's visits, in its order.
        engine: Who will read them; Spark is given the address of a folder where folders are named after people.
        plain: In a folder without ``=`` in its name, whatever the table's folders are called.
    """
    source = table.recipe.source
    folder.mkdir(parents=True, exist_ok=True)
    if source == "parquet":
        by_address = engine == "spark" and table.recipe.fault.startswith("person in folder names") and not plain
        root = folder / "all.parquet" if by_address else folder
        found = typed.write_parquet(table, root, visits, plain)
        return root.as_uri() if by_address else found
    if source == "csv":
        return csv_files.write_csv(table, folder, visits, plain)
    if source == "json lines":
        return json_files.write_json(table, folder, visits, plain)
    makers = {
        "arrow": typed.chunked,
        "pandas": typed.pandas_frame,
        "relation": typed.relation,
        "lists": typed.lists,
        "arrays": typed.arrays,
    }
    return makers[source](table, visits)


def engines(table: Table) -> tuple[str, ...]:
    """Who can read the table."""
    return ("duckdb",) if table.recipe.source == "relation" else ("duckdb", "spark")
