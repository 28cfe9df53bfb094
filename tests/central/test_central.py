"""The central mechanisms: golden budgets, exact plumbing, lazy noise, the shape of what comes out."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heathaze as hz
from heathaze.central import Dense, Flat, FlatTop, Pyramid
from heathaze.central.pyramid import heaviest
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import deinterleave
from heathaze.errors import InvalidInput, TooLarge
from heathaze.ingest.counts import Counts
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import DiscreteLaplace
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation
from heathaze.testing import noiseless

MASS = 2**20


def counts_on(grid: Grid, cells: dict[tuple[int, int], int]) -> Counts:
    rows, cols = zip(*cells, strict=True)
    mass = [MASS * people for people in cells.values()]
    return Counts.from_cells(grid, rows, cols, mass, bound=MASS, one=MASS, unit=Unit.PERSON)


def square(size: int) -> Grid:
    return Grid.plane(x=(0, 1), y=(0, 1), size=size)


def test_golden_budgets() -> None:
    """Errata part 6: epsilon 1, w 20, 256 a side, gamma 1/√2, levels 2 to 8."""
    golden = {
        2: 0.321291657536, 3: 0.227187509783, 4: 0.160645828768, 5: 0.113593754891,
        6: 0.080322914384, 7: 0.056796877446, 8: 0.040161457192,
    }  # fmt: skip
    found = Pyramid(square(256), epsilon=1).level_epsilons()
    assert found.keys() == golden.keys()
    for level, epsilon in golden.items():
        assert float(found[level]) == pytest.approx(epsilon, abs=1e-12)
    assert sum(found.values()) <= 1


def test_the_printed_normaliser_would_waste_budget() -> None:
    """Errata E0-4, the known bug put back: dividing by the two-sided Z spends only 0.7205 of epsilon."""
    two_sided = sum(math.sqrt(0.5) ** abs(level - 2) for level in range(-50, 9))
    one_sided = sum(math.sqrt(0.5) ** (level - 2) for level in range(2, 9))
    assert one_sided / two_sided < 0.75
    assert sum(Pyramid(square(256), epsilon=1).level_epsilons().values()) > Fraction(999_999_999, 1_000_000_000)


@pytest.mark.parametrize(("w", "top"), [(1, 0), (3, 0), (4, 1), (15, 1), (16, 2), (20, 2), (63, 2), (64, 3), (200, 3)])
def test_the_first_level_is_the_finest_with_at_most_w_nodes(w: int, top: int) -> None:
    assert Pyramid(square(1024), epsilon=1, w=w).top == top


def test_noise_is_in_counts_and_not_scaled_by_level() -> None:
    """Errata E0-1: scale B/ε_i on unscaled counts; scaling the noise by 2^(−i) would break privacy by 2^i."""
    pyramid = Pyramid(square(256), epsilon=1)
    events = pyramid.event(MASS).events
    for event, epsilon in zip(events, pyramid.level_epsilons().values(), strict=True):
        assert isinstance(event, DiscreteLaplace)
        assert event.scale >= MASS / epsilon
        assert float(event.scale) == pytest.approx(float(MASS / epsilon), rel=1e-9)


def test_many_pyramids_never_spend_more_than_they_declare() -> None:
    for epsilon in ("0.001", "0.1", "1/3", 1, 7.3, 50):
        for size in (1, 2, 100, 4096, 2**20):
            for bound in (1, 5, MASS):
                pyramid = Pyramid(square(size), epsilon=epsilon)
                spent = compose([pyramid.event(bound)]).epsilon
                assert pyramid.epsilon * Fraction(999_999, 1_000_000) <= spent <= pyramid.epsilon


@pytest.mark.parametrize("size", [1, 2, 16, 256, 2**20])
def test_infinite_epsilon_gives_the_truth_back(size: int) -> None:
    grid = square(size)
    cells = {(0, 0): 3, (size - 1, size // 2): 5, (size // 2, size // 3): 1}
    counts = counts_on(grid, cells)
    estimate = noiseless(Pyramid(grid, epsilon=1)).run(counts, Simulation(1))
    assert isinstance(estimate.density, TreeDensity)
    assert estimate.total == sum(cells.values())
    assert (estimate.density.levels == grid.depth).all()
    found = dict(
        zip(
            zip(*(part.tolist() for part in deinterleave(estimate.density.codes)), strict=True),
            estimate.density.mass * estimate.total,
            strict=True,
        )
    )
    assert found == pytest.approx(cells)


def test_dense_chooses_its_level_from_the_public_guess() -> None:
    assert Dense(square(4096), epsilon=1, people=10_000).level == 7
    assert Dense(square(4096), epsilon=4, people=10_000).level == 8
    assert Dense(square(16), epsilon=1, people=10**9).level == 4
    assert Dense(square(16), epsilon=0.001, people=1).level == 0


def test_a_half_empty_city_is_seen_where_clipped_noise_swamps_it() -> None:
    """Cutting noise at zero adds mass everywhere; a coarser level, a fit, or a kept total do not."""
    grid = square(256)
    rate = np.where(np.arange(256) < 128, 0.2, 0.02)
    mass = np.random.default_rng(1).poisson(rate, grid.shape) * MASS
    rows, cols = np.nonzero(mass)
    counts = Counts.from_cells(grid, rows, cols, mass[rows, cols], bound=MASS, one=MASS, unit=Unit.PERSON)
    west = Box.plane(x=(0, 0.5), y=(0, 1))
    truth = Density.from_mass(grid, mass).mass_in(west)
    dense = Dense(grid, epsilon=0.5, people=7_000).run(counts, Simulation(2)).density.mass_in(west)
    flat = Flat(grid, epsilon=0.5).run(counts, Simulation(2))
    clipped = FlatTop(grid, epsilon=0.5, share=1.0).run(counts, Simulation(2)).density.mass_in(west)
    assert abs(dense - truth) < 0.05
    assert abs(flat.density.mass_in(west) - truth) < 0.05
    assert flat.total == pytest.approx(mass.sum() / MASS, rel=0.3)
    assert abs(clipped - truth) > 0.2


def test_flat_top_keeps_the_share_it_says() -> None:
    grid = square(32)
    counts = counts_on(grid, {(3, 4): 1000, (5, 6): 900})
    density = FlatTop(grid, epsilon=1, share=0.01).run(counts, Simulation(1)).density.dense()
    kept = np.argwhere(density.values > 0)
    assert len(kept) <= math.ceil(0.01 * 32 * 32)
    assert {(3, 4), (5, 6)} <= {tuple(cell) for cell in kept.tolist()}


def test_nothing_left_is_the_uniform_map() -> None:
    """Errata E0-3: no people at all must not be an error, nor NaN."""
    grid = square(8)
    nobody = Counts(grid, np.array([], dtype=np.int64), np.array([], dtype=np.int64), MASS, MASS, Unit.PERSON)
    for mechanism in (Pyramid(grid, 1), Flat(grid, 1), FlatTop(grid, 1, share=0.1), Dense(grid, 1, people=1)):
        assert (noiseless(mechanism).run(nobody, Simulation(1)).density.dense().values == 1 / 64).all()
        assert np.isfinite(mechanism.run(nobody, Simulation(1)).density.dense().values).all()


def test_ties_go_to_the_first_whatever_the_data() -> None:
    assert heaviest(np.array([5, 7, 5, 7, 1]), 3).tolist() == [0, 1, 3]


def test_noise_is_drawn_for_visited_nodes_only() -> None:
    """A grid of 2^20 a side has 10^12 cells; the draws stay below w·4 a level."""
    drawn = 0

    class Counting(Simulation):
        def fill(self, block: np.ndarray) -> None:
            nonlocal drawn
            drawn += len(block)
            super().fill(block)

    grid = square(2**20)
    Pyramid(grid, epsilon=1).run(counts_on(grid, {(5, 5): 10}), Counting(1))
    assert 0 < drawn < 200_000


@pytest.mark.parametrize(
    "make",
    [
        lambda grid: Pyramid(grid, 1, w=0),
        lambda grid: Pyramid(grid, 1, w=2.5),
        lambda grid: Pyramid(grid, 1, gamma=0),
        lambda grid: Pyramid(grid, 1, gamma=math.nan),
        lambda grid: FlatTop(grid, 1, share=0),
        lambda grid: FlatTop(grid, 1, share=1.1),
        lambda grid: Dense(grid, 1, people=0),
    ],
)
def test_bad_parameters_get_a_sentence(make: object) -> None:
    with pytest.raises(InvalidInput, match="give"):
        make(square(4))  # type: ignore[operator]


@pytest.mark.parametrize("make", [lambda grid: Flat(grid, 1), lambda grid: FlatTop(grid, 1, share=0.5)])
def test_noise_for_every_cell_of_a_huge_grid_is_refused(make: object) -> None:
    with pytest.raises(TooLarge, match="Pyramid"):
        make(square(2**20))  # type: ignore[operator]


@pytest.mark.parametrize("build", [hz.central.UniformGrid, hz.central.AdaptiveGrid, hz.central.Dense])
def test_an_absurd_guess_is_refused_before_any_charge(build: Any) -> None:
    grid = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
    with pytest.raises(InvalidInput, match="from 1 to 9,007,199,254,740,992"):
        build(grid, 1, people=10**400)


def test_parameters_that_fail_cost_nothing(tmp_path: Path) -> None:
    class Broken(hz.central.Flat):
        def parameters(self) -> dict[str, Any]:
            raise InvalidInput("no parameters")

    grid = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
    counts = hz.count({"person": ["ann"], "x": [1.5], "y": [1.5]}, grid, person="person")
    ledger = hz.Ledger.open(tmp_path / "ledger", total=2)
    with pytest.raises(InvalidInput, match="no parameters"):
        hz.publish(Broken(grid, 1), counts, ledger=ledger)
    assert ledger.spent == 0


@pytest.mark.parametrize("share", [None, "x", [0.5, 0.2], float("nan"), 0, -1, 1.5])
def test_a_share_of_cells_is_a_number(share: Any) -> None:
    with pytest.raises(InvalidInput, match="share is"):
        hz.central.FlatTop(hz.Grid.plane(x=(0, 8), y=(0, 8), size=8), 1, share=share)
