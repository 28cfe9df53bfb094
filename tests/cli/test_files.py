"""Files as people have them, on the command line: look, declare, publish; and what a wrong declaration gets."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import heathaze as hz
from heathaze.cli.main import load
from heathaze.cli.publish import PANELS
from tests.cli.conftest import NEW_YORK, Heathaze


@pytest.fixture
def council(visits: Path) -> Path:
    """The visits as a council has them: semicolons, decimal commas, local times, windows-1252."""
    path = visits.with_name("rathaus.csv")
    lines = ["Nutzer;Länge;Breite;Zeit;Art;Sekunden"]
    for k, line in enumerate(visits.read_text().splitlines()[1:]):
        person, lon, lat, time = line.split(",")
        year, month, day = time[:10].split("-")
        place = f"{lon.replace('.', ',')};{lat.replace('.', ',')}"
        lines.append(f"{person};{place};{day}.{month}.{year} {k % 24:02}:30;{'Rad' if k % 2 else 'Fuß'};{k % 50}")
    path.write_text("\r\n".join(lines) + "\r\n", encoding="windows-1252", newline="")
    return path


DIALECT = ("--lon-column", "Länge", "--lat-column", "Breite", "--encoding", "windows-1252", "--decimal", "comma")


def test_a_look_proposes_what_publishes(heathaze: Heathaze, council: Path) -> None:
    said = heathaze("look", council)
    assert said.code == 0
    assert "FOR YOUR EYES ONLY" in said.out
    assert "person-1" not in said.out
    command = shlex.split(said.out.splitlines()[-1])
    for option in ("--person Nutzer", "--lon-column Länge", "--encoding windows-1252", "--decimal comma"):
        assert option in " ".join(command)
    words = [word for word in command[1:] if word not in ("WEST", "EAST", "SOUTH", "NORTH", "--lon", "--lat")]
    said = heathaze(*words, *NEW_YORK, "--out", "map.tif")
    assert said.code == 0, said.err
    assert Path("map.html").exists()
    assert hz.load("map.tif").guarantee.unit.value == "person"
    fields = json.loads(heathaze("look", council, "--json").out)
    assert fields["private"] is False
    assert fields["options"]["time-format"] == "%d.%m.%Y %H:%M"


def test_a_look_sees_coordinates_that_are_partly_exchanged(heathaze: Heathaze, visits: Path) -> None:
    head, *lines = visits.read_text().splitlines()
    assert "exchanged" not in heathaze("look", visits).out
    for k in range(0, 60, 3):
        person, lon, lat, time = lines[k].split(",")
        lines[k] = ",".join([person, lat, lon, time])
    Path("partly.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    said = heathaze("look", "partly.csv")
    assert "Some of these rows seem to have longitude and latitude exchanged" in said.out
    assert "-73." not in said.out


def test_filters_weights_and_days(heathaze: Heathaze, council: Path) -> None:
    words = ("publish", council, *NEW_YORK, "--person", "Nutzer", "--epsilon", 1, *DIALECT)
    said = heathaze(*words, "--only", "Art=Rad", "--weight-column", "Sekunden", "--out", "a.npz")
    assert said.code == 0, said.err
    days = ("--unit", "person-day", "--time", "Zeit", "--time-format", "%d.%m.%Y %H:%M", "--time-zone", "Europe/Berlin")
    assert heathaze(*words, *days, "--out", "b.npz").code == 0
    said = heathaze("compare", "b.npz", "--truth", council, "--person", "Nutzer", *DIALECT, *days[2:])
    assert said.code == 0, said.err
    assert "NOT PRIVATE" in said.out
    mine = ("--size", 16, "--epsilon", 4, "--person", "Nutzer", "--only", "Art=Rad")
    said = heathaze("randomize", council, *NEW_YORK, *mine, *DIALECT, "--out", "my.reports")
    assert said.code == 0, said.err


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (("--decimal", "point"), "Column 'Länge' holds text that is not a number"),
        (("--encoding", "utf-8"), "not written in UTF-8; save it as UTF-8, or declare its encoding"),
        (("--encoding", "utf-16"), "does not begin with the mark of UTF-16"),
        (("--encoding", "klingon"), "no encoding 'klingon'"),
        (("--separator", "comma"), "the separator is probably semicolon"),
        (("--separator", "slash"), "The separator 'slash' is not known"),
        (("--format", "gpx"), "A gpx file has no encoding windows-1252"),
        (("--only", "Art"), "--only is 'Art'; give the name of a column and a value"),
        (("--only", "Art=Auto"), "No row fits the row filter (only): 'Art' is 'Auto'"),
        (("--only", "Sorte=Rad"), "has no column 'Sorte'"),
        (("--weight-column", "Art"), "Column 'Art' holds text that is not a number"),
        (("--time-zone", "Mars"), "There is no time zone 'Mars'"),
        (("--time-format", "%d.%m"), "gives no date"),
        (("--layer", "a"), "A csv file has no layers"),
    ],
)
def test_a_wrong_declaration_gets_a_sentence_and_costs_nothing(
    heathaze: Heathaze, council: Path, changes: tuple[str, str], sentence: str
) -> None:
    ledger = hz.Ledger.open("a.ledger", total=1)
    words = ("publish", council, *NEW_YORK, "--person", "Nutzer", "--epsilon", 1, *DIALECT, "--ledger", "a.ledger")
    said = heathaze(*words, *changes, "--out", "map.npz")
    assert said.code == 1
    assert said.err.startswith("heathaze: ")
    assert any(part in said.err for part in sentence.split("|")), said.err
    assert "person-" not in said.err
    assert not Path("map.npz").exists()
    assert hz.Ledger.open("a.ledger").spent == ledger.spent == 0


def test_every_option_of_publish_is_in_a_group_and_the_five_come_first() -> None:
    command = load("publish")
    grouped = [name for names in PANELS.values() for name in names]
    names = [parameter.name for parameter in command.params]
    assert sorted(names) == sorted([*grouped, "file"])
    assert names[:5] == ["lon", "lat", "person", "epsilon", "output"]
    assert all(parameter.rich_help_panel for parameter in command.params if parameter.name != "file")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("lists.jsonl", "[1, 2]\n[3, 4]\n", "is not JSON lines"),
        ("texts.jsonl", '"a"\n"b"\n', "is not JSON lines"),
        ("long.csv", f"lon,lat,note\n1,2,{'a' * 131_073}\n", "a field of more than 131072 characters"),
    ],
)
def test_a_look_refuses_what_it_cannot_read(heathaze: Heathaze, name: str, text: str, sentence: str) -> None:
    Path(name).write_text(text, encoding="utf-8")
    said = heathaze("look", name)
    assert said.code == 1
    assert sentence in said.err


def test_a_look_at_tracks_and_trips_proposes_who_is_protected(heathaze: Heathaze) -> None:
    Path("ann.gpx").write_text(
        '<gpx><trk><trkseg><trkpt lat="40.7" lon="-73.9"/><trkpt lat="40.7" lon="-73.8"/></trkseg></trk></gpx>',
        encoding="utf-8",
    )
    trip = {"trip_id": "t", "device_id": "d", "start_location": {"lat": 40.7, "lng": -73.9}}
    Path("trips.json").write_text(json.dumps({"version": "2.0.0", "trips": [trip]}), encoding="utf-8")
    for file, column, note in (("ann.gpx", "file", "--person track"), ("trips.json", "trip_id", "single trips")):
        said = heathaze("look", file)
        assert note in said.out
        assert "name it in the command" not in said.out
        command = shlex.split(said.out.splitlines()[-1])
        assert command[command.index("--person") + 1] == column
        words = [word for word in command[1:] if word not in ("WEST", "EAST", "SOUTH", "NORTH", "--lon", "--lat")]
        assert heathaze(*words, *NEW_YORK, "--overwrite").code == 0


def test_a_look_sees_latitudes_and_coordinates_that_cannot_be(heathaze: Heathaze) -> None:
    Path("swapped.csv").write_text("person,lon,lat\na,37.7,-122.4\nb,37.8,-122.3\n")
    assert "longitude and latitude are probably exchanged" in heathaze("look", "swapped.csv").out
    Path("metres.csv").write_text("person,lon,lat\na,585000,4510000\nb,585100,4510100\n")
    assert "give the box in the units of the file (--x, --y)" in heathaze("look", "metres.csv").out
