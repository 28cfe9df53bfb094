"""What the parties of the two protocols, herding and private greedy, have in common.

:class:`OwnerSide` is what an owner does. :class:`Curator` collects the answers of owners step by step. The functions
at the end check what other parties send: an answer that cannot be used sets its owner aside and never stops a purchase.
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
    """What an owner does in one protocol, once it has paid."""

    def receive(self, message: ToOwner) -> FromOwner | None:
        """Answer a message of the curator; the same message again gets the same answer."""


class Curator(Secret, abc.ABC):
    """Buys points. It uses no network, clock or disk: messages go in, deliveries come out.

    A step ends when all owners who were asked have answered, or when :meth:`close_step` says that time is up. Owners
    who do not answer, or whose answer cannot be used, are set aside with a note; the purchase goes on without them.

    Args:
        plan: What everyone agreed on.
        owners: Names of the owners.
        wanted: What the consumer sent.

    Raises:
        InvalidInput: The owners or what the consumer sent do not fit the plan.
    """

    def __init__(self, plan: Plan, owners: Sequence[str], wanted: Wanted) -> None:
        plan.check_owners(owners)
        self.plan = plan
        self.expected: type[FromOwner] | None = None
        """The kind of message that owners were asked for; None if no purchase is under way."""
        self._owners = tuple(owners)
        self._wanted = _checked(wanted, plan)
        self._active = dict.fromkeys(self._owners)
        self._waiting: set[str] = set()
        self._notes: list[str] = []
        self._purchase: Purchase | None = None

    @property
    def waiting(self) -> frozenset[str]:
        """Owners who have not answered in this step."""
        return frozenset(self._waiting)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what went wrong so far; they hold no data."""
        return tuple(self._notes)

    @property
    def purchase(self) -> Purchase | None:
        """What was bought, once the purchase is made."""
        return self._purchase

    @abc.abstractmethod
    def begin(self) -> tuple[Delivery, ...]:
        """The first messages."""

    def receive(self, owner: str, message: FromOwner) -> tuple[Delivery, ...]:
        """Take one message of an owner; the last message of a step closes it.

        Args:
            owner: Who sent it.
            message: What was sent.

        Returns:
            The next messages; none while other owners have still to answer.

        Raises:
            UnexpectedMessage: It comes from a stranger, a second time or out of turn; nothing changes.
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
        """Go on with those who answered, because time is up.

        Returns:
            The next messages; none once the purchase is made.
        """
        for owner in self._owners:
            if owner in self._waiting:
                self._set_aside(owner, "it did not answer")
        self._waiting = set()
        return self._next_step()

    @abc.abstractmethod
    def _take(self, owner: str, message: FromOwner) -> None:
        """Keep an answer, or raise :class:`Unusable`."""

    @abc.abstractmethod
    def _next_step(self) -> tuple[Delivery, ...]:
        """All answers are there: what comes next."""

    def _ask(self, expected: type[FromOwner], owners: Iterable[str]) -> None:
        self.expected, self._waiting = expected, set(owners)

    def _set_aside(self, owner: str, why: str) -> None:
        self._active.pop(owner, None)
        self._notes.append(f"{owner} is left out{self._since}: {why}.")

    @property
    def _since(self) -> str:
        """From when on an owner is left out, for notes."""
        return ""

    def _finish(self, owners: tuple[str, ...], rows: Integers, points: Floats, offered: dict[str, int]) -> None:
        self.expected, self._waiting = None, set()
        if len(rows) < self.plan.points:
            self._notes.append(f"Only {len(rows)} of {self.plan.points} points could be bought: no more were offered.")
        self._purchase = Purchase(owners, rows, points, offered, self.notes)


# ── what others send ────────────────────────────────────────────────────────────────────────────────────────────────

_ODD = (TypeError, ValueError, OverflowError, AttributeError)
"""What numpy and Python raise at values of the wrong kind."""

_SLACK = 10
"""Standard deviations by which the length of noise may exceed its expectation; it never does."""

_MOST_ROWS = 2**48
"""No owner has more rows, so no sum is longer."""


class Unusable(Exception):
    """An answer that cannot be used; its owner is set aside, and the text says why."""


def usable_profile(profile: Profile, features: Features, deviation: float) -> Profile:
    """A profile as numbers. The noise is what the plan says, whatever the owner says.

    Raises:
        Unusable: It is no sum of hashes.
    """
    try:
        values, count = np.array(profile.values, dtype=np.float64), float(profile.count)
        longest = abs(count) + deviation * (math.sqrt(features.dimension) + _SLACK)
        fits = values.shape == (features.dimension,) and _length(values) <= 10 * longest < math.inf
    except _ODD:
        fits = False
    if not fits or not abs(count) < _MOST_ROWS:
        raise Unusable(f"its profile is no sum of hashes of {features.dimension} numbers")
    return Profile(values, count, deviation)


def usable_offer(offer: Offer, features: Features, most: int) -> Offer:
    """An offer of at most ``most`` points, each of another row.

    Raises:
        Unusable: It is not.
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
        raise Unusable("its offer does not say which rows they are")
    if len(rows) != len(points) or len(rows) > most:
        raise Unusable(f"it offered {len(points)} points, and was asked for at most {most}")
    if len(np.unique(rows)) < len(rows):
        raise Unusable("it offered the same row twice")
    return Offer(rows.astype(np.int64), np.array(points))


def usable_score(score: object) -> float | None:
    """The score of a bid, or None for no bid.

    Raises:
        Unusable: It is not a finite number.
    """
    try:
        if score is None or (isinstance(score, float | int) and math.isfinite(score)):
            return None if score is None else float(score)
    except OverflowError:
        pass
    raise Unusable("its bid is not a finite number")


def _checked(wanted: Wanted, plan: Plan) -> Wanted:
    """What the consumer sent, if it is as the plan says.

    A mean hash that is far too long would make scores so large that rounding decides who is set aside.
    """
    expect(Wanted, wanted, "What the consumer wants")
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
        raise InvalidInput("What the consumer wants does not fit the plan; make a Consumer with the very same plan.")
    return wanted


def _length(values: Floats) -> float:
    """Length of a vector; infinite also for what would overflow, or is no number."""
    return float(np.linalg.norm(values)) if np.abs(values).max(initial=0) < _MOST_ROWS else math.inf
