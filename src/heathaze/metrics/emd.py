"""The earth mover's distance between two maps, with a proof: a lower and an upper bound.

    W₁(p, q) = min over γ ≥ 0 with marginals p, q of  Σ γ(x, y) · ‖x − y‖

Distances are between the centres of cells, with ‖·‖₁ (the default, which the papers on heat maps report) or ‖·‖₂. Mass
that both maps have in one cell may stay there, so only f = p − q matters.

A flow across the borders of cells that carries f away is improved step by step (_beckmann). The bounds do not rely on
it being optimal. At every stop two certificates are made from it and checked against f (_certificates):

- **upper**: a way to move the mass. For ℓ1 it is the flow itself: mass that crosses k borders moved by at most k, so
the
  sum of |flow| is at least the cost of some plan. For ℓ2 it is a plan from cell to cell that follows the flow
  (``_kernels.carry``) and pays straight lines; the flow's own Σ |m|₂ is only a discretisation of W₁ and is never
  reported.
- **lower**: Σ f·φ for a potential φ with |φ(x) − φ(y)| ≤ ‖x − y‖ for all pairs of cells, built by a distance transform
  in whole numbers, so that this is checked exactly. No plan can cost less (Kantorovich and Rubinstein).

Rounding is counted against the bounds: the exact value for the maps as given lies between them. Where few cells
differ, a linear program over pairs of cells closes the gap that the flow leaves (sparse_transport).

Citations: M. Beckmann (1952) for the flow, L. V. Kantorovich and G. S. Rubinstein (1958) for the potential, P.-L. Lions
and B. Mercier (1979) for the splitting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from heathaze.errors import InvalidInput, TooLarge
from heathaze.metrics._beckmann import Beckmann, Metric
from heathaze.metrics._certificates import SUM, diameter
from heathaze.metrics.pair import LengthUnit, Map, cells_in_unit, pair
from heathaze.types import Floats

MAX_CELLS = {"l1": 2**24, "l2": 2**20}
"""Larger maps do not fit into a few GB; aggregate them first."""

MAX_STEPS = {"l1": 2000, "l2": 800}
"""After this many steps the bounds are returned as they are."""

FEW_STEPS = {"l1": 400, "l2": 100}
"""After this many steps a linear program over pairs of cells takes over, where they are few."""

SINGLE = 1e-5
"""Down to this tolerance, steps in float32 are good enough; the bounds are in float64 and whole numbers always."""


@dataclass(frozen=True, slots=True)
class Distance:
    """What :func:`heathaze.metrics.emd` returns: two bounds between which the exact distance provably lies.

    Attributes:
        lower: The value of a feasible dual potential; no plan costs less.
        upper: The cost of a feasible plan.
        steps: How many steps the solver took.

    ``float(distance)`` is the middle of the two, so its error is at most half the gap.

    >>> d = Distance(lower=0.25, upper=0.75, steps=50)
    >>> float(d), d.gap, f"{d:.2f}"
    (0.5, 0.5, '0.50')
    >>> print(Distance(0.1041, 0.1045, 50))
    0.1043 (between 0.1041 and 0.1045)
    """

    lower: float
    upper: float
    steps: int

    @property
    def gap(self) -> float:
        """How far apart the bounds are."""
        return self.upper - self.lower

    def __float__(self) -> float:
        return (self.lower + self.upper) / 2

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __str__(self) -> str:
        return f"{float(self):.4g} (between {self.lower:.4g} and {self.upper:.4g})"


def emd(
    truth: Map, estimate: Map, *, tolerance: float = 1e-3, metric: Metric = "l1", unit: LengthUnit = "box"
) -> Distance:
    """The least mean distance over which the mass of one map must travel to become the other, between two bounds.

        lower ≤ W₁(p, q) ≤ upper,   upper − lower ≤ tolerance unless the steps ran out

    Cells count as squares. In the unit ``"box"`` the longer side of the grid is 1 (not that of the square it is padded
    to, errata E0-11), so values at different resolutions are comparable. In ``"cells"`` the side of a cell is 1.

    The tolerance is always in the unit ``"box"``: 1e-3 is a thousandth of the longer side, a quarter of a cell on
    256 × 256. In ``"cells"`` the gap is at most tolerance · max(rows, cols).

    When 2000 steps (ℓ2: 800, or no more progress) have not reached the tolerance, the bounds are returned as they are:
    still true, but wider. ``.gap`` says by how much.

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.
        tolerance: The wanted gap, positive, as a part of the longer side.
        metric: ``"l1"`` or ``"l2"``, the distance between the centres of two cells.
        unit: ``"box"`` or ``"cells"``.

    Returns:
        A :class:`Distance`; ``float()`` of it is the middle. The same for (a, b) and (b, a).

    Raises:
        InvalidInput: The maps cannot be compared, or an argument is none of the above.
        TooLarge: More than 2^24 cells (2^20 for ``"l2"``).

    Cost: for ``"l1"`` 25 to 150 steps, each two cosine transforms: under 0.2 s on 256 × 256, some seconds on
    1024 × 1024. For ``"l2"`` about ten times that on 256 × 256 and a minute on 1024 × 1024, because every parcel of
    mass is followed from cell to cell.

    >>> distance = emd([[1, 0, 0, 0]], [[0, 0, 0, 1]], unit="cells")
    >>> round(float(distance), 3), distance.lower <= 3 <= distance.upper, distance.gap < 4e-3
    (3.0, True, True)
    >>> round(float(emd([[1, 0], [0, 0]], [[0, 0], [0, 1]], metric="l2", unit="cells")) ** 2, 2)
    2.0
    """
    _check(tolerance, metric)
    p, q = pair(truth, estimate)
    length = 1 / cells_in_unit(p.shape, unit)
    if p.size > MAX_CELLS[metric]:
        side = math.isqrt(MAX_CELLS[metric])
        raise TooLarge(
            f"The maps have {p.shape[0]} × {p.shape[1]} cells; resample them to at most {side} × {side} first."
        )
    difference = p - q
    moved = float(np.abs(difference).sum()) / 2
    if moved == 0:
        return Distance(0.0, 0.0, 0)
    side = max(p.shape)
    # What normalising and subtracting may have changed.
    noise = abs(float(p.sum()) - 1) + abs(float(q.sum()) - 1) + 3 * SUM
    if moved <= noise:  # Equal up to rounding: there is nothing to solve.
        return Distance(0.0, diameter(p.shape, metric) * (moved + noise) * length, 0)
    # (a, b) and (b, a) are one problem: the first cell that differs has too much.
    sign = math.copysign(1.0, float(difference.ravel()[np.flatnonzero(difference)[0]]))
    f = difference * (sign / moved)
    lower, upper, steps = _bounds(f, metric, tolerance * side / moved, noise / moved, tolerance)
    return Distance(max(lower, 0.0) * moved * length, upper * moved * length, steps)


def _bounds(f: Floats, metric: Metric, wanted: float, blur: float, tolerance: float) -> tuple[float, float, int]:
    """Bounds in cells for f with Σ |f| = 2, and the steps that were taken."""
    from heathaze.metrics import _certificates, sparse_transport

    if sparse_transport.bare_points(f):
        lower, upper = sparse_transport.transport(f, np.zeros_like(f), metric, wanted, blur)
        if upper - lower <= wanted:
            return lower, upper, 0
    flow = Beckmann(f, metric, np.float32 if tolerance >= SINGLE else np.float64)
    patience = sparse_transport.patience(f, FEW_STEPS[metric])
    lower, upper, gap = 0.0, math.inf, math.inf
    for steps in _stops(metric):
        flow.advance(steps)
        guess = flow.guess()
        if metric == "l1":
            upper = min(upper, _certificates.upper_by_flow(f, guess.right, guess.down, blur))
            lower = max(lower, _certificates.lower_l1(f, guess.potential, blur).value)
        else:
            upper = min(upper, _certificates.upper_by_plan(f, guess, blur))
            radius = _ray_radius(f.shape, upper, wanted)
            lower = max(lower, _certificates.lower_l2(f, guess.potential, blur, radius).value)
        if upper - lower <= wanted:
            break
        if flow.steps >= patience:
            below, above = sparse_transport.transport(f, guess.potential, metric, wanted, blur)
            lower, upper = max(lower, below), min(upper, above)
            break
        if metric == "l2" and upper - lower > 0.9 * gap:
            break  # The rest of the gap comes from the grid, not from the iteration.
        gap = upper - lower
    return lower, upper, flow.steps


def _stops(metric: Metric) -> Iterator[int]:
    """Steps until the bounds are next computed, which costs as much as about 5 steps for ℓ1 and 500 for ℓ2."""
    done, more = 0, 25 if metric == "l1" else 100
    while done < MAX_STEPS[metric]:
        yield more
        done += more
        more = min(max(25, done // 4) if metric == "l1" else done, MAX_STEPS[metric] - done)


def _ray_radius(shape: tuple[int, ...], distance: float, wanted: float) -> int:
    """How long the rays of the lower bound are, so that they cost it at most a quarter of the gap that is wanted.

    The factor is 1 / cos(½ atan(1 / radius)), about 1 + 1 / (8 radius²).
    """
    enough = math.ceil(math.sqrt(distance / (2 * wanted)))
    return max(1, min(max(enough, 4), 32, max(shape) - 1))


def _check(tolerance: float, metric: str) -> None:
    if metric not in ("l1", "l2"):
        raise InvalidInput(f"There is no ground metric {metric!r}; choose 'l1' or 'l2'.")
    if not (isinstance(tolerance, int | float) and math.isfinite(tolerance) and tolerance > 0):
        raise InvalidInput(f"The tolerance is {tolerance!r}; give a positive number, such as 1e-3.")
