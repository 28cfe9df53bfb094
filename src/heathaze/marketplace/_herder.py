"""What an owner does in herding: a profile of all its records, then points that herd towards the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heathaze.errors import UnexpectedMessage
from heathaze.marketplace._denoise import denoise
from heathaze.marketplace.greedy import herd
from heathaze.marketplace.messages import Broadcast, Offer, Profile, Quota, ToOwner
from heathaze.privacy.randomness import Randomness
from heathaze.privacy.secret import Secret
from heathaze.types import Floats

if TYPE_CHECKING:
    from heathaze.marketplace.herding import Herding


class Herder(Secret):
    """One owner in one purchase: broadcast, then quota."""

    def __init__(self, plan: Herding, points: Floats, randomness: Randomness) -> None:
        self._plan = plan
        self._points = points
        self._randomness = randomness
        self._target: Broadcast | None = None
        self._profile: Profile | None = None
        self._quota: Quota | None = None
        self._offer: Offer | None = None

    def receive(self, message: ToOwner) -> Profile | Offer:
        """Answer the curator; noise is drawn once, whatever is asked how often."""
        match message:
            case Broadcast():
                return self._introduce(message)
            case Quota():
                return self._sell(message)
            case _:
                raise UnexpectedMessage("The kind of a message", type(message).__name__, "Broadcast or Quota")

    def _introduce(self, target: Broadcast) -> Profile:
        if self._profile is None:
            shape = (self._plan.features.dimension,)
            if target.about != "target" or target.values.shape != shape or not np.isfinite(target.values).all():
                raise UnexpectedMessage("A broadcast", "of something else", "the mean hash of the target")
            self._target = target
            ones = np.ones((len(self._points), 1))
            counted = np.hstack([self._plan.features.of(self._points), ones])
            noisy = self._plan.owner_sum.of(counted, self._randomness)
            self._profile = Profile(noisy[:-1], float(noisy[-1]), self._plan.owner_sum.deviation)
        elif self._target is None or not np.array_equal(target.values, self._target.values):
            raise UnexpectedMessage("A second broadcast", "different", "the same again")
        return self._profile

    def _sell(self, quota: Quota) -> Offer:
        if self._target is None:
            raise UnexpectedMessage("The kind of a message", "Quota", "Broadcast first")
        if not 0 <= quota.points <= self._plan.points:
            raise UnexpectedMessage("A quota", quota.points, f"at most {self._plan.points}, the points to be bought")
        if self._offer is None:
            hashes = self._plan.features.of(self._points)
            aim = denoise(self._target.values, self._target.deviation, hashes)
            rows = herd(hashes, aim, min(quota.points, len(hashes)))
            self._quota, self._offer = quota, Offer(rows, self._points[rows])
        elif quota != self._quota:
            raise UnexpectedMessage("A second quota", "different", "the same again")
        return self._offer
