"""Sliced Wasserstein: against POT, known shifts, and below W1 and W2."""

import math

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.metrics import sliced, w1, w2


def some_maps(shape=(9, 13)):
    rng = np.random.default_rng(1)
    return rng.random(shape), rng.random(shape) * (rng.random(shape) < 0.4) + 1e-9


@pytest.mark.parametrize("order", [1, 2])
def test_equals_pot(order):
    from heathaze.metrics.wasserstein import network_simplex

    network_simplex()  # imports POT without its warnings
    import ot

    a, b = some_maps()
    cells = np.argwhere(np.ones(a.shape)).astype(float)
    angles = np.pi * (np.arange(20) + 0.5) / 20
    powers = [
        ot.emd2_1d(
            cells @ [math.sin(angle), math.cos(angle)],
            cells @ [math.sin(angle), math.cos(angle)],
            a.ravel() / a.sum(),
            b.ravel() / b.sum(),
            metric="minkowski",
            p=order,
        )
        for angle in angles
    ]
    expected = np.mean(powers) ** (1 / order)
    assert sliced(a, b, order=order, directions=20, unit="cells") == pytest.approx(expected, rel=1e-9)
    assert sliced(a, b, order=order, directions=20) == pytest.approx(expected / 13, rel=1e-9)


def test_a_shift():
    a = np.zeros((10, 10))
    a[1:4, 2:6] = np.random.default_rng(2).random((3, 4))
    b = np.roll(a, (3, 4), axis=(0, 1))
    # The mean of |cos| is 2/π and that of cos² is ½.
    assert sliced(a, b, directions=400, unit="cells") == pytest.approx(5 * 2 / np.pi, rel=1e-4)
    assert sliced(a, b, order=2, unit="cells") == pytest.approx(5 / math.sqrt(2), rel=1e-9)


def test_below_wasserstein_and_symmetric():
    a, b = some_maps()
    assert 0 < sliced(a, b) <= w1(a, b)
    assert 0 < sliced(a, b, order=2) <= w2(a, b)
    assert sliced(a, b, order=2) == pytest.approx(sliced(b, a, order=2), rel=1e-12)
    assert sliced(a, a) == sliced(a, a, order=2) == 0


def test_refusals():
    with pytest.raises(InvalidInput, match="There is no unit 'km'"):
        sliced([[1]], [[1]], unit="km")
    with pytest.raises(InvalidInput, match="The order is 3; choose 1 or 2"):
        sliced([[1]], [[1]], order=3)
    with pytest.raises(InvalidInput, match="directions is 0; give the number of angles, a whole number"):
        sliced([[1]], [[1]], directions=0)
