"""Measure the page of a map in Chromium: its size, the processor time until it stands, and that of a drag step.

``--beside FILE.html`` measures other pages in the same way, for example one that an older version wrote. The figures of
the page of rasters, which the page of squares replaced, are printed for comparison.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.maps.backdrop import Backdrop, Shape
from heathaze.maps.page import render_page
from tests.maps.mosaics import mosaic

SIZES = (256, 1024, 2**17)
TIMES = 5
STEPS = 60
WANTED = (1_000_000, 500.0, 10.0)
BEFORE = {256: (657, 146), 1024: (9_800, 1_253), 2**17: (5_000, 929)}
"""Kilobytes and milliseconds of start-up of the page of rasters, as recorded before it was replaced, on another day."""


def main(beside: list[str] | None = None) -> None:
    """Print bytes, milliseconds of start-up and milliseconds of a drag step for maps of three sizes."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("There is no Chromium, so pages are not measured; install Debian's package chromium.")
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages = {}
        for size in SIZES:
            pages[f"8,000 squares of {size:,} cells a side"] = path = Path(folder) / f"{size}.html"
            path.write_bytes(_page(size).encode())
        pages |= {name: Path(name).resolve() for name in beside or ()}
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, path in pages.items():
            times = np.median([_times(browser, path) for _ in range(TIMES)], axis=0)
            measured = (path.stat().st_size, *times)
            reached = all(one <= limit for one, limit in zip(measured, WANTED, strict=True))
            goal = f": {'reached' if reached else 'MISSED'}" if path.parent == Path(folder) else ""
            print(f"{name}: {measured[0] / 1000:,.0f} kB, start {times[0]:.0f} ms, drag step {times[1]:.1f} ms{goal}")
        browser.close()
    for size, (kilobytes, start) in BEFORE.items():
        print(f"before, rasters of {size:,} cells a side: {kilobytes:,} kB, start {start:,} ms (recorded)")
    print(f"wanted: at most {WANTED[0] / 1000:,.0f} kB, {WANTED[1]:.0f} ms and {WANTED[2]:.0f} ms")


def _page(size: int) -> str:
    """Render a page with 8,000 squares and a backdrop that takes the whole room a page has for it."""
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(300):
        walk = np.cumsum(rng.normal(0, 1, (400, 2)), axis=0)
        lines.append(
            Shape("street", False, ((walk - walk.min(axis=0)) / np.ptp(walk, axis=0) * 0.3 + rng.random(2) * 0.7,))
        )
    squares = mosaic(Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=size), 8000)
    texts = {"title": "A city", "promise": "A promise.", "guarantee": "A guarantee."}
    return render_page(squares, **texts, facts={}, backdrop=Backdrop(tuple(lines), (), 1.0))


def _times(browser: Any, path: Path) -> tuple[float, float]:
    """Measure the processor time of the page's process, in milliseconds: until it stands, and of one step of a drag."""
    devtools = browser.new_browser_cdp_session()

    def processes() -> dict[int, float]:
        found = devtools.send("SystemInfo.getProcessInfo")["processInfo"]
        return {one["id"]: 1000 * one["cpuTime"] for one in found if one["type"] == "renderer"}

    def used() -> float:
        return sum(time - before.get(process, 0.0) for process, time in processes().items())

    page = browser.new_page(viewport={"width": 1280, "height": 900})
    before = processes()
    page.goto(path.as_uri())
    page.wait_for_timeout(1500)
    stands = used()
    page.mouse.move(300, 400)
    page.mouse.down()
    for step in range(STEPS):
        page.mouse.move(300 + 4 * step, 400 + 2 * step)
        page.wait_for_timeout(16)
    page.mouse.up()
    dragged = used()
    page.close()
    return stands, (dragged - stands) / STEPS


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", nargs="*", help="Other pages to measure.")
    main(parser.parse_args().beside)
