"""A whole survey of a made-up or known population in one process, before a single device is asked.

The noise of a shard is drawn at once from the law that the sum of its devices' shares has, which is exact; places are
encoded by the same code that devices run. No masks are made: they cancel. What comes out is marked simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heathaze.distributed.device import Device, codes_of, encode, plan_terms
from heathaze.distributed.question import Question
from heathaze.distributed.survey import Round, Survey
from heathaze.domain.grid import Grid
from heathaze.domain.partition import cell_codes
from heathaze.errors import HeathazeError, InvalidInput, ShardAborted
from heathaze.privacy.noise_shares import noise_share
from heathaze.privacy.randomness import Randomness, SecureRandomness, Simulation
from heathaze.types import Booleans, Integers, Words

if TYPE_CHECKING:
    from heathaze.secagg import Sum


# TODO-merged from distributed.conduct: A whole survey of real devices in one process, by real secure sums: for small cohorts, tests and demonstrations.
#
# Over a network a service carries the same messages between the same classes; nothing here is needed then.


def conduct(
    survey: Survey, devices: Sequence[Device], *, dropout: float = 0.0, randomness: Randomness | None = None
) -> Survey:
    """Ask until the survey is over: every round, random devices in random shards, one secure sum each.

    A device that refuses (its budget is spent) counts as lost; a shard that loses too many is given up.

    Args:
        survey: What to ask and how many devices in each round.
        devices: At least as many as the cohort has people; for a disjoint survey, as many for every round.
        dropout: Probability that a device falls silent in each of the five steps of a secure sum.
        randomness: Leave it out. ``Simulation(seed)`` is for tests; its maps cannot be saved.

    Raises:
        ShardAborted: In some round no shard was opened.
    """
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise InvalidInput(f"dropout is {dropout!r}; give a probability from 0 to below 1.")
    source = SecureRandomness() if randomness is None else randomness
    survey = replace(survey, simulated=survey.simulated or type(source) is not SecureRandomness)
    order = np.argsort(source.words(len(devices)), kind="stable")
    while (question := survey.ask()) is not None:
        if question.number > 1:
            people = question.cohort.people
            order = order[people:] if survey.mechanism.disjoint else order[np.argsort(source.words(len(order)))]
        asked = order[: question.cohort.people]
        if len(asked) < question.cohort.people:
            raise InvalidInput(
                f"Round {question.number} asks {question.cohort.people} devices, and there are {len(asked)} left; make "
                "the cohort smaller."
            )
        shards = asked.reshape(question.cohort.shards, question.cohort.shard)
        refusals: list[str] = []
        sums = [_sum(question, [devices[k] for k in shard], dropout, source, refusals) for shard in shards]
        opened = [found for found in sums if found is not None]
        if refusals and not opened:
            raise ShardAborted(
                f"No shard was opened in round {question.number}: {len(refusals)} of {len(asked)} devices refused. The "
                f"first says: {refusals[0]}"
            )
        survey = survey.answered(opened)
    return survey


def _sum(
    question: Question, devices: Sequence[Device], dropout: float, source: Randomness, refusals: list[str]
) -> Sum | None:
    """The secure sum of a shard, or None if it was given up; what devices refuse with is noted."""
    # Imported late: `import heathaze` stays quick.
    from heathaze.secagg import Step, run_shard

    lost: dict[Step, list[int]] = {step: [] for step in Step}
    vectors: list[Words] = []
    for index, device in enumerate(devices):
        try:
            vectors.append(device.answer(question, randomness=source))
        except HeathazeError as refusal:  # so it is not there
            refusals.append(str(refusal))
            vectors.append(np.zeros(question.length, dtype=np.uint64))
            lost[Step.ADVERTISE].append(index)
    for step in Step:
        lost[step] += np.flatnonzero(source.uniforms(len(devices)) < dropout).tolist()
    try:
        return run_shard(plan_terms(question, source), vectors, lost=lost, randomness=source)
    except ShardAborted:
        return None


@dataclass(frozen=True, eq=False, repr=False)
class Population:
    """People and their places: cells of person k are ``codes[first[k] : first[k + 1]]``. Secret, unless made up."""

    grid: Grid
    codes: Integers
    first: Integers
    flags: Booleans | None = None

    def __len__(self) -> int:
        return len(self.first) - 1

    def __repr__(self) -> str:
        return "<Population>"

    @classmethod
    def from_raster(cls, grid: Grid, raster: npt.ArrayLike, people: int, randomness: Randomness) -> Population:
        """So many people with one place each, drawn from a raster of densities or counts on the grid."""
        weights = np.asarray(raster, dtype=np.float64)
        if weights.shape != grid.shape or not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
            raise InvalidInput(f"A raster has one number for each of the {grid.shape} cells, none negative, not all 0.")
        edges = np.cumsum(weights.ravel())
        cells = np.searchsorted(edges, randomness.uniforms(people) * edges[-1], side="right")
        return cls(grid, cell_codes(grid)[np.minimum(cells, grid.cells - 1)], np.arange(people + 1))

    @classmethod
    def from_table(
        cls, grid: Grid, person: npt.ArrayLike, x: npt.ArrayLike, y: npt.ArrayLike, flags: npt.ArrayLike | None = None
    ) -> Population:
        """The people of a table of visits, each with all their places; one flag for each person, in order."""
        names = np.asarray(person)
        places = np.column_stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
        if len(names) != len(places):
            raise InvalidInput(f"There are {len(names)} persons and {len(places)} places; give one person a place.")
        order = np.argsort(names, kind="stable")
        known, visits = np.unique(names, return_counts=True)
        owner = np.repeat(np.arange(len(known)), visits)
        _, _, inside = grid.cell_of(places[order, 0], places[order, 1])
        first = np.concatenate([[0], np.cumsum(np.bincount(owner[inside], minlength=len(known)))])
        return cls(grid, codes_of(grid, places[order]), first, _flags(flags, len(known)))

    def flagged(self, flags: npt.ArrayLike) -> Population:
        """The same people with a flag each."""
        return replace(self, flags=_flags(flags, len(self)))


def simulate(
    survey: Survey,
    population: Population,
    *,
    randomness: Randomness | None = None,
    dropout: float = 0.0,
    fresh: bool = True,
    colluding: int = 0,
) -> Survey:
    """Run a survey to its end on a population.

    Args:
        survey: What to ask and how many people in each round; begins where it stands.
        population: Whom to ask.
        randomness: ``Simulation(0)`` unless given; what comes out is marked simulated whatever it is.
        dropout: Probability that a person is lost before their vector arrives.
        fresh: Draw the people anew for each round, or ask the same in all; a disjoint survey never asks anyone twice.
        colluding: So many people of each shard have told the server their noise: it is taken out again, so that the
            sums are what an adversary sees.

    Raises:
        ShardAborted: In some round no shard was opened.
    """
    source = Simulation(0) if randomness is None else randomness
    survey = replace(survey, simulated=True)
    if not 0 <= dropout < 1:
        raise InvalidInput(f"dropout is {dropout}; give a probability from 0 to below 1.")
    asked = np.empty(0, dtype=np.int64)
    rest = None
    while (question := survey.ask()) is not None:
        if question.grid != population.grid:
            raise InvalidInput("The survey and the population lie on different grids; make both with the same Grid.")
        if survey.mechanism.disjoint:
            rest = _shuffled(len(population), source) if rest is None else rest[question.cohort.people :]
            asked = rest[: question.cohort.people]
        elif fresh or not len(asked):
            asked = _some(len(population), question.cohort.people, source)
        if len(asked) < question.cohort.people:
            raise InvalidInput(
                f"Round {question.number} asks {question.cohort.people} people, and there are {len(asked)} left; make "
                "the cohort smaller or the population larger."
            )
        survey = survey.told(_round(question, population, asked, source, dropout, colluding))
    return survey


def _round(
    question: Question, population: Population, asked: Integers, source: Randomness, dropout: float, colluding: int
) -> Round:
    """What the shards that would be opened add up to.

    All at once: the noise of several shards is that of one with the sum of their shapes. That a sum wraps, which has a
    probability below 2^−40, is left out.
    """
    cohort = question.cohort
    there = (source.uniforms(len(asked)) >= dropout).reshape(cohort.shards, cohort.shard)
    delivered = there.sum(axis=1)
    opened = delivered >= cohort.threshold
    if not opened.any():
        raise ShardAborted(
            f"In round {question.number} no shard was opened: fewer than {cohort.threshold} of {cohort.shard} people "
            "were left in each; plan for a larger dropout."
        )
    people = asked.reshape(there.shape)[opened][there[opened]]
    totals = true_sum(question, population, people, source)
    start = 0
    for scale, length in zip(question.scales, question.lengths, strict=True):
        for shard in delivered[opened].tolist():
            shape = (shard - colluding) * cohort.shape
            totals[start : start + length] += noise_share(scale, shape, length, source)
        start += length
    return Round(question, totals, tuple(delivered[opened].tolist()))


def true_sum(question: Question, population: Population, people: Integers, source: Randomness) -> Integers:
    """What the devices of some people add up to, without noise."""
    if question.flagged and population.flags is None:
        raise InvalidInput("The survey asks for a share as well; give the population flags (Population.flagged).")
    flags = population.flags if population.flags is not None else np.zeros(len(population), dtype=np.bool_)
    first, last = population.first[people], population.first[people + 1]
    total = np.zeros(question.length, dtype=np.int64)
    single = last - first == 1
    start = 0
    # Most people have one place: all of their mass is in its entries.
    codes, flag = population.codes[first[single]], flags[people[single]]
    for part, length in zip(question.parts, question.lengths, strict=True):
        entries = part.encoding.entries(codes)
        if question.flagged:
            entries = 2 * entries + flag[:, None]
        total[start : start + length] += question.mass * np.bincount(entries.ravel(), minlength=length)
        start += length
    for person, begin, end in zip(people[~single], first[~single], last[~single], strict=True):
        total += encode(question, population.codes[begin:end], bool(flags[person]), source)
    return total


def _some(size: int, count: int, source: Randomness) -> Integers:
    """Distinct people in random order: numbers are drawn, and those that came before are passed over.

    Where everyone is asked, who is in which shard makes no difference to the sums, and they stay in order.
    """
    if count == size:
        return np.arange(size)
    if 2 * count > size:
        return _shuffled(size, source)[:count]
    found = np.empty(0, dtype=np.int64)
    while len(found) < count:
        drawn = source.below(size, count - len(found) + 16).astype(np.int64)
        pool = np.concatenate([found, drawn])
        _, place = np.unique(pool, return_index=True)
        found = pool[np.sort(place)][:count]
    return found


def _shuffled(size: int, source: Randomness) -> Integers:
    return np.argsort(source.words(size), kind="stable").astype(np.int64)


def _flags(flags: npt.ArrayLike | None, people: int) -> Booleans | None:
    if flags is None:
        return None
    found = np.asarray(flags, dtype=np.bool_)
    if found.shape != (people,):
        raise InvalidInput(f"There are {found.size} flags for {people} people; give one for each, in order.")
    return found


__all__: Sequence[str] = ["Population", "simulate", "true_sum"]
