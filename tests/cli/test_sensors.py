"""``heathaze sensors``: two commands on a made-up room, and every refusal before anything is paid or written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heathaze.ingest.readings import RawReadings
from heathaze.privacy.ledger import Ledger
from heathaze.sensors.noisy_readings import NoisyTable
from tests.cli.conftest import Heathaze

PHYSICS = ("--size", 12, 8, "--walls", "insulated", "--diffusivity", 0.01)
PROTECT = ("protect", "room/readings.csv", "--layout", "room/layout.csv", *PHYSICS, "--reach", 0.2, "--epsilon", 2)
LOCATE = ("locate", "protected.csv", "--layout", "room/layout.csv")


@pytest.fixture
def room(heathaze: Heathaze) -> Heathaze:
    said = heathaze("sensors", "example", "room")
    assert said.code == 0, said.err
    return heathaze


def test_a_made_up_room_says_what_to_do_with_it(room: Heathaze) -> None:
    assert sorted(path.name for path in Path("room").iterdir()) == [
        "README.txt",
        "layout.csv",
        "readings.csv",
        "truth.csv",
    ]
    text = Path("room/README.txt").read_text()
    assert "heathaze sensors protect readings.csv --layout layout.csv --size 12 8" in text
    said = room("sensors", "example", "room")
    assert (said.code, "room exists already; name a new folder" in said.err) == (1, True)


def test_protect_and_locate(room: Heathaze) -> None:
    header, *rows = Path("room/readings.csv").read_text().splitlines()
    stronger = [f"{at},{float(value) * 5}" for at, _, value in (row.rpartition(",") for row in rows)]
    Path("room/readings.csv").write_text("\n".join([header, *stronger]) + "\n")  # far above the noise
    said = room("sensors", *PROTECT, "--out", "protected.csv")
    assert said.code == 0, said.err
    assert "sources of heat move by at most 0.2 metres in all" in said.out
    assert "wrote protected.csv" in said.out
    raw, noisy = RawReadings.read("room/readings.csv"), NoisyTable.read("protected.csv")
    assert (raw.sensors, raw.times) == (noisy.sensors, noisy.times)
    noise = (noisy.values - raw.values) / noisy.header["deviation"]
    assert 0.6 < noise.std() < 1.4

    said = room("sensors", *LOCATE, "--truth", "room/truth.csv", "--out", "sources.png")
    assert said.code == 0, said.err
    assert said.out.splitlines()[0].split()[:2] == ["source", "where"]
    assert "Distance to the truth" in said.out
    assert "Not protected: how many sources there are" in said.out
    with Image.open("sources.png") as picture:
        assert "Software" not in picture.info
        assert min(picture.size) > 400


def test_the_protected_file_holds_nothing_but_noisy_numbers_and_public_ones(room: Heathaze) -> None:
    room("sensors", *PROTECT, "--out", "protected.csv", "--quiet")
    text = Path("protected.csv").read_text()
    raw = RawReadings.read("room/readings.csv")
    assert not any(repr(value) in text for value in raw.values.tolist())
    noisy = NoisyTable.read("protected.csv")
    assert set(noisy.header) == {"deviation", "guarantee", "physics"}
    step = noisy.header["deviation"] / 2**22
    assert all(value == np.float32(value) or abs(value) > step for value in noisy.values)


def test_for_machines(room: Heathaze) -> None:
    fields = json.loads(room("sensors", *PROTECT, "--out", "protected.csv", "--json").out)
    assert fields["written"] == ["protected.csv"]
    assert fields["readings"] == 80
    found = json.loads(room("sensors", *LOCATE, "--number", 3, "--strength", 1, "--json").out)
    assert len(found["sources"]) == 3
    assert all(source["strength"] == pytest.approx(1) for source in found["sources"])
    assert sum(found["number"]) == pytest.approx(1)
    assert "distance_to_truth" not in found


def test_a_ledger_pays_and_refuses(room: Heathaze) -> None:
    Ledger.open("sources.ledger", total=2, delta=1e-5)
    paid = (*PROTECT, "--ledger", "sources.ledger")
    assert room("sensors", *paid, "--out", "one.csv").code == 0
    said = room("sensors", *paid, "--out", "two.csv")
    assert said.code == 1
    assert "nothing was charged" in said.err
    assert not Path("two.csv").exists()


def test_an_empty_room_has_no_source(room: Heathaze) -> None:
    lines = Path("room/readings.csv").read_text().splitlines()
    empty = [line.rsplit(",", 1)[0] + ",0" for line in lines[1:]]
    Path("room/readings.csv").write_text("\n".join([lines[0], *empty]) + "\n")
    assert room("sensors", *PROTECT, "--out", "protected.csv", "--quiet").code == 0
    said = room("sensors", *LOCATE, "--out", "empty.png")
    assert said.code == 0, said.err
    # Likelier without any, unless the noise is unusual; what is said fits what is drawn either way.
    assert ("No source was found: zero is the most likely number of sources." in said.out) == (
        "source  where" not in said.out
    )
    assert Path("empty.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_background_that_was_not_subtracted_is_noticed(room: Heathaze) -> None:
    lines = Path("room/readings.csv").read_text().splitlines()
    warm = [f"{line.rsplit(',', 1)[0]},{float(line.rsplit(',', 1)[1]) + 21.5}" for line in lines[1:]]
    Path("room/readings.csv").write_text("\n".join([lines[0], *warm]) + "\n")
    assert room("sensors", *PROTECT, "--out", "protected.csv", "--quiet").code == 0
    said = room("sensors", *LOCATE)
    assert "No sources in this physics explain the readings" in said.err


def test_the_output_is_none_of_the_inputs(room: Heathaze) -> None:
    Ledger.open("sources.ledger", total=2, delta=1e-5)
    said = room("sensors", *PROTECT, "--ledger", "sources.ledger", "--out", "sources.ledger", "--overwrite")
    assert said.code == 1
    assert Ledger.open("sources.ledger").spent == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"deviation": "abc"},
        {"physics": "x"},
        {"physics": {"diffusivity": "x"}},
        {"physics": {"size": 12}},
        {"guarantee": {}},
    ],
)
def test_a_first_line_that_was_changed_is_noticed(room: Heathaze, changed: dict[str, object]) -> None:
    room("sensors", *PROTECT, "--out", "protected.csv", "--quiet")
    first, rest = Path("protected.csv").read_text().split("\n", 1)
    mark, about = "# heathaze readings ", json.loads(first.removeprefix("# heathaze readings "))
    Path("protected.csv").write_text(mark + json.dumps(about | changed) + "\n" + rest)
    said = room("sensors", *LOCATE)
    assert said.code == 1
    assert "The first line of protected.csv was edited" in said.err


def test_missing_readings_are_allowed(room: Heathaze) -> None:
    lines = Path("room/readings.csv").read_text().splitlines()
    Path("room/readings.csv").write_text("\n".join(lines[:30] + lines[40:]) + "\n")
    assert room("sensors", *PROTECT, "--out", "protected.csv", "--quiet").code == 0
    assert np.isnan(NoisyTable.read("protected.csv").values).sum() in (0, 10)
    assert room("sensors", *LOCATE, "--number", 1, "--quiet").code == 0


def test_a_graph(heathaze: Heathaze) -> None:
    edges = [(f"n{i}", f"n{(i + k) % 20}") for i in range(20) for k in (1, 3)]
    Path("edges.csv").write_text("from,to\n" + "".join(f"{a},{b}\n" for a, b in edges))
    values = [f"n{i},1,{4.0 if i == 4 else 0.1}\n" for i in range(20)]  # far above the noise of 0.25
    Path("readings.csv").write_text("sensor,time,value\n" + "".join(values))
    Path("truth.csv").write_text("node,strength\nn4,1\n")
    said = heathaze(
        "sensors", "protect", "readings.csv", "--layout", "edges.csv", "--diffusivity", 0.3, "--reach", 1,
        "--epsilon", 8, "--out", "protected.csv",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "at most 1 unit of edge length in all" in said.out
    said = heathaze(
        "sensors",
        "locate",
        "protected.csv",
        "--layout",
        "edges.csv",
        "--truth",
        "truth.csv",
        "--out",
        "graph.png",
        "--json",
    )
    assert said.code == 0, said.err
    assert json.loads(said.out)["sources"][0]["node"].startswith("n")


def test_a_line(heathaze: Heathaze) -> None:
    Path("layout.csv").write_text("sensor,x\n" + "".join(f"s{i},{i / 10}\n" for i in range(1, 10)))
    Path("readings.csv").write_text("sensor,time,value\n" + "".join(f"s{i},5,{i / 9}\n" for i in range(1, 10)))
    Path("truth.csv").write_text("x,strength\n0.4,1\n")
    said = heathaze(
        "sensors", "protect", "readings.csv", "--layout", "layout.csv", "--length", 1, "--diffusivity", 0.01,
        "--reach", 0.01, "--epsilon", 4, "--delta", 0, "--out", "protected.csv",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "pure, δ = 0" in said.out
    said = heathaze(
        "sensors", "locate", "protected.csv", "--layout", "layout.csv", "--truth", "truth.csv", "--out", "l.png"
    )
    assert said.code == 0, said.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--epsilon", 0), "epsilon is 0"),
        (("--reach", -1), "reach is -1"),
        (("--diffusivity", 0), "The diffusivity is 0"),
        (("--size", 3, 3), "outside"),
        (("--walls", "glass"), "walls is 'glass'"),
        (("--layout", "none.csv"), "Cannot read none.csv: no such file"),
        (("--layout", "room/truth.csv"), "give the columns sensor,x or sensor,x,y"),
        (("--out", "room/readings.csv", "--overwrite"), "choose another name"),
        (("--out", "nowhere/protected.csv"), "there is no directory nowhere"),
        (("--ledger", "none.ledger"), "none.ledger"),
        (("--delta", 2), "delta is 2"),
    ],
)
def test_protect_refuses_in_a_sentence_and_writes_nothing(
    room: Heathaze, words: tuple[object, ...], sentence: str
) -> None:
    before = Path("room/readings.csv").read_bytes()
    said = room("sensors", *PROTECT, "--out", "protected.csv", *words)
    assert said.code == 1, said.out
    assert sentence in said.err
    assert not Path("protected.csv").exists()
    assert Path("room/readings.csv").read_bytes() == before


def test_what_is_missing_is_named(room: Heathaze) -> None:
    said = room("sensors", "protect", "room/readings.csv", "--layout", "room/layout.csv", "--reach", 1, "--epsilon", 1,
                "--out", "protected.csv", "--diffusivity", 0.01)  # fmt: skip
    assert "Say whether heat leaves the plate: --walls open, or --walls insulated" in said.err
    said = room("sensors", "protect", "room/readings.csv", "--layout", "room/layout.csv", "--reach", 1, "--epsilon", 1,
                "--out", "protected.csv", "--diffusivity", 0.01, "--walls", "open")  # fmt: skip
    assert "Say how large the plate is: --size WIDTH HEIGHT" in said.err
    said = room("sensors", "locate", "room/readings.csv", "--layout", "room/layout.csv", *PHYSICS)
    assert "does not say how large its noise is; give --sigma" in said.err
    room("sensors", *PROTECT, "--out", "protected.csv", "--quiet")
    said = room("sensors", "protect", "protected.csv", "--layout", "room/layout.csv", *PHYSICS, "--reach", 0.2,
                "--epsilon", 2, "--out", "again.csv")  # fmt: skip
    assert "is protected already" in said.err
