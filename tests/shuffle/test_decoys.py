"""Decoys: who sends what, what it costs, and the map."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heathaze as hz
from heathaze.domain.quadtree import nodes_at
from heathaze.errors import InvalidInput, PromiseBroken, SimulatedRelease
from heathaze.privacy.accountant import compose
from heathaze.privacy.guarantee import Adjacency, Trust
from heathaze.shuffle import Mixed, estimate, simulate
from heathaze.shuffle.decoys import SCALE_OF_NORMAL, Decoys, _rounded_up
from heathaze.shuffle.mechanism import promise
from heathaze.testing.statistics import chi_square

ALPHA = 1e-6
GRID = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)


def cluster(people: int, seed: int) -> np.ndarray:
    """People around two places of the plane of 8 × 8 cells."""
    rng = np.random.default_rng(seed)
    centre = np.array([[2.0, 2.0], [5.5, 6.0]])[(rng.random(people) < 0.4).astype(int)]
    return np.clip(centre + rng.normal(0, 0.7, (people, 2)), 0, 7.99)


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("epsilon", "people"), [(1, 10_000), ("0.3", 200_000), (2, 2000)])
def test_the_decoys_keep_the_promise_and_are_hardly_too_many(epsilon: object, people: int) -> None:
    decoys = Decoys(GRID, epsilon, people)
    cost = compose([decoys.event], decoys.delta)
    assert 0.99 * decoys.epsilon < cost.epsilon <= decoys.epsilon
    assert decoys.messages <= decoys.most_messages < decoys.messages + len(decoys.levels)


def test_the_choice_follows_from_public_facts() -> None:
    fine = hz.Grid.plane(x=(0, 1), y=(0, 1), size=64)
    assert Decoys(fine, 1, 10_000) == Decoys(fine, 1.0, 10_000)
    assert Decoys(fine, 1, 10_000).messages < 70
    assert Decoys(fine, 1, 100_000).messages < 13
    assert Decoys(fine, 1, 10_000).levels == (2, 3, 4, 5, 6)
    assert Decoys(fine, 1, 1000).levels == (2, 3, 4)
    finer = hz.Grid.plane(x=(0, 1), y=(0, 1), size=256)
    assert Decoys(finer, 1, 100_000).levels == (2, 3, 4, 5, 6)  # 6 people for each node of level 7 are too few
    assert Decoys(finer, 1, 120_000).levels == (2, 3, 4, 5, 6, 7)
    assert Decoys(hz.Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2)), 1, 1000).levels == (1,)


def test_the_guarantee_says_who_is_trusted_and_how_many_people_it_needs() -> None:
    found = promise(Decoys(GRID, 1, 10_000))
    assert (found.adjacency, found.trust, found.people, found.alone) == (
        Adjacency.REPLACE,
        Trust.SHUFFLER,
        10_000,
        None,
    )
    assert "at least 10000 people of a batch" in str(found)
    assert "if shuffler and server collude, nothing is protected" in str(found)
    assert type(found).from_dict(found.to_dict()) == found


@pytest.mark.parametrize(("grid", "people"), [(GRID, 1), (GRID, 5), (hz.Grid.plane(x=(0, 1), y=(0, 1), size=1), 1000)])
def test_too_few_people_are_refused(grid: hz.Grid, people: int) -> None:
    with pytest.raises(InvalidInput):
        Decoys(grid, 1, people)


@given(st.floats(1e-6, 1e6))
def test_numbers_of_decoys_are_rounded_up_a_little(number: float) -> None:
    assert number <= _rounded_up(number) <= number * 1.001


# ── who sends what ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_everyone_sends_the_true_node_and_decoys_at_every_level() -> None:
    decoys = Decoys(GRID, 1, 10_000)
    cells = np.arange(64).repeat(20)
    messages, senders = decoys.draw(cells, hz.Simulation(1))
    level = np.searchsorted(decoys._starts, messages[:, 0], side="right") - 1
    sent = np.zeros((len(cells), len(decoys.levels)), dtype=int)
    np.add.at(sent, (senders, level), 1)
    for at, d in enumerate(decoys.decoys):
        assert set(np.unique(sent[:, at])) <= {1 + math.floor(d), 1 + math.ceil(d)}
        mean, chance = sent[:, at].mean() - 1, float(d % 1)
        assert abs(mean - float(d)) < 5 * math.sqrt(chance * (1 - chance) / len(cells)) + 1e-12
    own = messages[: len(cells), 0]
    row, col = cells // 8, cells % 8
    for code, r, c in zip(own.tolist(), row.tolist(), col.tolist(), strict=True):
        assert code == (r // 4 * 2 + c // 4) * 4 + (
            r % 4 // 2 * 2 + c % 4 // 2
        )  # level 2 of 8 × 8 cells is 4 × 4 nodes


def test_decoys_are_uniform_and_do_not_depend_on_the_place() -> None:
    decoys = Decoys(GRID, 1, 10_000)
    for place in (0, 63):
        messages, _ = decoys.draw(np.full(40_000, place), hz.Simulation(place))
        for at, level in enumerate(decoys.levels):
            start, stop = decoys._starts[at], decoys._starts[at + 1]
            counts = np.bincount(messages[:, 0], minlength=decoys.limit)[start:stop]
            own = 0 if place == 0 else len(counts) - 1
            counts[own] -= 40_000
            assert chi_square(counts, np.full(len(counts), counts.sum() / len(counts))) > ALPHA
            assert len(counts) == len(nodes_at(GRID, level))


def test_the_number_of_messages_does_not_depend_on_the_place() -> None:
    decoys = Decoys(GRID, 1, 10_000)
    here, there = (decoys.draw(np.full(500, cell), hz.Simulation(3))[1] for cell in (0, 63))
    np.testing.assert_array_equal(here, there)


# ── the map ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_decoys_the_counts_are_the_true_ones() -> None:
    """Subtracting the decoys is exact: with the expected number at every node, the true counts come out."""
    decoys = Decoys(GRID, 1, 10_000)
    cells = np.arange(64).repeat(160)
    own = decoys.draw(cells, hz.Simulation(1))[0]
    true = [own[own[:, 0] < 0]]
    taken = 0
    for at, d in enumerate(decoys.decoys):
        start, stop = decoys._starts[at], decoys._starts[at + 1]
        even = math.floor(d) * len(cells) // (stop - start) + 1
        true += [np.repeat(np.arange(start, stop), len(cells) // (stop - start) + even)[:, None]]
        taken += even
    assert taken > 0
    found = decoys.infer(np.concatenate(true), len(cells))
    assert found.noisy is not None
    for level in decoys.levels:
        _, values, _ = found.noisy.at(level)
        np.testing.assert_allclose(values, len(cells) / len(values))
    np.testing.assert_allclose(found.density.dense().values, 1 / 64, rtol=0.05)


def test_noise_has_the_stated_variance() -> None:
    decoys = Decoys(GRID, 1, 10_000)
    cells = np.zeros(10_000, np.int64)
    deviations: dict[int, list[float]] = {}
    for seed in range(12):
        noisy = Mixed(decoys, decoys.draw(cells, hz.Simulation(seed))[0], 10_000, simulated=True)
        found = estimate(noisy).estimate.noisy
        assert found is not None
        for level in decoys.levels:
            _, values, scales = found.at(level)
            deviations.setdefault(level, []).extend((values[1:] * SCALE_OF_NORMAL / scales[1:]).tolist())
    for found in deviations.values():
        # The sum of squares has a chi-square law; six deviations of its normal approximation are beyond ALPHA.
        assert abs(np.square(found).mean() - 1) < 6 * math.sqrt(2 / len(found))


def test_the_map_is_near_the_truth_and_its_intervals_hold() -> None:
    decoys, people = Decoys(GRID, 1, 10_000), cluster(10_000, seed=1)
    row, col = GRID.nearest_cell(people[:, 0], people[:, 1])
    truth = np.bincount(row * 8 + col, minlength=64).reshape(8, 8) / len(people)
    release = estimate(simulate(decoys, people, randomness=hz.Simulation(5)))
    assert release.total == pytest.approx(10_000, rel=0.01)
    assert float(hz.metrics.emd(truth, release.density)) < 0.02
    west = release.mass_in(hz.Box.plane(x=(0, 4), y=(0, 8)))
    assert west.low is not None
    assert west.high is not None
    assert west.low < truth[:, :4].sum() < west.high
    with pytest.raises(SimulatedRelease):
        release.save("map.npz")


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say() -> None:
    decoys, held = Decoys(hz.Grid.plane(x=(0, 8), y=(0, 8), size=32), 1, 10_000), []
    for seed in range(12):
        people = cluster(10_000, seed)
        release = estimate(simulate(decoys, people, randomness=hz.Simulation(seed)))
        for x, y, side in np.random.default_rng(seed).uniform((0, 0, 1), (4, 4, 4), (40, 3)).tolist():
            share = release.mass_in(hz.Box.plane(x=(x, x + side), y=(y, y + side)))
            inside = ((people >= (x, y)) & (people < (x + side, y + side))).all(axis=1).mean()
            held.append(share.low <= inside <= share.high)
    assert 0.84 <= np.mean(held) <= 0.98


def test_a_release_can_be_saved_and_read(tmp_path) -> None:
    release = estimate(simulate(Decoys(GRID, 4, 1000), cluster(1000, seed=2)))
    path = release.save(tmp_path / "map.npz")
    again = hz.load(path)
    assert again.guarantee == release.guarantee
    np.testing.assert_allclose(again.density.values, release.density.values, atol=1e-6)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_small_batch_is_refused_and_nothing_is_decoded() -> None:
    decoys = Decoys(GRID, 1, 10_000)
    with pytest.raises(PromiseBroken, match="at least 10000"):
        simulate(decoys, cluster(9999, seed=1))
    with pytest.raises(PromiseBroken, match="nothing was decoded"):
        Mixed(decoys, np.zeros((5, 1), np.int64), 9999)


def test_lost_repeated_and_made_up_messages_are_refused() -> None:
    decoys = Decoys(GRID, 1, 10_000)
    messages = decoys.draw(np.zeros(10_000, np.int64), hz.Simulation(1))[0]
    few = messages[messages[:, 0] < decoys._starts[1]][:9000]
    with pytest.raises(InvalidInput, match="Level 2 has 9000 messages"):
        estimate(Mixed(decoys, few, 10_000))
    with pytest.raises(InvalidInput, match="lost, repeated or forged"):
        estimate(Mixed(decoys, np.concatenate([messages] * 3), 10_000))
    for wrong in (np.full((1, 1), decoys.limit), np.full((1, 1), -1), np.zeros((1, 2)), np.zeros(1)):
        with pytest.raises(InvalidInput):
            Mixed(decoys, wrong, 10_000)


@settings(max_examples=30)
@given(st.one_of(st.text(max_size=3), st.lists(st.floats(), max_size=3), st.lists(st.lists(st.floats()), max_size=2)))
def test_positions_that_are_none_are_refused(points: object) -> None:
    with pytest.raises((InvalidInput, PromiseBroken)):
        simulate(Decoys(GRID, 1, 10_000), points)


def test_the_order_of_messages_says_nothing() -> None:
    decoys = Decoys(GRID, 4, 1000)
    messages = decoys.draw(np.arange(1000) % 64, hz.Simulation(1))[0]
    mixed, again = Mixed(decoys, messages, 1000), Mixed(decoys, messages[::-1], 1000)
    np.testing.assert_array_equal(mixed.messages, again.messages)
    assert "1000 people" in repr(mixed)
    assert Fraction(1) < decoys.epsilon
