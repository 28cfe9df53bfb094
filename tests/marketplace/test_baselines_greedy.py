"""Choosing points one by one: the corrected bid against brute force, with hashes and with the kernel."""

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.marketplace import baselines
from heathaze.marketplace.baselines import herd, kernel_greedy, marginal_gain
from heathaze.marketplace.features import Features

INSTANCES = 300


def instance(seed):
    """Candidates and a target in a plane or more, with their hashes."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 5))
    points = rng.normal(size=(int(rng.integers(8, 25)), columns))
    target = rng.normal(rng.normal(), 0.7, (int(rng.integers(1, 12)), columns))
    features = Features(columns, gamma=float(rng.uniform(0.1, 2)), frequencies=int(rng.integers(2, 12)), seed=seed)
    return features, points, target


def test_every_pick_has_the_best_marginal_gain():
    for seed in range(INSTANCES):
        features, points, target = instance(seed)
        hashes, mean = features.of(points), features.of(target).mean(axis=0)
        rows = herd(hashes, mean, 6)
        assert len(set(rows.tolist())) == 6
        for q in range(6):
            left = np.setdiff1d(np.arange(len(points)), rows[:q])
            gains = {int(row): marginal_gain(hashes, mean, rows[:q], row) for row in left}
            assert gains[rows[q]] == pytest.approx(max(gains.values()), abs=1e-12), (seed, q)


def test_the_bid_as_printed_has_not():
    """Swapped back, as Algorithm 3 line 6 has them, the terms pick the worst point nearly always (errata E2-1)."""
    best = worst = 0
    for seed in range(INSTANCES):
        features, points, target = instance(seed)
        hashes, mean = features.of(points), features.of(target).mean(axis=0)
        rows, left = np.arange(3), np.arange(3, len(points))
        gains = [marginal_gain(hashes, mean, rows, row) for row in left]
        printed = hashes[left] @ (hashes[rows].mean(axis=0) - 3 / 4 * mean)
        best += int(np.argmax(printed)) == int(np.argmax(gains))
        worst += int(np.argmax(printed)) == int(np.argmin(gains))
    assert best < INSTANCES / 20
    assert worst > INSTANCES / 2


def kernel_objective(chosen, target, gamma):
    def mean(x, y):
        return np.exp(-gamma * ((x[:, None] - y[None]) ** 2).sum(axis=2)).mean()

    return 2 * mean(chosen, target) - mean(chosen, chosen) if len(chosen) else 0.0


@pytest.mark.parametrize("large", [2**22, 0])
def test_every_kernel_pick_has_the_best_marginal_gain(monkeypatch, large):
    monkeypatch.setattr(baselines, "LARGE", large)
    for seed in range(INSTANCES):
        features, points, target = instance(seed)
        rows = kernel_greedy(points, target, features.gamma, 5)
        assert len(set(rows.tolist())) == 5
        for q in range(5):
            values = [
                kernel_objective(points[[*rows[:q], row]], target, features.gamma) if row not in rows[:q] else -np.inf
                for row in range(len(points))
            ]
            assert values[rows[q]] == pytest.approx(max(values), abs=1e-12 if large else 1e-6), (seed, q)


def test_with_many_features_the_two_agree():
    rng = np.random.default_rng(4)
    points, target = rng.normal(size=(200, 2)), rng.normal(0.5, 0.5, (50, 2))
    features = Features(2, gamma=0.5, frequencies=20_000)
    hashed = herd(features.of(points), features.of(target).mean(axis=0), 20)
    exact = kernel_greedy(points, target, 0.5, 20)
    value = kernel_objective(points[exact], target, 0.5)
    assert kernel_objective(points[hashed], target, 0.5) == pytest.approx(value, rel=0.02)


@pytest.mark.parametrize("spread", [1, 1e-4])
def test_single_precision_changes_no_pick(spread):
    """Neither far from each other nor so near that many hashes are equal in single precision."""
    rng = np.random.default_rng(5)
    hashes = Features(3, gamma=0.3).of(spread * rng.normal(size=(3000, 3)))
    mean = rng.normal(0, 0.3, 140)
    summed, taken, rows = np.zeros(140), [], []
    for q in range(200):
        scores = hashes @ (mean - summed / (q + 1))
        scores[taken] = -np.inf
        taken.append(int(np.argmax(scores)))
        summed += hashes[taken[-1]]
        rows.append(taken[-1])
    assert herd(hashes, mean, 200).tolist() == rows


def test_of_equals_the_first_is_taken():
    rng = np.random.default_rng(6)
    once = rng.normal(size=(40, 3))
    points = np.concatenate([once, once, once])
    features = Features(3, gamma=0.5)
    for rows in (
        herd(features.of(points), features.of(once[:5]).mean(axis=0), 60),
        kernel_greedy(points, once[:5], 0.5, 60),
    ):
        seen = np.zeros(120, dtype=bool)
        for row in rows:
            assert all(seen[row % 40 : row : 40]), "an equal row further up was left out"
            seen[row] = True


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e30])
def test_a_target_of_any_length_is_followed(scale):
    rows = herd(np.eye(4), scale * np.array([0.1, 0.4, 0.2, 0.3]), 4)
    assert sorted(rows.tolist()) == [0, 1, 2, 3]
    if scale:
        assert rows[0] == 1


def test_a_longer_herd_begins_with_the_shorter_one_and_ends_with_the_points():
    rng = np.random.default_rng(7)
    points, target = rng.normal(size=(30, 2)), rng.normal(size=(9, 2))
    features = Features(2, gamma=1.0)
    hashes, mean = features.of(points), features.of(target).mean(axis=0)
    assert herd(hashes, mean, 50)[:12].tolist() == herd(hashes, mean, 12).tolist()
    assert kernel_greedy(points, target, 1.0, 50)[:12].tolist() == kernel_greedy(points, target, 1.0, 12).tolist()
    assert sorted(herd(hashes, mean, 50).tolist()) == sorted(kernel_greedy(points, target, 1.0, 50)) == list(range(30))
    for count in (0, np.int64(0)):
        assert herd(hashes, mean, count).shape == kernel_greedy(points, target, 1.0, count).shape == (0,)


@pytest.mark.parametrize("count", [-1, 1.5, True, None])
def test_a_count_that_is_none_is_refused(count):
    with pytest.raises(InvalidInput, match="The number of points to choose is"):
        herd(np.eye(2), np.ones(2), count)
    with pytest.raises(InvalidInput, match="The number of points to choose is"):
        kernel_greedy(np.eye(2), np.eye(2), 1.0, count)
