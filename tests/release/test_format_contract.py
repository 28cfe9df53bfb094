"""The contract of every format that loads back: what goes in comes out, number for number."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import heathaze as hz
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.errors import SimulatedRelease
from heathaze.inference.estimate import Estimate
from heathaze.privacy.events import DiscreteLaplace, event_to_dict
from heathaze.privacy.guarantee import Guarantee, Unit
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.release.formats import ENDINGS, LOADABLE
from heathaze.release.release import Release, load


@pytest.mark.parametrize("ending", [*LOADABLE, ".tiff", ".GeoJSON"])
def test_a_release_comes_back_exactly(release: Release, ending: str, tmp_path: Path) -> None:
    path = release.save(tmp_path / f"it's 100 % [a]*{ending}")
    back = load(str(path))

    assert back.grid == release.grid
    _assert_same(back.density, release.density, ending)
    assert (back.total, back.guarantee, back.provenance) == (release.total, release.guarantee, release.provenance)
    if isinstance(release.estimate.density, TreeDensity) and not ending.startswith(".tif"):
        assert isinstance(back.estimate.density, TreeDensity)
        assert np.array_equal(back.estimate.density.codes, release.estimate.density.codes)
        assert np.array_equal(back.estimate.density.levels, release.estimate.density.levels)
        assert np.array_equal(back.estimate.density.mass, release.estimate.density.mass)
    else:
        assert isinstance(back.estimate.density, Density)


def _assert_same(back: Density, density: Density, ending: str) -> None:
    """A raster has single precision, and every other format keeps each number."""
    if ending.startswith(".tif"):
        np.testing.assert_allclose(back.values, density.values, rtol=1e-6, atol=1e-30)
    else:
        assert np.array_equal(back.values, density.values)


@pytest.mark.parametrize("ending", [ending for ending in LOADABLE if ending != ".tif"])
def test_a_grid_of_2_to_the_20_a_side_is_kept_as_its_tree(huge_tree: Release, ending: str, tmp_path: Path) -> None:
    path = huge_tree.save(tmp_path / f"huge{ending}")
    back = load(path)
    assert isinstance(back.estimate.density, TreeDensity)
    assert np.array_equal(back.estimate.density.mass, huge_tree.estimate.density.mass)  # type: ignore[union-attr]
    assert path.stat().st_size < 50_000


def test_a_raster_of_a_huge_grid_is_coarser_and_says_so(
    huge_tree: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heathaze.release.formats.geotiff._SIDE", 128)
    back = load(huge_tree.save(tmp_path / "huge.tif"))
    assert back.grid == huge_tree.grid.resized((128, 128))
    assert back.provenance.extra == {"rendered_from": [2**20, 2**20]}
    np.testing.assert_allclose(back.density.values, huge_tree.render(shape=(128, 128)).values, rtol=1e-6)


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf", ".html"])
def test_pictures_and_pages_of_a_huge_grid_are_light(huge_tree: Release, ending: str, tmp_path: Path) -> None:
    # A square takes 80 bytes or more of SVG, and fewer elsewhere.
    most = 1_000_000 if ending == ".svg" else 500_000
    assert 5_000 < huge_tree.save(tmp_path / f"huge{ending}").stat().st_size < most


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    data=st.data(),
    epsilon=st.fractions(Fraction(1, 10**6), 50),
    ending=st.sampled_from(LOADABLE),
)
def test_any_density_and_any_epsilon_come_back(
    shape: tuple[int, int], data: st.DataObject, epsilon: Fraction, ending: str, small: Release, tmp_path: Path
) -> None:
    cells = shape[0] * shape[1]
    mass = data.draw(st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=cells, max_size=cells))
    density = Density.from_mass(Grid.plane(x=(0, 1), y=(0, 1), shape=shape), np.reshape(mass, shape))
    promised = Guarantee(PrivacyLoss(epsilon), Unit.VISIT)
    made = dataclasses.replace(small.provenance, event=event_to_dict(DiscreteLaplace(1, 1 / epsilon)))
    back = load(Release(Estimate(density, sum(mass)), promised, made).save(tmp_path / f"a{ending}"))
    _assert_same(back.density, density, ending)
    assert (back.guarantee, back.total) == (promised, sum(mass))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_simulated_release_cannot_be_saved(small: Release, wrap: object, ending: str, tmp_path: Path) -> None:
    simulated = wrap(small.estimate, simulated=True)  # type: ignore[operator]
    with pytest.raises(SimulatedRelease, match="simulated randomness"):
        simulated.save(tmp_path / f"a{ending}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("by", [hz.Simulation(1), Randomness(bytes(32))], ids=["seed", "key"])
@pytest.mark.parametrize("published", [True, False])
def test_a_release_put_together_by_hand_from_a_simulated_estimate_cannot_be_saved(
    published: bool, by: Randomness, small: Release, wrap: object, tmp_path: Path
) -> None:
    """The estimate itself is marked, whether publish or the mechanism alone made it."""
    grid = Grid.plane(x=(0, 4), y=(0, 4), size=4)
    counts = hz.count({"u": [1, 2], "x": [0.5, 2.5], "y": [1.5, 2.5]}, grid, person="u")
    mechanism = hz.central.default(grid, epsilon=1)
    estimate = hz.publish(mechanism, counts, randomness=by).estimate if published else mechanism.run(counts, by)
    release = wrap(estimate)  # type: ignore[operator]
    assert not release.provenance.simulated
    assert release.simulated
    with pytest.raises(SimulatedRelease, match="simulated randomness"):
        release.save(tmp_path / "a.npz")
    with pytest.raises(SimulatedRelease, match="simulated randomness"):
        wrap(pickle.loads(pickle.dumps(estimate))).save(tmp_path / "a.npz")  # type: ignore[operator]
    assert list(tmp_path.iterdir()) == []
    real = mechanism.run(counts, SecureRandomness())
    assert wrap(real).save(tmp_path / "a.npz").exists()  # type: ignore[operator]


def test_the_mark_keeps_the_posterior(sure: Release) -> None:
    """A release whose provenance is simulated marks its estimate, and nothing is inferred again."""
    kept = sure.estimate.posterior
    marked = Release(sure.estimate, sure.guarantee, dataclasses.replace(sure.provenance, simulated=True)).estimate
    assert marked.simulated
    assert not sure.estimate.simulated
    assert vars(marked)["posterior"] is kept


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_release_gives_the_same_bytes(small: Release, ending: str, tmp_path: Path) -> None:
    """So no clock, no random name and no path of this machine is inside."""
    (tmp_path / "elsewhere").mkdir()
    first = small.save(tmp_path / f"a{ending}").read_bytes()
    second = small.save(tmp_path / "elsewhere" / f"a{ending}").read_bytes()
    assert first == second
    for private in (str(tmp_path), str(Path.home()), "matplotlib.org", ".part"):
        assert private.encode() not in first


def test_numpy_reads_the_zip_without_heathaze(small: Release, tmp_path: Path) -> None:
    path = small.save(tmp_path / "a.npz")
    with np.load(path) as arrays:
        assert np.array_equal(arrays["values"], small.density.values)
    with zipfile.ZipFile(path) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert json.loads(archive.read("heathaze.json"))["guarantee"]["sentence"] == str(small.guarantee)


def test_the_table_has_a_row_for_each_cell_with_mass(release: Release, tmp_path: Path) -> None:
    import duckdb

    path = release.save(tmp_path / "a.parquet")
    names = ("west, south, east, north") if release.grid.projection.is_geographic else ("x0, y0, x1, y1")
    rows = duckdb.sql(f"select {names}, share_of_total, people from read_parquet('{path}')").fetchall()
    _, _, mass = release.estimate.density.squares()
    assert sorted(row[4] for row in rows) == sorted(mass.tolist())
    for west, south, east, north, share, estimate in rows[:: max(1, len(rows) // 20)]:
        assert west < east
        assert south < north
        assert estimate == share * release.total
        # The rectangle holds at least its own mass, and exactly that, since cells and squares are disjoint.
        inner = _box(release, west, south, east, north)
        assert release.mass_in(inner) == pytest.approx(share, rel=1e-6)


def _box(release: Release, west: float, south: float, east: float, north: float):  # type: ignore[no-untyped-def]
    from heathaze.domain.grid import Box

    return Box((west, east), (south, north))


def test_polygons_follow_the_standard(release: Release, tmp_path: Path) -> None:
    collection = json.loads(release.save(tmp_path / "a.geojson").read_text("utf-8"))
    assert collection["type"] == "FeatureCollection"
    assert collection["bbox"] == [release.grid.x[0], release.grid.y[0], release.grid.x[1], release.grid.y[1]]
    assert collection["heathaze"]["guarantee"]["sentence"] == str(release.guarantee)
    area = 0.0
    for feature in collection["features"]:
        assert feature["properties"]["share_of_total"] > 0
        (ring,) = feature["geometry"]["coordinates"]
        assert ring[0] == ring[-1]
        assert len(ring) == 5
        # Twice the signed area: positive runs against the clock (right-hand rule).
        signed = sum(a[0] * b[1] - b[0] * a[1] for a, b in itertools.pairwise(ring))
        assert signed > 0
        area += signed / 2
    whole = (release.grid.x[1] - release.grid.x[0]) * (release.grid.y[1] - release.grid.y[0])
    assert area <= whole * (1 + 1e-6)
    assert sum(feature["properties"]["share_of_total"] for feature in collection["features"]) == pytest.approx(1)


def test_rasters_lie_where_the_grid_lies(release: Release, tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio", reason="the extra 'geo' is not installed")

    with rasterio.open(release.save(tmp_path / "a.tif")) as dataset:
        expected = {"equirectangular": 4326, "web-mercator": 3857, "plane": None}[release.grid.projection.value]
        assert (dataset.crs.to_epsg() if dataset.crs else None) == expected
        assert (dataset.height, dataset.width, dataset.dtypes) == (*release.grid.shape, ("float32",))
        place = dataset.transform
        upper_left = (place.c, place.f)
        lower_right = (place.c + dataset.width * place.a, place.f + dataset.height * place.e)
        assert (place.b, place.d) == (0, 0)
    (west, east), (south, north) = release.grid.x, release.grid.y
    corners = (
        [(west, north), (east, south)] if release.grid.projection.is_geographic else [(west, south), (east, north)]
    )
    if expected == 3857:
        from rasterio.warp import transform

        corners = list(zip(*transform(4326, 3857, *zip(*corners, strict=True)), strict=True))
    assert upper_left == pytest.approx(corners[0], rel=1e-9)
    assert lower_right == pytest.approx(corners[1], rel=1e-9)


def test_a_raster_is_tiled_and_has_overviews(wrap: object, tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio", reason="the extra 'geo' is not installed")
    values = np.random.default_rng(1).random((1024, 1024))
    big = wrap(Density.from_mass(Grid.over(lon=(0, 1), lat=(0, 1), size=1024), values))  # type: ignore[operator]
    with rasterio.open(big.save(tmp_path / "a.tif")) as dataset:
        assert dataset.dtypes == ("float32",)
        assert dataset.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert dataset.profile["tiled"]
        assert dataset.overviews(1) == [2]
        half = dataset.read(1, out_shape=(512, 512))
        np.testing.assert_allclose(half, dataset.read(1).reshape(512, 2, 512, 2).mean(axis=(1, 3)), rtol=1e-5)


def test_the_geoparquet_opens_in_geopandas(sure: Release, small: Release, tmp_path: Path) -> None:
    """With pyarrow, by the metadata of GeoParquet alone. No GDAL that we found reads Parquet (decision 6)."""
    geopandas = pytest.importorskip("geopandas", reason="geopandas is not installed")
    frame = geopandas.read_parquet(sure.save(tmp_path / "a.parquet"))
    squares = sure.squares()
    assert frame.crs.equals("OGC:CRS84")
    assert frame.geometry.geom_type.unique().tolist() == ["Polygon"]
    assert frame.geometry.is_valid.all()
    np.testing.assert_allclose(frame.geometry.bounds.values, squares.bounds(), rtol=1e-12)
    np.testing.assert_allclose(frame.people, squares.people)
    assert geopandas.read_parquet(small.save(tmp_path / "b.parquet")).people.sum() == pytest.approx(small.total)


def test_the_layer_of_polygons_opens_in_gdal(sure: Release, tmp_path: Path) -> None:
    pyogrio = pytest.importorskip("pyogrio", reason="pyogrio is not installed")
    for ending in (".gpkg", ".geojson"):
        about = pyogrio.read_info(sure.save(tmp_path / f"a{ending}"))
        assert about["geometry_type"] == "Polygon"
        assert about["features"] == len(sure.squares())
        assert about["crs"] == "EPSG:4326"
        assert {"level", "code", "class", "people", "people_low", "people_high", "people_per_km2"} <= set(
            about["fields"]
        )
        np.testing.assert_allclose(about["total_bounds"], (-74.10, 40.58, -73.78, 40.90), atol=1e-6)
