"""The journeys of appendix D: walks between neighbouring cells of a fine grid, with a point of the data in each."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from harness.data import columns_of, data_file, seed_of

import heathaze as hz
from heathaze.datasets import city
from heathaze.datasets.city import CITY
from heathaze.domain.lines import Lines


def present(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a data set is available: synthetic, or real and its file exists."""
    file = config["data"][name].get("file")
    return file is None or data_file(file) is not None


def box_of(name: str, config: Mapping[str, Any], size: int) -> hz.Grid:
    """The public box of a data set, divided into size × size cells. Sides are those of the map, so a cell is square."""
    made = config["data"][name]
    x, y = (made["x"], made["y"]) if "file" in made else (CITY.x, CITY.y)
    return hz.Grid.plane(x=tuple(x), y=tuple(y), size=size)


def walks(name: str, run: int, config: Mapping[str, Any]) -> Lines:
    """The journeys of one run.

    A journey starts in a random cell that has points. Each step goes to one of the eight neighbours, with a probability
    in proportion to its points; a journey without such a neighbour stays. Each cell on the way gives a random one of
    its points.
    """
    settings = config["protocol"]
    grid = box_of(name, config, settings["fine"])
    points, first, counts = _points_by_cell(json.dumps(config["data"][name]), grid)
    rng = np.random.default_rng(seed_of("walks", name, run))
    number, (least, most) = settings["journeys"], settings["points"]
    cell = rng.choice(np.flatnonzero(counts), number)
    length = rng.integers(least, most + 1, number)
    # A margin without points stands around the map.
    padded = np.pad(counts.reshape(grid.shape), 1).ravel()
    wide = grid.cols + 2
    steps = np.array([down * wide + across for down in (-1, 0, 1) for across in (-1, 0, 1) if down or across])
    here = (cell // grid.cols + 1) * wide + cell % grid.cols + 1
    path = np.empty((number, most), np.int64)
    for step in range(most):
        path[:, step] = here
        sums = np.cumsum(padded[here[:, None] + steps], axis=1)
        chosen = (sums <= (rng.random(number) * sums[:, -1])[:, None]).sum(axis=1)
        here = np.where(sums[:, -1] > 0, here + steps[np.minimum(chosen, 7)], here)
    inside = np.arange(most) < length[:, None]
    visited = path[inside]
    visited = (visited // wide - 1) * grid.cols + visited % wide - 1
    taken = points[first[visited] + (rng.random(len(visited)) * counts[visited]).astype(np.int64)]
    return Lines(taken[:, 0], taken[:, 1], np.concatenate([[0], np.cumsum(length)]))


@functools.lru_cache(maxsize=4)
def _points_by_cell(settings: str, grid: hz.Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All points in the order of their cells, the first point of each cell, and the number of points of each cell."""
    file = json.loads(settings).get("file")
    if file is None:
        table = city(seed=7)
        x, y = np.asarray(table["lon"]), np.asarray(table["lat"])
    else:
        path = data_file(file)
        assert path is not None
        x, y = columns_of(path, "lon", "lat")
    row, col, inside = grid.cell_of(x, y)
    cell = (row * grid.cols + col)[inside]
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=grid.cells)
    return np.column_stack([x, y])[inside][order], np.cumsum(counts) - counts, counts
