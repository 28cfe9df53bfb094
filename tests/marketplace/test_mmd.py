"""The maximum mean discrepancy, against its definition and against its limits."""

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.marketplace import mmd, mmd_squared


def by_definition(one, other, gamma):
    """Equation 1, pair by pair."""

    def mean(x, y):
        return np.mean([[np.exp(-gamma * np.sum((a - b) ** 2)) for b in y] for a in x])

    return mean(one, one) - 2 * mean(one, other) + mean(other, other)


@pytest.mark.parametrize("block", [1, 7, 40, 2**20])
def test_equals_its_definition_in_blocks_of_any_size(monkeypatch, block):
    monkeypatch.setattr(mmd, "BLOCK", block)
    rng = np.random.default_rng(1)
    for columns in (1, 3):
        one, other = rng.normal(size=(13, columns)), rng.normal(0.5, 1, (20, columns))
        expected = by_definition(one, other, 0.4)
        assert mmd_squared(one, other, 0.4) == pytest.approx(expected, abs=1e-14)
        assert mmd_squared(other, one, 0.4) == pytest.approx(expected, abs=1e-14)


def test_an_offset_costs_no_digits():
    rng = np.random.default_rng(2)
    one, other = rng.integers(0, 2**20, (30, 4)) / 2**20, rng.integers(0, 2**20, (20, 4)) / 2**20
    # Whole multiples of 2^-20 up to 2^30 are floats, so these are the same distances.
    assert mmd_squared(one + 2**30, other + 2**30, 2.0) == pytest.approx(mmd_squared(one, other, 2.0), abs=1e-12)


def test_known_values():
    assert mmd_squared([[1.0, 2.0]], [[1.0, 2.0]] * 5, 3) == 0
    # One point on two that are far apart: 1 − 2 · 1/2 + 1/2.
    assert mmd_squared([[0.0]], [[0.0], [1e6]], 1) == pytest.approx(0.5)
    assert mmd_squared([[-1e149]], [[1e149]], 1) == 2


def test_a_sample_comes_nearer_as_it_grows():
    rng = np.random.default_rng(3)
    for m in (10, 100):
        found = [mmd_squared(rng.normal(size=(200, 2)), rng.normal(size=(m, 2)), 0.5) for _ in range(400)]
        # E MMD² of two samples of one distribution is (1 − E k)(1/m + 1/n), with E k = 1/(1 + 4γ) in two dimensions.
        expected = (2 / 3) * (1 / m + 1 / 200)
        assert abs(np.mean(found) - expected) < 5 * np.std(found) / 20


@pytest.mark.parametrize(
    ("truth", "estimate", "gamma", "sentence"),
    [
        ([[1.0, 2.0]], [[1.0]], 1, "Points of the truth have 2 columns, points of the estimate have 1; give tables"),
        ([1.0], [[1.0]], 1, r"The truth has shape \(1,\); give a table with one row for each point"),
        ([[1.0]], np.ones((0, 1)), 1, r"The estimate has shape \(0, 1\)"),
        ([[1.0]], [[np.nan]], 1, "The estimate holds a number that is NaN, infinite or larger than 1e"),
        ([[1e200]], [[1.0]], 1, "The truth holds a number that is NaN, infinite or larger than 1e"),
        ([["a"]], [[1.0]], 1, "The truth is not a table of numbers"),
        ([[1.0]], [[1.0]], 0, "gamma is 0; give the kernel's γ, a positive number"),
        ([[1.0]], [[1.0]], np.inf, "gamma is inf"),
        ([[1.0]], [[1.0]], "much", "gamma is 'much'"),
    ],
)
def test_refuses(truth, estimate, gamma, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        mmd_squared(truth, estimate, gamma)
