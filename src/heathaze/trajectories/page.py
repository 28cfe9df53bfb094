"""A self-contained HTML page of made-up journeys, with a slider for the time.

The page is one file, loads nothing from elsewhere and works offline, like the page of a map (``maps/page.py``), whose
parts it shares. It never shows true journeys: a page is made to be passed on.
"""

from __future__ import annotations

import html
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.domain.lines import Lines
from heathaze.files import replacing
from heathaze.maps.page import assemble, facts_list
from heathaze.maps.shade import height_over_width
from heathaze.trajectories.frame import DAY
from heathaze.trajectories.made_up import MadeUp

MOST_SHOWN = 2_000
"""The most journeys in a page; of more, every k-th is shown."""

MOST_POINTS = 100
"""The most points of a journey in a page; of more, every k-th and the last one are shown."""

TAIL = 300
"""Of a journey under way, the page draws the way of this many last seconds."""

RESEMBLE = (
    "As a whole they resemble the true ones, as far as the noise allows; lines away from most others may be noise."
)
"""What readers are told about journeys that call for no caution."""

_STEPS = 2**14
"""Positions are whole numbers from 0 to this."""


def write_page(made: MadeUp, path: Path, *, title: str = "", source: str = "") -> Path:
    """Write made-up journeys as a page (.html), completely or not at all.

    Args:
        made: The made-up journeys.
        path: The file.
        title: The title; if empty, "Made-up journeys".
        source: Where the true journeys come from.

    Returns:
        The path.

    Raises:
        CannotWrite: The file cannot be written; nothing is left behind.
        SimulatedRelease: The journeys were made with simulated randomness.
    """
    made.refuse_if_simulated()
    with replacing(path) as (draft,):
        draft.write_bytes(render(made, title=title, source=source).encode())
    return path


def render(made: MadeUp, *, title: str = "", source: str = "") -> str:
    """Make the HTML page of made-up journeys.

    Args:
        made: The made-up journeys.
        title: The title; if empty, "Made-up journeys".
        source: Where the true journeys come from.
    """
    clock = made.begins is not None
    shown = np.arange(0, len(made.lines), -(-len(made.lines) // MOST_SHOWN))
    seconds, offsets = made.seconds(), made.lines.offsets
    begins, ends = seconds[offsets[:-1]][shown], seconds[offsets[1:] - 1][shown]
    last = DAY if clock else max(60, int(np.ceil(np.quantile(ends, 0.99) / 60)) * 60)
    speed = f"{made.speed * 3.6:.3g} km/h" if made.grid.projection.is_geographic else f"{made.speed:g} units a second"
    times = (
        f"Journeys begin at hours of the day as they were measured, and all move at {speed}, a speed that was chosen "
        "without the data. Where and when they begin are independent."
        if clock
        else f"Times of day were not measured: all journeys begin together, and move at {speed}, a speed that was "
        "chosen without the data."
    )
    times = f"{made.caution_about_hours} {times}".strip()
    some = f"{len(shown):,} of {len(made.lines):,}" if len(shown) < len(made.lines) else f"{len(shown):,}"
    filled = {
        "title": html.escape(title or "Made-up journeys"),
        "subtitle": html.escape(f"{some} journeys that nobody made. {made.caution or RESEMBLE}"),
        "last": str(last),
        "step": "60" if clock else str(max(1, last // 600)),
        "slider": "Time of day" if clock else "Minutes since the journeys began",
        "tail": str(TAIL // 60),
        "times": html.escape(times),
        "promise": html.escape(made.promise),
        "guarantee": html.escape(made.guarantee.exact),
        "facts": facts_list(_facts(made) | ({"Source": source} if source else {})),
    }
    data = {
        "ratio": height_over_width(made.grid),
        "steps": _STEPS,
        "clock": clock,
        "tail": TAIL,
        "first": 8 * 3600 if clock else 0,
        "journeys": [
            [int(begin), int(np.ceil(end)), flat]
            for begin, end, flat in zip(begins, ends, _points(made, shown), strict=True)
        ],
    }
    return assemble(_text("page.html"), _text("page.js"), filled, data, more_style=_text("page.css"))


def _text(name: str) -> str:
    return resources.files("heathaze.trajectories").joinpath(name).read_text(encoding="utf-8")


def _facts(made: MadeUp) -> dict[str, str]:
    about = made.provenance
    return {
        "Mechanism": about.mechanism,
        **{name.capitalize(): str(value) for name, value in about.parameters.items()},
        "Unit": made.guarantee.unit.value,
        "Journeys made up": f"{len(made.lines):,}",
        "Day": about.day,
        "Version": about.version,
    }


def _points(made: MadeUp, shown: Any) -> list[list[int]]:
    """Write the points of each journey as whole numbers: the first position, and then differences."""
    lines: Lines = made.lines.take(shown)
    across = np.round(made.grid.across(lines.x) / made.grid.cols * _STEPS).astype(np.int64)
    down = np.round(made.grid.down(lines.y) / made.grid.rows * _STEPS).astype(np.int64)
    found = []
    for first, end in zip(lines.offsets[:-1].tolist(), lines.offsets[1:].tolist(), strict=True):
        which = np.unique(np.append(np.arange(first, end, -(-(end - first) // MOST_POINTS)), end - 1))
        pairs = np.column_stack([across[which], down[which]])
        found.append(np.diff(pairs, axis=0, prepend=0).ravel().tolist())
    return found
