"""Read public geography for a map from files that the user brings: GeoJSON, GeoPackage, GeoParquet or Shapefiles.

Shapes are brought into the frame of the map, cut to it, and simplified to what a picture can show. Files of a backdrop
are public, so they are not read by ``ingest``.

GeoJSON in longitude and latitude needs no further package. Other formats and reference systems need the extra ``geo``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.checks import shown
from heathaze.domain.grid import Grid
from heathaze.errors import MissingExtra, TooLarge, UnknownFormat, UnreadableData
from heathaze.maps.backdrop import FINEST, KINDS, Backdrop, Label, Shape, clipped, placed
from heathaze.maps.shade import height_over_width
from heathaze.types import Floats

ENDINGS = (".geojson", ".json", ".gpkg", ".parquet", ".shp")
"""The endings of backdrop files."""

_LARGEST_FILE = 2**27
_PAIRS = 2_000_000
"""How many pairs of sides are compared at a time, which bounds the memory."""

_LONGITUDE_LATITUDE = ("CRS84", "EPSG:4326", "EPSG::4326", "WGS84")
_Move = Callable[[Floats], Floats]


class NotOnTheMap(UnreadableData):
    """A backdrop has nothing to draw on a map."""


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
        UnreadableData: A file does not exist, is damaged, has a broken geometry or one that crosses itself, names no
            reference system, or lies wholly outside the map (:class:`NotOnTheMap`).
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
    shapes, points = [], []
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
        if any(_crosses_itself(ring) for kind, rings in simple if kind == "Polygon" for ring in rings):
            raise UnreadableData(
                f"An outline of feature {count} of the backdrop {path} crosses itself, so its inside is not clear; "
                'repair the file, for example with "Fix geometries" of QGIS.'
            )
        name = _name(properties)
        for kind, arrays in simple:
            parts = [placed(move(array), grid) for array in arrays]
            if kind == "Point":
                points += [Label(name, x, y) for x, y in parts[0].tolist() if name and 0 <= x <= 1 and 0 <= y <= 1]
            elif kept := clipped(parts, closed=kind == "Polygon"):
                shapes.append(Shape(_kind(properties), kind == "Polygon", kept, name))
    if not shapes and not points:
        raise NotOnTheMap(
            f"The backdrop {path} has nothing to draw: no line, area or named point lies on the map (x {grid.x[0]:g} "
            f"to {grid.x[1]:g}, y {grid.y[0]:g} to {grid.y[1]:g}). Give a file that covers the map, with coordinates "
            "in the order longitude, latitude."
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
            # Without the field ``crs`` coordinates are longitude and latitude; null means an unknown system.
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
    """Make an (n, 2) array of positions; ``least`` is the smallest n, and heights are dropped."""
    array = np.array([place[:2] for place in coordinates], dtype=np.float64)
    if array.shape != (max(least, len(array)), 2) or not np.isfinite(array).all():
        raise ValueError
    return array


def _crosses_itself(ring: Floats) -> bool:
    """Whether two sides of a ring cross; a ring may touch itself, as in many good files.

    Only pairs of sides whose boxes overlap are compared: sides are sorted along the axis with fewer overlaps.
    """
    start, end = ring[:-1], ring[1:]
    low, high = np.minimum(start, end), np.maximum(start, end)
    sortings = []
    for axis in (0, 1):
        order = np.argsort(low[:, axis], kind="stable")
        after = np.searchsorted(low[order, axis], high[order, axis], "right") - np.arange(len(order)) - 1
        sortings.append((int(after.sum()), 1 - axis, order, after))
    _, other, order, after = min(sortings, key=lambda one: one[0])
    start, end, low, high = start[order], end[order], low[order, other], high[order, other]
    before, first = np.concatenate([[0], np.cumsum(after)]), 0
    while first < len(order):
        # Each step compares some million pairs of sides: at least one side with all sides that come after it.
        last = max(first + 1, int(np.searchsorted(before, before[first] + _PAIRS, "right")) - 1)
        i = np.repeat(np.arange(first, last), after[first:last])
        j = i + 1 + np.arange(len(i)) + before[first] - before[i]
        near = (low[i] <= high[j]) & (low[j] <= high[i])
        i, j = i[near], j[near]
        apart = _side(start[i], end[i], start[j]) * _side(start[i], end[i], end[j])
        if (apart + _side(start[j], end[j], start[i]) * _side(start[j], end[j], end[i]) == -2).any():
            return True
        first = last
    return False


def _side(start: Floats, end: Floats, place: Floats) -> Floats:
    """On which side of a line from start to end a place lies: 1, −1, or 0 if it is too near to tell."""
    (along_x, along_y), (x, y) = (end - start).T, (place - start).T
    turned = along_x * y - along_y * x
    size = np.maximum(np.abs(along_x), np.abs(along_y)) * np.maximum(np.abs(x), np.abs(y))
    return np.where(np.abs(turned) > 1e-9 * size, np.sign(turned), 0.0)


# ── features ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
            # Chords nearer to the middle come first. A later chord is taken only if it is a tenth longer.
            if end - start > 1.1 * longest[0]:
                longest = (end - start, (start + end) / 2, y)
    return longest[1], longest[2]
