"""The made-up geography: on the map of the synthetic city, with districts that divide the land."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import shapely

from heathaze.datasets.city import CENTRES, CITY
from heathaze.datasets.geography import DISTRICTS, city_geography, write_geojson
from heathaze.domain.grid import Grid
from heathaze.errors import CannotWrite
from heathaze.maps.backdrop_files import read_backdrop


def test_districts_divide_the_land() -> None:
    shapes = [(one["properties"], shapely.geometry.shape(one["geometry"])) for one in city_geography()["features"]]
    land = next(shape for properties, shape in shapes if properties["kind"] == "land")
    districts = {properties["name"]: shape for properties, shape in shapes if properties["kind"] == "border"}
    assert tuple(districts) == DISTRICTS
    assert all(shape.is_valid for _, shape in shapes)
    assert sum(one.area for one in districts.values()) == pytest.approx(land.area, rel=1e-6)
    for (x, y), district in zip(CENTRES.tolist(), districts.values(), strict=True):
        lon, lat = CITY.x[0] + x * (CITY.x[1] - CITY.x[0]), CITY.y[0] + y * (CITY.y[1] - CITY.y[0])
        assert district.contains(shapely.Point(lon, lat))


def test_it_is_a_backdrop_of_the_city(tmp_path: Path) -> None:
    path = write_geojson(city_geography(), tmp_path / "city.geojson")
    assert json.loads(path.read_text(encoding="utf-8"))["type"] == "FeatureCollection"
    backdrop = read_backdrop([path], Grid.over(lon=CITY.x, lat=CITY.y, size=256))
    assert {shape.kind for shape in backdrop.shapes} == {"land", "water", "street", "border"}
    assert {*DISTRICTS, "Grey Sound"} == {label.name for label in backdrop.labels}
    with pytest.raises(CannotWrite, match="choose another folder"):
        write_geojson(city_geography(), tmp_path / "nowhere" / "city.geojson")
