"""One trial of the paper's section 4: draw people, run every method on them, measure the heat maps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gaze import fixations
from harness.data import columns_of, data_file, seed_of

import heathaze as hz
from heathaze.datasets.mixtures import mixture
from heathaze.errors import WeakPrivacy
from heathaze.privacy.guarantee import Unit

HERE = Path(__file__).resolve().parent
ONE = 2**20
"""The integer mass of one person in the counts."""

METRICS = {"SIM": 1, "CC": 1, "KL": -1, "EMD": -1}
"""1 for a metric where a larger value is better, −1 where a smaller value is better."""


@dataclass(frozen=True)
class Trial:
    """The parameters of one trial; ``size`` is the number of cells on the longer side.

    ``source`` is "synthetic", "gowalla", "gaze", "made-up gaze", or "mixture:clusters:sparsity".
    """

    source: str
    run: int
    epsilon: float
    people: int
    size: int
    sigma: float
    emd_size: int
    methods: tuple[tuple[str, str, float | None], ...]


@dataclass(frozen=True)
class Visits:
    """Points with the index of their person, and the box around them."""

    person: np.ndarray
    x: np.ndarray
    y: np.ndarray
    box: hz.Box
    geographic: bool

    def grid(self, size: int) -> hz.Grid:
        """The grid over the box: size × size cells, or on a wide plane fewer rows, so that its cells are squares."""
        if self.geographic:
            return hz.Grid.over(lon=self.box.x, lat=self.box.y, size=size)
        (left, right), (top, bottom) = self.box.x, self.box.y
        return hz.Grid.plane(x=self.box.x, y=self.box.y, shape=(round(size * (bottom - top) / (right - left)), size))

    def counts(self, grid: hz.Grid, people: int, seed: int) -> hz.Counts:
        """Count random people who have a visit in the box; each person is a distribution of mass 1 (in integers)."""
        row, col, inside = grid.cell_of(self.x, self.y)
        _, who = np.unique(self.person[inside], return_inverse=True)
        chosen = np.zeros(who.max() + 1, dtype=bool)
        chosen[np.random.default_rng(seed).choice(len(chosen), size=people, replace=False)] = True
        held = chosen[who]
        who, cell = who[held], (row * grid.cols + col)[inside][held]
        pairs, visits = np.unique(who * grid.cells + cell, return_counts=True)
        owner, cell = np.divmod(pairs, grid.cells)
        # ⌊M · n_ic / n_i⌋: each person's mass is at most M.
        share = ONE * visits // np.bincount(who)[owner]
        cells, where = np.unique(cell, return_inverse=True)
        mass = np.zeros(len(cells), dtype=np.int64)
        np.add.at(mass, where, share)
        return hz.Counts.from_cells(
            grid, cells // grid.cols, cells % grid.cols, mass, bound=ONE, one=ONE, unit=Unit.PERSON
        )


def visits_of(trial: Trial, config: Mapping[str, Any]) -> Visits:
    """Load or generate the data of a trial; a mixture is drawn anew for every run."""
    if trial.source == "gowalla":
        place = config["gowalla"]
        path = data_file(place["file"])
        assert path is not None
        person, lon, lat = columns_of(path, "user_id", "lon", "lat")
        return Visits(person, lon, lat, hz.Box.over(lon=tuple(place["lon"]), lat=tuple(place["lat"])), True)
    if trial.source in ("gaze", "made-up gaze"):
        wide, high = config["gaze"]["pixels"]
        person, x, y = fixations(trial.source, trial.run // config["gaze"]["trials"], config)
        return Visits(person, x, y, hz.Box.plane(x=(0, wide), y=(0, high)), False)
    seed = seed_of(trial.source, trial.run)
    if trial.source == "synthetic":
        made = config["synthetic"]
        table = mixture(made["population"], made["clusters"], made["share"], 256, tuple(made["spread"]), seed=seed)
    else:
        # All sparsities of a run use the same mixture; a denser sample only has more points.
        name, clusters, share = trial.source.split(":")
        seed = seed_of(name, clusters, trial.run)
        table = mixture(trial.people, int(clusters), float(share), trial.size, seed=seed)
    return Visits(table["person"], table["x"], table["y"], hz.Box.plane(x=(0, 1), y=(0, 1)), False)


def heat_maps(trial: Trial, config: Mapping[str, Any]) -> dict[str, hz.Density]:
    """The heat map of the truth (named "truth") and of every method, on the same people."""
    visits = visits_of(trial, config)
    grid = visits.grid(trial.size)
    counts = visits.counts(grid, trial.people, seed_of(trial.source, trial.run))
    sigma = trial.sigma * trial.size
    maps = {"truth": hz.Density.from_mass(grid, counts.dense()).smooth(sigma)}
    warnings.simplefilter("ignore", WeakPrivacy)  # figure 8 goes up to ε = 20
    for name, mechanism, share in trial.methods:
        extra = {} if share is None else {"share": share}
        method = getattr(hz.central, mechanism)(grid, epsilon=trial.epsilon, **extra)
        noise = hz.Simulation(seed_of(trial.source, trial.run, trial.epsilon, trial.people, trial.size, name))
        maps[name] = hz.publish(method, counts, randomness=noise).smooth(sigma)
    return maps


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Measure all methods on the same people: SIM, CC and KL of the heat maps, and EMD of the aggregated heat maps."""
    maps = heat_maps(trial, config)
    truth = maps.pop("truth")
    return {name: compare(truth, heat, trial.emd_size) for name, heat in maps.items()}


def compare(truth: hz.Density, heat: hz.Density, emd_size: int) -> dict[str, float]:
    """The four metrics of a heat map; no EMD if its size (cells on the longer side) is 0."""
    found = {
        "SIM": hz.metrics.similarity(truth, heat),
        "CC": hz.metrics.pearson(truth, heat),
        "KL": hz.metrics.kl(truth, heat),
    }
    if emd_size:
        coarse = (emd_size * truth.grid.rows // truth.grid.cols, emd_size)
        found["EMD"] = float(hz.metrics.emd(truth.resample(coarse), heat.resample(coarse), tolerance=1e-4))
    return found
