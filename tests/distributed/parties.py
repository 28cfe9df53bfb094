"""Small grids, questions and devices, and the sum of a shard without masks: what the protocol would open."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.distributed import AdaptiveQuadtree, Cohort, Device, Question, Round, Survey
from heathaze.distributed.encodings import Regions
from heathaze.distributed.question import Part
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition
from heathaze.privacy.randomness import Randomness
from heathaze.secagg import Parameters, Sum

GRID = Grid.plane(x=(0, 8), y=(0, 8), size=8)
COHORT = Cohort(20, dropout="1/5", colluding="1/10")
NAME = "0123456789abcdef" * 2

_numbers = itertools.count(1)


def fresh_name() -> str:
    """The name of a survey that no device has heard of."""
    return f"{next(_numbers):032x}"


def question(partition: Partition | None = None, epsilon: Any = 1, cohort: Cohort = COHORT, **changed: Any) -> Question:
    """One part about a partition, the quarters of the small grid unless given."""
    regions = Regions(Partition.whole_level(GRID, 1) if partition is None else partition)
    fields: dict[str, Any] = {"survey": NAME, "number": 1, "parts": (Part(regions, Fraction(epsilon)),)}
    return Question(**(fields | {"cohort": cohort} | changed))


def opened(question: Question, devices: Iterable[Device], randomness: Randomness) -> Sum:
    """The sum of these devices' answers, modulo 2^bits, as the secure sum would have it."""
    vectors = [device.answer(question, randomness=randomness) for device in devices]
    total = sum(vectors, np.zeros(question.length, dtype=np.uint64)) & np.uint64(2**question.bits - 1)
    return summed(question, total, range(len(vectors)))


def summed(question: Question, values: np.ndarray, survivors: Iterable[int]) -> Sum:
    """A sum as a shard's server would have it, under parameters of its own."""
    cohort = question.cohort
    parameters = Parameters(
        round=next(_numbers).to_bytes(16, "little"),
        clients=cohort.shard,
        neighbours=2,
        shares_needed=2,
        survivors_at_least=cohort.threshold,
        length=question.length,
        bits=question.bits,
        corrupt_at_most=cohort.colluders,
        purpose=question.fingerprint,
    )
    return Sum(values, tuple(survivors), parameters)


def sums_of(question: Question, counts: Sequence[float], shards: int | None = None) -> list[Sum]:
    """Sums that come to the given counts in people, all in the first shard, everybody there."""
    cohort = question.cohort
    values = np.rint(np.asarray(counts, dtype=float) * question.mass).astype(np.int64) & np.int64(2**question.bits - 1)
    zeros = np.zeros(question.length, dtype=np.uint64)
    everyone = range(cohort.shard)
    rest = (cohort.shards if shards is None else shards) - 1
    others = [summed(question, zeros, everyone) for _ in range(rest)]
    return [summed(question, values.astype(np.uint64), everyone), *others]


def run(survey: Survey, counts: Any) -> Survey:
    """A survey to its end, each round answered by ``counts(question)``."""
    for _ in range(1000):
        asked = survey.ask()
        if asked is None:
            return survey
        survey = survey.answered(sums_of(asked, counts(asked)))
    raise AssertionError("The survey does not end.")


def spread(asked: Question) -> np.ndarray:
    """Everybody evenly over the cells."""
    partition = asked.parts[0].encoding.partition
    counts = np.floor(asked.cohort.shard * partition.region_areas / partition.grid.cells)
    return np.repeat(counts / 2, 2) if asked.flagged else counts


def epsilons(rounds: Iterable[Round]) -> list[Fraction]:
    """What each round cost."""
    return [found.question.epsilon for found in rounds]


def quadtree(grid: Grid = GRID, epsilon: Any = 1, **changed: Any) -> AdaptiveQuadtree:
    """The mechanism on the small grid, with the paper's rules, for which the errata have numbers."""
    paper = {"split_above": 2.0, "early_noise": 0.1, "levels_at_once": 1, "first_share": 0}
    return AdaptiveQuadtree(grid, epsilon, **(paper | changed))
