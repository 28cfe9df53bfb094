"""A self-contained HTML page with a map of certain squares to move, zoom and read.

The page is one file, loads nothing from elsewhere and works offline. Street tiles are the exception: if the page names
a tile server, it asks this server after the reader has agreed. Its content-security policy allows exactly its own two
scripts and its style, by their hashes, so that no text in the page can run as a script. The page holds the squares of
the map, and at most 500 kB of backdrop.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.projection import EARTH_RADIUS_METRES
from heathaze.domain.quadtree import deinterleave, node_extent
from heathaze.errors import InvalidInput
from heathaze.maps.backdrop import COLOURS, GROUNDS, Backdrop
from heathaze.maps.shade import degrees, height_over_width
from heathaze.maps.squares import (
    HATCHING,
    NO_ERROR_BARS,
    OTHER_MAPS,
    RAMPS,
    UNKNOWN,
    WHITE,
    Squares,
    how_sure,
    number,
    ramp,
    side_lengths,
)
from heathaze.types import Floats, Integers

LARGEST_BACKDROP = 500_000
"""The most bytes of a backdrop in a page; a larger one is simplified further."""

_EDGES = {"light": "#c9ccd1", "dark": "#474b54"}
"""The edges of squares in the legend."""

_STEPS = 2**16
"""Positions of a backdrop are whole numbers from 0 to this."""

_PLACES = 8
"""The number of squares in the table of the densest places."""


def render_page(
    squares: Squares,
    *,
    title: str,
    promise: str,
    guarantee: str,
    facts: Mapping[str, str],
    subtitle: str = "",
    source: str = "",
    backdrop: Backdrop | None = None,
    theme: str | None = None,
    tiles: str = "",
) -> str:
    """Make the HTML page of a map.

    Args:
        squares: The map. If the map has no error bars, the low and high ends are NaN.
        title: Heading of the page.
        promise: The guarantee as one sentence for everybody.
        guarantee: The guarantee in its exact terms.
        facts: Name and value of each line of the details.
        subtitle: Text below the heading.
        source: Where the data and the backdrop come from.
        backdrop: Public geography, cut to the same map.
        theme: ``"light"`` or ``"dark"``; if left out, the browser's setting decides.
        tiles: The address of street tiles, with {z}, {x} and {y}. They are asked for only after a click on a button,
            beside which the page says that the reader's address then reaches the server.

    Returns:
        HTML.

    Raises:
        InvalidInput: There are tiles, and the map does not lie on the globe.
    """
    check_tiles(tiles, squares.grid)
    server = "/".join(tiles.split("/")[:3])
    place = _places(squares, backdrop)
    filled = {
        "theme": "" if theme is None else f' data-theme="{html.escape(theme)}"',
        "title": html.escape(title),
        "subtitle": f'<p class="subtitle">{html.escape(subtitle)}</p>' if subtitle else "",
        "unit": html.escape(squares.unit[:1].upper() + squares.unit[1:]),
        "legend": "\n".join(_legend(squares, backdrop)),
        "white": html.escape(_white(squares)),
        "others": html.escape(OTHER_MAPS),
        "sizes": _sizes(squares),
        "tiles": _agree(server),
        "promise": html.escape(promise),
        "guarantee": html.escape(guarantee),
        "densest": _densest(squares, place),
        "facts": facts_list(facts),
        "source": f'<p class="note">{html.escape(source)}</p>' if source else "",
    }
    return assemble(
        _text("page.html"), _text("page.js"), filled, _data(squares, place, backdrop) | {"tiles": tiles}, images=server
    )


def assemble(
    template: str,
    script: str,
    filled: Mapping[str, str],
    data: Mapping[str, Any],
    *,
    more_style: str = "",
    images: str = "",
) -> str:
    """Fill in the template of a page: its texts, its data, Leaflet, and a policy that allows exactly its own scripts.

    Args:
        template: HTML with placeholders in double braces.
        script: The page's own script, which reads the data from the element ``data``.
        filled: The HTML of each placeholder except policy, style, data, licence, leaflet and script.
        data: What the script shows, as JSON.
        more_style: CSS that is added after the style that all pages share.
        images: The server that the page may ask for images, if any.
    """
    style = _style() + more_style
    leaflet = _text("vendor/leaflet.js").replace("//# sourceMappingURL=leaflet.js.map", "")
    whole = {
        **filled,
        "policy": (
            f"default-src 'none'; script-src {_hash(leaflet)} {_hash(script)}; style-src {_hash(style)}; "
            f"img-src data:{images and ' ' + images}; base-uri 'none'; form-action 'none'"
        ),
        "style": style,
        "data": _json_for_script(data),
        "licence": html.escape(_text("vendor/LICENSE-leaflet.txt")),
        "leaflet": leaflet,
        "script": script,
    }
    # One pass: a title that looks like a placeholder is not filled in again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: whole[found[1]], template)


def facts_list(facts: Mapping[str, str]) -> str:
    """Write name and value of each fact as the lines of a list of descriptions."""
    return "\n".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>" for name, value in facts.items()
    )


def check_tiles(tiles: str, grid: Grid) -> None:
    """Refuse street tiles for a map that does not lie on the globe."""
    if tiles and not grid.projection.is_geographic:
        raise InvalidInput("Street tiles lie on the globe, and this map on a plane; leave the tiles out.")


def _text(name: str) -> str:
    return resources.files("heathaze.maps").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash of a script or style, as a content-security policy names it to allow exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json_for_script(data: Mapping[str, Any]) -> str:
    """Write the page's data as JSON in which no text can end the surrounding script element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _style() -> str:
    """Join the styles of Leaflet and of the page; Leaflet's rules for images that the page lacks are left out."""
    leaflet = re.sub(r"[^{}]*\{[^{}]*url\([^{}]*\}", "", _text("vendor/leaflet.css"))
    themes = {
        theme: " ".join(
            [
                *(f"--k{k}: {colour};" for k, colour in enumerate(RAMPS[theme])),
                f"--unknown: {HATCHING[theme][0]}; --hatch: {HATCHING[theme][1]}; --edge: {_EDGES[theme]};",
                *(f"--{name}: {COLOURS[theme][name]};" for name in ("paper", "water", "wave", "outside")),
            ]
        )
        for theme in ("light", "dark")
    }
    fills = " ".join(f".k{k} {{ fill: var(--k{k}); }}" for k in range(len(RAMPS["light"])))
    page = re.sub(r"\{\{(light|dark)\}\}", lambda found: themes[found[1]], _text("page.css"))
    return f"{leaflet}\n{page}\n{fills} .paper {{ fill: var(--paper); }} .outside {{ fill: var(--outside); }}\n"


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _legend(squares: Squares, backdrop: Backdrop | None) -> list[str]:
    """Write the lines of the legend: the classes from the highest to the lowest, white paper, hatching, and ground."""
    colours = [RAMPS["light"].index(colour) for colour in ramp(len(squares.classes))]
    kinds = [*range(len(squares.classes) - 1, -1, -1), WHITE]
    lines = []
    for kind in kinds:
        swatch = f"k{colours[kind]}" if kind >= 0 else "paper"
        text = squares.name(kind) + (": nobody, or thinly spread" if kind == WHITE else "")
        lines.append(
            f'<li><svg viewBox="0 0 34 20" aria-hidden="true"><rect class="{swatch}" x=".5" y=".5" width="33" '
            f'height="19"/></svg><span>{html.escape(text)}</span></li>'
        )
    if (squares.kinds == UNKNOWN).any():
        lines.append(
            '<li><svg viewBox="0 0 34 20" aria-hidden="true"><defs><pattern id="hatching" width="7" height="7" '
            'patternUnits="userSpaceOnUse"><rect width="7" height="7" fill="var(--unknown)" stroke="none"/><path '
            'd="M-1 8L8 -1M-4 4L4 -4M3 11L11 3" stroke="var(--hatch)"/></pattern></defs><rect x=".5" y=".5" width="33" '
            f'height="19" fill="url(#hatching)"/></svg><span>{html.escape(squares.name(UNKNOWN))}</span></li>'
        )
    for ground in () if backdrop is None else backdrop.shown_grounds:
        swatch = '<rect class="outside" x=".5" y=".5" width="33" height="19"/>'
        if ground == "water":
            swatch = (
                '<rect x=".5" y=".5" width="33" height="19" fill="var(--water)"/>'
                '<path d="M1 4h32M1 10h32M1 16h32" stroke="var(--wave)"/>'
            )
        text = f"{GROUNDS[ground]} (no square on it: {squares.name(WHITE)})"
        lines.append(
            f'<li><svg viewBox="0 0 34 20" aria-hidden="true">{swatch}</svg><span>{html.escape(text)}</span></li>'
        )
    return lines


def _white(squares: Squares) -> str:
    """Say how many people all squares below the first class contain together."""
    if not (squares.kinds == WHITE).any():
        return ""
    people, low, high = (max(0.0, round(one, 0)) for one in squares.white_people)
    within = f" ({number(low)} to {number(high)}, {how_sure(squares.confidence)})" if squares.has_error_bars else ""
    return f"All squares {squares.name(WHITE)} together: about {number(people)} {squares.counted}{within}."


def _size(grid: Grid, level: int) -> str:
    """Write the size of the squares of a level on one line."""
    return side_lengths(grid, level).replace(" ", "\u00a0")


def _sizes(squares: Squares) -> str:
    """List at most three sizes of coloured squares, from the smallest to the largest.

    The script draws a square of each size to the scale of the map, which changes when the reader zooms. Without the
    script, a size is shown as text only.
    """
    levels = np.unique(squares.levels[squares.kinds >= 0])[::-1]
    if len(levels) == 0:
        return ""
    chosen = levels[np.unique(np.round(np.linspace(0, len(levels) - 1, min(3, len(levels)))).astype(np.int64))]
    middle = RAMPS["light"].index(ramp(len(squares.classes))[len(squares.classes) // 2])
    drawn = "".join(
        f'<div data-level="{level}"><svg width="0" height="0" aria-hidden="true"><rect class="k{middle}" x=".5" '
        f'y=".5"/></svg>{html.escape(_size(squares.grid, level))}<i>drawn smaller</i></div>'
        for level in chosen.tolist()
    )
    text = "Squares are as small as the data allow. A number is the mean of its square; who is where inside is unknown."
    return f'<p class="note">{text}</p><div class="sizes">{drawn}</div>'


def _agree(server: str) -> str:
    """Write the button that loads street tiles, and a text that says what the tile server learns from a click."""
    if not server:
        return ""
    name = html.escape(server.removeprefix("https://"))
    return (
        f'<p class="note" id="tiles"><button type="button">Show streets from {name}</button> Your internet address and '
        "the part of the map that you look at then reach this server.</p>"
    )


def _places(squares: Squares, backdrop: Backdrop | None) -> tuple[list[str], Integers]:
    """Find the named area of the backdrop in which the middle of each square lies.

    Returns:
        Names, of which the first is empty; and the position of each square's name among them.
    """
    names, place = [""], np.zeros(len(squares.codes), np.int64)
    if backdrop is None:
        return names, place
    top, bottom, left, right = node_extent(squares.grid, squares.levels, squares.codes)
    x, y = (left + right) / 2 / squares.grid.cols, (top + bottom) / 2 / squares.grid.rows
    for shape in backdrop.shapes:
        if shape.closed and shape.name:
            place[_inside(x, y, shape.parts)] = names.index(shape.name) if shape.name in names else len(names)
            names += [] if shape.name in names else [shape.name]
    return names, place


def _inside(x: Floats, y: Floats, rings: Sequence[Floats]) -> Integers:
    """Find the points inside an area, by the even-odd rule."""
    lows, highs = (np.array([extreme(ring, axis=0) for ring in rings]) for extreme in (np.min, np.max))
    near = (x >= lows[:, 0].min()) & (x <= highs[:, 0].max()) & (y >= lows[:, 1].min()) & (y <= highs[:, 1].max())
    candidates = np.flatnonzero(near)
    crossings = np.zeros(len(candidates), np.int64)
    for ring in rings:
        (a, b), (c, d) = ring.T, np.roll(ring, -1, axis=0).T
        at_x, at_y = x[candidates, None], y[candidates, None]
        cut = (b <= at_y) != (d <= at_y)
        reach = a + (at_y - b) / np.where(b == d, 1.0, d - b) * (c - a)
        crossings += (cut & (at_x < reach)).sum(axis=1)
    return np.asarray(candidates[crossings % 2 == 1])


def _densest(squares: Squares, place: tuple[list[str], Integers]) -> str:
    """Write a table of the densest coloured squares, which readers of the text have instead of the map."""
    coloured = np.flatnonzero(squares.kinds >= 0)
    best = coloured[np.argsort(-squares.density[coloured], kind="stable")][:_PLACES]
    if len(best) == 0:
        return f"<p>No place is surely above {number(squares.classes[0])} {html.escape(squares.unit)}.</p>"
    bounds, rows = squares.bounds()[best], []
    for k, (west, south, east, north) in zip(best.tolist(), bounds.tolist(), strict=True):
        name = place[0][place[1][k]]
        where = _coordinates(squares.grid, (west + east) / 2, (south + north) / 2)
        scale = squares.density[k] / squares.people[k] if squares.people[k] > 0 else 0.0
        ends = f"{number(squares.low[k] * scale)} to {number(squares.high[k] * scale)}"
        within = f"<br>({ends})" if squares.has_error_bars else ""
        rows.append(
            f'<tr><th scope="row">{html.escape(f"{name}, {where}" if name else where)}</th>'
            f"<td>{number(squares.density[k])}{within}</td>"
            f"<td>{html.escape(_size(squares.grid, int(squares.levels[k])))}</td></tr>"
        )
    sure = f"{how_sure(squares.confidence)} the range holds the truth" if squares.has_error_bars else NO_ERROR_BARS
    caption = f"{squares.unit[:1].upper()}{squares.unit[1:]}; {sure}."
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Place", "Density", "Square"))
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _coordinates(grid: Grid, x: float, y: float) -> str:
    places = int(max(0, np.ceil(-np.log10(min(grid.x[1] - grid.x[0], grid.y[1] - grid.y[0])) + 3)))
    if grid.projection.is_geographic:
        return f"{degrees(y, ' N', ' S', places)}, {degrees(x, ' E', ' W', places)}"
    return f"x {x:.{places}f}, y {y:.{places}f}"


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _data(squares: Squares, place: tuple[list[str], Integers], backdrop: Backdrop | None) -> dict[str, Any]:
    grid = squares.grid
    rows, cols = deinterleave(squares.codes)
    numbers = {name: _short(getattr(squares, name)) for name in ("people", "low", "high", "density")}
    positions = {"level": squares.levels, "row": rows, "col": cols, "kind": squares.kinds, "place": place[1]}
    return {
        "grid": grid.to_dict(),
        "ratio": height_over_width(grid),
        "earthRadius": EARTH_RADIUS_METRES,
        "squares": {name: values.tolist() for name, values in positions.items()} | numbers,
        "classes": list(squares.classes),
        "unit": squares.unit,
        "counted": squares.counted,
        "howSure": how_sure(squares.confidence) if squares.has_error_bars else None,
        "noErrorBars": NO_ERROR_BARS,
        "sizes": {level: _size(grid, level) for level in np.unique(squares.levels).tolist()},
        "places": place[0],
        "colours": {
            theme: dict(COLOURS[theme])
            | {"ramp": ramp(len(squares.classes), theme), "unknown": HATCHING[theme][0], "hatch": HATCHING[theme][1]}
            for theme in ("light", "dark")
        },
        "steps": _STEPS,
        **_geography(backdrop),
    }


def _short(values: Floats) -> list[float | None]:
    """Round to four significant digits, and write whole numbers without a decimal point. NaN becomes None."""
    rounded = (float(f"{value:.4g}") for value in values.tolist())
    return [None if value != value else int(value) if value.is_integer() else value for value in rounded]


def _geography(backdrop: Backdrop | None) -> dict[str, Any]:
    """Write the backdrop in whole numbers: for each part the first position, then the step to each next position.

    A backdrop that takes too many bytes is simplified, twice as coarsely each time, until it fits.
    """
    if backdrop is None:
        return {"ground": "land", "shapes": [], "labels": []}
    tolerance, shown = 1 / _STEPS, backdrop
    while True:
        shapes = []
        for shape in shown.shapes:
            whole = [np.round(part * _STEPS).astype(np.int64) for part in shape.parts]
            parts = [np.diff(part, axis=0, prepend=0).ravel().tolist() for part in whole]
            shapes.append([shape.kind, shape.closed, parts])
        found = {
            "ground": backdrop.ground,
            "shapes": shapes,
            "labels": [[label.name, round(label.x, 5), round(label.y, 5)] for label in backdrop.labels],
        }
        if len(json.dumps(found, separators=(",", ":"))) <= LARGEST_BACKDROP or not shapes:
            return found
        tolerance *= 2
        shown = shown.simplified(tolerance)
