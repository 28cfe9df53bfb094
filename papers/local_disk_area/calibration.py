"""Find the epsilon at which SEM-Geo-I has the same "local privacy" as DAM; used only for the figures.

The paper compares SEM-Geo-I and DAM at equal local privacy: the mean distance between the true cell and the guess of an
adversary (eq. 15 and 16). This is not a guarantee: SEM-Geo-I with the calibrated epsilon is not ε-locally
differentially private for DAM's ε (errata E1-11, E1-12).
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
"""The number of sets that are drawn if there are too many to enumerate. The mean then has an error of about 0.3 %."""

MOST_SETS = 20_000
"""The largest number of sets that are all enumerated, as the paper does."""


@functools.cache
def equal_subset(size: int, epsilon: float) -> tuple[int, float]:
    """The set size k and the ε per cell side with which SEM-Geo-I has the local privacy of DAM at ``epsilon``.

    k is the paper's n / e^ε for n cells, or the largest smaller k at which the adversary can be as near to the true
    cell as with DAM: even if a set always contains the true cell, its other members mislead the adversary. For this k,
    the ε per cell side is found by bisection. If k followed from SEM-Geo-I's own ε instead, local privacy would jump
    wherever k changes (on 15 × 15 cells by a factor of 4 from k = 2 to k = 1), and could not be made equal to DAM's.
    """
    if size == 1:
        return 1, epsilon  # a single cell has nothing to hide
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
    """Local privacy of SEM-Geo-I in cells: the mean over all sets of k cells, or over sets drawn with a fixed seed.

    For a true cell v, Pr[set | v] ∝ Σ_{u in the set} Pr[u | v]. If p is the adversary's posterior after a set and D the
    matrix of distances between cells, the mean distance between the true cell and the adversary's guess is pᵀDp.
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
    """A grid of size × size cells of side 1, so that SEM-Geo-I's ε per unit of length is an ε per cell side."""
    return hz.Grid.plane(x=(0, size), y=(0, size), size=size)
