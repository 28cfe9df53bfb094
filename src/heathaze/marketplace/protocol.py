"""The code that both purchase protocols, herding and private greedy, share.

:class:`OwnerSide` is the interface of an owner. :class:`Curator` is the base class of both curators and collects the
answers of owners step by step. The functions at the end check messages from other parties: an owner whose answer cannot
be used is excluded from the purchase, and the purchase goes on.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from heathaze.errors import InvalidInput, UnexpectedMessage, expect
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Broadcast, Delivery, FromOwner, Offer, Profile, Purchase, ToOwner, Wanted
from heathaze.marketplace.plan import Plan
from heathaze.privacy.randomness import Secret
from heathaze.types import Floats, Integers


class OwnerSide(Protocol):
    """Interface of an owner in one protocol, after the owner's ledger was charged."""

    def receive(self, message: ToOwner) -> FromOwner | None:
        """Answer a message of the curator; a repeated message gets the same answer."""


class Curator(Secret, abc.ABC):
    """The curator, who buys points: a state machine that takes messages and returns deliveries.

    The curator uses no network, clock or disk. A step ends when all owners who were asked have answered, or when the
    caller closes the step with :meth:`close_step`. An owner who does not answer, or whose answer cannot be used, is
    excluded with a note, and the purchase goes on without that owner.

    Args:
        plan: The plan that all parties agreed on.
        owners: Names of the owners.
        wanted: The consumer's message.

    Raises:
        InvalidInput: The owners or the consumer's message do not fit the plan.
    """

    def __init__(self, plan: Plan, owners: Sequence[str], wanted: Wanted) -> None:
        plan.check_owners(owners)
        self.plan = plan
        self.expected: type[FromOwner] | None = None
        """The class of message that owners were asked for; None if no purchase is under way."""
        self._owners = tuple(owners)
        self._wanted = _checked(wanted, plan)
        self._simulated = bool(wanted.broadcast.simulated)
        self._active = dict.fromkeys(self._owners)
        self._waiting: set[str] = set()
        self._notes: list[str] = []
        self._purchase: Purchase | None = None

    @property
    def waiting(self) -> frozenset[str]:
        """Names of the owners who have still to answer in this step."""
        return frozenset(self._waiting)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what went wrong in the purchase so far; they contain no data."""
        return tuple(self._notes)

    @property
    def purchase(self) -> Purchase | None:
        """The bought points, or None before the purchase is finished."""
        return self._purchase

    @abc.abstractmethod
    def begin(self) -> tuple[Delivery, ...]:
        """Begin the purchase: return the first messages to owners."""

    def receive(self, owner: str, message: FromOwner) -> tuple[Delivery, ...]:
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
        if self.expected is None or type(message) is not self.expected:
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

    def close_step(self) -> tuple[Delivery, ...]:
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
    def _next_step(self) -> tuple[Delivery, ...]:
        """Use the answers of the finished step, and return the messages of the next step."""

    def _ask(self, expected: type[FromOwner], owners: Iterable[str]) -> None:
        self.expected, self._waiting = expected, set(owners)

    def _set_aside(self, owner: str, why: str) -> None:
        self._active.pop(owner, None)
        self._notes.append(f"{owner} is left out{self._since}: {why}.")

    @property
    def _since(self) -> str:
        """Words for notes that say since when an owner is excluded."""
        return ""

    def _finish(self, owners: tuple[str, ...], rows: Integers, points: Floats, offered: dict[str, int]) -> None:
        self.expected, self._waiting = None, set()
        if len(rows) < self.plan.points:
            self._notes.append(f"Only {len(rows)} of {self.plan.points} points could be bought: no more were offered.")
        self._purchase = Purchase(owners, rows, points, offered, self.notes, self._simulated)


# ── what others send ────────────────────────────────────────────────────────────────────────────────────────────────

_ODD = (TypeError, ValueError, OverflowError, AttributeError)
"""Exceptions that numpy and Python raise for message fields of the wrong type."""

_SLACK = 10
"""A message is refused if its noise would be more than this many standard deviations longer than expected.

Honest noise practically never exceeds this limit.
"""

_MOST_ROWS = 2**48
"""Largest number of rows of an owner; a longer sum of hashes is refused."""


class Unusable(Exception):
    """Raised for an owner's answer that cannot be used; the owner is excluded, and the text says why."""


def usable_profile(profile: Profile, features: Features, deviation: float) -> Profile:
    """Check the profile in an owner's message; the deviation of its noise is taken from the plan, not from the message.

    Raises:
        Unusable: The profile cannot be a noisy sum of hashes.
    """
    try:
        values, count = np.array(profile.values, dtype=np.float64), float(profile.count)
        longest = abs(count) + deviation * (math.sqrt(features.dimension) + _SLACK)
        fits = values.shape == (features.dimension,) and _length(values) <= 10 * longest < math.inf
        simulated = bool(profile.simulated)
    except _ODD:
        fits = False
    if not fits or not abs(count) < _MOST_ROWS:
        raise Unusable(f"its profile is no sum of hashes of {features.dimension} numbers")
    return Profile(values, count, deviation, simulated)


def usable_offer(offer: Offer, features: Features, most: int) -> Offer:
    """Check the offer in an owner's message: at most ``most`` points, from different rows.

    Raises:
        Unusable: The offer has too many points, repeated rows or invalid values.
    """
    try:
        rows = np.asarray(offer.rows)
        points = features.checked(offer.points)
        integers = rows.ndim == 1 and (rows.dtype.kind in "iu" or not rows.size)
        fits = integers and all(0 <= int(row) < _MOST_ROWS for row in rows)
    except InvalidInput as error:
        raise Unusable(f"its offer cannot be used ({error})".replace(".)", ")")) from None
    except _ODD:
        raise Unusable("its offer is no table of points") from None
    if not fits:
        raise Unusable("its offer does not give a row number for each point")
    if len(rows) != len(points) or len(rows) > most:
        raise Unusable(f"it offered {len(points)} points with {len(rows)} row numbers, but at most {most} were wanted")
    if len(np.unique(rows)) < len(rows):
        raise Unusable("it offered the same row twice")
    return Offer(rows.astype(np.int64), np.array(points))


def usable_score(score: object) -> float | None:
    """Check the score in an owner's bid; None means that the owner has no points left.

    Raises:
        Unusable: The score is not a finite number.
    """
    try:
        if score is None or (isinstance(score, float | int) and math.isfinite(score)):
            return None if score is None else float(score)
    except OverflowError:
        pass
    raise Unusable("its bid is not a finite number")


def _checked(wanted: Wanted, plan: Plan) -> Wanted:
    """Check the consumer's message against the plan.

    A mean hash that is far too long is refused, because scores would become so large that rounding errors would exclude
    honest owners.
    """
    expect(Wanted, wanted, "The message of the consumer")
    expect(Broadcast, wanted.broadcast, "The broadcast about the target")
    broadcast = wanted.broadcast
    points = plan.features.checked(wanted.points)
    longest = 1 + plan.target_deviation * (math.sqrt(plan.features.dimension) + _SLACK)
    try:
        values = np.asarray(broadcast.values, dtype=np.float64)
        fits = values.shape == (plan.features.dimension,) and _length(values) <= longest
        fits = fits and broadcast.about == "target"
        public = (broadcast.deviation, broadcast.members, broadcast.plan)
        fits = fits and public == (plan.target_deviation, plan.target_points, plan.fingerprint)
    except _ODD:
        fits = False
    if not fits or len(points) != plan.target_points:
        raise InvalidInput("The consumer's message does not fit the plan; make a Consumer with the same plan.")
    return wanted


def _length(values: Floats) -> float:
    """Euclidean length of a vector in a message; infinite if a coordinate is NaN or very large."""
    return float(np.linalg.norm(values)) if np.abs(values).max(initial=0) < _MOST_ROWS else math.inf
