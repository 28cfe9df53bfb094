"""The curator's half of herding.

    PROFILE   Profile  ◄── owners       the mixture of owners that meets the noisy target    ──► Quota
    OFFER     Offer    ◄── those        the exact greedy choice among all that was offered     =  Purchase

A step ends when all who were asked have answered, or when :meth:`HerdingCurator.close_step` says that time is up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from heathaze.errors import UnexpectedMessage
from heathaze.marketplace.greedy import herd, kernel_greedy
from heathaze.marketplace.messages import Broadcast, FromOwner, Offer, Profile, Purchase, Quota, ToOwner, Wanted
from heathaze.marketplace.protocol import Parcel, Unusable, check_turn, check_wanted, usable_offer, usable_profile
from heathaze.privacy.randomness import Randomness
from heathaze.privacy.secret import Secret
from heathaze.types import Floats, Integers

if TYPE_CHECKING:
    from heathaze.marketplace.herding import Herding


# TODO-merged from marketplace._denoise: A noisy mean hash, as an owner sees it who knows in which directions data of its kind vary.

_SPREADS = np.exp(np.linspace(-12.0, 8.0, 81))
"""How far a target's mean may lie from an owner's, in units of the owner's own variance; the likeliest is taken."""


def denoise(values: Floats, deviation: float, hashes: Floats) -> Floats:
    """The mean hash that is likeliest to lie behind a noisy one (a Wiener filter).

    Means of records like the owner's differ from the owner's mean m along its own covariance C. With the difference
    N(0, τC) and the noise N(0, s²) the posterior mean is m + τC (τC + s²)⁻¹ (g̃ − m), and τ is what makes g̃ likeliest.
    White noise has most of its length in directions in which no data vary, and there it goes.

    Only the owner's own records and what is public enter, and the result leaves only as the owner's offer.
    """
    if len(hashes) < 2:
        return values
    mean = hashes.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov(hashes, rowvar=False))
    variances = np.maximum(variances, 0.0)
    along = axes.T @ (values - mean)
    # Without noise there is nothing to take off; the floor keeps the logarithm finite.
    noise = max(deviation**2, math.ulp(1.0))
    spread = _SPREADS[:, None] * variances + noise
    likelihood = -(np.log(spread) + along**2 / spread).sum(axis=1)
    signal = _SPREADS[int(np.argmax(likelihood))] * variances
    shrunk: Floats = mean + axes @ (signal / (signal + noise) * along)
    return shrunk


# TODO-merged from marketplace._quotas: How many points to ask of each owner: post-processing of what is public.

_ONE = 100.0
"""Weight of "the parts add up to 1" beside a mean hash of length 1: exact to a few in ten thousand, then scaled."""


def mixture(means: Floats, target: Floats) -> Floats:
    """Parts of the owners, none negative and 1 in all, whose mean hashes mixed come nearest to the target's."""
    from scipy.optimize import nnls

    table = np.vstack([means.T, np.full(len(means), _ONE)])
    parts, _ = nnls(table, np.append(target, _ONE))
    total = float(parts.sum())
    return parts / total if total > 0 else np.full(len(means), 1 / len(means))


def quotas(parts: Floats, sizes: Floats, points: int, seen: float) -> Integers:
    """Whole numbers of at most ``seen`` times ``points`` in all, none above ``points`` or what an owner may hold.

    One set of points goes by parts, and so does half of the rest; the other half is spread evenly, since even the best
    mixture of whole owners lacks something that few points of another would mend.

    Args:
        parts: What :func:`mixture` found.
        sizes: About how many records each owner has.
        points: To be bought.
        seen: Points that the curator may see for each point it buys.
    """
    most = np.minimum(np.maximum(np.rint(sizes), 1.0), points)
    wanted = min(math.floor(seen * points), int(most.sum()))
    evenly = (seen - 1) / 2 * points
    amount = np.minimum((seen * points - evenly) * parts + evenly / len(parts), most)
    # What one owner cannot give is asked of the others, evenly; each turn fills at least one of them.
    while (short := wanted - amount.sum()) > 1e-6 and (room := amount < most).any():
        amount = np.minimum(amount + np.where(room, short / room.sum(), 0.0), most)
    share = np.floor(amount + 1e-6).astype(np.int64)
    # The largest remainders get what rounding down left over; of equals, the first.
    left = np.argsort(share - np.where(share < most, amount, -np.inf), kind="stable")[
        : max(0, wanted - int(share.sum()))
    ]
    share[left] += 1
    return share


# TODO-merged from marketplace._herder: What an owner does in herding: a profile of all its records, then points that herd towards the target.


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
