"""A release in a notebook, as tables, and in polygons."""

from __future__ import annotations

import base64
import html
import re
from typing import Any

import geopandas
import matplotlib as mpl
import numpy as np
import pytest
import shapely

import heathaze as hz
from heathaze.datasets import city

GRID = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), shape=(24, 32))
PLANE = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)


@pytest.fixture(scope="module")
def release() -> hz.Release:
    counts = hz.count(city(people=400, visits=4000), GRID, person="person")
    return hz.publish(hz.central.default(GRID, epsilon=1), counts, randomness=hz.Simulation(3))


@pytest.fixture(scope="module")
def plain() -> hz.Release:
    """Without error bars, on a plane."""
    counts = hz.count({"who": ["a"], "x": [1.5], "y": [1.5]}, PLANE, person="who")
    return hz.publish(hz.central.Flat(PLANE, epsilon=1), counts, randomness=hz.Simulation(1))


def test_tables_hold_the_map(release: hz.Release, plain: hz.Release) -> None:
    frame = release.to_pandas()
    squares = release.squares()
    assert frame.people.sum() == pytest.approx(release.total)
    np.testing.assert_array_equal(frame[["level", "code"]].values.T, [squares.levels, squares.codes])
    np.testing.assert_array_equal(frame[["people_low", "people_high"]].values.T, [squares.low, squares.high])
    columns = ["row", "col", "share_of_total", "people", "x_low", "y_low", "x_high", "y_high"]
    assert list(plain.to_pandas()) == columns
    shapes = release.to_geopandas()
    assert shapes.crs == "OGC:CRS84"
    np.testing.assert_allclose(shapes.total_bounds, (9.90, 53.50, 10.10, 53.62))
    assert plain.to_geopandas().crs is None


def test_a_dataset_has_coordinates_and_units(release: hz.Release, plain: hz.Release) -> None:
    data = release.to_xarray()
    np.testing.assert_allclose(data.share.values, release.density.values)
    x, y = data.lon.values, data.lat.values
    rows, cols, inside = GRID.cell_of(np.tile(x, len(y)), np.repeat(y, len(x)))
    assert inside.all()
    assert (rows * 32 + cols).tolist() == list(range(GRID.cells))
    assert data.people.attrs["units"] == "people"
    assert data.spatial_ref.attrs["crs"] == "OGC:CRS84"
    assert "CRS84" in data.spatial_ref.attrs["crs_wkt"]
    assert data.people.attrs["grid_mapping"] == "spatial_ref"
    assert dict(plain.to_xarray().sizes) == {"y": 8, "x": 8}


def test_packages_read_a_release_as_geojson(release: hz.Release) -> None:
    assert len(geopandas.GeoDataFrame.from_features(release)) == len(release.to_pandas())


def test_a_notebook_shows_a_picture_the_guarantee_and_numbers(release: hz.Release, plain: hz.Release) -> None:
    text = release._repr_html_()
    assert "<script" not in text
    (picture,) = re.findall(r'^<div><img [^>]*src="data:image/png;base64,([^"]*)"', text)
    assert base64.b64decode(picture).startswith(b"\x89PNG")
    plain_first = [f"<p>{html.escape(one)}</p>" for one in (release.guarantee.plain, str(release.guarantee))]
    assert 0 < text.index(plain_first[0]) < text.index(plain_first[1])
    assert f"About {release.total:,.0f} people (90 %:" in text
    assert "Simulated" in text
    assert "(90 %" not in plain._repr_html_()


def test_the_live_page_is_in_a_frame_without_rights(release: hz.Release) -> None:
    shown = release.show(height=300)
    text = shown._repr_html_()
    assert text.startswith('<iframe sandbox="allow-scripts" style="width: 100%; height: 300px')
    assert html.unescape(text).count("</iframe>") == 1
    assert "<Page" in repr(shown)
    with pytest.raises(hz.HeathazeError, match="height is 5"):
        release.show(height=5)


def test_a_plot_on_given_axes(release: hz.Release, plain: hz.Release) -> None:
    mpl.use("Agg")
    from matplotlib import pyplot

    _, axes = pyplot.subplots()
    assert release.plot(ax=axes, cmap="magma") is axes
    mesh: Any = axes.collections[0]
    assert mesh.get_array().sum() == pytest.approx(release.total)
    assert axes.get_ylim() == pytest.approx((53.50, 53.62))
    assert plain.plot().yaxis_inverted()
    pyplot.close("all")


# ── polygons ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_polygon_has_the_share_and_interval_of_its_box(release: hz.Release, plain: hz.Release) -> None:
    box = release.mass_in(hz.Box.over(lon=(9.953, 10.021), lat=(53.531, 53.583)))
    polygon = release.mass_in(shapely.box(9.953, 53.531, 10.021, 53.583).__geo_interface__)
    assert (polygon, polygon.low, polygon.high) == pytest.approx((box, box.low, box.high))
    assert plain.mass_in(shapely.box(0, 0, 8, 8)) == pytest.approx(1)


def test_two_halves_of_a_map(release: hz.Release) -> None:
    west = shapely.Polygon([(9.9, 53.5), (10.1, 53.5), (9.9, 53.62)])
    east = shapely.Polygon([(10.1, 53.62), (10.1, 53.5), (9.9, 53.62)])
    first, second = release.mass_in(west), release.mass_in(east)
    assert first + second == pytest.approx(1)
    assert first.low < first < first.high
    # The two shares are certain to sum to 1, so one is as uncertain as the other.
    assert first.high - first.low == pytest.approx(second.high - second.low, rel=0.05)


def test_maps_from_reports_know_polygons() -> None:
    grid = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
    points = np.random.default_rng(1).uniform(0, 8, (2000, 2))
    mechanism = hz.local.default(grid, 2.0)
    reports = hz.local.randomize(mechanism, points, unit="visit", randomness=hz.Simulation(1))
    found = hz.local.estimate(reports)
    box, polygon = hz.Box.plane(x=(1, 5.5), y=(2, 7)), shapely.box(1, 2, 5.5, 7)
    first, second = found.mass_in(box), found.mass_in(polygon)
    assert (second, second.low, second.high) == pytest.approx((first, first.low, first.high))


def test_a_box_on_a_grid_finer_than_the_tree() -> None:
    """The posterior's levels end before single cells; the rest is divided by area."""
    grid = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=2**17)
    counts = hz.count(city(people=400, visits=4000), grid, person="person")
    release = hz.publish(hz.central.default(grid, epsilon=1), counts, randomness=hz.Simulation(1))
    assert len(release.posterior.levels) <= grid.depth
    share = release.mass_in(hz.Box.over(lon=(9.95, 10.02), lat=(53.53, 53.58)))
    assert share.low < share < share.high
