"""Compute the sensitivity Δ₂ over n, m and T, and the true ε of the noise that the printed formulas give."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian
from harness.data import seed_of
from protocol import frozen, one_source_posterior, readings_on_graph
from sources import community

from heathaze.sensors.physics import Graph, Line, Snapshots
from heathaze.sensors.sensitivity import sensitivity

# ── figure 2 ────────────────────────────────────────────────────────────────────────────────────────────────────────


@functools.lru_cache(maxsize=64)
def rate(n: int, m: int, T: float) -> float:
    """The sensitivity Δ₂ on the line for a reach of 1, with sources at the candidate places."""
    return sensitivity(Line(n, m, T), 1, between=False).per_length


def scaling(config: Mapping[str, Any]) -> dict[str, tuple[list[float], list[float]]]:
    """Δ₂ over n, m and T, as pairs of the values on the axis and Δ₂."""
    chosen = config["scaling"]
    usual = {name: chosen[name] for name in ("n", "m", "T")}
    return {
        name: (chosen[f"over_{name}"], [rate(**usual | {name: value}) for value in chosen[f"over_{name}"]])
        for name in usual
    }


def slope(x: Sequence[float], y: Sequence[float], low: float, high: float) -> float:
    """The slope of log y over log x between two values of x."""
    chosen = [place for place, value in enumerate(x) if low <= value <= high]
    return float(np.polyfit(np.log([x[place] for place in chosen]), np.log([y[place] for place in chosen]), 1)[0])


# ── printed formulas ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Calibration:
    """A formula for σ with its nominal ε and δ, and μ = Δ₂/σ, from which the true ε follows."""

    name: str
    where: str
    nominal: float
    delta: float
    mu: float

    @property
    def realised(self) -> float:
        """The smallest ε for which Gaussian noise with μ = Δ₂/σ is (ε, δ)-private, by Balle and Wang's formula."""
        return float(get_epsilon_gaussian(1 / self.mu, self.delta))


def calibrations(config: Mapping[str, Any]) -> list[Calibration]:
    """Our calibration of σ, followed by the formulas that can be read in the paper."""
    return list(_calibrations(config["scaling"]))


def _calibrations(chosen: Mapping[str, Any]) -> Iterator[Calibration]:
    n, m, T = chosen["n"], chosen["m"], chosen["T"]
    where, delta = f"n = m = {n}, T = {T:g}", 1e-5
    analytic, printed = get_sigma_gaussian(1.0, delta), 2 * math.log(1.25 / delta)
    line = Line(n, m, T)
    steps = n * np.diff(line.matrix, axis=1)
    whole, alone = rate(n, m, T), float(np.abs(steps).max())

    def made(name: str, deviation: float, change: float = whole, at: str = where) -> Calibration:
        return Calibration(name, at, 1.0, delta, change / deviation)

    yield made("ours: the whole vector, with n", analytic * whole)
    yield made("printed constant 2 ln(1.25/δ), Δ₂ with n (E4-1)", printed * whole)
    yield made("Δ₂ without n (E4-2)", analytic * whole / n)
    yield made("Δ₂ without n, printed constant", printed * whole / n)
    yield made("each sensor for itself (E4-3)", analytic * alone)
    yield made("each sensor for itself, printed constant", printed * alone)
    times = chosen["snapshots"]
    fields = [Line(n, m, one) for one in times]
    # Each snapshot has noise proportional to its own Δ₂, so the stacked vector is divided by these before Δ₂ is taken.
    single = [rate(n, m, one) for one in times]
    parts = [n * np.diff(field.matrix, axis=1) / own for field, own in zip(fields, single, strict=True)]
    together = float(np.sqrt(sum((part**2).sum(axis=0) for part in parts)).max())
    named = "T = " + ", ".join(f"{one:g}" for one in times)
    yield made(f"{len(times)} snapshots, each for itself (E4-3)", analytic, together, f"n = m = {n}, {named}")
    star, wrong = star_rates(10, 1.0)
    yield made("the star graph as printed (E4-8)", analytic * wrong, star, "10 nodes, τ = 1")
    classical = math.sqrt(2 * math.log(1.25 / delta)) / 10
    yield Calibration("classical √(2 ln(1.25/δ)) beyond its range (E4-1)", "any field", 10.0, delta, 1 / classical)


def star_rates(n: int, tau: float) -> tuple[float, float]:
    """The true Δ₂ of an edge of a star, and the printed Δ₂ of table 2, which lacks the factor n − 2."""
    gone, slow = math.exp(-tau * n), math.exp(-tau)
    between = (gone - slow) / (n - 1)
    field = Graph([(0, leaf) for leaf in range(1, n)], tau)
    return sensitivity(field, 1).l2, math.sqrt(gone**2 + between**2 + (between + slow) ** 2)


def stacked_rate(config: Mapping[str, Any]) -> float:
    """Δ₂ of the vector of all readings in several snapshots, for which the noise is calibrated."""
    chosen = config["scaling"]
    fields = [Line(chosen["n"], chosen["m"], T) for T in chosen["snapshots"]]
    return sensitivity(Snapshots(fields), 1).per_length


# ── figure 3 ────────────────────────────────────────────────────────────────────────────────────────────────────────


def best_possible(
    config: Mapping[str, Any], length: int, graphs: int, *, epsilon: float | None = None, runs: int = 2000
) -> tuple[float, float]:
    """The best possible rate of finding the right community of one unit source: the smallest and largest over graphs.

    The rate of each graph is the mean over so many draws, with the source at a uniformly random node. The guess is the
    community with the larger posterior probability; no method is right more often.
    """
    settings = config["graph"] if epsilon is None else {**config["graph"], "epsilon": epsilon}
    found = [_best_on(number, length, frozen(settings), runs) for number in range(graphs)]
    return min(found), max(found)


@functools.cache
def _best_on(number: int, length: int, settings: tuple[tuple[str, Any], ...], runs: int) -> float:
    readings = readings_on_graph(number, length, settings)
    field, sigma = readings.field, readings.deviation
    rng = np.random.default_rng(seed_of("best possible", number, length))
    source = rng.integers(field.shape[1], size=runs)
    values = field.responses(source) + sigma * rng.normal(size=(field.shape[0], runs))
    side = community(field.shape[1])
    second = one_source_posterior(field, values, sigma)[side == 1].sum(axis=0) > 0.5
    return float((second == (side[source] == 1)).mean())
