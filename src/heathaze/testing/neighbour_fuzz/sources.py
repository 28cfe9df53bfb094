"""Write the visits of a hostile table to a source that ``heathaze.count`` reads.

Sources are CSV files and JSON lines (text_files.py), Parquet files, Arrow tables, pandas DataFrames, DuckDB relations,
and dictionaries of lists or arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.testing.neighbour_fuzz.places import ENDINGS, geo_frame, wkb, write_points
from heathaze.testing.neighbour_fuzz.table import Table, Visit
from heathaze.testing.neighbour_fuzz.text_files import write_text

FILES = ("csv", "json lines", "parquet")


def write(table: Table, folder: Path, visits: Sequence[Visit], engine: str = "duckdb", *, plain: bool = False) -> Any:
    """Write some visits of a hostile table to a source, with the table's format and faults.

    Args:
        table: The table, which decides the format and the faults.
        folder: An empty folder for files.
        visits: Some of the table's visits, in the order of the table.
        engine: The engine that will read the source. If folders are named after people, Spark gets the address of the
            outer folder.
        plain: Whether to use a folder without ``=`` in its name instead of the table's folders.
    """
    source = table.recipe.source
    folder.mkdir(parents=True, exist_ok=True)
    if source == "parquet":
        by_address = engine == "spark" and table.recipe.fault.startswith("person in folder names") and not plain
        root = folder / "all.parquet" if by_address else folder
        path = _write_files(table, root, visits, plain, "parquet", _write_parquet)
        return root.as_uri() if by_address else path
    if source == "geoparquet":
        return _write_files(table, folder, visits, plain, source, _write_geoparquet)
    if source in ENDINGS:
        return _write_files(table, folder, visits, plain, ENDINGS[source], write_points)
    if source in FILES:
        ending = str(table.style.get("ending", "csv" if source == "csv" else "jsonl"))
        ending += ".gz" if table.style.get("packed") else ""
        return _write_files(table, folder, visits, plain, ending, write_text)
    makers = {"arrow": _chunked, "pandas": _pandas_frame, "relation": relation, "lists": lists, "arrays": arrays}
    makers |= {"polars": polars_frame, "geopandas": geo_frame}
    return makers[source](table, visits)


def _write_files(
    table: Table,
    folder: Path,
    visits: Sequence[Visit],
    plain: bool,
    ending: str,
    write_one: Callable[[Table, Sequence[Visit], Path], None],
) -> str:
    """Write each file of a table into its folder, and return the path of the only file, or a pattern for several."""
    for number in sorted({visit.file for visit in visits}) or [0]:
        where = folder / ("plain" if plain else table.folders[number % len(table.folders)])
        where.mkdir(parents=True, exist_ok=True)
        here = [visit for visit in visits if visit.file == number]
        # A GPX file is named after its person.
        path = where / f"{here[0].id if ending == 'gpx' and here else f'part-{number}'}.{ending}"
        if table.recipe.fault == "equal names":
            path = where / str(number) / f"log.{ending}"
            path.parent.mkdir()
        write_one(table, here, path)
    several = len({visit.file for visit in table.visits}) > 1
    return str(folder / "**" / f"{'' if ending == 'gpx' else 'part-'}*.{ending}" if several else path)


# ── Arrow ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def arrow_table(table: Table, visits: Sequence[Visit]) -> Any:
    """Convert visits to an Arrow table. The types of columns do not depend on which visits are given."""
    import pyarrow as arrow

    columns = [arrow.array(_values(role, visits), _arrow_type(table, role)) for role in table.order]
    if "id_type" in table.style:
        place = table.order.index("person")
        columns[place] = _as(columns[place], str(table.style["id_type"]))
    return arrow.Table.from_arrays(columns, names=[table.names[role] for role in table.order])


def _values(role: str, visits: Sequence[Visit]) -> list[Any]:
    if role == "person":
        return [visit.id.bytes if isinstance(visit.id, uuid.UUID) else visit.id for visit in visits]
    if role in ("x", "y", "time", "weight", "kind"):
        return [getattr(visit, role) for visit in visits]
    return [visit.other(role) for visit in visits]


def _arrow_type(table: Table, role: str) -> Any:
    import pyarrow as arrow

    if role == "person":
        return {
            "integer": arrow.int64(),
            "unsigned": arrow.uint64(),
            "decimal(38,0)": arrow.decimal128(38, 0),
            "decimal(12,2)": arrow.decimal128(12, 2),
            "boolean": arrow.bool_(),
            "uuid": arrow.binary(16),
            "floating": arrow.float64(),
        }.get(table.id_kind, arrow.string())
    if role in ("x", "y"):
        return {
            "double": arrow.float64(),
            "float": arrow.float32(),
            "integer": arrow.int32(),
            "decimal": arrow.decimal128(20, 3),
            "text": arrow.string(),
        }[table.coordinate_kind]
    if role == "weight":
        return arrow.string() if table.coordinate_kind == "text" else arrow.float64()
    if role == "time" and table.recipe.fault == "epoch" and table.time_kind != "text":
        return arrow.int64()
    if role == "time":
        return {
            "date": arrow.date32(),
            "timestamp": arrow.timestamp("us"),
            "instant": arrow.timestamp("us", "America/Lima"),
            "text": arrow.string(),
        }[table.time_kind]
    return arrow.string()


def _as(column: Any, kind: str) -> Any:
    import pyarrow as arrow

    if kind == "dictionary":
        return column.dictionary_encode()
    if kind == "uuid":
        return arrow.ExtensionArray.from_storage(arrow.uuid(), column)
    return column.cast({"large_string": arrow.large_string(), "string_view": arrow.string_view()}[kind])


def _chunked(table: Table, visits: Sequence[Visit]) -> Any:
    """Convert visits to an Arrow table in several chunks."""
    import pyarrow as arrow

    whole, step = arrow_table(table, visits), int(table.style.get("row_group_size", 100))
    return arrow.concat_tables([whole.slice(start, step) for start in range(0, max(len(whole), 1), step)])


# ── Parquet ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _write_parquet(table: Table, visits: Sequence[Visit], path: Path) -> None:
    import pyarrow.parquet as parquet

    style, held = table.style, arrow_table(table, visits)
    if table.recipe.fault == "person in folder names only":
        held = held.drop_columns([table.names["person"]])
    if style["writer"] == "duckdb":
        _write_by_duckdb(held, path, int(style["row_group_size"]))
        return
    parquet.write_table(
        held,
        path,
        row_group_size=style["row_group_size"],
        use_dictionary=style["dictionary"],
        write_statistics=style["statistics"],
        write_page_index=style["page_index"],
        compression=style["compression"],
    )
    if table.recipe.fault in ("wrong statistics", "wrong null counts"):
        _falsify(path, table)


def _write_geoparquet(table: Table, visits: Sequence[Visit], path: Path) -> None:
    """Write points as WKB. The box in the file's metadata is wrong, and no reader may believe it."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    shape = arrow.array([wkb(visit, place) for place, visit in enumerate(visits)], arrow.binary())
    held = arrow_table(table, visits).drop_columns([table.names["x"], table.names["y"]]).append_column("shape", shape)
    about = {"primary_column": "shape", "columns": {"shape": {"encoding": "WKB", "bbox": [9e9, 9e9, 9e9, 9e9]}}}
    parquet.write_table(held.replace_schema_metadata({"geo": json.dumps({"version": "1.0.0", **about})}), path)


def _write_by_duckdb(held: Any, path: Path, row_group_size: int) -> None:
    connection = _connection()
    connection.register("held", held)
    target = str(path).replace("'", "''")
    connection.execute(f"copy held to '{target}' (format parquet, row_group_size {max(row_group_size, 2048)})")
    connection.unregister("held")


@functools.cache
def _connection() -> Any:
    """Return one DuckDB connection for all files, because opening a connection is slower than writing ten rows."""
    import duckdb

    return duckdb.connect()


def _falsify(path: Path, table: Table) -> None:
    """Falsify the statistics of a Parquet file, in the footer and in the index of pages.

    The smallest and largest values of doubles take eight bytes, so wrong values fit in their place. The number of nulls
    is the field before them (in Thrift's compact protocol: 0x16, a number below 64 in one byte, then the field 0x28
    with the largest value).
    """
    import pyarrow.parquet as parquet

    data = path.read_bytes()
    meta = parquet.ParquetFile(path).metadata
    end_of_pages = 4
    swaps: dict[bytes, bytes] = {}
    lie = _lies(table)
    for group in range(meta.num_row_groups):
        for place in range(meta.num_columns):
            column = meta.row_group(group).column(place)
            start = column.dictionary_page_offset or column.data_page_offset
            end_of_pages = max(end_of_pages, start + column.total_compressed_size)
            role = table.order[place]
            statistics = column.statistics
            if role in ("x", "y") and column.physical_type == "DOUBLE" and statistics and statistics.has_min_max:
                for true, false in zip((statistics.min, statistics.max), lie[role], strict=True):
                    swaps[struct.pack("<d", true)] = struct.pack("<d", false)
    pages, tail = data[:end_of_pages], data[end_of_pages:]
    if table.recipe.fault == "wrong null counts":
        tail = re.sub(rb"\x16[\x02-\x7e]\x28(?=[\x01-\x40])", b"\x16\x00\x28", tail)
    else:
        for held, put in swaps.items():
            if held.strip(b"\0") not in (b"", b"\x80"):  # eight zero bytes occur in other places too
                tail = tail.replace(held, put)
    path.write_bytes(pages + tail)


def _lies(table: Table) -> dict[str, tuple[float, float]]:
    """Return wrong smallest and largest values for a file's statistics: all outside the grid, or all well inside."""
    found = {}
    for role, (low, high) in (("x", table.grid.x), ("y", table.grid.y)):
        width = high - low
        outside = table.style.get("lie") == "outside"
        found[role] = (high + 2 * width, high + 3 * width) if outside else (low + width / 4, low + width / 3)
    return found


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pandas_frame(table: Table, visits: Sequence[Visit]) -> Any:
    """Convert visits to a DataFrame whose ids have one of the many types of pandas."""
    import pandas
    import pyarrow as arrow

    kind = str(table.style["pandas"])
    if table.id_kind == "mixed":  # no Arrow type can hold mixed ids; they are inserted below
        held = arrow_table(table, [dataclasses.replace(visit, id="") for visit in visits])
    else:
        held = arrow_table(table, visits)
    if kind == "arrow":
        return held.to_pandas(types_mapper=pandas.ArrowDtype)
    frame = held.to_pandas()
    name = table.names["person"]
    values = pandas.Series(_objects([visit.id for visit in visits]), dtype=object)
    if kind in ("category", "string"):
        frame[name] = values.astype(kind)
    elif kind == "Int64":
        frame[name] = pandas.array([pandas.NA if value is None else value for value in values], dtype="Int64")
    elif kind == "string[pyarrow]":
        frame[name] = values.astype(pandas.ArrowDtype(arrow.string()))
    else:
        frame[name] = values
    if kind == "object":
        for role in ("x", "y"):
            frame[table.names[role]] = frame[table.names[role]].astype(object)
    return frame


def polars_frame(table: Table, visits: Sequence[Visit]) -> Any:
    """Convert visits to a DataFrame of polars."""
    import polars

    return polars.from_arrow(arrow_table(table, visits))


def relation(table: Table, visits: Sequence[Visit]) -> Any:
    """Convert visits to a DuckDB relation with its own connection."""
    import duckdb

    connection = duckdb.connect()
    return connection.from_arrow(arrow_table(table, visits))


def lists(table: Table, visits: Sequence[Visit]) -> dict[str, list[Any]]:
    """Convert visits to a dictionary of lists, with the ids unchanged."""
    return {table.names[role]: _plain(table, role, visits) for role in table.order}


def arrays(table: Table, visits: Sequence[Visit]) -> dict[str, Any]:
    """Convert visits to a dictionary of numpy arrays; texts become objects or numpy's own text type."""
    columns: dict[str, Any] = {}
    for role in table.order:
        values = _plain(table, role, visits)
        if role == "person" and table.style.get("objects"):
            columns[table.names[role]] = _objects(values)
        elif role == "time" and table.time_kind != "text" and table.recipe.fault != "epoch":
            columns[table.names[role]] = np.array(values, dtype="M8[D]" if table.time_kind == "date" else "M8[us]")
        else:
            columns[table.names[role]] = np.array(values)
    return columns


def _plain(table: Table, role: str, visits: Sequence[Visit]) -> list[Any]:
    if role == "person":
        return [visit.id for visit in visits]
    values = _values(role, visits)
    if role in ("x", "y") and table.coordinate_kind in ("double", "float", "integer"):
        return [float("nan") if value is None else value for value in values]
    return values


def _objects(values: Sequence[Any]) -> Any:
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return held
