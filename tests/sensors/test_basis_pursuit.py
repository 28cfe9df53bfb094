"""Basis pursuit: the objective of a conic solver, a gap that is true, the least residual where nothing fits, peaks."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from heathaze.errors import InvalidInput
from heathaze.sensors.emd import source_emd
from heathaze.sensors.physics import Graph, Line, Plate
from heathaze.sensors.physics.field import Field
from heathaze.sensors.physics.network import Network
from heathaze.sensors.recovery._interior_point import thin
from heathaze.sensors.recovery.basis_pursuit import Pursuit, Span, basis_pursuit, radius
from heathaze.sensors.recovery.peaks import Peak, peaks

TOLERANCE = 1e-5


class Dense:
    """A field that is a matrix and knows of no places."""

    positions = bounds = network = None

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.shape = rows, rows.shape

    def apply(self, strengths: np.ndarray) -> np.ndarray:
        return self.rows @ strengths

    def adjoint(self, readings: np.ndarray) -> np.ndarray:
        return self.rows.T @ readings

    def responses(self, where: np.ndarray) -> np.ndarray:
        return self.rows[:, where]


def matrix(field: Field) -> np.ndarray:
    return field.apply(np.eye(field.shape[1]))


def conic(objective: str, field: Field, readings: np.ndarray, limit: float, at_most: float) -> float:
    """The least sum within the radius, or the least residual, by cvxpy and Clarabel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cvxpy warns about its own use of numpy.
        import cvxpy

        f = cvxpy.Variable(field.shape[1], nonneg=True)
        miss = cvxpy.norm(matrix(field) @ f - readings)
        box = [f <= at_most] if math.isfinite(at_most) else []
        if objective == "sum":
            problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(f)), [miss <= limit, *box])
        else:
            problem = cvxpy.Problem(cvxpy.Minimize(miss), box)
        problem.solve(solver=cvxpy.CLARABEL)
    assert problem.status == "optimal"
    return float(problem.value)


def noisy(field: Field, places: list[int], sigma: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    strengths = np.zeros(field.shape[1])
    strengths[places] = 1
    return strengths, field.apply(strengths) + sigma * np.random.default_rng(seed).normal(size=field.shape[0])


def blocks(nodes: int, seed: int) -> Graph:
    """Two communities on a ring, so that they hang together."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, j) for i in range(nodes) for j in range(i)])
    same = (pairs[:, 0] < nodes // 2) == (pairs[:, 1] < nodes // 2)
    ring = (pairs[:, 0] - pairs[:, 1] == 1) | (pairs[:, 0] - pairs[:, 1] == nodes - 1)
    return Graph(pairs[(rng.random(len(pairs)) < np.where(same, 0.1, 0.01)) | ring], 0.5)


SENSORS = [(x, y) for x in (0.3, 1.4, 2.6, 3.7) for y in (0.4, 1.5, 2.6)]

FIELDS: dict[str, tuple[Field, list[int], float]] = {
    "line": (Line(100, 50, 0.05), [23, 75], 0.1),
    "line, much noise": (Line(100, 50, 0.05), [23, 75], 0.5),
    "line, fine": (Line(300, 60, 0.05), [70, 220], 0.1),
    "line, early": (Line(150, 100, 0.0005), [20, 90, 91], 0.05),
    "line, late": (Line(150, 100, 0.5), [20, 90], 0.05),
    "plate": (Plate((4, 3), SENSORS, 0.1, candidates=12), [17, 80], 0.02),
    "graph": (blocks(60, 1), [7, 44], 0.03),
    "any signs": (Dense(np.random.default_rng(3).normal(size=(30, 80))), [5, 6, 70], 0.3),
}


# ── the same optimum as a conic solver ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("at_most", [1.0, 0.3, math.inf])
@pytest.mark.parametrize("name", FIELDS)
def test_the_objective_of_a_conic_solver(name: str, at_most: float) -> None:
    field, places, sigma = FIELDS[name]
    _, readings = noisy(field, places, sigma, 5)
    found = basis_pursuit(field, readings, sigma, at_most=at_most)
    assert found.residual == pytest.approx(np.linalg.norm(matrix(field) @ found.strengths - readings), rel=1e-9)
    assert found.objective == pytest.approx(found.strengths.sum())
    assert found.strengths.min() >= 0
    assert found.strengths.max() <= at_most
    if found.feasible:
        exact = conic("sum", field, readings, found.radius, at_most)
        assert found.objective == pytest.approx(exact, rel=2e-5)
        assert found.objective - found.gap <= exact * (1 + 1e-6)
        assert found.gap <= TOLERANCE * found.objective
        assert found.violation <= 1e-9 * found.radius
    else:
        least = conic("residual", field, readings, 0, at_most)
        assert least > found.radius
        assert found.residual == pytest.approx(least, rel=2e-5)
        assert found.residual - found.gap <= least * (1 + 1e-6)


def test_most_of_these_are_feasible() -> None:
    """The test above would be empty otherwise."""
    answers = [basis_pursuit(f, noisy(f, places, sigma, 5)[1], sigma).feasible for f, places, sigma in FIELDS.values()]
    assert sum(answers) >= 7


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 9), st.sampled_from([0.5, 2.0, math.inf]))
def test_whatever_the_matrix(seed: int, rows: int, columns: int, at_most: float) -> None:
    rng = np.random.default_rng(seed)
    field = Dense(rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.7))
    readings = rng.normal(size=rows) * 2
    found = basis_pursuit(field, readings, 0.2, at_most=at_most, tolerance=1e-6)
    least = conic("residual", field, readings, 0, at_most)
    if found.feasible:
        assert least <= found.radius * (1 + 1e-6)
        if least < 0.999 * found.radius:  # Closer to it the conic solver has no inside to work in.
            exact = conic("sum", field, readings, found.radius, at_most)
            assert found.objective == pytest.approx(exact, rel=1e-5, abs=1e-6)
            assert found.objective - found.gap <= exact + 1e-6
    else:
        assert least >= found.radius * (1 - 1e-6)
        assert found.residual == pytest.approx(least, rel=1e-5)
        assert found.residual - found.gap <= least + 1e-6


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=12))
def test_one_sensor_at_every_place(readings: list[float]) -> None:
    """M = 1: all strengths fall by one amount until the ball is reached; negative readings are lost."""
    y = np.array(readings)
    found = basis_pursuit(Dense(np.eye(len(y))), y, 0.3, at_most=math.inf)
    lost = float(np.linalg.norm(np.minimum(y, 0)))
    if np.linalg.norm(y) <= found.radius:
        assert found.objective == 0
    elif lost >= found.radius:
        assert not found.feasible
        np.testing.assert_allclose(found.strengths, np.maximum(y, 0), atol=2e-3)
    else:
        low, high = 0.0, float(y.max())
        for _ in range(60):
            fall = (low + high) / 2
            near = np.linalg.norm(np.maximum(y - fall, 0) - y) <= found.radius
            low, high = (fall, high) if near else (low, fall)
        assert found.objective == pytest.approx(float(np.maximum(y - low, 0).sum()), rel=2e-5, abs=1e-7)


def test_a_large_line_is_solved_to_the_tolerance() -> None:
    """Neighbouring columns differ by a thousandth here; a basis that loses its right angles ends at a gap of 1e-3."""
    field = Line(1000, 500, 0.05)
    for seed in range(3):
        _, readings = noisy(field, [250 + 7 * seed, 700 - 90 * seed], 0.1, seed)
        found = basis_pursuit(field, readings, 0.1)
        assert found.feasible
        assert found.gap <= TOLERANCE * found.objective
        assert np.count_nonzero(found.strengths) <= 30


def test_figure_one() -> None:
    """Two unit peaks at .24 and .76: an independent solver is 0.036 off on average, this one .037 ± .0014 in 100 runs.

    One run deviates by 0.0137; the mean of 16 by 0.0034, and 0.02 is far out of reach of chance (alpha 1e-6).
    """
    field = Line(100, 50, 0.05)
    errors = []
    for seed in range(16):
        truth, readings = noisy(field, [23, 75], 0.1, seed)
        errors.append(source_emd(field, truth, basis_pursuit(field, readings, 0.1).strengths))
    assert abs(np.mean(errors) - 0.0365) < 0.02


@pytest.mark.parametrize("unit", [1e-7, 1e6])
def test_units_do_not_matter(unit: float) -> None:
    field = Line(100, 50, 0.05)
    _, readings = noisy(field, [23, 75], 0.1, 1)
    one = basis_pursuit(field, readings, 0.1)
    other = basis_pursuit(field, readings * unit, 0.1 * unit, at_most=unit)
    assert other.objective == pytest.approx(one.objective * unit, rel=2e-5)
    free = basis_pursuit(field, readings * unit, 0.1 * unit, at_most=math.inf)
    assert free.feasible
    assert free.gap <= TOLERANCE * free.objective


# ── the radius ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_radius_keeps_the_truth_as_often_as_asked() -> None:
    """The printed σ√m keeps it about every second time (errata E4-7)."""
    draws, m = 4000, 50
    lengths = np.linalg.norm(np.random.default_rng(8).normal(size=(draws, m)) * 0.7, axis=1)
    for confidence in (0.5, 0.95, 0.99):
        kept = int((lengths <= radius(0.7, m, confidence)).sum())
        assert binom.ppf(5e-7, draws, confidence) <= kept <= binom.ppf(1 - 5e-7, draws, confidence)
    assert int((lengths <= 0.7 * math.sqrt(m)).sum()) < binom.ppf(5e-7, draws, 0.95)
    assert radius(2.0, 500, 0.9) == pytest.approx(2 * math.sqrt(chi2.ppf(0.9, 500)), rel=1e-12)
    assert radius(1, 50) == pytest.approx(1.161936 * math.sqrt(50), abs=1e-5)


def test_readings_within_the_radius_need_no_source() -> None:
    found = basis_pursuit(Line(20, 10, 0.1), np.full(10, 0.1), 1.0)
    assert found.objective == found.gap == 0
    assert found.feasible


@pytest.mark.parametrize("over", [1e-14, 1e-9, 1e-4])
def test_readings_that_just_leave_the_radius_need_hardly_any(over: float) -> None:
    field = Line(20, 10, 0.1)
    readings = field.matrix[:, 7] / np.linalg.norm(field.matrix[:, 7]) * radius(1.0, 10) * (1 + over)
    found = basis_pursuit(field, readings, 1.0)
    assert found.feasible
    assert found.objective <= 1.1 * over * radius(1.0, 10) / np.linalg.norm(field.matrix[:, 7]) + 1e-9


def test_missing_readings_are_left_out() -> None:
    rows = np.random.default_rng(2).normal(size=(20, 30)) + 1
    readings = rows[:, 4] + rows[:, 9]
    some = readings.copy()
    some[[3, 11]] = np.nan
    there = np.isfinite(some)
    found = basis_pursuit(Dense(rows), some, 0.1)
    alone = basis_pursuit(Dense(rows[there]), readings[there], 0.1)
    assert found.radius == alone.radius == radius(0.1, 18)
    np.testing.assert_allclose(found.strengths, alone.strengths, atol=1e-6)
    line = basis_pursuit(Line(100, 50, 0.05), np.where(np.arange(50) % 7 == 0, np.nan, 1.5), 0.1)
    assert line.residual > 0
    assert line.radius == radius(0.1, 42)


def test_nothing_but_the_field_is_asked() -> None:
    """Some adjoints and some columns on a ring of 3,000 nodes with 100 sensors; never the matrix."""

    class Counting:
        shape, positions, bounds = (100, 3000), None, None
        network = Network([(i, (i + 1) % 3000) for i in range(3000)])

        def __init__(self) -> None:
            self.adjoints = self.columns = 0
            near = np.abs(np.arange(3000)[None, :] - 30 * np.arange(100)[:, None])
            self.rows = np.exp(-(np.minimum(near, 3000 - near) ** 2) / 2000)

        def apply(self, strengths: np.ndarray) -> np.ndarray:
            assert strengths.ndim == 1
            return self.rows @ strengths

        def adjoint(self, readings: np.ndarray) -> np.ndarray:
            assert readings.ndim == 1
            self.adjoints += 1
            return self.rows.T @ readings

        def responses(self, where: np.ndarray) -> np.ndarray:
            self.columns += len(where)
            return self.rows[:, where]

    field = Counting()
    strengths = np.zeros(3000)
    strengths[[444, 1999]] = 1
    readings = field.rows @ strengths + 0.05 * np.random.default_rng(4).normal(size=100)
    found = basis_pursuit(field, readings, 0.05)
    assert found.gap <= TOLERANCE * found.objective
    assert found.rounds == field.adjoints <= 40
    assert field.columns <= 300
    assert {round(peak.node / 50) for peak in peaks(field, found.strengths)[:2]} == {9, 40}


# ── its parts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_basis_keeps_its_right_angles() -> None:
    field = Line(1000, 500, 0.05)
    _, readings = noisy(field, [250, 700], 0.1, 0)
    span = Span(readings)
    order = np.random.default_rng(5).permutation(1000)[:90]
    for places in np.split(order, 18):
        span.add(places, field.matrix[:, places])
    basis = span._basis
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    assert basis.shape[1] < 40
    np.testing.assert_allclose(basis @ span.columns, field.matrix[:, order], atol=1e-9)
    strengths = np.random.default_rng(6).random(90)
    there = np.linalg.norm(field.matrix[:, order] @ strengths - readings)
    assert span.residual(strengths) == pytest.approx(there, rel=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 20), st.sampled_from([0.6, 5.0, math.inf]))
def test_thinning_changes_neither_readings_nor_sum(seed: int, rows: int, count: int, at_most: float) -> None:
    rng = np.random.default_rng(seed)
    columns, found = rng.normal(size=(rows, count)), rng.random(count) * 0.5
    few = thin(columns, found, at_most)
    scale = 1 + np.abs(columns).sum()
    np.testing.assert_allclose(columns @ few, columns @ found, atol=1e-8 * scale)
    assert few.sum() == pytest.approx(found.sum(), abs=1e-8 * scale)
    assert few.min() >= 0
    assert few.max() <= at_most
    assert int(((few > 0) & (few < at_most)).sum()) <= rows + 1


# ── peaks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_peaks_on_a_line() -> None:
    field = Line(100, 50, 0.05)
    strengths = np.zeros(100)
    strengths[[23, 24, 26]] = 0.25, 0.5, 0.25  # .24, .25 and .27: one place may be empty between two.
    strengths[29], strengths[79] = 0.3, 2.0
    strengths[50] = 1e-9
    found = peaks(field, strengths)
    assert [round(peak.strength, 6) for peak in found] == [2.0, 1.0, 0.3]
    assert found[0] == Peak((0.8,), 79, 2.0, 0.0)
    assert found[1].position == pytest.approx((0.2525,))
    assert found[1].node == 24
    assert found[1].spread == pytest.approx(math.sqrt(0.25 * 0.0125**2 + 0.5 * 0.0025**2 + 0.25 * 0.0175**2))
    assert peaks(field, np.zeros(100)) == []


def test_peaks_on_a_plate() -> None:
    field = Plate((5, 5), [(0.5, 0.5), (0.1, 0.9)], 0.02, candidates=5)
    strengths = np.zeros(25)
    strengths[[0, 6, 24]] = 1.0, 1.0, 3.0  # 0 and 6 touch at a corner.
    found = peaks(field, strengths)
    assert [peak.strength for peak in found] == [3.0, 2.0]
    np.testing.assert_allclose(found[1].position, field.positions[[0, 6]].mean(axis=0))
    assert found[1].spread == pytest.approx(np.linalg.norm(field.positions[0] - field.positions[6]) / 2)


def test_peaks_on_a_graph() -> None:
    field = Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], 0.1, lengths=[1, 2, 1, 1, 1])
    found = peaks(field, [0.5, 0.4, 0.3, 0, 0, 0.2])
    assert [(peak.position, peak.node) for peak in found] == [(None, 1), (None, 5)]
    assert [peak.strength for peak in found] == pytest.approx([1.2, 0.2])
    assert found[0].spread == pytest.approx(math.sqrt((0.5 * 1 + 0.3 * 4) / 1.2))


def test_peaks_without_a_place() -> None:
    found = peaks(Dense(np.eye(3)), [0.5, 0.0, 1.0])
    assert found == [Peak(None, 2, 1.0, 0.0), Peak(None, 0, 0.5, 0.0)]


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_refusals() -> None:
    field = Line(20, 10, 0.1)
    good = np.ones(10)
    for readings, sentence in (
        (np.ones(9), r"The readings have shape \(9,\); give one for each of 10 rows"),
        (["a"] * 10, "The readings are not numbers"),
        (np.full(10, np.inf), "A reading is infinite; give numbers, or NaN"),
        (np.full(10, np.nan), "All readings are missing; give at least one"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            basis_pursuit(field, readings, 0.1)
    for wrong in (0, -1, math.nan, math.inf):
        with pytest.raises(InvalidInput, match=r"Sigma is .*; give the standard deviation"):
            basis_pursuit(field, good, wrong)
    for options, sentence in (
        ({"confidence": 1.0}, "The confidence is 1.0; give a probability"),
        ({"at_most": 0.0}, "at_most, the largest strength, is 0.0; give a positive number"),
        ({"tolerance": 2.0}, "The tolerance is 2.0; give a fraction of the objective"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            basis_pursuit(field, good, 0.1, **options)
    with pytest.raises(InvalidInput, match=r"The strengths have shape \(3,\); give one for each of 20 places"):
        peaks(field, np.ones(3))
    with pytest.raises(InvalidInput, match="A strength is negative or not finite"):
        peaks(field, -np.ones(20))


def test_a_pursuit_cannot_be_changed() -> None:
    found = basis_pursuit(Line(20, 10, 0.1), np.ones(10), 0.1)
    assert isinstance(found, Pursuit)
    with pytest.raises(AttributeError):
        found.gap = 0.0
