"""The intervals of the default mechanism contain the truth about as often as they say, whatever the data look like."""

import functools
from collections.abc import Callable

import numpy as np
import pytest
import shapely

import heathaze as hz
from heathaze.domain.quadtree import interleave
from heathaze.domain.region import Region
from heathaze.privacy.guarantee import Unit

SIZE = 32
ONE = 2**20


def _drawn(shares: np.ndarray, people: int, seed: int) -> np.ndarray:
    """People with one place each."""
    rng = np.random.default_rng(seed)
    return ONE * rng.multinomial(people, (shares / shares.sum()).ravel()).reshape(shares.shape)


def _striped(seed: int) -> np.ndarray:
    return _drawn(np.where(np.arange(SIZE)[:, None] % 8 < 2, 1.0, 0.02) * np.ones((1, SIZE)), 1_250, seed)


def _spiky(seed: int) -> np.ndarray:
    rng = np.random.default_rng(77)
    return _drawn(np.where(rng.random((SIZE, SIZE)) < 0.01, 1.0, 1e-5), 5_000, seed)


def _dense(seed: int) -> np.ndarray:
    y, x = np.indices((SIZE, SIZE)) / SIZE
    return _drawn(1 + np.sin(5 * x + 1) * np.cos(4 * y), 5_000, seed)


def _empty(seed: int) -> np.ndarray:
    """Three people in one corner, and nobody elsewhere."""
    mass = np.zeros((SIZE, SIZE), np.int64)
    rows, cols = np.random.default_rng(seed).integers(0, 4, (2, 3))
    np.add.at(mass, (rows, cols), ONE)
    return mass


def _few_people(seed: int, places: int) -> np.ndarray:
    """300 people, each spread evenly over some places around a home."""
    rng = np.random.default_rng(seed)
    mass = np.zeros((SIZE, SIZE), np.int64)
    home = rng.normal(SIZE / 2, 5, (300, 1, 2))
    at = np.clip(home + rng.normal(0, 2, (300, places, 2)), 0, SIZE - 1).astype(int).reshape(-1, 2)
    np.add.at(mass, tuple(at.T), ONE // places)
    return mass


PEOPLE: dict[str, Callable[[int], np.ndarray]] = {
    "striped": _striped,
    "spiky": _spiky,
    "empty": _empty,
    "dense": _dense,
    "few with many places": functools.partial(_few_people, places=20),
    "few with one place": functools.partial(_few_people, places=1),
}
GRID = hz.Grid.plane(x=(0, SIZE), y=(0, SIZE), size=SIZE)


@functools.cache
def _regions() -> list[tuple[object, np.ndarray]]:
    """Rectangles with any borders and on borders of squares of 8 cells, polygons, and unions; the part of each cell."""
    rng = np.random.default_rng(9)

    def rectangle(step: int) -> tuple[int, ...]:
        left, bottom = rng.integers(0, SIZE // step - 1, 2) * step
        right, top = (int(start + step * rng.integers(1, (SIZE - start) // step + 1)) for start in (left, bottom))
        return int(left), int(bottom), right, top

    def triangle() -> shapely.Polygon:
        while (found := shapely.Polygon(rng.uniform(0, SIZE, (3, 2)))).area < SIZE:
            pass
        return found

    found: list[tuple[object, np.ndarray]] = []
    for step in (1,) * 10 + (8,) * 10:
        left, bottom, right, top = rectangle(step)
        found.append((hz.Box.plane(x=(left, right), y=(bottom, top)), shapely.box(left, bottom, right, top)))
    found += [(shape, shape) for shape in (triangle() for _ in range(5))]
    unions = [shapely.union_all([shapely.box(*rectangle(1)), shapely.box(*rectangle(8)), triangle()]) for _ in range(5)]
    found += [(shape, shape) for shape in unions]
    cells = interleave(*np.indices((SIZE, SIZE)).reshape(2, -1))
    return [(asked, Region.on(GRID, shape).parts(GRID.depth, cells).reshape(SIZE, SIZE)) for asked, shape in found]


def _published(mass: np.ndarray, seed: int) -> hz.Release:
    rows, cols = np.nonzero(mass)
    counts = hz.Counts.from_cells(GRID, rows, cols, mass[rows, cols], bound=ONE, one=ONE, unit=Unit.PERSON)
    return hz.publish(hz.central.default(GRID, 1.0), counts, randomness=hz.Simulation(seed))


def answered(people: Callable[[int], np.ndarray], releases: range) -> tuple[np.ndarray, np.ndarray]:
    """For every release and region: whether the interval contains the true share, and the width of the interval."""
    held, widths = [], []
    for run in releases:
        mass = people(run)
        release = _published(mass, run)
        for region, part in _regions():
            share, truth = release.mass_in(region), float((mass * part).sum() / mass.sum())
            assert share.low is not None
            assert share.high is not None
            held.append(share.low - 1e-9 <= truth <= share.high + 1e-9)
            widths.append(share.high - share.low)
    shape = len(releases), len(_regions())
    return np.array(held).reshape(shape), np.array(widths).reshape(shape)


# The limits were set from 8 releases of each map: the mean share less about 2.5 standard errors of a mean of 3, and the
# mean width times 1.15.
@functools.cache
def _measured(name: str) -> tuple[np.ndarray, np.ndarray]:
    return answered(PEOPLE[name], range(3))


@pytest.mark.parametrize(
    ("name", "least", "boxes", "polygons"),
    [
        ("striped", 0.92, 0.0262, 0.0405),
        ("spiky", 0.95, 0.00245, 0.0256),
        ("empty", 0.94, 0.563, 0.71),
        ("dense", 0.93, 0.0089, 0.0274),
        ("few with many places", 0.90, 0.0703, 0.128),
        ("few with one place", 0.87, 0.0705, 0.128),
    ],
)
def test_intervals_contain_the_truth_and_are_short(name: str, least: float, boxes: float, polygons: float) -> None:
    """Intervals of polygons and unions allow that the people of the squares which they cut live on one side."""
    held, widths = _measured(name)
    assert held.mean() >= least
    assert widths[:, :20].mean() <= boxes
    assert widths[:, 20:].mean() <= polygons


def test_the_interval_of_a_district_allows_that_its_outline_follows_a_coast() -> None:
    """People live up to a slanted coast. A district up to the coast cuts squares whose people all live inside."""
    held = []
    for run in range(6):
        rng = np.random.default_rng(run)
        x, y = rng.uniform(0, SIZE, (2, 9000))
        land = y < 0.7 * SIZE + 0.2 * x
        people = {"person": np.arange(land.sum()), "x": x[land], "y": y[land]}
        release = hz.publish(
            hz.central.default(GRID, 1.0), hz.count(people, GRID, person="person"), randomness=hz.Simulation(run)
        )
        for left in range(0, SIZE, 16):
            right = left + 16
            coast = [(right, 0.7 * SIZE + 0.2 * right), (left, 0.7 * SIZE + 0.2 * left)]
            district = shapely.Polygon([(left, 0.4 * SIZE), (right, 0.4 * SIZE), *coast])
            share = release.mass_in(district)
            truth = float(shapely.contains_xy(district, x[land], y[land]).mean())
            held.append(share.low <= truth <= share.high)
    assert np.mean(held) >= 0.85


def test_intervals_of_all_maps_contain_the_truth_as_often_as_they_did() -> None:
    """97 % with a standard error of 1 %; intervals that always hold would say nothing."""
    held = np.stack([_measured(name)[0] for name in PEOPLE])
    assert 0.945 <= held.mean() <= 0.99
    kinds = held[:, :, :10], held[:, :, 10:20], held[:, :, 20:25], held[:, :, 25:]
    assert min(kind.mean() for kind in kinds) >= 0.92  # of any rectangles, aligned ones, polygons and unions


def test_a_map_of_nobody_names_no_hotspot_and_its_intervals_contain_zero() -> None:
    grid = hz.Grid.plane(x=(0, 64), y=(0, 64), size=64)
    nothing = np.zeros(0, np.int64)
    counts = hz.Counts.from_cells(grid, nothing, nothing, nothing, bound=ONE, one=ONE, unit=Unit.PERSON)
    named, held = 0, []
    for run in range(300):
        release = hz.publish(hz.central.default(grid, 1.0 if run % 2 else 0.1), counts, randomness=hz.Simulation(run))
        named += bool(release.hotspots(0.9))
        if run < 20:
            held += [(low <= 0).mean() for low, _ in release.posterior.intervals(0.9) if len(low)]
    assert named <= 3
    assert np.mean(held) >= 0.9
