"""The paper's other algorithms: the steps of table 3, and the adaptive grid as section 6.2 has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.distributed import AdaptiveGrid, AdaptiveQuadtree, Cohort, Round
from heathaze.distributed.encodings import Mesh, Regions
from heathaze.distributed.mechanism import NextQuestion
from heathaze.distributed.question import Part

PAPER: dict[str, Any] = {"split_above": 2.0, "early_noise": 0.1, "reserve": 2.0}
"""The paper's setting of AdaptiveQuadtree: split above two deviations of the noise, c = 0.1."""

THRESHOLD = 10.0
"""T: a region of more people is split, one of at most a quarter of them is given back."""


class FixedThreshold(AdaptiveQuadtree):
    """Scheduled ε, non-adaptive: the budgets of the algorithm, and T = 10 whatever the noise."""

    def _limits(self, cohort: Cohort, left: Fraction) -> tuple[float, float]:  # noqa: ARG002
        return THRESHOLD, THRESHOLD / 4


class FixedBudget(FixedThreshold):
    """Fixed ε, non-adaptive: a round for each level of the quadtree, an equal part of ε for each, and T = 10."""

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> NextQuestion | None:
        if len(rounds) == self.grid.depth:
            return None
        each = self.epsilon / self.grid.depth
        partition = self._next(rounds[-1], cohort, each) if rounds else self._first()
        return NextQuestion((Part(Regions(partition), each),), len(rounds) + 1 == self.grid.depth, self.mass)


class PrintedGrid(AdaptiveGrid):
    """n = √(N'(1 − α)ε/c2) rounded down, whatever the number of shards: as the integers in table 1 show."""

    def _cut(self, found: Round, cohort: Cohort, epsilon: Fraction) -> Mesh:
        counts = np.maximum(found.counts(), 0.0) * (cohort.people / found.people)
        wanted = np.floor(np.sqrt(counts * float(epsilon) / self.people_a_piece))
        before = found.question.parts[0].encoding
        assert isinstance(before, Mesh)
        largest = math.ceil(max(self.grid.shape) / self.blocks)
        return Mesh(self.grid, before.rows, before.cols, np.clip(wanted, 1, largest).astype(np.int64))
