"""What owners contributed: equal to the definition by brute force, and to the MMD of the whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import heathaze as hz
from heathaze.errors import InvalidInput
from heathaze.marketplace.baselines import Chosen, greedy
from heathaze.marketplace.features import Features
from heathaze.marketplace.mmd import attribution, mmd_squared, shapley_values

GAMMA = 0.7


def _choice(seed: int, count: int = 30) -> tuple[Chosen, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, 3))
    names = tuple(np.array(["a", "b", "c"])[rng.integers(0, 3, count)].tolist())
    return Chosen(names, np.arange(count), points), rng.normal(size=(25, 3))


def _objective(points: np.ndarray, target: np.ndarray) -> float:
    """J by its definition, pair by pair."""
    if not len(points):
        return 0.0

    def mean(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.mean([np.exp(-GAMMA * ((x - y) ** 2).sum()) for x in one for y in other]))

    return 2 * mean(target, points) - mean(points, points)


def _game(points: np.ndarray, target: np.ndarray) -> Callable[[Sequence[int]], float]:
    """What some of the points are worth, of as many as there are in all."""
    count = len(points)

    def kernels(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.array([[np.exp(-GAMMA * ((x - y) ** 2).sum()) for y in other] for x in one])

    near, alike = kernels(points, target).mean(axis=1), kernels(points, points)

    def worth(some: Sequence[int]) -> float:
        return float(2 / count * near[list(some)].sum() - alike[np.ix_(some, some)].sum() / count**2)

    return worth


def _shapley(players: Sequence[Sequence[int]], worth: Callable[[Sequence[int]], float]) -> list[float]:
    """By its definition: what each player adds, on average over all orders in which players come."""
    gains = np.zeros(len(players))
    orders = list(itertools.permutations(range(len(players))))
    for order in orders:
        there: list[int] = []
        for player in order:
            before = worth(there)
            there = [*there, *players[player]]
            gains[player] += worth(there) - before
    return list(gains / len(orders))


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_values_are_those_of_shapley_over_all_orders(count: int) -> None:
    chosen, target = _choice(count, count)
    wanted = _shapley([[k] for k in range(count)], _game(chosen.points, target))
    assert shapley_values(chosen.points, target, GAMMA) == pytest.approx(wanted, abs=1e-12)


def test_owners_as_players_get_what_their_points_get() -> None:
    chosen, target = _choice(3, 17)
    players = [[k for k, name in enumerate(chosen.owners) if name == owner] for owner in "abc"]
    wanted = _shapley(players, _game(chosen.points, target))
    assert [row.value for row in attribution(chosen, target, GAMMA, "abc")] == pytest.approx(wanted, abs=1e-12)


def test_the_order_of_choice_does_not_matter() -> None:
    chosen, target = _choice(4)
    turned = Chosen(chosen.owners[::-1], chosen.rows[::-1], chosen.points[::-1])
    for one, other in zip(
        attribution(chosen, target, GAMMA, "abc"), attribution(turned, target, GAMMA, "abc"), strict=True
    ):
        assert one.to_dict() == pytest.approx(other.to_dict())


def test_the_public_name_is_the_function() -> None:
    assert hz.marketplace.attribution is attribution


@pytest.mark.parametrize("seed", range(5))
def test_values_add_up_to_the_objective_and_shares_to_one(seed: int) -> None:
    chosen, target = _choice(seed)
    rows = attribution(chosen, target, GAMMA)
    assert sum(row.value for row in rows) == pytest.approx(_objective(chosen.points, target))
    # MMD² is the same constant minus J, for every choice.
    constant = mmd_squared(target, chosen.points, GAMMA) + _objective(chosen.points, target)
    assert constant == pytest.approx(
        mmd_squared(target, chosen.points[:3], GAMMA) + _objective(chosen.points[:3], target)
    )
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert {row.owner: row.chosen for row in rows} == {name: chosen.owners.count(name) for name in "abc"}


def test_missed_is_the_distance_that_taking_an_owner_away_adds() -> None:
    chosen, target = _choice(9)
    for row in attribution(chosen, target, GAMMA):
        rest = chosen.points[[name != row.owner for name in chosen.owners]]
        added = mmd_squared(target, rest, GAMMA) - mmd_squared(target, chosen.points, GAMMA)
        assert row.missed == pytest.approx(added, abs=1e-12)


def test_an_owner_like_the_target_is_worth_more() -> None:
    rng = np.random.default_rng(2)
    target = rng.normal(size=(50, 2))
    owners = {"near": rng.normal(size=(200, 2)), "far": rng.normal(4, 1, size=(200, 2))}
    chosen = greedy(Features(2, gamma=GAMMA), target, owners, 40)
    rows = {row.owner: row for row in attribution(chosen, target, GAMMA, ("near", "far"))}
    assert rows["near"].value > 10 * abs(rows["far"].value)
    assert rows["near"].missed > rows["far"].missed


def test_who_sold_nothing_is_listed_and_worth_nothing() -> None:
    chosen, target = _choice(1, 6)
    rows = attribution(chosen, target, GAMMA, ("z", "c", "b"))
    assert [row.owner for row in rows][:3] == ["z", "c", "b"]
    assert rows[0].to_dict() == {
        "owner": "z",
        "chosen": 0,
        "share": 0,
        "value": 0,
        "missed": 0,
    }
    assert "0" not in repr(rows[0])


def test_the_only_owner_is_worth_everything() -> None:
    rng = np.random.default_rng(0)
    points, target = rng.normal(size=(9, 2)), rng.normal(size=(9, 2))
    (row,) = attribution(Chosen(("only",) * 9, np.arange(9), points), target, GAMMA)
    assert row.value == pytest.approx(row.missed)
    assert row.value == pytest.approx(_objective(points, target))


def test_nothing_bought() -> None:
    nothing = Chosen((), np.empty(0, dtype=np.int64), np.empty((0, 2)))
    assert attribution(nothing, np.zeros((3, 2)), GAMMA) == ()
    (row,) = attribution(nothing, np.zeros((3, 2)), GAMMA, ("a",))
    assert (row.chosen, row.share, row.value, row.missed) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("target", "gamma", "sentence"),
    [
        (np.zeros((3, 3)), 0.5, "same columns"),
        (np.zeros((0, 2)), 0.5, "at least one target point"),
        (np.zeros(3), 0.5, "same columns"),
        (np.zeros((3, 2)), 0.0, "gamma is 0"),
    ],
)
def test_refusals(target: np.ndarray, gamma: float, sentence: str) -> None:
    chosen = Chosen(("a",), np.zeros(1, dtype=np.int64), np.zeros((1, 2)))
    with pytest.raises(InvalidInput, match=sentence):
        attribution(chosen, target, gamma)
