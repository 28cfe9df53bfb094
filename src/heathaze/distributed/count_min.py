"""CountMin: the levels of Hierarchical in sketches, for maps with more squares than people (section 5.1)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.distributed._levels import (
    at_most_dense,
    check_length,
    check_level,
    check_mass,
    check_positive,
    descend,
    people_in,
)
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Sketch
from heathaze.distributed.question import Part
from heathaze.distributed.survey import Inquiry, Round
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.inference.estimate import Estimate
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.randomness import Simulation
from heathaze.types import Floats, Integers


@dataclass(frozen=True, eq=False)
class CountMin:
    """One round: a sketch of every level of the quadtree; see ``count_min.md``.

    Args:
        grid: The public frame.
        epsilon: What all sketches together cost one person.
        width: Entries of each row of a sketch.
        depth: Rows of each sketch. A place touches one entry in each, so noise grows with them.
        level: The finest level; that of the cells unless given.
        crowded: A square is replaced by its quarters if it holds more than so many standard deviations of their noise;
            at 8, each holds two on average.
        least: Take the smallest number of a square's rows, as one does without noise; else their mean, less what other
            squares put there on average.
        seed: Which hash functions: public, and chosen before any data is seen.
        mass: Integer mass of one person, split over their places; 1 if each has one place.
    """

    grid: Grid
    epsilon: Fraction
    width: int = 2000
    depth: int = 20
    level: int | None = None
    crowded: float = 8.0
    least: bool = False
    seed: int = 0
    mass: int = 1

    disjoint = False

    if TYPE_CHECKING:

        def __init__(
            self,
            grid: Grid,
            epsilon: Number,
            width: int = 2000,
            depth: int = 20,
            level: int | None = None,
            crowded: float = 8.0,
            least: bool = False,
            seed: int = 0,
            mass: int = 1,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_mass(self.mass)
        check_positive("crowded", self.crowded)
        for name, smallest in (("width", 2), ("depth", 1), ("seed", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < smallest:
                raise InvalidInput(f"{name} is {value!r}; give a whole number, {smallest} or larger.")
        check_length(self.width * self.depth * len(self._levels))
        self.sketch  # noqa: B018 - looks at its own limits

    @property
    def _levels(self) -> tuple[int, ...]:
        finest = check_level(self.grid, self.level)
        return tuple(range(min(1, finest), finest + 1))

    @functools.cached_property
    def sketch(self) -> Sketch:
        """What devices are asked for. Its keys are constants that travel in the question, not secrets."""
        words = iter(Simulation(self.seed).words(2 * self.depth * len(self._levels)).tolist())
        keys = tuple(tuple((next(words), next(words)) for _ in range(self.depth)) for _ in self._levels)
        return Sketch(self.grid, self._levels, self.width, keys)

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> Inquiry | None:  # noqa: ARG002
        """All sketches at once: one part, whose sensitivity is depth × levels."""
        return None if rounds else Inquiry((Part(self.sketch, self.epsilon),), True, self.mass)

    def told(self, totals: Floats, level: int, codes: Integers) -> Floats:
        """People in squares of a level, by their codes."""
        rows = totals[self.sketch.named(level, codes)]
        if self.least:
            return np.asarray(rows.min(axis=1))
        # An entry holds the square's own people and 1/width of all others: E[v] = x + (n − x)/width.
        first = self._levels.index(level) * self.depth * self.width
        everyone = totals[first : first + self.depth * self.width].sum() / self.depth
        return np.asarray((rows.mean(axis=1) - everyone / self.width) / (1 - 1 / self.width))

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:  # noqa: ARG002
        """From the quarters of the map downwards, as far as noise and collisions allow."""
        told = rounds[-1]
        totals = told.counts()
        density = descend(
            self.grid,
            self._levels[-1],
            lambda level, codes: self.told(totals, level, codes),
            lambda _: self.deviation(told),
            self.crowded,
        )
        return Estimate(at_most_dense(density), people_in(totals.sum() / self.sketch.touched, told.people))

    def deviation(self, told: Round) -> float:
        """Standard deviation of a square's number: noise, and the chance of who else is hashed to its entries."""
        # Everyone else falls into an entry with probability 1/width, each alone if squares are small.
        chance = told.people / self.width
        rows = 1 if self.least else self.depth
        return math.sqrt((told.deviation() ** 2 + chance) / rows)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return {
            "epsilon": str(self.epsilon),
            "width": self.width,
            "depth": self.depth,
            "level": self.level,
            "crowded": self.crowded,
            "least": self.least,
            "seed": self.seed,
            "mass": self.mass,
        }
