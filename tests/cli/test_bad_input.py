"""What bad input gets: a sentence, a non-zero exit, no budget spent, no half-written file, nothing secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heathaze as hz
from tests.cli.conftest import NEW_YORK, Heathaze

GOOD = {"--lon": (-74.10, -73.78), "--lat": (40.58, 40.90), "--person": ("user_id",), "--epsilon": (1,)}

BAD_OPTIONS = [
    ({"--epsilon": (0,)}, "epsilon is 0"),
    ({"--epsilon": (-1,)}, "epsilon is -1"),
    ({"--epsilon": ("nan",)}, "not a number"),
    ({"--epsilon": ("inf",)}, "infinite"),
    ({"--lon": (-73, -74)}, "reversed"),
    ({"--lon": (-200, -73)}, "outside −180"),
    ({"--lon": (40.58, 40.90), "--lat": (-174.1, -173.78)}, "swapped"),
    ({"--lon": (40.58, 40.90), "--lat": (-74.1, -73.78)}, "swapped"),
    ({"--lon": (10, 11)}, "No visit lies inside"),
    ({"--lat": None}, "--lat SOUTH NORTH"),
    ({"--size": (0,)}, "size is 0"),
    ({"--size": (2**20 + 1,)}, "1048577"),
    ({"--at-most": (0,)}, "at_most is 0|at-most is 0"),
    ({"--person": ("nobody",)}, "nobody"),
    ({"--person": None}, "--person"),
    ({"--lon-column": ("longitude",)}, "longitude"),
    ({"--lon-column": ("lat",), "--lat-column": ("lon",)}, "swapped"),
    ({"--lon-column": ("user_id",)}, "user_id"),
    ({"--weight": ("heavy",)}, "heavy"),
    ({"--weight": ("presence",)}, "at_most|at-most"),
    ({"--unit": ("household",)}, "household"),
    ({"--unit": ("person-day",)}, "time"),
    ({"--mechanism": ("magic",)}, "magic"),
    ({"--mechanism": ("dense",)}, "dense needs --people"),
    ({"--people": (300,)}, "adaptive-tree chooses its resolution without it"),
    ({"--mechanism": ("pyramid",), "--people": (300,)}, "--people goes with"),
    ({"--mechanism": ("adaptive-grid",), "--people": (0,)}, "people is 0"),
    ({"--mechanism": ("priv-tree",), "--w": (5,)}, "--w goes with"),
    ({"--share": (0.1,)}, "--share"),
    ({"--engine": ("abacus",)}, "abacus"),
    ({"--projection": ("globe",)}, "globe"),
    ({"--out": ("map.docx",)}, "docx"),
    ({"--out": ("map",)}, "map"),
    ({"--out": ("nowhere/map.html",)}, "nowhere"),
    ({"--ledger": ("absent.ledger",)}, "absent.ledger"),
    ({"--backdrop": ("absent.geojson",)}, "absent.geojson is no file"),
    ({"--backdrop": ("districts.kml",)}, "'.kml'"),
    ({"--separator": ("semicolon",)}, "the separator is probably comma"),
    ({"--separator": ("|",)}, "is a bar, but .* the separator is probably comma"),
    ({"--format": ("tsv",)}, "is a tab, but .* the separator is probably comma"),
    ({"--format": ("parquet",)}, "not what its ending says"),
    ({"--decimal": ("comma",)}, "not a number with a decimal comma"),
    ({"--encoding": ("utf-16",)}, "does not begin with the mark of UTF-16"),
    ({"--unit": ("person-day",), "--time": ("time",), "--time-format": ("%d.%m.%Y",)}, "name the format in which"),
    ({"--unit": ("person-day",), "--time": ("time",), "--time-format": ("seconds",)}, "seconds since 1970; correct it"),
    ({"--unit": ("person-day",), "--time": ("time",), "--time-zone": ("Mars/Olympus",)}, "no time zone 'Mars"),
    ({"--only": ("colour=red",)}, "colour"),
    ({"--only": ("user_id=Nobody",)}, "No row fits the row filter .only.: 'user_id' is 'Nobody'.*capitals"),
]


def words(**changes: object) -> list[object]:
    chosen = GOOD | {"--out": ("map.npz",)} | changes
    return [word for name, values in chosen.items() if values is not None for word in (name, *values)]  # type: ignore[misc]


@pytest.mark.parametrize(("changes", "sentence"), BAD_OPTIONS)
def test_bad_options(heathaze: Heathaze, visits: Path, changes: dict[str, object], sentence: str) -> None:
    ledger = hz.Ledger.open("budget.ledger", total=5)
    said = heathaze("publish", visits, *words(**({"--ledger": ("budget.ledger",)} | changes)))
    check_refusal(said, sentence, visits)
    assert ledger.spent == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"--epsilon": ("0,5",)}, "'0,5' is not a number; write a decimal point: 0.5."),
        ({"--epsilon": ("abc",)}, "'abc' is not a number."),
        ({"--lon": ("-74,10", "-73,78")}, "'-74,10' is not a number; write a decimal point: -74.10."),
        ({"--lon": (-74.1,)}, "--lon needs 2 values, with a blank between them, and 1 was given."),
        ({"--size": (2.5,)}, "'2.5' is not a whole number."),
    ],
)
def test_values_that_are_no_numbers(
    heathaze: Heathaze, visits: Path, changes: dict[str, object], sentence: str
) -> None:
    ledger = hz.Ledger.open("budget.ledger", total=5)
    said = heathaze("publish", visits, *words(**({"--ledger": ("budget.ledger",)} | changes)))
    assert said.code == 2
    assert sentence in " ".join(said.err.replace("│", " ").split())
    assert ledger.spent == 0


def test_the_last_pair_without_its_second_number(heathaze: Heathaze, visits: Path) -> None:
    said = heathaze("publish", visits, *words(**{"--lon": None}), "--lon", "15,36")
    assert said.code == 2
    assert "--lon needs 2 values, with a blank between them, and 1 was given; write a decimal point: 15.36." in (
        " ".join(said.err.replace("│", " ").split())
    )


BAD_FILES = {
    "empty.csv": (b"", "empty"),
    "header.csv": (b"user_id,lon,lat\n", "not a single row"),
    "text.csv": (b"user_id,lon,lat\na,-73.9,40.7\nb,east,40.7\n", "lon"),
    "null.csv": (b"user_id,lon,lat\na,-73.9,40.7\n,-73.9,40.7\n", "user_id"),
    "broken.parquet": (b"PAR1 this is no parquet", "broken.parquet"),
    "broken.csv.gz": (b"this is no gzip", "broken.csv.gz"),
    "visits.xlsx": (b"what", "xlsx"),
    "broken.jsonl": (b'{"user_id": "a", "lon": -73.9', "broken.jsonl"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(heathaze: Heathaze, tmp_path: Path, name: str) -> None:
    content, sentence = BAD_FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    ledger = hz.Ledger.open("budget.ledger", total=5)
    said = heathaze("publish", path, *words(**{"--ledger": ("budget.ledger",)}))
    check_refusal(said, sentence, None)
    assert "-73.9" not in said.err
    assert "east" not in said.err
    assert ledger.spent == 0


def _outlines(path: Path, *corners: tuple[float, ...]) -> None:
    ring = [list(corner) for corner in (*corners, corners[0])]
    path.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}), encoding="utf-8")


BAD_BACKDROPS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "large.geojson": (lambda path: (path.touch(), os.truncate(path, 3 * 2**30)), "has 3.0 GiB, and 0.125 GiB is the"),
    "metres.geojson": (lambda path: _outlines(path, (583e3, 45e5), (584e3, 45e5), (584e3, 451e4)), "names no"),
    "broken.geojson": (lambda path: _outlines(path, (-74, 40.6), (-73.9,), (-73.9, 40.7)), "Feature 1 .* broken"),
    "bow-tie.geojson": (
        lambda path: _outlines(path, (-74, 40.6), (-73.9, 40.7), (-73.9, 40.6), (-74, 40.7)),
        "An outline of feature 1 .* crosses itself",
    ),
    "elsewhere.geojson": (lambda path: _outlines(path, (0, 0), (1, 0), (1, 1)), "no line, area or named point"),
    "damaged.gpkg": (lambda path: path.write_bytes(b"SQLite format 3"), "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_BACKDROPS)
def test_bad_backdrops(heathaze: Heathaze, visits: Path, tmp_path: Path, name: str) -> None:
    make, sentence = BAD_BACKDROPS[name]
    make(tmp_path / name)
    ledger = hz.Ledger.open("budget.ledger", total=5)
    changes = {"--ledger": ("budget.ledger",), "--out": ("map.png",), "--backdrop": (str(tmp_path / name),)}
    check_refusal(heathaze("publish", visits, *words(**changes)), sentence, visits)
    assert not Path("map.png").exists()
    assert ledger.spent == 0


def test_no_such_file(heathaze: Heathaze) -> None:
    check_refusal(heathaze("publish", "nowhere.csv", *words()), "nowhere.csv", None)


def test_odd_rows_count_as_absent(heathaze: Heathaze, tmp_path: Path) -> None:
    """NaN, infinite and missing coordinates, and places outside the box, are no error: the row is not there."""
    rows = ["a,-73.9,40.7", "b,nan,40.7", "c,inf,40.7", "d,-73.9,", "e,0,0", "f,-73.9,-inf"]
    (tmp_path / "odd.csv").write_text("user_id,lon,lat\n" + "\n".join(rows) + "\n", encoding="utf-8")
    assert heathaze("publish", "odd.csv", *words()).code == 0


@pytest.mark.parametrize(
    "content", [b"", b"not a ledger at all", bytes(range(256)) * 16], ids=["empty", "text", "bytes"]
)
def test_a_corrupt_ledger(heathaze: Heathaze, visits: Path, content: bytes) -> None:
    Path("bad.ledger").write_bytes(content)
    check_refusal(heathaze("publish", visits, *words(**{"--ledger": ("bad.ledger",)})), "bad.ledger", visits)
    assert Path("bad.ledger").read_bytes() == content


def test_a_ledger_opened_with_another_total(heathaze: Heathaze) -> None:
    assert heathaze("ledger", "open", "a.ledger", "--total", 2).code == 0
    assert heathaze("ledger", "open", "a.ledger", "--total", 2).code == 0
    check_refusal(heathaze("ledger", "open", "a.ledger", "--total", 3), "a.ledger", None)
    check_refusal(heathaze("ledger", "show", "missing.ledger"), "missing.ledger", None)


def test_an_output_that_exists_is_kept(heathaze: Heathaze, visits: Path) -> None:
    Path("map.npz").write_text("precious", encoding="utf-8")
    check_refusal(heathaze("publish", visits, *words()), "--overwrite", visits)
    assert Path("map.npz").read_text(encoding="utf-8") == "precious"
    assert heathaze("publish", visits, *words(), "--overwrite").code == 0


def test_a_full_disk_costs_nothing(heathaze: Heathaze, visits: Path) -> None:
    """A real limit on the size of files, in a process of its own: found out before the ledger is charged."""
    ledger = hz.Ledger.open("budget.ledger", total=5)
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000));"
        "from heathaze.cli.main import run; run()"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, "publish", str(visits), *map(str, words(**{"--ledger": ("budget.ledger",)}))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 1
    assert "no room" in said.stderr
    assert ledger.spent == 0
    assert not Path("map.npz").exists()
    assert [path.name for path in Path().iterdir() if path.name.startswith(".heathaze")] == []


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"{}"])
@pytest.mark.parametrize("name", ["bad.npz", "bad.parquet", "bad.geojson", "bad.tif", "bad.html", "bad.xyz"])
def test_a_release_that_is_none(heathaze: Heathaze, name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    check_refusal(heathaze("show", name), name.split(".")[1], None)


def test_an_unforeseen_error_shows_no_data(heathaze: Heathaze, visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise RuntimeError("person-7 at -73.951234")

    monkeypatch.setattr("heathaze.ingest.count.count", explode)
    said = heathaze("publish", visits, *words())
    assert said.code == 70
    assert "RuntimeError" in said.err
    assert "person-7" not in said.err + said.out


def check_refusal(said: object, sentence: str, visits: Path | None) -> None:
    import re

    assert said.code not in (0, 70), said  # type: ignore[attr-defined]
    assert re.search(sentence, said.err), said.err  # type: ignore[attr-defined]
    assert "Traceback" not in said.err  # type: ignore[attr-defined]
    assert not Path("map.npz").exists() or visits is not None
    if visits is not None:
        for line in visits.read_text(encoding="utf-8").splitlines()[1:40]:
            person, lon, lat, _ = line.split(",")
            for secret in (person, lon, lat):
                assert secret not in said.err.replace(str(visits), "")  # type: ignore[attr-defined]


assert NEW_YORK  # the same box as in the good options above
