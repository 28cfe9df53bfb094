"""The reconstruction of Ghazi et al., solved exactly: the non-negative masses closest to noisy counts on a tree.

Minimise  Σ_{nodes n of level i} 2^(−i) |c_n − x_n|  over masses x ≥ 0 on the leaves, where x_n is the mass below node
n and the sum runs over all nodes of the measured levels, with c_n = 0 for the nodes below a left-out one (Algorithm
2, line 9). The paper states it as a linear program; here it is a dynamic program on slopes (errata E0-8), exact in
integers and bit-reproducible. HiGHS is its oracle in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists
from heathaze.types import Integers

LEFT_OUT = -1
ABSENT = -2


@dataclass(frozen=True)
class Level:
    """Noisy counts of the selected nodes of one level, by ascending code."""

    codes: Integers
    counts: Integers


@dataclass(frozen=True)
class TreeFit:
    """Squares that hold the fitted mass: selected cells of the last level, and left-out nodes above it.

    Attributes:
        levels: Level of each square in the quadtree.
        codes: Morton code of each square.
        mass: Fitted mass of each square.
    """

    levels: Integers
    codes: Integers
    mass: Integers


def fit_tree(grid: Grid, top: int, measured: list[Level]) -> TreeFit:
    """Fit masses to noisy counts.

    Args:
        grid: The frame; nodes that lie wholly in its padding do not exist.
        top: The first measured level. All of its nodes are selected, so the problem splits into one tree for each.
        measured: Selected nodes of the levels top, top + 1, … Each below the first has its parent selected.

    Returns:
        The optimum. Where it is not unique, it is the one of smallest mass, and ties between children go to the first.

    Cost: O(N · depth) for N selected nodes, however fine the grid.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> fit = fit_tree(grid, 0, [Level(np.array([0]), np.array([10])), Level(np.array([1, 3]), np.array([7, 3]))])
    >>> fit.codes.tolist(), fit.mass.tolist()
    ([1, 3], [7, 3])
    """
    from heathaze.central._slopes import fit_masses

    bottom = top + len(measured) - 1
    sizes = np.array([len(level.codes) for level in measured])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    heights = np.repeat(np.arange(bottom - top, -1, -1), sizes)
    counts = np.concatenate([level.counts for level in measured]).astype(np.int64)
    family = np.full((len(counts), 4), ABSENT, dtype=np.int64)
    for i in range(len(measured) - 1):
        family[starts[i] : starts[i + 1]] = _family(
            grid, top + i, measured[i].codes, measured[i + 1].codes, starts[i + 1]
        )
    mass, left_out_mass = fit_masses(heights, counts, family, int(starts[1]))

    last = slice(starts[-2], starts[-1])
    parents, quadrants = np.nonzero(left_out_mass)
    level_of = bottom - heights
    all_codes = np.concatenate([level.codes for level in measured])
    held = mass[last] > 0
    return TreeFit(
        levels=np.concatenate([np.full(held.sum(), bottom), level_of[parents] + 1]),
        codes=np.concatenate([measured[-1].codes[held], all_codes[parents] * 4 + quadrants]),
        mass=np.concatenate([mass[last][held], left_out_mass[parents, quadrants]]),
    )


def _family(grid: Grid, level: int, parents: Integers, selected: Integers, first: int) -> Integers:
    """For each parent and quadrant: the child's place among all nodes, LEFT_OUT, or ABSENT where the padding is."""
    offspring = children(parents)
    place = np.searchsorted(selected, offspring)
    found = np.zeros(len(offspring), dtype=np.bool_)
    within = place < len(selected)
    found[within] = selected[place[within]] == offspring[within]
    here = exists(grid, level + 1, offspring)
    return np.where(found, first + place, np.where(here, LEFT_OUT, ABSENT)).reshape(-1, 4)
