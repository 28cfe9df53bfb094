"""k-median: by hand, against every set of centres on tiny cases, against many random restarts, and its sentences."""

import itertools

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.release.centers import _alternate, _Weighted, cost, k_median


def best_of_all(points, weights, k):
    """Under ℓ1 some best centre has the x of a point and the y of a point, so all of those are tried."""
    places = list(itertools.product(np.unique(points[:, 0]), np.unique(points[:, 1])))
    return min(cost(points, weights, centres) for centres in itertools.combinations(places, k))


def best_of_restarts(points, weights, k, restarts):
    rng = np.random.default_rng(5)
    share = weights / weights.sum()
    starts = (points[rng.choice(len(points), k, replace=False, p=share)] for _ in range(restarts))
    return min(cost(points, weights, _alternate(_Weighted(points, share), start)) for start in starts)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_close_to_the_best_of_all_on_tiny_cases(k):
    rng = np.random.default_rng(k)
    ratios = []
    for _ in range(10):
        points, weights = rng.random((5, 2)), rng.random(5)
        ratios.append(cost(points, weights, k_median(points, weights, k)) / best_of_all(points, weights, k))
    assert min(ratios) >= 1 - 1e-9
    assert np.mean(ratios) <= 1.03
    if k == 1:
        assert max(ratios) == pytest.approx(1)


@pytest.mark.parametrize(("n", "k", "clustered"), [(60, 3, True), (300, 6, True), (300, 6, False), (2500, 8, True)])
def test_close_to_the_best_of_many_random_restarts(n, k, clustered):
    rng = np.random.default_rng(n + k)
    middles = rng.random((k + 2, 2))
    points = middles[rng.integers(0, k + 2, n)] + rng.normal(0, 0.03, (n, 2)) if clustered else rng.random((n, 2))
    weights = rng.pareto(1.5, n) + 0.01
    ours = cost(points, weights, k_median(points, weights, k))
    assert ours <= 1.03 * best_of_restarts(points, weights, k, restarts=30)


def test_far_clusters_are_found_heaviest_first():
    corners = np.array([(0.0, 0.0), (0.0, 100.0), (100.0, 0.0)])
    cross = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)])
    points = (corners[:, None] + cross).reshape(-1, 2)
    weights = np.repeat([1.0, 5.0, 3.0], 5)
    assert k_median(points, weights, 3).tolist() == [[0.0, 100.0], [100.0, 0.0], [0.0, 0.0]]


def test_same_input_same_centres_whatever_the_order():
    rng = np.random.default_rng(9)
    points, weights = rng.random((1500, 2)), rng.random(1500)
    shuffled = rng.permutation(1500)
    once = k_median(points, weights, 7)
    assert np.array_equal(once, k_median(points, weights, 7))
    assert np.array_equal(once, k_median(points[shuffled], weights[shuffled], 7))


def test_as_many_centres_as_points():
    points = np.array([(0.0, 0.0), (1.0, 5.0), (4.0, 2.0)])
    centres = k_median(points, [1, 2, 3], 3)
    assert centres.tolist() == [[4.0, 2.0], [1.0, 5.0], [0.0, 0.0]]
    assert cost(points, [1, 2, 3], centres) == 0


def test_points_without_weight_and_copies_do_not_count():
    points, weights = [(0, 0), (0, 0), (5, 5), (9, 0)], [1, 1, 1, 0]
    assert k_median(points, weights, 2).tolist() == [[0.0, 0.0], [5.0, 5.0]]
    with pytest.raises(InvalidInput, match="k is 3, but only 2 distinct points have weight; give at most that many"):
        k_median(points, weights, 3)


def test_a_full_grid():
    side = np.arange(128.0)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    weights = np.exp(-((points - 30) ** 2).sum(axis=1) / 200) + 0.5 * np.exp(
        -((points - [90, 100]) ** 2).sum(axis=1) / 80
    )
    centres = k_median(points, weights, 20)
    assert centres.shape == (20, 2)
    assert len(np.unique(centres, axis=0)) == 20
    assert cost(points, weights, centres) <= 1.03 * best_of_restarts(points, weights, 20, restarts=3)
    two = k_median(points, weights, 2)
    assert np.abs(two - [(30, 30), (90, 100)]).max() <= 2


@pytest.mark.parametrize(
    ("points", "weights", "k", "sentence"),
    [
        ([(0, 0)], [1], 0, "k is 0; give the number of centres"),
        ([(0, 0)], [1], -2, "k is -2"),
        ([(0, 0)], [1], 1.5, "k is 1.5"),
        ([(0, 0)], [1], True, "k is True"),
        ([(0, 0)], [1], 2, "k is 2, but only 1 distinct"),
        ([(0, 0)], [0], 1, "only 0 distinct points have weight"),
        ([(0, 0)], [-1], 1, "not negative"),
        ([(0, np.nan)], [1], 1, "finite points"),
        ([(0, 0, 0)], [1], 1, r"got shapes \(1, 3\) and \(1,\)"),
        ([(0, 0)], [1, 2], 1, r"got shapes \(1, 2\) and \(2,\)"),
    ],
)
def test_refusals(points, weights, k, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        k_median(points, weights, k)
