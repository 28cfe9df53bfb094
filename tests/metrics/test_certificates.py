"""The bounds behind emd, checked by code that shares nothing with them; and broken certificates, which it finds."""

import math
from fractions import Fraction

import numpy as np
import pytest

from heathaze.metrics import _certificates as certificates
from heathaze.metrics import sparse_transport
from heathaze.metrics._beckmann import Beckmann, level
from heathaze.metrics._kernels import carry
from tests.metrics.flow_oracle import exact_emd

SHAPE = (14, 17)


@pytest.fixture(scope="module")
def f():
    """p − q for two random maps, with Σ |f| = 2."""
    rng = np.random.default_rng(1)
    p, q = rng.random(SHAPE) ** 3, rng.random(SHAPE) ** 3
    difference = p / p.sum() - q / q.sum()
    return difference * (2 / np.abs(difference).sum())


@pytest.fixture(scope="module")
def exact(f):
    """EMD in cells."""
    return exact_emd(np.maximum(f, 0), np.maximum(-f, 0)) * max(SHAPE)


def guess(f, metric, steps=60):
    flow = Beckmann(f, metric, np.float64)
    flow.advance(steps)
    return flow.guess()


def is_feasible(f, right, down):
    """Every cell's outflow less its inflow is f, to 1e-12, in a loop that anybody can read."""
    rows, cols = f.shape
    for i in range(rows):
        for j in range(cols):
            out = (right[i, j] if j + 1 < cols else 0) + (down[i, j] if i + 1 < rows else 0)
            into = (right[i, j - 1] if j else 0) + (down[i - 1, j] if i else 0)
            if abs(out - into - f[i, j]) > 1e-12:
                return False
    return True


def is_lipschitz(potential, power):
    """|φ(x) − φ(y)| ≤ ‖x − y‖ for all pairs of cells, in exact arithmetic."""
    cells = np.argwhere(np.ones(potential.shape)).tolist()
    values = [[Fraction(value) for value in row] for row in potential.tolist()]
    for place, (i, j) in enumerate(cells):
        for k, m in cells[:place]:
            rise = abs(values[i][j] - values[k][m])
            if power == 1 and rise > abs(i - k) + abs(j - m):
                return False
            if power == 2 and rise**2 > (i - k) ** 2 + (j - m) ** 2:
                return False
    return True


def test_the_flow_is_feasible_and_its_cost_is_the_bound(f, exact):
    right, down, _ = guess(f, "l1")
    assert is_feasible(f, right, down)
    cost = np.abs(right[:, :-1]).sum() + np.abs(down[:-1]).sum()
    bound = certificates.upper_by_flow(f, right, down, blur=0.0)
    assert cost <= bound <= cost + 1e-9
    assert exact <= bound + 1e-9


def test_a_flow_with_a_hole_is_found_and_paid_for(f, exact):
    right, down, _ = guess(f, "l1", 400)
    i, j = np.unravel_index(np.argmax(np.abs(right)), SHAPE)
    hole = abs(right[i, j])
    right[i, j] = 0.0
    assert not is_feasible(f, right, down)
    cheated = np.abs(right[:, :-1]).sum() + np.abs(down[:-1]).sum()
    assert cheated < exact  # believing it would break the bound
    assert certificates.upper_by_flow(f, right, down, blur=0.0) >= exact
    assert certificates.upper_by_flow(f, right, down, blur=0.0) >= cheated + hole


@pytest.mark.parametrize(("metric", "power"), [("l1", 1), ("l2", 2)])
def test_the_potential_is_lipschitz_and_its_value_is_the_bound(f, metric, power):
    phi = guess(f, metric).potential
    lower = certificates.lower_l1(f, phi, 0.0) if metric == "l1" else certificates.lower_l2(f, phi, 0.0, radius=5)
    potential = lower.grains / certificates.GRAIN / lower.stretch
    shrunk = potential * (1 - 1e-12) if metric == "l2" else potential  # the division by the stretch rounds
    assert is_lipschitz(shrunk, power)
    assert not is_lipschitz(1.01 * potential, power)
    value = float((f * potential).sum())
    assert value - 1e-9 <= lower.value <= value
    assert lower.value > 0


@pytest.mark.parametrize("scale", [1.01, 3.0])
def test_a_potential_that_is_too_steep_is_found_and_flattened(f, exact, scale):
    phi = guess(f, "l1", 400).potential
    good = certificates.lower_l1(f, phi, 0.0)
    steep = np.rint(good.grains * scale).astype(np.int64)
    claimed = float((f * steep).sum()) / certificates.GRAIN
    assert claimed > exact  # believing it would break the bound
    assert certificates.value_l1(f, steep, 0.0).value <= exact
    assert certificates.value_l1(f, steep, 0.0).stretch == pytest.approx(scale, rel=1e-3)
    flat = certificates.lower_l2(f, guess(f, "l2").potential, 0.0, 16)
    again = certificates.value_l2(f, np.rint(flat.grains * scale).astype(np.int64), 0.0, 16)
    assert again.value == pytest.approx(flat.value, rel=1e-3)
    assert again.stretch >= scale * 0.999


@pytest.mark.parametrize("nonsense", [np.zeros(SHAPE), np.full(SHAPE, 1e300), np.indices(SHAPE).sum(0) ** 3.0])
def test_no_guess_breaks_a_lower_bound(f, exact, nonsense):
    assert certificates.lower_l1(f, nonsense, 0.0).value <= exact + 1e-9
    assert certificates.lower_l2(f, nonsense, 0.0, 4).value <= exact + 1e-9


def test_blur_widens_both(f):
    right, down, phi = guess(f, "l1")
    far = certificates.diameter(SHAPE, "l1")
    wide = certificates.upper_by_flow(f, right, down, 1e-3) - certificates.upper_by_flow(f, right, down, 0.0)
    assert wide == pytest.approx(far * 1e-3)
    assert certificates.lower_l1(f, phi, 0.0).value - certificates.lower_l1(f, phi, 1e-3).value >= far * 1e-3


def test_the_plan_takes_and_brings_no_more_than_there_is(f):
    right, down, phi = guess(f, "l2")
    order = np.argsort(-phi.ravel(), kind="stable")
    cost, taken, brought, parts = carry(f, right, down, phi, order)
    assert (taken <= np.maximum(f, 0) + 1e-12).all()
    assert (brought <= np.maximum(-f, 0) + 1e-12).all()
    assert taken.sum() == pytest.approx(brought.sum(), abs=1e-12)
    assert taken.sum() > 0.99  # of 1
    assert parts > 0
    assert cost <= certificates.upper_by_plan(f, guess(f, "l2"), 0.0)


def test_a_plan_along_a_poor_flow_is_still_a_bound(f):
    exact = sparse_transport.transport(f, np.zeros(SHAPE), "l2", 1e-9, 0.0)[0]
    for steps in (1, 3, 30):
        assert certificates.upper_by_plan(f, guess(f, "l2", steps), 0.0) >= exact
    upside_down = guess(f, "l2")._replace(potential=-guess(f, "l2").potential)
    assert certificates.upper_by_plan(f, upside_down, 0.0) >= exact


@pytest.mark.parametrize("radius", [1, 2, 3, 5, 8])
def test_paths_along_rays_exceed_straight_lines_by_at_most_the_factor(radius):
    # The distance along rays from a corner to every cell of 25 × 25, against the straight line.
    steps, lengths = certificates.rays(radius)
    far = np.full((25, 25), 2**60)
    far[0, 0] = 0
    from heathaze.metrics._kernels import envelope_rays

    for _ in range(3):
        envelope_rays(far, steps, lengths)
    straight = np.hypot(*np.indices((25, 25)))
    ratio = far.ravel()[1:] / certificates.GRAIN / straight.ravel()[1:]
    factor = certificates.excess((25, 25), radius)
    assert ratio.max() <= factor
    assert ratio.max() >= 1 + (factor - 1) * 0.7  # and the factor is no idle number
    assert certificates.excess((9, 4), 8) == 1.0


def test_ray_lengths_are_rounded_down():
    steps, lengths = certificates.rays(12)
    for (down, across), length in zip(steps.tolist(), lengths.tolist(), strict=True):
        assert length**2 <= (down**2 + across**2) * certificates.GRAIN**2 < (length + 1) ** 2
        assert math.gcd(down, across) == 1


@pytest.mark.parametrize("metric", ["l1", "l2"])
def test_pairs_close_the_gap(f, exact, metric):
    lower, upper = sparse_transport.transport(f, np.zeros(SHAPE), metric, 1e-9, 0.0)
    assert 0 <= upper - lower <= 1e-8
    if metric == "l1":
        assert lower - 1e-8 <= exact <= upper + 1e-8


def test_the_flow_of_least_squares_levels(f):
    assert is_feasible(f, *level(f))
