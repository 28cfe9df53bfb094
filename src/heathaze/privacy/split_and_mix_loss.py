"""How far additive shares that a shuffler has mixed are from uniform messages with the same sum.

Each of n people writes a secret element of a finite abelian group of order q as a sum of r messages, of which r − 1 are
uniform. A shuffler mixes all n · r messages. The distance in total variation between these messages and uniform ones
with the same sum is at most

    W_r = ½ √(E[q^(C − 1)] − 1),

where C is the number of components of a random graph on n vertices with k = r − 1 edges out of and into each vertex
(``shuffle/split_and_mix.md`` has the proof). A set of j vertices is closed if all edges that leave it also enter it. A
given set is closed with probability (jk)! ((n − j)k)! / (nk)!. The component of the first vertex is a closed set, and
what remains after it is removed is a random graph of the same kind on fewer vertices. So A_n = E[q^(C − 1)] satisfies

    A_n ≤ 1 + Σ_{j=1}^{n−1} t_j(n) · q A_j,   t_j(n) = (n − j)/n · p_j(n),   p_j(n) = binom(n, j) / binom(nk, jk).

All terms are positive. They are summed in logarithms, and the result is rounded up.

**Many people.** p_{j+1}(n)/p_j(n) = Π_{a=1}^{k−1} (jk + a)/((n − j)k − a) grows with j, so p is log-convex in j; and
p_j(n) = p_{n−j}(n). p_j(n + 1)/p_j(n) ≤ ((n + 1 − j)/(n + 1))^(k−1), so p_j(n) and n p_3(n) fall as n grows. Let
A_m ≤ 2 for all m from h to N − 1. Then

    A_N − 1 ≤ Σ_{j<h} t_j(N) q A_j + 2q ((p_1(N) + 2 p_2(N))/N + N p_3(N)),

since t_j(N) = (i/N) p_i(N) for i = N − j, and p_i ≤ p_3 for i from 3 to N − h. With p_j instead of t_j the right side
falls as N grows. If it is at most 1 at one N, then A_m ≤ 2 for all m ≥ h, and the bound holds for every larger N.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from heathaze.checks import whole
from heathaze.errors import InvalidInput
from heathaze.types import Floats

MOST_MESSAGES = 400
"""The most messages for one group element that a search tries."""


def distance_to_uniform(people: int, order: int, messages: int) -> float:
    """Compute an upper bound on W_r, the distance of mixed shares to uniform messages with the same sum.

    Args:
        people: n, the number of people whose messages the adversary does not know, at least 1.
        order: q, the order of the group, at least 2.
        messages: r, the number of messages of one person for one group element, at least 1.

    Returns:
        The bound, at most 1.

    Cost: at most the square of the number of people, and far less for many people.

    >>> round(distance_to_uniform(50, 12_800, 16) * 102_409 * (1 + math.exp(5)), 7)  # below 1e-5
    2.1e-06
    """
    number = whole(people, "people", "people whose messages are unknown", most=10**9)
    r = whole(messages, "messages", "messages of one person", most=MOST_MESSAGES)
    group = whole(order, "order", "elements of the group", least=2)
    if number == 1:
        return 0.0  # the messages of one person are uniform, given their sum
    if r < 4:
        return 1.0  # the bound is of no use for so few messages
    return math.exp(min(_log_excess(number, _log(group), r - 1) / 2 - math.log(2) + 1e-9, 0.0))


def messages_needed(people: int, order: int, allowed: float) -> int:
    """Compute the fewest messages with which the distance to uniform messages is small enough.

    Args:
        people: As in :func:`distance_to_uniform`.
        order: As in :func:`distance_to_uniform`.
        allowed: The largest distance, above 0. For m group elements it is δ / ((1 + e^ε) m).

    Returns:
        r, at least 4.

    Raises:
        InvalidInput: So few people need more than 400 messages.

    >>> messages_needed(10_000, 2_560_000, 1e-5 / (1 + math.exp(5)) / 102_409)
    9
    """
    number, group = whole(people, "people", "people whose messages are unknown"), whole(order, "order", least=2)
    if not allowed > 0:
        raise InvalidInput(f"The allowed distance to uniform messages is {allowed}; give a number above 0.")
    # The closed form ⌈2 + (ln q − 2 ln allowed)/ln n⌉ is a first guess. The bound checks the number that is returned.
    guess = 2 + (_log(group) - 2 * math.log(allowed)) / math.log(max(number, 2))
    if guess > MOST_MESSAGES - 50:
        raise InvalidInput(
            f"With {number} people, each would have to send more than {MOST_MESSAGES - 50} messages for one group "
            "element; ask more people, or give a larger delta."
        )
    r = max(4, math.ceil(guess))
    while distance_to_uniform(number, group, r) > allowed:
        r += 1
    while r > 4 and distance_to_uniform(number, group, r - 1) <= allowed:
        r -= 1
    return r


@functools.lru_cache(maxsize=1024)
def _log_excess(n: int, log_order: float, k: int) -> float:
    """Compute an upper bound on ln(A_n − 1), or infinity if the bound is of no use."""
    from scipy.special import gammaln

    most = min(n, 4096)
    # ln of a rounded factorial errs by a few units of its last place. Every t_j is raised by more than that.
    error = 16 * 2.0**-52 * math.lgamma(n * k + 1.0) + 1e-12
    small, large = gammaln(np.arange(most + 1) + 1.0), gammaln(k * np.arange(most + 1.0) + 1.0)
    colours: Floats = np.full(most + 1, -math.inf)  # ln(q A_j)

    def closed(size: int) -> Floats:
        """Ln p_j(size) for j from 1, up to the largest j below ``size`` whose A_j is known."""
        last = min(size, most + 1)
        if size <= most:
            rest, rests = small[size - 1 : 0 : -1], large[size - 1 : 0 : -1]
        else:
            others = size - np.arange(1, last)
            rest, rests = gammaln(others + 1.0), gammaln(k * others + 1.0)
        logs = large[1:last] - small[1:last] + rests - rest
        return np.asarray(logs + (math.lgamma(size + 1.0) - math.lgamma(size * k + 1.0) + error))

    colours[1] = log_order
    check, excess = 32, -math.inf
    for size in range(2, most + 1):
        terms = closed(size)
        j = np.arange(1, size)
        excess = _log_sum(terms + np.log((size - j) / size) + colours[1:size])
        colours[size] = log_order + np.logaddexp(0.0, excess)
        if size == check and size < n:
            half = size // 2
            small_enough = bool((colours[half : size + 1] <= log_order + math.log(2)).all())
            if small_enough and _beyond(closed(size + 1), colours, half, size + 1, log_order, False) <= 0:
                return _beyond(closed(n), colours, half, n, log_order, True)
            check *= 2
    return excess if most == n else math.inf


def _beyond(terms: Floats, colours: Floats, half: int, size: int, log_order: float, sharp: bool) -> float:
    """The bound on ln(A_N − 1) for many people, with t_j if it has to be sharp and with p_j otherwise."""
    j = np.arange(1, half)
    known = terms[: half - 1] + colours[1:half] + (np.log((size - j) / size) if sharp else 0.0)
    few = np.array([terms[0] - math.log(size), terms[1] + math.log(2 / size), terms[2] + math.log(size)])
    return _log_sum(np.concatenate([known, few + log_order + math.log(2)]))


def _log_sum(terms: Floats) -> float:
    largest = float(terms.max())
    return largest + math.log(float(np.exp(terms - largest).sum())) + 1e-12


def _log(order: int) -> float:
    """Ln of an integer of any size, rounded up."""
    shift = max(0, order.bit_length() - 60)
    return math.log((order >> shift) + (shift > 0)) * (1 + 1e-15) + shift * math.log(2) * (1 + 1e-15)
