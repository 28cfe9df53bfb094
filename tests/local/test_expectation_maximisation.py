"""EM: equal to the dense matrix step by step, never less likely than before, and at the maximum in the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.local.channels import Channel, Matrix
from heathaze.local.disk_area import DiskArea
from heathaze.local.expectation_maximisation import _Stepper, expectation_maximisation
from heathaze.local.local_hashing import LocalHashing
from heathaze.local.square_wave import SquareWave2D
from heathaze.privacy.randomness import Simulation
from tests.local.enumeration import plane


def tallies_of(mechanism: DiskArea | SquareWave2D, reports: int, seed: int = 1) -> np.ndarray:
    """Reports of people in two places and a few anywhere."""
    cells, words = mechanism.grid.cells, Simulation(seed).uniforms(2 * reports)
    anywhere = (words[:reports] * cells).astype(np.int64)
    places = np.where(words[reports:] < 0.5, cells // 3, cells - 2)
    where = np.where(words[:reports] < 0.2, anywhere, places)
    return mechanism.tally(mechanism.draw(where, Simulation(seed + 1)))


def likelihood(channel: Channel, tallies: np.ndarray, density: np.ndarray) -> float:
    found = tallies > 0
    return float((tallies[found] * np.log(channel.forward(density)[found])).sum())


def test_by_fft_as_by_the_matrix() -> None:
    """Errata E1-13: d = 15, ε = 3.5, 500 steps."""
    mechanism = DiskArea(plane(15, 15), 3.5)
    tallies = tallies_of(mechanism, 50_000)
    settings = {"steps": 500, "tolerance": -1.0, "accelerate": False}
    by_fft = expectation_maximisation(mechanism.channel(), tallies, **settings)
    dense = Matrix((15, 15), mechanism.transition_matrix())
    by_matrix = expectation_maximisation(dense, tallies, **settings)
    assert (by_fft.steps, by_matrix.steps) == (500, 500)
    assert not by_fft.converged
    np.testing.assert_allclose(by_fft.density, by_matrix.density, rtol=0, atol=1e-14)
    assert by_fft.log_likelihood == pytest.approx(by_matrix.log_likelihood, rel=1e-13)
    assert np.ptp(by_fft.density) > 0.1  # it moved far from where it began


@settings(max_examples=25)
@given(
    st.integers(1, 5), st.integers(2, 6), st.lists(st.integers(0, 1000), min_size=9, max_size=9), st.integers(0, 999)
)
def test_no_step_is_less_likely(rows: int, cols: int, counts: list[int], seed: int) -> None:
    matrix = Simulation(seed).uniforms(rows * cols * 9).reshape(rows * cols, 9) + 1e-3
    channel = Matrix((rows, cols), matrix / matrix.sum(axis=1, keepdims=True))
    tallies = np.array(counts, dtype=np.float64)
    if not tallies.sum():
        return
    stepper = _Stepper(channel, tallies)
    plain = leaping = np.full((rows, cols), 1 / (rows * cols))
    for _ in range(30):
        further, before = stepper.step(plain)
        assert before == pytest.approx(likelihood(channel, tallies, plain), rel=1e-12)
        assert likelihood(channel, tallies, further) >= before - 1e-9 * abs(before)
        leapt, _, used = stepper.leap(leaping)
        assert used in (2, 3)
        assert likelihood(channel, tallies, leapt) >= likelihood(channel, tallies, leaping) - 1e-9 * abs(before)
        assert leapt.min() >= 0
        assert leapt.sum() == pytest.approx(1, abs=1e-12)
        plain, leaping = further, leapt


def test_leaps_and_steps_reach_the_same_top() -> None:
    mechanism = DiskArea(plane(6, 9), 2.5)
    tallies, channel = tallies_of(mechanism, 20_000), mechanism.channel()
    leaping = expectation_maximisation(channel, tallies, tolerance=1e-8)
    walking = expectation_maximisation(channel, tallies, tolerance=1e-8, accelerate=False, steps=200_000)
    assert leaping.converged
    assert walking.converged
    assert leaping.steps * 3 < walking.steps
    assert leaping.log_likelihood == pytest.approx(walking.log_likelihood, rel=1e-9)
    np.testing.assert_allclose(leaping.density, walking.density, rtol=0, atol=2e-3)
    # At the top of a concave function no cell has anything to gain: no gradient is above Σ n, and it is Σ n at mass.
    ratio = np.divide(tallies, channel.forward(leaping.density), where=tallies > 0, out=np.zeros(len(tallies)))
    gain = channel.backward(ratio) / tallies.sum()
    assert gain.max() < 1 + 1e-3
    np.testing.assert_allclose(gain[leaping.density > 1e-2], 1, rtol=0, atol=1e-3)


def test_two_cells_have_a_known_answer() -> None:
    """0.9 f + 0.1 (1 − f) = 0.7, so f = 0.75; and what no density explains ends at the border."""
    coin = Matrix((1, 2), np.array([[0.9, 0.1], [0.1, 0.9]]))
    for accelerate in (True, False):
        fit = expectation_maximisation(coin, [70, 30], tolerance=1e-13, accelerate=accelerate)
        np.testing.assert_allclose(fit.density, [[0.75, 0.25]], rtol=0, atol=1e-6)
        expected = 70 * np.log(0.7) + 30 * np.log(0.3)
        assert fit.log_likelihood == pytest.approx(expected, rel=1e-12)
    assert expectation_maximisation(coin, [99, 1], tolerance=1e-13).density[0, 0] > 1 - 1e-3


def test_smoothing_spreads_every_step() -> None:
    mechanism = DiskArea(plane(12, 12), 5)
    tallies, channel = tallies_of(mechanism, 20_000), mechanism.channel()
    smooth = expectation_maximisation(channel, tallies, smooth=True)
    sharp = expectation_maximisation(channel, tallies)
    assert smooth.converged
    assert smooth.density.sum() == pytest.approx(1, abs=1e-12)
    assert smooth.density.max() < 0.7 * sharp.density.max()
    assert smooth.density.min() > 0
    assert smooth.log_likelihood < sharp.log_likelihood


def test_smoothing_of_a_spike_is_the_mask() -> None:
    """[1 2 1]⊗[1 2 1]/16 after one step, and in a corner nothing leaves the map."""
    nothing_learned = Matrix((5, 5), np.full((25, 1), 1.0))
    for row, col, wanted in (
        (2, 2, np.outer([0, 1, 2, 1, 0], [0, 1, 2, 1, 0]) / 16),
        (0, 0, np.outer([3, 1, 0, 0, 0], [3, 1, 0, 0, 0]) / 16),
    ):
        spike = np.zeros((5, 5))
        spike[row, col] = 1
        found = expectation_maximisation(nothing_learned, [10], start=spike, steps=1, smooth=True)
        np.testing.assert_allclose(found.density, wanted, rtol=0, atol=1e-15)


def test_two_steps_are_not_called_converged() -> None:
    """Hashing on 64 × 64 cells: the log-likelihood is large and a plain step changes it by a hundred-millionth."""
    mechanism = LocalHashing(plane(64, 64), 3.5)
    cells = np.repeat([100, 2000, 4000], 7_000)
    tallies, channel = mechanism.tally(mechanism.draw(cells, Simulation(1))), mechanism.channel()
    walking = expectation_maximisation(channel, tallies, accelerate=False, steps=200)
    assert (walking.steps, walking.converged) == (200, False)
    leaping = expectation_maximisation(channel, tallies)
    assert leaping.converged
    assert leaping.log_likelihood > walking.log_likelihood
    assert leaping.density.ravel()[[100, 2000, 4000]].sum() > 0.5


def test_outcomes_without_information_do_not_change_when_it_stops() -> None:
    """Dividing each outcome by a coin makes the log-likelihood much larger in size, and nothing else."""
    plain = Matrix((1, 3), np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]]))
    wide = Matrix((1, 3), np.repeat(plain.matrix, 64, axis=1) / 64)
    counts = np.array([640, 1280, 6400])
    first = expectation_maximisation(plain, counts, accelerate=False)
    second = expectation_maximisation(wide, np.repeat(counts / 64, 64), accelerate=False)
    assert first.steps == second.steps > 5
    assert abs(second.log_likelihood) > 3 * abs(first.log_likelihood)
    np.testing.assert_allclose(first.density, second.density, rtol=1e-9)


def test_nothing_tallied_leaves_the_start() -> None:
    mechanism = DiskArea(plane(3, 4), 1)
    nothing = np.zeros(mechanism.outcomes)
    flat = expectation_maximisation(mechanism.channel(), nothing)
    assert (flat.density == 1 / 12).all()
    assert flat.converged
    start = np.arange(12.0).reshape(3, 4)
    kept = expectation_maximisation(mechanism.channel(), nothing, start=start)
    np.testing.assert_allclose(kept.density, start / 66, rtol=1e-15)


@pytest.mark.parametrize("mechanism", [DiskArea(plane(1, 1), 1), SquareWave2D(plane(1, 1), 1)])
def test_one_cell_holds_everything(mechanism: DiskArea | SquareWave2D) -> None:
    tallies = mechanism.tally(mechanism.draw(np.zeros(50, dtype=np.int64), Simulation(1)))
    for accelerate in (True, False):
        fit = expectation_maximisation(mechanism.channel(), tallies, accelerate=accelerate)
        assert fit.density.tolist() == [[1.0]]


@pytest.mark.parametrize("split", ["budget", "users"])
def test_other_channels_as_by_the_matrix(split: str) -> None:
    mechanism = SquareWave2D(plane(4, 6), 3, split)
    tallies = tallies_of(mechanism, 5_000)
    settings = {"steps": 100, "tolerance": -1.0, "accelerate": False}
    fast = expectation_maximisation(mechanism.channel(), tallies, **settings)
    slow = expectation_maximisation(Matrix((4, 6), mechanism.transition_matrix()), tallies, **settings)
    np.testing.assert_allclose(fast.density, slow.density, rtol=0, atol=1e-14)


def test_exact_reports_give_the_exact_histogram() -> None:
    mechanism = DiskArea(plane(3, 3), 1000, radius=0)
    cells = np.repeat(np.arange(9), np.arange(9) * 10)
    tallies = mechanism.tally(mechanism.draw(cells, Simulation(1)))
    fit = expectation_maximisation(mechanism.channel(), tallies)
    np.testing.assert_allclose(fit.density.ravel(), np.arange(9) / 36, rtol=0, atol=1e-9)
