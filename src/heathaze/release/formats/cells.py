"""A release as a list of rectangles with mass, and how sure it is of each: what tables and polygons are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.domain.density import TreeDensity
from heathaze.domain.quadtree import node_extent
from heathaze.release.release import Release
from heathaze.types import Floats, Integers


@dataclass(frozen=True)
class Cells:
    """Rectangles with mass. ``keys`` name each exactly: row and column of a cell, or level and code of a square.

    ``deviation`` is the standard deviation of each share, or ``None`` where the mechanism does not say how sure it is.
    """

    keys: dict[str, Integers]
    share: Floats
    deviation: Floats | None
    low_x: Floats
    low_y: Floats
    high_x: Floats
    high_y: Floats


def cells_of(release: Release) -> Cells:
    """The cells (dense) or squares (tree) of a release that hold mass; their borders in the grid's coordinates."""
    grid, estimate, deviation = release.grid, release.estimate, deviations_of(release)
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
        deviation = None if deviation is None else deviation[top, left]
    borders = np.stack([grid.y_at(top), grid.y_at(bottom)])
    return Cells(keys, share, deviation, grid.x_at(left), borders.min(axis=0), grid.x_at(right), borders.max(axis=0))


def knows_uncertainty(release: Release) -> bool:
    """Can it be said how sure the release is? Not where what is behind it speaks of another grid."""
    behind = release.noisy or release.drawn
    return behind is not None and behind.grid == release.grid


def deviations_of(release: Release) -> Floats | None:
    """Standard deviation of the share of each cell (dense, in the grid's shape) or of each square of the tree.

    ``None`` where the mechanism does not say, or speaks of other squares than those the map is drawn with.
    """
    if not knows_uncertainty(release):
        return None
    if not isinstance(release.estimate, TreeDensity):
        return release.uncertainty
    levels, codes, _, deviations = release.posterior.squares
    known, wanted = _numbered(levels, codes), _numbered(release.estimate.levels, release.estimate.codes)
    order = np.argsort(known)
    at = order[np.searchsorted(known, wanted, sorter=order).clip(max=len(known) - 1)]
    if not np.array_equal(known[at], wanted):
        return None
    return np.asarray(deviations[at] / max(release.posterior.total, 1e-300))


def _numbered(levels: Integers, codes: Integers) -> Integers:
    """One number for each node of the quadtree, level by level: 4^0 + … + 4^(level − 1) nodes come before a level."""
    return np.asarray(((np.int64(1) << (2 * levels)) - 1) // 3 + codes)
