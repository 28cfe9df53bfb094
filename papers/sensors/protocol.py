"""One trial of sensors: draw sources, add noise to the readings, and locate the sources with every method."""

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
"""If the total strength of basis pursuit's answer is below this, it counts as no answer."""


@dataclass(frozen=True)
class OnLine:
    """The parameters of a trial with two unit sources on the line.

    A ``reach`` of "0" means readings without a guarantee, with the noise of figure 1. ``places`` is a rule of
    config.toml for the positions of the sources, or "figure 1".
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
    """The parameters of a trial with one unit source in the first community of a block model."""

    run: int
    guesses: int
    graph: int
    length: int


@dataclass(frozen=True)
class InRoom:
    """The parameters of a trial with two unit sources in the lab."""

    run: int
    guesses: int
    epsilon: float


Trial = OnLine | OnGraph | InRoom


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Run one trial: the errors of all methods on the same readings."""
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
    """The strengths of the sources on the line, the noisy readings, and the standard deviation of the noise."""
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
    """The strengths at the candidate places of the line that each method finds."""
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
    """The answer of basis pursuit, or the uniform answer if basis pursuit finds no source."""
    found = basis_pursuit(field, values, sigma)
    return found.strengths if found.objective > NOTHING else uniform


@functools.lru_cache(maxsize=64)
def line_of(n: int, m: int, T: float) -> Line:
    """The line with its sensors, made once for all trials of a process."""
    return Line(n, m, T)


@functools.lru_cache(maxsize=64)
def readings_on_line(n: int, m: int, T: float, reach: str, epsilon: str, delta: str) -> Readings:
    """The readings (field, reach, ε and δ) of the line, made once for all trials of a process."""
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
        # The uniform answer has exactly half of its mass in each community, so it does not count as right.
        found[name] = {"right": float(share > 0.5), "share": share, "EMD": source_emd(field, truth, spread)}
        found[name]["nothing"] = float(spread is not answer)
    return found


def read_graph(readings: Readings, trial: OnGraph) -> tuple[int, np.ndarray, float]:
    """A source in the first community, the noisy readings of all nodes, and the standard deviation of the noise."""
    nodes = readings.field.shape[1]
    seed = seed_of("source", trial.graph, trial.length, trial.run)
    source = int(np.random.default_rng(seed).integers(nodes // 2))
    return source, *_protected(readings, readings.field.apply(np.eye(1, nodes, source)[0]), seed_of("graph", seed))


def graph_answers(field: Field, values: np.ndarray, sigma: float, guesses: int) -> dict[str, np.ndarray]:
    """The strengths at the nodes that each method finds; the answer of basis pursuit may be zero everywhere."""
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
    """The exact posterior probability that each node is the one unit source, under a uniform prior; a column per run.

    No method finds the right community more often than choosing the community with the larger posterior probability.
    """
    from scipy.special import softmax

    heat = field.responses(np.arange(field.shape[1]))
    return np.asarray(softmax((heat.T @ values - 0.5 * (heat**2).sum(axis=0)[:, None]) / sigma**2, axis=0))


def frozen(settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The settings as a hashable object, for the key of a cache."""
    return tuple(sorted(settings.items()))


@functools.lru_cache(maxsize=32)
def readings_on_graph(number: int, length: int, settings: tuple[tuple[str, Any], ...]) -> Readings:
    """The readings (field, reach, ε and δ) of a block-model graph with a sensor at every node."""
    graph = dict(settings)
    network = block_model(number, graph["nodes"], graph["within"], graph["between"], float(length))
    return Readings(Graph(network, graph["tau"]), graph["reach"], graph["epsilon"], graph["delta"])


def graph_readings(number: int, length: int, config: Mapping[str, Any]) -> Readings:
    """The readings (field, reach, ε and δ) of a graph by its number, for figures and tables."""
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
    """The places of two sources in the lab, the noisy readings of the sensors, and the object that added the noise."""
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
    """The readings (field, reach, ε and δ) of the lab, a room with insulated walls."""
    size, T, cells, reach, delta = room
    return Readings(Plate(size, sensors, T, "insulated", candidates=cells), reach, epsilon, delta)
