"""Server of the shuffle model: it decrypts batches of shuffled messages, and estimates a map from them."""

from __future__ import annotations

import functools
from typing import Protocol

import numpy as np

from heathaze.errors import InvalidInput, ProtocolError, UnexpectedMessage, kind_of
from heathaze.inference.estimate import Estimate
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Secret, fresh_bytes
from heathaze.release.release import Release
from heathaze.shuffle.mechanism import Sender, check_batch, check_room, promise
from heathaze.shuffle.mixed import Mixed
from heathaze.shuffle.study import KEY_BYTES, Batch, Study, suite
from heathaze.types import Integers


class ShuffleMechanism(Sender, Protocol):
    """A mechanism of the shuffle model: a device's half, and how a server makes a map."""

    def infer(self, messages: Integers, people: int) -> Estimate:
        """Infer a map from mixed messages of some people.

        Raises:
            InvalidInput: The messages cannot come from this mechanism and this number of people.
        """


class Server(Secret):
    """The server of a study. It holds the key that opens messages, and sees them only when they are mixed.

    Args:
        mechanism: The mechanism of the study.
        colluders: As in :class:`Study`.
        key: The private key, 32 bytes; a new one if left out.

    Raises:
        InvalidInput: The key has another length.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, Device, Shuffler
    >>> server = Server(Decoys(Grid.plane(x=(0, 1), y=(0, 1), size=2), epsilon=9, people=20, delta=0.01))
    >>> shuffler = Shuffler(server.study)
    >>> for _ in range(20):
    ...     shuffler.accept(Device(server.study).submit((0.2, 0.2)))
    >>> server.open(shuffler.mix())
    <Mixed: messages of 20 people for Decoys>
    """

    def __init__(self, mechanism: Sender, *, colluders: int = 0, key: bytes | None = None) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        secret = fresh_bytes(KEY_BYTES) if key is None else key
        if type(secret) is not bytes or len(secret) != KEY_BYTES:
            raise InvalidInput(f"A private key has {KEY_BYTES} bytes; leave it out to draw a new one.")
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.study = Study(mechanism, self._key.public_key().public_bytes_raw(), colluders)
        self._opened: set[bytes] = set()

    def open(self, batch: Batch) -> Mixed:
        """Open a batch of mixed messages, all or none.

        Args:
            batch: The batch.

        Returns:
            The messages.

        Raises:
            UnexpectedMessage: The batch belongs to another study, has too many people, or contains a message twice or
                one that this object has opened before; or the messages have another size or number than these people
                send.
            PromiseBroken: The batch has too few people.
            ProtocolError: A message cannot be opened. Nothing is decoded.
            InvalidInput: A message holds a number that the mechanism never sends.
        """
        from cryptography.exceptions import InvalidTag

        study, mechanism = self.study, self.study.mechanism
        if batch.study != study.digest:
            raise UnexpectedMessage("the study of a batch", batch.study.hex(), study.digest.hex(), "drop the batch")
        if batch.size != study.sealed_bytes or len(batch.sealed) % batch.size:
            found = f"{len(batch.sealed)} bytes in messages of {batch.size}"
            raise UnexpectedMessage("a batch", found, f"messages of {study.sealed_bytes} bytes", "drop the batch")
        check_batch(mechanism, batch.people - study.colluders)
        check_room(mechanism, batch.people)
        least, most = (batch.people * n for n in (mechanism.least_messages, mechanism.most_messages))
        if not least <= len(batch) <= most:
            raise UnexpectedMessage("the number of messages", len(batch), f"{least} to {most}", "drop the batch")
        starts = range(0, len(batch.sealed), batch.size)
        keys = {batch.sealed[at : at + KEY_BYTES] for at in starts}
        if len(keys) < len(batch) or keys & self._opened:
            raise UnexpectedMessage("a batch", "with messages that were opened before", "new messages", "drop it")
        opener = functools.partial(suite().decrypt, private_key=self._key, info=study.digest)
        try:
            plain = [opener(batch.sealed[at : at + batch.size]) for at in starts]
        except (InvalidTag, ValueError):
            raise ProtocolError(
                "A message of the batch cannot be opened: it is damaged, or sealed for another study; nothing was "
                "decoded. Ask the shuffler for the batch again."
            ) from None
        numbers = np.frombuffer(b"".join(plain), np.uint8).reshape(-1, study.width).astype(np.int64)
        values = numbers @ (256 ** np.arange(study.width - 1, -1, -1, dtype=np.int64))
        mixed = Mixed(mechanism, values.reshape(-1, mechanism.numbers), batch.people, batch.simulated)
        self._opened |= keys
        return mixed


def estimate(mixed: Mixed) -> Release:
    """Estimate a map from mixed messages. The messages are already private, so an estimate costs nothing.

    Args:
        mixed: The mixed messages.

    Returns:
        The release. Its total is about the number of people, which is public.

    Raises:
        InvalidInput: The messages cannot come from this number of people.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, simulate
    >>> decoys = Decoys(Grid.plane(x=(0, 4), y=(0, 4), size=4), epsilon=2, people=1000)
    >>> release = estimate(simulate(decoys, [(0.5, 0.5)] * 1000))
    >>> release.guarantee.people, release.density.values.shape
    (1000, (4, 4))
    """
    mechanism = mixed.mechanism
    if not hasattr(mechanism, "infer"):
        raise InvalidInput(
            f"The mechanism is {kind_of(mechanism)}, which makes no map; give messages of a mechanism of hz.shuffle."
        )
    provenance = Provenance.of_devices(mechanism, mechanism.event, mixed.simulated)
    return Release(mechanism.infer(mixed.messages, mixed.people), promise(mechanism), provenance)
