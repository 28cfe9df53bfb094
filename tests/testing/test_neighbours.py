"""Neighbours differ in one unit, and by all that one unit may weigh."""

import numpy as np
import pytest

from heathaze.domain.grid import Grid
from heathaze.testing import neighbouring_counts, neighbouring_visits

GRIDS = [
    Grid.plane(x=(0, cols), y=(0, rows), shape=(rows, cols)) for rows, cols in [(1, 1), (8, 8), (5, 3), (2**20, 2**20)]
]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.rows}x{grid.cols}")
@pytest.mark.parametrize("bound", [1, 7, 2**20])
def test_counts_differ_by_the_bound_on_every_level(grid: Grid, bound: int) -> None:
    pairs = neighbouring_counts(grid, bound=bound)
    assert len({pair.name for pair in pairs}) == len(pairs) >= 5
    for pair in pairs:
        cells = np.union1d(pair.first.codes, pair.second.codes)
        for level in range(grid.depth + 1):
            nodes = np.unique(cells >> (2 * (grid.depth - level)))
            change = pair.second.at(level, nodes) - pair.first.at(level, nodes)
            assert (change >= 0).all()
            assert change.sum() == bound
        assert pair.first.bound == pair.second.bound == bound


def test_the_cases_differ_in_kind() -> None:
    pairs = {pair.name: pair for pair in neighbouring_counts(GRIDS[1])}
    assert pairs["alone in one cell"].first.mass.sum() == 0
    assert len(pairs["alone, spread over many cells"].second.codes) == 8
    assert len(pairs["in the cell of a crowd"].second.codes) == 1
    assert len(pairs["far from a crowd"].second.codes) == 2


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.rows}x{grid.cols}")
def test_visits_differ_by_one_person(grid: Grid) -> None:
    for name, first, second in neighbouring_visits(grid):
        added = len(second["person"]) - len(first["person"])
        assert added >= 1
        assert second["person"][: len(first["person"])] == first["person"]
        assert set(second["person"][len(first["person"]) :]) == {3}
        assert 3 not in first["person"]
        _, _, inside = grid.cell_of(second["x"], second["y"])
        assert inside.all() == (name != "outside the grid")
