"""SplitAndMix: the public numbers of a protocol that adds up noisy counts of tree nodes through a shuffler.

How it is used:

    protocol = SplitAndMix(grid, epsilon=1, people=10_000)          # public; the curator's Pyramid at ε/2 has its noise
    levels = simulate_rounds(protocol, points, person)              # all parties in one process → NoisyLevels
    release = estimate_rounds(levels)                               # the posterior, with intervals
    release = estimate_rounds(levels, paper=True)                   # the fit of the paper, as in central.Pyramid
    protocol.bytes_per_person, protocol.dense_payload               # cost of the rounds, and of the paper's dense form

``shares.py`` is one round of the protocol: how a device splits its counts into shares, and how shares are added up. If
each party runs by itself, ``Rounds`` is the server and ``Participant`` a device, see ``rounds.py`` and ``device.py``.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heathaze.checks import assign, positive, whole
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import nodes_at
from heathaze.errors import InvalidInput, expect
from heathaze.privacy.events import Composition, MixedShares, NoiseShares
from heathaze.privacy.loss import Number, parse_delta, parse_epsilon, warn_if_weak
from heathaze.privacy.noise import laplace_scale
from heathaze.privacy.split_and_mix_loss import messages_needed

WRONG = 1e-3
"""The most probability that any sum of the protocol is decoded wrongly, because it lies outside its interval."""

MOST_PACKED = 24
"""The most nodes in one group element that are tried."""

MOST_PARTS = 2**48
"""The most parts of all people together: their sums, with noise and messages, then fit into 64-bit integers."""

OVERHEAD = 48
"""Bytes that sealing adds to a message: an encapsulated key and a tag."""


@dataclass(frozen=True)
class LevelPlan:
    """The public numbers of one round.

    Attributes:
        level: The level of the tree.
        nodes: The most nodes that are asked for.
        scale: Scale of the noise of a sum.
        below: The noise of a sum is above −``below``, except with a small probability.
        modulus: q, the number of values that a sum may have.
        packed: The number of nodes in one group element, which is a vector of residues modulo q.
        messages: r, the number of messages for one group element.
    """

    level: int
    nodes: int
    scale: Fraction
    below: int
    modulus: int
    packed: int
    messages: int

    @property
    def elements(self) -> int:
        """The number of group elements."""
        return -(-self.nodes // self.packed)

    @property
    def bits(self) -> int:
        """The order of the group, q^packed, is at most 2^bits."""
        return int(self.modulus**self.packed - 1).bit_length()

    @property
    def message_bytes(self) -> int:
        """Bytes of one message before it is sealed: two for the index of the element, and its value."""
        return 2 + -(-self.bits // 8)

    @property
    def sealed_bytes(self) -> int:
        """Bytes of all sealed messages of one person in this round."""
        return self.elements * self.messages * (OVERHEAD + self.message_bytes)


@dataclass(frozen=True, init=False)
class SplitAndMix:
    """The protocol of appendix F of "Differentially Private Heatmaps", corrected (E0-12); see ``split_and_mix.md``.

    Each person's weight of 1 is divided into B equal parts over the cells of their places. In every round, all devices
    send the number of their parts in some nodes, with a share of the noise, as sums of random messages. The server
    learns noisy sums, and asks for the children of the w largest in the next round.

    Args:
        grid: The public grid.
        epsilon: ε of all rounds together, if one person's places are replaced by others.
        people: The least number of people in a batch who follow the protocol and do not reveal their messages.
        delta: δ of all rounds together.
        parts: B, the number of parts of one person, 1 to 2^20. 1 is enough if everyone has one place.
        w: The number of nodes that are kept on each level, 1 to 8192; :func:`usual_w` if left out.
        gamma: The budget of a level divided by that of the level above, above 0 and at most 1.
        most: The most people in a batch, 10 % more than ``people`` if left out. Sums of more people do not fit.

    Raises:
        InvalidInput: A value is out of range, or so few people need too many messages.

    >>> protocol = SplitAndMix(Grid.plane(x=(0, 1), y=(0, 1), size=64), epsilon=1, people=1000, parts=1)
    >>> [plan.level for plan in protocol.plans], protocol.coordinates
    ([2, 3, 4, 5, 6], 320)
    """

    grid: Grid
    epsilon: Fraction
    people: int
    delta: Fraction
    parts: int
    w: int
    gamma: float
    most: int

    def __init__(
        self,
        grid: Grid,
        epsilon: Number,
        people: int,
        delta: Number = Fraction(1, 10**6),
        parts: int = 256,
        w: int | None = None,
        gamma: float = math.sqrt(0.5),
        most: int | None = None,
    ) -> None:
        loss, allowed = parse_epsilon(epsilon), parse_delta(delta, zero=False)
        warn_if_weak(loss)
        number = whole(people, "people", "the least number of people in a batch", least=2)
        at_most = -(-number * 11 // 10) if most is None else whole(most, "most", "the most people", least=number)
        decay = positive(gamma, "gamma", "the budget of a level over that of the level above, at most 1")
        if decay > 1:
            raise InvalidInput(f"gamma is {decay:g}; give a number above 0 and at most 1.")
        expect(Grid, grid, "The grid")
        if loss > 500:
            raise InvalidInput("epsilon is above 500, for which no number of messages is enough; give a smaller one.")
        assign(self, grid=grid, epsilon=loss, people=number, delta=allowed, gamma=decay, most=at_most)
        assign(self, parts=whole(parts, "parts", "parts of one person", most=2**20))
        kept = usual_w(number) if w is None else w
        assign(self, w=whole(kept, "w", "the number of nodes to keep on each level", most=2**13))
        if self.parts * at_most >= MOST_PARTS:
            raise InvalidInput(
                f"{at_most} people with {self.parts} parts each have {self.parts * at_most} parts, and sums of at most "
                "2^48 are counted; give a smaller most, or fewer parts."
            )
        assign(self, plans=_plans(self))

    plans: tuple[LevelPlan, ...] = ()

    @property
    def top(self) -> int:
        """The first level of which nodes are counted: the finest with at most w nodes (errata E0-4)."""
        return min((self.w.bit_length() - 1) // 2, self.grid.depth)

    @property
    def alone(self) -> None:
        """Without a shuffler nothing is protected: the messages of one person add up to their counts."""
        return

    @property
    def sensitivity(self) -> int:
        """ℓ1 sensitivity of the sums of a level, if one person is replaced: B parts leave, and B parts come."""
        return 2 * self.parts

    @property
    def coordinates(self) -> int:
        """m, the number of nodes that are asked for in all rounds."""
        return sum(plan.nodes for plan in self.plans)

    @property
    def messages(self) -> int:
        """The number of messages of one person in all rounds."""
        return sum(plan.elements * plan.messages for plan in self.plans)

    @property
    def bytes_per_person(self) -> int:
        """Bytes of all sealed messages of one person in all rounds."""
        return sum(plan.sealed_bytes for plan in self.plans)

    @property
    def event(self) -> Composition:
        """Noise shares on every level, and the mixed messages of every round."""
        noise = (NoiseShares(self.sensitivity, plan.scale, Fraction(1)) for plan in self.plans)
        mixed = (MixedShares(self.people, plan.bits, plan.messages, plan.elements) for plan in self.plans)
        return Composition((*noise, *mixed))

    @property
    def dense_payload(self) -> tuple[int, int]:
        """Bytes of one person if all nodes of all levels are sent at once, as in the paper: payload, and sealed.

        The payload is r · m · ⌈log₂(m q)⌉ bits, with r for all m nodes together and q of the finest level.
        """
        m = sum(len(nodes_at(self.grid, level)) for level in range(self.grid.depth + 1))
        modulus = max(plan.modulus for plan in self.plans)
        r = messages_needed(self.people, modulus, float(self.delta) / (1 + math.exp(self.epsilon)) / m)
        bits = (m * modulus - 1).bit_length()
        return -(-r * m * bits // 8), r * m * (OVERHEAD + -(-bits // 8))

    def parameters(self) -> dict[str, Any]:
        """The public parameters."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "people": self.people,
            "most": self.most,
            "parts": self.parts,
            "w": self.w,
            "gamma": self.gamma,
            "packed": [plan.packed for plan in self.plans],
            "messages": [plan.messages for plan in self.plans],
        }


def usual_w(people: int) -> int:
    """The number of nodes to keep: 20 as in the paper; from 10,000 people on, one for each 500 people, at most 256.

    With many people, more than 20 squares stand out from the noise, but each square that is kept costs bytes.
    ``split_and_mix.md`` has a table of errors and bytes.
    """
    return min(256, max(20, people // 500))


@functools.lru_cache(maxsize=64)
def _planned(
    budgets: tuple[Fraction, ...], sizes: tuple[int, ...], top: int, parts: int, people: int, most: int, share: float
) -> tuple[LevelPlan, ...]:
    plans = []
    for at, (epsilon, size) in enumerate(zip(budgets, sizes, strict=True)):
        scale = laplace_scale(2 * parts, epsilon)
        # One node may hold everyone; the sums of the others stay far from the upper end.
        wrong = WRONG / (2 * len(sizes))
        below = _noise_below(wrong / size, scale, most / people)
        full = _noise_below(wrong / 2, scale, most / people)
        above = max(full, _noise_below(wrong / (2 * size), scale, most / people) - parts * people)
        modulus = parts * most + below + above + 1
        allowed = share * size / sum(sizes)  # of the distance to uniform messages, for this level
        guesses = []
        for packed in range(1, min(size, MOST_PACKED) + 1):
            elements = -(-size // packed)
            r = 2 + (packed * math.log(modulus) - 2 * math.log(allowed / elements)) / math.log(people)
            plan = LevelPlan(top + at, size, scale, below, modulus, packed, max(4, math.ceil(r)))
            guesses.append((plan.sealed_bytes, packed))
        packed = min(guesses)[1]
        order = 2 ** (modulus**packed - 1).bit_length()
        r = messages_needed(people, order, allowed / -(-size // packed))
        plans.append(LevelPlan(top + at, size, scale, below, modulus, packed, r))
    return tuple(plans)


def _noise_below(probability: float, scale: Fraction, shape: float) -> int:
    """Find a number that the noise of a batch exceeds with at most the given probability.

    ``people`` people send shares of one discrete Laplace noise, so the noise of more people is X − Y, where X and Y
    have the negative binomial distribution with the shape (people of the batch) / ``people``. X − Y is at most X.
    """
    from scipy.stats import nbinom

    success = -math.expm1(-float(1 / scale))
    found = math.ceil(float(nbinom.isf(probability, shape, success)) * (1 + 1e-9)) + 1
    if not nbinom.sf(found, shape, success) <= probability:
        raise InvalidInput("The noise of a batch has no bound that floats can hold; give a larger epsilon.")
    return found


def _plans(protocol: SplitAndMix) -> tuple[LevelPlan, ...]:
    """Choose noise, modulus, packing and number of messages of all rounds, so that they cost at most ε and δ."""
    grid, top = protocol.grid, protocol.top
    levels = range(top, grid.depth + 1)
    sizes = tuple(min(len(nodes_at(grid, level)), 4 * protocol.w) if level > top else len(nodes_at(grid, level))
                  for level in levels)  # fmt: skip
    # ε_i ∝ γ^(i − q), rounded down, as in the curator's Pyramid.
    weights = [protocol.gamma ** (level - top) for level in levels]
    budgets = tuple(protocol.epsilon * Fraction(math.floor(x / math.fsum(weights) * 2**50), 2**50) for x in weights)
    if 0 in budgets:
        raise InvalidInput(f"gamma is {protocol.gamma}; give a decay at most 1 that leaves every level some budget.")
    # (1 + e^ε) Σ (elements · W_r) ≤ δ over all rounds
    share = float(protocol.delta) / (1 + math.exp(protocol.epsilon)) * (1 - 1e-6)
    return _planned(budgets, sizes, top, protocol.parts, protocol.people, protocol.most, share)
