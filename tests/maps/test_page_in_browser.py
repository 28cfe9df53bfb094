"""The page in Chromium: what readers see, touch, type, hear and print. No request leaves it."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import heathaze as hz
from heathaze.datasets import city
from heathaze.datasets.city import CITY as CITY_BOX
from heathaze.datasets.geography import city_geography, write_geojson
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import node_extent
from heathaze.maps.backdrop import COLOURS, Backdrop, Shape
from heathaze.maps.backdrop_files import read_backdrop
from heathaze.maps.sheet import Look
from heathaze.maps.squares import RAMPS, UNKNOWN, WHITE, Squares, number
from heathaze.release.formats.metadata import Contents
from heathaze.release.formats.pictures import write
from tests.maps.mosaics import island, mosaic
from tests.maps.test_page import page_of

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.xdist_group("browser")  # one worker, one browser

GRID = Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=64)
CITY = mosaic(GRID, 60)
STORED = Path(__file__).with_name("page.png")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("There is no Chromium, so the page is not opened in a browser; install Debian's package chromium.")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Opened:
    """A page in a window of its own, which remembers what it asked for and complained about."""

    def __init__(self, browser: Any, path: Path, **window: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1100, "height": 800}, **window})
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#map canvas")
        self.devtools = self.context.new_cdp_session(self.page)

    def box(self) -> Any:
        """The place of the map on the screen."""
        return self.page.locator("#map").bounding_box()

    def point(self, x: float, y: float) -> tuple[float, float]:
        """A place of the whole map, in fractions of it, on the screen."""
        box, ratio = self.box(), self.page.evaluate("JSON.parse(document.getElementById('data').textContent).ratio")
        width = min(box["width"] - 4, (box["height"] - 4) / ratio)
        left, top = box["x"] + (box["width"] - width) / 2, box["y"] + (box["height"] - width * ratio) / 2
        return left + x * width, top + y * width * ratio

    def pixels(self) -> Any:
        """What the screen shows."""
        return np.asarray(Image.open(BytesIO(self.page.screenshot())).convert("RGB"))

    def zoom(self) -> float:
        """How many pixels the box of the scale stands for one metre: larger is nearer."""
        bar = self.page.locator("#scale span")
        length, unit = bar.inner_text().split()
        return float(bar.bounding_box()["width"] / (float(length) * (1000 if unit == "km" else 1)))

    def touch(self, kind: str, *fingers: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(fingers)]
        self.devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def heard(self) -> str:
        return str(self.page.locator("#heard").inner_text())

    def rest(self) -> None:
        """Wait until animations are over."""
        self.page.wait_for_timeout(400)


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Open a page of squares; every page that a test opens must have asked for nothing and complained of nothing."""
    found: list[Opened] = []

    def opening(squares: Squares = CITY, window: dict[str, Any] | None = None, **texts: Any) -> Opened:
        path = tmp_path / f"page{len(found)}.html"
        path.write_bytes(page_of(squares, **texts).encode())
        found.append(Opened(browser, path, **(window or {})))
        return found[-1]

    yield opening
    for one in found:
        assert [url for url in one.asked if not url.startswith(("file:", "data:"))] == []
        assert len(one.asked) == 1
        assert one.complaints == []
        one.context.close()


PHONE = {"viewport": {"width": 390, "height": 760}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


def middles(squares: Squares) -> Any:
    """The middle of each square, in fractions of the map."""
    top, bottom, left, right = node_extent(squares.grid, squares.levels, squares.codes)
    return np.column_stack([(left + right) / 2 / squares.grid.cols, (top + bottom) / 2 / squares.grid.rows])


# ── what is seen ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "grid",
    [
        GRID,
        Grid.over(lon=(-20, 40), lat=(30, 70), shape=(48, 64), projection="web-mercator"),
        Grid.plane(x=(0, 320), y=(0, 240), shape=(24, 32)),
    ],
    ids=lambda grid: grid.projection.value,
)
def test_every_square_has_its_colour(opened: Any, grid: Grid, theme: str) -> None:
    squares = mosaic(grid, 60)
    page = opened(squares, {"color_scheme": theme})
    shown = page.pixels()
    paper = {"light": (255, 255, 255), "dark": (21, 23, 28)}[theme]
    top, bottom, left, right = node_extent(grid, squares.levels, squares.codes)
    large = np.minimum((right - left) / grid.cols, (bottom - top) / grid.rows) > 0.02
    seen = set()
    for k in np.flatnonzero(large & (squares.kinds != UNKNOWN)).tolist():
        if k == squares.densest:
            continue
        kind = int(squares.kinds[k])
        wanted = paper if kind == WHITE else tuple(bytes.fromhex(RAMPS[theme][kind][1:]))
        near: set[tuple[int, ...]] = set()
        # Off the middle, in two places: the word "densest" covers at most one of them.
        for at in (0.3, 0.7):
            x, y = page.point(
                (left[k] + at * (right[k] - left[k])) / grid.cols, (top[k] + at * (bottom[k] - top[k])) / grid.rows
            )
            near |= {
                tuple(one) for one in shown[int(y) - 1 : int(y) + 2, int(x) - 1 : int(x) + 2].reshape(-1, 3).tolist()
            }
        assert wanted in near, (k, kind)
        seen.add(kind)
    assert len(seen) >= 6


def test_hatching_has_two_colours(opened: Any) -> None:
    page = opened()
    shown = page.pixels()
    k = int(np.flatnonzero(CITY.kinds == UNKNOWN)[np.argmin(CITY.levels[CITY.kinds == UNKNOWN])])
    x, y = map(int, page.point(*middles(CITY)[k]))
    colours = {tuple(one) for one in shown[y - 6 : y + 6, x - 6 : x + 6].reshape(-1, 3).tolist()}
    assert {(238, 240, 243), (154, 161, 172)} <= colours


def difference(one: Any, other: Any) -> float:
    """The mean difference of two pictures, from 0 to 255, after averaging over 8 × 8 pixels: letters hardly count."""
    small = [np.asarray(Image.fromarray(picture).resize((one.shape[1] // 8, one.shape[0] // 8), Image.Resampling.BOX))
             for picture in (one, other)]  # fmt: skip
    return float(np.abs(small[0].astype(float) - small[1].astype(float)).mean())


def test_the_page_looks_as_it_did(opened: Any) -> None:
    """The stored picture is renewed by deleting it and running this test; look at it before it is committed."""
    texts = {"subtitle": "About 5,000 people", "source": "Source: made up.", "backdrop": island(GRID)}
    shown = opened(**texts).pixels()
    if not STORED.exists():
        Image.fromarray(shown).quantize(128).save(STORED, optimize=True)
    stored = np.asarray(Image.open(STORED).convert("RGB"))
    assert difference(shown, stored) < 4
    # The comparison sees a missing backdrop, and another theme.
    assert difference(opened().pixels(), stored) > 8
    assert difference(opened(window={"color_scheme": "dark"}, **texts).pixels(), stored) > 50


@pytest.fixture(scope="module")
def city_page() -> bytes:
    """The page of the demo, simulated, so that it is always the same."""
    grid = Grid.over(lon=CITY_BOX.x, lat=CITY_BOX.y, size=256)
    counts = hz.count(city(people=20_000, visits=200_000), grid, person="person")
    release = hz.publish(hz.central.default(grid, 1), counts, randomness=hz.Simulation(1))
    with tempfile.TemporaryDirectory() as folder:
        outlines = write_geojson(city_geography(), Path(folder) / "outlines.geojson")
        look = Look(title="Where people are, in a city that is made up", backdrop=read_backdrop([outlines], grid))
        write(Contents(release.estimate, release.guarantee, release.provenance), Path(folder) / "city.html", look)
        return (Path(folder) / "city.html").read_bytes()


GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


@pytest.mark.parametrize("name", ["page", "page-dark", "page-phone"])
def test_the_guide_shows_the_page_as_it_is(browser: Any, city_page: bytes, tmp_path: Path, name: str) -> None:
    """The guide's pictures are taken here; they are renewed by deleting them and running this test."""
    (tmp_path / "city.html").write_bytes(city_page)
    window = {"page-dark": {"color_scheme": "dark"}, "page-phone": PHONE}.get(name, {})
    page = Opened(browser, tmp_path / "city.html", **window)
    page.page.focus("#map")
    page.page.keyboard.press("Home")  # the densest square is read
    page.page.wait_for_timeout(200)
    shown, stored = page.pixels(), GUIDE / f"{name}.png"
    if not stored.exists():
        Image.fromarray(shown).quantize(128).save(stored, optimize=True)
    # The day and the version are on the page, so a few letters may differ.
    assert difference(shown, np.asarray(Image.open(stored).convert("RGB"))) < 4
    assert difference(shown[:, ::-1], np.asarray(Image.open(stored).convert("RGB"))) > 4
    page.context.close()


@pytest.mark.parametrize("window", [{}, PHONE], ids=["screen", "phone"])
def test_nothing_lies_on_the_map_but_its_buttons(opened: Any, window: dict[str, Any]) -> None:
    """The scale covered a name once."""
    page = opened(backdrop=island(GRID), window=window)
    scale = page.page.locator("#scale").bounding_box()
    assert scale["y"] >= page.box()["y"] + page.box()["height"]
    assert scale["y"] + scale["height"] <= page.page.locator("#keys").bounding_box()["y"]
    assert page.page.locator("#scale").is_visible()


def test_names_and_water(opened: Any) -> None:
    empty = mosaic(GRID, 4)
    empty = type(empty)(**{**empty.__dict__, "kinds": np.full(len(empty.codes), WHITE)})
    page = opened(empty, backdrop=island(GRID))
    shown = page.pixels()

    def near(x: float, y: float) -> Any:
        """The colours around a place; fine level lines on water are 8 pixels apart."""
        x, y = page.point(x, y)
        return {tuple(one) for one in shown[int(y) - 4 : int(y) + 4, int(x)].tolist()}

    water, wave = (tuple(bytes.fromhex(COLOURS["light"][name][1:])) for name in ("water", "wave"))
    assert near(0.02, 0.02) == {water, wave}  # the sea
    assert near(0.65, 0.65) == {water, wave}  # the lake
    assert near(0.3, 0.6) == {(255, 255, 255)}
    assert "water (no square on it: under" in page.page.locator(".legend").inner_text()
    x, y = map(int, page.point(0.3, 0.12))
    assert np.ptp(shown[y - 6 : y + 6, x - 30 : x + 30].astype(int).sum(axis=2)) > 400  # "Lighthouse"


def test_what_lies_outside_of_districts_is_tinted(opened: Any) -> None:
    empty = mosaic(GRID, 4)
    empty = type(empty)(**{**empty.__dict__, "kinds": np.full(len(empty.codes), WHITE)})
    district = Shape("border", True, (np.array([[0, 0], [0.5, 0], [0.5, 1], [0, 1.0]]),))
    for theme in ("light", "dark"):
        page = opened(empty, {"color_scheme": theme}, backdrop=Backdrop((district,), (), 1.0))
        shown = page.pixels()
        (a, b), (c, d) = page.point(0.25, 0.5), page.point(0.75, 0.5)
        found = ["#" + bytes(shown[int(y), int(x)].tolist()).hex() for x, y in ((a, b), (c, d))]
        assert found == [COLOURS[theme]["paper"], COLOURS[theme]["outside"]]
        assert "outside the outlines: water or other places" in page.page.locator(".legend").inner_text()


def test_sizes_in_the_legend_have_the_scale_of_the_map(opened: Any) -> None:
    """They are as large as squares of the map: at first, after zooming, and on paper; or they say that they are not."""
    page = opened()
    coloured = CITY.levels[CITY.kinds >= 0]

    def sizes() -> list[tuple[int, float, float, str]]:
        found = page.page.evaluate(
            "[...document.querySelectorAll('.sizes div')].map((one) => [Number(one.dataset.level), "
            "...['width', 'height'].map((side) => Number(one.querySelector('rect').getAttribute(side))), "
            "one.innerText])"
        )
        return [tuple(one) for one in found]

    def check(width: float, height: float) -> list[bool]:
        smaller = []
        for level, wide, tall, words in sizes():
            side = 2.0**-level
            smaller.append("drawn smaller" in words)
            wanted = (max(1.0, width * side), max(1.0, height * side))
            assert smaller[-1] == (max(wanted) > 96)
            assert ((wide, tall) == pytest.approx(wanted, abs=0.1)) != smaller[-1]
        return smaller

    levels = [level for level, *_ in sizes()]
    assert (levels[0], levels[-1]) == (coloured.max(), coloured.min())
    left, top = page.point(0, 0)
    right, bottom = page.point(1, 1)
    check(right - left, bottom - top)
    before = page.zoom()
    page.page.click("#zoom-in")
    page.rest()
    nearer = page.zoom() / before
    assert nearer > 1.5
    assert any(check((right - left) * nearer, (bottom - top) * nearer))
    page.page.set_viewport_size({"width": 688, "height": 970})
    page.page.emulate_media(media="print")
    page.rest()
    sheet = page.page.locator("#sheet").bounding_box()
    pixels = page.page.evaluate("document.getElementById('sheet').width")
    shrunk = sheet["width"] / pixels * (pixels - 4)
    check(shrunk, shrunk * (bottom - top) / (right - left))


TILES = "https://tiles.example/{z}/{x}/{y}.png"


@pytest.mark.parametrize("projection", ["equirectangular", "web-mercator"])
def test_streets_come_after_a_click_alone(browser: Any, tmp_path: Path, projection: str) -> None:
    """Each tile of the pretended server has a colour that tells its column and row."""
    grid = Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=64, projection=projection)
    empty = mosaic(grid, 4)
    empty = type(empty)(**{**empty.__dict__, "kinds": np.full(len(empty.codes), WHITE)})
    path = tmp_path / "page.html"
    path.write_bytes(page_of(empty, tiles=TILES).encode())
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    page, asked, complaints = context.new_page(), [], []

    def colour(column: int, row: int) -> tuple[int, int, int]:
        return 40 * (column % 5), 40 * (row % 5), 200

    def answer(route: Any) -> None:
        file, (column, row) = BytesIO(), map(int, route.request.url.removesuffix(".png").split("/")[-2:])
        Image.new("RGB", (256, 256), colour(column, row)).save(file, "PNG")
        asked.append((route.request.url, route.request.headers.get("referer")))
        route.fulfill(body=file.getvalue(), content_type="image/png")

    page.on("console", lambda message: complaints.append(message.text))
    context.route(re.compile("^https:"), answer)
    page.goto(path.as_uri())
    page.wait_for_selector("#map canvas")
    page.wait_for_timeout(300)
    told = page.locator("#tiles").inner_text()
    assert told.startswith("Show streets from tiles.example Your internet address")
    assert asked == []
    page.click("#tiles button")
    page.wait_for_timeout(800)
    assert 4 <= len(asked) <= 60
    assert all(url.startswith("https://tiles.example/") and referrer is None for url, referrer in asked)
    assert complaints == []
    assert page.locator("#tiles").inner_text() == "Streets come from tiles.example."
    # The screen shows the tile in which a place lies.
    zoom = int(asked[0][0].split("/")[3])
    shown = np.asarray(Image.open(BytesIO(page.screenshot())).convert("RGB"))
    box = page.locator("#map").bounding_box()
    ratio = page.evaluate("JSON.parse(document.getElementById('data').textContent).ratio")
    width = min(box["width"] - 4, (box["height"] - 4) / ratio)
    left, top = box["x"] + (box["width"] - width) / 2, box["y"] + (box["height"] - width * ratio) / 2
    right = 0
    places = np.random.default_rng(3).uniform(0.05, 0.95, (200, 2))
    for u, v in places.tolist():
        lon, lat = float(grid.x_at(u * grid.cols)), float(grid.y_at(v * grid.rows))
        column = int((lon + 180) / 360 * 2**zoom)
        row = int((1 - np.arcsinh(np.tan(np.radians(lat))) / np.pi) / 2 * 2**zoom)
        seen = shown[int(top + v * width * ratio), int(left + u * width)]
        right += bool(np.abs(seen.astype(int) - colour(column, row)).max() <= 3)
    assert right >= 190  # the others lie on a border, or below a button
    context.close()


# ── what is read ────────────────────────────────────────────────────────────────────────────────────────────────────


def check_words(text: str, k: int) -> None:
    if CITY.kinds[k] == UNKNOWN:
        assert text.startswith("Unknown: may be few or many")
    elif CITY.kinds[k] == WHITE:
        assert text.startswith(f"Under {number(CITY.classes[0])} people per km²")
    else:
        assert text.startswith(f"About {number(CITY.density[k])} people per km²")
        assert "9 times in 10" in text


@pytest.mark.parametrize("kind", ["mouse", "tap"])
def test_pointing_reads_the_square(opened: Any, kind: str) -> None:
    page = opened(window=PHONE if kind == "tap" else None)
    for k in range(0, len(CITY.codes), 15):
        x, y = page.point(*middles(CITY)[k])
        if kind == "tap":
            page.page.touchscreen.tap(x, y)
            page.rest()  # two quick taps would zoom
            check_words(page.heard(), k)
        else:
            page.page.mouse.move(x, y)
        check_words(page.page.locator("#tip").inner_text(), k)
    if kind == "mouse":
        page.page.mouse.move(*(number + 2 for number in (page.box()["x"], page.box()["y"] - 20)))
        assert page.page.locator("#tip").is_hidden()


def test_page_down_reaches_every_square_from_the_densest(opened: Any) -> None:
    page = opened()
    page.page.focus("#map")
    page.page.keyboard.press("Home")
    heard = []
    for _ in range(len(CITY.codes)):
        heard.append(page.heard())
        page.page.keyboard.press("PageDown")
    assert page.heard() == heard[0]
    check_words(heard[0], CITY.densest)
    assert len(set(heard)) == len(CITY.codes)


def test_arrows_reach_every_square(opened: Any) -> None:
    page = opened()
    keys = np.random.default_rng(3).choice(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"], 6000).tolist()
    heard = page.page.evaluate(
        """(keys) => {
            const map = document.getElementById("map"), heard = new Set();
            for (const key of keys) {
                map.dispatchEvent(new KeyboardEvent("keydown", { key }));
                heard.add(document.getElementById("heard").textContent);
            }
            return [...heard];
        }""",
        keys,
    )
    assert "The map ends here." in heard
    assert len(set(heard) - {"The map ends here."}) == len(CITY.codes)


def test_an_arrow_steps_to_the_neighbour(opened: Any) -> None:
    page = opened(backdrop=island(GRID))
    page.page.focus("#map")
    page.page.keyboard.press("Home")
    top, bottom, left, _ = (side[CITY.densest] for side in node_extent(GRID, CITY.levels, CITY.codes))
    page.page.keyboard.press("ArrowLeft")
    (next_to,) = (
        k
        for k, (a, b, c, d) in enumerate(zip(*node_extent(GRID, CITY.levels, CITY.codes), strict=True))
        if d == left and a <= (top + bottom) / 2 < b and c < left
    )
    check_words(page.heard(), next_to)
    assert (
        "Møller & Sons" in page.heard() or "West End" in page.heard() or ", 9" in page.heard() or "° N" in page.heard()
    )
    page.page.keyboard.press("Escape")
    assert page.page.locator("#tip").is_hidden()


def test_the_cursor_stays_in_view_when_zoomed_in(opened: Any) -> None:
    page = opened()
    page.page.focus("#map")
    for _ in range(3):
        page.page.keyboard.press("+")
        page.rest()
    for key in ("Home", "PageDown", "PageDown", "PageDown", "End"):
        page.page.keyboard.press(key)
        box, frame = page.box(), page.page.locator(".here").bounding_box()
        assert frame["x"] < box["x"] + box["width"]
        assert frame["x"] + frame["width"] > box["x"]
        assert frame["y"] < box["y"] + box["height"]
        assert frame["y"] + frame["height"] > box["y"]


# ── moving ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_finger_scrolls_the_page(opened: Any) -> None:
    page = opened(window=PHONE)
    before = page.zoom()
    x, y = page.point(0.5, 0.8)
    page.touch("touchStart", (x, y))
    for way in range(10, 310, 10):
        page.touch("touchMove", (x, y - way))
    page.touch("touchEnd")
    page.rest()
    assert page.page.evaluate("scrollY") >= 200
    assert page.zoom() == pytest.approx(before)


def test_two_fingers_pinch_and_move(opened: Any) -> None:
    page = opened(window=PHONE)
    before = page.zoom()
    x, y = page.point(0.5, 0.5)
    page.touch("touchStart", (x - 20, y), (x + 20, y))
    for way in range(2, 62, 2):
        page.touch("touchMove", (x - 20 - way, y), (x + 20 + way, y))
    page.touch("touchEnd")
    page.rest()
    assert page.zoom() > 2.5 * before
    assert page.page.evaluate("scrollY") == 0
    # Two fingers side by side move the map, and the square that was read with it.
    nearer = page.zoom()
    page.page.touchscreen.tap(x, y)
    was = page.page.locator(".here").bounding_box()
    page.touch("touchStart", (x - 40, y), (x + 40, y))
    for way in range(3, 63, 3):
        page.touch("touchMove", (x - 40, y - way), (x + 40, y - way))
    page.touch("touchEnd")
    page.rest()
    assert page.page.locator(".here").bounding_box()["y"] == pytest.approx(was["y"] - 60, abs=6)
    assert page.zoom() == pytest.approx(nearer, rel=0.05)
    assert page.page.evaluate("scrollY") == 0


def test_the_wheel_scrolls_and_with_control_zooms(opened: Any) -> None:
    page = opened(window={"viewport": {"width": 800, "height": 600}})
    page.page.mouse.move(*page.point(0.5, 0.5))
    before = page.zoom()
    page.page.mouse.wheel(0, 250)
    page.rest()
    assert page.page.evaluate("scrollY") >= 200
    assert page.zoom() == pytest.approx(before)
    page.page.evaluate("scrollTo(0, 0)")
    page.page.mouse.move(*page.point(0.5, 0.5))
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -240)
    page.page.keyboard.up("Control")
    page.rest()
    assert page.zoom() > 2 * before
    assert page.page.evaluate("scrollY") == 0


def test_the_mouse_drags_and_the_buttons_zoom(opened: Any) -> None:
    page = opened(window={"reduced_motion": "reduce"})  # so that the map stops where it is dropped
    before = page.zoom()
    page.page.click("#zoom-in")
    page.rest()
    assert page.zoom() == pytest.approx(2 * before, rel=0.02)
    x, y = page.point(0.5, 0.5)
    page.page.mouse.move(x, y)
    there = page.page.locator("#tip p").last.inner_text()
    page.page.mouse.down()
    page.page.mouse.move(x + 150, y + 80, steps=6)
    page.page.mouse.up()
    page.rest()
    page.page.mouse.move(x + 151, y + 81)
    page.page.mouse.move(x + 150, y + 80)
    assert page.page.locator("#tip p").last.inner_text() == there
    page.page.click("#whole")
    page.rest()
    assert page.zoom() == pytest.approx(before, rel=0.02)


def test_a_frame_without_a_size_shows_the_whole_map_later(browser: Any, tmp_path: Path) -> None:
    """As in a notebook: the frame is sandboxed, and has no size when the page loads."""
    (tmp_path / "inner.html").write_bytes(page_of(CITY).encode())
    hidden = '<iframe sandbox="allow-scripts" src="inner.html" style="display: none"></iframe>'
    (tmp_path / "outer.html").write_text(f"<!doctype html><body>{hidden}</body>", encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "outer.html").as_uri())
    page.wait_for_timeout(200)
    page.evaluate(
        "Object.assign(document.querySelector('iframe').style, {display: 'block', width: '900px', height: '700px'})"
    )
    inner = page.frames[1]
    inner.wait_for_selector("#map canvas")
    assert inner.locator("#scale span").inner_text() in ("2 km", "5 km")
    page.close()


# ── other ways to see and to use ────────────────────────────────────────────────────────────────────────────────────


def test_dark_can_be_chosen(opened: Any) -> None:
    page = opened()
    assert page.pixels()[5, 5].min() > 200
    page.page.click("#theme")
    assert page.pixels()[5, 5].max() < 60
    assert opened(theme="dark").pixels()[5, 5].max() < 60


def test_a_phone_has_no_sideways_scroll(opened: Any) -> None:
    page = opened(
        window={**PHONE, "viewport": {"width": 320, "height": 640}}, title="Where people check in, Newyorkcity"
    )
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.box()["y"] < 250


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_print_has_the_title_first_and_the_whole_map_on_white(opened: Any, theme: str) -> None:
    page = opened(window={"color_scheme": theme, "viewport": {"width": 800, "height": 1100}})
    page.page.click("#zoom-in")
    page.rest()
    page.page.emulate_media(media="print", color_scheme=theme)
    page.page.wait_for_timeout(200)
    title, sheet = (page.page.locator(name).bounding_box() for name in ("h1", "#sheet"))
    assert title["y"] + title["height"] <= sheet["y"]
    assert page.page.locator("#map").is_hidden()
    shown = page.pixels()
    assert shown[2, 2].tolist() == [255, 255, 255]
    assert (shown.min(axis=2) > 250).mean() > 0.3
    # Every large square is there, although the screen had zoomed in.
    squares = CITY
    top, bottom, left, right = node_extent(GRID, squares.levels, squares.codes)
    ratio = page.page.evaluate("JSON.parse(document.getElementById('data').textContent).ratio")
    scale = sheet["width"] / page.page.evaluate("document.getElementById('sheet').width")
    width = sheet["width"] - 4 * scale
    for k in np.flatnonzero((squares.kinds >= 0) & (right - left > 3)).tolist():
        x = sheet["x"] + 2 * scale + width * (left[k] + 0.3 * (right[k] - left[k])) / GRID.cols
        y = sheet["y"] + 2 * scale + width * ratio * (top[k] + 0.3 * (bottom[k] - top[k])) / GRID.rows
        wanted = np.array(list(bytes.fromhex(RAMPS["light"][squares.kinds[k]][1:])))
        assert np.abs(shown[int(y), int(x)] - wanted).max() < 12
    assert len(page.page.pdf()) > 10_000


def test_no_fault_in_axe(opened: Any) -> None:
    import axe_playwright_python

    axe = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    for window in (None, {"color_scheme": "dark"}, PHONE):
        texts = {"subtitle": "About 5,000 people", "source": "Source: made up.", "tiles": TILES}
        page = opened(window=window, backdrop=island(GRID), **texts)
        page.page.focus("#map")
        page.page.keyboard.press("Home")
        page.page.evaluate("document.querySelector('details').open = true")
        page.devtools.send("Runtime.evaluate", {"expression": axe})
        result = page.page.evaluate("axe.run()")
        assert [fault["id"] for fault in result["violations"]] == [], json.dumps(result["violations"], indent=1)[:3000]
        assert len(result["passes"]) > 20


def test_the_policy_stops_scripts_that_are_not_the_pages(opened: Any, tmp_path: Path, browser: Any) -> None:
    """What the hashes are for: text that became an element after all would still not run."""
    html = page_of(CITY).replace("</body>", "<script>document.title = 'caught'</script><p onclick='1'></p></body>")
    (tmp_path / "changed.html").write_text(html, encoding="utf-8")
    page = browser.new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.goto((tmp_path / "changed.html").as_uri())
    assert page.title() == "A city"
    assert any("Content Security Policy" in text for text in told)
    page.close()
