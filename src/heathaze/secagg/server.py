"""Server of a secure sum: it forwards encrypted shares, adds masked vectors, and removes the masks from the sum.

    ADVERTISE   Advertise  ◄── all clients    draws the neighbour graph over those who answered    ──► Neighbours
    SHARE       Shares     ◄── those          forwards what neighbours sealed for each other       ──► Forwarded
    MASK        Masked     ◄── those          adds the vectors up                                  ──► Survivors
    AGREE       Agreed     ◄── the survivors  collects the tags that confirm the set of survivors  ──► Agreement
    REVEAL      Revealed   ◄── those          combines seeds and lost mask keys and checks them     =  Sum

Each line shows a phase, the message from clients, the work of the server, and the server's answer. A phase ends when
all clients that were asked have answered, or when the caller calls :meth:`Server.close_phase` because time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, ShardAborted, UnexpectedMessage, expect
from heathaze.privacy.randomness import Randomness, Secret
from heathaze.secagg import keys, masks, messages, shamir
from heathaze.secagg.client import survivors_digest
from heathaze.secagg.envelope import SERVER, check_public, unwrap, wrap
from heathaze.secagg.keys import Identity, MaskKey
from heathaze.secagg.messages import Message, Phase
from heathaze.secagg.parameters import Parameters
from heathaze.types import Words

Graph = Mapping[int, tuple[int, ...]]
"""The neighbour graph: for each client its neighbours, in ascending order."""

_KINDS = (messages.Advertise, messages.Shares, messages.Masked, messages.Agreed, messages.Revealed)


class Parcel(NamedTuple):
    """A message, and the index of the client to which the message must be sent.

    Args:
        recipient: Index of the client.
        message: The bytes to send.

    >>> Parcel(recipient=2, message=b"bytes for client 2").recipient
    2
    """

    recipient: int
    message: bytes


@dataclass(frozen=True, eq=False)
class Sum:
    """The result of a secure sum, which is all that the server learns.

    Attributes:
        values: The sum of the survivors' vectors, modulo 2^bits.
        survivors: Indices of the clients whose vectors are in the sum.
        parameters: The parameters of the round.

    >>> from heathaze.secagg.run_shard import run_shard
    >>> found = run_shard(Parameters.plan(5, length=2, bits=8, dropout=0.2, corruption=0), [[1, 60]] * 5)
    >>> found, found.values.tolist()
    (<Sum: 2 numbers over 5 clients>, [5, 44])
    """

    values: Words = field(repr=False)
    survivors: tuple[int, ...] = field(repr=False)
    parameters: Parameters = field(repr=False)

    def __repr__(self) -> str:
        return f"<Sum: {len(self.values)} numbers over {len(self.survivors)} clients>"


class Server(Secret):
    """The state machine of the server in one secure sum. It takes bytes and returns bytes.

    Args:
        parameters: The parameters of the round.
        identity: The server's long-lived keys.
        directory: Public identities of all clients, by index.
        randomness: The source of the random order of the clients.

    Raises:
        InvalidInput: The directory lacks a client, or an identity has the wrong size.

    >>> from heathaze.privacy.randomness import Simulation
    >>> source = Simulation(1)
    >>> parameters = Parameters.plan(5, length=2, bits=8, dropout=0.2, corruption=0)
    >>> operator, *people = [Identity(source) for _ in range(6)]
    >>> server = Server(parameters, operator, {index: person.public for index, person in enumerate(people)}, source)
    >>> server.phase.name, sorted(server.waiting)
    ('ADVERTISE', [0, 1, 2, 3, 4])
    """

    def __init__(
        self, parameters: Parameters, identity: Identity, directory: Mapping[int, bytes], randomness: Randomness
    ) -> None:
        expect(Parameters, parameters, "The parameters")
        expect(Identity, identity, "The identity")
        expect(Mapping, directory, "The directory")
        missing = next((index for index in range(parameters.clients) if index not in directory), None)
        if missing is not None:
            raise InvalidInput(f"The directory has no identity for client {missing}; it needs one for each client.")
        self.parameters = parameters
        self.phase: Phase | None = Phase.ADVERTISE
        self._identity = identity
        self._directory = {
            index: check_public(directory[index], f"client {index}") for index in range(parameters.clients)
        }
        self._randomness = randomness
        self._trial = MaskKey.draw(randomness)
        self._waiting = set(range(parameters.clients))
        self._heard: dict[tuple[int, type[Message]], bytes] = {}
        self._mask_keys: dict[int, bytes] = {}
        self._neighbours: Graph = {}
        self._places: dict[int, dict[int, int]] = {}
        self._shares: dict[int, messages.Shares] = {}
        self._included: frozenset[int] = frozenset()
        self._total: npt.NDArray[Any] = np.zeros(parameters.length, masks.word(parameters.bits))
        self._delivered: set[int] = set()
        self._survivors: frozenset[int] = frozenset()
        self._announced = b""
        self._tags: dict[int, dict[int, bytes]] = {}
        self._seed_shares: dict[int, dict[int, int]] = {}
        self._key_shares: dict[int, dict[int, int]] = {}
        self._sum: Sum | None = None
        self._why: str | None = None

    @property
    def sum(self) -> Sum | None:
        """The sum, or None until the last phase has ended."""
        return self._sum

    @property
    def waiting(self) -> frozenset[int]:
        """Indices of the clients that were asked in this phase and have not answered."""
        return frozenset(self._waiting)

    def receive(self, message: bytes) -> tuple[Parcel, ...]:
        """Accept one message of a client. The last missing answer closes the phase; a repeated message changes nothing.

        Args:
            message: The bytes of the message, from an untrusted sender.

        Returns:
            The messages to send to clients; none until the phase is over.

        Raises:
            UnexpectedMessage: The message is damaged, not from a client of this round, out of turn, or contradicts an
                earlier message. Nothing changes.
            ShardAborted: The shard is given up without a sum. Every later call raises this error too.
        """
        if self._why is not None:
            raise ShardAborted(self._why)
        opened = unwrap(message, self.parameters, self._directory, SERVER)
        sender, kind = opened.sender, type(opened.message)
        if (sender, kind) in self._heard:
            if self._heard[sender, kind] != opened.fingerprint:
                raise UnexpectedMessage(f"A second {kind.__name__} of client {sender}", "different", "the same again")
            return ()
        expected = None if self.phase is None else _KINDS[self.phase]
        if kind is not expected:
            wanted = expected.__name__ if expected else "none, the round is over"
            raise UnexpectedMessage(
                "The kind of a message", kind.__name__, wanted, "drop it, or deliver it in its turn"
            )
        if sender not in self._waiting:
            raise UnexpectedMessage("The sender of a message", f"client {sender}", "one who was asked in this phase")
        self._take(sender, opened.message)
        self._heard[sender, kind] = opened.fingerprint
        self._waiting.discard(sender)
        return () if self._waiting else self.close_phase()

    def close_phase(self) -> tuple[Parcel, ...]:
        """End the phase, and continue the secure sum with the clients that answered.

        Returns:
            The messages to send to clients; none after the last phase.

        Raises:
            ShardAborted: Too few clients answered, or the shares that they revealed are wrong.
        """
        if self._why is not None:
            raise ShardAborted(self._why)
        if self.phase is None:
            return ()
        steps = (self._introduce, self._forward, self._announce, self._confirm, self._unmask)
        return steps[self.phase]()

    def _take(self, sender: int, message: Message) -> None:
        match message:
            case messages.Advertise(mask_key):
                # A mask key of small order would make all neighbours of this client stop.
                try:
                    self._trial.agree(mask_key)
                except InvalidInput:
                    raise UnexpectedMessage(
                        f"The mask key of client {sender}", "of small order", "a random one"
                    ) from None
                self._mask_keys[sender] = mask_key
            case messages.Shares(_, sealed):
                _counted("Sealed shares", len(sealed), len(self._neighbours[sender]))
                self._shares[sender] = message
            case messages.Masked(vector):
                self._total += vector
                self._delivered.add(sender)
            case messages.Agreed(digest, tags):
                if digest != self._announced:
                    found, expected = digest.hex()[:16], self._announced.hex()[:16]
                    raise UnexpectedMessage(f"The survivors of client {sender}", found, expected)
                near = [other for other in self._near(sender) if other in self._survivors]
                _counted("Tags", len(tags), len(near))
                self._tags[sender] = dict(zip(near, tags, strict=True))
            case messages.Revealed(seeds, mask_keys):
                self._keep(sender, dict(seeds), dict(mask_keys))

    def _introduce(self) -> tuple[Parcel, ...]:
        """Draw the neighbour graph, and send every client its neighbours."""
        present = sorted(self._mask_keys)
        self._enough(len(present), "advertised a key")
        self._neighbours = draw_graph(present, self.parameters.neighbours, self._randomness)
        self._places = {one: {other: k for k, other in enumerate(near)} for one, near in self._neighbours.items()}

        def neighbours(one: int) -> Message:
            return messages.Neighbours(tuple((other, self._mask_keys[other]) for other in self._neighbours[one]))

        return self._ask(Phase.SHARE, present, neighbours)

    def _forward(self) -> tuple[Parcel, ...]:
        """Forward to every client the encrypted shares that its neighbours made for it."""
        included = set(self._shares)
        self._enough(len(included), "shared their keys")
        for one in sorted(included):
            # The masks of a client with too few neighbours could never be removed. If the client were left out, its
            # neighbours would have too few neighbours too, and so on around the circle.
            if (left := self._count(one, included)) < self.parameters.shares_needed:
                self._abort(
                    f"{left} neighbours of client {one} are left, expected at least {self.parameters.shares_needed}"
                )
        self._included = frozenset(included)

        def shares(one: int) -> Message:
            return messages.Forwarded(
                tuple((other, self._shares[other].sealed[self._places[other][one]]) for other in self._near(one))
            )

        return self._ask(Phase.MASK, included, shares)

    def _announce(self) -> tuple[Parcel, ...]:
        """Announce the set of survivors to every client whose vector arrived."""
        self._enough(len(self._delivered), "sent their vector")
        self._survivors = frozenset(self._delivered)
        self._announced = survivors_digest(self._survivors, self.parameters)
        return self._ask(Phase.AGREE, self._survivors, lambda _: messages.Survivors(self._survivors))

    def _confirm(self) -> tuple[Parcel, ...]:
        """Send every client the tags of its neighbours that confirm the survivors, if there are enough of them."""
        agreeing = {one for one in self._tags if self._count(one, self._tags) >= self.parameters.shares_needed}
        if not agreeing:
            self._abort("no client has enough neighbours that agreed on the survivors")

        def tags(one: int) -> Message:
            near = [other for other in self._near(one) if other in self._tags]
            return messages.Agreement(tuple((other, self._tags[other][one]) for other in near))

        return self._ask(Phase.REVEAL, agreeing, tags)

    def _keep(self, sender: int, seeds: dict[int, int], mask_keys: dict[int, int]) -> None:
        near = self._near(sender)
        if list(seeds) != [other for other in near if other in self._survivors]:
            raise UnexpectedMessage("The owners of seed shares", f"{len(seeds)} others", "its surviving neighbours")
        if list(mask_keys) != [other for other in near if other not in self._survivors]:
            raise UnexpectedMessage("The owners of key shares", f"{len(mask_keys)} others", "its lost neighbours")
        for kept, found in ((self._seed_shares, seeds), (self._key_shares, mask_keys)):
            for owner, share in found.items():
                kept.setdefault(owner, {})[self._places[owner][sender] + 1] = share

    def _unmask(self) -> tuple[Parcel, ...]:
        """Remove all masks from the sum. Each seed and each mask key is checked before it is used."""
        lost = sorted(self._included - self._survivors)
        # Reconstruct all secrets first, so that a missing share is found before any mask is removed.
        seeds = {one: self._combine(one, self._seed_shares) for one in sorted(self._survivors)}
        secrets = {one: self._combine(one, self._key_shares) for one in lost}
        for one, seed in seeds.items():
            if keys.commitment(seed, self.parameters.digest, one) != self._shares[one].commitment:
                self._abort(f"the shares of the seed of client {one} do not fit its commitment")
            masks.add(self._total, keys.self_stream_key(seed, self.parameters.digest, one), subtract=True)
        for one, secret in secrets.items():
            key = MaskKey(secret)
            if key.public != self._mask_keys[one]:
                self._abort(f"the shares of the mask key of client {one} do not fit its public key")
            self._remove(one, key)
        values = masks.reduced(self._total, self.parameters.bits).astype(np.uint64)
        values.flags.writeable = False
        self._sum = Sum(values, tuple(sorted(self._survivors)), self.parameters)
        self._forget()
        return ()

    def _remove(self, lost: int, key: MaskKey) -> None:
        """Remove the masks between a lost client and its surviving neighbours."""
        for other in self._near(lost):
            if other in self._survivors:
                context = keys.pair_context(self.parameters.digest, lost, key.public, other, self._mask_keys[other])
                shared = key.agree(self._mask_keys[other])
                # The survivor added this mask if it has the lower index of the two.
                masks.add(self._total, keys.mask_stream_key(shared, context), subtract=other < lost)

    def _combine(self, owner: int, kept: dict[int, dict[int, int]]) -> bytes:
        found = kept.get(owner, {})
        needed = self.parameters.shares_needed
        if len(found) < needed:
            self._abort(f"{len(found)} neighbours of client {owner} revealed a share, expected at least {needed}")
        secret = shamir.combine(dict(sorted(found.items())[:needed]))
        if secret >= 2**256:
            self._abort(f"the shares of client {owner} do not fit together")
        return secret.to_bytes(keys.KEY_BYTES, "little")

    def _near(self, one: int) -> list[int]:
        """The neighbours with which a client shares a mask."""
        return [other for other in self._neighbours[one] if other in self._included]

    def _count(self, one: int, among: set[int] | dict[int, Any]) -> int:
        return sum(other in among for other in self._neighbours[one])

    def _ask(self, phase: Phase, whom: Collection[int], question: Callable[[int], Message]) -> tuple[Parcel, ...]:
        """Begin a phase: wait for the clients in ``whom``, and send each of them its message."""
        self.phase, self._waiting = phase, set(whom)
        return tuple(
            Parcel(one, wrap(question(one), self.parameters, self._identity, SERVER, one)) for one in sorted(whom)
        )

    def _enough(self, found: int, what: str) -> None:
        if found < self.parameters.survivors_at_least:
            self._abort(f"{found} clients {what}, expected at least {self.parameters.survivors_at_least}")

    def _abort(self, why: str) -> NoReturn:
        self._why = f"The shard is given up: {why}; begin a new round."
        self._forget()
        raise ShardAborted(self._why)

    def _forget(self) -> None:
        """End the round, and delete everything that the server knows about single clients."""
        self.phase, self._waiting = None, set()
        self._total = np.zeros(0, np.uint8)
        for kept in (self._shares, self._tags, self._seed_shares, self._key_shares, self._mask_keys):
            kept.clear()


def _counted(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise UnexpectedMessage(f"The number of {what.lower()}", found, expected)


# ── the neighbour graph ─────────────────────────────────────────────────────────────────────────────────────────────


def draw_graph(members: Sequence[int], degree: int, randomness: Randomness) -> Graph:
    """Draw the neighbour graph of a secure sum: a Harary graph on a uniformly random order of the clients.

    The clients sit on a circle in that order, and the neighbours of a client are the ``degree``/2 clients on either
    side.

    Args:
        members: Distinct indices of clients.
        degree: Number of neighbours of each client, an even number. If there are too few clients, all others are
            neighbours.
        randomness: The source of the random order.

    Returns:
        For each client its neighbours.

    >>> from heathaze.privacy.randomness import Simulation
    >>> {len(near) for near in draw_graph(range(100), 6, Simulation(1)).values()}
    {6}
    """
    if degree >= len(members) - 1:
        return {one: tuple(sorted(other for other in members if other != one)) for one in members}
    seats = [members[k] for k in permutation(len(members), randomness)]
    around = [offset for offset in range(-(degree // 2), degree // 2 + 1) if offset]
    count = len(seats)
    return {one: tuple(sorted(seats[(seat + offset) % count] for offset in around)) for seat, one in enumerate(seats)}


def permutation(count: int, randomness: Randomness) -> list[int]:
    """Draw a uniformly random order of the indices 0 … count − 1, for the seats of clients on the circle.

    The indices are sorted by random words. If two words are equal, all words are drawn again.

    Args:
        count: The number of indices.
        randomness: The source of the random words.
    """
    while True:
        words = randomness.words(count)
        if len(np.unique(words)) == count:
            return [int(k) for k in np.argsort(words)]
