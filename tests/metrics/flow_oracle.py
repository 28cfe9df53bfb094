"""The exact earth mover's distance with the ℓ1 ground metric by OR-Tools: the oracle of the tests and benchmarks."""

from __future__ import annotations

import math

import numpy as np

GRAINS = 2**40
"""The flow is whole-numbered: a mass of 1 is this many grains."""


def exact_emd(a: np.ndarray, b: np.ndarray) -> float:
    """EMD in the unit "box", off by less than rows·cols·2^−41 cells: what rounding a running sum to grains may cost."""
    p, q = np.asarray(a, dtype=np.float64) / np.sum(a), np.asarray(b, dtype=np.float64) / np.sum(b)
    return _least_cost(supplies(p - q)) / GRAINS / max(p.shape)


def supplies(difference: np.ndarray) -> np.ndarray:
    """What each cell has too much, in grains, summing to 0: differences of the rounded running sum along a snake."""
    snake = difference.copy()
    snake[1::2] = snake[1::2, ::-1]
    running = np.rint(np.cumsum(snake) * GRAINS).astype(np.int64)
    running[-1] = 0
    grains = np.diff(running, prepend=0).reshape(difference.shape)
    grains[1::2] = grains[1::2, ::-1]
    return grains


def _least_cost(grains: np.ndarray) -> int:
    """Grains times borders of the cheapest flow that levels the supplies."""
    from ortools.graph.python import min_cost_flow

    total = int(grains[grains > 0].sum())
    if total == 0:
        return 0
    cell = np.arange(grains.size, dtype=np.int32).reshape(grains.shape)
    one = np.concatenate([cell[:, :-1].ravel(), cell[:-1].ravel()])
    other = np.concatenate([cell[:, 1:].ravel(), cell[1:].ravel()])
    borders = 2 * len(one)
    flow = min_cost_flow.SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(
        np.concatenate([one, other]),
        np.concatenate([other, one]),
        np.full(borders, total, dtype=np.int64),  # No border can need more than all of it.
        np.ones(borders, dtype=np.int64),
    )
    flow.set_nodes_supplies(cell.ravel(), grains.ravel())
    status = flow.solve()
    # The supplies sum to 0 and the grid is connected, so a flow exists; anything else is a fault of the solver.
    if status != flow.OPTIMAL or not math.isfinite(flow.optimal_cost()):
        raise RuntimeError(f"OR-Tools did not solve the flow (status {status}).")
    return int(flow.optimal_cost())
