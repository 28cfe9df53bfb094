"""One trial: sources heat a field, sensors read it and add noise, every method says where the sources are."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness.data import seed_of
from sources import block_model, community, lab_sensors, pair_in_room, pair_on_line, unit_sources

import heathaze as hz
from heathaze.sensors.emd import plane_emd, source_emd
from heathaze.sensors.physics import Graph, Line, Plate
from heathaze.sensors.physics.field import Field
from heathaze.sensors.readings import Readings
from heathaze.sensors.recovery.basis_pursuit import basis_pursuit
from heathaze.sensors.recovery.posterior import find_sources

HERE = Path(__file__).resolve().parent

PURSUIT, PRINTED = "basis pursuit", "basis pursuit, printed radius"
POSTERIOR, KNOWN = "posterior", "posterior, known"
UNIFORM, BEST = "uniform", "best possible"

NOTHING = 1e-9
"""Basis pursuit whose answer is weaker than this has found no source."""


@dataclass(frozen=True)
class OnLine:
    """Two unit sources on the line. ``reach`` is "0" where the readings promise nothing and have the noise of figure 1;
    ``places`` is a rule of config.toml, or "figure 1".
    """

    run: int
    guesses: int
    places: str
    n: int
    m: int
    T: float
    reach: str
    epsilon: float = 1.0
    known: bool = True


@dataclass(frozen=True)
class OnGraph:
    """One unit source in the first community of a block model."""

    run: int
    guesses: int
    graph: int
    length: int


@dataclass(frozen=True)
class InRoom:
    """Two unit sources in the lab."""

    run: int
    guesses: int
    epsilon: float


Trial = OnLine | OnGraph | InRoom


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """What each method makes of the same readings."""
    match trial:
        case OnLine():
            return _on_line(trial, config)
        case OnGraph():
            return _on_graph(trial, config)
        case InRoom():
            return _in_room(trial, config)


# ── on the line ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _on_line(trial: OnLine, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    truth, values, sigma = read_line(trial, config)
    answers = line_answers(trial, values, sigma)
    field = line_of(trial.n, trial.m, trial.T)
    found = {name: {"EMD": source_emd(field, truth, answer)} for name, answer in answers.items()}
    found[PURSUIT]["nothing"] = float(answers[PURSUIT] is answers[UNIFORM])
    found[UNIFORM]["sigma"] = sigma
    return found


def read_line(trial: OnLine, config: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, float]:
    """The sources, readings with noise, and the deviation of the noise."""
    field = line_of(trial.n, trial.m, trial.T)
    if trial.places == "figure 1":
        truth = unit_sources(config["line"]["peaks"], trial.n)
    else:
        truth = pair_on_line(trial.run, trial.n, config["places"][trial.places], trial.places)
    heat = field.apply(truth)
    luck = seed_of("readings", trial.places, trial.run, trial.n, trial.m, trial.T, trial.reach, trial.epsilon)
    if trial.reach == "0":
        sigma = config["line"]["sigma"]
        return truth, heat + sigma * np.random.default_rng(luck).normal(size=len(heat)), sigma
    readings = readings_on_line(trial.n, trial.m, trial.T, trial.reach, str(trial.epsilon), config["protocol"]["delta"])
    return truth, *_protected(readings, heat, luck)


def line_answers(trial: OnLine, values: np.ndarray, sigma: float) -> dict[str, np.ndarray]:
    """Strengths at the candidates, by every method."""
    field = line_of(trial.n, trial.m, trial.T)
    uniform = np.full(trial.n, 1 / trial.n)
    answers = {
        PURSUIT: _pursued(field, values, sigma, uniform),
        POSTERIOR: find_sources(field, values, sigma, draws=trial.guesses).shares,
    }
    if trial.known:
        known = find_sources(field, values, sigma, number=2, strengths=1.0, draws=trial.guesses)
        answers[KNOWN] = known.shares
    return answers | {UNIFORM: uniform}


def _pursued(field: Field, values: np.ndarray, sigma: float, uniform: np.ndarray) -> np.ndarray:
    """What basis pursuit says; who finds nothing knows nothing, and is scored as such."""
    found = basis_pursuit(field, values, sigma)
    return found.strengths if found.objective > NOTHING else uniform


@functools.lru_cache(maxsize=64)
def line_of(n: int, m: int, T: float) -> Line:
    """One line for all trials of a process."""
    return Line(n, m, T)


@functools.lru_cache(maxsize=64)
def readings_on_line(n: int, m: int, T: float, reach: str, epsilon: str, delta: str) -> Readings:
    """The same for its noise."""
    return Readings(line_of(n, m, T), reach, epsilon, delta)


def _protected(readings: Readings, heat: np.ndarray, luck: int) -> tuple[np.ndarray, float]:
    noisy = readings.protect(heat, randomness=hz.Simulation(luck))
    return noisy.values, noisy.deviation


# ── on a graph ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _on_graph(trial: OnGraph, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    readings = readings_on_graph(trial.graph, trial.length, frozen(config["graph"]))
    field = readings.field
    source, values, sigma = read_graph(readings, trial)
    first = community(field.shape[1]) == 0
    truth = np.eye(1, field.shape[1], source)[0]
    found = {}
    for name, answer in graph_answers(field, values, sigma, trial.guesses).items():
        spread = answer if answer.sum() > NOTHING else np.full(len(answer), 1 / len(answer))
        share = float(spread[first].sum() / spread.sum())
        # Without an answer half of the mass is on either side, which is not more than half.
        found[name] = {"right": float(share > 0.5), "share": share, "EMD": source_emd(field, truth, spread)}
        found[name]["nothing"] = float(spread is not answer)
    return found


def read_graph(readings: Readings, trial: OnGraph) -> tuple[int, np.ndarray, float]:
    """A node of the first community, the readings of all nodes with noise, and the deviation of the noise."""
    nodes = readings.field.shape[1]
    seed = seed_of("source", trial.graph, trial.length, trial.run)
    source = int(np.random.default_rng(seed).integers(nodes // 2))
    return source, *_protected(readings, readings.field.apply(np.eye(1, nodes, source)[0]), seed_of("graph", seed))


def graph_answers(field: Field, values: np.ndarray, sigma: float, guesses: int) -> dict[str, np.ndarray]:
    """Strengths at the nodes, by every method; that of basis pursuit may be nothing at all."""
    from scipy.stats import chi2

    rows = field.shape[0]
    # The printed radius σ√m keeps the truth with this probability (errata E4-7).
    printed = basis_pursuit(field, values, sigma, confidence=float(chi2.cdf(rows, rows)))
    return {
        PURSUIT: basis_pursuit(field, values, sigma).strengths,
        PRINTED: printed.strengths,
        POSTERIOR: find_sources(field, values, sigma, draws=guesses).shares,
        KNOWN: find_sources(field, values, sigma, number=1, strengths=1.0, draws=guesses).shares,
        BEST: one_source_posterior(field, values[:, None], sigma)[:, 0],
    }


def one_source_posterior(field: Field, values: np.ndarray, sigma: float) -> np.ndarray:
    """How likely each node is the one unit source, all being equally likely before; exact, a column for each run.

    No method is right about the community more often than one that takes the likelier half of this.
    """
    from scipy.special import softmax

    heat = field.responses(np.arange(field.shape[1]))
    return np.asarray(softmax((heat.T @ values - 0.5 * (heat**2).sum(axis=0)[:, None]) / sigma**2, axis=0))


def frozen(settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Settings as the key of a cache."""
    return tuple(sorted(settings.items()))


@functools.lru_cache(maxsize=32)
def readings_on_graph(number: int, length: int, settings: tuple[tuple[str, Any], ...]) -> Readings:
    """A block model every node of which is a sensor."""
    graph = dict(settings)
    network = block_model(number, graph["nodes"], graph["within"], graph["between"], float(length))
    return Readings(Graph(network, graph["tau"]), graph["reach"], graph["epsilon"], graph["delta"])


def graph_readings(number: int, length: int, config: Mapping[str, Any]) -> Readings:
    """The same, for whoever draws or counts."""
    return readings_on_graph(number, length, frozen(config["graph"]))


# ── in the room ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_room(trial: InRoom, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    places, values, readings = read_room(trial, config)
    field, sigma = readings.field, readings.deviation
    uniform = np.full(field.shape[1], 1 / field.shape[1])
    found = find_sources(field, values, sigma, draws=trial.guesses)
    answers = {
        PURSUIT: _pursued(field, values, sigma, uniform),
        POSTERIOR: found.shares,
        KNOWN: find_sources(field, values, sigma, number=2, strengths=1.0, draws=trial.guesses).shares,
        UNIFORM: uniform,
    }
    weights = np.ones(len(places))
    return {name: {"EMD": plane_emd(places, weights, field.positions, answer)} for name, answer in answers.items()}


def read_room(trial: InRoom, config: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, Readings]:
    """Two places, the readings of the sensors with noise, and what made it."""
    readings = readings_in_room(str(trial.epsilon), tuple(map(tuple, _sensors(config))), _frozen_room(config))
    places = pair_in_room(trial.run, config["lab"])
    heat = readings.field.responses(places).sum(axis=1)
    return places, _protected(readings, heat, seed_of("lab", trial.run, trial.epsilon))[0], readings


def _sensors(config: Mapping[str, Any]) -> np.ndarray:
    sensors = lab_sensors(config)
    assert sensors is not None
    return sensors


def _frozen_room(config: Mapping[str, Any]) -> tuple[Any, ...]:
    lab = config["lab"]
    return tuple(lab["size"]), lab["T"], lab["cells"], lab["reach"], config["protocol"]["delta"]


@functools.lru_cache(maxsize=8)
def readings_in_room(epsilon: str, sensors: tuple[tuple[float, ...], ...], room: tuple[Any, ...]) -> Readings:
    """A room whose walls keep the heat."""
    size, T, cells, reach, delta = room
    return Readings(Plate(size, sensors, T, "insulated", candidates=cells), reach, epsilon, delta)
