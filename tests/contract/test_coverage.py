"""The intervals of the default mechanism contain the truth about as often as they say, whatever the data look like."""

import functools

import numpy as np
import pytest

import heathaze as hz
from heathaze.privacy.guarantee import Unit

SIZE = 64
ONE = 2**20
RELEASES = 4

Cells = tuple[np.ndarray, np.ndarray, np.ndarray]


def _drawn(shares: np.ndarray, people: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return ONE * rng.multinomial(people, (shares / shares.sum()).ravel()).reshape(SIZE, SIZE)


def _striped(seed: int) -> np.ndarray:
    return _drawn(np.where(np.arange(SIZE)[:, None] % 8 < 2, 1.0, 0.02) * np.ones((1, SIZE)), 5_000, seed)


def _spiky(seed: int) -> np.ndarray:
    rng = np.random.default_rng(77)
    return _drawn(np.where(rng.random((SIZE, SIZE)) < 0.01, 1.0, 1e-5), 5_000, seed)


def _dense(seed: int) -> np.ndarray:
    y, x = np.indices((SIZE, SIZE)) / SIZE
    return _drawn(1 + np.sin(5 * x + 1) * np.cos(4 * y), 20_000, seed)


def _many_places(seed: int) -> np.ndarray:
    """300 people, each spread evenly over 20 places around a home."""
    rng = np.random.default_rng(seed)
    mass = np.zeros((SIZE, SIZE), np.int64)
    home = rng.normal(SIZE / 2, 10, (300, 1, 2))
    places = np.clip(home + rng.normal(0, 4, (300, 20, 2)), 0, SIZE - 1).astype(int).reshape(-1, 2)
    np.add.at(mass, tuple(places.T), ONE // 20)
    return mass


@functools.cache
def _boxes() -> list[tuple[int, int, int, int]]:
    """Top, bottom, left and right of random rectangles, half of them aligned to squares of 8 cells."""
    rng = np.random.default_rng(9)
    found = []
    for k in range(24):
        step = 8 if k % 2 else 1
        top, left = rng.integers(0, SIZE // step - 1, 2) * step
        bottom, right = (start + step * rng.integers(1, (SIZE - start) // step + 1) for start in (top, left))
        found.append((int(top), int(bottom), int(left), int(right)))
    return found


@pytest.mark.parametrize(
    ("people", "least"), [(_striped, 0.8), (_spiky, 0.8), (_dense, 0.8), (_many_places, 0.8)], ids=lambda x: str(x)[:20]
)
def test_intervals_of_rectangles_contain_the_truth(people: object, least: float) -> None:
    grid = hz.Grid.plane(x=(0, SIZE), y=(0, SIZE), size=SIZE)
    held = []
    for run in range(RELEASES):
        mass = people(run)  # type: ignore[operator]
        rows, cols = np.nonzero(mass)
        counts = hz.Counts.from_cells(grid, rows, cols, mass[rows, cols], bound=ONE, one=ONE, unit=Unit.PERSON)
        release = hz.publish(hz.central.default(grid, 1.0), counts, randomness=hz.Simulation(run))
        for top, bottom, left, right in _boxes():
            y = sorted(grid.y_at([top, bottom]).tolist())
            share = release.mass_in(hz.Box.plane(x=tuple(grid.x_at([left, right]).tolist()), y=tuple(y)))
            truth = mass[top:bottom, left:right].sum() / mass.sum()
            held.append(share.low - 1e-9 <= truth <= share.high + 1e-9)
    assert np.mean(held) >= least
    assert np.mean(held) < 1  # intervals that always hold say nothing


def test_a_map_of_nobody_names_no_hotspot() -> None:
    grid = hz.Grid.plane(x=(0, SIZE), y=(0, SIZE), size=SIZE)
    nothing = np.zeros(0, np.int64)
    counts = hz.Counts.from_cells(grid, nothing, nothing, nothing, bound=ONE, one=ONE, unit=Unit.PERSON)
    named = 0
    for run in range(40):
        release = hz.publish(hz.central.default(grid, 1.0), counts, randomness=hz.Simulation(run))
        named += bool(release.hotspots(0.9))
    # A release names one with probability at most 0.005; more than 5 of 40 happen with probability below 1e-6.
    assert named <= 5
