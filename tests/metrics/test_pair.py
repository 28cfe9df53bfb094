"""What every metric accepts, and the sentences it refuses with."""

import numpy as np
import pytest

from heathaze import metrics
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.metrics.pair import pair

OF_JOURNEYS = {
    "density_divergence", "diameter_divergence", "hot_spot_ndcg", "kendall_tau", "length_divergence", "pattern_f1",
    "query_error", "trip_divergence",
}  # fmt: skip
"""Metrics of journeys take other arguments; test_journeys.py tests them."""
EVERY = [getattr(metrics, name) for name in metrics.__all__ if name != "Distance" and name not in OF_JOURNEYS]
GRID = Grid.plane(x=(0, 2), y=(0, 2), size=2)


def test_public_names():
    assert sorted(metrics.__all__) == metrics.__all__
    assert set(metrics.__all__) > OF_JOURNEYS
    assert {metric.__name__ for metric in EVERY} == {
        "similarity", "pearson", "kl", "total_variation", "mse", "l1", "mape", "smape", "maape", "emd", "w1", "w2",
        "sliced", "sinkhorn_w2",
    }  # fmt: skip


@pytest.mark.parametrize("metric", EVERY)
@pytest.mark.parametrize(
    ("truth", "estimate", "sentence"),
    [
        ([[1, 1]], [[1], [1]], r"The truth has shape \(1, 2\), the estimate has \(2, 1\); bring both to one shape"),
        ([[1, 1]], [[1, -1]], "The estimate holds a negative number"),
        ([[np.nan, 1]], [[1, 1]], "The truth holds a number that is NaN or infinite"),
        ([[1, 1]], [[np.inf, 1]], "The estimate holds a number that is NaN or infinite"),
        ([[0, 0]], [[1, 1]], "The truth holds no mass"),
        ([1, 1], [[1, 1]], r"The truth has shape \(2,\); a map has rows and columns"),
        (np.ones((0, 3)), np.ones((0, 3)), r"The truth has shape \(0, 3\)"),
        ([[1, 1]], [["much", 1]], "The estimate is not an array of numbers"),
    ],
)
def test_refuses(metric, truth, estimate, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        metric(truth, estimate)


@pytest.mark.parametrize("metric", EVERY)
def test_densities_arrays_and_trees_are_one(metric):
    mass, other = np.array([[4.0, 0.0], [2.0, 2.0]]), np.array([[1.0, 1.0], [1.0, 5.0]])
    expected = float(metric(mass, other))
    tree = TreeDensity.from_mass(GRID, [1, 1, 1], [0, 2, 3], [4, 2, 2])
    for truth, estimate in (
        (Density.from_mass(GRID, mass), Density.from_mass(GRID, other)),
        (tree, Density.from_mass(GRID, other)),
        (mass * 1e300 / 8, other * 1e-300),
    ):
        assert float(metric(truth, estimate)) == pytest.approx(expected, abs=1e-9)


def test_different_places_are_not_compared():
    here, there = Density.uniform(GRID), Density.uniform(Grid.plane(x=(1, 3), y=(0, 2), size=2))
    with pytest.raises(InvalidInput, match="different rectangles"):
        metrics.similarity(here, there)
    with pytest.raises(InvalidInput, match="bring both to one shape"):
        metrics.similarity(here, Density.uniform(GRID.resized((4, 4))))
    rounded = Density.uniform(Grid.plane(x=(0, 2.000001), y=(0, 2), size=2))
    assert metrics.similarity(here, rounded) == 1.0


def test_the_globe_is_compared_with_itself():
    nyc = Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=4)
    assert metrics.total_variation(Density.uniform(nyc), Density.uniform(nyc)) == 0.0
    mercator = Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=4, projection="web-mercator")
    with pytest.raises(InvalidInput, match="different rectangles"):
        metrics.emd(Density.uniform(nyc), Density.uniform(mercator))


def test_arguments_are_not_changed():
    mass = np.array([[1.0, 3.0]])
    pair(mass, mass)
    assert mass.tolist() == [[1.0, 3.0]]


def test_a_density_that_sums_to_one_only_nearly_is_normalised():
    p, _ = pair(Density(GRID, np.full((2, 2), 0.25 + 2e-7)), Density.uniform(GRID))
    assert p.sum() == pytest.approx(1, abs=1e-15)
