"""A release: an estimate, the guarantee it carries and how it came about. Everything here is post-processing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.checks import whole
from heathaze.domain.density import Density
from heathaze.domain.grid import Box, Grid
from heathaze.errors import InvalidInput, SimulatedRelease
from heathaze.inference.drawn_maps import DrawnMaps, DrawnPosterior
from heathaze.inference.estimate import Estimate
from heathaze.inference.interval import check_confidence
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.inference.posterior import Posterior
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.release import formats
from heathaze.release.formats.metadata import Contents
from heathaze.release.uncertainty import Hotspot, Share
from heathaze.types import Floats


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A map that may be published.

    Args:
        estimate: The map, the estimated total, and the noisy counts or drawn maps behind them.
        guarantee: What is promised to whom.
        provenance: How the map was made, in public facts.

    >>> import heathaze as hz
    >>> grid = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
    >>> visits = {"person": ["ann", "bob", "eve"], "x": [1.5, 2.5, 6.5], "y": [1.5, 2.5, 6.5]}
    >>> counts = hz.count(visits, grid, person="person")
    >>> release = hz.publish(hz.central.Flat(grid, epsilon=1), counts)
    >>> release.mass_in(hz.Box.plane(x=(0, 8), y=(0, 8)))
    1
    >>> release.render(shape=(2, 2)).values.shape, release.sample(5).shape
    ((2, 2), (5, 2))
    """

    estimate: Estimate
    guarantee: Guarantee
    provenance: Provenance

    @property
    def grid(self) -> Grid:
        """The public frame of the map."""
        return self.estimate.grid

    @property
    def density(self) -> Density:
        """One number for each cell, summing to 1; refused above 2^24 cells (use :meth:`render`).

        The density as the mechanism left it, dense or as a tree, is ``release.estimate.density``.
        """
        return self.estimate.density.dense()

    @property
    def total(self) -> float:
        """Estimated number of units: people, person-days or visits; with weight "presence": of presences."""
        return self.estimate.total

    @property
    def noisy(self) -> NoisyCounts | None:
        """The noisy counts that the map was inferred from, or None where the mechanism kept none."""
        return self.estimate.noisy

    @property
    def drawn(self) -> DrawnMaps | None:
        """Other maps that fit the reports as well, or None where the mechanism drew none."""
        return self.estimate.drawn

    @property
    def simulated(self) -> bool:
        """Whether it was made with simulated randomness and so must not be saved."""
        return self.provenance.simulated

    def render(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Density:
        """The density within a window or on another number of cells.

        Args:
            window: The part of the map to show; all of it if left out.
            shape: Rows and columns of the result; those of the grid if left out.

        Returns:
            A density of that shape, summing to 1.
        """
        return self.estimate.density.render(window, shape)

    def smooth(self, sigma: float) -> Density:
        """The Gaussian heat map.

        Args:
            sigma: Width of the Gaussian in cells; 0 leaves the density as it is.
        """
        return self.density.smooth(sigma)

    @property
    def knows_uncertainty(self) -> bool:
        """Whether the release has error bars."""
        return self.estimate.knows_uncertainty

    @property
    def posterior(self) -> Posterior | DrawnPosterior:
        """All maps that the noisy counts or reports could have come from, each as likely as they make it.

        Raises:
            InvalidInput: The mechanism kept neither noisy counts nor drawn maps.
        """
        if not self.knows_uncertainty:
            raise InvalidInput(
                f"A map by {self.provenance.mechanism} has no error bars; publish with hz.central.default(…) to get "
                "them."
            )
        return self.estimate.posterior

    @property
    def uncertainty(self) -> Floats:
        """Standard deviation of the share of every cell, in the shape of the grid; refused above 2^24 cells."""
        return self.render_uncertainty()

    def render_uncertainty(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Floats:
        """Standard deviation of every cell of :meth:`render`, as a share of the mass of the whole map.

        Args:
            window: The part of the map to show; all of it if left out.
            shape: Rows and columns of the result; those of the grid if left out.

        Raises:
            InvalidInput: The release has no error bars.
        """
        return self.posterior.deviations(window, shape)

    def mass_in(self, box: Box, confidence: float = 0.9) -> Share:
        """Share of the mass inside a box, with an interval where the release has error bars.

        Args:
            box: A rectangle in the coordinates of the grid.
            confidence: The probability with which the interval contains the true share, between 0 and 1.

        Returns:
            The share, a float from 0 to 1 with ``low`` and ``high``.
        """
        check_confidence(confidence)
        value = self.estimate.density.mass_in(box)
        if not self.knows_uncertainty:
            return Share(value, None, None, confidence)
        mean, deviation = self.posterior.belief(box, value)
        share = Share.around(value, deviation, confidence, mean)
        unresolved = self.posterior.unresolved(box)
        return share if unresolved == 0 else share.widened(unresolved)

    def hotspots(self, confidence: float = 0.9, *, times: float = 2.0) -> list[Hotspot]:
        """Squares that are at least ``times`` as dense as the average of the map, each with the given confidence.

        Args:
            confidence: The probability that a listed square is a hotspot, between 0 and 1.
            times: Density of a hotspot as a multiple of the average, above 0.

        Returns:
            The hotspots, densest first.

        Raises:
            InvalidInput: The release has no error bars, or an argument is out of range.
        """
        from heathaze.release.uncertainty import hotspots

        if not times > 0:
            raise InvalidInput(f"times is {times}; give how many times the average a hotspot holds, above 0.")
        return hotspots(self.posterior, confidence, times)

    def sample(self, count: int, randomness: Randomness | None = None) -> Floats:
        """Synthetic points distributed as the density. They cost no budget, since they are made from the release alone.

        Args:
            count: How many points, from 0.
            randomness: Where the bits come from; the operating system if left out.

        Returns:
            (count, 2) coordinates x, y.
        """
        number = whole(count, "count", "the number of points to draw", least=0)
        source = SecureRandomness() if randomness is None else randomness
        return np.column_stack(self.estimate.density.place(source.uniforms(3 * number).reshape(number, 3)))

    def centers(self, k: int) -> Floats:
        """The k places that minimise the mean ℓ1 distance to the mass (Ghazi et al., appendix A).

        Args:
            k: How many, from 1.

        Returns:
            (k, 2) coordinates x, y, heaviest first.
        """
        from heathaze.release.centers import k_median

        down, across, mass = self.estimate.density.squares()
        height, width = self.grid.cell_size
        found = k_median(np.column_stack([down * height, across * width]), mass, k)
        return np.column_stack([self.grid.x_at(found[:, 1] / width), self.grid.y_at(found[:, 0] / height)])

    def save(self, path: str | Path) -> Path:
        """Write the release to a file, all of it or nothing.

        Args:
            path: The file; its ending gives the format: .npz .parquet .geojson .tif .png .html.

        Returns:
            The path.

        Raises:
            SimulatedRelease: The release was made with simulated randomness.
            UnknownFormat: The ending is none of these.
            MissingExtra: ``.tif`` without rasterio.
            CannotWrite: The disk or the directory refuses; nothing is left behind.
        """
        if self.simulated:
            raise SimulatedRelease(
                "This map was made with simulated randomness, whose noise anyone can repeat; publish it again without "
                "randomness=Simulation(…) to save it."
            )
        return formats.write(self._contents, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release back from ``.npz``, ``.parquet``, ``.geojson`` or ``.tif``.

        A file from a stranger is safe to load: nothing in it is executed, and a file whose parts do not fit together
        is refused. The privacy loss is computed again from the event, and a guarantee that promises more than its event
        gives is refused as well.

        Args:
            path: The file.

        Returns:
            The release.

        Raises:
            UnreadableData: There is no such file; or it is damaged, no release, or of another file version; or its
                guarantee does not follow from its event.
            UnknownFormat: The ending is none of these.
        """
        return cls(*formats.read(path))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the numbers of the map, as plain fields."""
        return formats.metadata.to_dict(self._contents)

    @property
    def _contents(self) -> Contents:
        return Contents(self.estimate, self.guarantee, self.provenance)

    def __repr__(self) -> str:
        return f"<Release: {self.grid.rows} × {self.grid.cols} cells, {self.guarantee.short}>"


def load(path: str | Path) -> Release:
    """Read a release back from ``.npz``, ``.parquet``, ``.geojson`` or ``.tif``; the same as :meth:`Release.load`.

    Args:
        path: The file.

    Returns:
        The release.

    Raises:
        UnreadableData: The file is no sound release, or its guarantee does not follow from its event.
        UnknownFormat: The ending is none of these.

    >>> import tempfile
    >>> import heathaze as hz
    >>> grid = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
    >>> counts = hz.count({"person": ["ann"], "x": [1.5], "y": [1.5]}, grid, person="person")
    >>> release = hz.publish(hz.central.Flat(grid, epsilon=1), counts)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     back = load(release.save(f"{folder}/map.npz"))
    >>> back.total == release.total
    True
    """
    return Release.load(path)
