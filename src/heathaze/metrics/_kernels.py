"""Compiled loops (numba) of the metrics.

The file has three parts: sweeps over the grid for the flow and the potential of :mod:`heathaze.metrics.emd`; a
transport plan that follows a flow, for the Euclidean upper bound (:func:`carry`); and sums of exponentials for
:func:`heathaze.metrics.sinkhorn_w2`.

A flow has two arrays of the shape of the map: ``right[i, j]`` is the mass that crosses from cell (i, j) to (i, j + 1),
and ``down[i, j]`` is the mass that crosses to (i + 1, j). The last column of ``right`` and the last row of ``down`` are
never used. A flow moves the difference f of two maps if outflow − inflow = f in every cell.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from heathaze.types import Floats, Integers

Reals = npt.NDArray[np.floating]

ROOM = 8
"""The most parcels of mass that move at one time, per cell of the map; further parcels stay at their origin."""

CRUMB = 1e-15
"""A parcel of mass is not split if the rest would be less than this."""

FAINT = 1e-9
"""Flows below this share of all mass are rounding errors; following them would split parcels endlessly."""

_DOWN = np.array([0, 1, 0, -1])
_ACROSS = np.array([1, 0, -1, 0])


@nb.njit(cache=True)
def unlevelled(right: Reals, down: Reals, f: Reals, out: Reals) -> None:
    """Compute f − div(flow), the surplus of each cell that the flow does not move."""
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
    """Take one Douglas–Rachford step on the flow w = (right, down) for ℓ1.

    For each border: m = w + ∇φ, z = 2m − w shrunk towards 0 by t, and then w += relax·(z − m).
    """
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
    """Take one Douglas–Rachford step on the flow w = (right, down) for ℓ2: as step_l1, but vectors are shrunk.

    The two flows of a cell form a vector, and shrinking shortens the vector by t.
    """
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
    """Replace the potential g(x) by the minimum over all cells y of g(y) + one·‖x − y‖₁, in place.

    Four sweeps over the map are enough, since ‖·‖₁ is a sum over the axes.
    """
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
    """Lower the potential g(x) to g(y) + length for neighbours y along rays, in place, in one sweep down and one up."""
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
    """Find the largest slope |g(x) − g(y)| / length of a potential over all neighbours along rays."""
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


@nb.njit(cache=True)
def _outflow(i: int, j: int, right: Floats, down: Floats, phi: Floats, out: Floats) -> tuple[float, float, float]:
    """Compute the flow out of a cell in each direction in which the potential falls.

    The flows are written to ``out``. Returned are their sum and the two components of the flow as a vector.
    """
    rows, cols = phi.shape
    total, along, across = 0.0, 0.0, 0.0
    for d in range(4):
        out[d] = 0.0
        y, x = i + _DOWN[d], j + _ACROSS[d]
        if 0 <= y < rows and 0 <= x < cols and phi[i, j] > phi[y, x]:
            if d == 0:
                flow = right[i, j]
            elif d == 1:
                flow = down[i, j]
            elif d == 2:
                flow = -right[i, j - 1]
            else:
                flow = -down[i - 1, j]
            if flow > FAINT:
                out[d] = flow
                total += flow
                along += flow * _DOWN[d]
                across += flow * _ACROSS[d]
    return total, along, across


@nb.njit(cache=True)
def _absorb(
    sink: float, cell: int, cols: int, origins: Integers, masses: Floats, drift: Floats, order: Integers,
    sent: Floats, got: Floats,
) -> float:  # fmt: skip
    """Give a cell the mass that it lacks, from the parcels with the least drift first; return the transport cost."""
    count = len(order)
    start = 0
    for c in range(count):
        if abs(drift[order[c]]) < abs(drift[order[start]]):
            start = c
    low, high = start, start + 1
    cost = 0.0
    while sink > 0 and (low >= 0 or high < count):
        if low >= 0 and (high >= count or abs(drift[order[low]]) <= abs(drift[order[high]])):
            c = order[low]
            low -= 1
        else:
            c = order[high]
            high += 1
        part = min(sink, masses[c])
        if part <= 0:
            continue
        sink -= part
        masses[c] -= part
        sent[origins[c]] += part
        got[cell] += part
        down, across = origins[c] // cols - cell // cols, origins[c] % cols - cell % cols
        cost += part * math.sqrt(float(down * down + across * across))
    return cost


@nb.njit(cache=True)
def carry(f: Floats, right: Floats, down: Floats, phi: Floats, order: Integers) -> tuple[float, Floats, Floats, int]:
    """Make a transport plan that follows a flow: mass moves from cells with f > 0 along the flow to cells with f < 0.

    Parcels of mass start in the cells with a surplus and move along the flow, in directions in which the potential
    falls, until cells that lack mass take them. A parcel costs the length of the straight line from its first cell to
    its last, not the number of borders that it crossed. Where parcels separate, a parcel that has drifted to one side
    of the flow's direction takes the border that leads back to the other side. So the path of a parcel stays within
    about one cell of a straight line.

    Args:
        f: The surplus of each cell; negative where mass is missing.
        right: Flow over the right borders.
        down: Flow over the lower borders.
        phi: A potential. Mass moves only to cells of lower potential, so no parcel moves in a circle.
        order: The cells (row · cols + column) from the highest potential to the lowest.

    Returns:
        The cost of the plan in cells, the mass taken from each cell, the mass brought to each cell, and the number of
        parts that were summed.
    """
    rows, cols = f.shape
    cells = rows * cols
    room = ROOM * cells + 64
    origin, mass, following = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
    head, waiting = np.full(cells, -1, np.int64), np.zeros(cells, np.int64)
    free, used, moves = -1, 0, 0
    sent, got, out = np.zeros(cells), np.zeros(cells), np.zeros(4)
    cost = 0.0
    for cell in order:
        i, j = cell // cols, cell % cols
        count = waiting[cell] + (1 if f[i, j] > 0 else 0)
        if count == 0:
            continue
        origins, masses = np.empty(count, np.int64), np.empty(count)
        c = 0
        slot = head[cell]
        while slot >= 0:
            origins[c], masses[c] = origin[slot], mass[slot]
            c += 1
            after = following[slot]
            following[slot] = free
            free = slot
            slot = after
        if f[i, j] > 0:
            origins[c], masses[c] = cell, f[i, j]
        total, along, across = _outflow(i, j, right, down, phi, out)
        # The drift is the distance of the cell from the line through the parcel's origin in the direction of the flow,
        # times a constant.
        drift = np.empty(count)
        for c in range(count):
            drift[c] = across * (i - origins[c] // cols) - along * (j - origins[c] % cols)
        by_drift = np.argsort(drift) if count > 1 else np.zeros(1, np.int64)
        for c in range(1, count):  # Parcels of the same origin have the same drift and are merged.
            p, before = by_drift[c], by_drift[c - 1]
            if origins[p] == origins[before]:
                masses[p] += masses[before]
                masses[before] = 0.0
        moves += count
        if f[i, j] < 0:
            cost += _absorb(-f[i, j], cell, cols, origins, masses, drift, by_drift, sent, got)
        here = masses.sum()
        if total <= 0 or here <= 0:
            continue  # No flow leaves this cell: the remaining mass counts as not moved from its origin.
        turn = np.empty(4)
        last = -1
        for d in range(4):
            turn[d] = along * _ACROSS[d] - across * _DOWN[d]
        turns = np.argsort(turn)  # The parcels of least drift take the border that increases the drift most.
        for d in turns:
            if out[d] > 0:
                last = d
        c = 0
        for d in turns:
            if out[d] <= 0:
                continue
            wanted = out[d] * (here / total)
            there = (i + _DOWN[d]) * cols + j + _ACROSS[d]
            while c < count and (wanted > 0 or d == last):
                p = by_drift[c]
                if masses[p] <= 0:
                    c += 1
                    continue
                part = masses[p] if d == last else min(masses[p], wanted)
                if masses[p] - part < CRUMB:
                    part = masses[p]
                masses[p] -= part
                wanted -= part
                if free >= 0:
                    slot = free
                    free = following[slot]
                elif used < room:
                    slot = used
                    used += 1
                else:
                    continue  # No room: this part stays at its origin.
                origin[slot], mass[slot], following[slot] = origins[p], part, head[there]
                head[there] = slot
                waiting[there] += 1
    return cost, sent.reshape(f.shape), got.reshape(f.shape), moves


@nb.njit(cache=True)
def logsumexp_at(h: Floats, weight: float, rows: Integers, cols: Integers, out: Floats) -> None:
    """Compute log Σ_k exp(h[i, k] − weight·(j − k)²) for some (i, j) where products of floats would underflow.

    The results are written to ``out[i, j]``. A term with h = −∞ adds nothing.
    """
    for i, j in zip(rows, cols):  # noqa: B905 - numba knows no strict
        best = -np.inf
        for k in range(h.shape[1]):
            best = max(best, h[i, k] - weight * (j - k) * (j - k))
        out[i, j] = best
        if best > -np.inf:
            total = 0.0
            for k in range(h.shape[1]):
                total += math.exp(h[i, k] - weight * (j - k) * (j - k) - best)
            out[i, j] = best + math.log(total)
