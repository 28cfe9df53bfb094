"""Public geography for a map: coasts, rivers, streets, districts and names, from files that the user brings.

A backdrop says where the squares of a map lie. It is read from GeoJSON, GeoPackage, GeoParquet or Shapefiles, brought
into the frame of the map, cut to the map, and simplified to what a picture can show. It holds nothing of the data.

Positions are fractions of the map: x is 0 at the left border and 1 at the right, y is 0 at the top and 1 at the bottom.
Lines that are straight in these coordinates are straight on the map in every projection.

GeoJSON in longitude and latitude needs no further package. Other formats and reference systems need the extra ``geo``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.checks import shown
from heathaze.domain.grid import Grid
from heathaze.errors import MissingExtra, TooLarge, UnknownFormat, UnreadableData
from heathaze.maps.shade import height_over_width
from heathaze.types import Booleans, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".geojson", ".json", ".gpkg", ".parquet", ".shp")
"""The endings of backdrop files."""

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

_LARGEST_FILE = 2**27
_NAME_POINTS = 7
_LONGITUDE_LATITUDE = ("CRS84", "EPSG:4326", "EPSG::4326", "WGS84")
_Move = Callable[[Floats], Floats]


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


def read_backdrop(paths: Sequence[str | Path], grid: Grid) -> Backdrop:
    """Read public geography from files, and cut it to a map.

    Polygons, lines and named points are read. The name of a feature is its property ``name`` or ``label``, or else the
    first property that ends in "name". The property ``kind`` may say ``land``, ``water``, ``border`` or ``street``. On
    the globe every reference system is accepted that the file names; on a plane the coordinates are used as they are.

    Args:
        paths: Files that end in .geojson, .json, .gpkg, .parquet or .shp, each of at most 128 MiB.
        grid: The frame of the map.

    Returns:
        The geography of all files, simplified to what a picture can show.

    Raises:
        UnknownFormat: A file has another ending.
        UnreadableData: A file does not exist, is damaged, has a broken geometry, names no reference system, or lies
            wholly outside the map.
        TooLarge: A file is too large.
        MissingExtra: A file needs the packages of the extra ``geo``.

    >>> import tempfile
    >>> river = '{"type": "LineString", "coordinates": [[9.9, 53.5], [10.1, 53.7]]}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "river.geojson"
    ...     _ = path.write_text(river)
    ...     backdrop = read_backdrop([path], Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.6), size=64))
    >>> backdrop.shapes[0].parts[0].round(6).tolist()
    [[0.0, 1.0], [0.5, 0.0]]
    """
    shapes: list[Shape] = []
    points: list[Label] = []
    for path in map(Path, paths):
        more_shapes, more_points = _read(path, grid)
        shapes += more_shapes
        points += more_points
    ratio = height_over_width(grid)
    return Backdrop(tuple(shapes), _labels(points, shapes), ratio).simplified(FINEST)


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
        # A lake lies on the same turn around the globe as the land around it.
        turns = [np.round((rings[0][:, 0].mean() - ring[:, 0].mean()) / 360) for ring in rings]
        rings = [ring + np.array([360 * turn, 0]) for ring, turn in zip(rings, turns, strict=True)]
        # Land that crosses the antimeridian lies on both sides of it.
        for turn in np.array([(-360, 0), (0, 0), (360, 0)]):
            parts = _clipped([_placed(ring + turn, grid) for ring in rings], closed=True)
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
        "water": "#d9e6ef",
        "river": "#8fb3cc",
        "border": "#4b515b",
        "street": "#8d939d",
        "name": "#23272e",
    },
    "dark": {
        "paper": "#15171c",
        "land": "#15171c",
        "water": "#202c39",
        "river": "#3f5f7a",
        "border": "#a7adb8",
        "street": "#646b77",
        "name": "#eceae6",
    },
}
"""Colours of paper, shapes and names on a light and on a dark map."""

LINE_COLOURS = {"land": "border", "water": "river", "border": "border", "street": "street"}
"""The colour of the lines of each kind, by its name in :data:`COLOURS`."""

LINE_POINTS: Mapping[str, float] = {"land": 0.6, "water": 0.8, "border": 0.5, "street": 0.4}
"""Width of the lines of each kind, in points of 1/72 inch."""


def draw_backdrop(axes: Axes, backdrop: Backdrop, theme: str = "light") -> None:
    """Draw a backdrop onto a panel of matplotlib that shows the whole map and nothing else.

    Land and water are filled below everything else (zorder −1). Lines and names are drawn above the map (zorder 3
    and 4).

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
    if any(shape.kind == "land" for shape in backdrop.shapes):
        axes.add_patch(Rectangle((0, 0), 1, 1, facecolor=colours["water"], edgecolor="none", zorder=-1, **place))
    for kind in KINDS:
        drawn = [
            (np.column_stack([part[:, 0], 1 - part[:, 1]]), shape.closed)
            for shape in backdrop.shapes
            if shape.kind == kind
            for part in shape.parts
        ]
        rings = [Outline(np.vstack([part, part[:1]]), closed=True) for part, closed in drawn if closed]
        if rings and kind in ("land", "water"):
            outline = Outline.make_compound_path(*rings)
            axes.add_patch(PathPatch(outline, facecolor=colours[kind], edgecolor="none", zorder=-1, **place))
        # The outline of land is its coast.
        lines = [np.vstack([part, part[:1]]) if closed else part for part, closed in drawn]
        look: dict[str, Any] = {"colors": colours[LINE_COLOURS[kind]], "linewidths": LINE_POINTS[kind], "zorder": 3}
        axes.add_collection(LineCollection(lines, **look, **place), autolim=False)
    halo = [withStroke(linewidth=2, foreground=colours["paper"])]
    look = {"size": _NAME_POINTS, "style": "italic", "ha": "center", "va": "center", "parse_math": False, "zorder": 4}
    box = axes.get_window_extent()
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


# ── reading files ───────────────────────────────────────────────────────────────────────────────────────────────────


def _read(path: Path, grid: Grid) -> tuple[list[Shape], list[Label]]:
    """Read the shapes and labelled points of one file that lie on the map."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise UnknownFormat(f"The backdrop {path} has the ending {ending!r}; expected {', '.join(ENDINGS)}.")
    if not path.is_file():
        raise UnreadableData(f"The backdrop {path} is {'a directory' if path.is_dir() else 'no file'}; give a file.")
    if path.stat().st_size > _LARGEST_FILE:
        raise TooLarge(
            f"The backdrop {path} has {path.stat().st_size / 2**30:.1f} GiB, and 0.125 GiB is the most; cut it to the "
            "map first, for example with ogr2ogr -clipsrc WEST SOUTH EAST NORTH."
        )
    read = {".gpkg": _with_gdal, ".shp": _with_gdal, ".parquet": _geoparquet}.get(ending, _geojson)
    shapes, points, count = [], [], 0
    # The place of a feature in its file, from 1, names it in errors.
    for count, (geometry, properties, move) in enumerate(read(path, grid), start=1):
        try:
            simple = [
                (kind, [_array(part, least=_FEWEST[kind]) for part in parts]) for kind, parts in _simple(geometry)
            ]
        except (TypeError, ValueError, IndexError, RecursionError):
            raise UnreadableData(
                f"Feature {count} of the backdrop {path} has a broken geometry; repair the file, for example with "
                '"Fix geometries" of QGIS.'
            ) from None
        name = _name(properties)
        for kind, arrays in simple:
            parts = [_placed(move(array), grid) for array in arrays]
            if kind == "Point":
                points += [Label(name, x, y) for x, y in parts[0].tolist() if name and 0 <= x <= 1 and 0 <= y <= 1]
            elif kept := _clipped(parts, closed=kind == "Polygon"):
                shapes.append(Shape(_kind(properties), kind == "Polygon", kept, name))
    if not shapes and not points:
        lack = f"None of the {count} features" if count else "No feature"
        raise UnreadableData(
            f"{lack} of the backdrop {path} is a line, an area or a named point on the map (x {grid.x[0]:g} to "
            f"{grid.x[1]:g}, y {grid.y[0]:g} to {grid.y[1]:g}); give a file that covers the map, with coordinates in "
            "the order longitude, latitude."
        )
    return shapes, points


_Feature = tuple[Mapping[str, Any], Mapping[str, Any], _Move]
"""Geometry, properties, and the function that brings coordinates into those of the map."""

_FEWEST = {"Point": 1, "LineString": 2, "Polygon": 4}
"""The fewest positions of a part; the first position of a ring is repeated at its end."""


def _geojson(path: Path, grid: Grid) -> Iterator[_Feature]:
    try:
        content = json.loads(path.read_bytes())
        kind = content["type"]
        features = content["features"] if kind == "FeatureCollection" else [content]
        named = content.get("crs")
        crs = None if named is None else named["properties"]["name"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UnreadableData(f"The backdrop {path} is not valid GeoJSON; export it again as GeoJSON.") from None
    move = _mover(path, grid, crs) if crs is not None else _as_degrees(path, grid)
    for feature in features:
        bare = not isinstance(feature, dict) or feature.get("type") != "Feature"
        geometry, properties = (feature, {}) if bare else (feature.get("geometry"), feature.get("properties"))
        yield geometry, properties if isinstance(properties, dict) else {}, move


def _with_gdal(path: Path, grid: Grid) -> Iterator[_Feature]:
    """Read all layers of a GeoPackage or Shapefile."""
    pyogrio = _extra("pyogrio")
    try:
        for layer, kind in pyogrio.list_layers(path):
            if kind is None:
                continue
            about, _, geometries, columns = pyogrio.raw.read(path, layer=layer, datetime_as_string=True)
            move = _mover(path, grid, about["crs"])
            names = about["fields"].tolist()
            for k, binary in enumerate(geometries):
                yield _from_wkb(binary), dict(zip(names, (column[k] for column in columns), strict=True)), move
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError):
        raise UnreadableData(
            f"The backdrop {path} is damaged, or a file beside it is missing; export it again."
        ) from None


def _geoparquet(path: Path, grid: Grid) -> Iterator[_Feature]:
    import duckdb

    with duckdb.connect() as connection:
        try:
            told = connection.execute(
                "select decode(value) from parquet_kv_metadata(?) where decode(key) = 'geo'", [str(path)]
            ).fetchone()
            about = json.loads(told[0])
            column = about["primary_column"]
            # A file that names no reference system has longitude and latitude; null means that nobody knows.
            crs = about["columns"][column].get("crs", "OGC:CRS84")
            table = connection.execute("select * from read_parquet(?)", [str(path)])
            names = [field[0] for field in table.description]
            rows = table.fetchall()
        except (duckdb.Error, ValueError, KeyError, TypeError):
            raise UnreadableData(
                f"The backdrop {path} is damaged, or has no column of geometries; export it again as GeoParquet."
            ) from None
    move = _mover(path, grid, crs)
    for row in rows:
        properties = dict(zip(names, row, strict=True))
        yield _from_wkb(properties.pop(column)), properties, move


def _from_wkb(binary: bytes | None) -> Mapping[str, Any]:
    """Parse well-known binary; a geometry that cannot be parsed becomes one that :func:`_simple` refuses."""
    shapely = _extra("shapely")
    if binary is None:
        return {}
    geometry = shapely.from_wkb(binary, on_invalid="ignore")
    return {"type": "Broken"} if geometry is None else dict(shapely.geometry.mapping(geometry))


def _extra(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtra(
            "This backdrop needs the packages pyogrio, pyproj and shapely; install the extra 'geo', or give GeoJSON in "
            "longitude and latitude."
        ) from None


# ── coordinates ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _mover(path: Path, grid: Grid, crs: Any) -> _Move:
    """Make the function from coordinates of a file to those of the map."""
    if not grid.projection.is_geographic:
        return lambda xy: xy
    if crs is None:
        raise UnreadableData(
            f"The backdrop {path} names no coordinate reference system"
            + (" (the .prj file is missing)" if path.suffix.lower() == ".shp" else "")
            + "; export it again with one, or as GeoJSON in longitude and latitude."
        )
    if isinstance(crs, str) and crs.endswith(_LONGITUDE_LATITUDE):
        return lambda xy: xy
    pyproj = _extra("pyproj")
    try:
        known = pyproj.CRS.from_user_input(crs)
        transformer = pyproj.Transformer.from_crs(known, "OGC:CRS84", always_xy=True)
    except pyproj.exceptions.ProjError:
        raise UnreadableData(
            f"The backdrop {path} names the coordinate reference system {shown(crs)}, which is unknown; export it in "
            "longitude and latitude (EPSG:4326)."
        ) from None

    def move(xy: Floats) -> Floats:
        degrees = np.column_stack(transformer.transform(xy[:, 0], xy[:, 1]))
        # Far outside its area, a projection has no inverse; such places are not on the map.
        return np.asarray(degrees[np.isfinite(degrees).all(axis=1)])

    return move


def _as_degrees(path: Path, grid: Grid) -> _Move:
    """Take coordinates of a GeoJSON file without a reference system, which are longitude and latitude (RFC 7946)."""
    if not grid.projection.is_geographic:
        return lambda xy: xy

    def move(xy: Floats) -> Floats:
        if len(xy) and (np.abs(xy).max(axis=0) > (360, 90)).any():
            raise UnreadableData(
                f"The backdrop {path} names no coordinate reference system, and its coordinates are not longitude and "
                "latitude; export it again in longitude and latitude (EPSG:4326)."
            )
        return xy

    return move


def _array(coordinates: Any, least: int) -> Floats:
    """Make an (n, 2) array of at least so many coordinates; heights are dropped."""
    array = np.array([place[:2] for place in coordinates], dtype=np.float64)
    if array.shape != (max(least, len(array)), 2) or not np.isfinite(array).all():
        raise ValueError
    return array


def _placed(xy: Floats, grid: Grid) -> Floats:
    """Turn coordinates of the map into fractions of its width and height."""
    y = xy[:, 1] if not grid.projection.is_geographic else np.clip(xy[:, 1], -89.9, 89.9)
    return np.column_stack([grid.across(xy[:, 0]) / grid.cols, grid.down(y) / grid.rows])


# ── shapes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _simple(geometry: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """Divide a geometry of GeoJSON into points, lines and polygons: the kind, and the coordinates of each part."""
    if not geometry:
        return
    if not isinstance(geometry, dict):
        raise TypeError
    kind = geometry.get("type")
    inside: Any = geometry.get("geometries" if kind == "GeometryCollection" else "coordinates")
    if kind == "GeometryCollection":
        for one in inside:
            yield from _simple(one)
    elif kind in ("MultiPolygon", "MultiLineString", "MultiPoint"):
        for one in inside:
            yield from _simple({"type": kind.removeprefix("Multi"), "coordinates": one})
    elif kind in _FEWEST:
        yield str(kind), {"Point": [[inside]], "LineString": [inside], "Polygon": inside}[kind]
    else:
        raise ValueError


def _name(properties: Mapping[str, Any]) -> str:
    by_name = {str(key).lower(): value for key, value in properties.items()}
    ranked = ["name", "label", *(key for key in by_name if key.endswith("name"))]
    found = next((by_name[key] for key in ranked if isinstance(by_name.get(key), str)), "")
    return " ".join(found.split())[:60]


def _kind(properties: Mapping[str, Any]) -> str:
    """Find the kind of a shape, from its property ``kind`` or from tags of OpenStreetMap."""
    if properties.get("kind") in KINDS:
        return str(properties["kind"])
    if properties.get("natural") in ("water", "coastline") or properties.get("waterway"):
        return "water"
    return "street" if properties.get("highway") else "border"


def _labels(points: Sequence[Label], shapes: Sequence[Shape]) -> tuple[Label, ...]:
    """Put labelled points first, then each name of areas once, at its largest area."""
    named = sorted((shape for shape in shapes if shape.closed and shape.name), key=_area, reverse=True)
    largest = {shape.name: shape for shape in reversed(named)}
    areas = [Label(shape.name, *_middle(shape.parts)) for shape in sorted(largest.values(), key=_area, reverse=True)]
    return (*points, *areas)


def _area(shape: Shape) -> float:
    """Compute the area of the largest ring of a shape, by the shoelace formula."""
    return max(abs(float(np.sum(p[:, 0] * np.roll(p[:, 1], -1) - np.roll(p[:, 0], -1) * p[:, 1]))) for p in shape.parts)


def _middle(rings: Sequence[Floats]) -> tuple[float, float]:
    """Find a place well inside an area: the middle of the longest of a few horizontal chords."""
    low, high = min(ring[:, 1].min() for ring in rings), max(ring[:, 1].max() for ring in rings)
    longest = (-1.0, 0.0, 0.0)
    for y in (low + (high - low) * np.array([0.5, 0.42, 0.58, 0.33, 0.67, 0.25, 0.75])).tolist():
        crossings = []
        for ring in rings:
            after = np.roll(ring, -1, axis=0)
            cut = (ring[:, 1] <= y) != (after[:, 1] <= y)
            share = (y - ring[cut, 1]) / (after[cut, 1] - ring[cut, 1])
            crossings += (ring[cut, 0] + share * (after[cut, 0] - ring[cut, 0])).tolist()
        crossings.sort()
        for start, end in zip(crossings[::2], crossings[1::2], strict=False):
            # A chord must be clearly longer to win over one nearer to the middle.
            if end - start > 1.1 * longest[0]:
                longest = (end - start, (start + end) / 2, y)
    return longest[1], longest[2]


def _clipped(parts: Sequence[Floats], *, closed: bool) -> tuple[Floats, ...]:
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
    """Find the places of lines that matter: the others are nearer than the tolerance to the line through these.

    This is the algorithm of Douglas and Peucker (1973) on all lines at once. Each round divides every part of a line
    that has a place too far from the straight line between the part's ends, at the farthest place.

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
        # The nearest place of the straight line between the ends, which are equal in a ring.
        nearest = np.clip((inner * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-300), 0, 1)
        away = np.hypot(*(inner - nearest[:, None] * along).T)
        away[ends] = 0
        farthest = np.maximum.reduceat(away, ends)
        found = np.flatnonzero((away == farthest[part]) & (away > tolerance))
        keep[left[found[np.unique(part[found], return_index=True)[1]]]] = True
        # A part stays with the place that ends it, which begins the next part.
        divided = farthest > tolerance
        left = left[divided[part] | (keep[left] & np.roll(divided[part], 1))]
    found_lines = np.split(keep, last[:-1] + 1)
    small = [np.ptp(line, axis=0).max() < tolerance for line in lines]
    return [found & (not gone) for found, gone in zip(found_lines, small, strict=True)]
