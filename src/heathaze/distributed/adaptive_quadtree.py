"""A map that finds its own resolution in a few rounds of secure sums (Bagdasaryan et al. 2022, errata part 4)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.distributed._levels import GRAIN, at_most_dense, check_mass, check_positive, people_in
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Regions
from heathaze.distributed.proportions import people_needed
from heathaze.distributed.question import LONGEST, Part
from heathaze.distributed.region_map import NoisyRegions, region_map
from heathaze.distributed.survey import Inquiry, Round
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


@dataclass(frozen=True, eq=False)
class AdaptiveQuadtree:
    """Each round asks how many people each region holds; crowded regions are split, empty ones given back.

    Early rounds spend little, only what they need to see where people are; the last one spends the rest.

    Args:
        grid: The public frame; no region is smaller than a cell.
        epsilon: What all rounds together cost one person.
        mass: Integer mass of one person, split over their places; 1 if each has one place, 10,000 if they have several.
        start: Regions of the first round; the quarters of the map unless given (see :meth:`starting_from`).
        crowded: A region is split if it holds more than so many standard deviations of the noise to come; at 8, each
            quarter holds two on average. The paper has 2.
        calm: Noise of an early round, as a part of the people there are for each region. The paper has 0.1.
        reserve: A round is the last one if what it would spend, times this, is more than is left.
        max_rounds: The last round at the latest.
        flagged: Ask for the share of people with a flag as well (:func:`~heathaze.distributed.proportions`).
        interval: With a flag: split for as long as the 90 % interval of the share in each quarter stays this narrow.
        disjoint: Ask other people in every round. Then every round may spend all of ε, and needs its own people.
    """

    grid: Grid
    epsilon: Fraction
    mass: int = 1
    start: Partition | None = None
    crowded: float = 8.0
    calm: float = 0.2
    reserve: float = 2.0
    max_rounds: int = 12
    flagged: bool = False
    interval: float | None = None
    disjoint: bool = False

    if TYPE_CHECKING:

        def __init__(
            self,
            grid: Grid,
            epsilon: Number,
            mass: int = 1,
            start: Partition | None = None,
            crowded: float = 8.0,
            calm: float = 0.2,
            reserve: float = 2.0,
            max_rounds: int = 12,
            flagged: bool = False,
            interval: float | None = None,
            disjoint: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_mass(self.mass)
        for name in ("crowded", "calm", "reserve"):
            check_positive(name, getattr(self, name))
        if type(self.max_rounds) is not int or self.max_rounds < 1:
            raise InvalidInput(f"max_rounds is {self.max_rounds!r}; give a whole number, 1 or larger.")
        if self.start is not None and self.start.grid != self.grid:
            raise InvalidInput("The regions to start with lie on another grid; make both with the same Grid.")
        if self.interval is not None and not (self.flagged and 0 < self.interval < 1):
            raise InvalidInput(
                f"interval is {self.interval}; give a width between 0 and 1, together with flagged=True."
            )

    # ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> Inquiry | None:
        """The next question: regions in view of the last round, and a budget in view of the regions."""
        if rounds and rounds[-1].question.final:
            return None
        left = self._left(rounds)
        before = _partition(rounds[-1]) if rounds else None
        partition = self._first() if before is None else self._next(rounds[-1], cohort, left)
        scheduled = self._schedule(partition, cohort)
        unchanged = before is not None and before == partition
        too_little = self.reserve * float(scheduled) > left or left - scheduled < SMALLEST_EPSILON
        final = unchanged or too_little or len(rounds) + 1 >= self.max_rounds
        part = Part(Regions(partition), left if final or self.disjoint else scheduled)
        return Inquiry((part,), final, self.mass, self.flagged)

    def starting_from(self, earlier: Density | TreeDensity | Release, cohort: Cohort) -> AdaptiveQuadtree:
        """The same mechanism, begun with regions that suit an earlier map: fewer rounds, more budget for the last."""
        expect((Density, TreeDensity, Release), earlier, "The earlier map")
        expect(Cohort, cohort, "The cohort")
        density = earlier.estimate.density if isinstance(earlier, Release) else earlier
        if density.grid != self.grid:
            raise InvalidInput("The earlier map lies on another grid; make both with the same Grid.")
        # Just so many regions that the first round is the last, none made of a square that would not be split.
        noise = self._noise(cohort, self.epsilon / Fraction(self.reserve))
        most = min(self.calm * cohort.people / max(noise, 1e-300), self.grid.cells)
        least = self._limits(cohort, self.epsilon)[0] / cohort.people
        return dataclasses.replace(self, start=Partition.suited_to(density, math.ceil(most) + 4, least))

    def _first(self) -> Partition:
        return self.start or Partition.whole_level(self.grid, min(1, self.grid.depth))

    def _left(self, rounds: Sequence[Round]) -> Fraction:
        if self.disjoint:
            return self.epsilon
        return self.epsilon - sum((told.question.epsilon for told in rounds), Fraction(0))

    def _schedule(self, partition: Partition, cohort: Cohort) -> Fraction:
        """ε whose noise is ``calm`` times the people there are for each region (errata E3-6)."""
        wanted = self.calm * cohort.people / len(partition)
        shape = self._shape(cohort)
        epsilon = epsilon_from_sigma(self.mass * wanted / math.sqrt(shape), self.mass)
        return max(Fraction(math.floor(epsilon * GRAIN), GRAIN), SMALLEST_EPSILON)

    def _shape(self, cohort: Cohort) -> float:
        """Shape of the noise of one region's count: shards add up, and with a flag it is a sum of two numbers."""
        return float(cohort.people * cohort.shape) * (2 if self.flagged else 1)

    def _noise(self, cohort: Cohort, epsilon: Fraction) -> float:
        """Standard deviation of the noise of one region's count, in people."""
        return math.sqrt(self._shape(cohort)) * share_deviation(laplace_scale(self.mass, epsilon)) / self.mass

    def _limits(self, cohort: Cohort, left: Fraction) -> tuple[float, float]:
        """Regions with more people than the first number are split, with fewer than the second given back.

        Both are measured in the noise that the next question can have at best (errata E3-7).
        """
        noise = self._noise(cohort, left)
        if self.interval is not None:
            enough = people_needed(self.interval, noise / math.sqrt(2))  # of each of the two numbers
            return 4 * enough, enough
        return self.crowded * noise, self.crowded * noise / 4

    def _next(self, last: Round, cohort: Cohort, left: Fraction) -> Partition:
        split_above, collapse_at = self._limits(cohort, left)
        # Lost people would have been somewhere too.
        counts = last.counts() * (cohort.people / last.people)
        split = counts > split_above
        # No more numbers than a device sends: the fullest regions are split first.
        room = (LONGEST // (2 if self.flagged else 1) - len(counts)) // 3
        split[np.argsort(-counts, kind="stable")[max(room, 0) :]] = False
        return _partition(last).changed(split, counts <= collapse_at)

    # ── estimating ──────────────────────────────────────────────────────────────────────────────────────────────────

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:
        """One density for all rounds (:mod:`heathaze.distributed.region_map`), in people of the last."""
        last = rounds[-1]
        total = people_in(last.counts().sum(), last.people)
        fitted = region_map(
            [
                NoisyRegions(
                    _partition(told),
                    told.counts(),
                    told.deviation() ** 2 * (2 if self.flagged else 1),
                    told.people * total / last.people,
                )
                for told in rounds
            ]
        )
        density = at_most_dense(fitted.density)
        drawn = None
        if draws and isinstance(density, Density):
            shares = np.stack(list(fitted.draws(draws)))
            drawn = DrawnMaps.of(self.grid, shares, fitted.prior, _asked(_partition(last), shares.shape[1:]))
        return Estimate(density, total, drawn=drawn)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return {
            "epsilon": str(self.epsilon),
            "mass": self.mass,
            "start": None if self.start is None else self.start.to_dict(),
            "crowded": self.crowded,
            "calm": self.calm,
            "reserve": self.reserve,
            "max_rounds": self.max_rounds,
            "flagged": self.flagged,
            "interval": self.interval,
            "disjoint": self.disjoint,
        }


def _partition(told: Round) -> Partition:
    encoding = told.question.parts[0].encoding
    assert isinstance(encoding, Regions)
    return encoding.partition


def _asked(partition: Partition, shape: tuple[int, ...]) -> Integers:
    """Level of the region to which the first cell of each of some squares belongs."""
    side = 2 ** round(math.log2(max(partition.grid.shape) / max(shape)))
    rows, cols = np.indices(shape) * side
    entries = partition.locate(interleave(rows.ravel(), cols.ravel()))
    return np.asarray(partition.levels[partition.regions[entries]]).reshape(shape)
