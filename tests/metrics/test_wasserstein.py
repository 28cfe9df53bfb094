"""W1 and W2: against a linear program, known shifts, and how they relate."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog

from heathaze.errors import InvalidInput, MissingExtra, TooLarge
from heathaze.metrics import emd, w1, w2

masses = hnp.arrays(np.float64, (3, 3), elements=st.floats(0, 10, allow_subnormal=False)).filter(
    lambda m: m.max() > 0.1
)


def all_pairs(a, b, power):
    p, q = np.ravel(a) / np.sum(a), np.ravel(b) / np.sum(b)
    cells = np.argwhere(np.ones(np.shape(a)))
    ground = np.sqrt(((cells[:, None] - cells[None]) ** 2).sum(axis=2)) ** power
    n = len(p)
    marginals = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return linprog(ground.ravel(), A_eq=marginals[:-1], b_eq=np.concatenate([p, q])[:-1]).fun ** (1 / power)


@pytest.mark.parametrize("shape", [(1, 6), (3, 3), (4, 5)])
def test_equals_the_linear_program(shape):
    rng = np.random.default_rng(sum(shape))
    a, b = rng.random(shape), rng.random(shape) * (rng.random(shape) < 0.6) + 1e-4
    assert w1(a, b, unit="cells") == pytest.approx(all_pairs(a, b, 1), abs=1e-7)
    assert w2(a, b, unit="cells") == pytest.approx(all_pairs(a, b, 2), abs=1e-6)


def test_a_point_moved_by_three_and_four_cells():
    a, b = np.zeros((5, 10)), np.zeros((5, 10))
    a[0, 0] = b[3, 4] = 1
    assert w1(a, b, unit="cells") == pytest.approx(5)
    assert w2(a, b, unit="cells") == pytest.approx(5)
    assert w1(a, b) == pytest.approx(5 / 10)
    assert float(emd(a, b, unit="cells")) == pytest.approx(7, abs=1e-2)


def test_w2_has_its_root():
    # Half the mass moves by 2: W1 = 1, W2 = √2 (errata E1-9).
    a, b = [[1, 1, 0]], [[0, 1, 1]]
    assert w1(a, b, unit="cells") == pytest.approx(1)
    assert w2(a, b, unit="cells") == pytest.approx(1)  # two steps of one are cheaper than one of two
    assert w2([[1, 0, 1, 0, 0]], [[0, 0, 1, 0, 1]], unit="cells") == pytest.approx(2)
    assert w2([[3, 0, 1]], [[1, 0, 3]], unit="cells") == pytest.approx(math.sqrt(2))


@settings(deadline=None, max_examples=30)
@given(masses, masses, masses)
def test_axioms(a, b, c):
    for distance in (w1, w2):
        # POT works to 1e-8 or so on the squared distance, hence the tolerances.
        assert distance(a, a) <= 1e-4
        assert distance(a, b) == pytest.approx(distance(b, a), abs=1e-4)
        assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-4


@settings(deadline=None, max_examples=30)
@given(masses, masses)
def test_order(a, b):
    # ‖·‖₂ ≤ ‖·‖₁ ≤ √2 ‖·‖₂, and W1 ≤ W2.
    assert w1(a, b) <= emd(a, b).upper + 1e-6
    assert emd(a, b).lower <= math.sqrt(2) * w1(a, b) + 1e-6
    assert w1(a, b) <= w2(a, b) + 1e-4


def test_refusals():
    with pytest.raises(InvalidInput, match="There is no unit 'km'"):
        w1([[1]], [[1]], unit="km")
    with pytest.raises(TooLarge, match="resample them to at most 64 × 64, or use emd"):
        w2(np.ones((80, 80)), np.ones((80, 80)))


def test_says_which_extra_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot.lp", None)
    with pytest.raises(MissingExtra, match='the extra "eval"'):
        w1([[1, 0]], [[0, 1]])
