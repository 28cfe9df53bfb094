"""Every way to hand over the same visits gives the same counts."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import UnreadableData
from heathaze.ingest.count import count

GRID = Grid.plane(x=(-2, 2), y=(-1, 1), shape=(2, 4))
WHO = ["Zoë", "Zoë", "山田", "-- x", "Zoë"]
XS = [-1.5, 0.25, 0.25, 1.75, 1e-3]
YS = [-0.5, 0.5, 0.5, -0.999999999999, 0.0]


def expected(tools: Any) -> dict[int, int]:
    return tools.plain_count(GRID, WHO, XS, YS)


def write_csv(path: Path, separator: str = ",", names: tuple[str, ...] = ("who", "x", "y")) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL)
        writer.writerow(names)
        writer.writerows(zip(WHO, XS, YS, strict=True))
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_csv(tmp_path: Path, tools: Any, separator: str) -> None:
    path = write_csv(tmp_path / "visits.csv", separator)
    assert tools.as_cells(count(path, GRID, person="who")) == expected(tools)


def test_csv_packed_with_a_byte_order_mark(tmp_path: Path, tools: Any) -> None:
    plain = write_csv(tmp_path / "visits.csv")
    path = tmp_path / "visits.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + plain.read_bytes()))
    assert tools.as_cells(count(str(path), GRID, person="who")) == expected(tools)


def test_csv_numbers_are_read_strictly_and_gaps_are_absent(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(
        'who,x,y\na,+1.,.5\na,-15e-1,5E-1\na,,0.5\na,"",0.5\na,NaN,0.5\na,inf,0.5\na,1e400,0.5\na, 1 ,0.5\n'
    )
    counts = count(path, GRID, person="who", mass=30)
    # cells 3 (twice: "+1." and " 1 ") and 0 of the upper row
    assert counts.dense().tolist() == [[0, 0, 0, 0], [10, 0, 0, 20]]


def test_a_stray_quotation_mark_swallows_nobodys_rows(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    others = "".join(f"p{number},-1.5,0.5,hi\n" for number in range(50))
    path.write_text(f'who,x,y,note\nanna,1.5,0.5,"hi\n{others}anna,1.5,0.5,hi"\n')
    with pytest.raises(UnreadableData, match=r"Line 2 of .* opens a quotation mark that does not close on the same"):
        count(path, GRID, person="who")


def test_ids_in_csv_are_text(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("who,x,y\n007,1.5,0.5\n7,-1.5,0.5\n7.0,0.5,0.5\n")
    assert count(path, GRID, person="who", mass=5).mass.tolist() == [5, 5, 5]


def test_parquet_jsonl_and_patterns(tmp_path: Path, tools: Any) -> None:
    table = pa.table({"who": WHO, "x": XS, "y": YS})
    pq.write_table(table, tmp_path / "all.parquet")
    pq.write_table(table.slice(0, 2), tmp_path / "part-1.parquet")
    pq.write_table(table.slice(2), tmp_path / "part-2.parquet")
    rows = [json.dumps({"who": who, "x": x, "y": str(y), "other": {}}) for who, x, y in zip(WHO, XS, YS, strict=True)]
    (tmp_path / "all.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "all.ndjson.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    for name in ("all.parquet", "part-*.parquet", "all.jsonl", "all.ndjson.gz"):
        assert tools.as_cells(count(str(tmp_path / name), GRID, person="who")) == expected(tools), name


def test_json_ids_are_text_or_integers(tmp_path: Path) -> None:
    path = tmp_path / "visits.json"
    path.write_text(
        '{"who": "7", "x": 1.5, "y": 0.5}\n{"who": "8", "x": NaN, "y": 0.5}\n{"who": "007", "x": 1.5, "y": 0.5}\n'
    )
    assert count(path, GRID, person="who", mass=5).mass.tolist() == [10]
    path.write_text(
        '{"who": 7, "x": 1.5, "y": 0.5}\n{"who": 7, "x": "1.5", "y": 0.5}\n{"who": -7, "x": 1.5, "y": 0.5}\n'
    )
    assert count(path, GRID, person="who", mass=5).mass.tolist() == [10]


def test_nan_in_parquet_is_absent_though_statistics_do_not_mention_it(tmp_path: Path) -> None:
    # A file's smallest and largest value leave NaN out; an engine that trusts them drops the comparison with the box.
    table = pa.table({"who": [1, 1, 2], "x": [0.5, float("nan"), 0.5], "y": [0.5, 0.5, float("nan")]})
    pq.write_table(table, tmp_path / "v.parquet")
    assert count(tmp_path / "v.parquet", GRID, person="who", mass=5).mass.tolist() == [5]
    assert count(tmp_path / "v.parquet", GRID, person=None, mass=5).mass.tolist() == [5]


def test_tables_in_memory(tools: Any) -> None:
    frame = pd.DataFrame({"who": WHO, "x": XS, "y": YS, "objects": [object()] * 5})
    arrays = {"who": np.array(WHO), "x": np.array(XS), "y": np.array(YS)}
    relation = duckdb.connect().sql("select unnest(?) as who, unnest(?) as x, unnest(?) as y", params=[WHO, XS, YS])
    frames = [frame, frame.astype({"who": "category"}), frame.astype({"x": object, "who": object})]
    for source in (*frames, pa.table({"who": WHO, "x": XS, "y": YS}), arrays, relation):
        assert tools.as_cells(count(source, GRID, person="who")) == expected(tools), type(source)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([3, 3, 1, 2, 3], dtype=np.uint64) + np.uint64(2**63),
        np.array([3, 3, 1, 2, 3], dtype=np.int8),
        np.array([True, True, False, False, True]),
        pa.array(["3.0", "3.0", "1.0", "2.0", "3.0"]).cast(pa.decimal128(30, 0)),
        pa.array(WHO).dictionary_encode(),
    ],
)
def test_people_may_be_numbered_in_many_ways(tools: Any, ids: Any) -> None:
    table = pa.table({"who": ids, "x": XS, "y": YS})
    people = [str(value) for value in table["who"].to_pylist()]
    assert tools.as_cells(count(table, GRID, person="who")) == tools.plain_count(GRID, people, XS, YS)


def test_coordinates_may_be_numbers_of_many_kinds(tools: Any) -> None:
    grid = Grid.plane(x=(0, 10), y=(0, 10), shape=(10, 10))
    values = [1, 2, 2, 9, 10]
    for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(20, 3), pa.string()):
        column = pa.array(values, pa.int32()).cast(kind)
        table = pa.table({"who": WHO, "x": column, "y": column})
        assert tools.as_cells(count(table, grid, person="who")) == tools.plain_count(grid, WHO, values, values), kind


HOSTILE = ['a"b', "`b`", "c'; drop table x; --", "d.e f", "ö?", "LON", "select"]


@pytest.mark.parametrize("name", HOSTILE)
def test_columns_may_be_called_anything(tmp_path: Path, tools: Any, name: str) -> None:
    columns = {name: WHO, f"{name}x": XS, f"{name} y": YS}
    pq.write_table(pa.table(columns), tmp_path / "v.parquet")
    rows = (json.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))
    (tmp_path / "v.jsonl").write_text("\n".join(rows))
    relation = duckdb.connect().read_parquet(str(tmp_path / "v.parquet"))
    write_csv(tmp_path / "v.csv", names=tuple(columns))
    files = [tmp_path / f"v.{ending}" for ending in ("parquet", "jsonl", "csv")]
    for source in (*files, relation, pd.DataFrame(columns), {key: np.array(value) for key, value in columns.items()}):
        counts = count(source, GRID, person=name, x=f"{name}x", y=f"{name} y")
        assert tools.as_cells(counts) == expected(tools), source


def test_a_file_may_be_called_anything(tmp_path: Path, tools: Any) -> None:
    folder = tmp_path / "a [b] {c}* 'd"
    folder.mkdir()
    assert tools.as_cells(count(write_csv(folder / "v[1]?.csv"), GRID, person="who")) == expected(tools)


def test_files_need_neither_pandas_nor_pyarrow(tmp_path: Path) -> None:
    write_csv(tmp_path / "v.csv")
    program = (
        "import sys; sys.modules['pandas'] = sys.modules['pyarrow'] = None\n"
        "from heathaze.domain.grid import Grid\n"
        "from heathaze.ingest.count import count\n"
        f"counts = count({str(tmp_path / 'v.csv')!r}, Grid.plane((-2, 2), (-1, 1), (2, 4)), person='who', mass=4)\n"
        "print(counts.mass.sum())"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "11\n"


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    relation = duckdb.connect().sql("select 1 as who, 0.5 as x, 0.5 as y")
    count(relation, GRID, person="who")
    assert list(tmp_path.iterdir()) == []
