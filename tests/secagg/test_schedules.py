"""Random schedules: whatever the network does, the sum is exact over the announced survivors or there is none."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.errors import ShardAborted, UnexpectedMessage
from heathaze.privacy.randomness import Simulation
from heathaze.secagg import Parcel, Phase
from tests.secagg.parties import Shard, small_parameters, total

PARAMETERS = [
    small_parameters(4, survivors_at_least=3),
    small_parameters(6, survivors_at_least=4),
    small_parameters(9, 4, survivors_at_least=5),
    small_parameters(7, bits=5, length=3, survivors_at_least=5),
]
OTHER = small_parameters(4, round=bytes(16), survivors_at_least=3)


class Network:
    """Messages on their way, each in an envelope of bytes; a plan of mishaps; and what came of it."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.dead: set[int] = set()
        self.wire: list[Parcel] = []
        self.carried: list[Parcel] = []
        self.aborted = False
        self.refused = 0

    def post(self, parcel: Parcel) -> None:
        self.wire.append(parcel)

    def deliver(self, parcel: Parcel, *, garbled: bool = False) -> None:
        """Into the machine it is for; what comes back is on its way."""
        shard = self.shard
        try:
            if parcel.recipient < 0:
                answers: Any = shard.server.receive(parcel.message)
            elif parcel.recipient in self.dead:
                return
            else:
                answers = [Parcel(-1, block) for block in shard.clients[parcel.recipient].receive(parcel.message)]
        except UnexpectedMessage:
            self.refused += 1
            return
        except ShardAborted:
            self.aborted = True
            return
        assert not garbled, "a garbled message was believed"
        for answer in answers:
            self.post(answer)

    def close(self) -> None:
        try:
            for parcel in self.shard.server.close_phase():
                self.post(parcel)
        except ShardAborted:
            self.aborted = True

    def mishap(self, what: str, place: int) -> None:
        """One thing that networks do."""
        if what == "close":
            self.close()
        elif what == "kill":
            victim = place % self.shard.parameters.clients
            self.dead.add(victim)
        elif what == "again" and self.carried:
            self.deliver(self.carried[place % len(self.carried)])
        elif what == "foreign":
            self.deliver(FOREIGN[place % len(FOREIGN)], garbled=True)
        elif self.wire:
            at = place % len(self.wire)
            parcel = self.wire[at]
            if what == "deliver":
                self.wire.pop(at)
                self.carried.append(parcel)
                self.deliver(parcel)
            elif what == "drop":
                self.wire.pop(at)
            elif what == "garble":
                block = bytearray(parcel.message)
                bit = place % (8 * len(block))
                block[bit // 8] ^= 1 << bit % 8
                self.deliver(Parcel(parcel.recipient, bytes(block)), garbled=True)
            elif what == "cut":
                self.deliver(Parcel(parcel.recipient, parcel.message[: place % len(parcel.message)]), garbled=True)
            elif what == "redirect":
                # To another machine than it is for.
                wrong = -1 if parcel.recipient >= 0 else place % self.shard.parameters.clients
                self.deliver(Parcel(wrong, parcel.message), garbled=wrong not in self.dead)

    def settle(self) -> None:
        """The network calms down: all that is left arrives, and phases end by themselves or by the clock."""
        for _ in Phase:
            while self.wire:
                self.deliver(self.wire.pop(0))
            self.close()


def foreign() -> list[Parcel]:
    """Messages of another round of the same people: all that is ever sent there."""
    shard = Shard(OTHER)
    found, messages = [], shard.begin()
    for _ in Phase:
        found += [Parcel(-1, message) for message in messages.values()]
        parcels = shard.to_server(messages)
        found += parcels
        messages = shard.to_clients(parcels)
    assert shard.server.sum is not None
    return found


FOREIGN = foreign()

MISHAPS = st.tuples(
    # Mostly harmless ones: what ends a shard at once would show little of what comes later.
    st.sampled_from(
        ["deliver"] * 50 + ["again", "garble", "foreign", "cut", "redirect"] * 4 + ["close", "kill", "drop"]
    ),
    st.integers(0, 10_000),
)


@given(
    parameters=st.sampled_from(PARAMETERS), seed=st.integers(0, 5), plan=st.lists(MISHAPS, min_size=25, max_size=150)
)
@settings(max_examples=150)
def test_the_sum_is_exact_or_there_is_none(parameters: Any, seed: int, plan: list[tuple[str, int]]) -> None:
    shard = Shard(parameters, randomness=Simulation(seed))
    network = Network(shard)
    for message in shard.begin().values():
        network.post(Parcel(-1, message))
    for what, place in plan:
        network.mishap(what, place)
    network.settle()
    found = shard.server.sum
    assert (found is None) == network.aborted
    if found is not None:
        assert len(found.survivors) >= parameters.survivors_at_least
        assert found.values.tolist() == total(shard.vectors, found.survivors, parameters.bits)
    # The server kept to the rules all the time, so nobody has a reason to stop for good.
    assert not any(client.stopped for client in shard.clients)


def test_both_ends_are_reached() -> None:
    """The schedules above are neither all calm nor all fatal: one of each kind, by name."""
    calm = Network(Shard(PARAMETERS[1]))
    for message in calm.shard.begin().values():
        calm.post(Parcel(-1, message))
    calm.settle()
    assert calm.shard.server.sum is not None
    assert calm.shard.server.sum.survivors == tuple(range(6))
    fatal = Network(Shard(PARAMETERS[1]))
    for message in fatal.shard.begin().values():
        fatal.post(Parcel(-1, message))
    for _ in range(3):
        fatal.mishap("drop", 0)
    fatal.settle()
    assert fatal.aborted


def test_every_single_bit_of_an_envelope_matters() -> None:
    shard = Shard(PARAMETERS[0])
    network = Network(shard)
    first = shard.begin()[0]
    for bit in range(8 * len(first)):
        block = bytearray(first)
        block[bit // 8] ^= 1 << bit % 8
        network.deliver(Parcel(-1, bytes(block)), garbled=True)
    assert network.refused == 8 * len(first)
    assert shard.server.waiting == frozenset(range(4))
    shard.to_server(shard.begin())
    assert shard.server.phase is Phase.SHARE


def test_every_order_of_two_steps() -> None:
    """A message that overtakes is refused without harm, and welcome when its turn has come."""
    shard = Shard(PARAMETERS[1])
    messages = shard.until(Phase.AGREE)
    refused = 0
    for client in shard.clients[:3]:
        try:
            client.receive(messages[client.index])
        except UnexpectedMessage:
            refused += 1
    assert refused == 3
    parcels = shard.to_server(messages)
    answers = shard.to_clients(parcels)
    again = shard.to_clients(parcels)
    assert answers == again
    shard.to_server(answers)
    assert shard.server.sum is not None
    assert shard.server.sum.values.tolist() == total(shard.vectors, range(6), 16)
