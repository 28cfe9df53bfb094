"""The best map without privacy: places are known, and the truth chooses the level of the quadtree.

A yardstick for papers and tests. It reads places and the truth, so no device and no survey imports it, and its result
is not a release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.distributed.encodings import Squares
from heathaze.distributed.simulate import Population
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.quadtree import interleave
from heathaze.metrics.cellwise import mse
from heathaze.types import Integers


@dataclass(frozen=True, eq=False)
class BestLevel:
    """The level whose map of a sample has the smallest mean squared error, that map, and the error."""

    level: int
    density: Density
    mse: float


def best_level(population: Population, truth: npt.ArrayLike, people: Integers | None = None) -> BestLevel:
    """The best map of one resolution that some people's places allow, chosen by the truth (section 6.2).

    Args:
        population: The people and their places. A person with several places has an equal share of 1 in each.
        truth: The density to compare with: one number for each cell.
        people: Numbers of the people to use; all if left out.

    Returns:
        The level with the smallest mean squared error, and its map.
    """
    grid = population.grid
    expected = Density.from_mass(grid, truth)
    chosen = np.arange(len(population)) if people is None else people
    first, last = population.first[chosen], population.first[chosen + 1]
    visits = last - first
    begins = np.repeat(first - np.cumsum(visits) + visits, visits)
    codes = population.codes[begins + np.arange(visits.sum())]
    weights = np.repeat(1 / np.maximum(visits, 1), visits)
    found = []
    for level in range(grid.depth + 1):
        squares = Squares(grid, level)
        mass = np.bincount(squares.entries(codes)[:, 0], weights, squares.length)
        row, col = np.divmod(np.arange(squares.length), squares.shape[1])
        flat = TreeDensity.from_mass(grid, np.full(len(mass), level), interleave(row, col), mass).dense()
        found.append(BestLevel(level, flat, mse(expected.values, flat.values)))
    return min(found, key=lambda level: level.mse)
