"""HybridUniformExponential: report a cell with a probability that falls ring by ring around the true cell."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.local._window import Window, floor_product
from heathaze.local.disk_area import (
    disk_share,
    finest_scale,
    largest_radius,
    mirrored,
    most_informative_radius,
    paper_radius,
    parse_radius,
)
from heathaze.local.mechanism import WindowMechanism
from heathaze.local.weights import floor_exp
from heathaze.privacy.loss import Number, parse_epsilon


@dataclass(frozen=True, init=False)
class HybridUniformExponential(WindowMechanism):
    """The hybrid uniform-exponential mechanism (HUEM) of Du et al.; see ``hybrid_uniform_exponential.md``.

    Args:
        grid: The public grid.
        epsilon: Privacy loss of one report.
        radius: Radius of the outermost ring, in cells. If left out, :func:`best_radius`, with which a report is most
            informative. Radius 0 is randomised response.

    Raises:
        InvalidInput: ε is not positive, or the radius is not a whole number from 0 to
            :func:`~heathaze.local.disk_area.largest_radius`.
        TooLarge: The grid has too many cells.

    >>> HybridUniformExponential(Grid.plane(x=(0, 1), y=(0, 1), size=15), 3.5).window.half_width
    (1, 1)
    """

    radius: int

    def __init__(self, grid: Grid, epsilon: Number, radius: int | None = None) -> None:
        super().__init__(grid, epsilon)
        chosen = best_radius(grid, self.epsilon) if radius is None else radius
        assign(self, radius=parse_radius(chosen, grid))

    @functools.cached_property
    def window(self) -> Window:
        """The weights: e^ε at the true cell, falling ring by ring to 1 outside of the rings."""
        return ring_window(self.grid.shape, self.epsilon, self.radius)


def best_radius(grid: Grid, epsilon: Number) -> int:
    """The number of rings of HybridUniformExponential for which a report is most informative on a uniform map.

    The bound that :func:`heathaze.local.disk_area.informative_radius` maximises is not suitable for rings: rings far
    beyond the map raise the bound without adding information.
    """
    loss = parse_epsilon(epsilon)
    start = math.floor(paper_radius(grid, loss))

    def information(radius: int) -> float:
        return ring_window(grid.shape, loss, radius).information()

    return most_informative_radius(
        information, start=start, step=max(1, start // 4), largest=largest_radius(grid.shape)
    )


def ring_window(shape: tuple[int, int], epsilon: Fraction, radius: int) -> Window:
    """The window of weights that fall ring by ring around the true cell (appendix A, errata E1-8).

    There are b rings. A cell whose middle lies in ring j, between the circles of radius j − 1 and j, has the weight

        w_j = exp((1 − (j − 1)/b) ε)   for j = 1 … b,   w_{b+1} = 1 beyond the last circle.

    If the circle of radius j − 1 cuts the cell, a share S of the cell (:func:`disk_share`) belongs to ring j − 1:

        weight = S · w_{j−1} + (1 − S) · w_j

    With b = 0 only the true cell has the weight e^ε.

    Args:
        shape: Rows and columns of the grid.
        epsilon: Privacy loss of one report.
        radius: Number b of rings.
    """
    x = np.arange(radius + 1)[:, None]
    # In floats, the square root of a whole number below 2^52 is whole only for a perfect square, so rings are exact.
    ring = np.maximum(np.ceil(np.sqrt(x**2 + x.T**2)).astype(np.int64), min(radius, 1))
    ring = np.minimum(ring, radius + 1)
    support = mirrored(disk_share(x, x.T, radius)[1])
    low, exponent = finest_scale(shape, epsilon, radius, support)
    # If the radius is 0, the true cell is ring 0, and there is no smaller ring.
    inner = [floor_exp(low, exponent * Fraction(radius - j + 1, radius)) for j in range(1, radius + 1)]
    of_ring = np.array([floor_exp(low, exponent), *inner, low], dtype=np.int64)
    further_in = np.maximum(ring - 1, 0)
    share = np.where(ring > 1, disk_share(x, x.T, further_in)[0], 0.0)
    weight = of_ring[ring] + floor_product(share, of_ring[further_in] - of_ring[ring])
    return Window(shape, low, mirrored(weight - low), support)
