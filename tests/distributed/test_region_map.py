"""The map of several rounds: exact where they are, better together, as detailed as their sums, and honest about it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.distributed import AdaptiveQuadtree, Cohort, Population, Survey, simulate
from heathaze.distributed import region_map as module
from heathaze.distributed.region_map import NoisyRegions, _View, region_map
from heathaze.domain.grid import Box, Grid
from heathaze.domain.partition import Partition, cell_codes
from heathaze.errors import InvalidInput
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.log_pyramid import LogPyramid
from heathaze.privacy.randomness import Simulation

GRID = Grid.plane(x=(0, 16), y=(0, 16), size=16)
CELLS = Partition.whole_level(GRID, 4)


def hills(side: int) -> np.ndarray:
    at = np.indices((side, side)) / side
    raster = 0.05 + sum(
        weight * np.exp(-((at - np.array(centre)[:, None, None]) ** 2).sum(axis=0) / (2 * width**2))
        for centre, width, weight in (((0.25, 0.62), 0.08, 3), ((0.7, 0.3), 0.15, 1))
    )
    return raster / raster.sum()


def sums(partition: Partition, density: np.ndarray, people: float) -> np.ndarray:
    entries = partition.locate(cell_codes(partition.grid))
    return people * np.bincount(entries, density.ravel(), len(partition))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One roughness, taken for granted: learning it takes most of the time and is not what these tests are about."""
    monkeypatch.setattr(module, "_FALLS", (0.6,))


# ── the fit ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_exact_sums_give_the_exact_map() -> None:
    truth = hills(16)
    told = NoisyRegions(CELLS, sums(CELLS, truth, 1e8), 1e-6, 1e8)
    found = region_map([told]).density.dense().values
    assert np.abs(found - truth).sum() < 0.002
    assert found == pytest.approx(truth, rel=0.05)


def test_exact_sums_of_uneven_regions_are_kept() -> None:
    """Regions with orphans on a grid that is padded: whatever happens within them, their sums are right."""
    grid = Grid.plane(x=(0, 11), y=(0, 6), shape=(6, 11))
    partition = Partition(grid, np.array([0, 1, 2, 3, 3, 4]), np.array([0, 0, 4, 0, 18, 70]))
    truth = Simulation(1).uniforms(66).reshape(6, 11) + 0.2
    truth /= truth.sum()
    told = NoisyRegions(partition, sums(partition, truth, 1e7), 1e-6, 1e7)
    found = region_map([told]).density
    assert partition.sums(found) == pytest.approx(sums(partition, truth, 1.0), rel=0.01)


def test_all_rounds_are_better_than_the_last_alone() -> None:
    """A seeded raster, two rounds of the same noise on coarser and finer regions: the mean error of five runs."""
    truth, people, deviation = hills(16), 5000.0, 25.0
    coarse = Partition.whole_level(GRID, 3)
    generator = np.random.default_rng(1)
    errors = []
    for _ in range(5):
        rounds = [
            NoisyRegions(
                part, sums(part, truth, people) + generator.normal(0, deviation, len(part)), deviation**2, people
            )
            for part in (coarse, CELLS)
        ]
        maps = [region_map(told).density.dense().values for told in (rounds[1:], rounds)]
        cut = CELLS.density(rounds[1].values).dense().values
        errors.append([((found - truth) ** 2).mean() for found in (cut, *maps)])
    cut_off, last, both = np.mean(errors, axis=0)
    assert both < 0.9 * last
    assert last < 0.7 * cut_off, "and inference alone is better than cutting negative numbers off"


def test_a_round_with_more_noise_weighs_less() -> None:
    """Two rounds contradict each other: the map is where the surer one says."""
    west, east = np.zeros((16, 16)), np.zeros((16, 16))
    west[:, :8], east[:, 8:] = 1 / 128, 1 / 128
    quarters = Partition.whole_level(GRID, 1)
    for variances, wanted in (((1.0, 1e6), True), ((1e6, 1.0), False)):
        rounds = [
            NoisyRegions(quarters, sums(quarters, density, 1000.0), variance, 1000.0)
            for density, variance in zip((west, east), variances, strict=True)
        ]
        share = region_map(rounds).density.mass_in(Box.plane(x=(0, 8), y=(0, 16)))
        assert (share > 0.9) == wanted
        assert (share < 0.1) != wanted


# ── detail ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_regions_below_the_fitted_level_are_divided_as_their_sums_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_COARSE", "_FINE", "_FINEST"):
        monkeypatch.setattr(module, name, 2)
    corner = Partition(GRID, np.array([0, 1, 1, 1, 1, 2, 3, 3, 4]), np.array([0, 0, 1, 2, 3, 0, 0, 3, 0]))
    assert corner.region_areas.tolist() == [48, 64, 64, 64, 8, 3, 4, 1]
    values = np.array([100.0, 100, 100, 100, 80, 3, 60, 17])
    found = region_map([NoisyRegions(corner, values, 1.0, 560.0)]).density.dense().values
    inside = sums(corner, found, 1.0)[4:]
    assert inside / inside.sum() == pytest.approx([80 / 160, 3 / 160, 60 / 160, 17 / 160], rel=1e-9)
    assert sums(corner, found, 560.0)[4:].sum() == pytest.approx(160, rel=0.15)
    # Nobody was found there: the square is flat.
    empty = np.concatenate([values[:4], [-3.0, -1, 0, -2]])
    flat = region_map([NoisyRegions(corner, empty, 1.0, 400.0)]).density.dense().values[:4, :4]
    assert np.ptp(flat) < 1e-15


@st.composite
def torn(draw) -> Partition:
    grid = Grid.plane(x=(0, 1), y=(0, 1), shape=draw(st.sampled_from([(16, 16), (5, 13), (1, 9), (7, 7)])))
    coins = Simulation(draw(st.integers(0, 10**6)))
    partition = Partition.whole_level(grid, 1)
    for _ in range(draw(st.integers(1, 4))):
        split, collapse = coins.uniforms(2 * len(partition)).reshape(2, -1) < [[0.5], [0.3]]
        partition = partition.changed(split, collapse)
    return partition


@given(torn(), st.integers(0, 4))
def test_nobody_is_lost_when_a_round_is_seen_on_coarser_squares(partition: Partition, level: int) -> None:
    """Orphans cut squares of which the rest belongs to a region far above: it brings its part of the people along."""
    grid = partition.grid
    level = min(level, grid.depth)
    truth = sums(partition, np.full(grid.shape, 1 / grid.cells), 1000.0)
    view = _View.of(NoisyRegions(partition, truth, 2.0, 1000.0), level)
    assert view.values.sum() == pytest.approx(1000)
    assert sorted(set(view.labels.tolist())) == list(range(len(view.values)))
    assert (view.noise > 0).all()
    # People who are spread evenly are seen as spread evenly.
    squares = module._square_shape(grid, level)
    areas = np.add.reduceat(
        np.add.reduceat(np.ones(grid.shape), np.arange(0, grid.rows, 1 << (grid.depth - level)), axis=0),
        np.arange(0, grid.cols, 1 << (grid.depth - level)),
        axis=1,
    )
    assert areas.shape == squares
    assert view.values == pytest.approx(view.expected(areas / grid.cells))


@given(torn())
@settings(max_examples=20)
def test_on_the_finest_squares_a_round_is_seen_as_it_is(partition: Partition) -> None:
    values = Simulation(1).uniforms(len(partition))
    view = _View.of(NoisyRegions(partition, values, 2.0, 1000.0), partition.grid.depth)
    assert view.values == pytest.approx(values)
    assert view.noise == pytest.approx(np.full(len(values), 2.0))
    assert view.labels.tolist() == partition.locate(cell_codes(partition.grid)).tolist()


# ── how sure ────────────────────────────────────────────────────────────────────────────────────────────────────────


def coverage(side: int, people: int, surveys: int, boxes: int) -> float:
    """How often the 90 % interval of the share in a random box holds the truth."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=side)
    truth = hills(side)
    held = []
    for seed in range(surveys):
        source = Simulation(seed)
        crowd = Population.from_raster(grid, truth, people, source)
        survey = simulate(Survey(AdaptiveQuadtree(grid, 1), Cohort(people)), crowd, randomness=source, dropout=0.05)
        release = survey.estimate(draws=10)
        for low_x, low_y, width, height in source.uniforms(4 * boxes).reshape(-1, 4):
            x = (0.8 * low_x, min(1.0, 0.8 * low_x + 0.1 + width / 2))
            y = (0.8 * low_y, min(1.0, 0.8 * low_y + 0.1 + height / 2))
            share = release.mass_in(Box.plane(x=x, y=y))
            edges = np.linspace(0, 1, side + 1)
            part_x, part_y = (np.diff(np.clip(edges, *ends)) * side for ends in (x, y))
            held.append(share.low <= part_y @ truth @ part_x <= share.high)
    return float(np.mean(held))


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    assert 0.8 <= coverage(side=16, people=3000, surveys=3, boxes=50) <= 1.0


@pytest.mark.slow
def test_intervals_hold_the_truth_on_a_finer_grid() -> None:
    assert 0.8 <= coverage(side=32, people=10_000, surveys=20, boxes=30) <= 1.0


def test_draws_are_densities_that_differ_where_little_is_known() -> None:
    truth = hills(16)
    quarters = Partition.whole_level(GRID, 1)
    spreads = []
    for variance in (1.0, 1e5):
        told = NoisyRegions(quarters, sums(quarters, truth, 1000.0), variance, 1000.0)
        drawn = np.stack(list(region_map([told]).draws(8, Simulation(1))))
        assert drawn.sum(axis=(1, 2)) == pytest.approx(np.ones(8))
        spreads.append(drawn[:, :8, :8].sum(axis=(1, 2)).std())
    assert 3 * spreads[0] < spreads[1]


@pytest.mark.parametrize(("size", "level"), [(16, 4), (64, 6), (65, 6), (100, 6), (128, 6), (130, 6), (1000, 6)])
def test_drawn_maps_know_how_many_cells_their_squares_have(size: int, level: int) -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), shape=(size, size // 2))
    shape = module._square_shape(grid, level)
    shares = np.full((3, *shape), 1 / math.prod(shape))
    found = DrawnMaps.of(grid, shares, LogPyramid(shape, 8.0, 0.6))
    assert found.side == 1 << (grid.depth - level)
    finer = [8.0 * 0.6**k for k in range(level + 1, grid.depth + 1)]
    assert found.within == pytest.approx(math.sqrt(sum(height**2 for height in finer)))


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "variance", "people", "sentence"),
    [
        (np.ones(3), 1.0, 10.0, "each of the 4 regions"),
        (np.ones((2, 2)), 1.0, 10.0, "each of the 4 regions"),
        (np.array([1, 2, 3, np.nan]), 1.0, 10.0, "finite number"),
        (np.array([1, 2, 3, np.inf]), 1.0, 10.0, "finite number"),
        (np.ones(4), -1.0, 10.0, "variance of zero or more"),
        (np.ones(4), math.nan, 10.0, "variance of zero or more"),
        (np.ones(4), 1.0, 0.0, "people above zero"),
        (np.ones(4), 1.0, math.inf, "people above zero"),
    ],
)
def test_bad_sums_are_refused(values: np.ndarray, variance: float, people: float, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        NoisyRegions(Partition.whole_level(GRID, 1), values, variance, people)


def test_no_rounds_make_no_map() -> None:
    with pytest.raises(InvalidInput, match="no noisy regions to make a map from; give at least one round"):
        region_map([])


def test_sums_cannot_be_changed_under_the_map() -> None:
    values = np.ones(4)
    told = NoisyRegions(Partition.whole_level(GRID, 1), values, 1.0, 10.0)
    values[0] = 9
    assert told.values[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        told.values[0] = 2


@pytest.mark.parametrize("values", [np.zeros(4), -np.ones(4) * 50, np.array([1e9, 0, 0, 0])])
def test_whatever_the_noise_says_there_is_a_map(values: np.ndarray) -> None:
    found = region_map([NoisyRegions(Partition.whole_level(GRID, 1), values, 100.0, 20.0)]).density
    assert found.mass.sum() == pytest.approx(1)
    assert np.isfinite(found.mass).all()
