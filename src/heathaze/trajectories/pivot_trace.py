"""PivotTrace: each device reports perturbed pivots of its journey, and directions from them to the cells in between.

    device   a journey ─► pivots at even distances, the cells half way between them, the length
             ─► a moved cell for each pivot, a perturbed direction from each pivot to each cell beside it, the length
    server   for each report, the cells in between where both directions point ─► made-up journeys along these cells

The number and the size of the messages are public constants. The proof is in ``pivot_trace.md``.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput
from heathaze.local._window import check_true_cells
from heathaze.local.mechanism import check_below, report_blocks
from heathaze.local.randomized_response import RandomizedResponse
from heathaze.local.unary_encoding import UnaryEncoding
from heathaze.local.weights import floor_exp
from heathaze.privacy.events import Composition, RandomizedReport
from heathaze.privacy.loss import Number
from heathaze.privacy.randomness import Randomness
from heathaze.trajectories.cell_journeys import (
    CellMechanism,
    Visits,
    check_unary,
    columns,
    draw_visits,
    journeys_to_make,
    most_visits,
    scattered,
    shares,
    unary,
)
from heathaze.types import Floats, Integers

PIVOTS, DIRECTIONS, LENGTH = Fraction(60, 100), Fraction(20, 100), Fraction(20, 100)
"""The shares of ε of all pivots together, of all directions together, and of the number of visits. They add to 1."""

MOST_PIVOTS, MOST_DIRECTIONS = 64, 64

TOTAL = 2**50
"""The sum of the whole-number weights of all cells to which a pivot may be moved."""

_PRECISION = 2.0**-20
"""The relative precision with which the steepest decay κ is found."""


@dataclass(frozen=True, init=False)
class PivotTrace(CellMechanism):
    """Perturbed pivots of a journey and perturbed directions between them; see ``pivot_trace.md``.

    A report consists of ``pivots`` cells, two directions for each gap between pivots, and a unary message of the number
    of visits. Pivots have 0.6 of ε together, directions 0.2, and the number of visits 0.2.

    Args:
        grid: The public frame. Only its box matters; cells are chosen by ``squares``.
        epsilon: Privacy loss of one report, which covers a whole journey.
        squares: Squares a side, from 1 to 32.
        longest: The most visits that are distinguished; a journey with more visits counts as if it had this number. If
            left out, four times ``squares``.
        pivots: The number of pivots, from 2 to 64. The first is the start of the journey, and the last is its end.
        directions: The number of directions that are distinguished, from 2 to 64.

    Raises:
        InvalidInput: A value is out of range.

    >>> mechanism = PivotTrace(Grid.plane(x=(0, 1), y=(0, 1), size=64), epsilon=1)
    >>> mechanism.parameters()
    {'epsilon': '1', 'squares': 6, 'longest': 24, 'pivots': 2, 'directions': 8}
    >>> mechanism.numbers
    5
    """

    pivots: int
    directions: int

    def __init__(
        self,
        grid: Grid,
        epsilon: Number,
        squares: int = 6,
        longest: int | None = None,
        pivots: int = 2,
        directions: int = 8,
    ) -> None:
        super().__init__(grid, epsilon, squares, longest)
        assign(
            self,
            pivots=whole(pivots, "pivots", "pivots of a journey", least=2, most=MOST_PIVOTS),
            directions=whole(directions, "directions", "directions to tell apart", least=2, most=MOST_DIRECTIONS),
        )

    @property
    def event(self) -> Composition:
        """The messages of one report, which cost ε together."""
        pivot, direction = RandomizedReport(self.pivot.epsilon), RandomizedReport(self.direction.epsilon)
        messages = (*[pivot] * self.pivots, *[direction] * self._gaps * 2, RandomizedReport(self.length.epsilon))
        return Composition(messages)

    @property
    def _gaps(self) -> int:
        return self.pivots - 1

    @functools.cached_property
    def pivot(self) -> MovedCell:
        """How one pivot is perturbed."""
        return MovedCell((self.squares, self.squares), self.epsilon * PIVOTS / self.pivots)

    @functools.cached_property
    def direction(self) -> RandomizedResponse:
        """How one direction is perturbed: one class for each direction, and one if both cells are the same."""
        classes = self.directions + 1
        each = self.epsilon * DIRECTIONS / (2 * self._gaps)
        return RandomizedResponse(Grid.plane(x=(0, classes), y=(0, 1), shape=(1, classes)), each)

    @functools.cached_property
    def length(self) -> UnaryEncoding:
        """How the number of visits is perturbed."""
        return unary(len(most_visits(self.longest)), self.epsilon * LENGTH)

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """One integer for each pivot and each direction, and the bytes of the length."""
        return self.pivots + 2 * self._gaps + self.length.numbers

    @property
    def limit(self) -> int:
        """Integers are cells, directions or bytes."""
        return max(256, self.cells.cells)

    def draw(self, lines: Lines, randomness: Randomness) -> Integers:
        """Draw one report for each journey.

        Args:
            lines: The secret journeys.
            randomness: The source of random bits.

        Returns:
            One row of :attr:`numbers` integers for each journey.
        """
        facts = self.facts(lines)
        pivots = [self.pivot.draw(fact, randomness) for fact in facts[: self.pivots]]
        directions = [self.direction.draw(fact, randomness)[:, 0] for fact in facts[self.pivots : -1]]
        return np.column_stack([*pivots, *directions, self.length.draw(facts[-1], randomness)])

    def facts(self, lines: Lines) -> list[Integers]:
        """The secret classes that the messages encode: pivots, two directions for each gap, and the length.

        Pivot j is the visit at the part j / gaps of all visits, rounded down. The cell in between is the visit at the
        part (2j + 1) / (2 gaps).

        Args:
            lines: The secret journeys.
        """
        visits, gaps = Visits.of(lines, self.cells), self._gaps
        pivots = [visits.at(place, gaps) for place in range(self.pivots)]
        directions = []
        for gap in range(gaps):
            between = visits.at(2 * gap + 1, 2 * gaps)
            directions += [sector(pivots[place], between, self.squares, self.directions) for place in (gap, gap + 1)]
        return [*pivots, *directions, visits.length_class(self.longest)]

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    def check(self, reports: Integers) -> None:
        """Refuse reports that cannot come from this mechanism.

        Args:
            reports: One row of :attr:`numbers` integers for each report.

        Raises:
            InvalidInput: A cell, a direction or a class of length does not exist.
        """
        pivots, directions, length = np.split(reports, [self.pivots, self.pivots + 2 * self._gaps], axis=1)
        check_below(pivots, self.cells.cells)
        check_below(directions, self.directions + 1)
        check_below(length, 256)
        check_unary(self.length, length)

    def estimate(self, reports: Integers) -> PivotJourneys:
        """Rebuild the journey of each report.

        Args:
            reports: One row for each report, from :meth:`draw`.

        Returns:
            The rebuilt journeys, one for each report.

        Raises:
            InvalidInput: There is no report, or a report cannot come from this mechanism.
        """
        pivots, directions, length = columns(reports, [self.pivots, 2 * self._gaps, self.length.numbers])
        self.check(np.asarray(reports, dtype=np.int64))
        found = [pivots[:, :1]]
        for gap in range(self._gaps):
            ends, pointing = pivots[:, gap : gap + 2], directions[:, 2 * gap : 2 * gap + 2]
            found += [self._between(ends, pointing)[:, None], ends[:, 1:]]
        return PivotJourneys(self.cells, np.concatenate(found, axis=1), self.longest, shares(self.length, length))

    def _between(self, ends: Integers, pointing: Integers) -> Integers:
        """The cell between two reported pivots: the nearest to their middle of those to which most directions point."""
        everywhere = np.arange(self.cells.cells)
        row, col = np.divmod(everywhere, self.squares)
        table = sector(everywhere[:, None], everywhere[None, :], self.squares, self.directions)
        found = np.empty(len(ends), np.int64)
        farther = 2 * self.squares**2  # more than any squared distance in the map
        block = report_blocks(len(ends), self.cells.cells)
        for start in block:
            here = slice(start, start + block.step)
            rows, cols = np.divmod(ends[here], self.squares)
            away = (row - rows.mean(axis=1)[:, None]) ** 2 + (col - cols.mean(axis=1)[:, None]) ** 2
            for side in range(2):
                away += farther * (table[ends[here, side]] != pointing[here, side][:, None])
            found[here] = away.argmin(axis=1)
        return found


def sector(start: Integers, end: Integers, cols: int, directions: int) -> Integers:
    """The direction from cell to cell: the number of the nearest direction, or ``directions`` if the cells are equal.

    Direction 0 points to the right, and the next ones follow clockwise on a map whose rows go down.

    >>> sector(np.array([4, 4, 4]), np.array([5, 8, 4]), cols=3, directions=8).tolist()
    [0, 1, 8]
    """
    down, across = end // cols - start // cols, end % cols - start % cols
    turn = np.arctan2(down, across) / (2 * math.pi) * directions
    return np.where((down == 0) & (across == 0), directions, np.floor(turn + 0.5).astype(np.int64) % directions)


class MovedCell:
    """A cell that is moved at random: nearer cells are likelier, and the loss is at most ε between any two cells.

        Pr[u | v] = weight(u, v) / 2^50,   weight(u, v) ∝ exp(−κ · distance(u, v)), rounded to whole numbers

    κ is as large as the loss allows. The loss is computed from the whole numbers for every cell u, so neither a
    formula nor rounding has to be trusted.

    Args:
        shape: Rows and columns.
        epsilon: Privacy loss of one moved cell.

    Raises:
        InvalidInput: ε is too small for whole-number weights.
    """

    def __init__(self, shape: tuple[int, int], epsilon: Fraction) -> None:
        self.epsilon = epsilon
        row, col = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
        distance = np.hypot(row - row[:, None], col - col[:, None])
        # At κ = low the loss is below ε, because weight and sum of weights change by at most a factor of e^(ε/2) each.
        # At κ = high all weights but that of the true cell are rounded to 1.
        low, high = float(epsilon) / (2 * max(1.0, float(distance.max()))), math.log(2.0 * TOTAL)
        if _affordable(_weights(distance, high), epsilon):
            low = high
        while high - low > _PRECISION * low:
            middle = (low + high) / 2
            low, high = (middle, high) if _affordable(_weights(distance, middle), epsilon) else (low, middle)
        self.weights = _weights(distance, low)
        if not _affordable(self.weights, epsilon):
            raise InvalidInput(
                f"A pivot would have an epsilon of {float(epsilon):.1g}, less than whole-number weights can keep; give "
                "a larger epsilon, or fewer pivots."
            )
        # Row v of the ladder lies between v · TOTAL and (v + 1) · TOTAL, so that one search serves all rows.
        self._ladder = np.cumsum(self.weights.ravel())

    def draw(self, cells: Integers, randomness: Randomness) -> Integers:
        """Draw the moved cell of each true cell, exactly by the whole-number weights."""
        check_true_cells(cells, len(self.weights))
        ticket = randomness.below(TOTAL, len(cells)).astype(np.int64)
        moved = np.searchsorted(self._ladder, cells * TOTAL + ticket, "right") - cells * len(self.weights)
        return np.asarray(moved)


def _weights(distance: Floats, decay: float) -> Integers:
    """Whole-number weights of at least 1 that sum to TOTAL in each row; what rounding leaves goes to the true cell."""
    shape = np.exp(-decay * distance)
    room = TOTAL - len(distance)
    weights = 1 + np.floor(shape / shape.sum(axis=1, keepdims=True) * room * (1 - 2.0**-40)).astype(np.int64)
    np.fill_diagonal(weights, weights.diagonal() + TOTAL - weights.sum(axis=1))
    return np.asarray(weights)


def _affordable(weights: Integers, epsilon: Fraction) -> bool:
    """Whether no output's weights differ by more than a factor of e^ε between two true cells, without rounding."""
    low, high = weights.min(axis=0), weights.max(axis=0)
    ratio = high / low
    # Only outputs whose ratio equals the largest ratio up to rounding can have the largest exact ratio.
    worst = np.flatnonzero(ratio >= ratio.max() * (1 - 1e-12))
    pairs = set(zip(low[worst].tolist(), high[worst].tolist(), strict=True))
    return bool((weights.sum(axis=1) == TOTAL).all()) and all(
        most <= floor_exp(least, epsilon) for least, most in pairs
    )


@dataclass(frozen=True, eq=False)
class PivotJourneys:
    """What the reports of PivotTrace say about journeys: one rebuilt journey a report, and shares of lengths. Public.

    Args:
        cells: The squares.
        paths: The cells of each rebuilt journey: pivots, and the cells in between.
        longest: The most visits of a journey.
        lengths: Share of journeys in each class of length: 1 visit, 2 visits, 3 to 4, 5 to 8, and so on.
    """

    cells: Grid
    paths: Integers
    longest: int
    lengths: Floats

    def sample(self, number: int, randomness: Randomness) -> Lines:
        """Make up journeys: draw a rebuilt journey and a number of visits, and spread the visits along the journey.

        Args:
            number: How many.
            randomness: The source of random bits.

        Raises:
            InvalidInput: The number is not from 1 to 10^7, or too large for journeys of this length.
        """
        number = journeys_to_make(number, self.longest)
        path = self.paths[randomness.below(len(self.paths), number).astype(np.int64)]
        counts = draw_visits(self.lengths, self.longest, number, randomness)
        owner = np.repeat(np.arange(number), counts)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        # A single visit lies in the middle of the rebuilt journey.
        part = np.where(counts[owner] > 1, place / np.maximum(counts[owner] - 1, 1), 0.5) * (path.shape[1] - 1)
        before = np.minimum(part.astype(np.int64), path.shape[1] - 2)
        row, col = np.divmod(path, self.cells.cols)
        after = part - before
        between = [
            np.floor(side[owner, before] * (1 - after) + side[owner, before + 1] * after + 0.5).astype(np.int64)
            for side in (row, col)
        ]
        return scattered(self.cells, between[0] * self.cells.cols + between[1], counts, randomness)
