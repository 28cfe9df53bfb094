"""The data sets: synthetic ones, drawn anew in every run, and real ones if their files exist, whole or in parts."""

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


def parts_of(name: str, config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The boxes of a data set, each with its number of reports: table III's parts, or the whole box alone."""
    made = config["data"][name]
    return list(made.get("parts", [made]))


def points_of(name: str, run: int, config: Mapping[str, Any], part: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates x and y of a data set's points in one of its boxes."""
    made = config["data"][name]
    if "file" in made:
        path = data_file(made["file"])
        assert path is not None
        return _in_box(*columns_of(path, "lon", "lat"), parts_of(name, config)[part])
    means, correlations = map(tuple, made.get("means", [])), made.get("correlations", [])
    return _made(name, run, made["points"], tuple(means), tuple(correlations))


def truth(name: str, run: int, size: int, config: Mapping[str, Any], part: int = 0) -> np.ndarray:
    """The distribution of a data set's points over size × size cells, with the southern row first; it sums to 1."""
    x, y = points_of(name, run, config, part)
    box = parts_of(name, config)[part]
    cells = _index(y, box["y"], size) * size + _index(x, box["x"], size)
    return np.bincount(cells, minlength=size * size).reshape(size, size) / len(cells)


def people(shares: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Draw people from a distribution over cells, and return their cells."""
    held = np.random.default_rng(seed).multinomial(count, shares.ravel())
    return np.repeat(np.arange(shares.size), held)


def _in_box(x: np.ndarray, y: np.ndarray, box: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The points inside a box; the others are left out, as in the paper."""
    (west, east), (south, north) = box["x"], box["y"]
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
