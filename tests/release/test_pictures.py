"""What pictures and pages say about a release."""

from __future__ import annotations

import dataclasses
import html
import io
from pathlib import Path

import pytest
from PIL import Image

from heathaze.domain.grid import Grid
from heathaze.maps.sheet import Sheet
from heathaze.privacy.guarantee import Guarantee, Unit
from heathaze.release.formats.cells import counted
from heathaze.release.formats.pictures import facts, shown
from heathaze.release.release import Release
from heathaze.release.squares import plain_squares
from tests.release.conftest import with_estimate


def test_the_page_says_what_is_promised_and_how(small: Release, tmp_path: Path) -> None:
    page = small.save(tmp_path / "my_city-2026.html").read_text("utf-8")
    assert f"<title>Density of {counted(small.guarantee, small.provenance)}</title>" in page
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
    shapes = {name: width / height for name, (width, height) in sizes.items()}
    assert shapes["wide"] > shapes["square"] > shapes["tall"]


def _texts(release: Release, path: Path, monkeypatch: pytest.MonkeyPatch, **look: str) -> list[str]:
    """Save a picture, and return the texts on its paper."""
    sheets: list[Sheet] = []
    saved = Sheet.save

    def save(sheet: Sheet, *rest: object) -> None:
        sheets.append(sheet)
        saved(sheet, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Sheet, "save", save)
    release.save(path, **look)  # type: ignore[arg-type]
    (sheet,) = sheets
    return [text.get_text().replace("\n", " ") for text in sheet.figure.texts]


@pytest.mark.parametrize("style", ["squares", "glow", "pair", "report"])
@pytest.mark.parametrize("known", [True, False])
def test_every_picture_says_what_it_shows(
    sure: Release, style: str, known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With error bars or without: titles, unit, scale, promise before the exact terms, source and day."""
    release = sure if known else with_estimate(sure, noisy=None)
    look = {"title": "Where we meet", "subtitle": "A week in May", "source": "A survey"}
    told = _texts(release, tmp_path / "a.png", monkeypatch, style=style, **look)
    unit = "per cell" if not release.grid.projection.is_geographic else "km²"
    for part in ("Where we meet", "A week in May", unit, "Published on 31 January 2026", "Source: A survey"):
        assert any(part in text for text in told), part
    assert any("in the units of x" in text or text.endswith(" km") for text in told)
    assert told.index(release.guarantee.plain) < next(k for k, text in enumerate(told) if "Exact terms" in text)
    assert not any("share" in text and "%" in text for text in told)
    assert any("This map has no error bars" in text for text in told) == (not known and style != "glow")


def test_a_picture_and_a_page_without_error_bars_show_the_same_classes(
    small: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = _texts(small, tmp_path / "a.png", monkeypatch)
    page = small.save(tmp_path / "a.html").read_text("utf-8")
    squares = plain_squares(small.estimate, "people")
    for kind in range(len(squares.classes)):
        assert squares.name(kind) in told
        assert squares.name(kind) in page
    assert any(squares.unit in text.lower() for text in told)
    assert squares.unit in page
