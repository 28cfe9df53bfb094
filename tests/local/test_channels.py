"""Channels: every product is that of the matrix that is never written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.local.channels import Channel, Convolution, Marginals, Matrix, Separable
from heathaze.local.disk_area import DiskArea
from heathaze.local.subset_exponential import SubsetExponential
from heathaze.privacy.randomness import Simulation
from tests.local.enumeration import assert_channel_is, plane


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Repeatable numbers between 0 and 1."""
    return Simulation(seed).uniforms(int(np.prod(shape))).reshape(shape)


def written_out(channel: Convolution) -> np.ndarray:
    """The matrix of a convolution, entry by entry as its docstring has it."""
    (rows, cols), (down, across) = channel.shape, channel.margin
    middle = channel.kernel.shape[0] // 2, channel.kernel.shape[1] // 2
    matrix = np.zeros((rows * cols, channel.outcomes))
    for row, col in np.ndindex(rows, cols):
        for place, (top, left) in enumerate(np.ndindex(*channel.occurs.shape)):
            times = float(channel.occurs[top, left])
            offset = top - down - row + middle[0], left - across - col + middle[1]
            inside = all(0 <= at < side for at, side in zip(offset, channel.kernel.shape, strict=True))
            near = channel.kernel[offset] if inside else 0.0
            scale = 1.0 if channel.scale is None else channel.scale[row, col]
            matrix[row * cols + col, place] = (times > 0) * (times * channel.base + scale * near)
    return matrix


def stochastic(seed: int, rows: int, cols: int) -> np.ndarray:
    matrix = numbers(seed, rows, cols) + 0.01
    return matrix / matrix.sum(axis=1, keepdims=True)


SIDES = st.integers(1, 7)
SEEDS = st.integers(0, 10**6)


@settings(max_examples=60)
@given(SIDES, SIDES, st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.booleans(), SEEDS)
def test_a_convolution_is_its_matrix(
    rows: int, cols: int, high: int, wide: int, down: int, across: int, scaled: bool, seed: int
) -> None:
    """Kernels smaller and larger than the grid; frames from the grid alone up to all that the kernel reaches."""
    margin = min(down, high), min(across, wide)
    frame = rows + 2 * margin[0], cols + 2 * margin[1]
    kernel = numbers(seed, 2 * high + 1, 2 * wide + 1) / (2 * high + 1) / (2 * wide + 1)
    occurs = numbers(seed + 1, *frame) < 0.8
    occurs.flat[0] = True
    scale = numbers(seed + 2, rows, cols) + 0.1 if scaled else None
    channel = Convolution((rows, cols), kernel, 0.3 / occurs.size, occurs, margin, scale)
    assert_channel_is(channel, written_out(channel))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (13, 2)])
def test_a_scaled_convolution_can_be_stochastic(shape: tuple[int, int]) -> None:
    """As the subset mechanism has it: near the border the kernel is cut, and the scale makes up for it."""
    kernel = numbers(1, 2 * shape[0] + 1, 2 * shape[1] + 1)
    occurs = np.ones(shape, dtype=np.bool_)
    bare = Convolution(shape, kernel, 0.0, occurs, (0, 0))
    channel = Convolution(shape, kernel, 0.5 / occurs.size, occurs, (0, 0), 0.5 / bare.backward(occurs.astype(float)))
    np.testing.assert_allclose(written_out(channel).sum(axis=1), 1, rtol=1e-13)
    assert_channel_is(channel, written_out(channel))


@given(SIDES, SIDES, SIDES, SIDES, SEEDS)
def test_separable_and_marginals_are_their_matrices(rows: int, cols: int, a: int, b: int, seed: int) -> None:
    down, across = stochastic(seed, rows, a), stochastic(seed + 1, cols, b)
    assert_channel_is(Separable(down, across), np.kron(down, across))
    both = np.hstack([down.repeat(cols, axis=0), np.tile(across, (rows, 1))]) / 2
    assert_channel_is(Marginals(down, across), both)


@given(SIDES, SIDES, SEEDS)
def test_every_channel_is_stochastic_and_backward_is_the_adjoint(rows: int, cols: int, seed: int) -> None:
    """Mr = 1 for r = 1, so rows sum to one; and ⟨fᵀM, r⟩ = ⟨f, Mr⟩."""
    channels: list[Channel] = [
        DiskArea(plane(rows, cols), 2, radius=2 * max(rows, cols)).channel(),
        Separable(stochastic(seed, rows, 5), stochastic(seed, cols, 3)),
        Marginals(stochastic(seed, rows, 5), stochastic(seed, cols, 3)),
        Matrix((rows, cols), stochastic(seed, rows * cols, 7)),
    ]
    density = numbers(seed, rows, cols)
    for channel in channels:
        np.testing.assert_allclose(channel.backward(np.ones(channel.outcomes)), 1, rtol=0, atol=1e-13)
        assert channel.forward(density).sum() == pytest.approx(density.sum(), rel=1e-13)
        ratio = numbers(seed + 1, channel.outcomes)
        assert channel.forward(density) @ ratio == pytest.approx((density * channel.backward(ratio)).sum(), rel=1e-13)


def test_what_rounding_leaves_below_zero_is_cut() -> None:
    """Far from a spike the FFT leaves numbers of both signs; no outcome may fall below its base (errata E1-13)."""
    channel = DiskArea(plane(64, 64), 3.5).channel()
    assert isinstance(channel, Convolution)
    spike = np.zeros((64, 64))
    spike[0, 0] = 1.0
    expected = channel.forward(spike).reshape(channel.occurs.shape)
    assert expected[channel.occurs].min() >= channel.base
    assert not expected[~channel.occurs].any()
    ratio = np.zeros(channel.outcomes)
    ratio[np.flatnonzero(channel.occurs)[0]] = 1.0
    assert channel.backward(ratio).min() >= channel.base


# ── the same channel, seen coarsely ─────────────────────────────────────────────────────────────────────────────────


def spread(coarse: np.ndarray, factor: int, shape: tuple[int, int]) -> np.ndarray:
    """A density that is level within every square."""
    squares = [-(-side // factor) for side in shape]
    counts = np.zeros(squares)
    np.add.at(counts, tuple(np.indices(shape) // factor), 1)
    fine = np.repeat(np.repeat(coarse / counts, factor, axis=0), factor, axis=1)
    return fine[: shape[0], : shape[1]]


@settings(max_examples=40)
@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from([2, 3, 4]), st.integers(0, 6), SEEDS)
def test_merging_is_exact_for_level_squares(rows: int, cols: int, factor: int, radius: int, seed: int) -> None:
    """Where the sides are multiples of the factor: outcomes merged after the fine channel, or before it."""
    shape = rows * factor, cols * factor
    channel = DiskArea(plane(*shape), 2, radius=min(radius, 2 * max(shape))).channel()
    assert isinstance(channel, Convolution)
    merged, outcome = channel.merged(factor)
    assert merged.shape == (rows, cols)
    assert outcome.shape == (channel.outcomes,)
    coarse = numbers(seed, rows, cols) + 0.01
    coarse /= coarse.sum()
    fine = channel.forward(spread(coarse, factor, shape))
    summed = np.bincount(outcome, fine, merged.outcomes)
    found = merged.forward(coarse)
    np.testing.assert_allclose(found, summed, rtol=0, atol=1e-14)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(merged.backward(np.ones(merged.outcomes)), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 7), (9, 4), (1, 6), (11, 11)])
@pytest.mark.parametrize("factor", [2, 4])
def test_merging_keeps_every_outcome_where_sides_do_not_divide(shape: tuple[int, int], factor: int) -> None:
    channel = DiskArea(plane(*shape), 2, radius=2).channel()
    assert isinstance(channel, Convolution)
    merged, outcome = channel.merged(factor)
    assert merged.shape == tuple(-(-side // factor) for side in shape)
    assert outcome.min() >= 0
    assert outcome.max() < merged.outcomes
    assert merged.occurs.sum() == channel.occurs.sum()
    # The cell that an outcome lies in, and the square that the merged outcome is.
    top, left = np.divmod(np.arange(channel.outcomes), channel.occurs.shape[1])
    up, beside = np.divmod(outcome, merged.occurs.shape[1])
    assert (up - merged.margin[0] == (top - channel.margin[0]) // factor).all()
    assert (beside - merged.margin[1] == (left - channel.margin[1]) // factor).all()


@pytest.mark.parametrize("shape", [(5, 7), (8, 6), (9, 9)])
def test_merged_rows_sum_to_one(shape: tuple[int, int]) -> None:
    """Where sides do not divide, and where the kernel is scaled for every cell: nearly the same channel."""
    for mechanism in (DiskArea(plane(*shape), 2, radius=2), SubsetExponential(plane(*shape), 1, size=2)):
        channel = mechanism.channel()
        assert isinstance(channel, Convolution)
        merged, outcome = channel.merged(2)
        np.testing.assert_allclose(merged.backward(np.ones(merged.outcomes)), 1, rtol=0, atol=1e-12)
        coarse = np.full(merged.shape, 1 / (merged.shape[0] * merged.shape[1]))
        fine = np.bincount(outcome, channel.forward(spread(coarse, 2, shape)), merged.outcomes)
        assert np.abs(fine - merged.forward(coarse)).sum() / 2 < 0.1
