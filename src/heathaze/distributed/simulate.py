"""Simulate a whole survey in one process, with a made-up population or with real devices.

:func:`simulate` is for planning, before any device is asked. The noise of a shard is drawn in one step, as the
difference of two Pólya numbers of shape survivors/(t − c), where t is the threshold and c the number of colluders. This
is exactly the distribution of the sum of the devices' noise shares. Places are encoded by the same code as on devices.
Masks would cancel in the sum, so none are made. The result is marked as simulated and cannot be saved as a release.

:func:`run_survey` is for small cohorts of real devices. In every round, every shard runs the protocol of
:mod:`heathaze.secagg`. Over a network, a service would carry the same messages between the same classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from heathaze.distributed.device import Device, codes_of, encode
from heathaze.distributed.encodings import Squares
from heathaze.distributed.mechanism import Round
from heathaze.distributed.question import Question
from heathaze.distributed.survey import Survey
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.partition import cell_codes
from heathaze.domain.quadtree import interleave
from heathaze.errors import HeathazeError, InvalidInput, ShardAborted
from heathaze.metrics.cellwise import mse
from heathaze.privacy.noise_shares import noise_share
from heathaze.privacy.randomness import Randomness, SecureRandomness, Simulation
from heathaze.secagg import Phase, Sum, run_shard
from heathaze.types import Booleans, Integers, Words


@dataclass(frozen=True, eq=False, repr=False)
class Population:
    """The people of a simulated survey and their places. Secret, unless made up.

    Attributes:
        grid: The public grid.
        codes: Codes of the cells of all places. Person k has the places ``codes[first[k] : first[k + 1]]``.
        first: The index at which the places of each person begin, followed by the number of all places.
        flags: Whether each person has the flag, or None.

    >>> grid = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    >>> people = Population.from_table(grid, person=["a", "b", "b"], x=[0.5, 0.5, 1.5], y=[0.5, 0.5, 0.5])
    >>> len(people), people.first.tolist()
    (2, [0, 1, 3])
    """

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
        """Draw a population from a raster: people with one place each.

        Args:
            grid: The public grid.
            raster: A density or count for each cell; no number is negative, and not all are 0.
            people: How many people to draw.
            randomness: The source of the draws.

        Returns:
            The population, without flags.

        Raises:
            InvalidInput: The raster does not fit the grid, or has a negative number.

        >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
        >>> len(Population.from_raster(grid, [[1, 2], [3, 4]], people=100, randomness=Simulation(1)))
        100
        """
        weights = np.asarray(raster, dtype=np.float64)
        if weights.shape != grid.shape or not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
            raise InvalidInput(
                f"The raster must have a number for each of {grid.rows} × {grid.cols} cells, none negative, not all 0."
            )
        edges = np.cumsum(weights.ravel())
        cells = np.searchsorted(edges, randomness.uniforms(people) * edges[-1], side="right")
        return cls(grid, cell_codes(grid)[np.minimum(cells, grid.cells - 1)], np.arange(people + 1))

    @classmethod
    def from_table(
        cls, grid: Grid, person: npt.ArrayLike, x: npt.ArrayLike, y: npt.ArrayLike, flags: npt.ArrayLike | None = None
    ) -> Population:
        """Make a population from a table of visits: each person has all their places.

        Args:
            grid: The public grid.
            person: The person of each visit.
            x: x or longitude of each visit.
            y: y or latitude of each visit.
            flags: Whether each person has the flag, in ascending order of the names of persons; None for no flags.

        Returns:
            The population, with its people in ascending order of their names.

        Raises:
            InvalidInput: The columns have different lengths.
        """
        names = np.asarray(person)
        places = np.column_stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
        if len(names) != len(places):
            raise InvalidInput(
                f"There are {len(names)} persons and {len(places)} places; give one person for each place."
            )
        order = np.argsort(names, kind="stable")
        known, visits = np.unique(names, return_counts=True)
        owner = np.repeat(np.arange(len(known)), visits)
        _, _, inside = grid.cell_of(places[order, 0], places[order, 1])
        first = np.concatenate([[0], np.cumsum(np.bincount(owner[inside], minlength=len(known)))])
        return cls(grid, codes_of(grid, places[order]), first, _flags(flags, len(known)))

    def flagged(self, flags: npt.ArrayLike) -> Population:
        """The same population with a flag for each person.

        Args:
            flags: Whether each person has the flag, in order.

        Raises:
            InvalidInput: There is not one flag for each person.
        """
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
    """Simulate a survey to its end on a population.

    Args:
        survey: The mechanism, the cohort and the rounds so far; the simulation continues from there.
        population: The people to ask.
        randomness: The source of all draws; ``Simulation(0)`` if left out.
        dropout: Probability that a person drops out before their vector arrives, from 0 to below 1.
        fresh: Whether to draw people anew for each round; otherwise the same people are asked in all rounds. A disjoint
            survey never asks a person twice.
        colluding: How many people of each shard tell the server their noise. This noise is left out of the sums, as if
            an adversary had subtracted it.

    Returns:
        The survey with all its rounds, marked as simulated.

    Raises:
        InvalidInput: The grids differ, or the population is smaller than the cohort.
        ShardAborted: In some round no shard was opened.

    >>> from heathaze.distributed import AdaptiveQuadtree, Cohort
    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=16)
    >>> population = Population.from_raster(grid, np.ones((16, 16)), 1000, Simulation(1))
    >>> done = simulate(Survey(AdaptiveQuadtree(grid, epsilon=1), Cohort(people=1000)), population)
    >>> done.ask() is None, done.guarantee.loss.epsilon <= 1
    (True, True)
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
        survey = survey.with_round(_round(question, population, asked, source, dropout, colluding))
    return survey


def _round(
    question: Question, population: Population, asked: Integers, source: Randomness, dropout: float, colluding: int
) -> Round:
    """Simulate one round of a survey: the noisy sum of all shards that would be opened.

    The simulation ignores that a sum may wrap around, which has a probability below 2^−40.
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
    """Add the vectors of people in a simulated survey, without noise.

    Args:
        question: What is asked.
        population: People and places.
        people: Indices of the people in the population.
        source: The source of randomness for rounding masses.
    """
    if question.flagged and population.flags is None:
        raise InvalidInput("The survey also asks for a share; give the population flags (Population.flagged).")
    flags = population.flags if population.flags is not None else np.zeros(len(population), dtype=np.bool_)
    first, last = population.first[people], population.first[people + 1]
    total = np.zeros(question.length, dtype=np.int64)
    single = last - first == 1
    start = 0
    # Most people have one place, and the entries of that place get all of their mass.
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
    """Draw distinct people of a population in random order; people who were drawn before are skipped.

    If all people are asked, they keep their order, because the shard of a person makes no difference to the sums.
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


# ── real devices and real secure sums ────────────────────────────────────────────────────────────────────────────────


def run_survey(
    survey: Survey, devices: Sequence[Device], *, dropout: float = 0.0, randomness: Randomness | None = None
) -> Survey:
    """Run a survey to its end with real devices and real secure sums.

    Every round draws devices at random and divides them into shards. A device that refuses (for example because its
    budget is spent) counts as dropped out. A shard with too few devices left is given up.

    Args:
        survey: The mechanism, the cohort and the rounds so far.
        devices: At least as many devices as the cohort has people; a disjoint survey needs as many for every round.
        dropout: Probability that a device drops out in each of the five phases of a secure sum, from 0 to below 1.
        randomness: Leave it out. ``Simulation(seed)`` is for tests, and its maps cannot be saved.

    Returns:
        The survey with all its rounds.

    Raises:
        InvalidInput: There are too few devices.
        ShardAborted: In some round no shard was opened.

    >>> from heathaze.distributed import Cohort, Flat
    >>> survey = Survey(Flat(Grid.plane(x=(0, 1), y=(0, 1), size=2), epsilon=1), Cohort(people=5))
    >>> devices = [Device((0.1, 0.1), budget=1, plane=True) for _ in range(5)]
    >>> run_survey(survey, devices).rounds[0].people
    5
    """
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise InvalidInput(f"dropout is {dropout!r}; give a probability from 0 to below 1.")
    source = SecureRandomness() if randomness is None else randomness
    survey = replace(survey, simulated=survey.simulated or source.simulated)
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
    """Run the secure sum of one shard; None if the shard is given up. Errors of devices are added to ``refusals``."""
    lost: dict[Phase, list[int]] = {phase: [] for phase in Phase}
    vectors: list[Words] = []
    for index, device in enumerate(devices):
        try:
            vectors.append(device.answer(question, randomness=source))
        except HeathazeError as refusal:  # the device counts as lost
            refusals.append(str(refusal))
            vectors.append(np.zeros(question.length, dtype=np.uint64))
            lost[Phase.ADVERTISE].append(index)
    for phase in Phase:
        lost[phase] += np.flatnonzero(source.uniforms(len(devices)) < dropout).tolist()
    try:
        return run_shard(question.plan_parameters(source), vectors, lost=lost, randomness=source)
    except ShardAborted:
        return None


@dataclass(frozen=True, eq=False)
class BestLevel:
    """The quadtree level whose map has the smallest mean squared error, the map of this level, and its error."""

    level: int
    density: Density
    mse: float


def best_level(population: Population, truth: npt.ArrayLike, people: Integers | None = None) -> BestLevel:
    """NOT PRIVATE: the quadtree level whose map of a population is closest to the truth (section 6.2).

    This function is for comparison in papers and tests. It reads places and the truth, so its result is not a release.

    Args:
        population: The people and their places. A person with k places counts 1/k at each of them.
        truth: The density to compare with: one number for each cell.
        people: Indices of the people to use; all people if left out.

    Returns:
        The level with the smallest mean squared error, and its map.
    """
    grid = population.grid
    expected = Density.from_mass(grid, truth)
    chosen = np.arange(len(population)) if people is None else people
    first, last = population.first[chosen], population.first[chosen + 1]
    visits = last - first
    begins = np.repeat(first - np.cumsum(visits) + visits, visits)
    codes = population.codes[begins + np.arange(visits.sum())]
    weights = np.repeat(1 / np.maximum(visits, 1), visits)
    found = []
    for level in range(grid.depth + 1):
        squares = Squares(grid, level)
        mass = np.bincount(squares.entries(codes)[:, 0], weights, squares.length)
        row, col = np.divmod(np.arange(squares.length), squares.shape[1])
        flat = TreeDensity.from_mass(grid, np.full(len(mass), level), interleave(row, col), mass).dense()
        found.append(BestLevel(level, flat, mse(expected.values, flat.values)))
    return min(found, key=lambda level: level.mse)
