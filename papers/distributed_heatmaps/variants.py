"""Variants of the mechanisms for the paper's tables: the steps of table 3, and the adaptive grid as printed."""

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

PAPER: dict[str, Any] = {
    "split_above": 2.0, "early_noise": 0.1, "reserve": 2.0, "levels_at_once": 1, "first_share": 0,
}  # fmt: skip
"""The paper's setting of AdaptiveQuadtree: split above two standard deviations of the noise, with c = 0.1.

The first round asks about the quarters of the map, and a region is split into its quarters.
"""

THRESHOLD = 10.0
"""The threshold T: a region of more people is split, and a region of at most T/4 people is merged."""


class FixedThreshold(AdaptiveQuadtree):
    """The survey "scheduled ε, T = 10" of table 3: the scheduled budgets, with a threshold that ignores the noise."""

    def _limits(self, cohort: Cohort, left: Fraction) -> tuple[float, float]:  # noqa: ARG002
        return THRESHOLD, THRESHOLD / 4


class FixedBudget(FixedThreshold):
    """The survey "fixed ε, T = 10" of table 3: one round per level of the quadtree, each with an equal part of ε."""

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> NextQuestion | None:
        if len(rounds) == self.grid.depth:
            return None
        each = self.epsilon / self.grid.depth
        partition = self._next(rounds[-1], cohort, each) if rounds else self._first(cohort)
        return NextQuestion((Part(Regions(partition), each),), len(rounds) + 1 == self.grid.depth, self.mass)


class PrintedGrid(AdaptiveGrid):
    """The adaptive grid as printed: n = √(N'(1 − α)ε/c2) rounded down, without regard to the number of shards.

    The integers in the paper's table 1 show that n is rounded down.
    """

    def _cut(self, found: Round, cohort: Cohort, epsilon: Fraction) -> Mesh:
        counts = np.maximum(found.counts(), 0.0) * (cohort.people / found.people)
        wanted = np.floor(np.sqrt(counts * float(epsilon) / self.people_a_piece))
        before = found.question.parts[0].encoding
        assert isinstance(before, Mesh)
        largest = math.ceil(max(self.grid.shape) / self.blocks)
        return Mesh(self.grid, before.rows, before.cols, np.clip(wanted, 1, largest).astype(np.int64))
