"""The earth mover's distance between two maps, with a proven lower and upper bound.

    W₁(p, q) = min over γ ≥ 0 with marginals p, q of  Σ γ(x, y) · ‖x − y‖

A transport plan γ(x, y) is the mass that moves from cell x to cell y. Distances are between the centres of cells, in
the norm ‖·‖₁ (the default, which the papers on heat maps use) or ‖·‖₂. Mass that both maps have in the same cell may
stay there, so only the difference f = p − q matters.

The solver (_beckmann.py) improves step by step a flow across the borders of cells that moves f. The bounds do not
require that the flow is optimal. After some steps, two certificates are computed from the flow and checked against f
(_certificates.py):

- **upper**: the cost of a way to move the mass. For ℓ1 this is the sum of |flow|: mass that crosses k borders moves by
  at most k, so some plan costs no more. For ℓ2 this is the cost of a plan from cell to cell that follows the flow along
  straight lines (``_kernels.carry``). The Euclidean length of the flow itself is only an approximation of W₁ and is
  never reported.
- **lower**: Σ f·φ for a potential φ with |φ(x) − φ(y)| ≤ ‖x − y‖ for all cells x and y. No plan can cost less
  (Kantorovich and Rubinstein). The potential consists of whole numbers, so the condition is checked exactly.

Rounding errors widen the bounds, so the exact distance of the given maps lies between them. If only few cells differ, a
linear program over pairs of cells makes the gap smaller than the flow does (sparse_transport.py).

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
"""The most cells of a map; larger maps would need more than a few GB of memory."""

MAX_STEPS = {"l1": 2000, "l2": 800}
"""The most steps of the solver; after them the bounds are returned even if the gap is larger than the tolerance."""

FEW_STEPS = {"l1": 400, "l2": 100}
"""If there are few pairs of cells, a linear program replaces the solver after this many steps."""

SINGLE = 1e-5
"""The smallest tolerance for which steps in float32 are enough; the bounds always use float64 and whole numbers."""


@dataclass(frozen=True, slots=True)
class Distance:
    """The result of :func:`heathaze.metrics.emd`: two bounds between which the exact distance provably lies.

    Attributes:
        lower: The lower bound; no transport plan costs less.
        upper: The upper bound, the cost of a transport plan.
        steps: The number of steps that the solver took.

    ``float(distance)`` is the middle of the bounds, so its error is at most half the gap.

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
        """The difference between the upper and the lower bound."""
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
    """Compute the earth mover's distance: the least mean distance that mass must travel to turn one map into the other.

        lower ≤ W₁(p, q) ≤ upper,   upper − lower ≤ tolerance unless the steps ran out

    Cells count as squares. In the unit ``"box"`` the longer side of the grid is 1, so values at different resolutions
    are comparable. (The side of the padded square is not used, errata E0-11.) In the unit ``"cells"`` the side of a
    cell is 1.

    The tolerance is always in the unit ``"box"``: 1e-3 is a thousandth of the longer side, which is a quarter of a cell
    on 256 × 256. In the unit ``"cells"`` the gap is at most tolerance · max(rows, cols).

    The solver stops after 2000 steps (ℓ2: 800 steps, or no more progress), even if the tolerance is not reached. The
    bounds are then wider than the tolerance, but they still hold; ``.gap`` is their difference.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.
        tolerance: The wanted gap, positive, as a fraction of the longer side.
        metric: ``"l1"`` or ``"l2"``, the distance between the centres of two cells.
        unit: ``"box"`` or ``"cells"``.

    Returns:
        A :class:`Distance`; ``float(distance)`` is the middle of its bounds. Exchanging the maps gives the same result.

    Raises:
        InvalidInput: The maps cannot be compared, or an argument has none of the values above.
        TooLarge: The maps have more than 2^24 cells (2^20 for ``"l2"``).

    Cost: ``"l1"`` takes 25 to 150 steps of two cosine transforms each: under 0.2 s on 256 × 256, some seconds on
    1024 × 1024. ``"l2"`` takes about ten times as long on 256 × 256 and a minute on 1024 × 1024, because every parcel
    of mass is followed from cell to cell.

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
    # The largest rounding error of dividing by the sums and of subtracting.
    noise = abs(float(p.sum()) - 1) + abs(float(q.sum()) - 1) + 3 * SUM
    if moved <= noise:  # Equal up to rounding: there is nothing to solve.
        return Distance(0.0, diameter(p.shape, metric) * (moved + noise) * length, 0)
    # The sign is chosen so that the first cell that differs has a surplus. So (a, b) and (b, a) give the same problem.
    sign = math.copysign(1.0, float(difference.ravel()[np.flatnonzero(difference)[0]]))
    f = difference * (sign / moved)
    lower, upper, steps = _bounds(f, metric, tolerance * side / moved, noise / moved, tolerance)
    return Distance(max(lower, 0.0) * moved * length, upper * moved * length, steps)


def _bounds(f: Floats, metric: Metric, wanted: float, blur: float, tolerance: float) -> tuple[float, float, int]:
    """Compute both bounds on the distance, in cells, for a difference f with Σ |f| = 2; also the number of steps."""
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
            break  # More steps would not help: the rest of the gap comes from the grid, not from the iteration.
        gap = upper - lower
    return lower, upper, flow.steps


def _stops(metric: Metric) -> Iterator[int]:
    """Yield the number of solver steps until the bounds are computed next.

    Computing the bounds takes as long as about 5 steps for ℓ1 and 500 steps for ℓ2.
    """
    done, more = 0, 25 if metric == "l1" else 100
    while done < MAX_STEPS[metric]:
        yield more
        done += more
        more = min(max(25, done // 4) if metric == "l1" else done, MAX_STEPS[metric] - done)


def _ray_radius(shape: tuple[int, ...], distance: float, wanted: float) -> int:
    """Choose the radius of the rays for the Euclidean lower bound, so that they cost at most a quarter of the gap.

    The rays lower the bound by the factor 1 / cos(½ atan(1 / radius)), which is about 1 + 1 / (8 radius²).
    """
    enough = math.ceil(math.sqrt(distance / (2 * wanted)))
    return max(1, min(max(enough, 4), 32, max(shape) - 1))


def _check(tolerance: float, metric: str) -> None:
    if metric not in ("l1", "l2"):
        raise InvalidInput(f"There is no ground metric {metric!r}; choose 'l1' or 'l2'.")
    if not (isinstance(tolerance, int | float) and math.isfinite(tolerance) and tolerance > 0):
        raise InvalidInput(f"The tolerance is {tolerance!r}; give a positive number, such as 1e-3.")
