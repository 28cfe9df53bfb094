"""Spark counts exactly what DuckDB and plain Python count."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heathaze.domain.grid import Grid
from heathaze.errors import UnreadableData
from heathaze.ingest.columns import VISITS
from heathaze.ingest.count import count
from heathaze.ingest.engines import RAW, SOURCE
from heathaze.ingest.engines.spark import GIVEN

# pyspark 4 warns about pandas 3 and about its own imports; nothing here depends on either.
pytestmark = [
    pytest.mark.xdist_group("spark"),  # one worker, one Java
    pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

NAMES = ["anna", "Zoë", "山田", "a|b", "O'Neil", '"quoted"', "-- x", "😀", " anna", "ANNA"]


def both(tools: Any, source: Any, grid: Grid, **options: Any) -> dict[int, int]:
    """What both engines count, once they agree."""
    options.setdefault("person", "who")
    counts = [count(source, grid, engine=engine, **options) for engine in ("duckdb", "spark")]
    first, second = (tools.as_cells(each) for each in counts)
    assert first == second
    assert [(each.bound, each.one, each.unit) for each in counts[:1]] == [
        (counts[1].bound, counts[1].one, counts[1].unit)
    ]
    return first


def crowd(grid: Grid, rng: np.random.Generator, n: int = 4000) -> list[tuple[str, float | None, float | None]]:
    """Many people, on borders, beside them, outside, nowhere."""

    def positions(low: float, high: float, borders: np.ndarray) -> list[float | None]:
        on = rng.choice(borders, n)
        choices = [on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), rng.uniform(low, high, n)]
        choices += [np.full(n, value) for value in (np.nan, np.inf, -np.inf, high + 1)]
        picked = np.choose(rng.choice(8, n, p=[0.2, 0.1, 0.1, 0.56, 0.01, 0.01, 0.01, 0.01]), choices)
        return [None if gone else float(value) for gone, value in zip(rng.random(n) < 0.02, picked, strict=True)]

    xs = positions(*grid.x, grid.x_at(np.linspace(0, grid.cols, min(grid.cols, 50) + 1)))
    ys = positions(*grid.y, grid.y_at(np.linspace(0, grid.rows, min(grid.rows, 50) + 1)))
    who = [f"{rng.choice(NAMES)}{rng.integers(20)}" for _ in range(n)]
    return list(zip(who, xs, ys, strict=True))


@pytest.mark.parametrize(
    ("name", "weight", "at_most"),
    [("globe", "share", None), ("mercator", "share", 7), ("plane", "presence", 5), ("huge", "share", 10)],
)
def test_a_crowd_counts_the_same_everywhere(
    spark: Any, tools: Any, name: str, weight: str, at_most: int | None
) -> None:
    grid = tools.grids[name]
    rows = crowd(grid, np.random.default_rng(7))
    counted = both(tools, tools.table(rows, grid, pa.string()), grid, weight=weight, at_most=at_most)
    assert counted == tools.plain_count(grid, *zip(*rows, strict=True), weight=weight, at_most=at_most)


@settings(max_examples=2, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_hypothesis_tables_count_the_same_everywhere(spark: Any, tools: Any, data: st.DataObject) -> None:
    # Many small tables in one job: a table's number is part of its people's ids.
    grid = tools.grids["globe"]
    tables = data.draw(st.lists(tools.visits_on(grid, st.sampled_from(NAMES), 30), min_size=10, max_size=20))
    rows = [(f"{number}/{who}", x, y) for number, table in enumerate(tables) for who, x, y in table]
    at_most = data.draw(st.sampled_from([1, 2, 5]))
    counted = both(tools, tools.table(rows, grid, pa.string()), grid, at_most=at_most)
    assert counted == tools.plain_count(grid, *zip(*rows, strict=True), at_most=at_most)


def test_other_units_and_every_source(spark: Any, tools: Any, tmp_path: Path) -> None:
    grid = tools.grids["globe"]
    rng = np.random.default_rng(3)
    rows = [(who, x, y) for who, x, y in crowd(grid, rng, 300) if x is not None and y is not None]
    rows = [(who, x, y) for who, x, y in rows if np.isfinite(x) and np.isfinite(y)]
    minutes = rng.integers(0, 5 * 24 * 60, len(rows))
    times = np.datetime64("2024-02-27T00:00") + minutes.astype("m8[m]")
    days = [f"{str(time)[:10]}|{who}" for time, (who, _, _) in zip(times, rows, strict=True)]
    _, xs, ys = zip(*rows, strict=True)
    by_day = tools.plain_count(grid, days, xs, ys, at_most=3)

    table = tools.table(rows, grid, pa.string()).append_column("t", pa.array(times.astype("M8[us]")))
    frame = table.to_pandas()
    texts = frame.assign(t=[f"{time}+00:00" for time in frame["t"].dt.strftime("%Y-%m-%dT%H:%M:%S")])
    pq.write_table(table, tmp_path / "v.parquet")
    zoned = table.set_column(3, "t", table["t"].cast(pa.timestamp("us", "UTC")))
    pq.write_table(zoned, tmp_path / "zoned.parquet")
    (tmp_path / "v [1].csv.gz").write_bytes(gzip.compress(texts.to_csv(index=False, sep=";").encode()))
    records = texts.to_dict("records")
    (tmp_path / "v.jsonl").write_text("\n".join(json.dumps(record, ensure_ascii=False) for record in records))
    options = {"person": "who", "unit": "person-day", "time": "t", "at_most": 3}
    for source in (frame, *(tmp_path / name for name in ("zoned.parquet", "v [1].csv.gz", "v.jsonl"))):
        assert both(tools, source, grid, **options) == by_day, source
    own = spark.read.parquet(str(tmp_path / "v.parquet"))
    assert tools.as_cells(count(own, grid, engine="spark", **options)) == by_day
    address = (tmp_path / "v.parquet").as_uri()
    assert tools.as_cells(count(address, grid, engine="spark", **options)) == by_day
    assert both(tools, table, grid, person=None) == tools.plain_count(grid, range(len(rows)), xs, ys)


def test_ids_of_many_kinds(spark: Any, tools: Any) -> None:
    grid = Grid.plane(x=(0, 10), y=(0, 10), shape=(10, 10))
    axis = np.arange(40) % 10 + 0.5
    numbers = np.arange(40) % 3
    for ids in (
        numbers.astype(np.uint64) + np.uint64(2**63),
        pa.array(numbers.astype(str)).dictionary_encode(),
    ):
        table = pa.table({"who": ids, "x": axis, "y": pa.array(axis).cast(pa.string())})
        assert both(tools, table, grid, at_most=4)


def test_columns_may_be_called_anything(spark: Any, tools: Any, tmp_path: Path) -> None:
    names = ['a"b.c', "`d` e", "f'; drop table g; --"]
    table = pa.table(dict(zip(names, (["Zoë", "b"], [0.5, 1.5], [0.5, 0.5]), strict=True)))
    grid = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    pq.write_table(table, tmp_path / "v.parquet")
    for source in (table, tmp_path / "v.parquet"):
        assert both(tools, source, grid, person=names[0], x=names[1], y=names[2], mass=3) == {0: 3, 1: 3}


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("text.csv", b"who,x,y\nanna-secret,0.5,0.5\nb,1.5f,9\n", "'x' holds text that is not a number"),
        ("null.csv", b"who,x,y\nanna-secret,0.5,0.5\n,0.5,0.5\n", "has no person 'who'"),
        ("short.csv", b"who,x,y\nanna-secret,0.5\n", "Line 2 of .* has fewer fields than the header"),
        ("long.csv", b"who,x,y\nanna-secret,0.5,0.5,0.5\n", "Line 2 of .* has more fields than the header"),
        ("latin.csv", b"who,x,y\nZo\xeb,0.5,0.5\n", "UTF-8"),
        ("late.csv", b"who,x,y\n" + b"anna-secret,0.5,0.5\n" * 9999 + b"Zo\xeb,0.5,0.5\n", "not written in UTF-8"),
        ("float.jsonl", b'{"who": 1, "x": 0.5, "y": 0.5}\n{"who": 7.0, "x": 0.5, "y": 0.5}\n', "with a fraction"),
        ("late.jsonl", b'{"who": 1, "x": 0.5, "y": 0.5}\n' * 2000 + b'{"who": "anna-secret" 73\n', "cannot be read"),
        ("bad.parquet", b"PAR1 this is no Parquet, anna-secret", "cannot be read"),
        ("swapped.csv", b"who,x,y\nanna-secret,0.5,1.5\n", "probably swapped"),
        ("header.csv", b"who,x,y\n", "not a single row"),
    ],
)
def test_bad_input_gets_the_same_sentences(spark: Any, tmp_path: Path, name: str, content: bytes, pattern: str) -> None:
    grid = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UnreadableData, match=pattern) as caught:
        count(path, grid, person="who", engine="spark")
    assert "anna-secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "line",
    [
        '{"who": "b", "x": 0.5, "y": 0.5}{"who": "c", "x": 0.5, "y": 0.5}',
        '{"who": "b", "x": 0.5, "y": 0.5} and so on',
        '{"who": "b", "x": 0.5, "y": 0.5, "who": "c"}',
        '[{"who": "b", "x": 0.5, "y": 0.5}]',
    ],
)
def test_loose_json_is_refused(spark: Any, tmp_path: Path, line: str) -> None:
    """Spark would pass over what it does not expect; both engines refuse it."""
    path = tmp_path / "v.jsonl"
    path.write_text('{"who": "a", "x": 0.5, "y": 0.5}\n' * 1001 + line + "\n")
    for engine in ("duckdb", "spark"):
        with pytest.raises(UnreadableData, match="cannot be read"):
            count(path, Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), person="who", engine=engine)


def test_parquet_files_of_different_types_are_not_cast_to_one(spark: Any, tmp_path: Path) -> None:
    for name, who in (("a", pa.array([1, 2], pa.int32())), ("b", pa.array([1, 2**40], pa.int64()))):
        pq.write_table(pa.table({"who": who, "x": [0.5] * 2, "y": [0.5] * 2}), tmp_path / f"{name}.parquet")
    for source in (str(tmp_path / "*.parquet"), f"file://{tmp_path}/*.parquet"):
        with pytest.raises(UnreadableData, match=r"different types|cannot be read"):
            count(source, Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), person="who", engine="spark")


def test_mixed_and_floating_tables_are_refused(spark: Any) -> None:
    grid = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    good = {"who": [1, 2], "x": [0.5, 0.5], "y": [0.5, 0.5]}
    with pytest.raises(UnreadableData, match="numbers with a fraction"):
        count(pa.table({**good, "who": [1.5, 2.0]}), grid, person="who", engine="spark")
    with pytest.raises(UnreadableData, match="mixes kinds of ids"):
        count(pd.DataFrame({**good, "who": [1, "b"]}), grid, person="who", engine="spark")
    with pytest.raises(UnreadableData, match="no column 'z'"):
        count(pa.table(good), grid, person="who", x="z", engine="spark")


def test_files_that_spark_passes_over_are_refused(spark: Any, tmp_path: Path) -> None:
    table = pa.table({"who": [1], "x": [0.5], "y": [0.5]})
    for name in ("_a.parquet", "b.parquet"):
        pq.write_table(table, tmp_path / name)
    with pytest.raises(UnreadableData, match="Spark passes over files whose names begin with _"):
        count(str(tmp_path / "*.parquet"), Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), person="who", engine="spark")


def test_names_that_differ_in_case_between_files_are_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "v.parquet").mkdir()
    for name in ("who", "WHO"):
        pq.write_table(pa.table({name: [1], "x": [0.5], "y": [0.5]}), tmp_path / "v.parquet" / f"{name}-.parquet")
    before = spark.conf.get("spark.sql.caseSensitive")
    with pytest.raises(UnreadableData, match="differ only in case"):
        count(
            f"file://{tmp_path}/v.parquet",
            Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)),
            person="who",
            engine="spark",
        )
    assert spark.conf.get("spark.sql.caseSensitive") == before


def test_counts_at_once_do_not_meet(spark: Any) -> None:
    """Threads without an active session share the program's, which goes on, and wait for each other."""
    grid = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))

    def counted(place: float) -> list[list[int]]:
        table = {"who": [1, 2, 3], "x": [place] * 3, "y": [0.5] * 3}
        return count(table, grid, person="who", mass=1, engine="spark").dense().tolist()

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(counted, [0.5, 1.5, 0.5, 1.5]))
    assert found == [[[3, 0]], [[0, 3]]] * 2
    assert spark.range(3).count() == 3


def test_the_session_is_left_as_it_was(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("who,x,y\na,0.5,0.5\n")
    count(path, Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), person="who", engine="spark")
    assert spark.sql("select 1 as one").collect()[0]["one"] == 1
    assert not {table.name for table in spark.catalog.listTables()} & {VISITS, SOURCE, RAW, GIVEN}
