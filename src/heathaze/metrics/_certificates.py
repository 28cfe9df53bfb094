"""Bounds on W₁ in cells. They hold whatever the solver did: every function rounds to the safe side.

f = p − q is known up to ‖error‖₁ ≤ ``blur`` (the rounding of the division by the sum and of the subtraction). Moving
mass δ costs at most δ·D, where D is the largest distance on the grid. So every bound is widened by D times what is not
accounted for: ``blur``, what a flow or plan leaves undone, and the rounding of the sums below.
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
"""Bound on the relative error of numpy's pairwise sum of products (blocks of 128 over 8 lanes, then a tree)."""

GRAIN = 2**16
"""Potentials are whole numbers of this part of a cell, so that their slopes are checked exactly."""

FAR = 2**60
MOST = 2**44
"""Beyond every potential in grains: 2^28 cells."""


class Potential(NamedTuple):
    """A lower bound and the potential in grains that proves it: value = Σ f·grains / GRAIN / stretch."""

    value: float
    grains: Integers
    stretch: float


def diameter(shape: tuple[int, ...], metric: Metric) -> float:
    """D, the largest distance between two cells."""
    rows, cols = shape[0] - 1, shape[1] - 1
    return float(rows + cols) if metric == "l1" else math.hypot(rows, cols)


def upper_by_flow(f: Floats, right: Floats, down: Floats, blur: float) -> float:
    """Σ |m|, plus D times what m does not level.

    A flow that levels f decomposes into paths from cells with too much to cells with too little and cycles. A path over
    k borders joins cells at ℓ1 distance at most k, hence Euclidean distance at most k: the paths are a plan that costs
    no more than Σ |m|, in either metric.
    """
    from heathaze.metrics._kernels import unlevelled

    rest = np.empty_like(f)
    unlevelled(right, down, f, rest)
    cost = float(np.abs(right[:, :-1]).sum() + np.abs(down[:-1]).sum())
    # Five terms are added in each cell, and each border is in two cells.
    undone = float(np.abs(rest).sum()) * (1 + SUM) + 5 * EPS * (float(np.abs(f).sum()) + 2 * cost)
    return cost * (1 + SUM) + diameter(f.shape, "l1") * (undone + blur)


def upper_by_plan(f: Floats, guess: Guess, blur: float) -> float:
    """The cost of a plan with straight lines, plus that of a flow that levels what the plan leaves undone.

    The plan is a list of parts (from, to, mass) with mass > 0; what it takes and brings is summed part by part, so
    f − taken + brought is what is left to level, up to the rounding of those sums (at most one for each part).
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
    """Σ f·φ for a φ that falls by at most 1 over a border, which no plan can undercut (Kantorovich–Rubinstein).

        Σ f φ = Σ γ(x, y) (φ(x) − φ(y)) ≤ Σ γ(x, y) ‖x − y‖₁   for every plan γ, if |φ(x) − φ(y)| ≤ ‖x − y‖₁

    A slope of at most 1 over each border is enough, as a shortest path over borders joins any two cells. The cells with
    too little keep their guess, or less, and the others get the largest feasible value: min over those y of
    φ(y) + ‖x − y‖₁. Then the other way round. Neither lowers Σ f φ.

    For every θ, ⌊φ + θ⌋ has slopes of at most 1 too, and its mean over θ in [0, 1) is φ plus a constant: some θ is no
    worse, and all are tried in one cumulative sum. As there are optimal potentials of whole cells, the bound often
    becomes exact that way.
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
    """What a potential in grains proves; one that is too steep is divided by its steepness first."""
    steep = max((int(np.abs(np.diff(grains, axis=axis)).max(initial=0)) for axis in (0, 1)), default=0)
    return _value(f, grains, max(1.0, steep / GRAIN), "l1", blur)


def lower_l2(f: Floats, guess: Floats, blur: float, radius: int) -> Potential:
    """The same with |φ(x) − φ(y)| ≤ ‖x − y‖₂ for all pairs of cells, by way of the rays of :func:`rays`.

    The distance along rays exceeds the Euclidean one by a factor of at most :func:`excess`; dividing by it makes a
    potential that is 1-Lipschitz along the rays 1-Lipschitz for the Euclidean distance. Nothing is assumed about the
    sweeps that build it: the slopes along all rays are measured, and divided by where they exceed 1.
    """
    from heathaze.metrics._kernels import envelope_rays

    steps, lengths = rays(radius)
    best = Potential(0.0, np.zeros(f.shape, np.int64), 1.0)
    for grains in _transforms(f, guess, lambda g: envelope_rays(g, steps, lengths)):
        if float((f * grains).sum()) / GRAIN > best.value:
            best = max(best, value_l2(f, grains, blur, radius), key=lambda potential: potential.value)
    return best


def value_l2(f: Floats, grains: Integers, blur: float, radius: int) -> Potential:
    """What a potential in grains proves about the Euclidean distance."""
    from heathaze.metrics._kernels import steepest

    steps, lengths = rays(radius)
    stretch = max(1.0, steepest(grains, steps, lengths) * (1 + EPS)) * excess(f.shape, radius)
    return _value(f, grains, stretch, "l2", blur)


def rays(radius: int) -> tuple[Integers, Integers]:
    """The steps (down, across) without common divisor of at most ``radius`` cells along each axis, one of each ±pair.

    Returns:
        The steps, and their lengths in grains. Lengths are rounded down, so that no slope is allowed that the true
        length forbids.
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
    """By what factor a path along rays may be longer than the straight line.

    A vector between two neighbouring rays u, v is a·u + b·v with whole a, b ≥ 0 (neighbours in a Farey sequence span
    the lattice), and the path stays between its ends. With an angle θ between the rays it is at most 1 / cos(θ/2) times
    as long. The widest angle lies beside an axis: tan θ = 1 / radius. Rays as long as the map contain every direction.
    """
    if radius >= max(shape) - 1:
        return 1.0
    return (1 + 4 * EPS) / math.cos(math.atan(1 / radius) / 2)


def _transforms(f: Floats, guess: Floats, envelope: Callable[[Integers], None]) -> list[Integers]:
    """From cells with too little to the rest and back, and the other way round; all in grains."""
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
    """Σ f·φ less all rounding. φ is centred, which changes no difference, so that |φ| is small."""
    centred = (grains - (int(grains.max()) + int(grains.min())) // 2) / GRAIN
    products = f * centred
    slack = SUM * float(np.abs(products).sum()) + diameter(f.shape, metric) * blur
    return Potential((float(products.sum()) - slack) / (stretch * (1 + EPS)) - slack, grains, stretch)
