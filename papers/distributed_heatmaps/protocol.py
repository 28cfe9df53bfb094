"""One trial of a survey: ask people with every mechanism of a table or figure, and compare the maps with the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from harness.data import seed_of
from oracles import best_layer, best_split
from sources import Raster, favourites, people_of, raster_of, visitors
from variants import PAPER, FixedBudget, FixedThreshold, PrintedGrid

import heathaze as hz
from heathaze import distributed
from heathaze.distributed import AdaptiveQuadtree, Cohort, Population, Survey, proportions, simulate
from heathaze.distributed.simulate import best_level
from heathaze.domain.partition import cell_codes
from heathaze.domain.quadtree import interleave
from heathaze.errors import ShardAborted

HERE = Path(__file__).resolve().parent

UNIT = 1e-13
"""The unit of the mean squared errors on rasters, as the paper prints them."""

Numbers = dict[str, float]


@dataclass(frozen=True)
class Trial:
    """The parameters of one trial.

    ``kind`` is the table or figure, and ``value`` the value on its horizontal axis, if that is not ``people``. With
    ``infer``, the library's map from all rounds is computed too, which takes seconds.
    """

    kind: str
    source: str
    run: int
    size: int
    people: int = 0
    lost: float = 0.0
    value: float = 0.0
    values: tuple[float, ...] = ()
    infer: bool = True


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    """The errors of every method; all methods of a run see the same people."""
    return _KINDS[trial.kind](trial, config)


# ── table 1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _table1(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    raster, population = _people(trial, config)
    grid, truth = raster
    epsilon = config["protocol"]["epsilon"]
    kept = np.arange(round(trial.people * (1 - trial.lost)))
    found = {"non-private": _errors(truth, best_level(population, truth, kept).density.values, 2)}

    def survey(mechanism: Any) -> Survey:
        return _asked(mechanism, population, trial, config)

    flat = survey(distributed.Flat(grid, epsilon))
    found["flat"] = _release(truth, flat)
    hierarchical = survey(distributed.Hierarchical(grid, epsilon))
    found["hierarchical"] = _release(truth, hierarchical)
    levels = [_square(hierarchical.rounds[0].counts(part)) for part in range(grid.depth)]
    people = hierarchical.rounds[0].people
    found["hierarchical, best split"] = _errors(truth, best_split(levels, truth, people), hierarchical.numbers_sent)
    sketch = survey(distributed.CountMin(grid, epsilon))
    found["count-min"] = _release(truth, sketch)
    totals = sketch.rounds[0].counts()
    levels = [_square(sketch.mechanism.counts(totals, level, _codes(level))) for level in range(1, grid.depth + 1)]  # type: ignore[attr-defined]
    found["count-min, best split"] = _errors(truth, best_split(levels, truth, people), sketch.numbers_sent)
    found["adaptive grid"] = _release(truth, survey(distributed.AdaptiveGrid(grid, epsilon)))
    found["adaptive grid, as printed"] = _release(truth, survey(PrintedGrid(grid, epsilon)))
    spatial = survey(distributed.SpatialDecomposition(grid, epsilon))
    found["spatial decomposition"] = _release(truth, spatial)
    levels = spatial.mechanism.consistent(spatial.rounds[0])  # type: ignore[attr-defined]
    found["spatial decomposition, best layer"] = _errors(truth, best_layer(levels, truth), spatial.numbers_sent)
    found |= _both(trial, truth, survey(AdaptiveQuadtree(grid, epsilon, **PAPER)))
    default = ("last round, default settings", "ours, default settings")
    return found | _both(trial, truth, survey(AdaptiveQuadtree(grid, epsilon)), default)


# ── table 2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _table2(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    """The errors of table 2, with several places per person.

    The truth is the map of all people in the data, and each person has the same total weight.
    """
    data = config["data"]
    run = trial.run if trial.source == "city" else 0
    everybody = visitors(trial.source, run, data["visits"], tuple(data["lon"]), tuple(data["lat"]))
    visits = np.diff(everybody.first)
    grid = everybody.grid
    cells = np.argsort(cell_codes(grid))[np.searchsorted(np.sort(cell_codes(grid)), everybody.codes)]
    weights = np.repeat(1 / np.maximum(visits, 1), visits)
    truth = np.bincount(cells, weights, grid.cells).reshape(grid.shape) / (visits > 0).sum()
    luck = hz.Simulation(seed_of("who", trial.source, trial.run))
    chosen = np.sort(np.argsort(luck.uniforms(len(everybody)))[: trial.people])
    asked = _only(everybody, chosen)
    cohort = Cohort(trial.people, 1, dropout=0, colluding=0)
    epsilon = config["protocol"]["epsilon"]

    def survey(population: Population, mass: int) -> Survey:
        source = hz.Simulation(seed_of("noise", trial.source, trial.run))
        mechanism = AdaptiveQuadtree(grid, epsilon, mass, **PAPER)
        return simulate(Survey(mechanism, cohort), population, randomness=source)

    found = {"non-private": _errors(truth, best_level(asked, truth).density.values, 2, 1e-7)}
    surveys = {"single place": survey(favourites(asked), 1)}
    surveys |= {f"mass {int(mass):,}": survey(asked, int(mass)) for mass in trial.values}
    for name, done in surveys.items():
        bits = {"bits": float(max(one.question.bits for one in done.rounds))}
        found[name] = _last_round(truth, done, 1e-7) | bits
        if trial.infer:
            found[f"{name}, ours"] = _release(truth, done, 1e-7)
    return found


def _only(population: Population, people: np.ndarray) -> Population:
    places = [population.codes[population.first[k] : population.first[k + 1]] for k in people]
    first = np.concatenate([[0], np.cumsum([len(mine) for mine in places])])
    return Population(population.grid, np.concatenate(places), first)


# ── table 3 and figure 7 ────────────────────────────────────────────────────────────────────────────────────────────


def _table3(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    (grid, truth), population = _people(trial, config)
    epsilon = config["protocol"]["epsilon"]
    # With ε = 30 per round, one number in 10^13 has noise, so there is practically no noise.
    still = _asked(FixedBudget(grid, 30 * grid.depth, **PAPER), population, trial, config)
    fixed = _asked(FixedBudget(grid, epsilon, **PAPER), population, trial, config)
    scheduled = _asked(FixedThreshold(grid, epsilon, **PAPER), population, trial, config)
    adaptive = _asked(AdaptiveQuadtree(grid, epsilon, **PAPER), population, trial, config)
    maps = {
        "no noise, T = 10": (still, _last_map(still)),
        "fixed ε, T = 10": (fixed, _last_map(fixed)),
        "scheduled ε, T = 10": (scheduled, _last_map(scheduled)),
        "scheduled ε, adaptive T": (adaptive, _last_map(adaptive)),
    }
    if trial.infer:
        maps["ours, all rounds"] = adaptive, adaptive.estimate(draws=0).density.dense().values
    return {
        name: _errors(truth, values, survey.numbers_sent)
        | {
            "MAPE": hz.metrics.mape(truth, values),
            "sMAPE": hz.metrics.smape(truth, values),
            "MAAPE": hz.metrics.maape(truth, values),
        }
        for name, (survey, values) in maps.items()
    }


def _samples(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    (grid, truth), population = _people(trial, config)
    survey = _asked(AdaptiveQuadtree(grid, config["protocol"]["epsilon"], **PAPER), population, trial, config)
    return {
        "non-private": _errors(truth, best_level(population, truth).density.values, 2),
        **_both(trial, truth, survey),
    }


def _early_noise(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    (grid, truth), population = _people(trial, config)
    mechanism = AdaptiveQuadtree(grid, config["protocol"]["epsilon"], **PAPER | {"early_noise": trial.value})
    survey = _asked(mechanism, population, trial, config)
    return _both(trial, truth, survey)


# ── figure 8: one level of the quadtree ─────────────────────────────────────────────────────────────────────────────


def _shard(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    cohort = Cohort(trial.people, trial.people // int(trial.value), dropout=0, colluding=0)
    squares, survey = _one_level(trial, config, cohort)
    return {f"{trial.people:,} people": {"MSE": _square_error(squares, survey.rounds[0].counts())}}


def _threshold(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    people = config["protocol"]["shard"]
    planned = 1 - Fraction(int(trial.value), people)
    try:
        squares, survey = _one_level(trial, config, Cohort(people, 1, dropout=planned, colluding=0))
    except ShardAborted:
        return {}
    return {f"{trial.lost:.0%} lost": {"MSE": _square_error(squares, survey.rounds[0].counts())}}


def _bits(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    """Read the same sums with a smaller modulus, as printed and as centred numbers (errata E3-9)."""
    squares, survey = _one_level(trial, config, Cohort(config["protocol"]["shard"], 1, dropout=0, colluding=0))
    one = survey.rounds[0]
    modulus = 2 ** int(trial.value)
    residues = one.totals % modulus
    room = round(10 * one.deviation())
    centred = np.where(residues >= modulus - room, residues - modulus, residues)
    return {
        "as printed": {"MSE": _square_error(squares, residues)},
        "centred": {"MSE": _square_error(squares, centred), "chosen": float(one.question.bits)},
    }


def _one_level(trial: Trial, config: Mapping[str, Any], cohort: Cohort) -> tuple[np.ndarray, Survey]:
    raster = raster_of(trial.source, config["data"]["file"], trial.size)
    population = people_of(raster, cohort.people, trial.source, trial.run)
    level = config["protocol"]["level"]
    mechanism = distributed.Flat(raster[0], config["protocol"]["level_epsilon"], level=level)
    source = hz.Simulation(seed_of("noise", trial.kind, trial.source, trial.run))
    survey = simulate(Survey(mechanism, cohort), population, randomness=source, dropout=trial.lost)
    side = trial.size >> level
    squares = raster[1].reshape(1 << level, side, 1 << level, side).sum(axis=(1, 3))
    return squares.ravel(), survey


def _square_error(squares: np.ndarray, counts: np.ndarray) -> float:
    """The mean squared error of the shares of the squares, in units of 1e-6."""
    return hz.metrics.mse(squares[None, :], np.maximum(counts, 0)[None, :]) / 1e-6


# ── table 4: what the number of shards costs ────────────────────────────────────────────────────────────────────────


def _shards(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    """The published map and the bytes of one device, with default settings, for some numbers of shards."""
    (grid, truth), population = _people(trial, config)
    found = {"non-private": _errors(truth, best_level(population, truth).density.values, 2)}
    for shards in trial.values:
        source = hz.Simulation(seed_of("noise", trial.kind, trial.source, trial.run, trial.people))
        survey = Survey(AdaptiveQuadtree(grid, config["protocol"]["epsilon"]), Cohort(trial.people, int(shards)))
        survey = simulate(survey, population, randomness=source)
        parameters = [one.question.plan_parameters() for one in survey.rounds]
        found[f"{int(shards)} shards" if shards > 1 else "1 shard"] = _release(truth, survey) | {
            "rounds": float(len(survey.rounds)),
            "noise": survey.rounds[-1].deviation(),
            "sent": float(sum(one.bytes_sent for one in parameters)),
            "received": float(sum(one.bytes_received for one in parameters)),
        }
    return found


# ── table 5: an earlier map ─────────────────────────────────────────────────────────────────────────────────────────


def _earlier(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    """The published map of a survey that starts from an earlier map, right or wrong, and of one that does not."""
    (grid, truth), population = _people(trial, config)
    mechanism, cohort = AdaptiveQuadtree(grid, config["protocol"]["epsilon"]), Cohort(trial.people)

    def survey(earlier: Any, people: Population = population, *names: object) -> Survey:
        asked = mechanism if earlier is None else mechanism.starting_from(earlier)
        noise = hz.Simulation(seed_of("noise", trial.kind, trial.source, trial.run, trial.people, *names))
        return simulate(Survey(asked, cohort), people, randomness=noise)

    first = mechanism.ask(cohort, ())
    assert first is not None
    squares = round(np.sqrt(first.parts[0].encoding.length))
    others = people_of((grid, truth), trial.people, trial.source, trial.run, "earlier")
    maps = {
        "no map": None,
        "the truth": hz.Density.from_mass(grid, truth),
        "an earlier survey": survey(None, others, "earlier").estimate(draws=0).density,
        "mirrored": hz.Density.from_mass(grid, truth[::-1, ::-1]),
        "mirrored in squares": hz.Density.from_mass(grid, _mirrored_in(squares, truth)),
    }
    found = {name: _release(truth, survey(earlier)) for name, earlier in maps.items()}
    return {name: one | {"times": one["MSE"] / found["no map"]["MSE"]} for name, one in found.items()}


def _mirrored_in(squares: int, truth: np.ndarray) -> np.ndarray:
    """A wrong map that the first round cannot see: the squares of that round are right, and each is mirrored."""
    side = len(truth) // squares
    blocks = truth.reshape(squares, side, squares, side)
    return blocks[:, ::-1, :, ::-1].reshape(truth.shape)


# ── figure 9: shares ────────────────────────────────────────────────────────────────────────────────────────────────


def flag_odds(shape: tuple[int, int]) -> np.ndarray:
    """The probability of the flag in every cell: 5 % everywhere, rising to 60 % around one place."""
    down, across = (np.indices(shape) + 0.5) / np.array(shape)[:, None, None]
    return 0.05 + 0.55 * np.exp(-((down - 0.42) ** 2 + (across - 0.38) ** 2) / (2 * 0.15**2))


def flagged(raster: Raster, people: int, *names: object) -> Population:
    """Draw people from a raster, each with the flag by chance."""
    grid, truth = raster
    population = people_of(raster, people, *names)
    order = np.argsort(cell_codes(grid))
    cells = order[np.searchsorted(cell_codes(grid)[order], population.codes)]
    luck = hz.Simulation(seed_of("flags", people, *names)).uniforms(people)
    return population.flagged(luck < flag_odds(truth.shape).ravel()[cells])


def _shares(trial: Trial, config: Mapping[str, Any]) -> dict[str, Numbers]:
    raster = raster_of(trial.source, config["data"]["file"], trial.size)
    grid, truth = raster
    population = flagged(raster, trial.people, trial.source, trial.run)
    found = {}
    for name, width in (("split by people", None), ("split by width", trial.value)):
        mechanism = AdaptiveQuadtree(grid, config["protocol"]["epsilon"], flagged=True, interval=width, **PAPER)
        shares = proportions(_asked(mechanism, population, trial, config))
        regions = shares.partition.locate(cell_codes(grid))
        people = np.bincount(regions, truth.ravel(), len(shares.partition))
        marked = np.bincount(regions, (truth * flag_odds(truth.shape)).ravel(), len(shares.partition))
        # Regions in which nobody can be have no true share, so they are left out.
        held = (people > 0) & (shares.width < 1)
        true = marked[held] / people[held]
        found[name] = {
            "coverage": float(((shares.low[held] <= true) & (true <= shares.high[held])).mean()),
            "width": float(np.average(shares.width, weights=people)),
            "error": float(np.average(np.abs(shares.share[held] - true), weights=people[held])),
            "regions": float(len(shares.partition)),
        }
    return found


# ── what they share ─────────────────────────────────────────────────────────────────────────────────────────────────


def cohort_of(people: int, lost: float, config: Mapping[str, Any]) -> Cohort:
    """A cohort in shards of 10,000 people; it plans for a little more dropout than expected."""
    planned = Fraction(0) if lost == 0 else Fraction(str(lost)) + Fraction(1, 100)
    return Cohort(people, max(1, people // config["protocol"]["shard"]), dropout=planned, colluding=0)


def _people(trial: Trial, config: Mapping[str, Any]) -> tuple[Raster, Population]:
    raster = raster_of(trial.source, config["data"]["file"], trial.size)
    return raster, people_of(raster, trial.people, trial.source, trial.run)


def _asked(mechanism: Any, population: Population, trial: Trial, config: Mapping[str, Any]) -> Survey:
    cohort = cohort_of(trial.people, trial.lost, config)
    source = hz.Simulation(seed_of("noise", trial.source, trial.run, trial.people, trial.lost))
    return simulate(Survey(mechanism, cohort), population, randomness=source, dropout=trial.lost)


def _errors(truth: np.ndarray, found: np.ndarray, numbers: float, unit: float = UNIT) -> Numbers:
    return {"MSE": hz.metrics.mse(truth, found) / unit, "L1": hz.metrics.l1(truth, found), "numbers": float(numbers)}


def _last_map(survey: Survey) -> np.ndarray:
    return survey.rounds[-1].density().dense().values


def _last_round(truth: np.ndarray, survey: Survey, unit: float = UNIT) -> Numbers:
    """The errors of the paper's own estimate: the last round, with a constant density in each region."""
    return _errors(truth, _last_map(survey), survey.numbers_sent, unit)


def _release(truth: np.ndarray, survey: Survey, unit: float = UNIT) -> Numbers:
    """The errors of the map that the library publishes, which is fitted to all rounds."""
    return _errors(truth, survey.estimate(draws=0).density.dense().values, survey.numbers_sent, unit)


def _both(
    trial: Trial, truth: np.ndarray, survey: Survey, names: tuple[str, str] = ("the paper's", "ours")
) -> dict[str, Numbers]:
    """The errors of the paper's estimate and of ours, from the same answers."""
    last, published = names
    found = {last: _last_round(truth, survey) | {"rounds": float(len(survey.rounds))}}
    return found | {published: _release(truth, survey)} if trial.infer else found


def _square(values: np.ndarray) -> np.ndarray:
    side = round(np.sqrt(len(values)))
    return values.reshape(side, side)


def _codes(level: int) -> np.ndarray:
    """The quadtree codes of all squares of a level, row by row."""
    row, col = np.divmod(np.arange(4**level), 1 << level)
    return interleave(row, col)


_KINDS: dict[str, Callable[[Trial, Mapping[str, Any]], dict[str, Numbers]]] = {
    "table1": _table1,
    "table2": _table2,
    "table3": _table3,
    "samples": _samples,
    "early_noise": _early_noise,
    "shard": _shard,
    "threshold": _threshold,
    "bits": _bits,
    "shares": _shares,
    "shards": _shards,
    "earlier": _earlier,
}
