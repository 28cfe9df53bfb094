"""Client of a secure sum: it masks its vector, stores shares of its neighbours' secrets, and reveals one share of each.

    begin()        ──► Advertise
    Neighbours     ──► Shares        draws a seed, splits seed and mask key into shares for its neighbours
    Forwarded      ──► Masked        stores its neighbours' shares, adds the masks to its vector
    Survivors      ──► Agreed        confirms to its neighbours the set of survivors that the server announced
    Agreement      ──► Revealed      if enough neighbours confirm the same set: shares of survivors' seeds and lost keys

The left column is the message that the client receives, and the right column is its answer. A client accepts
only messages from this server to this client under these parameters. It refuses all other bytes, which change nothing.
An authentic message that breaks the rules stops the client for good: the client deletes its secrets and never answers
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NoReturn

import numpy.typing as npt

from heathaze.errors import InvalidInput, StoppedForGood, UnexpectedMessage, expect
from heathaze.privacy.randomness import Randomness, Secret
from heathaze.secagg import keys, masks, messages, shamir
from heathaze.secagg.envelope import SERVER, check_public, unwrap, wrap
from heathaze.secagg.keys import Identity, MaskKey, PairKeys
from heathaze.secagg.masks import Words
from heathaze.secagg.messages import Message
from heathaze.secagg.parameters import BREACH, Parameters

_ORDER = (messages.Neighbours, messages.Forwarded, messages.Survivors, messages.Agreement)


class Client(Secret):
    """The state machine of one client in one secure sum. It takes bytes and returns bytes.

    Args:
        parameters: The parameters of the round. The client checks that they are safe.
        index: The client's index, 0 to clients − 1.
        identity: The client's long-lived keys; ``directory[index]`` is their public half.
        directory: Public identities of all clients, by index. The client has to trust the directory: a server that
            could write it could invent clients.
        server_key: The server's public identity.
        vector: ``length`` integers from 0 to 2^bits − 1.
        randomness: The source of keys, seeds and shares.
        breach: Largest acceptable probability that the server learns more than the sum. The client refuses parameters
            with a larger one.

    Raises:
        InvalidInput: The vector or a key does not fit.
        PromiseBroken: The parameters are not safe enough.

    >>> from heathaze.privacy.randomness import Simulation
    >>> source = Simulation(1)
    >>> parameters = Parameters.plan(5, length=2, bits=8, dropout=0.2, corruption=0)
    >>> operator, *people = [Identity(source) for _ in range(6)]
    >>> directory = {index: person.public for index, person in enumerate(people)}
    >>> client = Client(parameters, 0, people[0], directory, operator.public, [1, 2], source)
    >>> len(client.begin()), client
    (1, <Client>)
    """

    def __init__(
        self,
        parameters: Parameters,
        index: int,
        identity: Identity,
        directory: Mapping[int, bytes],
        server_key: bytes,
        vector: npt.ArrayLike,
        randomness: Randomness,
        *,
        breach: float = BREACH,
    ) -> None:
        expect(Parameters, parameters, "The parameters")
        expect(int, index, "The client's number")
        expect(Identity, identity, "The identity")
        expect(Mapping, directory, "The directory")
        if not 0 <= index < parameters.clients:
            raise InvalidInput(
                f"The client's number is {index}, expected 0 to {parameters.clients - 1}; it is not invited."
            )
        if directory.get(index) != identity.public:
            raise InvalidInput(f"The directory names another identity for client {index}; enter Identity.public there.")
        if len({directory.get(other) for other in range(parameters.clients)} - {None}) < parameters.clients:
            raise InvalidInput(
                f"The directory must name a different identity for each of the {parameters.clients} clients."
            )
        parameters.require(breach)
        self.parameters = parameters
        self.index = index
        self._identity = identity
        self._directory = directory
        self._server = {SERVER: check_public(server_key, "the server")}
        self._vector: Words | None = masks.checked(vector, parameters)
        self._randomness = randomness
        self._mask_key: MaskKey | None = MaskKey.draw(randomness)
        self._seed: bytes | None = None
        self._pairs: dict[int, PairKeys] = {}
        self._stream_keys: dict[int, bytes] = {}
        self._held: dict[int, tuple[int, int]] = {}
        self._survivors: frozenset[int] = frozenset()
        self._announced: bytes = b""
        self._begun: tuple[bytes, ...] = ()
        self._answered: dict[type[Message], tuple[bytes, tuple[bytes, ...]]] = {}
        self._why: str | None = None

    @property
    def finished(self) -> bool:
        """Whether the client has sent its last message."""
        return len(self._answered) == len(_ORDER)

    @property
    def stopped(self) -> bool:
        """Whether the client stopped for good, because a message broke the rules."""
        return self._why is not None

    def begin(self) -> tuple[bytes, ...]:
        """Begin the secure sum: the client's first message. Every call returns the same bytes.

        Returns:
            The bytes to send to the server.

        Raises:
            StoppedForGood: The client stopped before; the error says why.
        """
        if self._why is not None:
            raise StoppedForGood(self._why)
        if not self._begun:
            assert self._mask_key is not None
            self._begun = self._send(messages.Advertise(self._mask_key.public))
        return self._begun

    def receive(self, message: bytes) -> tuple[bytes, ...]:
        """Answer one message of the server. A repeated message gets the same answer again.

        Args:
            message: The bytes of the message, from an untrusted sender.

        Returns:
            The messages to send to the server.

        Raises:
            UnexpectedMessage: The message is damaged, is not meant for this client, or comes out of turn. Nothing
                changes.
            StoppedForGood: The message is authentic and breaks the rules. Every later call raises this error too.
        """
        if self._why is not None:
            raise StoppedForGood(self._why)
        opened = unwrap(message, self.parameters, self._server, self.index)
        kind = type(opened.message)
        if kind in self._answered:
            fingerprint, answer = self._answered[kind]
            if fingerprint != opened.fingerprint:
                self._stop(f"the server sent two different messages of the kind {kind.__name__}")
            return answer
        expected = None if self.finished or not self._begun else _ORDER[len(self._answered)]
        if kind is not expected:
            wanted = expected.__name__ if expected else "none, the round is over" if self.finished else "begin() first"
            raise UnexpectedMessage(
                "The kind of a message", kind.__name__, wanted, "drop it, or deliver it in its turn"
            )
        answer = self._send(self._answer(opened.message))
        self._answered[kind] = (opened.fingerprint, answer)
        if self.finished:
            self._forget()
        return answer

    def _answer(self, message: Message) -> Message:
        match message:
            case messages.Neighbours(found):
                return self._share(dict(found))
            case messages.Forwarded(found):
                return self._mask(dict(found))
            case messages.Survivors(members):
                return self._agree(members)
            case messages.Agreement(found):
                return self._reveal(dict(found))
            case _:
                raise AssertionError("only the server's messages are opened")

    def _share(self, found: dict[int, bytes]) -> messages.Shares:
        """Draw a seed, and split the seed and the mask key into shares for the neighbours."""
        parameters = self.parameters
        # A client may have fewer neighbours than planned only if all clients that advertised a key are its neighbours.
        least = min(parameters.neighbours, parameters.survivors_at_least - 1)
        if not least <= len(found) <= parameters.neighbours:
            self._stop(f"it got {len(found)} neighbours, expected {least} to {parameters.neighbours}")
        if self.index in found:
            self._stop("it is named as its own neighbour")
        assert self._mask_key is not None
        for other, public in found.items():
            self._pair(other, public)
        self._seed = keys.draw_seed(self._randomness)
        needed, count = parameters.shares_needed, len(found)
        of_seed = shamir.split(int.from_bytes(self._seed, "little"), needed, count, self._randomness)
        of_key = shamir.split(int.from_bytes(self._mask_key.secret, "little"), needed, count, self._randomness)
        size = shamir.SHARE_BYTES
        sealed = [
            self._pairs[other].seal(one.to_bytes(size, "little") + two.to_bytes(size, "little"))
            for other, one, two in zip(found, of_seed, of_key, strict=True)
        ]
        return messages.Shares(keys.commitment(self._seed, parameters.digest, self.index), tuple(sealed))

    def _pair(self, other: int, public: bytes) -> None:
        """Derive the keys that this client shares with one neighbour, from the neighbour's identity and mask key."""
        assert self._mask_key is not None
        if other not in self._directory:
            self._stop(f"its neighbour {other} is not in the directory")
        context = keys.pair_context(self.parameters.digest, self.index, self._mask_key.public, other, public)
        try:
            identities = self._identity.agree(check_public(self._directory[other], f"client {other}"))
            shared = self._mask_key.agree(public)
        except InvalidInput as problem:
            self._stop(f"with its neighbour {other} nothing can be agreed: {problem}")
        material = keys.pair_material(identities, shared, context)
        self._pairs[other] = PairKeys(material, self.parameters.digest, self.index, other)
        self._stream_keys[other] = keys.mask_stream_key(shared, context)

    def _mask(self, found: dict[int, bytes]) -> messages.Masked:
        """Store the neighbours' shares; mask the vector by the self mask and one mask for each of these neighbours."""
        parameters = self.parameters
        if len(found) < parameters.shares_needed:
            self._stop(f"only {len(found)} neighbours are left, expected at least {parameters.shares_needed}")
        assert self._seed is not None
        assert self._vector is not None
        for other, sealed in found.items():
            opened = self._pairs[other].open(sealed) if other in self._pairs else None
            if opened is None:
                # If this client skipped the neighbour, the neighbour's half of their common mask would stay in the sum.
                self._stop(f"what client {other} is said to have sealed does not open")
            size = shamir.SHARE_BYTES
            self._held[other] = (int.from_bytes(opened[:size], "little"), int.from_bytes(opened[size:], "little"))
        total = self._vector.copy()
        masks.add(total, keys.self_stream_key(self._seed, parameters.digest, self.index))
        for other in found:
            # The client with the lower index adds the mask and the other subtracts it, so the mask cancels in the sum.
            masks.add(total, self._stream_keys[other], subtract=self.index > other)
        self._vector = self._seed = self._mask_key = None
        self._stream_keys.clear()
        return messages.Masked(masks.reduced(total, parameters.bits))

    def _agree(self, members: frozenset[int]) -> messages.Agreed:
        """Confirm the set of survivors to each surviving neighbour."""
        parameters = self.parameters
        if len(members) < parameters.survivors_at_least:
            self._stop(f"{len(members)} vectors are to be summed, expected at least {parameters.survivors_at_least}")
        if self.index not in members:
            self._stop("it sent its vector and is not among the survivors")
        if not all(member in self._directory for member in members):
            self._stop("a survivor is named who is not in the directory")
        silent = sorted(other for other in self._pairs if other in members and other not in self._held)
        if silent:
            self._stop(f"client {silent[0]} is named as a survivor and never sent it shares")
        self._survivors = members
        self._announced = survivors_digest(members, parameters)
        return messages.Agreed(
            self._announced,
            tuple(self._pairs[other].vouch(self._announced) for other in self._held if other in members),
        )

    def _reveal(self, found: dict[int, bytes]) -> messages.Revealed:
        """Reveal one share for each neighbour: of its seed if it survived, of its mask key if it was lost."""
        for other, tag in found.items():
            if other not in self._held or other not in self._survivors:
                self._stop(f"client {other} is said to agree and is no surviving neighbour")
            if not self._pairs[other].vouched(tag, self._announced):
                self._stop(f"client {other} was told other survivors")
        needed = self.parameters.shares_needed
        if len(found) < needed:
            self._stop(f"{len(found)} neighbours agree on the survivors, expected at least {needed}")
        held = self._held.items()
        return messages.Revealed(
            seeds=tuple((other, pair[0]) for other, pair in held if other in self._survivors),
            mask_keys=tuple((other, pair[1]) for other, pair in held if other not in self._survivors),
        )

    def _send(self, message: Message) -> tuple[bytes, ...]:
        return (wrap(message, self.parameters, self._identity, self.index, SERVER),)

    def _stop(self, why: str) -> NoReturn:
        self._why = f"Client {self.index} stopped for good: {why}; it takes part again in a new round."
        self._forget()
        self._answered.clear()
        raise StoppedForGood(self._why)

    def _forget(self) -> None:
        self._vector = self._seed = self._mask_key = None
        self._pairs.clear()
        self._stream_keys.clear()
        self._held.clear()


def survivors_digest(members: frozenset[int], parameters: Parameters) -> bytes:
    """The digest of the set of survivors that clients confirm: SHA-256 of the parameters and the set.

    Args:
        members: Indices of the survivors.
        parameters: The parameters of the round.
    """
    return hashlib.sha256(
        b"heathaze secagg 1 survivors" + parameters.digest + messages.bitmap(members, parameters.clients)
    ).digest()
