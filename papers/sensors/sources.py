"""Positions of sources and sensors: pairs of sources on the line, block models, and the lab."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from harness.data import columns_of, data_file, seed_of

from heathaze.sensors.physics.network import Network


def pair_on_line(run: int, n: int, rule: Mapping[str, Any], name: str) -> np.ndarray:
    """The strengths of two unit sources at the n candidate places nearest to random positions.

    The random positions are the same for every n.
    """
    rng = np.random.default_rng(seed_of("pair", name, run))
    while True:
        places = rng.uniform(*rule["within"], 2)
        if abs(places[0] - places[1]) < rule["at_least"]:
            continue
        strengths = unit_sources(places, n)
        if np.count_nonzero(strengths) == 2:
            return strengths


def unit_sources(places: np.ndarray | list[float], n: int) -> np.ndarray:
    """Strengths with a 1 at the candidate i/n (i = 1 … n) nearest to each place, and 0 elsewhere."""
    strengths = np.zeros(n)
    strengths[np.clip(np.rint(np.asarray(places) * n).astype(np.int64), 1, n) - 1] = 1
    return strengths


def community(nodes: int) -> np.ndarray:
    """The community (0 or 1) of each node; both communities have the same size."""
    return (2 * np.arange(nodes)) // nodes


@functools.lru_cache(maxsize=16)
def block_model(number: int, nodes: int, within: float, between: float, length: float) -> Network:
    """Draw a connected graph from the stochastic block model.

    Edges between communities have the given length, and edges inside a community have length 1.
    """
    side = community(nodes)
    one, other = np.triu_indices(nodes, 1)
    odds = np.where(side[one] == side[other], within, between)
    rng = np.random.default_rng(seed_of("block model", number))
    while True:
        drawn = rng.random(len(one)) < odds
        ends = np.stack([one[drawn], other[drawn]], axis=1)
        if _connected(ends, nodes):
            return Network(ends, nodes=nodes, lengths=np.where(side[ends[:, 0]] == side[ends[:, 1]], 1.0, length))


def _connected(ends: np.ndarray, nodes: int) -> bool:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    parts, _ = connected_components(
        coo_array((np.ones(len(ends)), tuple(ends.T)), shape=(nodes, nodes)), directed=False
    )
    return bool(parts == 1)


def lab_sensors(config: Mapping[str, Any]) -> np.ndarray | None:
    """The positions of the lab's sensors in metres, an array of shape (54, 2); None if the file is missing."""
    path = data_file(config["lab"]["file"])
    return None if path is None else np.stack(columns_of(path, "x_location", "y_location"), axis=1).astype(float)


def pair_in_room(run: int, lab: Mapping[str, Any]) -> np.ndarray:
    """The places of two sources in the room, an array of shape (2, 2) in metres."""
    rng = np.random.default_rng(seed_of("room", run))
    size, margin = np.array(lab["size"], dtype=float), lab["margin"]
    while True:
        places = rng.uniform([margin, margin], size - margin, (2, 2))
        if np.hypot(*(places[0] - places[1])) >= lab["at_least"]:
            return places
