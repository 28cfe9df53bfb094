"""The data sets: three synthetic ones, drawn anew in every run, and two real ones if their files exist."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from harness.data import columns_of, data_file, seed_of


def present(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a data set is available: synthetic, or real and its file exists."""
    file = config["data"][name].get("file")
    return file is None or data_file(file) is not None


def truth(name: str, run: int, size: int, config: Mapping[str, Any]) -> np.ndarray:
    """The distribution of a data set's points over size × size cells, with the southern row first; it sums to 1."""
    made = config["data"][name]
    if "file" in made:
        path = data_file(made["file"])
        assert path is not None
        x, y = _in_box(*columns_of(path, "lon", "lat"), made)
    else:
        means, correlations = map(tuple, made.get("means", [])), made.get("correlations", [])
        x, y = _made(name, run, made["points"], tuple(means), tuple(correlations))
    cells = _index(y, made["y"], size) * size + _index(x, made["x"], size)
    return np.bincount(cells, minlength=size * size).reshape(size, size) / len(cells)


def people(shares: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Draw people from a distribution over cells, and return their cells."""
    held = np.random.default_rng(seed).multinomial(count, shares.ravel())
    return np.repeat(np.arange(shares.size), held)


def _in_box(x: np.ndarray, y: np.ndarray, made: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Load or draw the points of a data set in its box, as in the paper."""
    (west, east), (south, north) = made["x"], made["y"]
    inside = (west <= x) & (x < east) & (south <= y) & (y < north)
    return x[inside], y[inside]


def _index(values: np.ndarray, side: tuple[float, float], size: int) -> np.ndarray:
    """The cell index ⌊(v − low) · d / L⌋ of each coordinate v in a box of length L with d cells.

    The few normal points outside the box are moved to its border (errata E1-6).
    """
    low, high = side
    return np.clip(np.floor((values - low) / (high - low) * size), 0, size - 1).astype(np.int64)


@functools.lru_cache(maxsize=16)
def _made(
    name: str, run: int, points: int, means: tuple[tuple[float, ...], ...], correlations: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed_of(name, run))
    if not means:
        # CDF log₂(1 + x), so x = 2^u − 1 for uniform u.
        x, y = 2 ** rng.random((2, points)) - 1
        return x, y
    x, y = rng.standard_normal((2, points))
    which = np.arange(points) * len(means) // points
    centre, lean = np.array(means)[which], np.array(correlations)[which]
    return x + centre[:, 0], lean * x + np.sqrt(1 - lean**2) * y + centre[:, 1]
