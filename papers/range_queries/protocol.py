"""One trial of DPBench's protocol: draw people, run every mechanism on them, answer random range queries."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness.data import data_file, seed_of

import heathaze as hz
from heathaze.privacy.guarantee import Unit

HERE = Path(__file__).resolve().parent
DEFAULT = "default"
ERROR, SHARES, TOTAL, LEAK, HELD, WIDTH = "error", "error of shares", "total", "leak", "intervals that hold", "width"


@dataclass(frozen=True)
class Trial:
    """The parameters of one trial. ``source`` is the name of a data set or of made-up data."""

    source: str
    setting: str
    number: int
    rectangles: int


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Measure all mechanisms on the same people."""
    setting, protocol = config["settings"][trial.setting], config["protocol"]
    size, people = protocol["size"], setting["people"]
    truth = sample(trial.source, people, setting["seeds"][trial.number], size, config)
    grid = hz.Grid.plane(x=(0, size), y=(0, size), size=size)
    rows, cols = np.nonzero(truth)
    counts = hz.Counts.from_cells(grid, rows, cols, truth[rows, cols], bound=1, one=1, unit=Unit.PERSON)
    queries = random_queries(protocol["queries"], size, protocol["query_seed"])
    asked, blocks = answers(truth, queries), _blocks(truth)
    found = {}
    for name, method in config["methods"].items():
        extra = {"share": method["share"]} if "share" in method else {}
        extra |= {"people": people} if method.get("known") else {}
        mechanism = getattr(hz.central, method["mechanism"])(grid, epsilon=setting["epsilon"], **extra)
        noise = hz.Simulation(seed_of(trial.source, trial.setting, trial.number, name))
        release = hz.publish(mechanism, counts, randomness=noise)
        shares = release.density.values
        given = answers(shares, queries)
        found[name] = {
            # ‖true − estimated answers‖₂ / queries / people
            ERROR: _scaled(asked - given * release.total, people),
            SHARES: _scaled(asked / people - given, 1),
            TOTAL: release.total / people,
            LEAK: float(_blocks(shares)[blocks == 0].sum()) * release.total / people,
        }
        if name == DEFAULT:
            found[name] |= _intervals(release, queries[: trial.rectangles], asked / people, protocol["confidence"])
    return found


def _intervals(release: hz.Release, queries: np.ndarray, shares: np.ndarray, confidence: float) -> dict[str, float]:
    """The share of intervals that contain the true share of people in the rectangle, and their mean width."""
    held, width = [], []
    for (top, left, height, wide), share in zip(queries.tolist(), shares.tolist(), strict=False):
        found = release.mass_in(hz.Box.plane(x=(left, left + wide), y=(top, top + height)), confidence)
        held.append(found.low <= share <= found.high)
        width.append(found.high - found.low)
    return {HELD: float(np.mean(held)), WIDTH: float(np.mean(width))}


def _scaled(difference: np.ndarray, people: float) -> float:
    return float(np.linalg.norm(difference)) / len(difference) / people


def _blocks(cells: np.ndarray) -> np.ndarray:
    """Sums over blocks of 4 × 4 cells."""
    side = len(cells) // 4
    return np.asarray(cells.reshape(side, 4, side, 4).sum(axis=(1, 3)))


def random_queries(count: int, size: int, seed: int) -> np.ndarray:
    """DPBench's workload: top row, left column, height and width of random rectangles, in cells."""
    rng = np.random.RandomState(seed)
    found = []
    for _ in range(count):
        height, width = rng.randint(1, size + 1), rng.randint(1, size + 1)
        found.append((rng.randint(0, size - height + 1), rng.randint(0, size - width + 1), height, width))
    return np.array(found)


def answers(cells: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The sum of the cells in each rectangle."""
    sums = np.zeros((len(cells) + 1, len(cells) + 1))
    sums[1:, 1:] = cells.cumsum(axis=0).cumsum(axis=1)
    top, left, height, width = queries.T
    bottom, right = top + height, left + width
    return np.asarray(sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left])


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sample(source: str, people: int, seed: int, size: int, config: Mapping[str, Any]) -> np.ndarray:
    """Draw people from a data set as DPBench does: cells of its grid, with replacement; then sum blocks of cells."""
    weights = _grid(source, config["data"]["grids"])
    side = len(weights)
    drawn = np.random.RandomState(seed).choice(side * side, people, p=(weights / weights.sum()).ravel())
    cells = np.bincount(drawn, minlength=side * side).reshape(size, side // size, size, side // size)
    return np.asarray(cells.sum(axis=(1, 3)))


@functools.cache
def _grid(source: str, file: str) -> np.ndarray:
    if source in MADE_UP:
        return MADE_UP[source]()
    path = data_file(file)
    assert path is not None
    return np.asarray(np.load(path)[source], dtype=np.float64)


def _clusters() -> np.ndarray:
    """Thirty Gaussian clusters of very different weight and width, as in check-ins."""
    rng = np.random.default_rng(1)
    axis = np.arange(256)
    cells = np.zeros((256, 256))
    for weight in 1 / np.arange(1, 31):
        (row, col), spread = rng.uniform(10, 246, 2), rng.uniform(1, 12)
        bell = [np.exp(-((axis - centre) ** 2) / (2 * spread**2)) for centre in (row, col)]
        cells += weight * np.outer(bell[0] / bell[0].sum(), bell[1] / bell[1].sum())
    return np.where(cells > 1e-7, cells, 0)


def _stripes() -> np.ndarray:
    """Two numbers of a form that take few values, and one value most often, as in attribute data."""
    rng = np.random.default_rng(2)
    weights = np.zeros((2, 256))
    for axis in weights:
        axis[0] = 5
        axis[rng.choice(256, 40, replace=False)] += 1 / np.arange(1, 41)
    return np.outer(*weights)


def _spikes() -> np.ndarray:
    """Sixty cells that hold everybody."""
    rng = np.random.default_rng(3)
    cells = np.zeros(256 * 256)
    cells[rng.choice(cells.size, 60, replace=False)] = 1 / np.arange(1, 61)
    return cells.reshape(256, 256)


def _smooth() -> np.ndarray:
    """People everywhere, three times as many in the middle as at the border."""
    axis = np.cos(np.linspace(-0.5, 0.5, 256) * np.pi)
    return 1 + 2 * np.outer(axis, axis)


MADE_UP = {"clusters": _clusters, "stripes": _stripes, "spikes": _spikes, "smooth": _smooth}


# ── peers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def peers(config: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, dict[int, float]]]:
    """The errors of DPBench's own programs by setting and data set, program and trial; empty where the file is absent.

    A2 is setting A with the last five of its samples.
    """
    path = data_file(config["data"]["peers"])
    if path is None:
        return {}
    errors: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        trial = row["trial"] + (5 if row["setting"] == "A2" else 0)
        errors.setdefault((row["setting"][:1], row["data"]), {}).setdefault(row["alg"], {})[trial] = row["error"]
    return errors
