"""GeoParquet files of a release: a row for each certain square, or for each cell of a release without error bars.

The columns are those of :mod:`heathaze.release.formats.cells`; then ``west``, ``south``, ``east`` and ``north`` in
degrees, or ``x0``, ``y0``, ``x1`` and ``y1`` on a plane; and ``geometry``, the polygon in well-known binary. All other
fields are in the file's key-value metadata under ``heathaze``. DuckDB writes the file.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import Grid
from heathaze.errors import UnreadableData
from heathaze.maps.sheet import Look
from heathaze.release.formats import metadata
from heathaze.release.formats.cells import counted, has_deviations, polygons, rectangles_of

if TYPE_CHECKING:
    import duckdb


def write(contents: metadata.Contents, target: Path, look: Look) -> None:  # noqa: ARG001
    """Write a release as a GeoParquet table."""
    estimate, grid = contents.estimate, contents.estimate.grid
    rectangles = rectangles_of(estimate, counted(contents.guarantee, contents.provenance))
    names = ("west", "south", "east", "north") if grid.projection.is_geographic else ("x0", "y0", "x1", "y1")
    table = {
        **rectangles.columns,
        **dict(zip(names, rectangles.bounds.T, strict=True)),
        "geometry": np.array(polygons(rectangles.bounds), dtype=object),
    }
    geometry = {"geometry_types": ["Polygon"], "bbox": [grid.x[0], grid.y[0], grid.x[1], grid.y[1]]}
    write_table(table, geometry, grid, metadata.to_json(contents, with_density=has_deviations(estimate)), target)


def write_table(
    table: Mapping[str, npt.NDArray[Any]], geometry: Mapping[str, Any], grid: Grid, about: str, target: Path
) -> None:
    """Write columns to a GeoParquet file.

    Args:
        table: Columns of equal length; ``geometry`` holds shapes in well-known binary.
        geometry: What GeoParquet wants to know about the shapes, such as their types.
        grid: The public frame, which says whether coordinates are degrees.
        about: The text of the metadata under ``heathaze``.
        target: The file.

    Raises:
        OSError: The file cannot be written.
    """
    import duckdb

    column: dict[str, Any] = {"encoding": "WKB", **geometry}
    if not grid.projection.is_geographic:
        column["crs"] = None  # without this field, the coordinates would be longitude and latitude
    geo = json.dumps({"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}})
    try:
        with _connection() as connection:
            connection.register("rows", {name: np.ascontiguousarray(column) for name, column in table.items()})
            # COPY does not accept parameters, so all texts are quoted.
            connection.execute(
                f"copy (from rows) to {_quoted(str(target))} (format parquet, compression zstd, use_tmp_file false, "
                f"kv_metadata {{heathaze: {_quoted(about)}, geo: {_quoted(geo)}}})"
            )
    except duckdb.IOException as problem:
        raise OSError(0, _reason(problem)) from None


def read(path: Path) -> metadata.Contents:
    """Read a release from a Parquet table."""
    with _connection() as connection:
        found = connection.execute(
            "select value from parquet_kv_metadata(?) where key = 'heathaze'::blob", [str(path)]
        ).fetchall()
        if len(found) != 1:
            raise UnreadableData(f"{path} is a table, but not a release of Heathaze; save one with release.save(…).")
        fields = metadata.from_json(found[0][0])
        if (squares := metadata.to_contents_of_squares(fields)) is not None:
            return squares
        grid = metadata.grid_of(fields)
        keys = metadata.KEYS[fields["form"]]
        rows = connection.execute("select sum(num_rows) from parquet_file_metadata(?)", [str(path)]).fetchall()[0][0]
        if rows > metadata.most_squares(grid):
            raise UnreadableData(f"{path} has more rows than its grid has cells; it is damaged or was edited.")
        columns = connection.execute(
            f'select "{keys[0]}", "{keys[1]}", share_of_total from read_parquet(?, hive_partitioning = false)',
            [str(path)],
        ).fetchnumpy()
    first, second, share = (_without_nulls(columns[name]) for name in (*keys, "share_of_total"))
    return metadata.to_contents(fields, metadata.density_of(fields["form"], grid, first, second, share))


def _connection() -> duckdb.DuckDBPyConnection:
    """Open an empty DuckDB database in memory that downloads no extensions."""
    import duckdb

    return duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})


def _without_nulls(column: Any) -> npt.NDArray[np.generic]:
    if np.ma.is_masked(column):
        raise UnreadableData("The table has empty places where a release has numbers; it is damaged or was edited.")
    return np.asarray(column)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _reason(problem: Exception) -> str:
    """Find the operating system's reason (such as a full disk) in DuckDB's error message."""
    known = (os.strerror(number) for number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EIO))
    return next((reason for reason in known if reason in str(problem)), "the disk refused")
