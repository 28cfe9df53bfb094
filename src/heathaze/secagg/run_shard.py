"""Run a secure sum of one shard in one process, for tests, benchmarks and small demonstrations.

The messages are those of the real protocol. But the process holds all vectors, so this function protects nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from heathaze.errors import InvalidInput, ShardAborted
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.secagg.client import Client
from heathaze.secagg.keys import Identity
from heathaze.secagg.messages import Phase
from heathaze.secagg.parameters import BREACH, Parameters
from heathaze.secagg.server import Parcel, Server, Sum

Vectors = Sequence[npt.ArrayLike] | npt.NDArray[Any]


def run_shard(
    parameters: Parameters,
    vectors: Vectors,
    *,
    lost: Mapping[Phase, Collection[int]] | None = None,
    randomness: Randomness | None = None,
    breach: float = BREACH,
    watch: Callable[[bytes], None] | None = None,
) -> Sum:
    """Run a secure sum of one shard: clients and server exchange the real messages in one process.

    Args:
        parameters: The parameters of the round.
        vectors: One vector for each client: ``length`` integers from 0 to 2^bits − 1.
        lost: For each phase, the clients that are lost. Their messages of that phase and of later phases do not arrive.
        randomness: The source of all keys; the operating system's if left out.
        breach: The same as for :class:`~heathaze.secagg.client.Client`.
        watch: A function that is called with every message.

    Returns:
        The sum over the clients that survived.

    Raises:
        InvalidInput: There is not one vector for each client, or a vector does not fit.
        ShardAborted: Too many clients were lost.

    >>> from heathaze.privacy.randomness import Simulation
    >>> parameters = Parameters.plan(6, length=3, bits=8, dropout=0.2, corruption=0)
    >>> found = run_shard(parameters, [[1, 2, 250]] * 6, lost={Phase.MASK: [4]}, randomness=Simulation(1))
    >>> found.values.tolist(), found.survivors
    ([5, 10, 226], (0, 1, 2, 3, 5))
    """
    if len(vectors) != parameters.clients:
        raise InvalidInput(
            f"There are {len(vectors)} vectors, expected {parameters.clients}; give one for each client."
        )
    source = randomness or SecureRandomness()
    people = [Identity(source) for _ in range(parameters.clients)]
    directory = {index: person.public for index, person in enumerate(people)}
    operator = Identity(source)
    server = Server(parameters, operator, directory, source)
    clients = [
        Client(parameters, index, person, directory, operator.public, vectors[index], source, breach=breach)
        for index, person in enumerate(people)
    ]
    see = watch or (lambda _: None)
    silent: set[int] = set()
    sent = [(client.index, message) for client in clients for message in client.begin()]
    for phase in Phase:
        silent.update((lost or {}).get(phase, ()))
        parcels: list[Parcel] = []
        for sender, message in sent:
            if sender not in silent:
                see(message)
                parcels += server.receive(message)
        if server.phase is phase:
            parcels += server.close_phase()
        sent = []
        for recipient, message in parcels:
            see(message)
            sent += [(recipient, answer) for answer in clients[recipient].receive(message)]
    if server.sum is None:
        raise ShardAborted("The shard is given up: the phases are over and there is no sum; begin a new round.")
    return server.sum
