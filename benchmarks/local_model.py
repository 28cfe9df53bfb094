"""Time the local model: points randomised per second, an EM step, and the whole estimate against dense EM.

python benchmarks/local_model.py
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.local import DiskArea, Reports, Tally, estimate, randomize
from heathaze.local.expectation_maximisation import expectation_maximisation
from heathaze.privacy.randomness import Simulation

EPSILON = 3.5
POINTS = 1_000_000
WANTED_RATE = 2e6
WANTED_STEP = {256: 0.025, 512: 0.1}
WANTED_RATIO, WANTED_SECONDS = 100, 15
DENSE = 64
DENSE_STEPS = 1000
"""The assumed number of EM steps. Plain EM needs more on 256 × 256 cells, so the extrapolation favours dense EM."""


def main() -> None:
    """Print rates, times and ratios, and whether the goals are reached."""
    _randomising()
    for size in WANTED_STEP:
        _step(size)
    _whole_estimate()


def _randomising() -> None:
    """Compare randomising points with Algorithm 2 of the paper, which scans a row of probabilities for each point."""
    mechanism = DiskArea(_grid(256), EPSILON)
    points = _city(POINTS)
    ours = min(_seconds(lambda: randomize(mechanism, points)) for _ in range(3))
    small = DiskArea(_grid(DENSE), EPSILON)
    rows = np.cumsum(small.transition_matrix(), axis=1)
    cells = np.arange(2000) % small.grid.cells
    uniforms = Simulation(1).uniforms(len(cells))
    scan = _seconds(lambda: [np.argmax(rows[cell] > u) for cell, u in zip(cells, uniforms, strict=True)]) / len(cells)
    rate = POINTS / ours
    print(f"randomize, 256 × 256, one core: {rate / 1e6:.1f} million points a second")
    print(f"  wanted at least {WANTED_RATE / 1e6:.0f}: {'reached' if rate >= WANTED_RATE else 'MISSED'}")
    print(f"  a scan of the row, {DENSE} × {DENSE}: {1 / scan / 1e6:.3f} million, ratio {rate * scan:.0f}")


def _step(size: int) -> None:
    mechanism = DiskArea(_grid(size), EPSILON)
    channel = mechanism.channel()
    tally = Tally.of(Reports(mechanism, mechanism.draw(_cells(mechanism.grid, 100_000), Simulation(1))))

    def steps(count: int) -> None:
        expectation_maximisation(channel, tally.counts, steps=count, tolerance=0.0, accelerate=False)

    steps(2)
    seconds = min(_seconds(lambda: steps(10)) / 10 for _ in range(3))
    verdict = "reached" if seconds <= WANTED_STEP[size] else "MISSED"
    print(f"EM step, {size} × {size}, radius {mechanism.radius}: {1e3 * seconds:.1f} ms")
    print(f"  wanted at most {1e3 * WANTED_STEP[size]:.0f} ms: {verdict}")


def _whole_estimate() -> None:
    """Compare the estimate from a million reports with EM by an explicit matrix, extrapolated from a smaller grid."""
    dense = DiskArea(_grid(DENSE), EPSILON)
    matrix = dense.transition_matrix()
    density, ratio = np.full(dense.grid.cells, 1 / dense.grid.cells), np.ones(dense.outcomes)
    small = min(_seconds(lambda: (density @ matrix, matrix @ ratio)) for _ in range(5))
    mechanism = DiskArea(_grid(256), EPSILON)
    entries = mechanism.grid.cells * mechanism.outcomes
    extrapolated = small * entries / matrix.size * DENSE_STEPS
    tally = Tally.of(Reports(mechanism, mechanism.draw(_cells(mechanism.grid, POINTS), Simulation(1))))
    seconds = _seconds(lambda: estimate(tally, draws=0))
    with_doubt = _seconds(lambda: estimate(tally))
    tracemalloc.start()
    estimate(tally, draws=0)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    times = extrapolated / seconds
    print(f"the whole estimate, 256 × 256, a million reports: {seconds:.1f} s, with error bars {with_doubt:.1f} s")
    print(f"  memory {memory / 2**20:.0f} MB, {memory / mechanism.outcomes:.0f} bytes a cell of the frame")
    print(f"  dense EM by extrapolation ({DENSE_STEPS} steps): {extrapolated:,.0f} s, ratio {times:.0f}")
    reached = times >= WANTED_RATIO and with_doubt <= WANTED_SECONDS
    print(f"  wanted at least {WANTED_RATIO} and under {WANTED_SECONDS} s: {'reached' if reached else 'MISSED'}")


def _grid(size: int) -> Grid:
    return Grid.plane(x=(0, 1), y=(0, 1), size=size)


def _city(count: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    centres, spread = rng.uniform(0.1, 0.9, (20, 2)), rng.uniform(0.02, 0.1, 20)
    which = rng.integers(0, 20, count)
    return np.clip(centres[which] + rng.normal(0, 1, (count, 2)) * spread[which, None], 0, 1)


def _cells(grid: Grid, count: int) -> np.ndarray:
    row, col = grid.nearest_cell(*_city(count).T)
    return np.asarray(row * grid.cols + col)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
