"""UniformGrid and AdaptiveGrid: sizes by the guidelines, blocks that tile, reconciled counts, the shape of maps."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.central import AdaptiveGrid, Flat, UniformGrid
from heathaze.central.adaptive_grid import cut_coarsely, cut_finely, reconcile, which
from heathaze.central.uniform_grid import blocks_a_side, borders, masses, running_sums
from heathaze.datasets import mixture
from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.ingest.counts import Counts
from heathaze.privacy.accountant import compose
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation
from heathaze.testing import noiseless

MASS = 2**20
BOTH = pytest.mark.parametrize("kind", [UniformGrid, AdaptiveGrid])
SHAPES = pytest.mark.parametrize("shape", [(1, 1), (2, 2), (1, 50), (37, 90), (64, 3)])


def plane(rows: int, cols: int) -> Grid:
    return Grid.plane(x=(0, cols), y=(0, rows), shape=(rows, cols))


def counts_of(grid: Grid, people: np.ndarray, bound: int = MASS) -> Counts:
    rows, cols = np.nonzero(people)
    mass = people[rows, cols] * bound
    return Counts.from_cells(grid, rows, cols, mass, bound=bound, one=bound, unit=Unit.PERSON)


def blocks_in(density: Density) -> int:
    """How many different numbers a map has: at most its blocks."""
    return len(np.unique(density.values.round(15)))


def test_sizes_follow_the_guidelines() -> None:
    """m = √(N ε / 10): 10,000 people at epsilon 1 give 31.6; m2 = √(N' ε/2 / 5)."""
    assert float(blocks_a_side(10_000, Fraction(1), 10)) == pytest.approx(math.sqrt(1000))
    assert blocks_a_side([0, -3, 500], Fraction(1, 2), 5).tolist() == pytest.approx([1, 1, math.sqrt(50)])
    assert len(borders(256, math.sqrt(1000))) - 1 == 32
    assert len(cut_coarsely(plane(256, 256), math.sqrt(1000)).top) == 10 * 10  # 31.6 / 4 is below the least, 10
    assert len(cut_coarsely(plane(256, 256), 101.0).top) == 26 * 26
    assert len(cut_coarsely(plane(256, 4), 10.0).top) == 10 * 2  # a block of one cell would be counted twice


@given(st.integers(1, 300), st.floats(1, 400))
def test_borders_cut_a_side_into_nearly_equal_parts(length: int, parts: float) -> None:
    found = np.diff(borders(length, parts))
    assert found.sum() == length
    assert 1 <= found.min() <= found.max() <= found.min() + 1
    assert found.max() <= max(1, length / parts)  # as fine as the guideline, or finer
    assert len(found) == 1 or math.ceil(length / (len(found) - 1)) > max(1, length // parts)  # but no finer than needed


@SHAPES
def test_parts_tile_the_grid(shape: tuple[int, int]) -> None:
    """Every cell lies in one part, so blocks and parts are partitions and cost one release each."""
    grid = plane(*shape)
    blocks = cut_coarsely(grid, 55.0)
    wanted = 1 + np.arange(len(blocks.top)) % 7 * 1.3
    parts, inside = cut_finely(blocks, wanted)
    covered = np.zeros(grid.shape, dtype=np.int64)
    numbers = np.full(grid.shape, -1)
    for k, (top, bottom, left, right) in enumerate(zip(*parts, strict=True)):
        covered[top:bottom, left:right] += 1
        numbers[top:bottom, left:right] = k
        block = inside[k]
        assert blocks.top[block] <= top < bottom <= blocks.bottom[block]
        assert blocks.left[block] <= left < right <= blocks.right[block]
    assert (covered == 1).all()
    assert (which(grid, parts) == numbers).all()


@BOTH
def test_the_total_has_no_bias(kind: type[UniformGrid | AdaptiveGrid]) -> None:
    """Setting negative blocks to zero would add 4 units a block here; the noisy total is kept (alpha 1e-6)."""
    grid = plane(32, 32)
    people = np.zeros(grid.shape, dtype=np.int64)
    people[3, 4] = 3000
    counts = counts_of(grid, people)
    totals = np.array([kind(grid, "1/8", people=5000).run(counts, Simulation(seed)).total for seed in range(40)])
    assert abs(totals.mean() - 3000) <= 4.9 * totals.std(ddof=1) / math.sqrt(len(totals))
    assert totals.std(ddof=1) < 400  # so that the bias of 4 units for each of 256 blocks would be found


def test_the_counted_total_makes_the_map_more_exact() -> None:
    """The noisy total has variance 1/s², the sum of m blocks m/(1 − s)², in units of 2 B²/ε² (alpha 1e-6)."""
    grid = plane(128, 128)
    counts = counts_of(grid, np.full(grid.shape, 500))
    totals = np.array([UniformGrid(grid, 1).run(counts, Simulation(seed)).total for seed in range(60)])
    both = 2 / (1 / 50**2 + 0.98**2 / grid.cells)
    # χ² with 59 degrees of freedom is below 133 with probability 1 − 1e-7; without the total the ratio would be 7.
    assert ((totals - 500 * grid.cells) ** 2).sum() / both < 150


def test_running_sums_give_the_mass_of_rectangles() -> None:
    grid = plane(5, 7)
    people = np.arange(35).reshape(5, 7)
    found = masses(
        running_sums(counts_of(grid, people, bound=3)),
        np.array([0, 1]),
        np.array([5, 3]),
        np.array([0, 6]),
        np.array([7, 7]),
    )
    assert found.tolist() == [3 * people.sum(), 3 * people[1:3, 6].sum()]


def test_reconciled_parts_sum_to_the_best_average_of_their_block() -> None:
    """α = 1/2: a block of k parts gets k/(k+1) of its own count and 1/(k+1) of the sum of its parts."""
    coarse, fine = np.array([100, 7]), np.array([10, 20, 30, 5])
    found = reconcile(coarse, fine, np.array([0, 0, 0, 1]))
    assert found[:3].sum() == pytest.approx(0.75 * 100 + 0.25 * 60)
    assert np.diff(found[:3]).tolist() == pytest.approx([10, 10])  # the difference is handed out evenly
    assert found[3] == pytest.approx(6)


def test_reconciling_is_better_than_either_count() -> None:
    """Equal noise on a block and its four parts: the error of the sum falls as theory says (alpha 1e-6)."""
    rng = np.random.default_rng(5)
    runs, inside = 20_000, np.repeat(np.arange(20_000), 4)
    coarse = np.rint(rng.laplace(0, 1000, runs)).astype(np.int64)
    fine = np.rint(rng.laplace(0, 1000, 4 * runs)).astype(np.int64)
    variance = np.add.reduceat(reconcile(coarse, fine, inside), np.arange(0, 4 * runs, 4)).var() / 1000**2
    # 1 / (1/2 + 1/8) = 1.6, against 2 of the block alone; kurtosis ≤ 6, so the error of the variance is ≤ 1.6 √(5/n).
    assert variance == pytest.approx(1.6, abs=4.9 * 1.6 * math.sqrt(5 / runs))


@BOTH
@SHAPES
def test_infinite_epsilon_gives_the_truth_back(kind: type[UniformGrid | AdaptiveGrid], shape: tuple[int, int]) -> None:
    grid = plane(*shape)
    people = np.arange(grid.cells).reshape(shape) % 5 + (grid.cells == 1)
    for guess in (None, 3):
        estimate = noiseless(kind(grid, 1, people=guess)).run(counts_of(grid, people), Simulation(1))
        assert estimate.total == people.sum()
        assert np.allclose(estimate.density.dense().values, people / people.sum(), rtol=1e-12, atol=0)


@BOTH
@SHAPES
def test_a_huge_epsilon_comes_close_to_the_truth(
    kind: type[UniformGrid | AdaptiveGrid], shape: tuple[int, int]
) -> None:
    grid = plane(*shape)
    people = np.full(shape, 1000)
    people[0, 0] = 50_000
    estimate = kind(grid, 500).run(counts_of(grid, people), Simulation(1))
    assert estimate.total == pytest.approx(people.sum(), rel=1e-3)
    assert np.allclose(estimate.density.dense().values, people / people.sum(), rtol=0.01)


@BOTH
def test_more_people_give_finer_blocks(kind: type[UniformGrid | AdaptiveGrid]) -> None:
    grid = plane(128, 128)
    people = np.zeros(grid.shape, dtype=np.int64)
    people[:40, :40] = 1
    found = [
        blocks_in(kind(grid, 1).run(counts_of(grid, people * factor), Simulation(2)).density.dense())
        for factor in (1, 10, 100)
    ]
    assert found[0] < found[1] < found[2]


def test_the_adaptive_grid_is_finer_where_people_are() -> None:
    grid = plane(100, 100)
    people = np.zeros(grid.shape, dtype=np.int64)
    people[20:30, 50:60] = 100
    density = AdaptiveGrid(grid, 1).run(counts_of(grid, people), Simulation(3)).density.dense().values
    inside, outside = density[20:30, 50:60], density[80:90, 10:20]
    assert len(np.unique(inside)) > 50 * len(np.unique(outside))


@BOTH
def test_the_guess_sets_the_size_and_saves_the_count(kind: type[UniformGrid | AdaptiveGrid]) -> None:
    grid = plane(128, 128)
    people = np.ones(grid.shape, dtype=np.int64)
    few, many = (kind(grid, 1, people=guess).run(counts_of(grid, people), Simulation(1)) for guess in (100, 10**6))
    assert blocks_in(few.density.dense()) < blocks_in(many.density.dense())
    assert len(kind(grid, 1, people=100).event(MASS).events) == len(kind(grid, 1).event(MASS).events) - 1


@BOTH
def test_many_grids_spend_all_they_declare_and_no_more(kind: type[UniformGrid | AdaptiveGrid]) -> None:
    for epsilon, bound, guess in itertools.product(("0.001", "1/3", 1, 50), (1, 5, MASS), (None, 1000)):
        mechanism = kind(plane(8, 8), epsilon, people=guess)
        spent = compose([mechanism.event(bound)]).epsilon
        assert mechanism.epsilon * Fraction(999_999, 1_000_000) <= spent <= mechanism.epsilon


@BOTH
def test_nobody_is_the_uniform_map(kind: type[UniformGrid | AdaptiveGrid]) -> None:
    grid = plane(8, 8)
    nobody = counts_of(grid, np.zeros(grid.shape, dtype=np.int64))
    assert (noiseless(kind(grid, 1)).run(nobody, Simulation(1)).density.dense().values == 1 / 64).all()
    for seed in range(20):
        assert np.isfinite(kind(grid, 1).run(nobody, Simulation(seed)).density.dense().values).all()


@BOTH
def test_a_city_is_seen_where_flat_is_swamped(kind: type[UniformGrid | AdaptiveGrid]) -> None:
    """500 people in 10 clusters on 128 × 128 cells, epsilon 1: most of the map is right."""
    grid = plane(128, 128)
    table = mixture(people=500, clusters=10, sparsity=0.1, size=128, seed=4)
    cells = np.zeros(grid.shape, dtype=np.int64)
    each = np.bincount(table["person"])
    rows, cols = (np.asarray(table[axis] * 128, dtype=np.int64) for axis in ("y", "x"))
    np.add.at(cells, (rows, cols), MASS // each[table["person"]])
    rows, cols = np.nonzero(cells)
    counts = Counts.from_cells(grid, rows, cols, cells[rows, cols], bound=MASS, one=MASS, unit=Unit.PERSON)
    truth = Density.from_mass(grid, cells).smooth(3).values

    def similarity(mechanism: Flat | UniformGrid | AdaptiveGrid) -> float:
        maps = [mechanism.run(counts, Simulation(seed)).density.dense().smooth(3).values for seed in range(3)]
        return float(np.mean([np.minimum(truth, found).sum() for found in maps]))

    assert similarity(kind(grid, 1)) > 0.6
    assert similarity(kind(grid, 1)) > similarity(Flat(grid, 1)) + 0.2


@BOTH
@pytest.mark.parametrize("people", [0, -5, 2.5, True, "many"])
def test_a_bad_guess_gets_a_sentence(kind: type[UniformGrid | AdaptiveGrid], people: object) -> None:
    with pytest.raises(
        InvalidInput, match=r"give about how many people you expect \(or leave it out\), a whole number from 1 to"
    ):
        kind(plane(4, 4), 1, people=people)  # type: ignore[arg-type]


@BOTH
def test_a_huge_grid_is_refused(kind: type[UniformGrid | AdaptiveGrid]) -> None:
    with pytest.raises(TooLarge, match="coarser grid"):
        kind(plane(2**20, 2**20), 1)
