"""The uncertainty of a release: shares of the mass with intervals, and hotspots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.checks import check_confidence
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import node_extent
from heathaze.inference.drawn_maps import DrawnPosterior
from heathaze.inference.posterior import Posterior
from heathaze.types import Integers


class Share(float):
    """A share of the mass: a float that also has an interval.

    Args:
        value: The share, from 0 to 1.
        low: Lower end of the interval, or None if the release has no error bars.
        high: Upper end of the interval, or None.
        confidence: Posterior probability that the interval contains the true share.

    >>> share = Share(0.25, 0.2, 0.31, 0.9)
    >>> share, f"{share:.1%}"
    (0.25 (90 %: 0.2 to 0.31), '25.0%')
    """

    low: float | None
    high: float | None
    confidence: float

    def __new__(cls, value: float, low: float | None, high: float | None, confidence: float) -> Share:
        """Make a share with its interval."""
        share = super().__new__(cls, value)
        share.low, share.high, share.confidence = low, high, confidence
        return share

    def __repr__(self) -> str:
        if self.low is None or self.high is None:
            return f"{float(self):.3g}"
        return f"{float(self):.3g} ({100 * self.confidence:.3g} %: {self.low:.3g} to {self.high:.3g})"

    def __reduce__(self) -> tuple[type[Share], tuple[float, float | None, float | None, float]]:
        return Share, (float(self), self.low, self.high, self.confidence)


@dataclass(frozen=True)
class Hotspot:
    """A square that is denser than a multiple of the map's average, with the requested confidence.

    Attributes:
        box: The square, in the coordinates of the grid.
        share: The square's share of the mass, with an interval.
        times: The expected density of the square, divided by the average density of the map.
    """

    box: Box
    share: Share
    times: float


def hotspots(posterior: Posterior | DrawnPosterior, confidence: float, times: float) -> list[Hotspot]:
    """Find the finest measured squares that are ``times`` as dense as the average, with the given confidence.

    Args:
        posterior: The distribution over maps.
        confidence: Probability for each square, between 0 and 1.
        times: Density of a hotspot as a multiple of the average.

    Returns:
        The hotspots, densest first.
    """
    from scipy.special import gammaincc, gammaincinv

    check_confidence(confidence)
    grid = posterior.grid
    if posterior.total <= 0 or (isinstance(posterior, Posterior) and not posterior.stands_out):
        return []  # noise alone explains the counts
    found: list[Hotspot] = []
    covered: Integers = np.zeros(0, np.int64)
    for level in range(len(posterior.levels) - 1, -1, -1):
        belief = posterior.levels[level]
        top, bottom, left, right = node_extent(grid, level, belief.codes)
        average = posterior.total * (bottom - top) * (right - left) / grid.cells
        mean, deviation = belief.mean, np.maximum(belief.deviation, 1e-9 * posterior.total)
        shape = np.maximum(mean / deviation, 1e-3) ** 2
        scale = np.maximum(mean, 1e-300) / shape
        certain = gammaincc(shape, times * average / scale) >= confidence
        if belief.drawn is not None:
            certain &= (belief.drawn >= times * average).mean(axis=0) >= confidence
        real = np.flatnonzero(certain & belief.measured & ~np.isin(belief.codes, covered) & (mean > 0))
        shown = mean if belief.shown is None else belief.shown
        # The interval has equal tails. The shortest interval of a small share would start at 0, which says little.
        low, high = (gammaincinv(shape, end) * scale for end in ((1 - confidence) / 2, (1 + confidence) / 2))
        found += [
            Hotspot(
                _box(grid, level, belief.codes[k : k + 1]),
                _share(shown[k], low[k], high[k], posterior.total, confidence),
                float(shown[k] / average[k]),
            )
            for k in real
        ]
        covered = np.unique(np.concatenate([covered, belief.codes[real]]) >> 2)
    return sorted(found, key=lambda spot: -spot.times)


def _share(shown: float, low: float, high: float, total: float, confidence: float) -> Share:
    """Convert the mass of a hotspot and its interval to shares; the interval is extended to contain the shown share."""
    ends = min(low, shown) / total, min(1.0, max(high, shown) / total)
    return Share(shown / total, *ends, confidence)


def _box(grid: Grid, level: int, code: Integers) -> Box:
    top, bottom, left, right = (float(side[0]) for side in node_extent(grid, level, code))
    south, north = sorted(grid.y_at([top, bottom]).tolist())
    west, east = grid.x_at([left, right]).tolist()
    return Box((west, east), (south, north))
