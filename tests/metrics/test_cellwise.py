"""MSE, L1, MAPE, sMAPE, MAAPE: worked examples with zeros in every place."""

import math

import numpy as np
import pytest

from heathaze.metrics import l1, maape, mape, mse, smape

TRUTH = np.array([[2.0, 2.0], [4.0, 0.0]])  # ¼ ¼ ½ 0
ESTIMATE = np.array([[1.0, 3.0], [0.0, 4.0]])  # ⅛ ⅜ 0 ½


def test_by_hand():
    assert mse(TRUTH, ESTIMATE) == pytest.approx((1 / 64 + 1 / 64 + 1 / 4 + 1 / 4) / 4)
    assert l1(TRUTH, ESTIMATE) == pytest.approx(1 / 8 + 1 / 8 + 1 / 2 + 1 / 2)
    # A cell without truth is divided by the smallest positive truth, ¼.
    assert mape(TRUTH, ESTIMATE) == pytest.approx((1 / 2 + 1 / 2 + 1 + 2) / 4)
    assert smape(TRUTH, ESTIMATE) == pytest.approx((2 / 3 + 2 / 5 + 2 + 2) / 4)
    assert maape(TRUTH, ESTIMATE) == pytest.approx((2 * math.atan(1 / 2) + math.atan(1) + math.pi / 2) / 4)


@pytest.mark.parametrize("metric", [mse, l1, mape, smape, maape])
def test_nothing_is_wrong_with_the_truth(metric):
    assert metric(TRUTH, 7 * TRUTH) == 0


@pytest.mark.parametrize("metric", [mse, l1, smape])
def test_symmetric(metric):
    assert metric(TRUTH, ESTIMATE) == metric(ESTIMATE, TRUTH)


@pytest.mark.parametrize("metric", [mape, maape])
def test_relative_to_the_truth(metric):
    truth, estimate = [[3, 1]], [[1, 1]]
    assert metric(truth, estimate) != pytest.approx(metric(estimate, truth))


def test_smape_counts_cells_empty_in_both_as_right():
    assert smape([[1, 0, 0]], [[1, 0, 0]]) == 0
    assert smape([[1, 0, 0]], [[0, 0, 1]]) == pytest.approx(4 / 3)
