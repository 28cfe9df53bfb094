"""Herding: each owner offers points that follow a noisy target, and the curator picks from the offers.

    consumer ─ target, noisy mean hash ─► curator ─ noisy mean hash ─► owners
                                          curator ◄─ noisy sum of all hashes, noisy count ─ owner
    quotas, from the mixture of owners that is nearest to the target    curator ─ quota ─► owner
    the exact greedy choice among the offers   curator ◄─ points that herd towards the target ─ owner
    consumer ◄─ the chosen points ─ curator

An owner receives two messages: the noisy mean hash of the target, and a quota that is computed from noisy numbers. No
message tells owners which points were offered or bought, so the curator may choose with exact data.
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
from heathaze.marketplace.protocol import Curator, Deliveries
from heathaze.privacy.door import Receipt
from heathaze.privacy.events import Composition
from heathaze.privacy.loss import Number
from heathaze.privacy.randomness import Secret
from heathaze.types import Floats, Integers


@dataclass(frozen=True, init=False)
class Herding(Plan):
    """The default plan of a purchase: herding, in which owners offer points whose mean follows a noisy target. Public.

    The full ε applies to each record: a record of the target influences only the target's noisy hash, and a record of
    an owner influences only that owner's noisy profile.

    Args:
        features: The public hash of points.
        points: Number of points to buy, from 1 to 10,000,000.
        target_points: Number of points in the target; public.
        epsilon: Privacy loss ε for a record of the target, and also for a record of an owner.
        delta: The δ of the promise, a small probability by which its bound may be exceeded, at most 0.01.
        seen: Number of points that the curator may see for each point bought, at least 1.

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
            raise InvalidInput(
                f"seen is {seen!r}; give the number of points that the curator may see per point bought, at least 1."
            )
        assign(self, seen=float(seen))

    @functools.cached_property
    def target_sum(self) -> NoisySum:
        """Noise for the sum of the target's hashes; neighbouring targets differ in one replaced hash."""
        return NoisySum(self.features.dimension, 1.0, 2, self.epsilon, self.delta)

    @functools.cached_property
    def owner_sum(self) -> NoisySum:
        """Noise for an owner's profile (sum of hashes and count); neighbours differ by one record more or less."""
        return NoisySum(self.features.dimension + 1, math.sqrt(2), 1, self.epsilon, self.delta)

    @property
    def event_for_owners(self) -> Composition:
        """The privacy event that the purchase charges to the ledger of each owner."""
        return self.owner_sum.event

    def parameters(self) -> dict[str, Any]:
        """Public parameters of the herding plan, for reports."""
        return super().parameters() | {"protocol": "herding", "seen": self.seen}


# ── the owner ───────────────────────────────────────────────────────────────────────────────────────────────────────


class HerdingOwner(Secret):
    """An owner in one purchase by herding: answers the broadcast with a profile, and the quota with an offer.

    Args:
        plan: The plan that all parties agreed on.
        points: The owner's points, one per row.
        receipt: The receipt of the owner's payment, with the source of the profile's noise.
    """

    def __init__(self, plan: Herding, points: Floats, receipt: Receipt) -> None:
        self._plan = plan
        self._points = points
        self._receipt = receipt
        self._target: Broadcast | None = None
        self._profile: Profile | None = None
        self._quota: Quota | None = None
        self._offer: Offer | None = None

    def receive(self, message: ToOwner) -> Profile | Offer:
        """Answer a message of the curator; a repeated message gets the same answer, without fresh noise.

        Args:
            message: First the broadcast of the target, then the quota.

        Raises:
            UnexpectedMessage: The message is of another kind, out of turn, or contradicts an earlier message.
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
            noise, paid = self._plan.owner_sum, self._receipt
            noisy = noise.of(counted, paid.randomness)
            self._profile = Profile(noisy[:-1], float(noisy[-1]), noise.deviation, paid.simulated)
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
"""Values of τ that :func:`denoise` tries: the prior variance of the target's mean hash over the variance of hashes."""


def denoise(values: Floats, deviation: float, hashes: Floats) -> Floats:
    """Remove noise from the target's noisy mean hash with an owner's own hashes as prior (a Wiener filter).

    Let m and C be the mean and the covariance of the owner's hashes, g̃ the noisy mean hash, and s the standard
    deviation of its noise. A normal prior N(m, τC) of the target's true mean hash is assumed. The posterior mean is
    m + τC (τC + s²)⁻¹ (g̃ − m), with the value of τ that maximises the likelihood of g̃. Most of the noise lies in
    directions in which the data do not vary, and the filter removes this part.

    The filter uses only the owner's records and public numbers. Its result influences only the owner's offer.

    Args:
        values: The noisy mean hash g̃.
        deviation: Standard deviation s of the noise in each coordinate.
        hashes: Hashes of the owner's records, one per row. With fewer than two, ``values`` is returned as is.

    Returns:
        The mean hash with less noise.
    """
    if len(hashes) < 2:
        return values
    mean = hashes.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov(hashes, rowvar=False))
    variances = np.maximum(variances, 0.0)
    along = axes.T @ (values - mean)
    # The lower limit keeps the logarithm finite if there is no noise.
    noise = max(deviation**2, math.ulp(1.0))
    spread = _SPREADS[:, None] * variances + noise
    likelihood = -(np.log(spread) + along**2 / spread).sum(axis=1)
    signal = _SPREADS[int(np.argmax(likelihood))] * variances
    shrunk: Floats = mean + axes @ (signal / (signal + noise) * along)
    return shrunk


# ── the curator ─────────────────────────────────────────────────────────────────────────────────────────────────────


class HerdingCurator(Curator):
    """The curator of one purchase by herding: collects profiles, sends quotas, collects offers and chooses points.

    Args:
        plan: The plan that all parties agreed on.
        owners: Names of the owners.
        wanted: The consumer's message.
    """

    plan: Herding

    def __init__(self, plan: Herding, owners: Sequence[str], wanted: Wanted) -> None:
        super().__init__(plan, owners, wanted)
        self._profiles: dict[str, Profile] = {}
        self._quotas: dict[str, int] = {}
        self._offers: dict[str, Offer] = {}
        self._ask(Profile, self._owners)

    def begin(self) -> Deliveries:
        """Begin the purchase: return the broadcast of the target, one delivery for each owner."""
        return self._deliver(self._owners, self._wanted.broadcast)

    def _take(self, owner: str, message: FromOwner) -> None:
        if isinstance(message, Profile):
            self._profiles[owner] = profile = message.usable(self.plan.features, self.plan.owner_sum.deviation)
            self._simulated |= profile.simulated
        elif isinstance(message, Offer):
            self._offers[owner] = message.usable(self.plan.features, self._quotas[owner])

    def _next_step(self) -> Deliveries:
        if self.expected is Profile and self._profiles:
            return self._share_out()
        if self.expected is not None:
            self._choose()
        return ()

    def _share_out(self) -> Deliveries:
        """Send a quota to each owner who sent a profile; quotas are computed from public (noisy) numbers only."""
        self._ask(Offer, self._profiles)
        profiles = list(self._profiles.values())
        # An owner without records may have a noisy count of up to two standard deviations. The divisor is at least two
        # standard deviations, so that noise alone does not make the mean hash of such an owner long.
        sizes = np.array([profile.count for profile in profiles])
        means = np.array([profile.values / max(profile.count, 2 * profile.deviation) for profile in profiles])
        parts = mixture(means, self._wanted.broadcast.values)
        shares = quotas(parts, sizes, self.plan.points, self.plan.seen)
        self._quotas = dict(zip(self._profiles, shares.tolist(), strict=True))
        return tuple(Delivery(owner, Quota(share)) for owner, share in self._quotas.items())

    def _choose(self) -> None:
        """Choose points among the offers by the exact kernel and target; no message to owners depends on the choice."""
        offers = {owner: self._offers[owner] for owner in self._owners if owner in self._offers}
        points = np.concatenate([np.empty((0, self.plan.features.columns)), *(one.points for one in offers.values())])
        rows = np.concatenate([np.empty(0, dtype=np.int64), *(one.rows for one in offers.values())])
        whose = [owner for owner, offer in offers.items() for _ in offer.rows]
        chosen = kernel_greedy(points, self._wanted.points, self.plan.features.gamma, self.plan.points)
        sizes = {owner: len(offer.rows) for owner, offer in offers.items()}
        self._finish(tuple(whose[k] for k in chosen), rows[chosen], points[chosen], sizes)


_ONE = 100.0
"""Weight of the least-squares equation "the shares add up to 1" in :func:`mixture`.

With this weight the sum of the shares is off by a few ten-thousandths, and the shares are rescaled afterwards.
"""


def mixture(means: Floats, target: Floats) -> Floats:
    """Find the mixture of owners whose mean hash is nearest to the target's mean hash.

    Args:
        means: The mean hash of each owner, one per row.
        target: The target's mean hash.

    Returns:
        The share of each owner; shares are not negative and add up to 1.
    """
    from scipy.optimize import nnls

    table = np.vstack([means.T, np.full(len(means), _ONE)])
    parts, _ = nnls(table, np.append(target, _ONE))
    total = float(parts.sum())
    return parts / total if total > 0 else np.full(len(means), 1 / len(means))


def quotas(parts: Floats, sizes: Floats, points: int, seen: float) -> Integers:
    """Compute the quota of each owner: the number of points to offer.

    The quotas add up to about ``seen`` × ``points``. Of these, ``points`` plus half of the remainder is divided in
    proportion to ``parts``. The other half of the remainder is divided equally, because a few points of an owner with a
    small share can still improve the match.

    Args:
        parts: The share of each owner, from :func:`mixture`.
        sizes: Noisy number of records of each owner.
        points: Number of points to buy.
        seen: Number of points that the curator may see for each point bought.

    Returns:
        Whole numbers with a sum of at most ``seen`` × ``points``. No quota exceeds ``points`` or the owner's noisy
        number of records (at least 1).
    """
    most = np.minimum(np.maximum(np.rint(sizes), 1.0), points)
    wanted = min(math.floor(seen * points), int(most.sum()))
    evenly = (seen - 1) / 2 * points
    amount = np.minimum((seen * points - evenly) * parts + evenly / len(parts), most)
    # Points that an owner cannot give are added equally to the quotas of the others. Each turn of the loop brings at
    # least one quota to its largest value, so the loop ends.
    while (short := wanted - amount.sum()) > 1e-6 and (room := amount < most).any():
        amount = np.minimum(amount + np.where(room, short / room.sum(), 0.0), most)
    share = np.floor(amount + 1e-6).astype(np.int64)
    # Points lost by rounding down go to the largest remainders; among equal remainders, to the first owner.
    order = np.argsort(share - np.where(share < most, amount, -np.inf), kind="stable")
    share[order[: max(0, wanted - int(share.sum()))]] += 1
    return share
