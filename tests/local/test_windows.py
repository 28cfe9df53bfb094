"""Mechanisms that report one cell of a window: the promise enumerated, samples, tallies, channels."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, PromiseBroken, TooLarge
from heathaze.local._window import Window, exact_sum, floor_product
from heathaze.local.disk_area import DiskArea
from heathaze.local.hybrid_uniform_exponential import HybridUniformExponential
from heathaze.local.mechanism import WindowMechanism
from heathaze.local.planar_laplace import PlanarLaplace
from heathaze.local.randomized_response import RandomizedResponse
from heathaze.privacy.randomness import Simulation
from tests.local.enumeration import (
    EPSILONS,
    SHAPES,
    assert_channel_is,
    assert_follows,
    corners,
    draws,
    expected_tallies,
    plane,
    worst_loss,
)

Make = Callable[[Grid, str], WindowMechanism]


def not_shrunk(grid: Grid, epsilon: str) -> DiskArea:
    return DiskArea(grid, epsilon, shrink=False)


def three_rings(grid: Grid, epsilon: str) -> HybridUniformExponential:
    return HybridUniformExponential(grid, epsilon, radius=min(3, 2 * max(grid.shape)))


ANY_TWO: list[Make] = [RandomizedResponse, DiskArea, not_shrunk, HybridUniformExponential, three_rings]
WINDOWS: list[Make] = [*ANY_TWO, PlanarLaplace]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", ANY_TWO)
def test_no_report_betrays_more_than_epsilon(make: Make, shape: tuple[int, int]) -> None:
    grid = plane(*shape)
    for epsilon in EPSILONS:
        mechanism = make(grid, epsilon)
        matrix = mechanism.transition_matrix()
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-13)
        loss = worst_loss(matrix)
        assert loss <= float(epsilon)
        # A disc misses some other cell of any map; the outermost ring does so on maps that are long enough.
        diagonal = (grid.rows - 1) ** 2 + (grid.cols - 1) ** 2
        rings = isinstance(mechanism, HybridUniformExponential)
        if grid.cells > 1 and (not rings or diagonal >= (mechanism.window.half_width[0] + 2) ** 2):
            assert loss >= float(epsilon) - 1e-6
        if grid.cells == 1:
            assert loss == 0


@pytest.mark.parametrize("make", WINDOWS)
def test_the_promise_is_kept_in_whole_numbers(make: Make) -> None:
    """high ≤ low · e^ε by exact arithmetic, where floats cannot tell the loss from ε; the total is what is drawn."""
    for epsilon in ("0.000001", "0.3", "3.5", "20", "1000"):
        window = make(plane(4, 6), epsilon).window
        assert window.total == window.low * window.outputs.size + sum(int(e) for e in window.excess.ravel()) < 2**62
        if make is not PlanarLaplace:
            high = window.low + int(window.excess.max())
            # e^x > Σ x^k/k! up to any k.
            x, power, term = Fraction(epsilon), Fraction(0), Fraction(1)
            for k in range(1, 120):
                power, term = power + term, term * x / k
            assert high <= window.low * power


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 5)])
@pytest.mark.parametrize("make", WINDOWS)
def test_tallies_and_channel_agree_with_the_matrix(make: Make, shape: tuple[int, int]) -> None:
    for epsilon in ("0.7", "5"):
        mechanism = make(plane(*shape), epsilon)
        expected = np.zeros((mechanism.grid.cells, mechanism.outcomes))
        expected[:] = expected_tallies(mechanism)
        np.testing.assert_allclose(expected, mechanism.transition_matrix(), rtol=0, atol=1e-15)
        assert_channel_is(mechanism.channel(), mechanism.transition_matrix())


@pytest.mark.parametrize("make", WINDOWS)
def test_samples_follow_the_matrix(make: Make) -> None:
    for epsilon in ("0.7", "3.5"):
        mechanism = make(plane(4, 5), epsilon)
        matrix = mechanism.transition_matrix()
        for cell in corners(mechanism.grid):
            assert_follows(draws(mechanism, cell, 40_000, seed=cell)[:, 0], matrix[cell])


def test_a_wrong_sampler_is_found_out() -> None:
    mechanism = DiskArea(plane(4, 5), 2, radius=1)
    law = mechanism.transition_matrix()
    for wrong in (law[1], DiskArea(plane(4, 5), "2.1", radius=1).transition_matrix()[0]):
        with pytest.raises(AssertionError):
            assert_follows(draws(mechanism, 0, 200_000)[:, 0], wrong)


@pytest.mark.parametrize("make", WINDOWS)
def test_impossible_reports_are_refused(make: Make) -> None:
    mechanism = make(plane(3, 3), "1")
    for impossible in (-1, mechanism.outcomes):
        with pytest.raises(InvalidInput, match="A report holds a number outside 0"):
            mechanism.tally(np.array([[0], [impossible]]))
    never = np.setdiff1d(np.arange(mechanism.outcomes), mechanism.window.outputs)
    if never.size:
        with pytest.raises(InvalidInput, match="a cell that this mechanism never reports"):
            mechanism.tally(never[:1, None])
    assert mechanism.tally(np.empty((0, 1), dtype=np.int64)).sum() == 0


@pytest.mark.parametrize("epsilon", ["0.000001", "1000"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (15, 15)])
@pytest.mark.parametrize("make", WINDOWS)
def test_extreme_epsilons_work(make: Make, shape: tuple[int, int], epsilon: str) -> None:
    mechanism = make(plane(*shape), epsilon)
    cells = np.arange(mechanism.grid.cells).repeat(50)
    reports = mechanism.draw(cells, Simulation(2))
    assert reports.shape == (len(cells), 1)
    assert mechanism.tally(reports).sum() == len(cells)
    np.testing.assert_allclose(mechanism.transition_matrix().sum(axis=1), 1, rtol=1e-13)
    if epsilon == "1000" and mechanism.window.half_width == (0, 0) and make is not PlanarLaplace:
        assert (reports[:, 0] == cells).all()  # the truth


def test_a_matrix_that_does_not_fit_is_refused() -> None:
    with pytest.raises(TooLarge, match="does not fit"):
        RandomizedResponse(plane(128, 128), 1).transition_matrix()


def test_a_window_with_bad_weights_is_refused() -> None:
    one = np.ones((1, 1), dtype=np.bool_)
    for low, excess in ((0, 1), (1, -1)):
        with pytest.raises(
            PromiseBroken,
            match="a weight below low, or an excess outside of its support; correct low, excess or support",
        ):
            Window((2, 2), low, np.array([[excess]]), one)
    with pytest.raises(PromiseBroken, match=r"sum to 2\^62 or more; give smaller weights"):
        Window((2, 2), 2**60, np.array([[1]]), one)
    with pytest.raises(PromiseBroken, match=r"sum to 2\^62 or more; give smaller weights"):
        Window((2, 2), 1, np.full((3, 3), 2**61), np.ones((3, 3), dtype=np.bool_))


def test_sums_and_parts_of_weights_are_exact() -> None:
    weights = np.array([2**62 - 1, 2**61 + 3, 2**62 - 5, 7], dtype=np.int64)
    assert exact_sum(weights) == sum(int(weight) for weight in weights)
    for share in (0.0, 2.0**-31, 0.123456789, 0.5, 1 - 2.0**-30, 1.0):
        expected = [int(share * 2**30) * int(weight) // 2**30 for weight in weights]
        assert floor_product(np.full(4, share), weights).tolist() == expected


def test_outputs_are_those_that_some_window_covers() -> None:
    support = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=np.bool_)
    window = Window((2, 3), 1, support.astype(np.int64), support)
    covered = np.zeros(window.frame, dtype=np.bool_)
    for row in range(2):
        for col in range(3):
            covered[row : row + 3, col : col + 3] |= support
    assert window.outputs.tolist() == np.flatnonzero(covered).tolist()
