"""A whole shard in one process: for tests, benchmarks and trying things out. It proves nothing to anybody outside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from heathaze.errors import InvalidInput, ShardAborted
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.secagg.client import Client
from heathaze.secagg.keys import Identity
from heathaze.secagg.messages import Step
from heathaze.secagg.parameters import BREACH, Terms
from heathaze.secagg.server import Parcel, Server, Sum

Vectors = Sequence[npt.ArrayLike] | npt.NDArray[Any]


def run_shard(
    terms: Terms,
    vectors: Vectors,
    *,
    lost: Mapping[Step, Collection[int]] | None = None,
    randomness: Randomness | None = None,
    breach: float = BREACH,
    watch: Callable[[bytes], None] | None = None,
) -> Sum:
    """The sum of one vector for each client, by the real protocol.

    Args:
        terms: What the round is about.
        vectors: A vector for each client.
        lost: Who falls silent for good in which step: its message of that step no longer arrives.
        randomness: Where all keys come from; the operating system's unless given.
        breach: As for :class:`~heathaze.secagg.client.Client`.
        watch: Called with every message on the wire.

    Raises:
        ShardAborted: if too many were lost.

    >>> from heathaze.privacy.randomness import Simulation
    >>> terms = Terms.plan(6, length=3, bits=8, dropout=0.2, corruption=0)
    >>> found = run_shard(terms, [[1, 2, 250]] * 6, lost={Step.MASK: [4]}, randomness=Simulation(1))
    >>> found.values.tolist(), found.survivors
    ([5, 10, 226], (0, 1, 2, 3, 5))
    """
    if len(vectors) != terms.clients:
        raise InvalidInput(f"There are {len(vectors)} vectors, expected {terms.clients}; give one for each client.")
    source = randomness or SecureRandomness()
    people = [Identity(source) for _ in range(terms.clients)]
    directory = {index: person.public for index, person in enumerate(people)}
    operator = Identity(source)
    server = Server(terms, operator, directory, source)
    clients = [
        Client(terms, index, person, directory, operator.public, vectors[index], source, breach=breach)
        for index, person in enumerate(people)
    ]
    see = watch or (lambda _: None)
    silent: set[int] = set()
    sent = [(client.index, message) for client in clients for message in client.begin()]
    for step in Step:
        silent.update((lost or {}).get(step, ()))
        parcels: list[Parcel] = []
        for sender, message in sent:
            if sender not in silent:
                see(message)
                parcels += server.receive(message)
        if server.step is step:
            parcels += server.close_step()
        sent = []
        for recipient, message in parcels:
            see(message)
            sent += [(recipient, answer) for answer in clients[recipient].receive(message)]
    if server.sum is None:
        raise ShardAborted("The shard is given up: the steps are over and there is no sum; begin a new round.")
    return server.sum
