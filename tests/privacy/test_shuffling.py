"""Amplification by shuffling: numbers of an independent reference, and exact enumeration of small cases."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.local import DiskArea
from heathaze.local.disk_area import informative_radius
from heathaze.privacy.shuffling import Blanket, clones_closed_form, largest_local_epsilon
from tests.privacy.enumeration import everyone, exact_deltas

DELTA = 1e-6


# ── exact values ────────────────────────────────────────────────────────────────────────────────────────────────────


def randomized_response(k: int, local: float) -> np.ndarray:
    """Transition matrix of k-ary randomised response."""
    odds = math.exp(local)
    return (np.ones((k, k)) + (odds - 1) * np.eye(k)) / (odds + k - 1)


@pytest.mark.parametrize(("k", "people"), [(2, 2), (2, 5), (2, 8), (3, 2), (3, 4), (3, 6), (4, 2), (4, 4), (4, 5)])
@pytest.mark.parametrize("local", [0.5, 1.0, 3.0])
def test_the_blanket_is_never_below_the_exact_value(k: int, people: int, local: float) -> None:
    matrix, epsilons = randomized_response(k, local), [0.0, 0.1, 0.3 * local, 0.6 * local, 0.8 * local, 0.95 * local]
    exact = exact_deltas(matrix, people, epsilons, everyone(k, people))
    blanket, clones = Blanket.of_matrix(matrix), Blanket.clones(local)
    for epsilon, delta in zip(epsilons, exact, strict=True):
        assert blanket.delta(epsilon, people) >= delta - 1e-15
        assert clones.delta(epsilon, people) >= delta - 1e-15


@pytest.mark.slow
@pytest.mark.parametrize(("k", "people"), [(3, 8), (4, 6), (4, 7), (4, 8)])
def test_the_blanket_is_never_below_the_exact_value_of_more_people(k: int, people: int) -> None:
    test_the_blanket_is_never_below_the_exact_value(k, people, 1.0)


@pytest.mark.parametrize(("radius", "people"), [(0, 3), (1, 2), (1, 3), (2, 2)])
def test_the_blanket_of_discs_is_never_below_the_exact_value(radius: int, people: int) -> None:
    mechanism = DiskArea(Grid.plane(x=(0, 3), y=(0, 3), size=3), 2, radius=radius)
    matrix = mechanism.transition_matrix()
    matrix = matrix[:, matrix.max(axis=0) > 0]
    epsilons = [0.0, 0.5, 1.0, 1.5, 1.9]
    exact = exact_deltas(matrix, people, epsilons, everyone(9, people)[:: 7 if people > 2 else 1])
    blanket = Blanket.of_matrix(matrix)
    for epsilon, delta in zip(epsilons, exact, strict=True):
        assert blanket.delta(epsilon, people) >= delta - 1e-15


def test_the_blanket_of_weights_is_never_below_that_of_the_matrix() -> None:
    mechanism = DiskArea(Grid.plane(x=(0, 6), y=(0, 6), size=6), 3, radius=1)
    matrix = mechanism.transition_matrix()
    row = matrix[0][matrix[0] > 0]
    weights, counts = np.unique(np.round(row / row.min(), 9), return_counts=True)
    exact, quick = Blanket.of_matrix(matrix), Blanket.of_weights(weights, counts.astype(float))
    for epsilon in (0.1, 0.5, 2.0):
        assert quick.delta(epsilon, 1000) == pytest.approx(exact.delta(epsilon, 1000), rel=1e-3)


# ── the trap ────────────────────────────────────────────────────────────────────────────────────────────────────────


def pair_delta(clone: float, change: float, odds: float, epsilon: float, people: int) -> float:
    """δ of the pair of the variation-ratio reduction, summed exactly.

    Each other person is a clone with probability ``clone``, of either kind with equal chances. The person in question
    is of the right kind with probability change · odds / (odds − 1), of the wrong kind with change / (odds − 1), and
    says nothing otherwise.
    """
    right, wrong = change * odds / (odds - 1), change / (odds - 1)
    total = 0.0
    law: dict[tuple[int, int], list[float]] = {}
    for c in range(people):
        chance = math.comb(people - 1, c) * clone**c * (1 - clone) ** (people - 1 - c)
        for a in range(c + 1):
            mass = chance * math.comb(c, a) / 2**c
            for key, first, second in (
                ((a + 1, c - a), right, wrong),
                ((a, c - a + 1), wrong, right),
                ((a, c - a), 1 - right - wrong, 1 - right - wrong),
            ):
                found = law.setdefault(key, [0.0, 0.0])
                found[0] += mass * first
                found[1] += mass * second
    for first, second in law.values():
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


def test_the_variation_ratio_pair_is_no_upper_bound_for_randomized_response() -> None:
    """Public code accounts k-ary randomised response with this pair; its δ is half of the exact one."""
    k, local, people, epsilon = 3, 1.0, 5, 0.8
    odds = math.exp(local)
    change = (odds - 1) / (odds + k - 1)
    clone = 2 * change / (odds - 1)
    claimed = pair_delta(clone, change, odds, epsilon, people)
    exact = exact_deltas(randomized_response(k, local), people, [epsilon], everyone(k, people))[0]
    assert claimed == pytest.approx(0.0056, abs=5e-5)
    assert exact == pytest.approx(0.0115, abs=5e-5)
    assert Blanket.of_matrix(randomized_response(k, local)).delta(epsilon, people) >= exact


# ── golden numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_numeric_bounds_are_those_of_the_reference() -> None:
    assert Blanket.clones(1).epsilon(10_000, DELTA) == pytest.approx(0.0530, abs=5e-5)
    assert Blanket.clones(4).epsilon(10_000, DELTA) == pytest.approx(0.601, abs=5e-4)
    assert Blanket.stronger(1).epsilon(10_000, DELTA) == pytest.approx(0.0432, abs=5e-5)
    assert Blanket.stronger(4).epsilon(10_000, DELTA) == pytest.approx(0.411, abs=5e-4)
    assert largest_local_epsilon(Blanket.clones, 1, 10_000, DELTA) == pytest.approx(4.80, abs=5e-3)
    assert largest_local_epsilon(Blanket.stronger, 1, 10_000, DELTA) == pytest.approx(5.47, abs=5e-3)
    assert Blanket.of_matrix(randomized_response(2, 1)).epsilon(10_000, DELTA) <= 0.0436


def discs(radius: int) -> Callable[[float], Blanket]:
    """The blanket of discs on 64 × 64 cells, by the ε of one report."""

    def blanket(local: float) -> Blanket:
        window = DiskArea(Grid.plane(x=(0, 1), y=(0, 1), size=64), local, radius=radius).window
        raised = window.low + window.excess[window.excess > 0]
        weights, counts = np.unique(np.append(raised, window.low), return_counts=True)
        counts[0] += window.outputs.size - counts.sum()
        return Blanket.of_weights(weights / window.low, counts)

    return blanket


# The radius is the most informative one at the ε of the reference.
@pytest.mark.parametrize(("people", "local", "radius"), [(1000, 3.557, 15), (10_000, 5.718, 5), (100_000, 8.005, 2)])
def test_discs_are_accounted_by_their_own_matrix(people: int, local: float, radius: int) -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=64)
    assert informative_radius(grid, local) == radius
    found = largest_local_epsilon(discs(radius), 1, people, DELTA)
    assert found == pytest.approx(local, abs=3e-3)
    assert discs(radius)(found).delta(1, people) <= DELTA


def test_fewer_people_than_planned_are_less_private() -> None:
    planned = discs(5)(5.718)
    assert planned.epsilon(10_000, DELTA) == pytest.approx(1, abs=2e-3)
    assert planned.epsilon(9_000, DELTA) == pytest.approx(1.067, abs=2e-3)
    assert planned.epsilon(5_000, DELTA) == pytest.approx(1.582, abs=2e-3)


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("local", [0.3, 2.0])
@pytest.mark.parametrize("people", [40, 300])
def test_the_transform_agrees_with_a_sum_of_binomials(local: float, people: int) -> None:
    """Clones of two kinds can be summed exactly; the lattice is a little above, never below."""
    odds, clone = math.exp(local), math.exp(-local)
    for epsilon in (0.05, 0.2 * local, 0.5 * local):
        exact = pair_delta(clone, (odds - 1) / (odds + 1), odds, epsilon, people)
        found = Blanket.clones(local).delta(epsilon, people)
        assert exact <= found <= exact * 1.002 + 1e-15


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 20), min_size=3, max_size=3), min_size=2, max_size=3),
    st.floats(0.0, 2.0),
    st.integers(2, 4),
)
def test_any_matrix_is_bounded(rows: list[list[int]], epsilon: float, people: int) -> None:
    matrix = np.array(rows, dtype=float)
    matrix /= matrix.sum(axis=1, keepdims=True)
    exact = exact_deltas(matrix, people, [epsilon], everyone(len(rows), people))[0]
    assert Blanket.of_matrix(matrix).delta(epsilon, people) >= exact - 1e-14


def test_an_epsilon_that_was_searched_keeps_its_delta() -> None:
    blanket = Blanket.clones(2)
    for people, delta in ((100, 1e-3), (10_000, 1e-6), (1_000_000, 1e-12)):
        found = blanket.epsilon(people, delta)
        assert blanket.delta(found, people) <= delta < blanket.delta(found * 0.999, people)
    assert blanket.epsilon(10, 1e-12) <= 2.01
    assert blanket.epsilon(10**6, 0.5) == 0


def test_the_closed_form_is_above_the_numeric_bound() -> None:
    for local, people in ((0.5, 10_000), (2.0, 100_000)):
        assert clones_closed_form(local, people, DELTA) >= Blanket.clones(local).epsilon(people, DELTA)
    assert clones_closed_form(9.0, 1000, DELTA) == 9.0


@pytest.mark.parametrize("matrix", [[[0.5, 0.4]], [[1.0, 0.0], [0.5, 0.5]], [[1.5, -0.5], [0.5, 0.5]], [0.5, 0.5]])
def test_a_matrix_that_hides_nothing_is_refused(matrix: list[object]) -> None:
    with pytest.raises(InvalidInput):
        Blanket.of_matrix(np.array(matrix))


@pytest.mark.parametrize("bits", [52, 53, 60])
def test_a_rare_report_that_gives_its_position_away_is_not_rounded_to_nothing(bits: int) -> None:
    # Half of the reports are the true position, and of all others' reports about one in 2^bits is the same.
    blanket = Blanket.of_weights(np.array([1.0, 2.0**bits]), np.array([2.0**bits, 1.0]))
    assert blanket.delta(1.0, 10_000) > 0.49


def test_weights_that_differ_hugely_have_a_delta() -> None:
    blanket = Blanket.of_weights(np.array([1.0, math.exp(30)]), np.array([1.0, 1.0]))
    for epsilon in (0.0, 10.0, 29.0, 31.0):
        assert 0 <= blanket.delta(epsilon, 10) <= 1
    assert blanket.delta(29.0, 10) > 0.5
