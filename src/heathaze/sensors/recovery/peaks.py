"""Peaks: neighbouring places that hold strength, taken together as one source each."""

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
"""A place below this part of the strongest belongs to no peak."""

WIDE = 64
"""The middle of a peak on a graph is sought among at most this many of its strongest nodes."""

ON_A_LINE = 2.1
"""Neighbours on a line are at most this many steps apart: one place between them may be empty."""

IN_THE_PLANE = 1.6
"""Neighbours on a grid are at most this many steps apart: the eight places around one."""


@dataclass(frozen=True)
class Peak:
    """A group of neighbouring places that hold strength.

    Attributes:
        position: The mean of its places, weighted by strength; None on a graph.
        node: On a graph, the node with the least mean distance to the strength; elsewhere, the place nearest the mean.
        strength: The sum of its strengths.
        spread: Root of the mean squared distance of the strength from the position or node.
    """

    position: tuple[float, ...] | None
    node: int
    strength: float
    spread: float


def peaks(field: Field, strengths: npt.ArrayLike) -> list[Peak]:
    """Groups of neighbouring places that hold strength, the strongest first.

    Places are neighbours on a line if at most one place lies between them, on a grid if they touch, on a graph if an
    edge joins them.

    Args:
        field: The places, and which of them are neighbours.
        strengths: One for each place, finite and not negative.

    Raises:
        InvalidInput: The strengths do not fit the field.

    >>> from heathaze.sensors.physics import Line
    >>> [(peak.position, peak.strength) for peak in peaks(Line(4, 2, 0.1), [0.5, 0, 0, 2])]
    [((1.0,), 2.0), ((0.25,), 0.5)]
    """
    mass = np.asarray(strengths, dtype=np.float64)
    if mass.shape != (field.shape[1],):
        raise InvalidInput(f"The strengths have shape {mass.shape}; the field has {field.shape[1]} places.")
    if not np.isfinite(mass).all() or (mass < 0).any():
        raise InvalidInput("A strength is negative or not finite; give strengths from 0.")
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
        node, distance = _medoid(field, share, places)
        position = None
    elif field.positions is not None:
        where = np.asarray(field.positions, dtype=np.float64).reshape(len(mass), -1)[places]
        mean = share @ where
        distance = np.linalg.norm(where - mean, axis=1)
        node, position = int(places[np.argmin(distance)]), tuple(mean.tolist())
    else:  # No two places are neighbours, so this is one.
        node, position, distance = int(places[0]), None, np.zeros(len(places))
    return Peak(position, node, strength, math.sqrt(float(share @ distance**2)))


def _medoid(field: Field, share: Floats, places: Indices) -> tuple[int, Floats]:
    """The node of a group with the least mean distance to its strength, and the distances from it."""
    from scipy.sparse.csgraph import dijkstra

    assert field.network is not None
    strongest = np.argsort(-share, kind="stable")[:WIDE]
    apart = dijkstra(field.network.adjacency(), directed=False, indices=places[strongest])[:, places]
    best = int(np.argmin(apart @ share))
    return int(places[strongest[best]]), np.asarray(apart[best], dtype=np.float64)


def neighbours(field: Field) -> csr_array:
    """A symmetric matrix that is true between neighbouring places.

    On a network edges join neighbours. Positions on a lattice are measured in steps of the lattice, axis by axis; other
    positions in units of the median distance to the nearest. Without network and positions there are no neighbours.
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
