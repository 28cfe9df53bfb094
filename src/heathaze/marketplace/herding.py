"""Buying points that match a target: owners herd towards a noisy target, each on its own, and the curator picks.

    consumer ─ target, noisy mean hash ─► curator ─ noisy mean hash ─► owners
                                          curator ◄─ noisy sum of all hashes, noisy count ─ owner
    mixture of owners that meets the target: so many points from each       ─ quota ─► owner
    the exact greedy choice among the offers   curator ◄─ points that herd towards the target ─ owner
    consumer ◄─ the chosen points ─ curator

Owners are told two things only: the target's noisy mean hash, and a quota that follows from noisy numbers. Nothing that
was bought, or offered, ever comes back to them, so the curator may choose with all it knows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from heathaze.errors import InvalidInput, expect
from heathaze.marketplace.features import Features
from heathaze.marketplace.noisy_sum import MOST_DELTA, NoisySum
from heathaze.marketplace.protocol import check_signal, named_once, whole
from heathaze.privacy.events import Composition
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import Number, PrivacyLoss, parse_delta, parse_epsilon
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats

if TYPE_CHECKING:
    from heathaze.marketplace.herding_parties import Herder, HerdingCurator
    from heathaze.marketplace.messages import Wanted


@dataclass(frozen=True)
class Herding:
    """What everyone agrees on before a purchase. Public.

    Consumer and owners hold different records, so each side gets the whole ε: a record of the target is in the target's
    hash and nowhere else, a record of an owner is in that owner's profile and nowhere else.

    Args:
        features: How points are hashed.
        points: How many to buy.
        target_points: How many the target has; public.
        epsilon: Privacy loss of a record of the target, and of a record of an owner.
        delta: Of the promise.
        seen: How many points the curator may see for each point it buys, at least 1.

    >>> plan = Herding(Features(columns=4, gamma=0.5), points=100, target_points=250, epsilon=2)
    >>> round(plan.noise_to_signal, 2)
    0.21
    """

    features: Features
    points: int
    target_points: int
    epsilon: Fraction
    delta: Fraction = Fraction(1, 10**6)
    seen: float = 2.0

    if TYPE_CHECKING:

        def __init__(
            self,
            features: Features,
            points: int,
            target_points: int,
            epsilon: Number,
            delta: Number = Fraction(1, 10**6),
            seen: float = 2.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        expect(Features, self.features, "features")
        object.__setattr__(self, "points", whole("points", self.points))
        object.__setattr__(self, "target_points", whole("target_points", self.target_points))
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        object.__setattr__(self, "delta", parse_delta(self.delta, zero=False, most=MOST_DELTA))
        if isinstance(self.seen, bool) or not isinstance(self.seen, int | float) or not 1 <= self.seen < math.inf:
            raise InvalidInput(
                f"seen is {self.seen!r}; give how many points the curator may see for each it buys, ≥ 1."
            )
        object.__setattr__(self, "seen", float(self.seen))

    @functools.cached_property
    def target_sum(self) -> NoisySum:
        """The noise of the target's hash: one record is replaced."""
        return NoisySum(self.features.dimension, 1.0, 2, self.epsilon, self.delta)

    @functools.cached_property
    def owner_sum(self) -> NoisySum:
        """The noise of an owner's profile, its count beside its hashes: one record is added or removed."""
        return NoisySum(self.features.dimension + 1, math.sqrt(2), 1, self.epsilon, self.delta)

    @property
    def target_deviation(self) -> float:
        """Of the noise in each number of the target's mean hash."""
        return self.target_sum.deviation / self.target_points

    @property
    def noise_to_signals(self) -> tuple[float]:
        """Of the target's mean hash alone."""
        return (self.noise_to_signal,)

    @property
    def noise_to_signal(self) -> float:
        """Expected length of the noise of the target's mean hash; the hash itself is no longer than 1."""
        return self.target_sum.about * math.sqrt(self.features.dimension) / self.target_points

    def check_signal(self) -> None:
        """Refuse a budget with which owners would herd towards nothing but noise (errata E2-4)."""
        check_signal(self, self.noise_to_signal, self.target_points, "target_points")

    @property
    def event_for_target(self) -> Composition:
        """What happens to the target."""
        return self.target_sum.event

    @property
    def event_for_owners(self) -> Composition:
        """What happens to the records of each owner."""
        return self.owner_sum.event

    @property
    def guarantee_for_target(self) -> Guarantee:
        """What is promised to each record of the target."""
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.RECORD, Adjacency.REPLACE, Trust.CURATOR)

    @property
    def guarantee_for_owners(self) -> Guarantee:
        """What is promised to each record of an owner."""
        return Guarantee(PrivacyLoss(self.epsilon, self.delta), Unit.RECORD, Adjacency.ADD_REMOVE, Trust.CURATOR)

    def target_hash(self, hashes: Floats, randomness: Randomness) -> Floats:
        """The mean hash of the target, with noise."""
        return self.target_sum.of(hashes, randomness) / self.target_points

    def check_owners(self, owners: Sequence[str]) -> None:
        """Refuse owners with whom no purchase can be made."""
        named_once(owners)

    def seller(self, points: Floats, randomness: Randomness) -> Herder:
        """An owner's part."""
        from heathaze.marketplace.herding_parties import Herder

        return Herder(self, points, randomness)

    def curator(
        self,
        owners: Sequence[str],
        wanted: Wanted,
        randomness: Randomness | None = None,  # noqa: ARG002
    ) -> HerdingCurator:
        """The curator's part; it draws nothing."""
        from heathaze.marketplace.herding_parties import HerdingCurator

        return HerdingCurator(self, owners, wanted)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        return {
            "way": "herding",
            "points": self.points,
            "target_points": self.target_points,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "seen": self.seen,
            "features": self.features.to_dict(),
        }
