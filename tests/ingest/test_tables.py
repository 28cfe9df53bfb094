"""Files of rows: what is bought comes back whole, and no message quotes a value."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.errors import UnknownFormat, UnreadableData
from heathaze.ingest.tables import Table, Tables
from heathaze.marketplace.study import Study


def _study(**settings: Any) -> Study:
    return Study.of({"age": (17, 90), "sex": ("Female", "Male")}, **settings)


def _parquet(path: Path, select: str) -> Path:
    duckdb.sql(f"copy ({select}) to '{path}' (format parquet)")
    return path


def _rows(path: Path) -> list[tuple[Any, ...]]:
    return duckdb.sql(f"select * from '{path}'").fetchall()


def test_chosen_rows_come_back_whole_in_the_order_of_choice(tmp_path: Path) -> None:
    one = _parquet(
        tmp_path / "one.parquet",
        "select i as age, 'Male' as sex, [i, i] as list, i::decimal(9, 2) as money, date '2024-01-01' + i::integer as "
        "place from range(5) t(i)",
    )
    two = _parquet(tmp_path / "two.parquet", "select 'Female' as sex, i * 10.5 as age, i as extra from range(3) t(i)")
    with Tables() as tables:
        files = {"one": tables.read(one), "it's two": tables.read(two)}
        tables.check_names(files)
        assert [_study().encode_file(tables, table).points.shape for table in files.values()] == [(5, 3), (3, 3)]
        for ending in ("parquet", "csv"):
            tables.write(tmp_path / f"out.{ending}", files, ["it's two", "one", "one"], [2, 4, 0])
    names = duckdb.sql(f"select * from '{tmp_path}/out.parquet'").columns
    assert names == ["age", "sex", "list", "money", "place", "extra", "owner", "row"]
    found = _rows(tmp_path / "out.parquet")
    assert [(row[-2], row[-1], row[0]) for row in found] == [("it's two", 2, 21.0), ("one", 4, 4.0), ("one", 0, 0.0)]
    assert found[1][2:5] == ([4, 4], 4, date(2024, 1, 5))
    assert found[0][5] == 2
    assert found[0][2] is None
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "age,sex,list,money,place,extra,owner,row"


def test_rows_keep_their_numbers_in_large_files(tmp_path: Path) -> None:
    """Several row groups, read by several threads."""
    path = _parquet(tmp_path / "large.parquet", "select i as age, 'Male' as sex from range(400_000) t(i)")
    with Tables() as tables:
        table = tables.read(path)
        points = Study.of({"age": (0, 399_999)}).encode_file(tables, table).points.ravel()
        assert np.array_equal(points, np.arange(400_000) / 399_999)
        tables.write(tmp_path / "out.parquet", {"o": table}, ["o"] * 3, [399_999, 0, 200_001])
    assert [row[0] for row in _rows(tmp_path / "out.parquet")] == [399_999, 0, 200_001]


def test_csv_columns_are_numbers_only_where_nothing_is_lost(tmp_path: Path) -> None:
    text = (
        "whole;part;zip;mixed;empty;name;large\n"
        '1;.5;00501;1;;"a;b";12345678901234567890123\n'
        "-20;1e3;10115;x;;;1\n"
        ";nan;1;;;c;1\n"
    )
    (tmp_path / "t.csv").write_text(text)
    with Tables() as tables:
        table = tables.read(tmp_path / "t.csv")
        assert dict(table.types) == {
            "whole": "BIGINT",
            "part": "DOUBLE",
            "zip": "VARCHAR",
            "mixed": "VARCHAR",
            "empty": "VARCHAR",
            "name": "VARCHAR",
            "large": "DOUBLE",
        }
        study = Study.of({"whole": (-20, 20), "part": (0, 1000), "empty": (0, 1), "zip": ("00501", "501")})
        points = study.encode_file(tables, table).points
        tables.write(tmp_path / "out.parquet", {"o": table}, ["o"], [0])
    assert points[:, :3].tolist() == [[0.525, 0.0005, 0.5], [0, 1, 0.5], [0.5, 0.5, 0.5]]
    assert points[:, 3:].round(2).tolist() == [[0.71, 0], [0, 0], [0, 0]]
    assert _rows(tmp_path / "out.parquet")[0][:3] == (1, 0.5, "00501")


CELLS = st.sampled_from(
    [
        "3",
        "3.0",
        "+3",
        " 3 ",
        "03",
        "1e3",
        "1000",
        "nan",
        "n/a",
        "",
        "unknown",
        ".5",
        "123456789012345678",
        "1e400",
        "inf",
    ]
)


@settings(max_examples=25)
@given(st.lists(CELLS, min_size=1, max_size=7), st.data())
def test_no_cell_changes_how_another_one_is_read(cells: list[str], data: st.DataObject) -> None:
    """The known bug: a column that is numbers but for one cell was text, and 3.0 no longer the level 3."""
    left_out = data.draw(st.integers(0, len(cells) - 1))
    study = Study.of({"level": ("3", "1000", "03", "unknown", "123456789012345678"), "number": (0, 10)})
    points = []
    with TemporaryDirectory() as folder, Tables() as tables:
        for rows in (cells, [*cells[:left_out], *cells[left_out + 1 :]]):
            path = Path(folder) / "t.csv"
            path.write_text("level,number\n" + "".join(f"{cell},{cell}\n" for cell in rows))
            points.append(study.encode_file(tables, tables.read(path)).points)
    assert np.array_equal(np.delete(points[0], left_out, axis=0), points[1])


def test_what_is_no_number_is_missing_in_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,sex\n17,Male\nn/a,Male\n 90 ,Female\n")
    with Tables() as tables:
        encoded = _study().encode_file(tables, tables.read(tmp_path / "t.csv"))
    assert encoded.points[:, 0].tolist() == [0, 0.5, 1]
    assert encoded.fits["age"].missing == 1


def test_blanks_around_numbers_names_and_levels_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id, age, sex\n1, 17, Male\n2,  90 , Female\n3, , Male\n")
    with Tables() as tables:
        table = tables.read(tmp_path / "t.csv")
        assert dict(table.types) == {"id": "BIGINT", "age": "BIGINT", "sex": "VARCHAR"}
        encoded = _study().encode_file(tables, table)
    assert encoded.points[:, 0].tolist() == [0, 1, 0.5]
    assert encoded.points[:, 1:].round(2).tolist() == [[0, 0.71], [0.71, 0], [0, 0.71]]
    assert encoded.fits["sex"].outside == 0


def test_kinds_of_columns(tmp_path: Path) -> None:
    select = "select 1 as a, 1.5 as b, 'x' as c, date '2024-01-01' as d, timestamp '2024-01-01' as e, true as f"
    with Tables() as tables:
        table = tables.read(_parquet(tmp_path / "t.parquet", select))
    assert [table.kind(name) for name in "abcdef"] == ["number", "number", "text", "date", "date", "text"]


def test_a_column_of_another_kind_is_named_with_its_file(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "t.parquet", "select '4711' as age, 'Male' as sex")
    with Tables() as tables, pytest.raises(UnreadableData, match=r"column 'age' of .*t\.parquet holds text") as caught:
        _study().encode_file(tables, tables.read(path))
    assert "4711" not in str(caught.value)


def test_an_owner_without_rows_changes_no_type(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("age,sex\n")
    one = _parquet(tmp_path / "one.parquet", "select 40 as age, 'Male' as sex")
    with Tables() as tables:
        files = {"empty": tables.read(tmp_path / "empty.csv"), "one": tables.read(one)}
        assert _study().encode_file(tables, files["empty"]).points.shape == (0, 3)
        tables.write(tmp_path / "out.parquet", files, ["one"], [0])
    assert _rows(tmp_path / "out.parquet") == [(40, "Male", "one", 0)]


def test_levels_of_every_type_in_a_file(tmp_path: Path) -> None:
    path = _parquet(
        tmp_path / "t.parquet",
        "select * from (values (true, 2, 1.0::double, date '2024-05-31', 'x'), (null, null, null, null, null)) "
        "t(flag, whole, part, day, name)",
    )
    levels = {"flag": ("true",), "whole": ("1", "2"), "part": ("1",), "day": ("2024-05-31",), "name": ("x",)}
    with Tables() as tables:
        points = Study.of(levels).encode_file(tables, tables.read(path)).points
    assert (points > 0).tolist() == [[True, False, True, True, True, True], [False] * 6]


@pytest.mark.parametrize(
    ("name", "content", "error", "sentence"),
    [
        ("none.parquet", None, UnreadableData, "There is no file"),
        ("empty.csv", b"", UnreadableData, "is empty"),
        ("empty.parquet", b"", UnreadableData, "is empty"),
        ("text.parquet", b"age,sex\n4711,Male\n", UnreadableData, "cannot be read"),
        ("half.parquet", b"PAR1\x00\x00PAR1", UnreadableData, "cannot be read"),
        ("ragged.csv", b"age,sex\n4711\n", UnreadableData, "Line 2 of .* has fewer fields"),
        ("latin.csv", b"age,sex\n4711,\xff\xfe\n", UnreadableData, "cannot be read|UTF-8"),
        ("rows.jsonl", b'{"age": 4711}\n', UnknownFormat, "neither Parquet nor CSV"),
        ("rows.xlsx", b"4711", UnknownFormat, "an unknown file type"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, name: str, content: bytes | None, error: type[Exception], sentence: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with Tables() as tables, pytest.raises(error, match=sentence) as caught:
        tables.read(tmp_path / name)
    assert "4711" not in str(caught.value)


def test_a_file_without_a_column_of_the_study_is_named(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "t.parquet", "select 4711 as age")
    with Tables() as tables, pytest.raises(UnreadableData, match=r"t\.parquet has no column 'sex'") as caught:
        _study().encode_file(tables, tables.read(path))
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("name", ["owner", "Row", "__heathaze_row", "__heathaze_PLACE"])
def test_names_that_the_output_needs(tmp_path: Path, name: str) -> None:
    table = _parquet(tmp_path / "one.parquet", f"select 1 as age, 'x' as \"{name}\"")
    with Tables() as tables, pytest.raises(UnreadableData, match=f"(?i)has a column '{name}"):
        tables.check_names({"one": tables.read(table)})


VALUES = [
    "1", "1.5::double", "12345678901234567890123::hugeint", "date '2024-01-01'", "'x'", "true", "[1, 2]", "{'a': 1}",
    "'ab'::blob", "1.25::decimal(38, 9)", "timestamptz '2024-01-01 10:00:00+00'", "18446744073709551615::ubigint",
]  # fmt: skip


@pytest.mark.parametrize("one", VALUES)
def test_columns_of_any_two_types_stand_in_one_file(tmp_path: Path, one: str) -> None:
    """DuckDB alone would fail to bring many of them together, after everything is paid."""
    with Tables() as tables:
        first = tables.read(_parquet(tmp_path / "one.parquet", f"select {one} as x, 1 as a"))
        for number, other in enumerate(VALUES):
            second = tables.read(_parquet(tmp_path / f"{number}.parquet", f"select {other} as X"))
            tables.write(tmp_path / "out.parquet", {"one": first, "other": second}, ["other", "one"], [0, 0])
            found = duckdb.sql(f"select owner, row, x is null from '{tmp_path}/out.parquet'").fetchall()
            assert found == [("other", 0, False), ("one", 0, False)]


def test_nothing_prints_rows(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "t.parquet", "select 4711 as age from range(31)")
    with Tables() as tables:
        table = tables.read(path)
        assert isinstance(table, Table)
        assert table.rows == 31
        assert "31" not in repr(table).replace(str(tmp_path), "")
        assert repr(tables) == "<Tables>"
