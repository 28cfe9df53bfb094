"""Parameters: the plan keeps its promise with as few neighbours as can be, and what cannot hold is refused."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom

from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.randomness import Simulation
from heathaze.secagg import Parameters, server
from heathaze.secagg import parameters as bounds
from tests.secagg.parties import small_parameters


@pytest.mark.parametrize(
    ("marked", "others", "drawn"), [(5, 7, 4), (50, 949, 30), (900, 100, 40), (0, 9, 3), (9, 0, 3)]
)
def test_tails_are_the_hypergeometric_ones(marked: int, others: int, drawn: int) -> None:
    for wanted in range(drawn + 2):
        expected = hypergeom.sf(wanted - 1, marked + others, marked, drawn)
        found = bounds.at_least(marked, others, drawn, wanted)
        assert found == pytest.approx(expected, rel=1e-9)
    # 1/3 is no float: the bound lies above it.
    assert Fraction(bounds.at_least(1, 2, 1, 1)) > Fraction(1, 3)


@pytest.mark.parametrize(("clients", "degree"), [(8, 2), (8, 4), (10, 2), (10, 4), (11, 6)])
def test_the_bound_on_falling_apart_holds_for_every_number_removed(clients: int, degree: int) -> None:
    """All subsets, one by one. The bound is also no idle one: with two neighbours it is exact or within its square."""
    near = server.draw_graph(range(clients), degree, Simulation(1))
    for removed in range(clients - 1):
        subsets = list(itertools.combinations(range(clients), removed))
        apart = sum(not connected(near, set(range(clients)) - set(gone)) for gone in subsets)
        share = Fraction(apart, len(subsets))
        bound = bounds.disconnected(clients, degree, removed)
        assert share <= Fraction(bound)
        assert (share == 0) == (bound == 0) or removed >= clients - degree
        # The bound that is usually quoted, n · ρ^(k/2), is larger where either says anything.
        usual = clients * (removed / clients) ** (degree / 2)
        assert bound <= max(usual, 1e-12) or usual > 0.5


@pytest.mark.parametrize(("clients", "degree"), [(8, 4), (10, 2), (11, 6), (6, 5)])
def test_the_bound_on_captured_clients_holds_for_all_places_of_the_corrupt(clients: int, degree: int) -> None:
    """Some client, whichever it is: all places that the corrupt may sit at, one by one."""
    near = server.draw_graph(range(clients), degree, Simulation(1))
    for corrupt, wanted in itertools.product(range(1, clients - 1), range(1, degree + 1)):
        places = [set(places) for places in itertools.combinations(range(clients), corrupt)]
        captured = sum(
            any(len(bad.intersection(near[one])) >= wanted for one in range(clients) if one not in bad)
            for bad in places
        )
        assert Fraction(captured, len(places)) <= Fraction(bounds.captured(clients, clients, degree, corrupt, wanted))


def test_falling_apart_in_a_sample() -> None:
    """200 clients with 10 neighbours, 90 taken out: so often that a thousand draws show it, never above the bound."""
    source, apart = Simulation(3), 0
    near = server.draw_graph(range(200), 10, source)
    for _ in range(1000):
        left = set(server.permutation(200, source)[90:])
        apart += not connected(near, left)
    bound = bounds.disconnected(200, 10, 90)
    assert 0 < apart / 1000 <= bound


def connected(near: server.Graph, left: set[int]) -> bool:
    """Can everyone who is left reach everyone else who is?"""
    reached, front = set(), {min(left)}
    while front:
        reached |= front
        front = {other for one in front for other in near[one] if other in left} - reached
    return reached == left


@pytest.mark.parametrize("clients", [3, 5, 20, 100, 1000, 4000])
@pytest.mark.parametrize(("dropout", "corruption"), [(0, 0), (0.05, 0.05), (0.2, 0.05), (0.1, 0.2)])
def test_a_plan_keeps_its_promise(clients: int, dropout: float, corruption: float) -> None:
    if clients == 3 and dropout:
        with pytest.raises(InvalidInput, match="No number of neighbours is safe for 3 clients if 1 are lost"):
            Parameters.plan(clients, 4, 16, dropout=dropout, corruption=corruption)
        return
    parameters = Parameters.plan(clients, 4, 16, dropout=dropout, corruption=corruption)
    assert parameters.failure_bounds.captured <= 2**-41
    assert parameters.failure_bounds.disconnected <= 2**-41
    assert parameters.failure_bounds.breach <= 2**-40
    assert parameters.failure_bounds.unrecoverable <= 2**-20
    assert parameters.shares_needed > parameters.neighbours / 2
    assert parameters.survivors_at_least == clients - parameters.dropped_at_most


def test_the_plan_is_the_smallest() -> None:
    """Two neighbours fewer, with any threshold above half, break one of the three bounds."""
    parameters = Parameters.plan(1000, 4, 16, dropout=0.2, corruption=0.05)
    assert (parameters.neighbours, parameters.shares_needed) == (76, 39)
    fewer = parameters.neighbours - 2
    for needed in range(fewer // 2 + 1, fewer + 1):
        other = dataclasses.replace(parameters, neighbours=fewer, shares_needed=needed).failure_bounds
        assert other.captured > 2**-41 or other.disconnected > 2**-41 or other.unrecoverable > 2**-20


def test_neighbours_grow_like_a_logarithm() -> None:
    found = [Parameters.plan(n, 4, 16, dropout=0.1, corruption=0.1).neighbours for n in (250, 1000, 4000, 16000)]
    assert found == sorted(found)
    assert found[-1] < 2 * found[0]


def test_neighbours_lost_in_a_sample() -> None:
    """How often the sum fails for want of neighbours, in 2,000 graphs, stays below the stated bound but near it."""
    source, failures = Simulation(4), 0
    clients, degree, dropped, needed = 60, 10, 12, 6
    for _ in range(2000):
        near = server.draw_graph(range(clients), degree, source)
        failures += any(sum(other >= dropped for other in near[one]) < needed for one in range(dropped, clients))
    bound = bounds.unrecoverable(clients, degree, dropped, needed)
    assert bound / 4 < failures / 2000 <= bound


def test_the_sentence_states_the_probabilities() -> None:
    parameters = Parameters.plan(1000, 4, 16, dropout=0.05, corruption=0.05)
    found = parameters.failure_bounds
    assert parameters.described == (
        "Each of 1000 clients has 30 neighbours, 18 of which open a mask; with at most 50 corrupt and at least 950 "
        f"vectors summed the server learns more than the sum with probability at most {found.breach:.2g}; with at "
        f"most 50 lost there is no sum with probability at most {found.unrecoverable:.2g}."
    )


def test_no_two_rounds_are_named_alike() -> None:
    plans = [Parameters.plan(10, 4, 16, dropout=0, corruption=0) for _ in range(20)]
    assert len({parameters.round for parameters in plans}) == 20


def test_every_parameter_is_in_the_digest() -> None:
    parameters = small_parameters(9, 4, dropped_at_most=1, corrupt_at_most=1, survivors_at_least=6)
    changes: dict[str, Any] = {
        "round": bytes(16),
        "clients": 10,
        "neighbours": 6,
        "shares_needed": 4,
        "survivors_at_least": 7,
        "length": 5,
        "bits": 17,
        "dropped_at_most": 2,
        "corrupt_at_most": 2,
        "purpose": bytes(range(32)),
    }
    assert set(changes) == {field.name for field in dataclasses.fields(Parameters)}
    digests = {parameters.digest}
    for name, value in changes.items():
        extra = {"shares_needed": 4} if name == "neighbours" else {}
        digests.add(dataclasses.replace(parameters, **{name: value}, **extra).digest)
    assert len(digests) == 1 + len(changes)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"round": bytes(15)}, "A round is named by 16 bytes"),
        (
            {"clients": 2, "neighbours": 1},
            "clients is 2; give enough clients to hide one, a whole number from 3 to 1,048,576",
        ),
        ({"bits": 0}, "bits is 0; give the bits of the modulus, a whole number from 1 to 64"),
        ({"bits": 65}, "bits is 65; give the bits of the modulus, a whole number from 1 to 64"),
        ({"bits": 8.0}, r"bits is 8\.0; give the bits of the modulus, a whole number"),
        ({"length": 0}, "length is 0; give how many integers a client sends, a whole number from 1 to"),
        ({"neighbours": 3}, "neighbours is 3; give an even number"),
        ({"neighbours": 10}, "neighbours is 10; give how many other clients each has, a whole number from 2 to 9"),
        ({"shares_needed": 2}, "shares_needed is 2; give more than half of the neighbours, a whole number from 3 to 4"),
        ({"shares_needed": 5}, "shares_needed is 5; give more than half of the neighbours, a whole number from 3 to 4"),
        ({"survivors_at_least": 11}, "survivors_at_least is 11; .* a whole number from 4 to 10"),
        ({"survivors_at_least": 3}, "survivors_at_least is 3; .* a whole number from 4 to 10"),
        ({"survivors_at_least": 6, "corrupt_at_most": 5}, "survivors_at_least is 6; .* a whole number from 7 to 10"),
        ({"dropped_at_most": 3}, "survivors_at_least is 8; .* a whole number from 4 to 7"),
        ({"corrupt_at_most": -1}, "corrupt_at_most is -1; .* a whole number from 0 to 8"),
    ],
)
def test_parameters_that_cannot_be(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        small_parameters(**({"clients": 10, "neighbours": 4} | changed))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"clients": 2}, "clients is 2; give enough clients to hide one, a whole number from 3 to"),
        ({"dropout": 1.0}, r"dropout is 1\.0; give a share of the clients"),
        ({"dropout": -0.1}, r"dropout is -0\.1; give a share"),
        ({"corruption": 1.5}, r"corruption is 1\.5; give a share"),
        ({"failure": 0.0}, r"failure is 0\.0; give a probability"),
        ({"breach": 1.0}, r"breach is 1\.0; give a probability"),
        ({"dropout": 0.6}, "No number of neighbours is safe for 100 clients if 60 are lost, 0 are corrupt"),
        ({"corruption": 0.99}, "No number of neighbours is safe for 100 clients if 0 are lost, 99 are corrupt"),
        (
            {"dropout": 0.4, "corruption": 0.6},
            "No number of neighbours is safe for 100 clients if 40 are lost, 60 are",
        ),
        (
            {"dropout": 0.1, "survivors_at_least": 91},
            "survivors_at_least is 91; give a number that is left if 10 of 100 clients are lost, a whole .* 1 to 90",
        ),
        ({"survivors_at_least": 101}, "survivors_at_least is 101; .* a whole number from 1 to 100"),
        ({"survivors_at_least": 1}, "No number of neighbours is safe for 100 clients"),
    ],
)
def test_plans_that_cannot_be(changed: dict[str, Any], sentence: str) -> None:
    plan: dict[str, Any] = {"clients": 100, "length": 4, "bits": 16, "dropout": 0.0, "corruption": 0.0}
    with pytest.raises(InvalidInput, match=sentence):
        Parameters.plan(**(plan | changed))


def test_parameters_as_bytes() -> None:
    parameters = small_parameters(9, 4, dropped_at_most=1, corrupt_at_most=1, survivors_at_least=6)
    assert Parameters.from_bytes(parameters.to_bytes()) == parameters
    with pytest.raises(InvalidInput, match="Parameters of 76 bytes, expected 77; ask for them again"):
        Parameters.from_bytes(parameters.to_bytes()[:-1])
    with pytest.raises(InvalidInput, match="bits is 65; give the bits of the modulus, a whole number from 1 to 64"):
        Parameters.from_bytes(parameters.to_bytes()[:36] + bytes([65]) + parameters.to_bytes()[37:])
    with pytest.raises(InvalidInput, match="A purpose is 32 bytes"):
        dataclasses.replace(parameters, purpose=b"a map")


def test_so_many_neighbours_would_only_cost_time() -> None:
    """77 bytes must not make a device compute for minutes."""
    with pytest.raises(InvalidInput, match=r"neighbours is 524288; .* a whole number from 2 to 1,024"):
        small_parameters(2**20, 2**19, corrupt_at_most=2**18, survivors_at_least=2**20)


def test_unsafe_parameters_are_refused() -> None:
    parameters = small_parameters(30, 4, corrupt_at_most=10)
    with pytest.raises(PromiseBroken, match=r"with probability up to 1, expected at most 9\.1e-13"):
        parameters.require(2**-40)
    Parameters.plan(30, 4, 16, dropout=0.1, corruption=0.1).require(2**-40)


def test_a_lower_abort_threshold_asks_for_more_neighbours() -> None:
    """Privacy rests on the abort threshold, not on the dropout that was planned."""
    usual = Parameters.plan(1000, 4, 16, dropout=0.05, corruption=0.1)
    lower = Parameters.plan(1000, 4, 16, dropout=0.05, corruption=0.1, survivors_at_least=400)
    assert lower.neighbours > usual.neighbours
    assert lower.failure_bounds.breach <= 2**-40
    assert np.isclose(
        lower.failure_bounds.unrecoverable, bounds.unrecoverable(1000, lower.neighbours, 50, lower.shares_needed)
    )
