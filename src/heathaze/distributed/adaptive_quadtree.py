"""AdaptiveQuadtree: ask about regions that are split or merged from round to round (Bagdasaryan et al. 2022)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.checks import assign, positive, whole
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Regions
from heathaze.distributed.mechanism import (
    GRAIN,
    NextQuestion,
    Round,
    at_most_dense,
    partition_of,
    people_in,
    public_parameters,
)
from heathaze.distributed.proportions import people_needed
from heathaze.distributed.question import LONGEST, Part, check_mass
from heathaze.distributed.region_map import NoisyRegions, region_map
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.domain.quadtree import interleave
from heathaze.errors import InvalidInput, expect
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.estimate import Estimate
from heathaze.privacy.loss import SMALLEST_EPSILON, Number, parse_epsilon
from heathaze.privacy.noise import laplace_scale
from heathaze.privacy.noise_shares import epsilon_from_sigma, share_deviation
from heathaze.release.release import Release
from heathaze.types import Integers


@dataclass(frozen=True, eq=False, init=False)
class AdaptiveQuadtree:
    """Ask about regions of a quadtree that are split or merged after every round; see ``adaptive_quadtree.md``.

    Each round asks how many people each region holds. Regions with many people are split into quarters; regions with
    almost no people are merged into the square around them. Early rounds spend a small part of the
    budget to find where people are, and the last round spends the remaining budget.

    Args:
        grid: The public grid; no region is smaller than a cell.
        epsilon: Privacy loss of one person over all rounds.
        mass: Integer weight of one person, 1 to 2^30, divided over their places; 1 if each person has one place, for
            example 10,000 if people have several places.
        start: Regions of the first round; the quarters of the map if left out (see :meth:`starting_from`).
        split_above: A region is split if it holds more people than this many standard deviations of the noise of the
            next round. At 8, each quarter holds two standard deviations of people on average. The paper has 2.
        early_noise: Standard deviation of the noise of an early round, as a share of the people per region. The paper
            has 0.1.
        reserve: A round is the last one if its cost times this number exceeds the remaining budget.
        max_rounds: The largest number of rounds, 1 or more.
        flagged: Also ask for the share of people with a flag (:func:`~heathaze.distributed.proportions`).
        interval: With a flag: split as long as the 90 % interval of the share in each quarter is at most this wide,
            between 0 and 1.
        disjoint: Ask different people in every round. Every round may then spend all of ε.

    Raises:
        InvalidInput: An argument is out of range.

    >>> mechanism = AdaptiveQuadtree(Grid.plane(x=(0, 1), y=(0, 1), size=64), epsilon=1)
    >>> question = mechanism.ask(Cohort(people=10_000), ())
    >>> question.parts[0].encoding.length, question.final
    (4, False)
    """

    grid: Grid
    epsilon: Fraction
    mass: int = 1
    start: Partition | None = None
    split_above: float = 8.0
    early_noise: float = 0.2
    reserve: float = 2.0
    max_rounds: int = 12
    flagged: bool = False
    interval: float | None = None
    disjoint: bool = False

    def __init__(
        self,
        grid: Grid,
        epsilon: Number,
        mass: int = 1,
        start: Partition | None = None,
        split_above: float = 8.0,
        early_noise: float = 0.2,
        reserve: float = 2.0,
        max_rounds: int = 12,
        flagged: bool = False,
        interval: float | None = None,
        disjoint: bool = False,
    ) -> None:
        assign(
            self,
            grid=grid,
            epsilon=parse_epsilon(epsilon),
            mass=check_mass(mass),
            start=start,
            split_above=positive(split_above, "split_above", "how many standard deviations split a region"),
            early_noise=positive(early_noise, "early_noise", "the noise of an early round per person of a region"),
            reserve=positive(reserve, "reserve", "how many times the cost of a round must be left"),
            max_rounds=whole(max_rounds, "max_rounds"),
            flagged=flagged,
            interval=interval,
            disjoint=disjoint,
        )
        if start is not None and start.grid != grid:
            raise InvalidInput("The regions to start with lie on another grid; make both with the same Grid.")
        if interval is not None and not (flagged and 0 < interval < 1):
            raise InvalidInput(f"interval is {interval}; give a width between 0 and 1, together with flagged=True.")

    # ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> NextQuestion | None:
        """Ask the next question: the regions follow from the last round, and the budget from the number of regions.

        Args:
            cohort: The people who will be asked.
            rounds: The rounds that were answered so far.

        Returns:
            The next question, or None when the survey is complete.
        """
        if rounds and rounds[-1].question.final:
            return None
        left = self._left(rounds)
        before = partition_of(rounds[-1]) if rounds else None
        partition = self._first() if before is None else self._next(rounds[-1], cohort, left)
        scheduled = self._schedule(partition, cohort)
        unchanged = before is not None and before == partition
        too_little = self.reserve * float(scheduled) > left or left - scheduled < SMALLEST_EPSILON
        final = unchanged or too_little or len(rounds) + 1 >= self.max_rounds
        part = Part(Regions(partition), left if final or self.disjoint else scheduled)
        return NextQuestion((part,), final, self.mass, self.flagged)

    def starting_from(self, earlier: Density | TreeDensity | Release, cohort: Cohort) -> AdaptiveQuadtree:
        """The same mechanism with first regions that suit an earlier map, so that fewer rounds are needed.

        Args:
            earlier: A public map on the same grid.
            cohort: The people who will be asked.

        Raises:
            InvalidInput: The map lies on another grid.
        """
        expect((Density, TreeDensity, Release), earlier, "The earlier map")
        expect(Cohort, cohort, "The cohort")
        density = earlier.estimate.density if isinstance(earlier, Release) else earlier
        if density.grid != self.grid:
            raise InvalidInput("The earlier map lies on another grid; make both with the same Grid.")
        # The regions are as many as make the first round the last one. A square is divided only if `ask` would split
        # it.
        noise = self._noise(cohort, self.epsilon / Fraction(self.reserve))
        most = min(self.early_noise * cohort.people / max(noise, 1e-300), self.grid.cells)
        least = self._limits(cohort, self.epsilon)[0] / cohort.people
        return dataclasses.replace(self, start=Partition.suited_to(density, math.ceil(most) + 4, least))

    def _first(self) -> Partition:
        return self.start or Partition.whole_level(self.grid, min(1, self.grid.depth))

    def _left(self, rounds: Sequence[Round]) -> Fraction:
        if self.disjoint:
            return self.epsilon
        return self.epsilon - sum((one.question.epsilon for one in rounds), Fraction(0))

    def _schedule(self, partition: Partition, cohort: Cohort) -> Fraction:
        """The budget of an early round: its noise is ``early_noise`` times the people per region (errata E3-6)."""
        wanted = self.early_noise * cohort.people / len(partition)
        shape = self._shape(cohort)
        epsilon = epsilon_from_sigma(self.mass * wanted / math.sqrt(shape), self.mass)
        return max(Fraction(math.floor(epsilon * GRAIN), GRAIN), SMALLEST_EPSILON)

    def _shape(self, cohort: Cohort) -> float:
        """Total shape of the noise of one region's count, over all shards.

        With a flag, a count is the sum of two numbers.
        """
        return float(cohort.people * cohort.shape) * (2 if self.flagged else 1)

    def _noise(self, cohort: Cohort, epsilon: Fraction) -> float:
        """Standard deviation of the noise of one region's count, in people."""
        return math.sqrt(self._shape(cohort)) * share_deviation(laplace_scale(self.mass, epsilon)) / self.mass

    def _limits(self, cohort: Cohort, left: Fraction) -> tuple[float, float]:
        """Limits for regions, in people: above the first limit a region is split, below the second it is merged.

        Both are multiples of the noise of a question that spends the whole remaining budget (errata E3-7).
        """
        noise = self._noise(cohort, left)
        if self.interval is not None:
            enough = people_needed(self.interval, noise / math.sqrt(2))  # noise of each of the two counts
            return 4 * enough, enough
        return self.split_above * noise, self.split_above * noise / 4

    def _next(self, last: Round, cohort: Cohort, left: Fraction) -> Partition:
        upper, lower = self._limits(cohort, left)
        # Counts are scaled up to all people who were asked.
        counts = last.counts() * (cohort.people / last.people)
        split = counts > upper
        # A device sends at most LONGEST numbers, so the regions with the most people are split first.
        room = (LONGEST // (2 if self.flagged else 1) - len(counts)) // 3
        split[np.argsort(-counts, kind="stable")[max(room, 0) :]] = False
        return partition_of(last).changed(split, counts <= lower)

    # ── estimating ──────────────────────────────────────────────────────────────────────────────────────────────────

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:
        """Fit one map to the regions of all rounds, by :func:`heathaze.distributed.region_map.region_map`.

        Args:
            rounds: All rounds of the survey.
            draws: How many maps to draw for error bars; 0 for none.
        """
        last = rounds[-1]
        total = people_in(last.counts().sum(), last.people)
        fitted = region_map(
            [
                NoisyRegions(
                    partition_of(one),
                    one.counts(),
                    one.deviation() ** 2 * (2 if self.flagged else 1),
                    one.people * total / last.people,
                )
                for one in rounds
            ]
        )
        density = at_most_dense(fitted.density)
        drawn = None
        if draws and isinstance(density, Density):
            shares = np.stack(list(fitted.draws(draws)))
            drawn = DrawnMaps.of(self.grid, shares, fitted.prior, _asked(partition_of(last), shares.shape[1:]))
        return Estimate(density, total, drawn=drawn)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return public_parameters(self)


def _asked(partition: Partition, shape: tuple[int, ...]) -> Integers:
    """The quadtree level of the region that contains the first cell of each square of a coarser map."""
    side = 2 ** round(math.log2(max(partition.grid.shape) / max(shape)))
    rows, cols = np.indices(shape) * side
    entries = partition.locate(interleave(rows.ravel(), cols.ravel()))
    return np.asarray(partition.levels[partition.regions[entries]]).reshape(shape)
