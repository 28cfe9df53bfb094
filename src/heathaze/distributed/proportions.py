"""The share of people with a flag (an infection, a vote) in each region, with an interval (appendix B of the paper).

Every entry of a device's vector exists twice, for people with and without the flag. A person is counted in one of the
two entries, so the sensitivity does not change. Let a be the noisy number of people with the flag, n the noisy number
of all people, σ² the variance of the noise of each of the two entries, and p the true share. Then a − p·n is zero on
average, with variance

    n·p(1 − p) + σ²((1 − p)² + p²).

The first term is the variance of sampling people, and the second is the variance of the noise. The interval consists of
all p for which (a − p·n)² is at most z² times this variance, where z is the normal quantile of the confidence. These p
solve one quadratic inequality. Without noise this is Wilson's interval for a proportion, and without sampling it is
Fieller's interval for a ratio of noisy numbers. If the parabola opens downwards or n is not positive, the region holds
too few people compared with the noise, and the interval is [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heathaze.checks import check_confidence
from heathaze.distributed.mechanism import Round, partition_of
from heathaze.distributed.survey import Survey
from heathaze.domain.partition import Partition
from heathaze.domain.quadtree import node_extent
from heathaze.errors import InvalidInput
from heathaze.types import Floats

CONFIDENCE = 0.9


@dataclass(frozen=True, eq=False, repr=False)
class Proportions:
    """The share of people with the flag in every region of a partition, with intervals. Public.

    Attributes:
        partition: The regions.
        share: Estimated share of people with the flag in each region, 0 to 1.
        low: Lower ends of the intervals.
        high: Upper ends of the intervals.
        people: Noisy number of people in each region.
        confidence: The probability that an interval holds the true share, for example 0.9.

    >>> from heathaze.distributed import AdaptiveQuadtree, Cohort, Population, simulate
    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.privacy.randomness import Simulation
    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> people = Population.from_raster(grid, np.ones((2, 2)), 1000, Simulation(1)).flagged([True] * 1000)
    >>> survey = Survey(AdaptiveQuadtree(grid, epsilon=1, flagged=True), Cohort(people=1000))
    >>> found = proportions(simulate(survey, people))
    >>> found.confidence, len(found.to_table()["share"]) == len(found.partition)
    (0.9, True)
    """

    partition: Partition
    share: Floats
    low: Floats
    high: Floats
    people: Floats
    confidence: float

    def __repr__(self) -> str:
        return f"<Proportions: {len(self.partition)} regions, {self.confidence:.0%} intervals>"

    def to_table(self) -> dict[str, list[Any]]:
        """A table with a row for each region, as columns that pandas or a CSV writer accept.

        A region is a square without the smaller squares that are regions of their own. x and y are the bounds of the
        square, and ``cells`` is the number of cells that belong to the region.
        """
        grid, nodes = self.partition.grid, self.partition.regions
        rows = np.empty((len(nodes), 4), dtype=np.int64)
        for level in np.unique(self.partition.levels[nodes]):
            here = self.partition.levels[nodes] == level
            rows[here] = np.stack(node_extent(grid, int(level), self.partition.codes[nodes[here]]), axis=1)
        top, bottom, left, right = rows.T
        one, other = grid.y_at(top), grid.y_at(bottom)  # which is north depends on the projection
        return {
            "x_min": grid.x_at(left).tolist(),
            "x_max": grid.x_at(right).tolist(),
            "y_min": np.minimum(one, other).tolist(),
            "y_max": np.maximum(one, other).tolist(),
            "cells": self.partition.region_areas.tolist(),
            "share": self.share.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "people": self.people.tolist(),
        }

    @property
    def width(self) -> Floats:
        """The widths of the intervals."""
        return self.high - self.low


def proportions(survey: Survey, confidence: float = CONFIDENCE) -> Proportions:
    """Estimate the share of people with the flag in every region of the last round of a survey.

    If earlier rounds asked about the same region, their counts are combined, weighted by inverse variances.

    Args:
        survey: A survey of regions with at least one round, whose mechanism has ``flagged=True``.
        confidence: The probability that an interval holds the true share, between 0 and 1.

    Returns:
        Shares and intervals.

    Raises:
        InvalidInput: The survey has no rounds, did not ask for a share, or did not ask about regions.

    >>> from heathaze.distributed import AdaptiveQuadtree, Cohort, Population, simulate
    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.privacy.randomness import Simulation
    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> people = Population.from_raster(grid, np.ones((2, 2)), 1000, Simulation(1)).flagged([True] * 1000)
    >>> survey = Survey(AdaptiveQuadtree(grid, epsilon=1, flagged=True), Cohort(people=1000))
    >>> bool((proportions(simulate(survey, people)).high > 0.95).all())
    True
    """
    check_confidence(confidence)
    if not survey.rounds:
        raise InvalidInput("No round was answered yet, so there are no shares; ask the devices first.")
    if not survey.rounds[-1].question.flagged:
        raise InvalidInput("The survey did not ask for a share; use a mechanism with flagged=True.")
    values, variance = combined(survey.rounds)
    low, high = interval(values[:, 1], values.sum(axis=1), variance, confidence)
    whole = np.maximum(values.sum(axis=1), 1e-9)
    share = np.clip(values[:, 1] / whole, low, high)
    return Proportions(partition_of(survey.rounds[-1]), share, low, high, values.sum(axis=1), confidence)


def combined(rounds: Sequence[Round]) -> tuple[Floats, Floats]:
    """Combine the noisy counts of all rounds, by inverse variance, for proportions of the last round's regions.

    Two regions of different rounds are the same if they consist of the same squares.

    Args:
        rounds: Rounds of regions; the last one decides the regions.

    Returns:
        A row of one or two counts for each region, and the variance of their noise.
    """
    last = rounds[-1]
    values, weight = last.values().copy(), np.full(len(last.values()), _weight(last.deviation()))
    values = values.reshape(len(weight), -1) * weight[:, None]
    names = _names(partition_of(last))
    for one in rounds[:-1]:
        earlier = {name: entry for entry, name in enumerate(_names(partition_of(one)))}
        same = [(entry, earlier[name]) for entry, name in enumerate(names) if name in earlier]
        if not same:
            continue
        here, there = np.array(same).T
        # The number of people who delivered may differ between rounds, so counts are scaled to the last round.
        scaled = one.values().reshape(len(earlier), -1)[there] * (last.people / one.people)
        trust = _weight(one.deviation() * last.people / one.people)
        values[here] += trust * scaled
        weight[here] += trust
    return values / weight[:, None], 1 / weight


def interval(flagged: Floats, people: Floats, variance: Floats | float, confidence: float) -> tuple[Floats, Floats]:
    """The confidence interval of the share of people with a flag, from two noisy counts.

    Args:
        flagged: Noisy numbers of people with the flag.
        people: Noisy numbers of all people.
        variance: Variance of the noise of each of the two counts, with and without the flag.
        confidence: The probability that an interval holds the true share.

    Returns:
        Lower and upper ends of the intervals.

    >>> low, high = interval(np.array([30.0]), np.array([100.0]), 0.0, 0.95)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)  # Wilson's
    (0.2189, 0.3958)
    """
    from scipy.special import ndtri

    squared = float(ndtri((1 + confidence) / 2)) ** 2
    known = np.maximum(people, 0.0)
    # (a − p·n)² ≤ z² (n·p(1 − p) + σ²(1 − 2p + 2p²)), a parabola in p.
    bent = people**2 + squared * (known - 2 * variance)
    slope = -2 * flagged * people - squared * (known - 2 * variance)
    level = flagged**2 - squared * variance
    under = slope**2 - 4 * bent * level
    sure = (bent > 0) & (under >= 0) & (people > 0)
    root = np.sqrt(np.where(sure, under, 0.0))
    bottom = np.where(sure, 2 * np.where(sure, bent, 1.0), 1.0)
    low, high = (-slope - root) / bottom, (-slope + root) / bottom
    return np.where(sure, np.clip(low, 0.0, 1.0), 0.0), np.where(sure, np.clip(high, 0.0, 1.0), 1.0)


def people_needed(width: float, noise: float, confidence: float = CONFIDENCE) -> float:
    """How many people a region needs, so that the interval of a share of its people is narrow enough for any share.

    The interval is widest for a share of 1/2.

    Args:
        width: The width of the interval, between 0 and 1.
        noise: Standard deviation of the noise of each of the two counts, in people.
        confidence: The probability that the interval holds the true share.
    """
    from scipy.special import ndtri

    # 2z √(n/4 + σ²/2) / n ≤ width
    z = 2 * float(ndtri((1 + confidence) / 2)) / width
    return (z**2 / 4 + math.sqrt(z**4 / 16 + 2 * z**2 * noise**2)) / 2


def _weight(deviation: float) -> float:
    """The inverse variance of a noisy count. A deviation below a billionth of a person is raised to a billionth."""
    return max(deviation, 1e-9) ** -2


def _names(partition: Partition) -> list[bytes]:
    """A key for every region of a partition; regions that consist of the same squares have the same key."""
    levels, codes, entries = partition.squares()
    order = np.lexsort((codes, levels, entries))
    pairs = np.stack([levels, codes], axis=1)[order]
    ends = np.cumsum(np.bincount(entries, minlength=len(partition)))
    return [part.tobytes() for part in np.split(pairs, ends[:-1])]
