"""Partitions against brute force: every cell, one at a time, walked up to the deepest node that holds it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.domain.partition import Partition, cell_codes
from heathaze.domain.quadtree import exists, node_areas
from heathaze.errors import HeathazeError, InvalidInput
from heathaze.privacy.randomness import Simulation

GRID = Grid.plane(x=(0, 4), y=(0, 4), size=4)


def plane(rows: int, cols: int) -> Grid:
    return Grid.plane(x=(0, cols), y=(0, rows), shape=(rows, cols))


SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 40)) | st.sampled_from(
    [(1, 37), (23, 1), (1, 1), (2, 3), (33, 17)]
)


@st.composite
def partitions(draw) -> Partition:
    """A partition after some rounds of random splits and collapses, with holes and orphans torn into it."""
    grid = plane(*draw(SHAPES))
    partition = Partition.whole_level(grid, draw(st.integers(0, min(2, grid.depth))))
    coins = Simulation(draw(st.integers(0, 10**6)))
    for _ in range(draw(st.integers(0, 4))):
        split, collapse = coins.uniforms(2 * len(partition)).reshape(2, -1) < [[0.4], [0.3]]
        partition = partition.changed(split, collapse)
    # Nodes taken out at random leave grandchildren without a parent.
    kept = coins.uniforms(len(partition.levels)) < 0.8
    kept[0] = True
    return Partition(grid, partition.levels[kept], partition.codes[kept])


def owners(partition: Partition) -> np.ndarray:
    """The node of each cell by longest prefix, in Python's own integers."""
    nodes = {node: k for k, node in enumerate(zip(partition.levels.tolist(), partition.codes.tolist(), strict=True))}
    depth = partition.grid.depth
    found = []
    for code in cell_codes(partition.grid).tolist():
        prefixes = ((level, code >> 2 * (depth - level)) for level in range(depth, -1, -1))
        found.append(next(nodes[prefix] for prefix in prefixes if prefix in nodes))
    return np.array(found)


@given(partitions())
def test_a_cell_belongs_to_the_deepest_node_that_holds_it(partition: Partition) -> None:
    owner = owners(partition)
    assert partition.areas.tolist() == np.bincount(owner, minlength=len(partition.levels)).tolist()
    assert partition.regions.tolist() == sorted(set(owner.tolist()))
    assert partition.regions[partition.locate(cell_codes(partition.grid))].tolist() == owner.tolist()
    assert partition.region_areas.sum() == partition.grid.cells
    assert len(partition) == len(set(owner.tolist()))


@given(partitions())
def test_squares_are_disjoint_and_complete(partition: Partition) -> None:
    grid = partition.grid
    levels, codes, entries = partition.squares()
    painted = np.full(4**grid.depth, -1)
    for level, code, entry in zip(levels.tolist(), codes.tolist(), entries.tolist(), strict=True):
        size = 4 ** (grid.depth - level)
        cells = slice(code * size, (code + 1) * size)
        assert (painted[cells] == -1).all(), "two squares overlap"
        painted[cells] = entry
    cells = cell_codes(grid)
    assert np.array_equal(painted[cells], partition.locate(cells))
    assert node_areas(grid, levels, codes).sum() == grid.cells
    assert all(exists(grid, int(level), codes[levels == level]).all() for level in np.unique(levels))


@given(partitions(), st.integers(0, 10**6))
def test_sums_undo_density(partition: Partition, seed: int) -> None:
    values = Simulation(seed).uniforms(len(partition)) + 0.01
    found = partition.density(values)
    assert partition.sums(found) == pytest.approx(values / values.sum(), abs=1e-12)
    # Flat within a region: what is in a cell is its region's share of the cells.
    cells = found.dense().values.ravel()
    entries = partition.locate(cell_codes(partition.grid))
    assert cells == pytest.approx((values / values.sum() / partition.region_areas)[entries], abs=1e-12)


def test_what_is_negative_counts_as_nothing() -> None:
    quarters = Partition.whole_level(GRID, 1)
    assert quarters.sums(quarters.density(np.array([-5.0, 1.0, 3.0, -0.1]))).tolist() == [0, 0.25, 0.75, 0]
    assert quarters.density(np.full(4, -1.0)).dense().values == pytest.approx(Density.uniform(GRID).values)


@given(partitions(), st.integers(0, 10**6))
def test_the_next_partition_is_the_old_one_with_what_was_asked_for(partition: Partition, seed: int) -> None:
    grid = partition.grid
    split, collapse = Simulation(seed).uniforms(2 * len(partition)).reshape(2, -1) < 0.5
    changed = partition.changed(split, collapse)
    assert (changed.levels[0], changed.codes[0]) == (0, 0), "the root is lost"
    assert changed.levels.max() <= grid.depth
    before = set(zip(partition.levels.tolist(), partition.codes.tolist(), strict=True))
    nodes = [tuple(pair) for pair in np.stack([partition.levels, partition.codes])[:, partition.regions].T.tolist()]
    after = before - {node for node, go in zip(nodes, collapse, strict=True) if go and node[0] > 0}
    for level, code in (node for node, go in zip(nodes, split, strict=True) if go and node[0] < grid.depth):
        born = [(level + 1, 4 * code + k) for k in range(4)]
        after |= {node for node in born if exists(grid, node[0], np.array([node[1]]))[0]}
    assert set(zip(changed.levels.tolist(), changed.codes.tolist(), strict=True)) == after


def test_splitting_everything_ends_at_the_cells() -> None:
    for grid in (plane(5, 3), plane(1, 9), plane(8, 8)):
        partition = Partition.whole_level(grid, 0)
        for _ in range(grid.depth + 2):
            partition = partition.changed(np.ones(len(partition), bool), np.zeros(len(partition), bool))
        assert len(partition) == grid.cells
        assert partition == Partition.whole_level(grid, grid.depth)


def test_collapsing_everything_ends_at_the_root() -> None:
    partition = Partition.whole_level(plane(7, 5), 3)
    for _ in range(5):
        partition = partition.changed(np.zeros(len(partition), bool), np.ones(len(partition), bool))
    assert partition == Partition.whole_level(plane(7, 5), 0)
    assert partition.areas.tolist() == [35]


def test_a_collapsed_child_falls_to_its_parent_and_an_orphan_stays() -> None:
    quarters = Partition.whole_level(GRID, 1)
    fewer = quarters.changed(np.zeros(4, bool), np.array([True, False, False, False]))
    assert fewer.areas.tolist() == [4, 4, 4, 4]
    assert fewer.regions.tolist() == [0, 1, 2, 3]
    both = quarters.changed(np.array([True, False, False, False]), np.array([True, False, False, False]))
    assert both.areas.tolist() == [0, 4, 4, 4, 1, 1, 1, 1], "the grandchildren have no parent and stay"


@given(SHAPES, st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([0.0, 0.02, 0.3, 1.0]))
def test_a_partition_that_suits_a_density_splits_the_fullest_squares(
    shape: tuple[int, int], seed: int, regions: int, least: float
) -> None:
    grid = plane(*shape)
    density = Density.from_mass(grid, Simulation(seed).uniforms(grid.cells).reshape(shape) ** 6)
    found = Partition.suited_to(density, regions, least)
    assert len(found) <= max(1, regions)
    assert found.areas.sum() == grid.cells
    nodes = set(zip(found.levels.tolist(), found.codes.tolist(), strict=True))
    mass = dict(zip(cell_codes(grid).tolist(), density.values.ravel().tolist(), strict=True))

    def share(level: int, code: int) -> float:
        return sum(here for cell, here in mass.items() if cell >> 2 * (grid.depth - level) == code)

    split = {(level - 1, code >> 2) for level, code in nodes if level > 0}
    assert split <= nodes, "whatever is split lies in something that is split"
    whole = [node for node in nodes - split if node[0] < grid.depth]
    assert all(share(*node) > least - 1e-12 for node in split)
    if split and whole and len(split) == (regions - 1) // 3:
        assert min(share(*node) for node in split) >= max(share(*node) for node in whole) - 1e-12
    elif (regions - 1) // 3 > len(split):
        assert all(share(*node) <= least + 1e-12 for node in whole), "nothing was left that could be split"


def test_codes_interleave_row_and_column_bits() -> None:
    """Errata E3-11: one code names one square at every depth, and a place's code begins with those above it."""
    grid = Grid.plane(x=(0, 16), y=(0, 16), size=16)
    row, col, _ = grid.cell_of([12.5], [5.5])
    assert (int(row[0]), int(col[0])) == (5, 12)
    code = int(cell_codes(grid)[5 * 16 + 12])
    # Rows 0101, columns 1100: pairs (row bit, column bit) 01 11 00 10.
    assert format(code, "08b") == "01110010"
    for level, prefix in ((1, 0b01), (2, 0b0111), (3, 0b011100)):
        partition = Partition(grid, np.array([0, level]), np.array([0, prefix]))
        assert partition.locate(np.array([code])).tolist() == [1]


@pytest.mark.parametrize(
    ("levels", "codes", "sentence"),
    [
        ([], [], "whole numbers|1 to"),
        ([0, 1], [0], "one level and one code each"),
        ([[0]], [[0]], "one level and one code each"),
        ([0, 3], [0, 0], "does not have"),
        ([0, -1], [0, 0], "does not have"),
        ([0, 1], [0, 4], "does not have"),
        ([0, 1], [0, -1], "does not have"),
        ([0, 1, 1], [0, 2, 2], "twice"),
        ([1, 1], [0, 1], "lacks the root"),
        ([0.0, 1.0], [0, 1], "whole numbers"),
        ([0, 1], [0, float("nan")], "whole numbers"),
        (["0"], ["0"], "whole numbers"),
        ([False], [False], "whole numbers"),
        ([0, 1], [0, 2**70], "whole numbers"),
        ([0, 2**62], [0, 2**62], "does not have"),
    ],
)
def test_bad_nodes_are_refused(levels: list, codes: list, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Partition(GRID, np.array(levels), np.array(codes))


def test_a_node_in_the_padding_is_refused() -> None:
    with pytest.raises(InvalidInput, match="in the padding"):
        Partition(plane(3, 1), np.array([0, 1]), np.array([0, 1]))
    with pytest.raises(InvalidInput, match="this grid has levels 0 to 2"):
        Partition.whole_level(GRID, 3)


@given(st.lists(st.integers(-2, 6), max_size=6), st.lists(st.integers(-2, 70), max_size=6))
def test_whatever_nodes_are_named_it_is_a_partition_or_a_sentence(levels: list[int], codes: list[int]) -> None:
    try:
        partition = Partition(plane(5, 3), np.array(levels, dtype=np.int64), np.array(codes, dtype=np.int64))
    except HeathazeError:
        return
    assert partition.areas.sum() == 15
    assert (partition.areas >= 0).all()


def test_equal_partitions_are_equal_whatever_the_order_of_their_nodes() -> None:
    one = Partition(GRID, np.array([0, 2, 1]), np.array([0, 15, 2]))
    other = Partition(GRID, np.array([1, 0, 2]), np.array([2, 0, 15]))
    assert one == other
    assert one != Partition.whole_level(GRID, 1)
    assert one != Partition(plane(4, 3), np.array([0]), np.array([0]))
    assert Partition(GRID, **{k: np.array(v) for k, v in one.to_dict().items()}) == one
    with pytest.raises(ValueError, match="read-only"):
        one.levels[0] = 1


def test_the_largest_grid_costs_what_its_nodes_cost() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=2**20)
    corner = Partition(grid, np.array([0, 20]), np.array([0, 4**20 - 1]))
    assert corner.areas.tolist() == [4**20 - 1, 1]
    levels, codes, entries = corner.squares()
    assert node_areas(grid, levels, codes).sum() == 4**20
    assert len(levels) == 3 * 20 + 1
    assert entries.sum() == 1


def test_a_region_may_be_split_several_times_at_once() -> None:
    grid = plane(16, 16)
    quarters = Partition.whole_level(grid, 1)
    none = np.zeros(4, bool)
    found = quarters.changed(np.array([0, 1, 2, 9]), none)
    assert np.bincount(found.levels[found.regions]).tolist() == [0, 1, 4, 16, 64], "cells are not split"
    once = quarters.changed(np.array([1, 1, 1, 1]), none)
    again = once.changed(np.ones(16, int), np.zeros(16, bool))
    assert again == quarters.changed(np.full(4, 2), none)


def test_a_quarter_with_a_count_of_its_own_is_not_split_with_its_parent() -> None:
    grid = plane(8, 8)
    corner = Partition(grid, np.array([0, 1]), np.array([0, 3]))  # the root without its last quarter, and that quarter
    found = corner.changed(np.array([2, 0]), np.zeros(2, bool))
    assert len(found) == 12 + 1
    assert (1, 3) in set(zip(found.levels[found.regions].tolist(), found.codes[found.regions].tolist(), strict=True))
