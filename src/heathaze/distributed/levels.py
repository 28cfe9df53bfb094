"""Mechanisms that ask about whole levels of the quadtree in one round: Flat, Hierarchical and SpatialDecomposition.

A level of the quadtree consists of squares of one size, 2^level of them on a side of the map. These mechanisms are the
baselines of sections 5.1 and 6.2 of Bagdasaryan et al. Each mechanism has a page beside this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from heathaze.checks import assign, positive
from heathaze.distributed.cohort import Cohort
from heathaze.distributed.encodings import Squares
from heathaze.distributed.mechanism import (
    NextQuestion,
    Round,
    at_most_dense,
    check_length,
    check_level,
    descend,
    divide_budget,
    people_in,
    public_parameters,
)
from heathaze.distributed.question import Part, check_mass
from heathaze.domain.density import TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import interleave
from heathaze.inference.estimate import Estimate
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.types import Floats


@dataclass(frozen=True, eq=False, init=False)
class Flat:
    """Count the people in every square of one level, in one round; see ``flat.md``.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one person in the round.
        level: The level of the squares, which are 2^level on a side of the map; the cells if left out.
        mass: Integer weight of one person, 1 to 2^30, divided over their places; 1 if each person has one place.

    Raises:
        InvalidInput: An argument is out of range.
        TooLarge: A device would have to send more than 2^21 integers.

    >>> Flat(Grid.plane(x=(0, 1), y=(0, 1), size=8), epsilon=1, level=2).parameters()
    {'epsilon': '1', 'level': 2, 'mass': 1}
    """

    grid: Grid
    epsilon: Fraction
    level: int | None = None
    mass: int = 1

    disjoint: ClassVar[bool] = False

    def __init__(self, grid: Grid, epsilon: Number, level: int | None = None, mass: int = 1) -> None:
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), level=level, mass=check_mass(mass))
        check_length(self._squares.length)

    @property
    def _squares(self) -> Squares:
        return Squares(self.grid, check_level(self.grid, self.level, coarsest=0))

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> NextQuestion | None:  # noqa: ARG002
        """Ask about all squares of the level in one round that spends the whole budget.

        Args:
            cohort: The people who will be asked.
            rounds: The rounds that were answered so far.

        Returns:
            The next question, or None when the survey is complete.
        """
        return None if rounds else NextQuestion((Part(self._squares, self.epsilon),), True, self.mass)

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:  # noqa: ARG002
        """The map of the noisy counts: negative counts become 0, and the density is constant within each square.

        Args:
            rounds: All rounds of the survey.
            draws: Not used; this mechanism draws no maps.
        """
        counts, squares = rounds[-1].counts(), self._squares
        row, col = np.divmod(np.arange(squares.length), squares.shape[1])
        density = TreeDensity.from_mass(
            self.grid, np.full(squares.length, squares.level), interleave(row, col), np.maximum(counts, 0.0)
        )
        return Estimate(at_most_dense(density), people_in(counts.sum(), rounds[-1].people))

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return public_parameters(self)


@dataclass(frozen=True, eq=False, init=False)
class EveryLevel:
    """Base class of Hierarchical and SpatialDecomposition, which ask about every level of the quadtree in one round."""

    grid: Grid
    epsilon: Fraction
    level: int | None = None
    split_above: float = 8.0
    mass: int = 1

    disjoint: ClassVar[bool] = False
    ratio: ClassVar[float]
    """The budget of a level divided by the budget of the next coarser level."""

    def __init__(
        self, grid: Grid, epsilon: Number, level: int | None = None, split_above: float = 8.0, mass: int = 1
    ) -> None:
        assign(self, grid=grid, epsilon=parse_epsilon(epsilon), level=level, mass=check_mass(mass))
        assign(self, split_above=positive(split_above, "split_above", "how many standard deviations split a square"))
        check_length(sum(squares.length for squares in self._levels))
        self._budgets()

    @property
    def _levels(self) -> list[Squares]:
        """All levels except the root, whose count is the total. A grid of one cell has only the root."""
        finest = check_level(self.grid, self.level)
        return [Squares(self.grid, level) for level in range(min(1, finest), finest + 1)]

    def _budgets(self) -> list[Fraction]:
        return divide_budget(self.epsilon, [self.ratio**place for place in range(len(self._levels))])

    def ask(self, cohort: Cohort, rounds: Sequence[Round]) -> NextQuestion | None:  # noqa: ARG002
        """Ask about all levels of the quadtree in one round.

        Args:
            cohort: The people who will be asked.
            rounds: The rounds that were answered so far.

        Returns:
            The next question, or None when the survey is complete.
        """
        if rounds:
            return None
        parts = zip(self._levels, self._budgets(), strict=True)
        return NextQuestion(tuple(Part(squares, epsilon) for squares, epsilon in parts), True, self.mass)

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the release's provenance."""
        return public_parameters(self)

    def _map(self, last: Round, counts: Sequence[Floats], deviations: Sequence[float]) -> Estimate:
        """The map from the counts of all levels: a square is divided as far as the noise allows."""
        levels = self._levels
        density = descend(
            self.grid,
            levels[-1].level,
            lambda level, codes: counts[level - 1][levels[level - 1].named(codes)],
            lambda level: deviations[level - 1],
            self.split_above,
        )
        return Estimate(at_most_dense(density), people_in(counts[0].sum(), last.people))


@dataclass(frozen=True, eq=False, init=False)
class Hierarchical(EveryLevel):
    """Count the people in every square of every level in one round, an equal part of ε each; see ``hierarchical.md``.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one person over all levels.
        level: The finest level; the level of the cells if left out.
        split_above: A square is replaced by its quarters if its count exceeds this many standard deviations of the
            quarters' noise. At 8, the quarters have counts above two standard deviations on average.
        mass: Integer weight of one person, 1 to 2^30, divided over their places; 1 if each person has one place.

    Raises:
        InvalidInput: An argument is out of range, or ε is too small for so many levels.
        TooLarge: A device would have to send more than 2^21 integers.

    >>> Hierarchical(Grid.plane(x=(0, 1), y=(0, 1), size=8), epsilon=1).parameters()
    {'epsilon': '1', 'level': None, 'split_above': 8.0, 'mass': 1}
    """

    ratio = 1.0

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:  # noqa: ARG002
        """The map from the noisy counts: a square is replaced by its quarters as far as the noise allows.

        Args:
            rounds: All rounds of the survey.
            draws: Not used; this mechanism draws no maps.
        """
        last, parts = rounds[-1], range(len(self._levels))
        return self._map(last, [last.counts(part) for part in parts], [last.deviation(part) for part in parts])


@dataclass(frozen=True, eq=False, init=False)
class SpatialDecomposition(EveryLevel):
    """Count every level in one round, with geometric budgets and least squares over the tree (Cormode et al. 2012).

    Each level has 2^(1/3) times the budget of the next coarser level; see ``spatial_decomposition.md``.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one person over all levels.
        level: The finest level; the level of the cells if left out.
        split_above: A square is replaced by its quarters if its count exceeds this many standard deviations of the
            quarters' noise. At 8, the quarters have counts above two standard deviations on average.
        mass: Integer weight of one person, 1 to 2^30, divided over their places; 1 if each person has one place.

    Raises:
        InvalidInput: An argument is out of range, or ε is too small for so many levels.
        TooLarge: A device would have to send more than 2^21 integers.

    >>> SpatialDecomposition(Grid.plane(x=(0, 1), y=(0, 1), size=8), epsilon="1/2").parameters()
    {'epsilon': '1/2', 'level': None, 'split_above': 8.0, 'mass': 1}
    """

    ratio = 2 ** (1 / 3)

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:  # noqa: ARG002
        """The map from the consistent counts: a square is replaced by its quarters as far as the noise allows.

        Args:
            rounds: All rounds of the survey.
            draws: Not used; this mechanism draws no maps.
        """
        last = rounds[-1]
        deviations = consistent_deviations([last.deviation(part) ** 2 for part in range(len(self._levels))])
        return self._map(last, [values.ravel() for values in self.consistent(last)], deviations)

    def consistent(self, found: Round) -> list[Floats]:
        """The counts of every level after least squares: the counts of quarters add up to the count of their square.

        Args:
            found: The round that was answered.
        """
        values = [found.counts(part).reshape(squares.shape) for part, squares in enumerate(self._levels)]
        return least_squares(values, [found.deviation(part) ** 2 for part in range(len(values))])


# ── least squares over a tree ───────────────────────────────────────────────────────────────────────────────────────


def least_squares(levels: Sequence[Floats], variances: Sequence[float]) -> list[Floats]:
    """Make noisy counts of quadtree levels consistent by least squares: quarters add up to their square.

    The result x minimises Σ (x − y)² / variance for the noisy counts y. On the way up, a square gets the weighted mean
    of its own count and the sum of its quarters. On the way down, the difference between a square and the sum of its
    quarters is divided among the quarters in proportion to their variances. These two passes give the exact minimum.

    Args:
        levels: The counts of each level as rows and columns of squares, from coarse to fine. Each square has one to
            four quarters in the next level.
        variances: Variance of the noise of every level; all 0 if there is no noise.

    Returns:
        The consistent counts of each level.

    >>> found = least_squares([np.array([[10.0]]), np.array([[1.0, 1.0], [1.0, 1.0]])], [1.0, 1.0])
    >>> found[0].tolist(), found[1].tolist()  # (10 · 4 + 4 · 1) / 5, and an equal share of it
    ([[8.8]], [[2.2, 2.2], [2.2, 2.2]])
    """
    if not any(variances):
        return [np.array(level) for level in levels]
    best, spread = [np.array(levels[-1])], [np.full(levels[-1].shape, float(variances[-1]))]
    for values, variance in zip(levels[-2::-1], variances[-2::-1], strict=True):
        below, noise = _summed(best[0], values.shape), _summed(spread[0], values.shape)
        # The mean of two estimates weights each by the variance of the other.
        best.insert(0, (values * noise + below * variance) / (noise + variance))
        spread.insert(0, noise * variance / (noise + variance))
    for place in range(1, len(best)):
        shape = best[place - 1].shape
        missing = (best[place - 1] - _summed(best[place], shape)) / _summed(spread[place], shape)
        best[place] = best[place] + spread[place] * _handed_down(missing, best[place].shape)
    return best


def consistent_deviations(variances: Sequence[float]) -> list[float]:
    """Standard deviation of the counts of every level after :func:`least_squares`, for squares with four quarters.

    Args:
        variances: Variance of the noise of every level, from coarse to fine.
    """
    if not any(variances):
        return [0.0] * len(variances)
    up = [float(variances[-1])]
    for variance in variances[-2::-1]:
        up.insert(0, 4 * up[0] * variance / (4 * up[0] + variance))
    final = [up[0]]
    for own in up[1:]:
        # x = z + (X − Σz)/4, where X, the count of the parent square, is independent of the differences of its
        # quarters.
        final.append(own * 3 / 4 + final[-1] / 16)
    return [float(np.sqrt(variance)) for variance in final]


def _summed(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Add the values of the quarters of every square of the next coarser level."""
    padded = np.zeros((2 * shape[0], 2 * shape[1]))
    padded[: values.shape[0], : values.shape[1]] = values
    return np.asarray(padded.reshape(shape[0], 2, shape[1], 2).sum(axis=(1, 3)))


def _handed_down(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Repeat the value of every square for each of its quarters in the next finer level."""
    return values.repeat(2, axis=0).repeat(2, axis=1)[: shape[0], : shape[1]]
