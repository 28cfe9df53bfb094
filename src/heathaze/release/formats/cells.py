"""A release as a list of rectangles with mass: what the table and the polygons are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.domain.density import TreeDensity
from heathaze.domain.quadtree import node_extent
from heathaze.release.release import Release

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """Rectangles with mass. ``keys`` name each exactly: row and column of a cell, or level and code of a square."""

    keys: dict[str, Integers]
    share: Floats
    low_x: Floats
    low_y: Floats
    high_x: Floats
    high_y: Floats


def cells_of(release: Release) -> Cells:
    """The cells (dense) or squares (tree) of a release that hold mass; their borders in the grid's coordinates."""
    grid, estimate = release.grid, release.estimate
    if isinstance(estimate, TreeDensity):
        keys = {"level": estimate.levels, "code": estimate.codes}
        share = estimate.mass
        extents = np.empty((4, len(share)), dtype=np.int64)
        for level in np.unique(estimate.levels):
            here = estimate.levels == level
            extents[:, here] = node_extent(grid, int(level), estimate.codes[here])
        top, bottom, left, right = extents
    else:
        top, left = np.nonzero(estimate.values)
        bottom, right = top + 1, left + 1
        keys = {"row": top, "col": left}
        share = estimate.values[top, left]
    borders = np.stack([grid.y_at(top), grid.y_at(bottom)])
    return Cells(keys, share, grid.x_at(left), borders.min(axis=0), grid.x_at(right), borders.max(axis=0))
