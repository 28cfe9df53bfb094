"""What both ways of buying, herding and rounds, have in common: a plan, an owner's part and a curator."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from heathaze.errors import InvalidInput, TooLarge, UnexpectedMessage, expect
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Broadcast, FromOwner, Offer, Profile, Purchase, ToOwner, Wanted
from heathaze.privacy.events import Event
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.loss import LARGEST_EPSILON
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats

if TYPE_CHECKING:
    from heathaze.marketplace.herding import Herding
    from heathaze.marketplace.private_greedy import Rounds


# TODO-merged from marketplace._turns: Whose turn it is: what both curators check before they take a message.


def named_once(owners: Sequence[str]) -> tuple[str, ...]:
    """The names of the owners, if there is at least one and none twice."""
    names = tuple(owners)
    if not names or len(set(names)) < len(names):
        raise InvalidInput("A purchase needs at least one owner, each under a name of its own.")
    return names


def check_turn(
    owner: str, message: FromOwner, kind: type[FromOwner] | None, part: Collection[str], waiting: Collection[str]
) -> None:
    """Refuse a message of a stranger, of another kind than the step asks for, or of one who was not asked.

    Args:
        owner: Who sent it.
        message: What.
        kind: What the step asks for; None if no purchase is under way.
        part: Owners who still take part.
        waiting: Owners who were asked and have not answered.
    """
    if owner not in part:
        raise UnexpectedMessage("The sender of a message", f"{owner!r}", "an owner who takes part")
    if kind is None or type(message) is not kind:
        wanted = "none, no purchase is under way" if kind is None else kind.__name__
        raise UnexpectedMessage("The kind of a message", type(message).__name__, wanted)
    if owner not in waiting:
        raise UnexpectedMessage("The sender of a message", f"{owner!r}", "one who was asked and has not answered")


# TODO-merged from marketplace._plans: What both plans check: whole numbers, and whether anything can be learned through the noise.

MOST_POINTS = 10**7


def check_signal(plan: Herding | Rounds, ratio: float, members: int, size: Literal["target_points", "points"]) -> None:
    """Refuse a mean hash whose noise is longer than the hash can be, and say what would do, each on its own.

    Args:
        plan: Whose hash it is.
        ratio: Length of the noise to that of the hash.
        members: Points in the hash.
        size: Which of the plan's numbers gives the hash more members.
    """
    if ratio <= 1:
        return
    of, called = ("target", "points of the target") if size == "target_points" else ("summary", "points bought")
    enough = (
        ", or ".join(_remedies(plan, ratio, members, size, called))
        or "more points, a larger epsilon and fewer frequencies"
    )
    raise InvalidInput(
        f"The noise of the {of}'s mean hash, over {members:,} {called}, is {ratio:.3g} times as long as the hash can "
        f"be, so nobody would learn anything from it; take {enough}. Nothing was charged."
    )


def _remedies(plan: Herding | Rounds, ratio: float, members: int, size: str, called: str) -> Iterator[str]:
    """What alone is enough; each is tried on the plan itself."""

    def carries(**changes: Any) -> bool:
        try:
            return replace(plan, **changes).noise_to_signal <= 1
        except (InvalidInput, TooLarge):
            return False

    # Noise of a sum does not depend on its members, so that of a mean falls with them; a summary is told before the
    # last point is bought, which asks for a few more.
    least = getattr(plan, size) - 1 + math.ceil(members * (ratio - 1))
    some = _smallest(lambda count: carries(**{size: count}), least, least + 2, MOST_POINTS)
    if some is not None:
        yield f"at least {some:,} {called}"
    # In steps of a thousandth of the first guess, which is rounded up to three digits at the end.
    unit = 10.0 ** (math.floor(math.log10(float(plan.epsilon) * ratio)) - 2)
    loss = _smallest(lambda count: carries(epsilon=_short(count * unit)), 0, 10, math.floor(LARGEST_EPSILON / unit))
    if loss is not None:
        yield f"epsilon {_short(loss * unit)} or more"
    fewer = math.floor(plan.features.frequencies / ratio**2 * (1 + 1e-9))
    while fewer >= 1 and not carries(features=replace(plan.features, frequencies=fewer)):
        fewer -= 1
    if fewer >= 1:
        yield f"at most {fewer} {'frequency' if fewer == 1 else 'frequencies'} in the study"


def _short(value: float) -> str:
    """Three digits, as a reader would type them."""
    return f"{float(f'{value:.3g}'):.15g}"


def _smallest(enough: Callable[[int], bool], low: int, high: int, most: int) -> int | None:
    """The smallest whole number above ``low`` that is enough, if all larger ones are; none if not even the most is."""
    low, high = min(low, most), min(high, most)
    while not enough(high):
        if high == most:
            return None
        low, high = high, min(4 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def whole(name: str, value: object) -> int:
    """A positive whole number, in a sentence if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= MOST_POINTS:
        raise InvalidInput(f"{name} is {value!r}; give a whole number from 1 to {MOST_POINTS}.")
    return int(value)


# TODO-merged from marketplace._answers: What comes from others, made usable or refused: nothing that an owner or a consumer says may end a purchase.

_ODD = (TypeError, ValueError, OverflowError, AttributeError)
"""What numpy and Python raise at values of the wrong kind."""

_SLACK = 10
"""Standard deviations by which the length of noise may exceed what is expected: it never does."""

_MOST_ROWS = 2**48
"""No owner has more, so no sum is longer."""


class Unusable(Exception):
    """An answer that cannot be used; its owner is set aside, and the text says why."""


def check_wanted(plan: Way, wanted: Wanted) -> Wanted:
    """What a consumer wants, if it is as the plan says.

    A mean hash that is far too long would make scores so large that rounding decides who is set aside.

    Raises:
        InvalidInput: It is not.
    """
    expect(Wanted, wanted, "What the consumer wants")
    expect(Broadcast, wanted.broadcast, "What owners may be told")
    told = wanted.broadcast
    points = plan.features.checked(wanted.points)
    longest = 1 + plan.target_deviation * (math.sqrt(plan.features.dimension) + _SLACK)
    try:
        values = np.asarray(told.values, dtype=np.float64)
        fits = values.shape == (plan.features.dimension,) and _length(values) <= longest
        fits = fits and told.about == "target" and (told.deviation, told.members, told.plan) == (
            plan.target_deviation, plan.target_points, fingerprint(plan),
        )  # fmt: skip
    except _ODD:
        fits = False
    if not fits or len(points) != plan.target_points:
        raise InvalidInput("What the consumer wants does not fit the plan; make a Consumer with the very same plan.")
    return wanted


def usable_profile(profile: Profile, features: Features, deviation: float) -> Profile:
    """A profile as numbers; the noise is what the plan says, whatever the owner says."""
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
    """An offer of at most so many points, each of another row."""
    try:
        rows = np.asarray(offer.rows)
        points = features.checked(offer.points)
        whole = rows.ndim == 1 and (rows.dtype.kind in "iu" or not rows.size)
        fits = whole and all(0 <= int(row) < _MOST_ROWS for row in rows)
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
    """A bid, or none."""
    try:
        if score is None or (isinstance(score, float | int) and math.isfinite(score)):
            return None if score is None else float(score)
    except OverflowError:
        pass
    raise Unusable("its bid is not a finite number")


def _length(values: Floats) -> float:
    """Of a vector; infinite also for what would overflow, or is no number."""
    return float(np.linalg.norm(values)) if np.abs(values).max(initial=0) < _MOST_ROWS else math.inf


def fingerprint(plan: Way) -> str:
    """Equal for equal plans alone: an owner that is asked under another plan than its own says nothing.

    So do parties whose machines do not hash alike: cosines and quantiles come from the system's libraries.
    """
    agreed = [plan.parameters(), plan.features.digest]
    return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()


class Parcel(NamedTuple):
    """A message and which owner to carry it to."""

    owner: str
    message: ToOwner


class Curator(Protocol):
    """Buys points. No network, no clock, no disk: messages go in, parcels come out."""

    @property
    def waiting(self) -> frozenset[str]:
        """Owners who have not answered in this step."""

    @property
    def purchase(self) -> Purchase | None:
        """What was bought, once it is."""

    def begin(self) -> tuple[Parcel, ...]:
        """The first messages."""

    def receive(self, owner: str, message: FromOwner) -> tuple[Parcel, ...]:
        """Take one message; the last one of a step closes it."""

    def close_step(self) -> tuple[Parcel, ...]:
        """Time is up: go on with those who answered."""


class Seller(Protocol):
    """What an owner does in one way of buying."""

    def receive(self, message: ToOwner) -> FromOwner | None:
        """Answer a message of the curator."""


class Way(Protocol):
    """A plan: what everyone agrees on before a purchase. Public."""

    @property
    def features(self) -> Features:
        """How points are hashed."""

    @property
    def points(self) -> int:
        """How many to buy."""

    @property
    def target_points(self) -> int:
        """How many the target has."""

    @property
    def target_deviation(self) -> float:
        """Of the noise in each number of the target's mean hash."""

    @property
    def noise_to_signals(self) -> tuple[float, ...]:
        """Expected length of the noise of each mean hash, that of the target first; a hash is no longer than 1."""

    @property
    def noise_to_signal(self) -> float:
        """The greatest of them."""

    def check_signal(self) -> None:
        """Refuse a budget that carries no signal."""

    def target_hash(self, hashes: Floats, randomness: Randomness) -> Floats:
        """The mean hash of the target, with noise."""

    @property
    def event_for_target(self) -> Event:
        """What happens to the target."""

    @property
    def event_for_owners(self) -> Event:
        """What happens to the records of each owner."""

    @property
    def guarantee_for_target(self) -> Guarantee:
        """What is promised to each record of the target."""

    @property
    def guarantee_for_owners(self) -> Guarantee:
        """What is promised to each record of an owner."""

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""

    def check_owners(self, owners: Sequence[str]) -> None:
        """Refuse owners with whom no purchase can be made: none, two of one name, more than are paid for."""

    def seller(self, points: Floats, randomness: Randomness) -> Seller:
        """An owner's part."""

    def curator(self, owners: Sequence[str], wanted: Wanted, randomness: Randomness | None = None) -> Curator:
        """The curator's part."""
