"""Proven bounds on the earth mover's distance W₁, in units of cells, computed from a flow and a potential.

The bounds hold even if the solver did not converge, and every function rounds to the safe side. The difference
f = p − q of the two maps is known up to an error of at most ``blur`` in ℓ1, which comes from the division by the sum
and from the subtraction. Moving mass δ costs at most δ·D, where D is the largest distance on the grid. So every bound
is widened by D times the mass that it does not account for: ``blur``, the mass that a flow or plan does not move, and
the rounding of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from heathaze.metrics._beckmann import Guess, Metric, level
from heathaze.types import Floats, Integers

EPS = 2.0**-52
SUM = 128 * EPS
"""A bound on the relative error of numpy's pairwise sum of products (blocks of 128 over 8 lanes, then a tree)."""

GRAIN = 2**16
"""The number of grains in a cell. Potentials are whole numbers of grains, so that their slopes are checked exactly."""

FAR = 2**60
MOST = 2**44
"""Larger than every potential in grains: it is a distance of 2^28 cells."""


class Potential(NamedTuple):
    """A lower bound on the distance, and the dual potential that proves it: value = Σ f·grains / GRAIN / stretch."""

    value: float
    grains: Integers
    stretch: float


def diameter(shape: tuple[int, ...], metric: Metric) -> float:
    """Compute D, the largest distance between two cells of the map."""
    rows, cols = shape[0] - 1, shape[1] - 1
    return float(rows + cols) if metric == "l1" else math.hypot(rows, cols)


def upper_by_flow(f: Floats, right: Floats, down: Floats, blur: float) -> float:
    """Compute an upper bound on the distance from a flow m: Σ |m|, plus D times the mass that m does not move.

    A flow with divergence f consists of cycles and of paths from cells with a surplus to cells that lack mass. A path
    over k borders joins cells whose ℓ1 distance, and therefore whose Euclidean distance, is at most k. So the paths are
    a transport plan that costs at most Σ |m| in either metric.
    """
    from heathaze.metrics._kernels import unlevelled

    rest = np.empty_like(f)
    unlevelled(right, down, f, rest)
    cost = float(np.abs(right[:, :-1]).sum() + np.abs(down[:-1]).sum())
    # For the rounding error: five terms are added in each cell, and each border belongs to two cells.
    undone = float(np.abs(rest).sum()) * (1 + SUM) + 5 * EPS * (float(np.abs(f).sum()) + 2 * cost)
    return cost * (1 + SUM) + diameter(f.shape, "l1") * (undone + blur)


def upper_by_plan(f: Floats, guess: Guess, blur: float) -> float:
    """Compute an upper bound on the Euclidean distance: the cost of a plan along straight lines, plus a flow's cost.

    The flow moves the mass that the plan does not move.

    The plan is a list of parts (from, to, mass) with mass > 0. The mass taken from each cell and the mass brought to
    each cell are summed part by part. So f − taken + brought is the difference that the flow must still move, up to the
    rounding of these sums (at most one rounding for each part).
    """
    from heathaze.metrics._kernels import carry

    order = np.argsort(-guess.potential.ravel(), kind="stable")
    cost, taken, brought, parts = carry(f, guess.right, guess.down, guess.potential, order)
    rest = f - taken + brought
    right, down = level(rest)
    moved = float(taken.sum() + brought.sum())
    rounding = (2 * int(parts) + 8) * EPS
    left = upper_by_flow(rest, right, down, blur + rounding * moved + 2 * EPS * float(np.abs(f).sum()))
    return float(cost) * (1 + rounding) + left


def lower_l1(f: Floats, guess: Floats, blur: float) -> Potential:
    """Compute a lower bound on the ℓ1 distance from a potential φ: no plan costs less than Σ f·φ.

    A potential is feasible if |φ(x) − φ(y)| ≤ ‖x − y‖₁ for all cells x and y. Then for every plan γ

        Σ f φ = Σ γ(x, y) (φ(x) − φ(y)) ≤ Σ γ(x, y) ‖x − y‖₁   (Kantorovich and Rubinstein)

    It is enough to check that φ changes by at most 1 over each border, since a shortest path over borders joins any two
    cells. The guess is made feasible in two ways. In the first, the cells y that lack mass keep their guess (or get
    less), and every other cell x gets the largest feasible value, the minimum over these y of φ(y) + ‖x − y‖₁. In the
    second, the roles are exchanged. Neither way lowers Σ f φ.

    The potential is then rounded to whole cells. For every θ, ⌊φ + θ⌋ is feasible too, and its mean over θ in [0, 1) is
    φ plus a constant. So some θ does not lower the bound; all θ are tried in one cumulative sum. Some optimal potential
    consists of whole cells, so rounding often makes the bound exact.
    """
    from heathaze.metrics._kernels import envelope_l1

    best = Potential(0.0, np.zeros(f.shape, np.int64), 1.0)  # no potential, no bound
    for grains in _transforms(f, guess, lambda g: envelope_l1(g, GRAIN)):
        whole, part = grains // GRAIN, grains % GRAIN
        gains = np.cumsum(np.bincount(part.ravel(), weights=f.ravel(), minlength=GRAIN)[::-1])
        up = part >= GRAIN - 1 - int(np.argmax(gains))
        for candidate in (grains, (whole + up) * GRAIN):
            best = max(best, value_l1(f, candidate, blur), key=lambda potential: potential.value)
    return best


def value_l1(f: Floats, grains: Integers, blur: float) -> Potential:
    """Compute the lower bound that a potential in grains proves for ℓ1; a too steep potential is scaled down."""
    steep = max((int(np.abs(np.diff(grains, axis=axis)).max(initial=0)) for axis in (0, 1)), default=0)
    return _value(f, grains, max(1.0, steep / GRAIN), "l1", blur)


def lower_l2(f: Floats, guess: Floats, blur: float, radius: int) -> Potential:
    """Compute a lower bound on the Euclidean distance from a potential φ: no plan costs less than Σ f·φ.

    The potential must satisfy |φ(x) − φ(y)| ≤ ‖x − y‖₂ for all cells x and y. Only the slopes along some directions,
    the rays of :func:`rays`, are limited to 1. A path along rays is at most :func:`excess` times as long as the
    straight line. So φ divided by this factor satisfies the condition for all pairs of cells. The bound does not trust
    the code that builds φ: the slopes along all rays are measured, and if one exceeds 1, φ is divided by the largest
    slope.
    """
    from heathaze.metrics._kernels import envelope_rays

    steps, lengths = rays(radius)
    best = Potential(0.0, np.zeros(f.shape, np.int64), 1.0)
    for grains in _transforms(f, guess, lambda g: envelope_rays(g, steps, lengths)):
        if float((f * grains).sum()) / GRAIN > best.value:
            best = max(best, value_l2(f, grains, blur, radius), key=lambda potential: potential.value)
    return best


def value_l2(f: Floats, grains: Integers, blur: float, radius: int) -> Potential:
    """Compute the lower bound on the Euclidean distance that a potential in grains proves."""
    from heathaze.metrics._kernels import steepest

    steps, lengths = rays(radius)
    stretch = max(1.0, steepest(grains, steps, lengths) * (1 + EPS)) * excess(f.shape, radius)
    return _value(f, grains, stretch, "l2", blur)


def rays(radius: int) -> tuple[Integers, Integers]:
    """List the directions along which the slopes of a potential are limited, for the Euclidean lower bound.

    A ray is a step (down, across) of at most ``radius`` cells along each axis, without a common divisor. Of a step and
    its opposite, only one is listed.

    Returns:
        The steps, and their lengths in grains. Lengths are rounded down, so the limit on slopes is never too weak.
    """
    steps = [
        (down, across)
        for down in range(radius + 1)
        for across in range(-radius, radius + 1)
        if math.gcd(down, across) == 1 and (down > 0 or across > 0)
    ]
    lengths = [math.isqrt((down**2 + across**2) * GRAIN**2) for down, across in steps]
    return np.array(steps, dtype=np.int64), np.array(lengths, dtype=np.int64)


def excess(shape: tuple[int, ...], radius: int) -> float:
    """Bound the factor by which a path along rays is longer than the straight line.

    A vector between two neighbouring rays u and v is a·u + b·v with whole numbers a, b ≥ 0, because neighbours in a
    Farey sequence span the lattice. The path of a steps u and b steps v stays on the map. If the angle between u and v
    is θ, the path is at most 1 / cos(θ/2) times as long as the vector. The widest angle is next to an axis, with
    tan θ = 1 / radius. If rays may be as long as the map, every direction is a ray, and the factor is 1.
    """
    if radius >= max(shape) - 1:
        return 1.0
    return (1 + 4 * EPS) / math.cos(math.atan(1 / radius) / 2)


def _transforms(f: Floats, guess: Floats, envelope: Callable[[Integers], None]) -> list[Integers]:
    """Make a guessed potential feasible in two ways: from the cells that lack mass, and from the cells with a surplus.

    ``envelope`` extends the values of one kind of cells to all cells. The potentials are in grains.
    """
    start = np.rint(np.clip(guess * GRAIN, -MOST, MOST)).astype(np.int64)
    found = []
    for first in (False, True):
        grains = start
        for from_above in (first, not first):
            sign = -1 if from_above else 1
            lifted = np.where(f > 0 if from_above else f < 0, sign * grains, FAR)
            envelope(lifted)
            grains = sign * lifted
        found.append(grains)
    return found


def _value(f: Floats, grains: Integers, stretch: float, metric: Metric, blur: float) -> Potential:
    """Compute the lower bound Σ f·φ, minus all rounding errors.

    A constant is subtracted from φ, so that its values, and with them the rounding errors, are small.
    """
    centred = (grains - (int(grains.max()) + int(grains.min())) // 2) / GRAIN
    products = f * centred
    slack = SUM * float(np.abs(products).sum()) + diameter(f.shape, metric) * blur
    return Potential((float(products.sum()) - slack) / (stretch * (1 + EPS)) - slack, grains, stretch)
