"""How close made-up journeys are to true ones, beside the recorded numbers of published mechanisms.

    python -m benchmarks.journeys_quality                                    both sets, ε 1 and 2, trips and people
    python -m benchmarks.journeys_quality --set cab_fixes --epsilon 1 --unit trip --runs 1
    python -m benchmarks.journeys_quality --model local                      LocalJourneys, without a curator
    python -m benchmarks.journeys_quality --rows                             the tables of the mechanisms' pages
    python -m benchmarks.journeys_quality --model local --picture curve.png  errors over the signal of the reports

The journeys, the metrics and the rivals' numbers are not part of this repository: they are read from the folders
``data`` and ``tools/journeys`` of ``../shared`` (or ``--shared FOLDER``), and nothing is measured without them. Noise
is simulated with fixed seeds, so a run can be repeated; ± is the standard error of the mean of the runs. The rivals'
numbers hold for the trip as unit. The exit code is 1 if a goal is missed that is not listed as open.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import heathaze as hz
from heathaze.domain.lines import Lines
from heathaze.ingest.journeys import Journeys
from heathaze.privacy.guarantee import Unit

SHARED = Path(__file__).resolve().parents[2] / "shared"
FILES = {"valleybike": "valleybike_tracks.parquet", "cab_fixes": "cabspotting_gps_10min.parquet"}


@dataclass(frozen=True)
class Model:
    """With whom a model is compared, and its goals.

    Args:
        rivals: Names in the book of recorded numbers.
        goals: At most this part of the best rival's error, or at least as large as its pattern_f1.
        once: Measures whose goal counts at ε 1 only.
        signal: Below this signal of the reports no goal counts.
    """

    rivals: tuple[str, ...]
    goals: dict[str, float]
    once: tuple[str, ...] = ()
    signal: int = 0


MODELS = {
    "central": Model(
        ("PrivTrace", "AdaTrace"),
        {"density_10": 0.75, "length": 0.5, "trip_10": 0.9, "query": 1.0, "pattern_f1": 1.0},
        ("trip_10",),
    ),
    "local": Model(
        ("LDPTrace N=6", "LDPTrace N=16", "PivotTrace (TP, ours)"),
        {"density_10": 0.85, "trip_10": 0.85, "length": 0.6},
        signal=4_000,
    ),
}

OPEN = {("cab_fixes", "central", "pattern_f1")}
"""Goals that are known to be missed; docs/decisions/0040-journeys-without-transitions.md says what was tried."""

SHOWN = ("density_10", "trip_10", "length", "query", "pattern_f1", "diameter", "ndcg", "kendall", "points")
ROWS = ("density_10", "trip_10", "length", "query", "pattern_f1")
LARGER = ("ndcg", "kendall", "pattern_f1")


class Truth:
    """The true journeys of a set, and what the metrics need of them."""

    def __init__(self, shared: Path, name: str) -> None:
        sys.path.insert(0, str(shared / "tools" / "journeys"))
        self.rules, self.metrics = importlib.import_module("journeys"), importlib.import_module("metrics")
        self.box = importlib.import_module("judge").SETS[name][0]
        read = importlib.import_module("judge").SETS[name][1]
        south, north, west, east = self.rules.BOXES[self.box]
        self.grid = hz.Grid.over(lon=(west, east), lat=(south, north), size=64)
        metres, who = read(shared / "data" / FILES[name])
        self.size = self.rules.size(self.box)
        self.summary = self.metrics.summary(metres, *self.size)
        places = [np.column_stack(self.rules.unproject(journey, self.box)[::-1]) for journey in metres]
        self.lines, self.person = Lines.from_points(places), np.unique(who, return_inverse=True)[1]

    def journeys(self, unit: str) -> Journeys:
        """Return the secret journeys with a unit."""
        owner = self.person if unit == "person" else np.arange(len(self.lines))
        return Journeys(self.grid, self.lines, owner, Unit.PERSON if unit == "person" else Unit.TRIP)

    def score(self, lines: Lines) -> dict[str, float]:
        """Compare made-up journeys with the true ones."""
        metres = self.rules.project(lines.y, lines.x, self.box)
        made = self.metrics.summary(np.split(metres, lines.offsets[1:-1]), *self.size)
        return dict(self.metrics.compare(self.summary, made, *self.size))


def verdict(
    measure: str, ours: float, rivals: dict[str, Any], epsilon: float, model: Model, reports: int, open_: bool
) -> str:
    """Say whether a goal is met; "MISSED" is said only of goals that count and are not open."""
    known = [rivals[name][measure] for name in model.rivals if name in rivals]
    if not known or measure not in model.goals or (measure in model.once and epsilon != 1):
        return ""
    best, goal = max(known) if measure in LARGER else min(known), model.goals[measure]
    met = ours >= best / goal if measure in LARGER else ours <= best * goal
    if signal(reports, epsilon) < model.signal:
        said = f"no goal below a signal of {model.signal:,}"
    else:
        said = "met" if met else "missed, open" if open_ else "MISSED"
    return f"{ours / best:.2f} of the best; {said}"


def signal(reports: int, epsilon: float) -> float:
    """n (e^ε − 1)² / e^ε, the signal of n reports without a curator."""
    return reports * math.expm1(epsilon) ** 2 / math.exp(epsilon)


@dataclass(frozen=True)
class Result:
    """The runs of one set, unit and ε: mean and standard error of each measure, and the best rival's number.

    Args:
        name: The set.
        unit: The protected unit.
        epsilon: ε.
        reports: The number of journeys.
        found: Mean and standard error of each measure.
        best: The best rival's number of each measure that is judged; empty if there is none.
    """

    name: str
    unit: str
    epsilon: float
    reports: int
    found: dict[str, tuple[float, float]]
    best: dict[str, float]

    def row(self) -> str:
        """A row of a Markdown table, with the part of the best rival's number in brackets."""
        cells = [self.name, self.unit, f"{self.epsilon:g}"]
        for measure in ROWS:
            mean, error = self.found[measure]
            part = f" ({mean / self.best[measure]:.2f})" if measure in self.best else ""
            cells.append(f"{mean:.4f} ± {error:.4f}{part}")
        return f"| {' | '.join(cells)} |"


def draw_curve(results: Sequence[Result], path: Path) -> None:
    """Draw errors over the signal, on logarithmic axes, beside those of the best rival."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained", dpi=150)
    titles = {"density_10": "density", "trip_10": "start and end", "length": "length"}
    # Two colours that colour-blind people tell apart (Okabe and Ito), and two markers.
    looks = {"valleybike": ("bicycles", "#0072b2", "o"), "cab_fixes": ("cabs", "#d55e00", "s")}
    for axes, (measure, title) in zip(figure.subplots(1, len(titles)), titles.items(), strict=True):
        for name, (label, colour, marker) in looks.items():
            own = sorted((one for one in results if one.name == name), key=lambda one: one.epsilon)
            at = [signal(one.reports, one.epsilon) for one in own]
            mean, error = zip(*(one.found[measure] for one in own), strict=True) if own else ((), ())
            axes.errorbar(at, mean, error, color=colour, marker=marker, capsize=2, label=f"{label}, LocalJourneys")
            known = [(x, one.best[measure]) for x, one in zip(at, own, strict=True) if measure in one.best]
            axes.plot(*np.transpose(known or np.zeros((0, 2))), color=colour, marker=marker, mfc="white", ls="--",
                      label=f"{label}, best of LDPTrace and PivotTrace")  # fmt: skip
        axes.axvline(MODELS["local"].signal, color="#666666", lw=0.8, ls=":")
        axes.set(xscale="log", yscale="log", title=title, xlabel="n (exp ε − 1)² / exp ε")
    figure.axes[0].set_ylabel("Jensen–Shannon divergence")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path)


def made_up(truth: Truth, secret: Journeys, model: str, epsilon: float, seed: int) -> Lines:
    """Make up as many journeys as there are true ones, with simulated noise."""
    number = len(truth.lines)
    if model == "central":
        mechanism = hz.trajectories.JourneyTrees(truth.grid, epsilon, hours=secret.begins is not None)
        return hz.trajectories.publish(mechanism, secret, number=number, randomness=hz.Simulation(seed)).lines
    reports = hz.trajectories.randomize(
        hz.trajectories.LocalJourneys(truth.grid, epsilon),
        secret.lines,
        secret.owner if secret.unit is Unit.PERSON else None,
        randomness=hz.Simulation(seed),
    )
    return hz.trajectories.estimate(reports, number=number, randomness=hz.Simulation(seed + 1000)).lines


def main(words: Sequence[str] = ()) -> int:
    """Print a table for each set, unit and ε; return the number of goals that were missed and are not open."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--shared", type=Path, default=SHARED)
    ask.add_argument("--set", choices=FILES, action="append")
    ask.add_argument("--epsilon", type=float, action="append")
    ask.add_argument("--unit", choices=("trip", "person"), action="append")
    ask.add_argument("--runs", type=int, default=3)
    ask.add_argument("--model", choices=MODELS, default="central")
    ask.add_argument("--hours", action="store_true", help="of the central model: also measure the hours")
    ask.add_argument("--rows", action="store_true", help="also print the rows of a Markdown table")
    ask.add_argument("--picture", type=Path, help="draw errors over the signal of the reports, for the trip as unit")
    asked = ask.parse_args(words)
    book = asked.shared / "tools" / "journeys" / "rivals_public.json"
    if not book.exists():
        print(f"There are no journeys in {asked.shared}, so nothing was measured.")
        return int(asked.shared != SHARED)
    missed, results = 0, []
    model = MODELS[asked.model]
    recorded = json.loads(book.read_text(encoding="utf-8"))["numbers"]
    for name in asked.set or FILES:
        truth = Truth(asked.shared, name)
        begins = np.random.default_rng(1).uniform(0, 86_400, len(truth.lines)) if asked.hours else None
        for unit in asked.unit or ("trip", "person"):
            given = truth.journeys(unit)
            secret = Journeys(given.grid, given.lines, given.owner, given.unit, begins)
            for epsilon in asked.epsilon or (1.0, 2.0):
                runs = [truth.score(made_up(truth, secret, asked.model, epsilon, seed)) for seed in range(asked.runs)]
                known = recorded[name].get(f"{epsilon:g}", {}) if unit == "trip" else {}
                rivals = {rival: known[rival] for rival in model.rivals if rival in known}
                print(f"{name}, {asked.model}, unit {unit}, ε {epsilon:g}, mean of {asked.runs} runs")
                print(f"  {'':12s}{'ours':>9s}{'':9s}" + "".join(f"{rival.split(' (')[0]:>14s}" for rival in rivals))
                found = {}
                for measure in SHOWN:
                    each = np.array([run[measure] for run in runs])
                    ours, error = float(each.mean()), float(each.std(ddof=1)) / len(each) ** 0.5 if len(each) > 1 else 0
                    found[measure] = ours, error
                    theirs = "".join(f"{numbers[measure]:14.4f}" for numbers in rivals.values())
                    is_open = (name, asked.model, measure) in OPEN
                    said = verdict(measure, ours, rivals, epsilon, model, len(truth.lines), is_open)
                    missed += said.endswith("MISSED")
                    print(f"  {measure:12s}{ours:9.4f} ± {error:.4f}{theirs}  {said}".rstrip(), flush=True)
                best = {
                    measure: (max if measure in LARGER else min)(numbers[measure] for numbers in rivals.values())
                    for measure in ROWS
                    if rivals
                }
                results.append(Result(name, unit, epsilon, len(truth.lines), found, best))
    if asked.rows:
        print(f"| set | unit | ε | {' | '.join(ROWS)} |", "|---" * (3 + len(ROWS)) + "|", sep="\n")
        print(*(result.row() for result in results), sep="\n")
    if asked.picture is not None:
        draw_curve([result for result in results if result.unit == "trip"], asked.picture)
    return missed


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
