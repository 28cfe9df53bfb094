"""Sensitivity on lines and plates: find the place where readings change fastest, by branch and bound.

The search divides the space into boxes middle ± half, and bounds the rate of change in each box by Taylor's theorem.
Let J and H be the first and second derivatives of the readings at the middle. At middle + δ the first derivatives are J
+ Hδ + r, where the remainder r of each reading is at most |δ|²/2 times the bound of its third derivative. A norm of J +
Hδ is convex in δ, so its maximum over the box is in a corner:

    sup over the box ≤ max over corners of ‖J + Hδ‖ + |half|²/2 · ‖most_twist‖,   and ≤ ‖most_slope‖

Here most_twist and most_slope bound the third and first derivatives in the box. Boxes whose bound does not exceed the
largest rate found so far by more than the tolerance are dropped. Every other box is divided into four boxes (on a line,
into two).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from heathaze.errors import InvalidInput
from heathaze.sensors.physics.field import Field, SmoothField, snapshots_of
from heathaze.sensors.physics.line import Axis
from heathaze.sensors.physics.plate import Plate
from heathaze.types import Floats, Integers

Kind = Literal["exact", "bound"]

SAFETY = 1e-9
"""Relative margin of a rate for rounding errors in sums."""

FLOOR = 1e-12
"""Margin for rounding errors in differences of responses, relative to the largest response (errata E4-8).

On graphs where tau times the degrees is large, rounding errors are larger than this; see ``Graph.rounding``."""


@dataclass(frozen=True)
class Rate:
    """Rate of change: the largest change of the readings, in one norm, if strength 1 moves by length 1; rounded up.

    Args:
        value: The rate, never below the true one.
        kind: "exact" within the tolerance of the search, or an upper "bound".
        where: Where the rate was found: indices of two candidates, or coordinates in a continuous space.
    """

    value: float
    kind: Kind
    where: tuple[int, int] | tuple[float, ...]


Norm = Callable[[Floats], Floats]

TOLERANCE = 1e-6
"""Largest relative error of an "exact" rate in ‖·‖₂ on plates."""

TOLERANCE_ON_LINES = 1e-9
"""Largest relative error of an "exact" rate in ‖·‖₂ on lines, where accuracy costs little time."""

TOLERANCE_L1 = 1e-4
"""Largest relative error of an "exact" rate in ‖·‖₁ on plates."""

MOST_WORK = 2**28
"""Largest number of boxes × readings of a search in ‖·‖₂ (some seconds). A longer search returns its upper bound."""

MOST_WORK_L1 = 2**21
"""Largest number of boxes × readings of a search in ‖·‖₁, which sorts readings by angle and is not compiled."""

_ROOM = 2**17
"""Number of boxes × readings held in memory at a time."""

_TABLE_ROOM = 2**21
"""Number of places × readings in a table of :func:`plate_bounds`."""


def steepest_place(field: Field) -> tuple[Rate, Rate]:
    """Rates of change of the readings in ‖·‖₂ and ‖·‖₁ if sources may lie anywhere in a continuous space."""
    if field.bounds is None or not isinstance(field, SmoothField):
        raise InvalidInput("between is True, but sources of this field lie only at its candidates; leave between out.")
    on_a_line = field.bounds.shape[1] == 1
    rate = steepest(field, largest_stretch, euclidean, TOLERANCE_ON_LINES if on_a_line else TOLERANCE)
    rate_l1 = steepest(field, largest_sum, absolute, TOLERANCE_L1 / 100 if on_a_line else TOLERANCE_L1, MOST_WORK_L1)
    # ‖·‖₁ ≤ √readings · ‖·‖₂ can be the better bound if the search for ‖·‖₁ ended early.
    if (simple := math.sqrt(field.shape[0]) * rate.value) < rate_l1.value:
        rate_l1 = Rate(simple, "bound", rate.where)
    return rate, rate_l1


def steepest(field: SmoothField, norm: Norm, plain: Norm, tolerance: float, most_work: int = MOST_WORK) -> Rate:
    """Search a continuous space for the place where readings change fastest: the largest norm of the Jacobian.

    Args:
        field: A line, a plate, or snapshots of them.
        norm: Operator norm of Jacobians, from shape (readings, k, dimensions) to (k,).
        plain: The corresponding norm of vectors of readings, from shape (readings, k) to (k,).
        tolerance: Largest relative difference between the result and the largest rate found at a place.
        most_work: Largest number of boxes × readings before the search stops.
    """
    low, high = field.bounds if field.bounds is not None else np.empty((2, 0))
    counts = np.maximum(1, np.round((high - low) / (high - low).min())).astype(np.int64)
    half = (high - low) / counts / 2
    steps = [start + (2 * np.arange(count) + 1) * h for start, count, h in zip(low, counts, half, strict=True)]
    middles = np.array(list(itertools.product(*steps)))
    axes = _plate_axes(field)
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
    # Differences of responses are known only up to FLOOR times the largest response, which is estimated from some
    # candidates.
    places = where[None, :]
    if field.positions is not None:
        places = np.concatenate([places, field.positions[:: max(1, len(field.positions) // 1024)]])
    floor = FLOOR * float(plain(field.responses(places)).max()) / float((high - low).max())
    kind: Kind = "exact" if value <= found * (1 + tolerance) else "bound"
    return Rate(value * (1 + SAFETY) + floor, kind, tuple(where.tolist()))


def box_bounds(field: SmoothField, norm: Norm, plain: Norm, middles: Floats, half: Floats) -> tuple[Floats, Floats]:
    """Norm of the Jacobian at the middle of each box, and an upper bound of this norm over the whole box."""
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


def plate_bounds(axes: list[tuple[Axis, Axis]], middles: Floats, half: Floats) -> tuple[Floats, Floats]:
    """Norms of the Jacobian and their bounds as in :func:`box_bounds`, for plates and ‖·‖₂, in compiled code.

    Readings are products p(x) · q(y), and the boxes lie on a lattice. So derivatives and bounds are tabulated once for
    each distinct x and y, and each box needs only a few products per reading.

    Args:
        axes: Both axes of each plate.
        middles: Middles of the boxes, shape (k, 2).
        half: Half the width and half the height of the boxes.

    Returns:
        The norm at the middle of each box, and an upper bound over the whole box.
    """
    kernel = _compiled()
    at_middle, over_box = np.empty(len(middles)), np.empty(len(middles))
    readings = sum(len(along_x.sensors) for along_x, _ in axes)
    room = max(1, _TABLE_ROOM // readings)
    # In this order, boxes that are computed together have few distinct x and y, so tables are small.
    order = np.lexsort((middles[:, 1], middles[:, 0]))
    for start in range(0, len(order), room):
        part = order[start : start + room]
        columns, column = np.unique(middles[part, 0], return_inverse=True)
        rows, row = np.unique(middles[part, 1], return_inverse=True)
        across = np.concatenate([_table(along_x, columns, half[0]) for along_x, _ in axes], axis=1)
        upwards = np.concatenate([_table(along_y, rows, half[1]) for _, along_y in axes], axis=1)
        at_middle[part], over_box[part] = kernel(across, upwards, column, row, half[0], half[1])
    return at_middle, over_box


def _table(axis: Axis, places: Floats, half: float) -> Floats:
    """Table of derivatives 0 … 2 and of bounds of derivatives 0 … 3 of each reading, shape (places, readings, 7)."""
    return np.concatenate([axis.derivatives(places, 2), axis.envelopes(places, float(half))]).transpose(2, 1, 0).copy()


@functools.cache
def _compiled() -> Any:
    # Imported here, because only plates need numba.
    import numba as nb

    return nb.njit(cache=True)(_all_boxes)


def _all_boxes(
    across: Floats, upwards: Floats, column: Integers, row: Integers, half_x: float, half_y: float
) -> tuple[Floats, Floats]:
    count, readings = len(column), across.shape[1]
    at_middle, over_box = np.empty(count), np.empty(count)
    for box in range(count):
        p, q = across[column[box]], upwards[row[box]]
        # Entries xx, xy, yy of JᵀJ, at the middle and in the four corners.
        gram = np.zeros((5, 3))
        steep = twist = 0.0
        for r in range(readings):
            slope_x, slope_y = p[r, 1] * q[r, 0], p[r, 0] * q[r, 1]
            xx, xy, yy = p[r, 2] * q[r, 0] * half_x, p[r, 1] * q[r, 1], p[r, 0] * q[r, 2] * half_y
            yx, xy = xy * half_x, xy * half_y
            for corner in range(5):
                to_right = 0.0 if corner == 4 else (1.0 if corner & 1 else -1.0)
                upward = 0.0 if corner == 4 else (1.0 if corner & 2 else -1.0)
                x = slope_x + to_right * xx + upward * xy
                y = slope_y + to_right * yx + upward * yy
                gram[corner, 0] += x * x
                gram[corner, 1] += x * y
                gram[corner, 2] += y * y
            p0, p1, p2, p3 = p[r, 3], p[r, 4], p[r, 5], p[r, 6]
            q0, q1, q2, q3 = q[r, 3], q[r, 4], q[r, 5], q[r, 6]
            steep += (p1 * q0) ** 2 + (p0 * q1) ** 2
            twist += (p3 * q0) ** 2 + 3 * (p2 * q1) ** 2 + 3 * (p1 * q2) ** 2 + (p0 * q3) ** 2
        most = 0.0
        for corner in range(5):
            mean, away = 0.5 * (gram[corner, 0] + gram[corner, 2]), 0.5 * (gram[corner, 0] - gram[corner, 2])
            stretch = math.sqrt(mean + math.hypot(away, gram[corner, 1]))
            most = max(most, stretch)
            if corner == 4:
                at_middle[box] = stretch
        rest = 0.5 * (half_x * half_x + half_y * half_y) * math.sqrt(twist)
        over_box[box] = min(most + rest, math.sqrt(steep))
    return at_middle, over_box


def _plate_axes(field: Field) -> list[tuple[Axis, Axis]]:
    """Heat kernels along both axes of each plate in a field; empty if the field has other parts than plates."""
    parts = snapshots_of(field)
    plates = [part for part in parts if isinstance(part, Plate)]
    return [plate.axes for plate in plates] if len(plates) == len(parts) else []


def euclidean(readings: Floats) -> Floats:
    """Norm ‖·‖₂ of each column of readings."""
    return np.asarray(np.sqrt(np.einsum("rk,rk->k", readings, readings)))


def absolute(readings: Floats) -> Floats:
    """Norm ‖·‖₁ of each column of readings."""
    return np.abs(readings).sum(axis=0)  # type: ignore[no-any-return]


def largest_stretch(slopes: Floats) -> Floats:
    """Largest change of the readings in ‖·‖₂ as a source moves in the worst direction: the largest singular value."""
    if slopes.shape[-1] == 1:
        return euclidean(slopes[:, :, 0])
    xx, xy, yy = (np.einsum("rk,rk->k", slopes[:, :, i], slopes[:, :, j]) for i, j in ((0, 0), (0, 1), (1, 1)))
    return np.asarray(np.sqrt((xx + yy) / 2 + np.hypot((xx - yy) / 2, xy)))


def largest_sum(slopes: Floats) -> Floats:
    """Largest change of the readings in ‖·‖₁ as a source moves in the worst direction.

    With J_r the derivatives of reading r, it is the maximum over unit vectors u of Σ_r |J_r · u|, which equals the
    maximum over signs of |Σ_r ± J_r|. In the best choice of signs, all vectors ± J_r lie in one half plane. As the half
    plane turns, one vector after the other changes its sign, in the order of angles. So running sums of the sorted
    vectors cover all choices.
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
