"""Data are kept in a table before any condition is asked of them, and NaN has no cell whatever the box says."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import UnreadableData
from heathaze.ingest.columns import VISITS, Columns
from heathaze.ingest.count import HEAVIEST_UNIT, NO_CELL, _placing, _weighing, count, read_visits
from heathaze.ingest.engines import RAW
from heathaze.ingest.engines.duckdb import open_duckdb
from heathaze.ingest.source import find_files
from heathaze.privacy.guarantee import Unit

GRID = Grid.plane(x=(0, 4), y=(0, 1), shape=(1, 4))
VISITED = {"u": ["a", "b", "c"], "x": [0.5, 1.5, 2.5], "y": [0.5, 0.5, 0.5]}


def written(folder: Path, ending: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"v.{ending}"
    rows = list(zip(*VISITED.values(), strict=True))
    if ending == "parquet":
        pq.write_table(pa.table(VISITED), path)
    elif ending == "csv":
        path.write_text("u,x,y\n" + "".join(f"{u},{x},{y}\n" for u, x, y in rows))
    else:
        path.write_text("".join(json.dumps(dict(zip(VISITED, row, strict=True))) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_file_may_vanish_once_it_is_attached(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path, ending)
    with open_duckdb() as engine:
        engine.attach(find_files(str(path)), Columns("x", "y", "u"))
        path.unlink()
        assert engine.run(f"select count(*) as rows from {RAW}")["rows"].tolist() == [3]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("folder", ["u=7", "x=3.5", "r0=3.5", "r1=3.5"])
def test_folders_are_never_columns(tmp_path: Path, ending: str, folder: str) -> None:
    assert count(written(tmp_path / folder, ending), GRID, person="u", mass=5).dense().tolist() == [[5, 5, 5, 0]]


def test_an_engine_that_reads_another_number_of_rows_is_stopped(tmp_path: Path) -> None:
    files = find_files(str(written(tmp_path, "csv")))
    assert files.rows == 3
    assert "3" not in repr(files).replace(str(tmp_path), "")
    for wrong in (2, 4):
        with open_duckdb() as engine, pytest.raises(UnreadableData, match="another number of rows"):
            read_visits(engine, dataclasses.replace(files, rows=wrong), Columns("x", "y", "u"), Unit.PERSON)


NAN = float("nan")


def answer_where_the_box_lets_nan_pass(sql: str, unit: Unit, rest: list[Any]) -> dict[str, Any]:
    """What a query says where x ≤ bound is true of NaN: in DuckDB NaN ≤ NaN, so the bound is NaN."""
    table = pa.table({"u": [1, 1, 2, 3], "x": [0.5, NAN, NAN, 1.5], "y": [0.5, 0.5, NAN, NAN]})
    placing = _placing(GRID)
    upper = placing.index(GRID.x[1])
    assert placing[upper + 2] == GRID.y[1]
    placing[upper] = placing[upper + 2] = NAN
    with open_duckdb() as engine:
        read_visits(engine, table, Columns("x", "y", None if unit is Unit.VISIT else "u"), unit)
        passed = f"select count(*) as n from {VISITS} where x <= ? and y <= ?"
        assert engine.run(passed, [NAN, NAN])["n"].tolist() == [4], "the box lets all of them pass"
        text = resources.files("heathaze.ingest").joinpath(sql).read_text("utf-8")
        return next(engine.run(text, [*placing, *rest]) for _ in engine.parts())


def test_nan_has_no_cell() -> None:
    answer = answer_where_the_box_lets_nan_pass("count_cells.sql", Unit.PERSON, _weighing(None, "share", 10))
    cells = dict(zip(answer["cell"].tolist(), answer["mass"].tolist(), strict=True))
    # Person 1 keeps the half that has a place; all that has none is added up apart, and exceeds the bound 10.
    assert cells == {0: 5, NO_CELL: 25, HEAVIEST_UNIT: 10}


def test_nan_has_no_cell_where_rows_are_units() -> None:
    answer = answer_where_the_box_lets_nan_pass("count_rows.sql", Unit.VISIT, [10])
    assert dict(zip(answer["cell"].tolist(), answer["mass"].tolist(), strict=True)) == {0: 10, -1: 30}
