"""One trial of the local model: people report through each mechanism, and the map estimated from them is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from calibration import square
from harness.data import seed_of
from sources import parts_of, people, truth

import heathaze as hz
from heathaze.local.channels import Marginals, Matrix
from heathaze.local.disk_area import paper_radius
from heathaze.local.estimate import smooth_map
from heathaze.local.expectation_maximisation import expectation_maximisation

HERE = Path(__file__).resolve().parent

METRICS = {"W2": -1, "EMD": -1, "SIM": 1}
"""1 for a metric where a larger value is better, −1 where a smaller value is better."""


@dataclass(frozen=True)
class Trial:
    """The parameters of one trial: mechanisms with the paper's EM, or estimators on the reports of DAM.

    ``reports`` is the number of people; if left out, it is the data set's, or that of each of its parts. ``radius`` is
    the radius of the discs in cells; if left out, it is the paper's, rounded down. ``subset`` holds the set size k and
    the epsilon of SEM-Geo-I.
    """

    source: str
    run: int
    size: int
    epsilon: float
    methods: tuple[str, ...]
    reports: int | None = None
    radius: int | None = None
    subset: tuple[int, float] | None = None


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """W₂ of every mechanism's map, or EMD and SIM of every estimator's map, with the same people and random words.

    For a data set in parts it is the mean over the parts, as in the paper (section VII-C).
    """
    found = [_measure(trial, config, part) for part in range(len(parts_of(trial.source, config)))]
    return {
        name: {metric: float(np.mean([one[name][metric] for one in found])) for metric in metrics}
        for name, metrics in found[0].items()
    }


def _measure(trial: Trial, config: Mapping[str, Any], part: int) -> dict[str, dict[str, float]]:
    made = parts_of(trial.source, config)[part]
    place = f"{trial.source} {made['name']}" if "name" in made else trial.source
    shares = truth(trial.source, trial.run, trial.size, config, part)
    count = made["reports"] if trial.reports is None else trial.reports
    cells = people(shares, count, seed_of("people", place, trial.run, trial.size))
    luck = seed_of("reports", place, trial.run, trial.size, trial.epsilon)
    if trial.methods[0] in config["methods"]["estimators"]:
        mechanism = mechanism_of(trial, config["mechanisms"]["DAM"])
        tallies = mechanism.tally(mechanism.draw(cells, hz.Simulation(luck)))
        steps = config["protocol"]["em_steps"]
        return {name: _compared(shares, estimated(name, mechanism, tallies, steps)) for name in trial.methods}
    found = {}
    for name in trial.methods:
        mechanism = mechanism_of(trial, config["mechanisms"][name])
        tallies = mechanism.tally(mechanism.draw(cells, hz.Simulation(luck)))
        found[name] = {"W2": hz.metrics.w2(shares, likeliest(mechanism, tallies))}
    return found


def mechanism_of(trial: Trial, settings: Mapping[str, Any]) -> Any:
    """Make a local mechanism by its name in the paper, with the paper's parameters."""
    chosen: dict[str, Any] = dict(settings)
    kind = chosen.pop("mechanism")
    grid, epsilon = square(trial.size), trial.epsilon
    if kind in ("DiskArea", "HybridUniformExponential"):
        chosen["radius"] = math.floor(paper_radius(grid, epsilon)) if trial.radius is None else trial.radius
    elif kind == "SubsetExponential":
        assert trial.subset is not None
        chosen["size"], epsilon = trial.subset
    return getattr(hz.local, kind)(grid, epsilon, **chosen)


def likeliest(mechanism: Any, tallies: np.ndarray) -> np.ndarray:
    """The paper's estimate of the map: EM until the likelihood hardly rises."""
    channel = mechanism.channel()
    if not isinstance(channel, Marginals):
        return expectation_maximisation(channel, tallies, tolerance=_tolerance(tallies)).density
    # Different people reported rows and columns, so only the two marginal distributions can be estimated.
    parts = np.split(tallies, [channel.down.shape[1]])
    down, across = (
        expectation_maximisation(Matrix((len(matrix), 1), matrix), part, tolerance=_tolerance(part)).density[:, 0]
        for matrix, part in zip((channel.down, channel.across), parts, strict=True)
    )
    return np.outer(down, across)


def _tolerance(tallies: np.ndarray) -> float:
    """When EM stops, in nats: 1e-8 of the log-likelihood, as in the independent implementation (errata E1-13).

    The largest possible log-likelihood of the tallies, Σ n log(n / Σ n), stands for the log-likelihood.
    """
    seen = tallies[tallies > 0]
    return float(-1e-8 * (seen * np.log(seen / seen.sum())).sum())


def estimated(name: str, mechanism: Any, tallies: np.ndarray, steps: int) -> np.ndarray:
    """Estimate a map from reports of DAM with one of the compared estimators."""
    channel = mechanism.channel()
    match name:
        case "EM":
            # Plain EM steps, as in the independent implementation; accelerated steps go further and overfit more.
            return expectation_maximisation(channel, tallies, tolerance=_tolerance(tallies), accelerate=False).density
        case "EM, 60 steps":
            return expectation_maximisation(channel, tallies, steps=steps, tolerance=0.0, accelerate=False).density
        case "EMS":
            return expectation_maximisation(channel, tallies, tolerance=_tolerance(tallies), smooth=True).density
    return smooth_map(channel, tallies).density


def _compared(shares: np.ndarray, found: np.ndarray) -> dict[str, float]:
    return {
        "EMD": float(hz.metrics.emd(shares, found, tolerance=2e-5)),
        "SIM": hz.metrics.similarity(shares, found),
    }
