"""What a server would do that knows the truth: the paper's own way of judging its rivals. Never a release.

Section 6.2 judges hierarchical encodings and sketches by the split with the lowest error compared to the truth, and
spatial decomposition by its best layer. No server can choose like that: these bound what its rule may reach.
"""

from __future__ import annotations

import numpy as np

from heathaze.metrics.cellwise import mse


def best_split(levels: list[np.ndarray], truth: np.ndarray, people: float) -> np.ndarray:
    """Noisy levels, from 2 × 2 squares to cells, as the map of squares of any size that is nearest to the truth.

    From the cells upwards a square takes the place of its quarters where it is nearer to the truth than they are.
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
    """The level, flat within its squares, that is nearest to the truth."""
    maps = [np.maximum(_spread(values, len(truth)), 0) for values in levels]
    return min((found for found in maps if found.any()), key=lambda found: mse(truth, found))


def _spread(values: np.ndarray, size: int) -> np.ndarray:
    """Numbers of squares, divided evenly over their cells."""
    side = size // len(values)
    return values.repeat(side, axis=0).repeat(side, axis=1) / side**2


def _sums(values: np.ndarray, side: int) -> np.ndarray:
    squares = len(values) // side
    return values.reshape(squares, side, squares, side).sum(axis=(1, 3))
