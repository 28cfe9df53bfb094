"""A release: a density, the guarantee it carries and how it came about. Everything here is post-processing."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Box, Grid
from heathaze.errors import InvalidInput, SimulatedRelease
from heathaze.inference.drawn_maps import DrawnMaps, DrawnPosterior
from heathaze.inference.interval import check_confidence
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.release.uncertainty import Hotspot, Share
from heathaze.types import Floats

if TYPE_CHECKING:
    from heathaze.inference.posterior import Posterior

FILE_VERSION = 1
"""Of release files; raised when an older Heathaze could no longer read them."""


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A map that may be published.

    ``estimate`` is the density as the mechanism left it, dense or as a tree; ``total`` the estimated number of units
    (people, person-days, visits; with weight "presence": of presences), made from noisy numbers only. How sure the map
    is, ``noisy`` tells, the noisy counts behind it, or ``drawn``, maps that reports could also have come from; neither
    where the mechanism kept none.
    """

    estimate: Density | TreeDensity
    total: float
    guarantee: Guarantee
    provenance: Provenance
    noisy: NoisyCounts | None = None
    drawn: DrawnMaps | None = None

    @property
    def grid(self) -> Grid:
        """The public frame of the map."""
        return self.estimate.grid

    @property
    def density(self) -> Density:
        """One number per cell, summing to 1; refused above 2^24 cells (use :meth:`render`)."""
        return self.estimate.dense()

    @property
    def simulated(self) -> bool:
        """Made with simulated randomness, so never to be saved."""
        return self.provenance.simulated

    def render(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Density:
        """The density within a window or on another number of cells."""
        return self.estimate.render(window, shape)

    def smooth(self, sigma: float) -> Density:
        """The Gaussian heat map, ``sigma`` in cells."""
        return self.density.smooth(sigma)

    @property
    def knows_uncertainty(self) -> bool:
        """Does the mechanism say how sure it is?"""
        return self.noisy is not None or self.drawn is not None

    @functools.cached_property
    def posterior(self) -> Posterior | DrawnPosterior:
        """All maps that the noisy counts or reports could have come from; refused where the mechanism kept none."""
        from heathaze.inference.posterior import posterior

        if self.drawn is not None:
            return DrawnPosterior(self.drawn, self.density, self.total)
        if self.noisy is None:
            raise InvalidInput(
                f"A map by {self.provenance.mechanism} does not say how sure it is; publish with hz.central.default(…)."
            )
        return posterior(self.noisy)

    @property
    def uncertainty(self) -> Floats:
        """Standard deviation of the share of every cell, in the shape of the grid; refused above 2^24 cells."""
        return self.render_uncertainty()

    def render_uncertainty(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Floats:
        """Standard deviation of every cell of :meth:`render`, as a share of the mass of the whole map."""
        return self.posterior.deviations(window, shape)

    def mass_in(self, box: Box, confidence: float = 0.9) -> Share:
        """Share of the mass inside a box, with the interval that holds it with the given confidence."""
        check_confidence(confidence)
        value = self.estimate.mass_in(box)
        if not self.knows_uncertainty:
            return Share(value, None, None, confidence)
        mean, deviation = self.posterior.belief(box, value)
        share = Share.around(value, deviation, confidence, mean)
        untold = self.posterior.untold(box)
        return share if untold == 0 else share.widened(untold)

    def hotspots(self, confidence: float = 0.9, *, times: float = 2.0) -> list[Hotspot]:
        """Places that are real: squares at least ``times`` as dense as the map's average, each with this confidence."""
        from heathaze.release.uncertainty import hotspots

        if not times > 0:
            raise InvalidInput(f"times is {times}; give how many times the average a hotspot holds, above 0.")
        return hotspots(self.posterior, confidence, times)

    def sample(self, count: int, randomness: Randomness | None = None) -> Floats:
        """Synthetic points (x, y) distributed as the release: free, since they are made from it alone."""
        if count < 0:
            raise InvalidInput(f"Cannot draw {count} points; give zero or more.")
        source = SecureRandomness() if randomness is None else randomness
        return np.column_stack(self.estimate.place(source.uniforms(3 * count).reshape(count, 3)))

    def centers(self, k: int) -> Floats:
        """The k places (x, y) that minimise the mean ℓ1 distance to the mass (appendix A), heaviest first."""
        from heathaze.release.centers import k_median

        down, across, mass = self.estimate.squares()
        height, width = self.grid.cell_size
        found = k_median(np.column_stack([down * height, across * width]), mass, k)
        return np.column_stack([self.grid.x_at(found[:, 1] / width), self.grid.y_at(found[:, 0] / height)])

    def save(self, path: str | Path) -> Path:
        """Write the release; the ending says how (.npz .parquet .geojson .tif .png .html). All of it or nothing."""
        from heathaze.release.formats import write

        if self.simulated:
            raise SimulatedRelease(
                "This map was made with simulated randomness, whose noise anyone can repeat; publish it again without "
                "randomness=Simulation(…) to save it."
            )
        return write(self, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """All but the numbers of the map, for files."""
        return {
            "heathaze": FILE_VERSION,
            "grid": self.grid.to_dict(),
            "total": self.total,
            "guarantee": self.guarantee.to_dict(),
            "provenance": self.provenance.to_dict(),
        }

    def __repr__(self) -> str:
        return f"<Release: {self.grid.rows} × {self.grid.cols} cells, {self.guarantee.short}>"
