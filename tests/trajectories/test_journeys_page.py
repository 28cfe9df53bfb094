"""The page of made-up journeys: self-contained, true to the journeys, and a slider that works in Chromium."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heathaze as hz
from heathaze.datasets import rides
from heathaze.errors import SimulatedRelease
from heathaze.trajectories.page import MOST_SHOWN, render, write_page

GRID = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=64)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def publish(number: int = 40, **options: Any) -> hz.trajectories.MadeUp:
    secret = hz.trajectories.read(rides(people=40), GRID, person="person", trip="trip", time="time")
    return hz.trajectories.publish(hz.trajectories.JourneyTrees(GRID, 2, squares=16, **options), secret, number=number)


@pytest.fixture(scope="module")
def made() -> hz.trajectories.MadeUp:
    return publish(hours=True)


def data_of(page: str) -> Any:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_allows_its_own_scripts_only_and_loads_nothing(made) -> None:
    page = render(made)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind, pattern in (("script-src", r"<script>(.*?)</script>"), ("style-src", r"<style>(.*?)</style>")):
        allowed = re.search(kind + r" ([^;]*)", policy)[1]
        for text in re.findall(pattern, page, re.DOTALL):
            assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in allowed
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)  # Leaflet has the text of a link in it
    assert not re.search(r'(?:src|href)="(?!data:)', outside)
    assert "{{" not in page.split('<script type="application/json"')[0]


def test_the_page_holds_the_made_up_journeys_and_their_times(made) -> None:
    data = data_of(render(made))
    assert data["clock"] is True
    assert len(data["journeys"]) == 40
    begin, end, flat = data["journeys"][7]
    assert begin == int(made.begins[7])
    assert end - begin == pytest.approx(made.lines.lengths(GRID)[7] / made.speed, abs=2)
    points = np.cumsum(np.reshape(flat, (-1, 2)), axis=0) / data["steps"]
    there = slice(made.lines.offsets[7], made.lines.offsets[8])
    assert points[:, 0] == pytest.approx(GRID.across(made.lines.x[there]) / GRID.cols, abs=1e-4)
    assert points[:, 1] == pytest.approx(GRID.down(made.lines.y[there]) / GRID.rows, abs=1e-4)


def test_many_journeys_are_thinned_and_journeys_without_hours_begin_together() -> None:
    page = render(publish(number=MOST_SHOWN + 1))
    data = data_of(page)
    assert data["clock"] is False
    assert len(data["journeys"]) == (MOST_SHOWN + 2) // 2
    assert {begin for begin, _, _ in data["journeys"]} == {0}
    assert "1,001 of 2,001 journeys" in page
    assert "Times of day were not measured" in page


def test_simulated_journeys_are_not_written(made, tmp_path: Path) -> None:
    simulated = dataclasses.replace(made, provenance=dataclasses.replace(made.provenance, simulated=True))
    with pytest.raises(SimulatedRelease):
        write_page(simulated, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.xdist_group("browser")
def test_the_slider_shows_the_journeys_under_way(made, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    image = pytest.importorskip("PIL.Image")
    if CHROMIUM is None:
        pytest.skip("There is no Chromium, so the page is not opened in a browser; install Debian's package chromium.")
    path = write_page(made, tmp_path / "page.html")
    journeys = data_of(path.read_text(encoding="utf-8"))["journeys"]
    asked: list[str] = []
    complaints: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 800}, color_scheme="light")
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("#map canvas")

        def orange() -> int:
            """The number of pixels of the map in the colour of journeys under way."""
            shot = np.asarray(image.open(BytesIO(page.locator("#map").screenshot())).convert("RGB")).astype(int)
            return int(((shot[..., 0] > 190) & (shot[..., 1] < 150) & (shot[..., 2] < 90)).sum())

        # A minute in the middle of a journey, and one in which nobody is under way.
        begin, end, _ = max(journeys, key=lambda one: one[1] - one[0])
        busy = min((begin + end) // 120 * 60, 86_340)
        under = [sum(a <= t + day <= b for a, b, _ in journeys for day in (0, 86_400)) for t in range(0, 86_400, 60)]
        for time, some in ((busy, True), (60 * int(np.argmin(under)), min(under) > 0)):
            page.fill("#time", str(time))
            text = page.locator("#now").inner_text()
            assert text == f"{time // 3600:02}:{time // 60 % 60:02}, {under[time // 60]} under way"
            assert page.locator("#time").get_attribute("aria-valuetext") == text
            assert (orange() > 0) == some
        # Playing moves the slider, and a second press stops it.
        page.click("#play")
        playwright.expect(page.locator("#time")).not_to_have_value(str(time))
        page.click("#play")
        assert page.locator("#play").get_attribute("aria-label") == "Play"
        page.click("#theme")
        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.locator("#map").press("+")
        page.locator("#map").press("0")
        browser.close()
    assert asked == [path.as_uri()]
    assert complaints == []
