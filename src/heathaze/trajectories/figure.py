"""Pictures of made-up journeys: a PNG, alone or beside the true ones, or a page with a slider for the time."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput, UnknownFormat
from heathaze.files import replacing
from heathaze.maps.sheet import Look, WideSheet, Words
from heathaze.trajectories.made_up import MadeUp
from heathaze.trajectories.page import RESEMBLE, write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".png", ".html")
"""The types of pictures."""

MOST_DRAWN = 2_000
"""The most journeys in one panel; of more, every k-th is drawn."""

_SIDE = 6.6
"""The largest width of a single map, in inches."""

_BLUE, _ORANGE = "#0072b2", "#d55e00"
"""Two colours that colour-blind people can distinguish (Okabe and Ito)."""


def draw(made: MadeUp, path: str | Path, truth: Lines | None = None, *, title: str = "", source: str = "") -> Path:
    """Draw made-up journeys.

    Args:
        made: The made-up journeys.
        path: The file to write: a picture (.png), or a page with a slider for the time (.html).
        truth: If given, the true journeys are drawn beside them, and the picture says that it is not private. A page
            is made to be passed on, so it never shows them. A picture of journeys that were made with simulated
            randomness says that it must not be published, and states no promise.
        title: The title of the picture or page; if empty, "Made-up journeys".
        source: The source of the true journeys, printed below a picture or in a page.

    Returns:
        The path.

    Raises:
        UnknownFormat: The ending is neither .png nor .html.
        InvalidInput: A page is to show true journeys.
        CannotWrite: The file cannot be written; nothing is left behind.
        SimulatedRelease: A page is to show journeys that were made with simulated randomness.

    >>> import tempfile
    >>> from heathaze.trajectories import LocalJourneys, estimate, randomize
    >>> mechanism = LocalJourneys(Grid.plane(x=(0, 8), y=(0, 8), size=8), epsilon=2, squares=16)
    >>> made = estimate(randomize(mechanism, Lines.from_points([[(1, 1), (7, 7)]] * 50)), number=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw(made, Path(folder) / "made-up.html").stat().st_size > 1000
    True
    """
    path = Path(path)
    check_drawable(path, beside_truth=truth is not None)
    if path.suffix.lower() == ".html":
        return write_page(made, path, title=title, source=source)
    panels = [("Made-up journeys", made.lines, _BLUE)]
    if truth is not None:
        panels.insert(0, ("True journeys (secret)", truth, _ORANGE))
    chosen = [lines.take(np.arange(0, len(lines), -(-len(lines) // MOST_DRAWN))) for _, lines, _ in panels]
    headings = [
        f"{name}: {len(some):,} of {len(lines):,}" if len(some) < len(lines) else f"{name}: {len(lines):,}"
        for (name, lines, _), some in zip(panels, chosen, strict=True)
    ]
    danger = ""
    if truth is not None:
        danger = "NOT PRIVATE: this picture shows true journeys. Do not publish it."
    elif made.provenance.simulated:
        danger = "SIMULATED: anyone can repeat this noise. Do not publish this picture."
    look = Look(source=source)
    sheet = WideSheet(made.grid, _words(made, title, danger), look, headings, 0.0, _SIDE / len(panels) ** 0.5)
    if danger:
        sheet.figure.texts[0].set_color("#b00020")  # the first text is the title
    for axes, some, (_, _, colour) in zip(sheet.maps, chosen, panels, strict=True):
        _draw_lines(axes, some, colour, made.grid)
    with replacing(path) as (draft,):
        sheet.save(draft, "png")
    return path


def check_drawable(path: Path, *, beside_truth: bool) -> None:
    """Check what :func:`draw` would refuse, before anything is paid.

    Raises:
        UnknownFormat: The ending is not that of a picture.
        InvalidInput: A page is to show true journeys.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UnknownFormat(f"Unknown picture type {path.suffix or path}; expected {' or '.join(ENDINGS)}.")
    if beside_truth and path.suffix.lower() == ".html":
        raise InvalidInput(
            "A page never shows true journeys, because it is made to be passed on; draw them beside the made-up ones "
            "in a .png."
        )


def _words(made: MadeUp, title: str, danger: str) -> Words:
    """Write the texts of a picture. A warning of danger replaces the title, and the promise is left out."""
    about = f"Journeys that nobody made. {made.caution or RESEMBLE}"
    day = datetime.date.fromisoformat(made.provenance.day)
    origin = f"Made up on {day.day} {day:%B %Y} with Heathaze {made.provenance.version}."
    if danger:
        return Words(danger, f"{title} {made.caution}".strip(), "", "", origin)
    return Words(title or "Made-up journeys", about, made.promise, made.guarantee.exact, origin)


def _draw_lines(axes: Axes, lines: Lines, colour: str, grid: Grid) -> None:
    """Draw journeys onto a panel from 0 to 1."""
    from matplotlib.collections import LineCollection

    points = np.column_stack([grid.across(lines.x) / grid.cols, 1 - grid.down(lines.y) / grid.rows])
    ways = np.split(points, lines.offsets[1:-1])
    axes.add_collection(LineCollection(ways, colors=colour, linewidths=0.6, alpha=0.25), autolim=False)
