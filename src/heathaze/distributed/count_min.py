"""CountMin: ask for count-min sketches of quadtree levels, for maps with more squares than people (section 5.1)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from heathaze.checks import assign, positive, whole
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Sketch
from heathaze.distributed.mechanism import (
    NextQuestion,
    Round,
    at_most_dense,
    check_length,
    check_level,
    descend,
    people_in,
    public_parameters,
)
from heathaze.distributed.question import Part, check_mass
from heathaze.domain.grid import Grid
from heathaze.inference.estimate import Estimate
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.randomness import Simulation
from heathaze.types import Floats, Integers


@dataclass(frozen=True, eq=False, init=False)
class CountMin:
    """Ask for a count-min sketch of every level of the quadtree, in one round; see ``count_min.md``.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one person over all sketches.
        width: Number of entries of each row of a sketch, 2 to 2^20.
        depth: Number of rows of each sketch, 1 or more. A place touches one entry in each row, so noise grows with
            depth.
        level: The finest level; the level of the cells if left out.
        split_above: A square is replaced by its quarters if its count exceeds this many standard deviations of the
            quarters' noise. At 8, the quarters have counts above two standard deviations on average.
        least: Whether to take the smallest entry of a square over all rows, which is best without noise. If False, the
            mean of the entries is taken, minus the average contribution of other squares.
        seed: Chooses the hash functions. It is public and chosen before any data is seen.
        mass: Integer weight of one person, 1 to 2^30, divided over their places; 1 if each person has one place.

    Raises:
        InvalidInput: An argument is out of range.
        TooLarge: A device would have to send more than 2^21 integers.

    >>> CountMin(Grid.plane(x=(0, 1), y=(0, 1), size=8), epsilon=1, width=16, depth=2).sketch.length
    96
    """

    grid: Grid
    epsilon: Fraction
    width: int = 2000
    depth: int = 20
    level: int | None = None
    split_above: float = 8.0
    least: bool = False
    seed: int = 0
    mass: int = 1

    disjoint: ClassVar[bool] = False

    def __init__(
        self,
        grid: Grid,
        epsilon: Number,
        width: int = 2000,
        depth: int = 20,
        level: int | None = None,
        split_above: float = 8.0,
        least: bool = False,
        seed: int = 0,
        mass: int = 1,
    ) -> None:
        assign(
            self,
            grid=grid,
            epsilon=parse_epsilon(epsilon),
            width=whole(width, "width", "entries of a row", least=2),
            depth=whole(depth, "depth", "rows of a sketch"),
            level=level,
            split_above=positive(split_above, "split_above", "how many standard deviations split a square"),
            least=least,
            seed=whole(seed, "seed", least=0),
            mass=check_mass(mass),
        )
        check_length(self.width * self.depth * len(self._levels))
        self.sketch  # noqa: B018 - the constructor of Sketch checks its limits

    @property
    def _levels(self) -> tuple[int, ...]:
        finest = check_level(self.grid, self.level)
        return tuple(range(min(1, finest), finest + 1))

    @functools.cached_property
    def sketch(self) -> Sketch:
        """The sketch that devices are asked for. Its hash keys are public constants that are sent in the question."""
        words = iter(Simulation(self.seed).words(2 * self.depth * len(self._levels)).tolist())
        keys = tuple(tuple((next(words), next(words)) for _ in range(self.depth)) for _ in self._levels)
        return Sketch(self.grid, self._levels, self.width, keys)

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> NextQuestion | None:  # noqa: ARG002
        """Ask for the sketches of all levels in one round; the sensitivity is mass × depth × levels.

        Args:
            cohort: The people who will be asked.
            rounds: The rounds that were answered so far.

        Returns:
            The next question, or None when the survey is complete.
        """
        return None if rounds else NextQuestion((Part(self.sketch, self.epsilon),), True, self.mass)

    def counts(self, totals: Floats, level: int, codes: Integers) -> Floats:
        """Read the sketches: the noisy number of people in squares of one level.

        Args:
            totals: All entries of the sketches, in people.
            level: The level of the squares.
            codes: Codes of the squares.

        Returns:
            One number of people for each square; noise and hash collisions make it inexact.
        """
        rows = totals[self.sketch.named(level, codes)]
        if self.least:
            return np.asarray(rows.min(axis=1))
        # An entry v counts the x people of the square and 1/width of the others: E[v] = x + (n − x)/width for n people.
        first = self._levels.index(level) * self.depth * self.width
        everyone = totals[first : first + self.depth * self.width].sum() / self.depth
        return np.asarray((rows.mean(axis=1) - everyone / self.width) / (1 - 1 / self.width))

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:  # noqa: ARG002
        """The map from the count–min sketches: squares are divided as far as noise and hash collisions allow.

        Args:
            rounds: All rounds of the survey.
            draws: Not used; this mechanism draws no maps.
        """
        last = rounds[-1]
        totals = last.counts()
        density = descend(
            self.grid,
            self._levels[-1],
            lambda level, codes: self.counts(totals, level, codes),
            lambda _: self.deviation(last),
            self.split_above,
        )
        return Estimate(at_most_dense(density), people_in(totals.sum() / self.sketch.touched, last.people))

    def deviation(self, found: Round) -> float:
        """Standard deviation of the estimated people in a square, from noise and from hash collisions.

        Args:
            found: The round that was answered.
        """
        # Every other person falls into a given entry with probability 1/width, nearly independently if squares are
        # small.
        chance = found.people / self.width
        rows = 1 if self.least else self.depth
        return math.sqrt((found.deviation() ** 2 + chance) / rows)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return public_parameters(self)
