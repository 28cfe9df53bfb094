"""SubsetExponential: every set enumerated, the price between all pairs of cells, the sampler."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.local.channels import Convolution
from heathaze.local.geo_indistinguishability import decay
from heathaze.local.subset_exponential import SubsetExponential, _made_distinct, paper_size
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.randomness import Simulation
from heathaze.testing.statistics import chi_square
from tests.local.enumeration import (
    ALPHA,
    assert_channel_is,
    assert_follows,
    corners,
    distances,
    draws,
    every_report,
    expected_tallies,
    losses,
    plane,
)

GRIDS = [plane(2, 3, 1, 5), plane(1, 7), plane(3, 3, 2, 1), plane(3, 4, 0.5, 3), plane(4, 4)]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("epsilon", ["0.1", "0.7", "3.5"])
def test_no_pair_of_cells_pays_more_than_its_distance(grid: Grid, epsilon: str) -> None:
    for size in sorted({1, 2, paper_size(grid, epsilon), grid.cells // 2}):
        mechanism = SubsetExponential(grid, epsilon, size)
        matrix = mechanism.transition_matrix()
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
        assert (losses(matrix) <= float(epsilon) * distances(grid) + 1e-12).all()


@pytest.mark.parametrize("shape", [(9, 9), (15, 15), (4, 9)])
def test_larger_grids_keep_the_price_for_sets_of_one_cell(shape: tuple[int, int]) -> None:
    """A larger set tells less: its probability is a mean of those of its members."""
    grid = plane(*shape)
    for epsilon in ("0.1", "0.7", "3.5", "5", "9"):
        found = losses(SubsetExponential(grid, epsilon, size=1).transition_matrix())
        allowed = float(epsilon) * distances(grid)
        assert (found <= allowed + 1e-12).all()
        assert found.max() >= 0.4 * min(float(epsilon), 1)  # and the price is not far too high


def test_without_the_half_in_the_exponent_it_leaks() -> None:
    """W(v) differs from cell to cell: with exp(−ε·d) instead of exp(−ε·d/2) a corner betrays more than ε·d."""
    grid = plane(1, 7)
    weights = decay(grid, Fraction(1), Fraction(6), margin=False)
    kernel = np.pad(weights.excess, ((0, 0), (0, 0)))[0] + weights.low
    place = np.arange(7)
    printed = kernel[place - place[:, None] + 6].astype(np.float64)
    printed /= printed.sum(axis=1, keepdims=True)
    assert (losses(printed) > 1.05 * distances(grid)).any()
    assert (losses(SubsetExponential(grid, 1, size=1).transition_matrix()) <= distances(grid) + 1e-12).all()


@pytest.mark.parametrize("grid", [plane(1, 1), plane(1, 7), plane(3, 4, 1, 2)], ids=str)
def test_tallies_and_channel_agree_with_the_matrix(grid: Grid) -> None:
    for epsilon, size in itertools.product(("0.2", "3"), (1, 2, 3)):
        mechanism = SubsetExponential(grid, epsilon, min(size, max(1, grid.cells // 2)))
        expected = expected_tallies(mechanism)
        channel = mechanism.channel()
        assert isinstance(channel, Convolution)
        assert_channel_is(channel, expected)


@pytest.mark.parametrize("cutoff", [None, "3/2"])
@pytest.mark.parametrize(("shape", "size"), [((3, 4), 1), ((3, 4), 3), ((2, 5), 5), ((1, 7), 2)])
def test_samples_follow_the_matrix(shape: tuple[int, int], size: int, cutoff: str | None) -> None:
    mechanism = SubsetExponential(plane(*shape), 1, size, cutoff)
    matrix = mechanism.transition_matrix()
    numbers = {tuple(row): place for place, row in enumerate(every_report(mechanism).tolist())}
    for cell in corners(mechanism.grid):
        found = draws(mechanism, cell, 30_000, seed=cell)
        samples = np.array([numbers[tuple(row)] for row in found.tolist()])
        assert_follows(samples, matrix[cell])


def test_a_wrong_sampler_is_found_out() -> None:
    mechanism = SubsetExponential(plane(3, 4), 1, 1)
    with pytest.raises(AssertionError):
        assert_follows(
            draws(mechanism, 0, 30_000)[:, 0], SubsetExponential(plane(3, 4), "1.2", 1).transition_matrix()[0]
        )


def test_sets_are_filled_up_uniformly() -> None:
    """Every set of 4 out of 9 that holds the first member is equally likely, however often draws coincide."""
    first, sets = 5, 40_000
    rest = Simulation(4).below(9, sets * 3).astype(np.int64).reshape(sets, 3)
    filled = _made_distinct(np.column_stack([np.full(sets, first), rest]), 9, Simulation(5))
    assert (filled == first).any(axis=1).all()
    numbers = {s: place for place, s in enumerate(s for s in itertools.combinations(range(9), 4) if first in s)}
    observed = np.bincount([numbers[tuple(row)] for row in filled.tolist()], minlength=len(numbers))
    assert chi_square(observed, np.full(len(numbers), sets / len(numbers))) >= ALPHA


@pytest.mark.parametrize("side", [64, 256])
def test_large_grids_need_no_table_of_all_pairs(side: int) -> None:
    """A cell in the corner, in the middle, and how far from it the nearest member lies."""
    mechanism = SubsetExponential(plane(side, side), 2, size=3)
    cells = np.repeat([0, side * side // 2 + side // 2, side * side - 1], 2000)
    reports = mechanism.draw(cells, Simulation(6))
    rows, cols = np.divmod(reports, side)
    row, col = np.divmod(cells, side)
    nearest = np.hypot(rows - row[:, None], cols - col[:, None]).min(axis=1)
    assert 1 < nearest.mean() < 4
    assert mechanism.tally(reports).sum() == 3 * len(cells)
    forward = mechanism.channel().forward(np.full((side, side), 1 / side**2))
    assert forward.sum() == pytest.approx(1, abs=1e-12)


def test_the_channel_of_a_large_grid_is_a_channel() -> None:
    mechanism = SubsetExponential(plane(64, 64), 0.1)
    assert mechanism.size == 2048
    ones = mechanism.channel().backward(np.ones(mechanism.outcomes))
    np.testing.assert_allclose(ones, 1, rtol=1e-12)


def test_sizes() -> None:
    """k = n/e^(ε · step), from one cell to half of them; steps are those of the shorter side of a cell."""
    assert paper_size(plane(15, 15), 3.5) == math.floor(225 / math.exp(3.5))
    assert paper_size(plane(15, 15, 2, 1), 3.5) == math.floor(225 / math.exp(3.5))
    assert paper_size(plane(15, 15), 0.1) == 112
    assert paper_size(plane(15, 15), 1000) == paper_size(plane(1, 1), 1) == 1
    for size in (0, 8, 2.0, True, "2"):
        with pytest.raises(
            InvalidInput, match=r"size is .*; give cells, at most half of the map, a whole number from 1 to 7"
        ):
            SubsetExponential(plane(3, 5), 1, size=size)  # type: ignore[arg-type]


def test_impossible_reports_are_refused() -> None:
    mechanism = SubsetExponential(plane(3, 4), 1, 3)
    for report in ([0, 2, 2], [2, 1, 5]):
        with pytest.raises(InvalidInput, match="not sorted or not distinct"):
            mechanism.tally(np.array([report]))
    for report in ([-1, 2, 3], [0, 2, 12]):
        with pytest.raises(InvalidInput, match="A report holds a number outside 0"):
            mechanism.tally(np.array([report]))
    with pytest.raises(TooLarge, match="too many sets of 12 among 25 cells"):
        SubsetExponential(plane(5, 5), 1, 12).transition_matrix()
    assert mechanism.adjacency is Adjacency.PER_LENGTH


@pytest.mark.parametrize("epsilon", [1e-6, 1000])
def test_extreme_epsilons_work(epsilon: float) -> None:
    for shape in ((1, 1), (1, 7), (15, 15)):
        mechanism = SubsetExponential(plane(*shape), epsilon)
        reports = mechanism.draw(np.arange(mechanism.grid.cells), Simulation(3))
        assert mechanism.tally(reports).sum() == mechanism.grid.cells * mechanism.size
