"""Helpers of these tests: small grids, the worst loss of an enumerated mechanism, channels written out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.local.channels import Channel, Matrix
from heathaze.local.mechanism import Estimator
from heathaze.local.subset_exponential import SubsetExponential
from heathaze.local.unary_encoding import UnaryEncoding
from heathaze.privacy.randomness import Simulation
from heathaze.testing.statistics import chi_square

ALPHA = 1e-6
EPSILONS = ["0.1", "0.7", "3.5", "5", "9"]
SHAPES = [(1, 1), (2, 3), (1, 7), (5, 5), (4, 9), (15, 15)]


def plane(rows: int, cols: int, height: float = 1, width: float = 1) -> Grid:
    """A grid on a plane with cells of this height and width."""
    return Grid.plane(x=(0, cols * width), y=(0, rows * height), shape=(rows, cols))


def worst_loss(matrix: np.ndarray) -> float:
    """The largest log-ratio of two cells' probabilities of one report."""
    occurs = matrix[:, matrix.any(axis=0)]
    with np.errstate(divide="ignore"):
        return float(np.log(occurs.max(axis=0) / occurs.min(axis=0)).max())


def losses(matrix: np.ndarray) -> np.ndarray:
    """The largest log-ratio for every pair of cells."""
    logs = np.log(matrix[:, matrix.any(axis=0)])
    return np.array([np.abs(logs - row).max(axis=1) for row in logs])


def distances(grid: Grid) -> np.ndarray:
    """Between the middles of every two cells of a plane."""
    row, col = np.divmod(np.arange(grid.cells), grid.cols)
    height, width = grid.cell_size
    return np.hypot((row - row[:, None]) * height, (col - col[:, None]) * width)


def every_report(mechanism: Estimator) -> np.ndarray:
    """All reports of a mechanism, in the order of its matrix's columns."""
    cells = mechanism.grid.cells
    if isinstance(mechanism, SubsetExponential):
        return np.array(list(itertools.combinations(range(cells), mechanism.size)))
    if isinstance(mechanism, UnaryEncoding):
        bits = np.array(list(itertools.product([0, 1], repeat=cells)), dtype=np.uint8)
        return np.packbits(bits, axis=1).astype(np.int64)
    return np.arange(mechanism.limit)[:, None]


def expected_tallies(mechanism: Estimator) -> np.ndarray:
    """What a report of each cell adds to the tallies on average, as shares of all it adds: the implied channel."""
    matrix, reports = mechanism.transition_matrix(), every_report(mechanism)
    occurs = np.flatnonzero(matrix.any(axis=0))
    tallies = np.array([mechanism.tally(reports[[place]]) for place in occurs], dtype=np.float64)
    expected = matrix[:, occurs] @ tallies
    added = expected.sum(axis=1)
    np.testing.assert_allclose(added, added[0], rtol=1e-13)  # every cell adds the same, so shares are a channel
    return expected / added[:, None]


def assert_channel_is(channel: Channel, matrix: np.ndarray) -> None:
    """Both products of the channel are those of the matrix."""
    dense = Matrix(channel.shape, matrix)
    assert channel.outcomes == dense.outcomes
    words = Simulation(8).uniforms(matrix.shape[0] + matrix.shape[1])
    density, ratio = words[: matrix.shape[0]].reshape(channel.shape), words[matrix.shape[0] :]
    density /= density.sum()
    np.testing.assert_allclose(channel.forward(density), dense.forward(density), rtol=0, atol=1e-14)
    np.testing.assert_allclose(channel.backward(ratio), dense.backward(ratio), rtol=0, atol=1e-14)


def assert_follows(samples: np.ndarray, law: np.ndarray) -> None:
    """Chi-square at alpha 1e-6, likeliest outcomes first; and another law is told apart."""
    observed = np.bincount(samples, minlength=len(law))
    assert not observed[law == 0].any()
    order = np.argsort(-law)
    assert chi_square(observed[order], law[order] * len(samples)) >= ALPHA


def draws(mechanism: Estimator, cell: int, count: int, seed: int = 1) -> np.ndarray:
    """Many reports of one cell."""
    return mechanism.draw(np.full(count, cell), Simulation(seed))


def corners(grid: Grid) -> Sequence[int]:
    """A corner, a border cell and the middle."""
    return sorted({0, grid.cols - 1, (grid.rows // 2) * grid.cols + grid.cols // 2})
