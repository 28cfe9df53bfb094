"""SpatialDecomposition: a complete quadtree, most budget near its leaves, made consistent (Cormode et al. 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heathaze.distributed._levels import EveryLevel, at_most_dense, descend, people_in
from heathaze.distributed.survey import Round
from heathaze.inference.estimate import Estimate
from heathaze.types import Floats

RATIO = 2 ** (1 / 3)
"""Each level gets so many times the budget of the one above."""


@dataclass(frozen=True, eq=False, init=False)
class SpatialDecomposition(EveryLevel):
    """One round: every level of the quadtree, geometric budgets, and least squares over the tree.

    See ``spatial_decomposition.md``.

    Args:
        grid: The public frame.
        epsilon: What all levels together cost one person.
        level: The finest level; that of the cells unless given.
        crowded: A square is replaced by its quarters if it holds more than so many standard deviations of their noise;
            at 8, each holds two on average.
        mass: Integer mass of one person, split over their places; 1 if each has one place.
    """

    ratio = RATIO

    def estimate(self, rounds: Sequence[Round], draws: int) -> Estimate:  # noqa: ARG002
        """The consistent tree, from the quarters of the map downwards as far as the noise allows."""
        levels, told = self._levels, rounds[-1]
        values = self.consistent(told)
        deviations = consistent_deviations([told.deviation(part) ** 2 for part in range(len(levels))])
        density = descend(
            self.grid,
            levels[-1].level,
            lambda level, codes: values[level - 1].ravel()[levels[level - 1].named(codes)],
            lambda level: deviations[level - 1],
            self.crowded,
        )
        return Estimate(at_most_dense(density), people_in(values[0].sum(), told.people))

    def consistent(self, told: Round) -> list[Floats]:
        """Every level after least squares, rows and columns of squares: quarters sum to their square."""
        values = [told.counts(part).reshape(squares.shape) for part, squares in enumerate(self._levels)]
        return least_squares(values, [told.deviation(part) ** 2 for part in range(len(values))])


# ── least squares over a tree ───────────────────────────────────────────────────────────────────────────────────────


def least_squares(levels: Sequence[Floats], variances: Sequence[float]) -> list[Floats]:
    """The tree nearest to noisy levels, Σ (x − y)² / variance least, in which quarters sum to their square.

    Upwards, a square is the weighted mean of its own number and of what its quarters sum to; downwards, what is then
    missing in the quarters is handed out in proportion to their variances. Two passes, exact for every tree.

    Args:
        levels: Rows and columns of squares, from coarse to fine; each square has its quarters, up to four, in the next.
        variances: Of the noise of every level; all zero for no noise.

    >>> found = least_squares([np.array([[10.0]]), np.array([[1.0, 1.0], [1.0, 1.0]])], [1.0, 1.0])
    >>> found[0].tolist(), found[1].tolist()  # (10 · 4 + 4 · 1) / 5, and an equal share of it
    ([[8.8]], [[2.2, 2.2], [2.2, 2.2]])
    """
    if not any(variances):
        return [np.array(level) for level in levels]
    best, spread = [np.array(levels[-1])], [np.full(levels[-1].shape, float(variances[-1]))]
    for values, variance in zip(levels[-2::-1], variances[-2::-1], strict=True):
        below, noise = _summed(best[0], values.shape), _summed(spread[0], values.shape)
        # 1/V = 1/v + 1/ΣV, and the mean weighs each by the other's variance.
        best.insert(0, (values * noise + below * variance) / (noise + variance))
        spread.insert(0, noise * variance / (noise + variance))
    for place in range(1, len(best)):
        shape = best[place - 1].shape
        missing = (best[place - 1] - _summed(best[place], shape)) / _summed(spread[place], shape)
        best[place] = best[place] + spread[place] * _handed_down(missing, best[place].shape)
    return best


def consistent_deviations(variances: Sequence[float]) -> list[float]:
    """Standard deviation of every level after least squares, for squares that have all four quarters."""
    if not any(variances):
        return [0.0] * len(variances)
    up = [float(variances[-1])]
    for variance in variances[-2::-1]:
        up.insert(0, 4 * up[0] * variance / (4 * up[0] + variance))
    final = [up[0]]
    for own in up[1:]:
        # x = z + (X − Σz)/4, where X has the variance of the level above and is independent of how quarters differ.
        final.append(own * 3 / 4 + final[-1] / 16)
    return [float(np.sqrt(variance)) for variance in final]


def _summed(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Quarters added up to squares."""
    padded = np.zeros((2 * shape[0], 2 * shape[1]))
    padded[: values.shape[0], : values.shape[1]] = values
    return np.asarray(padded.reshape(shape[0], 2, shape[1], 2).sum(axis=(1, 3)))


def _handed_down(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Squares repeated for their quarters."""
    return values.repeat(2, axis=0).repeat(2, axis=1)[: shape[0], : shape[1]]
