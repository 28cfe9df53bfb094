"""What a mechanism decides and tells follows from noisy numbers alone.

The noise is planted: so large that no data can be seen through it. What still differs between two data sets was then
decided by exact counts.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from heathaze.central import (
    AdaptiveGrid,
    Dawa,
    Dense,
    Flat,
    FlatTop,
    PrivTree,
    Pyramid,
    UniformGrid,
    adaptive_grid,
    dawa,
    dense,
    flat,
    priv_tree,
    pyramid,
    uniform_grid,
)
from heathaze.domain.grid import Grid
from heathaze.ingest.counts import Counts
from heathaze.privacy.events import flatten
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation

MASS = 2**20
LOUD = 2**45
"""A thousand times the mass of all people below."""

GRID = Grid.plane(x=(0, 16), y=(0, 16), size=16)
MODULES = (adaptive_grid, dawa, dense, flat, priv_tree, pyramid, uniform_grid)
MAKERS: dict[str, Callable[[], Any]] = {
    "Pyramid": lambda: Pyramid(GRID, 1, w=5),
    "PrivTree": lambda: PrivTree(GRID, 1),
    "UniformGrid": lambda: UniformGrid(GRID, 1),
    "AdaptiveGrid": lambda: AdaptiveGrid(GRID, 1),
    "Dawa": lambda: Dawa(GRID, 1),
    "Flat": lambda: Flat(GRID, 1),
    "FlatTop": lambda: FlatTop(GRID, 1, share=0.1),
    "Dense": lambda: Dense(GRID, 1, people=100),
}


def people_at(*cells: tuple[int, int, int]) -> Counts:
    """Counts of so many people in each (row, column)."""
    rows, cols, people = zip(*cells, strict=True)
    mass = [MASS * count for count in people]
    return Counts.from_cells(GRID, rows, cols, mass, bound=MASS, one=MASS, unit=Unit.PERSON)


NORTH, SOUTH = people_at((0, 1, 9000), (1, 3, 500), (2, 2, 7)), people_at((15, 9, 8000), (14, 4, 20))


def plant(monkeypatch: pytest.MonkeyPatch, noise: Callable[[int], np.ndarray]) -> list[Fraction]:
    """Replace the noise of all mechanisms; the scales they ask for are noted."""
    scales: list[Fraction] = []

    def planted(scale: Any, size: int, _: Any) -> np.ndarray:
        scales.append(Fraction(scale))
        return noise(size).astype(np.int64)

    for module in MODULES:
        if hasattr(module, "discrete_laplace"):
            monkeypatch.setattr(module, "discrete_laplace", planted)
    return scales


def shuffled(size: int) -> np.ndarray:
    """Loud noise, another number for each place."""
    return LOUD * (1 + np.argsort(Simulation(size).words(size)))


def constant(size: int) -> np.ndarray:
    """The same loud noise everywhere."""
    return np.full(size, LOUD)


@pytest.mark.parametrize("name", ["Pyramid", "FlatTop"])
def test_what_is_kept_is_chosen_by_noisy_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, shuffled)
    kept = [MAKERS[name]().run(counts, Simulation(1)).density.dense().values > 0 for counts in (NORTH, SOUTH)]
    assert 0 < kept[0].sum() < GRID.cells
    assert (kept[0] == kept[1]).all()


@pytest.mark.parametrize("name", MAKERS)
def test_the_total_is_a_noisy_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errata E0-3: the number of people is private."""
    plant(monkeypatch, constant)
    assert MAKERS[name]().run(NORTH, Simulation(1)).total > 2 * 9507


@pytest.mark.parametrize("name", ["Flat", "Dense", "Dawa", "UniformGrid", "AdaptiveGrid"])
def test_empty_cells_get_noise_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, constant)
    assert (MAKERS[name]().run(NORTH, Simulation(1)).density.dense().values > 0).all()


@pytest.mark.parametrize("name", MAKERS)
def test_the_noise_that_is_drawn_is_the_noise_that_is_declared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scales = plant(monkeypatch, constant)
    mechanism = MAKERS[name]()
    mechanism.run(NORTH, Simulation(1))
    declared = {part.scale for part in flatten(mechanism.event(MASS)) if hasattr(part, "scale")}
    assert set(scales) == declared


def test_how_many_units_there_are_is_a_noisy_number(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, lambda size: np.full(size, 12_345 * MASS))
    sums = uniform_grid.running_sums(NORTH)
    assert uniform_grid.noisy_units(sums, MASS, Fraction(1), Simulation(1)) == 9507 + 12_345


def test_blocks_are_cut_by_noisy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that says that nobody is there: no block is cut, however many people it holds."""
    plant(monkeypatch, lambda size: np.full(size, -LOUD))
    asked: list[np.ndarray] = []

    def watched(blocks: Any, wanted: np.ndarray) -> Any:
        asked.append(wanted)
        return cut_finely(blocks, wanted)

    cut_finely = adaptive_grid.cut_finely
    monkeypatch.setattr(adaptive_grid, "cut_finely", watched)
    AdaptiveGrid(GRID, 1, people=1000).run(NORTH, Simulation(1))
    assert (np.concatenate(asked) == 1).all()
