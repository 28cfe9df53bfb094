"""Regions: how much of each cell a polygon covers."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.domain.density import Density, TreeDensity, coverage, part_inside
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import exists
from heathaze.domain.region import Region, region_of
from heathaze.errors import InvalidBounds, InvalidInput

GRIDS = [
    Grid.plane(x=(0, 10), y=(-5, 5), shape=(7, 13)),
    Grid.over(lon=(0, 10), lat=(-5, 5), size=16),
    Grid.over(lon=(0, 10), lat=(-5, 5), shape=(5, 9), projection="web-mercator"),
]
corner = st.tuples(st.floats(-2, 12), st.floats(-7, 7))


@settings(max_examples=60)
@given(st.sampled_from(GRIDS), corner, corner)
def test_a_rectangle_is_a_box(grid: Grid, first: tuple[float, float], second: tuple[float, float]) -> None:
    (x0, x1), (y0, y1) = sorted((first[0], second[0])), sorted((first[1], second[1]))
    inside = min(x1, 10) - max(x0, 0), min(y1, 5) - max(y0, -5)
    if min(inside) < 1e-6:
        return
    box, region = Box((x0, x1), (y0, y1)), Region.on(grid, shapely.box(x0, y0, x1, y1))
    rng = np.random.default_rng(1)
    density = Density.from_mass(grid, rng.random(grid.shape))
    assert density.mass_in(region) == pytest.approx(density.mass_in(box), abs=1e-9)
    for level in range(grid.depth + 1):
        codes = np.unique(rng.integers(0, 4**level, 8))
        codes = codes[exists(grid, level, codes)]
        found = part_inside(grid, level, codes, region)
        np.testing.assert_allclose(found, part_inside(grid, level, codes, box), atol=1e-9)


@settings(max_examples=40)
@given(st.sampled_from(GRIDS), st.tuples(st.floats(0.5, 9.5), st.floats(-4.5, 4.5)), st.floats(0.05, 9))
def test_coverage_adds_up_to_the_area(grid: Grid, centre: tuple[float, float], radius: float) -> None:
    region = Region.on(grid, shapely.Point(centre).buffer(radius))
    inside = coverage(region)
    assert inside.min() >= 0
    assert inside.max() <= 1 + 1e-9
    assert inside.sum() == pytest.approx(region.shape.area)
    tree = TreeDensity.from_mass(grid, [0], [0], [1.0])
    assert tree.mass_in(region) == pytest.approx(inside.sum() / grid.cells)


def test_geojson_and_its_relatives() -> None:
    grid = GRIDS[0]
    square = shapely.box(0, 0, 1, 1)
    feature = {"type": "Feature", "properties": {}, "geometry": square.__geo_interface__}
    collection = {"type": "FeatureCollection", "features": [feature, feature]}

    class Described:
        __geo_interface__ = feature

    areas = [Region.on(grid, one).shape.area for one in (square, feature, collection, Described(), feature["geometry"])]
    assert areas == pytest.approx([areas[0]] * 5)
    assert region_of(grid, grid.box) == grid.box


@pytest.mark.parametrize(
    ("given", "kind", "sentence"),
    [
        (5, InvalidInput, "The region is an int; give a Box"),
        ({"type": "Nonsense"}, InvalidInput, "The region is a dict; give a Box"),
        (shapely.Point(1, 1), InvalidInput, "The region is a Point"),
        (shapely.Polygon(), InvalidInput, "give a polygon that has an area"),
        (shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), InvalidInput, "is broken .Self-intersection.; repair it"),
        (shapely.box(20, 0, 30, 1), InvalidBounds, "outside the map"),
    ],
)
def test_what_is_no_region(given: object, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        Region.on(GRIDS[0], given)
