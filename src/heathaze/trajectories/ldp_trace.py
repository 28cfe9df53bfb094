"""LdpTrace: each device reports how long its journey is, where it starts and ends, and a few of its moves.

    device   a journey ─► number of visits, first cell, last cell, sampled moves ─► one unary report of each
    server   reports ─► shares of lengths, starts, ends and moves ─► a Markov chain ─► made-up journeys

The number and the size of the messages are public constants. The proof is in ``ldp_trace.md``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.local.mechanism import check_below
from heathaze.local.unary_encoding import UnaryEncoding
from heathaze.privacy.events import Composition, RandomizedReport
from heathaze.privacy.loss import Number
from heathaze.privacy.randomness import Randomness
from heathaze.trajectories.cell_journeys import (
    CellMechanism,
    Visits,
    check_unary,
    columns,
    draw_classes,
    draw_visits,
    journeys_to_make,
    most_visits,
    scattered,
    shares,
    unary,
)
from heathaze.types import Floats, Integers

MOST_MOVES = 64
"""The most moves that one report contains."""

_TRIED = 4
"""The number of walks drawn for each made-up journey; one is kept after fitting starts, ends and lengths."""

_ROUNDS = 20
"""How often the weights of walks are fitted to starts, ends and lengths in turn."""


@dataclass(frozen=True, init=False)
class LdpTrace(CellMechanism):
    """Lengths, starts, ends and moves of journeys by optimised unary encoding; see ``ldp_trace.md``.

    A report consists of 3 + ``moves`` unary messages with equal parts of ε: the number of visits, the first cell, the
    last cell, and each sampled move.

    Args:
        grid: The public frame. Only its box matters; cells are chosen by ``squares``.
        epsilon: Privacy loss of one report, which covers a whole journey.
        squares: Squares a side, from 1 to 32.
        longest: The most visits that are distinguished; a journey with more visits counts as if it had this number. If
            left out, four times ``squares``.
        moves: The number of sampled moves in a report, from 1 to 64.

    Raises:
        InvalidInput: A value is out of range.

    >>> mechanism = LdpTrace(Grid.plane(x=(0, 1), y=(0, 1), size=64), epsilon=1)
    >>> mechanism.parameters(), mechanism.numbers
    ({'epsilon': '1', 'squares': 6, 'longest': 24, 'moves': 1}, 39)
    """

    moves: int

    def __init__(
        self, grid: Grid, epsilon: Number, squares: int = 6, longest: int | None = None, moves: int = 1
    ) -> None:
        super().__init__(grid, epsilon, squares, longest)
        assign(self, moves=whole(moves, "moves", "sampled moves in a report", most=MOST_MOVES))

    @property
    def event(self) -> Composition:
        """The messages of one report, which cost ε together."""
        return Composition(tuple(RandomizedReport(part.epsilon) for part in self.parts))

    @functools.cached_property
    def parts(self) -> tuple[UnaryEncoding, ...]:
        """The encodings of the messages: length, first cell, last cell, and each sampled move."""
        # ε = (3 + moves) · each
        each = self.epsilon / (3 + self.moves)
        length, place = unary(len(most_visits(self.longest)), each), unary(self.cells.cells, each)
        return (length, place, place, *([unary(len(self._moves) + 1, each)] * self.moves))

    @functools.cached_property
    def _moves(self) -> Integers:
        """All moves between neighbouring cells, rows (from, to)."""
        return neighbour_moves(self.cells)

    # ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def numbers(self) -> int:
        """The number of bytes of all messages of a report."""
        return sum(part.numbers for part in self.parts)

    @property
    def limit(self) -> int:
        """A report consists of bytes, which are below 256."""
        return 256

    def draw(self, lines: Lines, randomness: Randomness) -> Integers:
        """Draw one report for each journey.

        Args:
            lines: The secret journeys.
            randomness: The source of random bits.

        Returns:
            One row of :attr:`numbers` bytes for each journey.
        """
        facts = self.facts(lines, randomness)
        messages = [part.draw(facts[:, place], randomness) for place, part in enumerate(self.parts)]
        return np.concatenate(messages, axis=1)

    def facts(self, lines: Lines, randomness: Randomness) -> Integers:
        """The secret classes that the messages of a report encode: length, first cell, last cell, sampled moves.

        A move is sampled uniformly from all moves of the journey, independently of the other samples. A journey of one
        visit has no move, and its class is the last one.

        Args:
            lines: The secret journeys.
            randomness: The source of the sample of moves.
        """
        visits, moves, cells = Visits.of(lines, self.cells), self._moves, self.cells.cells
        number = np.full(cells * cells, len(moves), np.int64)
        number[moves[:, 0] * cells + moves[:, 1]] = np.arange(len(moves))
        facts = [visits.length_class(self.longest), visits.at(0, 1), visits.at(1, 1)]
        has_moves = visits.counts > 1
        for _ in range(self.moves):
            # The promise holds for any choice of a move, so the tiny bias of the remainder does no harm.
            step = randomness.words(len(lines)) % np.maximum(visits.counts - 1, 1).astype(np.uint64)
            start = visits.first + np.where(has_moves, step.astype(np.int64), 0)
            end = np.where(has_moves, start + 1, start)
            facts.append(number[visits.cells[start] * cells + visits.cells[end]])
        return np.column_stack(facts)

    # ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────

    def check(self, reports: Integers) -> None:
        """Refuse reports that cannot come from this mechanism.

        Args:
            reports: One row of :attr:`numbers` bytes for each report.

        Raises:
            InvalidInput: A number is not a byte, or a bit is set for a class that does not exist.
        """
        check_below(reports, self.limit)
        messages = np.split(reports, np.cumsum([part.numbers for part in self.parts])[:-1], axis=1)
        for part, message in zip(self.parts, messages, strict=True):
            check_unary(part, message)

    def estimate(self, reports: Integers) -> CellChain:
        """Estimate the model from reports.

        Args:
            reports: One row for each report, from :meth:`draw`.

        Returns:
            The model.

        Raises:
            InvalidInput: There is no report, or a report cannot come from this mechanism.
        """
        messages = columns(reports, [part.numbers for part in self.parts])
        length, start, end, *moves = map(shares, self.parts, messages)
        return CellChain(self.cells, self.longest, length, start, end, self._moves, np.mean(moves, axis=0)[:-1])


def neighbour_moves(cells: Grid) -> Integers:
    """All moves from a cell to one of its up to eight neighbours, as rows (from, to), sorted.

    >>> neighbour_moves(Grid.plane(x=(0, 3), y=(0, 1), shape=(1, 3))).tolist()
    [[0, 1], [1, 0], [1, 2], [2, 1]]
    """
    row, col = np.divmod(np.arange(cells.cells), cells.cols)
    found = [np.zeros((0, 2), np.int64)]
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            r, c = row + down, col + across
            inside = (r >= 0) & (r < cells.rows) & (c >= 0) & (c < cells.cols) & bool(down or across)
            found.append(np.column_stack([np.arange(cells.cells), r * cells.cols + c])[inside])
    every = np.concatenate(found)
    return np.asarray(every[np.lexsort((every[:, 1], every[:, 0]))])


@dataclass(frozen=True, eq=False)
class CellChain:
    """What the reports of LdpTrace say about journeys: shares of lengths, starts, ends and moves. Public.

    Args:
        cells: The squares.
        longest: The most visits of a journey.
        lengths: Share of journeys in each class of length: 1 visit, 2 visits, 3 to 4, 5 to 8, and so on.
        starts: Share of journeys that start in each cell.
        ends: Share of journeys that end in each cell.
        moves: All moves between neighbouring cells, rows (from, to), sorted.
        move_shares: Share of each move: the mean over journeys of its share in the journey's moves.
    """

    cells: Grid
    longest: int
    lengths: Floats
    starts: Floats
    ends: Floats
    moves: Integers
    move_shares: Floats

    def sample(self, number: int, randomness: Randomness) -> Lines:
        """Make up journeys.

        Walks are drawn from a Markov chain: the start by the shares of starts, the length by the shares of lengths, and
        each next cell by the shares of the moves from the present cell. Four walks are drawn for each journey, and
        weights make their starts, ends and lengths fit the shares.

        Args:
            number: How many.
            randomness: The source of random bits.

        Raises:
            InvalidInput: The number is not from 1 to 10^7, or too large for journeys of this length.
        """
        number = journeys_to_make(number, self.longest)
        visits = draw_visits(self.lengths, self.longest, _TRIED * number, randomness)
        walk = self._walks(draw_classes(self.starts, _TRIED * number, randomness), int(visits.max()), randomness)
        last = walk[np.arange(len(walk)), visits - 1]
        length = np.searchsorted(most_visits(self.longest), visits)
        weight = np.ones(len(walk))
        for _ in range(_ROUNDS):
            for found, wanted in ((walk[:, 0], self.starts), (last, self.ends), (length, self.lengths)):
                have = np.bincount(found, weights=weight, minlength=len(wanted)) / weight.sum()
                # The factors are limited, so that a few walks to a rarely reached end do not replace all others.
                weight *= np.clip(wanted / np.maximum(have, 1e-12), 0.2, 5)[found]
        kept = draw_classes(weight, number, randomness)
        inside = np.arange(walk.shape[1]) < visits[kept][:, None]
        return scattered(self.cells, walk[kept][inside].astype(np.int64), visits[kept], randomness)

    def _walks(self, start: Integers, visits: int, randomness: Randomness) -> npt.NDArray[np.int16]:
        """Walk from each start for the given number of visits; the caller may use fewer."""
        # Where no move was estimated, all neighbours are equally likely.
        known = np.bincount(self.moves[:, 0], weights=self.move_shares, minlength=self.cells.cells) > 0
        sums = np.concatenate([[0.0], np.cumsum(np.where(known[self.moves[:, 0]], self.move_shares, 1.0))])
        first = np.searchsorted(self.moves[:, 0], np.arange(self.cells.cells + 1))
        walk = np.empty((len(start), visits), np.int16)  # at most 32² cells
        walk[:, 0] = start
        for step in range(1, walk.shape[1]):
            here = walk[:, step - 1].astype(np.int64)
            low, high = first[here], first[here + 1]
            if not len(self.moves):  # one cell
                walk[:, step] = here
                continue
            at = sums[low] + randomness.uniforms(len(here)) * (sums[high] - sums[low])
            move = np.clip(np.searchsorted(sums, at, "right") - 1, low, high - 1)
            walk[:, step] = self.moves[move, 1]
        return walk
