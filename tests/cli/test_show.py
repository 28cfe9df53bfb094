"""``heathaze show`` on a release that knows how sure it is, and on one that does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import heathaze as hz
from tests.cli.conftest import Heathaze


@pytest.fixture
def sure(visits: Path, tmp_path: Path) -> Path:
    """300 people around one place, by the default mechanism."""
    grid = hz.Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=32)
    counts = hz.count(visits, grid, person="user_id")
    return hz.publish(hz.central.default(grid, 5), counts).save(tmp_path / "sure.npz")


def test_a_release_says_what_is_real(heathaze: Heathaze, sure: Path) -> None:
    said = heathaze("show", sure)
    assert said.code == 0, said.err
    (total,) = [line for line in said.out.splitlines() if line.startswith("Estimated total")]
    assert "people (90 %: " in total
    spots = [line for line in said.out.splitlines() if line.startswith("Hotspot ")]
    assert 1 <= len(spots) <= 5
    assert all("times the average, lon -7" in line and "(90 %: " in line for line in spots)


def test_machines_get_the_same(heathaze: Heathaze, sure: Path) -> None:
    fields = json.loads(heathaze("show", sure, "--json").out)
    release = hz.load(sure)
    expected = release.hotspots(0.9)
    low, high = fields["total_interval"]
    assert low < release.total < high
    assert fields["hotspots_in_all"] == len(expected)
    assert fields["confidence"] == 0.9
    for told, spot in zip(fields["hotspots"], expected[:5], strict=True):
        assert (tuple(told["x"]), tuple(told["y"])) == (spot.box.x, spot.box.y)
        assert (told["share"], told["low"], told["high"]) == (float(spot.share), spot.share.low, spot.share.high)
        assert told["times"] == spot.times


def test_all_hotspots_at_a_chosen_confidence(heathaze: Heathaze, sure: Path) -> None:
    release = hz.load(sure)
    said = heathaze("show", sure, "--hotspots", 0.6)
    spots = [line for line in said.out.splitlines() if line.startswith("Hotspot ")]
    assert len(spots) == len(release.hotspots(0.6)) > 5
    assert all("(60 %: " in line for line in spots)
    assert "densest first); list all with --hotspots 0.9" in heathaze("show", sure).out
    assert "more hotspots" not in said.out


def test_what_cannot_be_answered_is_said(heathaze: Heathaze, sure: Path, visits: Path, tmp_path: Path) -> None:
    assert "give a number between 0 and 1" in heathaze("show", sure, "--hotspots", 1).err
    grid = hz.Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=32)
    counts = hz.count(visits, grid, person="user_id")
    plain = hz.publish(hz.central.Pyramid(grid, 1), counts).save(tmp_path / "plain.npz")
    said = heathaze("show", plain)
    assert said.code == 0
    assert "Hotspot" not in said.out
    assert "people (from noisy numbers)" in said.out
    assert "hotspots" not in json.loads(heathaze("show", plain, "--json").out)
    refused = heathaze("show", plain, "--hotspots", 0.9)
    assert refused.code == 1
    assert "A map by Pyramid has no error bars" in refused.err


def test_a_map_without_hotspots_says_so(heathaze: Heathaze, tmp_path: Path) -> None:
    lines = ["who,x,y", *(f"p{k},{k % 16 + 0.5},{k // 16 % 16 + 0.5}" for k in range(256))]
    (tmp_path / "even.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    grid = hz.Grid.plane(x=(0, 16), y=(0, 16), size=4)
    counts = hz.count(tmp_path / "even.csv", grid, person="who", x="x", y="y")
    hz.publish(hz.central.default(grid, 5), counts).save("even.npz")
    assert "No place is twice as dense as the average with 90 % confidence." in heathaze("show", "even.npz").out
