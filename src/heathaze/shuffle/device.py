"""Device of the shuffle model: it turns a position into sealed messages, which the shuffler cannot read."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.privacy.door import pay
from heathaze.privacy.ledger import Budget
from heathaze.privacy.randomness import Randomness, Secret, fresh_bytes
from heathaze.shuffle.mechanism import Sender, cells_of, check_batch, promise
from heathaze.shuffle.mixed import Mixed
from heathaze.shuffle.study import NAME_BYTES, Study, Submission, suite


class Device(Secret):
    """One person's device in a study.

    Args:
        study: The study, as the server announced it.
        ledger: The person's own budget. Every study charges it, also a second one of the same server.
        secret: At least 16 random bytes that stay on the device. With the same secret, the shuffler knows the person by
            the same name in one study, and refuses a second submission; names in different studies cannot be linked.

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
        self._secret = fresh_bytes(NAME_BYTES) if secret is None else secret
        if type(self._secret) is not bytes or len(self._secret) < NAME_BYTES:
            raise InvalidInput(f"The secret of a device is not {NAME_BYTES} bytes or more; leave it out to draw one.")

    def submit(self, point: npt.ArrayLike, *, randomness: Randomness | None = None) -> Submission:
        """Pay for a position's messages, draw them, and seal each for the server.

        The charge is on the disk before a message is drawn. The messages leave in random order.

        Args:
            point: The position (x, y) in the grid's coordinates; longitude before latitude. A position outside the map
                counts as the nearest cell of the map.
            randomness: Leave it out; ``Simulation(seed)`` is for tests. The keys of the seals are always secret.

        Raises:
            InvalidInput: The position is not two finite numbers. Nothing was charged.
            BudgetExceeded: The ledger has too little left. Nothing was charged.
            AlreadyCharged: The ledger has paid for this study before. Nothing was charged.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        study, mechanism = self.study, self.study.mechanism
        cells = cells_of(mechanism.grid, np.atleast_2d(np.asarray(point)))
        if len(cells) != 1:
            raise InvalidInput("A device submits one position; give x and y, or longitude and latitude.")
        note = f"shuffle study {study.digest.hex()}"
        receipt = pay(
            promise(mechanism), mechanism.event, ledger=self.ledger, randomness=randomness, note=note, once=note
        )
        messages, _ = mechanism.draw(cells, receipt.randomness)
        order = np.argsort(receipt.randomness.words(len(messages)), kind="stable")
        key, width = X25519PublicKey.from_public_bytes(study.key), study.width
        sealed = tuple(
            suite().encrypt(b"".join(number.to_bytes(width, "big") for number in row), key, study.digest)
            for row in messages[order].tolist()
        )
        return Submission(study.digest, hashlib.sha256(self._secret + study.digest).digest()[:NAME_BYTES], sealed)


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
    cells = cells_of(mechanism.grid, points)
    check_batch(mechanism, len(cells))
    receipt = pay(promise(mechanism), mechanism.event, randomness=randomness)
    return Mixed(mechanism, mechanism.draw(cells, receipt.randomness)[0], len(cells), receipt.simulated)
