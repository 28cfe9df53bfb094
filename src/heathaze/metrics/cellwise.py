"""Errors cell by cell, of densities that sum to 1 (section 6 and table 3 of the paper on distributed heat maps)."""

from __future__ import annotations

import numpy as np

from heathaze.metrics.pair import Map, pair
from heathaze.types import Floats


def mse(truth: Map, estimate: Map) -> float:
    """Mean squared error: (1/cells) Σ (p_i − q_i)².

    >>> mse([[1, 1]], [[1, 0]])
    0.25
    """
    p, q = pair(truth, estimate)
    return float(((p - q) ** 2).mean())


def l1(truth: Map, estimate: Map) -> float:
    """Sum of absolute errors, Σ |p_i − q_i|: twice the total variation, 0 to 2.

    >>> l1([[1, 1]], [[1, 0]])
    1.0
    """
    p, q = pair(truth, estimate)
    return float(np.abs(p - q).sum())


def mape(truth: Map, estimate: Map) -> float:
    """Mean absolute percentage error as a fraction: (1/cells) Σ |p_i − q_i| / p_i.

    A cell without truth is divided by the smallest positive truth, as in the paper on distributed heat maps.

    >>> mape([[3, 1]], [[1, 1]])  # |0.75 − 0.5| / 0.75 and |0.25 − 0.5| / 0.25
    0.6666666666666666
    """
    p, q = pair(truth, estimate)
    return float(_percentage(p, q).mean())


def smape(truth: Map, estimate: Map) -> float:
    """Symmetric percentage error as a fraction: (1/cells) Σ |p_i − q_i| / ((p_i + q_i)/2), 0 to 2; 0/0 counts as 0.

    >>> smape([[1, 0]], [[0, 1]])
    2.0
    """
    p, q = pair(truth, estimate)
    total = p + q
    held = total > 0
    shares = np.zeros_like(total)
    shares[held] = 2 * (np.abs(p - q)[held] / total[held])
    return float(shares.mean())


def maape(truth: Map, estimate: Map) -> float:
    """Mean arctangent of the percentage error: (1/cells) Σ arctan(|p_i − q_i| / p_i), 0 to π/2.

    The angle stays finite where the truth is 0: π/2 when the estimate is not, 0 when it is (Kim and Kim, Int. J. of
    Forecasting 32(3), 2016).

    >>> round(maape([[1, 0]], [[1, 1]]) / np.pi, 6)  # arctan(1/2) and π/2, halved
    0.323792
    """
    p, q = pair(truth, estimate)
    return float(np.arctan2(np.abs(p - q), p).mean())


def _percentage(p: Floats, q: Floats) -> Floats:
    difference = np.abs(p - q)
    return np.asarray(difference / np.where(p > 0, p, p[p > 0].min()), dtype=np.float64)
