"""DiskArea: report a cell of a disc around the true one e^ε times as likely as any other cell."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, whole
from heathaze.domain.density import MAX_DENSE_CELLS
from heathaze.domain.grid import Grid
from heathaze.local._window import Window, part_of
from heathaze.local.mechanism import WindowMechanism
from heathaze.local.weights import finest_low, most_useful, raised
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.types import Booleans, Floats, Integers

MAX_RADIUS = 2048
"""Of a window that is written out: about 2^24 weights."""

MAX_FRAME = 4 * MAX_DENSE_CELLS
"""Cells of the map and of its margin, for which reports are tallied."""


@dataclass(frozen=True, init=False)
class DiskArea(WindowMechanism):
    """The disk area mechanism of Du et al. on a grid; see ``disk_area.md``.

    Args:
        grid: The public frame; d × d cells in the paper, any rectangle here.
        epsilon: PrivacyLoss of one report.
        radius: Of the disc, in cells. Left out, the one that tells the server most (:func:`best_radius`); 0 is
            randomised response. The paper's own choice is :func:`paper_radius`.
        shrink: Give a cell that the circle cuts a part of the weight (the paper's DAM), or none (DAM-NS).

    >>> mechanism = DiskArea(Grid.plane(x=(0, 1), y=(0, 1), size=15), 3.5)
    >>> mechanism.radius, mechanism.window.outputs.size
    (3, 437)
    """

    radius: int
    shrink: bool

    def __init__(self, grid: Grid, epsilon: Number, radius: int | None = None, shrink: bool = True) -> None:
        super().__init__(grid, epsilon)
        chosen = best_radius(grid, self.epsilon, shrink=shrink) if radius is None else radius
        assign(self, radius=parse_radius(chosen, grid), shrink=shrink)

    @functools.cached_property
    def window(self) -> Window:
        """The weights: e^ε in the disc, 1 outside, between them where the circle cuts a cell."""
        return disk_window(self.grid.shape, self.epsilon, self.radius, shrink=self.shrink)


def parse_radius(radius: int, grid: Grid) -> int:
    """A radius that can be used on this grid, in cells.

    Raises:
        InvalidInput: It is not a whole number from 0 to :func:`largest_radius`.
    """
    return whole(radius, "radius", "cells of this map", least=0, most=largest_radius(grid.shape))


def largest_radius(shape: tuple[int, int]) -> int:
    """Twice the longer side, if the window and the frame of all outputs can be written out.

    >>> largest_radius((15, 15)), largest_radius((4096, 4096)), largest_radius((2**20, 16))
    (30, 2048, 23)
    """
    rows, cols = shape
    # (rows + 2b)(cols + 2b) ≤ MAX_FRAME, solved for b.
    room = (math.isqrt((rows - cols) ** 2 + 4 * MAX_FRAME) - rows - cols) // 4
    return max(0, min(2 * max(shape), MAX_RADIUS, room))


def disk_window(shape: tuple[int, int], epsilon: Fraction, radius: int, *, shrink: bool = True) -> Window:
    """Weights of the disc: high where :func:`disk_share` is 1, low where it is 0, between them where the circle cuts.

    Without ``shrink`` a cell that the circle cuts has the low weight, and is no part of the window.
    """
    x = np.arange(radius + 1)[:, None]
    share, support = disk_share(x, x.T, radius)
    if not shrink:
        support = x**2 + x.T**2 <= radius**2
        share = support.astype(np.float64)
    support = mirrored(support)
    low, exponent = finest_scale(shape, epsilon, radius, support)
    return Window(shape, low, mirrored(part_of(share, raised(low, exponent) - low)), support)


def disk_share(x: Integers, y: Integers, radius: Integers | int) -> tuple[Floats, Booleans]:
    """How much of the high weight each cell gets, and whether it lies in the disc or is cut by its circle.

    Cell (x, y), at distance r of the true one: in the disc (r ≤ b) it has the share 1, where the circle cuts it

        S = 4 (δx + ½)(δy + ½),   δ = b/r − 1,   cut to [0, 1]

    (Theorem VI.1; without the cut a share can be negative, and the mechanism leaks: errata E1-2). The circle cuts a
    cell when the cell's nearest corner, at (x − ½, y − ½), lies inside; compared in whole numbers.
    """
    inside = x**2 + y**2 <= radius**2
    cut = ~inside & (np.maximum(2 * x - 1, 0) ** 2 + np.maximum(2 * y - 1, 0) ** 2 < 4 * radius**2)
    delta = radius / np.sqrt(np.maximum(x**2 + y**2, 1.0)) - 1
    share = np.clip(4 * (delta * x + 0.5) * (delta * y + 0.5), 0.0, 1.0)
    return np.where(cut, share, inside.astype(np.float64)), inside | cut


def mirrored(quarter: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A window from its quarter of offsets 0, 1, … down and across."""
    return np.pad(quarter, [(side - 1, 0) for side in quarter.shape], mode="reflect")


def finest_scale(shape: tuple[int, int], epsilon: Fraction, radius: int, support: Booleans) -> tuple[int, Fraction]:
    """What a weight of 1 is written as, and the exponent of the largest weight: ε, or what 62 bits have room for."""
    cells = math.prod(side + 2 * radius for side in shape)
    raised_cells = int(support.sum())
    exponent = most_useful(raised_cells, cells, epsilon)
    return finest_low(cells, raised_cells, exponent), exponent


def paper_radius(grid: Grid, epsilon: Number) -> float:
    """The radius of eq. 11, in cells: the optimum of the continuous bound; the paper rounds it down.

        b = (P m₂ + √(P² m₂² + 4π e^ε m₁ m₂ A)) / (2π e^ε m₁),   m₁ = e^ε − 1 − ε,   m₂ = 1 − e^ε + ε e^ε

    A is the area of the map and P its perimeter, which for a square of side L is the paper's formula.

    >>> round(paper_radius(Grid.plane(x=(0, 1), y=(0, 1), size=1), 3.5), 12)
    0.233247334375
    """
    loss = float(parse_epsilon(epsilon))
    area, perimeter = float(grid.cells), 2.0 * (grid.rows + grid.cols)
    ratio = in_over_out(loss)
    # πb² = ratio · (P b + A), whatever the size of the map.
    return (ratio * perimeter + math.sqrt((ratio * perimeter) ** 2 + 4 * math.pi * ratio * area)) / (2 * math.pi)


def in_over_out(loss: float) -> float:
    """m₂ / (e^ε m₁): the area of the best disc over the area outside it."""
    if loss < 1e-2:  # both cancel: the series in ε (errata E1-4)
        m1 = sum(loss ** (k - 2) / math.factorial(k) for k in range(2, 12))
        m2 = sum(loss ** (k - 2) * (1 / math.factorial(k - 1) - 1 / math.factorial(k)) for k in range(2, 12))
        return m2 / (math.exp(loss) * m1)
    # Divided by e^ε above and below, so that a large ε does not overflow.
    m1, m2 = 1 - (1 + loss) * math.exp(-loss), loss - 1 + math.exp(-loss)
    return m2 * math.exp(-loss) / m1


def best_radius(grid: Grid, epsilon: Number, *, shrink: bool = True) -> int:
    """The radius for which the discrete bound on what a report tells is largest (errata E1-5).

    On a single cell there is nothing to tell, whatever the bound says, and the radius is 0.
    """
    loss = parse_epsilon(epsilon)
    if grid.cells == 1:
        return 0

    def told(radius: int) -> float:
        return disk_window(grid.shape, loss, radius, shrink=shrink).information_bound()

    return most_telling(told, start=math.floor(paper_radius(grid, loss)), step=1, largest=largest_radius(grid.shape))


def most_telling(told: Callable[[int], float], start: int, step: int, largest: int) -> int:
    """The radius with which a report tells most; 0 is randomised response.

    Climbs by steps that are halved where neither side is better. What is told rises and falls once, but for the
    roughness of small discs, which a last look at the smallest and at the neighbours makes up for.
    """

    @functools.cache
    def gain(radius: int) -> float:
        return told(radius) if 0 <= radius <= largest else -math.inf

    best = min(largest, start)
    while step:
        better = max(best - step, best + step, key=gain)
        if gain(better) > gain(best):
            best = better
        else:
            step //= 2
    candidates: list[int] = [0, 1, *range(best - 2, best + 3)]
    return max(candidates, key=gain)
