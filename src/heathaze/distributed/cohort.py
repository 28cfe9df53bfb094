"""Cohort of a survey: how many people are asked, in how many shards, and how many may drop out or collude."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import Number, PrivacyLoss, exact
from heathaze.privacy.noise_shares import share_shape

FAILURE_PROBABILITY = Fraction(1, 2**40)
"""Bound on the probability that, in one round, some shard holds more colluders than are planned for."""

LARGEST_PLANNED = 100_000
"""The largest shard that is planned if the number of shards is left out.

Every device receives one bit for each person of its shard, which says who survived. In larger shards these bits are
more than the keys and shares of a round, which take 14 kB whatever the size of the shard.
"""

_UNIT = 2**128
"""The integer that stands for a weight of 1 in :func:`most_in_a_shard`, which computes in fixed-point numbers."""

_LARGEST = 2**20
"""For shards of more people, Hoeffding's inequality replaces the exact sum. No secure sum takes such a shard."""


@dataclass(frozen=True, init=False)
class Cohort:
    """The people who are asked one question: disjoint shards of equal size, each summed separately.

    The *threshold* of a shard is t = shard − ⌈dropout · shard⌉, where shard is its number of people. If fewer than t
    people deliver their vectors, the shard is given up and its sum is not opened: clients reveal nothing about a
    smaller set of survivors.

    The number of *colluders* of a shard is at most c. In all, K = ⌈colluding · people⌉ people may collude, and with one
    shard c = K. Several shards are drawn at
    random from one list, so a shard may hold more colluders than its even part K/shards. The number X of colluders
    in one shard is hypergeometric, and c is the smallest number with shards · Pr[X > c] ≤ 2^−40: the union bound over
    all shards of a round (:func:`most_in_a_shard`).

    | people | colluders K | shards | people of a shard | even part K/shards | c |
    |---|---|---|---|---|---|
    | 10,000 | 500 | 1 | 10,000 | 500 | 500 |
    | 10,000 | 500 | 2 | 5,000 | 250 | 327 |
    | 10,000 | 500 | 10 | 1,000 | 50 | 104 |
    | 100,000 | 5,000 | 10 | 10,000 | 500 | 658 |
    | 1,000,000 | 50,000 | 100 | 10,000 | 500 | 674 |

    The *shape* of one device's share of the noise is 1/(t − c), so the shares of the remaining honest people add up to
    shape 1 or more, which is discrete Laplace noise or more (errata E3-2, E3-5). If nobody drops out or colludes, the
    noise of a shard has shape shard/(t − c), which is more than needed. With the defaults the shape is 1.18 for one
    shard, so the standard deviation is 8 % larger than with a curator. The shape is 1.20 for ten shards of 10,000
    people, and 1.26 for ten shards of 1,000.

    The server draws the shards and is trusted to draw them at random. The proof assumes that the draw does
    not depend on who colludes.

    Args:
        people: Number of people who are asked: a multiple of ``shards``, and at least 3 for each shard.
        shards: Number of shards. Each shard has its own sum with its own noise, so fewer shards are more accurate. If
            left out, :func:`planned_shards` chooses it.
        dropout: Share of a shard that may drop out, from 0 to below 1/2.
        colluding: Share of all people asked that may tell the server all they know, from 0 to below 1.

    Raises:
        InvalidInput: The people do not divide into equal shards, the threshold is half a shard or less, or fewer than
            two honest people remain.

    >>> cohort = Cohort(people=10_000, dropout=0.05, colluding=0.25)
    >>> cohort.threshold, cohort.colluders, float(cohort.shape * cohort.shard)
    (9500, 2500, 1.4285714285714286)
    >>> [Cohort(10_000, shards).colluders for shards in (1, 2, 10)]
    [500, 327, 104]
    """

    people: int
    shards: int = 1
    dropout: Fraction = Fraction(1, 10)
    colluding: Fraction = Fraction(1, 20)

    def __init__(
        self,
        people: int,
        shards: int | None = None,
        dropout: Number = Fraction(1, 10),
        colluding: Number = Fraction(1, 20),
    ) -> None:
        assign(self, people=whole(people, "people"))
        assign(self, shards=planned_shards(self.people) if shards is None else whole(shards, "shards"))
        if self.people < 3 * self.shards:
            raise InvalidInput(
                f"{self.people} people in {self.shards} shards leave fewer than 3 in a shard, and a sum over fewer "
                f"than 3 hides no one. Ask at least {3 * self.shards} people, or use fewer shards."
            )
        if self.people % self.shards:
            raise _unequal(self.people, self.shards)
        assign(self, dropout=_share("dropout", dropout), colluding=_share("colluding", colluding))
        if 2 * self.threshold <= self.shard:
            raise InvalidInput(
                f"A shard of {self.shard} would be opened with {self.threshold} people; more than half must be left, "
                "so give a smaller dropout."
            )
        if self.threshold - self.colluders < 2:
            raise InvalidInput(
                f"Of the {self.threshold} people a shard is opened with, {self.colluders} may collude; at least 2 "
                "honest ones must be left; give a smaller share colluding."
            )

    @property
    def shard(self) -> int:
        """People in each shard."""
        return self.people // self.shards

    @property
    def threshold(self) -> int:
        """The smallest number of people of a shard with which its sum is opened."""
        return self.shard - math.ceil(self.shard * self.dropout)

    @property
    def corrupt(self) -> int:
        """The largest number of people of the whole cohort who may collude with the server."""
        return math.ceil(self.people * self.colluding)

    @property
    def colluders(self) -> int:
        """The largest number of people of one shard who may collude with the server."""
        return most_in_a_shard(self.people, self.corrupt, self.shards)

    @property
    def failure_probability(self) -> Fraction:
        """Bound on the probability that, in one round, some shard holds more than :attr:`colluders`.

        This probability does not depend on any person's data, and it is not part of δ. A reader who prefers a single
        statement may read the guarantee as (ε, δ)-differential privacy with this probability as δ.
        """
        return FAILURE_PROBABILITY if self.colluders < min(self.corrupt, self.shard) else Fraction(0)

    @property
    def shape(self) -> Fraction:
        """Shape of one device's share of the noise: 1 / (threshold − colluders)."""
        return share_shape(self.threshold, self.colluders)

    def guarantee(self, loss: PrivacyLoss, rounds: int = 1) -> Guarantee:
        """The guarantee for the people of this cohort who answer.

        Args:
            loss: The privacy loss of all answers of one person.
            rounds: Number of rounds. Shards are drawn anew in every round, and the failure probabilities add up.
        """
        trust = (Adjacency.ZERO_OUT, Trust.SECURE_SUM, self.colluders)
        return Guarantee(loss, Unit.PERSON, *trust, failure_probability=rounds * self.failure_probability)

    def to_dict(self) -> dict[str, Any]:
        """The cohort as plain numbers and texts, for questions and releases."""
        return {
            "people": self.people,
            "shards": self.shards,
            "dropout": str(self.dropout),
            "colluding": str(self.colluding),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Cohort:
        """Read what :meth:`to_dict` wrote.

        Args:
            fields: The dictionary that :meth:`to_dict` returned.

        Returns:
            The cohort.
        """
        return cls(fields["people"], fields["shards"], rational(fields["dropout"]), rational(fields["colluding"]))


def planned_shards(people: int) -> int:
    """Plan the number of shards of a cohort from its size: the fewest shards of at most 100,000 people.

    The noise of the sum of all shards grows with the square root of their number. Fewer shards therefore always have
    less noise, but cost more communication. A device sends and receives keys and shares for each neighbour, and the
    number of neighbours hardly grows with the shard (42 in a shard of 10,000 people and 46 in one of 100,000, for 10 %
    dropout and 5 % colluders). But a device also receives one bit for each person of its shard.

    Args:
        people: Number of people who are asked.

    Returns:
        The smallest number of equal shards of at most 100,000 people. It is less than twice the number that would be
        needed if shards could be unequal.

    Raises:
        InvalidInput: The people do not divide into equal shards of a suitable size.

    >>> [planned_shards(people) for people in (500, 100_000, 250_000, 1_000_000)]
    [1, 1, 4, 10]
    """
    fewest = -(-people // LARGEST_PLANNED)
    for shards in range(fewest, fewest + min(fewest, 1000)):
        if people % shards == 0:
            return shards
    raise _unequal(people, fewest)


def _unequal(people: int, shards: int) -> InvalidInput:
    return InvalidInput(
        f"{people} people do not divide into {shards} equal shards; a smaller shard would have too little noise. Ask "
        f"{people - people % shards} or {people + shards - people % shards} people."
    )


def rational(text: Any) -> Fraction:
    """Read a rational number from a question: ``n`` or ``n/m``, each of at most 20 digits.

    The text comes from a server. ``Fraction`` would also accept 1e999999999 and compute for years.

    Raises:
        InvalidInput: The text does not have this form.
    """
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,20}(/[0-9]{1,20})?", text):
        raise InvalidInput(f"A rational is written as {str(text)[:20]!r}; expected digits, as 1 or 1/10.")
    return Fraction(text)


def _share(name: str, value: Number) -> Fraction:
    try:
        share = exact(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share < 1:
        raise InvalidInput(f"{name} is {value!r}; give a share of the people, from 0 to below 1, as 0.1.")
    return share


# ── colluders of one shard ──────────────────────────────────────────────────────────────────────────────────────────


@functools.lru_cache(maxsize=64)
def most_in_a_shard(people: int, corrupt: int, shards: int) -> int:
    """The largest number c of colluders to plan for in one shard: the smallest c with shards · Pr[X > c] ≤ 2^−40.

        Pr[X = x] = C(corrupt, x) · C(people − corrupt, shard − x) / C(people, shard),   shard = people / shards

    X is the number of colluders in one shard. It is hypergeometric, because the people of a shard are drawn without
    replacement. Shards depend on each other, but the union bound holds nevertheless. The tail is a sum of integers that
    are rounded up, and it is compared with a total that is rounded down, so c is never too small. Above 2^20 people in
    a shard, Hoeffding's inequality replaces the exact tail.

    Args:
        people: How many people are asked.
        corrupt: How many of these people collude.
        shards: Into how many shards the people are divided.

    >>> most_in_a_shard(people=10_000, corrupt=500, shards=10), most_in_a_shard(10_000, 500, 2)
    (104, 327)
    """
    shard = people // shards
    first, last = max(0, shard - (people - corrupt)), min(corrupt, shard)
    if shards == 1 or first == last:
        return last
    if shard > _LARGEST:
        return min(last, _hoeffding(people, corrupt, shards))
    # Weights are relative to the weight of the mode, which is the largest.
    mode = (shard + 1) * (corrupt + 1) // (people + 2)
    above = [_UNIT]
    for x in range(mode, last):
        # The ratio of the probabilities of x + 1 and x:
        numerator, denominator = (corrupt - x) * (shard - x), (x + 1) * (people - corrupt - shard + x + 1)
        above.append(-(-above[-1] * numerator // denominator))
        if above[-1] == 1:
            # Because of rounding up, all further weights are 1.
            above += [last - x - 1]
            break
    total = _total_weight(people, corrupt, shard, mode)
    tails = list(itertools.accumulate(reversed(above)))[::-1]
    # tails[k] ≥ Pr[X ≥ mode + k], in units of `total`
    for k in range(1, len(tails)):
        if shards * tails[k] * FAILURE_PROBABILITY.denominator <= total:
            return min(last, mode + k - 1)
    return last


def _total_weight(people: int, corrupt: int, shard: int, mode: int) -> int:
    """The sum of the weights of all possible numbers of colluders, relative to the mode's weight, rounded down."""
    total = weight = _UNIT
    for x in itertools.count(mode):
        weight = weight * (corrupt - x) * (shard - x) // ((x + 1) * (people - corrupt - shard + x + 1))
        if weight <= 0:
            break
        total += weight
    weight = _UNIT
    for x in range(mode, 0, -1):
        weight = weight * x * (people - corrupt - shard + x) // ((corrupt - x + 1) * (shard - x + 1))
        if weight <= 0:
            break
        total += weight
    return total


def _hoeffding(people: int, corrupt: int, shards: int) -> int:
    """Hoeffding's bound on the colluders in a shard: mean + √(shard · ln(shards · 2^40) / 2), rounded up.

    See Hoeffding 1963, Theorem 2 and Section 6.
    """
    shard = people // shards
    # ln 2 < 0.6932
    bits = FAILURE_PROBABILITY.denominator.bit_length() + shards.bit_length()
    return -(-shard * corrupt // people) + math.isqrt(-(-shard * bits * 6932 // 20_000)) + 1
