"""The curator's half of herding.

    PROFILE   Profile  ◄── owners       the mixture of owners that meets the noisy target    ──► Quota
    OFFER     Offer    ◄── those        the exact greedy choice among all that was offered     =  Purchase

A step ends when all who were asked have answered, or when :meth:`HerdingCurator.close_step` says that time is up.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from heathaze.marketplace._answers import Unusable, check_wanted, usable_offer, usable_profile
from heathaze.marketplace._quotas import mixture, quotas
from heathaze.marketplace._turns import check_turn
from heathaze.marketplace.greedy import kernel_greedy
from heathaze.marketplace.messages import FromOwner, Offer, Profile, Purchase, Quota, Wanted
from heathaze.marketplace.protocol import Parcel
from heathaze.privacy.secret import Secret

if TYPE_CHECKING:
    from heathaze.marketplace.herding import Herding


class Step(IntEnum):
    """What owners are asked for."""

    PROFILE = 0
    OFFER = 1


_KIND: dict[Step, type[FromOwner]] = {Step.PROFILE: Profile, Step.OFFER: Offer}


class HerdingCurator(Secret):
    """One purchase.

    Args:
        plan: What everyone agreed on.
        owners: Their names.
        wanted: What the consumer told.
    """

    def __init__(self, plan: Herding, owners: Sequence[str], wanted: Wanted) -> None:
        plan.check_owners(owners)
        names = tuple(owners)
        self.plan = plan
        self.step: Step | None = Step.PROFILE
        self._owners = names
        self._wanted = check_wanted(plan, wanted)
        self._waiting = set(names)
        self._profiles: dict[str, Profile] = {}
        self._quotas: dict[str, int] = {}
        self._offers: dict[str, Offer] = {}
        self._notes: list[str] = []
        self._purchase: Purchase | None = None

    @property
    def waiting(self) -> frozenset[str]:
        """Owners who have not answered in this step."""
        return frozenset(self._waiting)

    @property
    def purchase(self) -> Purchase | None:
        """What was bought, once it is."""
        return self._purchase

    def begin(self) -> tuple[Parcel, ...]:
        """Tell every owner about the target."""
        return tuple(Parcel(owner, self._wanted.broadcast) for owner in self._owners)

    def receive(self, owner: str, message: FromOwner) -> tuple[Parcel, ...]:
        """Take one message of an owner; the last one of a step closes it.

        An answer that cannot be used sets its owner aside, with a note; the purchase goes on without it.

        Raises:
            UnexpectedMessage: It comes from a stranger, a second time or out of turn; nothing changes.
        """
        check_turn(owner, message, None if self.step is None else _KIND[self.step], self._owners, self._waiting)
        try:
            self._take(owner, message)
        except Unusable as why:
            self._notes.append(f"{owner} is left out: {why}.")
        self._waiting.discard(owner)
        return () if self._waiting else self.close_step()

    def close_step(self) -> tuple[Parcel, ...]:
        """Time is up: go on with those who answered."""
        self._notes += [f"{owner} is left out: it did not answer." for owner in self._owners if owner in self._waiting]
        match self.step:
            case Step.PROFILE:
                return self._share_out()
            case Step.OFFER:
                self._choose()
        return ()

    def _take(self, owner: str, message: FromOwner) -> None:
        """Keep an answer that can be used."""
        if isinstance(message, Profile):
            deviation = self.plan.owner_sum.deviation
            self._profiles[owner] = usable_profile(message, self.plan.features, deviation)
        elif isinstance(message, Offer):
            self._offers[owner] = usable_offer(message, self.plan.features, self._quotas[owner])

    def _share_out(self) -> tuple[Parcel, ...]:
        """Everyone who told its profile is told how many points to offer. All numbers used here are public."""
        self._ask(Step.OFFER, set(self._profiles))
        if not self._profiles:
            self._choose()
            return ()
        told = list(self._profiles.values())
        # A count that the noise could have made stands for very few records; its mean hash would be noise.
        sizes = np.array([profile.count for profile in told])
        means = np.array([profile.values / max(profile.count, 2 * profile.deviation) for profile in told])
        parts = mixture(means, self._wanted.broadcast.values)
        shares = quotas(parts, sizes, self.plan.points, self.plan.seen)
        self._quotas = dict(zip(self._profiles, shares.tolist(), strict=True))
        return tuple(Parcel(owner, Quota(share)) for owner, share in self._quotas.items())

    def _ask(self, step: Step, whom: set[str]) -> None:
        self.step, self._waiting = step, whom

    def _choose(self) -> None:
        """The exact greedy choice, with the exact target: none of this goes back to an owner."""
        self.step, self._waiting = None, set()
        sold = [owner for owner in self._owners if owner in self._offers]
        sizes = {owner: len(self._offers[owner].rows) for owner in sold}
        points = np.concatenate([np.empty((0, self.plan.features.columns)), *(self._offers[o].points for o in sold)])
        rows = np.concatenate([np.empty(0, dtype=np.int64), *(self._offers[o].rows for o in sold)])
        whose = [owner for owner in sold for _ in range(sizes[owner])]
        count = min(self.plan.points, len(points))
        if count < self.plan.points:
            self._notes.append(f"Only {count} of {self.plan.points} points could be bought: no more were offered.")
        chosen = kernel_greedy(points, self._wanted.points, self.plan.features.gamma, count)
        self._purchase = Purchase(
            tuple(whose[k] for k in chosen), rows[chosen], points[chosen], sizes, tuple(self._notes)
        )
