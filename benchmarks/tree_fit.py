"""Compare the exact tree fit of the pyramid with HiGHS on the reduced linear program: w = 200, 4096 cells a side."""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from heathaze.central import Pyramid
from heathaze.central.tree_fit import Level, fit_tree
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children
from heathaze.ingest.counts import Counts
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation

WANTED = 10.0


def main() -> None:
    """Print both times on the same noisy trees, and the ratio."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=4096)
    pyramid = Pyramid(grid, epsilon=1, w=200)
    counts = _people(grid)
    trees = [pyramid.measure(counts, Simulation(seed)) for seed in range(3)]
    fit_tree(grid, pyramid.top, trees[0])  # compiles
    begun = time.perf_counter()
    ours = [fit_tree(grid, pyramid.top, tree) for tree in trees]
    ours_seconds = (time.perf_counter() - begun) / len(trees)
    begun = time.perf_counter()
    theirs = [_highs(pyramid.top, tree) for tree in trees]
    theirs_seconds = (time.perf_counter() - begun) / len(trees)
    gap = max(
        abs(_cost(pyramid.top, tree, fit.levels, fit.codes, fit.mass) - cost) / cost
        for tree, fit, cost in zip(trees, ours, theirs, strict=True)
    )
    ratio = theirs_seconds / ours_seconds
    print(f"tree fit, {sum(len(level.codes) for level in trees[0])} nodes: {ours_seconds * 1e3:8.2f} ms")
    print(f"HiGHS on the reduced program:  {theirs_seconds * 1e3:8.2f} ms; largest relative gap {gap:.1e}")
    print(f"ratio {ratio:.0f} (wanted: at least {WANTED:.0f}): {'reached' if ratio >= WANTED else 'MISSED'}")


def _people(grid: Grid) -> Counts:
    rng = np.random.default_rng(1)
    place = np.clip(rng.normal(0.5, 0.15, (20_000, 2)), 0, 0.999999)
    cell, people = np.unique((place * grid.rows).astype(np.int64) @ [grid.cols, 1], return_counts=True)
    rows, cols = np.divmod(cell, grid.cols)
    return Counts.from_cells(grid, rows, cols, people * 2**20, bound=2**20, one=2**20, unit=Unit.PERSON)


def _variables(top: int, tree: list[Level]) -> tuple[np.ndarray, np.ndarray]:
    """The level and code of each variable: selected cells of the last level, and children that were not selected."""
    levels, codes = [np.full(len(tree[-1].codes), top + len(tree) - 1)], [tree[-1].codes]
    for i in range(len(tree) - 1):
        left_out = np.setdiff1d(children(tree[i].codes), tree[i + 1].codes)
        levels.append(np.full(len(left_out), top + i + 1))
        codes.append(left_out)
    return np.concatenate(levels), np.concatenate(codes)


def _highs(top: int, tree: list[Level]) -> float:
    """Solve the reduced linear program with HiGHS, and return its optimum.

    The program minimises Σ 2^(−i)(u + v) + Σ t_i x. The first sum is over nodes of level i with slacks u, v ≥ 0 such
    that (mass below the node) + u − v is the node's count; the second is over the masses x of unselected children.
    """
    bottom = top + len(tree) - 1
    levels, codes = _variables(top, tree)
    rows, cols, targets, weights = [], [], [], []
    start = 0
    for i, level in enumerate(tree):
        below = np.flatnonzero(levels >= top + i)
        ancestor = codes[below] >> (2 * (levels[below] - top - i))
        place = np.minimum(np.searchsorted(level.codes, ancestor), len(level.codes) - 1)
        held = level.codes[place] == ancestor
        rows.append(start + place[held])
        cols.append(below[held])
        targets.append(level.counts)
        weights.append(np.full(len(level.codes), 2.0 ** -(top + i)))
        start += len(level.codes)
    nodes, unknowns = start, len(codes)
    row, col = np.concatenate(rows), np.concatenate(cols)
    everyone = np.arange(nodes)
    system = coo_array(
        (
            np.concatenate([np.ones(len(row)), np.ones(nodes), -np.ones(nodes)]),
            (
                np.concatenate([row, everyone, everyone]),
                np.concatenate([col, unknowns + everyone, unknowns + nodes + everyone]),
            ),
        ),
        shape=(nodes, unknowns + 2 * nodes),
    ).tocsr()
    first_left_out = len(tree[-1].codes)
    left_out_cost = np.where(np.arange(unknowns) < first_left_out, 0.0, 2.0 ** (1.0 - levels) - 2.0**-bottom)
    weight = np.concatenate(weights)
    scale = 2.0**20
    solved = linprog(
        np.concatenate([left_out_cost, weight, weight]),
        A_eq=system,
        b_eq=np.concatenate(targets) / scale,
        method="highs",
    )
    return float(solved.fun) * scale


def _cost(top: int, tree: list[Level], levels: np.ndarray, codes: np.ndarray, mass: np.ndarray) -> float:
    """The objective of the linear program for a fit of our solver."""
    bottom = top + len(tree) - 1
    cost = 0.0
    for i, level in enumerate(tree):
        here = top + i
        below = levels >= here
        ancestor = codes[below] >> (2 * (levels[below] - here))
        place = np.minimum(np.searchsorted(level.codes, ancestor), len(level.codes) - 1)
        held = level.codes[place] == ancestor
        sums = np.bincount(place[held], weights=mass[below][held], minlength=len(level.codes))
        cost += 2.0**-here * float(np.abs(level.counts - sums).sum())
        left_out = (levels == here) & ~np.isin(codes, level.codes)
        cost += (2.0 ** (1 - here) - 2.0**-bottom) * float(mass[left_out].sum())
    return cost


if __name__ == "__main__":
    main()
