"""Networks: the Laplacian against its definition, and a sentence for everything that is no network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.sensors.physics.network import Network


def test_the_laplacian_and_the_lengths() -> None:
    network = Network([(0, 1), (2, 1), (0, 2)], weights=[1, 2, 4], lengths=[3, 5, 7])
    assert network.nodes == 3
    assert network.laplacian().toarray().tolist() == [[5, -1, -4], [-1, 3, -2], [-4, -2, 6]]
    assert network.adjacency().toarray().tolist() == [[0, 3, 7], [3, 0, 5], [7, 5, 0]]
    assert network.degrees().tolist() == [5, 3, 6]


def test_numbers_from_a_file_may_be_floats() -> None:
    assert Network(np.array([[0.0, 1.0], [1.0, 2.0]])).edges.dtype == np.int64


def test_a_network_cannot_be_changed() -> None:
    network = Network([(0, 1)])
    with pytest.raises(ValueError, match="read-only"):
        network.weights[0] = 2.0


def test_networks_are_the_same_by_places_and_lengths() -> None:
    one = Network([(0, 1), (1, 2)])
    assert one.same_as(Network([(0, 1), (1, 2)], weights=[2, 3]))
    assert not one.same_as(Network([(0, 1), (1, 2)], lengths=[2, 3]))
    assert not one.same_as(Network([(0, 1), (0, 2)]))


@pytest.mark.parametrize(
    ("edges", "options", "sentence"),
    [
        ([], {}, "has no edges"),
        ([1, 2, 3], {}, r"shape \(3,\)"),
        ([("a", "b")], {}, "number the nodes 0, 1, 2"),
        ([(0.5, 1.0)], {}, "number the nodes 0, 1, 2"),
        ([(0.0, float("nan"))], {}, "number the nodes 0, 1, 2"),
        ([(0, 1), (-1, 0)], {}, "names the node -1"),
        ([(0, 1), (1, 7)], {"nodes": 3}, "names the node 7; the 3 nodes have the indices 0 to 2"),
        ([(0, 1)], {"nodes": 1}, "number of nodes is 1"),
        ([(0, 1)], {"nodes": True}, "number of nodes is True"),
        ([(0, 1), (1, 1)], {}, "from node 1 to itself"),
        ([(0, 1), (1, 2), (1, 0)], {}, "between nodes 0 and 1 is given more than once"),
        ([(0, 1), (2, 3), (4, 5)], {}, "has 3 parts"),
        ([(0, 1)], {"nodes": 4}, "has 3 parts"),
        ([(0, 1)], {"weights": [-1]}, r"weight of an edge is -1\.0"),
        ([(0, 1)], {"weights": [0]}, r"weight of an edge is 0\.0"),
        ([(0, 1)], {"weights": [float("nan")]}, "weight of an edge is nan"),
        ([(0, 1)], {"lengths": [float("inf")]}, "length of an edge is inf"),
        ([(0, 1)], {"lengths": [1, 2]}, r"lengths have the shape \(2,\)"),
        ([(0, 1)], {"lengths": ["far"]}, "lengths of edges are not numbers"),
    ],
)
def test_what_is_no_network(edges: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Network(edges, **options)
