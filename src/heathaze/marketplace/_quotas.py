"""How many points to ask of each owner: post-processing of what is public."""

from __future__ import annotations

import math

import numpy as np

from heathaze.types import Floats, Integers

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
