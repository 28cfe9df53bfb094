"""The steepest place of a continuous field, by branch and bound.

A box of places middle ± half is bounded by Taylor's theorem. With slopes J and bends H at the middle, the slopes at
middle + δ are J + Hδ + r, where each reading's r is at most |δ|²/2 times the bound of its third derivative. A norm of
J + Hδ is convex in δ, so over the box it is largest in a corner:

    sup over the box ≤ max over corners of ‖J + Hδ‖ + |half|²/2 · ‖most_twist‖,   and ≤ ‖most_slope‖

Boxes that cannot hold anything steeper than what was found are dropped, the others are quartered (on a line, halved).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from heathaze.sensors.physics._kernel import Axis, SmoothField
from heathaze.sensors.physics.plate import Plate
from heathaze.sensors.physics.snapshots import Snapshots
from heathaze.sensors.sensitivity._box_kernels import plate_bounds
from heathaze.sensors.sensitivity._rate import FLOOR, SAFETY, Kind, Rate
from heathaze.types import Floats

Norm = Callable[[Floats], Floats]

MOST_WORK = 2**28
"""Boxes times readings that are looked at, compiled, before the search answers with the bound it has: some seconds."""

MOST_WORK_L1 = 2**21
"""The same for ‖·‖₁, which sorts readings by angle and is not compiled."""

_ROOM = 2**17
"""Boxes times readings held at a time."""


def steepest(field: SmoothField, norm: Norm, plain: Norm, tolerance: float, most_work: int = MOST_WORK) -> Rate:
    """The largest norm of the Jacobian over all places within the bounds.

    Args:
        field: A line, a plate, or a stack of them.
        norm: Of Jacobians, shape (readings, k, dimensions) to (k,): from lengths in space to lengths of readings.
        plain: The same norm of plain vectors of readings, shape (readings, k) to (k,).
        tolerance: Relative distance of the answer to what was found at one place.
        most_work: Boxes times readings.
    """
    low, high = field.bounds if field.bounds is not None else np.empty((2, 0))
    counts = np.maximum(1, np.round((high - low) / (high - low).min())).astype(np.int64)
    half = (high - low) / counts / 2
    steps = [start + (2 * np.arange(count) + 1) * h for start, count, h in zip(low, counts, half, strict=True)]
    middles = np.array(list(itertools.product(*steps)))
    axes = plate_axes(field)
    found, where, settled, work = 0.0, middles[0], 0.0, 0
    while len(middles):
        if len(half) == 2 and norm is largest_stretch and axes:
            at_middle, over_box = plate_bounds(axes, middles, half)
        else:
            at_middle, over_box = box_bounds(field, norm, plain, middles, half)
        work += len(middles) * field.shape[0]
        if at_middle.max() > found:
            found, where = float(at_middle.max()), middles[int(at_middle.argmax())]
        going_on = over_box > found * (1 + tolerance)
        if not going_on.all():
            settled = max(settled, float(over_box[~going_on].max()))
        if work + going_on.sum() * 2 ** len(half) * field.shape[0] > most_work:
            settled = max(settled, float(over_box.max()))
            break
        half = half / 2
        corners = np.array(list(itertools.product((-1, 1), repeat=len(half)))) * half
        middles = (middles[going_on][:, None, :] + corners).reshape(-1, len(half))
    value = max(found, settled)
    # No move over the whole field is known better than FLOOR of a response; some candidates show how large those are.
    shown = np.concatenate([where[None, :], _some_candidates(field)])
    floor = FLOOR * float(plain(field.responses(shown)).max()) / float((high - low).max())
    kind: Kind = "exact" if value <= found * (1 + tolerance) else "bound"
    return Rate(value * (1 + SAFETY) + floor, kind, tuple(where.tolist()))


def box_bounds(field: SmoothField, norm: Norm, plain: Norm, middles: Floats, half: Floats) -> tuple[Floats, Floats]:
    """The norm at the middle of each box, and a bound of it over the box."""
    at_middle, over_box = np.empty(len(middles)), np.empty(len(middles))
    room = max(1, _ROOM // field.shape[0])
    corners = np.array(list(itertools.product((-1, 1), repeat=len(half)))) * half
    for start in range(0, len(middles), room):
        part = slice(start, start + room)
        taylor = field.taylor(middles[part], half)
        at_middle[part] = norm(taylor.slopes)
        in_corners = np.max([norm(taylor.slopes + taylor.bends @ corner) for corner in corners], axis=0)
        rest = 0.5 * float(half @ half) * plain(taylor.most_twist)
        over_box[part] = np.minimum(in_corners + rest, plain(taylor.most_slope))
    return at_middle, over_box


def _some_candidates(field: SmoothField) -> Floats:
    positions = field.positions if field.positions is not None else np.empty((0, 1))
    return positions[:: max(1, len(positions) // 1024)]


def plate_axes(field: object) -> list[tuple[Axis, Axis]]:
    """Both axes of a plate, or of each of stacked plates; none where there is something else in the stack."""
    if isinstance(field, Plate):
        return [field.axes]
    if isinstance(field, Snapshots):
        parts = [plate_axes(part) for part in field.fields]
        return [axes for part in parts for axes in part] if all(parts) else []
    return []


def euclidean(readings: Floats) -> Floats:
    """‖·‖₂ of each column of readings."""
    return np.asarray(np.sqrt(np.einsum("rk,rk->k", readings, readings)))


def absolute(readings: Floats) -> Floats:
    """‖·‖₁ of each column of readings."""
    return np.abs(readings).sum(axis=0)  # type: ignore[no-any-return]


def largest_stretch(slopes: Floats) -> Floats:
    """The largest singular value: how far readings can move, in ‖·‖₂, as a source moves by 1 in the worst direction."""
    if slopes.shape[-1] == 1:
        return euclidean(slopes[:, :, 0])
    xx, xy, yy = (np.einsum("rk,rk->k", slopes[:, :, i], slopes[:, :, j]) for i, j in ((0, 0), (0, 1), (1, 1)))
    return np.asarray(np.sqrt((xx + yy) / 2 + np.hypot((xx - yy) / 2, xy)))


def largest_sum(slopes: Floats) -> Floats:
    """The same for ‖·‖₁: max over unit u of Σ_r |J_r · u| = max over signs of |Σ_r ± J_r|.

    The signs that can be best are those of a half plane. Sorted by angle, one vector after the other changes its sign,
    so running sums see them all.
    """
    if slopes.shape[-1] == 1:
        return absolute(slopes[:, :, 0])
    x, y = slopes[:, :, 0], slopes[:, :, 1]
    sign = np.where(y < 0, -1.0, 1.0)
    x, y = x * sign, y * sign
    order = np.argsort(np.arctan2(y, x), axis=0)
    sums = []
    for part in (x, y):
        running = np.cumsum(np.take_along_axis(part, order, axis=0), axis=0)
        sums.append(running[-1] - 2 * running)
    return np.hypot(*sums).max(axis=0)  # type: ignore[no-any-return]
