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
from heathaze.domain.partition import Partition, cell_codes
from heathaze.domain.quadtree import interleave
from heathaze.errors import InvalidInput, expect
from heathaze.inference.drawn_maps import DrawnMaps
from heathaze.inference.estimate import Estimate
from heathaze.privacy.loss import SMALLEST_EPSILON, Number, parse_epsilon
from heathaze.privacy.noise import epsilon_from_sigma, laplace_scale
from heathaze.privacy.noise_shares import share_deviation
from heathaze.release.release import Release
from heathaze.types import Floats, Integers

_CROWDED = 4.0
"""A square is split if, by an earlier map, it has this many times the people above which a region is split.

With 2 in place of 4, correct earlier maps made some results worse, because they made too many regions.
"""


@dataclass(frozen=True, eq=False, init=False)
class AdaptiveQuadtree:
    """Ask about regions of a quadtree that are split or merged after every round; see ``adaptive_quadtree.md``.

    Each round asks how many people each region holds. Regions with many people are split into smaller squares; regions
    with almost no people are merged into the square around them. Early rounds spend a small part of the budget to find
    where people are, and the last round spends the remaining budget.

    Args:
        grid: The public grid; no region is smaller than a cell.
        epsilon: Privacy loss of one person over all rounds.
        mass: Integer weight of one person, 1 to 2^30, divided over their places; 1 if each person has one place, for
            example 10,000 if people have several places.
        start: Regions of the first round; if left out, all squares of one level (see ``first_share``).
        split_above: A region is split if its count exceeds this many standard deviations of the noise of a round that
            spends the whole remaining budget. At 8, the quarters of a split region have counts above two standard
            deviations on average. The paper has 2.
        early_noise: Standard deviation of the noise of an early round, as a share of the people per region. The paper
            has 0.1.
        reserve: A round is the last one if its cost times this number exceeds the remaining budget.
        levels_at_once: By how many levels of the quadtree a region may be split after one round. The paper has 1.
        first_share: The largest share of ε that the first round may cost, from 0 to 1. The first round asks about all
            squares of the finest level with this cost, and about the quarters of the map at 0, as in the paper.
        max_rounds: The largest number of rounds, 1 or more.
        flagged: Also ask for the share of people with a flag (:func:`~heathaze.distributed.proportions`).
        interval: With a flag: split as long as the 90 % interval of the share in each quarter is at most this wide,
            between 0 and 1.
        disjoint: Ask different people in every round. Every round may then spend all of ε.
        earlier: A public map on the same grid that suggests where the people are (see :meth:`starting_from`).

    Raises:
        InvalidInput: An argument is out of range.

    >>> mechanism = AdaptiveQuadtree(Grid.plane(x=(0, 1), y=(0, 1), size=64), epsilon=1)
    >>> question = mechanism.ask(Cohort(people=10_000), ())
    >>> question.parts[0].encoding.length, question.final
    (64, False)
    """

    grid: Grid
    epsilon: Fraction
    mass: int = 1
    start: Partition | None = None
    split_above: float = 8.0
    early_noise: float = 0.2
    reserve: float = 2.0
    levels_at_once: int = 3
    first_share: float = 0.125
    max_rounds: int = 12
    flagged: bool = False
    interval: float | None = None
    disjoint: bool = False
    earlier: Density | None = None

    def __init__(
        self,
        grid: Grid,
        epsilon: Number,
        mass: int = 1,
        start: Partition | None = None,
        split_above: float = 8.0,
        early_noise: float = 0.2,
        reserve: float = 2.0,
        levels_at_once: int = 3,
        first_share: float = 0.125,
        max_rounds: int = 12,
        flagged: bool = False,
        interval: float | None = None,
        disjoint: bool = False,
        earlier: Density | None = None,
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
            levels_at_once=whole(levels_at_once, "levels_at_once", "by how many levels a region is split at once"),
            first_share=first_share,
            max_rounds=whole(max_rounds, "max_rounds"),
            flagged=flagged,
            interval=interval,
            disjoint=disjoint,
            earlier=earlier,
        )
        if start is not None and start.grid != grid:
            raise InvalidInput("The regions to start with lie on another grid; make both with the same Grid.")
        if earlier is not None and earlier.grid != grid:
            raise InvalidInput("The earlier map lies on another grid; make both with the same Grid.")
        if not isinstance(first_share, int | float) or not 0 <= first_share <= 1:
            raise InvalidInput(f"first_share is {first_share!r}; give the share of ε of the first round, from 0 to 1.")
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
        partition = self._first(cohort) if before is None else self._next(rounds[-1], cohort, left)
        scheduled = self._schedule(len(partition), cohort)
        # Without more regions, another round could only measure the same regions again, or merge some of them.
        as_fine = before is not None and len(partition) <= len(before)
        too_little = self.reserve * float(scheduled) > left or left - scheduled < SMALLEST_EPSILON
        final = as_fine or too_little or len(rounds) + 1 >= self.max_rounds
        if self.earlier is not None and len(rounds) == 1:
            # The budget and the last round do not depend on the earlier map, so that a wrong map cannot end the survey.
            partition = self._with_earlier(partition, rounds[0], cohort, left)
        part = Part(Regions(partition), left if final or self.disjoint else scheduled)
        return NextQuestion((part,), final, self.mass, self.flagged)

    def starting_from(self, earlier: Density | TreeDensity | Release) -> AdaptiveQuadtree:
        """The same mechanism with an earlier map, which adds regions where it has the most people.

        The first round does not depend on the earlier map and tests it. If the earlier map predicts the counts of the
        first round, the second round has additional regions where that map is dense. If not, the map is ignored.

        Args:
            earlier: A public map on the same grid.

        Raises:
            InvalidInput: The map lies on another grid.
        """
        expect((Density, TreeDensity, Release), earlier, "The earlier map")
        density = earlier.estimate.density if isinstance(earlier, Release) else earlier
        return dataclasses.replace(self, earlier=density.dense())

    def _first(self, cohort: Cohort) -> Partition:
        """The regions of the first round: the finest level that costs at most ``first_share`` of the budget.

        There are at most as many regions as people.
        """
        if self.start is not None:
            return self.start
        most = min(cohort.people, LONGEST // (2 if self.flagged else 1))
        level = min(1, self.grid.depth)
        while level < self.grid.depth:
            regions = math.prod(-(-side >> (self.grid.depth - level - 1)) for side in self.grid.shape)
            if regions > most or self._schedule(regions, cohort) > self.epsilon * Fraction(self.first_share):
                break
            level += 1
        return Partition.whole_level(self.grid, level)

    def _left(self, rounds: Sequence[Round]) -> Fraction:
        if self.disjoint:
            return self.epsilon
        return self.epsilon - sum((one.question.epsilon for one in rounds), Fraction(0))

    def _schedule(self, regions: int, cohort: Cohort) -> Fraction:
        """The budget of an early round: its noise is ``early_noise`` times the people per region (errata E3-6)."""
        wanted = self.early_noise * cohort.people / regions
        shape = self._shape(cohort)
        epsilon = epsilon_from_sigma(self.mass * wanted / math.sqrt(shape), self.mass)
        return max(Fraction(math.floor(epsilon * GRAIN), GRAIN), SMALLEST_EPSILON)

    def _shape(self, cohort: Cohort) -> float:
        """Total shape of the noise of one region's count, over all shards.

        With a flag, a count is the sum of two noisy numbers.
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
        before = partition_of(last)
        # Counts are scaled up to all people who were asked.
        counts = last.counts() * (cohort.people / last.people)
        # A region of more than 4^k · upper people is split k + 1 times: if its people are spread evenly, each of
        # its squares after k splits still holds more than upper.
        fourfold = np.log(np.maximum(counts, 1e-300) / max(upper, 1e-300)) / math.log(4)
        times = np.clip(np.ceil(fourfold), 0, self.levels_at_once).astype(np.int64)
        times = np.minimum(times, self.grid.depth - before.levels[before.regions])
        # A device sends at most LONGEST numbers, so the regions with the most people are split first.
        order = np.argsort(-counts, kind="stable")
        room = LONGEST // (2 if self.flagged else 1) - len(counts)
        times[order[np.cumsum(4 ** times[order] - 1) > room]] = 0
        return before.changed(times, counts <= lower)

    def _with_earlier(self, found: Partition, first: Round, cohort: Cohort, left: Fraction) -> Partition:
        """Add regions where the earlier map is dense, if it predicts the first counts. No region becomes larger."""
        assert self.earlier is not None
        counts = first.counts() * (cohort.people / first.people)
        likely = _as_before(self.earlier, partition_of(first), counts, self._noise(cohort, first.question.epsilon))
        if likely is None:
            return found
        room = LONGEST // (2 if self.flagged else 1) - len(found)
        least = _CROWDED * self._limits(cohort, left)[0] / np.maximum(counts, 0.0).sum()
        more = Partition.suited_to(likely, max(room, 1), min(least, 1.0))
        nodes = np.stack([np.append(found.levels, more.levels), np.append(found.codes, more.codes)])
        return Partition(self.grid, *np.unique(nodes, axis=1))

    # ── estimating ──────────────────────────────────────────────────────────────────────────────────────────────────

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:
        """Fit one map to the regions of all rounds, by :func:`heathaze.distributed.region_map.region_map`.

        Args:
            rounds: All rounds of the survey.
            draws: How many maps to draw for error bars; 0 for none.

        Returns:
            The map, with error bars if maps were drawn.
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


def _as_before(earlier: Density, asked: Partition, counts: Floats, noise: float) -> Density | None:
    """The people of each region divided as in an earlier map; None if the earlier map does not predict the counts.

    A region and its siblings have one parent. From the people of the parent, an even map and the earlier map each
    predict the people of the region. The earlier map is used only if its squared error, relative to the variance of a
    count, is less than half of the even map's.

    Args:
        earlier: The earlier map.
        asked: The regions that were asked about.
        counts: The noisy number of people in each region.
        noise: Standard deviation of the noise of each count.
    """
    labels = asked.locate(cell_codes(earlier.grid))
    share: Floats = np.bincount(labels, earlier.values.ravel(), len(asked)).astype(np.float64)
    area = asked.region_areas.astype(np.float64)
    parents = np.stack([asked.levels, asked.codes >> 2])[:, asked.regions]
    parent = np.unique(parents, axis=1, return_inverse=True)[1].ravel()

    def predicted(weight: Floats) -> Floats:
        whole = np.bincount(parent, weight)[parent]
        return np.asarray(np.bincount(parent, counts)[parent] * weight / np.maximum(whole, 1e-300))

    even = predicted(area)
    variance = noise**2 + np.maximum(even, 1.0)
    before, flat = (float(((counts - mean) ** 2 / variance).sum()) for mean in (predicted(share), even))
    people = np.maximum(counts, 0.0)
    if 2 * before >= flat or not people.any():
        return None
    # A region in which the earlier map has nobody is divided evenly.
    weight = np.where((share > 0)[labels], earlier.values.ravel(), 1.0)
    whole = np.where(share > 0, share, area)
    return Density.from_mass(earlier.grid, (weight * (people / whole)[labels]).reshape(earlier.grid.shape))


def _asked(partition: Partition, shape: tuple[int, ...]) -> Integers:
    """The quadtree level of the region that contains the first cell of each square of a coarser map."""
    side = 2 ** round(math.log2(max(partition.grid.shape) / max(shape)))
    rows, cols = np.indices(shape) * side
    entries = partition.locate(interleave(rows.ravel(), cols.ravel()))
    return np.asarray(partition.levels[partition.regions[entries]]).reshape(shape)
