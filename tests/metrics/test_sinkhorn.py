"""Entropic W2: against POT's plan, against exact W2, and what debiasing does."""

import math

import numpy as np
import pytest

from heathaze.errors import InvalidInput, TooLarge
from heathaze.metrics import sinkhorn_w2, w2
from heathaze.metrics.wasserstein import _logsumexp


def some_maps(shape):
    rng = np.random.default_rng(sum(shape))
    return rng.random(shape), rng.random(shape) * (rng.random(shape) < 0.5) + 1e-6


def entropic_by_pot(a, b, epsilon):
    """Σ γ‖x − y‖² + ε KL(γ ‖ p ⊗ q) of POT's plan, in cells²."""
    from heathaze.metrics.wasserstein import network_simplex

    network_simplex()  # imports POT without its warnings
    import ot

    p, q = a.ravel() / a.sum(), b.ravel() / b.sum()
    cells = np.argwhere(np.ones(a.shape)).astype(float)
    cost = ((cells[:, None] - cells[None]) ** 2).sum(axis=2)
    plan = ot.sinkhorn(p, q, cost, epsilon, method="sinkhorn_log", stopThr=1e-8, numItermax=20_000)
    relative = plan * np.log(np.maximum(plan, 1e-300) / (p[:, None] * q[None]))
    return float((plan * cost).sum() + epsilon * relative.sum())


@pytest.mark.parametrize("shape", [(6, 6), (5, 9), (1, 8), (12, 10)])
def test_equals_pot(shape):
    a, b = some_maps(shape)
    blur = 0.15
    epsilon = (blur * max(shape)) ** 2
    ab, aa, bb = (entropic_by_pot(*pair, epsilon) for pair in ((a, b), (a, a), (b, b)))
    biased = sinkhorn_w2(a, b, blur=blur, debiased=False, tolerance=1e-7, unit="cells")
    assert biased**2 == pytest.approx(ab, rel=1e-5)
    found = sinkhorn_w2(a, b, blur=blur, tolerance=1e-7, unit="cells")
    assert found**2 == pytest.approx(ab - (aa + bb) / 2, rel=1e-4)
    assert sinkhorn_w2(a, b, blur=blur, tolerance=1e-7) == pytest.approx(found / max(shape))


def test_approaches_w2():
    a, b = some_maps((12, 12))
    exact = w2(a, b)
    errors = [abs(sinkhorn_w2(a, b, blur=blur, tolerance=1e-4) - exact) for blur in (0.2, 0.08, 0.03)]
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.05 * exact


def test_a_shift_is_exact_and_debiasing_makes_it_so():
    a = np.zeros((32, 32))
    a[3:12, 5:12] = np.random.default_rng(3).random((9, 7))
    b = np.roll(a, (6, 8), axis=(0, 1))
    assert sinkhorn_w2(a, b, unit="cells", blur=0.05, tolerance=1e-4) == pytest.approx(10, rel=1e-3)
    assert sinkhorn_w2(a, a) == 0
    assert sinkhorn_w2(a, a, debiased=False) > 0
    assert sinkhorn_w2(a, b) == pytest.approx(sinkhorn_w2(b, a), rel=1e-3)


def test_far_points_do_not_underflow():
    a, b = np.zeros((64, 64)), np.zeros((64, 64))
    a[0, 0] = b[63, 63] = 1
    assert sinkhorn_w2(a, b, blur=0.005, unit="cells") == pytest.approx(63 * math.sqrt(2), rel=1e-9)


def test_log_sums_agree_where_products_underflow():
    rng = np.random.default_rng(4)
    h = rng.normal(scale=300, size=(5, 40))
    h[2, 7:] = -np.inf
    h[4] = -np.inf
    j = np.arange(40)
    terms = h[:, None, :] - 3.0 * (j[:, None] - j[None, :]) ** 2
    assert np.allclose(_logsumexp(h, 3.0), np.logaddexp.reduce(terms, axis=2), rtol=1e-12)


def test_refusals():
    with pytest.raises(InvalidInput, match="There is no unit 'km'"):
        sinkhorn_w2([[1]], [[1]], unit="km")
    with pytest.raises(InvalidInput, match="The blur is 0; give a positive number"):
        sinkhorn_w2([[1]], [[1]], blur=0)
    with pytest.raises(InvalidInput, match="The tolerance is nan; give a positive number"):
        sinkhorn_w2([[1]], [[1]], tolerance=math.nan)
    with pytest.raises(TooLarge, match="1025 × 1024 cells; resample"):
        sinkhorn_w2(np.ones((1025, 1024)), np.ones((1025, 1024)))
