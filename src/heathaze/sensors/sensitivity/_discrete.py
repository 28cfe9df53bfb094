"""Sensitivity between candidate places: find the pair of places, or the edge of a network, with the largest rate.

The rate of a pair is the change of the readings as a unit source moves from one place to the other, over the distance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from heathaze.errors import TooLarge
from heathaze.privacy.randomness import Randomness
from heathaze.sensors.physics._base import units
from heathaze.sensors.physics.field import Field, Snapshots, snapshots_of
from heathaze.sensors.physics.graph import Graph
from heathaze.sensors.physics.network import Network
from heathaze.sensors.sensitivity._continuous import FLOOR, SAFETY, Rate
from heathaze.types import Floats, Integers

MOST_WORK = 2**35
"""Largest number of pairs × readings: about a minute."""

_ROOM = 2**22

FAILURE = 2.0**-64
"""Probability that random sketches make any computed rate too small: for all edges and all :data:`LOOKS` together."""

FEW_READINGS = 512
MOST_EXACT = 2**26
"""All rows of M are computed if there are at most FEW_READINGS rows, or if rows × edges is at most MOST_EXACT."""

LOOKS = (64, 128, 256)
"""Numbers of random sketches after which the edges that are not ruled out yet are counted."""

MOST_LEFT = 128
"""Largest number of edges whose rates are computed exactly, by one product with M for each edge."""

MOST_NEIGHBOURS = 3 * 2**26
"""Largest total size of the neighbourhoods of edges in all quadratures: about 20 seconds."""

HOPELESS = 4.0
"""If the largest bound exceeds the largest known rate by this factor, Lanczos steps end and random sketches begin."""

MOST_SKETCHING = 2**34
"""Largest number of multiplications for random sketches if a bound is already known: about half a minute."""

_BLOCK = 8
"""Number of columns computed at a time: a row of eight doubles is one line of the processor's cache."""


def steepest_pair(field: Field, positions: Floats) -> tuple[Rate, Rate]:
    """Find the pair of candidates with the largest rate ‖M_i − M_j‖ / distance, for ‖·‖₂ and for ‖·‖₁.

    Raises:
        TooLarge: There are too many pairs.
    """
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
            # Pairs of this block of rows with all later places; pairs of a place with itself are left out.
            far = cdist(positions[start:stop], positions[start:])
            np.fill_diagonal(far, np.inf)
            rates = (cdist(responses[start:stop], responses[start:], metric) * (1 + SAFETY) + FLOOR * size) / far
            row, col = divmod(int(rates.argmax()), rates.shape[1])
            if rates[row, col] > value:
                value, where = float(rates[row, col]), (start + row, start + col)
        best.append(Rate(value, "exact", where))
    return best[0], best[1]


def _neighbours(field: Field, positions: Floats) -> tuple[Rate, Rate]:
    """Find the largest rate between candidates on a line, from pairs of adjacent places only.

    Adjacent pairs suffice, because a move between two places passes all places between them.
    """
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
    """The matrix M of a field as a dense array."""
    readings, places = field.shape
    if readings < places:
        return field.adjoint(np.eye(readings)).T
    return field.apply(np.eye(places))


def _longest(rows: Floats, power: int) -> float:
    return float(np.linalg.norm(rows, ord=power, axis=1).max())


def steepest_edge(field: Field, network: Network, randomness: Randomness) -> tuple[Rate, Rate, float]:
    """Find the edge with the largest rate ‖M_i − M_j‖ / length, for ‖·‖₂ and for ‖·‖₁.

    The third result is the probability that the rates are too small. With few readings the rates of all edges are
    computed. With many readings, edges are first ruled out by bounds.
    """
    readings = field.shape[0]
    if readings <= FEW_READINGS or readings * len(network.edges) <= MOST_EXACT:
        return *_all_rows(field, network), 0.0
    return _screened(field, network, randomness)


def _all_rows(field: Field, network: Network) -> tuple[Rate, Rate]:
    readings, nodes = field.shape
    squares, sums = np.zeros(len(network.edges)), np.zeros(len(network.edges))
    sizes, totals = np.zeros(nodes), np.zeros(nodes)
    for start in range(0, readings, _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, readings))
        responses = field.adjoint(units(rows, readings))  # (nodes, block)
        steps = responses[network.edges[:, 0]] - responses[network.edges[:, 1]]
        squares += np.einsum("eb,eb->e", steps, steps)
        sums += np.abs(steps).sum(axis=1)
        sizes += np.einsum("nb,nb->n", responses, responses)
        totals += np.abs(responses).sum(axis=1)
    best = []
    rounding = _rounding(field)
    floors = max(FLOOR * math.sqrt(sizes.max()), rounding), max(FLOOR * totals.max(), math.sqrt(readings) * rounding)
    for moved, floor in zip((np.sqrt(squares), sums), floors, strict=True):
        rates = (moved * (1 + SAFETY) + floor) / network.lengths
        best.append(Rate(float(rates.max()), "exact", _ends(network, int(rates.argmax()))))
    return best[0], best[1]


def _screened(field: Field, network: Network, randomness: Randomness) -> tuple[Rate, Rate, float]:
    """Find the edge with the largest rate on a large graph: rule out edges by upper bounds, compute the others exactly.

    The first bound is a quadrature over the neighbourhood of each edge, which is sharp while τ is small. The second
    bound uses random sketches Mᵀz with independent standard normal z: the mean over k sketches of

        ((Mᵀz)_i − (Mᵀz)_j)²  is distributed like  ‖M_i − M_j‖² · χ²_k / k.

    Dividing this mean by a low quantile of χ²_k / k bounds all edges at once, except with probability 2^−64. The
    quantile has the probability 2^−64 over the number of looks times the number of edges and nodes. If too many edges
    cannot be ruled out, the largest upper bound is returned.
    """
    screen = _Screen(field, network)
    failure = 0.0
    for rates, chance in itertools.chain(_by_quadrature(screen), _by_sketches(screen, randomness)):
        failure = max(failure, chance)
        np.minimum(screen.most, rates, out=screen.most)
        if screen.settle():
            break
    at = int(screen.most.argmax())
    squared = Rate(float(screen.most[at]), "exact" if screen.known[at] else "bound", _ends(network, at))
    return squared, _sum_bound(field, network, squared), failure


class _Screen:
    """State of the search over edges: upper bounds of all rates, and a mask of the rates that are known exactly."""

    def __init__(self, field: Field, network: Network) -> None:
        self.field, self.network = field, network
        self.most = np.full(len(network.edges), np.inf)
        self.known = np.zeros(len(network.edges), dtype=np.bool_)
        self.floor = 0.0

    def settle(self) -> bool:
        """Compute the rates of the edges with the largest bounds, then of all edges not ruled out, if these are few.

        Returns whether the largest rate is now known.
        """
        self.compute(np.argsort(self.most)[-_BLOCK:])
        if len(left := self.left()) > MOST_LEFT:
            return False
        self.compute(left)
        return True

    def left(self) -> Integers:
        """Indices of the edges that are not ruled out: their bound exceeds every known rate."""
        known = self.most[self.known].max(initial=0.0)
        return np.flatnonzero(~self.known & (self.most > known))

    def compute(self, edges: Integers) -> None:
        """Compute the rates of some edges exactly, by products of M with e_i − e_j for the ends i and j."""
        todo = edges[~self.known[edges]]
        for start in range(0, len(todo), _BLOCK):
            part = todo[start : start + _BLOCK]
            start_nodes, end_nodes = self.network.edges[part].T
            moves = units(start_nodes, self.field.shape[1]) - units(end_nodes, self.field.shape[1])
            moved = np.linalg.norm(self.field.apply(moves), axis=0)
            self.most[part] = (moved * (1 + SAFETY) + self.floor) / self.network.lengths[part]
        self.known[todo] = True


def _by_quadrature(screen: _Screen) -> Iterator[tuple[Floats, float]]:
    """Bound the rates of edges that are not ruled out, by quadratures over growing neighbourhoods, the smallest first.

    Yields upper bounds of the rates of all edges, and the probability that a bound is too small, which is 0.

    The bound ‖M_i − M_j‖² ≤ ‖M_i‖² + ‖M_j‖² is used as well. This bound holds because no response is negative. It is
    the better one next to a node of very large degree.
    """
    graphs = _graphs(screen.field)
    if not graphs:
        return
    # exp(−τL) makes no vector longer, so in each snapshot the response to a unit source has length at most 1.
    screen.floor = max(FLOOR * math.sqrt(len(graphs)), _rounding(screen.field))
    # If all nodes are read, ‖M_i − M_j‖² ≥ 2 exp(−τ(d_i + d_j + 2w)) by Jensen's inequality, where d are the degrees
    # and w is the weight of the edge. Begin with the edges for which this is largest.
    network = graphs[0].network
    leaving = network.degrees()[network.edges].sum(axis=1) + 2 * network.weights
    screen.compute(np.argsort(graphs[0].tau * leaving / 2 + np.log(network.lengths), kind="stable")[:_BLOCK])
    room = float(MOST_NEIGHBOURS)
    for steps in (1, 2, 3, 4):
        left = screen.left()
        if steps > 1 and screen.most.max() > HOPELESS * screen.most[screen.known].max():
            return
        edges = screen.network.edges[left]
        squares = np.full(len(left), np.inf)
        around = np.sum([graph.neighbours(steps) for graph in graphs], axis=0)
        nodes = np.unique(edges)
        if around[nodes].sum() <= room / 2:
            room -= around[nodes].sum()
            alone = np.zeros(len(around))
            alone[nodes] = np.sum([graph.bounds_of_moves(nodes[:, None], steps) for graph in graphs], axis=0)
            squares = alone[edges].sum(axis=1)
        size = around[edges].sum(axis=1)
        order = np.argsort(size, kind="stable")
        near = order[np.cumsum(size[order]) <= room]
        if not len(near):
            return
        room -= size[near].sum()
        together = np.sum([graph.bounds_of_moves(edges[near], steps) for graph in graphs], axis=0)
        squares[near] = np.minimum(squares[near], together)
        rates = np.full(len(screen.most), np.inf)
        rates[left] = (np.sqrt(squares) * (1 + SAFETY) + screen.floor) / screen.network.lengths[left]
        yield rates, 0.0


def _by_sketches(screen: _Screen, randomness: Randomness) -> Iterator[tuple[Floats, float]]:
    """Bound the rates of all edges by random sketches of the readings, with more and more sketches.

    Yields upper bounds of the rates of all edges, and the probability that a bound is too small.
    """
    readings, nodes = screen.field.shape
    edges = screen.network.edges
    squares, sizes = np.zeros(len(edges)), np.zeros(nodes)
    drawn = 0
    work = sum(graph.work for graph in _graphs(screen.field))
    for look in LOOKS:
        if look * work > MOST_SKETCHING and np.isfinite(screen.most).all():
            return
        for _ in range(drawn, look, _BLOCK):
            mixed = screen.field.adjoint(normals(readings * _BLOCK, randomness).reshape(readings, _BLOCK))
            steps = mixed[edges[:, 0]] - mixed[edges[:, 1]]
            squares += np.einsum("eb,eb->e", steps, steps)
            sizes += np.einsum("nb,nb->n", mixed, mixed)
        drawn = look
        share = look * lowest_share(look, FAILURE / len(LOOKS) / (len(edges) + nodes))
        if not _graphs(screen.field):
            screen.floor = max(FLOOR * math.sqrt(sizes.max() / share), _rounding(screen.field))
        yield (np.sqrt(squares / share) * (1 + SAFETY) + screen.floor) / screen.network.lengths, FAILURE


def _graphs(field: Field) -> list[Graph]:
    """The graphs in a field, one for each snapshot; empty if the field has other parts than graphs."""
    parts = snapshots_of(field)
    return parts if all(isinstance(part, Graph) for part in parts) else []


def _rounding(field: Field) -> float:
    """Rounding error in the readings of a unit source, in ‖·‖₂, for all graphs of a field together."""
    if isinstance(field, Snapshots):
        return math.hypot(*(_rounding(part) for part in field.fields))
    return field.rounding if isinstance(field, Graph) else 0.0


def _sum_bound(field: Field, network: Network, squared: Rate) -> Rate:
    """Bound the largest rate of an edge in ‖·‖₁, by √readings times the rate in ‖·‖₂.

    If no response is negative, the sum of the totals of both ends is another bound, and the smaller one is returned.
    """
    value = math.sqrt(field.shape[0]) * squared.value
    if getattr(field, "nonnegative", False):
        totals = field.adjoint(np.ones(field.shape[0]))
        rounding = 2 * math.sqrt(field.shape[0]) * _rounding(field)
        both = (totals[network.edges].sum(axis=1) * (1 + SAFETY) + rounding) / network.lengths
        value = min(value, float(both.max()))
    return Rate(value, "bound", squared.where)


def normals(count: int, randomness: Randomness) -> Floats:
    """Draw standard normal numbers for sketches of readings, by the Box-Muller method; must not be used as noise."""
    pairs = (count + 1) // 2
    u = randomness.uniforms(2 * pairs)
    length = np.sqrt(-2 * np.log1p(-u[:pairs]))
    angle = 2 * math.pi * u[pairs:]
    return np.concatenate([length * np.cos(angle), length * np.sin(angle)])[:count]


def lowest_share(draws: int, probability: float) -> float:
    """Low quantile of χ²_k / k, for bounds by sketches.

    Args:
        draws: Number k of sketches.
        probability: Largest probability that χ²_k / k is below the quantile.
    """
    from scipy.special import gammaincinv

    return float(gammaincinv(draws / 2, probability)) * 2 / draws * (1 - 1e-6)


def _ends(network: Network, edge: int) -> tuple[int, int]:
    one, other = network.edges[edge].tolist()
    return one, other
