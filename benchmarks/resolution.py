"""Compare publishing on 2^20 cells a side with publishing on 256, with the same number of non-empty cells."""

from __future__ import annotations

import time

import numpy as np

from heathaze.central import Pyramid
from heathaze.domain.grid import Grid
from heathaze.ingest.counts import Counts
from heathaze.privacy.guarantee import Unit
from heathaze.publishing import publish

WANTED = 3.0
ROUNDS = 30


def main() -> None:
    """Print the median time on both grids, and their ratio."""
    seconds = {}
    for size in (256, 2**20):
        grid = Grid.plane(x=(0, 1), y=(0, 1), size=size)
        counts, pyramid = _people(grid), Pyramid(grid, epsilon=1)
        publish(pyramid, counts)  # compiles
        times = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            publish(pyramid, counts)
            times.append(time.perf_counter() - begun)
        seconds[size] = float(np.median(times))
        print(f"publish on {size:>7} a side, {len(counts.codes)} non-empty cells: {seconds[size] * 1e3:6.2f} ms")
    ratio = seconds[2**20] / seconds[256]
    print(f"ratio {ratio:.2f} (wanted: at most {WANTED:.0f}): {'reached' if ratio <= WANTED else 'MISSED'}")


def _people(grid: Grid) -> Counts:
    """Counts with 20,000 non-empty cells at random places of a grid."""
    rng = np.random.default_rng(1)
    coarse = rng.choice(256 * 256, size=20_000, replace=False)
    fine = grid.rows // 256
    rows, cols = (part * fine + rng.integers(0, fine, len(coarse)) for part in np.divmod(coarse, 256))
    mass = rng.integers(1, 20, len(coarse)) * 2**20
    return Counts.from_cells(grid, rows, cols, mass, bound=2**20, one=2**20, unit=Unit.PERSON)


if __name__ == "__main__":
    main()
