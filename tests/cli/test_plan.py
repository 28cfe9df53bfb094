"""``heathaze plan``, and the plan's line beside a release."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image

import heathaze as hz
from tests.cli.conftest import NEW_YORK, Heathaze

SMALL = (*NEW_YORK, "--size", 32)
PLAN = ("plan", *SMALL, "--people", 300, "--epsilon", 1, "--cities", 2)
PUBLISH = (*SMALL, "--person", "user_id", "--epsilon", 2, "--out", "a.npz")
SENTENCE = r"For about 300 people at ε = 1 expect: EMD 0\.\d+ of the side \(.*\), SIM 0\.\d\d \(.*\), signal down to"


def test_a_plan_is_a_table_a_sentence_and_a_picture(heathaze: Heathaze) -> None:
    said = heathaze(*PLAN, "--out", "plan.png")
    assert said.code == 0, said.err
    rows = [line.split() for line in said.out.splitlines()[1:6]]
    assert [row[0] for row in rows] == ["0.25", "0.5", "→", "2", "4"]
    assert rows[2][1] == "1"
    assert re.search(SENTENCE, said.out)
    assert re.search(r"From ε = 0\.5 to 2, each doubling of ε divides the error \(EMD\) by about \d\.\d\.", said.out)
    assert "wrote plan.png" in said.out
    with Image.open("plan.png") as picture:
        assert picture.size[0] == 9 * 150
        assert "Software" not in picture.info


def test_a_plan_for_machines(heathaze: Heathaze) -> None:
    said = heathaze(*PLAN, "--json")
    fields = json.loads(said.out)
    assert said.err == ""
    assert (fields["people"], fields["epsilon"], fields["cities"]) == (300, 1, 2)
    assert [row["epsilon"] for row in fields["rows"]] == [0.25, 0.5, 1, 2, 4]
    assert fields["rows"][0]["emd"] > fields["rows"][-1]["emd"]
    assert re.search(SENTENCE, fields["sentence"])
    expected = hz.plan(hz.Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=32), 1, 300, cities=2, times=())
    assert fields["row"] == expected.row.to_dict()


def test_a_quiet_plan_still_draws(heathaze: Heathaze) -> None:
    said = heathaze(*PLAN, "--quiet", "--out", "plan.png")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert Path("plan.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--people", 0), "people is 0; give a whole number"),
        (("--people", 10**10), "people is 10000000000"),
        (("--epsilon", 0), "epsilon is 0"),
        (("--epsilon", "nan"), "not a number"),
        (("--cities", 0), "cities is 0"),
        (("--size", 0), "size is 0"),
        (("--lon", 5, 4), "reversed"),
        (("--x", 0, 1), "The map has no bounds"),
        (("--out", "plan.html"), "Unknown picture type .html; expected .png"),
        (("--out", "nowhere/plan.png"), "nowhere"),
        (("--out", "there.png"), "there.png exists already"),
    ],
)
def test_bad_plans(heathaze: Heathaze, tmp_path: Path, words: tuple[object, ...], sentence: str) -> None:
    (tmp_path / "there.png").write_text("precious", encoding="utf-8")
    said = heathaze(*PLAN, *words)
    assert said.code == 1
    assert sentence in said.err
    assert said.out == ""
    assert (tmp_path / "there.png").read_text(encoding="utf-8") == "precious"


def test_publish_prints_the_plans_line(heathaze: Heathaze, visits: Path) -> None:
    said = heathaze("publish", visits, *PUBLISH, "--plan")
    assert said.code == 0, said.err
    release = hz.load("a.npz")
    expected = hz.plan(release.grid, 2, round(release.total), cities=3, times=()).row
    assert f"Plan, on synthetic cities: {expected}" in said.out


def test_the_line_names_what_was_counted_and_when_another_mechanism_was_used(heathaze: Heathaze, visits: Path) -> None:
    said = heathaze(
        "publish", visits, *SMALL, "--unit", "visit", "--epsilon", 1, "--out", "v.npz", "--mechanism", "flat", "--plan"
    )
    assert re.search(r"with the default mechanism: For about [\d,]+ visits at ε = 1", said.out)


def test_publish_json_holds_the_plan(heathaze: Heathaze, visits: Path) -> None:
    fields = json.loads(heathaze("publish", visits, *PUBLISH, "--plan", "--json").out)
    assert fields["plan"]["people"] == max(1, round(fields["total"]))
    assert fields["plan"]["epsilon"] == 2
    assert fields["plan"]["sentence"].startswith(f"For about {fields['plan']['people']:,} people")


@pytest.mark.parametrize("problem", [RuntimeError("person-7"), MemoryError(), KeyboardInterrupt()], ids=repr)
def test_a_plan_that_fails_does_not_lose_the_release(
    heathaze: Heathaze, visits: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException
) -> None:
    def explode(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr("heathaze.planning.plan", explode)
    said = heathaze("publish", visits, *PUBLISH, "--plan")
    assert said.code == 0
    assert "wrote a.npz" in said.out
    assert "Plan" not in said.out
    assert "person-7" not in said.out + said.err
    assert hz.load("a.npz").grid.rows == 32
    assert json.loads(heathaze("publish", visits, *PUBLISH, "--plan", "--overwrite", "--json").out)["plan"] is None


def test_quiet_makes_no_plan(heathaze: Heathaze, visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("heathaze.planning.plan", lambda *words, **_: asked.append(words))
    assert heathaze("publish", visits, *PUBLISH, "--plan", "--quiet").code == 0
    assert asked == []


def test_publish_makes_no_plan_unless_asked(heathaze: Heathaze, visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("heathaze.planning.plan", lambda *words, **_: asked.append(words))
    said = heathaze("publish", visits, *PUBLISH)
    assert said.code == 0
    assert "Plan" not in said.out
    assert json.loads(heathaze("publish", visits, *PUBLISH, "--overwrite", "--json").out)["plan"] is None
    assert asked == []
