"""Which share of the people of each region has a flag, and how surely (appendix B).

Two noisy numbers a region, with (a) and without (b) the flag. If p is the true share, a − p(a + b) is zero on average,
with variance n·p(1 − p) + σ²((1 − p)² + p²): people come by chance, and noise is added to both. The interval is all p
for which what was found lies within z standard deviations: Wilson's interval for a proportion, Fieller's for a ratio of
noisy numbers. Where the region holds too few people for the noise, it is all of [0, 1], and says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heathaze.distributed.encodings import Regions
from heathaze.distributed.survey import Round, Survey
from heathaze.domain.partition import Partition
from heathaze.domain.quadtree import node_extent
from heathaze.errors import InvalidInput
from heathaze.inference.interval import check_confidence
from heathaze.types import Floats

CONFIDENCE = 0.9


@dataclass(frozen=True, eq=False, repr=False)
class Proportions:
    """For every region of a partition: the share of people with the flag and its interval. Public.

    ``people`` is the noisy number of people in each region.
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
        """A row for each region, as columns that pandas or a CSV writer take: where, which share, how sure, how many.

        A region is a square less the squares cut out of it, so x and y are the sides of what it spans, and ``cells``
        says how much of that is its own.
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
        """How far the ends of the intervals lie apart."""
        return self.high - self.low


def proportions(survey: Survey, confidence: float = CONFIDENCE) -> Proportions:
    """The share of people with the flag in every region of the last round.

    Rounds that asked about the very same region before are combined with it by inverse variance.
    """
    check_confidence(confidence)
    if not survey.rounds:
        raise InvalidInput("No round was answered yet; there are no shares to speak of.")
    if not survey.rounds[-1].question.flagged:
        raise InvalidInput("The survey did not ask for a share; use a mechanism with flagged=True.")
    values, variance = combined(survey.rounds)
    low, high = interval(values[:, 1], values.sum(axis=1), variance, confidence)
    whole = np.maximum(values.sum(axis=1), 1e-9)
    share = np.clip(values[:, 1] / whole, low, high)
    return Proportions(_partition(survey.rounds[-1]), share, low, high, values.sum(axis=1), confidence)


def combined(rounds: Sequence[Round]) -> tuple[Floats, Floats]:
    """Numbers of the last round's regions and the variance of their noise, earlier rounds weighed in.

    A region of an earlier round is the same if it is made of the same squares.
    """
    last = rounds[-1]
    values, weight = last.values().copy(), np.full(len(last.values()), _weight(last.deviation()))
    values = values.reshape(len(weight), -1) * weight[:, None]
    names = _names(_partition(last))
    for told in rounds[:-1]:
        earlier = {name: entry for entry, name in enumerate(_names(_partition(told)))}
        same = [(entry, earlier[name]) for entry, name in enumerate(names) if name in earlier]
        if not same:
            continue
        here, there = np.array(same).T
        # Fewer or more people delivered then.
        scaled = told.values().reshape(len(earlier), -1)[there] * (last.people / told.people)
        trust = _weight(told.deviation() * last.people / told.people)
        values[here] += trust * scaled
        weight[here] += trust
    return values / weight[:, None], 1 / weight


def interval(flagged: Floats, people: Floats, variance: Floats | float, confidence: float) -> tuple[Floats, Floats]:
    """Ends of the interval of a share, from the noisy number with the flag and the noisy number of all.

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
    """So many people make the interval of a share of one half as narrow as this, with noise of this deviation."""
    from scipy.special import ndtri

    # 2z √(n/4 + σ²/2) / n ≤ width
    z = 2 * float(ndtri((1 + confidence) / 2)) / width
    return (z**2 / 4 + math.sqrt(z**4 / 16 + 2 * z**2 * noise**2)) / 2


def _weight(deviation: float) -> float:
    """Inverse variance; noise so small that nobody could tell counts as a billionth of a person."""
    return max(deviation, 1e-9) ** -2


def _partition(told: Round) -> Partition:
    encoding = told.question.parts[0].encoding
    if not isinstance(encoding, Regions):
        raise InvalidInput("Shares are for surveys of regions; use AdaptiveQuadtree.")
    return encoding.partition


def _names(partition: Partition) -> list[bytes]:
    """A name for every region, equal for regions of the same squares."""
    levels, codes, entries = partition.squares()
    order = np.lexsort((codes, levels, entries))
    pairs = np.stack([levels, codes], axis=1)[order]
    ends = np.cumsum(np.bincount(entries, minlength=len(partition)))
    return [part.tobytes() for part in np.split(pairs, ends[:-1])]
