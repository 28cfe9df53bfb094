"""Noise against its exact law, against OpenDP, and with known bugs put back."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.errors import InvalidInput
from heathaze.privacy import _samplers
from heathaze.privacy.loss import SMALLEST_EPSILON
from heathaze.privacy.noise import discrete_gaussian, discrete_laplace, draw, laplace_scale
from heathaze.privacy.randomness import Simulation
from heathaze.testing import (
    assert_distribution,
    assert_same_distribution,
    discrete_gaussian_law,
    discrete_laplace_law,
    goodness_of_fit,
)

ALPHA = 1e-6
LARGE = Fraction(2**20) / Fraction(3, 10)
LAPLACE_SCALES = [Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(50), LARGE]
GAUSSIAN_SIGMAS = [Fraction(1, 2), Fraction(1), Fraction(7), Fraction(1000)]


# ── the law ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scale", LAPLACE_SCALES, ids=str)
def test_laplace_noise_follows_its_law(scale: Fraction) -> None:
    assert_distribution(discrete_laplace(scale, 400_000, Simulation(1)), discrete_laplace_law(scale), ALPHA)


@pytest.mark.parametrize("sigma", GAUSSIAN_SIGMAS, ids=str)
def test_gaussian_noise_follows_its_law(sigma: Fraction) -> None:
    assert_distribution(discrete_gaussian(sigma, 400_000, Simulation(2)), discrete_gaussian_law(sigma), ALPHA)


@pytest.mark.parametrize("scale", LAPLACE_SCALES, ids=str)
def test_a_laplace_scale_three_per_cent_off_is_seen(scale: Fraction) -> None:
    wrong = discrete_laplace(scale * Fraction(103, 100), 400_000, Simulation(1))
    assert goodness_of_fit(wrong, discrete_laplace_law(scale)) < ALPHA


@pytest.mark.parametrize("sigma", GAUSSIAN_SIGMAS, ids=str)
def test_a_gaussian_sigma_three_per_cent_off_is_seen(sigma: Fraction) -> None:
    wrong = discrete_gaussian(sigma * Fraction(103, 100), 400_000, Simulation(2))
    assert goodness_of_fit(wrong, discrete_gaussian_law(sigma)) < ALPHA


def test_scales_of_the_mechanisms_follow_their_law() -> None:
    scale = laplace_scale(2**20, Fraction(1, 30_011) * 1234)
    assert scale.denominator > 1
    assert_distribution(discrete_laplace(scale, 200_000, Simulation(3)), discrete_laplace_law(scale), ALPHA)


def test_draws_are_independent_of_their_neighbours() -> None:
    signs = np.sign(discrete_laplace(LARGE, 400_000, Simulation(4)))
    # The mean of n products of independent fair signs has standard deviation 1/√n; five of them are beyond 1e-6.
    assert abs((signs[1:] * signs[:-1]).mean()) < 5 / math.sqrt(len(signs))
    large = np.abs(discrete_laplace(LARGE, 400_000, Simulation(5))) > float(LARGE)
    centred = large - large.mean()
    assert abs((centred[1:] * centred[:-1]).mean()) < 5 * large.var() / math.sqrt(len(large))


# ── OpenDP as the oracle ────────────────────────────────────────────────────────────────────────────────────────────


def _opendp(kind: str, scale: float, size: int) -> list[int]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "laplace":
        return list(dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)([0] * size))
    return list(dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)([0] * size))


@pytest.mark.parametrize("scale", [0.5, 2.5, 50.0])
def test_laplace_noise_agrees_with_opendp(scale: float) -> None:
    ours = discrete_laplace(scale, 200_000, Simulation(6))
    theirs = _opendp("laplace", scale, 40_000)
    assert_same_distribution(ours, theirs, ALPHA)


@pytest.mark.parametrize("sigma", [0.5, 7.0, 1000.0])
def test_gaussian_noise_agrees_with_opendp(sigma: float) -> None:
    ours = discrete_gaussian(sigma, 200_000, Simulation(7))
    theirs = _opendp("gaussian", sigma, 40_000)
    assert_same_distribution(ours, theirs, ALPHA)


# ── running out of words ────────────────────────────────────────────────────────────────────────────────────────────


def _draw_forgetting(kernel, size, randomness, *parameters, room):
    """The known bug: a draw cut short by the end of the buffer is started over on fresh words."""
    out = np.empty(size, dtype=np.int64)
    done = 0
    while done < size:
        made, _ = kernel(randomness.words(room), out[done:], *parameters)
        done += made
    return out


@pytest.mark.parametrize("room", [1, 2, 7, 12])
def test_a_tiny_buffer_does_not_change_the_law(room: int) -> None:
    scale = Fraction(5, 2)
    drawn = draw(_samplers.fill_laplace, 20_000, Simulation(8), np.uint64(5), np.uint64(2), at_once=room)
    assert_distribution(drawn, discrete_laplace_law(scale), ALPHA)
    whole = draw(_samplers.fill_laplace, 20_000, Simulation(8), np.uint64(5), np.uint64(2), at_once=2**14)
    assert (drawn == whole).all()  # the very same words are replayed


def test_a_tiny_buffer_does_not_change_the_gaussian() -> None:
    drawn = draw(_samplers.fill_gaussian, 20_000, Simulation(8), np.uint64(7), np.uint64(1), at_once=9)
    assert_distribution(drawn, discrete_gaussian_law(7), ALPHA)


def test_starting_a_cut_draw_over_is_seen() -> None:
    wrong = _draw_forgetting(_samplers.fill_laplace, 20_000, Simulation(8), np.uint64(5), np.uint64(2), room=12)
    assert goodness_of_fit(wrong, discrete_laplace_law(Fraction(5, 2))) < ALPHA


# ── the tricks ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_shortcut_for_exp_minus_one_counts_exactly() -> None:
    # 16!/e = the values that mean yes, plus what the one undecided value will add: less than one.
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    wanted = Decimal(math.factorial(16)) * (Decimal(-1)).exp()
    assert int(_samplers._ODD) < wanted < int(_samplers._ODD) + 1


def test_the_last_value_that_means_yes_and_the_first_that_means_no() -> None:
    tickets, last = math.factorial(16), int(_samplers._ODD)
    for drawn, wanted in ((1, True), (last, True), (last + 1, False), (tickets - 1, False)):
        word = -(-drawn * 2**64 // tickets) + 1  # among the words that give this ticket, one that is not drawn again
        assert _samplers._bernoulli_exp_one(np.array([word], dtype=np.uint64), 0) == (wanted, 1)


def test_the_undecided_value_asks_on() -> None:
    no, yes = 2**63 + 1, 1  # of 17, 18 or 19 values the first word gives the middle one, "no", the second 0, "yes"
    undecided = 1
    for answers, wanted in (([no], True), ([yes, no], False), ([yes, yes, no], True)):
        words = np.array([undecided, *answers], dtype=np.uint64)
        assert _samplers._bernoulli_exp_one(words, 0) == (wanted, len(words))
    assert _samplers._bernoulli_exp_one(np.array([undecided, yes], dtype=np.uint64), 0)[1] == _samplers.OUT_OF_WORDS


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_products_have_128_bits(a: int, b: int) -> None:
    high, low = _samplers._product(np.uint64(a), np.uint64(b))
    assert (int(high) << 64) + int(low) == a * b


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**63))
def test_uniform_integers_keep_as_many_words_for_each_value(word: int, bound: int) -> None:
    # Lemire: of the 2^64 words, those with low half ≥ 2^64 mod bound are kept, ⌊2^64/bound⌋ for each value.
    drawn, at = _samplers._below(np.array([word], dtype=np.uint64), 0, np.uint64(bound))
    kept = (word * bound) % 2**64 >= 2**64 % bound
    assert (int(drawn), at) == ((word * bound >> 64, 1) if kept else (0, _samplers.OUT_OF_WORDS))


# ── scales ──────────────────────────────────────────────────────────────────────────────────────────────────────────

EPSILONS = st.fractions(min_value=SMALLEST_EPSILON, max_value=100)


@given(st.integers(1, 2**26), EPSILONS)
def test_a_scale_is_never_too_small_and_hardly_too_large(sensitivity: int, epsilon: Fraction) -> None:
    scale = laplace_scale(sensitivity, epsilon)
    assert sensitivity / scale <= epsilon
    assert sensitivity / scale >= epsilon * (1 - Fraction(1, 10**6))


@given(st.integers(1, 2**26), EPSILONS)
def test_every_scale_of_a_mechanism_can_be_drawn(sensitivity: int, epsilon: Fraction) -> None:
    assert len(discrete_laplace(laplace_scale(sensitivity, epsilon), 2, Simulation(1))) == 2


def test_no_noise_without_a_scale() -> None:
    assert laplace_scale(2**20, math.inf) == 0
    assert not discrete_laplace(0, 10, Simulation(1)).any()
    assert not discrete_gaussian(0, 10, Simulation(1)).any()
    assert len(discrete_laplace(3, 0, Simulation(1))) == 0


@pytest.mark.parametrize("scale", [-1, Fraction(1, 2**53), 2**60])
def test_a_scale_that_does_not_fit_is_refused(scale: Fraction) -> None:
    with pytest.raises(InvalidInput, match="scale of discrete Laplace noise"):
        discrete_laplace(scale, 1, Simulation(1))


@pytest.mark.parametrize("sigma", [-1, Fraction(1, 2**25), 2**30])
def test_a_sigma_that_does_not_fit_is_refused(sigma: Fraction) -> None:
    with pytest.raises(InvalidInput, match="sigma of discrete Gaussian noise"):
        discrete_gaussian(sigma, 1, Simulation(1))


def test_the_largest_scale_and_sigma_stay_within_64_bits() -> None:
    scale = 2**52 - 1
    assert_distribution(discrete_laplace(scale, 50_000, Simulation(9)), discrete_laplace_law(scale), ALPHA)
    sigma = 2**24 - 1
    drawn = discrete_gaussian(sigma, 50_000, Simulation(9))
    # Four standard deviations of the sample variance of a Gaussian are √(2/n) each.
    assert abs(drawn.astype(float).var() / sigma**2 - 1) < 5 * math.sqrt(2 / len(drawn))
