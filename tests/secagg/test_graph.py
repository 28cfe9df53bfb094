"""The neighbour graph: regular, symmetric, and a uniformly random order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from heathaze.privacy.randomness import Simulation
from heathaze.secagg import server
from heathaze.testing.statistics import chi_square


@pytest.mark.parametrize(("count", "degree"), [(5, 2), (9, 4), (30, 10), (7, 6), (7, 40), (3, 2)])
def test_everyone_has_as_many_neighbours_and_is_one_of_theirs(count: int, degree: int) -> None:
    members = [3 * k + 1 for k in range(count)]
    near = server.draw_graph(members, degree, Simulation(1))
    assert sorted(near) == members
    for one, others in near.items():
        assert len(others) == min(degree, count - 1)
        assert list(others) == sorted(set(others))
        assert one not in others
        assert all(one in near[other] for other in others)


def test_orders_are_uniform() -> None:
    source = Simulation(1)
    orders = dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(4800):
        orders[tuple(server.permutation(4, source))] += 1
    assert chi_square(list(orders.values()), [200] * 24) > 1e-6


def test_every_pair_is_as_likely_to_be_neighbours() -> None:
    source = Simulation(2)
    met = np.zeros((9, 9), dtype=int)
    for _ in range(1000):
        for one, others in server.draw_graph(range(9), 2, source).items():
            met[one, list(others)] += 1
    pairs = met[np.triu_indices(9, 1)]
    # Nine pairs in each graph, so the counts are less spread than independent ones: the test is on the safe side.
    assert chi_square(pairs, np.full(len(pairs), 250)) > 1e-6
    assert pairs.sum() == 9000
