"""The page: self-contained, safe against what it is told, and true to its numbers."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.inference.interval import interval
from heathaze.maps.page import pack, pack_steps, render_page
from heathaze.maps.shade import sigmas

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> & \" ' {{data}} {{facts}} \u2028 <!--"


class _Reader(HTMLParser):
    """Elements, attributes, and the text of each script and heading."""

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


def _page(density: Density, **changes: Any) -> str:
    told: dict[str, Any] = {
        "title": "A city",
        "total": 1000.0,
        "total_unit": "people",
        "guarantee": "A promise.",
        "facts": {"Mechanism": "Pyramid"},
    }
    return render_page(density, **{**told, **changes})


def _data(page: str) -> dict[str, Any]:
    data, _ = _Reader(page).texts["script"]
    parsed: dict[str, Any] = json.loads(data)
    return parsed


def _unpack(encoding: str, packed: bytes, count: int) -> npt.NDArray[np.float32]:
    """The format as its docstring tells it, written a second time."""
    if encoding == "plain":
        return np.frombuffer(packed, "<f4")
    values: list[npt.NDArray[np.float32]] = []
    at = 0
    while at < len(packed):
        length, shift = 0, 0
        while packed[at] & 128:
            length |= (packed[at] & 127) << shift
            shift, at = shift + 7, at + 1
        length |= packed[at] << shift
        values.append(np.full(length, np.frombuffer(packed[at + 1 : at + 5], "<f4")[0]))
        at += 5
    return np.concatenate(values) if count else np.empty(0, np.float32)


def _density(shape: tuple[int, int] = (24, 32), filled: float = 0.2) -> Density:
    rng = np.random.default_rng(5)
    return Density.from_mass(
        Grid.over(lon=(5, 6), lat=(50, 51), shape=shape), rng.random(shape) * (rng.random(shape) < filled)
    )


@pytest.mark.parametrize("filled", [0.01, 0.5, 1.0])
def test_the_page_holds_the_values(filled: float) -> None:
    density = _density((240, 320), filled)
    data = _data(_page(density))
    values = _unpack(data["encoding"], base64.b64decode(data["values"]), density.grid.cells)
    np.testing.assert_allclose(values.reshape(density.grid.shape), density.values, rtol=1e-7, atol=0)
    assert data["grid"] == density.grid.to_dict()
    assert (data["total"], data["unit"]) == (1000.0, "people")


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=600))
def test_packing_is_exact_and_never_longer_than_plain(values: list[float]) -> None:
    flat = np.repeat(values, 1 + np.arange(len(values)) % 3)
    encoding, packed = pack(flat)
    assert np.array_equal(_unpack(encoding, packed, len(flat)), flat.astype(np.float32))
    assert len(packed) <= 4 * len(flat)


def test_long_runs() -> None:
    values = np.zeros((1000, 1000))
    values[999, 999] = 1
    encoding, packed = pack(values)
    assert (encoding, len(packed)) == ("runs", 12)
    assert np.array_equal(_unpack(encoding, packed, values.size), values.ravel())


def test_mostly_empty_maps_make_small_pages() -> None:
    assert len(_page(_density((1024, 1024), 0.001))) < 80_000


def test_nothing_comes_from_elsewhere() -> None:
    page = _page(_density())
    assert re.findall(r"https?:|//[a-z]|url\(|@import|@font-face|import\(", page.replace("// ", "")) == []
    reader = _Reader(page)
    assert [value for name, value in reader.attributes if name in ("src", "href", "srcset", "action")] == ["data:,"]
    assert not {"iframe", "img", "object", "embed", "base"} & set(reader.tags)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("place", ["title", "guarantee", "total_unit", "name", "value"])
def test_hostile_texts_stay_texts(place: str) -> None:
    changes: dict[str, Any] = {"facts": {HOSTILE: "x"} if place == "name" else {"x": HOSTILE}}
    if place not in ("name", "value"):
        changes = {place: HOSTILE}
    page = _page(_density(), **changes)
    plain, told = _Reader(_page(_density(), facts={"x": "x"})), _Reader(page)
    assert told.tags == plain.tags
    assert len(told.texts["script"]) == 2
    assert "onerror" not in dict(told.attributes)
    if place == "title":
        assert told.texts["h1"] == [HOSTILE]
        assert told.texts["title"] == [HOSTILE]
    elif place == "total_unit":
        assert _data(page)["unit"] == HOSTILE
    elif place == "value":
        assert told.texts["dd"] == [HOSTILE]


@pytest.mark.parametrize(
    ("grid", "ratio"),
    [
        (Grid.over(lon=(0, 1), lat=(59.5, 60.5), size=8), 2.0),
        (Grid.plane(x=(0, 320), y=(0, 240), shape=(24, 32)), 0.75),
        (Grid.over(lon=(-180, 180), lat=(-85.051128, 85.051128), shape=(2, 9), projection="web-mercator"), 1.0),
        (Grid.over(lon=(0, 1), lat=(0, 1), size=1), 1.0),
    ],
    ids=["equirectangular", "plane", "web-mercator", "one-cell"],
)
def test_every_kind_of_grid(grid: Grid, ratio: float) -> None:
    data = _data(_page(Density.uniform(grid), total=None))
    assert data["heightOverWidth"] == pytest.approx(ratio, rel=1e-3)
    assert data["grid"]["projection"] == grid.projection.value
    assert data["total"] is None
    assert data["smoothing"] == [0.0]


def test_two_palettes_three_scales_and_smoothing() -> None:
    page = _page(_density((64, 128)))
    data = _data(page)
    assert {name: len(base64.b64decode(table)) for name, table in data["palettes"].items()} == {
        "inferno": 768,
        "cividis": 768,
    }
    assert data["smoothing"] == [0.0, 1.0, 2.5]
    inputs = [value for name, value in _Reader(page).attributes if name == "value"]
    assert {"linear", "sqrt", "log"} <= set(inputs)


def test_every_control_has_a_name_and_every_reference_a_target() -> None:
    page = _page(_density())
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


# ── how sure ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _unstep(packed: dict[str, Any]) -> npt.NDArray[np.float64]:
    steps = np.frombuffer(base64.b64decode(packed["steps"]), np.uint8)
    return np.where(steps == 255, 0.0, packed["top"] * 2 ** (steps.astype(np.float64) / -16))


def _deviations(density: Density) -> list[npt.NDArray[np.float64]]:
    rng = np.random.default_rng(3)
    return [np.exp(rng.normal(-9, 1, density.grid.shape)) for _ in range(1 + len(sigmas(density.grid)))]


@pytest.mark.parametrize("shape", [(24, 32), (64, 80)], ids=["as it is", "smoothed"])
def test_the_page_holds_the_deviations_of_each_smoothing(shape: tuple[int, int]) -> None:
    density = _density(shape)
    deviations = _deviations(density)
    data = _data(_page(density, deviations=deviations))
    assert len(data["sure"]["deviations"]) == len(data["smoothing"])
    for packed, deviation in zip(data["sure"]["deviations"], deviations, strict=True):
        np.testing.assert_allclose(_unstep(packed), deviation.ravel(), rtol=0.022)


def test_a_page_that_does_not_know_has_no_switch() -> None:
    density = _density()
    plain, sure = _page(density), _page(density, deviations=_deviations(density))
    assert "sure" not in _data(plain)
    names = [[value for name, value in _Reader(page).attributes if name == "name"] for page in (plain, sure)]
    assert [{"show", "fade"} & set(found) for found in names] == [set(), {"show", "fade"}]
    assert [name for name in names[1] if name not in ("show", "fade")] == names[0]
    assert "{{" not in plain
    assert len(plain) < len(sure)


def test_the_switches_can_be_reached_and_read() -> None:
    density = _density()
    page = _page(density, deviations=_deviations(density))
    assert re.search(r'<label[^>]*><input type="checkbox" name="fade" checked><span>Fade', page)
    assert re.search(r'<input type="radio" name="show" value="map" checked><span>Map</span></label>', page)
    assert re.search(r'<input type="radio" name="show" value="sure"><span>How sure</span></label>', page)
    # The script listens to every name it knows a look for.
    (looks,) = re.findall(r"const look = \{(.*)\};", page)
    assert {"show:", "fade:"} <= set(looks.split())
    assert re.findall(r"https?:|url\(|@import", page) == []


def test_the_table_of_intervals_is_that_of_the_library() -> None:
    density = _density()
    table = _data(_page(density, deviations=_deviations(density)))["sure"]["interval"]
    share, deviation = 0.02, 0.013
    at = (len(table["low"]) - 1) * np.log(deviation / share / table["relative"][0])
    at /= np.log(table["relative"][1] / table["relative"][0])
    ends = [share * np.interp(at, np.arange(len(table[name])), table[name]) for name in ("low", "high")]
    np.testing.assert_allclose(ends, interval(share, deviation, table["confidence"]), rtol=0.02)


@given(st.lists(st.floats(1e-12, 1e3) | st.just(0.0), min_size=1, max_size=60))
def test_steps_are_true_to_two_percent(values: list[float]) -> None:
    array = np.array(values)
    back = _unstep(pack_steps(array))
    kept = array > array.max() * 2**-15.8
    np.testing.assert_allclose(back[kept], array[kept], rtol=0.022)
    assert ((back == 0) == (array == 0)).all()


def test_deviations_that_do_not_fit_are_refused() -> None:
    density = _density((64, 80))
    for wrong in (_deviations(density)[:1], [np.zeros((80, 64))] * 3):
        with pytest.raises(InvalidInput, match="each of its 3 smoothings"):
            _page(density, deviations=wrong)
