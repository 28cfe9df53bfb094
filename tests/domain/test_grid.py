"""Grids: bounds, cells, and the sentences that bad ones get."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.domain.grid import MAX_SIDE, Box, Grid
from heathaze.domain.projection import Projection
from heathaze.errors import InvalidBounds, InvalidInput

NEW_YORK = {"lon": (-74.10, -73.78), "lat": (40.58, 40.90)}


def test_corners_and_borders() -> None:
    grid = Grid.over(lon=(0, 4), lat=(0, 2), shape=(2, 4))
    lon = [0, 4, 0, 4, 1, 0.999999, 2]
    lat = [2, 2, 0, 0, 1, 1.000001, 1]
    row, col, inside = grid.cell_of(lon, lat)
    assert inside.all()
    assert list(zip(row.tolist(), col.tolist(), strict=True)) == [
        (0, 0), (0, 3), (1, 0), (1, 3), (1, 1), (0, 0), (1, 2),
    ]  # fmt: skip


def test_plane_starts_at_the_smallest_corner() -> None:
    row, col, inside = Grid.plane(x=(0, 10), y=(0, 10), size=10).cell_of([0.5, 9.5], [0.5, 9.5])
    assert inside.all()
    assert (row.tolist(), col.tolist()) == ([0, 9], [0, 9])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 200.0, -75.0])
def test_points_that_are_nowhere_are_outside(bad: float) -> None:
    grid = Grid.over(**NEW_YORK, size=8)
    assert not grid.cell_of([bad], [40.7])[2].any()
    assert not grid.cell_of([-74.0], [bad])[2].any()


@given(
    st.integers(1, 3000), st.integers(1, 3000), st.floats(0, 1), st.floats(0, 1),
    st.sampled_from(["equirectangular", "web-mercator"]),
)  # fmt: skip
def test_a_cell_contains_the_points_it_owns(rows: int, cols: int, u: float, v: float, projection: str) -> None:
    grid = Grid.over(**NEW_YORK, shape=(rows, cols), projection=projection)
    lon, lat = float(grid.x_at(u * cols)), float(grid.y_at(v * rows))
    row, col, inside = grid.cell_of([lon], [lat])
    if inside[0]:
        assert 0 <= row[0] < rows
        assert 0 <= col[0] < cols
        assert row[0] - 1e-6 <= float(grid.down(lat)) <= row[0] + 1 + 1e-6
        assert col[0] - 1e-6 <= float(grid.across(lon)) <= col[0] + 1 + 1e-6


def test_mercator_rows_are_taller_on_the_globe_towards_the_equator() -> None:
    grid = Grid.over(lon=(0, 60), lat=(0, 60), size=4, projection="web-mercator")
    heights = -np.diff(grid.y_at(np.arange(5)))
    assert (np.diff(heights) > 0).all()  # row 0 is the northern one
    assert heights.sum() == pytest.approx(60)


@pytest.mark.parametrize(("shape", "depth"), [((1, 1), 0), ((2, 2), 1), ((3, 1), 2), ((240, 320), 9), ((256, 256), 8)])
def test_depth_pads_the_longer_side(shape: tuple[int, int], depth: int) -> None:
    assert Grid.plane(x=(0, 1), y=(0, 1), shape=shape).depth == depth


def test_round_trip() -> None:
    for grid in (Grid.over(**NEW_YORK, size=MAX_SIDE), Grid.plane(x=(0, 3), y=(1, 2), shape=(4, 5))):
        assert Grid.from_dict(grid.to_dict()) == grid


BAD = [
    (lambda: Grid.over(lon=(-73, -74), lat=(40, 41), size=8), "reversed"),
    (lambda: Grid.over(lon=(-74, -74), lat=(40, 41), size=8), "holds no area"),
    (lambda: Grid.over(lon=(-190, -74), lat=(40, 41), size=8), "outside −180 to 180"),
    (lambda: Grid.over(lon=(-74, -73), lat=(40, 95), size=8), "outside −90 to 90|swapped"),
    (lambda: Grid.over(lon=(40, 41), lat=(-100, -99), size=8), "probably swapped"),
    (lambda: Grid.over(lon=(math.nan, 1), lat=(0, 1), size=8), "finite"),
    (lambda: Grid.over(lon=(0, math.inf), lat=(0, 1), size=8), "finite"),
    (lambda: Grid.over(lon="ab", lat=(0, 1), size=8), "two numbers"),
    (lambda: Grid.over(lon=(0, 1), lat=(0, 1), size=0), "size is 0"),
    (lambda: Grid.over(lon=(0, 1), lat=(0, 1), size=MAX_SIDE + 1), "1048577"),
    (lambda: Grid.over(lon=(0, 1), lat=(0, 1), size=2.5), "whole number"),
    (lambda: Grid.over(lon=(0, 1), lat=(0, 1), shape=(4, 0)), "columns is 0"),
    (lambda: Grid.over(lon=(0, 1), lat=(0, 1)), "no number of cells; give size=256"),
    (lambda: Grid.over(lon=(0, 1), lat=(0, 1), size=4, shape=(4, 4)), "either size"),
    (lambda: Grid.over(lon=(0, 1), lat=(0, 1), size=4, projection="dymaxion"), "dymaxion"),
    (lambda: Grid.over(lon=(0, 1), lat=(80, 89), size=4, projection="web-mercator"), "Web-Mercator ends"),
    (lambda: Grid.over(lon=(0, 1), lat=(0, 1), size=4, projection=Projection.PLANE), "Grid.plane"),
    (lambda: Box.over(lon=(1, 0), lat=(0, 1)), "reversed"),
]


@pytest.mark.parametrize(("make", "sentence"), BAD)
def test_bad_input_gets_a_sentence(make: object, sentence: str) -> None:
    with pytest.raises((InvalidInput, InvalidBounds), match=sentence):
        make()  # type: ignore[operator]


# ── points outside are moved, never dropped ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("projection", ["equirectangular", "web-mercator"])
def test_the_nearest_cell_of_a_point_inside_is_its_own(projection: str) -> None:
    grid = Grid.over(**NEW_YORK, shape=(7, 9), projection=projection)
    lon, lat = np.meshgrid(np.linspace(*NEW_YORK["lon"], 40), np.linspace(*NEW_YORK["lat"], 40))
    row, col, inside = grid.cell_of(lon.ravel(), lat.ravel())
    assert inside.all()
    nearest = grid.nearest_cell(lon.ravel(), lat.ravel())
    assert (nearest[0] == row).all()
    assert (nearest[1] == col).all()


@pytest.mark.parametrize(
    ("lon", "lat", "cell"),
    [
        (-999, 999, (0, 0)), (999, 999, (0, 8)), (-999, -999, (6, 0)), (999, -999, (6, 8)),
        (-73.94, 41, (0, 4)), (-73.94, 40, (6, 4)), (-75, 40.74, (3, 0)), (0, 40.74, (3, 8)), (1e308, -1e308, (6, 8)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("projection", ["equirectangular", "web-mercator"])
def test_points_outside_go_to_the_nearest_border(
    lon: float, lat: float, cell: tuple[int, int], projection: str
) -> None:
    row, col = Grid.over(**NEW_YORK, shape=(7, 9), projection=projection).nearest_cell([lon], [lat])
    assert (int(row[0]), int(col[0])) == cell


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.integers(1, 50), st.integers(1, 50))
def test_no_cell_is_nearer(x: float, y: float, rows: int, cols: int) -> None:
    """Compared with the distance to every row and column on its own."""
    grid = Grid.plane(x=(-3, 5), y=(2, 9), shape=(rows, cols))
    row, col = (int(place[0]) for place in grid.nearest_cell([x], [y]))
    for value, place, count, (low, high) in ((y, row, rows, grid.y), (x, col, cols, grid.x)):
        borders = np.linspace(low, high, count + 1)
        away = np.maximum(0, np.maximum(borders[:-1] - value, value - borders[1:]))
        assert away[place] <= away.min() + 1e-9
