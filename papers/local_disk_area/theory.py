"""The paper's theorems and equations as printed, and the same quantities enumerated or integrated without them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from heathaze.local.disk_area import disk_share, disk_window

Cells = set[tuple[int, int]]
Wave = Callable[[np.ndarray], np.ndarray]
"""The density of a report at a distance from the true point, up to the factor q; the map has side 1."""


# ── the continuous mechanisms (definitions 4, 5 and 8, theorems V.1 and V.2) ────────────────────────────────────────


def disk_wave(epsilon: float) -> Wave:
    """Definition 8: e^ε everywhere in the disc."""
    return lambda r: np.full_like(r, math.exp(epsilon))


def hybrid_wave(epsilon: float, radius: float) -> Wave:
    """Definition 5: e^((1 − r/b) ε)."""
    return lambda r: np.exp((1 - r / radius) * epsilon)


def printed_disk_q(epsilon: float, radius: float) -> float:
    """The q of definition 8, which theorem V.2 calls the smallest."""
    return 1 / (math.pi * radius**2 * math.exp(epsilon) + 4 * radius + 1)


def printed_hybrid_q(epsilon: float, radius: float) -> float:
    """The q of definition 5."""
    middle = 2 * math.pi * (math.exp(epsilon) - 1 - epsilon) * radius**2
    return epsilon**2 / (middle + 4 * epsilon**2 * radius + epsilon**2)


def density_outside(wave: Wave, radius: float, steps: int = 4000) -> float:
    """q of any wave, integrated: 1/q = 2π ∫₀ᵇ W(r) r dr + 4b + 1 (condition 2 of definition 4)."""
    r = (np.arange(steps) + 0.5) * radius / steps
    return float(1 / (2 * math.pi * (wave(r) * r).sum() * radius / steps + 4 * radius + 1))


def projected_distance(wave: Wave, radius: float, apart: float, steps: int = 1500) -> float:
    """W₁ between the projections of two reports onto a line, if their true points lie ``apart`` along the line.

    Both reports have the same density q outside of their discs, so only the discs' excess W − q differs. Its projection
    at t is h(t) = 2 ∫ (W(√(t² + s²)) − q) ds over 0 ≤ s ≤ √(b² − t²), and W₁ = ∫ |H(t) − H(t − apart)| dt for its
    integral H.
    """
    q = density_outside(wave, radius)
    step = (2 * radius + apart) / steps
    t = -radius + step * (np.arange(steps) + 0.5)
    high = np.sqrt(np.maximum(radius**2 - t**2, 0.0))
    s = high[:, None] * (np.arange(300) + 0.5) / 300
    excess = wave(np.hypot(t[:, None], s)) - 1
    mass = np.cumsum(2 * q * excess.mean(axis=1) * high) * step
    moved = np.interp(t - apart, t, mass, left=0.0)
    return float(np.abs(mass - moved).sum() * step)


def printed_derivative(q: float, radius: float, apart: float) -> float:
    """Theorem V.1: Δ (1 − (πb² + 4b + 1) q)."""
    return apart * (1 - (math.pi * radius**2 + 4 * radius + 1) * q)


def information_bound(radius: float, epsilon: float, side: float = 1.0) -> float:
    """The right side of equations 9 and 11, in nats, for a map of this side."""
    outside = 4 * side * radius + side**2
    disk = math.pi * radius**2
    raised = disk * math.exp(epsilon)
    return math.log((disk + outside) / (raised + outside)) + raised * epsilon / (raised + outside)


# ── the disc in cells (theorems VI.1 to VI.4, equation 14) ──────────────────────────────────────────────────────────


def enumerated_octant(radius: int) -> tuple[int, Cells]:
    """Whole cells strictly between the axis and the diagonal, counted, and cut cells there, listed, cell by cell."""
    x, y = np.meshgrid(np.arange(radius + 2), np.arange(radius + 2), indexing="ij")
    _, touched = disk_share(x, y, radius)
    strict, inside = (x > y) & (y > 0), x**2 + y**2 <= radius**2
    cut = np.argwhere(strict & touched & ~inside)
    return int((strict & inside).sum()), {(int(a), int(b)) for a, b in cut}


def printed_octant(radius: int) -> tuple[int, Cells]:
    """Theorems VI.4 and VI.3: the number of whole cells, and the list of cut cells."""
    height = math.ceil(radius / math.sqrt(2) - 0.5)
    r1 = math.floor(radius / math.sqrt(2) - 0.5) * math.sqrt(2) + 1 / math.sqrt(2)
    rows = height - math.floor(math.sqrt(r1**2 + 1 + math.sqrt(2) * r1) / radius)
    at = [math.ceil(math.sqrt(radius**2 - (i - 0.5) ** 2) - 0.5) for i in range(1, rows + 1)]
    return height * (height - 2 * rows - 1) // 2 + sum(at), {(x, i) for i, x in enumerate(at, 1)}


def corrected_octant(radius: int) -> tuple[int, Cells]:
    """Both theorems corrected, in whole numbers (errata E1-3)."""
    b = radius
    whole = sum(max(0, math.isqrt(b * b - i * i) - i) for i in range(1, b + 1))
    at = {i: (math.isqrt(4 * b * b - (2 * i - 1) ** 2 - 1) + 1) // 2 for i in range(1, b + 1)}
    return whole, {(x, i) for i, x in at.items() if x > i and x * x + i * i > b * b}


def printed_diagonal(radius: int) -> float:
    """Equation 14: how many cells of the diagonal lie in the disc, the cut one with its share."""
    reach = radius / math.sqrt(2) - 0.5
    whole = math.floor(reach)
    return whole + (4 * (reach - whole) ** 2 if reach - whole < 0.5 else 1.0)


def enumerated_diagonal(radius: int) -> float:
    """The same, cell by cell."""
    at = np.arange(1, radius + 2)
    return float(disk_share(at, at, radius)[0].sum())


def printed_loss(size: int, epsilon: float, radius: int) -> float:
    """The largest privacy loss of DAM with the shares of theorem VI.1 as printed, which can be negative (errata E1-2).

    Infinite if a probability is negative.
    """
    window = disk_window((size, size), Fraction(epsilon), radius)
    x = np.abs(np.arange(-radius, radius + 1))[:, None]
    inside = x**2 + x.T**2 <= radius**2
    delta = radius / np.sqrt(np.maximum(x**2 + x.T**2, 1)) - 1
    share = np.where(inside, 1.0, np.where(window.support, 4 * (delta * x + 0.5) * (delta * x.T + 0.5), 0.0))
    matrix = np.zeros((size, size, *window.frame))
    matrix.reshape(size * size, -1)[:, window.outputs] = 1
    for row, col in np.ndindex(size, size):
        matrix[row, col, row : row + len(x), col : col + len(x)] += share * math.expm1(epsilon)
    return worst_loss(matrix.reshape(size * size, -1))


def worst_loss(matrix: np.ndarray) -> float:
    """The largest log-ratio of two rows in a column; columns of zeros belong to outputs that never occur."""
    seen = matrix[:, (matrix != 0).any(axis=0)]
    if (seen <= 0).any():
        return math.inf
    return float(np.log(seen.max(axis=0) / seen.min(axis=0)).max())


def two_stages(size: int, epsilon: float, radius: int) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of the cells that the disc touches: by Algorithm 2's two stages, and by one draw by weight.

    Algorithm 2 first draws one of four areas (lines 4 to 6) and then a cell of it (lines 8, 10 and 14); both of the
    areas of the border lead to the same draw.
    """
    high = math.exp(epsilon)
    x = np.abs(np.arange(-radius, radius + 1))[:, None]
    share, touched = disk_share(x, x.T, radius)
    whole = x**2 + x.T**2 <= radius**2
    border = touched & ~whole
    # Theorem VI.2: the cells that the disc does not touch.
    far = size**2 + 4 * radius * size - 4 * radius - 1
    parts = np.array([far, (1 - share[border]).sum(), share[border].sum(), whole.sum()]) * [1, 1, high, high]
    areas = parts / parts.sum()
    staged = np.where(whole, areas[3] / whole.sum(), 0.0)
    weights = np.where(border, 1 - share + share * high, 0.0)
    if border.any():
        staged += (areas[1] + areas[2]) * weights / weights.sum()
    weights += np.where(whole, high, 0.0)
    return staged[touched], (weights / (weights.sum() + far))[touched]
