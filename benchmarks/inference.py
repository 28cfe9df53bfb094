"""Measure the processor time of the default map and of its first interval, beside recorded times of an earlier version.

The data are two of DPBench's data sets at three settings of ``papers/range_queries`` (128 × 128 cells; its grids in the
folder HEATHAZE_DATA, or in ../shared/data beside the repository), and 200,000 people on 2^20 cells a side. The earlier
version is commit 9362483, whose prior was not a mixture. Times of both versions are from one machine, so
``python -m benchmarks.inference --at FOLDER`` measures another version, whose package is in FOLDER, in the same way.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import heathaze as hz
from heathaze.privacy.guarantee import Unit

MOST_MAP, MOST_INTERVAL = 2.0, 7.0
"""The map should take at most this many times as long as before, and the first interval this many times the old map."""

SETTINGS = {"A": (10_000, 0.1), "B": (10_000, 1.0), "D": (1_000_000, 1.0)}
FAR = 2**20
EARLIER = {
    "checkin, A": 0.09,
    "checkin, B": 0.24,
    "checkin, D": 0.66,
    "Stroke_2D, A": 0.08,
    "Stroke_2D, B": 0.48,
    "Stroke_2D, D": 1.06,
    "2^20 cells a side": 3.98,
}
"""Processor seconds of the map with the code of commit 9362483, on a machine with 2 cores under load."""


def main(arguments: list[str] | None = None) -> None:
    """Print the times, and their ratios to the recorded ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at", metavar="FOLDER", help="measure the package in this folder instead")
    folder = parser.parse_args([] if arguments is None else arguments).at
    if folder is not None:
        environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{Path(__file__).resolve().parents[1]}"}
        subprocess.run([sys.executable, "-m", "benchmarks.inference"], env=environment, check=True)
        return
    print(f"package: {Path(hz.__file__).parent}")
    for name, grid, counts, epsilon in _cases():
        if grid.rows != FAR:
            _measured(grid, counts, epsilon)  # compiles
        found = [_measured(grid, counts, epsilon) for _ in range(1 if grid.rows == FAR else 3)]
        seconds = tuple(min(some) for some in zip(*found, strict=True))
        text = f"{name}: map {seconds[0]:.2f} s, first interval {seconds[1]:.2f} s, the next {1e3 * seconds[2]:.0f} ms"
        if name in EARLIER:
            ratios = seconds[0] / EARLIER[name], seconds[1] / EARLIER[name]
            good = ratios[0] <= MOST_MAP and ratios[1] <= MOST_INTERVAL
            text += f"; over the earlier map {ratios[0]:.2f} and {ratios[1]:.2f}: {'reached' if good else 'MISSED'}"
        print(text, flush=True)


def _cases() -> Iterator[tuple[str, hz.Grid, hz.Counts, float]]:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("HEATHAZE_DATA", beside)) / "dpbench_2d_histograms_256.npz"
    if path.is_file():
        grid = hz.Grid.plane(x=(0, 128), y=(0, 128), size=128)
        for source in ("checkin", "Stroke_2D"):
            weights = np.load(path)[source].astype(float)
            for setting, (people, epsilon) in SETTINGS.items():
                drawn = np.random.RandomState(1000).choice(256 * 256, people, p=(weights / weights.sum()).ravel())
                cells = np.bincount(drawn, minlength=256 * 256).reshape(128, 2, 128, 2).sum(axis=(1, 3))
                rows, cols = np.nonzero(cells)
                yield f"{source}, {setting}", grid, _counts(grid, rows, cols, cells[rows, cols]), epsilon
    else:
        print(f"{path.name} was not found, so only the large grid is measured. Set HEATHAZE_DATA to its folder.")
    rng = np.random.default_rng(1)
    place = rng.random((40, 2))[rng.integers(0, 40, 200_000)] + rng.normal(0, 0.02, (200_000, 2))
    row, col = (np.clip(place, 0, 1 - 1e-9) * FAR).astype(np.int64).T
    cells, number = np.unique(row * FAR + col, return_counts=True)
    grid = hz.Grid.plane(x=(0, 1), y=(0, 1), size=FAR)
    yield "2^20 cells a side", grid, _counts(grid, cells // FAR, cells % FAR, number), 1.0


def _counts(grid: hz.Grid, rows: np.ndarray, cols: np.ndarray, mass: np.ndarray) -> hz.Counts:
    return hz.Counts.from_cells(grid, rows, cols, mass.astype(np.int64), bound=1, one=1, unit=Unit.PERSON)


def _measured(grid: hz.Grid, counts: hz.Counts, epsilon: float) -> tuple[float, float, float]:
    """Processor seconds of a map, of its first interval, and of the next."""
    times = [time.process_time()]
    release = hz.publish(hz.central.default(grid, epsilon), counts, randomness=hz.Simulation(1))
    release.render(shape=(64, 64))
    times.append(time.process_time())
    for part in (0.41, 0.43):
        (left, right), (bottom, top) = grid.x, grid.y
        release.mass_in(
            hz.Box.plane(x=(left, left + part * (right - left)), y=(bottom, bottom + part * (top - bottom)))
        )
        times.append(time.process_time())
    first, interval, following = np.diff(times).tolist()
    return first, interval, following


if __name__ == "__main__":
    main(sys.argv[1:])
