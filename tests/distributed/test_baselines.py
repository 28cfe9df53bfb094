"""The baselines of table 1: what they promise, and that nothing but noise stands between them and the truth."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from heathaze import distributed
from heathaze.distributed import (
    AdaptiveGrid,
    Cohort,
    CountMin,
    Device,
    Flat,
    Hierarchical,
    Population,
    Question,
    SpatialDecomposition,
    Survey,
    simulate,
)
from heathaze.distributed.encodings import Mesh
from heathaze.distributed.levels import consistent_deviations, least_squares
from heathaze.distributed.mechanism import descend, divide_budget
from heathaze.distributed.question import LONGEST
from heathaze.distributed.simulate import best_level, true_sum
from heathaze.domain.grid import Grid
from heathaze.domain.partition import cell_codes
from heathaze.domain.quadtree import nodes_at
from heathaze.errors import InvalidInput, TooLarge
from heathaze.privacy.randomness import Simulation
from tests.distributed.parties import opened

pytestmark = pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
"""An ε above 10 on purpose: almost no noise, so that numbers are exact."""

Floats = npt.NDArray[np.float64]

BASELINES: dict[str, Callable[..., Any]] = {
    "Flat": Flat,
    "Hierarchical": Hierarchical,
    "CountMin": lambda grid, epsilon, **more: CountMin(grid, epsilon, width=64, depth=3, **more),
    "AdaptiveGrid": lambda grid, epsilon, **more: AdaptiveGrid(grid, epsilon, blocks=3, **more),
    "SpatialDecomposition": SpatialDecomposition,
}
NO_NOISE = 1000
"""An ε at which a number has noise with probability below e^−100: plumbing can be checked exactly."""

SQUARE = Grid.plane(x=(0, 16), y=(0, 16), size=16)
OBLONG = Grid.plane(x=(0, 11), y=(0, 6), shape=(6, 11))
EVERYBODY = Cohort(400, dropout=0, colluding=0)


def crowd(grid: Grid, people: int = 400, seed: int = 2) -> Population:
    """People around one corner, a few anywhere."""
    down, across = np.indices(grid.shape)
    return Population.from_raster(grid, 0.02 + np.exp(-(down + across) / 2.0), people, Simulation(seed))


def truth(population: Population) -> Floats:
    """How many people each cell holds, in the shape of the grid."""
    codes = cell_codes(population.grid)
    order = np.argsort(codes)
    place = order[np.searchsorted(codes[order], population.codes)]
    return np.bincount(place, minlength=population.grid.cells).reshape(population.grid.shape).astype(float)


def asked(mechanism: Any, cohort: Cohort = EVERYBODY, population: Population | None = None, seed: int = 1) -> Survey:
    people = crowd(mechanism.grid, cohort.people) if population is None else population
    return simulate(Survey(mechanism, cohort), people, randomness=Simulation(seed))


# ── what all of them keep ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("epsilon", ["1/7", 1, "2.5"])
@pytest.mark.parametrize("grid", [SQUARE, OBLONG])
def test_all_rounds_together_cost_epsilon(name: str, epsilon: str, grid: Grid) -> None:
    survey = asked(BASELINES[name](grid, epsilon))
    assert sum((one.question.epsilon for one in survey.rounds), Fraction(0)) == Fraction(epsilon)
    # Scales are rounded up, so what is kept may be a little less than what was paid.
    assert Fraction(epsilon) * (1 - Fraction(1, 10**6)) <= survey.guarantee.loss.epsilon <= Fraction(epsilon)
    assert survey.rounds[-1].question.final
    assert not any(one.question.final for one in survey.rounds[:-1])
    assert survey.ask() is None
    assert survey.numbers_sent == sum(len(one.totals) for one in survey.rounds)


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("grid", [SQUARE, OBLONG])
def test_without_noise_the_map_is_that_of_the_people_asked(name: str, grid: Grid) -> None:
    mechanism = BASELINES[name](grid, NO_NOISE)
    if name == "CountMin":
        mechanism = CountMin(grid, NO_NOISE, width=4096, depth=4, split_above=1e-3, least=True)
    if name == "AdaptiveGrid":
        mechanism = AdaptiveGrid(grid, NO_NOISE, blocks=3, people_a_piece=1e-6)
    survey = asked(mechanism)
    release = survey.estimate(draws=0)
    wanted = truth(crowd(grid)) / 400
    assert np.abs(release.density.dense().values - wanted).max() <= 1e-12
    assert release.total == pytest.approx(400, abs=1e-6)


@pytest.mark.parametrize("name", BASELINES)
def test_one_cell_is_a_map_too(name: str) -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=1)
    release = asked(BASELINES[name](grid, 1)).estimate(draws=0)
    assert release.density.dense().values.tolist() == [[1.0]]


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("mass", [1, 3])
def test_a_simulation_is_what_real_devices_add_up_to(name: str, mass: int) -> None:
    """One question of each round, answered by a device for everybody; ε so large that no device adds noise."""
    population = crowd(OBLONG, 40)
    mechanism = BASELINES[name](OBLONG, NO_NOISE, mass=mass)
    survey = asked(mechanism, Cohort(40, dropout=0, colluding=0), population)
    row, col = np.nonzero(truth(population))
    places = np.repeat(np.column_stack([col, row]) + 0.5, truth(population)[row, col].astype(int), axis=0)
    devices = [Device([place], budget=NO_NOISE) for place in places]
    real = dataclasses.replace(survey, rounds=())
    for number, one in enumerate(survey.rounds):
        question = Question.from_dict(json.loads(json.dumps(one.question.to_dict())))
        real = real.answered([opened(question, devices, Simulation(number))])
        assert real.rounds[-1].totals.tolist() == one.totals.tolist()
    assert len(real.rounds) == len(survey.rounds)
    assert not any(device.remaining for device in devices)


@pytest.mark.parametrize("name", BASELINES)
def test_several_places_weigh_one_person(name: str) -> None:
    person = np.repeat(np.arange(30), 3)
    x, y = np.tile([0.5, 4.5, 9.5], 30), np.tile([0.5, 3.5, 5.5], 30)
    population = Population.from_table(OBLONG, person, x, y)
    mechanism = BASELINES[name](OBLONG, 1, mass=601)
    for one in asked(mechanism, Cohort(30, dropout=0, colluding=0), population).rounds:
        total = true_sum(one.question, population, np.arange(30), Simulation(1))
        start = 0
        for part, length in zip(one.question.parts, one.question.lengths, strict=True):
            assert total[start : start + length].sum() == 30 * 601 * part.encoding.touched
            start += length


@pytest.mark.parametrize("name", BASELINES)
def test_noise_has_the_size_that_its_sensitivity_asks_for(name: str) -> None:
    """Empty entries hold noise alone: its mean square against that of discrete Laplace noise of scale Δ/ε.

    The square of a Laplace number has a deviation of √5 times its mean; eight of the mean's leave less than 1e-6 to
    chance, with its long tail. A sketch that forgot its levels or its rows (errata E3-11) would be off by their square.
    """
    grid = Grid.plane(x=(0, 64), y=(0, 64), size=64)
    mechanism = AdaptiveGrid(grid, "1/4", blocks=32) if name == "AdaptiveGrid" else BASELINES[name](grid, "1/4")
    corner = Population(grid, np.zeros(20, dtype=np.int64), np.arange(21))
    survey = asked(mechanism, Cohort(20, dropout=0, colluding=0), corner)
    touched = {"CountMin": 6 * 3}.get(name, 1)
    checked = 0
    for one in survey.rounds:
        start = 0
        for part, length in zip(one.question.parts, one.question.lengths, strict=True):
            noise = one.totals[start : start + length].copy()
            noise[np.unique(part.encoding.entries(corner.codes))] -= 20
            start += length
            rate = float(part.epsilon) / touched
            expected = 1 / (2 * math.sinh(rate / 2) ** 2)
            if length >= 1000:
                assert abs((noise.astype(float) ** 2).mean() / expected - 1) < 8 * math.sqrt(5 / length)
                checked += 1
    assert checked >= 1


@pytest.mark.parametrize("name", BASELINES)
def test_public_parameters_are_plain(name: str) -> None:
    mechanism = BASELINES[name](SQUARE, "1/3")
    fields = {field.name for field in dataclasses.fields(mechanism)} - {"grid"}
    assert set(mechanism.parameters()) == fields
    assert json.loads(json.dumps(mechanism.parameters()))["epsilon"] == "1/3"
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.mass = 2
    assert name in distributed.__all__


@pytest.mark.parametrize("name", BASELINES)
def test_parameters_that_make_no_sense_are_refused(name: str) -> None:
    kind = getattr(distributed, name)
    fields = {field.name for field in dataclasses.fields(kind)}
    bad: dict[str, list[Any]] = {
        "epsilon": [0, -1, math.inf, math.nan, "much", 1e-9],
        "mass": [0, 2**31, 1.0, True],
        "level": [-1, 5, 1.0, True],
        "split_above": [0, -1.0, math.inf, math.nan],
        "width": [1, 2.0, True],
        "depth": [0, 1.0],
        "seed": [-1, 0.5],
        "blocks": [0, 1025, 2.0],
        "alpha": [0, 1, math.nan],
        "people_a_piece": [0, -1, math.inf],
    }
    assert fields - {"grid", "least"} <= set(bad)
    for field, values in bad.items():
        for value in values if field in fields else []:
            with pytest.raises(InvalidInput, match=r"; (give|this grid has|below 1e-06)|promises nothing"):
                kind(SQUARE, **({"epsilon": 1} | {field: value}))


def test_maps_too_fine_for_devices_are_refused() -> None:
    fine = Grid.plane(x=(0, 1), y=(0, 1), size=2**13)
    for kind in (Flat, Hierarchical, SpatialDecomposition):
        with pytest.raises(TooLarge, match="AdaptiveQuadtree"):
            kind(fine, 1)
        assert kind(fine, 1, level=5).ask(EVERYBODY, ()) is not None
    with pytest.raises(TooLarge, match="coarser"):
        AdaptiveGrid(fine, 1)
    with pytest.raises(TooLarge, match=r"520000000 integers.*coarser level"):
        CountMin(fine, 1, width=2_000_000)
    with pytest.raises(InvalidInput, match="4 levels, which leaves one of them almost nothing"):
        Hierarchical(SQUARE, "0.000002")


# ── one by one ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_flat_takes_the_level_that_was_asked_for() -> None:
    survey = asked(Flat(OBLONG, NO_NOISE, level=2))
    assert survey.numbers_sent == 2 * 3
    found = survey.estimate(draws=0).density.dense().values
    people = truth(crowd(OBLONG))
    assert found[0, 0] == pytest.approx(people[:4, :4].sum() / 16 / 400)
    assert found[5, 10] == pytest.approx(people[4:, 8:].sum() / 6 / 400)  # cut off by the border: 2 × 3 cells


def test_a_budget_is_shared_exactly() -> None:
    for epsilon, weights in itertools.product(
        ("1", "1/3", "7"), ([1.0] * 10, [2 ** (k / 3) for k in range(10)], [3.0])
    ):
        parts = divide_budget(Fraction(epsilon), weights)
        assert sum(parts) == Fraction(epsilon)
        for part, weight in zip(parts, weights, strict=True):
            assert float(part) == pytest.approx(float(Fraction(epsilon)) * weight / sum(weights), abs=2e-5)


def test_the_budget_of_spatial_decomposition_grows_towards_the_leaves() -> None:
    inquiry = SpatialDecomposition(SQUARE, 1).ask(EVERYBODY, ())
    assert inquiry is not None
    spent = [float(part.epsilon) for part in inquiry.parts]
    assert np.divide(spent[1:], spent[:-1]).tolist() == pytest.approx([2 ** (1 / 3)] * 3, rel=1e-4)


def test_descent_goes_where_people_are_and_no_further() -> None:
    """10 people in one cell, noise 1: the corner is followed down while it holds more than 8, the rest stays whole."""
    held = {(level, 0): 10.0 for level in range(1, 5)}

    def counts(level: int, codes: npt.NDArray[np.int64]) -> Floats:
        return np.array([held.get((level, int(code)), 0.0) for code in codes])

    deep = descend(SQUARE, 4, counts, lambda _: 1.0, 8.0)
    assert deep.levels.tolist() == [4]
    assert deep.codes.tolist() == [0]
    assert descend(SQUARE, 3, counts, lambda _: 1.0, 8.0).levels.tolist() == [3]
    assert descend(SQUARE, 4, counts, lambda level: 1.0 if level < 4 else 2.0, 8.0).levels.tolist() == [3]
    shallow = descend(SQUARE, 4, counts, lambda _: 1.0, 10.0)
    assert (shallow.levels.tolist(), shallow.codes.tolist()) == ([1], [0])


def test_descent_counts_negative_squares_as_nothing() -> None:
    found = descend(SQUARE, 1, lambda _, codes: np.array([-3.0, 1.0, 3.0, -1.0])[codes], lambda _: 1.0, 2.0)
    assert dict(zip(found.codes.tolist(), found.mass.tolist(), strict=True)) == {1: 0.25, 2: 0.75}


@pytest.mark.parametrize("width", [3, 17, 500])
def test_a_sketch_never_underestimates_without_noise(width: int) -> None:
    mechanism = CountMin(SQUARE, NO_NOISE, width=width, depth=3, least=True)
    people = truth(crowd(SQUARE))
    totals = asked(mechanism).rounds[-1].counts()
    over = 0
    for level in range(1, 5):
        side = 16 >> level
        squares = people.reshape(16 // side, side, 16 // side, side).sum(axis=(1, 3))
        codes = nodes_at(SQUARE, level)
        row, col = np.divmod(np.arange(len(codes)), 16 // side)
        order = np.argsort(cell_codes(Grid.plane(x=(0, 1), y=(0, 1), size=16 // side)))
        wanted = squares[row, col][order]
        found = mechanism.counts(totals, level, codes)
        assert (found >= wanted).all()
        over += int((found > wanted).sum())
    assert (over > 0) == (width < 500)


def test_the_mean_of_a_sketch_is_right_on_average() -> None:
    """Over 400 families of hash functions, without noise: within 5 standard errors of the people in a square."""
    people = truth(crowd(SQUARE))
    population = crowd(SQUARE)
    found = []
    for seed in range(400):
        mechanism = CountMin(SQUARE, NO_NOISE, width=7, depth=2, level=2, seed=seed)
        totals = np.bincount(mechanism.sketch.entries(population.codes).ravel(), minlength=mechanism.sketch.length)
        found.append(float(mechanism.counts(totals.astype(float), 2, np.array([0]))[0]))
    error = np.std(found, ddof=1) / math.sqrt(len(found))
    assert error < 5
    assert abs(np.mean(found) - people[:4, :4].sum()) < 5 * error


def test_adaptive_grid_cuts_a_block_by_what_it_holds() -> None:
    """n = √(N' (1 − α) ε / c2), rounded up, in both directions as far as there are cells."""
    grid = Grid.plane(x=(0, 100), y=(0, 100), size=100)
    raster = np.zeros((100, 100))
    raster[5, 5], raster[15, 95] = 0.875, 0.125
    population = Population.from_raster(grid, raster, 20_000, Simulation(1))
    mechanism = AdaptiveGrid(grid, 1)
    survey = asked(mechanism, Cohort(20_000, dropout=0, colluding=0), population)
    first, second = (one.question.parts[0].encoding for one in survey.rounds)
    assert isinstance(first, Mesh)
    assert isinstance(second, Mesh)
    assert (first.rows, first.cols, first.length) == (10, 10, 100)
    counts = np.maximum(survey.rounds[0].counts(), 0)
    quiet = math.sqrt(2) / survey.rounds[1].deviation()
    assert quiet == pytest.approx(0.5, rel=0.02)
    assert second.parts.tolist() == np.clip(np.ceil(np.sqrt(counts * quiet / 10)), 1, None).tolist()
    assert second.parts[0] == 30
    assert second.length == 10 * 10 + 10 * 10 + (np.delete(second.parts, [0, 19]) ** 2).sum()
    ten = Cohort(20_000, 10, dropout=0, colluding=0)
    shards = simulate(Survey(mechanism, ten), population, randomness=Simulation(4))
    # Ten shards have √10 times the noise, so pieces are larger: √(2500 · 0.5/√10 / 10) = 6.3 a side.
    coarser = shards.rounds[1].question.parts[0].encoding
    assert isinstance(coarser, Mesh)
    assert (second.parts[19], coarser.parts[19]) == (12, 7)


def test_adaptive_grid_reconciles_by_inverse_variance() -> None:
    """Against least squares for every block: its own number and its pieces, each over its deviation."""
    survey = asked(AdaptiveGrid(SQUARE, 1, blocks=3, alpha=0.3, people_a_piece=3.0))
    first, second = survey.rounds
    mesh = second.question.parts[0].encoding
    assert isinstance(mesh, Mesh)
    found = AdaptiveGrid(SQUARE, 1, blocks=3, alpha=0.3).reconciled(survey.rounds)
    assert len(set(mesh.parts.tolist())) > 1
    for block in range(9):
        inside = np.flatnonzero(mesh.blocks == block)
        rows = np.vstack([np.ones((1, len(inside))) / first.deviation(), np.eye(len(inside)) / second.deviation()])
        noisy = np.concatenate(
            [[first.counts()[block] / first.deviation()], second.counts()[inside] / second.deviation()]
        )
        assert found[inside] == pytest.approx(np.linalg.lstsq(rows, noisy, rcond=None)[0], abs=1e-8)


def test_adaptive_grid_asks_for_no_more_than_devices_send() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=2048)
    population = Population.from_raster(grid, np.ones(grid.shape), 2000, Simulation(1))
    mechanism = AdaptiveGrid(grid, 100, people_a_piece=1e-6)
    survey = asked(mechanism, Cohort(2000, dropout=0, colluding=0), population)
    assert LONGEST / 16 < survey.rounds[1].question.length <= LONGEST


# ── least squares over a tree ───────────────────────────────────────────────────────────────────────────────────────


def dense_problem(shapes: list[tuple[int, int]], variances: list[float]) -> Floats:
    """The matrix from leaves to all squares, each row over its standard deviation."""
    rows, cols = shapes[-1]
    down, across = np.indices((rows, cols))
    blocks = []
    for steps, (shape, variance) in enumerate(zip(shapes[::-1], variances[::-1], strict=True)):
        square = (down >> steps) * shape[1] + (across >> steps)
        matrix = (square.ravel()[None, :] == np.arange(shape[0] * shape[1])[:, None]).astype(float)
        blocks.insert(0, matrix / math.sqrt(variance))
    return np.vstack(blocks)


TREES: list[tuple[list[tuple[int, int]], list[float]]] = [
    ([(1, 1), (2, 2)], [1.0, 1.0]),
    ([(2, 2), (4, 4), (8, 8)], [1.0, 0.3, 2.0]),
    ([(2, 2), (3, 3), (5, 6)], [0.5, 4.0, 1.0]),
    ([(1, 2), (2, 3), (3, 6), (6, 11)], [3.0, 2.0, 1.0, 0.1]),
]


@pytest.mark.parametrize(("shapes", "variances"), TREES)
def test_consistency_is_the_dense_least_squares_solution(shapes: list[tuple[int, int]], variances: list[float]) -> None:
    levels = [10 * Simulation(7).uniforms(rows * cols).reshape(rows, cols) for rows, cols in shapes]
    found = least_squares(levels, variances)
    weights = np.repeat(np.sqrt(variances), [rows * cols for rows, cols in shapes])
    noisy = np.concatenate([level.ravel() for level in levels]) / weights
    leaves = np.linalg.lstsq(dense_problem(shapes, variances), noisy, rcond=None)[0].reshape(shapes[-1])
    assert found[-1] == pytest.approx(leaves, abs=1e-9)
    for coarse, fine in itertools.pairwise(found):
        padded = np.zeros((2 * coarse.shape[0], 2 * coarse.shape[1]))
        padded[: fine.shape[0], : fine.shape[1]] = fine
        sums = padded.reshape(coarse.shape[0], 2, coarse.shape[1], 2).sum(axis=(1, 3))
        assert sums == pytest.approx(coarse, abs=1e-9)


@pytest.mark.parametrize(("shapes", "variances"), TREES[1:2])
def test_deviations_after_consistency_are_those_of_the_dense_solution(
    shapes: list[tuple[int, int]], variances: list[float]
) -> None:
    matrix = dense_problem(shapes, variances)
    covariance = np.linalg.inv(matrix.T @ matrix)
    plain = dense_problem(shapes, [1.0] * len(shapes))
    spread = np.sqrt(np.diag(plain @ covariance @ plain.T))
    ends = np.cumsum([rows * cols for rows, cols in shapes])
    assert consistent_deviations(variances) == pytest.approx(spread[ends - 1].tolist(), rel=1e-9)


def test_consistency_without_noise_changes_nothing() -> None:
    levels = [np.array([[4.0]]), np.array([[1.0, 1.0], [2.0, 0.0]])]
    found = least_squares(levels, [0.0, 0.0])
    assert [level.tolist() for level in found] == [level.tolist() for level in levels]
    assert consistent_deviations([0.0, 0.0]) == [0.0, 0.0]


# ── without privacy ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_yardstick_picks_the_level_nearest_to_the_truth() -> None:
    grid = Grid.plane(x=(0, 8), y=(0, 8), size=8)
    quarters = np.repeat(np.repeat([[4.0, 0.0], [1.0, 3.0]], 4, axis=0), 4, axis=1)
    found = best_level(Population.from_raster(grid, quarters, 500, Simulation(1)), quarters)
    assert found.level == 1
    assert found.density.values[0, 7] == 0
    assert found.density.values[0, 0] == pytest.approx(0.5 / 16, rel=0.2)
    assert found.mse == pytest.approx(np.mean((found.density.values - quarters / quarters.sum()) ** 2))


def test_the_yardstick_counts_people_not_places() -> None:
    grid = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    population = Population.from_table(grid, [0, 0, 0, 0, 1, 2], [0.5, 0.5, 0.5, 1.5, 1.5, 1.5], [0.5] * 6)
    found = best_level(population, [[1, 3]])
    assert found.density.values[0].tolist() == pytest.approx([0.25, 0.75])
    assert best_level(population, [[0, 1]], np.array([1, 2])).density.values[0].tolist() == [0, 1]
