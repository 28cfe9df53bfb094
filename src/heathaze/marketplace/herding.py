"""Herding: each owner offers points that follow a noisy target, and the curator picks from the offers.

    consumer ─ target, noisy mean hash ─► curator ─ noisy mean hash ─► owners
                                          curator ◄─ noisy sum of all hashes, noisy count ─ owner
    mixture of owners that meets the target: so many points from each       ─ quota ─► owner
    the exact greedy choice among the offers   curator ◄─ points that herd towards the target ─ owner
    consumer ◄─ the chosen points ─ curator

Owners are sent two things: the target's noisy mean hash, and a quota that follows from noisy numbers. Nothing about
what was offered or bought goes back to them, so the curator may choose with everything it knows.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.checks import assign
from heathaze.errors import InvalidInput
from heathaze.marketplace.features import Features
from heathaze.marketplace.noisy_sum import NoisySum
from heathaze.marketplace.plan import Plan
from heathaze.privacy.events import Composition
from heathaze.privacy.loss import Number


@dataclass(frozen=True, init=False)
class Herding(Plan):
    """The default plan: what everyone agrees on before a purchase by herding. Public.

    Consumer and owners hold different records, so each side gets the whole ε: a record of the target is in the target's
    hash and nowhere else, a record of an owner is in that owner's profile and nowhere else.

    Args:
        features: How points are hashed.
        points: How many points to buy, from 1 to 10,000,000.
        target_points: How many points the target has; public.
        epsilon: Privacy loss of a record of the target, and of a record of an owner.
        delta: Probability with which the promise may fail, at most 0.01.
        seen: How many points the curator may see for each point it buys, at least 1.

    Raises:
        InvalidInput: A number is out of range.

    >>> plan = Herding(Features(columns=4, gamma=0.5), points=100, target_points=250, epsilon=2)
    >>> round(plan.noise_to_signal, 2)
    0.21
    """

    seen: float

    def __init__(
        self,
        features: Features,
        points: int,
        target_points: int,
        epsilon: Number,
        delta: Number = Fraction(1, 10**6),
        seen: float = 2.0,
    ) -> None:
        super().__init__(features, points, target_points, epsilon, delta)
        if isinstance(seen, bool) or not isinstance(seen, int | float) or not 1 <= seen < math.inf:
            raise InvalidInput(f"seen is {seen!r}; give how many points the curator may see for each it buys, ≥ 1.")
        assign(self, seen=float(seen))

    @functools.cached_property
    def target_sum(self) -> NoisySum:
        """The noise of the sum of the target's hashes, of which one is replaced."""
        return NoisySum(self.features.dimension, 1.0, 2, self.epsilon, self.delta)

    @functools.cached_property
    def owner_sum(self) -> NoisySum:
        """The noise of an owner's profile, the count and the sum of hashes: one record is added or removed."""
        return NoisySum(self.features.dimension + 1, math.sqrt(2), 1, self.epsilon, self.delta)

    @property
    def noise_to_signals(self) -> tuple[float]:
        """Expected length of the noise of the target's mean hash; the hash itself is at most 1 long."""
        root = math.sqrt(self.features.dimension)
        return (self.target_sum.approximate_deviation * root / self.target_points,)

    def check_signal(self) -> None:
        """Refuse a plan in which owners would herd towards nothing but noise (errata E2-4).

        Raises:
            InvalidInput: The noise is longer than a mean hash can be; the sentence says which change would be enough.
        """
        self._check_ratio(self.noise_to_signal, self.target_points, "target_points")

    @property
    def event_for_owners(self) -> Composition:
        """What happens to the records of each owner."""
        return self.owner_sum.event

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for reports."""
        return super().parameters() | {"protocol": "herding", "seen": self.seen}
