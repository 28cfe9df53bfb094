"""LocalJourneys: each device sends one randomised fact about one journey, and the server makes up journeys from many.

    coin ─► which fact (a visited place, the start, the end, the shape) and how fine ─► its class ─► randomised class

The coin may be public, because it does not depend on the journey. So a report costs ε, whichever fact it is about. The
proof is in ``local_journeys.md``, and the server's half in ``local_fit.py``.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput, expect
from heathaze.local.local_hashing import SEEDS, LocalHashing
from heathaze.local.mechanism import check_below
from heathaze.local.randomized_response import RandomizedResponse
from heathaze.local.weights import floor_exp
from heathaze.privacy.events import RandomizedReport
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.randomness import Randomness
from heathaze.trajectories.frame import BENDS, LENGTHS, Frame, shape_of
from heathaze.trajectories.synthesis import JourneyModel
from heathaze.types import Integers

if TYPE_CHECKING:
    from heathaze.trajectories.local_fit import ClassCounts

FACTS = {"visit": 7, "start": 3, "end": 3, "shape": 7}
"""How often the coin chooses each fact, in twentieths."""

LEVELS = (4, 8, 16)
"""Squares a side of the maps on which a place is reported. The coin chooses each equally often."""

SHAPES = ((LENGTHS, BENDS), (12, 4), (6, 2))
"""Rows and columns of the tables of shapes: classes of length and straightness, then two of them merged, then four."""

_TICKETS = 60
"""The number of equally likely outcomes of the coin: twentieths, times three levels."""

PAIR_DEPTH = 4
"""Starts and ends are distinguished on 2^4 squares a side, the finest of LEVELS."""

ENOUGH = 20_000
"""From this signal on, n (e^ε − 1)² / e^ε for n reports, made-up journeys show which districts of a town are busy."""

MOST_SQUARES = 64
"""The most squares a side of the map of visits."""


def enough_reports(epsilon: Fraction) -> int:
    """How many reports make journeys that show from where to where people go, by the rule of thumb of ENOUGH.

    >>> enough_reports(Fraction(1)), enough_reports(Fraction(2))
    (18414, 3621)
    """
    # n = ENOUGH e^ε / (e^ε − 1)²
    return math.ceil(ENOUGH * math.exp(-epsilon) / math.expm1(-epsilon) ** 2)


@dataclass(frozen=True)
class Question:
    """What one report says: a fact, and the classes into which the fact is divided.

    Args:
        fact: "visit", "start", "end" or "shape".
        shape: Rows and columns of the classes.
        tickets: How many of the coin's 60 outcomes choose this question.
    """

    fact: str
    shape: tuple[int, int]
    tickets: int


@dataclass(frozen=True, init=False)
class LocalJourneys:
    """One randomised fact about a journey in each report, at the full ε; see ``local_journeys.md``.

    Args:
        grid: The public frame. Only its box matters; squares are chosen by ``squares``.
        epsilon: Privacy loss of one report, above 0.
        squares: Squares a side of the map on which journeys are made up, a power of two from 16 to 64.

    Raises:
        InvalidInput: A value is out of range.

    >>> mechanism = LocalJourneys(Grid.plane(x=(0, 1), y=(0, 1), size=256), epsilon=1)
    >>> mechanism.parameters(), len(mechanism.questions)
    ({'epsilon': '1', 'squares': 64}, 12)
    """

    grid: Grid
    epsilon: Fraction
    squares: int

    def __init__(self, grid: Grid, epsilon: Number, squares: int = 64) -> None:
        expect(Grid, grid, "The grid")
        squares = whole(squares, "squares", "squares a side", least=LEVELS[-1], most=MOST_SQUARES)
        if squares & (squares - 1):
            raise InvalidInput(f"squares is {squares}; give a power of two: 16, 32 or 64.")
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), squares=squares)

    @property
    def frame(self) -> Frame:
        """The public numbers with which journeys are described."""
        return Frame(self.grid, self.squares.bit_length() - 1, PAIR_DEPTH)

    @property
    def adjacency(self) -> Adjacency:
        """Any two journeys are neighbours."""
        return Adjacency.ANY_TWO_JOURNEYS

    @property
    def event(self) -> RandomizedReport:
        """The privacy event of one report."""
        return RandomizedReport(self.epsilon)

    def parameters(self) -> dict[str, Any]:
        """The public parameters besides the grid."""
        return {"epsilon": str(self.epsilon), "squares": self.squares}

    @functools.cached_property
    def questions(self) -> tuple[Question, ...]:
        """What the coin chooses from; public and the same for everybody."""
        asked = []
        for fact, twentieths in FACTS.items():
            shapes = SHAPES if fact == "shape" else [(side, side) for side in LEVELS]
            asked += [Question(fact, shape, twentieths * _TICKETS // 20 // len(shapes)) for shape in shapes]
        return tuple(asked)

    @functools.cached_property
    def randomizers(self) -> tuple[RandomizedResponse | LocalHashing, ...]:
        """How the answer to each question is randomised: by the mechanism with the smaller variance.

        The variance of a rare class is (e^ε + k − 2) / (e^ε − 1)² with randomised response among k classes, and
        4 e^ε / (e^ε − 1)² with local hashing. So randomised response is better if k < 3 e^ε + 2.
        """
        few = floor_exp(3, self.epsilon) + 2 if self.epsilon < 20 else None
        made: list[RandomizedResponse | LocalHashing] = []
        for question in self.questions:
            rows, cols = question.shape
            classes = Grid.plane(x=(0, cols), y=(0, rows), shape=question.shape)
            better = RandomizedResponse if few is None or rows * cols <= few else LocalHashing
            made.append(better(classes, self.epsilon))
        return tuple(made)

    @functools.cached_property
    def _offsets(self) -> list[int]:
        """The first report number of each question, and at the end the number of all possible reports."""
        sizes = [each.limit if each.numbers == 1 else SEEDS * _buckets(each) for each in self.randomizers]
        return [sum(sizes[:k]) for k in range(len(sizes) + 1)]

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """A report is one number."""
        return 1

    @property
    def limit(self) -> int:
        """The number of possible reports on all questions."""
        return self._offsets[-1]

    def draw(self, lines: Lines, randomness: Randomness) -> Integers:
        """Draw the coin, and then the randomised answer to the question that the coin chooses, for each journey.

        A hashed answer with seed h and bucket k is the number  offset of the question + h · buckets + k.

        Args:
            lines: The secret journeys, one for each report.
            randomness: The source of random bits.

        Returns:
            One row with one number for each journey.
        """
        ticket = randomness.below(_TICKETS, len(lines)).astype(np.int64)
        chosen = np.searchsorted(np.cumsum([question.tickets for question in self.questions]), ticket, "right")
        reports = np.empty((len(lines), 1), np.int64)
        for number, (question, randomizer) in enumerate(zip(self.questions, self.randomizers, strict=True)):
            asked = np.flatnonzero(chosen == number)
            if not asked.size:
                continue
            answer = randomizer.draw(self.answers(question, lines.take(asked), randomness), randomness)
            if isinstance(randomizer, LocalHashing):
                answer = answer[:, :1] * randomizer.buckets + answer[:, 1:]
            reports[asked] = self._offsets[number] + answer
        return reports

    def answers(self, question: Question, lines: Lines, randomness: Randomness) -> Integers:
        """Find the true class of each journey. A visited place is drawn from the journey's visits, each equally likely.

        Args:
            question: The question.
            lines: The secret journeys.
            randomness: The source of random bits.

        Returns:
            The class of each journey, row · columns + column.
        """
        frame, (rows, cols) = self.frame, question.shape
        squares = frame.squares
        if question.fact == "shape":
            length, bend = shape_of(lines.lengths(squares), lines.distances(squares), frame.length_borders)
            return np.asarray(length * rows // LENGTHS * cols + bend * cols // BENDS)
        if question.fact == "visit":
            whose, square = lines.visits(squares)
            visits = np.bincount(whose, minlength=len(lines))
            place = (randomness.words(len(lines)) % visits.astype(np.uint64)).astype(np.int64)
            square = square[np.cumsum(visits) - visits + place]
        else:
            at = lines.offsets[:-1] if question.fact == "start" else lines.offsets[1:] - 1
            row, col = squares.nearest_cell(lines.x[at], lines.y[at])
            square = row * squares.cols + col
        row, col = np.divmod(square, squares.cols)
        return np.asarray(row * rows // squares.rows * cols + col * cols // squares.cols)

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    def check(self, reports: Integers) -> None:
        """Refuse reports that cannot come from this mechanism; every number below :attr:`limit` is possible.

        Args:
            reports: One row with one number for each report.

        Raises:
            InvalidInput: A number is not below the limit.
        """
        check_below(reports, self.limit)

    def split(self, reports: Integers) -> list[Integers]:
        """Split reports by question, as the randomizer of each question expects them.

        Args:
            reports: One number for each report.

        Returns:
            The reports of each question.

        Raises:
            InvalidInput: A report cannot come from this mechanism.
        """
        values = np.asarray(reports, np.int64)
        if values.ndim != 2 or values.shape[1] != 1:
            raise InvalidInput(f"Reports have the shape {values.shape}; give rows of one number.")
        self.check(values)
        found = []
        for randomizer, first, last in zip(self.randomizers, self._offsets, self._offsets[1:], strict=False):
            own = values[(values[:, 0] >= first) & (values[:, 0] < last)] - first
            if isinstance(randomizer, LocalHashing):
                own = np.column_stack(np.divmod(own[:, 0], randomizer.buckets))
            found.append(own)
        return found

    def estimate(self, reports: Integers) -> JourneyModel:
        """Infer a model of journeys from reports.

        Args:
            reports: One row with one number for each report, at least one.

        Returns:
            The model.

        Raises:
            InvalidInput: There is no report, or a report cannot come from this mechanism.
        """
        from heathaze.trajectories.local_fit import count_classes, fit_model

        parts = self.split(reports)
        if not len(reports):
            raise InvalidInput("There are no reports to make up journeys from; collect at least one report.")
        counted: dict[str, list[ClassCounts]] = {fact: [] for fact in FACTS}
        for question, randomizer, own in zip(self.questions, self.randomizers, parts, strict=True):
            fine = (LENGTHS, BENDS) if question.fact == "shape" else self.frame.squares.shape
            if len(own):
                counted[question.fact].append(count_classes(randomizer, own, fine))
        return fit_model(self.frame, counted, len(reports))


def _buckets(randomizer: RandomizedResponse | LocalHashing) -> int:
    assert isinstance(randomizer, LocalHashing)
    return randomizer.buckets
