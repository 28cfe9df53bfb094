"""Parquet files of a release: one row for each cell (or square of the tree) that holds mass, written by DuckDB.

The columns are ``row`` and ``col`` (dense) or ``level`` and ``code`` (tree); ``west``, ``south``, ``east`` and
``north`` in degrees, or ``x0``, ``y0``, ``x1`` and ``y1`` on a plane; ``share`` of the total; ``estimate``, the
estimated number of units; and ``sd``, the standard deviation of the share, if the release has error bars. All other
fields are in the file's key-value metadata under ``heathaze``.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import UnreadableData
from heathaze.maps.mosaic import Look
from heathaze.release.formats import metadata
from heathaze.release.formats.cells import cells_of

if TYPE_CHECKING:
    import duckdb


def write(contents: metadata.Contents, target: Path, look: Look) -> None:  # noqa: ARG001
    """Write a release as a Parquet table."""
    import duckdb

    estimate = contents.estimate
    cells = cells_of(estimate)
    geographic = estimate.grid.projection.is_geographic
    names = ("west", "south", "east", "north") if geographic else ("x0", "y0", "x1", "y1")
    table = {
        **cells.keys,
        **dict(zip(names, (cells.low_x, cells.low_y, cells.high_x, cells.high_y), strict=True)),
        "share": cells.share,
        "estimate": cells.share * estimate.total,
    }
    if cells.deviation is not None:
        table["sd"] = cells.deviation
    try:
        with _connection() as connection:
            connection.register("cells", {name: np.ascontiguousarray(column) for name, column in table.items()})
            # COPY does not accept parameters, so both texts are quoted.
            connection.execute(
                f"copy cells to {_quoted(str(target))} (format parquet, compression zstd, use_tmp_file false, "
                f"kv_metadata {{heathaze: {_quoted(metadata.to_json(contents))}}})"
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
        grid = metadata.grid_of(fields)
        keys = metadata.KEYS[fields["form"]]
        rows = connection.execute("select sum(num_rows) from parquet_file_metadata(?)", [str(path)]).fetchall()[0][0]
        if rows > metadata.most_squares(grid):
            raise UnreadableData(f"{path} has more rows than its grid has cells; it is damaged or was edited.")
        columns = connection.execute(
            f'select "{keys[0]}", "{keys[1]}", "share" from read_parquet(?, hive_partitioning = false)', [str(path)]
        ).fetchnumpy()
    first, second, share = (_without_nulls(columns[name]) for name in (*keys, "share"))
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
