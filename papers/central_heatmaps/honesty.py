"""Measure how often the default mechanism's intervals contain the true count, level by level, and how wide they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import heathaze as hz
from heathaze.inference.posterior import posterior
from heathaze.privacy.guarantee import Unit


def coverage_by_level(settings: Mapping[str, Any]) -> dict[int, dict[str, list[float]]]:
    """For each number of clusters: by level, the share of nodes whose 90 % interval holds, and the mean width."""
    releases = range(settings["releases"])
    found: dict[int, dict[str, list[float]]] = {}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for clusters in settings["clusters"]:
            jobs = [pool.submit(one_release, clusters, run, settings) for run in releases]
            held, width, nodes = np.sum([job.result() for job in jobs], axis=0).T
            found[clusters] = {"holds": (held / nodes).tolist(), "width": (width / nodes).tolist()}
    return found


def one_release(clusters: int, run: int, settings: Mapping[str, Any]) -> np.ndarray:
    """For each level: the nodes whose interval contains the true count, the sum of widths in people, and all nodes.

    These are the intervals with which ``release.squares`` classifies squares.
    """
    grid = hz.Grid.plane(x=(0, 1), y=(0, 1), size=settings["size"])
    counts = city_of(grid, clusters, settings["people"], seed=1000 * clusters + run)
    noisy = hz.central.AdaptiveTree(grid, settings["epsilon"]).measure(counts, hz.Simulation(run))
    found, sums = posterior(noisy), []
    for level, (belief, (low, high)) in enumerate(zip(found.levels, found.intervals(0.9), strict=True)):
        truth = counts.at(level, belief.codes[belief.measured]) / counts.one
        sums.append([((truth >= low) & (truth <= high)).sum(), (high - low).sum(), len(truth)])
    return np.array(sums, dtype=np.float64)


def city_of(grid: hz.Grid, clusters: int, people: int, seed: int) -> hz.Counts:
    """Draw people with one place each: most around clusters of random size and weight, a tenth anywhere."""
    rng = np.random.default_rng(seed)
    centre, spread = rng.uniform(0.1, 0.9, (clusters, 2)), rng.uniform(0.02, 0.1, clusters)
    which = rng.choice(clusters, people, p=rng.dirichlet(np.ones(clusters)))
    place = centre[which] + rng.normal(0, 1, (people, 2)) * spread[which, None]
    anywhere = rng.random(people) < 0.1
    place[anywhere] = rng.random((anywhere.sum(), 2))
    row, col, inside = grid.cell_of(place[:, 0], place[:, 1])
    cells, mass = np.unique((row * grid.cols + col)[inside], return_counts=True)
    return hz.Counts.from_cells(
        grid, cells // grid.cols, cells % grid.cols, mass.astype(np.int64), bound=1, one=1, unit=Unit.PERSON
    )
