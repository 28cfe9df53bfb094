"""Squares of maps without error bars: they hold all the mass, in classes of their density, on every grid."""

from __future__ import annotations

import numpy as np
import pytest

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import node_areas
from heathaze.inference.estimate import Estimate
from heathaze.maps.squares import WHITE
from heathaze.release.squares import areas, plain_squares

GRIDS = {
    "square": Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.6), size=256),
    "uneven": Grid.over(lon=(-20, 40), lat=(30, 70), shape=(150, 333), projection="web-mercator"),
    "plane": Grid.plane(x=(0, 7), y=(0, 5), shape=(5, 7)),
    "cell": Grid.plane(x=(0, 1), y=(0, 1), size=1),
}


@pytest.mark.parametrize("name", GRIDS)
def test_squares_hold_the_mass_of_the_map(name: str) -> None:
    grid = GRIDS[name]
    mass = np.random.default_rng(1).lognormal(0, 2, grid.shape)
    estimate = Estimate(Density.from_mass(grid, mass), 1234.5)
    squares = plain_squares(estimate, "people", most=400)
    assert len(squares) <= 400
    assert node_areas(grid, squares.levels, squares.codes).sum() == grid.cells
    for k in range(0, len(squares), 37):
        west, south, east, north = squares.bounds()[k]
        inside = estimate.density.mass_in(Box((west, east), (south, north)))
        assert squares.people[k] == pytest.approx(1234.5 * inside, rel=1e-6)
    assert np.isnan(squares.low).all()
    assert np.isnan(squares.high).all()
    # The class of a square is that of its density; few people are in no class.
    limits = np.array([0.0, *squares.classes, np.inf])
    assert (squares.density >= limits[squares.kinds + 1]).all()
    assert (squares.density < limits[squares.kinds + 2]).all()
    assert squares.white_people[0] <= 1234.5 / 12
    area = areas(grid, squares.levels, squares.codes)
    np.testing.assert_allclose(
        squares.density / squares.density[0], squares.people / area * area[0] / squares.people[0]
    )


def test_a_fine_tree_is_divided_too() -> None:
    grid = Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.6), size=2**17)
    estimate = Estimate(TreeDensity(grid, np.array([1, 17]), np.array([0, 3 << 32]), np.array([0.25, 0.75])), 1000.0)
    squares = plain_squares(estimate, "people")
    assert len(squares) == 4096
    assert squares.people.max() == pytest.approx(750)
    assert squares.people.sum() == pytest.approx(1000)


@pytest.mark.parametrize("total", [0.0, -5.0])
def test_nobody_gives_white_paper(total: float) -> None:
    squares = plain_squares(Estimate(Density.uniform(GRIDS["plane"]), total), "people")
    assert set(squares.kinds.tolist()) == {WHITE}
    assert squares.densest is None
