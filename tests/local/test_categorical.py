"""Cells as mere categories: randomised response, unary encoding, local hashing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from heathaze.errors import InvalidInput, TooLarge
from heathaze.local._hash_counts import add_hits
from heathaze.local.local_hashing import MAX_BUCKETS, PRIME, SEEDS, LocalHashing
from heathaze.local.randomized_response import RandomizedResponse
from heathaze.local.unary_encoding import WORDS, UnaryEncoding
from heathaze.privacy.randomness import Simulation
from heathaze.testing.statistics import chi_square
from tests.local.enumeration import (
    ALPHA,
    EPSILONS,
    SHAPES,
    assert_channel_is,
    assert_follows,
    draws,
    expected_tallies,
    plane,
    worst_loss,
)

# ── randomised response ─────────────────────────────────────────────────────────────────────────────────────────────


def test_randomized_response_has_its_textbook_probabilities() -> None:
    matrix = RandomizedResponse(plane(3, 5), 2).transition_matrix()
    assert matrix[4, 4] == pytest.approx(math.exp(2) / (math.exp(2) + 14), rel=1e-9)
    assert matrix[4, 3] == pytest.approx(1 / (math.exp(2) + 14), rel=1e-9)


# ── unary encoding ──────────────────────────────────────────────────────────────────────────────────────────────────


def loss_of_two_bits(true: float, other: float) -> float:
    """The worst log-ratio of two cells: only their own two bits differ in law, so four pairs of bits tell all."""
    chance = {1: (true, other), 0: (1 - true, 1 - other)}
    return max(
        math.log(chance[a][0] * chance[b][1] / (chance[a][1] * chance[b][0]))
        for a, b in itertools.product((0, 1), (0, 1))
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bits_betray_no_more_than_epsilon(epsilon: str) -> None:
    for shape in ((1, 1), (2, 3), (1, 7), (3, 4)):
        mechanism = UnaryEncoding(plane(*shape), epsilon)
        matrix = mechanism.transition_matrix()
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
        loss = worst_loss(matrix)
        if mechanism.grid.cells > 1:
            assert float(epsilon) - 1e-6 <= loss <= float(epsilon) + 1e-14
            assert loss == pytest.approx(loss_of_two_bits(0.5, mechanism.threshold / WORDS), rel=1e-12)
    for shape in SHAPES:  # the same four pairs of bits on any grid
        threshold = UnaryEncoding(plane(*shape), epsilon).threshold
        assert float(epsilon) - 1e-6 <= loss_of_two_bits(0.5, threshold / WORDS) <= float(epsilon) + 1e-14


def test_the_threshold_is_rounded_against_us() -> None:
    """(2^64 − A)/A ≤ e^ε exactly, and two less would break it (by a series of e^ε in whole numbers)."""
    for epsilon in ("0.000001", "0.1", "3.5", "9"):
        mechanism = UnaryEncoding(plane(2, 2), epsilon)
        power, term = mechanism.epsilon * 0, mechanism.epsilon * 0 + 1
        for k in range(1, 120):
            power, term = power + term, term * mechanism.epsilon / k
        a = mechanism.threshold
        assert WORDS - a <= a * power
        assert WORDS - (a - 2) > (a - 2) * power


def test_swapped_bits_leak() -> None:
    """True bit set with 1/(e^ε + 1) and the others with one half: the ratio is the same, but not the channel."""
    mechanism = UnaryEncoding(plane(2, 2), 1)
    q = mechanism.threshold / WORDS
    # Symmetric in the two, so the loss cannot tell; a keep-probability of 1 − q for all bits doubles it.
    assert loss_of_two_bits(1 - q, q) > 1.9
    swapped = np.full((4, 4), 0.5)
    np.fill_diagonal(swapped, q)
    with pytest.raises(AssertionError):
        assert_channel_is(mechanism.channel(), swapped / swapped.sum(axis=1, keepdims=True))


def test_bits_follow_the_matrix() -> None:
    mechanism = UnaryEncoding(plane(2, 5), 1)  # ten bits: two bytes, six bits of padding
    matrix = mechanism.transition_matrix()
    for cell in (0, 7, 9):
        reports = draws(mechanism, cell, 60_000, seed=cell)
        assert reports.shape == (60_000, 2)
        assert not (reports[:, 1] & 63).any()
        numbers = (reports[:, 0] << 2) | (reports[:, 1] >> 6)
        assert_follows(numbers, matrix[cell])
        with pytest.raises(AssertionError):
            assert_follows(numbers, matrix[cell - 1])


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (2, 5), (3, 3)])
def test_bits_tallies_and_channel_agree_with_the_matrix(shape: tuple[int, int]) -> None:
    for epsilon in ("0.7", "5"):
        mechanism = UnaryEncoding(plane(*shape), epsilon)
        assert_channel_is(mechanism.channel(), expected_tallies(mechanism))


def test_tallies_over_several_blocks() -> None:
    mechanism = UnaryEncoding(plane(64, 64), 3)
    cells = np.arange(3000) % 4096
    tallies = mechanism.tally(mechanism.draw(cells, Simulation(9)))
    held = tallies[:3000]  # one true bit each, and 2,999 others
    expected = 0.5 + 2999 * mechanism.threshold / WORDS
    assert abs(held.mean() - expected) < 6 * math.sqrt(expected / 3000)
    assert abs(tallies[3000:].mean() - 3000 * mechanism.threshold / WORDS) < 6 * math.sqrt(expected / 1096)


def test_impossible_bits_are_refused() -> None:
    mechanism = UnaryEncoding(plane(2, 5), 1)
    with pytest.raises(InvalidInput, match="a bit set for a cell that does not exist"):
        mechanism.tally(np.array([[0, 1]]))
    with pytest.raises(InvalidInput, match="A report holds a number outside 0 … 255"):
        mechanism.tally(np.array([[256, 0]]))
    with pytest.raises(TooLarge, match="too many reports to write out"):
        UnaryEncoding(plane(5, 5), 1).transition_matrix()


# ── local hashing ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", SHAPES)
def test_buckets_betray_no_more_than_epsilon(shape: tuple[int, int]) -> None:
    for epsilon in EPSILONS:
        mechanism = LocalHashing(plane(*shape), epsilon)
        seeds = [0, 1, 77, 2**31, SEEDS - 1]
        matrix = mechanism.transition_matrix(seeds)
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(matrix.reshape(-1, len(seeds), mechanism.buckets).sum(axis=2), 1 / 5, rtol=1e-12)
        loss = worst_loss(matrix)
        assert loss <= float(epsilon)
        if mechanism.grid.cells > 5:  # some seed tells some two cells apart
            assert loss >= float(epsilon) - 1e-6


def test_buckets() -> None:
    found = [LocalHashing(plane(5, 5), epsilon).buckets for epsilon in (1e-6, 0.1, 1, 3.5, 9, 1000)]
    assert found == [2, 2, 4, 34, 8104, MAX_BUCKETS]


def test_hashing_samples_follow_the_bucket_law() -> None:
    """Given the seed, a bucket is the true cell's with e^ε/(e^ε + g − 1), and any other equally likely."""
    mechanism = LocalHashing(plane(3, 4), 1)
    reports = draws(mechanism, 5, 60_000)
    true = mechanism._hash(reports[:, 0].astype(np.uint64), np.full(60_000, 5, dtype=np.uint64)).astype(np.int64)
    law = np.array([math.e, 1, 1, 1]) / (math.e + 3)
    assert_follows((reports[:, 1] - true) % 4, law)
    assert_follows(reports[:, 0] >> 26, np.full(64, 1 / 64))  # seeds are uniform


def test_hashes_are_even_and_independent() -> None:
    """Over seeds, the buckets of two cells are all pairs equally often: chi-square at alpha 1e-6."""
    for epsilon, cells in ((1, (0, 1)), (1, (3, 2**24 - 1)), ("0.1", (5, 2**20)), (2, (17, 18))):
        mechanism = LocalHashing(plane(4096, 4096), epsilon)
        seeds = np.arange(100_000, dtype=np.uint64)
        first, second = (mechanism._hash(seeds, np.full(seeds.size, cell, dtype=np.uint64)) for cell in cells)
        pairs = np.bincount(
            (first * np.uint64(mechanism.buckets) + second).astype(np.int64), minlength=mechanism.buckets**2
        )
        assert len(pairs) == mechanism.buckets**2
        assert chi_square(pairs, np.full(len(pairs), len(seeds) / len(pairs))) >= ALPHA


def test_hashing_is_what_the_formula_says() -> None:
    mechanism = LocalHashing(plane(40, 40), 3)
    seeds = np.array([0, 5, SEEDS - 1], dtype=np.uint64)
    for seed in seeds.tolist():
        word = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
        word ^= word >> 31
        a, c = (word >> 32) % (2**31 - 1), word % 2**32 % (2**31 - 1)
        expected = [(a * x + c) % (2**31 - 1) * mechanism.buckets >> 31 for x in range(1600)]
        found = mechanism._hash(np.array([seed], dtype=np.uint64), np.arange(1600, dtype=np.uint64))
        assert found.tolist() == expected


def test_hashing_tallies_follow_the_channel() -> None:
    """What many reports of one cell add to each cell, against the channel, within six standard errors."""
    mechanism, count = LocalHashing(plane(5, 6), 2), 200_000
    tallies = mechanism.tally(draws(mechanism, 8, count))
    one = np.zeros((5, 6))
    one.flat[8] = 1
    low, high = mechanism.weights
    support = high / (high + low * (mechanism.buckets - 1)) + 29 / mechanism.buckets
    expected = mechanism.channel().forward(one) * support * count
    assert (np.abs(tallies - expected) < 6 * np.sqrt(expected)).all()
    true, other = high / (high + low * (mechanism.buckets - 1)) / support, 1 / mechanism.buckets / support
    assert_channel_is(mechanism.channel(), np.full((30, 30), other) + np.eye(30) * (true - other))


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (15, 15), (40, 33)])
def test_jumping_from_hit_to_hit_counts_what_hashing_every_cell_counts(shape: tuple[int, int]) -> None:
    for epsilon in (1e-6, 0.5, 1, 3.5, 5, 9, 11.1):
        mechanism = LocalHashing(plane(*shape), epsilon)
        reports = mechanism.draw(np.arange(400) % mechanism.grid.cells, Simulation(4))
        assert (mechanism.tally(reports) == mechanism._tally_by_hashing(reports)).all()


def test_extreme_hash_functions_are_counted() -> None:
    """Factors 0, 1 and −1, and intervals of one value and of nearly all."""
    for factor in (0, 1, 2, PRIME - 1, PRIME // 2, PRIME // 3):
        for start in (0, 1, 5, PRIME - 1):
            for width in (1, 2, 7, PRIME // 3, PRIME - 1):
                counts = np.zeros(50, dtype=np.int64)
                add_hits(*(np.array([number]) for number in (factor, start, width)), PRIME, counts)
                assert counts.tolist() == [int((start + factor * x) % PRIME < width) for x in range(50)]


def test_impossible_buckets_are_refused() -> None:
    mechanism = LocalHashing(plane(3, 3), 1)
    for report in ([0, mechanism.buckets], [0, -1], [SEEDS, 0], [-1, 0]):
        with pytest.raises(InvalidInput, match="A report holds a number outside 0"):
            mechanism.tally(np.array([report]))
    with pytest.raises(TooLarge, match="do not fit into memory; ask for fewer seeds"):
        LocalHashing(plane(64, 64), 9).transition_matrix()


# ── both ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("epsilon", [1e-6, 1000])
@pytest.mark.parametrize("make", [UnaryEncoding, LocalHashing])
def test_extreme_epsilons_work(make: type[UnaryEncoding] | type[LocalHashing], epsilon: float) -> None:
    for shape in ((1, 1), (1, 7), (15, 15)):
        mechanism = make(plane(*shape), epsilon)
        cells = np.arange(mechanism.grid.cells).repeat(3)
        reports = mechanism.draw(cells, Simulation(3))
        assert reports.shape == (len(cells), mechanism.numbers)
        assert (reports < mechanism.limit).all()
        tallies = mechanism.tally(reports)
        assert mechanism.channel().backward(np.ones(mechanism.outcomes)) == pytest.approx(1)
        if epsilon == 1000 and make is LocalHashing:
            assert (tallies >= 3).all()
        if epsilon == 1000 and make is UnaryEncoding:
            assert (tallies <= 3).all()
