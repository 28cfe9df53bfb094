"""The curator of a purchase: the base class of both protocols, herding and private greedy.

The curator collects the answers of owners step by step. An owner whose answer cannot be used is excluded from the
purchase, and the purchase goes on.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence

from heathaze.errors import UnexpectedMessage, expect
from heathaze.marketplace.messages import Delivery, FromOwner, Purchase, ToOwner, Unusable, Wanted
from heathaze.marketplace.plan import Plan
from heathaze.privacy.randomness import Secret
from heathaze.types import Floats, Integers

Deliveries = tuple[Delivery, ...]
"""Messages of the curator, each with the owner who is to receive it."""


class Curator(Secret, abc.ABC):
    """The curator, who buys points: a state machine that takes messages and returns deliveries.

    The curator uses no network, clock or disk. A step ends when all owners who were asked have answered, or when the
    caller calls :meth:`close_step`. An owner who does not answer, or whose answer cannot be used, is excluded with a
    note, and the purchase goes on without that owner.

    Args:
        plan: The plan that all parties agreed on.
        owners: Names of the owners.
        wanted: The consumer's message.

    Raises:
        InvalidInput: The owners or the consumer's message do not fit the plan.

    >>> import numpy as np
    >>> from heathaze.marketplace import Consumer, Features, Herding, Owner, curator_for
    >>> plan = Herding(Features(columns=1, gamma=1.0), points=2, target_points=200, epsilon=2)
    >>> owner = Owner(plan, np.zeros((50, 1)))
    >>> curator = curator_for(plan, ["coast"], Consumer(plan, np.zeros((200, 1))).want())
    >>> ahead = list(curator.begin())
    >>> while curator.purchase is None:
    ...     name, message = ahead.pop(0)
    ...     ahead += curator.receive(name, owner.receive(message))
    >>> curator.purchase.owners
    ('coast', 'coast')
    """

    def __init__(self, plan: Plan, owners: Sequence[str], wanted: Wanted) -> None:
        plan.check_owners(owners)
        self.plan = plan
        self.expected: type[FromOwner] | None = None
        """The class of message that owners were asked for; None if no purchase is under way."""
        self._owners = tuple(owners)
        expect(Wanted, wanted, "The message of the consumer")
        wanted.check(plan)
        self._wanted = wanted
        self._simulated = wanted.broadcast.simulated is not False
        self._active = dict.fromkeys(self._owners)
        self._waiting: set[str] = set()
        self._notes: list[str] = []
        self.purchase: Purchase | None = None
        """The bought points, or None before the purchase is finished."""

    @property
    def waiting(self) -> frozenset[str]:
        """Names of the owners who have still to answer in this step."""
        return frozenset(self._waiting)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what went wrong in the purchase so far; they contain no data."""
        return tuple(self._notes)

    @abc.abstractmethod
    def begin(self) -> Deliveries:
        """Begin the purchase: return the first messages to owners.

        Returns:
            The messages, each with the owner to whom it must be sent.
        """

    def receive(self, owner: str, message: FromOwner) -> Deliveries:
        """Take one message of an owner; the last expected message ends the step.

        Args:
            owner: Name of the sender.
            message: The message.

        Returns:
            The next messages to owners; empty while other owners have still to answer.

        Raises:
            UnexpectedMessage: The sender takes no part, or the message is repeated or out of turn. The curator's state
                does not change.
        """
        if owner not in self._active:
            raise UnexpectedMessage("The sender of a message", f"{owner!r}", "an owner who takes part")
        if type(message) is not self.expected:
            expected = "none, no purchase is under way" if self.expected is None else self.expected.__name__
            raise UnexpectedMessage("The kind of a message", type(message).__name__, expected)
        if owner not in self._waiting:
            raise UnexpectedMessage("The sender of a message", f"{owner!r}", "one who was asked and has not answered")
        try:
            self._take(owner, message)
        except Unusable as why:
            self._set_aside(owner, str(why))
        self._waiting.discard(owner)
        return () if self._waiting else self.close_step()

    def close_step(self) -> Deliveries:
        """End the step without the owners who have not answered, because the time for answers is over.

        Returns:
            The next messages to owners; empty when the purchase is finished.
        """
        for owner in self._owners:
            if owner in self._waiting:
                self._set_aside(owner, "it did not answer")
        self._waiting = set()
        return self._next_step()

    @abc.abstractmethod
    def _take(self, owner: str, message: FromOwner) -> None:
        """Check and store an owner's answer, or raise :class:`Unusable`."""

    @abc.abstractmethod
    def _next_step(self) -> Deliveries:
        """Use the answers of the finished step, and return the messages of the next step."""

    def _ask(self, expected: type[FromOwner], owners: Iterable[str]) -> None:
        self.expected, self._waiting = expected, set(owners)

    def _deliver(self, owners: Iterable[str], message: ToOwner) -> Deliveries:
        """Address one message to several owners."""
        return tuple(Delivery(owner, message) for owner in owners)

    def _set_aside(self, owner: str, why: str) -> None:
        self._active.pop(owner, None)
        self._notes.append(f"{owner} is left out{self._since}: {why}.")

    @property
    def _since(self) -> str:
        """Return a phrase that says from which round on an owner is excluded."""
        return ""

    def _finish(self, owners: tuple[str, ...], rows: Integers, points: Floats, offered: dict[str, int]) -> None:
        self.expected, self._waiting = None, set()
        if len(rows) < self.plan.points:
            self._notes.append(f"Only {len(rows)} of {self.plan.points} points could be bought: no more were offered.")
        self.purchase = Purchase(owners, rows, points, offered, self.notes, self._simulated)
