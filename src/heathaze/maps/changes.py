"""The picture of two releases side by side: both maps on one scale, and the changes that are real.

A change is real if the noise of the two releases does not explain it. ``heathaze.release.changes`` finds the changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.quadtree import node_extent
from heathaze.maps.backdrop import draw_backdrop
from heathaze.maps.mosaic import draw_classes, draw_mosaic, legend_length
from heathaze.maps.shade import degrees
from heathaze.maps.sheet import FAINT, PAPER, Look, WideSheet, Words
from heathaze.maps.squares import Squares, how_sure, number, side_lengths
from heathaze.types import Booleans, Floats, Integers

MORE = {"light": ("#fdc086", "#e66101", "#7f3300"), "dark": ("#8a4510", "#e07a1f", "#ffd29b")}
FEWER = {"light": ("#b2c9e6", "#5a82c4", "#1f3b78"), "dark": ("#2b4573", "#5f8bd0", "#c4dbff")}
"""Colours of growth and of decline, from small to large; colour-blind readers can tell orange from blue."""

_SIDE = 3.9  # inches

NOTABLE = 0.1
"""The changes that are not real are named together if their sum is at least this part of the real ones."""


@dataclass(frozen=True, eq=False)
class Changes:
    """The changes between two releases on the same grid.

    Attributes:
        before: The certain squares of the first release.
        after: The certain squares of the second release, with the same classes.
        levels: Level in the quadtree of each square on which the releases are compared; disjoint, covering the map.
        codes: Code of each of these squares.
        people_before: Estimated number of people (or of what the maps count) in each square, in the first release.
        people_after: The same in the second release.
        low: Lower end of the interval of the change, in people. ``confidence`` is for all intervals together.
        high: Upper end of the interval of the change.
        area: The area of each square, in the unit of area of ``before.unit``.
        confidence: Probability that every interval contains the true change.
        total: Change of the total, and the ends of its own interval.
        cost: What both releases cost together, as a sentence.
    """

    before: Squares
    after: Squares
    levels: Integers
    codes: Integers
    people_before: Floats
    people_after: Floats
    low: Floats
    high: Floats
    area: Floats
    confidence: float
    total: tuple[float, float, float]
    cost: str

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def grid(self) -> Grid:
        """The public frame of both maps."""
        return self.before.grid

    @property
    def change(self) -> Floats:
        """Estimated change of each square, in people."""
        return self.people_after - self.people_before

    @property
    def real(self) -> Booleans:
        """Whether the change of each square is real: its interval does not contain zero."""
        return np.asarray((self.low > 0) | (self.high < 0))

    def largest(self) -> Integers:
        """Return the squares whose change is real, those with the largest change first."""
        real = np.flatnonzero(self.real)
        return np.asarray(real[np.argsort(-np.abs(self.change[real]), kind="stable")])

    def bounds(self) -> Floats:
        """Return west, south, east and north of each square (n × 4), in the coordinates of the grid."""
        top, bottom, left, right = node_extent(self.grid, self.levels, self.codes)
        ys = np.sort(np.stack([self.grid.y_at(top), self.grid.y_at(bottom)]), axis=0)
        return np.stack([self.grid.x_at(left), ys[0], self.grid.x_at(right), ys[1]], axis=1)

    def where(self, square: int) -> str:
        """Write the middle of a square for readers."""
        west, south, east, north = self.bounds()[square].tolist()
        x, y = (west + east) / 2, (south + north) / 2
        if self.grid.projection.is_geographic:
            return f"{degrees(y, 'N', 'S', 3)} {degrees(x, 'E', 'W', 3)}"
        return f"x {number(x)}, y {number(y)}"

    def summary(self) -> str:
        """Say how many changes are real, how sure this is, and by how much all other squares changed together."""
        found, counted = int(self.real.sum()), self.before.counted
        total, low, high = self.total
        explained = "; the noise of both maps may explain this" if low <= 0 <= high else ""
        told = f"The total {'rose' if total > 0 else 'fell'} by about {number(abs(round(total)))} {counted}{explained}."
        if round(total) == 0:
            told = "The total did not change."
        sure = f"({how_sure(self.confidence)}, for all squares together)"
        if not found:
            return (
                f"No square of {len(self):,} has a change that the noise of both maps does not explain {sure}. {told}"
            )
        changed = "squares have changed" if found > 1 else "square has changed"
        shown = f"{found:,} of {len(self):,} {changed} by more than the noise of both maps explains {sure}."
        rest = float(self.change[~self.real].sum())
        if abs(rest) >= max(1.0, NOTABLE * float(np.abs(self.change[self.real]).sum())):
            shown += (
                f" By the estimates, all other squares together {'rose' if rest > 0 else 'fell'} by about "
                f"{number(abs(round(rest)))} {counted}; the noise hides in which of them."
            )
        return f"{shown} {told}"


def _classes(changes: Changes) -> tuple[tuple[float, ...], Integers]:
    """Choose the limits of up to three classes of change, and find the class of each square: ±1 to ±3, or 0.

    If the sizes of the real changes differ too much for three classes, the first class starts at 0 and contains all
    small changes.
    """
    density = changes.change / changes.area
    real = changes.real
    if not real.any():
        return (), np.zeros(len(changes), np.int64)
    size = np.abs(density)
    scale = np.array([float(f"{digit}e{power}") for power in range(-9, 13) for digit in (1, 3)])
    top = int(np.searchsorted(scale, size[real].max(), side="right")) - 1
    bottom = max(int(np.searchsorted(scale, size[real].min(), side="right")) - 1, top - 2)
    limits = scale[bottom : top + 1].copy()
    if size[real].min() < limits[0]:
        limits[0] = 0.0
    kinds = np.searchsorted(limits, size, side="right")
    return tuple(limits.tolist()), np.where(real, np.sign(density) * kinds, 0).astype(np.int64)


def draw_changes(
    changes: Changes, names: tuple[str, str], words: Words, look: Look, path: Path | BinaryIO, kind: str = "png"
) -> None:
    """Draw two releases on one scale, and their real changes.

    Args:
        changes: The two maps and their changes.
        names: What the two maps are called, above them.
        words: The texts that come from the releases.
        look: The texts and the look that the user chose.
        path: A file, or a binary stream.
        kind: ``"png"``, ``"svg"`` or ``"pdf"``.
    """
    limits, kinds = _classes(changes)
    rows = max(len(changes.before.classes) + 3, 2 * len(limits) + 3)
    tall = max(0.4 + 0.34 * rows, legend_length(changes.before, look.backdrop))
    sheet = WideSheet(changes.grid, words, look, (*names, "Real change"), tall, _SIDE)
    for axes, squares in zip(sheet.maps, (changes.before, changes.after), strict=False):
        draw_mosaic(axes, squares, look, sheet.width, sheet.height)
    _draw_kinds(sheet, changes, kinds)
    left, top = sheet.column
    draw_classes(sheet, changes.before, left, top)
    third = sheet.lefts[2]
    unit = changes.before.unit
    sheet.text(third, top - 0.02, f"Change in {unit}", size=11, weight="bold")
    top += 0.32
    spread = {1: [1], 2: [0, 2], 3: [0, 1, 2]}.get(len(limits), [])
    lines: list[tuple[str, str]] = []
    for word, colours, order in (("more", MORE, range(len(limits))[::-1]), ("fewer", FEWER, range(len(limits)))):
        for k in order:
            last = k + 1 == len(limits)
            size = f"at least {number(limits[k])}" if last else f"{number(limits[k])} to {number(limits[k + 1])}"
            text = f"{size} {word}" if limits[k] else f"up to {number(limits[k + 1])} {word}"
            lines.append((colours[look.paper][spread[k]], text))
    lines.insert(len(limits), (PAPER[look.paper], "no change, or hidden by the noise"))
    for colour, text in lines:
        sheet.panel(third, top, 0.42, 0.26).set_facecolor(colour)
        sheet.text(third + 0.54, top + 0.05, text, size=9.5)
        top += 0.34
    middle = sheet.lefts[1]
    sheet.text(middle, sheet.column[1] - 0.02, "Largest real changes", size=11, weight="bold")
    told = [
        f"{number(round(float(changes.people_before[k])))} → {number(round(float(changes.people_after[k])))} "
        f"{changes.before.counted}, {changes.where(k)}, {side_lengths(changes.grid, int(changes.levels[k]))}"
        for k in changes.largest()[: min(6, rows - 1)].tolist()
    ]
    text = "\n".join(told) or "none"
    sheet.text(middle, sheet.column[1] + 0.3, text, size=8, linespacing=1.6, faint=True)
    sheet.save(path, kind)


def _draw_kinds(sheet: WideSheet, changes: Changes, kinds: Integers) -> None:
    """Draw the squares whose change is real onto the third map."""
    from matplotlib.collections import PolyCollection

    theme, grid, axes = sheet.theme, changes.grid, sheet.maps[2]
    top, bottom, left, right = node_extent(grid, changes.levels, changes.codes)
    x0, x1, y0, y1 = left / grid.cols, right / grid.cols, 1 - bottom / grid.rows, 1 - top / grid.rows
    corners = np.stack([x0, y0, x1, y0, x1, y1, x0, y1], axis=1).reshape(-1, 4, 2)
    most = int(np.abs(kinds).max(initial=0))
    spread = {1: [1], 2: [0, 2], 3: [0, 1, 2]}.get(most, [])
    for kind in range(1, most + 1):
        for sign, colours in ((1, MORE), (-1, FEWER)):
            colour, here = colours[theme][spread[kind - 1]], corners[kinds == sign * kind]
            axes.add_collection(
                PolyCollection(here, facecolors=colour, edgecolors=FAINT[theme], linewidths=0.4, zorder=1),
                autolim=False,
            )
    if sheet.look.backdrop is not None:
        draw_backdrop(axes, sheet.look.backdrop, theme)
