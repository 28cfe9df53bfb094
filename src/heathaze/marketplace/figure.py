"""A picture of a purchase: the target, the owners' points, the bought points by owner, and their MMD² from the target.

NOT PRIVATE: the picture shows single records of the target and of owners. It is for the consumer and the curator.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from heathaze.errors import InvalidInput
from heathaze.maps.figure import DOTS_PER_INCH
from heathaze.types import Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_INK, _FAINT, _LIGHT = "#1f2328", "#6b7280", "#e5e7eb"

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours of owners, by Okabe and Ito for colour-blind readers. The seventh owner gets colour 1 with a new marker."""

_SHAPES = "os^Dv"

_MOST_OWNERS = 24
"""Largest number of owners drawn; if there are more, the owners who sold least are drawn together as one."""

_MOST_SHOWN = 800
"""Largest number of points per owner that were not bought and are drawn in a pale colour."""


@dataclass(frozen=True, eq=False)
class Seller:
    """One owner in the picture of a purchase: hashes of the owner's bought points, and of some other points."""

    name: str
    bought: Floats = field(repr=False)
    others: Floats = field(repr=False)


def some_others(rows: int, bought: Integers) -> Integers:
    """Choose at most 800 evenly spaced rows of an owner that were not bought, to draw in the picture.

    Args:
        rows: Number of rows of the owner.
        bought: Indices of the rows that were bought.

    >>> some_others(4, np.array([1])).tolist()
    [0, 2, 3]
    """
    rest = np.setdiff1d(np.arange(rows), bought)
    return rest[:: max(1, -(-len(rest) // _MOST_SHOWN))]


def draw_purchase(
    target: Floats,
    sellers: Sequence[Seller],
    distances: Mapping[str, float],
    *,
    title: str,
    caption: str,
    measured: str = "the target",
    path: Path | BinaryIO,
) -> None:
    """Draw a purchase as a PNG at 150 dots per inch: records on the left; counts by owner and distances on the right.

    The left side shows hashes along the two principal axes of the target's hashes, so points similar to the target are
    drawn near the target.

    Args:
        target: Hashes of the target's points, one per row.
        sellers: The owners in the order of the legend.
        distances: MMD² from the target for each choice of points, by its name; this purchase first.
        title: Text above the picture.
        caption: Text below the picture, wrapped to its width.
        measured: Name of the points from which distances are measured, for the title of the distances.
        path: A file, or an object to write bytes to.

    Raises:
        InvalidInput: There is no target, no owner or no distance.
    """
    if not len(target) or not sellers or not distances:
        raise InvalidInput(
            "A picture of a purchase needs a target, an owner and a distance; give at least one of each."
        )

    sellers = _fewer(sellers)
    # Imported here to keep `import heathaze` fast. Pyplot is not used: it keeps global state and may need a screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = textwrap.wrap(caption, 150)
    bars = 0.26 * max(len(sellers), 2), 0.26 * max(len(distances), 2)
    legend = 0.19 * -(-(len(sellers) + 2) // 3)
    below = 0.35 + 0.155 * len(lines)
    height = max(4.4, sum(bars) + 1.5)
    wide, tall = 10.6, below + legend + 0.48 + height + 0.75
    figure = Figure(figsize=(wide, tall), dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    floor = below + legend + 0.48
    left = figure.add_axes((0.7 / wide, floor / tall, 4.9 / wide, height / tall))
    room = (height - 1.1) / sum(bars)
    counts = figure.add_axes((7.2 / wide, (floor + height - room * bars[0]) / tall, 3.1 / wide, room * bars[0] / tall))
    apart = figure.add_axes((7.2 / wide, floor / tall, 3.1 / wide, room * bars[1] / tall))
    _draw_records(left, target, sellers, height)
    _draw_counts(counts, sellers)
    _draw_distances(apart, distances, measured)
    for axes in (left, counts, apart):
        axes.tick_params(labelsize=8, colors=_FAINT, length=3, width=0.6)
        axes.set_axisbelow(True)
        for name, spine in axes.spines.items():
            spine.set(color=_FAINT, linewidth=0.6)
            spine.set_visible(axes is left or name in ("left", "bottom"))
    text: dict[str, Any] = {"color": _INK, "va": "top", "parse_math": False, "linespacing": 1.25}
    figure.text(0.2 / wide, 1 - 0.14 / tall, title, size=12, weight="bold", **text)
    figure.text(0.2 / wide, (below - 0.12) / tall, "\n".join(lines), size=8, **text)
    # By default matplotlib writes its own name and web address into the file.
    figure.savefig(path, format="png", metadata={"Software": None})


def principal_axes(hashes: Floats) -> tuple[Floats, Floats]:
    """Find the axes of the picture: the mean of hashes, and the two directions in which they vary most, as columns.

    Args:
        hashes: One hash per row.
    """
    middle = hashes.mean(axis=0)
    _, vectors = np.linalg.eigh((hashes - middle).T @ (hashes - middle))
    axes = vectors[:, ::-1][:, :2]
    # A direction and its opposite are the same axis. The largest coordinate is made positive, so that pictures of
    # different purchases can be compared.
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return middle, axes * signs


def _draw_records(axes: Axes, target: Floats, sellers: Sequence[Seller], inches: float) -> None:
    middle, directions = principal_axes(target)

    def scatter(hashes: Floats, **style: Any) -> None:
        x, y = ((hashes - middle) @ directions).T
        axes.scatter(x, y, **style)

    styles = _styles(len(sellers))
    for seller, (colour, shape) in zip(sellers, styles, strict=True):
        scatter(seller.others, s=4, color=colour, alpha=0.22, marker=shape, linewidth=0, zorder=1)
    scatter(target, s=26, facecolor="none", edgecolor=_INK, linewidth=0.55, label="target", zorder=2)
    axes.scatter([], [], s=8, color=_FAINT, alpha=0.5, linewidth=0, label="offered or kept back (pale)")
    for seller, (colour, shape) in zip(sellers, styles, strict=True):
        # A name that begins with an underscore would be left out of the legend.
        label = f"\u200b{_shortened(seller.name)}"
        white: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.35}
        scatter(seller.bought, s=15, color=colour, marker=shape, label=label, zorder=3, **white)
    axes.set_title("Records: bought ones bright, by owner", size=10, color=_INK, loc="left")
    axes.set_xlabel("first principal axis of the target's hashes (no unit)", size=8, color=_INK)
    axes.set_ylabel("second principal axis (no unit)", size=8, color=_INK)
    below: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, -0.44 / inches), "borderaxespad": 0}
    legend = axes.legend(fontsize=8, frameon=False, labelcolor=_INK, ncols=3, handletextpad=0.2, **below)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _draw_counts(axes: Axes, sellers: Sequence[Seller]) -> None:
    numbers = [len(seller.bought) for seller in sellers]
    places = np.arange(len(sellers))
    axes.barh(places, numbers, color=[colour for colour, _ in _styles(len(sellers))], height=0.7)
    _label_bars(axes, numbers, [f"{number:,}" for number in numbers])
    axes.set_yticks(places, [_shortened(seller.name) for seller in sellers], parse_math=False)
    axes.set_title("From whom", size=10, color=_INK, loc="left")
    axes.set_xlabel("points bought", size=8, color=_INK)


def _draw_distances(axes: Axes, distances: Mapping[str, float], measured: str) -> None:
    """Draw the distances of a purchase as dots on a logarithmic scale, because they can differ by a factor of 100.

    Bars would need a zero, which a logarithmic scale does not have. A short scale has ticks at 1 and 3 of each decade,
    so that at least one tick is visible.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    values = list(distances.values())
    places = np.arange(len(values))
    shown = [max(value, 1e-12) for value in values]
    low, high = min(shown) / 1.8, max(shown) * 4
    axes.set_xscale("log")
    axes.scatter(shown, places, s=42, color=[_INK, *[_FAINT] * (len(values) - 1)], zorder=3)
    _label_bars(axes, shown, [f"{value:.2g}" for value in values], away=6)
    axes.set_yticks(places, list(distances), parse_math=False)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if high < 300 * low else (1,), numticks=8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(f"How far from {measured}", size=10, color=_INK, loc="left")
    axes.set_xlabel("MMD² (no unit, log scale); smaller is better", size=8, color=_INK)


def _label_bars(axes: Axes, ends: Sequence[float], texts: Sequence[str], away: int = 3) -> None:
    axes.invert_yaxis()
    axes.grid(axis="x", color=_LIGHT, linewidth=0.6)
    axes.margins(x=0.16)
    for place, (end, text) in enumerate(zip(ends, texts, strict=True)):
        axes.annotate(text, (end, place), xytext=(away, 0), textcoords="offset points", va="center", size=8, color=_INK)


def _fewer(sellers: Sequence[Seller]) -> list[Seller]:
    """Merge the owners who sold least into one, so that the picture of a purchase has at most 24 owners."""
    if len(sellers) <= _MOST_OWNERS:
        return list(sellers)
    most = set(sorted(range(len(sellers)), key=lambda k: -len(sellers[k].bought))[: _MOST_OWNERS - 1])
    rest = [seller for k, seller in enumerate(sellers) if k not in most]
    others = np.concatenate([seller.others for seller in rest])
    merged = Seller(
        f"{len(rest)} others",
        np.concatenate([seller.bought for seller in rest]),
        others[some_others(len(others), np.empty(0, dtype=np.int64))],
    )
    return [*(seller for k, seller in enumerate(sellers) if k in most), merged]


def _styles(count: int) -> list[tuple[str, str]]:
    both = itertools.product(_SHAPES, COLOURS)
    return [(colour, shape) for shape, colour in itertools.islice(itertools.cycle(both), count)]


def _shortened(name: str, most: int = 20) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
