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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.checks import assign
from heathaze.errors import InvalidInput, UnexpectedMessage
from heathaze.marketplace.baselines import herd, kernel_greedy
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Broadcast, Delivery, FromOwner, Offer, Profile, Quota, ToOwner, Wanted
from heathaze.marketplace.noisy_sum import NoisySum
from heathaze.marketplace.plan import Plan
from heathaze.marketplace.protocol import Curator, usable_offer, usable_profile
from heathaze.privacy.events import Composition
from heathaze.privacy.loss import Number
from heathaze.privacy.randomness import Randomness, Secret
from heathaze.types import Floats, Integers


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


# ── the owner ───────────────────────────────────────────────────────────────────────────────────────────────────────


class HerdingOwner(Secret):
    """One owner in one purchase: it answers a broadcast with a profile, and a quota with an offer.

    Args:
        plan: What everyone agreed on.
        points: The owner's points, a row each.
        randomness: Where the noise of the profile comes from, out of the receipt of the payment.
    """

    def __init__(self, plan: Herding, points: Floats, randomness: Randomness) -> None:
        self._plan = plan
        self._points = points
        self._randomness = randomness
        self._target: Broadcast | None = None
        self._profile: Profile | None = None
        self._quota: Quota | None = None
        self._offer: Offer | None = None

    def receive(self, message: ToOwner) -> Profile | Offer:
        """Answer the curator; noise is drawn once, however often a message comes.

        Args:
            message: A broadcast of the target, then a quota.

        Raises:
            UnexpectedMessage: It is another message, out of turn, or contradicts an earlier one.
        """
        match message:
            case Broadcast():
                return self._describe(message)
            case Quota():
                return self._choose(message)
            case _:
                raise UnexpectedMessage("The kind of a message", type(message).__name__, "Broadcast or Quota")

    def _describe(self, target: Broadcast) -> Profile:
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

    def _choose(self, quota: Quota) -> Offer:
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


_SPREADS = np.exp(np.linspace(-12.0, 8.0, 81))
"""Values of τ that :func:`denoise` tries: how far a target's mean may lie from an owner's, in the owner's variance."""


def denoise(values: Floats, deviation: float, hashes: Floats) -> Floats:
    """The mean hash that is most likely behind a noisy one, for an owner with these hashes (a Wiener filter).

    Means of records like the owner's differ from the owner's mean m along its covariance C. With the difference
    N(0, τC) and the noise N(0, s²) the posterior mean is m + τC (τC + s²)⁻¹ (g̃ − m), where τ makes g̃ most likely. White
    noise has most of its length in directions in which no data vary, and there the filter removes it.

    Only the owner's records and public numbers enter, and the result leaves only as the owner's offer.

    Args:
        values: The noisy mean hash g̃.
        deviation: Standard deviation s of the noise in each number.
        hashes: Hashes of the owner's records, a row each; with fewer than two nothing is changed.

    Returns:
        The mean hash with less noise.
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


# ── the curator ─────────────────────────────────────────────────────────────────────────────────────────────────────


class HerdingCurator(Curator):
    """One purchase by herding: profiles come in and quotas go out, then offers come in and the purchase is made.

    Args:
        plan: What everyone agreed on.
        owners: Names of the owners.
        wanted: What the consumer sent.
    """

    plan: Herding

    def __init__(self, plan: Herding, owners: Sequence[str], wanted: Wanted) -> None:
        super().__init__(plan, owners, wanted)
        self._profiles: dict[str, Profile] = {}
        self._quotas: dict[str, int] = {}
        self._offers: dict[str, Offer] = {}
        self._ask(Profile, self._owners)

    def begin(self) -> tuple[Delivery, ...]:
        """The broadcast of the target, for every owner."""
        return tuple(Delivery(owner, self._wanted.broadcast) for owner in self._owners)

    def _take(self, owner: str, message: FromOwner) -> None:
        if isinstance(message, Profile):
            deviation = self.plan.owner_sum.deviation
            self._profiles[owner] = usable_profile(message, self.plan.features, deviation)
        elif isinstance(message, Offer):
            self._offers[owner] = usable_offer(message, self.plan.features, self._quotas[owner])

    def _next_step(self) -> tuple[Delivery, ...]:
        if self.expected is Profile and self._profiles:
            return self._share_out()
        if self.expected is not None:
            self._choose()
        return ()

    def _share_out(self) -> tuple[Delivery, ...]:
        """A quota for everyone who sent a profile. All numbers used here are public."""
        self._ask(Offer, self._profiles)
        profiles = list(self._profiles.values())
        # A count that the noise could have made stands for very few records; its mean hash would be noise.
        sizes = np.array([profile.count for profile in profiles])
        means = np.array([profile.values / max(profile.count, 2 * profile.deviation) for profile in profiles])
        parts = mixture(means, self._wanted.broadcast.values)
        shares = quotas(parts, sizes, self.plan.points, self.plan.seen)
        self._quotas = dict(zip(self._profiles, shares.tolist(), strict=True))
        return tuple(Delivery(owner, Quota(share)) for owner, share in self._quotas.items())

    def _choose(self) -> None:
        """The exact greedy choice, with the exact target: none of this goes back to an owner."""
        offers = {owner: self._offers[owner] for owner in self._owners if owner in self._offers}
        points = np.concatenate([np.empty((0, self.plan.features.columns)), *(one.points for one in offers.values())])
        rows = np.concatenate([np.empty(0, dtype=np.int64), *(one.rows for one in offers.values())])
        whose = [owner for owner, offer in offers.items() for _ in offer.rows]
        chosen = kernel_greedy(points, self._wanted.points, self.plan.features.gamma, self.plan.points)
        sizes = {owner: len(offer.rows) for owner, offer in offers.items()}
        self._finish(tuple(whose[k] for k in chosen), rows[chosen], points[chosen], sizes)


_ONE = 100.0
"""Weight of "the parts add up to 1" beside a mean hash of length 1: exact to a few in ten thousand, then scaled."""


def mixture(means: Floats, target: Floats) -> Floats:
    """The mixture of owners whose mean hash comes nearest to the target's.

    Args:
        means: The mean hash of each owner, a row each.
        target: The target's mean hash.

    Returns:
        The part of each owner: none negative, and 1 in all.
    """
    from scipy.optimize import nnls

    table = np.vstack([means.T, np.full(len(means), _ONE)])
    parts, _ = nnls(table, np.append(target, _ONE))
    total = float(parts.sum())
    return parts / total if total > 0 else np.full(len(means), 1 / len(means))


def quotas(parts: Floats, sizes: Floats, points: int, seen: float) -> Integers:
    """How many points to ask of each owner.

    ``points`` points are shared out by parts, and so is half of the rest; the other half is spread evenly, because even
    the best mixture of whole owners lacks something that a few points of another owner would mend.

    Args:
        parts: What :func:`mixture` found.
        sizes: About how many records each owner has.
        points: How many points are to be bought.
        seen: How many points the curator may see for each point it buys.

    Returns:
        Whole numbers of at most ``seen`` times ``points`` in all, none above ``points`` or what an owner may hold.
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
    order = np.argsort(share - np.where(share < most, amount, -np.inf), kind="stable")
    share[order[: max(0, wanted - int(share.sum()))]] += 1
    return share
