"""Flat: one count for every square of one level. The baseline everybody knows (section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.distributed._levels import at_most_dense, check_length, check_level, check_mass, people_in
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Squares
from heathaze.distributed.question import Part
from heathaze.distributed.survey import Inquiry, Round
from heathaze.domain.density import TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import interleave
from heathaze.inference.estimate import Estimate
from heathaze.privacy.loss import Number, parse_epsilon


@dataclass(frozen=True, eq=False)
class Flat:
    """One round: how many people each square of a level holds; see ``flat.md``.

    Args:
        grid: The public frame.
        epsilon: What it costs one person.
        level: Which squares: 2^level a side of the map; the cells themselves unless given.
        mass: Integer mass of one person, split over their places; 1 if each has one place.
    """

    grid: Grid
    epsilon: Fraction
    level: int | None = None
    mass: int = 1

    disjoint = False

    if TYPE_CHECKING:

        def __init__(self, grid: Grid, epsilon: Number, level: int | None = None, mass: int = 1) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_mass(self.mass)
        check_length(self._squares.length)

    @property
    def _squares(self) -> Squares:
        return Squares(self.grid, check_level(self.grid, self.level, coarsest=0))

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> Inquiry | None:  # noqa: ARG002
        """All squares at once, for the whole budget."""
        return None if rounds else Inquiry((Part(self._squares, self.epsilon),), True, self.mass)

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:  # noqa: ARG002
        """Negative squares count as nothing; each is flat."""
        counts, squares = rounds[-1].counts(), self._squares
        row, col = np.divmod(np.arange(squares.length), squares.shape[1])
        density = TreeDensity.from_mass(
            self.grid, np.full(squares.length, squares.level), interleave(row, col), np.maximum(counts, 0.0)
        )
        return Estimate(at_most_dense(density), people_in(counts.sum(), rounds[-1].people))

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return {"epsilon": str(self.epsilon), "level": self.level, "mass": self.mass}
