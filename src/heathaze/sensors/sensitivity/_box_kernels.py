"""Compiled bounds of boxes of a plate, in ‖·‖₂: what :func:`heathaze.sensors.sensitivity._continuous.box_bounds` does.

Readings are products p(x) · q(y), and boxes of one size stand on a lattice, so that derivatives and envelopes are
tabulated for each distinct x and y once; a box then takes some products for each reading.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from heathaze.sensors.physics._kernel import Axis
from heathaze.types import Floats, Integers

_ROOM = 2**21
"""Places times readings in a table."""


def plate_bounds(axes: list[tuple[Axis, Axis]], middles: Floats, half: Floats) -> tuple[Floats, Floats]:
    """The largest stretch at the middle of each box, and a bound of it over the box."""
    kernel = _compiled()
    at_middle, over_box = np.empty(len(middles)), np.empty(len(middles))
    readings = sum(len(along_x.sensors) for along_x, _ in axes)
    room = max(1, _ROOM // readings)
    # Boxes that are neighbours share most of their x and y.
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
    """Derivatives 0 … 2 and envelopes 0 … 3 of each reading, shape (places, readings, 7)."""
    return np.concatenate([axis.derivatives(places, 2), axis.envelopes(places, float(half))]).transpose(2, 1, 0).copy()


@functools.cache
def _compiled() -> Any:
    # Imported late: only plates need it, and `import heathaze` stays quick.
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
