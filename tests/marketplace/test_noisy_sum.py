"""Sums with noise: priced exactly, integers only, and a vector too long is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from heathaze.errors import InvalidInput, SensitivityExceeded, TooLarge
from heathaze.marketplace.noisy_sum import NoisySum
from heathaze.privacy.accountant import compose
from heathaze.privacy.audit import lower_bound
from heathaze.privacy.randomness import Simulation

DELTA = 1e-6


@pytest.mark.parametrize("sums", [1, 10])
@pytest.mark.parametrize("epsilon", ["1/10", 1, 2, 8, 40])
def test_the_event_costs_what_is_declared_and_hardly_less(epsilon: float, sums: int) -> None:
    noisy = NoisySum(140, 1.0, 2, epsilon, DELTA, sums)
    cost = compose([noisy.event], noisy.delta).epsilon
    assert noisy.epsilon * Fraction(999, 1000) < cost <= noisy.epsilon


def test_the_noise_is_that_of_the_analytic_mechanism() -> None:
    """Golden σ of errata part 6, (1, 1e-6): 4.224678889 for sensitivity 1."""
    assert NoisySum(140, 1.0, 2, 1, DELTA).deviation == pytest.approx(2 * 4.224678889, rel=1e-4)
    assert NoisySum(140, 1.0, 1, 1, DELTA, 4).deviation == pytest.approx(2 * 4.224678889, rel=1e-4)


def test_noise_that_starts_too_small_is_raised_to_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price decides, and not the formula that noise starts from: here one of three fifths the size."""
    ratio = NoisySum(140, 1.0, 2, 1, DELTA)._ratio
    monkeypatch.setattr(NoisySum, "_ratio", property(lambda _: ratio * 0.6))
    noisy = NoisySum(140, 1.0, 2, 1, DELTA)
    assert compose([noisy.event], noisy.delta).epsilon <= 1


def test_without_noise_to_speak_of_it_is_the_sum() -> None:
    vectors = np.random.default_rng(0).normal(0, 1, (20_000, 6))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    noisy = NoisySum(6, 1.0, 2, 1000, DELTA)
    assert noisy.of(vectors, Simulation(1)) == pytest.approx(vectors.sum(axis=0), abs=6 * noisy.deviation)
    assert noisy.deviation < 0.1


def test_the_noise_has_its_size_and_is_gaussian() -> None:
    noisy = NoisySum(20_000, 1.0, 2, 1, DELTA)
    drawn = noisy.of(np.zeros((0, 20_000)), Simulation(2)) / noisy.deviation
    assert stats.kstest(drawn, "norm").pvalue > 1e-6


def test_a_vector_that_is_too_long_is_refused_and_nothing_is_drawn() -> None:
    noisy = NoisySum(4, 1.0, 2, 1, DELTA)
    for vector in ([0.8, 0.8, 0, 0], [np.nan, 0, 0, 0], [np.inf, 0, 0, 0]):
        source = Simulation(3)
        with pytest.raises(SensitivityExceeded, match="longer than 1"):
            noisy.of(np.array([vector]), source)
        assert source.words(1) == Simulation(3).words(1)


def observed_loss(noisy: NoisySum, runs: int = 15_000) -> float:
    """What an attacker sees of the worst neighbours: one unit vector exchanged for its opposite."""
    source = Simulation(4)
    outcomes = [np.array([noisy.of(np.array([[one]]), source)[0] for _ in range(runs)]) for one in (-1.0, 1.0)]
    return lower_bound(*outcomes, delta=0.01)


def test_an_attack_on_the_worst_neighbours_finds_no_violation() -> None:
    assert observed_loss(NoisySum(1, 1.0, 2, 1, 0.01)) <= 1


def test_and_finds_one_where_a_replaced_vector_is_counted_once() -> None:
    """The known bug: noise for a vector added or removed (sensitivity 1) where one is replaced (sensitivity 2)."""
    assert observed_loss(NoisySum(1, 1.0, 1, 1, 0.01)) > 1


@pytest.mark.parametrize("delta", [0, 0.5, -1, "many", True, math.nan])
def test_a_delta_that_promises_nothing_is_refused(delta: object) -> None:
    with pytest.raises(InvalidInput, match="delta is"):
        NoisySum(4, 1.0, 2, 1, delta)


def test_noise_beyond_the_sampler_is_refused() -> None:
    with pytest.raises(TooLarge, match="larger epsilon"):
        _ = NoisySum(2**20, 1.0, 2, 1e-6, DELTA).deviation
