"""Journeys as sequences of cells: what LdpTrace and PivotTrace report, estimate and make up have in common."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heathaze.checks import assign, whole
from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput, expect
from heathaze.local.mechanism import parameter_names
from heathaze.local.unary_encoding import WORDS, UnaryEncoding
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.randomness import Randomness
from heathaze.trajectories.synthesis import MOST_JOURNEYS
from heathaze.types import Floats, Integers

MOST_SQUARES = 32
"""The most squares a side. At this size, a unary report of a move has a kilobyte."""

MOST_STEPS = 2**28
"""The most visits of all journeys that are made up at once, if all are as long as possible."""

MOST_VISITS = 2**20
"""The largest allowed value of ``longest``, the number of visits at which the last class of length is reached."""


@dataclass(frozen=True, init=False)
class CellMechanism:
    """Base class of LdpTrace and PivotTrace: squares, and the most visits of a journey that are distinguished."""

    grid: Grid
    epsilon: Fraction
    squares: int
    longest: int

    def __init__(self, grid: Grid, epsilon: Number, squares: int, longest: int | None) -> None:
        """Check the parameters that LdpTrace and PivotTrace share.

        Raises:
            InvalidInput: A value is out of range.
        """
        expect(Grid, grid, "The grid")
        squares = whole(squares, "squares", "squares a side", most=MOST_SQUARES)
        chosen = 4 * squares if longest is None else longest
        longest = whole(chosen, "longest", "visits of a journey", most=MOST_VISITS)
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), squares=squares, longest=longest)

    @property
    def cells(self) -> Grid:
        """The squares that journeys visit."""
        return self.grid.resized((self.squares, self.squares))

    def parameters(self) -> dict[str, Any]:
        """The public parameters besides the grid."""
        return {name: getattr(self, name) for name in parameter_names(type(self))} | {"epsilon": str(self.epsilon)}


# ── the device's half ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class Visits:
    """The cells that secret journeys visit, in order; no cell follows itself. It prints no values.

    Args:
        cells: The cells of all journeys, journey after journey.
        first: The index of each journey's first cell.
        counts: How many cells each journey visits, at least 1.
    """

    cells: Integers
    first: Integers
    counts: Integers

    @classmethod
    def of(cls, lines: Lines, squares: Grid) -> Visits:
        """Follow journeys over a grid. A journey outside of the grid visits the nearest cells."""
        whose, cells = lines.visits(squares)
        counts = np.bincount(whose, minlength=len(lines))
        return cls(cells, np.cumsum(counts) - counts, counts)

    def __repr__(self) -> str:
        return "<Visits: secret>"

    def at(self, numerator: int, denominator: int) -> Integers:
        """The cell that each journey visits after a part of its visits, rounded down: 0/1 is the first, 1/1 the last.

        >>> lines = Lines.from_points([[(0.5, 0.5), (4.5, 0.5)]])
        >>> Visits.of(lines, Grid.plane(x=(0, 5), y=(0, 1), shape=(1, 5))).at(1, 2).tolist()
        [2]
        """
        return np.asarray(self.cells[self.first + (self.counts - 1) * numerator // denominator])

    def length_class(self, longest: int) -> Integers:
        """The class of each journey's number of visits; see :func:`most_visits`. The last class has no upper end."""
        return np.searchsorted(most_visits(longest), np.minimum(self.counts, longest))


def most_visits(longest: int) -> Integers:
    """The most visits in each class of length: 1, 2, 4, 8, …, and ``longest`` in the last class.

    >>> most_visits(24).tolist()
    [1, 2, 4, 8, 16, 24]
    """
    return np.array([*(2**power for power in range((longest - 1).bit_length())), longest])


def unary(classes: int, epsilon: Fraction) -> UnaryEncoding:
    """Unary encoding of a number from 0 to classes − 1."""
    return UnaryEncoding(Grid.plane(x=(0, classes), y=(0, 1), shape=(1, classes)), epsilon)


# ── the server's half ───────────────────────────────────────────────────────────────────────────────────────────────


def columns(reports: Integers, sizes: list[int]) -> list[Integers]:
    """Divide the columns of reports into the messages of which a report consists.

    Raises:
        InvalidInput: There is no report, or a report has another number of integers.
    """
    values = np.asarray(reports, dtype=np.int64)
    if values.ndim != 2 or values.shape[1] != sum(sizes) or not len(values):
        raise InvalidInput(
            f"Reports have the shape {values.shape}; give at least one row of {sum(sizes)} integers, made with the "
            "same parameters."
        )
    return np.split(values, np.cumsum(sizes)[:-1], axis=1)


def check_unary(part: UnaryEncoding, reports: Integers) -> None:
    """Refuse reports with a bit after the last class. Only the last byte has such bits, and they are its lowest.

    Raises:
        InvalidInput: A report has such a bit.
    """
    spare = 8 * part.numbers - part.grid.cells
    if (reports[:, -1] & ((1 << spare) - 1)).any():
        raise InvalidInput("A report has a bit set for a class that does not exist; it is damaged or forged.")


def shares(part: UnaryEncoding, reports: Integers) -> Floats:
    """Estimate the share of people with each class from their unary reports.

        share = (set bits / reports − q) / (1/2 − q),   then the nearest distribution by least squares

    Here q is the probability that a bit of another class is set.

    Raises:
        InvalidInput: A report cannot come from this encoding.
    """
    q = part.threshold / WORDS
    raw = (part.tally(reports) / len(reports) - q) / (0.5 - q)
    return nearest_distribution(raw)


def nearest_distribution(raw: Floats) -> Floats:
    """The distribution with the least sum of squared differences: a constant is subtracted, and negatives become 0.

    >>> nearest_distribution(np.array([0.7, 0.5, -0.1])).round(3).tolist()
    [0.6, 0.4, 0.0]
    """
    falling = np.sort(raw)[::-1]
    surplus = (np.cumsum(falling) - 1) / np.arange(1, len(raw) + 1)
    constant = surplus[np.flatnonzero(falling > surplus)[-1]]
    return np.asarray(np.maximum(raw - constant, 0.0))


# ── made-up journeys ────────────────────────────────────────────────────────────────────────────────────────────────


def journeys_to_make(number: int, longest: int) -> int:
    """Check a number of journeys to make up.

    Raises:
        InvalidInput: The number is not from 1 to 10^7, or so many journeys of the longest length would fill the memory.
    """
    number = whole(number, "number", "journeys to make up", most=MOST_JOURNEYS)
    if number * longest > MOST_STEPS:
        raise InvalidInput(
            f"{number:,} journeys of up to {longest:,} visits do not fit into memory; make up at most "
            f"{MOST_STEPS // longest:,} at once, or give a smaller longest."
        )
    return number


def draw_classes(weights: Floats, number: int, randomness: Randomness) -> Integers:
    """Draw class numbers in proportion to weights; evenly if all weights are 0."""
    sums = np.cumsum(weights if weights.sum() > 0 else np.ones_like(weights))
    at = randomness.uniforms(number) * sums[-1]
    return np.asarray(np.minimum(np.searchsorted(sums, at, "right"), len(sums) - 1))


def draw_visits(lengths: Floats, longest: int, number: int, randomness: Randomness) -> Integers:
    """Draw numbers of visits: a class of length by its share, and then a number of the class uniformly."""
    most = most_visits(longest)
    least = np.concatenate([[1], most[:-1] + 1])
    chosen = draw_classes(lengths, number, randomness)
    within = randomness.uniforms(number) * (most - least + 1)[chosen]
    return np.asarray(np.minimum(least[chosen] + within.astype(np.int64), most[chosen]))


def scattered(squares: Grid, cells: Integers, counts: Integers, randomness: Randomness) -> Lines:
    """Turn sequences of cells into journeys, with one random point in each cell.

    Args:
        squares: The grid of the cells.
        cells: The cells of all journeys, journey after journey.
        counts: The number of cells of each journey, at least 1.
        randomness: The source of random bits.
    """
    row, col = np.divmod(cells, squares.cols)
    across, down = col + randomness.uniforms(len(col)), row + randomness.uniforms(len(row))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Lines(np.clip(squares.x_at(across), *squares.x), np.clip(squares.y_at(down), *squares.y), offsets)
