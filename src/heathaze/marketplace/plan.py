"""The plan of a purchase: the public parameters that all parties agree on, for both protocols.

A plan also checks that its privacy budget is large enough for the noisy mean hashes to carry a signal.
"""

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
"""Version of :meth:`Plan.parameters` and :attr:`Plan.fingerprint`; parties with different versions cannot trade."""

MOST_POINTS = 10**7


@dataclass(frozen=True, init=False, eq=False)
class Plan(abc.ABC):
    """The plan of a purchase: public parameters that all parties agree on before the purchase begins.

    Consumer and owners hold different records, so the full ε applies to each of them separately.

    Args:
        features: The public hash of points.
        points: Number of points to buy, from 1 to 10,000,000.
        target_points: Number of points in the target; public.
        epsilon: Privacy loss ε for a record of the target, and also for a record of an owner.
        delta: The δ of the promise, a small probability by which its bound may be exceeded, at most 0.01.

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
        """Noise for the sum of the target's hashes; neighbouring targets differ in one replaced hash."""

    @property
    @abc.abstractmethod
    def event_for_owners(self) -> Event:
        """The privacy event that the purchase charges to the ledger of each owner."""

    @property
    def noise_to_signals(self) -> tuple[float, ...]:
        """Expected length of the noise in each broadcast mean hash, the target's first; a mean hash has length ≤ 1."""
        root = math.sqrt(self.features.dimension)
        return (self.target_sum.approximate_deviation * root / self.target_points,)

    def check_signal(self) -> None:
        """Refuse a plan whose noise is longer than a mean hash can be, because owners would follow noise (errata E2-4).

        Raises:
            InvalidInput: The noise is too long; the sentence names changes of the plan that would be enough.
        """
        self._check_ratio(self.noise_to_signals[0], self.target_points, "target_points")

    @property
    def noise_to_signal(self) -> float:
        """Largest expected noise length among the broadcast mean hashes, see :attr:`noise_to_signals`."""
        return max(self.noise_to_signals)

    @property
    def target_deviation(self) -> float:
        """Standard deviation of the noise in each coordinate of the target's mean hash."""
        return self.target_sum.deviation / self.target_points

    @property
    def event_for_target(self) -> Event:
        """The privacy event that the purchase charges to the ledger of the target."""
        return self.target_sum.event

    @property
    def guarantee_for_target(self) -> Guarantee:
        """The privacy guarantee for each record of the target."""
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.RECORD, Adjacency.REPLACE, Trust.CURATOR)

    @property
    def guarantee_for_owners(self) -> Guarantee:
        """The privacy guarantee for each record of an owner."""
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.RECORD, Adjacency.ADD_REMOVE, Trust.CURATOR)

    def target_hash(self, hashes: Floats, randomness: Randomness) -> Floats:
        """Compute the noisy mean hash of the target.

        Args:
            hashes: Hashes of the target's points, one per row.
            randomness: Source of the noise.

        Returns:
            The noisy mean hash, one number for each coordinate of a hash.
        """
        return self.target_sum.of(hashes, randomness) / self.target_points

    def check_owners(self, owners: Sequence[str]) -> None:
        """Refuse a list of owners that does not fit the plan.

        Args:
            owners: Names of the owners.

        Raises:
            InvalidInput: There is no owner, two owners have the same name, or the plan covers fewer owners.
        """
        if not owners or len(set(owners)) < len(owners):
            raise InvalidInput("A purchase needs at least one owner, and each owner needs its own name.")

    def parameters(self) -> dict[str, Any]:
        """Public parameters of the plan, for reports and for :attr:`fingerprint`."""
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
        """Fingerprint of the plan: its format version and a hash. Only equal plans have equal fingerprints.

        The fingerprint also covers the tables from which points are hashed. These tables come from the system's cosine
        and quantile functions, so machines that would hash points differently have different fingerprints.
        """
        agreed = json.dumps([self.parameters(), self.features.digest], sort_keys=True)
        return f"{PLAN_VERSION}:{hashlib.sha256(agreed.encode()).hexdigest()}"

    def _check_ratio(self, ratio: float, members: int, size: Literal["target_points", "points"]) -> None:
        """Refuse the plan if the noise of a mean hash is longer than the hash; name changes that would each be enough.

        Args:
            ratio: Expected length of the noise over the largest length of the mean hash.
            members: Number of points over which the mean hash is taken.
            size: Parameter of the plan to increase for a mean over more points.
        """
        if ratio <= 1:
            return
        of, called = ("target", "points of the target") if size == "target_points" else ("summary", "points bought")
        enough = (
            ", or ".join(_remedies(self, ratio, members, size, called))
            or "more points, a larger epsilon and fewer frequencies"
        )
        raise InvalidInput(
            f"The noise of the {of}'s mean hash, taken over {members:,} {called}, is {ratio:.3g} times as long as the "
            f"hash can be, so owners would learn nothing from it; take {enough}. Nothing was charged."
        )


def _remedies(plan: Plan, ratio: float, members: int, size: str, called: str) -> Iterator[str]:
    """Suggest changes of the plan, each of which alone makes the noise short enough; every change is tested before."""

    def carries(**changes: Any) -> bool:
        try:
            return replace(plan, **changes).noise_to_signal <= 1
        except (InvalidInput, TooLarge):
            return False

    # The noise of a sum does not depend on the number of its members, so the noise of the mean falls as 1/members. A
    # summary is broadcast before the last point is bought, so a few more points than this estimate may be needed.
    least = getattr(plan, size) - 1 + math.ceil(members * (ratio - 1))
    some = _smallest(lambda count: carries(**{size: count}), least, least + 2, MOST_POINTS)
    if some is not None:
        yield f"at least {some:,} {called}"
    # Search ε in steps of its third significant digit.
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
    """Format an ε with three significant digits, as a user would type it."""
    return f"{float(f'{value:.3g}'):.15g}"


def _smallest(enough: Callable[[int], bool], low: int, high: int, most: int) -> int | None:
    """Search for the smallest sufficient number above ``low``, by bisection; None if even ``most`` is not enough.

    The search assumes that every number above a sufficient one is sufficient too.
    """
    low, high = min(low, most), min(high, most)
    while not enough(high):
        if high == most:
            return None
        low, high = high, min(4 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
