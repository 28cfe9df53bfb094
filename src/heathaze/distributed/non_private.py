"""What a map would be without privacy: people tell their places in plain, and the best level of the quadtree is taken.

A yardstick for papers and tests. It looks at places and at the truth, so nothing here is reachable by a device, a
survey or the door, and what comes out is no release.
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
    """The best map of one resolution that can be made of some people's places, chosen by the truth (section 6.2).

    Args:
        population: Whose places; somebody with several has an equal share of one person in each.
        truth: The density to compare with: one number a cell.
        people: Their numbers; everybody unless given.
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
