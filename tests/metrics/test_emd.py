"""The certified earth mover's distance: oracles, axioms, refusals. Certificates have their own file."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.ndimage import gaussian_filter
from scipy.optimize import linprog

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.metrics import Distance, emd
from heathaze.metrics.emd import MAX_STEPS
from tests.metrics.flow_oracle import GRAINS, exact_emd, supplies

masses = hnp.arrays(np.float64, (3, 4), elements=st.floats(0, 10, allow_subnormal=False)).filter(
    lambda m: m.max() > 0.1
)
metrics = st.sampled_from(["l1", "l2"])
ROUNDING = 1e-9  # of what is exact
SOLVER = 1e-6  # HiGHS lets every marginal be off by 1e-7


def all_pairs(a, b, metric):
    """W1 in the unit "box" by its definition: a linear program with one variable for each pair of cells."""
    p, q = np.ravel(a) / np.sum(a), np.ravel(b) / np.sum(b)
    cells = np.argwhere(np.ones(np.shape(a)))
    ground = np.linalg.norm(cells[:, None] - cells[None], ord=int(metric[1]), axis=2)
    n = len(p)
    marginals = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    program = linprog(ground.ravel(), A_eq=marginals[:-1], b_eq=np.concatenate([p, q])[:-1])
    return program.fun / max(np.shape(a))


def holds(distance, exact, tolerance=1e-3, slack=ROUNDING):
    """The exact value lies between the bounds, and they are as close as was asked for."""
    return distance.lower <= exact + slack and exact - slack <= distance.upper and distance.gap <= tolerance


@pytest.mark.parametrize("metric", ["l1", "l2"])
@pytest.mark.parametrize("shape", [(1, 7), (5, 1), (2, 3), (4, 4), (3, 6)])
def test_brackets_the_linear_program(shape, metric):
    rng = np.random.default_rng(shape[0] * 10 + shape[1])
    for tolerance in (1e-2, 1e-3, 1e-6):
        a, b = rng.random(shape) + 1e-3, rng.random(shape) * (rng.random(shape) < 0.5) + 1e-3
        assert holds(emd(a, b, metric=metric, tolerance=tolerance), all_pairs(a, b, metric), tolerance, SOLVER)


@settings(deadline=None, max_examples=50)
@given(masses, masses, metrics)
def test_brackets_the_linear_program_whatever_the_maps(a, b, metric):
    assert holds(emd(a, b, metric=metric), all_pairs(a, b, metric), slack=SOLVER)


def people(rng, shape, count=300):
    mass = np.zeros(shape)
    place = np.clip(rng.normal(0.5, 0.2, (count, 2)), 0, 0.9999) * shape
    np.add.at(mass, tuple(place.astype(int).T), 1.0)
    return mass


PAIRS = {
    "smooth": lambda a, b: (gaussian_filter(a, 1.5), gaussian_filter(b, 1.5)),
    "points": lambda a, b: (a, b),
    "flat": lambda a, b: (a, np.ones_like(b)),
    "corner": lambda a, _: (a, np.eye(1, a.size).reshape(a.shape)),
    "checker": lambda a, _: (np.indices(a.shape).sum(0) % 2, 1 - np.indices(a.shape).sum(0) % 2),
    "halves": lambda a, _: (a * (np.arange(a.shape[1]) < 10), np.roll(a * (np.arange(a.shape[1]) < 10), 10, axis=1)),
}


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("shape", [(32, 32), (20, 45)])
def test_brackets_ortools(kind, shape):
    rng = np.random.default_rng(5)
    a, b = PAIRS[kind](people(rng, shape), people(rng, shape))
    assert holds(emd(a, b), exact_emd(a, b))


@pytest.mark.parametrize("kind", PAIRS)
def test_brackets_pot_with_the_euclidean_metric(kind):
    from heathaze.metrics import w1

    rng = np.random.default_rng(6)
    a, b = PAIRS[kind](people(rng, (22, 26)), people(rng, (22, 26)))
    distance = emd(a, b, metric="l2")
    # POT works to about 1e-8.
    assert distance.lower <= w1(a, b) + 1e-7
    assert w1(a, b) - 1e-7 <= distance.upper
    assert distance.gap <= 1e-3


@pytest.mark.parametrize("metric", ["l1", "l2"])
@pytest.mark.parametrize(("down", "across"), [(0, 5), (7, 0), (3, 4), (63, 79), (40, 1)])
def test_a_point_moved(down, across, metric):
    a, b = np.zeros((64, 80)), np.zeros((64, 80))
    a[0, 0] = b[down, across] = 1
    far = down + across if metric == "l1" else math.hypot(down, across)
    assert holds(emd(a, b, metric=metric), far / 80)
    in_cells = emd(a, b, metric=metric, unit="cells")
    assert holds(in_cells, far, tolerance=80e-3)


@pytest.mark.parametrize("metric", ["l1", "l2"])
def test_points_without_blur_moved_together(metric):
    # A shift by one vector is a translation, which is optimal for every norm.
    rng = np.random.default_rng(3)
    a = np.zeros((96, 128))
    a[rng.integers(0, 80, 40), rng.integers(0, 100, 40)] = rng.random(40)
    b = np.roll(a, (15, 20), axis=(0, 1))
    assert holds(emd(a, b, metric=metric), (35 if metric == "l1" else 25) / 128)


@pytest.mark.parametrize("metric", ["l1", "l2"])
def test_a_large_heat_map_moved(metric):
    rng = np.random.default_rng(8)
    a = np.zeros((192, 256))
    a[20:120, 20:200] = people(rng, (100, 180), 1000)
    a = gaussian_filter(a, 3)
    b = np.roll(a, (12, 16), axis=(0, 1))
    assert holds(emd(a, b, metric=metric), (28 if metric == "l1" else 20) / 256)


def test_a_tight_tolerance_on_a_small_map():
    rng = np.random.default_rng(9)
    a, b = rng.random((12, 16)), rng.random((12, 16))
    assert holds(emd(a, b, tolerance=1e-8), exact_emd(a, b), 1e-8)
    assert emd(a, b, metric="l2", tolerance=1e-8).gap <= 1e-8


def test_gives_up_with_bounds_that_are_still_true():
    # More than 2^18 pairs, so there is nothing but the flow, and no flow in float64 gets to 1e-15.
    rng = np.random.default_rng(10)
    a, b = rng.random((36, 36)), rng.random((36, 36))
    distance = emd(a, b, tolerance=1e-15)
    assert distance.steps == MAX_STEPS["l1"]
    assert distance.lower <= exact_emd(a, b) + ROUNDING
    assert exact_emd(a, b) - ROUNDING <= distance.upper <= distance.lower + 1e-3


def test_units_do_not_depend_on_the_resolution():
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=8)
    west = Density.from_mass(grid, np.eye(1, 64, 0).reshape(8, 8))
    east = Density.from_mass(grid, np.eye(1, 64, 7).reshape(8, 8))
    assert holds(emd(west, east), 7 / 8)
    assert holds(emd(west.resample((16, 16)), east.resample((16, 16))), 7 / 8)


@settings(deadline=None, max_examples=40)
@given(masses, masses, masses, metrics)
def test_axioms(a, b, c, metric):
    ab, bc, ac = emd(a, b, metric=metric), emd(b, c, metric=metric), emd(a, c, metric=metric)
    assert emd(a, a, metric=metric) == Distance(0.0, 0.0, 0)
    assert ab == emd(b, a, metric=metric)
    assert 0 <= ab.lower <= ab.upper
    assert ac.lower <= ab.upper + bc.upper
    assert emd(3 * a, a, metric=metric).upper <= 1e-12


@settings(deadline=None, max_examples=40)
@given(masses, masses)
def test_order(a, b):
    moved = np.abs(a / a.sum() - b / b.sum()).sum() / 2
    one, two = emd(a, b, unit="cells"), emd(a, b, metric="l2", unit="cells")
    assert moved - ROUNDING <= two.upper
    assert two.lower <= one.upper
    assert one.lower <= math.sqrt(2) * two.upper
    assert one.lower <= 5 * moved + ROUNDING


@pytest.mark.parametrize("tiny", [5e-324, 1e-300, 1e-17, 1e-13, 1e-9])
def test_maps_that_hardly_differ(tiny):
    a, b = np.array([[1.0, 0.0, 0.0]]), np.array([[1.0, 0.0, tiny]])
    assert holds(emd(a, b), 2 * tiny / 3, 1e-12)
    assert emd(a, b, tolerance=1e-300, metric="l2").gap <= 1e-12


def test_the_oracle_rounds_to_grains_that_sum_to_nothing():
    rng = np.random.default_rng(4)
    p, q = rng.random((7, 5)), rng.random((7, 5))
    difference = p / p.sum() - q / q.sum()
    grains = supplies(difference)
    assert grains.sum() == 0
    assert np.abs(grains - difference * GRAINS).max() <= 1


def test_the_oracle_equals_the_linear_program():
    rng = np.random.default_rng(11)
    a, b = rng.random((4, 5)), rng.random((4, 5))
    assert exact_emd(a, b) == pytest.approx(all_pairs(a, b, "l1"), abs=SOLVER)


def test_a_distance_is_a_number_with_bounds():
    distance = Distance(lower=0.25, upper=0.75, steps=7)
    assert float(distance) == 0.5
    assert distance.gap == 0.5
    assert f"{distance:.1f}" == "0.5"
    assert str(distance) == f"{distance}" == "0.5 (between 0.25 and 0.75)"
    assert repr(distance) == "Distance(lower=0.25, upper=0.75, steps=7)"
    with pytest.raises(AttributeError):
        distance.lower = 0.0


def test_needs_neither_ortools_nor_pot(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.graph.python", None)
    monkeypatch.setitem(sys.modules, "ot.lp", None)
    assert holds(emd([[1, 0]], [[0, 1]]), 0.5)
    assert holds(emd([[1, 0]], [[0, 1]], metric="l2"), 0.5)


def test_refusals():
    with pytest.raises(InvalidInput, match="There is no unit 'metres'; choose 'box'"):
        emd([[1]], [[1]], unit="metres")
    with pytest.raises(InvalidInput, match="There is no ground metric 'l3'; choose 'l1' or 'l2'"):
        emd([[1]], [[1]], metric="l3")
    for wrong in (0, -1e-3, math.nan, math.inf, "small"):
        with pytest.raises(InvalidInput, match=r"The tolerance is .*; give a positive number, such as 1e-3"):
            emd([[1]], [[1]], tolerance=wrong)
    with pytest.raises(TooLarge, match="1025 × 1024 cells; resample them to at most 1024 × 1024"):
        emd(np.ones((1025, 1024)), np.ones((1025, 1024)), metric="l2")
