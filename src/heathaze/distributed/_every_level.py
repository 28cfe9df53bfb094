"""What mechanisms share that ask about every level of the quadtree in one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from heathaze.distributed._levels import check_length, check_level, check_mass, check_positive, shared
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Squares
from heathaze.distributed.question import Part
from heathaze.distributed.survey import Inquiry, Round
from heathaze.domain.grid import Grid
from heathaze.privacy.loss import Number, parse_epsilon


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
