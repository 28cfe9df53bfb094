"""How sure a release is goes with it: the noisy counts come back exactly, and other programs find the deviations."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import heathaze as hz
from heathaze.domain.density import TreeDensity
from heathaze.domain.grid import Box, Grid
from heathaze.errors import UnreadableData
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.release.formats import ENDINGS, LOADABLE
from heathaze.release.formats._posterior import noisy_to_fields
from heathaze.release.formats.cells import deviations_of
from heathaze.release.release import Release, load
from tests.release.conftest import with_estimate


@pytest.fixture(params=["sure", "sure_tree"])
def known(request: pytest.FixtureRequest) -> Release:
    found: Release = request.getfixturevalue(request.param)
    return found


def _same(one: NoisyCounts | None, other: NoisyCounts | None) -> bool:
    assert one is not None
    assert other is not None
    arrays = ("levels", "codes", "values", "scales")
    return one.grid == other.grid and all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays)


@pytest.mark.parametrize("ending", LOADABLE)
def test_noisy_counts_come_back_exactly(sure: Release, ending: str, tmp_path: Path) -> None:
    back = load(sure.save(tmp_path / f"a{ending}"))
    assert _same(back.noisy, sure.noisy)
    assert np.array_equal(back.uncertainty, sure.uncertainty)
    assert sure.uncertainty.max() > 0
    box = Box.over(lon=(-74.05, -73.9), lat=(40.6, 40.8))
    assert repr(back.mass_in(box)) == repr(sure.mass_in(box))
    assert back.hotspots() == sure.hotspots() != []


@pytest.mark.parametrize("ending", [ending for ending in LOADABLE if ending != ".tif"])
def test_a_tree_keeps_its_noisy_counts(sure_tree: Release, ending: str, tmp_path: Path) -> None:
    assert isinstance(sure_tree.estimate.density, TreeDensity)
    back = load(sure_tree.save(tmp_path / f"a{ending}"))
    assert _same(back.noisy, sure_tree.noisy)
    assert np.array_equal(back.render_uncertainty(shape=(6, 8)), sure_tree.render_uncertainty(shape=(6, 8)))


@pytest.mark.parametrize("ending", LOADABLE)
def test_files_without_noisy_counts_load_as_before(small: Release, ending: str, tmp_path: Path) -> None:
    """Files of mechanisms that keep none, and files from before there were any, look the same."""
    path = small.save(tmp_path / f"a{ending}")
    assert b'"noisy"' not in path.read_bytes()
    back = load(path)
    assert back.noisy is None
    assert not back.knows_uncertainty


@pytest.mark.parametrize("ending", LOADABLE)
def test_counts_of_another_grid_are_left_out(sure: Release, ending: str, tmp_path: Path) -> None:
    coarser = with_estimate(sure, density=sure.render(shape=(6, 10)))
    assert deviations_of(coarser.estimate) is None
    assert load(coarser.save(tmp_path / f"a{ending}")).noisy is None


def test_a_coarser_raster_drops_the_counts_and_keeps_the_deviations(
    sure_tree: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rasterio = pytest.importorskip("rasterio", reason="the extra 'geo' is not installed")
    monkeypatch.setattr("heathaze.release.formats.geotiff._SIDE", 32)
    path = sure_tree.save(tmp_path / "a.tif")
    assert load(path).noisy is None
    with rasterio.open(path) as dataset:
        deviation = sure_tree.total * sure_tree.render_uncertainty(shape=(32, 32))
        np.testing.assert_allclose(dataset.read(2), deviation, rtol=1e-6)


def test_a_raster_has_a_second_band(sure: Release, small: Release, tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio", reason="the extra 'geo' is not installed")
    with rasterio.open(sure.save(tmp_path / "a.tif")) as dataset:
        assert dataset.descriptions == ("people_per_cell", "people_per_cell_sd")
        assert dataset.units == ("people per cell", "people per cell")
        np.testing.assert_allclose(dataset.read(1), sure.total * sure.density.values, rtol=1e-6)
        np.testing.assert_allclose(dataset.read(2), sure.total * sure.uncertainty, rtol=1e-6)
    with rasterio.open(small.save(tmp_path / "b.tif")) as dataset:
        assert dataset.count == 1


def test_tables_and_polygons_hold_the_certain_squares(known: Release, tmp_path: Path) -> None:
    """Table, polygons and layer have the squares of ``release.squares()``, with the unit in the name of each column."""
    import duckdb

    squares = known.squares()
    density = {"people per km²": "people_per_km2"}.get(squares.unit, squares.unit.replace(" × ", "x").replace(" ", "_"))
    expected = {
        "level": squares.levels, "code": squares.codes, "class_number": squares.kinds, "people": squares.people,
        "people_low": squares.low, "people_high": squares.high, density: squares.density,
    }  # fmt: skip
    rows = duckdb.sql(f"from read_parquet('{known.save(tmp_path / 'a.parquet')}')").fetchnumpy()
    features = json.loads(known.save(tmp_path / "a.geojson").read_bytes())["features"]
    connection = sqlite3.connect(known.save(tmp_path / "a.gpkg"))
    for name, column in expected.items():
        assert np.array_equal(rows[name], column), name
        np.testing.assert_allclose([one["properties"][name] for one in features], column, rtol=1e-5)
        assert [row[0] for row in connection.execute(f'select "{name}" from squares order by fid')] == column.tolist()
    connection.close()
    assert list(rows["class"]) == [squares.name(kind) for kind in squares.kinds.tolist()]
    west, south, east, north = squares.bounds().T
    rings = np.array([one["geometry"]["coordinates"][0] for one in features])
    np.testing.assert_allclose(rings[:, 0], np.stack([west, south], axis=1), atol=1e-3)
    np.testing.assert_allclose(rings[:, 2], np.stack([east, north], axis=1), atol=1e-3)


def test_a_map_of_its_own_is_kept_with_its_squares(sure: Release, tmp_path: Path) -> None:
    """A density that does not follow from the noisy counts goes into the file."""
    flat = with_estimate(sure, density=hz.Density.uniform(sure.grid))
    for ending in (".geojson", ".parquet"):
        for one, packed in ((flat, True), (sure, False)):
            path = one.save(tmp_path / f"a{ending}")
            assert (b'"density": {' in path.read_bytes()) == packed
            assert np.array_equal(load(path).density.values, one.density.values)


@pytest.mark.parametrize("field", ["packed", "squares"])
def test_an_edited_density_is_refused(sure_tree: Release, field: str, tmp_path: Path) -> None:
    other = TreeDensity(sure_tree.grid, np.array([5]), np.array([0]), np.ones(1))
    path = with_estimate(sure_tree, density=other).save(tmp_path / "a.geojson")
    fields = json.loads(path.read_bytes())
    fields["heathaze"]["density"][field] = "AAAA" if field == "packed" else 2**60
    path.write_text(json.dumps(fields))
    with pytest.raises(UnreadableData, match="density of the file"):
        load(path)


def test_a_total_that_does_not_follow_from_the_counts_is_refused(sure: Release, tmp_path: Path) -> None:
    path = sure.save(tmp_path / "a.geojson")
    fields = json.loads(path.read_bytes())
    fields["heathaze"]["total"] *= 2
    path.write_text(json.dumps(fields))
    with pytest.raises(UnreadableData, match="do not fit together"):
        load(path)


def test_counts_without_noise_that_leave_out_a_level_are_not_kept() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=8)
    whole = NoisyCounts(grid, [0, 1, 1, 1, 1], [0, 0, 1, 2, 3], [10, 4, 3, 2, 1], [0] * 5)
    assert noisy_to_fields(whole, grid) is not None
    assert noisy_to_fields(NoisyCounts(grid, [0, 3], [0, 5], [10, 4], [0, 0]), grid) is None


def test_arrays_say_the_deviation(known: Release, tmp_path: Path) -> None:
    with np.load(known.save(tmp_path / "a.npz")) as arrays:
        assert np.array_equal(arrays["sd_of_share"], deviations_of(known.estimate))
        assert arrays["sd_of_share"].shape == arrays["values" if "values" in arrays else "mass"].shape


def test_releases_that_do_not_know_have_no_column(small: Release, tmp_path: Path) -> None:
    import duckdb

    columns = ["row", "col", "share_of_total", "people"]
    assert duckdb.sql(f"from read_parquet('{small.save(tmp_path / 'a.parquet')}')").columns[:4] == columns
    assert list(json.loads(small.save(tmp_path / "a.geojson").read_bytes())["features"][0]["properties"]) == columns
    with np.load(small.save(tmp_path / "a.npz")) as arrays:
        assert arrays.files == ["heathaze.json", "values"]


def test_squares_the_counts_do_not_speak_of_have_no_deviation(sure_tree: Release, tmp_path: Path) -> None:
    other = TreeDensity(sure_tree.grid, np.array([5]), np.array([0]), np.ones(1))
    changed = with_estimate(sure_tree, density=other)
    assert deviations_of(changed.estimate) is None
    with np.load(changed.save(tmp_path / "a.npz")) as arrays:
        assert "sd_of_share" not in arrays


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_release_gives_the_same_bytes(sure: Release, ending: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    first = sure.save(tmp_path / f"a{ending}").read_bytes()
    assert first == sure.save(tmp_path / "elsewhere" / f"a{ending}").read_bytes()


def test_pictures_and_pages_say_how_sure(sure: Release, tmp_path: Path) -> None:
    plain = with_estimate(sure, noisy=None)
    pictures = [one.save(tmp_path / "a.png", style="pair").read_bytes() for one in (sure, plain)]
    two, one = (Image.open(io.BytesIO(picture)).size for picture in pictures)
    assert two[0] / two[1] < one[0] / one[1], (two, one)  # both legends stand below two panels, one beside one panel
    pages = [one.save(tmp_path / "a.html").read_text("utf-8") for one in (sure, plain)]
    assert ["9 times in 10" in page for page in pages] == [True, False]
    assert ["; this map has no error bars." in page for page in pages] == [False, True]
