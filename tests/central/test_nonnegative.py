"""Counts become non-negative without a change of their total, and sums over large squares hardly change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from heathaze.central.nonnegative import nonnegative_cells, nonnegative_leaves
from heathaze.domain.grid import Grid


def plane(rows: int, cols: int) -> Grid:
    return Grid.plane(x=(0, cols), y=(0, rows), shape=(rows, cols))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(1, 1), (2, 2), (5, 3), (16, 16), (1, 9), (7, 20)]))
def test_the_total_is_kept_and_nothing_is_negative(seed: int, shape: tuple[int, int]) -> None:
    noisy = np.random.default_rng(seed).laplace(0.5, 5, shape)
    found = nonnegative_cells(plane(*shape), noisy)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(max(0.0, noisy.sum()), abs=1e-9)
    assert (found <= np.maximum(noisy, 0) + 1e-12).all()  # mass is only taken away, so empty cells stay empty


def test_counts_that_are_not_negative_stay() -> None:
    counts = np.random.default_rng(1).integers(0, 9, (13, 6)).astype(float)
    assert (nonnegative_cells(plane(13, 6), counts) == counts).all()


def test_a_family_becomes_the_closest_one() -> None:
    """Against a general solver: the least squares fit with a fixed sum, on four cells."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        noisy = rng.normal(1, 4, 4)
        total = max(0.0, noisy.sum())
        solved = minimize(
            lambda x, noisy=noisy: ((x - noisy) ** 2).sum(), np.full(4, total / 4), bounds=[(0, None)] * 4,
            constraints={"type": "eq", "fun": lambda x, total=total: x.sum() - total}, method="SLSQP",
        )  # fmt: skip
        found = nonnegative_cells(plane(2, 2), noisy.reshape(2, 2))
        assert found.ravel() == pytest.approx(solved.x, abs=1e-3)


def test_an_empty_half_takes_no_people_from_a_full_half() -> None:
    """One common constant for all cells would move 6 of 100 people; from coarse to fine, hardly anybody is moved."""
    rng = np.random.default_rng(3)
    truth = np.zeros((64, 64))
    truth[:32] = 10
    moved = []
    for _ in range(20):
        noisy = truth + rng.laplace(0, 5, truth.shape)
        moved.append(nonnegative_cells(plane(64, 64), noisy)[32:].sum())
    assert np.mean(moved) < 0.02 * truth.sum()
    low, high = 0.0, 100.0
    for _ in range(60):  # the common constant t with Σ max(noisy − t, 0) = Σ noisy
        t = (low + high) / 2
        low, high = (t, high) if np.maximum(noisy - t, 0).sum() > noisy.sum() else (low, t)
    assert np.maximum(noisy - t, 0)[32:].sum() > 0.05 * truth.sum()


def test_leaves_of_several_levels() -> None:
    """Three quadrants, and the cells of the fourth: what the fourth lacks is taken from its own cells."""
    leaves = {
        1: (np.array([0, 1, 3]), np.array([5.0, -2.0, 1.0])),
        2: (np.array([8, 9, 10, 11]), np.array([4.0, -1.0, 3.0, -2.0])),
    }
    found = nonnegative_leaves(leaves)
    # The quadrants 5, −2, 4, 1 lose 2/3 each; the fourth quadrant's 10/3 is divided among 4 and 3.
    assert found[1].tolist() == pytest.approx([13 / 3, 0, 1 / 3])
    assert found[2].tolist() == pytest.approx([13 / 6, 0, 7 / 6, 0])
