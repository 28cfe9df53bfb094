"""Points from GeoJSON, GeoPackage, GeoParquet, GPX, Shapefiles and trips of MDS, and from DataFrames."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import geopandas
import polars
import pyarrow as pa
import pytest
import shapely

import heathaze as hz
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.ingest.count import count
from heathaze.ingest.look import look
from heathaze.ingest.positions import positions
from heathaze.privacy.guarantee import Unit

GRID = Grid.over(lon=(0, 4), lat=(0, 1), shape=(1, 4))
PLANE = Grid.plane(x=(0, 4), y=(0, 1), shape=(1, 4))
FRAME = geopandas.GeoDataFrame(
    {"who": ["a", "a", "b", "b"], "n": [1, 2, 3, 4], "lat": ["not", "the", "position", ""]},
    geometry=[shapely.Point(0.5, 0.5), shapely.Point(1.5, 0.5), shapely.Point(2.5, 0.5), None],
    crs="EPSG:4326",
)
AREAS = FRAME.set_geometry([shapely.box(0, 0, 1, 1)] * 4, crs="EPSG:4326")
GPX = (
    '<?xml version="1.0"?><gpx xmlns="http://www.topografix.com/GPX/1/1"><wpt lat="0.5" lon="3.5"/>'
    "<trk><trkseg>{}</trkseg></trk></gpx>"
)


def counted(source: Any, grid: Grid = GRID, **options: Any) -> list[int]:
    found: list[int] = count(source, grid, **{"person": "who", "mass": 12, **options}).dense()[0].tolist()
    return found


def written(folder: Path, kind: str, frame: Any = FRAME) -> Path:
    path = folder / f"v.{kind}"
    if kind == "geoparquet":
        frame.to_parquet(path)
    else:
        frame.to_file(path, engine="pyogrio")
    return path


@pytest.mark.parametrize("kind", ["geojson", "gpkg", "geoparquet", "shp"])
def test_points_are_positions(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind)
    assert counted(path) == [6, 6, 12, 0]
    assert counted(path, PLANE) == [6, 6, 12, 0]
    assert counted(path, only={"n": [1, 3]}) == [12, 0, 12, 0]
    assert counted(path, weight_column="n") == [4, 8, 12, 0]
    with pytest.raises(UnreadableData, match="has no column 'nobody'"):
        counted(path, person="nobody")


@pytest.mark.parametrize("kind", ["gpkg", "geoparquet", "shp"])
def test_coordinates_in_metres_are_no_degrees(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind, FRAME.to_crs("EPSG:32631"))
    with pytest.raises(UnreadableData, match=r"has coordinates in .*32631.*convert the file to EPSG:4326"):
        counted(path)


@pytest.mark.parametrize("kind", ["geojson", "gpkg", "geoparquet"])
def test_a_visit_is_a_point(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind, AREAS)
    with pytest.raises(UnreadableData, match="holds a geometry that is not a point"):
        counted(path)


@pytest.mark.parametrize("kind", ["geojson", "gpkg", "geoparquet", "gpx", "shp"])
def test_a_damaged_file_gets_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"v.{kind}"
    path.write_text("neither fish nor fowl")
    with pytest.raises(UnreadableData, match="GPX file 1" if kind == "gpx" else f"v.{kind}'"):
        counted(path)


def test_geojson_that_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.geojson"
    point = {"type": "Point", "coordinates": [0.5, 0.5]}
    for fields, sentence in (
        ({"type": "Point", "coordinates": [1, 2]}, "not a GeoJSON FeatureCollection"),
        ({"features": []}, "has no points"),
        ({"features": [{"geometry": {"type": "Point", "coordinates": ["x", 1]}}]}, "not a point"),
        ({"features": [{"geometry": point, "properties": {"who": 1.5}}]}, "neither text nor whole numbers"),
        (
            {"features": [{"geometry": point, "properties": {"who": who}} for who in (1, "1")]},
            "Column 'who' mixes kinds of ids",
        ),
        ({"crs": {"properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}, "features": []}, "coordinates in EPSG:25832"),
    ):
        path.write_text(json.dumps(fields))
        with pytest.raises(UnreadableData, match=sentence):
            counted(path)
    path.write_text('{"features": [{"properties": {"who": 1, "who": 2}}]}')
    with pytest.raises(UnreadableData, match="a key is given twice"):
        counted(path)


def test_layers_of_a_geopackage(tmp_path: Path) -> None:
    path = written(tmp_path, "gpkg")
    FRAME[:1].to_file(path, layer="others", engine="pyogrio")
    with pytest.raises(UnreadableData, match=r"has the layers 'v', 'others'"):
        counted(path)
    assert counted(path, layer="others") == [12, 0, 0, 0]
    with sqlite3.connect(path) as base:
        base.execute("update gpkg_geometry_columns set column_name = 'shape'")
    base.close()
    with pytest.raises(UnreadableData, match="its layer has no column 'shape'"):
        counted(path, layer="others")
    with sqlite3.connect(path) as base:
        base.execute("drop table gpkg_geometry_columns")
    base.close()
    with pytest.raises(UnreadableData, match="is not a GeoPackage"):
        counted(path)


def test_a_gpx_file_is_a_person(tmp_path: Path) -> None:
    for name, places in (("ann", (0.5, 1.5)), ("bob", (2.5,))):
        points = "".join(f'<trkpt lat="0.5" lon="{x}"><time>2024-05-01T23:30:00Z</time></trkpt>' for x in places)
        (tmp_path / f"{name}.gpx").write_text(GPX.format(points))
    assert counted(str(tmp_path / "*.gpx"), person="file") == [6, 6, 12, 0]
    days = {"person": "file", "unit": "person-day", "time": "time", "time_zone": "Europe/Berlin"}
    assert counted(str(tmp_path / "*.gpx"), **days) == [6, 6, 12, 0]
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9)
    )
    (tmp_path / "bob.gpx").write_text(f"{bomb}]><gpx>&j;</gpx>")
    with pytest.raises(UnreadableData, match=r"GPX file 2 .* is not GPX") as refusal:
        counted(str(tmp_path / "*.gpx"), person="file")
    assert "bob" not in str(refusal.value)
    (tmp_path / "ann.gpx").write_bytes(b"")
    with pytest.raises(UnreadableData, match=r"GPX file 1 .* is empty") as refusal:
        counted(str(tmp_path / "*.gpx"), person="file")
    assert "ann" not in str(refusal.value)


def test_an_error_lists_only_the_columns_that_all_points_have(tmp_path: Path) -> None:
    point = {"type": "Point", "coordinates": [0.5, 0.5]}
    features = [{"type": "Feature", "geometry": point, "properties": {"who": 1} | more} for more in ({"visa": 7}, {})]
    path = tmp_path / "v.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    with pytest.raises(UnreadableData, match="no column 'person'; all rows have 'who'") as refusal:
        counted(str(path), person="person")
    assert "visa" not in str(refusal.value)


@pytest.mark.parametrize("person", ["file", "track"])
def test_gpx_files_of_one_name_are_not_one_person(tmp_path: Path, person: str) -> None:
    for folder, x in (("ann", 0.5), ("bob", 1.5)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log.gpx").write_text(GPX.format(f'<trkpt lat="0.5" lon="{x}"/>'))
    with pytest.raises(UnreadableData, match="give each file its own name") as refusal:
        counted(str(tmp_path / "*/*.gpx"), person=person)
    assert "'log'" not in str(refusal.value)
    assert counted(str(tmp_path / "ann/*.gpx"), person=person) == [12, 0, 0, 0]


def test_tracks_of_several_gpx_files_are_several_people(tmp_path: Path) -> None:
    for name, places in (("ann", (0.5, 1.5)), ("bob", (2.5,))):
        tracks = "".join(f'<trk><trkpt lat="0.5" lon="{x}"/></trk>' for x in places)
        (tmp_path / f"{name}.gpx").write_text(f"<gpx>{tracks}</gpx>")
    assert counted(str(tmp_path / "*.gpx"), person="track") == [12, 12, 12, 0]
    assert counted(str(tmp_path / "*.gpx"), person="file", only={"track": ["ann/1", "bob/0"]}) == [0, 12, 12, 0]


def test_trips_of_mds(tmp_path: Path) -> None:
    point = {"geometry": {"type": "Point", "coordinates": [0.5, 0.5]}, "properties": {"timestamp": 1714600000000}}
    old = {"version": "1.2.0", "data": {"trips": [{"trip_id": "q", "route": {"features": [point]}}]}}
    new = {"trip_id": "r", "start_location": {"lng": 1.5, "lat": 0.5}, "end_location": {"lng": 2.5, "lat": 0.5}}
    path = tmp_path / "trips.json"
    options: dict[str, Any] = {"person": "trip_id", "format": "mds"}
    path.write_text(json.dumps(old))
    assert counted(path, **options) == [12, 0, 0, 0]
    counts = count(path, GRID, **options)
    assert (counts.unit, counts.bound) == (Unit.TRIP, counts.one)  # MDS names no people: each trip is its own unit
    release = hz.publish(hz.central.Flat(GRID, epsilon=1), counts)
    assert release.guarantee.plain.startswith("No single trip can be recognised")
    for unit in ("person", "person-day"):
        with pytest.raises(InvalidInput, match="do not say who rode"):
            count(path, GRID, **options, unit=unit, time="time", time_format="milliseconds")
    with pytest.raises(InvalidInput, match="do not say who rode"):
        positions(str(path), GRID, **options)
    path.write_text(json.dumps({"version": "2.0.0", "trips": [new]}))
    assert counted(path, **options) == [0, 6, 6, 0]
    assert look(str(path)).options == {"format": "mds"}
    assert look(str(path)).roles["person"] == "trip_id"
    path.write_text('{"version": "2.0.0", "trips": 3}')
    with pytest.raises(UnreadableData, match="is not an answer of MDS with trips"):
        counted(path, **options)


def test_frames_of_geopandas_and_polars() -> None:
    assert counted(FRAME) == [6, 6, 12, 0]
    assert counted(FRAME.to_crs("EPSG:32631")) == [6, 6, 12, 0]
    with pytest.raises(UnreadableData, match="names no coordinate system"):
        counted(FRAME.set_crs(None, allow_override=True))
    with pytest.raises(UnreadableData, match="geometries that are not points"):
        counted(AREAS)
    table = pa.table({"who": ["a", "a", "b"], "lon": [0.5, 1.5, 2.5], "lat": [0.5] * 3})
    assert counted(polars.from_arrow(table)) == [6, 6, 12, 0]
    assert counted(table.to_reader()) == [6, 6, 12, 0]


# ── look ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_look_proposes_a_dialect_and_holds_no_value(tmp_path: Path) -> None:
    path = tmp_path / "Zählung.csv"
    path.write_bytes("Nutzer-ID;Länge;Breite;Zeit\nkäthe;9,95;53,55;07.04.2012 13:42\n".encode("cp1252"))
    found = look(str(path))
    assert found.options == {"encoding": "windows-1252", "decimal": "comma", "time-format": "%d.%m.%Y %H:%M"}
    assert found.roles == {"lon": "Länge", "lat": "Breite", "time": "Zeit", "person": "Nutzer-ID"}
    assert not {"käthe", "9,95", "53,55"} & set(repr(found).split("'"))


@pytest.mark.parametrize("kind", ["geojson", "gpkg", "geoparquet", "jsonl", "tsv"])
def test_a_look_at_each_format(tmp_path: Path, kind: str) -> None:
    if kind in ("jsonl", "tsv"):
        path = tmp_path / f"v.{kind}"
        path.write_text('{"who": 1, "lon": 2, "lat": 3}\n' if kind == "jsonl" else "who\tlon\tlat\n1\t2\t3\n")
    else:
        path = written(tmp_path, kind)
    found = look(str(path))
    assert {"lon": "lon", "lat": "lat", "person": "who"}.items() <= found.roles.items()
    assert found.format == kind


@pytest.mark.parametrize("clock", ["2024-05-01T12:00Z", "1714600000", "1714600000000", "05/01/2024 02:30"])
def test_a_look_at_times(tmp_path: Path, clock: str) -> None:
    path = tmp_path / "v.csv"
    path.write_text(f"who,lon,lat,when\n1,2,3,{clock}\n")
    form = {"2": None, "1": "seconds" if len(clock) == 10 else "milliseconds", "0": "%d/%m/%Y %H:%M"}[clock[0]]
    assert look(str(path)).options.get("time-format") == form
    assert bool(look(str(path)).notes) == ("/" in clock)


def test_a_look_at_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="There is no file"):
        look(str(tmp_path / "v.csv"))
