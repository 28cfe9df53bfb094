"""What the columns of Parquet files are called and which types they have, from the files' own schemas.

An engine that reads several files, or names that differ in case alone, renames and casts columns by rules of its own.
So files where that could matter are refused for both engines. Nothing else of a file's footer is used: its row counts
and its smallest and largest values are claims of whoever wrote it.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from typing import Any

from heathaze.errors import UnreadableData
from heathaze.ingest.columns import locate


def check_parquet(connection: Any, paths: Sequence[str], wanted: Sequence[str], where: str) -> None:
    """Refuse files whose columns an engine could take for one another.

    Args:
        connection: Of DuckDB, which reads the schemas.
        paths: The files that will be read together.
        wanted: Names of the columns that each of them must have.
        where: How errors name the files.

    Raises:
        UnreadableData: A file lacks a column, has names that differ in case alone or twice the same, or has a wanted
            column in another type than the other files.
    """
    schemas = [_columns(connection, path) for path in paths]
    places = []
    for schema in schemas:
        names = [name for name, _ in schema]
        places.append(locate(names, wanted, where))
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise UnreadableData(f"{where} has several columns {repeated!r}; rename all but one.")
    types = {tuple(schema[place][1] for place in found) for schema, found in zip(schemas, places, strict=True)}
    if len(types) > 1:
        # Engines would cast all to the first file's types, which can merge two people's ids.
        raise UnreadableData(
            f"The files of {where} hold the same columns in different types; write them with one type."
        )


def _columns(connection: Any, path: str) -> list[tuple[str, str]]:
    """Name and type of each column, without the parts of nested ones."""
    rows = connection.execute(
        "select name, num_children, duckdb_type from parquet_schema(?) order by column_id", [glob.escape(path)]
    ).fetchall()
    columns = []
    # The schema is a tree, written depth first; its root stands first.
    place = 1
    while place < len(rows):
        columns.append((rows[place][0], str(rows[place][2])))
        open_nodes = 1
        while open_nodes:
            open_nodes += (rows[place][1] or 0) - 1
            place += 1
    return columns
