"""The device's half: a question goes in, a vector for the secure sum comes out, and nothing else leaves.

The vector holds the person's mass in the entries of their places, and a share of the noise. Alone it hides little, so
it goes nowhere but into a :class:`heathaze.secagg.Client`, which sends it masked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heathaze.distributed.question import Question
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import interleave
from heathaze.errors import AlreadyCharged, BudgetExceeded, InvalidInput, PromiseBroken, SensitivityExceeded, expect
from heathaze.privacy.accountant import compose
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import Number, decimal, parse_epsilon, warn_if_weak
from heathaze.privacy.noise_shares import noise_share
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.privacy.secret import Secret
from heathaze.types import Floats, Integers, Words

if TYPE_CHECKING:
    from heathaze.secagg import Client, Identity, Terms


class Device(Secret):
    """One person's device: answers questions about their places as far as their own budget goes.

    Args:
        places: Rows (x, y) in the coordinates of the map; longitude first. A place visited often may stand there often.
            Positions that cannot exist are refused: numbers that are not finite, and points that are not on the globe
            unless the places lie on a plane.
        budget: ε that all answers of this device may cost together, kept in memory; or else give a ledger.
        ledger: The person's own budget on disk. It also remembers which questions were answered.
        flag: For surveys that ask for a share as well: does the person have it?
        crowd: Sums with fewer honest people than this are not answered.
        plane: The places lie on a plane, in its own unit of length, not on the globe. Questions about longitude and
            latitude are then refused.
    """

    def __init__(
        self,
        places: npt.ArrayLike,
        *,
        budget: Number | None = None,
        ledger: Ledger | None = None,
        flag: bool | None = None,
        crowd: int = 2,
        plane: bool = False,
    ) -> None:
        if (budget is None) == (ledger is None):
            raise InvalidInput("A device needs a budget or a ledger to pay from, and not both.")
        self._places = _rows(places)
        self._plane = plane
        if not plane:
            _check_on_globe(self._places)
        self._flag = flag
        if type(crowd) is not int or crowd < 2:
            raise InvalidInput(f"crowd is {crowd!r}; give a whole number, 2 or larger.")
        self._crowd = crowd
        self._ledger = ledger
        self._budget = None if budget is None else parse_epsilon(budget, "budget")
        if self._budget is not None:
            warn_if_weak(self._budget, "budget")
        self._answered: dict[str, _Answered] = {}

    def __repr__(self) -> str:
        return f"<Device: ε = {float(self.remaining):g} left>"

    @property
    def remaining(self) -> Fraction:
        """What is left of the budget."""
        if self._ledger is not None:
            return self._ledger.remaining
        assert self._budget is not None
        return self._budget

    def answer(self, question: Question, *, randomness: Randomness | None = None) -> Words:
        """The vector for the secure sum, modulo 2^bits: look at the question, pay, encode, add a share of the noise.

        Raises:
            PromiseBroken: The question is one that may not be answered; nothing was paid and nothing leaves.
            InvalidInput: The map has longitude and latitude, and the places lie on a plane; nothing was paid.
            BudgetExceeded: It costs more than is left; nothing was paid and nothing leaves.
        """
        self._check(question)
        self._pay(question)
        source = SecureRandomness() if randomness is None else randomness
        vector = encode(question, codes_of(question.grid, self._places), bool(self._flag), source)
        start = 0
        for scale, length in zip(question.scales, question.lengths, strict=True):
            vector[start : start + length] += noise_share(scale, question.cohort.shape, length, source)
            start += length
        return np.asarray(vector & np.int64(2**question.bits - 1), dtype=np.uint64)

    def join(
        self,
        question: Question,
        terms: Terms,
        index: int,
        identity: Identity,
        directory: Mapping[int, bytes],
        server_key: bytes,
        *,
        randomness: Randomness | None = None,
    ) -> Client:
        """Take part in the secure sum of a shard: the client that will carry the answer, masked.

        The arguments after the question are those of :class:`heathaze.secagg.Client`; terms that keep less than the
        question promises are refused before anything is paid.
        """
        from heathaze.secagg import Client, Terms

        expect(Question, question, "The question")
        expect(Terms, terms, "The terms")
        check_terms(question, terms)
        source = SecureRandomness() if randomness is None else randomness
        # Whatever a client refuses (unsafe terms, a wrong directory), it refuses here, before anything is paid.
        Client(terms, index, identity, directory, server_key, np.zeros(terms.length, dtype=np.uint64), source)
        vector = self.answer(question, randomness=source)
        return Client(terms, index, identity, directory, server_key, vector, source)

    def _check(self, question: Question) -> None:
        """Each question against all that were answered before."""
        expect(Question, question, "The question")
        if question.flagged and self._flag is None:
            raise InvalidInput("The survey asks for a share as well; say flag=True or flag=False for this person.")
        if self._plane and question.grid.projection.is_geographic:
            raise InvalidInput(
                "The question is about longitude and latitude, and the places of this device lie on a plane. Nothing "
                "was paid and nothing leaves."
            )
        honest = question.cohort.threshold - question.cohort.colluders
        if honest < self._crowd:
            raise PromiseBroken(
                f"The sum may be opened with {honest} honest people; this device wants to be among at least "
                f"{self._crowd}, so it does not answer."
            )
        before = self._last(question.survey)
        if before is None:
            return
        if question.number == before.number:
            raise PromiseBroken(
                f"Round {question.number} was answered before; a second answer could be compared with the first, so "
                "none is given."
            )
        if question.number < before.number:
            raise PromiseBroken(
                f"Round {before.number} was answered already; expected a later one than {question.number}."
            )
        if _frame(question) != before.frame:
            raise PromiseBroken(
                f"Round {question.number} has another grid, mass or flag than the rounds of this survey that were "
                "answered; expected the same, so it is not answered."
            )
        if question.disjoint:
            raise PromiseBroken(
                f"Round {before.number} of this survey was answered, which promised to ask nobody twice; no other is."
            )
        if before.final:
            raise PromiseBroken(f"Round {before.number} was announced as the last; no other is answered.")

    def _last(self, survey: str) -> _Answered | None:
        """The latest round of a survey that was answered, by this object or by those before it on the same ledger."""
        if self._ledger is None:
            return self._answered.get(survey)
        notes = [_Answered.read(entry.note) for entry in self._ledger.entries()]
        rounds = [found for found in notes if found is not None and found.survey == survey]
        return max(rounds, key=lambda found: found.number, default=None)

    def _pay(self, question: Question) -> None:
        guarantee = question.guarantee
        if self._ledger is not None:
            asked = _Answered.to(question)
            try:
                self._ledger.charge(guarantee, question.event(), note=asked.note, once=asked.round)
            except AlreadyCharged:
                raise PromiseBroken(
                    f"Round {question.number} was answered meanwhile; no second answer is given."
                ) from None
        else:
            assert self._budget is not None
            if question.epsilon > self._budget:
                raise BudgetExceeded(
                    f"The answer costs ε = {decimal(question.epsilon)}, and the device has "
                    f"ε = {float(self._budget):g} left; nothing was paid and nothing leaves."
                )
            cost = compose([question.event()]).epsilon  # refuses noise that is too small to have a price
            if cost > question.epsilon:
                raise PromiseBroken(
                    f"The answer costs ε = {decimal(cost)}, more than the ε = {decimal(question.epsilon)} it declares; "
                    "it is not given."
                )
            self._budget -= question.epsilon
            self._answered[question.survey] = _Answered.to(question)


@dataclass(frozen=True)
class _Answered:
    """What a device keeps of a question that it answered; in a ledger it is the note of the charge."""

    survey: str
    number: int
    frame: str
    final: bool

    @classmethod
    def to(cls, question: Question) -> _Answered:
        return cls(question.survey, question.number, _frame(question), question.final)

    @classmethod
    def read(cls, note: str) -> _Answered | None:
        """Undo :attr:`note`; None for a note about something else."""
        found = re.fullmatch(r"survey ([0-9a-f]{32}) round ([0-9]{1,18}) frame ([0-9a-f]{32})( last)?", note)
        return found and cls(found[1], int(found[2]), found[3], bool(found[4]))

    @property
    def round(self) -> str:
        return f"survey {self.survey} round {self.number} "

    @property
    def note(self) -> str:
        return f"{self.round}frame {self.frame}{' last' if self.final else ''}"


def _frame(question: Question) -> str:
    """Grid, mass and flag of a question, which all rounds of a survey share, in 32 hexadecimal digits."""
    fields = [question.grid.to_dict(), question.mass, question.flagged]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]


def check_terms(question: Question, terms: Terms) -> None:
    """Do the terms of a secure sum keep what the question promises?"""
    cohort = question.cohort
    for name, found, expected in (
        ("length", terms.length, question.length),
        ("bits", terms.bits, question.bits),
        ("clients", terms.clients, cohort.shard),
    ):
        if found != expected:
            raise InvalidInput(f"The terms of the sum have {name} {found}; the question needs {expected}.")
    if terms.purpose != question.fingerprint:
        raise PromiseBroken(
            "The terms of the sum are those of another question; expected this one's, so that all in the shard answer "
            "the same. It is not answered."
        )
    for name, found, expected in (
        ("survivors_at_least", terms.survivors_at_least, cohort.threshold),
        ("corrupt_at_most", terms.corrupt_at_most, cohort.colluders),
    ):
        if found < expected:
            raise PromiseBroken(
                f"The terms of the sum have {name} {found}; the question promises at least {expected}, so it is not "
                "answered."
            )


def plan_terms(question: Question, randomness: Randomness | None = None) -> Terms:
    """Terms of a secure sum that keep what the question promises, with a new name for the round of one shard."""
    # Imported late: `import heathaze` stays quick.
    from heathaze.secagg import Terms

    cohort = question.cohort
    return Terms.plan(
        cohort.shard,
        question.length,
        question.bits,
        # In whole people, which both sides round alike.
        dropout=(cohort.shard - cohort.threshold) / cohort.shard,
        corruption=cohort.colluders / cohort.shard,
        survivors_at_least=cohort.threshold,
        purpose=question.fingerprint,
        randomness=randomness,
    )


# ── from places to integers ─────────────────────────────────────────────────────────────────────────────────────────


def codes_of(grid: Grid, places: Floats) -> Integers:
    """The cells of places, by their codes; places outside the map are left out."""
    row, col, inside = grid.cell_of(places[:, 0], places[:, 1])
    return interleave(row[inside], col[inside])


def encode(question: Question, codes: Integers, flag: bool, randomness: Randomness) -> Integers:
    """A person's mass in the entries of their places, without noise; zeros for someone who has no place on the map."""
    vector = np.zeros(question.length, dtype=np.int64)
    start = 0
    for part, length in zip(question.parts, question.lengths, strict=True):
        here = vector[start : start + length]
        if len(codes):
            entries = part.encoding.entries(codes)
            if question.flagged:
                entries = 2 * entries + int(flag)
            for column in entries.T:
                touched, counts = np.unique(column, return_counts=True)
                np.add.at(here, touched, split_mass(question.mass, counts, randomness))
        if here.sum() > question.sensitivity(part) or (here < 0).any():
            raise SensitivityExceeded("A person weighs more than the noise was made for; nothing leaves.")
        start += length
    return vector


def split_mass(mass: int, counts: Integers, randomness: Randomness) -> Integers:
    """An integer mass split in proportion to counts, by systematic rounding: sums to ``mass`` exactly (errata E3-8).

        z_i = ⌊(mass · C_i + u)/n⌋ − ⌊(mass · C_(i−1) + u)/n⌋

    C_i are the cumulative counts, n the last of them, and u is uniform in 0 … n − 1. Each z_i is mass · count_i / n on
    average, and less than 1 away from it.
    """
    total = int(counts.sum())
    cumulative = np.concatenate([[0], np.cumsum(counts)]).astype(object) * mass
    rounded = (cumulative + int(randomness.below(total, 1)[0])) // total
    return np.diff(rounded).astype(np.int64)


def _rows(places: npt.ArrayLike) -> Floats:
    try:
        rows = np.asarray(places, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput("A place is not two numbers: x and y, or longitude and latitude.") from None
    rows = rows.reshape(0, 2) if rows.size == 0 else np.atleast_2d(rows)
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise InvalidInput("Places come as rows of two numbers: x and y, or longitude and latitude.")
    if not np.isfinite(rows).all():
        raise InvalidInput("A place is not a finite number; leave out what was not measured.")
    return rows


def _check_on_globe(places: Floats) -> None:
    """Refuse positions that cannot exist: most often latitude stands first, or they are metres."""
    if (np.abs(places) > (180, 90)).any():
        raise InvalidInput(
            "A place of this device is not on the globe; give longitude from -180 to 180 and latitude from -90 to 90, "
            "longitude first, or say plane=True if it is a point of a plane."
        )
