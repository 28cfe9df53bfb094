"""Earth mover's distance of maps that differ in few cells: a linear program over pairs of cells.

The program is solved by column generation. A source is a cell with a surplus, and a sink is a cell that lacks mass.
"""

from __future__ import annotations

import math

import numpy as np

from heathaze.metrics._beckmann import Metric
from heathaze.metrics._certificates import EPS, SUM, diameter
from heathaze.types import Floats

MAX_PAIRS = 2**18
"""The most pairs of a source and a sink; with more pairs, only the flow on the grid is used."""

QUICK_PAIRS = 2**14
"""Up to this many pairs, the program takes less time than some more steps of the solver on the grid."""

BARE_PAIRS = 2**10
"""Up to this many pairs, the program is solved before the solver takes any step on the grid."""

NEAR = 6
"""The number of pairs with the least reduced cost that each cell adds to the first program."""

ROUNDS = 40


def bare_points(f: Floats) -> bool:
    """Check whether so few cells differ that the linear program is solved before any step of the solver on the grid."""
    return 0 < int((f > 0).sum()) * int((f < 0).sum()) <= min(BARE_PAIRS, f.size // 16)


def patience(f: Floats, steps: int) -> float:
    """Choose after how many solver steps on the grid the linear program is solved: 0, ``steps``, or never (∞)."""
    pairs = int((f > 0).sum()) * int((f < 0).sum())
    if pairs == 0 or pairs > MAX_PAIRS:
        return math.inf
    return steps if pairs > QUICK_PAIRS else 0


def transport(f: Floats, guess: Floats, metric: Metric, tolerance: float, blur: float) -> tuple[float, float]:
    """Compute a lower and an upper bound on the distance, in cells, by a linear program over pairs of cells.

    The program starts with the pairs of least reduced cost under the guessed potential. Pairs whose reduced cost under
    the dual solution is negative are added, and the program is solved again. The bounds do not trust the solver.
    Negative masses of the solver's plan are set to zero. Mass that the plan then does not move costs D, the largest
    distance on the map. The dual solution u, v of the solver is made feasible for all pairs:
    v(y) = min over x of d(x, y) − u(x), where d is the distance.

    Args:
        f: The surplus of each cell; negative where mass is missing.
        guess: A potential.
        metric: ``"l1"`` or ``"l2"``.
        tolerance: The wanted gap in cells.
        blur: A bound on the rounding error of f, in ℓ1.
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
    scale = len(here) + len(there)  # The solver's tolerances are absolute, so masses are scaled to about 1.
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
    """Add the pairs of the north-west corner rule to the linear program, so that a feasible plan exists.

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
    """Add the pairs with the least reduced cost of each source and of each sink to the linear program.

    Args:
        chosen: (sources, sinks) marks of the pairs in the program; changed in place.
        reduced: Reduced cost of each pair; infinite for pairs that must not be chosen.
        count: The number of pairs for each source and each sink.

    Returns:
        Whether a new pair was added.
    """
    before = int(chosen.sum())
    for values, grid in ((reduced, chosen), (reduced.T, chosen.T)):
        best = np.argpartition(values, min(count, values.shape[1]) - 1, axis=1)[:, :count]
        rows = np.arange(len(values))[:, None]
        grid[rows, best] |= np.isfinite(values[rows, best])
    return int(chosen.sum()) > before
