"""Backdrops: the same geography from every format and reference system, cut and simplified truly, or refused."""

from __future__ import annotations

import itertools
import json
import os
import sys
import warnings
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pyogrio
import pyproj
import pytest
import shapely
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from heathaze.domain.grid import Grid
from heathaze.errors import HeathazeError, MissingExtra, TooLarge, UnknownFormat, UnreadableData
from heathaze.maps import backdrop as module
from heathaze.maps import backdrop_files as files
from heathaze.maps.backdrop import Backdrop, Label, Shape, built_in_land, draw_backdrop
from heathaze.maps.backdrop_files import read_backdrop
from heathaze.maps.figure import new_figure, save_figure
from heathaze.types import Floats

GRID = Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=64)

DISTRICT = shapely.Polygon(
    [(9.95, 53.52), (10.05, 53.52), (10.05, 53.58), (9.95, 53.58)],
    [[(9.98, 53.54), (9.98, 53.55), (9.99, 53.55), (9.99, 53.54)]],
)
RIVER = shapely.LineString([(9.90, 53.56), (9.97, 53.55), (10.10, 53.57)])
MARKET = shapely.Point(10.0, 53.56)
FEATURES = [(DISTRICT, "Old Town", "border"), (RIVER, "Elle", "water"), (MARKET, "Market", "border")]


def write_geojson(path: Path, features: Any = FEATURES, crs: str | None = None) -> Path:
    collection: dict[str, Any] = {
        "type": "FeatureCollection",
        "features": [
            {"type": "Feature", "properties": {"name": name, "kind": kind}, "geometry": shapely.geometry.mapping(shape)}
            for shape, name, kind in features
        ],
    }
    if crs is not None:
        collection["crs"] = {"type": "name", "properties": {"name": crs}}
    path.write_text(json.dumps(collection), encoding="utf-8")
    return path


def write_gdal(path: Path, features: Any = FEATURES, crs: str | None = "EPSG:4326", layer: str | None = None) -> Path:
    shapes, names, kinds = zip(*features, strict=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="'crs' was not provided")
        pyogrio.raw.write(
            path,
            shapely.to_wkb(shapes),
            [np.array(names, dtype=object), np.array(kinds, dtype=object)],
            ["name", "kind"],
            geometry_type=shapes[0].geom_type,
            crs=crs,
            layer=layer,
            append=path.exists(),
        )
    return path


def write_geoparquet(path: Path, features: Any = FEATURES, crs: Any = "unsaid") -> Path:
    shapes, names, kinds = zip(*features, strict=True)
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": []}
    if crs != "unsaid":
        column["crs"] = None if crs is None else pyproj.CRS(crs).to_json_dict()
    about = {"version": "1.1.0", "primary_column": "shape", "columns": {"shape": column}}
    table = pa.table({"name": names, "shape": list(shapely.to_wkb(shapes)), "kind": kinds})
    pyarrow.parquet.write_table(table.replace_schema_metadata({"geo": json.dumps(about)}), path)
    return path


def moved(features: Any, crs: str) -> Any:
    """The features in another reference system, with edges divided so finely that they stay where they were."""
    transformer = pyproj.Transformer.from_crs("OGC:CRS84", crs, always_xy=True)

    def move(xy: Floats) -> Floats:
        return np.column_stack(transformer.transform(xy[:, 0], xy[:, 1]))

    return [(shapely.transform(shapely.segmentize(shape, 0.002), move), name, kind) for shape, name, kind in features]


def check_city(backdrop: Backdrop) -> None:
    """That the backdrop is the three features, in fractions of the map."""
    (district,) = (shape for shape in backdrop.shapes if shape.closed)
    (river,) = (shape for shape in backdrop.shapes if not shape.closed)
    assert (district.kind, district.name, river.kind) == ("border", "Old Town", "water")
    assert [len(part) for part in district.parts] == [4, 4]
    np.testing.assert_allclose(district.parts[0].min(axis=0), [0.25, 1 / 3], atol=2e-4)
    np.testing.assert_allclose(district.parts[0].max(axis=0), [0.75, 5 / 6], atol=2e-4)
    np.testing.assert_allclose(river.parts[0], [[0, 0.5], [0.35, 7 / 12], [1, 5 / 12]], atol=2e-4)
    market, town = backdrop.labels
    assert (market.name, town.name) == ("Market", "Old Town")
    np.testing.assert_allclose([market.x, market.y], [0.5, 0.5], atol=2e-4)
    # The name of a district stands inside it, and not in its hole.
    inside = shapely.Polygon(district.parts[0], [district.parts[1]])
    assert inside.contains(shapely.Point(town.x, town.y))


# ── formats and reference systems ───────────────────────────────────────────────────────────────────────────────────


def test_geojson_in_degrees_needs_no_other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_geojson(tmp_path / "city.geojson")
    monkeypatch.setattr(files, "_extra", lambda name: pytest.fail(f"{name} was imported"))
    check_city(read_backdrop([path], GRID))
    for crs in ("urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326", "urn:ogc:def:crs:EPSG::4326"):
        check_city(read_backdrop([write_geojson(path, crs=crs)], GRID))


@pytest.mark.parametrize("crs", ["EPSG:25832", "EPSG:3857", "EPSG:2056"])
def test_geojson_that_names_another_system(tmp_path: Path, crs: str) -> None:
    check_city(read_backdrop([write_geojson(tmp_path / "a.json", moved(FEATURES, crs), crs=crs)], GRID))


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:25832"])
def test_geopackage_with_several_layers(tmp_path: Path, crs: str) -> None:
    path = tmp_path / "city.gpkg"
    for feature in FEATURES:
        write_gdal(path, moved([feature], crs), crs, layer=feature[1])
    check_city(read_backdrop([path], GRID))


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:25832"])
def test_shapefiles(tmp_path: Path, crs: str) -> None:
    paths = [write_gdal(tmp_path / f"{name}.shp", moved([one], crs), crs) for one in FEATURES for name in [one[1]]]
    check_city(read_backdrop(paths, GRID))


@pytest.mark.parametrize("crs", ["unsaid", "EPSG:4326", "EPSG:25832"])
def test_geoparquet(tmp_path: Path, crs: str) -> None:
    features = FEATURES if crs == "unsaid" else moved(FEATURES, crs)
    check_city(read_backdrop([write_geoparquet(tmp_path / "city.parquet", features, crs)], GRID))


def test_files_are_added_up(tmp_path: Path) -> None:
    paths = [write_geojson(tmp_path / f"{k}.geojson", [feature]) for k, feature in enumerate(FEATURES)]
    check_city(read_backdrop(paths, GRID))


def test_web_mercator_and_plane(tmp_path: Path) -> None:
    tall = Grid.over(lon=(0, 60), lat=(0, 60), size=64, projection="web-mercator")
    line = [(shapely.LineString([(0, 0), (30, 45), (60, 60)]), "", "street")]
    (shape,) = read_backdrop([write_geojson(tmp_path / "a.geojson", line)], tall).shapes
    down = 1 - np.log(np.tan(np.pi / 4 + np.radians(45) / 2)) / np.log(np.tan(np.pi / 4 + np.radians(60) / 2))
    np.testing.assert_allclose(shape.parts[0], [[0, 1], [0.5, down], [1, 0]], atol=1e-9)
    # On a plane y grows downwards, and no reference system is asked for.
    room = Grid.plane(x=(0, 320), y=(0, 240), shape=(24, 32))
    wall = write_gdal(tmp_path / "wall.shp", [(shapely.LineString([(0, 0), (320, 120)]), "", "")], crs=None)
    (shape,) = read_backdrop([wall], room).shapes
    np.testing.assert_allclose(shape.parts[0], [[0, 0], [1, 0.5]], atol=1e-9)


def test_other_geometries_and_properties(tmp_path: Path) -> None:
    lines = [[[9.91, 53.51, 7.0], [9.92, 53.52, 8.0]], [[10, 53.6], [10.05, 53.6]]]
    many = {
        "type": "GeometryCollection",
        "geometries": [
            {"type": "MultiLineString", "coordinates": lines},
            {"type": "MultiPoint", "coordinates": [[10.0, 53.6], [11.0, 53.6]]},
            {"type": "MultiPolygon", "coordinates": [[[[9.95, 53.52], [9.96, 53.52], [9.96, 53.53], [9.95, 53.52]]]]},
        ],
    }
    features = [
        {"type": "Feature", "properties": {"NAME": "Both", "highway": "primary"}, "geometry": many},
        {"type": "Feature", "properties": None, "geometry": None},
    ]
    path = tmp_path / "a.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")
    found = read_backdrop([path], GRID)
    assert [(shape.kind, shape.closed, len(shape.parts)) for shape in found.shapes] == [
        ("street", False, 1), ("street", False, 1), ("street", True, 1),
    ]  # fmt: skip
    assert [label.name for label in found.labels] == ["Both", "Both"]


# ── cutting and simplifying ─────────────────────────────────────────────────────────────────────────────────────────

places = st.tuples(st.floats(-1, 2), st.floats(-1, 2)).map(lambda at: (round(at[0], 3), round(at[1], 3)))


@given(st.lists(places, min_size=3, max_size=9, unique=True))
def test_rings_are_cut_as_shapely_cuts_them(corners: list[tuple[float, float]]) -> None:
    polygon = shapely.Polygon(corners)
    assume(polygon.is_valid)
    parts = module.clipped([np.array([*corners, corners[0]])], closed=True)
    area = sum(shapely.Polygon(part).area for part in parts)
    assert area == pytest.approx(polygon.intersection(shapely.box(0, 0, 1, 1)).area, abs=1e-9)


@given(st.lists(places, min_size=2, max_size=9))
def test_lines_are_cut_as_shapely_cuts_them(corners: list[tuple[float, float]]) -> None:
    parts = module.clipped([np.array(corners)], closed=False)
    inside = sum(
        shapely.LineString(pair).intersection(shapely.box(0, 0, 1, 1)).length for pair in itertools.pairwise(corners)
    )
    assert sum(shapely.LineString(part).length for part in parts) == pytest.approx(inside, abs=1e-9)
    for part in parts:
        assert part.min() >= -1e-12
        assert part.max() <= 1 + 1e-12
        assert shapely.LineString(corners).buffer(1e-9).covers(shapely.LineString(part))


@given(st.lists(places, min_size=3, max_size=40, unique=True), st.floats(0.01, 0.5), st.floats(0.2, 5), st.booleans())
def test_simplified_shapes_are_near(
    corners: list[tuple[float, float]], tolerance: float, ratio: float, closed: bool
) -> None:
    part = np.array(corners)
    found = Backdrop((Shape("border", closed, (part,)),), (), ratio).simplified(tolerance).shapes
    scale = np.array([1, ratio]) / max(1, ratio)
    if not found:
        # What vanishes is as thin as what may be changed.
        hull = shapely.MultiPoint(part * scale).convex_hull
        assert hull.area <= 2 * tolerance * hull.length
        return
    (kept,) = found[0].parts
    assert len(kept) <= len(part)
    assert {tuple(row) for row in kept.tolist()} <= {tuple(row) for row in part.tolist()}
    whole, less = (np.vstack([xy, xy[:1]]) if closed else xy for xy in (part, kept))
    line = shapely.LineString(less * scale)
    assert max(line.distance(shapely.Point(*at)) for at in whole * scale) <= tolerance + 1e-9


def test_lines_are_simplified_each_on_its_own() -> None:
    rng = np.random.default_rng(4)
    lines = [np.cumsum(rng.normal(0, 0.01, (count, 2)), axis=0) for count in (2, 300, 3, 40, 1000)]
    together = module._simplified(lines, 0.02)
    for line, keep in zip(lines, together, strict=True):
        assert (module._simplified([line], 0.02)[0] == keep).all()
        # The algorithm of the textbook, which divides one part after the other.
        wanted = shapely.simplify(shapely.LineString(line), 0.02, preserve_topology=False)
        assert keep.sum() in (0, len(wanted.coords))
    assert module._simplified([], 0.02) == []


def test_labels_keep_apart() -> None:
    names = [Label(f"Place {k}", x, y) for k, (x, y) in enumerate(np.random.default_rng(1).random((400, 2)).tolist())]
    kept = module.apart(names, 60, 40)
    assert 10 < len(kept) < 100
    assert kept[0] == next(name for name in names if 0.05 < name.x < 0.95 and 0.02 < name.y < 0.98)
    assert len(module.apart(names, 6000, 4000)) > 380


# ── the built-in land ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("projection", ["equirectangular", "web-mercator"])
def test_the_built_in_land_is_where_land_is(projection: str) -> None:
    grid = Grid.over(lon=(-180, 180), lat=(-85, 85), size=64, projection=projection)
    land = built_in_land(grid)
    assert land is not None
    shapes = [[shapely.Polygon(part) for part in shape.parts] for shape in land.shapes]

    def is_land(lon: float, lat: float) -> bool:
        at = shapely.Point(grid.across(lon) / grid.cols, grid.down(lat) / grid.rows)
        return any(sum(ring.contains(at) for ring in rings) % 2 for rings in shapes)

    for lon, lat in ((10, 53), (-100, 40), (178, 67), (-175, 66.5), (134, -25), (0, -80), (-120, -80), (170, -84)):
        assert is_land(lon, lat), (lon, lat)
    for lon, lat in ((-30, 40), (3, 56), (-170, 0), (175, 0), (-179, 30), (50, 42), (0, -60)):
        assert not is_land(lon, lat), (lon, lat)


def test_land_is_for_wide_maps_alone() -> None:
    assert built_in_land(GRID) is None
    assert built_in_land(Grid.plane(x=(0, 1e7), y=(0, 1e7), size=8)) is None
    assert built_in_land(Grid.over(lon=(5, 10), lat=(50, 52), size=8)) is not None


# ── drawing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_shows_land_water_and_lines(theme: str) -> None:
    left = np.array([[0, 0], [0.5, 0], [0.5, 1], [0, 1.0]])
    lake = np.array([[0.1, 0.1], [0.3, 0.1], [0.3, 0.3], [0.1, 0.3]])
    street = np.array([[0.0, 0.75], [0.5, 0.75]])
    shapes = (Shape("land", True, (left,)), Shape("water", True, (lake,)), Shape("street", False, (street,)))
    figure = new_figure(2, 2)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    draw_backdrop(axes, Backdrop(shapes, (Label("Harbour", 0.75, 0.5),), 1.0), theme)
    picture = BytesIO()
    save_figure(figure, picture)
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    height, width, _ = pixels.shape

    def near(x: float, y: float) -> list[str]:
        """The colours of a column of pixels around a place, high enough for a line of water; the commonest first."""
        column = pixels[int((y - 0.04) * height) : int((y + 0.04) * height), int(x * width)]
        return [name for name, _ in Counter("#" + bytes(pixel).hex() for pixel in column).most_common()]

    colours = module.COLOURS[theme]
    assert near(0.25, 0.5) == [colours["land"]]
    assert near(0.25, 0.75)[0] == colours["land"]
    assert len(near(0.25, 0.75)) > 1
    for place in ((0.2, 0.2), (0.75, 0.2)):
        assert near(*place)[0] == colours["water"]
        assert len(near(*place)) > 1  # level lines
    words = pixels[int(0.45 * height) : int(0.55 * height), int(0.6 * width) : int(0.9 * width)].astype(int)
    assert np.ptp(words.sum(axis=2)) > 300


def box(kind: str, x0: float, x1: float, y0: float, y1: float, closed: bool = True) -> Shape:
    return Shape(kind, closed, (np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]),))


def test_lines_mark_water_and_nothing_else() -> None:
    """Two islands that overlap; a lake, with a hole, lies partly on the first of them."""
    lake = Shape("water", True, (box("", 0.1, 0.4, 0.1, 0.9).parts[0], box("", 0.2, 0.3, 0.3, 0.7).parts[0]))
    shapes = (box("land", 0, 0.5, 0, 1), box("land", 0.45, 0.6, 0.4, 1), lake, box("border", 0, 1, 0, 1))
    backdrop = Backdrop(shapes, (), 1.0)

    def waves(y: float) -> list[list[float]]:
        return [wave[:, 0].round(6).tolist() for wave in backdrop.waves(np.array([y]))]

    assert waves(0.05) == [[0.5, 1]]
    assert waves(0.2) == [[0.1, 0.4], [0.5, 1]]
    assert waves(0.5) == [[0.1, 0.2], [0.3, 0.4], [0.6, 1]]
    assert [wave[:, 1].tolist() for wave in backdrop.waves(np.array([0.05, 0.95]))] == [[0.05, 0.05], [0.95, 0.95]]
    # Without land, only the lake is water; without both, nothing is.
    assert [wave[:, 0].tolist() for wave in Backdrop((lake,), (), 1.0).waves(np.array([0.2]))] == [[0.1, 0.4]]
    assert Backdrop(shapes[3:], (), 1.0).waves(np.array([0.2, 0.5])) == []


@pytest.mark.parametrize(
    ("shapes", "ground", "grounds"),
    [
        ((), "land", ()),
        ((box("land", 0, 0.5, 0, 1),), "water", ("water",)),
        ((box("water", 0, 0.5, 0, 1),), "land", ("water",)),
        ((box("water", 0, 0.5, 0, 1, closed=False),), "land", ()),  # a river that is a line
        # Districts leave a rest, which is water or other places; parks cover too little, and the whole map leaves none.
        ((box("border", 0, 0.5, 0, 1), box("border", 0.3, 0.7, 0, 1)), "outside", ("outside",)),
        ((box("border", 0, 0.5, 0, 1, closed=False),), "land", ()),
        ((box("border", 0, 0.1, 0, 1),), "land", ()),
        ((box("border", 0, 0.5, 0, 1), box("border", 0.5, 1, 0, 1)), "land", ()),
        # Where water is known, the rest is not.
        ((box("border", 0, 0.5, 0, 1), box("water", 0.8, 1, 0, 1)), "land", ("water",)),
        ((box("border", 0, 0.5, 0, 1), box("land", 0.1, 0.3, 0, 1)), "water", ("water",)),
    ],
)
def test_the_ground_of_a_map(shapes: tuple[Shape, ...], ground: str, grounds: tuple[str, ...]) -> None:
    backdrop = Backdrop(shapes, (), 1.0)
    assert backdrop.ground == ground
    assert backdrop.shown_grounds == grounds


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_districts_stand_out_from_what_lies_outside(theme: str) -> None:
    figure = new_figure(2, 2)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    draw_backdrop(axes, Backdrop((box("border", 0, 0.5, 0, 1),), (), 1.0), theme)
    picture = BytesIO()
    save_figure(figure, picture)
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    inside, outside = ("#" + bytes(pixels[150, x]).hex() for x in (75, 225))
    assert inside == module.COLOURS[theme]["land"] == module.COLOURS[theme]["paper"]
    assert outside == module.COLOURS[theme]["outside"]


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def refused(path: Path, grid: Grid = GRID) -> str:
    with pytest.raises(HeathazeError) as caught:
        read_backdrop([path], grid)
    sentence = str(caught.value)
    assert path.name in sentence
    assert sentence.endswith(".")
    return sentence


def test_no_reference_system(tmp_path: Path) -> None:
    assert "names no coordinate reference system (the .prj" in refused(
        write_gdal(tmp_path / "a.shp", [FEATURES[0]], None)
    )
    assert "names no coordinate reference system;" in refused(write_gdal(tmp_path / "a.gpkg", [FEATURES[0]], None))
    assert "names no coordinate" in refused(write_geoparquet(tmp_path / "a.parquet", crs=None))
    metres = moved(FEATURES, "EPSG:25832")
    assert "not longitude and latitude" in refused(write_geojson(tmp_path / "a.geojson", metres))
    assert "'EPSG:99999', which is unknown" in refused(write_geojson(tmp_path / "b.geojson", metres, "EPSG:99999"))


def test_a_file_of_three_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "world.gpkg"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 3 * 2**30)
    with pytest.raises(TooLarge, match=r"has 3\.0 GiB"):
        read_backdrop([path], GRID)


@pytest.mark.parametrize(
    "geometry",
    [
        {"type": "Polygon", "coordinates": [[[10, 53.5], [10.05, 53.5], [10, 53.5]]]},
        {"type": "Polygon", "coordinates": [[[10, 53.5], [10.05, None], [10, 53.6], [10, 53.5]]]},
        {"type": "Polygon", "coordinates": [10, 53.5]},
        {"type": "LineString", "coordinates": [[10, 53.5]]},
        {"type": "LineString", "coordinates": [[10, 53.5], [10]]},
        {"type": "LineString"},
        {"type": "Point", "coordinates": ["ten", 53.5]},
        {"type": "Curve", "coordinates": []},
        "a district",
    ],
)
def test_a_broken_geometry(tmp_path: Path, geometry: Any) -> None:
    path = tmp_path / "a.geojson"
    good = {"type": "Feature", "properties": {"name": "x"}, "geometry": shapely.geometry.mapping(DISTRICT)}
    features = [good, {**good, "geometry": geometry}]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")
    assert "Feature 2 of the backdrop" in refused(path)


_ANGLE = np.linspace(0, 2 * np.pi, 3000, endpoint=False)
_WAVE = np.column_stack([0.5 + 0.3 * f(_ANGLE) * (1 + 0.3 * np.sin(40 * _ANGLE)) for f in (np.cos, np.sin)])
_SWAPPED = np.concatenate([_WAVE[:1200], _WAVE[1200:1260][::-1], _WAVE[1260:]])
RINGS = {
    "wave": (_WAVE, True),
    "touching": (np.array([[0, 0], [1, 0], [1, 1], [0.5, 0], [0, 1.0]]), True),
    "bow tie": (np.array([[0, 0], [1, 1], [1, 0], [0, 1.0]]), False),
    "swapped": (_SWAPPED, False),
}


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("turn", [0, 1, 1201])
def test_outlines_that_cross_themselves(tmp_path: Path, name: str, turn: int) -> None:
    """Rings that cross are refused, wherever they start; rings that touch themselves, and long good ones, are not."""
    ring, good = RINGS[name]
    turned = np.roll(ring / 10 + [9.95, 53.5], turn, axis=0).tolist()
    path = tmp_path / "one.geojson"
    path.write_text(json.dumps({"type": "Polygon", "coordinates": [[*turned, turned[0]]]}), encoding="utf-8")
    if good:
        assert read_backdrop([path], GRID).shapes
    else:
        assert "An outline of feature 1" in refused(path)
        assert "crosses itself" in refused(path)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=9, unique=True))
def test_crossings_are_those_of_every_pair(places: list[tuple[int, int]]) -> None:
    """Compared with whole numbers, pair by pair."""
    ring = [*places, places[0]]
    sides = list(itertools.pairwise(ring))

    def side(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> int:
        return int(np.sign((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])))

    crossing = any(
        side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
        for (a, b), (c, d) in itertools.combinations(sides, 2)
    )
    assert files._crosses_itself(np.array(ring, dtype=np.float64)) == crossing


def test_broken_binary_geometry(tmp_path: Path) -> None:
    path = write_geoparquet(tmp_path / "a.parquet")
    table = pyarrow.parquet.read_table(path)
    cut = [binary.as_py()[:20] for binary in table["shape"]]
    pyarrow.parquet.write_table(table.set_column(1, "shape", pa.array(cut)), path)
    assert "broken geometry" in refused(path) or "damaged" in refused(path)


def test_wholly_outside(tmp_path: Path) -> None:
    away = [(shapely.transform(shape, lambda xy: xy + 3), name, kind) for shape, name, kind in FEATURES]
    assert "no line, area or named point lies on the map" in refused(write_geojson(tmp_path / "a.geojson", away))
    swapped = [(shapely.transform(shape, lambda xy: xy[:, ::-1]), name, kind) for shape, name, kind in FEATURES]
    assert "in the order longitude, latitude" in refused(write_geojson(tmp_path / "b.geojson", swapped))
    # A point without a name cannot be drawn; an empty file has nothing to draw.
    assert "has nothing to draw" in refused(write_geojson(tmp_path / "c.geojson", [(MARKET, "", "")]))
    assert "has nothing to draw" in refused(write_geojson(tmp_path / "d.geojson", []))


def test_files_that_are_something_else(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"'\.kml'"):
        read_backdrop([tmp_path / "a.kml"], GRID)
    assert "no file" in refused(tmp_path / "a.geojson")
    (tmp_path / "a.gpkg").mkdir()
    assert "a directory" in refused(tmp_path / "a.gpkg")
    for name, content in (
        ("b.geojson", b"{"),
        ("c.geojson", b"[1]"),
        ("d.geojson", b"{}"),
        ("e.shp", b"x"),
        ("e.gpkg", b""),
    ):
        (tmp_path / name).write_bytes(content)
        assert "export it again" in refused(tmp_path / name)
    (tmp_path / "f.parquet").write_bytes(b"PAR1")
    assert "damaged" in refused(tmp_path / "f.parquet")
    pyarrow.parquet.write_table(pa.table({"lon": [1.0]}), tmp_path / "g.parquet")
    assert "no column of geometries" in refused(tmp_path / "g.parquet")


@given(st.recursive(st.none() | st.floats() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=4)))
def test_any_coordinates_are_read_or_refused_in_a_sentence(tmp_path_factory: Any, coordinates: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.geojson"
    for kind in ("Point", "LineString", "Polygon", "MultiPolygon", "GeometryCollection"):
        path.write_text(json.dumps({"type": kind, "coordinates": coordinates, "geometries": coordinates}), "utf-8")
        with pytest.raises(UnreadableData):
            read_backdrop([path], GRID)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gdal(tmp_path / "a.gpkg", [FEATURES[0]])
    monkeypatch.setitem(sys.modules, "pyogrio", None)
    with pytest.raises(MissingExtra, match="extra 'geo', or give GeoJSON"):
        read_backdrop([path], GRID)
