"""Survey: the server sends questions, receives secure sums, and makes a release from them.

This module never handles a place. It imports neither the device nor :mod:`heathaze.ingest`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heathaze.distributed.cohort import Cohort
from heathaze.distributed.mechanism import Questioner, Round
from heathaze.distributed.question import Question
from heathaze.errors import InvalidInput, ShardAborted, expect
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import Composition, Event
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.loss import warn_if_weak
from heathaze.privacy.noise_shares import decode
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import fresh_bytes
from heathaze.release.release import Release
from heathaze.secagg import Sum


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """A survey: its mechanism, its cohort, and the rounds of questions and noisy sums so far.

    A survey is immutable; :meth:`answered` returns the survey after one more round. The next question is a function of
    the noisy sums so far, so anyone who has the sums can verify the question. If a shard is given up, the other shards
    still make a round. If no shard is opened, the survey ends: devices that answered have paid, and they do not answer
    the same round again.

    Args:
        mechanism: The mechanism that chooses the questions, for example ``hz.distributed.AdaptiveQuadtree(grid,
            epsilon=1)``.
        cohort: How many people are asked in each round.
        name: 32 hexadecimal digits by which devices tell surveys apart; drawn at random if left out.
        rounds: The rounds so far.
        simulated: Whether the survey was made with simulated randomness; its release then cannot be saved.

    >>> from heathaze.distributed import Flat
    >>> from heathaze.domain.grid import Grid
    >>> survey = Survey(Flat(Grid.plane(x=(0, 1), y=(0, 1), size=4), epsilon=1), Cohort(people=1000))
    >>> survey, survey.ask().length
    (<Survey: Flat, 1000 people, 0 rounds>, 16)
    """

    mechanism: Questioner
    cohort: Cohort
    name: str = dataclasses.field(default_factory=lambda: fresh_bytes(16).hex())
    rounds: tuple[Round, ...] = ()
    simulated: bool = False

    def __post_init__(self) -> None:
        expect(Cohort, self.cohort, "The cohort")
        if not self.rounds:
            warn_if_weak(self.mechanism.epsilon)

    def __repr__(self) -> str:
        return f"<Survey: {type(self.mechanism).__name__}, {self.cohort.people} people, {len(self.rounds)} rounds>"

    def ask(self) -> Question | None:
        """The next question for every device of the cohort, or None when the survey is over."""
        return self._question

    @functools.cached_property
    def _question(self) -> Question | None:
        wanted = self.mechanism.ask(self.cohort, self.rounds)
        if wanted is None:
            return None
        number, disjoint = len(self.rounds) + 1, self.mechanism.disjoint
        return Question(
            self.name, number, wanted.parts, self.cohort, wanted.mass, wanted.flagged, wanted.final, disjoint
        )

    def answered(self, sums: Sequence[Sum]) -> Survey:
        """Add a round to the survey from the secure sums of its shards.

        Each sum contains the parameters of its secure sum, and the parameters contain the hash of the question. The sum
        of each shard is decoded to signed numbers before the sums are added (errata E3-9).

        Args:
            sums: One secure sum for each shard that was opened.

        Returns:
            The survey with the round added.

        Raises:
            ShardAborted: No shard was opened. The devices have paid nevertheless.
            InvalidInput: The survey is over, a sum does not fit the question, or a sum occurs twice.
            PromiseBroken: A sum belongs to another question, or has fewer people than the threshold.
        """
        question = self.ask()
        if question is None:
            raise InvalidInput("The survey is over; estimate() makes the map.")
        if not sums:
            raise ShardAborted(
                "No shard was opened, because too many people were lost. Begin a new survey with the budget that is "
                "left; devices do not answer a round twice."
            )
        if len(sums) > self.cohort.shards:
            raise InvalidInput(
                f"There are {len(sums)} sums; expected at most {self.cohort.shards}, one for each shard."
            )
        if len({found.parameters.round for found in sums}) < len(sums):
            raise InvalidInput("The same sum was given twice; give one for each shard.")
        totals = np.zeros(question.length, dtype=np.int64)
        for found in sums:
            _check_sum(question, found)
            totals += decode(found.values, question.bits, self.cohort.shard, question.mass)
        return self.with_round(Round(question, totals, tuple(len(found.survivors) for found in sums)))

    def with_round(self, last: Round) -> Survey:
        """Add a round to the survey.

        Args:
            last: The round that answers the question of :meth:`ask`.

        Returns:
            A new survey with the round; this one stays as it is.

        Raises:
            InvalidInput: The round answers another question.
        """
        question = self.ask()
        if question is None or (question is not last.question and question.fingerprint != last.question.fingerprint):
            raise InvalidInput("The round answers another question than the one this survey asks next; answer ask().")
        return dataclasses.replace(self, rounds=(*self.rounds, last))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the rounds so far, computed from the number of people who delivered.

        For each round, the noise is that of the honest people in the smallest shard that was opened.
        """
        return self.cohort.guarantee(compose([self.event]), len(self.rounds))

    @property
    def event(self) -> Event:
        """The privacy event of one person: all rounds, or the most expensive round if no person is asked twice."""
        events = [one.event for one in self.rounds]
        if self.mechanism.disjoint and events:
            return max(events, key=lambda event: compose([event]).epsilon)
        return Composition(tuple(events))

    @property
    def numbers_sent(self) -> int:
        """The number of integers sent by a person who is asked in every round."""
        return sum(one.question.length for one in self.rounds)

    def estimate(self, *, draws: int = 24) -> Release:
        """Estimate the map from all rounds of the survey.

        Args:
            draws: How many maps to draw for the error bars: 2 or more, or 0 for no error bars, which is quicker.

        Returns:
            The release. Its provenance lists for each round its ε, how many integers a person sent, and how many people
            delivered.

        Raises:
            InvalidInput: No round was answered yet, or ``draws`` is 1 or negative.
        """
        if not self.rounds:
            raise InvalidInput("No round was answered yet, so there is no map; ask the devices first.")
        if draws == 1 or draws < 0:
            raise InvalidInput(f"draws is {draws}; give 0, or at least 2 to see how they differ.")
        found = self.mechanism.estimate(self.rounds, draws)
        rounds = [
            {"epsilon": str(one.question.epsilon), "numbers": one.question.length, "delivered": list(one.delivered)}
            for one in self.rounds
        ]
        extra = {"cohort": self.cohort.to_dict(), "rounds": rounds}
        provenance = Provenance.of_devices(self.mechanism, self.event, self.simulated, extra)
        return Release(found, self.guarantee, provenance)


def _check_sum(question: Question, found: Sum) -> None:
    question.check_parameters(found.parameters)
    survivors, invited = set(found.survivors), set(range(found.parameters.clients))
    if len(survivors) < len(found.survivors) or not survivors <= invited:
        raise InvalidInput("A sum names a client twice, or a client that was not invited.")
    values = np.asarray(found.values)
    if values.shape != (question.length,):
        raise InvalidInput(f"A sum has shape {values.shape}; the question needs {question.length} numbers.")
