"""Minimising a smooth function of many numbers: limited-memory BFGS (Nocedal 1980).

scipy has the same; its inner products go through a threaded BLAS, whose threads wait for each other on a busy machine
and then take many times as long as the function itself. These stay in one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from heathaze.types import Floats

Cost = Callable[[Floats], tuple[float, Floats]]

_MEMORY = 8
"""Earlier steps that shape the next."""

_ENOUGH = 1e-4
"""Part of the promised decrease that a step must bring (Armijo)."""


def minimise(cost: Cost, start: Floats, *, steps: int, tolerance: float = 1e-10) -> Floats:
    """Where the cost is least, or nearly: ends when a step lowers it by less than ``tolerance`` of its value.

    Args:
        cost: Value and gradient.
        start: Where to begin.
        steps: When to stop at the latest.
        tolerance: When to stop.

    >>> minimise(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.zeros(2), steps=20).round(6).tolist()
    [3.0, 3.0]
    """
    here = start
    value, slope = cost(here)
    earlier: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    for _ in range(steps):
        direction = -_bent(slope, earlier)
        steep = _inner(direction, slope)
        if steep >= 0:  # rounding has spoilt what was remembered
            earlier.clear()
            direction, steep = -slope, -_inner(slope, slope)
        if steep == 0:
            break
        # A remembered curvature makes 1 the right length; without one, a length of 1 at most.
        length = 1.0 if earlier else min(1.0, (-steep) ** -0.5)
        there, lower, slope_there = _along(cost, here, value, direction, steep, length)
        if lower >= value:
            break
        moved, turned = there - here, slope_there - slope
        curvature = _inner(moved, turned)
        if curvature > 1e-10 * _inner(turned, turned):
            earlier.append((moved, turned, 1 / curvature))
        done = value - lower <= tolerance * max(abs(lower), 1.0)
        here, value, slope = there, lower, slope_there
        if done:
            break
    return here


def _along(
    cost: Cost, here: Floats, value: float, direction: Floats, steep: float, length: float
) -> tuple[Floats, float, Floats]:
    """A point along the direction where the cost is lower by enough; lengths are tried, each shorter than the last."""
    there, found, slope = here, value, direction
    for _ in range(20):
        there = here + length * direction
        found, slope = cost(there)
        if found <= value + _ENOUGH * length * steep:
            break
        # The least point of the parabola through what is known, kept within bounds.
        best = -steep * length**2 / (2 * (found - value - steep * length)) if np.isfinite(found) else 0.0
        length = min(max(best, 0.1 * length), 0.5 * length)
    return there, found, slope


def _bent(slope: Floats, earlier: deque[tuple[Floats, Floats, float]]) -> Floats:
    """The slope times an inverse curvature made of earlier steps: the two-loop recursion."""
    bent = slope.copy()
    parts = []
    for moved, turned, weight in reversed(earlier):
        part = weight * _inner(moved, bent)
        bent -= part * turned
        parts.append(part)
    if earlier:
        _, turned, weight = earlier[-1]
        bent /= weight * _inner(turned, turned)
    for (moved, turned, weight), part in zip(earlier, reversed(parts), strict=True):
        bent += (part - weight * _inner(turned, bent)) * moved
    return bent


def _inner(first: Floats, second: Floats) -> float:
    """Inner product without BLAS."""
    return float(np.einsum("i,i->", first, second))
