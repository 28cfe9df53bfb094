"""What the columns of Parquet files are called and which types they have, from the files' own schemas.

An engine that reads several files, or names that differ in case alone, renames and casts columns by rules of its own.
So both engines ask here where the wanted columns stand. Nothing else of a file's footer is used: its row counts and its
smallest and largest values are claims of whoever wrote it.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence

from heathaze.errors import UnreadableData
from heathaze.ingest.columns import locate


def parquet_places(paths: Sequence[str], wanted: Sequence[str], where: str) -> list[int]:
    """Positions of the wanted columns in the first file.

    Raises:
        UnreadableData: A file is damaged, lacks a column, has names that differ in case alone or twice the same, or
            has a wanted column in another type than the first file.
    """
    import duckdb

    with duckdb.connect() as connection:
        try:
            schemas = [_columns(connection, path) for path in paths]
        except duckdb.Error:
            raise UnreadableData(f"{where} cannot be read; the file is damaged or not Parquet.") from None
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
    return places[0]


def _columns(connection: object, path: str) -> list[tuple[str, str]]:
    """Name and type of each column, without the parts of nested ones."""
    rows = connection.execute(  # type: ignore[attr-defined]
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
