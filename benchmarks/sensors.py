"""Time sensors on a graph of 100,000 nodes and 500,000 edges: sensitivity, noise and locating the sources.

python -m benchmarks.sensors
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from heathaze.privacy.randomness import Simulation
from heathaze.sensors.physics import Graph
from heathaze.sensors.physics.network import Network
from heathaze.sensors.readings import Readings

NODES, EDGES = 100_000, 500_000
TAU, SOURCES, STRENGTH = 1.0, 3, 200.0
WANTED_SECONDS, WANTED_GB = 120, 2


def main() -> None:
    """Print times and memory, and whether the goals are reached."""
    # A process of its own: the peak of memory is that of this alone.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        text, seconds, memory = pool.submit(_large_graph).result()
    print(text)
    print(f"{seconds:.0f} s (wanted: at most {WANTED_SECONDS}): {_verdict(seconds <= WANTED_SECONDS)}")
    print(f"{memory:.2f} GB (wanted: at most {WANTED_GB}): {_verdict(memory <= WANTED_GB)}")


def _large_graph() -> tuple[str, float, float]:
    """Locate three strong sources with a sensor at every node, a reach of one edge and ε = 4."""
    rng = np.random.default_rng(4)
    ring = np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES], axis=1)
    pairs = np.sort(np.concatenate([ring, rng.integers(0, NODES, (EDGES - NODES, 2))]), axis=1)
    network = Network(np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0), nodes=NODES)
    field, building = _timed(lambda: Graph(network, TAU))
    mechanism = Readings(field, 1, 4)
    found, searching = _timed(lambda: mechanism.sensitivity)
    nodes = rng.choice(NODES, SOURCES, replace=False)
    strengths = np.zeros(NODES)
    strengths[nodes] = STRENGTH
    noisy, protecting = _timed(lambda: mechanism.protect(field.apply(strengths), randomness=Simulation(1)))
    sources, locating = _timed(noisy.sources)
    right = len({one.node for one in sources.found} & set(nodes.tolist()))
    text = (
        f"{len(network.edges):,} edges; Δ₂ = {found.l2:.4g} ({found.kind}) {searching:.1f} s, "
        f"noise {protecting:.1f} s, sources {locating:.1f} s: "
        f"{len(sources.found)} found, {right} of {SOURCES} at their nodes"
    )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return text, building + searching + protecting + locating, memory


def _verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
