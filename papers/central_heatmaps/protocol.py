"""One trial of the paper's section 4: draw people, run every method on them, measure the heat maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness.data import columns_of, data_file, seed_of

import heathaze as hz
from heathaze.datasets.mixtures import mixture
from heathaze.privacy.guarantee import Unit

HERE = Path(__file__).resolve().parent
ONE = 2**20
"""The integer mass of one person in the counts."""

METRICS = {"SIM": 1, "CC": 1, "KL": -1, "EMD": -1}
"""1 for a metric where a larger value is better, −1 where a smaller value is better."""


@dataclass(frozen=True)
class Trial:
    """The parameters of one trial. ``source`` is "synthetic", "gowalla", or "mixture:clusters:sparsity"."""

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
        """The grid of size × size cells over the box."""
        if self.geographic:
            return hz.Grid.over(lon=self.box.x, lat=self.box.y, size=size)
        return hz.Grid.plane(x=self.box.x, y=self.box.y, size=size)

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


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Measure all methods on the same people: SIM, CC and KL of the heat maps, and EMD of the aggregated heat maps."""
    visits = visits_of(trial, config)
    grid = visits.grid(trial.size)
    counts = visits.counts(grid, trial.people, seed_of(trial.source, trial.run))
    sigma, coarse = trial.sigma * trial.size, (trial.emd_size, trial.emd_size)
    truth = hz.Density.from_mass(grid, counts.dense()).smooth(sigma)
    found = {}
    for name, mechanism, share in trial.methods:
        extra = {} if share is None else {"share": share}
        method = getattr(hz.central, mechanism)(grid, epsilon=trial.epsilon, **extra)
        noise = hz.Simulation(seed_of(trial.source, trial.run, trial.epsilon, trial.people, trial.size, name))
        heat = hz.publish(method, counts, randomness=noise).smooth(sigma)
        found[name] = {
            "SIM": hz.metrics.similarity(truth, heat),
            "CC": hz.metrics.pearson(truth, heat),
            "KL": hz.metrics.kl(truth, heat),
        }
        if trial.emd_size:
            distance = hz.metrics.emd(truth.resample(coarse), heat.resample(coarse), tolerance=1e-4)
            found[name]["EMD"] = float(distance)
    return found
