"""Noise shares against their exact law, alone and added up, and with known bugs put back."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nbinom, poisson

from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy import _samplers, noise_shares
from heathaze.privacy.loss import SMALLEST_EPSILON
from heathaze.privacy.noise import discrete_laplace, draw, epsilon_from_sigma, laplace_scale, sigma_from_epsilon
from heathaze.privacy.noise_shares import (
    decode,
    noise_share,
    realised_epsilon,
    share_deviation,
    share_shape,
    surviving_shape,
    wrap_bits,
)
from heathaze.privacy.randomness import SecureRandomness, Simulation
from heathaze.testing import assert_distribution, discrete_laplace_law, goodness_of_fit
from heathaze.testing.statistics import chi_square

ALPHA = 1e-6
FIVE_SIGMA = 5.0
"""A normal number is beyond five standard deviations less than once in a million times."""

ONE = np.uint64(1)
LARGE = Fraction(2**20) / Fraction(3, 10)
SHARES = [
    (Fraction(1, 3), Fraction(3, 4)),
    (Fraction(1), Fraction(1, 2)),
    (Fraction(2), Fraction(1, 100)),
    (Fraction(5, 2), Fraction(99, 100)),
    (Fraction(4), Fraction(21, 20)),
    (Fraction(50), Fraction(1, 7)),
    (Fraction(97, 3), Fraction(5, 2)),
]


def polya_pmf(scale, shape, length):
    """Pr[0], Pr[1], …, Pr[length − 1] of one Pólya number, by scipy."""
    return nbinom.pmf(np.arange(length), float(shape), -math.expm1(-1 / float(scale)))


def share_pmf(scale, shape):
    """Probabilities of −length + 1 … length − 1 of the difference of two, by convolution."""
    length = math.ceil(40 * float(scale) * (1 + float(shape))) + 40
    one = polya_pmf(scale, shape, length)
    return np.convolve(one, one[::-1])


def share_law(scale, shape):
    """Cumulative probabilities, as :mod:`heathaze.testing` wants them."""
    cumulative = np.cumsum(share_pmf(scale, shape))
    zero = len(cumulative) // 2
    return lambda x: np.where(x < -zero, 0.0, cumulative[np.clip(x + zero, 0, 2 * zero)])


# ── the law ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("scale", "shape"), SHARES, ids=str)
def test_a_share_follows_its_law(scale: Fraction, shape: Fraction) -> None:
    assert_distribution(noise_share(scale, shape, 200_000, Simulation(1)), share_law(scale, shape), ALPHA)


@pytest.mark.parametrize(("scale", "shape"), [pair for pair in SHARES if pair[1] > Fraction(1, 10)], ids=str)
def test_a_scale_or_a_shape_five_per_cent_off_is_seen(scale: Fraction, shape: Fraction) -> None:
    more = Fraction(105, 100)
    for wrong in ((scale * more, shape), (scale, shape * more)):
        assert goodness_of_fit(noise_share(*wrong, 200_000, Simulation(1)), share_law(scale, shape)) < ALPHA


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(5, 2), LARGE, Fraction(2**47 - 1)], ids=str)
@pytest.mark.parametrize("clients", [2, 10])
def test_shares_add_up_to_discrete_laplace_noise(scale: Fraction, clients: int) -> None:
    randomness = Simulation(2)
    shares = [noise_share(scale, Fraction(1, clients), 40_000, randomness) for _ in range(clients)]
    assert_distribution(sum(shares), discrete_laplace_law(scale), ALPHA)


def test_the_shares_of_a_whole_shard_add_up_to_discrete_laplace_noise() -> None:
    randomness, clients = Simulation(3), 2000
    total = sum(noise_share(2, Fraction(1, clients), 20_000, randomness) for _ in range(clients))
    assert_distribution(total, discrete_laplace_law(2), ALPHA)


def test_a_share_of_shape_one_too_few_is_seen() -> None:
    # Nine of ten devices: what a shard above its threshold must never be (errata E3-2).
    randomness = Simulation(3)
    total = sum(noise_share(2, Fraction(1, 10), 40_000, randomness) for _ in range(9))
    assert goodness_of_fit(total, discrete_laplace_law(2)) < ALPHA


def test_a_simulated_shard_is_what_its_devices_add_up_to() -> None:
    survivors, share = 21, share_shape(threshold=25, colluders=5)
    randomness = Simulation(4)
    devices = sum(noise_share(3, share, 50_000, randomness) for _ in range(survivors))
    law = share_law(3, survivors * share)
    assert_distribution(devices, law, ALPHA)
    assert_distribution(noise_share(3, survivors * share, 50_000, randomness), law, ALPHA)


def test_a_gamma_given_as_a_rate_is_seen() -> None:
    # Errata E3-4: Pólya is Poisson of a Gamma of *scale* β/(1 − β); as a rate its mean is 0.17 instead of 1.43.
    epsilon, shape = Fraction(3, 10), Fraction(1, 2)
    beta = math.exp(-float(epsilon))
    odds = beta / (1 - beta)
    generator = np.random.default_rng(1)

    def peer(scale: float) -> np.ndarray:
        return generator.poisson(generator.gamma(float(shape), scale, 100_000))

    law = share_law(1 / epsilon, shape)
    assert peer(1 / odds).mean() == pytest.approx(0.17, abs=0.01)
    assert goodness_of_fit(peer(1 / odds) - peer(1 / odds), law) < ALPHA
    assert_distribution(peer(odds) - peer(odds), law, ALPHA)
    # Ours: as many proposals as the module says, times what one of them adds on average.
    terms = draw(_samplers.fill_terms, 400_000, Simulation(5), ONE, np.uint64(10), np.uint64(3))
    assert noise_shares._blocks(1 / epsilon) == 1
    assert float(shape) * 3 * terms.mean() == pytest.approx(1.43, abs=0.02)


# ── independence ────────────────────────────────────────────────────────────────────────────────────────────────────


def correlation(first, second):
    """In standard deviations of what independent numbers of mean 0 would show."""
    products = first.astype(float) * second
    return abs(products.sum()) / math.sqrt((products**2).sum())


def test_clients_and_neighbouring_coordinates_are_uncorrelated() -> None:
    randomness = Simulation(6)
    clients = [noise_share(5, Fraction(1, 2), 100_000, randomness) for _ in range(4)]
    for i, first in enumerate(clients):
        assert correlation(first[1:], first[:-1]) < FIVE_SIGMA
        assert correlation(np.abs(first[1:]) - np.abs(first).mean(), np.abs(first[:-1]) - np.abs(first).mean()) < 5
        for second in clients[:i]:
            assert correlation(first, second) < FIVE_SIGMA
    assert correlation(clients[0], clients[0] + clients[1]) > FIVE_SIGMA  # it does see what they have in common


def test_noise_falls_on_every_coordinate_alike_and_on_both_sides() -> None:
    randomness, size = Simulation(7), 50
    shares = np.array([noise_share(2, Fraction(1, 5), size, randomness) for _ in range(4000)])
    for sign in (1, -1):
        found = (sign * shares > 0).sum(axis=0)
        assert chi_square(found, np.full(size, found.mean())) > ALPHA
    assert chi_square([(shares > 0).sum(), (shares < 0).sum()], [(shares != 0).sum() / 2] * 2) > ALPHA


def together(shares):
    """p-value of: one of two coordinates is 0 without regard to the other."""
    table = np.array([[((shares[:, 0] == 0) == a) & ((shares[:, 1] == 0) == b) for a in (0, 1)] for b in (0, 1)])
    found = table.sum(axis=2)
    expected = np.outer(found.sum(axis=1), found.sum(axis=0)) / found.sum()
    from scipy.stats import chi2

    return chi2.sf(((found - expected) ** 2 / expected).sum(), 1)


def test_two_coordinates_of_one_share_are_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(seed: int) -> np.ndarray:
        randomness = Simulation(seed)
        return np.array([noise_share(2, Fraction(1, 4), 2, randomness) for _ in range(10_000)])

    assert together(shares(8)) > ALPHA
    # Put back: a fixed number of proposals. Each coordinate looks almost right, but what one has the other lacks.
    monkeypatch.setattr(noise_shares, "_poisson", lambda mean, _: round(mean))
    assert together(shares(8)) < ALPHA


class CachingClient:
    """The known bug: noise drawn once and added in every round, so that the difference of two rounds has none."""

    def __init__(self, randomness: Simulation) -> None:
        self.share = noise_share(2, Fraction(1, 10), 20_000, randomness)

    def noise(self) -> np.ndarray:
        return self.share


class FreshClient:
    def __init__(self, randomness: Simulation) -> None:
        self.randomness = randomness

    def noise(self) -> np.ndarray:
        return noise_share(2, Fraction(1, 10), 20_000, self.randomness)


def fresh_noise(first, second, scale, shape):
    """p-value of: two rounds have noise of their own. Their difference then has twice the shape."""
    return goodness_of_fit(first - second, share_law(scale, 2 * shape))


@pytest.mark.parametrize(("caching", "passes"), [(0, True), (1, False), (10, False)])
def test_a_client_that_caches_its_noise_is_caught(caching: int, passes: bool) -> None:
    randomness = Simulation(9)
    clients = [(CachingClient if i < caching else FreshClient)(randomness) for i in range(10)]
    rounds = [sum(client.noise() for client in clients) for _ in range(2)]
    for noise in rounds:  # neither round alone gives it away
        assert_distribution(noise, discrete_laplace_law(2), ALPHA)
    assert (fresh_noise(*rounds, 2, 1) > ALPHA) == passes


# ── the number of proposals ─────────────────────────────────────────────────────────────────────────────────────────


def poisson_law(mean):
    return lambda x: poisson.cdf(x, float(mean))


@pytest.mark.parametrize(
    ("mean", "samples"),
    [("1/10000", 400_000), ("3/1000", 100_000), ("1/7", 100_000), ("99/100", 100_000), ("1", 100_000)],
)
def test_small_poisson_numbers_follow_their_law(mean: str, samples: int) -> None:
    wanted = Fraction(mean)
    parameters = np.uint64(wanted.numerator), np.uint64(wanted.denominator)
    drawn = draw(_samplers.fill_poisson, samples, Simulation(10), *parameters)
    assert_distribution(drawn, poisson_law(wanted), ALPHA)
    wrong = poisson_law(wanted * (Fraction(11, 10) if wanted > Fraction(1, 100) else 3))
    assert goodness_of_fit(drawn, wrong) < ALPHA


@pytest.mark.parametrize("mean", ["5/3", "79/100", "17/2", "50"])
def test_poisson_numbers_of_any_mean_follow_their_law(mean: str) -> None:
    randomness = Simulation(11)
    drawn = [noise_shares._poisson(Fraction(mean), randomness) for _ in range(10_000)]
    assert_distribution(drawn, poisson_law(Fraction(mean)), ALPHA)
    assert goodness_of_fit(drawn, poisson_law(Fraction(mean) * Fraction(11, 10))) < ALPHA


def test_a_poisson_number_of_many_pieces() -> None:
    mean = 5 * noise_shares._AT_ONCE + Fraction(1, 2)
    assert list(noise_shares._pieces(2 * noise_shares._AT_ONCE + 3))[1:] == [noise_shares._AT_ONCE, 3]
    assert abs(noise_shares._poisson(mean, Simulation(12)) - mean) < FIVE_SIGMA * math.sqrt(mean)


def test_tickets_of_a_poisson_number_are_its_weights() -> None:
    tickets = np.diff(_samplers._ENDS.astype(object), prepend=0)
    assert [Fraction(n, math.factorial(16)) for n in tickets] == [Fraction(1, math.factorial(n)) for n in range(17)]
    assert math.factorial(16) * (math.e - sum(Fraction(1, math.factorial(n)) for n in range(17))) < 1


def test_the_last_ticket_asks_on() -> None:
    last, first, second, other = 2**64 - 1, 1, 2**64 // 17 + 2**32, 2**63 + 1
    for answers, wanted in (([last, first], 17), ([last, second, first], 18), ([last, other, 1], 0)):
        words = np.array(answers, dtype=np.uint64)
        assert _samplers._one_poisson(words, 0) == (wanted, len(words))
        assert _samplers._one_poisson(words[:-1], 0)[1] == _samplers.OUT_OF_WORDS


# ── terms ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("t", "s"), [(1, 3), (1, 1), (2, 1), (5, 2), (7, 1), (64, 1), (1000, 7)])
def test_terms_have_the_intensity_of_the_process(t: int, s: int) -> None:
    blocks, proposals = noise_shares._blocks(Fraction(t, s)), 400_000
    assert 2 ** (blocks + 1) >= Fraction(t, s)
    assert blocks == 0 or 2**blocks < Fraction(t, s)
    drawn = draw(_samplers.fill_terms, proposals, Simulation(13), np.uint64(blocks), np.uint64(t), np.uint64(s))
    k = np.arange(1, 40 * t // s + 40)
    expected = proposals * np.exp(-k * s / t) / k / (blocks + 2)
    observed = np.bincount(drawn, minlength=len(k) + 1)
    assert chi_square(observed, [proposals - expected.sum(), *expected]) > ALPHA
    assert chi_square(observed, [proposals - expected.sum() * 1.1, *expected * 1.1]) < ALPHA


def test_the_coin_of_two_over_e() -> None:
    words, at, heads = Simulation(14).words(400_000), 0, []
    for _ in range(100_000):
        kept, at = _samplers._bernoulli_exp(words, at, ONE, ONE, np.uint64(3))
        heads.append(kept)
    expected = np.array([2 / math.e, 1 - 2 / math.e]) * len(heads)
    assert chi_square([sum(heads), len(heads) - sum(heads)], expected) > ALPHA


def test_a_term_beyond_the_last_block_is_left_out() -> None:
    coins = 2**_samplers.MAX_BEYOND - 1  # heads, 12 times
    words = np.array([2**64 - 1, coins], dtype=np.uint64)
    assert _samplers._one_term(words, 0, np.uint64(1), np.uint64(2), ONE) == (0, 2)
    fewer = np.array([2**64 - 1, coins >> 1], dtype=np.uint64)
    assert _samplers._one_term(fewer, 0, np.uint64(1), np.uint64(2), ONE)[1] == _samplers.OUT_OF_WORDS


@pytest.mark.parametrize("scale", [Fraction(2**47 - 1), Fraction(1, 2**47 - 1), Fraction(2**46 + 1, 2**47 - 1)])
def test_every_product_of_a_term_fits_64_bits(scale: Fraction) -> None:
    blocks, beyond = noise_shares._blocks(scale), _samplers.MAX_BEYOND - 1
    largest = 2 ** (blocks + beyond + 1) - 1
    assert largest * scale.denominator < 2**60
    for i in range(_samplers.MAX_BEYOND):
        assert i * scale.numerator <= 2 ** (blocks + i) * scale.denominator  # no exponent below 0
    assert Fraction(2 ** (blocks + beyond + 1)) / scale >= 2000  # what is left out has probability below exp(−2000)


# ── running out of words ────────────────────────────────────────────────────────────────────────────────────────────

KERNELS = {
    "poisson": (_samplers.fill_poisson, (9, 10), poisson_law(Fraction(9, 10))),
    "terms": (_samplers.fill_terms, (1, 5, 2), None),
}


def terms_law(t, s, blocks):
    k = np.arange(1, 40 * t)
    kept = np.exp(-k * s / t) / k / (blocks + 2)
    cumulative = np.cumsum([1 - kept.sum(), *kept])
    return lambda x: np.where(x < 0, 0.0, cumulative[np.clip(x, 0, len(k))])


def draw_forgetting(kernel, size, randomness, *parameters, room):
    """The known bug: a draw cut short by the end of the buffer is started over on fresh words."""
    out = np.empty(size, dtype=np.int64)
    done = 0
    while done < size:
        made, _ = kernel(randomness.words(room), out[done:], *parameters)
        done += made
    return out


@pytest.mark.parametrize("name", KERNELS)
def test_a_tiny_buffer_does_not_change_the_law(name: str) -> None:
    kernel, numbers, law = KERNELS[name]
    law = law or terms_law(5, 2, 1)
    parameters = [np.uint64(n) for n in numbers]
    whole = draw(kernel, 20_000, Simulation(15), *parameters)
    for room in (1, 2, 7):
        drawn = draw(kernel, 20_000, Simulation(15), *parameters, at_once=room)
        assert (drawn == whole).all()  # the very same words are replayed
    assert_distribution(whole, law, ALPHA)
    wrong = draw_forgetting(kernel, 20_000, Simulation(15), *parameters, room=7)
    assert goodness_of_fit(wrong, law) < ALPHA


# ── how large ───────────────────────────────────────────────────────────────────────────────────────────────────────

GOLDEN = {
    0.01: 141.420766983,
    0.1: 14.1362447854,
    0.5: 2.79917776821,
    1: 1.356962486,
    2: 0.601689978713,
    5: 0.116873203774,
    0.321291657536: 4.382774984,
}


@pytest.mark.parametrize(("epsilon", "sigma"), GOLDEN.items())
def test_sigma_and_epsilon_of_the_errata(epsilon: float, sigma: float) -> None:
    assert sigma_from_epsilon(epsilon) == pytest.approx(sigma, rel=1e-9)
    assert epsilon_from_sigma(sigma) == pytest.approx(epsilon, rel=1e-9)
    assert share_deviation(laplace_scale(1, epsilon)) == pytest.approx(sigma, rel=1e-9)


def test_epsilon_of_two_sigmas_to_the_last_digit() -> None:
    assert epsilon_from_sigma(1) == pytest.approx(1.3169578969248166, rel=1e-15)
    assert epsilon_from_sigma(10) == pytest.approx(0.14130376948564857, rel=1e-15)


@given(st.fractions(min_value=Fraction(1, 1000), max_value=600), st.integers(1, 10**6))
def test_sigma_and_epsilon_undo_each_other(epsilon: Fraction, sensitivity: int) -> None:
    # The paper's own formula fails from an epsilon of 20 on (errata E3-6).
    back = epsilon_from_sigma(sigma_from_epsilon(epsilon, sensitivity), sensitivity)
    assert back == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize(("scale", "shape"), SHARES, ids=str)
def test_the_deviation_is_that_of_the_law(scale: Fraction, shape: Fraction) -> None:
    pmf = share_pmf(scale, shape)
    z = np.arange(len(pmf)) - len(pmf) // 2
    assert share_deviation(scale, shape) == pytest.approx(math.sqrt((pmf * z**2).sum()), rel=1e-9)


def test_the_deviation_of_tiny_and_of_no_noise() -> None:
    assert share_deviation(Fraction(1, 10**6)) == share_deviation(0) == 0.0


# ── what it promises ────────────────────────────────────────────────────────────────────────────────────────────────

SHAPES = ("0.95", "0.9", "0.8", "0.5", "0.05")
REALISED = {1: (1.048, 1.099, 1.212, 1.675, 3.99), Fraction(1, 10): (0.121, 0.146, 0.212, 0.606, 3.07)}


@pytest.mark.parametrize("epsilon", REALISED, ids=str)
def test_realised_epsilon_of_the_errata(epsilon: Fraction) -> None:
    for shape, wanted in zip(SHAPES, REALISED[epsilon], strict=True):
        assert float(realised_epsilon(epsilon, shape)) == pytest.approx(wanted, rel=2e-3)


@pytest.mark.parametrize(("colluders", "wanted"), [(1000, 1.10), (2500, 1.29), (4900, 1.71)])
def test_what_colluders_leave_of_the_papers_shape(colluders: int, wanted: float) -> None:
    # δ = 0.05 of S = 10,000 drop out; errata E3-5: (1 − δ − c)/(1 − δ).
    left = surviving_shape(Fraction(1, 9500), 9500, colluders)
    assert left == (Fraction(95, 100) - Fraction(colluders, 10_000)) / Fraction(95, 100)
    assert float(realised_epsilon(1, left)) == pytest.approx(wanted, abs=0.006)
    assert realised_epsilon(1, surviving_shape(share_shape(9500, colluders), 9500, colluders)) == 1


def enumerated(epsilon, shape, step):
    """The largest loss of one coordinate that changes by ``step``, over all outputs but the rarest.

    Near its ends the convolution lacks terms that were cut off; its middle half lacks none that count.
    """
    pmf = share_pmf(1 / Fraction(epsilon), shape)
    middle = pmf[len(pmf) // 4 : -(len(pmf) // 4)]
    return np.log(middle[:-step] / middle[step:]).max()


@pytest.mark.parametrize("epsilon", ["1/10", "2/5", "1/2", "1", "3"])
@pytest.mark.parametrize("shape", ["0.01", "0.05", "0.5", "0.8", "0.99", "1", "1.05", "3"])
def test_realised_epsilon_by_enumeration(epsilon: str, shape: str) -> None:
    found = enumerated(epsilon, Fraction(shape), 1)
    claimed = float(realised_epsilon(epsilon, shape))
    if Fraction(shape) <= 1:
        assert claimed == pytest.approx(found, rel=1e-9)
    else:  # approached in the tail, never exceeded
        assert 0.8 * claimed < found < claimed * (1 + 1e-9)


def test_the_worst_change_of_a_vector_is_one_in_each_coordinate() -> None:
    claimed = float(realised_epsilon(1, "0.8", sensitivity=3))
    one, two, three = (enumerated(Fraction(1, 3), Fraction("0.8"), step) for step in (1, 2, 3))
    assert max(three, one + two, 3 * one) == 3 * one == pytest.approx(claimed, rel=1e-9)
    assert three < one + two < 3 * one


@pytest.mark.parametrize("shape", ["1e-9", "0.3", "0.5", "0.999999999"])
def test_both_ways_to_compute_a_loss_meet(shape: str) -> None:
    slow, quick = (noise_shares._loss_of_one_step(rate, float(shape)) for rate in (0.5 - 1e-15, 0.5))
    assert slow >= quick * (1 - 1e-12)
    assert slow == pytest.approx(quick, rel=1e-6 if shape == "1e-9" else 1e-11)


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=1000),
    st.fractions(min_value=Fraction(1, 10**6), max_value=2, max_denominator=10**6),
    st.integers(1, 10**6),
)
def test_realised_epsilon_is_never_below_its_target_nor_better_with_less_noise(
    epsilon: Fraction, shape: Fraction, sensitivity: int
) -> None:
    realised = realised_epsilon(epsilon, shape, sensitivity)
    assert realised >= epsilon
    assert (realised == epsilon) == (shape >= 1) or 1 - shape < Fraction(1, 10**4)
    assert realised_epsilon(epsilon, shape / 2, sensitivity) >= realised


# ── the modulus ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(20)])
@pytest.mark.parametrize("shape", [Fraction(1, 9500), Fraction(1, 2), Fraction(1), Fraction(21, 20), Fraction(10)])
@pytest.mark.parametrize("rarity", [10.0, 1e6])
def test_the_tail_of_noise_is_a_bound_and_not_a_loose_one(scale: Fraction, shape: Fraction, rarity: float) -> None:
    pmf = share_pmf(scale, shape)
    tail = np.cumsum(pmf[::-1])[::-1][len(pmf) // 2 + 1 :]  # Pr[Z > 0], Pr[Z > 1], …
    beyond = noise_shares._tail(scale, float(shape), math.log(rarity))
    assert tail[beyond] <= 1 / rarity
    smallest = int(np.argmax(tail <= 1 / rarity))
    if shape >= 1:
        assert beyond <= (3 if rarity == 10 else 1.5) * smallest + 1


def test_bits_grow_with_people_noise_and_length_and_are_the_smallest() -> None:
    assert wrap_bits(10_000, 1, 0, 1, 1254) == 14  # 2^13 ≤ 10,000 < 2^14
    assert wrap_bits(2**14 - 1, 1, 0, 1, 1) == 14
    assert wrap_bits(2**14, 1, 0, 1, 1) == 15
    assert wrap_bits(10_000, 100, 1, 1, 1254) == 20
    assert wrap_bits(100, 1, 100, 1, 1254) < wrap_bits(100, 1, 1000, 1, 1254)
    # Discrete Laplace of scale 100 is beyond ±t with probability 2 β^(t + 1)/(1 + β), so t = 3488 would do for 2^−40
    # anywhere in 1254 coordinates; our bound says 3971, which is no bit more.
    exact = math.ceil(100 * math.log(2 * 1254 * 2**40 / (1 + math.exp(-0.01)))) - 1
    assert exact <= noise_shares._tail(Fraction(100), 1.0, math.log(2 * 1254 * 2**40)) <= 1.15 * exact
    assert wrap_bits(100, 1, 100, 1, 1254) == (100 + 2 * exact).bit_length() == 13


def test_a_wrap_may_be_as_rare_as_one_likes() -> None:
    assert wrap_bits(1, 1, 1, 1, 1, probability=1e-320) == 11  # 320 · ln 10 = 737


def test_wrapping_is_as_rare_as_promised_and_seen_when_it_happens() -> None:
    people, scale, shape, length = 3, 40, Fraction(1), 100
    bits = wrap_bits(people, 1, scale, shape, length, probability=0.05)
    noise = noise_share(scale, shape, 3000 * length, Simulation(16)).reshape(-1, length)
    truth = np.arange(length) % (people + 1)

    def wrapped(bits: int) -> int:
        read = decode((truth + noise) % 2**bits, bits, people, 1)
        return int((read != truth + noise).any(axis=1).sum())

    # At most 5 % of 3000 vectors, and a binomial number is five deviations above its mean once in a million times.
    assert wrapped(bits) < 150 + FIVE_SIGMA * math.sqrt(150)
    assert wrapped(bits - 1) > 300


@given(st.integers(1, 1000), st.integers(1, 1000), st.data())
def test_decoding_undoes_the_modulus(people: int, per_person: int, data: st.DataObject) -> None:
    largest = people * per_person
    bits = data.draw(st.integers(largest.bit_length(), 62))
    margin = (2**bits - largest - 1) // 2
    values = data.draw(st.lists(st.integers(-margin, largest + margin), min_size=1))
    assert decode(np.array(values) % 2**bits, bits, people, per_person).tolist() == values


def test_the_printed_decoding_is_wrong() -> None:
    # Errata E3-9: negative noise is left at m − k.
    assert decode(np.array([2**14 - 3], dtype=np.uint64), 14, 10_000, 1).tolist() == [-3]


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_infinite_epsilon_gives_zeros() -> None:
    assert noise_share(laplace_scale(1, math.inf), Fraction(1, 9500), 1254, Simulation(1)).tolist() == [0] * 1254
    assert len(noise_share(2, 1, 0, Simulation(1))) == 0


def test_a_simulation_is_repeatable_and_a_release_is_not() -> None:
    first, second = (noise_share(2, Fraction(1, 2), 1000, Simulation(17)) for _ in range(2))
    assert (first == second).all()
    assert first.dtype == np.int64
    assert (noise_share(2, Fraction(1, 2), 1000, Simulation(18)) != first).any()
    secure = SecureRandomness()
    assert (noise_share(2, Fraction(1, 2), 1000, secure) != noise_share(2, Fraction(1, 2), 1000, secure)).any()


def test_a_whole_shape_is_discrete_laplace_noise() -> None:
    assert (noise_share(3, 1, 100, Simulation(19)) == discrete_laplace(3, 100, Simulation(19))).all()


@pytest.mark.parametrize("scale", [-1, 2**47, Fraction(1, 2**47), math.nan, math.inf, "wide"])
def test_a_scale_that_does_not_fit_is_refused(scale: Fraction) -> None:
    with pytest.raises(InvalidInput, match="scale of a noise share"):
        noise_share(scale, 1, 1, Simulation(1))


@pytest.mark.parametrize("shape", [0, -1, 1025, 1 / 9500, Fraction(1, 2**62), math.nan, None])
def test_a_shape_that_does_not_fit_is_refused(shape: Fraction) -> None:
    with pytest.raises(InvalidInput, match="shape of a noise share"):
        noise_share(2, shape, 1, Simulation(1))


@pytest.mark.parametrize("scale", [2**47 - 1, Fraction(1, 2**47 - 1), Fraction(2**46 + 1, 2**47 - 1)])
@pytest.mark.parametrize("shape", [Fraction(1, 2**62 - 1), Fraction(2**62 - 2, 2**62 - 1), 1024])
def test_the_largest_and_the_finest_parameters_can_be_drawn(scale: Fraction, shape: Fraction) -> None:
    drawn = noise_share(scale, shape, 200, Simulation(20)).astype(float)
    deviation = share_deviation(scale, shape)
    # Chebyshev would do for one; 40 deviations are far outside for all 200, and a 64-bit slip would be far beyond.
    assert np.abs(drawn).max() <= 40 * deviation
    # A term appears once in 1/shape times; and no scale below a thousandth leaves one.
    assert drawn.any() == (scale > Fraction(1, 1000) and shape > Fraction(1, 1000))


@given(st.integers(1, 2**26), st.fractions(min_value=SMALLEST_EPSILON, max_value=100))
def test_every_scale_of_a_mechanism_can_be_drawn(sensitivity: int, epsilon: Fraction) -> None:
    assert len(noise_share(laplace_scale(sensitivity, epsilon), Fraction(1, 2), 2, Simulation(1))) == 2


def test_bad_numbers_are_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="leaves no honest device"):
        share_shape(10, 10)
    with pytest.raises(InvalidInput, match="leaves no noise"):
        surviving_shape(Fraction(1, 10), 3, 3)
    with pytest.raises(InvalidInput, match="sigma is 0; give a standard deviation, a positive number"):
        epsilon_from_sigma(0)
    with pytest.raises(InvalidInput, match="sensitivity is 0"):
        realised_epsilon(1, 1, sensitivity=0)
    with pytest.raises(InvalidInput, match="epsilon is -1"):
        realised_epsilon(-1, 1)
    with pytest.raises(InvalidInput, match="is 0; give a whole number of at least 1"):
        wrap_bits(0, 1, 1, 1, 1)
    with pytest.raises(InvalidInput, match="probability of wrapping is 0"):
        wrap_bits(1, 1, 1, 1, 1, probability=0)
    with pytest.raises(TooLarge, match="a modulus of 64 bits"):
        wrap_bits(2**40, 2**23, 1, 1, 1)
    with pytest.raises(InvalidInput, match="do not fit a modulus of 3 bits"):
        decode([1], bits=3, people=8, per_person=1)
    with pytest.raises(InvalidInput, match="modulus has 63 bits"):
        decode([1], bits=63, people=8, per_person=1)
    with pytest.raises(InvalidInput, match="outside 0 … 2\\^4 − 1"):
        decode([16], bits=4, people=8, per_person=1)
    with pytest.raises(InvalidInput, match="whole numbers; found float64"):
        decode([1.0], bits=4, people=8, per_person=1)
