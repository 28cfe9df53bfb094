"""Draw the errors of all mechanisms, and the intervals of the default, data set by data set."""

from __future__ import annotations

import tomllib
from pathlib import Path

from claims import over_best, points_of
from harness.pictures import panels, save
from harness.results import Results
from protocol import DEFAULT, HELD, HERE, WIDTH

# Okabe and Ito's colours, which colour-blind readers can distinguish; markers differ too.
STYLES = {
    DEFAULT: ("#0072B2", "o"),
    "Dawa": ("#D55E00", "s"),
    "AdaptiveGrid": ("#009E73", "^"),
    "UniformGrid": ("#999999", "v"),
    "PrivTree": ("#CC79A7", "D"),
    "Flat": ("#E69F00", "x"),
}


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw both figures and return the files."""
    settings = sorted({point.figure for point, _, _ in results.values})
    return [_errors(results, settings, folder / "errors.png"), _intervals(results, settings, folder / "intervals.png")]


def _errors(results: Results, settings: list[str], path: Path) -> Path:
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    figure, axes = panels(2, (len(settings) + 1) // 2, "Error over the best peer's (made-up data: our best other)")
    for axis, setting in zip(axes, settings, strict=False):
        points = [point for some in points_of(results, setting) for point in some]
        for method, (colour, marker) in STYLES.items():
            ratios = [over_best(results, point, method, config) for point in points]
            axis.plot(range(len(points)), ratios, marker, color=colour, markersize=5, label=method)
        axis.axhline(1, color="#444444", linewidth=0.8)
        axis.set_yscale("log")
        axis.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
        axis.minorticks_off()
        axis.set_xticks(range(len(points)), [point.source for point in points], rotation=40, ha="right", fontsize=7)
        people = config["settings"][setting]["people"]
        axis.set_title(f"{setting}: {people:,} people, ε {config['settings'][setting]['epsilon']:g}", fontsize=9)
        axis.grid(axis="y", alpha=0.25, linewidth=0.5)
    return save(figure, axes, path, "mean over the trials")


def _intervals(results: Results, settings: list[str], path: Path) -> Path:
    figure, axes = panels(1, 2, "90 % intervals of the default on random rectangles")
    for setting, colour, marker in zip(settings, ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), "os^D", strict=False):
        points = [point for some in points_of(results, setting) for point in some]
        for axis, metric in zip(axes, (HELD, WIDTH), strict=True):
            means = [results.mean(point, DEFAULT, metric) for point in points]
            axis.plot(range(len(points)), means, marker, color=colour, markersize=5, label=setting)
            names = [point.source for point in points]
            axis.set_xticks(range(len(points)), names, rotation=40, ha="right", fontsize=7)
            axis.grid(axis="y", alpha=0.25, linewidth=0.5)
    axes[0].axhline(0.9, color="#444444", linewidth=0.8)
    axes[0].set_ylabel("share that holds", fontsize=8.5)
    axes[1].set_yscale("log")
    axes[1].set_ylabel("mean width, share of all people", fontsize=8.5)
    return save(figure, axes, path, "setting; mean over the trials")
