"""DiskArea: report a cell of a disc around the true one e^ε times as likely as any other cell."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.mechanisms.local._window import Window
from heathaze.mechanisms.local._window_mechanism import WindowMechanism, check_local_grid
from heathaze.privacy.loss import Number, parse_epsilon
from heathaze.privacy.weights import finest_low, most_useful, raised


@dataclass(frozen=True)
class DiskArea(WindowMechanism):
    """The disk area mechanism of Du et al. on a grid; see ``disk_area.md``.

    Args:
        grid: The public frame; d × d cells in the paper, any rectangle here.
        epsilon: Loss of one report.
        radius: Of the disc, in cells. Left out, the one that tells the server most (:func:`best_radius`); 0 is
            randomised response. The paper's own choice is :func:`paper_radius`.
        shrink: Give a cell that the circle cuts a part of the weight (the paper's DAM), or none (DAM-NS).
    """

    grid: Grid
    epsilon: Fraction
    radius: int = -1
    shrink: bool = True

    if TYPE_CHECKING:  # callers may leave the radius out and write epsilon as any number; both are settled below

        def __init__(self, grid: Grid, epsilon: Number, radius: int | None = None, shrink: bool = True) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_local_grid(self.grid)
        if self.radius is None or self.radius == -1:
            object.__setattr__(self, "radius", best_radius(self.grid, self.epsilon, shrink=self.shrink))
        check_radius(self.radius, self.grid)

    @functools.cached_property
    def window(self) -> Window:
        """The weights: e^ε in the disc, 1 outside, between them where the circle cuts a cell."""
        return disk_window(self.grid.shape, self.epsilon, self.radius, shrink=self.shrink)

    def parameters(self) -> dict[str, Any]:
        """Public parameters."""
        return {"epsilon": str(self.epsilon), "radius": self.radius, "shrink": self.shrink}


def check_radius(radius: int, grid: Grid) -> None:
    """Refuse a radius that is no whole number of cells, or beyond any use."""
    if isinstance(radius, bool) or not isinstance(radius, int | np.integer) or not 0 <= radius <= 2 * max(grid.shape):
        raise InvalidInput(
            f"radius is {radius!r}; give a whole number of cells from 0 to {2 * max(grid.shape)}, twice the map's side."
        )


def disk_window(shape: tuple[int, int], epsilon: Fraction, radius: int, *, shrink: bool = True) -> Window:
    """Weights of the disc.

    Cell (x, y) of the window, at distance r of its middle: in the disc (r ≤ b) it has the share 1 of the high weight,
    where the circle cuts it the share

        S = 4 (δx + ½)(δy + ½),   δ = b/r − 1,   cut to [0, 1]

    (Theorem VI.1; without the cut a share can be negative, and the mechanism leaks: errata E1-2).
    """
    x = np.abs(np.arange(-radius, radius + 1))[:, None]
    y = x.T
    inside = x**2 + y**2 <= radius**2
    cut = ~inside & (np.maximum(2 * x - 1, 0) ** 2 + np.maximum(2 * y - 1, 0) ** 2 < 4 * radius**2)
    share = inside.astype(np.float64)
    if shrink:
        delta = radius / np.sqrt(np.maximum(x**2 + y**2, 1.0)) - 1
        share = np.where(cut, np.clip(4 * (delta * x + 0.5) * (delta * y + 0.5), 0.0, 1.0), share)
    support = inside | cut if shrink else inside
    cells = math.prod(side + 2 * radius for side in shape)
    epsilon = most_useful(int(support.sum()), cells, epsilon)
    low = finest_low(cells, float(share.sum()) + 1, float(epsilon))
    high = raised(low, epsilon)
    # Whole numbers between 0 and high − low: a share below 1 is rounded down, and 1 is exact.
    steps = np.floor(share * 2.0**30).astype(object)
    excess = np.array(steps * (high - low) // 2**30, dtype=np.int64).reshape(share.shape)
    return Window(shape, low, excess, support)


def paper_radius(grid: Grid, epsilon: Number) -> float:
    """The radius of eq. 11, in cells: the optimum of the continuous bound; the paper rounds it down.

        b = (P m₂ + √(P² m₂² + 4π e^ε m₁ m₂ A)) / (2π e^ε m₁),   m₁ = e^ε − 1 − ε,   m₂ = 1 − e^ε + ε e^ε

    A is the area of the map and P its perimeter, which for a square of side L is the paper's formula.

    >>> round(paper_radius(Grid.plane(x=(0, 1), y=(0, 1), size=1), 3.5), 12)
    0.233247334375
    """
    loss = float(parse_epsilon(epsilon))
    area, perimeter = float(grid.cells), 2.0 * (grid.rows + grid.cols)
    ratio = _in_over_out(loss)
    # πb² = ratio · (P b + A), whatever the size of the map.
    return (ratio * perimeter + math.sqrt((ratio * perimeter) ** 2 + 4 * math.pi * ratio * area)) / (2 * math.pi)


def _in_over_out(loss: float) -> float:
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

    Looked for among 0 and the whole numbers around eq. 11, where the bound has its maximum.
    """
    loss = parse_epsilon(epsilon)
    middle = math.floor(paper_radius(grid, loss))
    candidates = sorted({0, *range(max(0, middle - 2), middle + 4)})
    return max(candidates, key=lambda b: disk_window(grid.shape, loss, b, shrink=shrink).information())
