"""HybridUniformExponential: the nearer a cell is to the true one, ring by ring, the likelier it is reported."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from heathaze.checks import assign
from heathaze.domain.grid import Grid
from heathaze.local._window import Window, part_of
from heathaze.local.disk_area import (
    disk_share,
    finest_scale,
    largest_radius,
    mirrored,
    most_telling,
    paper_radius,
    parse_radius,
)
from heathaze.local.mechanism import WindowMechanism
from heathaze.local.weights import raised
from heathaze.privacy.loss import Number, parse_epsilon


@dataclass(frozen=True, init=False)
class HybridUniformExponential(WindowMechanism):
    """The hybrid uniform-exponential mechanism of Du et al. on a grid; see ``hybrid_uniform_exponential.md``.

    Args:
        grid: The public frame.
        epsilon: PrivacyLoss of one report.
        radius: Of the outermost ring, in cells. Left out, the one that tells the server most; 0 is randomised response.
    """

    radius: int

    def __init__(self, grid: Grid, epsilon: Number, radius: int | None = None) -> None:
        super().__init__(grid, epsilon)
        chosen = best_radius(grid, self.epsilon) if radius is None else radius
        assign(self, radius=parse_radius(chosen, grid))

    @functools.cached_property
    def window(self) -> Window:
        """The weights: e^ε at the true cell, falling ring by ring to 1."""
        return ring_window(self.grid.shape, self.epsilon, self.radius)


def best_radius(grid: Grid, epsilon: Number) -> int:
    """The radius with which a report tells most about its cell when all cells are equally likely.

    Not the bound that :func:`heathaze.local.disk_area.best_radius` uses: rings that reach far beyond the map
    raise the bound and tell nothing.
    """
    loss = parse_epsilon(epsilon)
    start = math.floor(paper_radius(grid, loss))

    def told(radius: int) -> float:
        return ring_window(grid.shape, loss, radius).information()

    return most_telling(told, start=start, step=max(1, start // 4), largest=largest_radius(grid.shape))


def ring_window(shape: tuple[int, int], epsilon: Fraction, radius: int) -> Window:
    """Weights of the rings (appendix A, errata E1-8).

    A cell whose middle lies in ring j, between the circles of radius j − 1 and j, weighs

        w_j = exp((1 − (j − 1)/b) ε)   for j = 1 … b,   w_{b+1} = 1 beyond the last circle,

    and where the circle j − 1 cuts it, the share S of it (:func:`disk_share`) belongs to the ring further in:

        weight = S · w_{j−1} + (1 − S) · w_j

    With b = 0 the true cell alone weighs e^ε.
    """
    x = np.arange(radius + 1)[:, None]
    # The square root of a whole number below 2^52 is whole in floats only where it is whole, so rings are exact.
    ring = np.maximum(np.ceil(np.sqrt(x**2 + x.T**2)).astype(np.int64), min(radius, 1))
    ring = np.minimum(ring, radius + 1)
    support = mirrored(disk_share(x, x.T, radius)[1])
    low, exponent = finest_scale(shape, epsilon, radius, support)
    # Ring 0 is the true cell where there is no other; nothing lies further in.
    inner = [raised(low, exponent * Fraction(radius - j + 1, radius)) for j in range(1, radius + 1)]
    of_ring = np.array([raised(low, exponent), *inner, low], dtype=np.int64)
    further_in = np.maximum(ring - 1, 0)
    share = np.where(ring > 1, disk_share(x, x.T, further_in)[0], 0.0)
    weight = of_ring[ring] + part_of(share, of_ring[further_in] - of_ring[ring])
    return Window(shape, low, mirrored(weight - low), support)
