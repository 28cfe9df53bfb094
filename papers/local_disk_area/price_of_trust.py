"""Compare a curator's map with a map from local reports, for the same people and the same epsilon.

    python papers/local_disk_area/price_of_trust.py            writes price_of_trust.json and price_of_trust.png
    python papers/local_disk_area/price_of_trust.py --quick    a few points, in under 30 seconds; writes nothing

Each person has one point, drawn from all check-ins, and every map is compared with the map of all check-ins. The
curator's map is made by ``hz.central.default``, the map from reports by ``hz.local.default``, a mixture, and
``hz.local.estimate``. Both protect one person's position against replacement by any other; the curator's mechanism is
stated for adding or removing a person and runs at ε/2, as in ``heathaze trust``, which compares all models of trust for
one number of people. Exits with 1 if a map from reports is better than the curator's map of the same people, or if a
hundred times as many people do not improve the map.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import heathaze as hz
from heathaze.datasets import city
from heathaze.datasets.city import CITY
from heathaze.privacy.guarantee import Unit

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from harness.data import columns_of, data_file, seed_of
from harness.pictures import panels, save
from harness.readme import between
from harness.reproduce import with_progress
from harness.results import Point, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
CURATOR, NOBODY, NO_PRIVACY = "a curator", "nobody", "no privacy"
FEW = 1000
"""The number of people of the curator's map whose accuracy the reports should reach."""

# Okabe and Ito's colours; filled markers are a curator's maps, open markers are maps from reports.
COLOURS = {1: ("#D55E00", "s"), 3.5: ("#009E73", "^"), 5: ("#0072B2", "o")}


@dataclass(frozen=True)
class Trial:
    """One trial: the number of people, the epsilon and the d × d cells."""

    data: str
    size: int
    epsilon: float
    people: int
    run: int


def main(arguments: list[str] | None = None) -> int:
    """Run all trials, print the table, and write the results and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few points of a synthetic city; nothing is written")
    quick = parser.parse_args(arguments).quick
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    trials = _trials(config, config["price"]["quick" if quick else "full"])
    results = with_progress("people report", trials, measure, config)
    needed = _all_needed(results)
    print("\n".join(_table(results)))
    for place, people in needed.items():
        print(f"{place}: reports of {people} people make a map as accurate as a curator's map of {FEW:,}")
    if not quick:
        _write(results, needed)
        draw(results, trials[0][1].data, HERE / "price_of_trust.png")
        print("wrote price_of_trust.json and price_of_trust.png")
    behind = list(_unlikely(results))
    for sentence in behind:
        print(sentence, file=sys.stderr)
    return 1 if behind else 0


def _trials(config: Mapping[str, Any], chosen: Mapping[str, Any]) -> list[tuple[Point, Trial]]:
    data = chosen["data"]
    if data != "city" and data_file(config["data"][data]["file"]) is None:
        file = config["data"][data]["file"]
        print(f"{file} was not found; a synthetic city replaces it. Set HEATHAZE_DATA to its folder.")
        data = "city"
    finer = chosen["finer"]
    rows = [
        (int(size), epsilon, people, chosen["first_runs"] if people == chosen["people"][0] else runs)
        for size, runs in chosen["runs"].items()
        for epsilon in chosen["epsilons"]
        for people in chosen["people"]
    ]
    rows += [
        (finer["d"], epsilon, people, finer["runs"]) for epsilon in finer["epsilons"] for people in finer["people"]
    ]
    return [
        (Point(f"d = {size}", f"ε = {epsilon:g}", people), Trial(data, size, epsilon, people, run))
        for size, epsilon, people, runs in rows
        for run in range(runs)
    ]


# ── one trial ───────────────────────────────────────────────────────────────────────────────────────────────────────


def measure(trial: Trial, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The earth mover's distances of three maps of the same people from the map of all check-ins."""
    grid, points = _points(trial.data, trial.size, json.dumps(config["data"].get(trial.data, {})))
    cells = _cells(grid, points)
    truth = np.bincount(cells, minlength=grid.cells).reshape(grid.shape)
    rng = np.random.default_rng(seed_of("people", trial.data, trial.people, trial.run))
    chosen = rng.integers(0, len(points), trial.people)
    luck = functools.partial(seed_of, trial.data, trial.size, trial.epsilon, trial.people, trial.run)
    raw = np.bincount(cells[chosen], minlength=grid.cells)
    held = np.flatnonzero(raw)
    counts = hz.Counts.from_cells(
        grid, held // grid.cols, held % grid.cols, raw[held], bound=1, one=1, unit=Unit.PERSON
    )  # fmt: skip
    curator = hz.publish(
        hz.central.default(grid, epsilon=trial.epsilon / 2), counts, randomness=hz.Simulation(luck(CURATOR))
    )
    mechanism = hz.local.default(grid, trial.epsilon, people=trial.people)
    reports = hz.local.randomize(mechanism, points[chosen], randomness=hz.Simulation(luck(NOBODY)))
    maps = {
        NO_PRIVACY: raw.reshape(grid.shape),
        CURATOR: curator.density.dense().values,
        NOBODY: hz.local.estimate(reports, draws=0).density.dense().values,
    }
    return {name: {"EMD": float(hz.metrics.emd(truth, found, tolerance=1e-4))} for name, found in maps.items()}


@functools.cache
def _points(data: str, size: int, settings: str) -> tuple[hz.Grid, np.ndarray]:
    """All check-ins in the box, longitude first."""
    if data == "city":
        table = city(seed=7)
        return hz.Grid.over(lon=CITY.x, lat=CITY.y, size=size), np.column_stack([table["lon"], table["lat"]])
    made = json.loads(settings)
    path = data_file(made["file"])
    assert path is not None
    lon, lat = columns_of(path, "lon", "lat")
    grid = hz.Grid.over(lon=tuple(made["x"]), lat=tuple(made["y"]), size=size)
    inside = grid.cell_of(lon, lat)[2]
    return grid, np.column_stack([lon, lat])[inside]


def _cells(grid: hz.Grid, points: np.ndarray) -> np.ndarray:
    row, col = grid.nearest_cell(points[:, 0], points[:, 1])
    return row * grid.cols + col


# ── what it says ────────────────────────────────────────────────────────────────────────────────────────────────────


def people_needed(results: Results, figure: str, source: str) -> float:
    """The number of people whose reports make a map as accurate as a curator's map of :data:`FEW` people.

    Between two measured numbers of people, EMD is interpolated linearly in logarithms. The result is infinite if even
    the largest measured number of people does not suffice.
    """
    series = results.series(figure, source)
    wanted = math.log(results.mean(series[0], CURATOR, "EMD"))
    reached = [math.log(results.mean(point, NOBODY, "EMD")) for point in series]
    for (before, after), (high, low) in zip(itertools.pairwise(series), itertools.pairwise(reached), strict=True):
        if low <= wanted <= high:
            part = (high - wanted) / (high - low)
            return float(before.x * (after.x / before.x) ** part)
    return float(series[0].x) if reached[0] < wanted else math.inf


def _all_needed(results: Results) -> dict[str, str]:
    found = {}
    for figure, source in sorted({(point.figure, point.source) for point, _, _ in results.values}):
        series = results.series(figure, source)
        if series[0].x == FEW and len(series) > 1:
            found[f"{figure}, {source}"] = _rounded(people_needed(results, figure, source), series[-1].x)
    return found


def _rounded(needed: float, most: float) -> str:
    """Round a number of people to two digits, which is its accuracy."""
    return f"{float(f'{needed:.2g}'):,.0f}" if math.isfinite(needed) else f"over {most:,.0f}"


def _table(results: Results) -> list[str]:
    lines = ["| cells, ε | people | no privacy | a curator | nobody |", "|---|---|---|---|---|"]
    for point in sorted({point for point, _, _ in results.values}):
        cells = [
            f"{results.mean(point, method, 'EMD'):.4f} ± {results.error(point, method, 'EMD'):.4f}"
            for method in (NO_PRIVACY, CURATOR, NOBODY)
        ]
        lines.append(f"| {point.figure}, {point.source} | {point.x:,.0f} | " + " | ".join(cells) + " |")
    return lines


def _unlikely(results: Results) -> list[str]:
    found = []
    for figure, source in sorted({(point.figure, point.source) for point, _, _ in results.values}):
        series = results.series(figure, source)
        found += [
            f"{figure}, {source}, {point.x:,.0f} people: reports made a better map than the curator."
            for point in series
            if results.mean(point, NOBODY, "EMD") < results.mean(point, CURATOR, "EMD")
        ]
        first, last = (results.mean(point, NOBODY, "EMD") for point in (series[0], series[-1]))
        if len(series) > 1 and last >= first:
            found.append(f"{figure}, {source}: more people made no better map of their reports.")
    return found


def _write(results: Results, needed: Mapping[str, str]) -> None:
    means = {
        f"{point.figure} | {point.source} | {point.x:.0f} | {method}": [
            round(results.mean(point, method, "EMD"), 6),
            round(results.error(point, method, "EMD"), 6),
        ]
        for point, method, _ in sorted(results.values)
    }
    body = ",\n".join(f"  {json.dumps(key, ensure_ascii=False)}: {json.dumps(value)}" for key, value in means.items())
    people = json.dumps(needed, ensure_ascii=False, indent=2).replace("\n", "\n ")
    text = f'{{\n "EMD, mean and standard error": {{\n{body}\n }},\n "people needed": {people}\n}}\n'
    (HERE / "price_of_trust.json").write_text(text, encoding="utf-8")
    readme = HERE / "README.md"
    readme.write_text(with_tables(readme.read_text(encoding="utf-8"), json.loads(text)), encoding="utf-8")


def with_tables(readme: str, recorded: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of README.md with the tables of price_of_trust.json between its marks."""
    means = recorded["EMD, mean and standard error"]
    places = sorted({tuple(key.split(" | ")[:3]) for key in means}, key=lambda place: _order(*place))
    rows, last = [("cells, ε", "people", NO_PRIVACY, CURATOR, NOBODY)], ""
    for figure, source, people in places:
        first = f"{_cells_of(figure)}, {source.removeprefix('ε = ')}"
        errors = (means[f"{figure} | {source} | {people} | {name}"][0] for name in (NO_PRIVACY, CURATOR, NOBODY))
        rows.append(("" if first == last else first, f"{int(people):,}", *(f"{error:.4f}" for error in errors)))
        last = first
    needed = recorded["people needed"]
    grids = sorted({key.split(", ")[0] for key in needed}, key=lambda figure: _order(figure, "ε = 0", "0"))
    losses = sorted({key.split(", ")[1] for key in needed}, key=lambda source: float(source.removeprefix("ε = ")))
    counts = [(source.removeprefix("ε = "), *(needed[f"{grid}, {source}"] for grid in grids)) for source in losses]
    return between(
        between(readme, "price", rows),
        "people needed",
        [("ε", *(f"{_cells_of(grid)} cells" for grid in grids)), *counts],
    )


def _order(figure: str, source: str, people: str) -> tuple[float, float, float]:
    return float(figure.removeprefix("d = ")), float(source.removeprefix("ε = ")), float(people)


def _cells_of(figure: str) -> str:
    side = figure.removeprefix("d = ")
    return f"{side} × {side}"


# ── the picture ─────────────────────────────────────────────────────────────────────────────────────────────────────


def draw(results: Results, data: str, path: Path) -> Path:
    """Draw EMD over the number of people for two grids, and the number of reports that equal a curator's map."""
    place = {"gowalla": "check-ins in New York", "city": "a synthetic city"}[data]
    figure, axes = panels(1, 3, f"The price of trusting nobody · {place}, one point a person", height=4.1)
    for axis, name in zip(axes, ("d = 64", "d = 256"), strict=False):
        _over_people(axis, results, name)
    finer = sorted({point for point, _, _ in results.values if point.figure == "d = 512"})
    colour, x = COLOURS[3.5][0], [point.x for point in finer]
    for method, face in ((NOBODY, "white"), (CURATOR, colour)):
        heights = [results.mean(point, method, "EMD") for point in finer]
        stars = axes[1].scatter(x, heights, marker="*", s=70, edgecolor=colour, facecolor=face, zorder=3)
    axes[1].legend([stars], ["512 × 512 cells, ε = 3.5"], fontsize=8, frameon=False, loc="lower left")
    _needed(axes[2], results)
    low = min(axis.get_ylim()[0] for axis in axes[:2])
    high = max(axis.get_ylim()[1] for axis in axes[:2])
    for axis in axes[:2]:
        axis.set_ylim(low, high)
    return save(figure, axes, path, "filled: a curator, open: nobody is trusted; mean over runs")


def _over_people(axis: Axes, results: Results, name: str) -> None:
    side = name.split()[-1]
    for epsilon, (colour, marker) in COLOURS.items():
        series = results.series(name, f"ε = {epsilon:g}")
        x = [point.x for point in series]
        for method, dash, face in ((CURATOR, "-", colour), (NOBODY, "--", "white")):
            heights = [results.mean(point, method, "EMD") for point in series]
            label = f"ε = {epsilon:g}, {method}"
            axis.plot(
                x, heights, color=colour, marker=marker, markerfacecolor=face, linestyle=dash, markersize=5,
                linewidth=1.4, label=label,
            )  # fmt: skip
    series = results.series(name, "ε = 5")
    floor = [results.mean(point, NO_PRIVACY, "EMD") for point in series]
    axis.plot([point.x for point in series], floor, color="#777777", linestyle=":", linewidth=1.2, label=NO_PRIVACY)
    axis.set_title(f"{side} × {side} cells", fontsize=9.5)
    axis.set_xscale("log")
    axis.set_yscale("log")
    ticks = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xticks([1e3, 1e4, 1e5, 1e6], ["1,000", "10,000", "100,000", "1,000,000"])
    axis.set_xlabel("people", fontsize=9)
    axis.set_ylabel("EMD from the map of all check-ins, side of the box = 1", fontsize=8.5)
    axis.grid(alpha=0.25, linewidth=0.5)
    axis.tick_params(labelsize=8)


def _needed(axis: Axes, results: Results) -> None:
    for shift, (name, hatch) in enumerate((("d = 64", ""), ("d = 256", "///"))):
        for place, (epsilon, (colour, _)) in enumerate(COLOURS.items()):
            needed = people_needed(results, name, f"ε = {epsilon:g}")
            most = results.series(name, f"ε = {epsilon:g}")[-1].x
            at, height = place + 0.4 * (shift - 0.5), min(needed, most)
            axis.bar(at, height, width=0.36, color=colour, alpha=0.85, hatch=hatch, edgecolor="white")
            axis.text(at, height * 1.12, _rounded(needed, most), ha="center", fontsize=7.5)
    axis.set_yscale("log")
    axis.set_ylim(FEW, 4e6)
    axis.set_yticks([1e3, 1e4, 1e5, 1e6], ["1,000", "10,000", "100,000", "1,000,000"])
    axis.minorticks_off()
    axis.set_xticks(range(len(COLOURS)), [f"ε = {epsilon:g}" for epsilon in COLOURS])
    axis.set_ylabel("people whose reports make as good a map", fontsize=8.5)
    title = f"for the map that a curator makes of {FEW:,} people\n(plain: 64 × 64 cells, hatched: 256 × 256)"
    axis.set_title(title, fontsize=9.5)
    axis.tick_params(labelsize=8)


if __name__ == "__main__":
    sys.exit(main())
