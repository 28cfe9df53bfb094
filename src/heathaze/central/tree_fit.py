"""Fit non-negative masses to noisy counts on a quadtree: the reconstruction step of Ghazi et al., solved exactly.

The fit minimises  Σ_i Σ_{nodes n of level i} 2^(−i) |c_n − x_n|  over masses x ≥ 0 on the leaves. Here c_n is the noisy
count of node n, and x_n is the mass of all leaves below n. The sum runs over all nodes of the measured levels. Nodes
below a left-out node have c_n = 0 (Algorithm 2, line 9).

The paper solves a linear program. Here a dynamic program on slopes (errata E0-8) finds the optimum in integers, with
the same bits on every machine. The tests compare it with the linear program solver HiGHS.
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
    """Input of the tree fit: the selected nodes of one level, with their noisy counts, by ascending Morton code."""

    codes: Integers
    counts: Integers


@dataclass(frozen=True)
class TreeFit:
    """The squares that hold the fitted mass: selected nodes of the last level, and left-out nodes of all levels.

    Attributes:
        levels: Level of each square in the quadtree.
        codes: Morton code of each square.
        mass: Fitted mass of each square.
    """

    levels: Integers
    codes: Integers
    mass: Integers


def heaviest(noisy: Integers, count: int) -> Integers:
    """Find the indices of the ``count`` largest noisy counts, ascending; the first of equal counts is kept.

    >>> heaviest(np.array([3, 9, 3, 7]), 3).tolist()
    [0, 1, 3]
    """
    return np.sort(np.lexsort((np.arange(len(noisy)), -noisy))[:count])


def fit_tree(grid: Grid, top: int, measured: list[Level]) -> TreeFit:
    """Fit non-negative masses to the noisy counts of the selected nodes of a quadtree.

    Args:
        grid: The frame; nodes that lie wholly in its padding do not exist.
        top: The first measured level. All of its nodes are selected, and each is the root of a tree of its own.
        measured: The selected nodes of the levels top, top + 1, …; the parent of a selected node is selected too.

    Returns:
        The optimal masses. If there are several optima, the one with the smallest total mass is returned. Mass
        that could go to several children at the same cost is divided evenly among them (errata E0-8).

    Cost: O(N · depth) for N selected nodes, whatever the number of cells.

    >>> grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    >>> fit = fit_tree(grid, 0, [Level(np.array([0]), np.array([10])), Level(np.array([1, 3]), np.array([7, 3]))])
    >>> fit.codes.tolist(), fit.mass.tolist()
    ([1, 3], [7, 3])
    """
    from heathaze.central._tree_fit import fit_masses

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
    """Find the index of each of the four children of each parent, for the fit on the tree.

    A child that was not selected is LEFT_OUT. A child that lies in the padding is ABSENT.
    """
    offspring = children(parents)
    place = np.searchsorted(selected, offspring)
    found = np.zeros(len(offspring), dtype=np.bool_)
    within = place < len(selected)
    found[within] = selected[place[within]] == offspring[within]
    here = exists(grid, level + 1, offspring)
    return np.where(found, first + place, np.where(here, LEFT_OUT, ABSENT)).reshape(-1, 4)
