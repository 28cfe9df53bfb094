"""The owner's half: it answers the curator about its own records, and pays for it once."""

from __future__ import annotations

import numpy.typing as npt

from heathaze.errors import UnexpectedMessage
from heathaze.marketplace.messages import Broadcast, FromOwner, ToOwner
from heathaze.marketplace.protocol import Way, fingerprint
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import warn_if_weak
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.privacy.secret import Secret


class Owner(Secret):
    """Who has points to sell, or none: an owner without records takes part like any other, or its absence would tell.

    Args:
        plan: What everyone agreed on; an owner that finds its promise too weak does not take part.
        points: Its records, encoded as the study says.
        ledger: The budget of these records; charged before the first answer, and nothing is said if it refuses.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.
    """

    def __init__(
        self,
        plan: Way,
        points: npt.ArrayLike,
        *,
        ledger: Ledger | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.plan = plan
        source = SecureRandomness() if randomness is None else randomness
        self._seller = plan.seller(plan.features.checked(points), source)
        self._fingerprint = fingerprint(plan)
        warn_if_weak(plan.guarantee_for_owners.loss.epsilon)
        self._ledger = ledger
        self._paid = False

    def receive(self, message: ToOwner) -> FromOwner | None:
        """Answer the curator. The same message again gets the same answer.

        Raises:
            UnexpectedMessage: It is out of turn or contradicts an earlier one; nothing was said.
            BudgetExceeded: The ledger does not allow; nothing was said.
        """
        if isinstance(message, Broadcast) and message.plan != self._fingerprint:
            raise UnexpectedMessage("The plan of a broadcast", "another one", "that of this owner", "agree on one")
        if not self._paid:
            if not (isinstance(message, Broadcast) and message.about == "target"):
                raise UnexpectedMessage("The first message", type(message).__name__, "the broadcast of the target")
            if self._ledger is not None:
                self._ledger.charge(self.plan.guarantee_for_owners, self.plan.event_for_owners, note="owner")
            self._paid = True
        return self._seller.receive(message)
