"""Device of the shuffle model: it turns a position into sealed messages, which the shuffler cannot read."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import check_near
from heathaze.errors import InvalidInput
from heathaze.privacy.door import pay
from heathaze.privacy.ledger import Budget
from heathaze.privacy.randomness import Randomness, Secret, fresh_bytes
from heathaze.shuffle.mechanism import Sender, cells_of, check_batch, fingerprint, promise
from heathaze.shuffle.mixed import Mixed
from heathaze.shuffle.shares import Round, parts_of
from heathaze.shuffle.study import NAME_BYTES, Study, Submission, suite
from heathaze.types import Integers

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey


class Device(Secret):
    """One person's device in a study.

    Args:
        study: The study, as the server announced it.
        ledger: The person's own budget. Every study charges the budget, including a second study of the same server.
        secret: At least 16 random bytes that stay on the device. Within one study, the same secret gives the person the
            same name, so the shuffler refuses a second submission. Names in different studies cannot be linked.

    Raises:
        InvalidInput: The secret is too short.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, Server
    >>> server = Server(Decoys(Grid.plane(x=(0, 1), y=(0, 1), size=4), epsilon=2, people=1000))
    >>> Device(server.study)
    <Device>
    """

    def __init__(self, study: Study, *, ledger: Budget | None = None, secret: bytes | None = None) -> None:
        self.study = study
        self.ledger = ledger
        self._secret = _checked(secret)

    def submit(self, point: npt.ArrayLike, *, far: bool = False, randomness: Randomness | None = None) -> Submission:
        """Pay for a position's messages, draw them, and seal each for the server.

        The charge is written to the disk before a message is drawn. The messages leave the device in random order.

        A position with swapped coordinates, or farther outside the map than the map is wide or high, is probably a
        mistake, and is refused on the device. A program that may run far from the map should give ``far=True``, because
        a missing submission may reveal that the person is far away.

        Args:
            point: The position (x, y) in the grid's coordinates; longitude before latitude. A position outside the map
                counts as the nearest cell of the map.
            far: Whether to submit the nearest cell for a position far outside the map, instead of refusing the
                position.
            randomness: Leave it out; ``Simulation(seed)`` is for tests. The keys of the seals are always secret.

        Returns:
            The sealed messages, for the shuffler.

        Raises:
            InvalidInput: The position is not two finite numbers, or far outside the map, or the study's key is no key.
                Nothing was charged.
            BudgetExceeded: The ledger has too little left. Nothing was charged.
            AlreadyCharged: The ledger has paid for this study before. Nothing was charged.
        """
        study, mechanism = self.study, self.study.mechanism
        cells = cells_of(mechanism.grid, point)
        if len(cells) != 1:
            raise InvalidInput("A device submits one position; give x and y, or longitude and latitude.")
        if not far:
            check_near(mechanism.grid, *np.asarray(point, np.float64).ravel().tolist())
        _key(study.key)
        note = f"shuffle study {study.digest.hex()}"
        receipt = pay(
            promise(mechanism), mechanism.event, ledger=self.ledger, randomness=randomness, note=note, once=note
        )
        messages, _ = mechanism.draw(cells, receipt.randomness)
        return _sealed(study, messages, self._secret, receipt.randomness)


class Participant(Secret):
    """One person's device in a protocol of several rounds, :class:`heathaze.shuffle.SplitAndMix`.

    The whole protocol is paid for at once, and each round is answered once, in order.

    Args:
        study: The study of the first round, as the server announced it.
        points: The person's places, one row (x, y) each, in the grid's coordinates; longitude before latitude. A place
            outside the map counts as the nearest cell of the map.
        ledger: The person's own budget.
        secret: As in :class:`Device`.
        randomness: Leave it out; ``Simulation(seed)`` is for tests. The keys of the seals are always secret.

    Raises:
        InvalidInput: The study is not the first round of a protocol, or a place is not two finite numbers. Nothing was
            charged.
        BudgetExceeded: The ledger has too little left. Nothing was charged.
        AlreadyCharged: The ledger has paid for this protocol before. Nothing was charged.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Rounds, SplitAndMix
    >>> rounds = Rounds(SplitAndMix(Grid.plane(x=(0, 1), y=(0, 1), size=4), 9, people=10, delta=0.01, parts=1))
    >>> Participant(rounds.study, [(0.1, 0.9), (0.2, 0.2)]).answer(rounds.study).study == rounds.study.digest
    True
    """

    def __init__(
        self,
        study: Study,
        points: npt.ArrayLike,
        *,
        ledger: Budget | None = None,
        secret: bytes | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        first = study.mechanism
        if not isinstance(first, Round) or first.index != 0:
            raise InvalidInput("The study is not the first round of a protocol; give the study of a new Rounds.")
        cells = cells_of(first.grid, points)
        if not len(cells):
            raise InvalidInput("A person has no place; give at least one.")
        self._secret = _checked(secret)
        self._whole = self._named(study)
        _key(study.key)
        note = f"shuffle rounds {self._whole}."  # the point ends the number, so that 1 is not the beginning of 10
        protocol = first.protocol
        receipt = pay(promise(protocol), protocol.event, ledger=ledger, randomness=randomness, note=note, once=note)
        self._randomness = receipt.randomness
        self._codes, self._parts = parts_of(protocol, cells, receipt.randomness)
        self._answered = 0

    def answer(self, study: Study) -> Submission:
        """Answer one round: count, add noise, split, and seal each message for the server.

        Args:
            study: The study of the round.

        Returns:
            The sealed messages, for the shuffler.

        Raises:
            InvalidInput: The study is of another protocol or another server, or not the next round.
        """
        asked = study.mechanism
        if not isinstance(asked, Round) or self._named(study) != self._whole:
            raise InvalidInput("The round belongs to another protocol or server than the one that was paid for.")
        if asked.index != self._answered:
            raise InvalidInput(
                f"The question is for round {asked.index}, but this device answers round {self._answered} next; "
                "ignore the question."
            )
        self._answered += 1
        messages = asked.split(asked.noisy(self._codes, self._parts, self._randomness), self._randomness)
        return _sealed(study, messages, self._secret, self._randomness)

    @staticmethod
    def _named(study: Study) -> str:
        """What all rounds of one protocol of one server have in common."""
        protocol = study.mechanism.protocol if isinstance(study.mechanism, Round) else study.mechanism
        return f"{fingerprint(protocol)} {study.key.hex()} {study.colluders}"


def _checked(secret: bytes | None) -> bytes:
    found = fresh_bytes(NAME_BYTES) if secret is None else secret
    if type(found) is not bytes or len(found) < NAME_BYTES:
        raise InvalidInput(f"The secret of a device is not {NAME_BYTES} bytes or more; leave it out to draw one.")
    return found


@functools.lru_cache(maxsize=64)
def _key(public: bytes) -> X25519PublicKey:
    """The key of a study. A message is sealed on trial, so that nothing is paid if the key cannot be used."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    key = X25519PublicKey.from_public_bytes(public)
    try:
        suite().encrypt(b"", key, b"")
    except ValueError:
        raise InvalidInput(
            "The study has a key that no message can be sealed for; ask the server for its key."
        ) from None
    return key


def _sealed(study: Study, messages: Integers, secret: bytes, randomness: Randomness) -> Submission:
    """Seal each message for the server, in random order."""
    order = np.argsort(randomness.words(len(messages)), kind="stable")
    key, width, seal = _key(study.key), study.width, suite().encrypt
    sealed = tuple(
        seal(b"".join(number.to_bytes(width, "big") for number in row), key, study.digest)
        for row in messages[order].tolist()
    )
    name = hashlib.sha256(secret + study.digest).digest()[:NAME_BYTES]
    return Submission(study.digest, name, sealed, randomness.simulated)


def simulate(mechanism: Sender, points: npt.ArrayLike, *, randomness: Randomness | None = None) -> Mixed:
    """Play all parties in one process: every person's device, and the shuffler.

    The function charges no ledger. On one person's device, use :class:`heathaze.shuffle.Device`.

    Args:
        mechanism: For example ``hz.shuffle.Decoys(grid, epsilon=1, people=10_000)``.
        points: One row (x, y) for each person, in the grid's coordinates; longitude before latitude. A position outside
            the map counts as the nearest cell of the map.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.

    Returns:
        The mixed messages.

    Raises:
        InvalidInput: A position is not two finite numbers.
        PromiseBroken: There are fewer people than the mechanism needs.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, estimate
    >>> decoys = Decoys(Grid.plane(x=(0, 4), y=(0, 4), size=4), epsilon=2, people=1000)
    >>> mixed = simulate(decoys, [(0.5, 0.5)] * 1000)
    >>> int(estimate(mixed).density.values.argmax())  # the cell in the corner of x = 0 and y = 0
    0
    """
    if not hasattr(mechanism, "draw"):
        raise InvalidInput(
            f"{type(mechanism).__name__} is no mechanism of one round; give Decoys or ShuffledReports, or use "
            "simulate_rounds for SplitAndMix."
        )
    cells = cells_of(mechanism.grid, points)
    check_batch(mechanism, len(cells))
    receipt = pay(promise(mechanism), mechanism.event, randomness=randomness)
    return Mixed(mechanism, mechanism.draw(cells, receipt.randomness)[0], len(cells), receipt.simulated)
