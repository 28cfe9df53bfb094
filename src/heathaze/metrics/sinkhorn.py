"""Entropic W₂ on large grids: the Gaussian kernel is a product of one along the rows and one along the columns.

No certificate comes with it. For W₁ use :func:`heathaze.metrics.emd`; for exact W₂ on small grids,
:func:`heathaze.metrics.w2`.
"""

from __future__ import annotations

import math

import numpy as np

from heathaze.errors import InvalidInput, TooLarge
from heathaze.metrics.pair import LengthUnit, Map, cells_in_unit, pair
from heathaze.types import Floats

MAX_CELLS = 2**20
MAX_STEPS = 1000
RELAXATION = 1.7
"""Over-relaxation of the steps; below 2 it converges near the solution, and saves most of them."""

COARSE = 4.0
"""While the blur is wider than this many cells, steps are taken on a map of half the side, where it looks the same."""


def sinkhorn_w2(
    truth: Map,
    estimate: Map,
    *,
    blur: float = 0.02,
    debiased: bool = True,
    tolerance: float = 1e-2,
    unit: LengthUnit = "box",
) -> float:
    """W₂ with the Euclidean metric, smoothed at the length ``blur``.

        OT_ε(p, q) = min over γ of  Σ γ(x, y) ‖x − y‖² + ε KL(γ ‖ p ⊗ q),   ε = blur²
        S(p, q)    = OT_ε(p, q) − ½ OT_ε(p, p) − ½ OT_ε(q, q)

    The result is √S, or √OT_ε with ``debiased=False``. The entropy makes OT_ε(p, p) positive: the distance of a map to
    itself would not be 0, and maps that are too concentrated would have the smallest distance. Subtracting the two self
    terms removes that: S(p, p) = 0 and S > 0 otherwise (Feydy et al. 2019, theorem 1). S is hardly sensitive to
    differences finer than the blur; as blur → 0 it becomes W₂².

    Potentials are kept in logarithms (a kernel of exp(−‖x − y‖²/ε) underflows at 27 blurs). ε is lowered by a factor of
    4 at a time from the size of the map, on a coarser map as long as the blur spans several of its cells.

    Args:
        truth: A density or an array of mass.
        estimate: Another of the same shape.
        blur: √ε as a part of the longer side, whatever the unit.
        debiased: Subtract the self terms.
        tolerance: When to stop: the share of the mass that the plan still brings to a wrong place. 0.01 leaves a
            relative error of about 1e-4. The iteration stops after 1000 steps in any case.
        unit: ``"box"`` (the longer side is 1) or ``"cells"``.

    Returns:
        The distance in that unit.

    Raises:
        InvalidInput: The maps cannot be compared, or an argument is out of range.
        TooLarge: More than 2^20 cells.

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
    """OT_ε in cells², by the dual: Σ p f + Σ q g, with f and g at the fixed point of each other's soft minimum."""
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
        size = 4.0**level  # One cell of this level, squared, in cells of the full map.
        f, g = _iterate(*levels[level], f / size, g / size, present / size, tolerance if last else 0.1)
        f, g = f * size, g * size
        if last:
            return float((p * f).sum() + (q * g).sum())
        present = max(epsilon, present / 4)
        if present <= epsilon and level > 0 and math.sqrt(present) >= 2 * COARSE * 2**level:
            # The blur is wide enough for the coarse map, but the answer is wanted on the full one.
            f, g = _spread(f, 2**level), _spread(g, 2**level)
            level = 0


def _iterate(p: Floats, q: Floats, f: Floats, g: Floats, epsilon: float, tolerance: float) -> tuple[Floats, Floats]:
    """f ← softmin(g), g ← softmin(f), until neither changes. For p with itself f = g, and half steps soon converge."""
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
    # A last step in turn, so that the plan has the mass of q exactly.
    f = _softmin(g, log_q, epsilon)
    return f, _softmin(f, log_p, epsilon)


def _softmin(g: Floats, log_q: Floats, epsilon: float) -> Floats:
    """−ε log Σ_y q(y) exp((g(y) − ‖x − y‖²) / ε), one axis after the other."""
    across = _logsumexp(g / epsilon + log_q, 1 / epsilon)
    down = _logsumexp(np.ascontiguousarray(across.T), 1 / epsilon)
    return np.ascontiguousarray(-epsilon * down.T)


def _logsumexp(h: Floats, weight: float) -> Floats:
    """log Σ_k exp(h[i, k] − weight·(j − k)²) for all i, j: a product of matrices wherever that does not underflow.

    With the largest h of each row taken out, both factors of a term are at most 1. Factors below 1e-150 are set to 0,
    so that no product is denormal (those take a hundred times as long); a sum above 1e-130 does not miss the terms lost
    that way. The other sums are done one by one in logarithms.
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
