"""Densities, dense and as trees: both forms must give the same answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import children, exists, interleave
from heathaze.errors import InvalidBounds, InvalidInput, TooLarge
from heathaze.privacy.randomness import Simulation

SHAPES = st.sampled_from([(1, 1), (4, 4), (5, 3), (3, 7), (16, 16), (1, 9)])


def random_tree(shape: tuple[int, int], seed: int) -> TreeDensity:
    """Split some nodes, keep the rest as squares."""
    rng = np.random.default_rng(seed)
    grid = Grid.plane(x=(0, 2), y=(-1, 1), shape=shape)
    codes, levels, done = np.array([0]), [], []
    for level in range(grid.depth + 1):
        split = rng.random(len(codes)) < 0.6 if level < grid.depth else np.zeros(len(codes), bool)
        done.append(codes[~split])
        levels.append(np.full((~split).sum(), level))
        codes = children(codes[split])
        codes = codes[exists(grid, level + 1, codes)] if level < grid.depth else codes[:0]
    squares = np.concatenate(done)
    return TreeDensity.from_mass(grid, np.concatenate(levels), squares, rng.random(len(squares)))


@settings(deadline=None)
@given(SHAPES, st.integers(0, 1000))
def test_a_tree_and_its_dense_form_agree(shape: tuple[int, int], seed: int) -> None:
    tree = random_tree(shape, seed)
    dense = tree.dense()
    assert dense.values.sum() == pytest.approx(1)
    low, high = np.sort(np.random.default_rng(seed).random((2, 2)) * 2, axis=0)
    box = Box.plane(x=(low[0], high[0]), y=(low[1] - 1, high[1] - 1))
    assert tree.mass_in(box) == pytest.approx(dense.mass_in(box), abs=1e-12)
    np.testing.assert_allclose(tree.render(shape=(3, 5)).values, dense.render(shape=(3, 5)).values, atol=1e-12)
    np.testing.assert_allclose(
        tree.render(window=box, shape=(4, 2)).values, dense.render(window=box, shape=(4, 2)).values, atol=1e-9
    )


@given(SHAPES, st.integers(1, 20), st.integers(1, 20), st.integers(0, 1000))
def test_resampling_keeps_mass_and_aggregates_exactly(shape: tuple[int, int], rows: int, cols: int, seed: int) -> None:
    grid = Grid.over(lon=(0, 1), lat=(0, 1), shape=shape)
    density = Density.from_mass(grid, np.random.default_rng(seed).random(shape))
    there = density.resample((rows, cols))
    assert there.values.sum() == pytest.approx(1)
    fine = density.resample((shape[0] * 3, shape[1] * 2))
    np.testing.assert_allclose(fine.values.reshape(shape[0], 3, shape[1], 2).sum(axis=(1, 3)), density.values)
    np.testing.assert_allclose(fine.resample(shape).values, density.values)


def test_north_west_comes_first() -> None:
    grid = Grid.over(lon=(0, 2), lat=(0, 2), size=2)
    density = Density.from_mass(grid, [[1, 0], [0, 0]])
    assert density.mass_in(Box.over(lon=(0, 1), lat=(1, 2))) == 1
    plane = Density.from_mass(Grid.plane(x=(0, 2), y=(0, 2), size=2), [[1, 0], [0, 0]])
    assert plane.mass_in(Box.plane(x=(0, 1), y=(0, 1))) == 1


def test_a_box_may_cut_cells_and_reach_beyond_the_map() -> None:
    density = Density.uniform(Grid.over(lon=(0, 4), lat=(0, 4), size=4))
    assert density.mass_in(Box.over(lon=(0.5, 1.5), lat=(0, 4))) == pytest.approx(0.25)
    assert density.mass_in(Box.over(lon=(-90, 90), lat=(2, 80))) == pytest.approx(0.5)
    with pytest.raises(InvalidBounds, match="outside the map"):
        density.mass_in(Box.over(lon=(50, 60), lat=(0, 1)))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("shape", [(16, 16), (5, 9), (1, 7)])
def test_the_heat_map_equals_the_definition_and_keeps_mass(sigma: float, shape: tuple[int, int]) -> None:
    """H = K (p ⊘ z zᵀ) Kᵀ with the normaliser of errata E0-10, written out as a double sum over cells."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), shape=shape)
    density = Density.from_mass(grid, np.random.default_rng(1).random(shape) ** 8)
    rows, cols = (axis.ravel() for axis in np.indices(shape))
    squared = (rows[:, None] - rows[None, :]) ** 2 + (cols[:, None] - cols[None, :]) ** 2
    kernel = np.exp(-squared / (2 * sigma**2))
    expected = (kernel / kernel.sum(axis=0)) @ density.values.ravel()
    smooth = density.smooth(sigma)
    np.testing.assert_allclose(smooth.values.ravel(), expected, rtol=1e-9, atol=1e-13)
    assert smooth.values.sum() == pytest.approx(1, abs=1e-12)


def test_the_printed_normaliser_would_lose_mass() -> None:
    """Errata E0-10, the known bug put back: normalising by the receiving cell does not keep mass."""
    kernel = np.exp(-((np.arange(8)[:, None] - np.arange(8)[None, :]) ** 2) / (2 * 2.0**2))
    corner = np.eye(8)[0]
    assert (kernel / kernel.sum(axis=0) @ corner).sum() == pytest.approx(1)
    assert (kernel / kernel.sum(axis=1, keepdims=True) @ corner).sum() < 0.9


def test_no_mass_is_the_uniform_map() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), shape=(3, 5))
    assert (Density.from_mass(grid, np.zeros((3, 5))).values == 1 / 15).all()
    np.testing.assert_allclose(TreeDensity.from_mass(grid, [0], [0], [0.0]).dense().values, 1 / 15)


def test_a_map_too_large_is_kept_as_a_tree() -> None:
    grid = Grid.over(lon=(0, 1), lat=(0, 1), size=2**20)
    code = int(interleave([2**19], [2**19])[0])
    tree = TreeDensity.from_mass(grid, [0, 20], [0, code], [1.0, 3.0])
    with pytest.raises(TooLarge, match="window"):
        tree.dense()
    small = tree.render(shape=(8, 8))
    assert small.values[4, 4] == pytest.approx(0.75 + 0.25 / 64)
    step = 1 / 2**20
    window = tree.render(window=Box.over(lon=(0.5 - 4 * step, 0.5 + 4 * step), lat=(0.5 - 4 * step, 0.5 + 4 * step)))
    assert window.values.shape == (8, 8)
    assert window.values[4, 4] > 0.99


def test_points_are_placed_where_the_mass_is() -> None:
    tree = random_tree((16, 16), 3)
    for density in (tree, tree.dense()):
        x, y = density.place(Simulation(1).uniforms(3 * 20_000).reshape(-1, 3))
        box = Box.plane(x=(0.3, 1.1), y=(-0.6, 0.4))
        inside = ((x >= 0.3) & (x <= 1.1) & (y >= -0.6) & (y <= 0.4)).mean()
        share = density.mass_in(box)
        assert abs(inside - share) < 5 * math.sqrt(share * (1 - share) / 20_000)  # alpha below 1e-6


@pytest.mark.parametrize("values", [[[1, 1], [1, 1]], [[-1, 2], [0, 0]], [[math.nan, 1], [0, 0]], [[1, 0]]])
def test_bad_values_get_a_sentence(values: list[list[float]]) -> None:
    with pytest.raises(InvalidInput):
        Density(Grid.plane(x=(0, 1), y=(0, 1), size=2), np.array(values, dtype=float))


@pytest.mark.parametrize(
    ("levels", "codes", "mass"),
    [([0], [1], [1.0]), ([2], [0], [1.0]), ([1], [-1], [1.0]), ([1], [0], [0.5]), ([1], [0, 1], [1.0])],
)
def test_a_square_the_grid_does_not_have_is_refused(levels: list[int], codes: list[int], mass: list[float]) -> None:
    with pytest.raises(InvalidInput):
        TreeDensity(Grid.plane(x=(0, 1), y=(0, 1), size=2), np.array(levels), np.array(codes), np.array(mass))
