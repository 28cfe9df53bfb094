"""Ways in which tables in memory once merged people or days; each is refused now, or counts as it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.ingest.count import count

LINE = Grid.plane(x=(0, 4), y=(0, 1), shape=(1, 4))
DAY = 86_400 * 10**9


def counted(source: Any, **options: Any) -> list[int]:
    return count(source, LINE, mass=12, **{"person": "u", **options}).dense().ravel().tolist()


def timed(rows: list[tuple[float, int]], kind: pa.DataType) -> pa.Table:
    places, times = zip(*rows, strict=True)
    moments = pa.array(times, pa.int64()).view(kind)
    return pa.table({"u": ["a"] * len(rows), "x": places, "y": [0.5] * len(rows), "t": moments})


PERSON_DAY = {"unit": "person-day", "time": "t"}


def test_masked_people_are_missing_people() -> None:
    for ids in (["?", "x", "x"], [1, 2, 2], [True, False, False]):
        who = np.ma.array(ids, mask=[0, 1, 1])
        with pytest.raises(UnreadableData, match="has no person 'u'"):
            counted({"u": who, "x": [0.5, 1.5, 1.5], "y": [0.5] * 3})
    filled = np.ma.array([1, 2], mask=[0, 1], fill_value=1)
    with pytest.raises(UnreadableData, match="has no person 'u'"):
        counted({"u": filled, "x": [0.5, 1.5], "y": [0.5] * 2})


def test_masked_positions_are_absent() -> None:
    x = np.ma.array([0.5, 9.0], mask=[0, 1], fill_value=1.5)
    assert counted({"u": [1, 2], "x": x, "y": [0.5] * 2}) == [12, 0, 0, 0]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "Asia/Tokyo")])
def test_the_last_moment_before_a_midnight_is_of_the_day_before(tmp_path: Path, kind: pa.DataType) -> None:
    early, late = [(0.5, -3000 * DAY + 5)], [(1.5, -3000 * DAY - 1)] * 3
    table = timed(early + late, kind)
    pq.write_table(table, tmp_path / "v.parquet")
    connection = duckdb.connect()
    for source in (table, tmp_path / "v.parquet", connection.from_arrow(table)):
        assert counted(source, **PERSON_DAY) == [12, 12, 0, 0]


@pytest.mark.parametrize(
    ("kind", "far"),
    [
        (pa.timestamp("s"), 2**32 * 86_400),
        (pa.timestamp("ms"), 2**32 * 86_400_000),
        (pa.date64(), 2**32 * 86_400_000),
    ],
)
def test_days_that_would_wrap_around_are_refused(kind: pa.DataType, far: int) -> None:
    with pytest.raises(UnreadableData, match="'t' holds a time millions of years away"):
        counted(timed([(0.5, 0), (1.5, far)], kind), **PERSON_DAY)


@pytest.mark.parametrize(("unit", "far"), [("D", 2**64 // 86_400 + 1), ("Y", 2**62), ("W", 2**62), ("s", 2**60)])
def test_numpys_days_that_would_wrap_around_are_refused(unit: str, far: int) -> None:
    times = np.array([0, far], f"M8[{unit}]")
    with pytest.raises(UnreadableData, match="'t' holds a time millions of years away"):
        counted({"u": ["a", "a"], "x": [0.5, 1.5], "y": [0.5] * 2, "t": times}, **PERSON_DAY)


def test_a_date_of_milliseconds_is_rounded_down() -> None:
    assert counted(timed([(0.5, 0), (1.5, -1)], pa.date64()), **PERSON_DAY) == [12, 12, 0, 0]


def test_times_in_a_dict_may_have_a_zone() -> None:
    times = pd.date_range("2024-01-01 23:00", periods=2, freq="h", tz="UTC")
    source = {"u": ["a", "a"], "x": [0.5, 1.5], "y": [0.5] * 2, "t": times}
    assert counted(source, **PERSON_DAY) == [12, 12, 0, 0]


@pytest.mark.parametrize("kind", ["UNION(i HUGEINT, v VARCHAR)", "STRUCT(h HUGEINT, v VARCHAR)", "VARCHAR[]", "UUID[]"])
def test_ids_that_are_not_plain_are_refused(kind: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"create table t(u {kind}, x double, y double)")
    connection.execute("insert into t values (null, 0.5, 0.5)")
    with pytest.raises(UnreadableData, match="'u' holds something else"):
        counted(connection.sql("from t"))


def test_huge_ids_of_a_relation_stay_apart() -> None:
    connection = duckdb.connect()
    connection.execute(
        "create table t as select (2::hugeint ** 100)::hugeint + range as u, 0.5 + range as x, 0.5 as y from range(2)"
    )
    assert counted(connection.sql("from t")) == [12, 12, 0, 0]


def test_arrays_read_backwards_count_alike() -> None:
    source = {"u": np.array([2, 1])[::-1], "x": np.array([1.5, 0.5])[::-1], "y": np.array([0.5, 0.5])[::-1]}
    assert counted(source) == [12, 12, 0, 0]


class Talkative:
    def __str__(self) -> str:
        raise ValueError("anna-secret")


@pytest.mark.parametrize("value", [Talkative(), 10**5000], ids=["talkative", "huge"])
def test_values_that_cannot_be_written_are_not_quoted(value: Any) -> None:
    with pytest.raises(UnreadableData, match="'x' holds a value that cannot be written as text") as refusal:
        counted({"u": ["a"], "x": [value], "y": [0.5]})
    assert refusal.value.__suppress_context__


def test_names_that_are_numbers() -> None:
    assert counted({1: ["a"], "x": [0.5], "y": [0.5]}, person="1") == [12, 0, 0, 0]
    with pytest.raises(InvalidInput, match="The name of a column is None; expected str"):
        counted({"u": ["a"]}, x=None)


def test_headers_and_lines_without_end(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("u" * 200_000 + ",x,y\na,0.5,0.5\n")
    with pytest.raises(UnreadableData, match=r"first line of .* cannot be read as names of columns"):
        counted(tmp_path / "v.csv")
    (tmp_path / "v.jsonl").write_text('{"u": ' + "[" * 5000 + "]" * 5000 + "}\n")
    with pytest.raises(UnreadableData, match="is not JSON lines"):
        counted(tmp_path / "v.jsonl")


def test_a_first_line_that_may_be_a_visit_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("u,x,y,SMITH,smith\na,0.5,0.5,1,2\n")
    with pytest.raises(UnreadableData, match="has columns 4 and 5, whose names differ only in case") as refusal:
        counted(tmp_path / "v.csv")
    assert "smith" not in str(refusal.value).lower()
