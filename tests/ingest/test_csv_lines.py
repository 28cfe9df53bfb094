"""CSV files that are read are read alike by everybody; the others are refused."""

from __future__ import annotations

import codecs
import csv
import io
import re
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.errors import UnreadableData
from heathaze.ingest import csv_lines
from heathaze.ingest.csv_lines import LONGEST_LINE, check_csv

HEADER = b"a,b,c\n"


def verdict(content: bytes, fields: int = 3, separator: str = ",") -> str:
    """The sentence of the refusal, or nothing."""
    try:
        check_csv(io.BytesIO(content), "'v.csv'", separator, fields)
    except UnreadableData as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize(
    "rows",
    [
        b"",
        b"1,2,3\n4,5,6\n",
        b"1,2,3\n4,5,6",
        b"\n1,2,3\n\n\n",
        b'"1","2","3"\n"",,"x,y"\n',
        b'"a""b","""",""""""\n',
        b" a ,\tb, c \n",
        "Zoë,山田,😀\n".encode(),
        b"a\x1a,\x0b,\x0c\n",
        b"#,--,;\n",
        b"1,2," + b"x" * (LONGEST_LINE - 10) + b"\n",
    ],
)
def test_files_that_are_read(rows: bytes) -> None:
    assert verdict(HEADER + rows) == ""
    assert verdict(codecs.BOM_UTF8 + b'"a",b,c\n' + rows) == ""
    windows = (HEADER + rows).replace(b"\n", b"\r\n")
    assert verdict(windows) == ""


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (b'1,2,"3\n4",5,6\n', "Line 2 of 'v.csv' opens a quotation mark that does not close on the same line"),
        (b'1,2,"3', "Line 2 .* does not close"),
        (b'1,2,"3\r\n4"\n', "Line 2 .* does not close"),
        (b'x,y,5" pipe\n', "Line 2 .* quotation mark inside a field"),
        (b'x, "y",z\n', "Line 2 .* quotation mark inside a field"),
        (b'x,"y" ,z\n', "Line 2 .* quotation mark inside a field"),
        (b'x,"y"z,z\n', "Line 2 .* quotation mark inside a field"),
        (b"1,2,3\n1,2\n", "Line 3 .* fewer fields than the header"),
        (b"   \n", "Line 2 .* fewer fields"),
        (b"1,2,3,\n", "Line 2 .* more fields than the header"),
        (b"1,2,3\r\n", "Line 2 .* ends in another way than the first line"),
        (b"1,2,3\r", "Line 2 .* ends in another way"),
        (b"1,\r2,3\n", "Line 2 .* carriage return inside"),
        (b'1,"\r2",3\n', "Line 2 .* carriage return inside"),
        (b"1,\x002,3\n", "Line 2 .* NUL byte"),
        (b'1,"\x002",3\n', "Line 2 .* NUL byte"),
        (b"1,2,\xff\n", "is not written in UTF-8"),
        (b"1,2,\xc3", "is not written in UTF-8"),
        (b"1,2," + b"x" * LONGEST_LINE + b"\n", "Line 2 .* longer than"),
        (b"x" * (12 * LONGEST_LINE), "Line 2 .* longer than"),
    ],
)
def test_files_that_are_refused(rows: bytes, words: str) -> None:
    assert re.search(words, verdict(HEADER + rows))


def test_a_mark_before_a_quoted_name_with_a_separator() -> None:
    """DuckDB reads no row of such a file."""
    for header in (b'"a,";b;c\n', b'"a";b;c\n', b'a;"b;";c\n'):
        assert verdict(codecs.BOM_UTF8 + header + b"1;2;3\n", separator=";") == ""
    refused = verdict(codecs.BOM_UTF8 + b'"a;";b;c\n1;2;3\n', separator=";")
    assert re.match("Line 1 of 'v.csv' has a byte order mark before a quoted name that contains the separator", refused)


def test_rows_are_counted() -> None:
    for rows in (0, 1, 5000):
        for blank in (b"", b"\n", b"\n\n"):
            content = codecs.BOM_UTF8 + HEADER + blank + b'1,"2",3\n' * rows
            assert check_csv(io.BytesIO(content + blank), "'v.csv'", ",", 3) == rows
            assert check_csv(io.BytesIO(content.rstrip(b"\n")), "'v.csv'", ",", 3) == rows


def test_lines_are_counted_across_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for chunk in (1, 2, 7, 64):
        monkeypatch.setattr(csv_lines, "_CHUNK", chunk)
        assert verdict(HEADER + "é,2,3\n".encode() * 50) == ""
        assert "Line 52 of" in verdict(HEADER + "é,2,3\n".encode() * 50 + b"4,5\n")


SIGNS = ["a", "1.5", "é", " ", "\\", "'", "#", "\t", ";", ",", '""']
QUOTED = st.lists(st.sampled_from(SIGNS), max_size=4).map(lambda signs: f'"{"".join(signs)}"')
PLAIN = st.lists(st.sampled_from(SIGNS[:-2]), max_size=3).map("".join)
ODD = st.sampled_from(['"', '"a', 'a"', '"a"b', ' "a"', "a\n", "a\r", '"\n"', "a,"])
FIELD = st.one_of(PLAIN, QUOTED, PLAIN, QUOTED, PLAIN, QUOTED, ODD)
ROWS = st.lists(st.lists(FIELD, min_size=3, max_size=3).map(",".join), max_size=5).map("\n".join)


def test_what_passes_is_read_alike(tmp_path: Path) -> None:
    """Python's reader in its strict mode is the third opinion, beside this check and DuckDB."""
    passed = []

    @settings(max_examples=500, deadline=None, derandomize=True)
    @given(rows=ROWS, end=st.sampled_from(["", "\n", "\n\n"]), windows=st.booleans())
    def compare(rows: str, end: str, windows: bool) -> None:
        content = "a,b,c\n" + rows + end
        if windows:
            content = content.replace("\n", "\r\n")
        passed.append(not verdict(content.encode()))
        if not passed[-1]:
            return
        expected = [row for row in csv.reader(io.StringIO(content, newline=""), strict=True) if row][1:]
        path = tmp_path / "v.csv"
        path.write_bytes(content.encode())
        columns = "{a: 'VARCHAR', b: 'VARCHAR', c: 'VARCHAR'}"
        found = connection.execute(
            f"select * from read_csv(?, columns = {columns}, header = true, auto_detect = false, delim = ',', "
            "quote = '\"', escape = '\"', hive_partitioning = false)",
            [str(path)],
        ).fetchall()
        assert [[field or "" for field in row] for row in found] == expected

    with duckdb.connect() as connection:
        compare()
    assert 100 < sum(passed) < len(passed) - 100
