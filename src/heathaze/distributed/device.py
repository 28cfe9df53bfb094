"""Device of a survey: it answers a question with a vector for the secure sum, and only this vector leaves the device.

The vector holds the person's mass in the entries of their places, plus a share of the noise. The share is too small to
protect a single vector. So the vector may only be given to a :class:`heathaze.secagg.Client`, which sends it masked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from heathaze.checks import shown, whole
from heathaze.distributed.question import Question
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import interleave
from heathaze.errors import AlreadyCharged, InvalidInput, PromiseBroken, SensitivityExceeded, expect
from heathaze.privacy.door import Receipt, pay
from heathaze.privacy.ledger import Budget, Ledger
from heathaze.privacy.loss import Number, warn_if_weak
from heathaze.privacy.noise_shares import noise_share, split_mass
from heathaze.privacy.randomness import Randomness, Secret, SecureRandomness
from heathaze.secagg import Client, Identity, Parameters
from heathaze.types import Floats, Integers, Words


class Device(Secret):
    """The device of one person. It answers questions about their places until their budget is spent.

    The device first compares a question with all questions it answered before, then charges the budget, then encodes
    the places and adds noise. A refused question costs nothing. A crash may waste budget, but never overspends it.

    A device refuses

    - a round that it answered before, because the server could compare the two sums;
    - a round earlier than the latest round that it answered, and any round after the final one;
    - a grid, mass or flag that differs from an earlier question of the same survey;
    - a second round of a survey that promised to ask no person twice;
    - a sum over fewer honest people than ``crowd``;
    - a question that costs more than the remaining budget.

    Args:
        places: Rows (x, y) in the coordinates of the map; longitude first. A place that was visited several times may
            occur several times. Places outside the map do not count. A person without a place on the map sends only
            noise, and the server cannot tell the difference.
        budget: Largest total ε of all answers of this device, kept in memory. Give either a budget or a ledger.
        ledger: The person's budget on disk. It also remembers which rounds were answered.
        flag: Whether the person has the flag, for surveys that also ask for a share.
        crowd: Smallest number of honest people in a sum that contains the person's vector, 2 or more.
        plane: Whether the places lie on a plane with its own unit of length, not on the globe. If so, the device
            refuses questions about longitude and latitude.

    Raises:
        InvalidInput: A place is not two finite numbers, or is not on the globe (most often latitude was given first, or
            metres); or neither or both of ``budget`` and ``ledger`` are given.

    >>> Device((13.4, 52.5), budget=1)
    <Device: ε = 1 left>
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
        self._crowd = whole(crowd, "crowd", "the fewest honest people to be summed with", least=2)
        if ledger is not None and not isinstance(ledger, Ledger):
            raise InvalidInput(f"ledger is {shown(ledger)}; open it first: Ledger.open(path, total=…).")
        self._ledger: Ledger | Budget
        if ledger is not None:
            self._ledger = ledger
        else:
            assert budget is not None
            self._ledger = Budget(budget)
            warn_if_weak(self._ledger.total, "budget")

    def __repr__(self) -> str:
        return f"<Device: ε = {float(self.remaining):g} left>"

    @property
    def remaining(self) -> Fraction:
        """The remaining budget of this device, as ε."""
        return self._ledger.remaining

    def answer(self, question: Question, *, randomness: Randomness | None = None) -> Words:
        """Answer a question: check it, pay for it, encode the places, and add a share of the noise.

        The vector must not be sent unmasked. This method cannot check that all devices of the shard answer the same
        question; :meth:`join` does.

        Args:
            question: What is asked.
            randomness: The source of the noise; the operating system's if left out.

        Returns:
            ``question.length`` integers modulo 2^bits.

        Raises:
            PromiseBroken: The device must not answer the question. Nothing was paid, and nothing left the device.
            InvalidInput: The map has longitude and latitude and the places lie on a plane, or the flag is missing;
                nothing was paid.
            BudgetExceeded: The answer costs more than the remaining budget. Nothing was paid, and nothing left the
                device.
        """
        self._check(question)
        source = self._pay(question, randomness).randomness
        vector = encode(question, codes_of(question.grid, self._places), bool(self._flag), source)
        start = 0
        for scale, length in zip(question.scales, question.lengths, strict=True):
            vector[start : start + length] += noise_share(scale, question.cohort.shape, length, source)
            start += length
        return np.asarray(vector & np.int64(2**question.bits - 1), dtype=np.uint64)

    def join(
        self,
        question: Question,
        parameters: Parameters,
        index: int,
        identity: Identity,
        directory: Mapping[int, bytes],
        server_key: bytes,
        *,
        randomness: Randomness | None = None,
    ) -> Client:
        """Answer a question through the secure sum of a shard.

        The parameters of the secure sum contain the hash of the question, and all keys depend on the parameters. If
        devices of a shard received different questions, the secure sum fails.

        Args:
            question: What is asked.
            parameters: The parameters of the secure sum.
            index: The index of this device among the clients of the shard, from 0.
            identity: The device's long-lived keys.
            directory: Public identities of all clients, by their index.
            server_key: The server's public identity.
            randomness: The source of noise and keys; the operating system's if left out.

        Returns:
            The client that carries the answer, masked.

        Raises:
            PromiseBroken: The device must not answer the question, or the secure sum is weaker than the question
                promises.
            InvalidInput: The parameters, the directory or a key does not fit.
            BudgetExceeded: The answer costs more than the remaining budget.
        """
        expect(Question, question, "The question")
        question.check_parameters(parameters)
        source = SecureRandomness() if randomness is None else randomness
        # A client refuses unsafe parameters or a wrong directory here, before anything is paid.
        Client(parameters, index, identity, directory, server_key, np.zeros(parameters.length, dtype=np.uint64), source)
        vector = self.answer(question, randomness=source)
        return Client(parameters, index, identity, directory, server_key, vector, source)

    def _check(self, question: Question) -> None:
        """Refuse a question that this device must not answer, given the questions that it answered before."""
        expect(Question, question, "The question")
        if question.flagged and self._flag is None:
            raise InvalidInput("The survey also asks for a share; give flag=True or flag=False for this person.")
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
                f"Round {before.number} of this survey was answered, and the survey promised to ask no person twice; "
                "no other round is answered."
            )
        if before.final:
            raise PromiseBroken(f"Round {before.number} was announced as the last; no other is answered.")

    def _last(self, survey: str) -> _Answered | None:
        """The latest round of a survey that was answered by this device, or by another one with the same ledger."""
        notes = [_Answered.read(entry.note) for entry in self._ledger.entries()]
        rounds = [found for found in notes if found is not None and found.survey == survey]
        return max(rounds, key=lambda found: found.number, default=None)

    def _pay(self, question: Question, randomness: Randomness | None) -> Receipt:
        asked = _Answered.to(question)
        try:
            return pay(
                question.guarantee,
                question.event(),
                ledger=self._ledger,
                randomness=randomness,
                note=asked.note,
                once=asked.round,
            )
        except AlreadyCharged:
            raise PromiseBroken(f"Round {question.number} was answered meanwhile; no second answer is given.") from None


@dataclass(frozen=True)
class _Answered:
    """A question that a device answered, as the device notes it in the ledger."""

    survey: str
    number: int
    frame: str
    final: bool

    @classmethod
    def to(cls, question: Question) -> _Answered:
        return cls(question.survey, question.number, _frame(question), question.final)

    @classmethod
    def read(cls, note: str) -> _Answered | None:
        """Parse the :attr:`note` of a ledger entry; None if the entry is not about a survey."""
        found = re.fullmatch(r"survey ([0-9a-f]{32}) round ([0-9]{1,18}) frame ([0-9a-f]{32})( last)?", note)
        return found and cls(found[1], int(found[2]), found[3], bool(found[4]))

    @property
    def round(self) -> str:
        return f"survey {self.survey} round {self.number} "

    @property
    def note(self) -> str:
        return f"{self.round}frame {self.frame}{' last' if self.final else ''}"


def _frame(question: Question) -> str:
    """Hash of grid, mass and flag of a question, which all rounds of a survey share: 32 hexadecimal digits."""
    fields = [question.grid.to_dict(), question.mass, question.flagged]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]


# ── from places to integers ─────────────────────────────────────────────────────────────────────────────────────────


def codes_of(grid: Grid, places: Floats) -> Integers:
    """The quadtree codes of the cells that contain the places of a person; places outside the map are left out.

    Args:
        grid: The public grid.
        places: Rows (x, y).
    """
    row, col, inside = grid.cell_of(places[:, 0], places[:, 1])
    return interleave(row[inside], col[inside])


def encode(question: Question, codes: Integers, flag: bool, randomness: Randomness) -> Integers:
    """Encode the places of one person as a vector for the secure sum, without noise.

    Args:
        question: What is asked.
        codes: Codes of the cells of the person's places, one for each visit. Without codes the vector is zero.
        flag: Whether the person has the flag; ignored unless the question is flagged.
        randomness: The source of randomness for rounding the mass.

    Raises:
        SensitivityExceeded: The sum of the vector exceeds the sensitivity for which the noise is made.
    """
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
            raise SensitivityExceeded("A vector exceeds the sensitivity that its noise is made for; nothing leaves.")
        start += length
    return vector


def _rows(places: npt.ArrayLike) -> Floats:
    try:
        rows = np.asarray(places, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput("A place is not two numbers: x and y, or longitude and latitude.") from None
    rows = rows.reshape(0, 2) if rows.size == 0 else np.atleast_2d(rows)
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise InvalidInput("Places come as rows of two numbers: x and y, or longitude and latitude.")
    if not np.isfinite(rows).all():
        raise InvalidInput("A place is not a finite number; leave out positions that were not measured.")
    return rows


def _check_on_globe(places: Floats) -> None:
    """Refuse places that are not on the globe: most often latitude was given first, or metres were given."""
    if (np.abs(places) > (180, 90)).any():
        raise InvalidInput(
            "A place of this device is not on the globe; give longitude from -180 to 180 and latitude from -90 to 90, "
            "longitude first, or say plane=True if it is a point of a plane."
        )
