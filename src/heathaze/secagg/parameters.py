"""Public parameters of a secure sum, and upper bounds on the probability that the sum fails or leaks.

:class:`Parameters` hold the number of clients, the number of neighbours of each client, and how many clients may be
lost or corrupt. Every client knows the parameters, and every message contains their digest. :class:`FailureBounds` are
computed from the parameters: they are tail probabilities of a random neighbour graph. The page ``secagg.md`` proves the
formulas.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
import struct
from dataclasses import dataclass

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.privacy.randomness import Randomness, SecureRandomness

ROUND_BYTES = 16
PURPOSE_BYTES = 32
MOST_CLIENTS = 2**20
MOST_NUMBERS = 2**26
MOST_NEIGHBOURS = 1024
"""The largest number of neighbours of a client. With so many, a client computes for a large part of a second."""

BREACH = 2.0**-40
"""Default bound on the probability that the server learns more than the sum."""

FAILURE = 2.0**-20
"""Default bound on the probability that the sum fails because too few neighbours of some client are left."""

_LAYOUT = struct.Struct("<16sIIIIIBII32s")
_LABEL = b"heathaze secagg 1 terms"  # version 1 of the protocol; part of every digest


@dataclass(frozen=True)
class Parameters:
    """The public parameters of one secure sum: one round of one shard.

    Args:
        round: 16 random bytes that name the round; every round has a different name.
        clients: Number of clients that are invited, 3 to 2^20. Their indices are 0 to clients − 1.
        neighbours: Number of other clients with which each client exchanges masks: an even number, or all others.
        shares_needed: Number of neighbours that together can open a client's mask: more than half of the neighbours.
        survivors_at_least: Smallest number of vectors in a sum; with fewer, the shard is given up. The noise of a
            survey is computed for this number.
        length: Number of integers that a client sends, 1 to 2^26.
        bits: Number of bits of the modulus, 1 to 64. Sums are computed modulo 2^bits.
        dropped_at_most: Number of clients that may be lost, after they advertised a key, before the sum may fail.
        corrupt_at_most: Largest number of clients that may tell the server all they know.
        purpose: 32 bytes that identify what is summed, for example the SHA-256 of a question. Clients with different
            purposes cannot read each other's messages.

    Raises:
        InvalidInput: The numbers contradict each other. This does not check whether they are safe; see
            :attr:`failure_bounds`.

    >>> parameters = Parameters(bytes(16), 5, neighbours=4, shares_needed=3, survivors_at_least=4, length=2, bits=8)
    >>> parameters.failure_bounds.breach
    0.0
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
            raise InvalidInput(f"A round is named by {ROUND_BYTES} bytes; draw them with Parameters.plan.")
        if not isinstance(self.purpose, bytes) or len(self.purpose) != PURPOSE_BYTES:
            raise InvalidInput(f"A purpose is {PURPOSE_BYTES} bytes; give the SHA-256 of what is summed.")
        self._check("clients", "enough clients to hide one", 3, MOST_CLIENTS)
        self._check("length", "how many integers a client sends", 1, MOST_NUMBERS)
        self._check("bits", "the bits of the modulus", 1, 64)
        self._check("neighbours", "how many other clients each has", 2, min(self.clients - 1, MOST_NEIGHBOURS))
        if self.neighbours % 2 and self.neighbours != self.clients - 1:
            raise InvalidInput(
                f"neighbours is {self.neighbours}; give an even number, half on either side, or all {self.clients - 1}."
            )
        # With half or fewer, one half of the neighbours could open a client's seed and the other half its mask key.
        more_than_half = self.neighbours // 2 + 1
        self._check("shares_needed", "more than half of the neighbours", more_than_half, self.neighbours)
        self._check("corrupt_at_most", "a number that leaves two honest clients", 0, self.clients - 2)
        self._check("dropped_at_most", "a number that leaves two clients", 0, self.clients - 2)
        # With fewer survivors, nobody could open the sum, or corrupt clients could subtract their own vectors and learn
        # the vector of a single client. At most the clients that are not lost can survive.
        least = max(self.shares_needed, self.corrupt_at_most + 1) + 1
        most = self.clients - self.dropped_at_most
        self._check("survivors_at_least", "a number that can open the sum and can be left", least, most)

    def _check(self, name: str, meaning: str, least: int, most: int) -> None:
        assign(self, **{name: whole(getattr(self, name), name, meaning, least=least, most=most)})

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
    ) -> Parameters:
        """Plan a secure sum: choose the smallest safe number of neighbours, and draw a name for the round.

        Args:
            clients: Number of clients that are invited, 3 to 2^20.
            length: Number of integers that each client sends.
            bits: Number of bits of the modulus; sums are computed modulo 2^bits.
            dropout: Share of the clients that may advertise a key and be lost later in the round, from 0 to below 1.
                Clients that never advertise a key are not part of this share; they only reduce the survivors.
            corruption: Share of the clients that may tell the server all they know, from 0 to below 1.
            survivors_at_least: Smallest number of vectors in a sum; if left out, all clients except the share
                ``dropout``.
            failure: Largest acceptable probability that the sum fails because too few neighbours are left.
            breach: Largest acceptable probability that the server learns more than the sum.
            purpose: 32 bytes that identify what is summed.
            randomness: The source of the round's name; the operating system's if left out.

        Returns:
            The parameters.

        Raises:
            InvalidInput: No number of neighbours makes both probabilities small enough.

        >>> parameters = Parameters.plan(1000, length=1254, bits=32, dropout=0.05, corruption=0.05)
        >>> parameters.neighbours, parameters.shares_needed, parameters.survivors_at_least
        (30, 18, 950)
        """
        clients = whole(clients, "clients", "enough clients to hide one", least=3, most=MOST_CLIENTS)
        for name, share in (("dropout", dropout), ("corruption", corruption)):
            if not 0 <= share < 1:
                raise InvalidInput(f"{name} is {share}; give a share of the clients, from 0 to below 1.")
        for name, chance in (("failure", failure), ("breach", breach)):
            if not 0 < chance < 1:
                raise InvalidInput(f"{name} is {chance}; give a probability between 0 and 1.")
        dropped, corrupt = _ceiling(clients, dropout), _ceiling(clients, corruption)
        least = clients - dropped if survivors_at_least is None else survivors_at_least
        meaning = f"a number that is left if {dropped} of {clients} clients are lost"
        least = whole(least, "survivors_at_least", meaning, most=clients - dropped)
        found = _neighbourhood(clients, least, dropped, corrupt, failure, breach)
        if found is not None:
            new = (randomness or SecureRandomness()).words(ROUND_BYTES // 8).tobytes()
            return cls(new, clients, *found, least, length, bits, dropped, corrupt, purpose)
        raise InvalidInput(
            f"No number of neighbours is safe for {clients} clients if {dropped} are lost, {corrupt} are corrupt and "
            f"the sum is given up below {least}. Well over half of the clients must stay to the end, and well more "
            "than are corrupt. Invite more clients, or plan for a smaller dropout or corruption."
        )

    @property
    def failure_bounds(self) -> FailureBounds:
        """Upper bounds on the probabilities that a random neighbour graph with these parameters fails."""
        return _failure_bounds(self)

    @property
    def described(self) -> str:
        """One sentence about the secure sum: how many clients may be lost or corrupt, and its failure probabilities."""
        found = self.failure_bounds
        return (
            f"Each of {self.clients} clients has {self.neighbours} neighbours, {self.shares_needed} of which open a "
            f"mask; with at most {self.corrupt_at_most} corrupt and at least {self.survivors_at_least} vectors summed "
            f"the server learns more than the sum with probability at most {found.breach:.2g}; with at most "
            f"{self.dropped_at_most} lost there is no sum with probability at most {found.unrecoverable:.2g}."
        )

    @property
    def bytes_sent(self) -> int:
        """The number of bytes that a client sends in a round: keys, shares, tags, signatures and its vector."""
        return 670 + 135 * self.neighbours + -(-self.length * self.bits // 8)

    @property
    def bytes_received(self) -> int:
        """The number of bytes that a client receives in a round."""
        return 456 + 142 * self.neighbours + -(-self.clients // 8)

    @functools.cached_property
    def digest(self) -> bytes:
        """SHA-256 of all parameters. Every signature covers the digest, and every derived key depends on it."""
        return hashlib.sha256(_LABEL + self.to_bytes()).digest()

    def to_bytes(self) -> bytes:
        """The parameters as 77 bytes, to be sent to clients."""
        return _LAYOUT.pack(*(getattr(self, field.name) for field in dataclasses.fields(self)))

    @classmethod
    def from_bytes(cls, block: bytes) -> Parameters:
        """Read the parameters from the 77 bytes of :meth:`to_bytes`.

        Args:
            block: The bytes, from an untrusted sender; every field is checked.

        Returns:
            The parameters.

        Raises:
            InvalidInput: The block has another size, or the numbers contradict each other.

        >>> parameters = Parameters.plan(10, length=4, bits=16, dropout=0.1, corruption=0.1)
        >>> Parameters.from_bytes(parameters.to_bytes()) == parameters
        True
        """
        if len(block) != _LAYOUT.size:
            raise InvalidInput(f"Parameters of {len(block)} bytes, expected {_LAYOUT.size}; ask for them again.")
        return cls(*_LAYOUT.unpack(block))

    def require(self, breach: float) -> None:
        """Refuse parameters with which the server may learn more than the sum.

        Args:
            breach: Largest acceptable probability that the server learns more than the sum.

        Raises:
            PromiseBroken: The bound on this probability is larger than ``breach``.
        """
        if self.failure_bounds.breach > breach:
            raise PromiseBroken(
                "With these parameters the server learns more than the sum with probability up to "
                f"{self.failure_bounds.breach:.2g}, expected at most {breach:.2g}; do not take part, or plan with more "
                "neighbours."
            )


@dataclass(frozen=True)
class FailureBounds:
    """Upper bounds on the probability that the neighbour graph fails for at least one client.

    The n clients sit on a circle in random order. A client has k neighbours: the k/2 clients before it and the k/2
    after it, or all other clients if k = n − 1. It is assumed that who is corrupt or drops out does not depend on the
    order.

    Attributes:
        captured: Bound on the probability that a client has at least ``shares_needed`` corrupt neighbours, who together
            know its secrets.
        disconnected: Bound on the probability that the honest survivors are not connected, so that the server learns
            sums over parts of them.
        split_view: Bound on the probability that a lying server, which announces different survivors to two halves of
            the clients, can learn both secrets of a client with the help of its corrupt neighbours. The promise assumes
            a server that follows the protocol, so it does not depend on this number.
        unrecoverable: Bound on the probability that a client has too few surviving neighbours, so that the sum fails.

    >>> bounds = Parameters.plan(1000, length=1254, bits=32, dropout=0.05, corruption=0.05).failure_bounds
    >>> bounds.breach < 2**-40, bounds.unrecoverable < 2**-20
    (True, True)
    """

    captured: float
    disconnected: float
    split_view: float
    unrecoverable: float

    @property
    def breach(self) -> float:
        """Upper bound on the probability that the server learns more than the sum."""
        return min(1.0, self.captured + self.disconnected)


@functools.lru_cache(maxsize=64)
def _failure_bounds(parameters: Parameters) -> FailureBounds:
    # The graph is drawn over the clients that advertise a key. In the worst case these are `survivors_at_least`
    # clients, and all corrupt clients are among them.
    n, least = parameters.clients, parameters.survivors_at_least
    k, t, c = parameters.neighbours, parameters.shares_needed, parameters.corrupt_at_most
    return FailureBounds(
        captured=captured(n, least, k, c, t),
        disconnected=disconnected(n, k, n - least + c),
        split_view=captured(n, least, k, c, 2 * t - min(k, n - 1)),
        unrecoverable=unrecoverable(n, k, parameters.dropped_at_most, t),
    )


def _neighbourhood(
    clients: int, least: int, dropped: int, corrupt: int, failure: float, breach: float
) -> tuple[int, int] | None:
    """The smallest number of neighbours, and the smallest number of shares needed, that keep all three failure bounds.

    The result is None if no number of neighbours does.
    """
    everybody = [clients - 1] if clients <= MOST_NEIGHBOURS + 1 else []
    for k in [*range(2, min(clients - 1, MOST_NEIGHBOURS + 1), 2), *everybody]:
        if disconnected(clients, k, clients - least + corrupt) > breach / 2:
            continue
        for t in range(k // 2 + 1, min(k, least - 1) + 1):
            if unrecoverable(clients, k, dropped, t) > failure:
                # With a larger t, the sum fails with an even larger probability.
                break
            if captured(clients, least, k, corrupt, t) <= breach / 2 and corrupt + 1 < least:
                return k, t
    return None


# ── tail probabilities ──────────────────────────────────────────────────────────────────────────────────────────────


def captured(clients: int, present: int, degree: int, corrupt: int, wanted: int) -> float:
    """Bound on the probability that some client has at least ``wanted`` corrupt neighbours.

    The bound is the probability for one client, times the number of clients.

    Args:
        clients: Number of clients that are invited.
        present: Number of clients that advertised a key; all corrupt clients are among them.
        degree: Number of neighbours of each client.
        corrupt: Number of corrupt clients.
        wanted: Number of corrupt neighbours that together know a client's secrets.
    """
    draws = min(degree, present - 1)
    others = present - 1 - corrupt
    if others < 0:
        return 1.0
    return min(1.0, clients * at_least(corrupt, others, draws, wanted))


def unrecoverable(clients: int, degree: int, dropped: int, needed: int) -> float:
    """Bound on the probability that some surviving client has fewer than ``needed`` surviving neighbours.

    The bound is the probability for one client, times the number of clients.

    Args:
        clients: Number of clients.
        degree: Number of neighbours of each client.
        dropped: Number of clients that are lost.
        needed: Number of surviving neighbours that a survivor needs.
    """
    others = clients - 1 - dropped
    if others < 0:
        return 1.0
    return min(1.0, clients * at_least(dropped, others, degree, degree - needed + 1))


def disconnected(clients: int, degree: int, removed: int) -> float:
    """Bound on the probability that the neighbour graph is disconnected after ``removed`` random clients leave.

        n (n − k + 1)/2 · removed (removed − 1) … (removed − k + 1) / (n (n − 1) … (n − k + 1))

    The graph is disconnected only if the circle has two disjoint runs of k/2 consecutive empty seats. There are at most
    n (n − k + 1)/2 pairs of such runs, and the fraction is the probability that k given seats are empty.

    Args:
        clients: Number n of clients.
        degree: Number k of neighbours of each client.
        removed: Number of clients that are lost or corrupt.

    >>> disconnected(clients=10, degree=4, removed=3)
    0.0
    """
    if degree >= clients - 1 or removed < degree:
        return 0.0
    pairs = clients * (clients - degree + 1)
    return min(1.0, _up(pairs * math.perm(removed, degree), 2 * math.perm(clients, degree)))


def at_least(marked: int, others: int, drawn: int, wanted: int) -> float:
    """The hypergeometric tail Pr[X ≥ wanted]: X counts marked clients among clients drawn without replacement.

        Pr[X = x] = C(marked, x) · C(others, drawn − x) / C(marked + others, drawn)

    The sum is exact in integers; the last division rounds up.

    Args:
        marked: Number of marked clients, for example of corrupt ones.
        others: Number of clients that are not marked.
        drawn: Number of clients that are drawn.
        wanted: The smallest X of the tail.

    >>> at_least(marked=1, others=1, drawn=1, wanted=1)
    0.5000000000000001
    """
    tails = _tails(marked, others, drawn)
    return tails[max(wanted, 0)] if wanted < len(tails) else 0.0


@functools.lru_cache(maxsize=16)
def _tails(marked: int, others: int, drawn: int) -> tuple[float, ...]:
    """The hypergeometric tails Pr[X ≥ x] for all possible x at once, because a plan needs many of them."""
    first, last = max(drawn - others, 0), min(marked, drawn)
    weights = [math.comb(marked, first) * math.comb(others, drawn - first)]
    for x in range(first, last):
        # Multiply by Pr[x + 1] / Pr[x]. The result is a product of binomial coefficients, so the division is exact.
        weights.append(weights[-1] * (marked - x) * (drawn - x) // ((x + 1) * (others - drawn + x + 1)))
    sums = itertools.accumulate(reversed(weights))
    total = math.comb(marked + others, drawn)
    return (1.0,) * first + tuple(_up(part, total) for part in sums)[::-1]


def _up(numerator: int, denominator: int) -> float:
    """A float that is at least as large as the fraction, so that a probability is never understated."""
    if numerator in (0, denominator):
        return numerator / denominator
    return math.nextafter(numerator / denominator, math.inf)


def _ceiling(clients: int, share: float) -> int:
    """A share of the clients, rounded up to whole clients.

    0.05 of 1,000 is 50, although the float 0.05 is not exact.
    """
    return math.ceil(clients * share - 1e-9)
