"""Wasserstein distances with the Euclidean ground metric: exact on small grids, sliced or smoothed on large grids.

W₁ and W₂ are computed by the network simplex of the package POT. The sliced distance projects the maps on lines in many
directions and averages the distances on these lines; it needs no solver. Sinkhorn's algorithm computes W₂ with entropic
smoothing. Its Gaussian kernel is the product of a kernel along the rows and one along the columns, so a step is cheap.
Only :func:`heathaze.metrics.emd` proves bounds on the distance.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from heathaze.checks import whole
from heathaze.errors import InvalidInput, MissingExtra, TooLarge
from heathaze.metrics.pair import LengthUnit, Map, cells_in_unit, pair
from heathaze.types import Floats

MAX_PAIRS = 2**24
"""The most pairs of cells with mass. The costs of all pairs then take 128 MB (two maps of 64 × 64 full cells)."""


def w1(truth: Map, estimate: Map, *, unit: LengthUnit = "box") -> float:
    """Compute the exact Wasserstein distance W₁: the least mean Euclidean distance that the mass must travel.

        W₁(p, q) = min over plans γ of  Σ γ(x, y) · ‖x − y‖₂

    For larger grids use :func:`heathaze.metrics.emd`.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.
        unit: ``"box"`` (the longer side is 1) or ``"cells"``.

    Returns:
        The distance in that unit.

    Raises:
        InvalidInput: The maps cannot be compared, or there is no such unit.
        TooLarge: The maps have more than 2^24 pairs of cells with mass.
        MissingExtra: POT is not installed.

    >>> a = [[1, 0], [0, 0]]
    >>> round(w1(a, [[0, 0], [0, 1]], unit="cells") ** 2, 12)
    2.0
    """
    return _wasserstein(truth, estimate, 1, unit)


def w2(truth: Map, estimate: Map, *, unit: LengthUnit = "box") -> float:
    """Compute the exact Wasserstein distance W₂: the root of the least mean squared Euclidean distance of transport.

        W₂(p, q) = √ min over plans γ of  Σ γ(x, y) · ‖x − y‖₂²

    The paper leaves out the root (errata E1-9). The errors are the same as in :func:`w1`.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.
        unit: ``"box"`` (the longer side is 1) or ``"cells"``.

    Returns:
        The distance in that unit.

    >>> w2([[1, 0, 0]], [[0, 0, 1]], unit="cells")
    2.0
    """
    return _wasserstein(truth, estimate, 2, unit)


def sliced(truth: Map, estimate: Map, *, order: int = 1, directions: int = 64, unit: LengthUnit = "box") -> float:
    """Compute the sliced Wasserstein distance: the distance of the maps projected on lines, averaged over directions.

        SW_k(p, q)^k = mean over angles θ of W_k(p_θ, q_θ)^k,   p_θ = p projected on the line with angle θ

    On a line the best plan keeps the order of the mass. So W₁ is the area between the two cumulative sums, and W₂
    compares equal quantiles; both are exact for the centres of cells. The angles are π(i + ½)/directions, spread evenly
    over half a turn. The only approximation is the mean over finitely many angles.

    The sliced distance is at most W_k with the Euclidean metric, and cheap at any size. For k = 1 it is 2/π of W_1 if
    one map is the other map shifted.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.
        order: k, 1 or 2.
        directions: The number of angles, at least 1.
        unit: ``"box"`` (the longer side is 1) or ``"cells"``.

    Returns:
        The distance in that unit.

    Raises:
        InvalidInput: The maps cannot be compared, or an argument is out of range.

    Cost: a sort of the cells for each direction; 0.5 s on 256 × 256.

    Citation: N. Bonneel, J. Rabin, G. Peyré, H. Pfister, Sliced and Radon Wasserstein barycenters, JMIV 51, 2015.

    >>> one_cell_over = sliced([[1, 0, 0]], [[0, 1, 0]], directions=256, unit="cells")
    >>> round(one_cell_over, 4)    # the mean of |cos θ|, 2/π
    0.6366
    """
    if order not in (1, 2):
        raise InvalidInput(f"The order is {order!r}; choose 1 or 2.")
    whole(directions, "directions", "the number of angles")
    p, q = pair(truth, estimate)
    length = 1 / cells_in_unit(p.shape, unit)
    used = np.argwhere((p > 0) | (q > 0)).astype(np.float64)
    here, there = p[(p > 0) | (q > 0)], q[(p > 0) | (q > 0)]
    if np.array_equal(here, there):
        return 0.0
    powers = [
        _on_a_line(used @ np.array([np.sin(angle), np.cos(angle)]), here, there, order)
        for angle in np.pi * (np.arange(directions) + 0.5) / directions
    ]
    return math.pow(float(np.mean(powers)), 1 / order) * length


def _wasserstein(truth: Map, estimate: Map, power: int, unit: LengthUnit) -> float:
    p, q = pair(truth, estimate)
    length = 1 / cells_in_unit(p.shape, unit)
    from_, to = np.argwhere(p > 0), np.argwhere(q > 0)
    if len(from_) * len(to) > MAX_PAIRS:
        raise TooLarge(
            f"The maps have {p.shape[0]} × {p.shape[1]} cells and too many hold mass for exact transport between all "
            "pairs; resample them to at most 64 × 64, or use emd."
        )
    squares = ((from_[:, None, :] - to[None, :, :]) ** 2).sum(axis=2).astype(np.float64)
    cost = np.sqrt(squares) if power == 1 else squares
    least = network_simplex()(_to_one(p[p > 0]), _to_one(q[q > 0]), cost, numItermax=10_000_000)
    return length * math.pow(max(float(least), 0.0), 1 / power)


def _to_one(mass: Floats) -> Floats:
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def network_simplex() -> Any:
    """Import POT's function ``emd2``, which computes the exact cost of transport between two weighted sets of points.

    Raises:
        MissingExtra: POT is not installed.
    """
    try:
        with warnings.catch_warnings():
            # POT's own files contain escape sequences that Python warns about when it first compiles them.
            warnings.simplefilter("ignore")
            from ot.lp import emd2
    except ImportError:
        raise MissingExtra('w1 and w2 need POT; install the package POT (the extra "eval").') from None
    return emd2


def _on_a_line(place: Floats, here: Floats, there: Floats, order: int) -> float:
    """Compute W_k^k (k = ``order``) of two distributions of mass on the same points of a line."""
    along = np.argsort(place, kind="stable")
    place, here, there = place[along], here[along], there[along]
    if order == 1:
        # ∫ |P(x) − Q(x)| dx, where both are constant between neighbouring places.
        return float((np.abs(np.cumsum(here - there))[:-1] * np.diff(place)).sum())
    # ∫ (P⁻¹(u) − Q⁻¹(u))² du, where both are constant between neighbouring values of either cumulative sum.
    below_p, below_q = np.cumsum(here), np.cumsum(there)
    levels = np.sort(np.concatenate([below_p, below_q]))
    width = np.diff(levels, prepend=0.0)
    middle = levels - width / 2
    last = len(place) - 1
    one = place[np.minimum(np.searchsorted(below_p, middle), last)]
    other = place[np.minimum(np.searchsorted(below_q, middle), last)]
    return float((width * (one - other) ** 2).sum())


# ── Sinkhorn's algorithm ────────────────────────────────────────────────────────────────────────────────────────────

MAX_CELLS = 2**20
MAX_STEPS = 1000
RELAXATION = 1.7
"""The factor of over-relaxation. Below 2 the steps converge near the solution, and 1.7 saves most of the steps."""

COARSE = 4.0
"""While the blur is wider than this many cells, steps use a map of half the side, with nearly the same result."""


def sinkhorn_w2(
    truth: Map,
    estimate: Map,
    *,
    blur: float = 0.02,
    debiased: bool = True,
    tolerance: float = 1e-2,
    unit: LengthUnit = "box",
) -> float:
    """Compute the Euclidean Wasserstein distance W₂ of two maps, smoothed at the length ``blur``.

        OT_ε(p, q) = min over γ of  Σ γ(x, y) ‖x − y‖² + ε KL(γ ‖ p ⊗ q),   ε = blur²
        S(p, q)    = OT_ε(p, q) − ½ OT_ε(p, p) − ½ OT_ε(q, q)

    The result is √S, or √OT_ε with ``debiased=False``. The entropy makes OT_ε(p, p) positive. With OT_ε alone, the
    distance of a map to itself would not be 0, and maps that are too concentrated would have the smallest distance.
    Subtracting the self terms OT_ε(p, p) and OT_ε(q, q) removes this bias: S(p, p) = 0, and S > 0 otherwise (Feydy et
    al. 2019, theorem 1). S is hardly sensitive to differences finer than the blur. As blur → 0, S converges to W₂².

    Potentials are computed in logarithms, since the kernel exp(−‖x − y‖²/ε) underflows at a distance of 27 blurs. The
    smoothing starts at the size of the map, and ε decreases by a factor of 4 until it is blur². While the blur is
    several cells wide, a coarser map is used.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape.
        blur: √ε as a fraction of the longer side, whatever ``unit`` is.
        debiased: Whether the self terms are subtracted.
        tolerance: The iteration stops if the plan brings at most this share of the mass to a wrong place. 0.01 leaves a
            relative error of about 1e-4. The iteration also stops after 1000 steps.
        unit: ``"box"`` (the longer side is 1) or ``"cells"``.

    Returns:
        The distance in that unit.

    Raises:
        InvalidInput: The maps cannot be compared, or an argument is out of range.
        TooLarge: The maps have more than 2^20 cells.

    Cost: a step is a product of matrices, rows·cols·(rows + cols) operations, and the number of steps grows with
    1 / blur²: seconds on 256 × 256, minutes on 1024 × 1024.

    Citation: J. Feydy et al., Interpolating between optimal transport and MMD using Sinkhorn divergences, AISTATS 2019.

    >>> a, b = np.zeros((8, 8)), np.zeros((8, 8))
    >>> a[2, 1] = b[2, 5] = 1
    >>> round(sinkhorn_w2(a, b, unit="cells"), 4), sinkhorn_w2(a, a)
    (4.0, 0.0)
    """
    for name, value in (("blur", blur), ("tolerance", tolerance)):
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise InvalidInput(f"The {name} is {value!r}; give a positive number, such as 0.02.")
    p, q = pair(truth, estimate)
    length = cells_in_unit(p.shape, unit)
    if p.size > MAX_CELLS:
        raise TooLarge(f"The maps have {p.shape[0]} × {p.shape[1]} cells; resample them to at most 1024 × 1024 first.")
    epsilon = (blur * max(p.shape)) ** 2  # in cells²
    if debiased and np.array_equal(p, q):
        return 0.0
    cost = _cost(p, q, epsilon, tolerance)
    if debiased:
        cost -= (_cost(p, p, epsilon, tolerance) + _cost(q, q, epsilon, tolerance)) / 2
    return math.sqrt(max(cost, 0.0)) / length


def _cost(p: Floats, q: Floats, epsilon: float, tolerance: float) -> float:
    """Compute the entropic transport cost OT_ε in cells², as the dual value Σ p f + Σ q g.

    The potentials f and g are at a fixed point: each is the soft minimum of the other.
    """
    levels = [(p, q)]  # From fine to coarse.
    while min(levels[-1][0].shape) > 8 and all(side % 2 == 0 for side in levels[-1][0].shape):
        one, other = levels[-1]
        half = _halved(one)
        levels.append((half, half if one is other else _halved(other)))
    present = max(epsilon, float(sum(side**2 for side in p.shape)))
    level = len(levels) - 1
    f, g = (np.zeros_like(mass) for mass in levels[level])
    while True:
        while level > 0 and math.sqrt(present) < 2 * COARSE * 2**level:
            level -= 1
            f, g = _spread(f, 2), _spread(g, 2)
        last = present <= epsilon and level == 0
        size = 4.0**level  # The squared side of a cell of this level, in cells² of the full map.
        f, g = _iterate(*levels[level], f / size, g / size, present / size, tolerance if last else 0.1)
        f, g = f * size, g * size
        if last:
            return float((p * f).sum() + (q * g).sum())
        present = max(epsilon, present / 4)
        if present <= epsilon and level > 0 and math.sqrt(present) >= 2 * COARSE * 2**level:
            # The blur is wide enough for the coarse map, but the last steps must be taken on the full map.
            f, g = _spread(f, 2**level), _spread(g, 2**level)
            level = 0


def _iterate(p: Floats, q: Floats, f: Floats, g: Floats, epsilon: float, tolerance: float) -> tuple[Floats, Floats]:
    """Take Sinkhorn steps, f ← softmin(g) and g ← softmin(f), until the potentials f and g hardly change.

    If p and q are the same map, f = g, and half steps converge quickly.
    """
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    itself = p is q
    for step in range(MAX_STEPS):
        longer = 1.0 if step < 5 else RELAXATION
        new_f = _softmin(g, log_q, epsilon)
        f = (f + new_f) / 2 if itself else f + longer * (new_f - f)
        new_g = f if itself else _softmin(f, log_p, epsilon)
        change = float((q * np.abs(new_g - g)).sum())
        g = new_g if itself else g + longer * (new_g - g)
        if change <= tolerance * epsilon:
            break
    # A last full step of each potential, so that the plan brings exactly the mass of q.
    f = _softmin(g, log_q, epsilon)
    return f, _softmin(f, log_p, epsilon)


def _softmin(g: Floats, log_q: Floats, epsilon: float) -> Floats:
    """Compute the soft minimum −ε log Σ_y q(y) exp((g(y) − ‖x − y‖²) / ε), one axis after the other."""
    across = _logsumexp(g / epsilon + log_q, 1 / epsilon)
    down = _logsumexp(np.ascontiguousarray(across.T), 1 / epsilon)
    return np.ascontiguousarray(-epsilon * down.T)


def _logsumexp(h: Floats, weight: float) -> Floats:
    """Compute log Σ_k exp(h[i, k] − weight·(j − k)²) for all i and j, by a product of matrices if nothing underflows.

    The largest h of each row is subtracted first, so both factors of a term are at most 1. Factors below 1e-150 are set
    to 0, because products of denormal numbers take a hundred times as long. If a sum is above 1e-130, the lost terms do
    not matter. All other sums are computed one by one in logarithms.
    """
    from heathaze.metrics._kernels import logsumexp_at

    top = h.max(axis=1, keepdims=True)
    top[top == -np.inf] = 0.0
    place = np.arange(h.shape[1], dtype=np.float64)
    sums = _exp(h - top) @ _exp(-weight * (place[:, None] - place[None, :]) ** 2)
    lost = sums < 1e-130
    sums[lost] = 1.0
    out = np.asarray(np.log(sums) + top, dtype=np.float64)
    if lost.any():
        logsumexp_at(h, weight, *np.nonzero(lost), out)
    return out


def _exp(values: Floats) -> Floats:
    return np.exp(np.where(values > math.log(1e-150), values, -np.inf))


def _halved(mass: Floats) -> Floats:
    rows, cols = mass.shape
    return np.asarray(mass.reshape(rows // 2, 2, cols // 2, 2).sum(axis=(1, 3)), dtype=np.float64)


def _spread(potential: Floats, times: int) -> Floats:
    return np.asarray(np.repeat(np.repeat(potential, times, axis=0), times, axis=1), dtype=np.float64)
