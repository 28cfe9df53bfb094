"""Files and pictures of made-up journeys, the command, and the attack on a planted commute."""

from __future__ import annotations

import dataclasses
import json
import math
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import numpy as np
import pytest
from matplotlib.figure import Figure

import heathaze as hz
from heathaze.datasets import rides, write_parquet
from heathaze.errors import InvalidInput, UnknownFormat
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.ledger import Budget
from heathaze.trajectories import draw

ROOT = Path(__file__).resolve().parents[2]
GRID = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=64)


@pytest.fixture(scope="module")
def secret() -> hz.trajectories.Journeys:
    return hz.trajectories.read(rides(people=60), GRID, person="person", trip="trip", time="time")


@pytest.fixture(scope="module")
def made(secret) -> hz.trajectories.MadeUp:
    return hz.trajectories.publish(hz.trajectories.JourneyTrees(GRID, 2, squares=16), secret, number=25)


def test_the_unit_of_synthetic_rides_is_a_person(secret) -> None:
    assert secret.units == 60
    assert np.bincount(secret.owner).max() == 100


def test_geoparquet_has_a_row_for_each_point(made, tmp_path: Path) -> None:
    made.save(tmp_path / "made.parquet")
    with duckdb.connect() as base:
        rows = base.execute(
            "select journey, step, lon, lat, geometry from read_parquet(?) order by all",
            [str(tmp_path / "made.parquet")],
        ).fetchnumpy()
        notes = dict(
            base.execute("select key, value from parquet_kv_metadata(?)", [str(tmp_path / "made.parquet")]).fetchall()
        )
    assert (rows["lon"] == made.lines.x).all()
    assert (rows["lat"] == made.lines.y).all()
    assert rows["step"][:2].tolist() == [0, 1]
    assert len(rows["geometry"][0]) == 21
    about = json.loads(notes[b"heathaze"])
    assert about["kind"] == "made-up journeys"
    assert about["guarantee"]["unit"] == "person"
    assert json.loads(notes[b"geo"])["primary_column"] == "geometry"


def test_geojson_has_a_line_for_each_journey(made, tmp_path: Path) -> None:
    lines = made.save(tmp_path / "made.geojsonl").read_text(encoding="utf-8").splitlines()
    features = [json.loads(line) for line in lines]
    assert len(features) == 25
    assert features[3]["geometry"]["coordinates"][0] == pytest.approx(
        [made.lines.x[made.lines.offsets[3]], made.lines.y[made.lines.offsets[3]]], abs=1e-6
    )


def test_gpx_can_be_read_again(made, tmp_path: Path) -> None:
    tree = ElementTree.parse(made.save(tmp_path / "made.gpx"))
    assert sum(element.tag.endswith("}trkpt") for element in tree.iter()) == len(made.lines.x)
    found = hz.trajectories.read(
        {"n": np.zeros(3, int), "t": [1, 2, 3], "lon": made.lines.x[:3], "lat": made.lines.y[:3]},
        GRID, person="n", trip=None, pause=5, time="t",
    )  # fmt: skip
    assert len(found.lines) == 1


def test_other_endings_are_refused(made, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"\.parquet, \.geojsonl, \.gpx"):
        made.save(tmp_path / "made.shp")
    plane = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
    rows = {"n": [1, 1], "t": [1, 2], "x": [1, 5], "y": [1, 5]}
    flat = hz.trajectories.read(rows, plane, person="n", trip=None, pause=9, time="t")
    model = hz.trajectories.JourneyTrees(plane, 1, squares=8)
    with pytest.raises(InvalidInput, match="GPX"):
        hz.trajectories.publish(model, flat, number=2).save(tmp_path / "made.gpx")


def watch_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the texts of pictures, without their line breaks, while they are drawn."""
    texts: list[str] = []
    write = Figure.text

    def watched(figure: Figure, x: float, y: float, text: str, **more: Any) -> Any:
        texts.append(text.replace("\n", " "))
        return write(figure, x, y, text, **more)

    monkeypatch.setattr(Figure, "text", watched)
    return texts


def test_a_picture_states_what_is_promised_when_it_was_made_and_what_calls_for_caution(
    made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = watch_texts(monkeypatch)
    draw(dataclasses.replace(made, caution="Few reports."), tmp_path / "made.png", title="Rides", source="the city")
    said = " ".join(texts).replace("\u00a0", " ")
    assert texts[0] == "Rides"
    assert "Whether any one person is in the data changes the chance of any result by at most a factor of 7.39" in said
    assert "ε = 2 (pure, δ = 0); unit: person" in said
    assert "Made-up journeys: 25" in texts
    assert "2 km" in texts
    assert made.provenance.day[:4] in texts[-1]
    assert texts[-1].endswith("Source: the city")
    assert "nobody made. Few reports." in said
    assert "resemble" not in said
    page = draw(made, tmp_path / "made.html", title="<Rides>", source="<the city>").read_text(encoding="utf-8")
    assert "<h1>&lt;Rides&gt;</h1>" in page
    assert "&lt;the city&gt;" in page


def test_a_picture_with_the_truth_says_that_it_is_not_private(made, secret, tmp_path: Path) -> None:
    alone = draw(made, tmp_path / "made.png")
    beside = draw(made, tmp_path / "both.png", truth=secret.lines)
    assert beside.stat().st_size > alone.stat().st_size > 10_000
    with pytest.raises(InvalidInput, match="never shows true journeys"):
        draw(made, tmp_path / "both.html", truth=secret.lines)
    with pytest.raises(UnknownFormat, match=r"\.png or \.html"):
        draw(made, tmp_path / "made.pdf")
    assert not list(tmp_path.glob("*.html"))
    assert "Made-up journeys" in draw(made, str(tmp_path / "made.html")).read_text(encoding="utf-8")


def test_a_picture_of_simulated_journeys_says_so_and_a_narrow_map_makes_no_huge_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = watch_texts(monkeypatch)
    narrow = hz.Grid.plane(x=(0, 1), y=(0, 1000), size=8)
    rows = {"n": [1, 1], "t": [1, 2], "x": [0.1, 0.9], "y": [1, 5]}
    journeys = hz.trajectories.read(rows, narrow, person="n", pause=9, time="t")
    model = hz.trajectories.JourneyTrees(narrow, 1, squares=8)
    for randomness, expected in ((None, "Made-up journeys"), (hz.Simulation(1), "SIMULATED")):
        made = hz.trajectories.publish(model, journeys, number=2, randomness=randomness)
        texts.clear()
        draw(made, tmp_path / "made.png", title="" if randomness is None else "Rides")
        assert texts[0].partition(":")[0] == expected
        assert ("No single person can be recognised" in " ".join(texts)) == (randomness is None)
        height = int.from_bytes((tmp_path / "made.png").read_bytes()[20:24], "big")
        assert height < 4_000


@pytest.mark.parametrize("speed", [1e-308, 1e-7, 1e7, 1e308, 0, float("nan")])
def test_an_absurd_speed_is_refused_before_a_charge(secret, speed: float) -> None:
    budget = Budget(1)
    with pytest.raises(InvalidInput, match="metres per second"):
        hz.trajectories.publish(hz.trajectories.default(secret.grid, 1), secret, number=2, speed=speed, ledger=budget)
    assert budget.spent == 0


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int | None]:
    """Run ``heathaze journeys`` in a folder with a file of rides; return the exit code."""
    from heathaze.cli.main import run

    write_parquet(rides(people=40), tmp_path / "rides.parquet")
    monkeypatch.chdir(tmp_path)

    def code(file: str, *more: str, time: str = "time") -> int | None:
        where = ["--lon", "9.9", "10.1", "--lat", "53.5", "53.62", "--time", time, "--epsilon", "1"]
        monkeypatch.setattr("sys.argv", ["heathaze", "journeys", file, *where, "--squares", "8", *more])
        with pytest.raises(SystemExit) as stopped:
            run()
        return stopped.value.code

    return code


def test_the_command(command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def code(*more: str) -> int | None:
        return command("rides.parquet", "--trip", "trip", "--number", "9", *more)

    assert code("--person", "person", "--out", "a.gpx", "--json") in (0, None)
    printed = json.loads(capsys.readouterr().out)
    assert printed["journeys"] == 9
    assert printed["guarantee"]["unit"] == "person"
    assert code("--out", "b.gpx") == 1
    assert "--unit trip" in capsys.readouterr().err.replace("\n", " ")
    assert code("--person", "person", "--out", "b.kml") == 1
    assert code("--person", "person", "--out", "a.gpx") == 1  # it exists already
    assert code("--person", "person", "--out", "b.gpx", "--picture", "b.pdf") == 1
    assert code("--person", "person", "--out", "b.gpx", "--picture", "b.html", "--beside-truth") == 1
    assert "never shows true journeys" in capsys.readouterr().err.replace("\n", " ")
    assert code("--person", "person", "--out", "b.gpx", "--speed", "0") == 1
    assert not (tmp_path / "b.gpx").exists()
    named = ("--title", "Our rides", "--source", "the club")
    assert code("--person", "person", "--out", "b.gpx", "--picture", "b.html", *named) in (0, None)
    page = (tmp_path / "b.html").read_text(encoding="utf-8")
    assert "<h1>Our rides</h1>" in page
    assert "the club" in page


def test_the_command_reads_csv_parquet_and_gpx(command, tmp_path: Path) -> None:
    table = rides(people=10)
    names = list(table)
    rows = zip(*(table[name].tolist() for name in names), strict=True)
    text = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "rides.csv").write_text("\n".join(text), encoding="utf-8")
    for person in range(3):
        tracks = []
        for trip in np.unique(table["trip"][table["person"] == person])[:2]:
            here = table["trip"] == trip
            points = zip(table["lat"][here], table["lon"][here], table["time"][here].astype(str), strict=True)
            marks = "".join(f'<trkpt lat="{a}" lon="{b}"><time>{t}Z</time></trkpt>' for a, b, t in points)
            tracks.append(f"<trk><trkseg>{marks}</trkseg></trk>")
        gpx = f'<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">{"".join(tracks)}</gpx>'
        (tmp_path / f"rider-{person}.gpx").write_text(gpx, encoding="utf-8")
    by_column = ("--person", "person", "--trip", "trip", "--hours", "--number", "5")
    assert command("rides.csv", *by_column, "--out", "csv.geojsonl", "--picture", "page.html") in (0, None)
    assert command("rides.parquet", *by_column, "--out", "parquet.parquet", "--picture", "made.png") in (0, None)
    # A file is a person, and a track is a trip.
    by_track = ("--person", "file", "--trip", "track", "--number", "5")
    assert command("rider-*.gpx", *by_track, "--out", "gpx.gpx") in (0, None)
    assert command("rider-1.gpx", *by_track, "--out", "one.gpx") in (0, None)
    for name in ("csv.geojsonl", "page.html", "parquet.parquet", "made.png", "gpx.gpx", "one.gpx"):
        assert (tmp_path / name).stat().st_size > 500
    found = hz.trajectories.read(str(tmp_path / "rider-*.gpx"), GRID, person="file", trip="track", time="time")
    assert len(found.lines) == 6
    assert found.units == 3


@pytest.mark.parametrize(
    ("column", "sentence"), [("person", "has no person"), ("trip", "has no trip"), ("time", "neither a time")]
)
def test_bad_rows_are_a_sentence_and_nothing_is_charged(
    command, column: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = hz.Ledger.open(tmp_path / "rides.ledger", total=1)
    rows = ["person,trip,time,lon,lat", "ann,1,2024-05-31T12:00:00,10.0,53.55", "bob,1,2024-05-31T12:00:10,10.0,53.56"]
    rows.append({"person": ",1,5,10.0,53.5", "trip": "bob,,5,10.0,53.5", "time": "bob,1,soon,10.0,53.5"}[column])
    (tmp_path / "bad.csv").write_text("\n".join(rows), encoding="utf-8")
    columns = ("--person", "person", "--trip", "trip", "--ledger", "rides.ledger", "--out", "made.gpx")
    assert command("bad.csv", *columns) == 1
    said = capsys.readouterr().err.replace("\n", " ")
    assert sentence in said
    assert "soon" not in said
    assert ledger.spent == 0
    assert not (tmp_path / "made.gpx").exists()


# ── hours ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tiny_epsilon_makes_up_no_millions_of_journeys(secret, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heathaze.trajectories.synthesis.MOST_UNASKED", 7)  # 100,000 journeys take half a minute
    mechanism = hz.trajectories.JourneyTrees(GRID, 1e-4, squares=8)  # the noise of the count is about 500,000
    found = {len(hz.trajectories.publish(mechanism, secret, randomness=hz.Simulation(k)).lines) for k in range(8)}
    assert found == {1, 7}
    reports = hz.trajectories.randomize(hz.trajectories.LdpTrace(GRID, 1), secret.lines)
    assert len(hz.trajectories.estimate(reports).lines) == 7
    assert len(hz.trajectories.estimate(reports, number=9).lines) == 9


def test_hours_are_measured_and_times_follow_from_one_speed(secret, tmp_path: Path) -> None:
    morning = dataclasses.replace(secret, begins=np.full(len(secret.lines), 3 * 86_400 + 7.5 * 3600))
    mechanism = hz.trajectories.JourneyTrees(GRID, 50, squares=8, hours=True)
    with pytest.warns(UserWarning, match="epsilon"):
        made = hz.trajectories.publish(mechanism, morning, number=200, speed=5)
    assert made.model.hours.argmax() == 7
    assert made.model.hours[7] > 0.8
    assert ((made.begins // 3600) == 7).mean() > 0.8
    assert ((made.begins >= 0) & (made.begins < 86_400)).all()
    seconds = made.seconds()
    assert (seconds[made.lines.offsets[:-1]] == made.begins).all()
    took = seconds[made.lines.offsets[1:] - 1] - made.begins
    assert took == pytest.approx(made.lines.lengths(GRID) / 5)
    made.save(tmp_path / "made.parquet")
    with duckdb.connect() as base:
        rows = base.execute(
            "select second from read_parquet(?) order by journey, step", [str(tmp_path / "made.parquet")]
        )
        assert rows.fetchnumpy()["second"] == pytest.approx(seconds, abs=0.06)
    first = json.loads(made.save(tmp_path / "made.geojsonl").read_text(encoding="utf-8").splitlines()[0])
    assert len(first["properties"]["seconds"]) == len(first["geometry"]["coordinates"])
    assert "<time>2000-01-01T07:" in made.save(tmp_path / "made.gpx").read_text(encoding="utf-8")
    again = hz.trajectories.read(str(tmp_path / "made.gpx"), GRID, person="file", trip="track", time="time")
    assert len(again.lines) == 200


def test_readers_are_warned_of_hours_that_are_mostly_noise(
    command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ("--person", "person", "--trip", "trip", "--number", "9")
    assert command("rides.parquet", *named, "--out", "a.gpx", "--picture", "a.html") in (0, None)
    assert "mostly noise" not in capsys.readouterr().err
    assert "mostly noise" not in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert command("rides.parquet", *named, "--hours", "--out", "b.gpx", "--picture", "b.html") in (0, None)
    assert "The hours of the day are mostly noise: for ε = 1" in capsys.readouterr().err.replace("\n", " ")
    assert "mostly noise" in (tmp_path / "b.html").read_text(encoding="utf-8")


def test_hours_are_called_noise_up_to_four_deviations_an_hour() -> None:
    least = 24 * 4 * math.sqrt(2) / (0.04 * 0.5)
    measured, other = (hz.trajectories.JourneyTrees(GRID, 0.5, hours=hours) for hours in (True, False))
    assert measured.caution_about_hours(least + 1) == ""
    assert "mostly noise" in measured.caution_about_hours(least - 1)
    assert "about 0 units" in measured.caution_about_hours(-5.0)
    assert other.caution_about_hours(1.0) == ""


def test_hours_of_journeys_without_times_are_refused_before_a_charge(secret, tmp_path: Path) -> None:
    ledger = hz.Ledger.open(tmp_path / "rides.ledger", total=9)
    timeless = dataclasses.replace(secret, begins=None)
    with pytest.raises(InvalidInput, match="have no times"):
        hz.trajectories.publish(hz.trajectories.JourneyTrees(GRID, 1, squares=8, hours=True), timeless, ledger=ledger)
    assert ledger.spent == 0


@pytest.mark.slow
def test_a_planted_commute_is_hidden_with_the_person_as_unit_only() -> None:
    advantage = runpy.run_path(str(ROOT / "examples" / "planted_commute.py"))["advantage"]
    runs = 60
    hidden = advantage(Unit.PERSON, runs)
    assert hidden < (math.e - 1) / (math.e + 1)
    assert hidden < 1.36 * math.sqrt(2 / runs)  # what chance alone exceeds one time in twenty; the seeds are fixed
    assert advantage(Unit.TRIP, runs) > 0.9


def test_few_people_are_said_wherever_their_journeys_go(made, tmp_path: Path) -> None:
    """60 people at ε = 2 are fewer than the 250 that are needed."""
    few, more = (hz.trajectories.JourneyTrees(GRID, epsilon).caution(60) for epsilon in (2, 10))
    assert "About 60 units are few for ε = 2, and 250 or more are needed" in few
    assert more == ""
    warned = dataclasses.replace(made, caution=few)
    page = draw(warned, tmp_path / "few.html").read_text(encoding="utf-8")
    lines = warned.save(tmp_path / "few.geojsonl").read_text(encoding="utf-8")
    assert "most of where these journeys go is noise" in page
    assert "most of where these journeys go is noise" in lines.splitlines()[0]
