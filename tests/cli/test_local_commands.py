"""randomize and estimate as a person uses them: reports in files, maps out of many, and what bad input gets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import heathaze as hz
from heathaze.local.mechanism import fingerprint
from tests.cli.conftest import NEW_YORK, Heathaze, Said

SMALL = (*NEW_YORK, "--size", "8", "--epsilon", "4")


def one_position(path: Path) -> Path:
    path.write_text("lon,lat\n-73.95,40.75\n", encoding="utf-8")
    return path


def randomized(heathaze: Heathaze, visits: Path, out: str, *words: object) -> Said:
    said = heathaze("randomize", visits, *SMALL, "--person", "user_id", "--out", out, *words)
    assert said.code == 0, said
    return said


def test_reports_then_a_map(heathaze: Heathaze, visits: Path) -> None:
    said = randomized(heathaze, visits, "nyc.reports")
    assert "300 reports" in said.out
    assert "trust: nobody" in said.out
    assert "any-two-positions" in said.out
    # a cell, or a seed and one of 56 buckets, takes five bytes; everything else about 100
    assert 5 * 300 < len(Path("nyc.reports").read_bytes()) < 5 * 300 + 150
    made = heathaze("estimate", "nyc.reports", "--out", "nyc.npz", "--out", "nyc.html", "--out", "nyc.png")
    assert made.code == 0, made
    assert "300 reports counted" in made.out
    release = hz.load("nyc.npz")
    assert release.total == 300
    assert release.provenance.mechanism == "Mixture"
    assert release.knows_uncertainty
    shown = heathaze("show", "nyc.npz")
    assert "Reports: 300, each of one person" in shown.out


def test_every_visit_may_be_a_report(heathaze: Heathaze, visits: Path) -> None:
    rows = len(visits.read_text().splitlines()) - 1
    said = heathaze("randomize", visits, *SMALL, "--unit", "visit", "--out", "all.reports", "--json")
    told = json.loads(said.out)
    assert told["reports"] == rows
    assert told["guarantee"]["unit"] == "visit"
    assert told["guarantee"]["trust"] == "local"


def test_the_whole_is_its_parts(heathaze: Heathaze, visits: Path) -> None:
    """Files one by one into a state, all at once, or joined: the same tally."""
    for name in ("a.reports", "b.reports", "c.reports"):
        randomized(heathaze, visits, name)
    for name in ("a.reports", "b.reports"):
        assert heathaze("estimate", name, "--state", "so-far.tally", "--quiet").code == 0
    joined = Path("joined.reports")
    joined.write_bytes(b"".join(Path(name).read_bytes() for name in ("a.reports", "b.reports", "c.reports")))
    assert heathaze("estimate", "so-far.tally", "c.reports", "--state", "one.tally", "--quiet").code == 0
    assert heathaze("estimate", joined, "--state", "two.tally", "--quiet").code == 0
    one, two = hz.local.Tally.load("one.tally"), hz.local.Tally.load("two.tally")
    assert one.reports == two.reports == 900
    np.testing.assert_array_equal(one.counts, two.counts)


def test_one_bad_file_is_named_and_the_others_count(heathaze: Heathaze, visits: Path) -> None:
    randomized(heathaze, visits, "good.reports")
    randomized(heathaze, visits, "other.reports", "--radius", "2")
    whole = Path("good.reports").read_bytes()
    bad = {
        "short.reports": (whole[:-30], "cut short"),
        "flipped.reports": (whole[:-10] + bytes([whole[-10] ^ 1]) + whole[-9:], "checksum"),
        "newer.reports": (whole[:3] + b"\4" + whole[4:], "version 4"),
        "older.reports": (b'{"heathaze":"reports","version":2,"bytes":2}\n', "version 2"),
        "text.reports": (b"lon,lat\n1,2\n", "holds no reports"),
        "empty.reports": (b"", "empty"),
    }
    for name, (content, _) in bad.items():
        Path(name).write_bytes(content)
    said = heathaze("estimate", "good.reports", *bad, "other.reports", "absent.reports", "--out", "map.npz")
    assert said.code == 1
    for name, (_, sentence) in bad.items():
        assert re.search(f"{name}.*{sentence}", said.err), (name, said.err)
    assert "cannot be mixed" in said.err
    assert "absent.reports is no file" in said.err
    assert hz.load("map.npz").total == 300


def test_a_stray_file_does_not_decide_for_all(heathaze: Heathaze, visits: Path) -> None:
    """Neither by its name nor by coming first; and what is wanted can be said."""
    for name in ("b.reports", "c.reports"):
        randomized(heathaze, visits, name)
    randomized(heathaze, visits, "a.reports", "--radius", "2")
    said = heathaze("estimate", "a.reports", "b.reports", "c.reports", "--state", "all.tally")
    assert said.code == 1
    assert "a.reports" in said.err
    assert hz.local.Tally.load("all.tally").reports == 600
    stray = fingerprint(hz.local.Reports.load("a.reports")[0].mechanism)
    words = ("estimate", "a.reports", "b.reports", "c.reports", "--fingerprint", stray, "--state", "stray.tally")
    assert heathaze(*words).code == 1
    assert hz.local.Tally.load("stray.tally").reports == 300
    assert "No file has the parameters" in heathaze("estimate", "b.reports", "--fingerprint", stray, "--state", "x").err


def test_one_position_outside_the_map_is_reported(heathaze: Heathaze, tmp_path: Path) -> None:
    """Silence would tell that the person is elsewhere."""
    (tmp_path / "me.csv").write_text("lon,lat,who\n10.5,50.2,me\n", encoding="utf-8")
    said = heathaze("randomize", "me.csv", *SMALL, "--person", "who", "--out", "me.reports")
    assert said.code == 0, said
    assert "1 report" in said.out


def test_a_device_refuses_a_position_that_is_probably_a_mistake(heathaze: Heathaze, tmp_path: Path) -> None:
    (tmp_path / "me.csv").write_text("lon,lat\n40.75,-73.95\n", encoding="utf-8")
    (tmp_path / "far.csv").write_text("lon,lat\n10.5,50.2\n", encoding="utf-8")
    words = (*SMALL, "--memory", "me.memory", "--out", "me.reports")
    assert "probably swapped" in heathaze("randomize", "me.csv", *words).err
    assert "far outside the map" in heathaze("randomize", "far.csv", *words).err
    assert not Path("me.reports").exists()
    assert heathaze("randomize", "far.csv", *words, "--far").code == 0


def test_nothing_good_is_an_error_and_no_map(heathaze: Heathaze) -> None:
    Path("bad.reports").write_bytes(b"nonsense")
    assert heathaze("estimate", "bad.reports", "--out", "map.npz").code == 1
    assert not Path("map.npz").exists()


def test_a_device_pays_and_repeats(heathaze: Heathaze, tmp_path: Path) -> None:
    point = one_position(tmp_path / "me.csv")
    assert heathaze("ledger", "open", "me.ledger", "--total", "4").code == 0
    mine = ("--ledger", "me.ledger", "--memory", "me.memory")
    assert heathaze("randomize", point, *SMALL, *mine, "--out", "first.reports").code == 0
    refused = heathaze("randomize", point, *SMALL, *mine, "--out", "second.reports")
    assert refused.code == 1
    assert "repeated at no cost" in refused.err
    assert not Path("second.reports").exists()
    again = heathaze("randomize", *SMALL, "--memory", "me.memory", "--again", "--out", "again.reports")
    assert again.code == 0, again
    assert Path("again.reports").read_bytes() == Path("first.reports").read_bytes()
    assert hz.Ledger.open("me.ledger").remaining == 0
    twice = heathaze("estimate", "first.reports", "again.reports", "--state", "all.tally")
    assert twice.code == 1
    assert "counted before" in twice.err
    assert hz.local.Tally.load("all.tally").reports == 1


BAD_WORDS = [
    (("--epsilon", "0"), "epsilon is 0"),
    (("--epsilon", "1e9"), "above 1000"),
    (("--epsilon", "nan"), "not a number"),
    (("--mechanism", "magic"), "magic"),
    (("--mechanism", "adaptive-tree"), "heathaze publish"),
    (("--unit", "visit"), "give only one of the two"),
    (("--unit", "day"), "no unit 'day'"),
    (("--radius", "-1"), "radius is -1"),
    (("--mechanism", "local-hashing", "--radius", "2"), "--radius goes with"),
    (("--mechanism", "disk-area", "--people", "100"), "--people goes with"),
    (("--people", "0"), "people is 0"),
    (("--lon", "10", "11"), "No position lies inside"),
    (("--lat-column", "lon", "--lon-column", "lat"), "swapped"),
    (("--out", "nowhere/x.reports"), "nowhere"),
    (("--out", "visits.csv"), "visits.csv is also an input file"),
    (("--again",), "--memory"),
    (("--ledger", "absent.ledger"), "several|absent.ledger"),
    (("--size", "100000"), "too many"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD_WORDS)
def test_bad_words_get_a_sentence(heathaze: Heathaze, visits: Path, words: tuple[str, ...], sentence: str) -> None:
    said = heathaze("randomize", visits, *SMALL, "--person", "user_id", "--out", "x.reports", *words)
    assert said.code == 1
    assert re.search(sentence, said.err), said.err
    assert "Traceback" not in said.err
    assert not Path("x.reports").exists()


def test_whose_rows_they_are_must_be_said(heathaze: Heathaze, visits: Path) -> None:
    said = heathaze("randomize", visits, *SMALL, "--out", "x.reports")
    assert said.code == 1
    assert "--person" in said.err


def test_one_cell(heathaze: Heathaze, visits: Path) -> None:
    """d = 1: there is nothing to hide and nothing to learn, and both commands say so without a crash."""
    words = (*NEW_YORK, "--size", "1", "--epsilon", "4", "--person", "user_id")
    assert heathaze("randomize", visits, *words, "--out", "one.reports").code == 0
    assert heathaze("estimate", "one.reports", "--out", "one.npz").code == 0
    assert hz.load("one.npz").density.values.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("name", "epsilon", "adjacency"),
    [
        ("disk-area", 2, "any-two"),
        ("hybrid-uniform-exponential", 2, "any-two"),
        ("square-wave", 2, "any-two"),
        ("randomized-response", 2, "any-two"),
        ("unary-encoding", 2, "any-two"),
        ("local-hashing", 2, "any-two"),
        ("planar-laplace", 0.001, "per-metre"),
        ("subset-exponential", 0.001, "per-metre"),
    ],
)
def test_every_mechanism(heathaze: Heathaze, visits: Path, name: str, epsilon: float, adjacency: str) -> None:
    words = ("--mechanism", name, *NEW_YORK, "--size", "8", "--epsilon", epsilon, "--person", "user_id")
    said = heathaze("randomize", visits, *words, "--out", "x.reports")
    assert said.code == 0, said
    assert adjacency in said.out
    assert heathaze("estimate", "x.reports", "--out", "x.npz").code == 0
    page = heathaze("mechanisms", name)
    assert "## Promise" in page.out


def test_bounds_that_miss_most_people_are_wondered_at(heathaze: Heathaze, visits: Path) -> None:
    words = ("--lon", "-74.10", "-73.99", "--lat", "40.58", "40.90", "--size", "8", "--epsilon", "4")
    said = heathaze("randomize", visits, *words, "--person", "user_id", "--out", "x.reports")
    assert said.code == 0
    assert "More than half of the positions lie outside" in said.err


def test_a_mechanism_by_the_name_of_its_class(heathaze: Heathaze) -> None:
    assert heathaze("mechanisms", "DiskArea").out.startswith("# DiskArea")
    assert heathaze("mechanisms", "SquareWave2D").code == 0
