"""The page as text: self-contained, safe against what it is told, true to its numbers, and small."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

import heathaze.maps.page as module
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import deinterleave
from heathaze.errors import InvalidInput
from heathaze.maps.backdrop import Backdrop, Label, Shape
from heathaze.maps.page import render_page
from heathaze.maps.sheet import Look
from heathaze.maps.squares import WHITE, Squares, side_lengths
from tests.maps.mosaics import island, mosaic

GRID = Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=64)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> & \" ' {{data}} {{facts}} \u2028 <!-- -->"


class _Reader(HTMLParser):
    """Elements, attributes, and the text of each element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.open = tag
        self.texts.setdefault(tag, []).append("")

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.open = None if tag else self.open


def page_of(squares: Squares, **changes: Any) -> str:
    """Render a page with short texts."""
    told: dict[str, Any] = {
        "title": "A city",
        "promise": "Nobody can be recognised.",
        "guarantee": "A promise.",
        "facts": {"Mechanism": "Pyramid"},
    }
    return render_page(squares, **{**told, **changes})


def data_of(page: str) -> dict[str, Any]:
    """Read the page's data back."""
    parsed: dict[str, Any] = json.loads(_Reader(page).texts["script"][0])
    return parsed


def test_the_page_holds_the_squares() -> None:
    squares = mosaic(GRID, 300)
    data = data_of(page_of(squares))
    held = data["squares"]
    rows, cols = deinterleave(squares.codes)
    for name, values in (("level", squares.levels), ("row", rows), ("col", cols), ("kind", squares.kinds)):
        assert held[name] == values.tolist()
    for name in ("people", "low", "high", "density"):
        np.testing.assert_allclose(held[name], getattr(squares, name), rtol=5e-4)
    assert data["grid"] == GRID.to_dict()
    assert (data["unit"], data["counted"], data["howSure"]) == ("people per km²", "people", "9 times in 10")


# ── safety ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_policy_allows_exactly_what_is_in_the_page() -> None:
    reader = _Reader(page_of(mosaic(GRID), backdrop=island(GRID)))
    data, *scripts = reader.texts["script"]
    (style,) = reader.texts["style"]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (*scripts, style)]
    policy = next(text for name, text in reader.attributes if name == "content" and text and "default-src" in text)
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}'; style-src 'sha256-{hashes[2]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    # The policy forbids these, so a page that had them would not work.
    assert not [name for name, _ in reader.attributes if name == "style" or name.startswith("on")]
    assert not re.search(r"\beval\(|new Function", "".join(scripts))
    assert json.loads(data)


def test_tiles_widen_the_policy_by_one_server() -> None:
    reader = _Reader(page_of(mosaic(GRID), tiles="https://tile.example.org/{z}/{x}/{y}.png"))
    policy = next(text for name, text in reader.attributes if name == "content" and text and "default-src" in text)
    assert "; img-src data: https://tile.example.org; base-uri 'none'" in policy
    with pytest.raises(InvalidInput, match="this map on a plane"):
        page_of(mosaic(Grid.plane(x=(0, 1), y=(0, 1), size=8)), tiles="https://tile.example.org/{z}/{x}/{y}.png")
    for address in (
        "http://a.org/{z}/{x}/{y}",
        "https://a.org/{z}/{x}",
        "https://a.org; script-src */{z}/{x}/{y}",
        "x",
    ):
        with pytest.raises(InvalidInput, match="The address of tiles is"):
            Look(tiles=address)


def test_nothing_comes_from_elsewhere() -> None:
    reader = _Reader(page_of(mosaic(GRID), backdrop=island(GRID)))
    assert [value for name, value in reader.attributes if name in ("src", "href", "srcset", "action")] == ["data:,"]
    assert not {"iframe", "img", "object", "embed", "base", "form"} & set(reader.tags)
    assert not re.search(r"url\(|@import|@font-face", reader.texts["style"][0])
    assert "sourceMappingURL" not in reader.texts["script"][1]
    assert not re.search(r"https?:|import\(|fetch\(|XMLHttpRequest", reader.texts["script"][2])


@pytest.mark.parametrize(
    "place", ["title", "subtitle", "promise", "guarantee", "source", "name", "value", "unit", "label", "district"]
)
def test_hostile_texts_stay_texts(place: str) -> None:
    def told(text: str) -> _Reader:
        squares, changes = mosaic(GRID), {}
        backdrop = island(GRID)
        if place == "unit":
            squares = dataclasses.replace(squares, unit=text)
        elif place in ("name", "value"):
            changes["facts"] = {text: "x"} if place == "name" else {"x": text}
        elif place == "label":
            backdrop = dataclasses.replace(backdrop, labels=(Label(text, 0.5, 0.5),))
        elif place == "district":
            everything = Shape("border", True, (np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]),), text)
            backdrop = dataclasses.replace(backdrop, shapes=(everything,))
        else:
            changes[place] = text
        return _Reader(page_of(squares, backdrop=backdrop, **changes))

    plain, hostile = told("x"), told(HOSTILE)
    assert hostile.tags == plain.tags
    assert len(hostile.texts["script"]) == 3
    assert "onerror" not in dict(hostile.attributes)
    found = [text for texts in hostile.texts.values() for text in texts] + [value for _, value in hostile.attributes]
    assert any(HOSTILE in (text or "") for text in found) or place in ("label", "district")
    if place in ("label", "district"):
        data = json.loads(hostile.texts["script"][0])
        assert HOSTILE in (data["places"] if place == "district" else data["labels"][0])


def test_the_licence_of_leaflet_travels_with_it() -> None:
    licence = Path(module.__file__).with_name("vendor") / "LICENSE-leaflet.txt"
    comment = re.findall(r"<!--(.*?)-->", page_of(mosaic(GRID)), re.DOTALL)[0]
    assert licence.read_text(encoding="utf-8").replace('"', "&quot;") in comment


# ── what is said ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_legend_shows_every_kind() -> None:
    squares = mosaic(GRID, 200)
    page = page_of(squares)
    legend = re.search(r'<ul class="legend">(.*?)</ul>', page, re.DOTALL)
    assert legend is not None
    spoken = re.findall(r"<span>(.*?)</span>", legend[1])
    assert len(spoken) == 9
    assert spoken[0].endswith("and more")
    assert spoken[-2].endswith("nobody, or thinly spread")
    assert spoken[-1] == "unknown: may be few or many"
    # No hatching in the legend if nothing is hatched; few classes have colours from the middle of the ramp.
    few = dataclasses.replace(squares, classes=squares.classes[:3], kinds=np.clip(squares.kinds, WHITE, 2))
    swatches = re.findall(r'<rect class="(\w+)"', re.search(r'<ul class="legend">(.*?)</ul>', page_of(few), re.S)[1])
    assert swatches == ["k5", "k3", "k1", "paper"]
    # Water and land beside it, and what the same colours mean elsewhere.
    assert "water" not in legend[1]
    assert "<span>water (no square on it: under" in page_of(squares, backdrop=island(GRID))
    assert "On another map, the same colour can mean another density" in page


def test_the_sizes_go_from_the_smallest_to_the_largest() -> None:
    squares = mosaic(GRID, 200)
    levels = squares.levels[squares.kinds >= 0]
    drawn = re.findall(r'<div data-level="(\d+)">.*?</svg>([^<]+)<i>', page_of(squares))
    assert len(drawn) == 3
    assert [int(drawn[k][0]) for k in (0, -1)] == [levels.max(), levels.min()]
    assert drawn[0][1].replace("\u00a0", " ") == side_lengths(GRID, int(levels.max()))
    empty = dataclasses.replace(squares, kinds=np.full(len(squares.codes), WHITE))
    assert 'class="sizes"' not in page_of(empty)


def test_the_densest_places_are_a_table() -> None:
    squares = mosaic(GRID, 200)
    page = page_of(squares, backdrop=island(GRID))
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th><td>([\d,.]+)<br>", page)
    assert len(rows) == 8
    shown = [float(number.replace(",", "")) for _, number in rows]
    assert shown == sorted(shown, reverse=True)
    assert squares.densest is not None
    assert shown[0] == pytest.approx(squares.density[squares.densest], rel=5e-3)
    empty = dataclasses.replace(squares, kinds=np.full(len(squares.codes), WHITE))
    assert "No place is surely above" in page_of(empty)


def test_a_map_without_error_bars_says_so() -> None:
    squares = mosaic(GRID, 200)
    nothing = np.full(len(squares.codes), np.nan)
    page = page_of(dataclasses.replace(squares, low=nothing, high=nothing))
    assert data_of(page)["howSure"] is None
    assert set(data_of(page)["squares"]["low"]) == {None}
    assert "People per km²; this map has no error bars." in page
    assert "times in 10" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


def test_squares_know_their_district() -> None:
    squares, backdrop = mosaic(GRID, 200), island(GRID)
    data = data_of(page_of(squares, backdrop=backdrop))
    named = {shape.name: shapely.Polygon(shape.parts[0]) for shape in backdrop.shapes if shape.name}
    west, south, east, north = squares.bounds().T
    x = GRID.across((west + east) / 2) / GRID.cols
    y = GRID.down((south + north) / 2) / GRID.rows
    for k, place in enumerate(data["squares"]["place"]):
        at = shapely.Point(x[k], y[k])
        inside = {name for name, area in named.items() if area.buffer(1e-9).covers(at)}
        surely = {name for name, area in named.items() if area.buffer(-1e-9).covers(at)}
        assert data["places"][place] in (surely or inside | {""})
    assert len(set(data["squares"]["place"])) == 3


@pytest.mark.parametrize(
    ("grid", "largest", "size"),
    [
        (Grid.over(lon=(0, 1), lat=(59.5, 60.5), size=8), 2, "14\u00a0×\u00a028\u00a0km"),
        (Grid.over(lon=(0, 0.032), lat=(0, 0.032), size=8), 2, "890\u00a0m"),
        (Grid.plane(x=(0, 320), y=(0, 240), shape=(24, 32)), 1, "160"),
        (Grid.plane(x=(0, 32), y=(0, 8), shape=(2, 9)), 3, "7.1\u00a0×\u00a08"),
        (Grid.over(lon=(0, 1), lat=(0, 1), size=1), 0, "110\u00a0km"),
    ],
    ids=["equirectangular", "city", "plane", "long", "one-cell"],
)
def test_squares_have_their_size_in_words(grid: Grid, largest: int, size: str) -> None:
    assert data_of(page_of(mosaic(grid, 12)))["sizes"][str(largest)] == size


def test_every_control_has_a_name_and_every_reference_a_target() -> None:
    page = page_of(mosaic(GRID))
    reader = _Reader(page)
    ids = [value for name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    pointed = [value for name, value in reader.attributes if name in ("aria-describedby", "aria-labelledby")]
    assert set(pointed) <= set(ids)
    # Every element the script asks for is there.
    asked = set(re.findall(r'byId\("([a-z-]+)"\)', page))
    assert asked
    assert asked <= set(ids)
    buttons = re.findall(r"<button[^>]*>", page)
    assert len(buttons) == 4
    assert all("aria-label=" in button for button in buttons)
    assert '<html lang="en">' in page
    assert '<html lang="en" data-theme="dark">' in page_of(mosaic(GRID), theme="dark")
    assert "{{" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


# ── size ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def coast(corners: int) -> Backdrop:
    """A coast with so many corners that it must be simplified for a page."""
    rng = np.random.default_rng(2)
    walk = np.cumsum(rng.normal(0, 1, (corners, 2)), axis=0)
    walk = (walk - walk.min(axis=0)) / np.ptp(walk, axis=0)
    return Backdrop((Shape("border", False, (walk,)),), (Label("Coast", 0.5, 0.5),), 1.0)


@pytest.mark.parametrize("size", [256, 1024, 2**17])
def test_pages_stay_below_a_megabyte(size: int) -> None:
    squares = mosaic(GRID.resized((size, size)), 8000)
    assert 7900 < len(squares.codes) <= 8000
    backdrop = coast(90_000)
    page = page_of(squares, backdrop=backdrop)
    assert len(page.encode()) <= 1_000_000
    shown = json.dumps({name: data_of(page)[name] for name in ("shapes", "labels")}, separators=(",", ":"))
    assert 200_000 < len(shown) <= 500_000


def test_a_backdrop_is_held_exactly_to_a_step() -> None:
    backdrop = island(GRID)
    data = data_of(page_of(mosaic(GRID), backdrop=backdrop))
    assert data["labels"][0] == ["Lighthouse", 0.3, 0.12]
    for (kind, closed, parts), shape in zip(data["shapes"], backdrop.shapes, strict=True):
        assert (kind, closed) == (shape.kind, shape.closed)
        for part, true in zip(parts, shape.parts, strict=True):
            back = np.cumsum(np.array(part).reshape(-1, 2), axis=0) / data["steps"]
            np.testing.assert_allclose(back, true, atol=0.5 / data["steps"])
