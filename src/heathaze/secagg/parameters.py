"""The public terms of one round of one shard: everyone knows them, and every message is bound to them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
import struct
from dataclasses import dataclass

from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.randomness import Randomness, SecureRandomness

# TODO-merged from secagg.odds: How likely a random neighbour graph fails: exact tails, from whole numbers alone.
#
# Clients sit on a circle in random order and everyone's neighbours are the k/2 before and the k/2 after, or everyone else
# if k = n − 1. Who is corrupt and who drops out does not depend on that order. The three events and why these formulas
# bound them are on the page ``secagg.md``.


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


ROUND_BYTES = 16
PURPOSE_BYTES = 32
MOST_CLIENTS = 2**20
MOST_NUMBERS = 2**26
MOST_NEIGHBOURS = 1024
"""A plan looks no further: a client would need a large part of a second for them."""

BREACH = 2.0**-40
FAILURE = 2.0**-20

_LAYOUT = struct.Struct("<16sIIIIIBII32s")
_LABEL = b"heathaze secagg 1 terms"


@dataclass(frozen=True)
class Terms:
    """What one round of one shard is about.

    Args:
        round: 16 random bytes that no other round shares.
        clients: Those invited, numbered 0 … clients − 1.
        neighbours: With how many others each client exchanges masks: an even number, or all others.
        shares_needed: So many neighbours together open a client's mask; more than half of them.
        survivors_at_least: With fewer vectors than this the shard is given up. Noise is shaped on this number.
        length: How many integers a client sends.
        bits: Sums are modulo 2^bits, 1 to 64.
        dropped_at_most: So many of those who turn up may be lost on the way and the sum still comes out.
        corrupt_at_most: So many clients may tell the server all they know.
        purpose: 32 bytes that say what is summed, for example the hash of a question; clients that were told different
            purposes do not understand each other.

    Raises:
        InvalidInput: if the numbers cannot go together. Whether they are safe is what :attr:`odds` says.
    """

    round: bytes
    clients: int
    neighbours: int
    shares_needed: int
    survivors_at_least: int
    length: int
    bits: int
    dropped_at_most: int = 0
    corrupt_at_most: int = 0
    purpose: bytes = bytes(PURPOSE_BYTES)

    def __post_init__(self) -> None:
        if not isinstance(self.round, bytes) or len(self.round) != ROUND_BYTES:
            raise InvalidInput(f"A round is named by {ROUND_BYTES} bytes; draw them with Terms.plan.")
        if not isinstance(self.purpose, bytes) or len(self.purpose) != PURPOSE_BYTES:
            raise InvalidInput(f"A purpose is {PURPOSE_BYTES} bytes; give the SHA-256 of what is summed.")
        for field in dataclasses.fields(self)[1:-1]:
            value = getattr(self, field.name)
            if type(value) is not int:
                raise InvalidInput(f"{field.name} is {value!r}; give a whole number.")
        _within("clients", self.clients, 3, MOST_CLIENTS, "a sum of fewer people hides nobody")
        _within("length", self.length, 1, MOST_NUMBERS, "split longer vectors over rounds")
        _within("bits", self.bits, 1, 64, "sums are modulo 2^bits in machine words")
        _within("neighbours", self.neighbours, 2, self.clients - 1, "neighbours are other clients")
        if self.neighbours > MOST_NEIGHBOURS:
            raise InvalidInput(
                f"neighbours is {self.neighbours}, expected at most {MOST_NEIGHBOURS}: more would only cost time."
            )
        if self.neighbours % 2 and self.neighbours != self.clients - 1:
            raise InvalidInput(
                f"neighbours is {self.neighbours}; give an even number, half on either side, or all {self.clients - 1}."
            )
        more_than_half = self.neighbours // 2 + 1
        _within(
            "shares_needed",
            self.shares_needed,
            more_than_half,
            self.neighbours,
            f"half of {self.neighbours} neighbours could open one kind of share and the other half the other kind",
        )
        _within("corrupt_at_most", self.corrupt_at_most, 0, self.clients - 2, "two honest clients are the least")
        _within("dropped_at_most", self.dropped_at_most, 0, self.clients - 2, "somebody must be left to be summed")
        _within(
            "survivors_at_least",
            self.survivors_at_least,
            max(self.shares_needed, self.corrupt_at_most + 1) + 1,
            self.clients - self.dropped_at_most,
            "fewer could not open the sum or would be laid bare by the corrupt ones, "
            "more would abort although no more were lost than planned",
        )

    @classmethod
    def plan(
        cls,
        clients: int,
        length: int,
        bits: int,
        *,
        dropout: float,
        corruption: float,
        survivors_at_least: int | None = None,
        failure: float = FAILURE,
        breach: float = BREACH,
        purpose: bytes = bytes(PURPOSE_BYTES),
        randomness: Randomness | None = None,
    ) -> Terms:
        """The smallest neighbourhood that keeps the promise, and a new round.

        Args:
            clients: How many are invited.
            length: How many integers each sends.
            bits: Sums are modulo 2^bits.
            dropout: Share of the clients that may turn up and be lost later, in the whole round, 0 to below 1. Those
                who never turn up count against ``survivors_at_least`` only.
            corruption: Share of the clients that may tell the server all they know, 0 to below 1.
            survivors_at_least: The shard aborts below it; all but the dropouts unless given.
            failure: Largest acceptable probability that the sum does not come out for want of neighbours.
            breach: Largest acceptable probability that the server learns more than the sum.
            purpose: 32 bytes that say what is summed.
            randomness: Names the round; the operating system's unless given.

        Raises:
            InvalidInput: if no number of neighbours keeps the promise.

        >>> terms = Terms.plan(1000, length=1254, bits=32, dropout=0.05, corruption=0.05)
        >>> terms.neighbours, terms.shares_needed, terms.survivors_at_least
        (30, 18, 950)
        """
        _within("clients", clients, 3, MOST_CLIENTS, "a sum of fewer people hides nobody")
        for name, share in (("dropout", dropout), ("corruption", corruption)):
            if not 0 <= share < 1:
                raise InvalidInput(f"{name} is {share}; give a share of the clients, from 0 to below 1.")
        for name, chance in (("failure", failure), ("breach", breach)):
            if not 0 < chance < 1:
                raise InvalidInput(f"{name} is {chance}; give a probability between 0 and 1.")
        dropped, corrupt = _ceiling(clients, dropout), _ceiling(clients, corruption)
        least = clients - dropped if survivors_at_least is None else survivors_at_least
        _within("survivors_at_least", least, 1, clients - dropped, f"{dropped} of {clients} may be lost by the plan")
        found = _neighbourhood(clients, least, dropped, corrupt, failure, breach)
        if found is not None:
            new = (randomness or SecureRandomness()).words(ROUND_BYTES // 8).tobytes()
            return cls(new, clients, *found, least, length, bits, dropped, corrupt, purpose)
        raise InvalidInput(
            f"No neighbourhood of {clients} clients keeps the promise if {dropped} are lost, {corrupt} are corrupt and "
            f"the sum is given up below {least}; expected that more than half stay to the end, and more than are "
            "corrupt, with room for chance: invite more clients, or plan for a smaller dropout or corruption."
        )

    @property
    def odds(self) -> Odds:
        """With which probability a random graph under these terms fails."""
        return _odds(self)

    @property
    def described(self) -> str:
        """One sentence: what is tolerated, and with which probability it fails."""
        found = self.odds
        return (
            f"Each of {self.clients} clients has {self.neighbours} neighbours, {self.shares_needed} of which open a "
            f"mask; with at most {self.corrupt_at_most} corrupt and at least {self.survivors_at_least} vectors summed "
            f"the server learns more than the sum with probability at most {found.breach:.2g}; with at most "
            f"{self.dropped_at_most} lost there is no sum with probability at most {found.unrecoverable:.2g}."
        )

    @property
    def bytes_sent(self) -> int:
        """What a client sends in a whole round: keys, shares, tags, signatures and its vector."""
        return 670 + 135 * self.neighbours + -(-self.length * self.bits // 8)

    @property
    def bytes_received(self) -> int:
        """What a client gets in a whole round."""
        return 456 + 142 * self.neighbours + -(-self.clients // 8)

    def to_bytes(self) -> bytes:
        """As they are told to clients."""
        return _LAYOUT.pack(*(getattr(self, field.name) for field in dataclasses.fields(self)))

    @classmethod
    def from_bytes(cls, block: bytes) -> Terms:
        """Undo :meth:`to_bytes`.

        Raises:
            InvalidInput: if the bytes are no terms, or terms that cannot be.

        >>> terms = Terms.plan(10, length=4, bits=16, dropout=0.1, corruption=0.1)
        >>> Terms.from_bytes(terms.to_bytes()) == terms
        True
        """
        if len(block) != _LAYOUT.size:
            raise InvalidInput(f"Terms of {len(block)} bytes, expected {_LAYOUT.size}; ask for them again.")
        return cls(*_LAYOUT.unpack(block))

    def require(self, breach: float) -> None:
        """Refuse terms under which the server learns more than the sum with a larger probability than ``breach``.

        Raises:
            PromiseBroken: if so; nobody should answer under such terms.
        """
        if self.odds.breach > breach:
            raise PromiseBroken(
                f"Under these terms the server learns more than the sum with probability up to {self.odds.breach:.2g}, "
                f"expected at most {breach:.2g}; do not take part, or plan with more neighbours."
            )

    @functools.cached_property
    def digest(self) -> bytes:
        """32 bytes that two terms share only if they are the same; part of every signature and every key."""
        return hashlib.sha256(_LABEL + self.to_bytes()).digest()


@functools.lru_cache(maxsize=64)
def _odds(terms: Terms) -> Odds:
    # The graph is drawn over those who turn up. Fewer may, down to the survivors needed, and the corrupt are all there.
    n, least = terms.clients, terms.survivors_at_least
    k, t, c = terms.neighbours, terms.shares_needed, terms.corrupt_at_most
    return Odds(
        captured=captured(n, least, k, c, t),
        disconnected=disconnected(n, k, n - least + c),
        torn=captured(n, least, k, c, 2 * t - min(k, n - 1)),
        unrecoverable=unrecoverable(n, k, terms.dropped_at_most, t),
    )


def _neighbourhood(
    clients: int, least: int, dropped: int, corrupt: int, failure: float, breach: float
) -> tuple[int, int] | None:
    """The smallest number of neighbours and for it the smallest threshold that keep all three bounds, if any do."""
    sizes = [
        *range(2, min(clients - 1, MOST_NEIGHBOURS + 1), 2),
        *([clients - 1] if clients <= MOST_NEIGHBOURS + 1 else []),
    ]
    for k in sizes:
        if disconnected(clients, k, clients - least + corrupt) > breach / 2:
            continue
        for t in range(k // 2 + 1, min(k, least - 1) + 1):
            if unrecoverable(clients, k, dropped, t) > failure:
                # A larger threshold is harder still to reach.
                break
            if captured(clients, least, k, corrupt, t) <= breach / 2 and corrupt + 1 < least:
                return k, t
    return None


def _ceiling(clients: int, share: float) -> int:
    """The share of the clients in whole clients, rounded up, but 0.05 of 1,000 is 50 whatever 0.05 is in binary."""
    return math.ceil(clients * share - 1e-9)


def _within(name: str, found: int, low: int, high: int, why: str) -> None:
    if not low <= found <= high:
        raise InvalidInput(f"{name} is {found}, expected {low} to {high}: {why}.")
