"""Draw the papers' figures: panels, curves with confidence bands, and small png files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.results import Point, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Styles = Mapping[str, tuple[str, str, Any]]
"""The colour, marker and dash of each method's curve."""


def panels(
    rows: int, columns: int, title: str, *, width: float = 4.4, height: float = 3.3
) -> tuple[Figure, list[Axes]]:
    """Make an empty figure and return it with its panels, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11)
    return figure, list(np.ravel(figure.subplots(rows, columns)))


def curves(
    axis: Axes,
    results: Results,
    points: list[Point],
    metric: str,
    styles: Styles,
    label: str,
    scale: Callable[[Point], float] = lambda _: 1.0,
) -> None:
    """Draw the mean of every method with its 95 % band (Student's t), multiplied by the scale of each point."""
    from scipy.stats import t

    for method in (method for method in styles if method in results.methods(points[0])):
        colour, marker, dash = styles[method]
        x = [point.x for point in points]
        factor = np.array([scale(point) for point in points])
        mean = factor * [results.mean(point, method, metric) for point in points]
        runs = len(results.of(points[0], method, metric))
        band = t.ppf(0.975, runs - 1) * factor * [results.error(point, method, metric) for point in points]
        axis.plot(x, mean, color=colour, marker=marker, linestyle=dash, markersize=4, linewidth=1.4, label=method)
        axis.fill_between(x, mean - band, mean + band, color=colour, alpha=0.18, linewidth=0)
    axis.set_ylabel(label, fontsize=8.5)
    axis.grid(alpha=0.25, linewidth=0.5)
    axis.tick_params(labelsize=8)


def save(figure: Figure, axes: list[Axes], path: Path, note: str = "mean and 95 % band") -> Path:
    """Save a figure with one legend below all panels, in 128 colours, which makes the file a third as large."""
    from PIL import Image

    handles, labels = axes[0].get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    figure.legend(
        named.values(), named, loc="outside lower center", ncols=max(1, len(named)), fontsize=8.5, frameon=False,
        title=note, title_fontsize=8,
    )  # fmt: skip
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    return path
