"""SIM, CC, KL, TV: by hand, against scipy, and their axioms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import rel_entr
from scipy.stats import pearsonr

from heathaze.metrics import kl, l1, pearson, similarity, total_variation

maps = hnp.arrays(np.float64, (3, 4), elements=st.floats(0, 100, allow_subnormal=False)).filter(
    lambda m: m.max() > 1e-3
)


@settings(deadline=None, max_examples=60)
@given(maps, maps)
def test_similarity_is_one_minus_total_variation(a, b):
    assert similarity(a, b) == pytest.approx(1 - total_variation(a, b), abs=1e-12)
    assert similarity(a, b) == similarity(b, a)
    assert -1e-12 <= similarity(a, b) <= 1 + 1e-12
    assert total_variation(a, b) == pytest.approx(l1(a, b) / 2, abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(maps, maps, maps)
def test_total_variation_is_a_metric(a, b, c):
    assert total_variation(a, a) == 0
    assert total_variation(a, c) <= total_variation(a, b) + total_variation(b, c) + 1e-12


@settings(deadline=None, max_examples=60)
@given(maps, maps)
def test_kl_is_not_negative_and_bounds_total_variation(a, b):
    assert kl(a, a) == pytest.approx(0, abs=1e-9)
    # Pinsker's inequality: TV ≤ √(KL/2).
    assert total_variation(a, b) <= math.sqrt(kl(a, b) / 2) + 1e-6


def test_kl_against_scipy_where_there_are_no_zeros():
    rng = np.random.default_rng(1)
    p, q = rng.random((8, 8)) + 0.01, rng.random((8, 8)) + 0.01
    exact = rel_entr(p / p.sum(), q / q.sum()).sum()
    assert kl(p, q) == pytest.approx(exact, rel=1e-9)
    assert kl(q, p) != pytest.approx(exact, rel=1e-3)


def test_kl_prices_missing_mass_with_the_benchmark_s_regulariser():
    # Half of the truth lies where nothing was estimated: ½ ln(½/1) + ½ ln(½/2^−52).
    assert kl([[1, 1]], [[1, 0]]) == pytest.approx(0.5 * math.log(0.5) + 0.5 * math.log(0.5 * 2**52), rel=1e-9)
    # The other way round costs ln 2 only.
    assert kl([[1, 0]], [[1, 1]]) == pytest.approx(math.log(2), rel=1e-9)


def test_pearson_against_scipy():
    rng = np.random.default_rng(2)
    a, b = rng.random((6, 9)), rng.random((6, 9))
    assert pearson(a, b) == pytest.approx(pearsonr(a.ravel(), b.ravel()).statistic, abs=1e-12)


def test_pearson_of_a_map_without_relief_is_zero():
    relief = np.arange(12.0).reshape(3, 4)
    assert pearson(np.full((3, 4), 0.1), relief) == 0
    assert pearson(relief, np.ones((3, 4))) == 0


def test_pearson_is_exact_for_tiny_and_huge_relief():
    relief = np.arange(12.0).reshape(3, 4)
    assert pearson(relief, 1e6 + relief) == pytest.approx(1, abs=1e-6)
    assert pearson(relief * 1e-200, relief * 1e200) == pytest.approx(1, abs=1e-12)


def test_disjoint_maps():
    a, b = [[1, 0], [0, 0]], [[0, 0], [0, 1]]
    assert similarity(a, b) == 0
    assert total_variation(a, b) == 1
    assert kl(a, b) == pytest.approx(52 * math.log(2), rel=1e-9)
