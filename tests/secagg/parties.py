"""Identities that are drawn once, small parameters, and a shard whose messages the test carries itself."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from heathaze.privacy.randomness import Randomness, Simulation
from heathaze.secagg import Client, Identity, Parameters, Parcel, Server

MOST = 40


@functools.cache
def identities() -> tuple[Identity, ...]:
    """One for each client, and the server's at the end; long-lived, so all tests may share them."""
    source = Simulation(1)
    return tuple(Identity(source) for _ in range(MOST + 1))


def operator() -> Identity:
    """The server's identity."""
    return identities()[MOST]


def directory(clients: int) -> dict[int, bytes]:
    """The trusted list of public identities."""
    return {index: identities()[index].public for index in range(clients)}


def small_parameters(clients: int = 5, neighbours: int | None = None, **changed: Any) -> Parameters:
    """Parameters for few clients: everybody is a neighbour, just more than half open a mask, one may be lost."""
    near = clients - 1 if neighbours is None else neighbours
    needed = near // 2 + 1
    fields: dict[str, Any] = {
        "round": bytes(range(16)),
        "clients": clients,
        "neighbours": near,
        "shares_needed": needed,
        "survivors_at_least": max(needed + 1, clients - 2),
        "length": 4,
        "bits": 16,
    }
    return Parameters(**(fields | changed))


def some_vectors(parameters: Parameters, seed: int = 5) -> np.ndarray:
    """A vector for each client, over the whole range."""
    words = (
        Simulation(seed).words(parameters.clients * parameters.length).reshape(parameters.clients, parameters.length)
    )
    return words >> np.uint64(64 - parameters.bits)


def total(vectors: np.ndarray, survivors: Iterable[int], bits: int) -> list[int]:
    """The sum in Python's own integers."""
    rows = [vectors[one].tolist() for one in survivors]
    return [sum(column) % 2**bits for column in zip(*rows, strict=True)]


class Shard:
    """One server and its clients; the test carries the messages."""

    def __init__(
        self, parameters: Parameters, vectors: np.ndarray | None = None, randomness: Randomness | None = None
    ) -> None:
        source = randomness or Simulation(2)
        self.parameters = parameters
        self.vectors = some_vectors(parameters) if vectors is None else vectors
        listed = directory(parameters.clients)
        self.server = Server(parameters, operator(), listed, source)
        self.clients = [
            Client(parameters, k, identities()[k], listed, operator().public, self.vectors[k], source, breach=1)
            for k in range(parameters.clients)
        ]

    def begin(self) -> dict[int, bytes]:
        """The first message of everyone."""
        return {client.index: client.begin()[0] for client in self.clients}

    def to_server(self, messages: Mapping[int, bytes]) -> tuple[Parcel, ...]:
        """All of these arrive, and then time is up."""
        phase = self.server.phase
        parcels = [parcel for message in messages.values() for parcel in self.server.receive(message)]
        return (*parcels, *(self.server.close_phase() if self.server.phase is phase else ()))

    def to_clients(self, parcels: Iterable[Parcel]) -> dict[int, bytes]:
        """All of these arrive."""
        return {one: self.clients[one].receive(message)[0] for one, message in parcels}

    def until(self, phase: int) -> dict[int, bytes]:
        """Everybody's messages of that phase, not yet carried to the server."""
        messages = self.begin()
        for _ in range(phase):
            messages = self.to_clients(self.to_server(messages))
        return messages
