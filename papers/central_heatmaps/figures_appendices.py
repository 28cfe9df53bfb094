"""Draw example maps (figures 3 and 9), appendix E (4 to 8), appendix F (12 and 13), and appendices A to C."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bounds import heat_map_bounds
from claims_appendices import communication
from experiments import trial_of
from harness.data import data_file
from harness.pictures import Styles, curves, panels, save
from harness.results import Results
from protocol import HERE, heat_maps

OURS = ("#0072B2", "o", "-")
LABELS = {
    "SIM": "SIM (more is better)",
    "CC": "CC (more is better)",
    "KL": "KL in nats (less is better)",
    "EMD": "EMD, longer side = 1 (less is better)",
}
NAMES = {
    "gowalla": "Gowalla check-ins, New York",
    "synthetic": "synthetic people, 6 places",
    "gaze": "OSIE gaze (for SALICON)",
    "made-up gaze": "made-up gaze",
}
EXAMPLES = ("truth", "flat", "top 0.01 %", "pyramid")


def draw_appendices(results: Results, folder: Path, styles: Styles) -> list[Path]:
    """Draw every figure of the appendices for which there are results, and return the files."""
    config = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
    files = []
    if results.sources("users"):
        files.append(_figure3(config, folder))
    for source in results.sources("users_at_1"):
        for at, names, epsilon in (("", "4 and 5", 10), ("_at_1", "6 and 7", 1)):
            if results.series("users" + at, source):
                files.append(_users_and_resolution(results, source, at, names, epsilon, folder, styles))
    for source in results.sources("gaze"):
        files += [_figure8(results, source, folder, styles), _figure9(config, source, folder)]
    for source in results.sources("rounding"):
        files += [_figure12(config, folder), _figure13(results, source, folder)]
    if results.series("places", "places"):
        files.append(_places(results, folder))
    if results.series("heat", "synthetic"):
        files.append(_heat(results, folder))
    return files


# ── example maps ────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure3(config: Mapping[str, Any], folder: Path) -> Path:
    source = "gowalla" if data_file(config["gowalla"]["file"]) is not None else "synthetic"
    title = f"Figure 3 · {NAMES[source]} · 200 people, 256 × 256 cells · ε = 1 (top) and 5 (bottom)"
    rows = [trial_of(config, "full", source, 0, epsilon=epsilon, names=EXAMPLES[1:]) for epsilon in (1, 5)]
    return _examples(config, rows, title, folder / "figure3_examples.png", height=2.5)


def _figure9(config: Mapping[str, Any], source: str, folder: Path) -> Path:
    frame = {name: config["gaze"][name] for name in ("size", "people")}
    rows = [
        trial_of(config, "full", source, image * config["gaze"]["trials"], epsilon=10, names=EXAMPLES[1:], **frame)
        for image in (0, 1)
    ]
    title = f"Figure 9 · {NAMES[source]}, two images · 50 people, 320 × 240 cells, ε = 10"
    return _examples(config, rows, title, folder / "figure9_examples.png", height=2.0)


def _examples(config: Mapping[str, Any], trials: list[Any], title: str, path: Path, height: float) -> Path:
    import io

    from PIL import Image

    figure, axes = panels(len(trials), len(EXAMPLES), title, width=2.5, height=height)
    for row, trial in enumerate(trials):
        maps = heat_maps(trial, config)
        for column, name in enumerate(EXAMPLES):
            axis = axes[row * len(EXAMPLES) + column]
            axis.imshow(maps[name].values, cmap="cividis", interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
            if row == 0:
                axis.set_title("truth, not private" if name == "truth" else name, fontsize=9)
            if column == 0:
                axis.set_ylabel(f"ε = {trial.epsilon:g}", fontsize=9)
    figure.supxlabel("heat from none (dark) to the largest of each map (bright)", fontsize=8)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


# ── appendix E ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _users_and_resolution(
    results: Results, source: str, at: str, names: str, epsilon: int, folder: Path, styles: Styles
) -> Path:
    figure, axes = panels(2, 4, f"Figures {names} · {NAMES[source]} · ε = {epsilon}", width=3.4, height=2.7)
    for number, (name, label) in enumerate((("users", "people"), ("resolution", "cells a side"))):
        points = results.series(name + at, source)
        for axis, metric in zip(axes[4 * number :], LABELS, strict=False):
            curves(axis, results, points, metric, styles, LABELS[metric])
            if name == "resolution":
                axis.set_xscale("log", base=2)
                axis.set_xticks([point.x for point in points], [f"{point.x:g}" for point in points])
            axis.set_xlabel(label)
    numbers = names.replace(" and ", "_")
    return save(figure, axes, folder / f"figures{numbers}_{source}.png")


def _figure8(results: Results, source: str, folder: Path, styles: Styles) -> Path:
    figure, axes = panels(2, 2, f"Figure 8 · {NAMES[source]} · 50 people, 320 × 240 cells")
    points = results.series("gaze", source)
    for axis, metric in zip(axes, LABELS, strict=True):
        curves(axis, results, points, metric, styles, LABELS[metric])
        axis.set_xscale("log")
        axis.set_xticks([point.x for point in points], [f"{point.x:g}" for point in points])
        axis.minorticks_off()
        axis.set_xlabel("privacy loss ε")
    return save(figure, axes, folder / "figure8_gaze.png")


# ── appendix F ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure12(config: Mapping[str, Any], folder: Path) -> Path:
    sent = communication(config)
    figure, axes = panels(1, 1, "Figure 12 · sent by one person · 320 × 240 cells, n = 50, ε = 5, δ = 1e-5", width=6.4)
    for name, place, (colour, marker, dash) in (
        ("r as printed", 0, ("#D55E00", "s", "--")),
        ("r that the proof needs", 2, OURS),
    ):
        sizes = [row[place + 1] for row in sent.values()]
        axes[0].plot(list(sent), sizes, color=colour, marker=marker, linestyle=dash, label=name)
        for scale, row in sent.items():
            shift = (0, 7) if place == 0 else (0, -13)
            axes[0].annotate(
                f"r = {row[place]}", (scale, row[place + 1]), xytext=shift, textcoords="offset points", ha="center",
                fontsize=7.5, color=colour,
            )  # fmt: skip
    _scales(axes[0], list(sent))
    axes[0].set_ylabel("MB, without encryption", fontsize=8.5)
    axes[0].set_ylim(0, 10)
    return save(figure, axes, folder / "figure12_communication.png", note="every node dense, (node, value) messages")


def _figure13(results: Results, source: str, folder: Path) -> Path:
    figure, axes = panels(2, 2, f"Figure 13 · {NAMES[source]} · 50 people, 320 × 240 cells, ε = 5")
    zero, *points = results.series("rounding", source)
    styles = {"systematic": OURS, "rounded down": ("#D55E00", "s", "--")}
    for axis, metric in zip(axes, LABELS, strict=True):
        curves(axis, results, points, metric, styles, LABELS[metric])
        mean, band = results.mean(zero, "central", metric), 1.96 * results.error(zero, "central", metric)
        axis.axhline(mean, color="black", linewidth=1, linestyle=":", label="central (B = ∞)")
        axis.axhspan(mean - band, mean + band, color="black", alpha=0.1, linewidth=0)
        _scales(axis, [point.x for point in points])
    return save(figure, axes, folder / "figure13_rounding.png")


def _scales(axis: Any, scales: list[float]) -> None:
    axis.set_xscale("log", base=4)
    axis.set_xticks(scales, [f"{scale:g}" for scale in scales])
    axis.minorticks_off()
    axis.set_xlabel("scale B of the integers")
    axis.grid(alpha=0.25, linewidth=0.5)


# ── appendices A, B and C ───────────────────────────────────────────────────────────────────────────────────────────


def _places(results: Results, folder: Path) -> Path:
    figure, axes = panels(1, 3, "Appendices A and C · people at k places, ε = 1, 64 × 64 cells, w = k", width=4.0)
    styles = {
        "pyramid": OURS,
        "lower bound": ("#009E73", "^", "-."),
        "upper bound": ("#D55E00", "s", "--"),
    }
    shown = (
        ("places", "EMD", "EMD, side = 1", "places k (1,000 people)"),
        ("crowds", "EMD", "EMD, side = 1", "people (16 places)"),
        ("crowds", "coreset", "error of the coreset's cost, people × side", "people (16 places)"),
    )
    for axis, (name, metric, label, below) in zip(axes, shown, strict=True):
        points = results.series(name, "places")
        few = {method: style for method, style in styles.items() if (points[0], method, metric) in results.values}
        curves(axis, results, points, metric, few, label)
        axis.set_xscale("log")
        axis.set_yscale("log")
        if name == "places":
            axis.set_xticks([point.x for point in points], [f"{point.x:g}" for point in points])
            axis.minorticks_off()
        axis.set_xlabel(below)
    note = "mean and 95 % band; bounds with their constants: Theorem 3.1 and C.1, a map is never further than 2 off"
    return save(figure, axes, folder / "appendix_a_c_bounds.png", note=note)


def _heat(results: Results, folder: Path) -> Path:
    figure, axes = panels(1, 3, "Appendix B · pyramid on synthetic people, ε = 0.5 to 10, 64 × 64 cells", width=4.0)
    points = results.series("heat", "synthetic")
    looks = zip(results.methods(points[0]), ("#0072B2", "#D55E00", "#009E73"), ("o", "s", "^"), strict=False)
    for width, colour, marker in looks:
        plain = np.concatenate([results.of(point, width, "plain EMD") for point in points])
        line = np.geomspace(plain.min(), plain.max(), 60)
        limits = [heat_map_bounds(float(x), 1 / float(width.split("/")[1])) for x in line]
        for axis, metric in zip(axes, ("EMD", "KL", "SIM"), strict=True):
            values = np.concatenate([results.of(point, width, metric) for point in points])
            axis.scatter(plain, values, s=9, color=colour, marker=marker, alpha=0.6, linewidths=0, label=width)
            # The bound on EMD is the same for every width.
            shade = "black" if metric == "EMD" else colour
            axis.plot(line, [limit[metric] for limit in limits], color=shade, linewidth=1.2)
    for axis, metric in zip(axes, ("EMD", "KL", "SIM"), strict=True):
        axis.set_xscale("log")
        axis.set_xticks([0.02, 0.05, 0.1, 0.15], ["0.02", "0.05", "0.1", "0.15"])
        axis.minorticks_off()
        if metric != "SIM":
            axis.set_yscale("log")
        axis.set_ylabel(f"{metric} of the heat maps", fontsize=8.5)
        axis.set_xlabel("EMD before smoothing, side = 1")
        axis.grid(alpha=0.25, linewidth=0.5)
    note = "points: one release each; lines: the bound (EMD and KL lie below it, SIM above it)"
    return save(figure, axes, folder / "appendix_b_heat.png", note=note)
