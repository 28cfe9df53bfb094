"""How far off an adversary guesses: golden numbers, known cases, the order of the two, what is refused."""

import numpy as np
import pytest

import heathaze as hz
from heathaze.errors import InvalidInput
from papers.local_disk_area.location_privacy import bayes_adversary, sampling_adversary

ADVERSARIES = [sampling_adversary, bayes_adversary]


def test_golden_numbers():
    # Errata E1-12: 5 × 5 cells, ε = 3.5, the paper's radius.
    grid = hz.Grid.plane(x=(0, 5), y=(0, 5), size=5)
    matrix = hz.local.DiskArea(grid, 3.5, radius=1).transition_matrix()
    assert sampling_adversary(matrix, grid.shape) == pytest.approx(1.582, abs=5e-4)
    assert bayes_adversary(matrix, grid.shape) == pytest.approx(1.126, abs=5e-4)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_who_sees_the_cell_guesses_it(adversary):
    assert adversary(np.eye(6), (2, 3)) == 0.0
    assert adversary(np.ones((1, 1)), (1, 1)) == 0.0


def test_who_sees_nothing_guesses_from_the_prior():
    # Two cells three apart, one of them three times as likely: the sampler is wrong in 2 · 3/4 · 1/4 of all cases.
    nothing, prior = np.ones((4, 1)), [3, 0, 0, 1]
    assert sampling_adversary(nothing, (1, 4), prior) == pytest.approx(3 * 2 * 3 / 16)
    assert bayes_adversary(nothing, (1, 4), prior) == pytest.approx(3 / 4)
    assert bayes_adversary(nothing, (1, 4), prior, unit="box") == pytest.approx(3 / 4 / 4)


def test_equals_the_sums_as_printed():
    rng = np.random.default_rng(3)
    matrix, prior = rng.dirichlet(np.ones(7), size=6), rng.dirichlet(np.ones(6))
    matrix[:, 2] = 0  # an output that never occurs
    matrix /= matrix.sum(axis=1, keepdims=True)
    places = [(row, col) for row in range(2) for col in range(3)]
    sampled = guessed = 0.0
    for output in range(7):
        joint = prior * matrix[:, output]
        costs = [
            sum(joint[i] * np.hypot(a[0] - b[0], a[1] - b[1]) for i, a in enumerate(places)) for b in places
        ]  # fmt: skip
        if joint.sum() > 0:
            sampled += sum(cost * share for cost, share in zip(costs, joint / joint.sum(), strict=True))
        guessed += min(costs)
    assert sampling_adversary(matrix, (2, 3), prior) == pytest.approx(sampled, rel=1e-12)
    assert bayes_adversary(matrix, (2, 3), prior) == pytest.approx(guessed, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_guess_is_better_and_at_best_by_half(seed):
    # Two draws are at most twice as far apart as each is from the best cell: the triangle inequality.
    rng = np.random.default_rng(seed)
    matrix, prior = rng.dirichlet(np.full(9, 0.3), size=12), rng.random(12)
    sampled, best = sampling_adversary(matrix, (3, 4), prior), bayes_adversary(matrix, (3, 4), prior)
    assert best < sampled <= 2 * best
    # Outputs that are merged tell less.
    coarse = np.add.reduceat(matrix, [0, 3, 6], axis=1)
    assert bayes_adversary(coarse, (3, 4), prior) > best
    assert sampling_adversary(coarse, (3, 4), prior) > sampled


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_refusals(adversary):
    with pytest.raises(InvalidInput, match="There is no unit 'km'"):
        adversary(np.eye(4), (2, 2), unit="km")
    with pytest.raises(InvalidInput, match="for a grid of 2 × 3 cells give 6 rows"):
        adversary(np.eye(4), (2, 3))
    for broken in (2 * np.eye(4), np.tile([1.5, -0.5], (4, 1)), np.full((4, 1), np.nan)):
        with pytest.raises(InvalidInput, match="are not probabilities"):
            adversary(broken, (2, 2))
    for prior in ([1, 1, 1], [0, 0, 0, 0], [1, 1, 1, -1], [1, 1, 1, np.inf]):
        with pytest.raises(InvalidInput, match="The prior needs a finite weight of at least 0 for each of 4 cells"):
            adversary(np.eye(4), (2, 2), prior)


def test_says_that_it_is_no_guarantee():
    for adversary in ADVERSARIES:
        assert "is not a privacy guarantee" in adversary.__doc__
