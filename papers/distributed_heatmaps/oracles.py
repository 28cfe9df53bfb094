"""Maps that are chosen by comparison with the truth, as the paper judges other algorithms. They are never released.

Section 6.2 judges hierarchical encodings and sketches by the split with the smallest error against the truth, and
spatial decomposition by its best layer. A server does not know the truth, so these maps only bound the accuracy that
any rule for choosing a split or layer can reach.
"""

from __future__ import annotations

import numpy as np

from heathaze.metrics.cellwise import mse


def best_split(levels: list[np.ndarray], truth: np.ndarray, people: float) -> np.ndarray:
    """The map nearest to the truth that can be composed of squares of the noisy levels, from 2 × 2 squares to cells.

    The algorithm starts with cells. A square replaces its quarters if it is nearer to the truth than they are.
    """
    size = len(truth)
    best = np.maximum(_spread(levels[-1], size), 0) / people
    for values in levels[-2::-1]:
        flat = np.maximum(_spread(values, size), 0) / people
        side = size // len(values)
        worse = _sums((flat - truth) ** 2, side) >= _sums((best - truth) ** 2, side)
        best = np.where(worse.repeat(side, axis=0).repeat(side, axis=1), best, flat)
    return best


def best_layer(levels: list[np.ndarray], truth: np.ndarray) -> np.ndarray:
    """The level that is nearest to the truth, as a map with a constant density in each square."""
    maps = [np.maximum(_spread(values, len(truth)), 0) for values in levels]
    return min((found for found in maps if found.any()), key=lambda found: mse(truth, found))


def _spread(values: np.ndarray, size: int) -> np.ndarray:
    """Divide the number of each square evenly over the square's cells."""
    side = size // len(values)
    return values.repeat(side, axis=0).repeat(side, axis=1) / side**2


def _sums(values: np.ndarray, side: int) -> np.ndarray:
    squares = len(values) // side
    return values.reshape(squares, side, squares, side).sum(axis=(1, 3))
