"""Every command and every line of Python in the guides runs, in order, on the files that ``make demo`` writes."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import heathaze as hz
from heathaze.cli.main import run
from heathaze.datasets import city, rides, write_parquet
from heathaze.datasets.geography import city_geography, write_geojson

ROOT = Path(__file__).resolve().parents[2]
CHEAPER = {
    "plan": ["--cities", "1"],
    "rehearse": ["--size", "32"],
    "journeys": ["--squares", "16"],
    "trust": ["--size", "8", "--people", "300", "--cities", "1"],
}
"""Options that make a command quick; all others run as they are printed."""

CHEAPER_JOURNEYS = ["--squares", "16"]
"""The same for ``randomize`` with journeys."""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what ``make demo`` writes, though of fewer people."""
    table = city(people=400, visits=4000)
    demo = tmp_path / "demo"
    demo.mkdir()
    with duckdb.connect() as connection:
        connection.register("visits", table)
        connection.sql("select * from visits").write_parquet(str(demo / "visits.parquet"))
    write_geojson(city_geography(), demo / "outlines.geojson")
    write_parquet(rides(people=100), demo / "rides.parquet")
    grid = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=64)
    hz.publish(hz.central.default(grid, 1), hz.count(table, grid, person="person")).save(demo / "city.npz")
    monkeypatch.chdir(tmp_path)
    return demo


def follow(guide: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run all blocks of a guide in order; returns the names that its Python defines.

    Commands run in this process: to start Python and to import anew for each would take most of the time.
    """
    text = (ROOT / "docs" / "guide" / f"{guide}.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert blocks
    for language, block in blocks:
        if language == "python":
            exec(compile(block, f"{guide}.md", "exec"), names)
            continue
        for line in block.splitlines():
            command, *words = shlex.split(line)
            assert command == "heathaze", line
            of_journeys = words[0] == "randomize" and "--time" in words
            cheaper = CHEAPER_JOURNEYS if of_journeys else CHEAPER.get(words[0], [])
            monkeypatch.setattr(sys, "argv", [command, *words, *cheaper])
            with pytest.raises(SystemExit) as stopped:
                run()
            assert stopped.value.code in (0, None), line
    return names


def test_the_first_map(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = follow("first-map", monkeypatch)
    assert (clone / "march.html").exists()
    assert hz.Ledger.open(clone / "first.ledger").spent == 1
    assert names["release"].guarantee.trust.value == "central"


def test_your_files(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The council test: a CSV with semicolons and local times becomes a map with a title and districts, and a GeoTIFF.

    This takes two commands, and a third for person-days, which reads the local times.
    """
    follow("your-files", monkeypatch)
    page = (clone / "zaehlung.html").read_text(encoding="utf-8")
    assert "<h1>Where people walk and ride, October 2024</h1>" in page
    outlines = json.loads((clone / "outlines.geojson").read_text(encoding="utf-8"))
    districts = {one["properties"].get("name") for one in outlines["features"]} - {None}
    assert len(districts) > 3
    assert all(name in page for name in districts)
    assert (clone / "zaehlung.png").read_bytes().startswith(b"\x89PNG")
    assert hz.load(clone / "zaehlung.tif").guarantee.unit.value == "person"
    assert hz.load(clone / "rad.npz").guarantee.unit.value == "person-day"


def test_better_maps(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = follow("better-maps", monkeypatch)
    assert names["share"].low <= names["share"] <= names["share"].high
    assert (clone / "plan.png").exists()


def test_trust_nobody(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = follow("trust-nobody", monkeypatch)
    assert names["release"].guarantee.trust.value == "local"
    assert hz.Ledger.open(clone / "me.ledger").spent == 3.5
    assert 2.7 < (names["seen"].max(axis=0) / names["seen"].min(axis=0)).max() < 2.7183


def test_trust_a_shuffler(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = follow("trust-a-shuffler", monkeypatch)
    assert names["release"].guarantee.trust.value == "shuffler"
    assert names["mixed"].people == 120
    assert names["study"].digest == names["server"].study.digest
    assert hz.Ledger.open(clone / "shuffled.ledger").spent == pytest.approx(2, rel=0.01)
    assert 5.7 < names["reports"].alone < 5.75
    assert names["in_rounds"].guarantee.people == 10
    assert not any(names[name].simulated for name in ("release", "in_rounds"))
    assert (clone / "trust.png").stat().st_size > 20_000


def test_trust_a_sum(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = follow("trust-a-sum", monkeypatch)
    assert names["release"].guarantee.trust.value == "secure-sum"
    assert not names["release"].simulated


def test_journeys(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = follow("journeys", monkeypatch)
    assert len(names["made"].lines) == 500
    assert names["made"].guarantee.unit.value == "person"
    assert 0 < names["density"] < names["trips"] < 0.693
    assert (clone / "made-up.png").stat().st_size > 10_000
    assert (clone / "by-hour.html").stat().st_size > 100_000
    assert hz.Ledger.open(clone / "rides.ledger").spent == 2.5
    assert len(names["report"]) == 1
    assert names["unseen"].guarantee.trust.value == "local"
    assert (clone / "from-reports.parquet").stat().st_size > 1000
    assert (clone / "from-reports.png").stat().st_size > 10_000
    assert (clone / "again.png").stat().st_size > 10_000


def test_heat_through_walls(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = follow("heat-through-walls", monkeypatch)
    assert names["noisy"].guarantee.reach == "0.01 metres"
    assert names["found"].found
    assert isinstance(names["answer"], int)
    assert (clone / "room" / "sources.png").exists()


def test_buying_data(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = follow("buy-data", monkeypatch)
    for purchase in (names["purchase"], names["curator"].purchase):  # in one process, and by hand
        assert len(purchase.rows) == 500
        assert not purchase.simulated
    assert (clone / "market" / "purchase.png").exists()
    assert hz.Ledger.open(clone / "market" / "hills.ledger").spent > 0


def test_every_guide_is_followed() -> None:
    guides = {path.stem.replace("-", "_") for path in (ROOT / "docs" / "guide").glob("*.md")}
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    renamed = {"first_map": "the_first_map", "buy_data": "buying_data"}
    assert {renamed.get(guide, guide) for guide in guides} <= tested
