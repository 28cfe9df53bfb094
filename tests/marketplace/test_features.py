"""The public hash: unit vectors whose products are the kernel, the same on every machine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.errors import InvalidInput
from heathaze.marketplace import Features
from heathaze.marketplace.features import FARTHEST


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(1, 50), st.floats(1e-3, 1e3), st.integers(0, 2**40))
def test_every_hash_has_length_one(columns: int, frequencies: int, gamma: float, seed: int) -> None:
    points = np.random.default_rng(seed).normal(0, 10, (5, columns))
    hashes = Features(columns, gamma, frequencies, seed).of(points)
    assert hashes.shape == (5, 2 * frequencies)
    lengths = np.linalg.norm(hashes, axis=1)
    assert lengths == pytest.approx(np.ones(5), abs=1e-5)
    assert (lengths <= 1 + 1e-15).all()


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 2000), st.integers(0, 2**40))
def test_a_hash_and_its_products_do_not_depend_on_other_points(columns: int, rows: int, scale: int, seed: int) -> None:
    """Two worlds that differ in one record hash and score all the others the same, to the last bit."""
    rng = np.random.default_rng(seed)
    features = Features(columns, 0.5, frequencies=7)
    points, mean = rng.normal(0, scale, (rows, columns)) / np.sqrt(columns), rng.normal(0, 0.3, 14)
    hashes = features.of(points)
    products = features.products(hashes, mean)
    order = rng.permutation(rows)[: rng.integers(1, rows + 1)]
    again = features.of(points[order])
    assert np.array_equal(again, hashes[order])
    assert np.array_equal(features.products(again, mean), products[order])
    assert products == pytest.approx(hashes @ mean, abs=1e-6)


def test_products_are_exact() -> None:
    """Against whole numbers that do not round, for the longest mean hash there may be, and one beyond that is cut."""
    features = Features(20, 0.5)
    hashes = features.of(np.random.default_rng(2).normal(size=(50, 20)))
    mean = np.sign(hashes[0]) * 16 / np.sqrt(140)
    for times in (1, 1000):
        steps = [int(np.rint(number * 2**24)) for number in mean]
        exact = [sum(int(h * 2**24) * step for h, step in zip(row, steps, strict=True)) for row in hashes]
        assert [int(product * 2**48) for product in features.products(hashes, times * mean)] == exact


@pytest.mark.parametrize("columns", [1, 784, 2**17])
def test_angles_are_exact_whole_numbers(columns: int) -> None:
    """Points at the edge of what is let in, in the direction of a frequency: nothing larger can be."""
    features = Features(columns, 1.0, frequencies=2)
    whole, surplus = features._frequencies
    for frequency in whole.T:
        point = frequency / np.linalg.norm(frequency) * FARTHEST * (1 - 1e-12)
        steps = [int(step) for step in np.rint(point * 2**20)]
        for k, other in enumerate(whole.T):
            turns = sum(step * int(w) for step, w in zip(steps, other, strict=True))
            assert abs(turns) < 2**53
            place = ((turns + (1 << (surplus - 1))) >> surplus) % 2**16
            assert features.of(point[None])[0, k] == features._cosines[place]


def test_products_are_the_kernel_and_not_its_square() -> None:
    """ω ~ N(0, 2γ) gives exp(−γ‖x − y‖²); errata E2-9: the paper's appendix has exp(−2γ‖x − y‖²)."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 1, (2, 4))
    gamma = 0.1
    hashes = Features(4, gamma, frequencies=200_000).of([x, y])
    kernel = np.exp(-gamma * ((x - y) ** 2).sum())
    # Each frequency contributes a number within ±1; five standard errors are 1e-6.
    assert hashes[0] @ hashes[1] == pytest.approx(kernel, abs=5 / np.sqrt(200_000))
    assert abs(kernel - kernel**2) > 0.1


def test_the_same_seed_gives_the_same_hash_and_another_one_does_not() -> None:
    points = [[0.1, 0.2]]
    assert (Features(2, 1.0, seed=3).of(points) == Features(2, 1.0, seed=3).of(points)).all()
    assert not (Features(2, 1.0, seed=3).of(points) == Features(2, 1.0, seed=4).of(points)).any()
    # A stored value: the hash is part of the study, and a change would make old studies disagree.
    steps = Features(2, 1.0, frequencies=2, seed=3).of(points)[0] * 2**24
    assert steps.tolist() == KNOWN
    assert steps / 2**24 == pytest.approx(STRAIGHT, abs=1e-4)


def test_the_digest_tells_features_apart() -> None:
    digests = {Features(2, 1.0, frequencies, seed).digest for frequencies in (2, 3) for seed in (3, 4)}
    assert len(digests) == 4
    assert Features(2, 1.0, 2, 3).digest == Features(2, 5.0, 2, 3).digest  # γ only scales points


def test_the_limit_does_not_depend_on_how_a_table_lies_in_memory() -> None:
    features = Features(300, 1.0)
    points = np.random.default_rng(5).normal(size=(400, 300))
    points *= FARTHEST / np.linalg.norm(points, axis=1, keepdims=True)

    def let_in(table: np.ndarray) -> bool:
        try:
            features.checked(table)
        except InvalidInput:
            return False
        return True

    alone = [let_in(points[[k]]) for k in range(400)]
    assert 0 < sum(alone) < 400
    let = points[alone]
    assert let_in(let)
    assert let_in(np.asfortranarray(let))


KNOWN = [11334809, 11799862, 3501369, -1225043]
STRAIGHT = [0.6756196975036842, 0.7033266914130336, 0.20865767262439713, -0.07301756737933224]


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([[1.0, 2.0, 3.0]], "have 3 columns; the study has 2"),
        ([1.0, 2.0], "have no columns"),
        ([[1.0, np.nan]], "not finite"),
        ([["a", "b"]], r"not a table of numbers; encode rows with study.encode\(table\)\.points"),
    ],
)
def test_points_that_cannot_be_hashed(points: list, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Features(2, 1.0).of(points)


@pytest.mark.parametrize(
    "wrong",
    [{"columns": 0}, {"gamma": 0.0}, {"gamma": float("nan")}, {"frequencies": 0}, {"frequencies": 1.5}, {"seed": -1}],
)
def test_absurd_features_are_refused(wrong: dict) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Features(**({"columns": 2, "gamma": 1.0} | wrong))
