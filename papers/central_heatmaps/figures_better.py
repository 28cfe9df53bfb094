"""Draw the picture of better.py: the distance of each method's map from the truth, row by row."""

from __future__ import annotations

from pathlib import Path

from harness.results import Results

COLOURS = {
    "default": "#0072b2",
    "PrivTree": "#d55e00",
    "adaptive grid": "#009e73",
    "pyramid": "#cc79a7",
    "uniform grid": "#999999",
}
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""
MARKS = {"default": "o", "PrivTree": "s", "adaptive grid": "^", "pyramid": "D", "uniform grid": "v"}


def draw(results: Results, path: Path) -> Path:
    """Draw earth mover's distance and similarity, with one column for each row of the table."""
    from better import name_of
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = sorted({point for point, _, _ in results.values})
    figure = Figure(figsize=(10, 7.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 1, sharex=True)
    for axes, metric, label in zip(
        panels,
        ("EMD", "SIM"),
        ("earth mover's distance\n(side of the map = 1; less is better)", "similarity\n(1: the same; more is better)"),
        strict=True,
    ):
        for method, colour in COLOURS.items():
            means = [results.mean(point, method, metric) for point in rows]
            errors = [2 * results.error(point, method, metric) for point in rows]
            axes.errorbar(
                range(len(rows)), means, errors, fmt=MARKS[method], color=colour, capsize=3, markersize=7, label=method
            )
        axes.set_ylabel(label)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
    panels[0].set_yscale("log")
    panels[0].set_yticks([0.01, 0.02, 0.05, 0.1, 0.2], ["0.01", "0.02", "0.05", "0.1", "0.2"])
    panels[0].minorticks_off()
    panels[0].legend(ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    panels[1].set_ylim(0, 1)
    panels[1].set_xticks(range(len(rows)), [name_of(point).replace(", ", "\n") for point in rows], fontsize=8)
    panels[1].set_xlabel("bars: two standard errors")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path
