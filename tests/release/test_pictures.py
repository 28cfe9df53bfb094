"""What pictures and pages say about a release."""

from __future__ import annotations

import dataclasses
import html
import io
from pathlib import Path

import pytest
from PIL import Image

from heathaze.domain.grid import Grid
from heathaze.privacy.guarantee import Guarantee, Unit
from heathaze.release.formats.cells import counted
from heathaze.release.formats.pictures import facts, shown
from heathaze.release.release import Release


def test_the_page_says_what_is_promised_and_how(small: Release, tmp_path: Path) -> None:
    page = small.save(tmp_path / "my_city-2026.html").read_text("utf-8")
    assert "<title>My city 2026</title>" in page
    assert html.escape(str(small.guarantee)) in page
    for name, value in facts(small.grid, small.guarantee, small.provenance).items():
        assert f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" in page
    assert "</script>&quot;" not in page


def test_facts_are_public_and_complete(huge_tree: Release) -> None:
    lines = facts(huge_tree.grid, huge_tree.guarantee, huge_tree.provenance)
    assert lines["Mechanism"] == "Pyramid"
    assert lines["epsilon"] == "1/3"
    assert lines["Unit"] == "person"
    assert lines["At most"] == "20 cells for each person"
    assert lines["Cells"] == "1,048,576 × 1,048,576"
    assert lines["Day"] == "2026-01-31"
    assert shown(huge_tree.estimate).grid.shape == (1024, 1024)


@pytest.mark.parametrize(
    ("unit", "weight", "expected"),
    [
        (Unit.PERSON, "share", "people"),
        (Unit.PERSON_DAY, "share", "person-days"),
        (Unit.VISIT, "share", "visits"),
        (Unit.PERSON, "presence", "presences"),
    ],
)
def test_what_is_counted(small: Release, unit: Unit, weight: str, expected: str) -> None:
    changed = dataclasses.replace(
        small,
        guarantee=Guarantee(small.guarantee.loss, unit),
        provenance=dataclasses.replace(small.provenance, weight=weight),
    )
    assert counted(changed.guarantee, changed.provenance) == expected


def test_the_picture_has_the_shape_of_the_map(wrap: object, tmp_path: Path) -> None:
    from heathaze.domain.density import Density

    sizes = {}
    for name, y in (("wide", 1), ("square", 4), ("tall", 16)):
        grid = Grid.plane(x=(0, 4), y=(0, y), size=8)
        path = wrap(Density.uniform(grid)).save(tmp_path / f"{name}.png")  # type: ignore[operator]
        sizes[name] = Image.open(io.BytesIO(path.read_bytes())).size
    assert sizes["wide"][0] > sizes["square"][0] > sizes["tall"][0]
    assert sizes["wide"][1] < sizes["square"][1] < sizes["tall"][1]
