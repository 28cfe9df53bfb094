"""For the figures alone: the epsilon with which SEM-Geo-I misleads the paper's adversary as far as the disc does.

The paper compares the two at equal local privacy (eq. 15 and 16). That is no promise: SEM-Geo-I with such an epsilon
is not ε-locally differentially private for the disc's ε (errata E1-11, E1-12).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from location_privacy import cell_distances, sampling_adversary

import heathaze as hz
from heathaze.local.disk_area import paper_radius
from heathaze.local.subset_exponential import paper_size

SETS = 4096
"""Sets drawn where there are too many to go through: the mean is then known to about a third of a percent."""

MOST_SETS = 20_000
"""Go through all of them up to here, as the paper does."""


@functools.cache
def equal_subset(size: int, epsilon: float) -> tuple[int, float]:
    """k and the price of a cell's side with which SEM-Geo-I has the local privacy of DAM at ``epsilon``.

    k is the paper's n / e^ε, or the largest below it with which the adversary can be right as often as with DAM: a set
    misleads even where its one member that is no chance is the true cell. The price then follows by bisection. Were k
    taken from SEM-Geo-I's own price instead, local privacy would leap wherever k changes (from 2 cells to 1, on a grid
    of 15 × 15, by a factor of 4), and equality could not be had.
    """
    if size == 1:
        return 1, epsilon  # nothing to hide, nothing to compare
    grid = square(size)
    disc = hz.local.DiskArea(grid, epsilon, radius=math.floor(paper_radius(grid, epsilon)))
    wanted = sampling_adversary(disc.transition_matrix(), grid.shape)

    def missing(price: float, k: int) -> float:
        return subset_privacy(hz.local.SubsetExponential(grid, price, size=k)) - wanted

    low, high = 0.05, 40.0
    k = next(k for k in range(paper_size(grid, epsilon), 0, -1) if missing(high, k) < 0)
    for _ in range(16):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if missing(middle, k) > 0 else (low, middle)
    return k, float(f"{math.sqrt(low * high):.4g}")


def subset_privacy(mechanism: hz.local.SubsetExponential) -> float:
    """Local privacy of SEM-Geo-I in cells: over all sets of k cells, or over sets drawn with a fixed seed.

    Pr[set | v] ∝ Σ_{u in the set} Pr[u | v], and what the adversary's two draws from the posterior p are apart is pᵀDp.
    """
    grid = mechanism.grid
    if math.comb(grid.cells, mechanism.size) <= MOST_SETS:
        return sampling_adversary(mechanism.transition_matrix(), grid.shape)
    members = mechanism.draw(np.arange(SETS) % grid.cells, hz.Simulation(1))
    held = np.zeros((grid.cells, SETS))
    held[members.T, np.arange(SETS)] = 1.0
    single = hz.local.SubsetExponential(grid, mechanism.epsilon, size=1, cutoff=mechanism.cutoff).transition_matrix()
    posterior = single @ held
    posterior /= posterior.sum(axis=0)
    return float(((cell_distances(grid.shape) @ posterior) * posterior).sum() / SETS)


def square(size: int) -> hz.Grid:
    """size × size cells of side 1: the mechanisms know cells alone, and SEM-Geo-I counts its price by their side."""
    return hz.Grid.plane(x=(0, size), y=(0, size), size=size)
