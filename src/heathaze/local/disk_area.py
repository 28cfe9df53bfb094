"""DiskArea: report a cell in a disc around the true cell e^ε times as likely as a cell outside of the disc."""

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
from heathaze.local._window import Window, floor_product
from heathaze.local.mechanism import WindowMechanism
from heathaze.local.weights import finest_low, floor_exp, largest_exponent
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.types import Booleans, Floats, Integers

MAX_RADIUS = 2048
"""The largest radius in cells; the window of weights then has about 2^24 entries."""

MAX_FRAME = 4 * MAX_DENSE_CELLS
"""The largest number of cells of a frame (the grid and a margin of outputs); a tally has one count for each."""


@dataclass(frozen=True, init=False)
class DiskArea(WindowMechanism):
    """The disk area mechanism (DAM) of Du et al. on a grid; see ``disk_area.md``.

        Pr[u | v] ∝ e^ε   for cells u in a disc around the true cell v,   Pr[u | v] ∝ 1   for all others

    Args:
        grid: The public grid, which may be any rectangle.
        epsilon: Privacy loss of one report.
        radius: Radius of the disc, in cells. If left out, :func:`best_radius`, with which the estimated map has the
            smallest error. Radius 0 is randomised response. The paper's choice is :func:`paper_radius`.
        shrink: Whether a cell that the circle cuts gets a share of the raised weight (the paper's DAM) or none
            (DAM-NS).

    Raises:
        InvalidInput: ε is not positive, or the radius is not a whole number from 0 to :func:`largest_radius`.
        TooLarge: The grid has too many cells.

    >>> mechanism = DiskArea(Grid.plane(x=(0, 1), y=(0, 1), size=15), 3.5)
    >>> mechanism.radius, mechanism.window.outputs.size
    (1, 289)
    """

    radius: int
    shrink: bool

    def __init__(self, grid: Grid, epsilon: Number, radius: int | None = None, shrink: bool = True) -> None:
        super().__init__(grid, epsilon)
        chosen = best_radius(grid, self.epsilon) if radius is None else radius
        assign(self, radius=parse_radius(chosen, grid), shrink=shrink)

    @functools.cached_property
    def window(self) -> Window:
        """The weights: e^ε in the disc, 1 outside of it, and between 1 and e^ε where the circle cuts a cell."""
        return disk_window(self.grid.shape, self.epsilon, self.radius, shrink=self.shrink)


def parse_radius(radius: int, grid: Grid) -> int:
    """Check the radius of a disc, in cells, for this grid.

    Raises:
        InvalidInput: The radius is not a whole number from 0 to :func:`largest_radius`.
    """
    return whole(radius, "radius", "cells of this map", least=0, most=largest_radius(grid.shape))


def largest_radius(shape: tuple[int, int]) -> int:
    """The largest radius of a disc, in cells: twice the longer side of the grid, or less if memory does not suffice.

    Memory must hold the window of weights and one count for each cell of the frame.

    >>> largest_radius((15, 15)), largest_radius((4096, 4096)), largest_radius((2**20, 16))
    (30, 2048, 23)
    """
    rows, cols = shape
    # The largest radius b with (rows + 2b)(cols + 2b) ≤ MAX_FRAME.
    room = (math.isqrt((rows - cols) ** 2 + 4 * MAX_FRAME) - rows - cols) // 4
    return max(0, min(2 * max(shape), MAX_RADIUS, room))


def disk_window(shape: tuple[int, int], epsilon: Fraction, radius: int, *, shrink: bool = True) -> Window:
    """The window of a disc. A cell gets the weight low + S · (high − low), where S is its :func:`disk_share`.

    Args:
        shape: Rows and columns of the grid.
        epsilon: Privacy loss of one report.
        radius: Radius of the disc, in cells.
        shrink: If False, a cell that the circle cuts has the low weight and is not part of the window.
    """
    x = np.arange(radius + 1)[:, None]
    share, support = disk_share(x, x.T, radius)
    if not shrink:
        support = x**2 + x.T**2 <= radius**2
        share = support.astype(np.float64)
    support = mirrored(support)
    low, exponent = finest_scale(shape, epsilon, radius, support)
    return Window(shape, low, mirrored(floor_product(share, floor_exp(low, exponent) - low)), support)


def disk_share(x: Integers, y: Integers, radius: Integers | int) -> tuple[Floats, Booleans]:
    """The share of each cell in the disc around the true cell, and whether the disc touches the cell.

    Let r be the distance of the cell at offset (x, y) from the true cell, and b the radius of the disc. A cell with r ≤
    b has the share S = 1. A cell that the circle cuts has the share (Theorem VI.1)

        S = 4 (δx + ½)(δy + ½),   δ = b/r − 1,   clipped to [0, 1].

    Other cells have S = 0. Without the clipping a share can be negative, and the mechanism leaks (errata E1-2). The
    circle cuts a cell with r > b if the cell's nearest corner, at (x − ½, y − ½), lies inside the circle. The code
    compares whole numbers, so the decision is exact.

    Args:
        x: Offsets in rows, not negative.
        y: Offsets in columns, not negative.
        radius: Radius b of the disc, in cells.

    Returns:
        The shares S, and whether each cell lies in the disc or is cut by its circle.
    """
    inside = x**2 + y**2 <= radius**2
    cut = ~inside & (np.maximum(2 * x - 1, 0) ** 2 + np.maximum(2 * y - 1, 0) ** 2 < 4 * radius**2)
    delta = radius / np.sqrt(np.maximum(x**2 + y**2, 1.0)) - 1
    share = np.clip(4 * (delta * x + 0.5) * (delta * y + 0.5), 0.0, 1.0)
    return np.where(cut, share, inside.astype(np.float64)), inside | cut


def mirrored(quarter: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Mirror one quarter of a window (offsets 0, 1, … down and across) to get the whole window."""
    return np.pad(quarter, [(side - 1, 0) for side in quarter.shape], mode="reflect")


def finest_scale(shape: tuple[int, int], epsilon: Fraction, radius: int, support: Booleans) -> tuple[int, Fraction]:
    """The finest whole-number scale of a window: the number for weight 1, and the exponent of the largest weight.

    The exponent is ε, or a smaller whole number if the weights for ε would not fit into 62 bits.
    """
    cells = math.prod(side + 2 * radius for side in shape)
    raised_cells = int(support.sum())
    exponent = largest_exponent(raised_cells, cells, epsilon)
    return finest_low(cells, raised_cells, exponent), exponent


def paper_radius(grid: Grid, epsilon: Number) -> float:
    """The paper's radius of the disc (equation 11), in cells: it maximises a bound on the information of a report.

        b = (P m₂ + √(P² m₂² + 4π e^ε m₁ m₂ A)) / (2π e^ε m₁),   m₁ = e^ε − 1 − ε,   m₂ = 1 − e^ε + ε e^ε

    Here A is the area of the map in cells and P its perimeter in cells. The bound is for a continuous map. For a square
    map, the expression is the paper's formula. The paper rounds b down.

    >>> round(paper_radius(Grid.plane(x=(0, 1), y=(0, 1), size=1), 3.5), 12)
    0.233247334375
    """
    loss = float(parse_epsilon(epsilon))
    area, perimeter = float(grid.cells), 2.0 * (grid.rows + grid.cols)
    ratio = best_area_ratio(loss)
    # b is the positive solution of πb² = ratio · (P b + A).
    return (ratio * perimeter + math.sqrt((ratio * perimeter) ** 2 + 4 * math.pi * ratio * area)) / (2 * math.pi)


def best_area_ratio(loss: float) -> float:
    """m₂ / (e^ε m₁) of equation 11: the area of the best disc divided by the area of the outputs outside of it."""
    if loss < 1e-2:  # the closed forms lose all digits by cancellation, so use series in ε (errata E1-4)
        m1 = sum(loss ** (k - 2) / math.factorial(k) for k in range(2, 12))
        m2 = sum(loss ** (k - 2) * (1 / math.factorial(k - 1) - 1 / math.factorial(k)) for k in range(2, 12))
        return m2 / (math.exp(loss) * m1)
    # Numerator and denominator are divided by e^ε, so that a large ε does not overflow.
    m1, m2 = 1 - (1 + loss) * math.exp(-loss), loss - 1 + math.exp(-loss)
    return m2 * math.exp(-loss) / m1


BEST_FRACTION = 0.35
"""The best radius of the disc, as a fraction of the paper's radius.

The paper's radius maximises a bound on the information of a report. A smaller disc makes a better map, because reports
of wide discs hardly show detail. ``benchmarks/local_settings.py`` measures the error of the map on synthetic cities by
radius; the fraction was read from its tables (column "hashing 0"), see ``disk_area.md``.
"""


def best_radius(grid: Grid, epsilon: Number) -> int:
    """The radius of the disc, in cells, with which the map estimated from the reports has the smallest error.

    It is :data:`BEST_FRACTION` of :func:`paper_radius`, rounded. On a grid of one cell the radius is 0.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.

    >>> best_radius(Grid.plane(x=(0, 1), y=(0, 1), size=64), 3.5)
    5
    """
    return fraction_of_paper_radius(grid, epsilon, BEST_FRACTION)


def fraction_of_paper_radius(grid: Grid, epsilon: Number, fraction: float) -> int:
    """A fraction of the paper's radius, rounded to whole cells; 0 on a grid of one cell."""
    if grid.cells == 1:
        return 0
    return min(largest_radius(grid.shape), round(fraction * paper_radius(grid, epsilon)))


def informative_radius(grid: Grid, epsilon: Number, *, shrink: bool = True) -> int:
    """The radius of the disc that maximises the bound on a report's information on this grid (errata E1-5).

    On a grid of one cell a report has no information, and the radius is 0.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.
        shrink: As in :class:`DiskArea`.
    """
    loss = parse_epsilon(epsilon)
    if grid.cells == 1:
        return 0

    def information(radius: int) -> float:
        return disk_window(grid.shape, loss, radius, shrink=shrink).information_bound()

    start = math.floor(paper_radius(grid, loss))
    return most_informative_radius(information, start=start, step=1, largest=largest_radius(grid.shape))


def most_informative_radius(information: Callable[[int], float], start: int, step: int, largest: int) -> int:
    """Search the radius of a window for which a report is most informative; radius 0 is randomised response.

    The search moves by ``step`` to the better side, and halves the step if neither side is better. As a function of the
    radius, the information rises to one maximum and then falls, except for small irregularities of small discs.
    Therefore the radii 0 and 1 and the neighbours of the result are tried as well.

    Args:
        information: The information of a report in nats, as a function of the radius.
        start: The radius to start from, in cells.
        step: The first step, in cells.
        largest: The largest radius, in cells.
    """

    @functools.cache
    def gain(radius: int) -> float:
        return information(radius) if 0 <= radius <= largest else -math.inf

    best = min(largest, start)
    while step:
        better = max(best - step, best + step, key=gain)
        if gain(better) > gain(best):
            best = better
        else:
            step //= 2
    candidates: list[int] = [0, 1, *range(best - 2, best + 3)]
    return max(candidates, key=gain)
