"""SquareWave2D: both readings of the multi-dimensional square wave."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from heathaze.errors import InvalidInput, TooLarge
from heathaze.local.square_wave import SquareWave2D, wave, wave_radius
from heathaze.privacy.randomness import Simulation
from tests.local.enumeration import (
    EPSILONS,
    SHAPES,
    assert_channel_is,
    assert_follows,
    corners,
    draws,
    expected_tallies,
    plane,
    worst_loss,
)

Split = Literal["budget", "users"]
SPLITS: list[Split] = ["budget", "users"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("split", SPLITS)
def test_no_report_betrays_more_than_epsilon(split: Split, shape: tuple[int, int]) -> None:
    for epsilon in EPSILONS:
        matrix = SquareWave2D(plane(*shape), epsilon, split).transition_matrix()
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-13)
        loss = worst_loss(matrix)
        assert loss <= float(epsilon)
        if min(shape) > 1 or (split == "users" and max(shape) > 1):
            assert loss >= float(epsilon) - 1e-6
        elif max(shape) > 1:  # half of the budget is spent on a coordinate that everybody knows
            assert loss >= float(epsilon) / 2 - 1e-6


def test_spending_all_of_epsilon_twice_is_found_out() -> None:
    twice = np.kron(wave(5, SquareWave2D(plane(5, 5), 1).epsilon).transition_matrix(), np.eye(1))
    assert worst_loss(np.kron(twice, twice)) > 1.9


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (4, 5)])
@pytest.mark.parametrize("split", SPLITS)
def test_tallies_and_channel_agree_with_the_matrix(split: Split, shape: tuple[int, int]) -> None:
    for epsilon in ("0.7", "5"):
        mechanism = SquareWave2D(plane(*shape), epsilon, split)
        np.testing.assert_allclose(expected_tallies(mechanism), mechanism.transition_matrix(), rtol=0, atol=1e-15)
        assert_channel_is(mechanism.channel(), mechanism.transition_matrix())


@pytest.mark.parametrize("split", SPLITS)
def test_samples_follow_the_matrix(split: Split) -> None:
    mechanism = SquareWave2D(plane(4, 6), 2, split)
    matrix = mechanism.transition_matrix()
    for cell in corners(mechanism.grid):
        assert_follows(draws(mechanism, cell, 40_000, seed=cell)[:, 0], matrix[cell])
        with pytest.raises(AssertionError):
            assert_follows(draws(mechanism, cell, 40_000, seed=cell)[:, 0], matrix[cell - 1])


def test_the_half_width() -> None:
    """b = (ε e^ε − e^ε + 1) / (2 e^ε (e^ε − 1 − ε)), at ε = 1 equal to 1 / (2e (e − 2)); one half as ε vanishes."""
    assert [wave_radius(10**9, epsilon) for epsilon in (1, "0.001")] == pytest.approx(
        [256_082_937, 499_666_777], rel=1e-8
    )
    assert wave_radius(10**9, 1e-6) == pytest.approx(5e8, rel=1e-6)
    assert wave_radius(15, 1000) == 0
    window = wave(100, SquareWave2D(plane(1, 1), 1).epsilon)
    assert window.frame == (150, 1)
    assert (window.low + window.excess.max()) / window.low == pytest.approx(np.e, rel=1e-8)


@pytest.mark.parametrize("epsilon", [1e-6, 1000])
@pytest.mark.parametrize("split", SPLITS)
def test_extreme_epsilons_work(split: Split, epsilon: float) -> None:
    for shape in ((1, 1), (1, 7), (15, 15)):
        mechanism = SquareWave2D(plane(*shape), epsilon, split)
        reports = mechanism.draw(np.arange(mechanism.grid.cells), Simulation(3))
        assert mechanism.tally(reports).sum() == mechanism.grid.cells
        assert mechanism.channel().forward(np.full(shape, 1 / mechanism.grid.cells)).sum() == pytest.approx(1)


def test_bad_input_gets_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="There is no split 'time'; choose 'budget' or 'users'"):
        SquareWave2D(plane(3, 3), 1, "time")  # type: ignore[arg-type]
    mechanism = SquareWave2D(plane(3, 3), 1)
    with pytest.raises(InvalidInput, match="A report holds a number outside 0"):
        mechanism.tally(np.array([[mechanism.outcomes]]))
    with pytest.raises(TooLarge, match="does not fit into memory; use a smaller grid"):
        SquareWave2D(plane(200, 200), 1).transition_matrix()
    with pytest.raises(TooLarge, match="does not fit"):
        SquareWave2D(plane(2**14, 2), 1).channel()
