"""A network whose nodes are places of sources and sensors: edges with lengths, and weights for the spread of heat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, whole
from heathaze.errors import InvalidInput
from heathaze.sensors.physics._base import check_indices, floats
from heathaze.types import Floats, Integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_MANY = 10**6
"""With more nodes than this, the number of edges is checked before memory for all nodes is allocated."""


@dataclass(frozen=True, eq=False, init=False)
class Network:
    """A network: a connected, undirected graph without loops, whose nodes have indices from 0.

    The weight of an edge is its conductivity for heat, or for a rumour. The distance between two nodes is the length of
    the shortest path between them.

    Args:
        edges: Pairs of node indices, shape (edges, 2), each pair once and in either direction.
        nodes: Number of nodes. By default the largest index in ``edges`` plus 1.
        weights: One positive number for each edge. By default 1.
        lengths: One positive number for each edge. By default 1.

    Raises:
        InvalidInput: The edges are not pairs of nodes, or do not connect all nodes.

    >>> path = Network([(0, 1), (1, 2)], lengths=[1, 5])
    >>> path.nodes, path.laplacian().toarray().tolist()
    (3, [[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    """

    nodes: int
    edges: Integers
    weights: Floats
    lengths: Floats

    def __init__(
        self,
        edges: npt.ArrayLike,
        *,
        nodes: int | None = None,
        weights: npt.ArrayLike | None = None,
        lengths: npt.ArrayLike | None = None,
    ) -> None:
        pairs = _parse_pairs(edges)
        count = whole(int(pairs.max()) + 1 if nodes is None else nodes, "The number of nodes", least=2, most=2**31)
        _check_pairs(pairs, count)
        passes, apart = _parse_numbers(weights, "weight", len(pairs)), _parse_numbers(lengths, "length", len(pairs))
        for array in (pairs, passes, apart):
            array.flags.writeable = False
        assign(self, nodes=count, edges=pairs, weights=passes, lengths=apart)
        self._check_connected()

    def laplacian(self) -> csr_array:
        """Laplacian L = D − W of the network: degrees minus weights."""
        from scipy.sparse import csr_array, dia_array

        between = self._symmetric(self.weights)
        degrees = self.degrees()
        return csr_array(dia_array((degrees[None, :], [0]), shape=between.shape) - between)

    def adjacency(self) -> csr_array:
        """Symmetric sparse matrix of the lengths of the network's edges."""
        return self._symmetric(self.lengths)

    def distances(self, starts: Integers) -> Floats:
        """Lengths of the shortest paths from some nodes to all nodes of the network, shape (len(starts), nodes)."""
        from scipy.sparse.csgraph import dijkstra

        return np.asarray(dijkstra(self.adjacency(), directed=False, indices=starts))

    def degrees(self) -> Floats:
        """Degree of each node of the network: the sum of the weights of its edges."""
        return np.bincount(self.edges.T.ravel(), np.tile(self.weights, 2), minlength=self.nodes).astype(np.float64)

    def same_as(self, other: Network) -> bool:
        """Whether another network has the same nodes, edges and lengths; weights may differ."""
        # Every node has an edge, so networks with the same edges have the same nodes.
        return np.array_equal(self.edges, other.edges) and np.array_equal(self.lengths, other.lengths)

    def _symmetric(self, values: Floats) -> csr_array:
        from scipy.sparse import csr_array

        both_ways = self.edges.T.ravel(), self.edges[:, ::-1].T.ravel()
        return csr_array((np.tile(values, 2), both_ways), shape=(self.nodes, self.nodes))

    def _check_connected(self) -> None:
        from scipy.sparse.csgraph import connected_components

        if self.nodes > max(2 * len(self.edges), _MANY):
            raise InvalidInput(
                f"The network has {self.nodes} nodes and edges for at most {2 * len(self.edges)} of them; "
                "number the nodes 0, 1, 2 and so on, and leave out nodes without an edge."
            )
        parts, _ = connected_components(self._symmetric(np.ones(len(self.edges))), directed=False)
        if parts > 1:
            raise InvalidInput(
                f"The network has {parts} parts with no edge between them, so some places are infinitely far apart; "
                "make a separate network of each part, or add the missing edges."
            )


def _parse_pairs(edges: npt.ArrayLike) -> Integers:
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise InvalidInput("Not all edges are pairs; give two nodes for each edge.") from error
    if pairs.size == 0:
        raise InvalidInput("The network has no edges; give at least one pair of nodes.")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InvalidInput(f"The edges have the shape {pairs.shape}; give pairs of nodes, shape (edges, 2).")
    if pairs.dtype.kind not in "iu":
        # Numbers read from a file are often floats; whole floats are accepted.
        if pairs.dtype.kind != "f" or not np.isfinite(pairs).all() or (pairs != np.floor(pairs)).any():
            raise InvalidInput(f"The edges are of the type {pairs.dtype}; number the nodes 0, 1, 2 and so on.")
        if np.abs(pairs).max() >= 2.0**53:
            raise InvalidInput("A node has a number of 2^53 or more; number the nodes 0, 1, 2 and so on.")
    return pairs.astype(np.int64)


def _check_pairs(pairs: Integers, nodes: int) -> None:
    check_indices(pairs, nodes, "An edge names the node", "nodes")
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        raise InvalidInput(f"An edge leads from node {pairs[loops][0, 0]} to itself; leave loops out.")
    names = np.sort(pairs.min(axis=1) * nodes + pairs.max(axis=1))
    if (twice := names[1:][np.diff(names) == 0]).size:
        one, other = divmod(int(twice[0]), nodes)
        raise InvalidInput(
            f"The edge between nodes {one} and {other} is given more than once; give it once, in either direction."
        )


def _parse_numbers(values: npt.ArrayLike | None, what: str, edges: int) -> Floats:
    if values is None:
        return np.ones(edges)
    numbers = floats(values, f"The {what}s of edges are not numbers; give one positive number for each edge.")
    if numbers.shape != (edges,):
        raise InvalidInput(f"The {what}s have the shape {numbers.shape}; give one for each of the {edges} edges.")
    wrong = ~(np.isfinite(numbers) & (numbers > 0))
    if wrong.any():
        found = numbers[wrong][0]
        raise InvalidInput(f"The {what} of an edge is {found}; give a positive number, or leave the edge out.")
    return numbers
