"""Write the visits of a hostile table to files and tables that hold points: GeoJSON, GeoPackage, GPX and others."""

from __future__ import annotations

import json
import math
import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heathaze.testing.neighbour_fuzz.table import Table, Visit

ENDINGS = {
    "geojson": "geojson",
    "geopackage": "gpkg",
    "gpx": "gpx",
    "mds": "json",
    "shapefile": "shp",
}
"""Sources that are files of points, with the endings of their names."""


def write_points(table: Table, visits: Sequence[Visit], path: Path) -> None:
    """Write some visits to one file of points."""
    makers = {
        "geojson": _geojson,
        "geopackage": _geopackage,
        "gpx": _gpx,
        "mds": _mds,
        "shapefile": _shapefile,
    }
    makers[table.recipe.source](table, visits, path)


def geo_frame(table: Table, visits: Sequence[Visit]) -> Any:
    """Convert visits to a GeoDataFrame."""
    import geopandas
    import pandas

    columns = {name: pandas.Series(values, dtype=object) for name, values in _columns(table, visits).items()}
    points = geopandas.points_from_xy(*zip(*[_floats(visit) for visit in visits], strict=True)) if visits else []
    return geopandas.GeoDataFrame(columns, geometry=points, crs="EPSG:4326")


def _columns(table: Table, visits: Sequence[Visit]) -> dict[str, list[Any]]:
    """The columns other than the position. One of them is called lat, and a reader must not use it as the latitude."""
    values = {"person": "id", "time": "time", "weight": "weight", "kind": "kind"}
    found: dict[str, list[Any]] = {"lat": [visit.note for visit in visits]}
    for role in table.order:
        if role not in ("x", "y"):
            found[table.names[role]] = [
                getattr(visit, values[role]) if role in values else visit.note for visit in visits
            ]
    return found


def _rows(table: Table, visits: Sequence[Visit]) -> list[dict[str, Any]]:
    columns = _columns(table, visits)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _floats(visit: Visit) -> tuple[float, float]:
    return (math.nan if visit.x is None else float(visit.x), math.nan if visit.y is None else float(visit.y))


def _geojson(table: Table, visits: Sequence[Visit], path: Path) -> None:
    features = [
        {
            "type": "Feature",
            "properties": row,
            "geometry": None
            if visit.x is None and visit.y is None
            else {"type": "Point", "coordinates": [visit.x, visit.y]},
        }
        for row, visit in zip(_rows(table, visits), visits, strict=True)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "bbox": [0, 0, 0, 0], "features": features}))


def _mds(table: Table, visits: Sequence[Visit], path: Path) -> None:
    """Write each visit as a trip: with a route of one point, or, for every third person, with a place of start."""
    trips = []
    for row, visit in zip(_rows(table, visits), visits, strict=True):
        where: dict[str, Any] = {"start_location": {"lng": visit.x, "lat": visit.y}, "start_time": visit.time}
        if visit.person % 3:
            point = {"type": "Point", "coordinates": [visit.x, visit.y]}
            feature = {"type": "Feature", "properties": {"timestamp": visit.time}, "geometry": point}
            where = {"route": {"type": "FeatureCollection", "features": [feature]}}
        trips.append({**row, **where})
    path.write_text(json.dumps({"version": "2.0.0", "trips": trips}))


def _gpx(table: Table, visits: Sequence[Visit], path: Path) -> None:
    del table
    points = "".join(
        "<trkpt"
        + "".join(f' {axis}="{value}"' for axis, value in (("lon", visit.x), ("lat", visit.y)) if value is not None)
        + f"><ele>5</ele><time>{visit.time}</time></trkpt>"
        for visit in visits
    )
    path.write_text(
        '<?xml version="1.0"?><gpx xmlns="http://www.topografix.com/GPX/1/1" version="1.1">'
        f"<trk><name>day</name><trkseg>{points}</trkseg></trk></gpx>"
    )


def wkb(visit: Visit, place: int) -> bytes:
    """Write a point as WKB: in both byte orders, with and without height."""
    order, flag = ("<", b"\1") if place % 2 else (">", b"\0")
    if place % 3 == 0:
        return flag + struct.pack(f"{order}Iddd", 1001, *_floats(visit), 12.0)
    return flag + struct.pack(f"{order}Idd", 1, *_floats(visit))


def _geopackage(table: Table, visits: Sequence[Visit], path: Path) -> None:
    columns = _columns(table, visits)
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in ("geom", *columns))
    with sqlite3.connect(path) as base:
        base.executescript(
            "create table gpkg_spatial_ref_sys (srs_id, organization, organization_coordsys_id);"
            "insert into gpkg_spatial_ref_sys values (4326, 'EPSG', 4326);"
            "create table gpkg_geometry_columns (table_name, column_name, srs_id);"
            "insert into gpkg_geometry_columns values ('visits', 'geom', 4326);"
        )
        base.execute(f"create table visits ({names})")
        head = b"GP\0\1" + struct.pack("<i", 4326)
        geometries = [
            None if visit.x is None and visit.y is None else head + wkb(visit, place)
            for place, visit in enumerate(visits)
        ]
        marks = ", ".join("?" * (1 + len(columns)))
        base.executemany(f"insert into visits values ({marks})", zip(geometries, *columns.values(), strict=True))
    base.close()


def _shapefile(table: Table, visits: Sequence[Visit], path: Path) -> None:
    """Write a Shapefile, which holds neither infinite coordinates nor long names."""
    import geopandas
    from shapely import Point

    wanted = (table.names["person"], table.names["time"])
    columns = {name: values for name, values in _columns(table, visits).items() if name in wanted}
    points = [Point(*_floats(visit)) if all(map(math.isfinite, _floats(visit))) else None for visit in visits]
    frame = geopandas.GeoDataFrame(columns, geometry=points, crs="EPSG:4326")
    frame.to_file(path, engine="pyogrio", encoding="utf-8", geometry_type="Point")
