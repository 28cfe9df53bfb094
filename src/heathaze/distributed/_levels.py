"""What mechanisms share that ask about whole levels of the quadtree: their checks, their budgets, and the descent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Squares
from heathaze.distributed.question import LARGEST_MASS, LONGEST, Part
from heathaze.distributed.survey import Inquiry, Round
from heathaze.domain.density import MAX_DENSE_CELLS, Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.domain.quadtree import children, exists
from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy.loss import SMALLEST_EPSILON, Number, parse_epsilon
from heathaze.types import Floats, Integers

GRAIN = 10**6
"""Budgets of levels are multiples of a millionth, rounded down: exact, and short in files."""


def check_mass(mass: int) -> None:
    """The integer mass of one person."""
    if type(mass) is not int or not 1 <= mass <= LARGEST_MASS:
        raise InvalidInput(f"mass is {mass!r}; give a whole number from 1 to 2^30.")


def check_positive(name: str, value: float) -> None:
    """A number above 0 and finite."""
    if not 0 < value < float("inf"):
        raise InvalidInput(f"{name} is {value}; give a number above 0.")


def check_level(grid: Grid, level: int | None, coarsest: int = 1) -> int:
    """The finest level to ask about: the grid's own unless given."""
    if level is None:
        return grid.depth
    if type(level) is not int or not coarsest <= level <= grid.depth:
        raise InvalidInput(f"level is {level!r}; this grid has levels {coarsest} to {grid.depth}.")
    return level


def check_length(length: int) -> None:
    """How many integers a device would have to send."""
    if length > LONGEST:
        raise TooLarge(
            f"Every device would send {length} integers, and {LONGEST} is the most; give a coarser level, or use "
            "AdaptiveQuadtree, which asks about crowded places alone."
        )


def shared(epsilon: Fraction, weights: Sequence[float]) -> list[Fraction]:
    """A budget divided in proportion to weights: millionths, rounded down, and the rest to the last.

    >>> [str(part) for part in shared(Fraction(1), [1, 1, 1])]
    ['333333/1000000', '333333/1000000', '166667/500000']
    """
    total = sum(weights)
    parts = [Fraction(int(float(epsilon) * weight / total * GRAIN), GRAIN) for weight in weights[:-1]]
    parts.append(epsilon - sum(parts, Fraction(0)))
    if min(parts) < SMALLEST_EPSILON:
        raise InvalidInput(
            f"epsilon is {float(epsilon):g} for {len(weights)} levels, which leaves one of them next to nothing; give "
            "a larger epsilon or a coarser level."
        )
    return parts


def descend(
    grid: Grid,
    level: int,
    told: Callable[[int, Integers], Floats],
    deviation: Callable[[int], float],
    crowded: float,
) -> TreeDensity:
    """The map of noisy levels: a square is replaced by its quarters where it holds enough people for them.

    Enough is ``crowded`` standard deviations of the noise of its quarters: the rule of AdaptiveQuadtree (errata E3-7),
    applied to numbers that are private already. Squares that are left are flat; negative ones count as nothing.

    Args:
        grid: The public frame.
        level: The finest level that was asked about.
        told: Noisy people in squares of a level, by their codes.
        deviation: Standard deviation of that noise.
        crowded: How many of them.
    """
    if level == 0:  # a grid of one cell
        return TreeDensity.from_mass(grid, [0], [0], [1.0])
    levels, codes, values = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)], [np.zeros(1)]
    here: Integers = np.zeros(1, dtype=np.int64)
    for deeper in range(1, level + 1):
        born = children(here)
        born = np.sort(born[exists(grid, deeper, born)])
        found = told(deeper, born)
        levels.append(np.full(len(born), deeper))
        codes.append(born)
        values.append(found)
        if deeper == level:
            break
        here = born[found > crowded * deviation(deeper + 1)]
        if not len(here):
            break
    partition = Partition(grid, np.concatenate(levels), np.concatenate(codes))
    # A square whose quarters are there stands for nothing, so only the last ones met are regions.
    return partition.density(np.concatenate(values)[partition.regions])


def at_most_dense(density: TreeDensity) -> Density | TreeDensity:
    """One number a cell where that fits."""
    return density if density.grid.cells > MAX_DENSE_CELLS else density.dense()


def people_in(total: float, people: int) -> float:
    """A noisy number of people, within what is known without noise."""
    return float(np.clip(total, 1.0, people))


# TODO-merged from distributed._every_level: What mechanisms share that ask about every level of the quadtree in one round.


@dataclass(frozen=True, eq=False)
class EveryLevel:
    """Parameters, budgets and the only question; how the levels are read is each mechanism's own."""

    grid: Grid
    epsilon: Fraction
    level: int | None = None
    crowded: float = 8.0
    mass: int = 1

    disjoint: ClassVar[bool] = False
    ratio: ClassVar[float]
    """Each level gets so many times the budget of the one above."""

    if TYPE_CHECKING:

        def __init__(
            self, grid: Grid, epsilon: Number, level: int | None = None, crowded: float = 8.0, mass: int = 1
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_mass(self.mass)
        check_positive("crowded", self.crowded)
        check_length(sum(squares.length for squares in self._levels))
        self._budgets()

    @property
    def _levels(self) -> list[Squares]:
        """All levels but the root, which is only the total; of a single cell, just that."""
        finest = check_level(self.grid, self.level)
        return [Squares(self.grid, level) for level in range(min(1, finest), finest + 1)]

    def _budgets(self) -> list[Fraction]:
        return shared(self.epsilon, [self.ratio**place for place in range(len(self._levels))])

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> Inquiry | None:  # noqa: ARG002
        """All levels at once."""
        if rounds:
            return None
        parts = zip(self._levels, self._budgets(), strict=True)
        return Inquiry(tuple(Part(squares, epsilon) for squares, epsilon in parts), True, self.mass)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return {"epsilon": str(self.epsilon), "level": self.level, "crowded": self.crowded, "mass": self.mass}
