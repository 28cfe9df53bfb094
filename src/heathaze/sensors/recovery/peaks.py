"""Peaks: group neighbouring places that hold strength, so that each group counts as one recovered source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.sensors.physics.field import Field
from heathaze.types import Floats, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DUST = 1e-6
"""A place whose strength is below this fraction of the largest strength belongs to no peak."""

WIDE = 64
"""On a graph, the middle of a peak is chosen among at most this many of its strongest nodes."""

ON_A_LINE = 2.1
"""Largest distance of neighbours on a line, in steps: one place between them may be empty."""

IN_THE_PLANE = 1.6
"""Largest distance of neighbours on a grid, in steps: the eight places around a place."""


@dataclass(frozen=True)
class Peak:
    """A peak: a group of neighbouring places that hold strength.

    Attributes:
        position: Mean position of the group's places, weighted by strength; None on a graph.
        node: On a graph, the node with the least mean distance to the strength; else the place nearest to the mean.
        strength: Sum of the strengths in the group.
        spread: Root mean squared distance of the strength from the position or node.
    """

    position: tuple[float, ...] | None
    node: int
    strength: float
    spread: float


def peaks(field: Field, strengths: npt.ArrayLike) -> list[Peak]:
    """Find the peaks of recovered strengths: groups of neighbouring places that hold strength, strongest first.

    Two places are neighbours on a line if at most one place lies between them, on a grid if they touch, and on a graph
    if an edge joins them.

    Args:
        field: The field, which defines places and neighbours.
        strengths: One strength for each place, finite and not negative.

    Raises:
        InvalidInput: The strengths do not fit the field.

    >>> from heathaze.sensors.physics import Line
    >>> [(peak.position, peak.strength) for peak in peaks(Line(4, 2, 0.1), [0.5, 0, 0, 2])]
    [((1.0,), 2.0), ((0.25,), 0.5)]
    """
    mass = np.asarray(strengths, dtype=np.float64)
    if mass.shape != (field.shape[1],):
        raise InvalidInput(f"The strengths have shape {mass.shape}; give one for each of {field.shape[1]} places.")
    if not np.isfinite(mass).all() or (mass < 0).any():
        raise InvalidInput("A strength is negative or not finite; give finite strengths, 0 or larger.")
    from scipy.sparse.csgraph import connected_components

    held = np.flatnonzero(mass > DUST * mass.max(initial=0.0))
    if held.size == 0:
        return []
    count, group = connected_components(neighbours(field)[held][:, held], directed=False)
    found = [_peak(field, mass, held[group == number]) for number in range(count)]
    return sorted(found, key=lambda peak: (-peak.strength, peak.node))


def _peak(field: Field, mass: Floats, places: Indices) -> Peak:
    strength = float(mass[places].sum())
    share = mass[places] / strength
    if field.network is not None:
        # The node with the least mean distance to the peak's strength.
        strongest = places[np.argsort(-share, kind="stable")[:WIDE]]
        apart = field.network.distances(strongest)[:, places]
        best = int(np.argmin(apart @ share))
        node, position, distance = int(strongest[best]), None, apart[best]
    elif field.positions is not None:
        where = np.asarray(field.positions, dtype=np.float64).reshape(len(mass), -1)[places]
        mean = share @ where
        distance = np.linalg.norm(where - mean, axis=1)
        node, position = int(places[np.argmin(distance)]), tuple(mean.tolist())
    else:  # without positions no two places are neighbours, so the group is a single place
        node, position, distance = int(places[0]), None, np.zeros(len(places))
    return Peak(position, node, strength, math.sqrt(float(share @ distance**2)))


def neighbours(field: Field) -> csr_array:
    """Matrix of neighbouring places of a field: symmetric, True for each pair of neighbours.

    On a network, edges join neighbours. On a lattice, distances are measured in steps of the lattice along each axis.
    Other positions are measured in units of the median distance to the nearest place. A field without network and
    positions has no neighbours.
    """
    from scipy.sparse import coo_array

    count = field.shape[1]
    pairs = np.empty((0, 2), dtype=np.int64)
    if field.network is not None:
        pairs = field.network.edges
    elif field.positions is not None and count > 1:
        from scipy.spatial import cKDTree

        steps = _in_steps(np.asarray(field.positions, dtype=np.float64).reshape(count, -1))
        most = ON_A_LINE if steps.shape[1] == 1 else IN_THE_PLANE
        pairs = cKDTree(steps).query_pairs(most, output_type="ndarray")
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return coo_array((np.ones(len(both), dtype=bool), (both[:, 0], both[:, 1])), shape=(count, count)).tocsr()


def _in_steps(positions: Floats) -> Floats:
    """Convert positions to units of the distance between adjacent places."""
    axes = [np.unique(axis) for axis in positions.T]
    if np.prod([len(axis) for axis in axes]) == len(positions):
        # The unit is the widest gap along each axis, so that places of a slightly uneven lattice remain neighbours.
        step = [float(np.diff(axis).max()) if len(axis) > 1 else 1.0 for axis in axes]
        return np.asarray(positions / np.array(step))
    from scipy.spatial import cKDTree

    nearest = cKDTree(positions).query(positions, k=2)[0][:, 1]
    step_length = float(np.median(nearest))
    return np.asarray(positions / (step_length if step_length > 0 else 1.0))
