"""The dynamic program against HiGHS, on the reduced problem and on the paper's own at full resolution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import block_array, coo_array, eye_array

from heathaze.central.tree_fit import Level, TreeFit, fit_tree
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, exists, interleave, nodes_at


def random_tree(grid: Grid, top: int, w: int, rng: np.random.Generator) -> list[Level]:
    """Selected nodes with noisy counts, negatives among them, as Algorithm 2 leaves them."""
    measured: list[Level] = []
    cells = nodes_at(grid, grid.depth)
    truth = rng.integers(0, 40, len(cells)) * (rng.random(len(cells)) < 0.3)
    for level in range(top, grid.depth + 1):
        nodes = nodes_at(grid, level) if level == top else children(measured[-1].codes)
        nodes = nodes[exists(grid, level, nodes)]
        inside = (cells >> (2 * (grid.depth - level)))[:, None] == nodes[None, :]
        counts = truth @ inside + rng.integers(-30, 30, len(nodes))
        kept = np.sort(rng.permutation(len(nodes))[: max(w, 1) if level > top else len(nodes)])
        measured.append(Level(nodes[kept], counts[kept]))
    return measured


def full_program(grid: Grid, top: int, measured: list[Level]) -> float:
    """The optimum of the paper's linear program with one variable a cell, all measured levels in full (errata E0-5)."""
    rows, cols = np.divmod(np.arange(grid.cells), grid.cols)
    cell_codes = interleave(rows, cols)
    blocks, targets, weights = [], [], []
    for i, level in enumerate(measured):
        nodes = nodes_at(grid, top + i)
        place = np.searchsorted(nodes, cell_codes >> (2 * (grid.depth - top - i)))
        blocks.append(coo_array((np.ones(grid.cells), (place, np.arange(grid.cells))), shape=(len(nodes), grid.cells)))
        target = np.zeros(len(nodes))
        target[np.searchsorted(nodes, level.codes)] = level.counts
        targets.append(target)
        weights.append(np.full(len(nodes), 2.0 ** -(top + i)))
    design = block_array([[block] for block in blocks]).tocsr()
    target, weight = np.concatenate(targets), np.concatenate(weights)
    # min Σ w (u + v)  subject to  P s + u − v = c,  s, u, v ≥ 0
    system = block_array([[design, eye_array(len(target)), -eye_array(len(target))]])
    solved = linprog(np.concatenate([np.zeros(grid.cells), weight, weight]), A_eq=system, b_eq=target, method="highs")
    assert solved.success
    return float(solved.fun)


def objective(grid: Grid, top: int, measured: list[Level], fit: TreeFit) -> float:
    """Cost of a fit over all nodes of the measured levels, left-out mass spread over its cells."""
    cost = 0.0
    for i, level in enumerate(measured):
        here = top + i
        nodes = nodes_at(grid, here)
        mass = np.zeros(len(nodes))
        for at, code, amount in zip(fit.levels, fit.codes, fit.mass, strict=True):
            if at >= here:
                mass[np.searchsorted(nodes, code >> (2 * (at - here)))] += amount
            else:  # below a left-out node all counts are zero, so any spread costs the same
                shift = 2 * (here - at)
                below = nodes[(nodes >> shift) == code]
                mass[np.searchsorted(nodes, below[0])] += amount
        target = np.zeros(len(nodes))
        target[np.searchsorted(nodes, level.codes)] = level.counts
        cost += 2.0**-here * np.abs(target - mass).sum()
    return cost


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2),
    st.integers(1, 12),
    st.sampled_from([(1, 1), (2, 2), (8, 8), (16, 16), (5, 3), (3, 11), (1, 9), (32, 32)]),
)
def test_equals_the_linear_program_at_full_resolution(seed: int, top: int, w: int, shape: tuple[int, int]) -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), shape=shape)
    top = min(top, grid.depth)
    measured = random_tree(grid, top, w, np.random.default_rng(seed))
    fit = fit_tree(grid, top, measured)
    ours, theirs = objective(grid, top, measured, fit), full_program(grid, top, measured)
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)


def test_a_worse_fit_costs_more() -> None:
    """The objective can tell: moving one unit away from the optimum never helps, and often hurts."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=16)
    measured = random_tree(grid, 1, 6, np.random.default_rng(3))
    fit = fit_tree(grid, 1, measured)
    best = objective(grid, 1, measured, fit)
    costs = []
    for k in range(len(fit.mass)):
        worse = fit.mass.copy()
        worse[k] += 1
        costs.append(objective(grid, 1, measured, TreeFit(fit.levels, fit.codes, worse)))
    assert min(costs) >= best
    assert max(costs) > best


def test_consistent_counts_are_reproduced_exactly() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), shape=(6, 7))
    truth = np.random.default_rng(5).integers(0, 50, (6, 7))
    codes = interleave(*np.divmod(np.arange(42), 7))
    order = np.argsort(codes)
    measured = [Level(codes[order], truth.ravel()[order])]
    for _ in range(grid.depth):
        parents, first = np.unique(measured[0].codes >> 2, return_index=True)
        measured.insert(0, Level(parents, np.add.reduceat(measured[0].counts, first)))
    fit = fit_tree(grid, 0, measured)
    assert (fit.levels == grid.depth).all()
    fitted = np.zeros(42, dtype=int)
    fitted[np.searchsorted(codes[order], fit.codes)] = fit.mass
    assert (fitted == truth.ravel()[order]).all()


def test_skipped_levels_left_in_the_objective_would_empty_the_map() -> None:
    """Errata E0-5, the known bug put back: rows of unmeasured levels with target 0 make the zero map optimal."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=16)
    truth = np.zeros(16, dtype=int)
    truth[5] = 200
    measured = [Level(np.arange(16), truth)]
    for level in (3, 4):
        child = measured[-1].codes[np.argmax(measured[-1].counts)] * 4
        measured.append(Level(np.arange(child, child + 4), np.array([200, 0, 0, 0])))
        assert level == len(measured) + 1
    right = fit_tree(grid, 2, measured)
    assert right.mass.sum() == 200
    zero_above = [Level(np.array([0]), np.array([0])), Level(np.arange(4), np.zeros(4, dtype=int))]
    wrong = fit_tree(grid, 0, zero_above + measured)
    assert wrong.mass.sum() == 0


def test_ties_are_divided_evenly() -> None:
    """Errata E0-8: a node of 10 whose children were left out gives each child its share; remainders go to the first."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=4)
    measured = [Level(np.array([0]), np.array([10])), Level(np.array([2]), np.array([10]))]
    measured.append(Level(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)))
    fit = fit_tree(grid, 0, measured)
    assert fit.codes.tolist() == [8, 9, 10, 11]
    assert fit.mass.tolist() == [3, 3, 2, 2]


def test_a_tie_is_divided_among_selected_children_within_their_room() -> None:
    """Children of 1, 9 and 9 under a node of 13: each takes what it has room for at the common slope."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    fit = fit_tree(grid, 0, [Level(np.array([0]), np.array([13])), Level(np.array([0, 1, 3]), np.array([1, 9, 9]))])
    assert dict(zip(fit.codes.tolist(), fit.mass.tolist(), strict=True)) == {0: 1, 1: 6, 3: 6}


def test_cost_does_not_grow_with_the_resolution() -> None:
    """A grid of 2^20 cells a side is fitted as a coarse one is: only selected nodes count."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=2**20)
    measured = [Level(np.arange(16), np.full(16, 100))]
    for _ in range(3, 21):
        nodes = children(measured[-1].codes)[:20]
        measured.append(Level(nodes, np.full(20, 5)))
    fit = fit_tree(grid, 2, measured)
    assert fit.mass.sum() > 0
    assert len(fit.mass) < 2000
