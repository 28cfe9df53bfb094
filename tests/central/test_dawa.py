"""Dawa: its partition's law checked by enumerating every partition, its sampler against this law, its maps."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.central import Dawa, Flat
from heathaze.central.dawa import UNITS, choose_buckets, deviations, hilbert_order, split_exponents
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, TooLarge
from heathaze.ingest.counts import Counts
from heathaze.privacy.accountant import compose
from heathaze.privacy.audit import audit
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Simulation
from heathaze.testing import neighbouring_counts, noiseless
from heathaze.testing.statistics import chi_square

Node = tuple[int, int]
"""Height above the cells, and the number of the node at this height."""


def plane(rows: int, cols: int) -> Grid:
    return Grid.plane(x=(0, cols), y=(0, rows), shape=(rows, cols))


def counts_of(grid: Grid, people: np.ndarray, bound: int = 1) -> Counts:
    rows, cols = np.nonzero(people)
    mass = people[rows, cols] * bound
    return Counts.from_cells(grid, rows, cols, mass, bound=bound, one=bound, unit=Unit.PERSON)


# ── the curve and the deviations ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 2, 4, 32])
def test_neighbours_on_the_curve_are_neighbours_on_the_map(size: int) -> None:
    rows, cols = np.divmod(hilbert_order(plane(size, size)), size)
    assert sorted(zip(rows, cols, strict=True)) == list(itertools.product(range(size), repeat=2))
    assert (np.abs(np.diff(rows)) + np.abs(np.diff(cols)) == 1).all()


def test_the_curve_visits_every_cell_of_a_rectangle_once() -> None:
    assert sorted(hilbert_order(plane(5, 12)).tolist()) == list(range(60))


def lines(size: int, most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, most), min_size=size, max_size=size)


@given(lines(8, 9))
def test_the_deviation_is_the_least_weighted_distance(cells: list[int]) -> None:
    found = deviations(np.array(cells))
    for height, values in enumerate(found):
        for node, value in enumerate(values.tolist()):
            inside = cells[node << height : (node + 1) << height]
            assert value == min(sum(3 * max(x - c, 0) + max(c - x, 0) for x in inside) for c in range(10))


@given(lines(16, 5), st.integers(0, 15))
def test_a_grain_changes_no_deviation_by_less_than_minus_1_or_more_than_3(cells: list[int], place: int) -> None:
    line = np.array(cells)
    more = line.copy()
    more[place] += 1
    for before, after in zip(deviations(line), deviations(more), strict=True):
        assert (after - before >= -1).all()
        assert (after - before <= 3).all()


# ── the theorem, by enumeration ─────────────────────────────────────────────────────────────────────────────────────


def partitions(height: int, node: int = 0) -> list[frozenset[Node]]:
    """Every partition below a node, each as the set of its buckets."""
    whole = [frozenset({(height, node)})]
    if height == 0:
        return whole
    halves = (partitions(height - 1, 2 * node + side) for side in range(2))
    return whole + [frozenset().union(*pair) for pair in itertools.product(*halves)]


def log_law(line: np.ndarray, rate: Fraction, first: int = 0) -> np.ndarray:
    """log Pr[partition] for each partition, from the coins that the mechanism throws."""
    exponents = split_exponents(deviations(line), rate, first)
    top = len(exponents) - 1
    rows = []
    for buckets in partitions(top):
        split = {(h + up, n >> up) for h, n in buckets for up in range(1, top - h + 1)}
        log = 0.0
        for h, n in split | buckets:
            if h:  # Pr[split] = 1 / (1 + exp(x)), Pr[kept] = 1 / (1 + exp(−x))
                x = float(rate * int(exponents[h][n]))
                log -= np.logaddexp(0, x if (h, n) in split else -x)
        rows.append(log)
    return np.array(rows)


def test_partitions_have_the_law_of_the_exponential_mechanism() -> None:
    """Pr ∝ (2/5)^splits (3/5)^kept · exp(−rate · Σ deviations), up to the rounding of energies."""
    line, rate = np.array([5, 0, 9, 9, 1, 2, 0, 0]), Fraction(1, 7 * 2**UNITS)
    uneven = deviations(line)
    wanted = []
    for buckets in partitions(3):
        kept = sum(h > 0 for h, _ in buckets)
        energy = sum(int(uneven[h][n]) for h, n in buckets)
        wanted.append(kept * math.log(0.6) + (len(buckets) - 1) * math.log(0.4) - energy / 7)
    found = log_law(line, rate)
    assert np.exp(found).sum() == pytest.approx(1)
    assert found == pytest.approx(np.array(wanted) - np.logaddexp.reduce(wanted), abs=1e-3)


def datasets(cells: int) -> list[np.ndarray]:
    """Small masses in all combinations on four cells; on more, steps, spikes and random lines."""
    if cells == 4:
        return [np.array(line) for line in itertools.product([0, 1, 4, 30], repeat=4)]
    rng = np.random.default_rng(1)
    steps = [np.repeat([0, 20], [k, cells - k]) for k in range(cells + 1)]
    spikes = [np.eye(1, cells, k, dtype=np.int64)[0] * mass for k in range(cells) for mass in (1, 7, 60)]
    return steps + spikes + list(rng.integers(0, 12, (30, cells)))


def worst_loss(cells: int, bound: int, rate: Fraction) -> float:
    """The largest change of log Pr[partition] by one unit, in one cell or spread over all cells."""
    persons = [bound * np.eye(1, cells, k, dtype=np.int64)[0] for k in range(cells)]
    persons.append(np.bincount(np.arange(bound) % cells, minlength=cells))
    return max(
        float(np.abs(log_law(line + person, rate) - log_law(line, rate)).max())
        for line in datasets(cells)
        for person in persons
    )


@pytest.mark.parametrize(("cells", "bound"), [(4, 1), (4, 6), (8, 1), (8, 20)])
@pytest.mark.parametrize("epsilon", ["1/10", 3])
def test_no_partition_betrays_a_person_beyond_the_price(cells: int, bound: int, epsilon: str | int) -> None:
    choice = Dawa(plane(1, cells), epsilon).choice(bound)
    assert choice.epsilon == Fraction(epsilon) / 3
    found = worst_loss(cells, bound, choice.rate)
    assert found <= float(choice.epsilon) * (1 + 1e-9)
    assert found >= 0.5 * float(choice.epsilon)  # the enumeration looks where the loss is


def test_the_enumeration_finds_a_price_that_is_too_low() -> None:
    """Priced as if a grain changed energies by at most 1 (the mass that moves) and not by a range of 4."""
    choice = Dawa(plane(1, 8), 1).choice(1)
    assert worst_loss(8, 1, 4 * choice.rate) > 2 * float(choice.epsilon)


@pytest.mark.parametrize("line", [[0] * 8, [5, 0, 9, 9, 1, 2, 0, 0], [3, 3, 3, 3, 0, 0, 0, 30]])
def test_partitions_are_drawn_by_the_enumerated_law(line: list[int]) -> None:
    """Chi-square over all partitions at alpha 1e-6."""
    rate, runs, randomness = Fraction(1, 9 * 2**UNITS), 2000, Simulation(2)
    drawn = Counter(tuple(choose_buckets(np.array(line), 8, rate, randomness, first=0).tolist()) for _ in range(runs))
    keys = [tuple(sorted(n << h for h, n in buckets)) for buckets in partitions(3)]
    observed = np.array([drawn[key] for key in keys])
    assert observed.sum() == runs
    law = np.exp(log_law(np.array(line), rate))
    order = np.argsort(-law)
    assert chi_square(observed[order], law[order] * runs) >= 1e-6
    uniform = np.full(len(law), runs / len(law))
    assert chi_square(observed[order], uniform) < 1e-6  # and the test tells another law apart


def _corner(estimate: object) -> float:
    down, across, mass = estimate.density.squares()  # type: ignore[attr-defined]
    return float(mass[(down < 1) & (across < 1)].sum()) * estimate.total  # type: ignore[attr-defined]


def test_dawa_keeps_its_promise_under_attack() -> None:
    """On one cell, where all of one person's mass meets the noise of the total and of the only bucket."""
    grid = plane(1, 1)
    pair = neighbouring_counts(grid)[3]
    found = audit(Dawa(grid, 1), pair.first, pair.second, _corner, runs=3000, randomness=Simulation(1))
    assert not found.violated
    assert found.lower_bound > 0.2  # the attack looks in the right place


# ── noise for the partition: why not the authors' ───────────────────────────────────────────────────────────────────


def test_noise_for_the_change_of_one_interval_is_not_enough() -> None:
    """Noisy costs of intervals, the cheapest partition wins: the chosen interval and its rival both change.

    Cells (0, 0, g): the rivals are {12}{3} and {1}{23}. One more grain in the middle cell raises the deviation from the
    mean of {12} from 0 to 1 and lowers that of {23} from g to g − 1. With noise of the scale (2 − 1/2 − 1/4)/ε the
    loss of {1}{23} comes close to 2/1.25 = 1.6 ε.
    """
    scale = 1.25
    x = np.arange(-400, 401)
    law = np.exp(-np.abs(x) / scale)
    law /= law.sum()
    below = np.cumsum(law)  # Pr[noise ≤ x]

    def chance(first: int, second: int) -> float:
        """Pr[second + Z₂ ≤ first + Z₁], both cut off at 0."""
        costs = np.maximum(first + x, 0)
        return float((law * below[np.clip(costs - second + 400, 0, 800)]).sum())

    assert 1.45 < math.log(chance(1, 99) / chance(0, 100)) < 1.6


# ── prices and maps ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_dawas_spend_all_they_declare_and_no_more() -> None:
    for epsilon, bound in itertools.product(("0.01", "1/3", 1, 50), (1, 5, 2**20)):
        dawa = Dawa(plane(8, 8), epsilon)
        assert dawa.epsilon * Fraction(999_999, 1_000_000) <= compose([dawa.event(bound)]).epsilon <= dawa.epsilon


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(1, 1), (3, 5), (16, 16), (1, 40)]))
def test_infinite_epsilon_gives_the_truth_back(seed: int, shape: tuple[int, int]) -> None:
    people = np.random.default_rng(seed).integers(0, 3, shape) + (shape == (1, 1))
    people[0, 0] += 1
    estimate = noiseless(Dawa(plane(*shape), 1)).run(counts_of(plane(*shape), people, 7), Simulation(1))
    assert estimate.total == pytest.approx(people.sum(), rel=1e-12)
    assert estimate.density.dense().values * people.sum() == pytest.approx(people, rel=1e-12)


def test_even_regions_become_one_bucket_and_crowded_ones_many() -> None:
    line = np.zeros(256, dtype=np.int64)
    line[128:] = np.random.default_rng(3).integers(0, 200, 128)
    rate = Dawa(plane(16, 16), 1).choice(1).rate
    starts = choose_buckets(line, 256, rate, Simulation(1), first=0)
    assert (starts < 128).sum() < 20
    assert (starts >= 128).sum() > 100


def test_a_crowd_is_seen_better_than_by_flat() -> None:
    """2,000 people in a twentieth of 64 × 64 cells at epsilon 0.2: the sum of all errors of shares is smaller."""
    grid, rng = plane(64, 64), np.random.default_rng(5)
    people = np.zeros(grid.shape, dtype=np.int64)
    np.add.at(people, (rng.integers(10, 24, 2000), rng.integers(30, 44, 2000)), 1)
    counts = counts_of(grid, people)

    def miss(mechanism: Dawa | Flat) -> float:
        maps = [mechanism.run(counts, Simulation(seed)) for seed in range(5)]
        return float(np.mean([np.abs(found.density.dense().values - people / 2000).sum() for found in maps]))

    assert miss(Dawa(grid, "1/5")) < 0.9 * miss(Flat(grid, "1/5"))


def test_what_dawa_refuses() -> None:
    with pytest.raises(TooLarge, match="at most 2\\^20; use a coarser grid"):
        Dawa(plane(1025, 1024), 1)
    with pytest.raises(InvalidInput, match="Dawa needs a larger one"):
        Dawa(plane(8, 8), "0.000001").event(2**20)
