"""How likely a random neighbour graph fails: exact tails, from whole numbers alone.

Clients sit on a circle in random order and everyone's neighbours are the k/2 before and the k/2 after, or everyone else
if k = n − 1. Who is corrupt and who drops out does not depend on that order. The three events and why these formulas
bound them are on the page ``secagg.md``.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Odds:
    """Upper bounds on the probability that some client's neighbourhood fails.

    Attributes:
        captured: Some client has at least ``shares_needed`` corrupt neighbours, who together know its secrets.
        disconnected: The honest survivors fall apart, so that the server learns sums over parts of them.
        torn: Some client has so many corrupt neighbours that a server which lies about the survivors gets both kinds
            of its shares. No part of the promise, which is against a server that follows the protocol.
        unrecoverable: Some client has too few surviving neighbours, so that there is no sum.
    """

    captured: float
    disconnected: float
    torn: float
    unrecoverable: float

    @property
    def breach(self) -> float:
        """Bound on the probability that more than the sum is learned."""
        return min(1.0, self.captured + self.disconnected)


def at_least(marked: int, others: int, drawn: int, wanted: int) -> float:
    """Pr[X ≥ wanted], where X counts the marked among ``drawn`` of ``marked + others``, drawn without replacement.

        Pr[X = x] = C(marked, x) · C(others, drawn − x) / C(marked + others, drawn)

    Exact in integers; the last division rounds up.

    >>> at_least(marked=1, others=1, drawn=1, wanted=1)
    0.5000000000000001
    """
    tails = _tails(marked, others, drawn)
    return tails[max(wanted, 0)] if wanted < len(tails) else 0.0


@functools.lru_cache(maxsize=16)
def _tails(marked: int, others: int, drawn: int) -> tuple[float, ...]:
    """Pr[X ≥ x] for x from 0 to the largest that can be, all in one go: a plan asks for many of them."""
    first, last = max(drawn - others, 0), min(marked, drawn)
    terms = [math.comb(marked, first) * math.comb(others, drawn - first)]
    for x in range(first, last):
        # Pr[x + 1] / Pr[x]; the product of binomials is whole, so is the quotient.
        terms.append(terms[-1] * (marked - x) * (drawn - x) // ((x + 1) * (others - drawn + x + 1)))
    sums = itertools.accumulate(reversed(terms))
    whole = math.comb(marked + others, drawn)
    return (1.0,) * first + tuple(_up(total, whole) for total in sums)[::-1]


def captured(clients: int, present: int, degree: int, corrupt: int, wanted: int) -> float:
    """Bound on Pr[some client has at least ``wanted`` corrupt neighbours]: n times the tail for one.

    Only ``present`` of the clients may have turned up, all the corrupt ones among them.
    """
    draws = min(degree, present - 1)
    others = present - 1 - corrupt
    if others < 0:
        return 1.0
    return min(1.0, clients * at_least(corrupt, others, draws, wanted))


def unrecoverable(clients: int, degree: int, dropped: int, needed: int) -> float:
    """Bound on Pr[some survivor has fewer than ``needed`` surviving neighbours]: n times the tail for one."""
    others = clients - 1 - dropped
    if others < 0:
        return 1.0
    return min(1.0, clients * at_least(dropped, others, degree, degree - needed + 1))


def disconnected(clients: int, degree: int, removed: int) -> float:
    """Bound on Pr[those left on the circle are not connected] when ``removed`` clients are taken out at random.

        n (n − k + 1)/2 · removed (removed − 1) … (removed − k + 1) / (n (n − 1) … (n − k + 1))

    The circle falls apart only where two disjoint runs of k/2 neighbouring seats are both empty; there are at most
    n (n − k + 1)/2 such pairs of runs, and the fraction is the chance that k given seats are empty.

    >>> disconnected(clients=10, degree=4, removed=3)
    0.0
    """
    if degree >= clients - 1 or removed < degree:
        return 0.0
    pairs = clients * (clients - degree + 1)
    return min(1.0, _up(pairs * math.perm(removed, degree), 2 * math.perm(clients, degree)))


def _up(numerator: int, denominator: int) -> float:
    """The fraction as a float that is not smaller."""
    if numerator in (0, denominator):
        return numerator / denominator
    return math.nextafter(numerator / denominator, math.inf)
