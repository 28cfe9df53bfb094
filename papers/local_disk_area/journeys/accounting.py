"""One trial of appendix D: the same journeys through each mechanism, with what a person pays at each accounting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness.data import seed_of
from harness.results import Config, Point
from walks import box_of, present, walks

import heathaze as hz
from heathaze.domain.lines import Lines
from heathaze.local.disk_area import paper_radius
from heathaze.local.estimate import smooth_map
from heathaze.local.expectation_maximisation import expectation_maximisation

PRINTED = "DAM, ε a point"
PADDED, PADDED_OURS = "DAM, ε/200 a point", "DAM, ε/200 a point, ours"
ONE, ONE_OURS = "DAM, one point", "DAM, one point, ours"
LDP_TRACE, PIVOT_TRACE, EVEN = "LDPTrace", "PivotTrace", "an even map"
METHODS = (PRINTED, PADDED, PADDED_OURS, ONE, ONE_OURS, LDP_TRACE, PIVOT_TRACE, EVEN)
"""The mechanisms. "ours" stands for the map by ``smooth_map`` in place of the paper's EM."""

FAIR = (PADDED, PADDED_OURS, ONE, ONE_OURS)
"""The disk mechanism at ε for a whole journey."""


@dataclass(frozen=True)
class Trial:
    """The parameters of one trial: d × d cells, and the ε that is printed in the appendix."""

    source: str
    run: int
    size: int
    epsilon: float


def plan(config: Config, mode: str) -> list[tuple[Point, Trial]]:
    """All trials of a full or a quick run."""
    chosen = config[mode]
    places = [("cells", size, size, chosen["cells"]["epsilon"]) for size in chosen["cells"]["d"]]
    places += [("epsilon", epsilon, chosen["epsilon"]["d"], epsilon) for epsilon in chosen["epsilon"]["epsilons"]]
    return [
        (Point(figure, source, x), Trial(source, run, size, epsilon))
        for source in chosen["data"]
        if present(source, config)
        for figure, x, size, epsilon in places
        for run in range(chosen["runs"])
    ]


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """W₂ between the true points of all journeys and the points that each mechanism estimates."""
    lines = walks(trial.source, trial.run, config)
    grid = box_of(trial.source, config, trial.size)
    truth = spread(lines, grid)
    maps = {EVEN: np.full(grid.shape, 1 / grid.cells)}
    padded = config["protocol"]["padded"]
    index = np.arange(len(lines))
    rng = np.random.default_rng(seed_of("points", trial.source, trial.run))
    one = lines.offsets[:-1] + (rng.random(len(lines)) * lines.counts).astype(np.int64)
    # A journey is padded by going through its points again from the first.
    again = lines.offsets[:-1][:, None] + np.arange(padded)[None, :] % lines.counts[index][:, None]
    for names, chosen, epsilon in (
        ((PRINTED,), np.arange(len(lines.x)), trial.epsilon),
        ((PADDED, PADDED_OURS), again.ravel(), trial.epsilon / padded),
        ((ONE, ONE_OURS), one, trial.epsilon),
    ):
        maps |= dict(zip(names, _disks(lines, chosen, grid, epsilon, _luck(trial, names[0])), strict=False))
    for name, kind in ((LDP_TRACE, hz.trajectories.LdpTrace), (PIVOT_TRACE, hz.trajectories.PivotTrace)):
        mechanism = kind(grid, trial.epsilon, squares=trial.size)
        randomness = hz.Simulation(_luck(trial, name))
        model = mechanism.estimate(mechanism.draw(lines, randomness))
        maps[name] = spread(model.sample(len(lines), randomness), grid)
    return {name: {"W2": hz.metrics.w2(truth, maps[name])} for name in METHODS}


def spread(lines: Lines, grid: hz.Grid) -> np.ndarray:
    """The distribution of all points of journeys over the cells."""
    row, col = grid.nearest_cell(lines.x, lines.y)
    return np.bincount(row * grid.cols + col, minlength=grid.cells).reshape(grid.shape) / len(lines.x)


def _luck(trial: Trial, name: str) -> int:
    return seed_of("reports", trial.source, trial.run, trial.size, trial.epsilon, name)


def _disks(lines: Lines, chosen: np.ndarray, grid: hz.Grid, epsilon: float, luck: int) -> tuple[np.ndarray, np.ndarray]:
    """The maps of some points by DAM with the paper's radius: by EM as in the paper, and by our smooth map."""
    mechanism = hz.local.DiskArea(grid, epsilon, radius=math.floor(paper_radius(grid, epsilon)))
    row, col = grid.nearest_cell(lines.x[chosen], lines.y[chosen])
    tallies = mechanism.tally(mechanism.draw(row * grid.cols + col, hz.Simulation(luck)))
    seen = tallies[tallies > 0]
    # EM stops as in ../protocol.py: when a step raises the log-likelihood by less than 1e-8 of its largest value.
    tolerance = float(-1e-8 * (seen * np.log(seen / seen.sum())).sum())
    channel = mechanism.channel()
    found = expectation_maximisation(channel, tallies, tolerance=max(tolerance, 1e-9)).density
    return found, smooth_map(channel, tallies).density
