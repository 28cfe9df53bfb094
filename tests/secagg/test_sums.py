"""Sums: exact over whoever is left, for every size, width and moment of leaving; or none at all."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest

from heathaze.errors import InvalidInput, ShardAborted
from heathaze.privacy.randomness import SecureRandomness, Simulation
from heathaze.secagg import Client, Parameters, Phase, Server, run_shard, server
from tests.secagg.parties import Shard, directory, identities, operator, small_parameters, some_vectors, total


@pytest.mark.parametrize(
    ("clients", "neighbours"), [(3, None), (4, None), (5, None), (8, None), (8, 4), (13, 6), (30, 8)]
)
@pytest.mark.parametrize("bits", [1, 13, 32, 64])
def test_the_sum_of_all(clients: int, neighbours: int | None, bits: int) -> None:
    parameters = small_parameters(clients, neighbours, bits=bits, length=7)
    vectors = some_vectors(parameters)
    found = run_shard(parameters, vectors, randomness=Simulation(1), breach=1)
    assert found.survivors == tuple(range(clients))
    assert found.values.tolist() == total(vectors, range(clients), bits)


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("lost", [[0], [11], [4, 5], [0, 6, 11]])
@pytest.mark.parametrize("neighbours", [6, None])
def test_some_leave_at_one_step(phase: Phase, lost: list[int], neighbours: int | None) -> None:
    parameters = small_parameters(12, neighbours, survivors_at_least=9)
    vectors = some_vectors(parameters)
    found = run_shard(parameters, vectors, lost={phase: lost}, randomness=Simulation(1), breach=1)
    # Whoever delivered a vector is in the sum, though it may be gone when the masks are opened.
    left = [one for one in range(12) if one not in lost or phase > Phase.MASK]
    assert list(found.survivors) == left
    assert found.values.tolist() == total(vectors, left, parameters.bits)


def test_some_leave_at_every_step() -> None:
    parameters = Parameters.plan(40, 25, 20, dropout=0.35, corruption=0, survivors_at_least=20, failure=0.1)
    vectors = some_vectors(parameters)
    lost = {phase: range(2 * phase, 2 * phase + 2) for phase in Phase}
    found = run_shard(parameters, vectors, lost=lost, randomness=Simulation(1))
    assert found.survivors == tuple(range(6, 40))
    assert found.values.tolist() == total(vectors, found.survivors, parameters.bits)


def test_with_bits_of_the_operating_system() -> None:
    parameters = Parameters.plan(10, 5, 8, dropout=0.1, corruption=0.1)
    vectors = some_vectors(parameters)
    found = run_shard(parameters, vectors, randomness=SecureRandomness())
    assert found.values.tolist() == total(vectors, range(10), 8)
    assert run_shard(parameters, vectors).values.tolist() == found.values.tolist()


def test_a_long_vector() -> None:
    parameters = small_parameters(4, length=70_001, bits=19)
    vectors = some_vectors(parameters)
    found = run_shard(parameters, vectors, lost={Phase.MASK: [2]}, randomness=Simulation(1), breach=1)
    assert (found.values == vectors[[0, 1, 3]].sum(axis=0) % 2**19).all()


@pytest.mark.parametrize(
    ("phase", "sentence"),
    [
        (Phase.ADVERTISE, "3 clients advertised a key, expected at least 4"),
        (Phase.SHARE, "3 clients shared their keys, expected at least 4"),
        (Phase.MASK, "3 clients sent their vector, expected at least 4"),
        (Phase.AGREE, "no client has enough neighbours that agreed on the survivors"),
        (Phase.REVEAL, "2 neighbours of client 0 revealed a share, expected at least 3"),
    ],
)
def test_too_few_are_left(phase: Phase, sentence: str) -> None:
    parameters = small_parameters(5, survivors_at_least=4)
    with pytest.raises(ShardAborted, match=f"The shard is given up: {re.escape(sentence)}; begin a new round"):
        run_shard(parameters, some_vectors(parameters), lost={phase: [3, 4]}, randomness=Simulation(1), breach=1)


def test_a_server_that_gave_up_stays_so() -> None:
    shard = Shard(small_parameters(5, survivors_at_least=4))
    messages = shard.until(Phase.MASK)
    with pytest.raises(ShardAborted, match="2 clients sent their vector"):
        shard.to_server({one: messages[one] for one in (0, 1)})
    for one in range(5):
        with pytest.raises(ShardAborted, match="2 clients sent their vector"):
            shard.server.receive(messages[one])
    with pytest.raises(ShardAborted, match="2 clients sent their vector"):
        shard.server.close_phase()
    assert shard.server.sum is None


def test_one_whose_neighbours_left_is_not_let_to_mask() -> None:
    """Its masks could never be opened, so the server gives up before anybody sends a vector."""
    shard = Shard(small_parameters(12, 4, survivors_at_least=5))
    messages = shard.to_clients(shard.to_server(shard.begin()))
    gone = shard.server._neighbours[0][:2]
    with pytest.raises(ShardAborted, match=r"2 neighbours of client [0-9]+ are left, expected at least 3"):
        shard.to_server({one: message for one, message in messages.items() if one not in gone})


def test_leaving_out_the_lonely_would_leave_out_everybody() -> None:
    """Why the server gives up at once: on the circle one client without enough neighbours draws all others after it."""
    near = server.draw_graph(range(30), 8, Simulation(1))
    for needed in (5, 6, 7, 8):
        for gone in itertools.combinations(near[0], 9 - needed):
            left = set(range(30)) - set(gone)
            while lonely := {one for one in left if sum(other in left for other in near[one]) < needed}:
                left -= lonely
            assert left == set()


def test_a_sum_cannot_be_edited() -> None:
    parameters = small_parameters()
    found = run_shard(parameters, some_vectors(parameters), randomness=Simulation(1), breach=1)
    with pytest.raises(ValueError, match="read-only"):
        found.values[0] = 1


@pytest.mark.parametrize(("clients", "neighbours"), [(8, 7), (20, 6)])
def test_traffic_is_what_the_page_says(clients: int, neighbours: int) -> None:
    parameters = small_parameters(clients, neighbours, length=33, bits=11)
    sizes: list[int] = []
    run_shard(
        parameters,
        some_vectors(parameters),
        randomness=Simulation(1),
        breach=1,
        watch=lambda block: sizes.append(len(block)),
    )
    up = 670 + 135 * neighbours + math.ceil(33 * 11 / 8)
    down = 456 + 142 * neighbours + math.ceil(clients / 8)
    assert (parameters.bytes_sent, parameters.bytes_received) == (up, down)
    assert sum(sizes) == clients * (up + down)
    assert len(sizes) == 9 * clients


def test_one_vector_for_each_client() -> None:
    parameters = small_parameters(5)
    with pytest.raises(InvalidInput, match="There are 4 vectors, expected 5; give one for each client"):
        run_shard(parameters, np.zeros((4, 4), int), breach=1)


KINDS = small_parameters(4)


@pytest.mark.parametrize("argument", range(4))
def test_arguments_of_another_kind_are_refused_in_a_sentence(argument: int) -> None:
    keys = identities()
    given: list[Any] = [KINDS, 0, keys[0], directory(4)]
    given[argument] = "nonsense"
    parameters, index, identity, names = given
    with pytest.raises(InvalidInput, match="is a str; expected"):
        Client(parameters, index, identity, names, operator().public, np.zeros(KINDS.length, np.uint64), Simulation(1))
    if argument != 1:
        with pytest.raises(InvalidInput, match="is a str; expected"):
            Server(parameters, identity, names, Simulation(1))


def test_a_message_that_is_no_bytes_is_refused_in_a_sentence() -> None:
    shard = Shard(KINDS)
    for party in (shard.clients[0], shard.server):
        with pytest.raises(InvalidInput, match="A message is a str; expected bytes"):
            party.receive("nonsense")  # type: ignore[arg-type]
