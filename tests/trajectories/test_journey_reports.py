"""Reports about journeys: files, what is refused, and the commands ``randomize`` and ``estimate`` for journeys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import heathaze as hz
from heathaze.datasets import rides, write_parquet
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput, SimulatedRelease, UnreadableData
from heathaze.local.chunks import frame_chunk
from heathaze.local.mechanism import fingerprint
from heathaze.privacy.guarantee import Unit
from heathaze.trajectories import (
    Device,
    JourneyReports,
    LdpTrace,
    LocalJourneys,
    PivotTrace,
    estimate,
    randomize,
    read_reports,
)
from heathaze.trajectories.mechanism import JourneyMechanism
from heathaze.trajectories.page import render
from heathaze.trajectories.reports import joined

PLANE = hz.Grid.plane(x=(0, 16), y=(0, 16), size=16)
MECHANISM = LocalJourneys(PLANE, 1, squares=16)
JOURNEYS = Lines.from_points([[(1, 1), (9, 9)], [(2, 12)], [(3, 3), (4, 4), (3, 3)]])


def fields_of(mechanism: JourneyMechanism) -> dict:
    """The header of a chunk with one report."""
    described = {"mechanism": type(mechanism).__name__, "parameters": mechanism.parameters()}
    return {
        "heathaze": "journeys", **described, "grid": mechanism.grid.to_dict(), "fingerprint": fingerprint(mechanism),
        "unit": "person", "reports": 1, "chunk": 7,
    }  # fmt: skip


def width(mechanism: LocalJourneys) -> int:
    return -(-(mechanism.limit - 1).bit_length() // 8)


def test_a_file_can_be_read_again_and_joined(tmp_path: Path) -> None:
    parts = [randomize(MECHANISM, JOURNEYS) for _ in range(2)]
    paths = [part.save(tmp_path / f"{k}.reports") for k, part in enumerate(parts)]
    both = tmp_path / "both.reports"
    both.write_bytes(b"".join(path.read_bytes() for path in paths))
    found = read_reports(both)
    assert found.mechanism == MECHANISM
    assert found.unit is Unit.TRIP
    assert (found.values == np.concatenate([part.values for part in parts])).all()
    assert "JourneyReports: 6 of LocalJourneys" in repr(found)
    assert len(paths[0].read_bytes()) < 250


def test_a_set_counts_once_and_other_parameters_are_refused_by_name() -> None:
    first = randomize(MECHANISM, JOURNEYS)
    with pytest.raises(InvalidInput, match="given twice"):
        joined([first, first])
    other = randomize(LocalJourneys(PLANE, 2, squares=16), JOURNEYS)
    with pytest.raises(InvalidInput, match=r"LocalJourneys, epsilon 2, squares 16.*cannot be mixed"):
        joined([first, other])
    with pytest.raises(InvalidInput, match="stand for a person each, and the others for a trip"):
        joined([first, randomize(MECHANISM, JOURNEYS, np.zeros(3, int))])
    with pytest.raises(InvalidInput, match="at least one"):
        joined([])


def test_joined_reports_keep_the_names_of_their_parts_in_a_file(tmp_path: Path) -> None:
    parts = [randomize(MECHANISM, JOURNEYS), randomize(MECHANISM, JOURNEYS.take(np.arange(1)))]
    both = joined(parts)
    found = read_reports(both.save(tmp_path / "both.reports"))
    assert (found.chunks, found.sizes) == (both.chunks, (3, 1))
    assert (found.values == both.values).all()
    assert both.to_bytes() == parts[0].to_bytes() + parts[1].to_bytes()
    with pytest.raises(InvalidInput, match="given twice"):
        joined([found, parts[1]])
    with pytest.raises(InvalidInput, match="sizes of the chunks"):
        JourneyReports(MECHANISM, both.values, Unit.TRIP, chunks=(1, 2), sizes=(3, 2))


BAD = {
    "number out of range": ({}, (MECHANISM.limit).to_bytes(width(MECHANISM), "little")),
    "two reports announced": ({"reports": 2}, bytes(width(MECHANISM))),
    "a body too long": ({}, bytes(width(MECHANISM) + 1)),
    "an unknown mechanism": ({"mechanism": "DiskArea"}, bytes(width(MECHANISM))),
    "edited parameters": ({"parameters": {"epsilon": "1/2", "squares": 16}}, bytes(width(MECHANISM))),
    "a parameter left out": ({"parameters": {"epsilon": "1"}}, bytes(width(MECHANISM))),
    "a unit of maps": ({"unit": "visit"}, bytes(width(MECHANISM))),
    "no name of the chunk": ({"chunk": None}, bytes(width(MECHANISM))),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_reports_are_refused(name: str, tmp_path: Path) -> None:
    changed, body = BAD[name]
    path = tmp_path / "bad.reports"
    path.write_bytes(frame_chunk(fields_of(MECHANISM), bytes(width(MECHANISM))))
    assert len(read_reports(path)) == 1
    path.write_bytes(frame_chunk(fields_of(MECHANISM) | changed, body))
    with pytest.raises(UnreadableData, match=r"bad\.reports"):
        read_reports(path)


@pytest.mark.parametrize(
    ("mechanism", "body"),
    [
        (LdpTrace(PLANE, 1), [1, *[0] * 38]),  # six classes of length, and a bit for the eighth
        (PivotTrace(PLANE, 1), [36, 0, 0, 0, 0]),  # 36 squares
        (PivotTrace(PLANE, 1), [0, 0, 9, 0, 0]),  # 8 directions, and one class for no direction
        (PivotTrace(PLANE, 1), [0, 0, 0, 0, 1]),
    ],
)
def test_an_impossible_report_is_refused_with_its_file_and_not_with_all_reports(
    mechanism: LdpTrace | PivotTrace, body: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "bad.reports"
    path.write_bytes(frame_chunk(fields_of(mechanism), bytes(len(body))))
    assert len(read_reports(path)) == 1
    path.write_bytes(frame_chunk(fields_of(mechanism), bytes(body)))
    with pytest.raises(UnreadableData, match=r"bad\.reports"):
        read_reports(path)


@pytest.mark.parametrize(
    "owner", [["alice", "bob", "bob"], [0.2, 0.7, 1.0], [2**70, 1, 1], [np.nan, 1, 1], [[0], [1, 2]]]
)
def test_owners_are_whole_numbers_and_an_error_quotes_none(owner: list) -> None:
    with pytest.raises(InvalidInput, match="not all whole numbers") as refused:
        randomize(MECHANISM, JOURNEYS, owner)
    assert "alice" not in str(refused.value)


def test_every_owner_sends_one_report_whatever_the_number() -> None:
    for owner in ([-1, -1, -1], [-1, 5, -1], [7, 7, 2**62], [-(2**63), 2**63 - 1, 0]):
        assert len(randomize(MECHANISM, JOURNEYS, np.array(owner))) == len(set(owner))
    for wrong in (None, [[(1, 1)]]):
        with pytest.raises(InvalidInput, match="expected Lines"):
            Device(MECHANISM).randomize(wrong)
        with pytest.raises(InvalidInput, match="expected Lines"):
            randomize(MECHANISM, wrong)


def test_damaged_files_and_other_files_are_refused(tmp_path: Path) -> None:
    path = randomize(MECHANISM, JOURNEYS).save(tmp_path / "a.reports")
    text = bytearray(path.read_bytes())
    text[-6] ^= 1
    path.write_bytes(text)
    with pytest.raises(UnreadableData, match="checksum"):
        read_reports(path)
    places = hz.local.randomize(hz.local.default(PLANE, 1), [(1, 1)]).save(tmp_path / "places.reports")
    with pytest.raises(UnreadableData, match="holds reports of positions"):
        read_reports(places)
    journeys = randomize(MECHANISM, JOURNEYS).save(tmp_path / "journeys.reports")
    with pytest.raises(UnreadableData, match="holds reports of journeys"):
        hz.local.Tally.load(journeys)


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a row of 1 number"):
        JourneyReports(MECHANISM, np.zeros((1, 2), int))
    with pytest.raises(InvalidInput, match="outside"):
        JourneyReports(MECHANISM, np.array([[-1]]))
    with pytest.raises(InvalidInput, match="person or a trip"):
        JourneyReports(MECHANISM, np.zeros((1, 1), int), Unit.VISIT)
    with pytest.raises(InvalidInput, match="never reach the server"):
        estimate(JOURNEYS)
    with pytest.raises(InvalidInput, match="at least one report"):
        estimate(JourneyReports(MECHANISM, np.zeros((0, 1), int)))
    with pytest.raises(InvalidInput, match="at least one report"):
        MECHANISM.estimate(np.zeros((0, 1), int))
    with pytest.raises(InvalidInput, match="rows of one number"):
        MECHANISM.estimate(np.zeros((1, 2), int))
    with pytest.raises(InvalidInput, match="outside"):
        MECHANISM.estimate(np.array([[MECHANISM.limit]]))


def test_simulated_reports_are_not_sent() -> None:
    with pytest.raises(SimulatedRelease):
        randomize(MECHANISM, JOURNEYS, randomness=hz.Simulation(1)).to_bytes()


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from heathaze.cli.main import run

    write_parquet(rides(people=40), tmp_path / "rides.parquet")
    monkeypatch.chdir(tmp_path)
    where = ["--lon", "9.9", "10.1", "--lat", "53.5", "53.62", "--epsilon", "1", "--squares", "16"]
    journeys = ["randomize", "rides.parquet", *where, "--time", "time", "--trip", "trip"]

    def code(*words: str) -> int | None:
        monkeypatch.setattr("sys.argv", ["heathaze", *words])
        with pytest.raises(SystemExit) as stopped:
            run()
        return stopped.value.code

    def complaint() -> str:
        return capsys.readouterr().err.replace("\n", " ")

    assert code(*journeys, "--person", "person", "--out", "a.reports", "--json") in (0, None)
    said = json.loads(capsys.readouterr().out)
    assert said["reports"] == 40
    assert said["guarantee"]["unit"] == "person"
    assert said["guarantee"]["adjacency"] == "any-two-journeys"
    assert code(*journeys, "--unit", "trip", "--out", "trips.reports", "--quiet") in (0, None)
    assert code(*journeys, "--out", "b.reports") == 1
    assert "--unit trip" in complaint()
    assert code(*journeys, "--person", "person", "--mechanism", "journey-trees", "--out", "b.reports") == 1
    assert "trusted curator" in complaint()
    assert code(*journeys, "--person", "person", "--mechanism", "disk-area", "--out", "b.reports") == 1
    assert "is a local mechanism" in complaint()
    assert code("randomize", "rides.parquet", *where, "--person", "person", "--trip", "trip", "--out", "b.reports") == 1
    assert "need --time" in complaint()
    assert code(*journeys, "--person", "person", "--size", "16", "--out", "b.reports") == 1
    assert "--squares instead" in complaint()
    assert code(*journeys, "--person", "person", "--memory", "m", "--out", "b.reports") == 1
    assert "--memory" in complaint()
    assert code("ledger", "open", "me.ledger", "--total", "2") in (0, None)
    assert code(*journeys, "--person", "person", "--ledger", "me.ledger", "--out", "b.reports") == 1
    assert "one person" in complaint()
    assert hz.Ledger.open("me.ledger").spent == 0
    assert code(*journeys, "--ledger", "me.ledger", "--out", "me.reports") in (0, None)
    assert hz.Ledger.open("me.ledger").spent == 1
    assert not (tmp_path / "b.reports").exists()
    capsys.readouterr()

    assert code("estimate", "a.reports", "me.reports", "--number", "9", "--out", "a.gpx", "--json") in (0, None)
    said = json.loads(capsys.readouterr().out)
    assert (said["journeys"], said["reports"], said["guarantee"]["trust"]) == (9, 41, "local")
    said = ("estimate", "a.reports", "--number", "9", "--out", "p.gpx", "--picture")
    assert code(*said, "made.pdf") == 1
    assert ".png or .html" in complaint()
    assert code(*said, "made.png") in (0, None)
    assert "few reports for ε = 1 (40, and about 18,414 are needed)" in complaint()
    assert code(*said, "made.html", "--overwrite", "--title", "Our rides", "--source", "the club") in (0, None)
    assert min((tmp_path / name).stat().st_size for name in ("made.png", "made.html")) > 10_000
    page = (tmp_path / "made.html").read_text(encoding="utf-8")
    for text in ("the rough extent of the places at most", "<h1>Our rides</h1>", "the club"):
        assert text in page
    capsys.readouterr()
    assert code("estimate", "a.reports", "trips.reports", "--out", "c.geojsonl") == 1  # the other unit is left out
    assert "stand for a trip each" in complaint()
    assert len((tmp_path / "c.geojsonl").read_text(encoding="utf-8").splitlines()) == 40
    assert code(*journeys, "--person", "person", "--mechanism", "ldp-trace", "--out", "other.reports") in (0, None)
    capsys.readouterr()
    files = ["other.reports", "a.reports", "me.reports"]  # the parameters of most files are used
    assert code("estimate", *files, "--out", "e.gpx", "--json") == 1
    assert json.loads(capsys.readouterr().out)["refused"] == ["other.reports"]
    assert code("estimate", "a.reports", "--out", "c.html") == 1
    assert "give it as --picture c.html" in complaint()
    assert code("estimate", "a.reports", "--state", "t.tally", "--out", "d.gpx") == 1
    assert code("estimate", "a.reports") == 1
    assert code("estimate", "a.reports", "--fingerprint", "0" * 16, "--out", "d.gpx") == 1
    assert not (tmp_path / "d.gpx").exists()


def test_readers_are_warned_of_few_reports_and_of_few_only() -> None:
    mechanism = LocalJourneys(PLANE, 2, squares=16)
    for reports, warned in ((3620, True), (3621, False)):
        made = estimate(randomize(mechanism, Lines.from_points([[(1, 1), (9, 9)]] * reports)), number=3)
        assert ("come from few reports for ε = 2 (3,620, and about 3,621 are needed)" in made.caution) == warned
        assert bool(made.caution) == warned
        assert ("resemble the true ones" in render(made)) != warned


def test_a_person_outside_the_map_sends_a_report_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from heathaze.cli.main import run

    monkeypatch.chdir(tmp_path)
    Path("all.csv").write_text("who,ride,t,x,y\na,1,1,1,1\na,1,2,7,7\nb,1,1,99,99\n")
    Path("one.csv").write_text("ride,t,x,y\n1,1,99,99\n")
    hz.Ledger.open("b.ledger", total=2)
    frame = ["--x", "0", "16", "--y", "0", "16", "--trip", "ride", "--time", "t", "--epsilon", "1"]
    for file, out, more, reports in (
        ("all.csv", "all.reports", ["--person", "who"], 2),
        ("one.csv", "one.reports", ["--ledger", "b.ledger"], 1),
    ):
        monkeypatch.setattr("sys.argv", ["heathaze", "randomize", file, *frame, *more, "--out", out])
        with pytest.raises(SystemExit) as ended:
            run()
        assert not ended.value.code
        assert len(read_reports(out)) == reports


def test_wrong_bounds_are_noticed_before_all_journeys_move_to_the_border(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from heathaze.cli.main import run

    monkeypatch.chdir(tmp_path)
    Path("far.csv").write_text("who,ride,t,x,y\na,1,1,99,99\nb,1,1,98,99\n")
    words = ["randomize", "far.csv", "--x", "0", "16", "--y", "0", "16", "--trip", "ride", "--time", "t"]
    monkeypatch.setattr("sys.argv", ["heathaze", *words, "--person", "who", "--epsilon", "1", "--out", "far.reports"])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 1
    assert "No position lies inside the map" in capsys.readouterr().err.replace("\n", " ")
    assert not Path("far.reports").exists()


def test_reports_are_not_in_the_order_of_the_people() -> None:
    """Person k is in the north for k < 500, and in the south otherwise; the order of reports says nothing about it.

    A bit of a northern cell is set in half of the reports of the north, and in a twelfth of the others.
    """
    lines = Lines.from_points([[(8, 2 if k < 500 else 14)] for k in range(1000)])
    reports = randomize(LdpTrace(PLANE, 10, squares=2), lines, np.arange(1000), randomness=hz.Simulation(1))
    north = np.unpackbits(reports.values[:, 1].astype(np.uint8)).reshape(1000, 8)[:, :2].any(axis=1)
    first, second = north[:500].sum(), north[500:].sum()
    assert first + second > 250
    assert abs(int(first) - int(second)) < 75  # five standard deviations; 195 in the order of the people


def test_one_person_elsewhere_reports_each_trip_as_others_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal would reveal that the person is elsewhere."""
    from heathaze.cli.main import app

    rows = ["who,ride,t,x,y", *(f"anna,{ride},{t},{90 + t},95" for ride in (1, 2) for t in (1, 2))]
    (tmp_path / "away.csv").write_text("\n".join(rows) + "\n")
    words = [
        "--x",
        "0",
        "16",
        "--y",
        "0",
        "16",
        "--time",
        "t",
        "--trip",
        "ride",
        "--person",
        "who",
        "--unit",
        "trip",
        "--epsilon",
        "2",
    ]
    with pytest.raises(SystemExit) as stop:
        app(
            ["randomize", str(tmp_path / "away.csv"), *words, "--epsilon", "2", "--out", str(tmp_path / "away.reports")]
        )
    assert stop.value.code in (0, None)
    assert len(read_reports(tmp_path / "away.reports")) == 2
