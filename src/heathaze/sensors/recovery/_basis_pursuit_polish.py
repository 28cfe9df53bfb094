"""From an interior point to the optimum itself: few places, exact strengths, zeros that are zero.

An interior point spreads what belongs to two neighbouring candidates over a dozen, and leaves dust everywhere else.
"""

from __future__ import annotations

import math

import numpy as np

from heathaze.types import Booleans, Floats

INSIDE = 1e-11
"""The exact answer is put this part of the radius inside the ball, so that rounding does not carry it out."""


EMPTY = 1e-10
"""A strength below this part of the largest is what the interior-point method leaves of zero."""

UNCHANGED = 1e-12
"""Readings that differ by this part count as the same."""


def exact(columns: Floats, wanted: Floats, ball: float, at_most: float, found: Floats, slack: Floats) -> Floats | None:
    """Strengths that satisfy the optimality conditions exactly, or nothing if that does not succeed.

    Args:
        columns: R, the columns of the chosen places.
        wanted: z.
        ball: ρ.
        at_most: b.
        found: An interior point close to the optimum.
        slack: 1 − price of each place there.
    """
    top = float(found.max())
    # On the path the product of a strength and its slack is the same for all: the larger says which one vanishes.
    full = (at_most - found < -slack * top) & (slack < 0)
    free = (found / top > np.abs(slack)) & ~full
    fixed = np.where(full, at_most, 0.0) if full.any() else np.zeros(len(found))
    rest = wanted - columns @ fixed
    few = thin(columns, np.where(free, found, 0.0), at_most)
    for start in (free, (few > 0) & (few < at_most)):
        values = _drop_negative(columns, rest, ball * (1 - INSIDE), start)
        if values is not None and values.max() <= at_most:
            return fixed + values
    return None


def thin(columns: Floats, found: Floats, at_most: float) -> Floats:
    """Strengths with the same readings and the same sum at few places: what Carathéodory's theorem promises.

    Along a combination of columns that changes neither, strengths move until one is zero or at the bound; then about
    one more is left between them than R has rows, or than floats can tell.
    """
    few = np.where(found < EMPTY * found.max(initial=0.0), 0.0, found)
    length = float(np.linalg.norm(columns @ found)) or 1.0
    weight = length / max(float(found.sum()), np.finfo(float).tiny)  # The sum counts like a reading.
    stacked = np.vstack([columns, np.full(len(found), weight)])
    between = np.flatnonzero((few > 0) & (few < at_most))
    while between.size > 1:
        block = between[: len(stacked) + 1]
        _, sizes, right = np.linalg.svd(stacked[:, block])
        ways = [_to_the_wall(few[block], way * right[-1], at_most) for way in (1.0, -1.0)]
        step, moved = min(ways, key=lambda way: way[0])
        changed = step * (float(sizes[-1]) if len(sizes) == len(block) else 0.0)
        if changed > UNCHANGED * length:
            break
        few[block] = moved
        between = np.flatnonzero((few > 0) & (few < at_most))
    return few


def _to_the_wall(here: Floats, way: Floats, at_most: float) -> tuple[float, Floats]:
    """How far strengths can go along a way until one is zero or at the bound, and where they are then."""
    room = np.where(way < 0, here, at_most - here)
    steps = np.divide(room, np.abs(way), out=np.full(len(here), np.inf), where=way != 0)
    first = int(np.argmin(steps))
    moved = np.clip(here + steps[first] * way, 0.0, at_most)
    moved[first] = 0.0 if way[first] < 0 else at_most
    return float(steps[first]), moved


def _drop_negative(columns: Floats, wanted: Floats, ball: float, free: Booleans) -> Floats | None:
    """The optimum on the free places, after giving up those that would be negative there, one by one."""
    free = free.copy()
    while free.any():
        values = _on_the_ball(columns[:, free], wanted, ball)
        if values is None:
            return None
        if values.min() >= 0:
            result = np.zeros(columns.shape[1])
            result[free] = values
            return result
        free[np.flatnonzero(free)[np.argmin(values)]] = False
    return None


def _on_the_ball(columns: Floats, wanted: Floats, ball: float) -> Floats | None:
    """The least sum with ‖R f − z‖ = ρ and no bound on f, or nothing if the ball is out of reach.

    f = the least squares − λ (RᵀR)⁻¹ 1,   λ ≥ 0 such that λ² · 1ᵀ(RᵀR)⁻¹1 fills up what they leave of ρ²
    """
    from scipy.linalg import solve_triangular

    left, triangle = np.linalg.qr(columns)
    diagonal = np.abs(np.diag(triangle))
    if columns.shape[0] < columns.shape[1] or diagonal.min() <= 1e-13 * diagonal.max():
        return None
    part = left.T @ wanted
    missed = wanted - left @ part
    unused = ball**2 - float(missed @ missed)
    if unused < 0:
        return None
    half = solve_triangular(triangle, np.ones(columns.shape[1]), trans="T")
    weight = math.sqrt(unused / float(half @ half))
    return np.asarray(solve_triangular(triangle, part - weight * half))
