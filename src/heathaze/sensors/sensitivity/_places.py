"""The steepest pair of candidate places, where distances are straight."""

from __future__ import annotations

import numpy as np

from heathaze.errors import TooLarge
from heathaze.sensors.physics.field import Field
from heathaze.sensors.sensitivity._rate import FLOOR, SAFETY, Rate
from heathaze.types import Floats

MOST_WORK = 2**35
"""Pairs times readings: about a minute."""

_ROOM = 2**22


def steepest_pair(field: Field, positions: Floats) -> tuple[Rate, Rate]:
    """The largest ‖M_i − M_j‖ / distance, for ‖·‖₂ and for ‖·‖₁, differences taken directly."""
    readings, places = field.shape
    if places == 1:
        return Rate(0.0, "exact", (0, 0)), Rate(0.0, "exact", (0, 0))
    if positions.shape[1] == 1:
        return _neighbours(field, positions[:, 0])
    if places**2 // 2 * readings > MOST_WORK:
        raise TooLarge(
            f"{places} places have {places * (places - 1) // 2} pairs, with {readings} readings each; give a network "
            "of neighbouring places instead of positions, or fewer places."
        )
    from scipy.spatial.distance import cdist

    responses = np.ascontiguousarray(_all_responses(field).T)  # (places, readings)
    best: list[Rate] = []
    for metric, size in (("euclidean", _longest(responses, 2)), ("cityblock", _longest(responses, 1))):
        value, where = -1.0, (0, 0)
        room = max(1, _ROOM // places)
        for start in range(0, places - 1, room):
            stop = min(start + room, places - 1)
            # The block above the diagonal, and the square on it, whose own diagonal is left out.
            far = cdist(positions[start:stop], positions[start:])
            np.fill_diagonal(far, np.inf)
            rates = (cdist(responses[start:stop], responses[start:], metric) * (1 + SAFETY) + FLOOR * size) / far
            row, col = divmod(int(rates.argmax()), rates.shape[1])
            if rates[row, col] > value:
                value, where = float(rates[row, col]), (start + row, start + col)
        best.append(Rate(value, "exact", where))
    return best[0], best[1]


def _neighbours(field: Field, positions: Floats) -> tuple[Rate, Rate]:
    """On a line the neighbours suffice: what lies between two places is passed on the way."""
    order = np.argsort(positions)
    gaps = np.diff(positions[order])
    responses = _all_responses(field)[:, order]
    steps = np.diff(responses, axis=1)
    best = []
    for power in (2, 1):
        moved = np.linalg.norm(steps, ord=power, axis=0)
        rates = (moved * (1 + SAFETY) + FLOOR * _longest(responses.T, power)) / gaps
        at = int(rates.argmax())
        best.append(Rate(float(rates[at]), "exact", (int(order[at]), int(order[at + 1]))))
    return best[0], best[1]


def _all_responses(field: Field) -> Floats:
    """M, written out."""
    readings, places = field.shape
    if readings < places:
        return field.adjoint(np.eye(readings)).T
    return field.apply(np.eye(places))


def _longest(rows: Floats, power: int) -> float:
    return float(np.linalg.norm(rows, ord=power, axis=1).max())
