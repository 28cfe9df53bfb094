"""``heathaze compare-releases``: two files in, sentences, a table and a picture out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import heathaze as hz
from tests.cli.conftest import Heathaze


def _released(path: Path, lon: float, size: int = 16) -> Path:
    grid = hz.Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.6), size=size)
    visits = {"person": np.arange(900), "lon": [lon] * 900, "lat": [53.52] * 900}
    counts = hz.count(visits, grid, person="person")
    return hz.publish(hz.central.default(grid, 1), counts).save(path)


def test_two_releases_are_compared(heathaze: Heathaze, tmp_path: Path) -> None:
    before, after = _released(tmp_path / "a.npz", 9.93), _released(tmp_path / "b.npz", 10.07)
    said = heathaze("compare-releases", before, after, "--out", "c.png", "--out", "c.csv", "--names", "May", "June")
    assert said.code == 0, said.err
    assert "changed by more than the noise of both maps explains" in said.out
    assert "Together these 2 releases cost at most ε = 2" in said.out
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")
    assert (
        Path("c.csv")
        .read_text("utf-8")
        .startswith(
            "west,south,east,north,people_before,people_after,people_change,people_change_low,people_change_high,real\n"
        )
    )
    fields = json.loads(heathaze("compare-releases", before, after, "--json").out)
    assert len(fields["real"]) >= 2
    assert fields["counted"] == "people"
    assert "exists already" in heathaze("compare-releases", before, after, "--out", "c.png").err
    assert "choose .png" in heathaze("compare-releases", before, after, "--out", "c.html").err
    assert "is given twice" in heathaze("compare-releases", before, before).err
    other = heathaze("compare-releases", before, _released(tmp_path / "d.npz", 9.93, 8))
    assert other.code == 1
    assert "The releases have different grids (16 × 16 cells" in other.err
