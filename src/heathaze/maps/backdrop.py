"""Public geography for a map: coasts, rivers, streets, districts and names, cut to the map and drawn with it.

A backdrop says where the squares of a map lie. It contains nothing from the private data.
:mod:`heathaze.maps.backdrop_files` reads one from files; the land of the world is built in.

Positions are fractions of the map: x is 0 at the left border and 1 at the right, y is 0 at the top and 1 at the bottom.
Lines that are straight in these coordinates are straight on the map in every projection.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.maps.shade import height_over_width
from heathaze.types import Booleans, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("land", "water", "border", "street")
"""What a shape can be; the property ``kind`` of a feature says it. If it is missing, tags of OpenStreetMap decide."""

FINEST = 1 / 8192
"""How far a simplified shape may lie from the true one, as a fraction of the longer side of the map."""

COARSE_KM = 300
"""The built-in land is drawn if the longer side of the map has at least this length, in kilometres."""

ADVICE = (
    f"The built-in coast is too coarse for a map of less than {COARSE_KM} km; bring outlines of districts, a coast or "
    "streets with --backdrop FILE, for example the boundaries from your city's open-data site as GeoJSON."
)
"""What to tell a user whose map has no backdrop."""

ENOUGH_COVERED = 0.2
"""If areas without land or water cover at least this share of a map, the rest is tinted as lying outside of them.

Outlines of districts cover much of a map, and the rest of the map is water or other places. Outlines of parks cover
little of a map.
"""

_NAME_POINTS, _WAVES_APART = 7, 1 / 11
"""The size of names in points, and the distance of the lines on water in inches."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A line or area of a backdrop.

    Args:
        kind: One of :data:`KINDS`.
        closed: Whether the parts are rings of an area, inside by the even-odd rule; otherwise they are lines.
        parts: (n, 2) positions x, y of each ring or line. The first position of a ring is not repeated at its end.
        name: The name of the area or line, or the empty text.
    """

    kind: str
    closed: bool
    parts: tuple[Floats, ...]
    name: str = ""


@dataclass(frozen=True)
class Label:
    """A name at a position of the map."""

    name: str
    x: float
    y: float


@dataclass(frozen=True, eq=False)
class Backdrop:
    """Public geography, cut to a map. Positions are fractions of the map's width and height.

    Args:
        shapes: Lines and areas.
        labels: Names, the most important first; labelled points come before the names of areas.
        ratio: The height of the map divided by its width, as drawn.
    """

    shapes: tuple[Shape, ...]
    labels: tuple[Label, ...]
    ratio: float

    @property
    def vertices(self) -> int:
        """The number of positions of all shapes."""
        return sum(len(part) for shape in self.shapes for part in shape.parts)

    @functools.cached_property
    def ground(self) -> str:
        """What lies below all shapes: ``"water"`` around land, ``"outside"`` around districts, otherwise ``"land"``."""
        kinds = {shape.kind for shape in self.shapes if shape.closed}
        if "land" in kinds:
            return "water"
        middles = (np.arange(64) + 0.5) / 64
        covered = sum(end - start for y in self._spans({"border"}, middles) for start, end in y) / len(middles)
        around_districts = "water" not in kinds and covered >= ENOUGH_COVERED
        return "outside" if around_districts and covered < 1 - 1 / 64 else "land"

    @property
    def shown_grounds(self) -> tuple[str, ...]:
        """The grounds of the map that a legend names: ``"water"`` or ``"outside"``, or none of them."""
        water = any(shape.kind == "water" and shape.closed for shape in self.shapes)
        return ("water",) if water or self.ground == "water" else ("outside",) if self.ground == "outside" else ()

    def waves(self, ys: Floats) -> list[Floats]:
        """Cut horizontal lines to the water, which they mark.

        Args:
            ys: Positions of the lines from 0 at the top to 1 at the bottom.

        Returns:
            The pieces of all lines: x, y of both ends.
        """
        land = self._spans({"land"}, ys) if self.ground == "water" else [[(0.0, 1.0)]] * len(ys)
        pieces = []
        for y, dry, wet in zip(ys.tolist(), land, self._spans({"water"}, ys), strict=True):
            ends = [0.0, *(end for span in dry for end in span), 1.0]
            for start, end in _joined([*zip(ends[::2], ends[1::2], strict=True), *wet]):
                pieces += [np.array([(start, y), (end, y)])] if end > start else []
        return pieces

    def _spans(self, kinds: Collection[str], ys: Floats) -> list[list[tuple[float, float]]]:
        """Find where horizontal lines lie inside areas of some kinds: from where to where, ascending, for each line."""
        found: list[list[tuple[float, float]]] = [[] for _ in ys]
        for shape in self.shapes:
            if not shape.closed or shape.kind not in kinds:
                continue
            crossings: list[list[float]] = [[] for _ in ys]
            for (x, y), (u, v) in ((ring.T, np.roll(ring, -1, axis=0).T) for ring in shape.parts):
                line, edge = np.nonzero((y <= ys[:, None]) != (v <= ys[:, None]))
                at = x[edge] + (ys[line] - y[edge]) / (v[edge] - y[edge]) * (u[edge] - x[edge])
                for k, place in zip(line.tolist(), at.tolist(), strict=True):
                    crossings[k].append(place)
            for spans, places in zip(found, crossings, strict=True):
                places.sort()
                spans += zip(places[::2], places[1::2], strict=False)  # inside by the even-odd rule
        return [_joined(spans) for spans in found]

    def simplified(self, tolerance: float) -> Backdrop:
        """Leave out positions and whole parts that hardly change the picture.

        Args:
            tolerance: How far a simplified line may lie from the true one, as a fraction of the map's longer side.

        Returns:
            A backdrop with the same labels.

        >>> bend = np.array([[0.0, 0.5], [0.5, 0.5001], [1.0, 0.5]])
        >>> Backdrop((Shape("street", False, (bend,)),), (), 1.0).simplified(0.01).shapes[0].parts[0].tolist()
        [[0.0, 0.5], [1.0, 0.5]]
        """
        scale = np.array([1.0, self.ratio]) / max(1.0, self.ratio)
        lines = [np.vstack([part, part[:1]]) if shape.closed else part for shape in self.shapes for part in shape.parts]
        kept = iter(_simplified([line * scale for line in lines], tolerance))
        shapes = []
        for shape in self.shapes:
            # Each ring ends where it began; a ring of less than three places has no area.
            rest = [part[keep[: len(part)]] for part, keep in zip(shape.parts, kept, strict=False)]
            if parts := tuple(part for part in rest if len(part) > (2 if shape.closed else 1)):
                shapes.append(Shape(shape.kind, shape.closed, parts, shape.name))
        return Backdrop(tuple(shapes), self.labels, self.ratio)


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join spans that touch or overlap, ascending.

    >>> _joined([(0.5, 0.7), (0.1, 0.3), (0.2, 0.5)])
    [(0.1, 0.7)]
    """
    joined: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def built_in_land(grid: Grid) -> Backdrop | None:
    """Return the land of the world, cut to a map; None for a plane, and for a map that is smaller than 300 km.

    The land is that of Natural Earth at 1 : 50 million, on which a city shows no coast and no river.

    Args:
        grid: The frame of the map.

    >>> built_in_land(Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.6), size=64)) is None
    True
    >>> len(built_in_land(Grid.over(lon=(-180, 180), lat=(-60, 80), size=64)).shapes) > 100
    True
    """
    if not grid.projection.is_geographic or needs_backdrop(grid):
        return None
    packed = resources.files("heathaze.maps").joinpath("vendor/land-50m.json.gz").read_bytes()
    world = json.loads(gzip.decompress(packed))
    scale, shift = np.array(world["transform"]["scale"]), np.array(world["transform"]["translate"])
    # An arc of TopoJSON is a list of differences in whole steps.
    arcs = [np.cumsum(np.array(arc), axis=0) * scale + shift for arc in world["arcs"]]
    shapes = []
    for polygon in (polygon for geometry in world["objects"]["land"]["geometries"] for polygon in geometry["arcs"]):
        rings = [_unwound(np.concatenate([arcs[k] if k >= 0 else arcs[~k][::-1] for k in ring])) for ring in polygon]
        # The longitudes of a lake are shifted by the multiple of 360° that brings the lake into the land around it.
        turns = [np.round((rings[0][:, 0].mean() - ring[:, 0].mean()) / 360) for ring in rings]
        rings = [ring + np.array([360 * turn, 0]) for ring, turn in zip(rings, turns, strict=True)]
        # Land that crosses the antimeridian lies on both sides of it.
        for turn in np.array([(-360, 0), (0, 0), (360, 0)]):
            parts = clipped([placed(ring + turn, grid) for ring in rings], closed=True)
            shapes += [Shape("land", True, parts)] if parts else []
    return Backdrop(tuple(shapes), (), height_over_width(grid)).simplified(FINEST)


def needs_backdrop(grid: Grid) -> bool:
    """Return whether a map lies on the globe and is too small for the built-in land."""
    height, width = grid.cell_size
    return grid.projection.is_geographic and max(height * grid.rows, width * grid.cols) < COARSE_KM * 1000


def _unwound(ring: Floats) -> Floats:
    """Let longitudes run on past ±180 where a ring crosses the antimeridian, and around a pole along its latitude."""
    lon = np.unwrap(ring[:, 0], period=360)
    ends = [(lon[-1], -90.0), (lon[0], -90.0)] if abs(lon[-1] - lon[0]) > 180 else []
    return np.vstack([np.column_stack([lon, ring[:, 1]]), *ends])


# ── drawing with matplotlib ─────────────────────────────────────────────────────────────────────────────────────────

COLOURS: Mapping[str, Mapping[str, str]] = {
    "light": {
        "paper": "#ffffff",
        "land": "#ffffff",
        "water": "#cde2f0",
        "wave": "#9dbdd3",
        "outside": "#e7e6e0",
        "river": "#8fb3cc",
        "border": "#4b515b",
        "street": "#8d939d",
        "name": "#23272e",
    },
    "dark": {
        "paper": "#15171c",
        "land": "#15171c",
        "water": "#1d3042",
        "wave": "#3b5a75",
        "outside": "#2b2925",
        "river": "#3f5f7a",
        "border": "#a7adb8",
        "street": "#646b77",
        "name": "#eceae6",
    },
}
"""Colours of paper, shapes and names on a light and on a dark map."""

GROUNDS = {"water": "water", "outside": "outside the outlines: water or other places"}
"""The names of grounds in a legend."""

LINE_COLOURS = {"land": "border", "water": "river", "border": "border", "street": "street"}
"""The colour of the lines of each kind, by its name in :data:`COLOURS`."""

LINE_POINTS: Mapping[str, float] = {"land": 0.6, "water": 0.8, "border": 0.5, "street": 0.4}
"""Width of the lines of each kind, in points of 1/72 inch."""


def draw_backdrop(axes: Axes, backdrop: Backdrop, theme: str = "light") -> None:
    """Draw a backdrop onto a panel of matplotlib that shows the whole map and nothing else.

    Fills are drawn below everything else (zorder −1): land, water, and the tint of the ground outside districts. Fine
    level lines mark water (zorder −0.5), so that readers recognise water without its colour. If the panel has an image,
    the image hides the fills, and the level lines are drawn above the image (zorder 0.5). Other lines and names are
    drawn above the map (zorder 3 and 4).

    Args:
        axes: The panel. The map must fill it.
        backdrop: The geography.
        theme: ``"light"`` or ``"dark"``.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.path import Path as Outline
    from matplotlib.patheffects import withStroke

    colours = COLOURS[theme]
    place: dict[str, Any] = {"transform": axes.transAxes}
    box = axes.get_window_extent()
    if backdrop.ground != "land":
        below = colours[backdrop.ground]
        axes.add_patch(Rectangle((0, 0), 1, 1, facecolor=below, edgecolor="none", zorder=-1, **place))
    step = _WAVES_APART * axes.figure.dpi / box.height
    waves = [np.column_stack([wave[:, 0], 1 - wave[:, 1]]) for wave in backdrop.waves(np.arange(step / 2, 1, step))]
    look: dict[str, Any] = {"colors": colours["wave"], "linewidths": 0.5, "zorder": 0.5 if axes.images else -0.5}
    axes.add_collection(LineCollection(waves, **look, **place), autolim=False)
    filled = {"land": "land", "water": "water"} | ({"border": "land"} if backdrop.ground == "outside" else {})
    for kind in KINDS:
        drawn = [
            (np.column_stack([part[:, 0], 1 - part[:, 1]]), shape.closed)
            for shape in backdrop.shapes
            if shape.kind == kind
            for part in shape.parts
        ]
        rings = [Outline(np.vstack([part, part[:1]]), closed=True) for part, closed in drawn if closed]
        if rings and kind in filled:
            outline = Outline.make_compound_path(*rings)
            axes.add_patch(PathPatch(outline, facecolor=colours[filled[kind]], edgecolor="none", zorder=-1, **place))
        # The outline of land is its coast.
        lines = [np.vstack([part, part[:1]]) if closed else part for part, closed in drawn]
        look = {"colors": colours[LINE_COLOURS[kind]], "linewidths": LINE_POINTS[kind], "zorder": 3}
        axes.add_collection(LineCollection(lines, **look, **place), autolim=False)
    halo = [withStroke(linewidth=2, foreground=colours["paper"])]
    look = {"size": _NAME_POINTS, "style": "italic", "ha": "center", "va": "center", "parse_math": False, "zorder": 4}
    pixels = _NAME_POINTS / 72 * axes.figure.dpi
    for label in apart(backdrop.labels, box.width / pixels, box.height / pixels):
        axes.text(label.x, 1 - label.y, label.name, color=colours["name"], path_effects=halo, **look, **place)


def apart(labels: Sequence[Label], width: float, height: float) -> list[Label]:
    """Choose labels that neither overlap nor leave the map, the most important first.

    Args:
        labels: The labels, the most important first.
        width: The width of the map, in sizes of the font.
        height: The height of the map, in sizes of the font.

    >>> names = [Label("Harbour", 0.5, 0.5), Label("Harbour Hill", 0.5, 0.51), Label("Mill", 0.2, 0.2)]
    >>> [label.name for label in apart(names, 40, 40)]
    ['Harbour', 'Mill']
    """
    taken: list[tuple[float, float, float]] = []
    kept = []
    for label in labels:
        x, y, half = label.x * width, label.y * height, 0.3 * len(label.name) + 0.3
        inside = half <= x <= width - half and 0.8 <= y <= height - 0.8
        if inside and all(abs(x - a) >= half + b or abs(y - c) >= 1.5 for a, b, c in taken):
            taken.append((x, half, y))
            kept.append(label)
    return kept


# ── cutting and simplifying ─────────────────────────────────────────────────────────────────────────────────────────


def placed(xy: Floats, grid: Grid) -> Floats:
    """Turn coordinates of the map into fractions of its width and height."""
    y = xy[:, 1] if not grid.projection.is_geographic else np.clip(xy[:, 1], -89.9, 89.9)
    return np.column_stack([grid.across(xy[:, 0]) / grid.cols, grid.down(y) / grid.rows])


def clipped(parts: Sequence[Floats], *, closed: bool) -> tuple[Floats, ...]:
    """Cut rings or lines to the unit square."""
    kept: list[Floats] = []
    for part in parts:
        if len(part) == 0 or (part.max(axis=0) < 0).any() or (part.min(axis=0) > 1).any():
            continue
        kept += [_clipped_ring(part)] if closed else _clipped_line(part)
    return tuple(part for part in kept if len(part) > (2 if closed else 1))


def _clipped_ring(ring: Floats) -> Floats:
    """Cut a ring to the unit square, one side after the other (Sutherland and Hodgman 1974)."""
    if (ring[0] == ring[-1]).all():
        ring = ring[:-1]
    for axis, limit, sign in ((0, 0.0, 1), (0, 1.0, -1), (1, 0.0, 1), (1, 1.0, -1)):
        beyond = sign * (ring[:, axis] - limit)
        inside = beyond >= 0
        after = np.roll(ring, -1, axis=0)
        crosses = inside != np.roll(inside, -1)
        share = beyond / np.where(crosses, beyond - np.roll(beyond, -1), 1.0)
        cut = ring + share[:, None] * (after - ring)
        cut[:, axis] = limit
        # After each position comes the place where the edge that begins there crosses the side, if it does.
        ring = np.stack([ring, cut], axis=1)[np.stack([inside, crosses], axis=1)]
        if len(ring) == 0:
            break
    return ring


def _clipped_line(line: Floats) -> list[Floats]:
    """Cut a line to the unit square, segment by segment (Liang and Barsky 1984)."""
    start, step = line[:-1], np.diff(line, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        enter, leave = np.sort(np.stack([-start / step, (1 - start) / step]), axis=0)
    # A segment along an axis never crosses the sides of the other axis: it lies between them, or outside.
    level = step == 0
    between = (start >= 0) & (start <= 1)
    enter = np.where(level, np.where(between, 0.0, 2.0), enter).max(axis=1).clip(0)
    leave = np.where(level, np.where(between, 1.0, -1.0), leave).min(axis=1).clip(max=1)
    (held,) = np.nonzero(enter < leave)
    if len(held) == 0:
        return []
    first, last = start[held] + enter[held, None] * step[held], start[held] + leave[held, None] * step[held]
    # A new piece begins where the line had left the map.
    breaks = np.flatnonzero((np.diff(held) > 1) | (leave[held[:-1]] < 1) | (enter[held[1:]] > 0)) + 1
    return [np.vstack([a[:1], b]) for a, b in zip(np.split(first, breaks), np.split(last, breaks), strict=True)]


def _simplified(lines: Sequence[Floats], tolerance: float) -> list[Booleans]:
    """Choose the places of lines to keep. All other places are nearer than the tolerance to the simplified line.

    This is the algorithm of Douglas and Peucker (1973) on all lines at once. Each round looks at the parts of all
    lines. If a part has a place too far from the straight line between its ends, it is divided at the farthest place.

    Returns:
        For each line, whether each of its places is kept; none is kept of a line that is smaller than the tolerance.
    """
    if not lines:
        return []
    at, lengths = np.concatenate(lines), np.array([len(line) for line in lines])
    last = np.cumsum(lengths) - 1
    keep = np.zeros(len(at), np.bool_)
    keep[last] = keep[last - lengths + 1] = True
    left = np.arange(len(at))  # places of parts that may have to be divided
    while len(left):
        ends = np.flatnonzero(keep[left])
        part = np.cumsum(keep[left]) - 1
        start, along = at[left[ends]], np.diff(at[left[ends]], axis=0, append=at[left[ends[-1:]]])
        inner, along = at[left] - start[part], along[part]
        # Where on the straight line (0 to 1) the point nearest to a place lies. In a ring, both ends are equal.
        nearest = np.clip((inner * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-300), 0, 1)
        away = np.hypot(*(inner - nearest[:, None] * along).T)
        away[ends] = 0
        farthest = np.maximum.reduceat(away, ends)
        found = np.flatnonzero((away == farthest[part]) & (away > tolerance))
        keep[left[found[np.unique(part[found], return_index=True)[1]]]] = True
        # A divided part keeps the place that ends it, although this place begins the next part.
        divided = farthest > tolerance
        left = left[divided[part] | (keep[left] & np.roll(divided[part], 1))]
    found_lines = np.split(keep, last[:-1] + 1)
    small = [np.ptp(line, axis=0).max() < tolerance for line in lines]
    return [found & (not gone) for found, gone in zip(found_lines, small, strict=True)]
