"""A coreset: its cost is close to the map's for every set of centres, and no set of centres costs less than it says."""

import itertools

import numpy as np
import pytest

import heathaze as hz
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.quadtree import node_extent, nodes_at
from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy.guarantee import Unit
from heathaze.release import coreset as module
from heathaze.release.coreset import _Masses, build_coreset


def clustered(shape, seed, sites=5):
    """A map with most mass around a few sites and some anywhere."""
    rng = np.random.default_rng(seed)
    mass = np.zeros(shape)
    for row, col in zip(rng.integers(0, shape[0], sites), rng.integers(0, shape[1], sites), strict=True):
        rows, cols = np.abs(np.arange(shape[0]) - row), np.abs(np.arange(shape[1]) - col)
        mass += rng.random() * np.exp(-(rows[:, None] + cols) / 2)
    return Density.from_mass(hz.Grid.plane(x=(0, shape[1]), y=(0, shape[0]), shape=shape), mass + 1e-4)


def cost_of(density, centers):
    """The k-median cost of a map of one person, cell by cell."""
    down, across, mass = density.squares()
    height, width = density.grid.cell_size
    x, y = (across - density.grid.across(centers[:, 0])[:, None]), (down - density.grid.down(centers[:, 1])[:, None])
    return float(mass @ (np.abs(x) * width + np.abs(y) * height).min(axis=0))


@pytest.mark.parametrize("shape", [(64, 64), (48, 64), (5, 97)])
@pytest.mark.parametrize("k", [1, 4])
def test_every_set_of_centres_costs_nearly_the_same(shape, k):
    density = clustered(shape, seed=k)
    few = build_coreset(density, 1.0, k, tolerance=0.2)
    assert few.weights.sum() == pytest.approx(1)
    assert 0 < few.moved <= 0.2 * few.least
    assert len(few) < density.grid.cells
    rng = np.random.default_rng(3)
    for number in range(200):
        spread = 1 if number % 2 else 0.05
        centers = rng.uniform(-0.1, 1.1, 2) * shape[::-1] + rng.normal(0, spread, (k, 2)) * shape[::-1]
        assert abs(few.cost(centers) - cost_of(density, centers)) <= few.moved + 1e-12
        assert cost_of(density, centers) >= few.least


def test_no_set_of_centres_costs_less_than_the_bound_and_the_bound_is_not_idle():
    """Under ℓ1 some best centres have the x and the y of a cell, so all of those are tried."""
    ratios = []
    for seed, k in itertools.product(range(4), (1, 2)):
        mass = np.random.default_rng(seed).pareto(0.8, (4, 5))
        density = Density.from_mass(hz.Grid.plane(x=(0, 5), y=(0, 4), shape=(4, 5)), mass)
        places = np.array(list(itertools.product(np.arange(5) + 0.5, np.arange(4) + 0.5)))
        best = min(cost_of(density, places[list(chosen)]) for chosen in itertools.combinations(range(20), k))
        ratios.append(build_coreset(density, 1.0, k, tolerance=0.01).least / best)
    assert max(ratios) <= 1 + 1e-12
    assert min(ratios) > 0.1


def test_a_map_of_few_places_is_kept_exactly():
    """With k places no positive cost can be proven, so every place keeps its own point."""
    mass = np.zeros((64, 64))
    mass[3, 60], mass[40, 1], mass[41, 1] = 1, 2, 5
    few = build_coreset(Density.from_mass(hz.Grid.plane(x=(0, 64), y=(0, 64), size=64), mass), 16.0, k=4)
    found = sorted(zip(few.points.tolist(), few.weights.tolist(), strict=True))
    assert found == [([1.5, 40.5], 4.0), ([1.5, 41.5], 10.0), ([60.5, 3.5], 2.0)]
    assert few.moved == 0


def test_the_mass_of_a_node_is_the_same_from_a_tree_and_from_its_cells():
    grid = hz.Grid.plane(x=(0, 6), y=(0, 7), shape=(7, 6))
    tree = TreeDensity.from_mass(grid, [1, 1, 2, 3], [0, 3, 9, 17], [4, 2, 3, 1])
    cells = tree.dense()
    for level in range(grid.depth + 1):
        codes = nodes_at(grid, level)
        levels = np.full(len(codes), level)
        found = _Masses(tree).of(levels, codes)
        np.testing.assert_allclose(found, _Masses(cells).of(levels, codes), atol=1e-15)
        top, bottom, left, right = node_extent(grid, level, codes)
        boxes = [cells.values[a:b, c:d].sum() for a, b, c, d in zip(top, bottom, left, right, strict=True)]
        np.testing.assert_allclose(found, boxes, atol=1e-15)


def test_a_huge_grid_needs_few_points(monkeypatch):
    """The number of points follows from the map and the tolerance, not from the number of cells."""
    grid = hz.Grid.plane(x=(0, 1), y=(0, 1), shape=(2**20 - 1, 2**20))
    tree = TreeDensity.from_mass(grid, [0], [0], [1])
    few = build_coreset(tree, 1.0, 1, tolerance=0.5)
    assert len(few) < 3000
    assert few.cost([(0.5, 0.5)]) == pytest.approx(0.5, rel=0.01)
    monkeypatch.setattr(module, "MOST_POINTS", 100)
    with pytest.raises(TooLarge, match=r"more than 2\^20 points; give a tolerance above 0.5"):
        build_coreset(tree, 1.0, 1, tolerance=0.5)


def test_the_cost_of_people_at_k_places_is_off_by_the_noise_alone():
    """Corollary A.1: for people at k places the error is O(√k/ε) people times the side, whatever their number."""
    grid = hz.Grid.plane(x=(0, 1), y=(0, 1), size=64)
    sites = np.random.default_rng(1).integers(0, 64, (6, 2))
    rng = np.random.default_rng(2)
    for people in (100, 10_000):
        counts = hz.Counts.from_cells(
            grid, sites[:, 0], sites[:, 1], np.full(6, people), bound=1, one=1, unit=Unit.PERSON
        )
        truth = build_coreset(Density.from_mass(grid, counts.dense()), 6.0 * people, 6)
        for seed in range(4):
            release = hz.publish(hz.central.Pyramid(grid, epsilon=1), counts, randomness=hz.Simulation(seed))
            few = release.coreset(6)
            sets = [release.centers(6), *rng.uniform(0, 1, (50, 6, 2))]
            away = [abs(truth.cost(centers) - few.cost(centers)) - few.moved for centers in sets]
            assert max(away) < 20 * np.sqrt(6), "a bias that grows with the number of people would be 60,000 · 0.01"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"k": 0}, "k is 0"),
        ({"k": 1, "tolerance": 1}, "tolerance is 1; give a relative change of the cost below 1"),
        ({"k": 1, "tolerance": -1}, "tolerance is -1"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments, sentence):
    density = clustered((8, 8), seed=1)
    with pytest.raises(InvalidInput, match=sentence):
        build_coreset(density, 1.0, **arguments)
    with pytest.raises(InvalidInput, match="finite pairs"):
        build_coreset(density, 1.0, 1).cost([(np.nan, 0)])
