"""Common parts of the shuffle model: the protocol of its mechanisms, mixed messages, and the map made from them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.inference.estimate import Estimate
from heathaze.privacy.door import pay
from heathaze.privacy.events import Event, event_to_dict
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness
from heathaze.release.release import Release
from heathaze.types import Integers


class ShuffleMechanism(Protocol):
    """A mechanism of the shuffle model. It holds public parameters and no data."""

    @property
    def grid(self) -> Grid:
        """The public grid."""

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
        """ε of one person's messages without the shuffler, or None if nothing is protected then."""

    @property
    def event(self) -> Event:
        """The event of all mixed messages."""

    @property
    def numbers(self) -> int:
        """The number of integers in one message."""

    @property
    def limit(self) -> int:
        """An upper bound: every integer of a message is below this limit."""

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

    def infer(self, messages: Integers, people: int) -> Estimate:
        """Infer a map from mixed messages of some people.

        Raises:
            InvalidInput: The messages cannot come from this mechanism and so many people.
        """

    def parameters(self) -> dict[str, Any]:
        """The public parameters, which devices and server share."""


@dataclass(frozen=True, eq=False, repr=False)
class Mixed:
    """Messages that a shuffler has mixed: all that a server sees. Their order says nothing, because they are sorted.

    Args:
        mechanism: The mechanism that made the messages.
        messages: One row for each message.
        people: The number of people who sent them.
        simulated: Whether they were made with simulated randomness.

    Raises:
        InvalidInput: The messages do not fit the mechanism.
        PromiseBroken: There are fewer people than the mechanism needs; nothing is decoded.
    """

    mechanism: ShuffleMechanism
    messages: Integers
    people: int
    simulated: bool = False

    def __post_init__(self) -> None:
        messages = np.array(self.messages, dtype=np.int64)
        if messages.ndim != 2 or messages.shape[1] != self.mechanism.numbers:
            raise InvalidInput(
                f"A message of {type(self.mechanism).__name__} is a row of {self.mechanism.numbers} number(s); got an "
                f"array of shape {messages.shape}; give one row for each message."
            )
        if messages.size and not (messages.min() >= 0 and messages.max() < self.mechanism.limit):
            raise InvalidInput("A message holds a number that this mechanism never sends; it is damaged or made up.")
        check_batch(self.mechanism, self.people)
        messages = messages[np.lexsort(messages.T[::-1])]
        messages.flags.writeable = False
        assign(self, messages=messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"<Mixed: messages of {self.people} people for {type(self.mechanism).__name__}>"


def check_batch(mechanism: ShuffleMechanism, people: int) -> None:
    """Refuse a batch of fewer people than the guarantee needs.

    Raises:
        PromiseBroken: The batch is too small.
    """
    if whole(people, "people", "people in the batch") < mechanism.people:
        raise PromiseBroken(
            f"The batch has messages of {people} people, and the promise needs at least {mechanism.people}; "
            "nothing was decoded. Wait for more people, or plan for fewer."
        )


def promise(mechanism: ShuffleMechanism) -> Guarantee:
    """The guarantee of the mixed messages, for replacing one person's position."""
    loss = PrivacyLoss(mechanism.epsilon, mechanism.delta)
    return Guarantee(
        loss, Unit.PERSON, Adjacency.REPLACE, Trust.SHUFFLER, people=mechanism.people, alone=mechanism.alone
    )


def simulate(mechanism: ShuffleMechanism, points: npt.ArrayLike, *, randomness: Randomness | None = None) -> Mixed:
    """Play all parties in one process: every person's device, and the shuffler.

    The function charges no ledger. On one person's device, use :class:`heathaze.shuffle.Device`.

    Args:
        mechanism: For example ``hz.shuffle.Decoys(grid, epsilon=1, people=10_000)``.
        points: One row (x, y) for each person, in the grid's coordinates; longitude before latitude. A position outside
            the map counts as the nearest cell of the map.
        randomness: Leave it out. ``Simulation(seed)`` is for tests and papers.

    Returns:
        The mixed messages.

    Raises:
        InvalidInput: A position is not two finite numbers.
        PromiseBroken: There are fewer people than the mechanism needs.

    >>> from heathaze.shuffle import Decoys, estimate
    >>> decoys = Decoys(Grid.plane(x=(0, 4), y=(0, 4), size=4), epsilon=2, people=1000)
    >>> mixed = simulate(decoys, [(0.5, 0.5)] * 1000)
    >>> int(estimate(mixed).density.values.argmax())  # the cell in the corner of x = 0 and y = 0
    0
    """
    cells = cells_of(mechanism.grid, points)
    check_batch(mechanism, len(cells))
    receipt = pay(promise(mechanism), mechanism.event, randomness=randomness)
    return Mixed(mechanism, mechanism.draw(cells, receipt.randomness)[0], len(cells), receipt.simulated)


def cells_of(grid: Grid, points: npt.ArrayLike) -> Integers:
    """The index of the grid cell of each position, counted row by row; the nearest cell for positions outside."""
    try:
        positions = np.asarray(points, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        positions = np.zeros(0)
    if positions.ndim != 2 or positions.shape[1] != 2 or not np.isfinite(positions).all():
        raise InvalidInput("A position is not two finite numbers; give x and y, or longitude and latitude.")
    row, col = grid.nearest_cell(positions[:, 0], positions[:, 1])
    return row * grid.cols + col


def estimate(mixed: Mixed) -> Release:
    """Estimate a map from mixed messages. They are already private, so this costs nothing and may be repeated.

    Args:
        mixed: The mixed messages.

    Returns:
        The release. Its total is the number of people, which is public.

    Raises:
        InvalidInput: The messages cannot come from so many people.
    """
    mechanism = mixed.mechanism
    provenance = Provenance(
        mechanism=type(mechanism).__name__,
        parameters=mechanism.parameters(),
        weight="share",
        at_most=None,
        event=event_to_dict(mechanism.event),
        simulated=mixed.simulated,
    )
    return Release(mechanism.infer(mixed.messages, mixed.people), promise(mechanism), provenance)
