"""The cells or squares of an estimate as a list of rectangles, from which files with tables and polygons are made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.domain.density import TreeDensity
from heathaze.domain.quadtree import node_extent
from heathaze.inference.estimate import Estimate
from heathaze.types import Floats, Integers


@dataclass(frozen=True)
class Cells:
    """Rectangles with mass. ``keys`` identifies each: row and column of a cell, or level and code of a square.

    ``deviation`` is the standard deviation of each share, or None if the estimate has no error bars.
    """

    keys: dict[str, Integers]
    share: Floats
    deviation: Floats | None
    low_x: Floats
    low_y: Floats
    high_x: Floats
    high_y: Floats


def cells_of(estimate: Estimate) -> Cells:
    """List the cells (dense) or squares (tree) of a density that hold mass, with borders in the grid's coordinates."""
    grid, density, deviation = estimate.grid, estimate.density, deviations_of(estimate)
    if isinstance(density, TreeDensity):
        keys = {"level": density.levels, "code": density.codes}
        share = density.mass
        top, bottom, left, right = node_extent(grid, density.levels, density.codes)
    else:
        top, left = np.nonzero(density.values)
        bottom, right = top + 1, left + 1
        keys = {"row": top, "col": left}
        share = density.values[top, left]
        deviation = None if deviation is None else deviation[top, left]
    borders = np.stack([grid.y_at(top), grid.y_at(bottom)])
    return Cells(keys, share, deviation, grid.x_at(left), borders.min(axis=0), grid.x_at(right), borders.max(axis=0))


def has_deviations(estimate: Estimate) -> bool:
    """Check whether the cells have standard deviations: the posterior exists and has the same grid as the density."""
    behind = estimate.noisy or estimate.drawn
    return behind is not None and behind.grid == estimate.grid


def deviations_of(estimate: Estimate) -> Floats | None:
    """Compute the standard deviation of the share of each cell (dense) or of each square (tree) for a release file.

    Returns:
        An array of the grid's shape (dense), or one number for each square (tree). None if the estimate has no error
        bars, or if its posterior has other squares than its density.
    """
    if not has_deviations(estimate):
        return None
    density, posterior = estimate.density, estimate.posterior
    if not isinstance(density, TreeDensity):
        return posterior.deviations()
    levels, codes, _, deviations = posterior.squares
    known, wanted = _numbered(levels, codes), _numbered(density.levels, density.codes)
    order = np.argsort(known)
    at = order[np.searchsorted(known, wanted, sorter=order).clip(max=len(known) - 1)]
    if not np.array_equal(known[at], wanted):
        return None
    return np.asarray(deviations[at] / max(posterior.total, 1e-300))


def _numbered(levels: Integers, codes: Integers) -> Integers:
    """Give each quadtree node an index of its own; 4^0 + … + 4^(level − 1) nodes come before the nodes of a level."""
    return np.asarray(((np.int64(1) << (2 * levels)) - 1) // 3 + codes)
