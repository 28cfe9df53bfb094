"""Common parts of all survey mechanisms: their protocol, the rounds that they see, and helpers for budgets and maps.

A mechanism (:class:`Questioner`) chooses the next question from the rounds so far, and makes a map from all rounds. A
:class:`Round` is a question together with the noisy sums that answer it.
"""

from __future__ import annotations

import functools
import hashlib
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
"""Budgets are rounded down to multiples of 1/GRAIN, so that they are exact fractions and short in files."""


@dataclass(frozen=True, eq=False)
class NextQuestion:
    """The next question of a mechanism. The survey turns it into a :class:`~heathaze.distributed.Question`.

    Args:
        parts: The parts of the question: encodings, and the budget of each.
        final: Whether this is the last round.
        mass: Integer weight of one person.
        flagged: Whether every entry exists twice, for people without and with the flag.
    """

    parts: tuple[Part, ...]
    final: bool
    mass: int = 1
    flagged: bool = False


@dataclass(frozen=True, eq=False)
class Round:
    """One round of a survey: a question, and the noisy sum over all opened shards. Public.

    Args:
        question: What was asked.
        totals: The sum of all opened shards, ``question.length`` integers.
        delivered: How many people of each opened shard delivered their vector.

    Raises:
        InvalidInput: The sums do not fit the question.
        PromiseBroken: Fewer people than the threshold delivered in some shard.

    >>> from heathaze.distributed.encodings import Squares
    >>> grid = Grid.plane(x=(0, 4), y=(0, 4), size=4)
    >>> question = Question("0" * 32, 1, (Part(Squares(grid, 1), 1),), Cohort(people=10))
    >>> answered = Round(question, totals=np.array([7, 3, -1, 0]), delivered=(9,))
    >>> answered.people, answered.values().tolist()
    (9, [7.0, 3.0, -1.0, 0.0])
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
        """The noisy sums of one part, in people; with a flag, two columns: people without it and people with it.

        Args:
            part: Index of the part of the question, from 0.
        """
        start = sum(self.question.lengths[:part])
        found = self.totals[start : start + self.question.lengths[part]] / self.question.mass
        return found.reshape(-1, 2) if self.question.flagged else found

    def counts(self, part: int = 0) -> Floats:
        """The noisy sums of one part, in people; with a flag, people without it and with it are added.

        Args:
            part: Index of the part of the question, from 0.
        """
        values = self.values(part)
        return np.asarray(values.sum(axis=1)) if self.question.flagged else values

    def deviation(self, part: int = 0) -> float:
        """Standard deviation of the noise of each number of :meth:`values`, in people.

        Args:
            part: Index of the part of the question, from 0.
        """
        shape = float(self.people * self.question.cohort.shape)
        return math.sqrt(shape) * share_deviation(self.question.scales[part]) / self.question.mass

    def density(self, part: int = 0) -> TreeDensity:
        """The map of only this round: negative sums become 0, and the density is constant within each region.

        Args:
            part: Index of the part of the question, from 0.

        Raises:
            InvalidInput: The part does not ask about regions.
        """
        return partition_of(self, part).density(self.counts(part))

    @functools.cached_property
    def event(self) -> Event:
        """The privacy event of one person in this round, for the shard in which the fewest people delivered."""
        return self.question.event(min(self.delivered))


class Questioner(Protocol):
    """A mechanism of a survey. It holds only parameters, and its next question depends only on noisy sums."""

    @property
    def grid(self) -> Grid:
        """The public grid."""

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of one person over all rounds."""

    @property
    def disjoint(self) -> bool:
        """Whether no person is asked in more than one round. A person then pays for one round only."""

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> NextQuestion | None:
        """Choose the next question from the rounds so far.

        Args:
            cohort: The people who will be asked.
            rounds: The rounds that were answered so far.

        Returns:
            The next question, or None when the survey is complete.
        """

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:
        """Estimate the map from all rounds of the survey.

        Args:
            rounds: All rounds of the survey.
            draws: How many maps to draw for error bars; 0 for none.
        """

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""


def public_parameters(mechanism: Any) -> dict[str, Any]:
    """The fields of a survey mechanism except its grid, as plain values for the release's provenance."""
    values = {field.name: getattr(mechanism, field.name) for field in fields(mechanism) if field.name != "grid"}
    plain: dict[str, Any] = {name: value.to_dict() for name, value in values.items() if isinstance(value, Partition)}
    # A map is named by its hash, because a release should not contain another map.
    plain |= {
        name: hashlib.sha256(value.values.tobytes()).hexdigest()
        for name, value in values.items()
        if isinstance(value, Density)
    }
    return values | plain | {"epsilon": str(mechanism.epsilon)}


# ── checks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_level(grid: Grid, level: int | None, coarsest: int = 1) -> int:
    """Check the finest quadtree level of a survey mechanism; None stands for the level of the grid's cells.

    Args:
        grid: The public grid.
        level: The level that the caller gave, or None.
        coarsest: The coarsest level that is allowed.

    Raises:
        InvalidInput: The grid has no such level.
    """
    if level is None:
        return grid.depth
    return whole(level, "level", "a level of this grid", least=coarsest, most=grid.depth)


def check_length(length: int) -> None:
    """Refuse survey mechanisms that ask a device for too many integers.

    Args:
        length: The number of integers that a device would send.

    Raises:
        TooLarge: A device would send more than 2^21 integers.
    """
    if length > LONGEST:
        raise TooLarge(
            f"Every device would send {length} integers, and {LONGEST} is the most; give a coarser level, or use "
            "AdaptiveQuadtree, which asks for detail where many people are."
        )


def partition_of(found: Round, part: int = 0) -> Partition:
    """The partition of regions that a round of a survey asked about.

    Args:
        found: The round.
        part: Index of the part of its question, from 0.

    Raises:
        InvalidInput: The round did not ask about regions.
    """
    encoding = found.question.parts[part].encoding
    if not isinstance(encoding, Regions):
        raise InvalidInput(f"The round has a {type(encoding).__name__} and no regions; use AdaptiveQuadtree.")
    return encoding.partition


# ── budgets and maps ────────────────────────────────────────────────────────────────────────────────────────────────


def divide_budget(epsilon: Fraction, weights: Sequence[float]) -> list[Fraction]:
    """Divide the budget of a survey among its parts in proportion to weights.

    Each part is rounded down to whole millionths, and the last part gets the remaining budget.

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
    """Make a map from noisy counts of quadtree levels: a square with enough people is replaced by its quarters.

    A square has enough people if its count exceeds ``split_above`` standard deviations of the noise of its quarters.
    This is the rule of AdaptiveQuadtree (errata E3-7). The counts are already private, so the division is
    post-processing. The density is constant within each square that is not replaced, and negative counts become 0.

    Args:
        grid: The public grid.
        level: The finest level that was asked about.
        counts: A function that takes a level and codes of its squares, and returns the noisy count of each square.
        deviation: A function that takes a level, and returns the standard deviation of the noise of its counts.
        split_above: The number of standard deviations above which a square is replaced.
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
    # A square that is fully covered by its quarters is no region, so only undivided squares count.
    return partition.density(np.concatenate(values)[partition.regions])


def at_most_dense(density: TreeDensity) -> Density | TreeDensity:
    """The map with one number for each cell if the grid is small enough, and as a tree otherwise."""
    return density if density.grid.cells > MAX_DENSE_CELLS else density.dense()


def people_in(total: float, people: int) -> float:
    """Clip a noisy total of people to the range from 1 to the number of people who delivered."""
    return float(np.clip(total, 1.0, people))
