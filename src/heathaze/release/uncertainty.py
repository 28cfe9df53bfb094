"""How sure a release is: shares with intervals, and the places that are real."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import node_extent
from heathaze.inference.drawn_maps import DrawnPosterior
from heathaze.inference.interval import check_confidence, interval
from heathaze.inference.posterior import Posterior
from heathaze.types import Integers


class Share(float):
    """A share of the mass: a number like any other, that also knows its interval.

    ``low`` and ``high`` hold the true share with probability ``confidence``, over the noise and what is believed about
    maps; both are ``None`` where the mechanism does not say how sure it is.

    >>> share = Share(0.25, 0.2, 0.31, 0.9)
    >>> share, f"{share:.1%}"
    (0.25 (90 %: 0.2 to 0.31), '25.0%')
    """

    low: float | None
    high: float | None
    confidence: float

    def __new__(cls, value: float, low: float | None, high: float | None, confidence: float) -> Share:
        """A share and its interval."""
        share = super().__new__(cls, value)
        share.low, share.high, share.confidence = low, high, confidence
        return share

    @classmethod
    def around(cls, value: float, deviation: float, confidence: float, mean: float | None = None) -> Share:
        """The shortest interval for an amount between 0 and 1, from its mean and standard deviation.

        The value is most often the mean itself; if not, the interval holds it too.
        """
        check_confidence(confidence)
        mean = value if mean is None else mean
        # What is not here is elsewhere: a share near 1 is as sure as the small rest.
        low, high = (float(end) for end in interval(min(mean, 1 - mean), deviation, confidence))
        if mean > 0.5:
            low, high = 1 - high, 1 - low
        return cls(value, max(0.0, min(low, value)), min(1.0, max(high, value)), confidence)

    def widened(self, untold: float) -> Share:
        """The same share if so much mass may be inside or outside, and nothing tells which."""
        assert self.low is not None
        assert self.high is not None
        low, high = max(0.0, min(self.low, self - untold)), min(1.0, max(self.high, self + untold))
        return Share(float(self), low, high, self.confidence)

    def __repr__(self) -> str:
        if self.low is None or self.high is None:
            return f"{float(self):.3g}"
        return f"{float(self):.3g} ({100 * self.confidence:.3g} %: {self.low:.3g} to {self.high:.3g})"

    def __reduce__(self) -> tuple[type[Share], tuple[float, float | None, float | None, float]]:
        return Share, (float(self), self.low, self.high, self.confidence)


@dataclass(frozen=True)
class Hotspot:
    """A square that is denser than the map's average, as surely as was asked for.

    ``times`` is its expected density over the average.
    """

    box: Box
    share: Share
    times: float


def hotspots(posterior: Posterior | DrawnPosterior, confidence: float, times: float) -> list[Hotspot]:
    """The finest measured squares that are ``times`` as dense as the average with that confidence, densest first."""
    from scipy.special import gammaincc, gammaincinv

    check_confidence(confidence)
    grid = posterior.grid
    if posterior.total <= 0:
        return []
    found: list[Hotspot] = []
    covered: Integers = np.zeros(0, np.int64)
    for level in range(len(posterior.levels) - 1, -1, -1):
        belief = posterior.levels[level]
        top, bottom, left, right = node_extent(grid, level, belief.codes)
        average = posterior.total * (bottom - top) * (right - left) / grid.cells
        mean, deviation = belief.mean, np.maximum(belief.deviation, 1e-9 * posterior.total)
        shape = np.maximum(mean / deviation, 1e-3) ** 2
        scale = np.maximum(mean, 1e-300) / shape
        surely = gammaincc(shape, times * average / scale) >= confidence
        if belief.drawn is not None:
            surely &= (belief.drawn >= times * average).mean(axis=0) >= confidence
        real = np.flatnonzero(surely & belief.measured & ~np.isin(belief.codes, covered) & (mean > 0))
        shown = mean if belief.shown is None else belief.shown
        # Equal tails: the shortest interval of what may be small starts at nothing, which says little of a hotspot.
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
    """Masses as shares; the interval holds what the map shows."""
    ends = min(low, shown) / total, min(1.0, max(high, shown) / total)
    return Share(shown / total, *ends, confidence)


def _box(grid: Grid, level: int, code: Integers) -> Box:
    top, bottom, left, right = (float(side[0]) for side in node_extent(grid, level, code))
    south, north = sorted(grid.y_at([top, bottom]).tolist())
    west, east = grid.x_at([left, right]).tolist()
    return Box((west, east), (south, north))
