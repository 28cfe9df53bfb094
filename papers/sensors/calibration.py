"""What is computed and not drawn: Δ₂ over n, m and T, and which epsilon printed formulas really have."""

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
    """Δ₂ for reach 1 on the line, sources at candidates."""
    return sensitivity(Line(n, m, T), 1, between=False).per_length


def scaling(config: Mapping[str, Any]) -> dict[str, tuple[list[float], list[float]]]:
    """Δ₂ over n, m and T: where, and how large."""
    chosen = config["scaling"]
    usual = {name: chosen[name] for name in ("n", "m", "T")}
    return {
        name: (chosen[f"over_{name}"], [rate(**usual | {name: value}) for value in chosen[f"over_{name}"]])
        for name in usual
    }


def slope(x: Sequence[float], y: Sequence[float], low: float, high: float) -> float:
    """Of log y over log x, between two x."""
    chosen = [place for place, value in enumerate(x) if low <= value <= high]
    return float(np.polyfit(np.log([x[place] for place in chosen]), np.log([y[place] for place in chosen]), 1)[0])


# ── printed formulas ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Calibration:
    """A way to choose σ: for which promise, and which one it keeps."""

    name: str
    where: str
    nominal: float
    delta: float
    mu: float

    @property
    def realised(self) -> float:
        """The least ε at which (ε, δ) holds for Gaussian noise with μ = Δ/σ: Balle and Wang's formula, inverted."""
        return float(get_epsilon_gaussian(1 / self.mu, self.delta))


def calibrations(config: Mapping[str, Any]) -> list[Calibration]:
    """Ours first, then those that one may read in the paper."""
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
    # Each snapshot has the noise of its own Δ₂, so that is what the stacked vector is measured in.
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
    """Δ₂ of one edge of a star, and as table 2 prints it, without the factor n − 2."""
    gone, slow = math.exp(-tau * n), math.exp(-tau)
    between = (gone - slow) / (n - 1)
    field = Graph([(0, leaf) for leaf in range(1, n)], tau)
    return sensitivity(field, 1).l2, math.sqrt(gone**2 + between**2 + (between + slow) ** 2)


def stacked_rate(config: Mapping[str, Any]) -> float:
    """Δ₂ of several snapshots taken as one vector, which is what is calibrated on."""
    chosen = config["scaling"]
    fields = [Line(chosen["n"], chosen["m"], T) for T in chosen["snapshots"]]
    return sensitivity(Snapshots(fields), 1).per_length


# ── figure 3 ────────────────────────────────────────────────────────────────────────────────────────────────────────


def best_possible(
    config: Mapping[str, Any], length: int, graphs: int, *, epsilon: float | None = None, runs: int = 2000
) -> tuple[float, float]:
    """How often the likelier community is the right one when one unit source is known to exist: smallest, largest.

    Over the graphs, by so many draws each; a source at every node equally likely. No method can do better.
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
