"""What comes from others, made usable or refused: nothing that an owner or a consumer says may end a purchase."""

from __future__ import annotations

import math

import numpy as np

from heathaze.errors import InvalidInput, expect
from heathaze.marketplace.features import Features
from heathaze.marketplace.messages import Broadcast, Offer, Profile, Wanted
from heathaze.marketplace.protocol import Way, fingerprint
from heathaze.types import Floats

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
