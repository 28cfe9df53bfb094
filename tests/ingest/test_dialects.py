"""Files as people have them: other encodings, separators, decimal commas and row filters, all of them declared."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.ingest.count import count
from heathaze.ingest.positions import positions

GRID = Grid.plane(x=(0, 4), y=(0, 1), shape=(1, 4))
ROWS = [("Änne", "0.5", "0.5", "walk"), ("Änne", "1.5", "0.5", "ride"), ("Bo", "2.5", "0.5", "walk")]


def text(separator: str = ";", decimal: str = ",") -> str:
    rows = [
        ("who", "x", "y", "kind"),
        *((w, x.replace(".", decimal), y.replace(".", decimal), k) for w, x, y, k in ROWS),
    ]
    return "".join(separator.join(row) + "\n" for row in rows)


def counted(source: Any, **options: Any) -> list[int]:
    found: list[int] = count(source, GRID, **{"person": "who", "mass": 12, **options}).dense()[0].tolist()
    return found


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "windows-1252", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_declared_encodings(tmp_path: Path, encoding: str, packed: bool) -> None:
    content = text().encode(encoding)
    path = tmp_path / ("v.csv.gz" if packed else "v.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert counted(path, encoding=encoding, decimal=",") == [6, 6, 12, 0]


@settings(max_examples=15)
@given(
    names=st.lists(st.text(st.characters(codec="cp1252", exclude_characters='";\r\n\0\ufffd'), min_size=1), min_size=1)
)
def test_a_single_byte_encoding_keeps_people_apart(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.mktemp("bytes") / "v.csv"
    path.write_bytes(("who;x;y\n" + "".join(f"{name};0.5;0.5\n" for name in names)).encode("cp1252"))
    assert counted(path, encoding="windows-1252") == [12 * len(set(names)), 0, 0, 0]


def test_tabs_by_the_ending_of_the_name(tmp_path: Path) -> None:
    path = tmp_path / "v.tsv"
    path.write_text(text("\t", "."))
    assert counted(path) == [6, 6, 12, 0]
    with pytest.raises(InvalidInput, match="A tsv file has no separator ';'"):
        counted(path, separator=";")


def test_a_declared_separator_and_format(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("who|a;b;c;d|x|y\nAnn|-|0.5|0.5\n")
    assert counted(path, format="csv", separator="|") == [12, 0, 0, 0]
    with pytest.raises(UnreadableData, match=r"Line 2 of .* has fewer fields"):
        counted(path, format="csv")  # the most frequent separator of the header is the semicolon


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"decimal": ","}, "not written in UTF-8; save it as UTF-8, or declare its encoding"),
        ({"encoding": "utf-16", "decimal": ","}, "does not begin with the mark of UTF-16"),
        ({"encoding": "latin-1"}, "Column 'x' holds text that is not a number"),
        ({"encoding": "latin-1", "decimal": ",", "only": {"sort": "walk"}}, "no column 'sort'"),
        ({"encoding": "ebcdic"}, "There is no encoding 'ebcdic'"),
        ({"separator": "-"}, "The separator '-' is not known"),
        ({"decimal": "x"}, "The decimal sign is 'x'"),
        ({"format": "xls"}, "There is no format 'xls'"),
        ({"layer": "a"}, "A csv file has no layers"),
        ({"only": {"kind": 1.5}}, r"only\['kind'\] is 1.5"),
        ({"only": "kind=walk"}, "The row filter"),
    ],
)
def test_a_dialect_that_does_not_fit(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "v.csv"
    path.write_bytes(text().encode("latin-1"))
    with pytest.raises(InvalidInput, match=sentence) as refusal:
        counted(path, **options)
    assert "nne" not in str(refusal.value)


def test_bytes_that_an_encoding_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_bytes(b"who;x;y\na\x81;0.5;0.5\n")
    with pytest.raises(UnreadableData, match=r"v.csv' is not written in windows-1252"):
        counted(path, encoding="windows-1252")


@pytest.mark.parametrize("number", ["1.234,5", "1.234"])
def test_thousands_are_not_decimals(tmp_path: Path, number: str) -> None:
    path = tmp_path / "v.csv"
    path.write_text(f"who;x;y\nAnn;{number};0,5\n")
    with pytest.raises(UnreadableData, match="not a number with a decimal comma"):
        counted(path, decimal=",")


def test_an_encoding_belongs_to_text(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"who": ["a"], "x": [0.5], "y": [0.5]}), tmp_path / "v.parquet")
    with pytest.raises(InvalidInput, match="A parquet file has no encoding latin-1"):
        counted(tmp_path / "v.parquet", encoding="latin-1")


# ── row filters ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_row_is_kept_by_its_own_values(tmp_path: Path) -> None:
    rows = {
        "who": ["a", "a", "b", None],
        "x": [0.5, 1.5, 2.5, 3.5],
        "y": [0.5] * 4,
        "kind": ["walk", "ride", "walk", "bot"],
        "floor": [1, 1, 2, 1],
    }
    table = pa.table(rows)
    assert counted(table, only={"kind": "walk"}) == [12, 0, 12, 0]
    assert counted(table, only={"kind": ["walk", "ride"]}) == [6, 6, 12, 0]
    assert counted(table, only={"kind": "walk", "floor": 2}) == [0, 0, 12, 0]
    assert counted(table, only={"who": "a"}) == [6, 6, 0, 0]
    assert counted(table, person=None, only={"floor": "1"}) == [12, 12, 0, 12]
    path = tmp_path / "v.jsonl"
    path.write_text(
        "".join(json.dumps(dict(zip(rows, row, strict=True))) + "\n" for row in zip(*rows.values(), strict=True))
    )
    assert counted(path, only={"kind": "walk", "floor": 2}) == [0, 0, 12, 0]
    assert len(positions(path, GRID, person="who", only={"kind": ["walk", "ride"]})) == 2
    with pytest.raises(UnreadableData, match="A visit has no person"):
        counted(table)  # the row without a person is only ignored where the filter drops it


def test_a_filter_does_not_compare_fractions() -> None:
    table = pa.table({"who": ["a"], "x": [0.5], "y": [0.5], "speed": [1.5]})
    with pytest.raises(UnreadableData, match="Column 'speed' holds numbers with a fraction"):
        counted(table, only={"speed": "1.5"})
