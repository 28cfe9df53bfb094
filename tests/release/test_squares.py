"""Certain squares: what is certain is drawn, what is not is unknown, and together they cover the map."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest

import heathaze as hz
from benchmarks.squares import demo_city, measure, new_york
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import node_areas, node_extent, nodes_at
from heathaze.errors import InvalidInput
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.maps.squares import UNKNOWN, WHITE, Squares, number
from heathaze.privacy.guarantee import Unit
from heathaze.release.release import Release
from heathaze.release.squares import CHOSEN_LOW, areas, certain_squares, step_limit, step_of

NEW_YORK = Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=64)


def _exact(grid: Grid, people: np.ndarray) -> Estimate:
    """An estimate from counts of all nodes without noise."""
    levels, codes, values = [], [], []
    for level in range(grid.depth + 1):
        here = nodes_at(grid, level)
        top, bottom, left, right = node_extent(grid, level, here)
        corners = np.pad(people.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        values.append(corners[bottom, right] - corners[top, right] - corners[bottom, left] + corners[top, left])
        codes.append(here)
        levels.append(np.full(len(here), level))
    level, code, value = (np.concatenate(parts) for parts in (levels, codes, values))
    return Estimate.infer(NoisyCounts(grid, level, code, value.astype(float), np.zeros(len(code))))


def _covers(squares: Squares) -> bool:
    """Every cell of the grid lies in exactly one square."""
    seen = np.zeros(squares.grid.shape, np.int64)
    for top, bottom, left, right in zip(*node_extent(squares.grid, squares.levels, squares.codes), strict=True):
        seen[top:bottom, left:right] += 1
    return bool((seen == 1).all())


def test_without_noise_every_square_has_its_true_class() -> None:
    rng = np.random.default_rng(1)
    people = rng.poisson(np.exp(rng.normal(0, 2, NEW_YORK.shape)))
    squares = certain_squares(_exact(NEW_YORK, people), "people")
    assert _covers(squares)
    assert not (squares.kinds == UNKNOWN).any()
    assert np.array_equal(squares.low, squares.people)
    assert squares.people.sum() == pytest.approx(people.sum())
    per_km2 = squares.people / areas(NEW_YORK, squares.levels, squares.codes)
    assert squares.unit == "people per km²"
    np.testing.assert_allclose(squares.density, per_km2)
    assert np.array_equal(np.searchsorted(squares.classes, per_km2, "right") - 1, squares.kinds)
    assert squares.densest == np.argmax(squares.density)


def test_a_white_square_is_divided_for_a_crowd_inside_it() -> None:
    """The average of the map is below every class that the crowd reaches, and the crowd is still shown."""
    people = np.zeros(NEW_YORK.shape, np.int64)
    people[5, 9] = 300
    squares = certain_squares(_exact(NEW_YORK, people), "people")
    (crowd,) = np.flatnonzero(squares.kinds >= 0)
    assert (squares.levels[crowd], squares.people[crowd]) == (6, 300)
    assert (squares.kinds == WHITE).sum() == len(squares) - 1 == 3 * 6
    assert squares.white_people == (0, 0, 0)
    west, south, east, north = squares.bounds()[crowd]
    row, col, inside = NEW_YORK.cell_of([(west + east) / 2], [(south + north) / 2])
    assert (row[0], col[0], inside[0]) == (5, 9, True)


@functools.cache
def _doubtful() -> Release:
    """200 people around one place and a few elsewhere, at epsilon 1, on 32 x 32 cells."""
    grid = Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=32)
    rng = np.random.default_rng(5)
    places = np.clip(rng.normal((12, 20), 3, (200, 2)), 0, 31).astype(int)
    (rows, cols), people = np.unique(places.T, axis=1, return_counts=True)
    counts = hz.Counts.from_cells(grid, rows, cols, people * 2**20, bound=2**20, one=2**20, unit=Unit.PERSON)
    return hz.publish(hz.central.default(grid, 1.0), counts, randomness=hz.Simulation(1))


def test_doubt_is_measured_in_classes() -> None:
    squares = _doubtful().squares()
    assert _covers(squares)
    area = areas(squares.grid, squares.levels, squares.codes)
    first = int(step_of(np.array(squares.classes[:1]))[0])
    low, high = (step_of(people / area) - first for people in (squares.low, squares.high))
    last = len(squares.classes) - 1
    coloured = squares.kinds >= 0
    assert coloured.any()
    assert (squares.kinds == UNKNOWN).any()
    assert (np.minimum(high, last) - np.minimum(low, last))[coloured].max() <= 1
    assert (low <= squares.kinds)[coloured].all()
    assert (high[squares.kinds == WHITE] < 0).all()
    assert ((squares.low <= squares.people) & (squares.people <= squares.high)).all()


def test_more_confidence_gives_wider_intervals() -> None:
    narrow, wide = (_doubtful().posterior.intervals(confidence) for confidence in (0.5, 0.99))
    for (low, high), (lower, higher) in zip(narrow, wide, strict=True):
        assert (lower <= low).all()
        assert (high <= higher).all()
    assert len(_doubtful().squares(0.5)) >= len(_doubtful().squares(0.99))


def test_the_number_of_squares_has_a_limit() -> None:
    rng = np.random.default_rng(2)
    estimate = _exact(NEW_YORK, rng.integers(0, 1000, NEW_YORK.shape))
    every = certain_squares(estimate, "people")
    assert len(every) > 3000
    for most in (1, 5, 100, 3000):
        few = certain_squares(estimate, "people", most=most)
        assert _covers(few)
        assert most - 3 <= len(few) <= most
        assert few.people.sum() == pytest.approx(every.people.sum())
    with pytest.raises(InvalidInput, match="most"):
        certain_squares(estimate, "people", most=0)


def test_nobody_gives_a_white_map() -> None:
    squares = certain_squares(_exact(NEW_YORK, np.zeros(NEW_YORK.shape, np.int64)), "people")
    assert (squares.kinds == WHITE).all()
    assert squares.densest is None
    assert len(squares.classes) == 1


def test_drawn_maps_give_squares_too(wrap: object) -> None:
    """A map from reports, of which one quarter was measured only as a whole."""
    rng = np.random.default_rng(3)
    shares = np.full((16, 16), 1e-4)
    shares[2, 3], shares[9:12, 9:12] = 0.4, 0.05
    shares /= shares.sum()
    drawn = rng.gamma(400 * shares, 1 / 400, (40, 16, 16))
    drawn /= drawn.sum(axis=(1, 2), keepdims=True)
    grid = Grid.plane(x=(0, 16), y=(0, 16), size=16)
    for asked in (None, np.where((np.indices((16, 16)) < 8).all(axis=0), 1, 4)):
        maps = DrawnMaps(grid, 1, drawn, 0.0, asked)
        estimate = Estimate(hz.Density.from_mass(grid, shares), 50_000.0, drawn=maps)
        squares = wrap(estimate).squares()  # type: ignore[operator]
        assert _covers(squares)
        assert squares.unit == "people per cell"
        assert squares.people.sum() == pytest.approx(50_000)
        assert squares.levels.max() == 4
        corner = node_extent(grid, squares.levels, squares.codes)[0] < 8
        corner &= node_extent(grid, squares.levels, squares.codes)[2] < 8
        assert squares.levels[corner].max() == (4 if asked is None else 1)
        low, high = squares.white_people[1:]
        assert 0 <= low <= squares.white_people[0] <= high <= CHOSEN_LOW * 50_000


def test_a_map_without_error_bars_has_no_squares(small: Release) -> None:
    with pytest.raises(InvalidInput, match="no error bars"):
        small.squares()


def test_error_bars_of_another_grid_are_refused(sure: Release) -> None:
    rendered = dataclasses.replace(sure.estimate, density=sure.render(shape=(6, 10)))
    with pytest.raises(InvalidInput, match="another grid"):
        certain_squares(rendered, "people")


def test_units_stay_convenient() -> None:
    """A map of the world has few people per km², and a room has many."""
    world = Grid.over(lon=(-180, 180), lat=(-80, 80), size=16)
    room = Grid.over(lon=(0, 0.0001), lat=(0, 0.0001), size=16)
    plane = Grid.plane(x=(0, 1), y=(0, 1), size=256)
    people = np.zeros((16, 16), np.int64)
    people[3, 4] = 2000
    thin = np.zeros((256, 256), np.int64)
    thin[::64, ::64] = 1
    for grid, mass, unit in (
        (world, people, "people per 100 km²"),
        (room, people, "people per m²"),
        (plane, thin, "people per 100 × 100 cells"),
    ):
        nodes = _exact(grid, mass)
        if grid is plane:  # counted to level 2 only, so that no square is smaller than 64 × 64 cells
            assert nodes.noisy is not None
            coarse = nodes.noisy.levels <= 2
            parts = (getattr(nodes.noisy, name)[coarse] for name in ("levels", "codes", "values", "scales"))
            nodes = Estimate.infer(NoisyCounts(grid, *parts))
        squares = certain_squares(nodes, "people")
        assert squares.unit == unit, squares
        assert 0.1 <= squares.classes[0] < 1e6


def test_areas_on_a_sphere_add_up() -> None:
    grid = Grid.over(lon=(-10, 30), lat=(40, 70), shape=(48, 80), projection="web-mercator")
    whole = areas(grid, np.array([0]), np.array([0]))[0]
    level = nodes_at(grid, 4)
    assert areas(grid, np.full(len(level), 4), level).sum() == pytest.approx(whole)
    plane = Grid.plane(x=(0, 1), y=(0, 1), shape=(5, 7))
    assert np.array_equal(areas(plane, np.array([1, 1]), np.array([0, 3])), node_areas(plane, 1, np.array([0, 3])))


def test_steps_and_numbers() -> None:
    for step in range(-12, 12):
        limit = step_limit(step)
        assert step_of(np.array([limit, limit * 0.999])).tolist() == [step, step - 1]
    assert [number(value) for value in (1234567.0, 999.6, 99.96, 0.12345, 1e-9)] == [
        "1,230,000", "1,000", "100", "0.123", "0.000000001",
    ]  # fmt: skip


def test_squares_of_the_demo_are_true() -> None:
    judged = measure(demo_city(), releases=2)
    assert judged.misses(rich=True) == [], str(judged)


@pytest.mark.slow
@pytest.mark.parametrize("people", ["demo city", None, 200], ids=str)
def test_squares_are_true(people: str | int | None) -> None:
    """At least 75 % of coloured squares in the right class, 95 % within one, 99 % of white area truly below it."""
    counts = demo_city() if people == "demo city" else new_york(people)  # type: ignore[arg-type]
    if counts is None:
        pytest.skip("gowalla_nyc.parquet was not found; set HEATHAZE_DATA to its folder")
    judged = measure(counts, releases=20)
    print(people, judged)
    assert judged.misses(rich=people != 200) == [], str(judged)


@pytest.mark.slow
def test_files_of_the_demo_are_small(tmp_path: Path) -> None:
    """A web page can load them: the polygons were 19 MB when each cell was one, and the page of a raster 657 kB."""
    counts = demo_city()
    release = hz.publish(hz.central.default(counts.grid, 1), counts)
    assert release.save(tmp_path / "city.geojson").stat().st_size < 1_000_000
    assert release.save(tmp_path / "city.gpkg").stat().st_size < 1_000_000
    assert release.save(tmp_path / "city.html").stat().st_size < 500_000
