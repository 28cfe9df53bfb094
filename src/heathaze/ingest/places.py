"""Read points from files that hold geometries: GeoJSON, GeoPackage, GeoParquet, GPX, Shapefile, and trips of MDS.

Every reader returns a dictionary of lists with the wanted columns: one value for each point, as the file stores it.
Both engines then read the same lists, value by value, so no reader guesses the type of a column from its rows. The
position is in the columns lon and lat, and the same numbers are in x and y. A point with a missing or empty geometry
has no position.

| format | a row is | columns beside the position |
|---|---|---|
| GeoJSON | a feature with a Point | its properties |
| GeoPackage, Shapefile, GeoParquet | a row with a point | its attributes |
| GPX | a point of a track | ``file`` (the file's name), ``track`` (file and number, such as ann/0), ``time`` |
| MDS | a point of a trip's route, or its start and its end | the trip's fields; ``time`` in milliseconds since 1970 |
"""

from __future__ import annotations

import contextlib
import glob
import json
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from heathaze.domain.projection import Projection
from heathaze.errors import MissingExtra, UnreadableData
from heathaze.ingest.columns import Columns, sql_name, sql_text
from heathaze.ingest.dataframes import is_arrow
from heathaze.ingest.source import Dialect, Files, Format, find_files, named, opened

POSITION = ("lon", "lat", "x", "y")
LONGEST_FILE = 2**30
"""The largest file of geometries that is read, in bytes; reading takes about ten times its size in memory."""

_DEGREES = ("EPSG:4326", "OGC:CRS84", "EPSG:4979")


class _NotGpx(Exception):
    """A file is not GPX. The error omits the file's name, because the name of a GPX file is the id of its person."""


Row = dict[str, Any]
"""The columns of one point; ``lon`` and ``lat`` are its position."""


class Points(dict[str, list[Any]]):
    """The wanted columns of the points of some files; ``where`` names the files in errors. It prints no values."""

    where = "The table"

    def __repr__(self) -> str:
        return f"<Points: secret, columns {', '.join(self)}>"


@contextlib.contextmanager
def open_visits(source: Any, dialect: Dialect, columns: Columns, projection: Projection) -> Iterator[Any]:
    """Find the files of a path, or convert a table in memory, so that every engine can read it.

    Args:
        source: A path or pattern, or a table in memory.
        dialect: How the files are written.
        columns: The wanted columns.
        projection: The projection of the map; on the globe, geometries must be in degrees.

    Yields:
        Files, or a table in memory. Copies of files exist until the end of the block.

    Raises:
        UnreadableData: The files cannot be read as visits.
    """
    if not isinstance(source, str) or "://" in source:
        yield _converted(source, columns, projection)
        return
    with tempfile.TemporaryDirectory(prefix="heathaze-") as folder:
        files = find_files(source, dialect, folder)
        yield read_points(files, dialect, columns, projection) if files.format.is_geographic else files


def read_points(files: Files, dialect: Dialect, columns: Columns, projection: Projection) -> Points:
    """Read the wanted columns of all points of some files; see :func:`open_visits`."""
    points = Points({name: [] for name in columns.wanted})
    points.where = shown = named(files.given, files.format)
    known: set[str] = set()
    everywhere: dict[str, None] = {}
    for row in rows_of(files, dialect, columns, projection):
        row["x"], row["y"] = row["lon"], row["lat"]
        # An error lists only the columns that all rows have, because a column of some rows may say something about a
        # person.
        if not known:
            everywhere = dict.fromkeys(row)
        elif not everywhere.keys() <= row.keys():
            everywhere = {name: None for name in everywhere if name in row}
        known.update(row)
        for name, values in points.items():
            values.append(row.get(name))
    if not known:
        raise UnreadableData(f"{shown} has no points; there is nothing to count.")
    for name in points:
        if name not in known:
            raise UnreadableData(f"{shown} has no column {name!r}; all rows have {', '.join(map(repr, everywhere))}.")
    return points


def rows_of(files: Files, dialect: Dialect, columns: Columns, projection: Projection) -> Iterator[Row]:
    """Read the points of some files one after the other; the arguments are those of :func:`open_visits`."""
    if files.size > LONGEST_FILE:
        shown = named(files.given, files.format)
        raise UnreadableData(f"{shown} is larger than 1 GiB; save its points as Parquet with two columns.")
    readers: dict[Format, Callable[[str, Dialect, Columns, bool], Iterable[Row]]] = {
        Format.GEOJSON: _geojson,
        Format.GEOPACKAGE: _geopackage,
        Format.GEOPARQUET: _geoparquet,
        Format.GPX: _gpx,
        Format.MDS: _mds,
        Format.SHAPEFILE: _shapefile,
    }
    if files.format is Format.GPX:
        _check_names(files, columns)
    for number, path in enumerate(files.paths, 1):
        try:
            yield from readers[files.format](path, dialect, columns, projection.is_geographic)
        except _NotGpx:
            raise UnreadableData(
                f"{named(path, Format.GPX, number)} is not GPX; the file is damaged or not what its ending says."
            ) from None


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _geojson(path: str, dialect: Dialect, columns: Columns, degrees: bool) -> Iterator[Row]:  # noqa: ARG001
    collection = _json(path)
    features = collection.get("features") if isinstance(collection, dict) else None
    if not isinstance(features, list):
        raise UnreadableData(f"{path!r} is not a GeoJSON FeatureCollection; save the points as one.")
    named = _deep(collection, "crs", "properties", "name")
    if named is not None and degrees:
        _check_degrees(path, str(named).replace("urn:ogc:def:crs:", "").replace("::", ":").replace(":1.3:", ":"))
    for feature in features:
        properties = feature.get("properties") if isinstance(feature, dict) else None
        row = dict(properties) if isinstance(properties, dict) else {}
        row["lon"], row["lat"] = _pair(path, feature.get("geometry") if isinstance(feature, dict) else None)
        yield row


def _mds(path: str, dialect: Dialect, columns: Columns, degrees: bool) -> Iterator[Row]:  # noqa: ARG001
    """Read trips: the points of the route (versions 0 and 1), or the places of start and end (version 2)."""
    answer = _json(path)
    trips = _deep(answer, "data", "trips") or _deep(answer, "trips")
    if not isinstance(trips, list) or not all(isinstance(trip, dict) for trip in trips):
        raise UnreadableData(f"{path!r} is not an answer of MDS with trips; give the JSON of its endpoint /trips.")
    for trip in trips:
        fields = {name: value for name, value in trip.items() if not isinstance(value, dict | list)}
        route = _deep(trip, "route", "features")
        for point in route if isinstance(route, list) else []:
            lon, lat = _pair(path, _deep(point, "geometry"))
            yield {**fields, "time": _deep(point, "properties", "timestamp"), "lon": lon, "lat": lat}
        for end in ("start", "end") if route is None else ():
            place = trip.get(f"{end}_location")
            lon, lat = _deep(place, "lng"), _deep(place, "lat")
            yield {**fields, "time": trip.get(f"{end}_time"), "lon": lon, "lat": lat}


def _check_names(files: Files, columns: Columns) -> None:
    """Refuse GPX files with equal names in several folders if names are ids, because two people would become one."""
    names = [Path(path).stem for path in files.paths]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None and {"file", "track"} & set(columns.wanted):
        raise UnreadableData(
            "Several GPX files have the same name, and the name of a GPX file is the id of its person; give each file "
            "its own name."
        )


def _gpx(path: str, dialect: Dialect, columns: Columns, degrees: bool) -> Iterator[Row]:  # noqa: ARG001
    name, track = Path(path).stem, 0
    try:
        for _, element in ElementTree.iterparse(path):
            tag = element.tag.rpartition("}")[2]
            if tag == "trk":
                track += 1
                element.clear()
            elif tag == "trkpt":
                times = [child.text for child in element if child.tag.rpartition("}")[2] == "time"]
                yield {
                    "file": name,
                    "track": f"{name}/{track}",
                    "time": times[0] if times else None,
                    "lon": element.get("lon"),
                    "lat": element.get("lat"),
                }
                element.clear()
    except (ElementTree.ParseError, ValueError, LookupError):
        raise _NotGpx from None


def _geopackage(path: str, dialect: Dialect, columns: Columns, degrees: bool) -> Iterator[Row]:  # noqa: ARG001
    with contextlib.closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True)) as base:
        try:
            layers = base.execute(
                "select g.table_name, g.column_name, s.organization || ':' || s.organization_coordsys_id "
                "from gpkg_geometry_columns g left join gpkg_spatial_ref_sys s on s.srs_id = g.srs_id"
            ).fetchall()
            chosen = [one for one in layers if dialect.layer in (None, one[0])]
            if len(chosen) != 1:
                names = ", ".join(repr(layer[0]) for layer in layers)
                raise UnreadableData(f"{path!r} has the layers {names}; say which to read (layer).")
            table, shape, crs = chosen[0]
            if degrees:
                _check_degrees(path, str(crs))
            found = base.execute(f"select * from {sql_name(table)}")
            if shape not in (column[0] for column in found.description):
                raise UnreadableData(f"{path!r} is damaged: its layer has no column {shape!r}, which holds the points.")
            for values in found:
                row = {column[0]: value for column, value in zip(found.description, values, strict=True)}
                row["lon"], row["lat"] = _gpkg_pair(path, row.pop(shape))
                yield row
        except sqlite3.Error:
            raise UnreadableData(
                f"{path!r} is not a GeoPackage; the file is damaged or not what it is called."
            ) from None


def _geoparquet(path: str, dialect: Dialect, columns: Columns, degrees: bool) -> Iterator[Row]:  # noqa: ARG001
    import duckdb

    with contextlib.closing(duckdb.connect(config={"autoinstall_known_extensions": False})) as base:
        try:
            base.execute("set disabled_optimizers = 'statistics_propagation'").fetchall()
            base.execute("set enable_geoparquet_conversion = false").fetchall()
            place = sql_text(glob.escape(path))
            told = base.execute(f"select value from parquet_kv_metadata({place}) where key = 'geo'").fetchall()
            about = json.loads(told[0][0]) if told else {}
            shape = about.get("primary_column")
            if shape is None:
                raise UnreadableData(f"{path!r} is not GeoParquet; read it as Parquet, with columns for the position.")
            if degrees:
                crs = _deep(about, "columns", shape, "crs", "id")
                _check_degrees(path, f"{_deep(crs, 'authority')}:{_deep(crs, 'code')}" if crs else "OGC:CRS84")
            # The statement that reads the file has only names of columns (docs/decisions/0019).
            reader = f"read_parquet({place}, hive_partitioning = false, can_have_nan = true)"
            there = [row[0] for row in base.execute(f"describe select * from {reader}").fetchall()]
            chosen = [name for name in columns.wanted if name in there and name not in POSITION]
            listed = ", ".join(f"{sql_name(name)} as r{place}" for place, name in enumerate([shape, *chosen]))
            base.execute(f"create temporary table kept as select {listed} from {reader}").fetchall()
            types = {row[0]: str(row[1]) for row in base.execute("describe kept").fetchall()}
            values = [_stored(f"r{place}", types[f"r{place}"]) for place in range(1, len(chosen) + 1)]
            encoded = "r0" if types["r0"].startswith(("BLOB", "STRUCT")) else "st_aswkb(r0)"
            for geometry, *row in base.execute(f"select {', '.join([encoded, *values])} from kept").fetchall():
                point = _wkb_pair(path, geometry)
                yield dict(zip(chosen, row, strict=True)) | {"lon": point[0], "lat": point[1]}
        except (duckdb.Error, json.JSONDecodeError, AttributeError):
            raise UnreadableData(f"{path!r} cannot be read as GeoParquet; the file is damaged.") from None


def _stored(column: str, kind: str) -> str:
    """Write SQL for a value that Python holds exactly; an instant becomes ISO text in UTC."""
    if kind == "TIMESTAMP WITH TIME ZONE":
        return f"cast(make_timestamp(epoch_us({column})) as varchar) || 'Z'"
    return f"cast({column} as varchar)" if kind.startswith(("DECIMAL", "TIME", "DATE")) else column


def _shapefile(path: str, dialect: Dialect, columns: Columns, degrees: bool) -> Iterator[Row]:
    try:
        import pyarrow
        import pyogrio
        import pyogrio.errors
    except ImportError:
        raise MissingExtra(
            "Shapefiles need pyogrio and pyarrow; install them (the extra 'geo'), or save a GeoPackage."
        ) from None
    try:
        fields = pyogrio.read_info(path)["fields"]
        names = [name for name in fields if name in columns.wanted]
        about, table = pyogrio.read_arrow(path, layer=dialect.layer, columns=names)
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError, pyarrow.ArrowException):
        raise UnreadableData(f"{path!r} cannot be read as a Shapefile; its parts are missing or damaged.") from None
    if degrees:
        _check_degrees(path, str(about["crs"]))
    for row in table.to_pylist():
        lon, lat = _wkb_pair(path, row.pop(about["geometry_name"] or "wkb_geometry"))
        yield {**row, "lon": lon, "lat": lat}


# ── geometries ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _pair(path: str, geometry: Any) -> tuple[Any, Any]:
    """Return the coordinates of a GeoJSON point as they are written; None for a missing or empty geometry."""
    if geometry is None:
        return None, None
    found = _deep(geometry, "coordinates")
    if _deep(geometry, "type") != "Point" or not isinstance(found, list):
        raise _not_a_point(path)
    if not found:
        return None, None
    if len(found) < 2 or not all(type(value) in (int, float, type(None)) for value in found[:2]):
        raise _not_a_point(path)
    return found[0], found[1]


def _wkb_pair(path: str, geometry: Any) -> tuple[float | None, float | None]:
    """Return the coordinates of a point in WKB (with or without z, m and SRID), or of a pair of numbers."""
    if geometry is None:
        return None, None
    if isinstance(geometry, dict) and {"x", "y"} <= geometry.keys():
        return geometry["x"], geometry["y"]
    if not isinstance(geometry, bytes) or len(geometry) < 21 or geometry[0] > 1:
        raise _not_a_point(path)
    order = "<" if geometry[0] else ">"
    (kind,) = struct.unpack_from(f"{order}I", geometry, 1)
    has_srid = bool(kind & 0x20000000)
    if (kind & 0x0FFFFFFF) % 1000 != 1 or len(geometry) < 21 + 4 * has_srid:
        raise _not_a_point(path)
    x, y = struct.unpack_from(f"{order}dd", geometry, 5 + 4 * has_srid)
    return x, y


def _gpkg_pair(path: str, geometry: Any) -> tuple[float | None, float | None]:
    """Return the coordinates of a point of a GeoPackage: a header of 8 bytes, perhaps an envelope, then WKB."""
    if geometry is None:
        return None, None
    if not isinstance(geometry, bytes) or geometry[:2] != b"GP" or len(geometry) < 8:
        raise _not_a_point(path)
    flags = geometry[3]
    envelope = {0: 0, 1: 32, 2: 48, 3: 48, 4: 64}.get(flags >> 1 & 7, 0)
    return (None, None) if flags & 16 else _wkb_pair(path, geometry[8 + envelope :])


def _not_a_point(path: str) -> UnreadableData:
    return UnreadableData(f"{path!r} holds a geometry that is not a point; a visit is one point: save points.")


def _check_degrees(path: str, crs: str) -> None:
    if crs.upper() not in _DEGREES:
        raise UnreadableData(
            f"{path!r} has coordinates in {crs}, and the map is in degrees; convert the file to EPSG:4326 (ogr2ogr "
            "-t_srs EPSG:4326), or give the map's box in the file's own units (--x, --y), whose y is drawn "
            "downwards."
        )


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _json(path: str) -> Any:
    """Read a JSON file; refuse a key that is given twice, because readers differ in which of its values they take."""

    def unique(pairs: Sequence[tuple[str, Any]]) -> Row:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise UnreadableData(f"{path!r} has an object in which a key is given twice; correct it.")
        return found

    try:
        with opened(path) as file:
            return json.loads(file.read().decode("utf-8-sig"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnreadableData):
            raise
        raise UnreadableData(f"{path!r} is not JSON in UTF-8; the file is damaged or not what it is called.") from None


def _deep(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


# ── tables in memory ────────────────────────────────────────────────────────────────────────────────────────────────


def _converted(source: Any, columns: Columns, projection: Projection) -> Any:
    """Convert tables in memory that no engine knows: DataFrames of GeoPandas and polars, and Arrow streams."""
    package = type(source).__module__.split(".")[0]
    if package == "geopandas" and hasattr(source, "geometry"):
        return _from_geopandas(source, columns, projection)
    known = package in ("pandas", "pyspark", "duckdb", "_duckdb") or is_arrow(source)
    if not known and hasattr(source, "__arrow_c_stream__"):
        try:
            import pyarrow
        except ImportError:
            raise MissingExtra(f"Reading a {type(source).__name__} of {package} needs pyarrow; install it.") from None
        return pyarrow.table(source)
    return source


def _from_geopandas(source: Any, columns: Columns, projection: Projection) -> Any:
    """Convert a GeoDataFrame of points to a DataFrame; each point is converted to degrees by itself."""
    import pandas

    if projection.is_geographic:
        if source.crs is None:
            raise UnreadableData("The GeoDataFrame names no coordinate system; set it with set_crs(…).")
        source = source if source.crs in _DEGREES[:2] else source.to_crs("OGC:CRS84")
    shapes = source.geometry
    if not shapes[~(shapes.isna() | shapes.is_empty)].geom_type.isin(["Point"]).all():
        raise UnreadableData("The GeoDataFrame holds geometries that are not points; a visit is one point.")
    x, y = shapes.x.to_numpy(), shapes.y.to_numpy()
    frame = {name: source[name] for name in columns.wanted if name in source.columns}
    taken = {name: value for name, value in zip(POSITION, (x, y, x, y), strict=True) if name in columns.wanted}
    return pandas.DataFrame({**frame, **{name: pandas.Series(value, source.index) for name, value in taken.items()}})
