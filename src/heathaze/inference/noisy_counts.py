"""Noisy counts of quadtree nodes: what a mechanism learned about the data, and all it learned. Public."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import exists
from heathaze.errors import InvalidInput
from heathaze.types import Floats, Integers


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Counts of some nodes with discrete Laplace noise of known scale, in people (or presences).

    Any set of nodes will do, each at most once: whole levels, the leaves of a tree, an adaptive tree with its inner
    nodes. ``values[k]`` is the noisy count of node ``codes[k]`` of level ``levels[k]``; the noise has
    Pr[x] ∝ exp(−|x| / scales[k]). A scale of 0 means no noise.
    """

    grid: Grid
    levels: Integers
    codes: Integers
    values: Floats
    scales: Floats

    def __post_init__(self) -> None:
        levels, codes = np.array(self.levels, dtype=np.int64), np.array(self.codes, dtype=np.int64)
        values, scales = np.array(self.values, dtype=np.float64), np.array(self.scales, dtype=np.float64)
        if not levels.shape == codes.shape == values.shape == scales.shape or levels.ndim != 1 or not len(levels):
            raise InvalidInput("Noisy counts need one level, code, value and scale for each of at least one node.")
        if not (np.isfinite(values).all() and np.isfinite(scales).all() and (scales >= 0).all()):
            raise InvalidInput("Noisy counts need finite values and scales that are finite and not negative.")
        if ((levels < 0) | (levels > self.grid.depth)).any() or ((codes < 0) | (codes >> (2 * levels) != 0)).any():
            raise InvalidInput("Noisy counts name a node that their grid does not have.")
        order = np.lexsort((codes, levels))
        if ((np.diff(levels[order]) == 0) & (np.diff(codes[order]) == 0)).any():
            raise InvalidInput("Noisy counts name a node twice; combine its counts first.")
        for name, array in (("levels", levels), ("codes", codes), ("values", values), ("scales", scales)):
            array = array[order]
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        for level in np.unique(levels):
            if not exists(self.grid, int(level), self.at(int(level))[0]).all():
                raise InvalidInput("Noisy counts name a node in the padding, where there are no cells.")

    def at(self, level: int) -> tuple[Integers, Floats, Floats]:
        """Integers, values and scales of one level, in order of the codes."""
        first, last = np.searchsorted(self.levels, [level, level + 1])
        return self.codes[first:last], self.values[first:last], self.scales[first:last]
