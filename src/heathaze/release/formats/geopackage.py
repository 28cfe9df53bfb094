"""GeoPackage files of a release: a table of polygons that every GIS opens, written with sqlite3.

The layer ``squares`` has the columns of :mod:`heathaze.release.formats.cells`. The table ``gpkg_metadata`` holds the
guarantee and the provenance as JSON. A GeoPackage cannot be loaded back.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from pathlib import Path

from heathaze.maps.sheet import Look
from heathaze.release.formats import metadata
from heathaze.release.formats.cells import counted, polygons, rectangles_of

_TABLES = """
create table gpkg_spatial_ref_sys (srs_name text not null, srs_id integer primary key, organization text not null,
  organization_coordsys_id integer not null, definition text not null, description text);
create table gpkg_contents (table_name text primary key, data_type text not null, identifier text unique,
  description text default '', last_change datetime not null, min_x double, min_y double, max_x double, max_y double,
  srs_id integer references gpkg_spatial_ref_sys (srs_id));
create table gpkg_geometry_columns (table_name text primary key, column_name text not null,
  geometry_type_name text not null, srs_id integer not null, z tinyint not null, m tinyint not null);
create table gpkg_extensions (table_name text, column_name text, extension_name text not null,
  definition text not null, scope text not null);
create table gpkg_metadata (id integer primary key, md_scope text not null default 'dataset',
  md_standard_uri text not null, mime_type text not null default 'text/xml', metadata text not null default '');
create table gpkg_metadata_reference (reference_scope text not null, table_name text, column_name text,
  row_id_value integer, timestamp datetime not null, md_file_id integer not null, md_parent_id integer);
"""

_WGS84 = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,AUTHORITY["EPSG","7030"]],'
    'AUTHORITY["EPSG","6326"]],PRIMEM["Greenwich",0,AUTHORITY["EPSG","8901"]],UNIT["degree",0.0174532925199433,'
    'AUTHORITY["EPSG","9122"]],AXIS["Latitude",NORTH],AXIS["Longitude",EAST],AUTHORITY["EPSG","4326"]]'
)
_SYSTEMS = (
    ("Undefined cartesian SRS", -1, "NONE", -1, "undefined", None),
    ("Undefined geographic SRS", 0, "NONE", 0, "undefined", None),
    ("WGS 84 geodetic", 4326, "EPSG", 4326, _WGS84, None),
)
_EXTENSION = "http://www.geopackage.org/spec121/#extension_metadata"
_KINDS = {"i": "integer", "f": "real", "O": "text"}


def write(contents: metadata.Contents, target: Path, look: Look) -> None:
    """Write a release as a GeoPackage."""
    grid, day = contents.estimate.grid, f"{contents.provenance.day}T00:00:00.000Z"
    rectangles = rectangles_of(contents.estimate, counted(contents.guarantee, contents.provenance))
    system = 4326 if grid.projection.is_geographic else -1
    # A geometry starts with a header: magic, version, flags (little-endian, no envelope), reference system.
    header = struct.pack("<2sBBi", b"GP", 0, 1, system)
    names = list(rectangles.columns)
    columns = ", ".join(f'"{name}" {_KINDS[rectangles.columns[name].dtype.kind]}' for name in names)
    rows = zip(
        (header + polygon for polygon in polygons(rectangles.bounds)),
        *(column.tolist() for column in rectangles.columns.values()),
        strict=True,
    )
    about = json.dumps(metadata.to_dict(contents), allow_nan=False, default=str)
    bounds = (grid.x[0], grid.y[0], grid.x[1], grid.y[1])
    # The database is made in memory, because sqlite would leave a journal beside the file if the disk is full.
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("pragma application_id = 0x47504b47")  # "GPKG"
        connection.execute("pragma user_version = 10300")
        connection.executescript(_TABLES)
        connection.executemany("insert into gpkg_spatial_ref_sys values (?, ?, ?, ?, ?, ?)", _SYSTEMS)
        connection.execute(
            f"create table squares (fid integer primary key autoincrement not null, geom polygon, {columns})"
        )
        connection.execute(
            "insert into gpkg_contents values ('squares', 'features', 'squares', ?, ?, ?, ?, ?, ?, ?)",
            (look.title, day, *bounds, system),
        )
        connection.execute("insert into gpkg_geometry_columns values ('squares', 'geom', 'POLYGON', ?, 0, 0)", [system])
        places = ", ".join("?" * (1 + len(names)))
        quoted = ", ".join(f'"{name}"' for name in names)
        connection.executemany(f"insert into squares (geom, {quoted}) values ({places})", rows)
        connection.executemany(
            "insert into gpkg_extensions values (?, null, 'gpkg_metadata', ?, 'read-write')",
            [(table, _EXTENSION) for table in ("gpkg_metadata", "gpkg_metadata_reference")],
        )
        connection.execute(
            "insert into gpkg_metadata values (1, 'dataset', 'urn:heathaze:release', 'application/json', ?)", [about]
        )
        connection.execute(
            "insert into gpkg_metadata_reference values ('geopackage', null, null, null, ?, 1, null)", [day]
        )
        connection.commit()
        target.write_bytes(connection.serialize())
    finally:
        connection.close()
