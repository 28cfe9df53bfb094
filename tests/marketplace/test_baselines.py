"""Choices to measure against: what each takes, from whom, and in which order."""

from collections import Counter

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.marketplace import mmd_squared
from heathaze.marketplace.baselines import exact_greedy, greedy, herd, kernel_greedy, random_pool, target_only, uniform
from heathaze.marketplace.features import Features
from heathaze.privacy.randomness import Simulation

FEATURES = Features(2, gamma=0.5, frequencies=100)


def market(seed=0):
    """Three owners at three places, an empty one, and a target that needs two of them."""
    rng = np.random.default_rng(seed)
    owners = {name: rng.normal(at, 0.6, (size, 2)) for name, at, size in (("a", 0, 60), ("b", 3, 90), ("c", -4, 50))}
    target = np.concatenate([rng.normal(0, 0.5, (30, 2)), rng.normal(3, 0.5, (10, 2))])
    return target, {"a": owners["a"], "none": np.empty((0, 2)), "b": owners["b"], "c": owners["c"]}


def everyone(count=20):
    target, owners = market()
    yield greedy(FEATURES, target, owners, count)
    yield exact_greedy(FEATURES, target, owners, count)
    yield target_only(FEATURES, target, owners, count)
    yield uniform(owners, count, Simulation(1))
    yield random_pool(FEATURES, target, owners, count, seen=3, randomness=Simulation(1))


def test_a_choice_says_whose_points_and_which():
    _, owners = market()
    for chosen in everyone():
        assert len(chosen.owners) == len(chosen.rows) == len(chosen.points) == 20
        assert len(set(zip(chosen.owners, chosen.rows.tolist(), strict=True))) == 20
        for owner, row, point in zip(chosen.owners, chosen.rows, chosen.points, strict=True):
            assert owners[owner][row].tolist() == point.tolist()
        assert chosen.first(5).rows.tolist() == chosen.rows[:5].tolist()
        assert len(chosen.first(5).owners) == len(chosen.first(5).points) == 5
        assert "points" not in repr(chosen), "a choice prints no data"


def test_greedy_choices_are_those_over_all_points_at_once():
    target, owners = market()
    together = np.concatenate(list(owners.values()))
    rows = herd(FEATURES.of(together), FEATURES.of(target).mean(axis=0), 30)
    assert (greedy(FEATURES, target, owners, 30).points == together[rows]).all()
    rows = kernel_greedy(together, target, FEATURES.gamma, 30)
    assert (exact_greedy(FEATURES, target, owners, 30).points == together[rows]).all()


def test_target_only_takes_the_most_alike():
    target, owners = market()
    scores = {
        (name, row): float(FEATURES.of(points[row : row + 1])[0] @ FEATURES.of(target).mean(axis=0))
        for name, points in owners.items()
        for row in range(len(points))
    }
    best = sorted(scores, key=lambda key: -scores[key])[:20]
    chosen = target_only(FEATURES, target, owners, 20)
    assert list(zip(chosen.owners, chosen.rows.tolist(), strict=True)) == best


def test_they_are_as_good_as_what_they_know():
    found = {"exact": [], "hashes": [], "pool": [], "alike": [], "uniform": []}
    for seed in range(10):
        target, owners = market(seed)
        fresh = np.concatenate(
            [np.random.default_rng(100 + seed).normal(at, 0.5, (n, 2)) for at, n in ((0, 300), (3, 100))]
        )
        for name, chosen in (
            ("exact", exact_greedy(FEATURES, target, owners, 20)),
            ("hashes", greedy(FEATURES, target, owners, 20)),
            ("pool", random_pool(FEATURES, target, owners, 20, seen=3, randomness=Simulation(seed))),
            ("alike", target_only(FEATURES, target, owners, 20)),
            ("uniform", uniform(owners, 20, Simulation(seed))),
        ):
            found[name].append(mmd_squared(fresh, chosen.points, FEATURES.gamma))
    means = {name: np.mean(values) for name, values in found.items()}
    assert means["exact"] < 1.2 * means["hashes"]
    assert means["exact"] < 1.2 * means["pool"]
    assert means["pool"] < means["uniform"] / 3
    assert means["hashes"] < means["alike"] / 3


def test_uniform_asks_every_owner_for_as_much():
    _, owners = market()
    assert Counter(uniform(owners, 60, Simulation(1)).owners) == {"a": 20, "b": 20, "c": 20}
    assert Counter(uniform(owners, 62, Simulation(1)).owners) == {"a": 21, "b": 21, "c": 20}
    assert Counter(uniform(owners, 190, Simulation(1)).owners) == {"a": 60, "b": 80, "c": 50}
    assert Counter(uniform(owners, 10**6, Simulation(1)).owners) == {"a": 60, "b": 90, "c": 50}
    assert uniform(owners, 9, Simulation(1)).rows.tolist() != uniform(owners, 9, Simulation(2)).rows.tolist()


def test_uniform_points_are_uniform():
    owners = {"a": np.arange(6.0)[:, None], "b": np.arange(3.0)[:, None]}
    randomness = Simulation(5)
    rows = Counter()
    for _ in range(3000):
        chosen = uniform(owners, 4, randomness)
        rows.update(zip(chosen.owners, chosen.rows.tolist(), strict=True))
    # Two of six and two of three: 1,000 and 2,000 times each, by 26 at most; 5.6 deviations are missed once in 5e7.
    for (owner, _), count in rows.items():
        assert abs(count - (1000 if owner == "a" else 2000)) < 5.6 * 26
    assert len(rows) == 9


def test_a_pool_holds_as_many_points_as_said():
    target, owners = market()
    everything = random_pool(FEATURES, target, owners, 20, seen=10, randomness=Simulation(1))
    assert (everything.points == exact_greedy(FEATURES, target, owners, 20).points).all()
    nothing_more = random_pool(FEATURES, target, owners, 21, seen=1, randomness=Simulation(1))
    sent = uniform(owners, 21, Simulation(1))
    assert sorted(map(tuple, nothing_more.points)) == sorted(map(tuple, sent.points))


def test_refusals():
    target, owners = market()
    with pytest.raises(InvalidInput, match="The target has no points"):
        greedy(FEATURES, np.empty((0, 2)), owners, 3)
    with pytest.raises(InvalidInput, match="There is no owner"):
        uniform({}, 3, Simulation(1))
    with pytest.raises(InvalidInput, match="The points have 3 columns; the study has 2"):
        exact_greedy(FEATURES, target, owners | {"d": np.ones((4, 3))}, 3)
