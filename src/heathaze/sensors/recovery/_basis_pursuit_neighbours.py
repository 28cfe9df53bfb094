"""Which candidate places lie next to each other: on a graph by its edges, elsewhere by how far apart they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heathaze.sensors.physics.field import Field
from heathaze.types import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array


ON_A_LINE = 2.1
"""In steps from place to place: a peak may leave one candidate between two others empty."""

IN_THE_PLANE = 1.6
"""In steps: the eight places around one on a grid."""


def neighbours(field: Field) -> csr_array:
    """A symmetric matrix of true values between places next to each other.

    A network says it by its edges. Positions that form a lattice count in steps of the lattice, axis by axis; others in
    the median distance to the nearest. Where a field knows neither, no two places are neighbours.
    """
    from scipy.sparse import coo_array

    count = field.shape[1]
    pairs = np.empty((0, 2), dtype=np.int64)
    if field.network is not None:
        pairs = field.network.edges
    elif field.positions is not None and count > 1:
        from scipy.spatial import cKDTree

        steps = _in_steps(np.asarray(field.positions, dtype=np.float64).reshape(count, -1))
        reach = ON_A_LINE if steps.shape[1] == 1 else IN_THE_PLANE
        pairs = cKDTree(steps).query_pairs(reach, output_type="ndarray")
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return coo_array((np.ones(len(both), dtype=bool), (both[:, 0], both[:, 1])), shape=(count, count)).tocsr()


def _in_steps(positions: Floats) -> Floats:
    """Positions in units of the distance from one place to the next."""
    axes = [np.unique(axis) for axis in positions.T]
    if np.prod([len(axis) for axis in axes]) == len(positions):
        # A step from a to b is at most the widest gap, so that slightly uneven lattices hold together.
        step = [float(np.diff(axis).max()) if len(axis) > 1 else 1.0 for axis in axes]
        return np.asarray(positions / np.array(step))
    from scipy.spatial import cKDTree

    nearest = cKDTree(positions).query(positions, k=2)[0][:, 1]
    step_length = float(np.median(nearest))
    return np.asarray(positions / (step_length if step_length > 0 else 1.0))
