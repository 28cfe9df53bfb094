"""What the mechanisms of a survey share: the protocol that they implement, the rounds that they see, and their tools.

A mechanism (:class:`Questioner`) decides what to ask next in view of the rounds so far, and makes a map of all rounds.
A :class:`Round` is a question together with the noisy sums that came back.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from heathaze.checks import whole
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Regions
from heathaze.distributed.question import LONGEST, Part, Question
from heathaze.domain.density import MAX_DENSE_CELLS, Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.domain.quadtree import children, exists
from heathaze.errors import InvalidInput, PromiseBroken, TooLarge
from heathaze.inference.estimate import Estimate
from heathaze.privacy.events import Event
from heathaze.privacy.loss import SMALLEST_EPSILON
from heathaze.privacy.noise_shares import share_deviation
from heathaze.types import Floats, Integers

GRAIN = 10**6
"""Budgets of levels are multiples of a millionth, rounded down: exact, and short in files."""


@dataclass(frozen=True, eq=False)
class NextQuestion:
    """What a mechanism wants to ask next; a survey makes a :class:`~heathaze.distributed.Question` of it.

    Args:
        parts: What is asked.
        final: No round comes after this one.
        mass: Integer mass of one person.
        flagged: Every entry exists twice, for people without and with the flag.
    """

    parts: tuple[Part, ...]
    final: bool
    mass: int = 1
    flagged: bool = False


@dataclass(frozen=True, eq=False)
class Round:
    """A question and the noisy sums of all shards that were opened, added up. Public.

    Args:
        question: What was asked.
        totals: The sum of all opened shards, ``question.length`` integers.
        delivered: How many people of each opened shard delivered their vector.

    Raises:
        InvalidInput: The sums do not fit the question.
        PromiseBroken: A sum is over fewer people than the threshold.
    """

    question: Question
    totals: Integers
    delivered: tuple[int, ...]

    def __post_init__(self) -> None:
        cohort = self.question.cohort
        if self.totals.shape != (self.question.length,):
            raise InvalidInput(
                f"A round has sums of shape {self.totals.shape}; the question needs {self.question.length} numbers."
            )
        if not 1 <= len(self.delivered) <= cohort.shards:
            raise InvalidInput(f"A round has {len(self.delivered)} shards; expected 1 to {cohort.shards}.")
        if not all(cohort.threshold <= count <= cohort.shard for count in self.delivered):
            raise PromiseBroken(
                f"A sum is of {min(self.delivered)} to {max(self.delivered)} people; expected {cohort.threshold} to "
                f"{cohort.shard}, the size of a shard, so it must not be used."
            )

    @property
    def people(self) -> int:
        """How many people's vectors are in the sums."""
        return sum(self.delivered)

    def values(self, part: int = 0) -> Floats:
        """Sums of one part in people; with a flag, two columns: without and with it.

        Args:
            part: Which part of the question, from 0.
        """
        start = sum(self.question.lengths[:part])
        found = self.totals[start : start + self.question.lengths[part]] / self.question.mass
        return found.reshape(-1, 2) if self.question.flagged else found

    def counts(self, part: int = 0) -> Floats:
        """Sums of one part in people, with and without the flag together.

        Args:
            part: Which part of the question, from 0.
        """
        values = self.values(part)
        return np.asarray(values.sum(axis=1)) if self.question.flagged else values

    def deviation(self, part: int = 0) -> float:
        """Standard deviation of the noise of each number of :meth:`values`, in people.

        Args:
            part: Which part of the question, from 0.
        """
        shape = float(self.people * self.question.cohort.shape)
        return math.sqrt(shape) * share_deviation(self.question.scales[part]) / self.question.mass

    def density(self, part: int = 0) -> TreeDensity:
        """The map of these sums alone: negative sums count as 0, and the density is even within each region.

        Args:
            part: Which part of the question, from 0.

        Raises:
            InvalidInput: The part does not ask about regions.
        """
        return partition_of(self, part).density(self.counts(part))

    @functools.cached_property
    def event(self) -> Event:
        """The privacy event of one person's data, in the shard of which the fewest people delivered."""
        return self.question.event(min(self.delivered))


class Questioner(Protocol):
    """A mechanism of a survey. It holds parameters only; what it asks next depends on nothing but noisy sums."""

    @property
    def grid(self) -> Grid:
        """The public grid."""

    @property
    def epsilon(self) -> Fraction:
        """What all rounds together cost one person."""

    @property
    def disjoint(self) -> bool:
        """Whether no person is asked in more than one round. A person then pays for one round only."""

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> NextQuestion | None:
        """The next question in view of the rounds so far, or None when nothing is left to ask.

        Args:
            cohort: The people who will be asked.
            rounds: The rounds so far.

        Returns:
            The next question, or None when nothing is left to ask.
        """

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:
        """The map that follows from all rounds together.

        Args:
            rounds: All rounds of the survey.
            draws: How many maps to draw for error bars; 0 for none.
        """

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""


def public_parameters(mechanism: Any) -> dict[str, Any]:
    """All fields of a mechanism but its grid, as plain values for the release's provenance."""
    values = {field.name: getattr(mechanism, field.name) for field in fields(mechanism) if field.name != "grid"}
    plain = {name: value.to_dict() for name, value in values.items() if isinstance(value, Partition)}
    return values | plain | {"epsilon": str(mechanism.epsilon)}


# ── checks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_level(grid: Grid, level: int | None, coarsest: int = 1) -> int:
    """The finest level to ask about; the level of the grid's cells if None.

    Args:
        grid: The public grid.
        level: What the caller gave.
        coarsest: The coarsest level that is allowed.

    Raises:
        InvalidInput: The grid has no such level.
    """
    if level is None:
        return grid.depth
    return whole(level, "level", "a level of this grid", least=coarsest, most=grid.depth)


def check_length(length: int) -> None:
    """Refuse questions that ask a device for too many integers.

    Args:
        length: How many integers a device would send.

    Raises:
        TooLarge: More than 2^21.
    """
    if length > LONGEST:
        raise TooLarge(
            f"Every device would send {length} integers, and {LONGEST} is the most; give a coarser level, or use "
            "AdaptiveQuadtree, which asks for detail where many people are."
        )


def partition_of(found: Round, part: int = 0) -> Partition:
    """The regions that a round asked about.

    Args:
        found: The round.
        part: Which part of its question, from 0.

    Raises:
        InvalidInput: The round asked about something else.
    """
    encoding = found.question.parts[part].encoding
    if not isinstance(encoding, Regions):
        raise InvalidInput(f"The round has a {type(encoding).__name__} and no regions; use AdaptiveQuadtree.")
    return encoding.partition


# ── budgets and maps ────────────────────────────────────────────────────────────────────────────────────────────────


def divide_budget(epsilon: Fraction, weights: Sequence[float]) -> list[Fraction]:
    """Divide a budget in proportion to weights: millionths, rounded down, and the rest to the last.

    Args:
        epsilon: The budget.
        weights: One positive weight for each part.

    Returns:
        The parts, which add up to the budget exactly.

    Raises:
        InvalidInput: A part would be smaller than the smallest ε.

    >>> [str(part) for part in divide_budget(Fraction(1), [1, 1, 1])]
    ['333333/1000000', '333333/1000000', '166667/500000']
    """
    total = sum(weights)
    parts = [Fraction(int(float(epsilon) * weight / total * GRAIN), GRAIN) for weight in weights[:-1]]
    parts.append(epsilon - sum(parts, Fraction(0)))
    if min(parts) < SMALLEST_EPSILON:
        raise InvalidInput(
            f"epsilon is {float(epsilon):g} for {len(weights)} levels, which leaves one of them almost nothing; give "
            "a larger epsilon or a coarser level."
        )
    return parts


def descend(
    grid: Grid,
    level: int,
    counts: Callable[[int, Integers], Floats],
    deviation: Callable[[int], float],
    split_above: float,
) -> TreeDensity:
    """The map of noisy levels: a square is replaced by its quarters where it holds enough people for their noise.

    Enough means more than ``split_above`` standard deviations of the noise of its quarters: the rule of
    AdaptiveQuadtree (errata E3-7), applied to numbers that are private already. The density is even within each square
    that is left; negative counts count as 0.

    Args:
        grid: The public grid.
        level: The finest level that was asked about.
        counts: A function of a level and codes of squares there, which gives the noisy people in each of them.
        deviation: A function of a level, which gives the standard deviation of that noise.
        split_above: How many standard deviations are enough.
    """
    if level == 0:  # a grid of one cell
        return TreeDensity.from_mass(grid, [0], [0], [1.0])
    levels, codes, values = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)], [np.zeros(1)]
    here: Integers = np.zeros(1, dtype=np.int64)
    for deeper in range(1, level + 1):
        born = children(here)
        born = np.sort(born[exists(grid, deeper, born)])
        found = counts(deeper, born)
        levels.append(np.full(len(born), deeper))
        codes.append(born)
        values.append(found)
        if deeper == level:
            break
        here = born[found > split_above * deviation(deeper + 1)]
        if not len(here):
            break
    partition = Partition(grid, np.concatenate(levels), np.concatenate(codes))
    # A square whose quarters are all there is no region, so only the last squares reached count.
    return partition.density(np.concatenate(values)[partition.regions])


def at_most_dense(density: TreeDensity) -> Density | TreeDensity:
    """One number for each cell if the grid is small enough, the tree otherwise."""
    return density if density.grid.cells > MAX_DENSE_CELLS else density.dense()


def people_in(total: float, people: int) -> float:
    """A noisy number of people, clipped to 1 … the number who delivered."""
    return float(np.clip(total, 1.0, people))
