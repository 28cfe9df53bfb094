"""The exact earth mover's distance between sources on a line, in the plane or on a graph.

    EMD(p, q) = min over γ ≥ 0 with marginals p, q of  Σ γ(x, y) · d(x, y)

Here p and q are masses at places, γ(x, y) is the mass that moves from x to y, and d is the distance. Masses lie at a
few points with coordinates, or at nodes of a network. For maps of many cells use :func:`heathaze.metrics.emd`.

The total masses of p and q must be equal. By default both are divided by their totals, as in the paper on sensors; the
result is then the mean distance that mass moves, in units of length. With ``normalise=False`` the result is mass times
length, as in the definition of neighbouring sets of sources, and unequal totals are refused. A partial distance, which
ignores surplus mass, would be 0 between sources with and without one more source (errata E4-4).
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, MissingExtra, TooLarge
from heathaze.sensors.physics.field import Field
from heathaze.sensors.physics.network import Network
from heathaze.types import Floats

MAX_PAIRS = 2**24
"""Largest number of pairs of a place that loses mass and a place that gains mass: 128 MB of distances."""

FEW_PAIRS = 2**14
"""Up to this many pairs, the linear program takes less time than the import of the faster solver."""

QUICK_PAIRS = 2**22
"""On a graph with more pairs than this, the distance is computed as a flow along edges."""

MAX_SEARCHES = 256
"""On a graph that needs more shortest-path searches than this, the distance is computed as a flow along edges."""

SAME = 1e-9
"""Total masses with a relative difference of at most this count as equal."""


def source_emd(field: Field, truth: npt.ArrayLike, estimate: npt.ArrayLike, *, normalise: bool = True) -> float:
    """Earth mover's distance between two vectors of source strengths at the candidates of a field.

    Args:
        field: The field, whose candidates are on a line, in the plane or on a graph.
        truth: One strength for each candidate, not negative, not all zero.
        estimate: The other strengths, one for each candidate.
        normalise: Whether to divide both vectors by their sums.

    Returns:
        The distance in units of length, or of strength times length if not normalised.

    Raises:
        InvalidInput: The strengths do not fit the field, or their sums differ and ``normalise`` is False.
        TooLarge: Too many places in the plane differ.

    >>> from heathaze.sensors.physics import Line
    >>> source_emd(Line(4, 2, 0.1), [1, 0, 0, 0], [0, 0, 1, 0])
    0.5
    """
    if field.network is not None:
        return graph_emd(field.network, truth, estimate, normalise=normalise)
    if field.positions is None:
        raise InvalidInput("The field has neither positions nor a network; give coordinates to line_emd or plane_emd.")
    places = np.asarray(field.positions, dtype=np.float64)
    if places.ndim == 1 or places.shape[1] == 1:
        return line_emd(places.ravel(), truth, places.ravel(), estimate, normalise=normalise)
    return plane_emd(places, truth, places, estimate, normalise=normalise)


def line_emd(
    x: npt.ArrayLike, p: npt.ArrayLike, y: npt.ArrayLike, q: npt.ArrayLike, *, normalise: bool = True
) -> float:
    """Earth mover's distance on a line between masses p at x and masses q at y.

    The distance is ∫ |F − G|, where F and G are the running sums of the masses.

    Args:
        x: Coordinates of the first masses.
        p: The first masses, not negative, not all zero.
        y: Coordinates of the second masses.
        q: The second masses.
        normalise: Whether to divide both masses by their sums.

    Returns:
        The distance, in the unit of the coordinates; times the unit of the masses if not normalised.

    Raises:
        InvalidInput: Coordinates and masses do not fit, or their sums differ and ``normalise`` is False.

    >>> line_emd([0, 1], [1, 1], [0.5], [1])
    0.5
    """
    one, other = _coordinates("truth", x, line=True), _coordinates("estimate", y, line=True)
    here, there = _masses(p, len(one), q, len(other), normalise)
    points = np.concatenate([one[:, 0], other[:, 0]])
    order = np.argsort(points, kind="stable")
    above = np.cumsum(np.concatenate([here, -there])[order])[:-1]
    return float(np.abs(above) @ np.diff(points[order]))


def plane_emd(
    points: npt.ArrayLike, p: npt.ArrayLike, others: npt.ArrayLike, q: npt.ArrayLike, *, normalise: bool = True
) -> float:
    """Earth mover's distance in the plane (or in space) between masses p at points and masses q at others.

    Distances are Euclidean. The function solves a linear program over the places where the masses differ. A thousand
    points on each side take half a second if POT (the extra "eval") is installed, and 15 seconds otherwise.

    Args:
        points: Coordinates of the first masses, shape (n, dimensions).
        p: The first masses, not negative, not all zero.
        others: Coordinates of the second masses.
        q: The second masses.
        normalise: Whether to divide both masses by their sums.

    Returns:
        The distance, in the unit of the coordinates; times the unit of the masses if not normalised.

    Raises:
        InvalidInput: Coordinates and masses do not fit, or their sums differ and ``normalise`` is False.
        TooLarge: Too many points differ.

    >>> plane_emd([(0, 0), (6, 8)], [1, 1], [(0, 0)], [5])
    5.0
    """
    one, other = _coordinates("truth", points), _coordinates("estimate", others)
    if one.shape[1] != other.shape[1]:
        raise InvalidInput(
            f"Points of the truth have {one.shape[1]} coordinates, points of the estimate have {other.shape[1]}; "
            "give equally many."
        )
    here, there = _masses(p, len(one), q, len(other), normalise)
    # Mass that p and q have at the same place stays there; only the difference moves.
    places, which = np.unique(np.concatenate([one, other]), axis=0, return_inverse=True)
    left = np.bincount(which.ravel(), np.concatenate([here, -there]), minlength=len(places))
    excess, total = _without_rounding(np.asarray(left, dtype=np.float64), float(here.sum()))
    up, down = np.flatnonzero(excess > 0), np.flatnonzero(excess < 0)
    if len(up) * len(down) > MAX_PAIRS:
        raise TooLarge(
            f"Mass moves from {len(up)} places to {len(down)} places, too many pairs; use metrics.emd on a coarser map."
        )
    if total == 0:
        return 0.0
    return _transport(excess[up], -excess[down], euclidean(places[up], places[down]))


def graph_emd(network: Network, p: npt.ArrayLike, q: npt.ArrayLike, *, normalise: bool = True) -> float:
    """Earth mover's distance between masses at the nodes of a network, with lengths of shortest paths as distances.

    The function searches shortest paths from each node that loses mass, or from each node that gains mass if these are
    fewer, and solves a linear program over pairs of such nodes. If both kinds are more than 256, it computes a flow
    along all edges instead.

    Args:
        network: The network.
        p: The first masses, one for each node, not negative, not all zero.
        q: The second masses.
        normalise: Whether to divide both masses by their sums.

    Returns:
        The distance, in the unit of the lengths; times the unit of the masses if not normalised.

    Raises:
        InvalidInput: The masses do not fit the network, or their sums differ and ``normalise`` is False.

    >>> graph_emd(Network([(0, 1), (1, 2), (2, 0)], lengths=[1, 1, 5]), [1, 0, 0], [0, 0, 1])
    2.0
    """
    here, there = _masses(p, network.nodes, q, network.nodes, normalise)
    excess, total = _without_rounding(here - there, float(here.sum()))
    if total == 0:
        return 0.0
    up, down = np.flatnonzero(excess > 0), np.flatnonzero(excess < 0)
    if min(len(up), len(down)) > MAX_SEARCHES or len(up) * len(down) > QUICK_PAIRS:
        return _flow(network, excess)
    few, many = (up, down) if len(up) <= len(down) else (down, up)
    apart = network.distances(few)[:, many]
    return _transport(excess[up], -excess[down], apart if len(up) <= len(down) else apart.T)


def euclidean(ones: Floats, others: Floats) -> Floats:
    """Matrix of Euclidean distances from each point in ``ones`` to each point in ``others``."""
    return np.asarray(np.sqrt(((ones[:, None, :] - others[None, :, :]) ** 2).sum(axis=2)))


def cheapest_plan(cost: Floats, here: Floats, there: Floats) -> tuple[float, Floats]:
    """Earth mover's distance between few places: the plan of least cost, by a linear program over all pairs.

    Args:
        cost: Cost of moving mass 1 from each place to each other place, shape (places, others).
        here: Masses at the places; they are divided by their sum.
        there: Masses at the other places; they are divided by their sum.

    Returns:
        The least cost, and the mass that moves from each place to each other place.
    """
    from scipy.sparse import eye_array, kron, vstack

    rows, cols = cost.shape
    sums = vstack([kron(eye_array(rows), np.ones((1, cols))), kron(np.ones((1, rows)), eye_array(cols))])
    masses = np.concatenate([here / here.sum(), there / there.sum()])
    solved = _solved("plan", cost.ravel(), sums, masses)
    return float(solved.fun), np.asarray(solved.x).reshape(rows, cols)


def _solved(what: str, cost: Floats, rows: Any, right: Floats) -> Any:
    """Solve a linear program of transport: the least cost · x with rows · x = right and x ≥ 0."""
    from scipy.optimize import linprog

    # The last equation follows from the others. It is left out, because with rounding errors it could contradict them.
    solved = linprog(cost, A_eq=rows.tocsr()[:-1], b_eq=right[:-1], method="highs")
    if solved.x is None:
        raise RuntimeError(f"The linear program of the {what} was not solved: {solved.message}")
    return solved


def _transport(here: Floats, there: Floats, distance: Floats) -> float:
    """Least cost of moving the masses ``here`` to the masses ``there``, which have the same sum."""
    if len(here) == 1 or len(there) == 1:  # all mass goes to one place, or comes from one place
        return float(distance.ravel() @ (there if len(here) == 1 else here))
    if distance.size > FEW_PAIRS:
        from heathaze.metrics.wasserstein import network_simplex

        # A network simplex is faster. If it is not installed, the linear program below gives the same number.
        with contextlib.suppress(MissingExtra):
            simplex = network_simplex()
            mass = float(here.sum())
            return mass * float(simplex(here / mass, there / float(there.sum()), distance, numItermax=10_000_000))
    return _by_pairs(here, there, distance)


def _by_pairs(here: Floats, there: Floats, distance: Floats) -> float:
    """Solve the transport problem as a linear program over few pairs, adding pairs of negative reduced cost."""
    from scipy.sparse import coo_array

    from heathaze.metrics.sparse_transport import add_best, add_corners

    # The solver's tolerances are absolute, so masses and distances are scaled to about 1.
    mass, length = float(here.sum()), float(distance.max())
    sizes = len(here) + len(there)
    supply = np.concatenate([here / mass, there / float(there.sum())]) * sizes
    cost = distance / length
    chosen = np.zeros(cost.shape, dtype=bool)
    add_corners(chosen, here, there)
    add_best(chosen, cost, 6)
    while True:
        one, other = np.nonzero(chosen)
        index = np.concatenate([one, len(here) + other]), np.tile(np.arange(len(one)), 2)
        rows = coo_array((np.ones(2 * len(one)), index))
        solved = _solved("distance", cost[one, other], rows, supply)
        prices = np.append(solved.eqlin.marginals, 0.0)
        reduced = cost - prices[: len(here), None] - prices[None, len(here) :]
        if not add_best(chosen, np.where(reduced < -1e-9, reduced, np.inf), 4):
            return float(solved.fun) * mass * length / sizes


def _flow(network: Network, excess: Floats) -> float:
    """Earth mover's distance as the cheapest flow along a network's edges: the least Σ length · |flow|."""
    from scipy.sparse import coo_array, hstack

    edges = len(network.edges)
    index = network.edges.T.ravel(), np.tile(np.arange(edges), 2)
    leaves = coo_array((np.repeat([1.0, -1.0], edges), index), shape=(network.nodes, edges))
    scale, length = float(np.abs(excess).max()), float(network.lengths.max())
    cost = np.tile(network.lengths, 2) / length
    solved = _solved("flow", cost, hstack([leaves, -leaves]), excess / scale)
    return float(solved.fun) * scale * length


def _without_rounding(excess: Floats, total: float) -> tuple[Floats, float]:
    """Clear rounding errors from the difference of two masses, so that it sums to 0; and return the moving mass."""
    excess = np.where(np.abs(excess) <= 4 * np.finfo(float).eps * total, 0.0, excess)
    up, down = float(excess[excess > 0].sum()), float(-excess[excess < 0].sum())
    if up == 0 or down == 0:
        return np.zeros_like(excess), 0.0
    return np.where(excess < 0, excess * (up / down), excess), up


def _coordinates(name: str, points: npt.ArrayLike, line: bool = False) -> Floats:
    """Check coordinates of points, and return them with shape (n, dimensions); on a line a plain list is accepted."""
    places = np.asarray(points, dtype=np.float64)
    if line and places.ndim == 1:
        places = places[:, None]
    if places.ndim != 2 or places.shape[1] < 1 or (line and places.shape[1] != 1):
        expected = "numbers on a line" if line else "rows of coordinates"
        raise InvalidInput(f"The points of the {name} have shape {places.shape}; give {expected}.")
    if not np.isfinite(places).all():
        raise InvalidInput(f"A point of the {name} is not finite; give finite coordinates.")
    return places


def _masses(p: npt.ArrayLike, count: int, q: npt.ArrayLike, other: int, normalise: bool) -> tuple[Floats, Floats]:
    """Check two mass vectors, and return them with equal sums."""
    here, there = _mass("truth", p, count), _mass("estimate", q, other)
    if normalise:
        # Dividing by the largest mass first keeps very small and very large sums within the range of floats.
        here, there = here / here.max(), there / there.max()
        return here / here.sum(), there / there.sum()
    one, two = float(here.sum()), float(there.sum())
    if abs(one - two) > SAME * max(one, two):
        raise InvalidInput(
            f"The truth has a total mass of {one:g}, the estimate of {two:g}; an earth mover's distance needs equal "
            "totals, so divide both by their sums (normalise=True)."
        )
    return here, there * (one / two)


def _mass(name: str, values: npt.ArrayLike, count: int) -> Floats:
    mass = np.asarray(values, dtype=np.float64)
    if mass.shape != (count,):
        raise InvalidInput(f"The {name} has masses of shape {mass.shape}; give one mass for each of {count} places.")
    if not np.isfinite(mass).all() or (mass < 0).any():
        raise InvalidInput(f"A mass of the {name} is negative or not finite; give finite masses, 0 or larger.")
    largest = mass.max(initial=0.0)
    if largest <= 0:
        raise InvalidInput(f"The {name} holds no mass, so it cannot be compared; give at least one positive mass.")
    return mass
