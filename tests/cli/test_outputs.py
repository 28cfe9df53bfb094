"""Outputs that cannot be written are refused before anything is paid, and no option replaces an input file."""

from __future__ import annotations

from pathlib import Path

import pytest

import heathaze as hz
from tests.cli.conftest import NEW_YORK, Heathaze

NOWHERE = Path("/proc/heathaze")
"""Nobody, root included, can write a file beside this one."""

RIDES = ("--person", "user_id", "--trip", "user_id", "--time", "time", *NEW_YORK)
READINGS = (
    "--layout", "layout.csv", "--length", "1", "--diffusivity", "0.01", "--reach", "0.1", "--delta", "1e-5",
)  # fmt: skip

needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc, where nobody can write")


@needs_proc
@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("publish", ("--out", f"{NOWHERE}.html")),
        ("publish", ("--out", "a.html", "--out", f"{NOWHERE}.npz")),
        ("journeys", ("--out", f"{NOWHERE}.parquet")),
        ("journeys", ("--out", "a.parquet", "--picture", f"{NOWHERE}.png")),
        ("randomize", ("--out", f"{NOWHERE}.reports")),
        ("randomize journeys", ("--out", f"{NOWHERE}.reports")),
        ("sensors", ("--out", f"{NOWHERE}.csv")),
    ],
)
def test_an_output_that_cannot_be_written_costs_nothing(
    heathaze: Heathaze, visits: Path, command: str, wrong: tuple[str, ...]
) -> None:
    ledger = hz.Ledger.open("own.ledger", total=5, delta=1e-5)
    one = Path("one.csv")
    head, *lines = visits.read_text().splitlines()
    one.write_text(f"{head}\n{lines[0]}\n")
    Path("layout.csv").write_text("sensor,x\n1,0.2\n2,0.8\n")
    Path("readings.csv").write_text("sensor,time,value\n1,1,0.5\n2,1,0.25\n")
    paid = ("--epsilon", "1", "--ledger", "own.ledger")
    words = {
        "publish": ("publish", visits, "--person", "user_id", *NEW_YORK, *paid),
        "journeys": ("journeys", visits, *RIDES, *paid),
        "randomize": ("randomize", one, "--person", "user_id", *NEW_YORK, *paid),
        "randomize journeys": ("randomize", one, *RIDES, *paid),
        "sensors": ("sensors", "protect", "readings.csv", *READINGS, *paid),
    }[command]
    before = set(Path().iterdir())
    said = heathaze(*words, *wrong)
    assert said.code not in (0, 70)
    assert "annot write" in said.err
    assert ledger.spent == 0
    assert set(Path().iterdir()) == before
    good = "a" + Path(wrong[-1]).suffix
    done = heathaze(*words, *wrong[:-1], good)
    assert done.code == 0, done.err
    assert ledger.spent > 0


@pytest.mark.parametrize("command", ["publish", "journeys", "randomize"])
def test_no_option_replaces_a_file_that_a_pattern_names(heathaze: Heathaze, visits: Path, command: str) -> None:
    raw = visits.read_bytes()
    Path("raw").mkdir()
    for name in ("raw/one.parquet", "raw/two.csv"):
        Path(name).write_bytes(raw)
    Path("raw/one.parquet").rename("raw/one.csv")
    hidden = Path("raw/two.csv").rename("raw/two.npz" if command == "publish" else "raw/two.parquet")
    pattern = f"raw/*{hidden.suffix}"
    words = {
        "publish": ("publish", pattern, "--person", "user_id", *NEW_YORK, "--epsilon", "1"),
        "journeys": ("journeys", pattern, *RIDES, "--epsilon", "1"),
        "randomize": ("randomize", pattern, "--person", "user_id", *NEW_YORK, "--epsilon", "1"),
    }[command]
    said = heathaze(*words, "--format", "csv", "--out", hidden, "--overwrite")
    assert said.code not in (0, 70)
    assert "is also an input file" in said.err
    assert hidden.read_bytes() == raw


def test_no_option_replaces_a_backdrop(heathaze: Heathaze, visits: Path) -> None:
    outlines = '{"type": "Polygon", "coordinates": [[[-74, 40.6], [-73.9, 40.6], [-73.9, 40.7], [-74, 40.6]]]}'
    Path("districts.geojson").write_text(outlines)
    said = heathaze(
        "publish", visits, "--person", "user_id", *NEW_YORK, "--epsilon", "1", "--backdrop", "districts.geojson",
        "--out", "districts.geojson", "--overwrite",
    )  # fmt: skip
    assert "is also an input file" in said.err
    assert Path("districts.geojson").read_text() == outlines


def test_a_directory_is_no_ledger(heathaze: Heathaze, visits: Path) -> None:
    Path("folder").mkdir()
    publish = ("publish", visits, "--person", "user_id", *NEW_YORK, "--epsilon", "1", "--out", "a.npz", "--ledger")
    for words in (("ledger", "show"), publish):
        said = heathaze(*words, "folder")
        assert said.code not in (0, 70)
        assert "The ledger folder is a directory; name a file." in said.err
