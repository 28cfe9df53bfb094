"""The server's half: questions go out, secure sums come in, a release is made of them. It cannot be given a place."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from heathaze.distributed.cohort import Cohort
from heathaze.distributed.device import check_terms
from heathaze.distributed.encodings import Regions
from heathaze.distributed.question import Part, Question
from heathaze.domain.density import TreeDensity
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, PromiseBroken, ShardAborted, expect
from heathaze.inference.estimate import Estimate
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Composition, Event, event_to_dict
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import warn_if_weak
from heathaze.privacy.noise_shares import decode, share_deviation
from heathaze.privacy.provenance import Provenance
from heathaze.release.release import Release
from heathaze.types import Floats, Integers

if TYPE_CHECKING:
    from heathaze.secagg import Sum


@dataclass(frozen=True, eq=False)
class Inquiry:
    """What a mechanism wants to ask next."""

    parts: tuple[Part, ...]
    final: bool
    mass: int = 1
    flagged: bool = False


class Questioner(Protocol):
    """A mechanism that asks: parameters only. What it asks next depends on nothing but noisy sums."""

    @property
    def grid(self) -> Grid:
        """The public frame."""

    @property
    def epsilon(self) -> Fraction:
        """What all rounds together cost one person."""

    @property
    def disjoint(self) -> bool:
        """Is nobody asked in more than one round? Then a person pays for their own round alone."""

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> Inquiry | None:
        """The next question in view of what the rounds so far told, or None when all was asked."""

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:
        """The map that all rounds together tell."""

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""


@dataclass(frozen=True, eq=False)
class Round:
    """A question and what came back: the noisy sums of all shards that were opened, added up. Public.

    ``delivered`` is how many people each of those shards had in the end. An unopened shard tells nothing.
    """

    question: Question
    totals: Integers
    delivered: tuple[int, ...]

    def __post_init__(self) -> None:
        cohort = self.question.cohort
        if self.totals.shape != (self.question.length,):
            raise InvalidInput(
                f"A round has sums of shape {self.totals.shape}; the question needs {self.question.length} numbers."
            )
        if not 1 <= len(self.delivered) <= cohort.shards:
            raise InvalidInput(f"A round has {len(self.delivered)} shards; expected 1 to {cohort.shards}.")
        if not all(cohort.threshold <= count <= cohort.shard for count in self.delivered):
            raise PromiseBroken(
                f"A sum is of {min(self.delivered)} to {max(self.delivered)} people; expected {cohort.threshold} to "
                f"{cohort.shard}, the size of a shard, so it must not be used."
            )

    @property
    def people(self) -> int:
        """Everyone whose vector is in the sums."""
        return sum(self.delivered)

    def values(self, part: int = 0) -> Floats:
        """Sums of one part in people; with a flag, two columns: without and with it."""
        start = sum(self.question.lengths[:part])
        found = self.totals[start : start + self.question.lengths[part]] / self.question.mass
        return found.reshape(-1, 2) if self.question.flagged else found

    def counts(self, part: int = 0) -> Floats:
        """Sums of one part in people, whatever their flag."""
        values = self.values(part)
        return np.asarray(values.sum(axis=1)) if self.question.flagged else values

    def deviation(self, part: int = 0) -> float:
        """Standard deviation of the noise of each number of :meth:`values`, in people."""
        shape = float(self.people * self.question.cohort.shape)
        return math.sqrt(shape) * share_deviation(self.question.scales[part]) / self.question.mass

    def density(self, part: int = 0) -> TreeDensity:
        """The map as these sums alone have it: negative ones count as nothing, regions are flat."""
        encoding = self.question.parts[part].encoding
        if not isinstance(encoding, Regions):
            raise InvalidInput(f"A {type(encoding).__name__} has no regions that a density could be spread over.")
        return encoding.partition.density(self.counts(part))

    @functools.cached_property
    def event(self) -> Event:
        """What happened to one person's data, from the shard in which the fewest delivered."""
        return self.question.event(min(self.delivered))


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """Rounds of questions and sums, and the map they lead to. It never changes: :meth:`answered` gives the next.

    Args:
        mechanism: What to ask, for example ``hz.distributed.AdaptiveQuadtree(grid, epsilon=1)``.
        cohort: How many people are asked in each round.
        name: 32 hexadecimal digits by which devices tell surveys apart; drawn unless given.
        rounds: What was asked and told so far.
        simulated: Made with simulated randomness, so never to be saved.
    """

    mechanism: Questioner
    cohort: Cohort
    name: str = dataclasses.field(default_factory=lambda: os.urandom(16).hex())
    rounds: tuple[Round, ...] = ()
    simulated: bool = False

    def __post_init__(self) -> None:
        expect(Cohort, self.cohort, "The cohort")
        if not self.rounds:
            warn_if_weak(self.mechanism.epsilon)

    def __repr__(self) -> str:
        return f"<Survey: {type(self.mechanism).__name__}, {self.cohort.people} people, {len(self.rounds)} rounds told>"

    def ask(self) -> Question | None:
        """The next question for every device of the cohort, or None when the survey is over."""
        inquiry = self.mechanism.ask(self.cohort, self.rounds)
        if inquiry is None:
            return None
        number = len(self.rounds) + 1
        return Question(
            self.name,
            number,
            inquiry.parts,
            self.cohort,
            inquiry.mass,
            inquiry.flagged,
            inquiry.final,
            self.mechanism.disjoint,
        )

    def answered(self, sums: Sequence[Sum]) -> Survey:
        """The survey after one more round: one secure sum for each shard that was opened.

        Raises:
            ShardAborted: None was opened. Devices have paid all the same, and do not answer the question again.
            InvalidInput: A sum is not one of this question, or of fewer people than it may be opened with.
        """
        question = self.ask()
        if question is None:
            raise InvalidInput("The survey is over; estimate() makes the map.")
        if not sums:
            raise ShardAborted(
                "No shard was opened: too many people were lost. Begin a new survey with the budget that is left; "
                "devices do not answer a round twice."
            )
        if len(sums) > self.cohort.shards:
            raise InvalidInput(
                f"There are {len(sums)} sums; expected at most {self.cohort.shards}, one for each shard."
            )
        if len({found.terms.round for found in sums}) < len(sums):
            raise InvalidInput("The same sum is there twice; give one for each shard.")
        totals = np.zeros(question.length, dtype=np.int64)
        for found in sums:
            _check_sum(question, found)
            totals += decode(found.values, question.bits, self.cohort.shard, question.mass)
        return self._with(Round(question, totals, tuple(len(found.survivors) for found in sums)))

    def told(self, last: Round) -> Survey:
        """The survey after one more round, which must be the answer to :meth:`ask`."""
        question = self.ask()
        if question is None or question.fingerprint != last.question.fingerprint:
            raise InvalidInput("The round answers another question than the one this survey asks next.")
        return self._with(last)

    def _with(self, last: Round) -> Survey:
        return dataclasses.replace(self, rounds=(*self.rounds, last))

    @property
    def guarantee(self) -> Guarantee:
        """What the rounds so far promise, from the people who really delivered."""
        loss = compose([self.event])
        trust = (Adjacency.ZERO_OUT, Trust.SECURE_SUM, self.cohort.colluders)
        # Shards are dealt anew in every round, and each dealing may go wrong.
        return Guarantee(loss, Unit.PERSON, *trust, failure_probability=len(self.rounds) * self.cohort.excess)

    @property
    def event(self) -> Event:
        """What happened to the data of one person in all rounds, or in the dearest if nobody was asked twice."""
        events = [told.event for told in self.rounds]
        if self.mechanism.disjoint and events:
            return max(events, key=lambda event: compose([event]).epsilon)
        return Composition(tuple(events))

    @property
    def numbers_sent(self) -> int:
        """Integers that a person sent who was asked in every round."""
        return sum(told.question.length for told in self.rounds)

    def estimate(self, *, draws: int = 24) -> Release:
        """The map that all rounds together tell.

        Args:
            draws: How many maps to draw beside it, for its error bars; 0 for none, which is quicker.
        """
        if not self.rounds:
            raise InvalidInput("No round was answered yet; there is nothing to make a map from.")
        if draws == 1 or draws < 0:
            raise InvalidInput(f"draws is {draws}; give 0, or at least 2 to see how they differ.")
        found = self.mechanism.estimate(self.rounds, draws)
        provenance = Provenance(
            mechanism=type(self.mechanism).__name__,
            parameters=self.mechanism.parameters(),
            weight="share",
            at_most=None,
            event=event_to_dict(self.event),
            day=datetime.datetime.now(datetime.UTC).date().isoformat(),
            simulated=self.simulated,
            extra={
                "cohort": self.cohort.to_dict(),
                "rounds": [
                    {
                        "epsilon": str(told.question.epsilon),
                        "numbers": told.question.length,
                        "delivered": list(told.delivered),
                    }
                    for told in self.rounds
                ],
            },
        )
        return Release(found, self.guarantee, provenance)


def _check_sum(question: Question, found: Sum) -> None:
    check_terms(question, found.terms)
    if len(set(found.survivors)) < len(found.survivors) or not set(found.survivors) <= set(range(found.terms.clients)):
        raise InvalidInput("A sum names somebody twice, or somebody who was not invited.")
    values = np.asarray(found.values)
    if values.shape != (question.length,):
        raise InvalidInput(f"A sum has shape {values.shape}; the question needs {question.length} numbers.")
