"""Exact transport where few cells differ: a linear program over pairs of cells, solved by column generation."""

from __future__ import annotations

import math

import numpy as np

from heathaze.metrics._beckmann import Metric
from heathaze.metrics._certificates import EPS, SUM, diameter
from heathaze.types import Floats

MAX_PAIRS = 2**18
"""Cells with too much times cells with too little; above it only the flow on the grid is used."""

QUICK_PAIRS = 2**14
"""Up to this many pairs the program takes less time than some more steps on the grid."""

BARE_PAIRS = 2**10
"""Up to this many pairs the program is solved before any step on the grid."""

NEAR = 6
"""Pairs of least reduced cost that each cell brings into the first program."""

ROUNDS = 40


def bare_points(f: Floats) -> bool:
    """Whether so few cells differ that the program is solved before any step on the grid."""
    return 0 < int((f > 0).sum()) * int((f < 0).sum()) <= min(BARE_PAIRS, f.size // 16)


def patience(f: Floats, steps: int) -> float:
    """After how many steps on the grid to solve the program: at the first stop (0), after ``steps``, or never (∞)."""
    pairs = int((f > 0).sum()) * int((f < 0).sum())
    if pairs == 0 or pairs > MAX_PAIRS:
        return math.inf
    return steps if pairs > QUICK_PAIRS else 0


def transport(f: Floats, guess: Floats, metric: Metric, tolerance: float, blur: float) -> tuple[float, float]:
    """Lower and upper bound in cells, closer than the tolerance if the program can be solved.

    The program begins with the pairs of least reduced cost under a potential, and gains those that its own dual finds
    cheaper. The bounds do not rely on the solver: negative parts of its plan are cut off, what the plan then leaves
    undone is paid for with D, and its dual is made feasible for all pairs, v(y) = min over x of d(x, y) − u(x).

    Args:
        f: What each cell has too much.
        guess: A potential.
        metric: ``"l1"`` or ``"l2"``.
        tolerance: The wanted gap in cells.
        blur: How much of f may be rounding, in ℓ1.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    sources, sinks = np.argwhere(f > 0), np.argwhere(f < 0)
    here, there = f[f > 0], -f[f < 0]
    apart = np.abs(sources[:, None, :] - sinks[None, :, :])
    distance = np.asarray(apart.sum(axis=2) if metric == "l1" else np.hypot(apart[..., 0], apart[..., 1]), np.float64)
    most = diameter(f.shape, metric)
    chosen = np.zeros(distance.shape, dtype=bool)
    add_corners(chosen, here, there)
    add_best(chosen, distance - guess[f > 0][:, None] + guess[f < 0][None, :], NEAR)
    lower, upper = 0.0, float("inf")
    scale = len(here) + len(there)  # The solver's tolerances are absolute; masses of about 1 suit them.
    for _ in range(ROUNDS):
        one, other = np.nonzero(chosen)
        place = np.arange(len(one))
        marginals = coo_array(
            (np.ones(2 * len(one)), (np.concatenate([one, len(here) + other]), np.concatenate([place, place])))
        ).tocsr()
        supply = np.concatenate([here / here.sum(), there / there.sum()]) * scale
        solved = linprog(distance[one, other], A_eq=marginals, b_eq=supply, method="highs")
        if solved.x is None:
            break
        mass = np.maximum(solved.x, 0.0) * (here.sum() / scale)
        taken = np.bincount(one, weights=mass, minlength=len(here))
        brought = np.bincount(other, weights=mass, minlength=len(there))
        rounding = EPS * len(mass) * float(mass.sum())
        undone = float(np.abs(taken - here).sum() + np.abs(brought - there).sum()) + 2 * rounding
        paid = float((distance[one, other] * mass).sum()) * (1 + SUM)
        upper = min(upper, paid + most * (undone * (1 + SUM) + blur))
        v = solved.eqlin.marginals[len(here) :]
        u = (distance - v[None, :]).min(axis=1)
        v = (distance - u[:, None]).min(axis=0)
        worth = float((here * u).sum() + (there * v).sum())
        broken = 4 * EPS * (most + float(np.abs(u).max() + np.abs(v).max()))
        slack = SUM * float((here * np.abs(u)).sum() + (there * np.abs(v)).sum()) + 2 * broken
        lower = max(lower, worth - slack - most * blur)
        if upper - lower <= tolerance:
            break
        reduced = distance - solved.eqlin.marginals[: len(here)][:, None] - solved.eqlin.marginals[len(here) :][None, :]
        if not add_best(chosen, np.where(reduced < -1e-10, reduced, np.inf), 2):
            break
    return lower, upper


def add_corners(chosen: np.ndarray, here: Floats, there: Floats) -> None:
    """Choose the pairs of the north-west corner rule, so that the first program is feasible.

    Args:
        chosen: (sources, sinks) marks of the pairs in the program; changed in place.
        here: Mass of each source.
        there: Mass of each sink.
    """
    one = np.concatenate([[0.0], np.cumsum(here / here.sum())])
    other = np.concatenate([[0.0], np.cumsum(there / there.sum())])
    i = j = 0
    while i < len(here) and j < len(there):
        chosen[i, j] = True
        if (one[i + 1] <= other[j + 1] and i + 1 < len(here)) or j + 1 == len(there):
            i += 1
        else:
            j += 1


def add_best(chosen: np.ndarray, reduced: Floats, count: int) -> bool:
    """Choose the pairs of least reduced cost of each row and column.

    Args:
        chosen: (sources, sinks) marks of the pairs in the program; changed in place.
        reduced: Reduced cost of each pair; infinite for pairs that must not be chosen.
        count: How many pairs of each row and column.

    Returns:
        Whether there was a new pair.
    """
    before = int(chosen.sum())
    for values, grid in ((reduced, chosen), (reduced.T, chosen.T)):
        best = np.argpartition(values, min(count, values.shape[1]) - 1, axis=1)[:, :count]
        rows = np.arange(len(values))[:, None]
        grid[rows, best] |= np.isfinite(values[rows, best])
    return int(chosen.sum()) > before
