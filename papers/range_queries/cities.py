"""Measure the default mechanism on cities that its constants were not fixed on, on maps of nobody, and on dense maps.

    python papers/range_queries/cities.py            writes cities.json and two tables in README.md
    python papers/range_queries/cities.py --quick    a few releases, in under 30 seconds; writes nothing

The cities are real ones where their files are, and synthetic ones. Each release shows the coverage and the mean width
of 90 % intervals of random rectangles, the hotspots that were named and those that are real, and the earth mover's
distance, which is compared with that of the mechanism before its prior was a mixture (``[before]`` in config.toml).
On dense maps the L1 error and the distance are compared with those of ``Flat`` and ``UniformGrid``. Trees that give
more budget to finer levels, and counts of whole levels with budgets that no search had to find, show what another use
of ε would give. The "limit" is the L1 error of an estimate that knows the expected number of people in every cell, and
sees noisy counts of the cells with a part of ε: the median of its posterior. Exits with 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from harness.claims import Claim
from harness.data import columns_of, data_file, seed_of
from harness.readme import between, with_claims
from harness.reproduce import exit_code, print_table, with_progress
from harness.results import Point, Results

import heathaze as hz
from heathaze.central import adaptive_tree
from heathaze.datasets.city import synthetic_city
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.inference.posterior import Posterior, posterior
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.noise import discrete_laplace, laplace_scale

HERE = Path(__file__).resolve().parent
HELD, WIDTH, EMD, L1, NAMED, REAL = "intervals that hold", "width", "EMD", "L1", "hotspots", "real hotspots"
DEFAULT = "default"


@dataclass(frozen=True)
class Trial:
    """One release. ``source`` is "nobody", a city, or a dense map."""

    source: str
    people: int
    epsilon: float
    run: int


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print the claims; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few releases; nothing is written")
    quick = parser.parse_args(arguments).quick
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    chosen = config["cities"]["quick" if quick else "full"]
    results = with_progress("running", list(_plan(config, chosen)), measure, config)
    claims = list(_claims(results, config))
    tables = {"cities": list(_cities(results, config)), "dense": list(_dense(results))}
    for rows in tables.values():
        print("\n".join(" | ".join(row) for row in rows) + "\n")
    print_table(claims)
    if not quick:
        means = {
            f"{point.source} | {point.x:g} | {method} | {metric}": [float(f"{found.mean():.5g}"), len(found)]
            for (point, method, metric), found in sorted(results.values.items())
        }
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in means.items())
        (HERE / "cities.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        if all(data_file(city["file"]) for city in config["cities"]["real"].values()):
            readme = (HERE / "README.md").read_text(encoding="utf-8")
            for name, rows in tables.items():
                readme = between(readme, name, rows)
            (HERE / "README.md").write_text(with_claims(readme, claims, ("cities", "dense")), encoding="utf-8")
            print("wrote cities.json and README.md")
    return exit_code(claims)


def _plan(config: Mapping[str, Any], chosen: Mapping[str, Any]) -> Iterator[tuple[Point, Trial]]:
    real = [name for name in chosen["real"] if data_file(config["cities"]["real"][name]["file"])]
    for name in set(chosen["real"]) - set(real):
        print(f"The file of {name} was not found, so the run leaves it out. Set HEATHAZE_DATA to its folder.")
    cities = [*real, *(f"city {number}" for number in range(chosen["made_up"]))]
    for people in chosen["people"]:
        for city in cities:
            for run in range(chosen["runs"]):
                yield Point("cities", city, people), Trial(city, people, 1, run)
    for epsilon in (0.1, 1):
        for run in range(chosen["nobody"]):
            yield Point("nobody", "nobody", epsilon), Trial("nobody", 0, epsilon, run)
    for name, people in chosen["dense"]:
        for run in range(chosen["dense_runs"]):
            yield Point("dense", name, people), Trial(name, people, 1, run)


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Measure one release of the default; on a dense map also the other mechanisms, on the same people."""
    size = config["cities"]["size"]
    grid = hz.Grid.plane(x=(0, size), y=(0, size), size=size)
    people = np.zeros((size, size), np.int64)
    if trial.people:
        shares = shares_of(trial.source, size, config)
        rng = np.random.default_rng(seed_of(trial.source, trial.people, trial.run))
        people = rng.multinomial(trial.people, shares.ravel()).reshape(size, size)
    rows, cols = np.nonzero(people)
    counts = hz.Counts.from_cells(grid, rows, cols, people[rows, cols], bound=1, one=1, unit=Unit.PERSON)

    def published(mechanism: Any) -> hz.Release:
        noise = hz.Simulation(seed_of(trial.source, trial.people, trial.epsilon, trial.run, "noise"))
        return hz.publish(mechanism, counts, randomness=noise)

    release = published(hz.central.AdaptiveTree(grid, trial.epsilon))
    if not trial.people:
        return {DEFAULT: {NAMED: len(release.hotspots(0.9))}}
    if trial.source not in DENSE:
        return {DEFAULT: _distances(people, release) | _intervals(people, release, config) | _hotspots(people, release)}
    found = {DEFAULT: _distances(people, release)}
    for name in ("Flat", "UniformGrid"):
        found[name] = _distances(people, published(getattr(hz.central, name)(grid, trial.epsilon)))
    kept = adaptive_tree.GROWTH
    for growth in config["cities"]["growths"]:
        adaptive_tree.GROWTH = float(growth)
        found[f"growth {growth:g}"] = _distances(people, published(hz.central.AdaptiveTree(grid, trial.epsilon)))
    adaptive_tree.GROWTH = kept
    for name, plan in config["cities"]["plans"].items():
        noise = hz.Simulation(seed_of(trial, name))
        found[name] = _distances(people, posterior(_whole_levels(counts, plan, trial.epsilon, noise)))
    for share in config["cities"]["limits"]:
        expected = trial.people * shares_of(trial.source, size, config)
        noise = hz.Simulation(seed_of(trial, share))
        found[f"limit {share:g}"] = {L1: _limit(people, expected, share * trial.epsilon, noise)}
    return found


def _whole_levels(
    counts: hz.Counts, plan: Sequence[Sequence[int]], epsilon: float, noise: hz.Simulation
) -> NoisyCounts:
    """Count all squares of some levels with noise; ``plan`` has the levels, and their parts of ε in 64ths."""
    parts = []
    for level, part in plan:
        codes, scale = np.arange(4**level), laplace_scale(counts.bound, Fraction(part, 64) * Fraction(epsilon))
        values = counts.at(level, codes) + discrete_laplace(scale, len(codes), noise)
        parts.append((np.full(len(codes), level), codes, values / counts.one, np.full(len(codes), scale / counts.one)))
    return NoisyCounts(counts.grid, *(np.concatenate(some) for some in zip(*parts, strict=True)))


def _limit(people: np.ndarray, expected: np.ndarray, epsilon: float, noise: hz.Simulation) -> float:
    """The L1 error of the posterior medians of all cells, whose prior is Poisson with the expected number of people."""
    from scipy.stats import poisson

    seen = people.ravel() + discrete_laplace(laplace_scale(1, Fraction(epsilon)), people.size, noise)
    possible = np.arange(people.max() + 50)
    log = poisson.logpmf(possible, expected.reshape(-1, 1)) - epsilon * np.abs(seen[:, None] - possible)
    until = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
    median = (until < until[:, -1:] / 2).sum(axis=1)
    return float(np.abs(median / median.sum() - people.ravel() / people.sum()).sum())


def _distances(people: np.ndarray, release: hz.Release | Posterior) -> dict[str, float]:
    truth, shares = people / people.sum(), release.density.dense().values
    return {L1: float(np.abs(truth - shares).sum()), EMD: float(hz.metrics.emd(truth, shares, tolerance=2e-4))}


def _intervals(people: np.ndarray, release: hz.Release, config: Mapping[str, Any]) -> dict[str, float]:
    rng, size, held, widths = np.random.default_rng(9002), len(people), [], []
    for _ in range(config["cities"]["rectangles"]):
        height, width = rng.integers(1, size + 1, 2)
        top, left = int(rng.integers(0, size - height + 1)), int(rng.integers(0, size - width + 1))
        bottom, right = top + int(height), left + int(width)
        y = sorted(release.grid.y_at([top, bottom]).tolist())
        x = release.grid.x_at([left, right]).tolist()
        share = release.mass_in(hz.Box.plane(x=(x[0], x[1]), y=(y[0], y[1])))
        held.append(share.low <= people[top:bottom, left:right].sum() / people.sum() <= share.high)
        widths.append(share.high - share.low)
    return {HELD: float(np.mean(held)), WIDTH: float(np.mean(widths))}


def _hotspots(people: np.ndarray, release: hz.Release) -> dict[str, float]:
    """The hotspots that were named at 90 %, and how many of them are at least twice as dense as the average."""
    spots, real, average = release.hotspots(0.9), 0, people.mean()
    for spot in spots:
        top, bottom = np.sort(np.round(release.grid.down(np.array(spot.box.y))).astype(int))
        left, right = np.sort(np.round(release.grid.across(np.array(spot.box.x))).astype(int))
        real += bool(people[top:bottom, left:right].mean() >= 2 * average)
    return {NAMED: len(spots), REAL: real}


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def shares_of(source: str, size: int, config: Mapping[str, Any]) -> np.ndarray:
    """The expected share of the people in every cell of a city or a dense map."""
    if source in DENSE:
        row, col = (np.indices((size, size)) + 0.5) / size
        shares = np.asarray(DENSE[source](row, col))
    elif source.startswith("city "):
        shares = synthetic_city((size, size), 100 + int(source[5:]))
    else:
        city = config["cities"]["real"][source]
        path = data_file(city["file"])
        assert path is not None
        lon, lat = columns_of(path, "lon", "lat")
        shares, _, _ = np.histogram2d(lat, lon, bins=size, range=[city["lat"], city["lon"]])
    return np.asarray(shares / shares.sum())


def _clusters(count: int) -> Any:
    def shares(row: np.ndarray, col: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(count)
        found = np.full(row.shape, 0.2)
        for y, x, spread in zip(*rng.uniform(0.1, 0.9, (2, count)), rng.uniform(0.05, 0.2, count), strict=True):
            found += np.exp(-((row - y) ** 2 + (col - x) ** 2) / (2 * spread**2)) / (count * spread)
        return found

    return shares


DENSE = {
    "12 clusters": _clusters(12),
    "40 clusters": _clusters(40),
    "wave": lambda row, col: 1.05 + np.sin(5 * col + 1) * np.cos(4 * row),
    "hill": lambda row, col: np.exp(-((col - 0.5) ** 2 + (row - 0.45) ** 2) / (2 * 0.25**2)),
    "slope": lambda row, col: 1 + 2 * col,  # noqa: ARG005
    "even": lambda row, col: np.ones_like(row),  # noqa: ARG005
}


# ── claims and tables ───────────────────────────────────────────────────────────────────────────────────────────────


def _points(results: Results, figure: str) -> list[Point]:
    return sorted({point for point, _, _ in results.values if point.figure == figure})


def _before(point: Point, config: Mapping[str, Any]) -> float:
    return float(config["before"]["emd"][f"{point.source}, {point.x:g}"])


def _over_before(results: Results, point: Point, config: Mapping[str, Any]) -> float:
    """EMD over that of before, on the releases that were measured before."""
    return float(results.of(point, DEFAULT, EMD)[: config["cities"]["compared"]].mean()) / _before(point, config)


def _claims(results: Results, config: Mapping[str, Any]) -> Iterator[Claim]:
    wanted, open_ = config["cities"]["wanted"], set(config["open"]["claims"])

    def claim(text: str, limit: str, ours: str, holds: bool) -> Claim:
        return Claim(text, limit, ours, holds, departure=text in open_)

    cities = _points(results, "cities")
    # A row of a quick run has too few releases to be claimed alone, or to be compared with those of before.
    whole = len(results.of(cities[0], DEFAULT, HELD)) == config["cities"]["full"]["runs"]
    held = {point: results.mean(point, DEFAULT, HELD) for point in cities}
    mean, least = float(np.mean(list(held.values()))), min(cities, key=lambda point: held[point])
    low, high = wanted["mean"]
    if not whole:  # few releases: three standard errors of their mean more to both sides
        releases = np.concatenate([results.of(point, DEFAULT, HELD) for point in cities])
        slack = 3 * float(releases.std(ddof=1)) / np.sqrt(len(releases))
        low, high = round(low - slack, 3), round(min(high + slack, 0.999), 3)
    yield claim("cities: intervals that hold, mean", f"{low:g} to {high:g}", f"{mean:.3f}", low <= mean <= high)
    named, real = (sum(results.of(point, DEFAULT, metric).sum() for point in cities) for metric in (NAMED, REAL))
    share = real / max(named, 1)
    yield claim(
        "cities: hotspots that are real",
        f"at least {wanted['real']:g}",
        f"{share:.3f} of {named:.0f}",
        share >= wanted["real"],
    )
    nobody = np.concatenate([results.of(point, DEFAULT, NAMED) for point in _points(results, "nobody")])
    share = float((nobody > 0).mean())
    text = f"{share:.4f} of {len(nobody)}"
    yield claim(
        "cities: releases of nobody that name a hotspot",
        f"at most {wanted['nobody']:g}",
        text,
        share <= wanted["nobody"],
    )
    if whole:
        text = f"{held[least]:.3f} ({least.source}, {least.x:g})"
        yield claim(
            "cities: intervals that hold, every row",
            f"at least {wanted['each']:g}",
            text,
            held[least] >= wanted["each"],
        )
        ratios = {point: _over_before(results, point, config) for point in cities}
        worst, mean = (
            max(cities, key=lambda point: ratios[point]),
            float(np.exp(np.mean(np.log(list(ratios.values()))))),
        )
        yield claim(
            "cities: EMD over that of before, mean", f"at most {wanted['emd']:g}", f"{mean:.3f}", mean <= wanted["emd"]
        )
        text = f"{ratios[worst]:.3f} ({worst.source}, {worst.x:g})"
        yield claim(
            "cities: EMD over that of before, every row",
            f"at most {wanted['row']:g}",
            text,
            ratios[worst] <= wanted["row"],
        )
    for point in _points(results, "dense"):
        name = f"{point.source}, {point.x:,.0f} people"
        peer, metric, most = ("Flat", L1, wanted["l1"]) if point.x > 10_000 else ("UniformGrid", EMD, 1.0)
        ratio = results.mean(point, DEFAULT, metric) / results.mean(point, peer, metric)
        yield claim(f"dense: {metric} over that of {peer}, {name}", f"at most {most:g}", f"{ratio:.2f}", ratio <= most)
        if metric == L1:
            ratio = results.mean(point, DEFAULT, EMD) / results.mean(point, peer, EMD)
            yield claim(f"dense: EMD over that of {peer}, {name}", "at most 1", f"{ratio:.2f}", ratio <= 1)


def _cities(results: Results, config: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield "city, people", "intervals that hold", "mean width", "hotspots that are real", "EMD", "EMD before", "ratio"
    for point in _points(results, "cities"):
        held, width, emd = (results.mean(point, DEFAULT, metric) for metric in (HELD, WIDTH, EMD))
        named, real = (results.of(point, DEFAULT, metric).sum() for metric in (NAMED, REAL))
        old = _before(point, config)
        yield (
            f"{point.source}, {point.x:,.0f}",
            f"{held:.3f}",
            f"{100 * width:.2f} %",
            f"{real:.0f} of {named:.0f}",
            f"{emd:.4f} ± {results.error(point, DEFAULT, EMD):.4f}",
            f"{old:.4f}",
            f"{_over_before(results, point, config):.2f}",
        )


def _dense(results: Results) -> Iterator[Sequence[str]]:
    """L1 errors and distances; one row for each method."""
    points = _points(results, "dense")
    yield "L1, EMD", *(f"{point.source}, {point.x:,.0f}" for point in points)
    for name in results.methods(points[0]):
        cells = []
        for point in points:
            emd = f", {results.mean(point, name, EMD):.4f}" if (point, name, EMD) in results.values else ""
            cells.append(f"{results.mean(point, name, L1):.3f}{emd}")
        yield name, *cells


if __name__ == "__main__":
    sys.exit(main())
