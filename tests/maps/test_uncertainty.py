"""Signal, noise, and what smoothing does to both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.domain.density import TreeDensity, render_deviations
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import nodes_at
from heathaze.maps import uncertainty

PLANE = Grid.plane(x=(0, 4), y=(0, 3), shape=(24, 32))


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_uncertainty_never_shows_more(share: float, deviation: float) -> None:
    less, more = (float(uncertainty.opacity(share, part * deviation)) for part in (0.5, 1))
    assert uncertainty.FAINTEST <= more <= less <= 1
    assert (
        0
        <= float(uncertainty.relative_deviation(share, 0.5 * deviation))
        <= float(uncertainty.relative_deviation(share, deviation))
        <= 1
    )


def test_the_scale_does_not_matter() -> None:
    """Shares of a fine grid are tiny; their squares must not vanish."""
    share, deviation = np.array([1.0, 3.0]), np.array([2.0, 1.0])
    for scale in (1, 1e-9, 1e-200):
        np.testing.assert_allclose(uncertainty.signal(scale * share, scale * deviation), [0.2, 0.9])


def _squares() -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Disjoint squares of three levels that cover the map: four large, many middle ones, single cells."""
    coarse = nodes_at(PLANE, 2)
    middle = nodes_at(PLANE, 3)
    cells = nodes_at(PLANE, PLANE.depth)
    middle = middle[(middle >> 2) >= 4]
    cells = cells[(cells >> (2 * (PLANE.depth - 3))) >> 2 >= 8]
    coarse, middle = coarse[coarse < 4], middle[(middle >> 2) < 8]
    codes = [coarse, middle, cells]
    return np.repeat([2, 3, PLANE.depth], [len(part) for part in codes]), np.concatenate(codes)


def _sampled(shape: tuple[int, int], sigma: float) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Deviations by formula, and those of simulated maps that are smoothed one by one."""
    levels, codes = _squares()
    rng = np.random.default_rng(11)
    mean = rng.uniform(20, 40, len(codes))
    deviation = rng.uniform(0.5, 2, len(codes))
    maps = []
    for _ in range(400):
        mass = mean + deviation * rng.normal(size=len(codes))
        density = TreeDensity.from_mass(PLANE, levels, codes, mass).render(shape=shape).smooth(sigma)
        maps.append(mass.sum() * density.values)
    return uncertainty.smoothed_deviations(PLANE, levels, codes, deviation, shape, sigma), np.std(maps, axis=0)


@pytest.mark.parametrize(("shape", "sigma"), [((24, 32), 1.5), ((24, 32), 6.0), ((10, 9), 0.8), ((7, 8), 0.0)])
def test_smoothed_deviations_are_those_of_smoothed_maps(shape: tuple[int, int], sigma: float) -> None:
    """400 maps know a deviation to 1/√800 of it; 6 such errors leave no chance failure over some 2,000 cells."""
    formula, sampled = _sampled(shape, sigma)
    assert formula.shape == shape
    np.testing.assert_allclose(sampled / formula, 1, atol=6 / np.sqrt(800))


def test_cells_of_a_square_rise_and_fall_together() -> None:
    """Taken as independent, a large square would look far surer than it is."""
    formula = uncertainty.smoothed_deviations(PLANE, np.array([2]), np.array([0]), np.array([64.0]), PLANE.shape, 1.0)
    assert formula[3, 3] == pytest.approx(1.0, rel=0.02)


def test_without_smoothing_it_is_the_map_of_deviations() -> None:
    levels, codes = _squares()
    deviation = np.linspace(1, 2, len(codes))
    for shape in (PLANE.shape, (5, 6), (3, 1)):
        np.testing.assert_allclose(
            uncertainty.smoothed_deviations(PLANE, levels, codes, deviation, shape, 0.0),
            render_deviations(PLANE, levels, codes, deviation, shape=shape),
        )
