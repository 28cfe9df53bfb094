"""Mixtures hit the share of cells they are asked for, from the mixture they are asked for."""

import numpy as np
import pytest

from heathaze.datasets.mixtures import mixture
from heathaze.errors import InvalidInput


def cells(table, size=256):
    return np.unique((table["y"] * size).astype(int) * size + (table["x"] * size).astype(int))


@pytest.mark.parametrize(("clusters", "sparsity"), [(5, 0.02), (20, 0.15), (80, 0.5)])
def test_hits_exactly_the_cells_asked_for(clusters, sparsity):
    table = mixture(clusters=clusters, sparsity=sparsity, seed=3)
    assert len(cells(table)) == np.ceil(sparsity * 256 * 256)
    assert ((table["x"] >= 0) & (table["x"] < 1) & (table["y"] >= 0) & (table["y"] < 1)).all()
    points_each = np.bincount(table["person"])
    assert len(points_each) == 200
    assert np.ptp(points_each) <= 1


def test_a_denser_sample_is_the_same_mixture_with_more_points():
    few, many = mixture(sparsity=0.02, seed=5), mixture(sparsity=0.1, seed=5)
    assert np.array_equal(few["x"], many["x"][: len(few["x"])])


def test_the_seed_decides():
    one, same, other = (mixture(sparsity=0.02, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one["x"], same["x"])
    assert not np.array_equal(one["x"][:100], other["x"][:100])


def test_few_narrow_clusters_are_found_again():
    from heathaze.release.centers import cost, k_median

    table = mixture(clusters=3, sparsity=0.02, spread=(0.01, 0.015), seed=11)
    points = np.column_stack([table["x"], table["y"]])
    weights = np.ones(len(points))
    # Mean ℓ1 distance to the centre of a Gaussian of standard deviation s is 2·s·√(2/π) ≈ 1.6 s.
    assert cost(points, weights, k_median(points, weights, 3)) < 1.7 * 0.015
    assert cost(points, weights, k_median(points, weights, 2)) > 3 * 0.015


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"people": 0}, "people is 0"),
        ({"clusters": 0}, "clusters is 0"),
        ({"sparsity": 0.0}, "sparsity is 0.0"),
        ({"sparsity": 1.2}, "sparsity is 1.2"),
        ({"spread": (0.1, 0.01)}, "spread is"),
        ({"people": 100_000, "sparsity": 0.01}, "leaves people without a point"),
        ({"clusters": 1, "sparsity": 0.9, "size": 64, "spread": (0.01, 0.01)}, "do not hit 90% of the cells"),
    ],
)
def test_refusals(arguments, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        mixture(**arguments, seed=1)
