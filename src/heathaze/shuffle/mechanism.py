"""The device's half of a mechanism of the shuffle model, its guarantee, and the least size of a batch."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from heathaze.checks import whole
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, PromiseBroken, UnexpectedMessage
from heathaze.local.mechanism import Described, mechanism_to_dict
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.randomness import Randomness
from heathaze.types import Integers


class Promised(Described, Protocol):
    """What a mechanism or a protocol of several rounds promises. Its event is that of all mixed messages."""

    @property
    def epsilon(self) -> Fraction:
        """ε of all mixed messages, if one person's position is replaced by another."""

    @property
    def delta(self) -> Fraction:
        """δ of all mixed messages."""

    @property
    def people(self) -> int:
        """The least number of people in a batch, for which ε and δ are computed."""

    @property
    def alone(self) -> Fraction | None:
        """ε of one person's messages without the shuffler, or None if nothing is protected without it."""


class Sender(Promised, Protocol):
    """The device's half of a mechanism: public parameters, and how to turn a true cell into messages."""

    @property
    def most_people(self) -> int | None:
        """The most people in a batch, or None for any number."""

    @property
    def numbers(self) -> int:
        """The number of integers in one message."""

    @property
    def limit(self) -> int:
        """An upper bound: every integer of a message is below this limit."""

    @property
    def least_messages(self) -> int:
        """The fewest messages that one person sends."""

    @property
    def most_messages(self) -> int:
        """The most messages that one person sends."""

    def draw(self, cells: Integers, randomness: Randomness) -> tuple[Integers, Integers]:
        """Draw the messages of people.

        Args:
            cells: Indices of their true cells, counted row by row.
            randomness: The source of random bits.

        Returns:
            One row for each message, and the index of the person who sends it.
        """


def check_room(mechanism: Sender, people: int) -> None:
    """Refuse a batch of more people than its mechanism can count.

    Raises:
        UnexpectedMessage: The batch is too large.
    """
    if mechanism.most_people is not None and people > mechanism.most_people:
        raise UnexpectedMessage(
            "a batch", f"messages of {people} people", f"at most {mechanism.most_people}, whose sums fit",
            "mix smaller batches, or plan for more people (most)",
        )  # fmt: skip


def check_batch(mechanism: Promised, people: int) -> None:
    """Refuse a batch of fewer people than the guarantee needs.

    Raises:
        PromiseBroken: The batch is too small.
    """
    counted = whole(max(people, 0), "people", "people in the batch", least=0)  # colluders may be more than all people
    if counted < mechanism.people:
        raise PromiseBroken(
            f"The batch has messages of {counted} people, and the promise needs at least {mechanism.people}; "
            "nothing was decoded. Wait for more people, or plan for fewer."
        )


def promise(mechanism: Promised) -> Guarantee:
    """The guarantee of the mixed messages, for replacing one person's position."""
    loss = PrivacyLoss(mechanism.epsilon, mechanism.delta)
    return Guarantee(
        loss, Unit.PERSON, Adjacency.REPLACE, Trust.SHUFFLER, people=mechanism.people, alone=mechanism.alone
    )


def fingerprint(mechanism: Promised) -> str:
    """32 hexadecimal digits that are equal only if all public parameters are equal."""
    text = json.dumps(mechanism_to_dict(mechanism), sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"heathaze shuffle 1 {text}".encode()).hexdigest()[:32]


def cells_of(grid: Grid, points: npt.ArrayLike) -> Integers:
    """The index of the grid cell of each position, counted row by row; the nearest cell for positions outside."""
    try:
        given = np.asarray(points)
        positions = np.atleast_2d(given.astype(np.float64)) if given.dtype.kind in "iufO" else np.zeros(0)
    except (ValueError, TypeError, OverflowError):
        positions = np.zeros(0)
    if positions.ndim != 2 or positions.shape[1] != 2 or not np.isfinite(positions).all():
        raise InvalidInput("A position is not two finite numbers; give x and y, or longitude and latitude.")
    row, col = grid.nearest_cell(positions[:, 0], positions[:, 1])
    return row * grid.cols + col
