"""What everyone agrees on before a purchase, in either protocol; and whether its budget carries a signal."""

from __future__ import annotations

import abc
import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput, TooLarge, expect
from heathaze.marketplace.features import Features
from heathaze.marketplace.mwem import MwemSum
from heathaze.marketplace.noisy_sum import NoisySum
from heathaze.privacy.events import Event
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import LARGEST_EPSILON, MOST_DELTA, Number, PrivacyLoss, parse_delta, parse_epsilon
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats

PLAN_VERSION = 2
"""Format of :meth:`Plan.parameters` and :attr:`Plan.fingerprint`; parties of different versions cannot trade."""

MOST_POINTS = 10**7


@dataclass(frozen=True, init=False, eq=False)
class Plan(abc.ABC):
    """What everyone agrees on before a purchase. Public.

    Consumer and owners hold different records, so each side gets the whole ε.

    Args:
        features: How points are hashed.
        points: How many points to buy, from 1 to 10,000,000.
        target_points: How many points the target has; public.
        epsilon: Privacy loss of a record of the target, and of a record of an owner.
        delta: Probability with which the promise may fail, at most 0.01.

    Raises:
        InvalidInput: A number is out of range.
    """

    features: Features
    points: int
    target_points: int
    epsilon: Fraction
    delta: Fraction

    def __init__(
        self, features: Features, points: int, target_points: int, epsilon: Number, delta: Number = Fraction(1, 10**6)
    ) -> None:
        expect(Features, features, "features")
        assign(
            self,
            features=features,
            points=whole(points, "points", "how many points to buy", most=MOST_POINTS),
            target_points=whole(target_points, "target_points", "how many points the target has", most=MOST_POINTS),
            epsilon=parse_epsilon(epsilon),
            delta=parse_delta(delta, zero=False, most=MOST_DELTA),
        )

    @property
    @abc.abstractmethod
    def target_sum(self) -> NoisySum | MwemSum:
        """The noise of the sum of the target's hashes, of which one is replaced."""

    @property
    @abc.abstractmethod
    def event_for_owners(self) -> Event:
        """What happens to the records of each owner."""

    @property
    @abc.abstractmethod
    def noise_to_signals(self) -> tuple[float, ...]:
        """Expected length of the noise of each mean hash, that of the target first; a mean hash is at most 1 long."""

    @abc.abstractmethod
    def check_signal(self) -> None:
        """Refuse a plan in which the noise of a mean hash is longer than the hash can be (errata E2-4).

        Raises:
            InvalidInput: It is; the sentence says which change would be enough.
        """

    @property
    def noise_to_signal(self) -> float:
        """The largest of :attr:`noise_to_signals`."""
        return max(self.noise_to_signals)

    @property
    def target_deviation(self) -> float:
        """Standard deviation of the noise in each number of the target's mean hash."""
        return self.target_sum.deviation / self.target_points

    @property
    def event_for_target(self) -> Event:
        """What happens to the records of the target."""
        return self.target_sum.event

    @property
    def guarantee_for_target(self) -> Guarantee:
        """What is promised to each record of the target."""
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.RECORD, Adjacency.REPLACE, Trust.CURATOR)

    @property
    def guarantee_for_owners(self) -> Guarantee:
        """What is promised to each record of an owner."""
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.RECORD, Adjacency.ADD_REMOVE, Trust.CURATOR)

    def target_hash(self, hashes: Floats, randomness: Randomness) -> Floats:
        """The mean hash of the target, with noise.

        Args:
            hashes: Hashes of the target's points, a row each.
            randomness: Where the noise comes from.
        """
        return self.target_sum.of(hashes, randomness) / self.target_points

    def check_owners(self, owners: Sequence[str]) -> None:
        """Refuse owners with whom no purchase can be made.

        Args:
            owners: Their names.

        Raises:
            InvalidInput: There is no owner, two have one name, or there are more than the plan pays for.
        """
        if not owners or len(set(owners)) < len(owners):
            raise InvalidInput("A purchase needs at least one owner, and each owner needs its own name.")

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports and for :attr:`fingerprint`."""
        return {
            "version": PLAN_VERSION,
            "points": self.points,
            "target_points": self.target_points,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "features": self.features.to_dict(),
        }

    @functools.cached_property
    def fingerprint(self) -> str:
        """The format's version and a hash of the plan. Equal plans have equal fingerprints, and other plans do not.

        It covers the tables of the features too, so that parties whose machines do not hash alike find out: cosines and
        quantiles come from the system's libraries.
        """
        agreed = json.dumps([self.parameters(), self.features.digest], sort_keys=True)
        return f"{PLAN_VERSION}:{hashlib.sha256(agreed.encode()).hexdigest()}"

    def _check_ratio(self, ratio: float, members: int, size: Literal["target_points", "points"]) -> None:
        """Refuse a mean hash whose noise is longer than the hash can be, and name changes that would each be enough.

        Args:
            ratio: Length of the noise over that of the hash.
            members: Points in the hash.
            size: Which of the plan's numbers gives the hash more members.
        """
        if ratio <= 1:
            return
        of, called = ("target", "points of the target") if size == "target_points" else ("summary", "points bought")
        enough = (
            ", or ".join(_remedies(self, ratio, members, size, called))
            or "more points, a larger epsilon and fewer frequencies"
        )
        raise InvalidInput(
            f"The noise of the {of}'s mean hash, over {members:,} {called}, is {ratio:.3g} times as long as the hash "
            f"can be, so owners would learn nothing from it; take {enough}. Nothing was charged."
        )


def _remedies(plan: Plan, ratio: float, members: int, size: str, called: str) -> Iterator[str]:
    """Changes of which each alone is enough; each is tried on the plan itself."""

    def carries(**changes: Any) -> bool:
        try:
            return replace(plan, **changes).noise_to_signal <= 1
        except (InvalidInput, TooLarge):
            return False

    # Noise of a sum does not depend on its members, so that of a mean falls with them; a summary is broadcast before
    # the last point is bought, which asks for a few more.
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
    """The smallest whole number above ``low`` that is enough, if all larger ones are; None if ``most`` is not."""
    low, high = min(low, most), min(high, most)
    while not enough(high):
        if high == most:
            return None
        low, high = high, min(4 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
