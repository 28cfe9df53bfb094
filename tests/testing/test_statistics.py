"""The helpers accept the true sampler and reject wrong ones: otherwise they would prove nothing."""

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.privacy.noise import discrete_gaussian, discrete_laplace
from heathaze.privacy.randomness import Simulation
from heathaze.testing import (
    assert_distribution,
    assert_same_distribution,
    discrete_gaussian_law,
    discrete_laplace_law,
    goodness_of_fit,
    two_sample,
)
from heathaze.testing.statistics import chi_square

SIZE = 200_000
SCALE = 2.5
LAW = discrete_laplace_law(SCALE)


def _geometric(seed: int, size: int = SIZE) -> np.ndarray:
    """Pr[k] ∝ exp(−k/scale) on 0, 1, 2, … by numpy."""
    return np.random.default_rng(seed).geometric(1 - np.exp(-1 / SCALE), size) - 1


def _two_sided(seed: int) -> np.ndarray:
    """The difference of two geometric numbers is discrete Laplace: a true sampler that shares no code with ours."""
    return _geometric(seed) - _geometric(seed + 1)


def _zero_twice(seed: int) -> np.ndarray:
    """The known bug: +0 and −0 both kept."""
    return _geometric(seed) * np.random.default_rng(seed + 1).choice([-1, 1], SIZE)


WRONG = {
    "scale 3 % too large": discrete_laplace("2.575", SIZE, Simulation(1)),
    "scale 3 % too small": discrete_laplace("2.425", SIZE, Simulation(1)),
    "one-sided": _geometric(1),
    "zero counted twice": _zero_twice(1),
    "shifted by one": _two_sided(1) + 1,
    "no zero": np.where(_two_sided(1) == 0, 1, _two_sided(1)),
    "only even": _two_sided(1) // 2 * 2,
    "cut tails": np.clip(_two_sided(1), -12, 12),
    "all zero": np.zeros(SIZE, dtype=np.int64),
}


def test_a_true_sampler_passes() -> None:
    for seed in (1, 11, 21):
        assert_distribution(_two_sided(seed), LAW)


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_sampler_is_rejected(how: str) -> None:
    with pytest.raises(AssertionError, match="do not follow the law"):
        assert_distribution(WRONG[how], LAW)


@pytest.mark.parametrize("how", WRONG)
def test_two_samples_that_differ_are_rejected(how: str) -> None:
    with pytest.raises(AssertionError, match="do not follow one law"):
        assert_same_distribution(WRONG[how], discrete_laplace(SCALE, 2 * SIZE, Simulation(2)))


def test_two_samples_of_one_law_pass() -> None:
    assert_same_distribution(_two_sided(1), _two_sided(11)[: SIZE // 10])
    assert_same_distribution(_two_sided(21)[: SIZE // 10], _two_sided(31))


def test_p_values_are_uniform() -> None:
    """Of honest p-values a tenth lies below 0.1: neither shy nor trigger-happy."""
    values = [goodness_of_fit(discrete_laplace(SCALE, 5000, Simulation(seed)), LAW) for seed in range(200)]
    pairs = [
        two_sample(discrete_laplace(SCALE, 5000, Simulation(s)), discrete_laplace(SCALE, 3000, Simulation(-s)))
        for s in range(1, 201)
    ]
    for found in (values, pairs):
        tenths, _ = np.histogram(found, bins=10, range=(0, 1))
        assert chi_square(tenths, [20] * 10) > 1e-6


def test_a_laplace_sample_is_no_gaussian() -> None:
    drawn = discrete_laplace(5, SIZE, Simulation(1))
    assert goodness_of_fit(drawn, discrete_gaussian_law(7)) < 1e-6
    assert goodness_of_fit(discrete_gaussian(7, SIZE, Simulation(1)), discrete_gaussian_law(7)) > 1e-6


def test_an_empty_bin_counts_in_full() -> None:
    from scipy.stats import chi2

    # (0 − 50)²/50 + (100 − 50)²/50 = 100
    assert chi_square([0, 100], [50, 50]) == pytest.approx(chi2.sf(100, 1))


def test_small_bins_are_pooled_and_none_is_lost() -> None:
    from scipy.stats import chi2

    # Bins 1+4, 50, 10+2+1 expect 5, 50, 13: (3 − 5)²/5 + 0 + (15 − 13)²/13.
    found = chi_square([1, 2, 50, 11, 3, 1], [1, 4, 50, 10, 2, 1])
    assert found == pytest.approx(chi2.sf(4 / 5 + 4 / 13, 2))


@pytest.mark.parametrize("samples", [[], [0, 1, 2]])
def test_too_few_samples_are_no_test(samples: list[int]) -> None:
    with pytest.raises(InvalidInput, match="samples"):
        goodness_of_fit(samples, LAW)


def test_laws_are_cumulative_probabilities() -> None:
    x = np.arange(-200, 201)
    for law in (LAW, discrete_gaussian_law(3)):
        steps = np.diff(law(x))
        assert (steps >= 0).all()
        assert law(np.array([-(2**61), 2**61])) == pytest.approx([0, 1], abs=1e-14)
        assert np.allclose(law(-x - 1), 1 - law(x), rtol=0, atol=1e-14)
    ratio = np.exp(-1 / SCALE)
    wanted = (1 - ratio) / (1 + ratio) * ratio ** np.abs(x[1:])
    assert np.allclose(np.diff(LAW(x)), wanted, rtol=0, atol=1e-14)
