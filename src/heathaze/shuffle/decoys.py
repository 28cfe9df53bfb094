"""Decoys: each person names their true square at several levels of a tree, hidden among random squares."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import interleave, nodes_at
from heathaze.errors import InvalidInput, expect
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.privacy.decoy_loss import epsilon_of_decoys
from heathaze.privacy.events import Composition, DecoyCounts
from heathaze.privacy.loss import Number, parse_delta, parse_epsilon, warn_if_weak
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

FALL = 2.0**-0.75
"""The factor by which the decoys at a node fall from one level to the next.

Fewer decoys at a node give its count less noise and use more of ε. Coarse levels get more decoys at a node, because
their counts are large, and because they have few nodes and so need few messages.
"""

PEOPLE_AT_A_NODE = 2
"""The deepest level has at least this many people for each node. The prior divides the squares further."""

FINE, PEOPLE_AT_A_FINE_NODE = 7, 7
"""From this level on, more than 64 squares on a side, a level has at least 7 people for each node.

Such a level needs more messages than all others together, and its counts move mass by less than 1/64 of the map.
"""

MOST_MESSAGES = 1000
"""The largest expected number of messages of one person; a mechanism that needs more is refused."""

_ROOT_SCALE = 0.5
"""The noise scale of the root's count in the posterior. The count is public, but the scale must be above 0."""

SCALE_OF_NORMAL = 1.645 / (1.16 * math.log(10))
"""The scale of the Laplace noise that stands for normal noise of deviation 1 in the posterior.

The posterior widens its 90 % intervals by 1.16. With Laplace noise of scale b, the interval of a single count then
reaches 1.16 · b · ln 10 to either side. This reach is set to 1.645 deviations, so that the interval holds for 90 % of
normal noise.
"""


@dataclass(frozen=True, init=False)
class Decoys:
    """Truth among decoys: counts of tree nodes through a shuffler; see ``decoys.md``.

    At each level, a person sends one message with the true node, and decoys: messages with uniformly random nodes. The
    number of decoys does not depend on the data: it is ⌊d⌋, or one more with probability d − ⌊d⌋.

    Args:
        grid: The public grid.
        epsilon: ε of all mixed messages, if one person's position is replaced by another.
        people: The least number of people in a batch. The decoys are chosen for this number, and more people make the
            messages more private. Count only people who do not reveal their decoys to the server.
        delta: δ, from 1e-11 on.

    Raises:
        InvalidInput: A value is out of range, the grid has only one cell, or so few people would need more than 1000
            messages each.

    >>> decoys = Decoys(Grid.plane(x=(0, 1), y=(0, 1), size=64), epsilon=1, people=10_000)
    >>> decoys.levels, round(decoys.messages, 1)
    ((2, 3, 4, 5, 6), 63.4)
    """

    grid: Grid
    epsilon: Fraction
    people: int
    delta: Fraction
    levels: tuple[int, ...]
    decoys: tuple[Fraction, ...]

    def __init__(self, grid: Grid, epsilon: Number, people: int, delta: Number = Fraction(1, 10**6)) -> None:
        loss, allowed = parse_epsilon(epsilon), parse_delta(delta, zero=False)
        warn_if_weak(loss)
        expect(Grid, grid, "The grid")
        number = whole(people, "people", "the least number of people in a batch")
        levels = _levels(grid, number)
        nodes = tuple(len(nodes_at(grid, level)) for level in levels)
        decoys = _enough_decoys(float(loss), float(allowed), number, levels, nodes)
        assign(self, grid=grid, epsilon=loss, people=number, delta=allowed, levels=levels, decoys=decoys)
        if self.messages > MOST_MESSAGES:
            raise InvalidInput(
                f"With {number} people, each would have to send {self.messages:.0f} messages, and {MOST_MESSAGES} are "
                "the most; ask more people, or give a larger epsilon."
            )

    @property
    def alone(self) -> None:
        """Without a shuffler nothing is protected: a server that knows who sent what sees every person's true nodes."""
        return

    @functools.cached_property
    def event(self) -> Composition:
        """Decoy counts at every level."""
        nodes = [len(codes) for codes in self._nodes]
        return Composition(tuple(DecoyCounts(self.people, k, d) for k, d in zip(nodes, self.decoys, strict=True)))

    @property
    def messages(self) -> float:
        """The expected number of messages of one person."""
        return len(self.levels) + float(sum(self.decoys))

    @property
    def most_people(self) -> None:
        """A batch may have any number of people."""
        return

    @property
    def least_messages(self) -> int:
        """The fewest messages that one person sends."""
        return len(self.levels) + sum(math.floor(d) for d in self.decoys)

    @property
    def most_messages(self) -> int:
        """The most messages that one person sends."""
        return len(self.levels) + sum(math.ceil(d) for d in self.decoys)

    @property
    def numbers(self) -> int:
        """A message is one number: the index of a node, counted through all levels."""
        return 1

    @property
    def limit(self) -> int:
        """The number of nodes of all levels."""
        return self._starts[-1]

    def parameters(self) -> dict[str, Any]:
        """The public parameters."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "people": self.people,
            "levels": list(self.levels),
            "decoys": [str(d) for d in self.decoys],
        }

    def draw(self, cells: Integers, randomness: Randomness) -> tuple[Integers, Integers]:
        """Draw the messages of people: their true nodes and their decoys.

        Args:
            cells: Indices of their true cells, counted row by row.
            randomness: The source of random bits.

        Returns:
            One row for each message, and the index of the person who sends it.
        """
        everyone = np.arange(len(cells))
        codes = interleave(cells // self.grid.cols, cells % self.grid.cols)
        messages, senders = [], []
        for level, nodes, decoys, start in zip(self.levels, self._nodes, self.decoys, self._starts, strict=False):
            own = np.searchsorted(nodes, codes >> (2 * (self.grid.depth - level)))
            each, more = divmod(decoys, 1)
            extra = randomness.below(more.denominator, len(cells)) < more.numerator
            of_whom = np.repeat(everyone, int(each) + extra)
            drawn = randomness.below(len(nodes), len(of_whom)).astype(np.int64)
            messages += [start + own, start + drawn]
            senders += [everyone, of_whom]
        return np.concatenate(messages)[:, None], np.concatenate(senders)

    def infer(self, messages: Integers, people: int) -> Estimate:
        """Infer a map from mixed messages: the posterior mean, given the counts of all levels without their decoys.

        The number of decoys at a node is binomial, and its mean is subtracted from the count. The posterior treats the
        deviation from the mean as Laplace noise (:data:`SCALE_OF_NORMAL`; ``decoys.md`` says how good the intervals
        are).

        Args:
            messages: One row for each message.
            people: The number of people who sent them.

        Returns:
            The map, with error bars.

        Raises:
            InvalidInput: This number of people cannot have sent these messages.
        """
        counts = np.bincount(messages[:, 0], minlength=self.limit)
        levels, codes = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
        values, scales = [np.array([float(people)])], [np.array([_ROOT_SCALE])]
        for at, (level, nodes, decoys) in enumerate(zip(self.levels, self._nodes, self.decoys, strict=True)):
            seen: Floats = counts[self._starts[at] : self._starts[at + 1]].astype(np.float64)
            sent = int(seen.sum()) - people
            if not people * math.floor(decoys) <= sent <= people * math.ceil(decoys):
                raise InvalidInput(
                    f"Level {level} has {people + sent} messages, which {people} people do not send; messages were "
                    "lost, repeated or forged. Nothing was decoded."
                )
            # Decoys at a node: mean T/K and variance T/K · (1 − 1/K).
            expected = sent / len(nodes)
            scale = max(SCALE_OF_NORMAL * math.sqrt(expected * (1 - 1 / len(nodes))), _ROOT_SCALE)
            levels.append(np.full(len(nodes), level))
            codes.append(nodes)
            values.append(seen - expected)
            scales.append(np.full(len(nodes), scale))
        noisy = NoisyCounts(self.grid, *(np.concatenate(parts) for parts in (levels, codes, values, scales)))
        return Estimate.infer(noisy)

    @functools.cached_property
    def _nodes(self) -> tuple[Integers, ...]:
        return tuple(nodes_at(self.grid, level) for level in self.levels)

    @functools.cached_property
    def _starts(self) -> list[int]:
        """The number of the first node of each level, and after the last level the number of all nodes."""
        return [0, *np.cumsum([len(nodes) for nodes in self._nodes]).tolist()]


def _levels(grid: Grid, people: int) -> tuple[int, ...]:
    """Choose the levels from public facts: from the second level, or the first with two nodes, to the deepest level."""
    sizes = [len(nodes_at(grid, level)) for level in range(min(grid.depth, 13) + 1) if 4 ** (level - 1) <= people]
    needed = [PEOPLE_AT_A_NODE if level < FINE else PEOPLE_AT_A_FINE_NODE for level in range(len(sizes))]
    deepest = max((level for level, size in enumerate(sizes) if size * needed[level] <= people), default=0)
    split = [level for level, size in enumerate(sizes) if size > 1 and level <= deepest]
    if not split:
        raise InvalidInput(f"Decoys need a grid of several cells and more than {people} people; ask more people.")
    return tuple(level for level in split if level >= min(2, split[-1]))


@functools.lru_cache(maxsize=64)
def _enough_decoys(
    epsilon: float, delta: float, people: int, levels: tuple[int, ...], nodes: tuple[int, ...]
) -> tuple[Fraction, ...]:
    """Choose the number of decoys of one person at each level, so that all levels together cost at most ε.

    The expected number of decoys at a node is multiplied by :data:`FALL` from level to level. The number at the first
    level is found by trial: ε is about inversely proportional to the square root of this number.
    """

    def decoys(most: float) -> tuple[Fraction, ...]:
        return tuple(_rounded_up(most * FALL ** (level - levels[0]) * k / people) for level, k in _pairs(levels, nodes))

    def cost(most: float) -> float:
        return epsilon_of_decoys([DecoyCounts(people, k, d) for k, d in zip(nodes, decoys(most), strict=True)], delta)

    # For many decoys the loss is nearly normal, as with Gaussian noise: Σ 2 / (decoys at a node) = ε² / 2 ln(1.25 / δ).
    most = 4 * math.log(1.25 / delta) / epsilon**2 * sum(FALL ** (levels[0] - level) for level in levels)
    few, enough = 0.0, math.inf
    for _ in range(40):
        try:
            found = cost(most)
        except InvalidInput:  # with too few decoys, no ε holds for this δ
            found = math.inf
        if found <= epsilon:
            enough = min(enough, most)
            if found >= 0.998 * epsilon or enough <= few * 1.002:
                break
        else:
            few = max(few, most)
        guess = most * min(max(found / (0.9995 * epsilon), 0.5), 2.0) ** 2
        most = guess if few < guess < enough else (few + enough) / 2
    if enough == math.inf:
        raise InvalidInput(f"epsilon {epsilon:g} with delta {delta:g} needs too many decoys; give a larger epsilon.")
    return decoys(enough)


def _pairs(levels: Sequence[int], nodes: Sequence[int]) -> Sequence[tuple[int, int]]:
    return list(zip(levels, nodes, strict=True))


def _rounded_up(number: float) -> Fraction:
    """Round up to a binary fraction, by less than one part in 1000."""
    places = max(0, 10 - math.floor(math.log2(number)))
    return Fraction(math.ceil(number * 2**places), 2**places)
