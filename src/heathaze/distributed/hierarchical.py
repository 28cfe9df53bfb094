"""Hierarchical: one count for every square of every level, and the server takes what the noise allows (section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heathaze.distributed._levels import EveryLevel, at_most_dense, descend, people_in
from heathaze.distributed.survey import Round
from heathaze.inference.estimate import Estimate


@dataclass(frozen=True, eq=False, init=False)
class Hierarchical(EveryLevel):
    """One round: every level of the quadtree, each for an equal part of ε; see ``hierarchical.md``.

    Args:
        grid: The public frame.
        epsilon: What all levels together cost one person.
        level: The finest level; that of the cells unless given.
        crowded: A square is replaced by its quarters if it holds more than so many standard deviations of their noise;
            at 8, each holds two on average.
        mass: Integer mass of one person, split over their places; 1 if each has one place.
    """

    ratio = 1.0

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
