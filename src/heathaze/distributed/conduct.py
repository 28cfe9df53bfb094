"""A whole survey of real devices in one process, by real secure sums: for small cohorts, tests and demonstrations.

Over a network a service carries the same messages between the same classes; nothing here is needed then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from heathaze.distributed.device import Device, plan_terms
from heathaze.distributed.question import Question
from heathaze.distributed.survey import Survey
from heathaze.errors import HeathazeError, InvalidInput, ShardAborted
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.types import Words

if TYPE_CHECKING:
    from heathaze.secagg import Sum


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
