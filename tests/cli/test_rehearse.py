"""``heathaze rehearse``: what a survey by secure sums would ask, send and find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.conftest import NEW_YORK, Heathaze

SMALL = (*NEW_YORK, "--size", 32, "--people", 600, "--epsilon", 1)


def test_a_rehearsal_is_a_table_a_guarantee_and_a_picture(heathaze: Heathaze) -> None:
    said = heathaze("rehearse", *SMALL, "--out", "r.png")
    assert said.code == 0, said.err
    assert said.out.splitlines()[0].split()[:3] == ["round", "regions", "ε"]
    assert "computational differential privacy (for observers who cannot break keys) with ε = 1 (pure" in said.out
    assert "at most 30 devices of a shard reveal their noise to the server" in said.out
    assert "asked and nothing was charged" in said.out
    tables = [line.split()[:2] for line in said.out.splitlines() if line]
    assert ["shards", "people"] in tables
    assert ["1", "*"] in tables
    assert "wrote r.png" in said.out
    with Image.open("r.png") as picture:
        assert "Software" not in picture.info


def test_a_rehearsal_for_machines(heathaze: Heathaze) -> None:
    said = heathaze("rehearse", *SMALL, "--shards", 2, "--json")
    fields = json.loads(said.out)
    assert said.err == ""
    assert sum(row["epsilon"] for row in fields["rounds"]) == pytest.approx(1)
    assert fields["numbers"] == sum(row["numbers"] for row in fields["rounds"])
    assert fields["rounds"][0]["numbers"] == 4
    few, many = fields["choices"]
    assert (few["shards"], few["shard"], many["shards"], many["shard"]) == (1, 600, 2, 300)
    assert few["noise"] < many["noise"]
    assert many["mse"] == fields["mse"]
    assert many["sent"] == sum(row["sent"] for row in fields["rounds"])
    assert all(row["sent"] > row["numbers"] * row["bits"] / 8 for row in fields["rounds"])
    assert (fields["people"], fields["shards"]) == (600, 2)
    assert 0.3 < fields["sim"] <= 1
    assert all(540 <= row["delivered"] <= 600 for row in fields["rounds"])


def test_the_same_rehearsal_again_is_the_same(heathaze: Heathaze) -> None:
    assert heathaze("rehearse", *SMALL).out == heathaze("rehearse", *SMALL).out
    assert heathaze("rehearse", *SMALL).out != heathaze("rehearse", *SMALL, "--city", 3).out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--people", 601, "--shards", 2), "601 people do not divide into 2 equal shards"),
        (("--people", 2), "over fewer than 3 hides no one"),
        (("--people", 10**8), "people is 100000000; a rehearsal asks at most 10000000"),
        (("--dropout", 0.6), "more than half must be left"),
        (("--dropout", 1.5), "dropout is 1.5"),
        (("--colluding", 0.95), "at least 2 honest ones must be left"),
        (("--epsilon", 0), "epsilon is 0"),
        (("--size", 4096), "at most 1024 cells a side; found 4096 × 4096"),
        (("--city", -1), "There is no city -1"),
        (("--out", "r.pdf"), "Unknown picture type .pdf; expected .png"),
    ],
)
def test_what_cannot_be_rehearsed(heathaze: Heathaze, words: tuple[object, ...], sentence: str) -> None:
    said = heathaze("rehearse", *SMALL, *words)
    assert said.code == 1
    assert sentence in said.err
    assert not list(Path().iterdir())


def test_a_picture_is_not_replaced_unless_asked(heathaze: Heathaze) -> None:
    Path("r.png").write_text("mine")
    said = heathaze("rehearse", *SMALL, "--out", "r.png")
    assert said.code == 1
    assert Path("r.png").read_text() == "mine"
    assert heathaze("rehearse", *SMALL, "--out", "r.png", "--overwrite").code == 0


def test_the_pages_of_distributed_mechanisms(heathaze: Heathaze) -> None:
    said = heathaze("mechanisms", "adaptive-quadtree")
    assert "Zero-out" in said.out
    listed = json.loads(heathaze("mechanisms", "--json").out)["mechanisms"]
    for row in listed:
        assert json.loads(heathaze("mechanisms", row["name"], "--json").out)["model"] == row["model"]
    said = heathaze("publish", "x.parquet", *NEW_YORK, "--epsilon", 1, "--mechanism", "count-min", "--out", "a.npz",
                    "--person", "user_id")  # fmt: skip
    assert said.code == 1
    assert "hz.distributed" in said.err
