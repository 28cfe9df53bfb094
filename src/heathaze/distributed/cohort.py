"""Who is asked: how many people, in how many shards, and how many of a shard may be lost or collude."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from heathaze.errors import InvalidInput
from heathaze.privacy.loss import Number, exact
from heathaze.privacy.noise_shares import share_shape

# TODO-merged from distributed._dealing: How many colluders one of several shards may hold, when shards are dealt at random from one list of people.

EXCESS = Fraction(1, 2**40)
"""How likely it may be, in one round, that some shard holds more colluders than are planned for."""

_UNIT = 2**128
"""One, in the fixed-point numbers below."""

_LARGEST = 2**20
"""Larger shards, which no secure sum takes, are bounded by a formula instead of a sum of many terms."""


@functools.lru_cache(maxsize=64)
def most_in_a_shard(people: int, corrupt: int, shards: int) -> int:
    """The least c with  shards · Pr[X > c] ≤ 2^−40,  X the colluders among the people of one shard.

        Pr[X = x] = C(corrupt, x) · C(people − corrupt, shard − x) / C(people, shard),   shard = people / shards

    X is hypergeometric: the people of one shard are drawn without replacement. Shards depend on each other, and the
    union bound over them holds all the same. In whole numbers, what is summed rounded up and what it is divided by
    rounded down, so that c is never too small; tests compare it with exact binomials.

    >>> most_in_a_shard(people=10_000, corrupt=500, shards=10), most_in_a_shard(10_000, 500, 2)
    (104, 327)
    """
    shard = people // shards
    first, last = max(0, shard - (people - corrupt)), min(corrupt, shard)
    if shards == 1 or first == last:
        return last
    if shard > _LARGEST:
        return min(last, _hoeffding(people, corrupt, shards))
    # Weights relative to that of the mode, where they are largest: away from it they only fall.
    mode = (shard + 1) * (corrupt + 1) // (people + 2)
    above = [_UNIT]
    for x in range(mode, last):
        # The ratio of the probabilities of x + 1 and x:
        ways, of = (corrupt - x) * (shard - x), (x + 1) * (people - corrupt - shard + x + 1)
        above.append(-(-above[-1] * ways // of))
        if above[-1] == 1:
            # Rounded up, it stays at 1 from here on.
            above += [last - x - 1]
            break
    whole = _whole(people, corrupt, shard, mode)
    tails = list(itertools.accumulate(reversed(above)))[::-1]
    # tails[k] ≥ Pr[X ≥ mode + k], in units of `whole`
    for k in range(1, len(tails)):
        if shards * tails[k] * EXCESS.denominator <= whole:
            return min(last, mode + k - 1)
    return last


def _whole(people: int, corrupt: int, shard: int, mode: int) -> int:
    """All weights relative to that of the mode, added up and rounded down."""
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
    """mean + √(shard · ln(shards · 2^40) / 2), rounded up (Hoeffding 1963, Theorem 2 and Section 6)."""
    shard = people // shards
    # ln 2 < 0.6932
    bits = EXCESS.denominator.bit_length() + shards.bit_length()
    return -(-shard * corrupt // people) + math.isqrt(-(-shard * bits * 6932 // 20_000)) + 1


@dataclass(frozen=True)
class Cohort:
    """The people asked one question: disjoint shards of equal size, each summed by itself (errata E3-2, E3-3).

    Noise is shaped on the fewest honest people a shard is ever opened with, never on how many were invited: those who
    vanish, and those who tell the server their noise, then leave enough of it behind (errata E3-5).

    Shards are dealt at random from all who are asked, so one of them may hold more of the colluders than its even part.
    How many more is in the shape too: with probability at least 1 − 2^−40 in a round, no shard holds more.

    Args:
        people: How many are asked; a multiple of ``shards``.
        shards: Into how many sums they are divided. Each adds its own noise, so fewer are better.
        dropout: Share of a shard that may be lost; below what is left, the shard is given up unopened.
        colluding: Share of all who are asked that may tell the server all they know.

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

    if TYPE_CHECKING:

        def __init__(
            self, people: int, shards: int = 1, dropout: Number = Fraction(1, 10), colluding: Number = Fraction(1, 20)
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("people", "shards"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidInput(f"{name} is {value!r}; give a whole number, 1 or larger.")
        if self.people < 3 * self.shards:
            raise InvalidInput(
                f"{self.people} people in {self.shards} shards leave fewer than 3 in some; a sum of fewer than 3 hides "
                f"nobody. Ask at least {3 * self.shards} people, or use fewer shards."
            )
        if self.people % self.shards:
            raise InvalidInput(
                f"{self.people} people do not divide into {self.shards} equal shards; a smaller shard would have too "
                f"little noise. Ask {self.people - self.people % self.shards} or "
                f"{self.people + self.shards - self.people % self.shards} people."
            )
        for name in ("dropout", "colluding"):
            object.__setattr__(self, name, _share(name, getattr(self, name)))
        if 2 * self.threshold <= self.shard:
            raise InvalidInput(
                f"A shard of {self.shard} would be opened with {self.threshold} people; more than half must be left: "
                "tolerate a smaller dropout."
            )
        if self.threshold - self.colluders < 2:
            raise InvalidInput(
                f"Of the {self.threshold} people a shard is opened with, {self.colluders} may collude; at least 2 "
                "honest ones must be left: tolerate fewer."
            )

    @property
    def shard(self) -> int:
        """People in each shard."""
        return self.people // self.shards

    @property
    def threshold(self) -> int:
        """A shard is given up unless at least so many deliver."""
        return self.shard - math.ceil(self.shard * self.dropout)

    @property
    def corrupt(self) -> int:
        """So many of all who are asked may collude with the server."""
        return math.ceil(self.people * self.colluding)

    @property
    def colluders(self) -> int:
        """So many people of a shard may collude with the server: all of them, or what random shards rarely exceed."""
        return most_in_a_shard(self.people, self.corrupt, self.shards)

    @property
    def excess(self) -> Fraction:
        """Bound on the probability that, in one round, some shard is dealt more colluders than that."""
        return EXCESS if self.colluders < min(self.corrupt, self.shard) else Fraction(0)

    @property
    def shape(self) -> Fraction:
        """Shape of one device's share of the noise: 1 / (threshold − colluders)."""
        return share_shape(self.threshold, self.colluders)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, for questions and releases."""
        return {
            "people": self.people,
            "shards": self.shards,
            "dropout": str(self.dropout),
            "colluding": str(self.colluding),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Cohort:
        """Undo :meth:`to_dict`."""
        return cls(fields["people"], fields["shards"], rational(fields["dropout"]), rational(fields["colluding"]))


def rational(text: Any) -> Fraction:
    """A rational as questions have it: ``n`` or ``n/m``, in digits.

    The texts come from strangers: ``Fraction`` would take 1e999999999 as well, and compute for years; and sums of
    fractions with long denominators grow longer still.
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
