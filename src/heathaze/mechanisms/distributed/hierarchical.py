"""Hierarchical: one count for every square of every level, and the server takes what the noise allows (section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from heathaze.domain.grid import Grid
from heathaze.mechanisms.distributed._levels import (
    at_most_dense,
    check_length,
    check_level,
    check_mass,
    check_positive,
    descend,
    people_in,
    shared,
)
from heathaze.mechanisms.distributed.cohort import Cohort
from heathaze.mechanisms.distributed.encodings import Squares
from heathaze.mechanisms.distributed.question import Part
from heathaze.mechanisms.distributed.survey import Inquiry, Round
from heathaze.mechanisms.protocols import Estimate
from heathaze.privacy.loss import Number, parse_epsilon


@dataclass(frozen=True, eq=False)
class Hierarchical:
    """One round: every level of the quadtree, each for an equal part of ε; see ``hierarchical.md``.

    Args:
        grid: The public frame.
        epsilon: What all levels together cost one person.
        level: The finest level; that of the cells unless given.
        crowded: A square is replaced by its quarters if it holds more than so many standard deviations of their noise;
            at 8, each holds two on average.
        mass: Integer mass of one person, split over their places; 1 if each has one place.
    """

    grid: Grid
    epsilon: Fraction
    level: int | None = None
    crowded: float = 8.0
    mass: int = 1

    disjoint = False

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
        return shared(self.epsilon, [1.0] * len(self._levels))

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> Inquiry | None:  # noqa: ARG002
        """All levels at once."""
        if rounds:
            return None
        parts = zip(self._levels, self._budgets(), strict=True)
        return Inquiry(tuple(Part(squares, epsilon) for squares, epsilon in parts), True, self.mass)

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:  # noqa: ARG002
        """From the quarters of the map downwards, as far as the noise allows."""
        levels, told = self._levels, rounds[-1]
        counts = [told.counts(part) for part in range(len(levels))]
        density = descend(
            self.grid,
            levels[-1].level,
            lambda level, codes: counts[level - 1][levels[level - 1].named(codes)],
            lambda level: told.deviation(level - 1),
            self.crowded,
        )
        return Estimate(at_most_dense(density), people_in(counts[0].sum(), told.people))

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return {"epsilon": str(self.epsilon), "level": self.level, "crowded": self.crowded, "mass": self.mass}
