"""A picture of the recovered sources with their intervals, and of their distance to the true sources if known."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from heathaze.maps.figure import DOTS_PER_INCH
from heathaze.sensors.emd import cheapest_plan, euclidean
from heathaze.sensors.physics.field import Field
from heathaze.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_INK, _FAINT, _TRUTH, _FOUND = "#1f2328", "#6b7280", "#d55e00", "#0072b2"
"""Colours of text, axes, true sources and found sources; colour-blind readers can tell the last two apart."""

_PALETTE = "cividis"


@dataclass(frozen=True)
class Mark:
    """A source in the picture: its place, its strength, and the radius of the 90 % interval of its place."""

    place: tuple[float, ...]
    strength: float
    error: float = 0.0


def draw_sources(
    field: Field,
    shares: Floats,
    density: Floats,
    found: Sequence[Mark],
    *,
    path: Path | BinaryIO,
    caption: str,
    title: str,
    truth: Sequence[Mark] = (),
    sensors: Floats | None = None,
    distance: str = "",
) -> None:
    """Draw recovered sources as a PNG at 150 dots per inch: the estimate and, if given, the truth and the difference.

    Args:
        field: The places of the candidates.
        shares: The share of each candidate, which is compared with the truth.
        density: The expected share of each candidate, which is drawn as the estimate.
        found: The sources that were found.
        path: The file, or an open binary file.
        caption: The text below the picture, such as the guarantee.
        title: The text above the picture.
        truth: The true sources.
        sensors: Positions of the sensors, to be marked.
        distance: The distance of the estimate to the truth, in words.
    """
    # Imported here to keep `import heathaze` fast. Pyplot is not used: it keeps global state and may need a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = 2 if truth else 1
    title += "   NOT PRIVATE: with the true sources" if truth else ""
    lines = textwrap.wrap(caption, 72 * panels + 6)
    width, height = 4.35, 4.35 * _ratio(field)
    below = 0.9 + 0.155 * len(lines)
    wide, tall = 0.35 + 5.5 * panels, height + 0.8 + below
    figure = Figure(figsize=(wide, tall), dpi=DOTS_PER_INCH, facecolor="white")
    box = below / tall, width / wide, height / tall
    axes = [figure.add_axes(((0.65 + 5.5 * k) / wide, *box)) for k in range(panels)]
    if field.network is not None:
        _draw_graph(axes, field, density, found, truth)
    elif field.positions is not None and field.positions.shape[1] == 1:
        _draw_line(axes, field.positions[:, 0], shares, density, found, truth)
    else:
        _draw_plate(axes, field, shares, density, found, truth, sensors)
    headings = ["estimate", f"truth, and what lies between{': ' + distance if distance else ''}"]
    for heading, panel in zip(headings, axes, strict=False):
        panel.set_title(heading, size=10, color=_INK, loc="left", parse_math=False)
        panel.tick_params(labelsize=8, colors=_FAINT, length=3, width=0.6)
        for spine in panel.spines.values():
            spine.set(color=_FAINT, linewidth=0.6)
    text: dict[str, Any] = {"color": _INK, "parse_math": False, "va": "top", "linespacing": 1.25}
    figure.text(0.2 / wide, 1 - 0.12 / tall, title, size=12, weight="bold", **text)
    figure.text(0.2 / wide, (below - 0.72) / tall, "\n".join(lines), size=8, **text)
    FigureCanvasAgg(figure)
    # By default matplotlib writes its own name and web address into the file.
    figure.savefig(path, format="png", metadata={"Software": None})


def _ratio(field: Field) -> float:
    """Height over width of a panel of the picture: the plate's ratio between 0.25 and 1.6, or 0.8 without a plate."""
    if field.bounds is None or field.bounds.shape[1] != 2:
        return 0.8
    width, height = field.bounds[1] - field.bounds[0]
    return float(np.clip(height / width, 0.25, 1.6))


def _finish(axes: Axes, x: str, y: str) -> None:
    """Add the labels of both axes and the legend to a panel of the picture."""
    axes.set_xlabel(x, size=8, color=_INK)
    axes.set_ylabel(y, size=8, color=_INK)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(0.0, -0.1), ncols=3, frameon=False, borderaxespad=0.6)


def _draw_bar(axes: Axes, drawn: Any, label: str) -> None:
    place = axes.get_position()
    bar = axes.figure.add_axes((place.x1 + 0.008, place.y0, 0.012, place.height))
    axes.figure.colorbar(drawn, cax=bar)
    bar.set_ylabel(label, size=8, color=_INK, labelpad=2)
    bar.tick_params(labelsize=7, colors=_FAINT, length=2, pad=2)


# ── a line ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _draw_line(
    axes: Sequence[Axes], x: Floats, shares: Floats, density: Floats, found: Sequence[Mark], truth: Sequence[Mark]
) -> None:
    width = float(np.median(np.diff(x))) if len(x) > 1 else 1.0
    height = density / width
    axes[0].fill_between(x, height, step="mid", color=_FOUND, alpha=0.35, linewidth=0, label="estimate")
    top = float(height.max()) or 1.0
    for index, mark in enumerate(found):
        label = "found, with its 90 % range" if index == 0 else None
        axes[0].errorbar(
            mark.place[0], 1.06 * top, xerr=mark.error, fmt="o", ms=5, color=_FOUND, capsize=3, lw=1.2, label=label
        )
    places = np.array([mark.place[0] for mark in truth])
    if truth:
        axes[0].plot(places, [1.16 * top] * len(places), "v", ms=7, color=_TRUTH, label="truth", ls="none")
    axes[0].set_ylim(0, 1.45 * top)
    if len(axes) > 1:
        grid = np.concatenate([[x[0] - width], x])
        mine = np.concatenate([[0.0], np.cumsum(shares) / shares.sum()])
        weights = np.array([mark.strength for mark in truth])
        theirs = np.array([weights[places <= at].sum() for at in grid]) / weights.sum()
        axes[1].fill_between(grid, mine, theirs, step="post", color=_TRUTH, alpha=0.25, linewidth=0)
        axes[1].step(grid, mine, where="post", color=_FOUND, lw=1.4, label="estimate")
        axes[1].step(grid, theirs, where="post", color=_TRUTH, lw=1.4, ls="--", label="truth")
        axes[1].set_ylim(0, 1.02)
    for panel, what in zip(axes, ("per metre", "up to here"), strict=False):
        panel.set_xlim(float(min(0.0, x[0])), float(x[-1]))
        _finish(panel, "position (m)", f"share of the strength {what}")


# ── a plate ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _draw_plate(
    axes: Sequence[Axes],
    field: Field,
    shares: Floats,
    density: Floats,
    found: Sequence[Mark],
    truth: Sequence[Mark],
    sensors: Floats | None,
) -> None:
    from matplotlib.patches import Circle

    assert field.positions is not None
    low, high = (field.positions.min(axis=0), field.positions.max(axis=0)) if field.bounds is None else field.bounds
    rows = len(np.unique(field.positions[:, 1]))
    from scipy.ndimage import gaussian_filter

    # The density is smoothed, because a thousand draws on thousands of cells would look like single points.
    image = gaussian_filter(np.asarray(density).reshape(rows, -1), 1.0, mode="nearest")
    style: dict[str, Any] = {"origin": "lower", "cmap": _PALETTE, "interpolation": "bilinear", "vmin": 0, "vmax": 100}
    drawn = axes[0].imshow(
        100 * np.sqrt(image / max(image.max(), 1e-300)), extent=(low[0], high[0], low[1], high[1]), **style
    )
    _draw_bar(axes[0], drawn, "√ of the density, % of its peak")
    for index, mark in enumerate(found):
        label = "found, 90 % within the circle" if index == 0 else None
        axes[0].add_patch(Circle((mark.place[0], mark.place[1]), mark.error, fill=False, ec="white", lw=1.2))
        axes[0].plot(*mark.place[:2], "o", ms=5, mfc="white", mec=_FOUND, ls="none", label=label)
    if len(axes) > 1:
        _draw_moves(axes[1], field.positions, np.asarray(shares), truth)
    for panel in axes:
        if truth:
            _mark_truth(panel, np.array([mark.place[:2] for mark in truth]), 8)
        if sensors is not None:
            panel.plot(*sensors.T, ".", ms=3, color=_FAINT, label="sensor", ls="none")
        panel.set_xlim(low[0], high[0])
        panel.set_ylim(low[1], high[1])
        _finish(panel, "x (m)", "y (m)")


def _mark_truth(axes: Axes, places: Floats, size: float) -> None:
    axes.plot(*places.T, "X", ms=size, color=_TRUTH, mec="white", mew=0.8, label="truth", ls="none")


def _draw_moves(axes: Axes, positions: Floats, shares: Floats, truth: Sequence[Mark]) -> None:
    """Draw a line from each large share of the estimate to the true source to which the transport plan moves it."""
    heavy = np.argsort(-shares)[:400]
    heavy = heavy[shares[heavy] > 1e-3 * shares.max()]
    start, end = positions[heavy], np.array([mark.place for mark in truth])
    _, plan = cheapest_plan(euclidean(start, end), shares[heavy], np.array([mark.strength for mark in truth]))
    for one, other in zip(*np.nonzero(plan > 1e-6), strict=True):
        (x, y), (u, v) = start[one], end[other]
        axes.plot([x, u], [y, v], color=_FOUND, lw=0.7, alpha=float(min(1.0, 0.1 + 8 * plan[one, other])))
    axes.plot([], [], color=_FOUND, lw=0.9, label="movement of the estimate's strength")


# ── a graph ─────────────────────────────────────────────────────────────────────────────────────────────────────────


_MOST_NODES = 20_000
"""Largest number of nodes of a graph in a picture; a larger graph becomes a list of the nodes with large shares."""


def _draw_graph(
    axes: Sequence[Axes], field: Field, shares: Floats, found: Sequence[Mark], truth: Sequence[Mark]
) -> None:
    """Draw a graph with each node at its ranks in the two slowest heat modes, so that connected nodes are close."""
    assert field.network is not None
    if not 3 <= field.network.nodes <= _MOST_NODES:
        _draw_heaviest(axes, shares, truth)
        return
    places = _slowest_modes(field)
    order = np.argsort(shares)
    drawn = axes[0].scatter(
        places[order, 0], places[order, 1], c=100 * shares[order] / shares.sum(), s=14, cmap=_PALETTE, linewidth=0
    )
    _draw_bar(axes[0], drawn, "share of the strength (%)")
    if found:
        nodes = [int(mark.place[0]) for mark in found]
        axes[0].plot(*places[nodes].T, "o", ms=9, mfc="none", mec=_FOUND, mew=1.6, label="found", ls="none")
    if len(axes) > 1:
        axes[1].scatter(places[:, 0], places[:, 1], color=_FAINT, s=6, linewidth=0, alpha=0.4)
    for panel in axes:
        if truth:
            _mark_truth(panel, places[[int(mark.place[0]) for mark in truth]], 9)
        _finish(panel, "nodes in order of the slowest mode of heat", "in order of the second slowest")


def _slowest_modes(field: Field) -> Floats:
    from scipy.sparse.linalg import eigsh

    assert field.network is not None
    laplacian = field.network.laplacian()
    if field.network.nodes <= 2000:
        modes = np.linalg.eigh(laplacian.toarray())[1]
    else:
        # The solver needs a shift, because a Laplacian has no inverse. A fixed start makes the picture repeatable.
        modes = eigsh(laplacian, k=3, sigma=-1e-3, v0=np.ones(field.network.nodes))[1]
    # Nodes are drawn at ranks, because with values one weakly connected node would push all others into a corner.
    return np.argsort(np.argsort(modes[:, 1:3], axis=0), axis=0).astype(np.float64)


def _draw_heaviest(axes: Sequence[Axes], shares: Floats, truth: Sequence[Mark], most: int = 20) -> None:
    heaviest = np.argsort(-shares)[:most]
    true_nodes = {int(mark.place[0]) for mark in truth}
    colours = [_TRUTH if node in true_nodes else _FOUND for node in heaviest.tolist()]
    axes[0].barh(np.arange(len(heaviest)), 100 * shares[heaviest] / shares.sum(), color=colours)
    axes[0].set_yticks(np.arange(len(heaviest)), [str(node) for node in heaviest])
    axes[0].invert_yaxis()
    axes[0].set_xlabel("share of the strength (%)", size=8, color=_INK)
    axes[0].set_ylabel("node", size=8, color=_INK)
    if len(axes) > 1:
        axes[1].axis("off")
