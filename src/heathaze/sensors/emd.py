"""The exact earth mover's distance between sources on a line, in the plane or on a graph.

    EMD(p, q) = min over γ ≥ 0 with marginals p, q of  Σ γ(x, y) · d(x, y)

Masses lie at a few points with coordinates, or at nodes; for maps of many cells there is :func:`heathaze.metrics.emd`.

Both masses must be equal. By default they are divided by their sums, as in the paper on sensors; the distance is then
the mean distance that mass moves, in units of length. With ``normalise=False`` it is mass times length, the distance in
the definition of neighbours, and unequal masses are refused: a partial distance would be zero between sources with and
without one more (errata E4-4).
"""

from __future__ import annotations

import contextlib
from typing import Protocol

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput, MissingExtra, TooLarge
from heathaze.sensors.physics.network import Network
from heathaze.types import Floats

MAX_PAIRS = 2**24
"""The most pairs of a place with too much mass and one with too little: 128 MB of distances."""

FEW_PAIRS = 2**14
"""Up to this many pairs, the linear program takes less time than loading another solver."""

QUICK_PAIRS = 2**22
"""On a graph with more pairs than this, or more searches than MAX_SEARCHES, a flow along edges is computed."""

MAX_SEARCHES = 256

SAME = 1e-9
"""Masses with a relative difference of at most this count as equal."""


class Places(Protocol):
    """Places with coordinates, or the nodes of a network. Every field is one."""

    @property
    def positions(self) -> Floats | None: ...

    @property
    def network(self) -> Network | None: ...


def source_emd(field: Places, truth: npt.ArrayLike, estimate: npt.ArrayLike, *, normalise: bool = True) -> float:
    """The earth mover's distance between strengths at the candidates of a field.

    Args:
        field: Says where its candidates are: on a line, in the plane or on a graph.
        truth: A strength for each candidate, not negative, not all zero.
        estimate: Other strengths.
        normalise: Whether to divide both by their sums.

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
        raise InvalidInput("The field says neither positions nor a network; compare its sources by line_emd.")
    places = np.asarray(field.positions, dtype=np.float64)
    if places.ndim == 1 or places.shape[1] == 1:
        return line_emd(places.ravel(), truth, places.ravel(), estimate, normalise=normalise)
    return plane_emd(places, truth, places, estimate, normalise=normalise)


def line_emd(
    x: npt.ArrayLike, p: npt.ArrayLike, y: npt.ArrayLike, q: npt.ArrayLike, *, normalise: bool = True
) -> float:
    """The earth mover's distance between masses p at x and q at y on a line: ∫ |F − G| of their running sums.

    Args:
        x: Coordinates of the first masses.
        p: The first masses, not negative, not all zero.
        y: Coordinates of the second masses.
        q: The second masses.
        normalise: Whether to divide both by their sums.

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
    """The earth mover's distance between masses p at points and q at others, with straight distances.

    It is a linear program over pairs of points that differ. A thousand points of either take half a second if POT (the
    extra "eval") is installed, and 15 seconds if not.

    Args:
        points: Coordinates of the first masses, shape (n, dimensions).
        p: The first masses, not negative, not all zero.
        others: Coordinates of the second masses.
        q: The second masses.
        normalise: Whether to divide both by their sums.

    Raises:
        InvalidInput: Coordinates and masses do not fit, or their sums differ and ``normalise`` is False.
        TooLarge: Too many points differ.

    >>> plane_emd([(0, 0), (6, 8)], [1, 1], [(0, 0)], [5])
    5.0
    """
    one, other = _coordinates("truth", points), _coordinates("estimate", others)
    if one.shape[1] != other.shape[1]:
        raise InvalidInput(
            f"Points of the truth have {one.shape[1]} coordinates, those of the estimate {other.shape[1]}; "
            "give both in one space."
        )
    here, there = _masses(p, len(one), q, len(other), normalise)
    # Mass may stay where both have some: only the difference travels.
    places, which = np.unique(np.concatenate([one, other]), axis=0, return_inverse=True)
    left = np.bincount(which.ravel(), np.concatenate([here, -there]), minlength=len(places))
    excess, total = _without_rounding(np.asarray(left, dtype=np.float64), float(here.sum()))
    up, down = np.flatnonzero(excess > 0), np.flatnonzero(excess < 0)
    if len(up) * len(down) > MAX_PAIRS:
        raise TooLarge(f"{len(up)} places have too much and {len(down)} too little; use metrics.emd on a coarser map.")
    if total == 0:
        return 0.0
    distance = np.sqrt(((places[up][:, None, :] - places[down][None, :, :]) ** 2).sum(axis=2))
    return _transport(excess[up], -excess[down], distance)


def graph_emd(network: Network, p: npt.ArrayLike, q: npt.ArrayLike, *, normalise: bool = True) -> float:
    """The earth mover's distance between masses at the nodes of a network, with distances along its edges.

    It takes one search for shortest paths from each node with too much mass, or with too little if these are fewer, and
    a linear program over pairs of them. If both are more than 256, it is a flow along all edges instead.

    Args:
        network: The network.
        p: The first masses, one for each node, not negative, not all zero.
        q: The second masses.
        normalise: Whether to divide both by their sums.

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
    from scipy.sparse.csgraph import dijkstra

    few, many = (up, down) if len(up) <= len(down) else (down, up)
    apart = dijkstra(network.adjacency(), directed=False, indices=few)[:, many]
    return _transport(excess[up], -excess[down], apart if len(up) <= len(down) else apart.T)


def _transport(here: Floats, there: Floats, distance: Floats) -> float:
    """The least cost of moving the masses ``here`` to ``there``, which have the same sum."""
    if len(here) == 1 or len(there) == 1:  # All goes to one place, or comes from it.
        return float(distance.ravel() @ (there if len(here) == 1 else here))
    if distance.size > FEW_PAIRS:
        from heathaze.metrics.wasserstein import network_simplex

        # A network simplex is faster; where it is not installed, the program below gives the same number.
        with contextlib.suppress(MissingExtra):
            simplex = network_simplex()
            mass = float(here.sum())
            return mass * float(simplex(here / mass, there / float(there.sum()), distance, numItermax=10_000_000))
    return _by_pairs(here, there, distance)


def _by_pairs(here: Floats, there: Floats, distance: Floats) -> float:
    """A linear program that begins with few pairs and adds pairs with negative reduced cost until there is none."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    from heathaze.metrics.sparse_transport import add_best, add_corners

    # The solver's tolerances are absolute; masses and distances of about 1 suit them.
    mass, length = float(here.sum()), float(distance.max())
    sizes = len(here) + len(there)
    supply = np.concatenate([here / mass, there / float(there.sum())]) * sizes
    cost = distance / length
    chosen = np.zeros(cost.shape, dtype=bool)
    add_corners(chosen, here, there)
    add_best(chosen, cost, 6)
    while True:
        one, other = np.nonzero(chosen)
        pair = np.arange(len(one))
        rows = coo_array(
            (np.ones(2 * len(one)), (np.concatenate([one, len(here) + other]), np.concatenate([pair, pair])))
        )
        # The last sum follows from the others; kept, rounding could make it contradict them.
        solved = linprog(cost[one, other], A_eq=rows.tocsr()[:-1], b_eq=supply[:-1], method="highs")
        if solved.x is None:
            raise RuntimeError(f"The linear program of the distance was not solved: {solved.message}")
        prices = np.append(solved.eqlin.marginals, 0.0)
        reduced = cost - prices[: len(here), None] - prices[None, len(here) :]
        if not add_best(chosen, np.where(reduced < -1e-9, reduced, np.inf), 4):
            return float(solved.fun) * mass * length / sizes


def _flow(network: Network, excess: Floats) -> float:
    """The cheapest flow along edges that carries the excess away: Σ length · |flow|."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack

    start, end = network.edges.T
    edges = len(start)
    edge = np.arange(edges)
    signs = np.concatenate([np.ones(edges), -np.ones(edges)])
    leaves = coo_array(
        (signs, (np.concatenate([start, end]), np.concatenate([edge, edge]))), shape=(network.nodes, edges)
    )
    scale, length = float(np.abs(excess).max()), float(network.lengths.max())
    solved = linprog(
        np.concatenate([network.lengths, network.lengths]) / length,
        A_eq=hstack([leaves, -leaves]).tocsr()[:-1],  # what leaves the last node follows from the others
        b_eq=excess[:-1] / scale,
        method="highs",
    )
    if solved.x is None:
        raise RuntimeError(f"The linear program of the flow was not solved: {solved.message}")
    return float(solved.fun) * scale * length


def _without_rounding(excess: Floats, total: float) -> tuple[Floats, float]:
    """The excess with sum zero, without the rounding errors of the subtraction, and the mass that moves."""
    excess = np.where(np.abs(excess) <= 4 * np.finfo(float).eps * total, 0.0, excess)
    up, down = float(excess[excess > 0].sum()), float(-excess[excess < 0].sum())
    if up == 0 or down == 0:
        return np.zeros_like(excess), 0.0
    return np.where(excess < 0, excess * (up / down), excess), up


def _coordinates(name: str, points: npt.ArrayLike, line: bool = False) -> Floats:
    """Points as (n, dimensions); on a line a list of numbers will do."""
    places = np.asarray(points, dtype=np.float64)
    if line and places.ndim == 1:
        places = places[:, None]
    if places.ndim != 2 or places.shape[1] < 1 or (line and places.shape[1] != 1):
        expected = "numbers on a line" if line else "rows of coordinates"
        raise InvalidInput(f"The points of the {name} have shape {places.shape}; give {expected}.")
    if not np.isfinite(places).all():
        raise InvalidInput(f"A point of the {name} is not finite; give coordinates that are numbers.")
    return places


def _masses(p: npt.ArrayLike, count: int, q: npt.ArrayLike, other: int, normalise: bool) -> tuple[Floats, Floats]:
    """Both masses, of equal sums."""
    here, there = _mass("truth", p, count), _mass("estimate", q, other)
    if normalise:
        # Divided by the largest first, so that neither very small nor very large masses leave the range of a float.
        here, there = here / here.max(), there / there.max()
        return here / here.sum(), there / there.sum()
    one, two = float(here.sum()), float(there.sum())
    if abs(one - two) > SAME * max(one, two):
        raise InvalidInput(
            f"The truth has a mass of {one:g}, the estimate one of {two:g}; an earth mover's distance needs equal "
            "masses, so divide both by their sums (normalise=True)."
        )
    return here, there * (one / two)


def _mass(name: str, values: npt.ArrayLike, count: int) -> Floats:
    mass = np.asarray(values, dtype=np.float64)
    if mass.shape != (count,):
        raise InvalidInput(f"The {name} has masses of shape {mass.shape}; there are {count} places.")
    if not np.isfinite(mass).all() or (mass < 0).any():
        raise InvalidInput(f"A mass of the {name} is negative or not finite; give masses from 0.")
    largest = mass.max(initial=0.0)
    if largest <= 0:
        raise InvalidInput(f"The {name} holds no mass, so it cannot be compared; give at least one positive mass.")
    return mass
