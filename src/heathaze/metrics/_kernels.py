"""Compiled sweeps over the grid for :mod:`heathaze.metrics.emd`.

A flow has two arrays of the shape of the map: ``right[i, j]`` is what crosses from cell (i, j) to (i, j + 1) and
``down[i, j]`` what crosses to (i + 1, j); the last column of the one and the last row of the other are never used. A
flow levels f when out − in = f in every cell.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from heathaze.types import Integers

Reals = npt.NDArray[np.floating]


@nb.njit(cache=True)
def unlevelled(right: Reals, down: Reals, f: Reals, out: Reals) -> None:
    """out = f − div(flow): what the flow leaves undone in each cell."""
    rows, cols = f.shape
    for i in range(rows):
        for j in range(cols):
            rest = f[i, j]
            if j < cols - 1:
                rest -= right[i, j]
            if j > 0:
                rest += right[i, j - 1]
            if i < rows - 1:
                rest -= down[i, j]
            if i > 0:
                rest += down[i - 1, j]
            out[i, j] = rest


@nb.njit(cache=True, fastmath=True)
def step_l1(right: Reals, down: Reals, phi: Reals, t: np.floating, relax: np.floating) -> None:
    """One Douglas–Rachford step: m = w + ∇φ, z = shrink(2m − w, t) border by border, w += relax·(z − m)."""
    rows, cols = phi.shape
    zero = t - t
    for i in range(rows):
        for j in range(cols - 1):
            slope = phi[i, j] - phi[i, j + 1]
            m = right[i, j] + slope
            v = m + slope
            right[i, j] += relax * (max(v - t, zero) + min(v + t, zero) - m)
    for i in range(rows - 1):
        for j in range(cols):
            slope = phi[i, j] - phi[i + 1, j]
            m = down[i, j] + slope
            v = m + slope
            down[i, j] += relax * (max(v - t, zero) + min(v + t, zero) - m)


@nb.njit(cache=True, fastmath=True)
def step_l2(right: Reals, down: Reals, phi: Reals, t: np.floating, relax: np.floating) -> None:
    """The same with the length of (right, down) in each cell: its shrinkage shortens the arrow."""
    rows, cols = phi.shape
    zero = t - t
    for i in range(rows):
        for j in range(cols):
            across, along = zero, zero
            if j < cols - 1:
                across = phi[i, j] - phi[i, j + 1]
            if i < rows - 1:
                along = phi[i, j] - phi[i + 1, j]
            m_right, m_down = right[i, j] + across, down[i, j] + along
            v_right, v_down = m_right + across, m_down + along
            length = math.sqrt(v_right * v_right + v_down * v_down)
            keep = (length - t) / length if length > t else zero
            if j < cols - 1:
                right[i, j] += relax * (keep * v_right - m_right)
            if i < rows - 1:
                down[i, j] += relax * (keep * v_down - m_down)


@nb.njit(cache=True)
def envelope_l1(g: Integers, one: int) -> None:
    """g(x) ← min over y of g(y) + one·‖x − y‖₁, in place: four sweeps, since ‖·‖₁ is a sum over the axes."""
    rows, cols = g.shape
    for i in range(rows):
        for j in range(1, cols):
            g[i, j] = min(g[i, j], g[i, j - 1] + one)
        for j in range(cols - 2, -1, -1):
            g[i, j] = min(g[i, j], g[i, j + 1] + one)
    for i in range(1, rows):
        for j in range(cols):
            g[i, j] = min(g[i, j], g[i - 1, j] + one)
    for i in range(rows - 2, -1, -1):
        for j in range(cols):
            g[i, j] = min(g[i, j], g[i + 1, j] + one)


@nb.njit(cache=True)
def envelope_rays(g: Integers, rays: Integers, lengths: Integers) -> None:
    """g(x) ← min over x's neighbours y along the rays of g(y) + length, in place, one sweep down and one up."""
    rows, cols = g.shape
    for i in range(rows):
        for j in range(cols):
            best = g[i, j]
            for k in range(len(lengths)):
                y, x = i - rays[k, 0], j - rays[k, 1]
                if y >= 0 and 0 <= x < cols:
                    best = min(best, g[y, x] + lengths[k])
            g[i, j] = best
    for i in range(rows - 1, -1, -1):
        for j in range(cols - 1, -1, -1):
            best = g[i, j]
            for k in range(len(lengths)):
                y, x = i + rays[k, 0], j + rays[k, 1]
                if y < rows and 0 <= x < cols:
                    best = min(best, g[y, x] + lengths[k])
            g[i, j] = best


@nb.njit(cache=True)
def steepest(g: Integers, rays: Integers, lengths: Integers) -> float:
    """The largest |g(x) − g(y)| / length over all neighbours along the rays."""
    rows, cols = g.shape
    steep = 0.0
    for k in range(len(lengths)):
        down, across = rays[k, 0], rays[k, 1]
        rise = np.int64(0)
        for i in range(rows - down):
            for j in range(max(0, -across), min(cols, cols - across)):
                rise = max(rise, abs(g[i, j] - g[i + down, j + across]))
        steep = max(steep, rise / lengths[k])
    return steep
