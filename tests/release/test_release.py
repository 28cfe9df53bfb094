"""What can be asked of a release; all of it is post-processing."""

from __future__ import annotations

import numpy as np
import pytest

from heathaze.domain.density import Density
from heathaze.domain.grid import Box
from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Simulation
from heathaze.release.release import Release
from tests.release.conftest import with_estimate


def test_both_forms_answer_alike(tree: Release) -> None:
    dense = with_estimate(tree, density=tree.density)
    box = Box.over(lon=(-74.0, -73.9), lat=(40.6, 40.83))
    assert tree.mass_in(tree.grid.box) == pytest.approx(1)
    assert tree.mass_in(box) == pytest.approx(dense.mass_in(box))
    np.testing.assert_allclose(tree.render(box, (7, 9)).values, dense.render(box, (7, 9)).values, atol=1e-15)


def test_smoothing_keeps_mass_and_nears_uniform(small: Release) -> None:
    sums = [small.smooth(sigma).values for sigma in (0, 0.5, 3, 40)]
    assert np.array_equal(sums[0], small.density.values)
    assert [values.sum() for values in sums] == pytest.approx([1] * 4)
    assert np.ptp(sums[3]) < np.ptp(sums[2]) < np.ptp(sums[1])


def test_samples_follow_the_density(tree: Release) -> None:
    points = tree.sample(20_000, Simulation(3))
    assert points.shape == (20_000, 2)
    row, col, inside = tree.grid.cell_of(points[:, 0], points[:, 1])
    assert inside.all()
    # Of 12 blocks each must hold its share: at six standard errors one of them fails in 2e-8 of runs.
    blocks = np.zeros((3, 5))
    np.add.at(blocks, (row // 16, col // 16), 1 / len(points))
    expected = tree.render(shape=(3, 5)).values
    assert (np.abs(blocks - expected) < 6 * np.sqrt(expected * (1 - expected) / len(points)) + 1e-12).all()


def test_no_sample_and_a_negative_one(small: Release) -> None:
    assert small.sample(0).shape == (0, 2)
    with pytest.raises(InvalidInput, match="a whole number of at least 0"):
        small.sample(-1)


def test_the_heaviest_place_is_a_centre(small: Release) -> None:
    mass = np.zeros(small.grid.shape)
    mass[3, 4], mass[20, 30] = 3, 1
    both = with_estimate(small, density=Density.from_mass(small.grid, mass))
    centers = both.centers(2)
    np.testing.assert_allclose(centers, [[4.5, -1.5], [30.5, 15.5]], atol=1e-9)


def test_a_huge_grid_is_refused_densely_and_answers_in_a_window(huge_tree: Release) -> None:
    with pytest.raises(TooLarge, match=r"has more than 2\^24 cells; ask for a window"):
        _ = huge_tree.density
    assert huge_tree.render(shape=(64, 64)).values.sum() == pytest.approx(1)


def test_a_release_prints_no_numbers_of_the_map(small: Release) -> None:
    assert repr(small).startswith("<Release: 24 × 32 cells, ε = 0.333334")


@pytest.mark.parametrize(
    "change",
    [{"seed": 7}, {"mechanism": 3}, {"parameters": []}, {"day": "yesterday"}, {"simulated": "no"}, {"at_most": 1.5}],
    ids=str,
)
def test_provenance_from_strange_fields(small: Release, change: dict[str, object]) -> None:
    assert Provenance.from_dict(small.provenance.to_dict()) == small.provenance
    with pytest.raises(InvalidInput, match="damaged or was edited"):
        Provenance.from_dict({**small.provenance.to_dict(), **change})
