"""The exact earth mover's distance: against a linear program over all pairs, known shifts, axioms of a metric."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, MissingExtra, TooLarge
from heathaze.metrics import emd

masses = hnp.arrays(np.float64, (3, 3), elements=st.floats(0, 10, allow_subnormal=False)).filter(
    lambda m: m.max() > 0.1
)
GRAIN = 9 * 2.0**-40  # what rounding to grains may cost on 3 × 3


def all_pairs(a, b):
    """EMD in cells by its definition: a linear program with one variable for each pair of cells."""
    p, q = np.ravel(a) / np.sum(a), np.ravel(b) / np.sum(b)
    cells = np.argwhere(np.ones(np.shape(a)))
    ground = np.abs(cells[:, None] - cells[None]).sum(axis=2)
    n = len(p)
    marginals = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return linprog(ground.ravel(), A_eq=marginals[:-1], b_eq=np.concatenate([p, q])[:-1]).fun


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (2, 3), (4, 4), (3, 6)])
def test_equals_the_linear_program(shape):
    rng = np.random.default_rng(shape[0] * 10 + shape[1])
    for _ in range(5):
        a, b = rng.random(shape) + 1e-3, rng.random(shape) * (rng.random(shape) < 0.5) + 1e-3
        assert emd(a, b, unit="cells") == pytest.approx(all_pairs(a, b), abs=1e-8)


@pytest.mark.parametrize(("down", "across"), [(0, 5), (7, 0), (3, 4), (15, 19)])
def test_a_point_moved_by_k_cells(down, across):
    a, b = np.zeros((16, 20)), np.zeros((16, 20))
    a[0, 0] = b[down, across] = 1
    assert emd(a, b, unit="cells") == down + across
    assert emd(a, b) == pytest.approx((down + across) / 20)  # the longer side is 1


def test_a_whole_map_moved():
    rng = np.random.default_rng(3)
    a = np.zeros((12, 12))
    a[:9, :9] = rng.random((9, 9))
    b = np.roll(a, (2, 3), axis=(0, 1))
    assert emd(a, b, unit="cells") == pytest.approx(5, abs=1e-9)


def test_units_do_not_depend_on_the_resolution():
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=8)
    west = Density.from_mass(grid, np.eye(1, 64, 0).reshape(8, 8))
    east = Density.from_mass(grid, np.eye(1, 64, 7).reshape(8, 8))
    assert emd(west, east) == 7 / 8
    assert emd(west.resample((16, 16)), east.resample((16, 16))) == pytest.approx(7 / 8, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(masses, masses, masses)
def test_axioms(a, b, c):
    assert emd(a, a) == 0
    assert emd(a, b) == emd(b, a)
    assert emd(a, c) <= emd(a, b) + emd(b, c) + GRAIN


@settings(deadline=None, max_examples=40)
@given(masses, masses)
def test_between_total_variation_and_the_diameter(a, b):
    moved = np.abs(a / a.sum() - b / b.sum()).sum() / 2
    assert moved - GRAIN <= emd(a, b, unit="cells") <= 4 * moved + GRAIN


def test_grains_sum_to_nothing_and_stay_close():
    from heathaze.metrics.emd import GRAINS, _supplies

    rng = np.random.default_rng(4)
    p, q = rng.random((7, 5)), rng.random((7, 5))
    difference = p / p.sum() - q / q.sum()
    grains = _supplies(difference)
    assert grains.sum() == 0
    assert np.abs(grains - difference * GRAINS).max() <= 1


def test_refusals():
    with pytest.raises(InvalidInput, match="There is no unit 'metres'; choose 'box'"):
        emd([[1]], [[1]], unit="metres")
    with pytest.raises(TooLarge, match="513 × 512 cells; resample"):
        emd(np.ones((513, 512)), np.ones((513, 512)))


def test_says_which_extra_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.graph.python", None)
    with pytest.raises(MissingExtra, match='the extra "eval"'):
        emd([[1, 0]], [[0, 1]])
