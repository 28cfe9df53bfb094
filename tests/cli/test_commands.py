"""What a user types, and what a user sees."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import heathaze as hz
from heathaze.cli.main import COMMANDS, load
from tests.cli.conftest import NEW_YORK, Heathaze


def test_publish_then_show_then_compare(heathaze: Heathaze, visits: Path) -> None:
    said = heathaze("publish", visits, *NEW_YORK, "--person", "user_id", "--epsilon", 1, "--out", "nyc.npz")
    assert said.code == 0, said
    assert "--ledger" in said.err
    assert said.out.startswith("No single person can be recognised in this map: ")
    assert said.out.index("without any one of them.") < said.out.index("ε = 1")
    assert "unit: person" in said.out
    assert "wrote nyc.npz" in said.out
    assert "Tip" not in said.err
    shown = heathaze("show", "nyc.npz")
    assert shown.code == 0
    assert shown.out.startswith("No single person can be recognised in this map: ")
    assert "AdaptiveTree" in shown.out
    assert "Centre 1" in shown.out
    compared = heathaze(
        "compare", "nyc.npz", "--truth", visits, "--person", "user_id", "--sigma", 4, "--out", "both.png"
    )
    assert compared.code == 0
    assert "NOT PRIVATE" in compared.out
    assert "similarity" in compared.out
    assert Path("both.png").stat().st_size > 10_000


@pytest.mark.parametrize("ending", ["npz", "parquet", "geojson", "gpkg", "tif", "png", "svg", "pdf", "html"])
def test_every_ending(heathaze: Heathaze, visits: Path, ending: str) -> None:
    out = f"map.{ending}"
    said = heathaze("publish", visits, *NEW_YORK, "--person", "user_id", "--epsilon", 1, "--out", out, "--size", 64)
    assert said.code == 0, said.err
    assert Path(out).stat().st_size > 500
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_a_titled_picture_and_a_labelled_charge(heathaze: Heathaze, visits: Path) -> None:
    heathaze("ledger", "open", "budget", "--total", 2)
    words = ("publish", visits, *NEW_YORK, "--person", "user_id", "--epsilon", 1, "--size", 64, "--ledger", "budget")
    refused = heathaze(*words, "--out", "a.png", "--style", "oil")
    assert refused.code == 1
    assert "There is no style 'oil'" in refused.err
    assert "0 of 2 spent" in heathaze("ledger", "show", "budget").out
    look = ("--title", "Check-ins", "--subtitle", "in spring", "--source", "a city", "--theme", "dark", "--dpi", 60)
    said = heathaze(*words, *look, "--label", "spring map", "--out", "a.png", "--out", "b.pdf")
    assert said.code == 0, said.err
    assert Image.open("a.png").convert("L").getpixel((1, 1)) < 40
    assert "spring map" in heathaze("ledger", "show", "budget").out


def test_a_backdrop_is_drawn_and_a_bad_one_costs_nothing(heathaze: Heathaze, visits: Path) -> None:
    ring = [[-74.0, 40.7], [-73.9, 40.7], [-73.9, 40.8], [-74.0, 40.7]]
    district = {
        "type": "Feature",
        "properties": {"name": "Triangle"},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }
    Path("district.geojson").write_text(json.dumps(district), encoding="utf-8")
    heathaze("ledger", "open", "a.ledger", "--total", 2)
    words = ("publish", visits, *NEW_YORK, "--person", "user_id", "--epsilon", 1, "--ledger", "a.ledger", "--size", 64)
    said = heathaze(*words, "--out", "a.html", "--out", "a.png", "--backdrop", "district.geojson")
    assert said.code == 0, said.err
    assert "Triangle" in Path("a.html").read_text(encoding="utf-8")
    assert "--backdrop" not in said.err
    assert hz.Ledger.open("a.ledger").spent == 1
    ring[1][0] = None  # type: ignore[call-overload]
    Path("district.geojson").write_text(json.dumps(district), encoding="utf-8")
    said = heathaze(*words, "--out", "b.html", "--backdrop", "district.geojson")
    assert said.code != 0
    assert "Feature 1 of the backdrop district.geojson has a broken geometry" in said.err
    assert hz.Ledger.open("a.ledger").spent == 1
    # A page of a city without a backdrop says what to bring.
    assert "bring outlines of districts" in heathaze(*words, "--out", "b.html").err


def test_json_is_one_object_and_nothing_else(heathaze: Heathaze, visits: Path) -> None:
    words = ("publish", visits, *NEW_YORK, "--person", "user_id", "--epsilon", "0.5", "--out", "a.npz", "--json")
    said = heathaze(*words)
    fields = json.loads(said.out)
    assert fields["guarantee"]["epsilon"] == "1/2"
    assert fields["written"] == ["a.npz"]
    for command in (["show", "a.npz"], ["mechanisms"], ["mechanisms", "dense"]):
        assert json.loads(heathaze(*command, "--json").out)
    compared = json.loads(heathaze("compare", "a.npz", "--truth", visits, "--person", "user_id", "--json").out)
    assert compared["private"] is False
    assert 0 <= compared["metrics"]["similarity"] <= 1


def test_quiet_says_nothing(heathaze: Heathaze, visits: Path) -> None:
    said = heathaze("publish", visits, *NEW_YORK, "--person", "user_id", "--epsilon", 1, "--out", "a.npz", "--quiet")
    assert (said.code, said.out, said.err) == (0, "", "")


def test_a_ledger_is_paid_and_then_refuses(heathaze: Heathaze, visits: Path) -> None:
    assert heathaze("ledger", "open", "visits.ledger", "--total", 1).code == 0
    words = (
        "publish",
        visits,
        *NEW_YORK,
        "--person",
        "user_id",
        "--epsilon",
        "0.6",
        "--ledger",
        "visits.ledger",
        "--out",
    )
    assert heathaze(*words, "one.npz").code == 0
    refused = heathaze(*words, "two.npz")
    assert refused.code == 1
    assert "0.4" in refused.err
    assert not Path("two.npz").exists()
    shown = heathaze("ledger", "show", "visits.ledger")
    assert "0.6 of 1 spent" in shown.out
    assert json.loads(heathaze("ledger", "show", "visits.ledger", "--json").out)["remaining"] == "2/5"
    reference = hz.load("one.npz").provenance.ledger_entry
    assert reference is not None
    assert hz.Ledger.open("visits.ledger").knows(reference)


def test_units_and_weights(heathaze: Heathaze, visits: Path) -> None:
    base = ("publish", visits, *NEW_YORK, "--epsilon", 2, "--size", 32, "--out")
    assert "unit: visit" in heathaze(*base, "visit.npz", "--unit", "visit").out
    day = heathaze(*base, "day.npz", "--person", "user_id", "--unit", "person-day", "--time", "time")
    assert "unit: person-day" in day.out
    presence = heathaze(*base, "presence.npz", "--person", "user_id", "--weight", "presence", "--at-most", 5)
    assert presence.code == 0
    assert hz.load("presence.npz").provenance.at_most == 5
    assert "Plan" not in presence.out  # a plan speaks of mass 1 a unit


@pytest.mark.parametrize(
    ("words", "mechanism"),
    [
        ((), "AdaptiveTree"),
        (("--mechanism", "adaptive-tree"), "AdaptiveTree"),
        (("--mechanism", "pyramid"), "Pyramid"),
        (("--mechanism", "Priv_Tree"), "PrivTree"),
        (("--mechanism", "dawa"), "Dawa"),
        (("--mechanism", "adaptive-grid"), "AdaptiveGrid"),
        (("--mechanism", "adaptive-grid", "--people", 300), "AdaptiveGrid"),
        (("--mechanism", "uniform-grid"), "UniformGrid"),
        (("--mechanism", "uniform-grid", "--people", 300), "UniformGrid"),
        (("--mechanism", "dense", "--people", 300), "Dense"),
        (("--mechanism", "flat"), "Flat"),
        (("--mechanism", "flat-top", "--share", 0.05), "FlatTop"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} words",
)
def test_every_mechanism(heathaze: Heathaze, visits: Path, words: tuple[object, ...], mechanism: str) -> None:
    base = ("publish", visits, *NEW_YORK, "--epsilon", 2, "--size", 32, "--person", "user_id", "--quiet", "--out")
    said = heathaze(*base, "a.npz", *words)
    assert said.code == 0, said.err
    release = hz.load("a.npz")
    assert release.provenance.mechanism == mechanism
    if "--people" in words:
        assert release.provenance.parameters["people"] == 300


def test_mechanisms_lists_each_with_a_page(heathaze: Heathaze) -> None:
    listed = json.loads(heathaze("mechanisms", "--json").out)["mechanisms"]
    assert [mechanism["name"] for mechanism in listed] == [
        "adaptive-tree", "pyramid", "priv-tree", "adaptive-grid", "uniform-grid", "dawa", "dense", "flat", "flat-top",
        "adaptive-quadtree", "flat-sum", "hierarchical", "count-min", "adaptive-grid-sum", "spatial-decomposition",
        "mixture", "disk-area", "hybrid-uniform-exponential", "square-wave", "randomized-response", "unary-encoding",
        "local-hashing", "planar-laplace", "subset-exponential", "journey-trees", "local-journeys", "ldp-trace",
        "pivot-trace", "readings", "escrow", "herding", "private-greedy",
    ]  # fmt: skip
    defaults = [mechanism["name"] for mechanism in listed if "the default" in mechanism["for"]]
    assert defaults == ["adaptive-tree", "adaptive-quadtree", "mixture", "herding"]
    for mechanism in listed:
        said = heathaze("mechanisms", mechanism["name"])
        assert said.code == 0
        assert "Promise" in said.out


def test_planes(heathaze: Heathaze, tmp_path: Path) -> None:
    (tmp_path / "gaze.csv").write_text("who,x,y\na,10,20\nb,300,200\n", encoding="utf-8")
    words = ("--x", 0, 320, "--y", 0, 240, "--shape", 240, 320, "--person", "who", "--epsilon", 5, "--out", "gaze.npz")
    assert heathaze("publish", "gaze.csv", *words).code == 0
    assert hz.load("gaze.npz").grid.shape == (240, 320)


def test_a_very_fine_grid(heathaze: Heathaze, visits: Path) -> None:
    outs = [word for ending in ("npz", "html", "png") for word in ("--out", f"fine.{ending}")]
    words = ("publish", visits, *NEW_YORK, "--person", "user_id", "--epsilon", 1, "--size", 2**20, *outs)
    assert heathaze(*words).code == 0
    release = hz.load("fine.npz")
    assert release.grid.rows == 2**20
    assert np.isfinite(release.render(shape=(32, 32)).values).all()
    assert heathaze("show", "fine.npz").code == 0


def test_demo(heathaze: Heathaze) -> None:
    said = heathaze("demo", "--out", "there", "--people", 500, "--visits", 5000)
    assert said.code == 0, said.err
    assert "ε = 1" in said.out
    pictures = {"city.png", "city-dark.png", "city.html", "city-dark.html"}
    assert {path.name for path in Path("there").iterdir()} == {
        "rides.parquet",
        "visits.parquet",
        "outlines.geojson",
        "city.npz",
        *pictures,
    }
    assert "Grey Sound" in Path("there/city.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_readme_shows_what_the_demo_draws(heathaze: Heathaze) -> None:
    """docs/city.png is renewed by deleting it and running this test. Each run has other noise, and another day."""
    stored = Path(__file__).resolve().parents[2] / "docs" / "city.png"
    assert heathaze("demo", "--out", "there").code == 0
    if not stored.exists():
        shutil.copyfile("there/city.png", stored)
    here, there, dark = (Image.open(path).convert("RGB") for path in (stored, "there/city.png", "there/city-dark.png"))
    assert here.size == there.size
    one, other = np.asarray(here).astype(int), np.asarray(there).astype(int)
    above, below, right = np.s_[:150], np.s_[1240:1352], np.s_[150:1240, 1090:]
    # Titles, promise and guarantee are the same; in the legend, a few numbers differ.
    assert np.array_equal(one[above], other[above])
    assert np.array_equal(one[below], other[below])
    assert (np.abs(one[right] - other[right]).max(axis=2) > 8).mean() < 0.02

    def difference(picture: Any) -> float:
        """The mean difference from 0 to 255, after averaging over 8 × 8 pixels."""
        small = [np.asarray(one.resize((one.width // 8, one.height // 8), Image.Resampling.BOX)).astype(float)
                 for one in (here, picture)]  # fmt: skip
        return float(np.abs(small[0] - small[1]).mean())

    assert difference(there) < 8
    # The comparison sees a mirrored map, and another theme.
    assert difference(ImageOps.mirror(there)) > 16
    assert difference(dark) > 50


def test_help_names_every_command(heathaze: Heathaze) -> None:
    said = heathaze("--help")
    assert said.code == 0
    for command in ("plan", "publish", "show", "compare", "market", "ledger", "mechanisms", "demo"):
        assert command in said.out
    assert hz.__version__ in heathaze("--version").out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_line_in_the_list_is_the_commands_own(name: str) -> None:
    first, _, _ = str(load(name).help).partition("\n\n")
    assert " ".join(first.split()) == COMMANDS[name]


def test_the_list_of_commands_loads_none_of_them() -> None:
    """What makes `heathaze --help` quick, checked without a clock."""
    script = (
        "import sys; from heathaze.cli.main import run\ntry: run()\nexcept SystemExit: print(' '.join(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=True).stdout
    loaded = set(said.splitlines()[-1].split())
    assert "heathaze.cli.main" in loaded
    assert (
        loaded & {"numpy", "heathaze.domain", "heathaze.release", *(f"heathaze.cli.{name}" for name in COMMANDS)}
        == set()
    )


def test_an_unknown_command_is_refused_with_a_near_one(heathaze: Heathaze) -> None:
    said = heathaze("publsh")
    assert said.code == 2
    assert "publish" in said.err


WEAK = {
    "publish": ("publish", "visits.csv", *NEW_YORK, "--person", "user_id", "--size", 16, "--out", "a.npz", "--epsilon"),
    "publish from a ledger, as json": (
        "publish", "visits.csv", *NEW_YORK, "--person", "user_id", "--size", 16, "--out", "a.npz", "--json",
        "--ledger", "my.ledger", "--epsilon",
    ),
    "plan": ("plan", *NEW_YORK, "--people", 20, "--size", 16, "--epsilon"),
    "randomize": (
        "randomize", "visits.csv", *NEW_YORK, "--size", 8, "--person", "user_id", "--out", "a.reports", "--epsilon",
    ),
    "rehearse": ("rehearse", *NEW_YORK, "--people", 200, "--size", 16, "--epsilon"),
    "ledger": ("ledger", "open", "a.ledger", "--total"),
}  # fmt: skip


@pytest.mark.parametrize("way", WEAK)
def test_an_epsilon_above_10_is_warned_of_once_and_above_1000_refused(
    way: str, heathaze: Heathaze, visits: Path
) -> None:
    assert visits.name == "visits.csv"
    if "my.ledger" in WEAK[way]:
        heathaze("ledger", "open", "my.ledger", "--total", 100)
    said = heathaze(*WEAK[way], 11)
    assert said.code == 0
    assert said.err.count("above 10") == 1
    assert "heathaze: warning: " in said.err
    assert "hardly a protection" in said.err
    assert "above 10" not in said.out
    refused = heathaze(*WEAK[way], 1001)
    assert refused.code == 1
    assert "is above 1000, which promises nothing" in refused.err
