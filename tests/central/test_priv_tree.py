"""PrivTree: its theorem checked by enumerating every tree, its sampler against the enumerated law, its maps."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from heathaze.central import Flat, PrivTree
from heathaze.datasets import mixture
from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import children, deinterleave, exists, nodes_at
from heathaze.errors import InvalidInput
from heathaze.ingest.counts import Counts
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import BiasedSplits
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation
from heathaze.testing import noiseless
from heathaze.testing.statistics import chi_square

MASS = 2**20

Node = tuple[int, int]
Bias = Callable[[np.ndarray, int, int], np.ndarray]
"""(mass, depth, bias) ↦ biased mass."""


def plane(rows: int, cols: int) -> Grid:
    return Grid.plane(x=(0, cols), y=(0, rows), shape=(rows, cols))


def counts_on(grid: Grid, cells: dict[tuple[int, int], int], bound: int = MASS, one: int | None = None) -> Counts:
    rows, cols = np.array(list(cells), dtype=np.int64).reshape(-1, 2).T
    mass = list(cells.values())
    return Counts.from_cells(grid, rows, cols, mass, bound=bound, one=one or bound, unit=Unit.PERSON)


# ── the theorem, by enumeration ─────────────────────────────────────────────────────────────────────────────────────


def shapes(grid: Grid, node: Node = (0, 0)) -> list[frozenset[Node]]:
    """Every tree that can be grown below a node, each as the set of its split nodes."""
    level, code = node
    if level == grid.depth:
        return [frozenset()]
    below = children(np.array([code]))
    below = below[exists(grid, level + 1, below)]
    choices = itertools.product(*(shapes(grid, (level + 1, int(child))) for child in below))
    return [frozenset(), *(frozenset({node}).union(*choice) for choice in choices)]


def clamped(mass: np.ndarray, depth: int, bias: int) -> np.ndarray:
    """The paper's bias with θ = 0: max(c − depth · δ, θ − δ)."""
    return np.maximum(mass - depth * bias, -bias)


def not_clamped(mass: np.ndarray, depth: int, bias: int) -> np.ndarray:
    """What must not be done: deep nodes then each add their loss."""
    return mass - depth * bias


def log_law(grid: Grid, data: np.ndarray, scale: float, bias: int, biased: Bias = clamped) -> np.ndarray:
    """log Pr[tree] for each tree (rows, as in ``shapes``) and each dataset (columns); data: datasets × cells.

    With r = exp(−1/λ), Pr[b + X > 0] = r^(1−b)/(1 + r) for b ≤ 0, and 1 − r^b/(1 + r) for b ≥ 1.
    """
    r = math.exp(-1 / scale)
    codes = nodes_at(grid, grid.depth)
    log_split, log_leaf = {}, {}
    for level in range(grid.depth):
        for node in nodes_at(grid, level):
            inside = codes >> (2 * (grid.depth - level)) == node
            b = biased(data[:, inside].sum(axis=1), level, bias).astype(np.float64)
            low = (np.minimum(b, 0) - 1) / scale - math.log1p(r)
            high = -np.maximum(b, 1) / scale - math.log1p(r)
            log_split[level, int(node)] = np.where(b <= 0, low, np.log1p(-np.exp(high)))
            log_leaf[level, int(node)] = np.where(b <= 0, np.log1p(-np.exp(low)), high)
    rows = []
    for split in shapes(grid):
        reached = {(0, 0)} | {(level + 1, 4 * code + k) for level, code in split for k in range(4)}
        leaves = [node for node in log_leaf if node in reached and node not in split]
        rows.append(sum((log_split[node] for node in split), np.zeros(len(data))) + sum(log_leaf[n] for n in leaves))
    return np.array(rows)


def datasets(cells: int, bias: int, bound: int) -> np.ndarray:
    """Nobody; every cell alone and every pair of the first, second and last cell, with masses around every corner.

    On at most four cells all combinations of small masses as well.
    """
    around = [0, 1, bound, bias - bound, bias - 1, bias, bias + 1, 2 * bias, 3 * bias - 1, 3 * bias, 50 * bias]
    masses = sorted({mass for mass in around if mass >= 0})
    rows = [np.zeros(cells, dtype=np.int64)]
    for cell, mass in itertools.product(range(cells), masses):
        rows.append(np.eye(1, cells, cell, dtype=np.int64)[0] * mass)
    for pair in itertools.combinations(sorted({0, min(1, cells - 1), cells - 1}), 2):
        for both in itertools.product(masses, repeat=2):
            row = np.zeros(cells, dtype=np.int64)
            row[list(pair)] = both
            rows.append(row)
    if cells <= 4:
        rows += [np.array(mass) for mass in itertools.product([0, 1, 2, bound, bias, bias + 1], repeat=cells)]
    return np.unique(rows, axis=0)


def persons(cells: int, bound: int) -> Iterator[np.ndarray]:
    """One person of mass at most ``bound``: in one cell, in two near or far, over all cells, with less than allowed."""
    spreads: list[Sequence[int]] = [[0], [cells - 1], [0, 1 % cells], [0, cells - 1], range(cells)]
    for spread in spreads:
        person = np.zeros(cells, dtype=np.int64)
        for unit in range(bound):
            person[spread[unit % len(spread)]] += 1
        yield person
    yield np.eye(1, cells, 0, dtype=np.int64)[0]


def worst_loss(grid: Grid, bound: int, scale: float, bias: int, biased: Bias = clamped) -> float:
    """The largest |log Pr[tree | data] − log Pr[tree | data and one person]| over all trees, data and persons."""
    data = datasets(grid.cells, bias, bound)
    before = log_law(grid, data, scale, bias, biased)
    assert np.allclose(np.exp(before).sum(axis=0), 1)  # every tree was counted once
    return max(
        float(np.abs(log_law(grid, data + person, scale, bias, biased) - before).max())
        for person in persons(grid.cells, bound)
    )


GRIDS = [(1, 1), (2, 2), (4, 4), (3, 4), (1, 8), (2, 8), (1, 16)]
PROMISES = [(1, "0.1"), (4, "1/2"), (7, 2), (12, 1), (4, 16), (1, 40)]


@pytest.mark.parametrize(("bound", "epsilon"), PROMISES)
@pytest.mark.parametrize(("rows", "cols"), GRIDS)
def test_no_tree_betrays_a_person_beyond_the_price(rows: int, cols: int, bound: int, epsilon: str | int) -> None:
    splits = PrivTree(plane(rows, cols), epsilon).splits(bound)
    declared = Fraction(epsilon) / 2
    assert splits.epsilon <= declared
    assert worst_loss(plane(rows, cols), bound, float(splits.scale), splits.bias) <= float(splits.epsilon) + 1e-12


@pytest.mark.parametrize(("bound", "epsilon"), PROMISES[:4])
def test_the_price_is_not_much_too_high(bound: int, epsilon: str | int) -> None:
    """The enumeration looks where the loss is: on a narrow grid it reaches most of what is charged."""
    splits = PrivTree(plane(1, 16), epsilon).splits(bound)
    found = worst_loss(plane(1, 16), bound, float(splits.scale), splits.bias)
    assert found >= (0.9 if epsilon == "0.1" else 0.7) * float(splits.epsilon)


@pytest.mark.parametrize("bug", ["no bias", "no clamp", "one level", "no geometric term"])
def test_the_enumeration_finds_known_mistakes(bug: str) -> None:
    grid, bound, epsilon = plane(1, 16), 1, Fraction(1, 20)
    splits = PrivTree(grid, 2 * epsilon).splits(bound)
    scale, bias = float(splits.scale), splits.bias
    if bug == "one level":  # priced as if a person met one question only
        scale, bias = float(bound / epsilon), math.ceil(bound / epsilon * Fraction(math.log(4)))
    if bug == "no geometric term":  # priced as if the nodes far above the threshold were free
        scale, bias = float(2 * bound / epsilon), math.ceil(2 * bound / epsilon * Fraction(math.log(4)))
    if bug == "no bias":
        bias = 0
    biased = not_clamped if bug == "no clamp" else clamped
    assert worst_loss(grid, bound, scale, bias, biased) > 1.05 * float(epsilon)


@pytest.mark.parametrize(
    ("grid", "cells"),
    [
        (plane(4, 4), {}),
        (plane(4, 4), {(0, 0): 17, (3, 3): 9, (2, 3): 9}),
        (plane(3, 2), {(2, 1): 12}),
        (plane(1, 8), {(0, 5): 25}),
    ],
    ids=["nobody", "three cells", "padded", "narrow"],
)
def test_trees_are_grown_by_the_enumerated_law(grid: Grid, cells: dict[tuple[int, int], int]) -> None:
    """Chi-square over all tree shapes at alpha 1e-6."""
    tree, runs = PrivTree(grid, 2), 4000
    counts = counts_on(grid, cells, bound=4)
    splits = tree.splits(4)
    data = counts.at(grid.depth, nodes_at(grid, grid.depth))[None]
    law = np.exp(log_law(grid, data, float(splits.scale), splits.bias)[:, 0])
    randomness = Simulation(1)
    found = Counter(_split_nodes(tree.grow(counts, randomness)) for _ in range(runs))
    observed = [found[shape] for shape in shapes(grid)]
    assert sum(observed) == runs
    order = np.argsort(-law)
    assert chi_square(np.array(observed)[order], law[order] * runs) >= 1e-6
    uniform = np.full(len(law), 1 / len(law))
    assert chi_square(np.array(observed)[order], uniform * runs) < 1e-6  # and the test tells another law apart


def _split_nodes(leaves: dict[int, np.ndarray]) -> frozenset[Node]:
    """All ancestors of the leaves."""
    return frozenset(
        (level - up, int(code) >> (2 * up))
        for level, codes in leaves.items()
        for code in codes
        for up in range(1, level + 1)
    )


# ── prices ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_scale_is_the_papers() -> None:
    """λ = 7/3 · B/ε of the structure's half and δ = λ ln 4, whatever the depth."""
    for size in (2, 256, 2**20):
        splits = PrivTree(plane(size, size), epsilon=1).splits(MASS)
        assert float(splits.scale) == pytest.approx(14 / 3 * MASS, rel=1e-6)
        assert float(splits.bias / splits.scale) == pytest.approx(math.log(4), rel=1e-6)
        assert splits.bias >= splits.scale * Fraction(math.log(4))


@pytest.mark.parametrize("share", ["1/10", 0.5, "2/3"])
def test_many_trees_spend_all_they_declare_and_no_more(share: str | float) -> None:
    for epsilon, bound in itertools.product(("0.001", "0.1", "1/3", 1, 7.3, 50, 1000), (1, 5, 1000, MASS)):
        tree = PrivTree(plane(8, 8), epsilon, share=share)
        event = tree.event(bound)
        assert tree.epsilon * Fraction(999_999, 1_000_000) <= compose([event]).epsilon <= tree.epsilon
        structure = event.events[0]
        assert isinstance(structure, BiasedSplits)
        assert float(structure.epsilon / tree.epsilon) == pytest.approx(float(tree.share), rel=1e-5)


# ── maps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 2, 16, 2**20])
def test_infinite_epsilon_gives_the_truth_back(size: int) -> None:
    grid = plane(size, size)
    cells = {(0, 0): 3, (size - 1, size // 2): 5, (size // 2, size // 3): 1}
    estimate = noiseless(PrivTree(grid, epsilon=1)).run(counts_on(grid, cells, one=1), Simulation(1))
    assert isinstance(estimate.density, TreeDensity)
    assert estimate.total == sum(cells.values())
    assert (estimate.density.levels == grid.depth).all()
    places = zip(*(part.tolist() for part in deinterleave(estimate.density.codes)), strict=True)
    assert dict(zip(places, estimate.density.mass * estimate.total, strict=True)) == pytest.approx(cells)


def test_squares_are_finer_where_more_people_are() -> None:
    grid = plane(256, 256)
    finest = []
    for people in (0, 50, 500, 50_000):
        estimate = PrivTree(grid, epsilon=1).run(counts_on(grid, {(77, 200): people * MASS}), Simulation(3))
        assert isinstance(estimate.density, TreeDensity)
        finest.append(int(estimate.density.levels.max()))
    assert finest[0] <= 2 < finest[1] <= finest[2] <= finest[3]
    assert finest[3] == grid.depth


def test_leaves_tile_the_grid() -> None:
    """Every cell lies in one leaf, in padded grids too, so the leaves are a partition and cost one release."""
    grid = plane(37, 90)
    counts = counts_on(grid, {(3, 80): 90 * MASS, (36, 0): 40 * MASS})
    leaves = PrivTree(grid, epsilon=2).grow(counts, Simulation(5))
    assert len(leaves) > 3
    cells = nodes_at(grid, grid.depth)
    covered = sum(np.isin(cells >> (2 * (grid.depth - level)), codes).astype(int) for level, codes in leaves.items())
    assert (covered == 1).all()
    assert all(exists(grid, level, codes).all() for level, codes in leaves.items())


def test_a_huge_grid_costs_what_its_tree_costs() -> None:
    drawn = 0

    class Counting(Simulation):
        def fill(self, block: np.ndarray) -> None:
            nonlocal drawn
            drawn += len(block)
            super().fill(block)

    grid = plane(2**20, 2**20)
    estimate = PrivTree(grid, epsilon=1).run(counts_on(grid, {(5, 999_999): 10_000 * MASS}), Counting(1))
    assert 0 < drawn < 200_000
    assert estimate.total == pytest.approx(10_000, rel=0.05)


def test_nobody_is_the_uniform_map() -> None:
    grid = plane(8, 8)
    nobody = counts_on(grid, {})
    assert (noiseless(PrivTree(grid, 1)).run(nobody, Simulation(1)).density.dense().values == 1 / 64).all()
    assert np.isfinite(PrivTree(grid, 1).run(nobody, Simulation(1)).density.dense().values).all()


def test_a_city_is_seen_where_flat_is_swamped() -> None:
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

    def similarity(mechanism: Flat | PrivTree) -> float:
        maps = [mechanism.run(counts, Simulation(seed)).density.dense().smooth(3).values for seed in range(3)]
        return float(np.mean([np.minimum(truth, found).sum() for found in maps]))

    assert similarity(PrivTree(grid, 1)) > 0.6
    assert similarity(PrivTree(grid, 1)) > similarity(Flat(grid, 1)) + 0.2


@pytest.mark.parametrize("share", [0, 1, -0.5, 1.5, math.nan, math.inf, "half", None, True])
def test_a_bad_share_gets_a_sentence(share: object) -> None:
    with pytest.raises(InvalidInput, match=r"share is .*; give the part of epsilon that finds the squares"):
        PrivTree(plane(4, 4), 1, share=share)  # type: ignore[arg-type]
