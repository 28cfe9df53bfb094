"""A release: an estimate, its guarantee and its provenance. All methods are post-processing and cost no budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.checks import check_confidence, whole
from heathaze.domain.density import Density
from heathaze.domain.grid import Box, Grid
from heathaze.domain.region import region_of
from heathaze.errors import InvalidInput, SimulatedRelease
from heathaze.inference.drawn_maps import DrawnMaps, DrawnPosterior
from heathaze.inference.estimate import Estimate
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.inference.posterior import Posterior
from heathaze.maps.backdrop import Backdrop
from heathaze.maps.backdrop_files import read_backdrop
from heathaze.maps.sheet import Look
from heathaze.maps.squares import Squares
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.release import formats
from heathaze.release.coreset import Coreset, build_coreset
from heathaze.release.formats.metadata import Contents
from heathaze.release.uncertainty import Hotspot, Share
from heathaze.types import Floats


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A map that may be published.

    Args:
        estimate: The map, the estimated total, and the noisy counts or drawn maps behind them.
        guarantee: The privacy guarantee.
        provenance: The public facts about how the map was made.

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

    def __post_init__(self) -> None:
        # The estimate keeps the mark, so that another release that is made by hand from this estimate cannot be saved.
        if self.provenance.simulated and not self.estimate.simulated:
            object.__setattr__(self, "estimate", self.estimate.marked_simulated())

    @property
    def grid(self) -> Grid:
        """The public frame of the map."""
        return self.estimate.grid

    @property
    def density(self) -> Density:
        """One number for each cell, summing to 1. Grids of more than 2^24 cells are refused (use :meth:`render`).

        The density in the form that the mechanism made, dense or as a tree, is ``release.estimate.density``.
        """
        return self.estimate.density.dense()

    @property
    def total(self) -> float:
        """Estimated number of units (people, person-days or visits), or of presences with weight "presence"."""
        return self.estimate.total

    @property
    def noisy(self) -> NoisyCounts | None:
        """The noisy counts from which the map was inferred, or None if the mechanism kept none."""
        return self.estimate.noisy

    @property
    def drawn(self) -> DrawnMaps | None:
        """Other maps that fit the reports equally well, or None if the mechanism drew none."""
        return self.estimate.drawn

    @property
    def simulated(self) -> bool:
        """Whether the release was made with simulated randomness and therefore cannot be saved."""
        return self.estimate.simulated

    def render(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Density:
        """Render the density within a window, or with another number of cells.

        Args:
            window: The part of the map to show; all of it if left out.
            shape: Rows and columns of the result; those of the grid if left out.

        Returns:
            A density of that shape, summing to 1.
        """
        return self.estimate.density.render(window, shape)

    def smooth(self, sigma: float) -> Density:
        """Smooth the density with a Gaussian, which gives a heat map.

        Args:
            sigma: Width of the Gaussian in cells; 0 leaves the density as it is.

        Returns:
            The smoothed density, which sums to 1.
        """
        return self.density.smooth(sigma)

    @property
    def knows_uncertainty(self) -> bool:
        """Whether the release has error bars."""
        return self.estimate.knows_uncertainty

    @property
    def posterior(self) -> Posterior | DrawnPosterior:
        """The probability distribution over all maps, given the noisy counts or reports.

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
        """Standard deviation of the share of every cell, in the shape of the grid (at most 2^24 cells)."""
        return self.render_uncertainty()

    def render_uncertainty(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Floats:
        """Compute the standard deviation of every cell of :meth:`render`, as a share of the mass of the whole map.

        Args:
            window: The part of the map to show; all of it if left out.
            shape: Rows and columns of the result; those of the grid if left out.

        Returns:
            One standard deviation for each cell of the picture.

        Raises:
            InvalidInput: The release has no error bars.
        """
        return self.posterior.deviations(window, shape)

    def mass_in(self, region: Any, confidence: float = 0.9) -> Share:
        """Estimate the share of the mass inside a region, with an interval if the release has error bars.

        The interval is that of the whole region: it is computed from drawn maps, not from intervals of cells. Each cell
        counts as evenly filled. The interval of a polygon is wider than that of a box, because outlines often follow
        coasts and streets. It is still too short if the outline was drawn around an empty place, such as a lake.

        Args:
            region: A Box, or a polygon in the coordinates of the grid: a shapely geometry, GeoJSON, or an object with
                ``__geo_interface__``.
            confidence: The probability with which the interval contains the true share, between 0 and 1.

        Returns:
            The share, a float from 0 to 1 with ``low`` and ``high``.

        Raises:
            InvalidInput: The region is no polygon, or is broken.
            InvalidBounds: The region lies outside the map.
            MissingExtra: The region is a polygon, and shapely is not installed.
        """
        check_confidence(confidence)
        box = region_of(self.grid, region)
        value = self.estimate.density.mass_in(box)
        if not self.knows_uncertainty:
            return Share(value, None, None, confidence)
        low, high = self.posterior.interval(box, value, confidence)
        return Share(value, max(0.0, low), min(1.0, high), confidence)

    def hotspots(self, confidence: float = 0.9, *, times: float = 2.0) -> list[Hotspot]:
        """Find squares that are at least ``times`` as dense as the average of the map, each with the given confidence.

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
            raise InvalidInput(f"times is {times}; give a hotspot's density as a multiple of the average, above 0.")
        return hotspots(self.posterior, confidence, times)

    def squares(self, confidence: float = 0.9, most: int = 8000) -> Squares:
        """Divide the map into certain squares: each as small as the release is sure of its class of density.

        A square is white if it is surely below the first class, has a class if its interval spans at most two classes,
        and is unknown otherwise. Pictures, pages and files of polygons show these squares.

        Args:
            confidence: The probability of the interval of each square, between 0 and 1.
            most: The most squares. If there are more, the squares with the fewest people are not divided.

        Returns:
            The squares. They are disjoint and cover the map.

        Raises:
            InvalidInput: The release has no error bars, or an argument is out of range.

        >>> import heathaze as hz
        >>> grid = hz.Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.6), size=16)
        >>> visits = {"person": range(900), "lon": [9.93] * 900, "lat": [53.52] * 900}
        >>> counts = hz.count(visits, grid, person="person")
        >>> release = hz.publish(hz.central.default(grid, epsilon=1), counts, randomness=hz.Simulation(1))
        >>> squares = release.squares()
        >>> densest = squares.densest
        >>> squares.unit, squares.name(squares.kinds[densest]), int(squares.people[densest].round(-1))
        ('people per km²', '1,000 and more', 900)
        """
        from heathaze.release.formats.cells import counted
        from heathaze.release.squares import certain_squares

        return certain_squares(self.estimate, counted(self.guarantee, self.provenance), confidence, most)

    def sample(self, count: int, randomness: Randomness | None = None) -> Floats:
        """Draw synthetic points with the distribution of the density. They cost no budget, since no data is used.

        Args:
            count: The number of points, at least 0.
            randomness: The source of random bits; the operating system if left out.

        Returns:
            (count, 2) coordinates x, y.
        """
        number = whole(count, "count", "the number of points to draw", least=0)
        source = SecureRandomness() if randomness is None else randomness
        return np.column_stack(self.estimate.density.place(source.uniforms(3 * number).reshape(number, 3)))

    def centers(self, k: int) -> Floats:
        """Find k places with a small mean ℓ1 distance to the mass (k-median; Ghazi et al., appendix A).

        Args:
            k: The number of places, at least 1.

        Returns:
            (k, 2) coordinates x, y, heaviest first.
        """
        from heathaze.release.centers import k_median

        down, across, mass = self.estimate.density.squares()
        height, width = self.grid.cell_size
        found = k_median(np.column_stack([down * height, across * width]), mass, k)
        return np.column_stack([self.grid.x_at(found[:, 1] / width), self.grid.y_at(found[:, 0] / height)])

    def coreset(self, k: int, tolerance: float = 0.1) -> Coreset:
        """Reduce the map to weighted points with nearly the same k-median cost (Ghazi et al., appendix A.1).

        For every set of at most k centres, the cost of the coreset differs from the cost of the map by at most
        ``tolerance`` times the cost of the map, and by at most ``coreset.moved``. The map itself differs from the
        people by its noise; ``coreset.moved`` and ``coreset.least`` say nothing about that.

        Args:
            k: The number of centres, at least 1.
            tolerance: The largest relative change of the cost, above 0 and below 1.

        Returns:
            A :class:`heathaze.release.coreset.Coreset`.

        Raises:
            InvalidInput: ``k`` or ``tolerance`` is out of range.
            TooLarge: More than 2^20 points would be needed.

        >>> import heathaze as hz
        >>> grid = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
        >>> visits = {"person": range(600), "x": [1.5, 2.5, 6.5] * 200, "y": [1.5, 2.5, 6.5] * 200}
        >>> release = hz.publish(hz.central.Flat(grid, epsilon=1), hz.count(visits, grid, person="person"))
        >>> few = release.coreset(2)
        >>> few.cost(release.centers(2)) >= 0.9 * few.least
        True
        """
        return build_coreset(self.estimate.density, self.total, k, tolerance)

    # ── notebooks and tables ────────────────────────────────────────────────────────────────────────────────────────

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for each square of :meth:`squares`.

        Its columns are those of the files (``class``, ``people``, ``people_low``, ``people_high`` and so on) and the
        borders. A release without error bars gives a row for each cell, or square of the tree, that holds mass.

        Raises:
            MissingExtra: pandas is not installed.

        >>> import heathaze as hz
        >>> grid = hz.Grid.plane(x=(0, 8), y=(0, 8), size=8)
        >>> counts = hz.count({"person": ["ann"], "x": [1.5], "y": [1.5]}, grid, person="person")
        >>> release = hz.publish(hz.central.Flat(grid, epsilon=1), counts)
        >>> list(release.to_pandas())[:6]
        ['row', 'col', 'share_of_total', 'people', 'x_low', 'y_low']
        """
        from heathaze.release.formats.tables import to_pandas

        return to_pandas(self._contents)

    def to_geopandas(self) -> Any:
        """Return a GeoDataFrame with the rows of :meth:`to_pandas`, in longitude and latitude on the globe.

        Raises:
            MissingExtra: GeoPandas is not installed.
        """
        from heathaze.release.formats.tables import to_geopandas

        return to_geopandas(self._contents)

    def to_xarray(self) -> Any:
        """Return a Dataset on the cells of the grid, with coordinates and, on the globe, its coordinate system.

        Raises:
            MissingExtra: xarray is not installed.
            TooLarge: The grid has more than 2^24 cells.
        """
        from heathaze.release.formats.tables import to_xarray

        return to_xarray(self._contents)

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """The rows of :meth:`to_pandas` as a GeoJSON FeatureCollection, which many packages read."""
        from heathaze.release.formats.tables import geo_interface

        return geo_interface(self._contents)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the map on axes of matplotlib, to be combined with other layers.

        Args:
            ax: The axes; new ones if left out.
            options: Options of matplotlib's ``pcolormesh``, such as ``cmap="magma"`` or ``norm="log"``.

        Returns:
            The axes.
        """
        from heathaze.release.notebook import plot

        return plot(self._contents, ax, **options)

    def show(self, height: int = 640) -> Any:
        """Show the live page in a notebook: a map to pan and zoom, in a frame without access to the notebook.

        Args:
            height: Height of the frame in pixels, at least 100.

        Returns:
            An object that a notebook displays as the page.
        """
        from heathaze.release.notebook import page

        return page(self._contents, whole(height, "height", "the pixels of the frame", least=100))

    def _repr_html_(self) -> str:
        from heathaze.release.notebook import summary

        return summary(self._contents)

    def save(
        self,
        path: str | Path,
        *,
        title: str = "",
        subtitle: str = "",
        source: str = "",
        style: str = "squares",
        theme: str | None = None,
        dpi: int = 150,
        backdrop: Backdrop | str | Path | Sequence[str | Path] | None = None,
        tiles: str = "",
    ) -> Path:
        """Write the release to a file. A file is written completely or not at all.

        The other arguments change pictures (.png, .svg, .pdf) and pages (.html); files of data ignore them.

        Args:
            path: The file; its ending gives the format: .npz .parquet .geojson .gpkg .tif .png .svg .pdf .html.
            title: Text above the map; if empty, the map names itself.
            subtitle: Text below the title; if empty, it says how many people there are.
            source: Where the data come from.
            style: ``"squares"``, ``"glow"`` (smooth and dark, for slides), ``"pair"`` (beside how sure they are)
                or ``"report"`` (squares with the densest places, for print).
            theme: ``"light"`` or ``"dark"``; if left out, the style decides.
            dpi: Dots per inch of a PNG.
            backdrop: Public geography: one or more files (see :func:`heathaze.maps.backdrop_files.read_backdrop`), or a
                backdrop that was read before. If left out, a map of 300 km or more shows the land of the world.
            tiles: The address of street tiles for a page, such as ``https://tile.example.org/{z}/{x}/{y}.png``. The
                page asks the tile server only after the reader has agreed.

        Returns:
            The path.

        Raises:
            SimulatedRelease: The release was made with simulated randomness.
            UnknownFormat: The ending is none of these.
            MissingExtra: The ending is ``.tif``, and rasterio is not installed.
            InvalidInput: There is no such style or theme, or the backdrop cannot be read.
            CannotWrite: The disk is full or the directory cannot be written; nothing is left behind.
        """
        if self.simulated:
            raise SimulatedRelease(
                "This map was made with simulated randomness, whose noise anyone can repeat; publish it again without "
                "randomness=Simulation(…) to save it."
            )
        if backdrop is not None and not isinstance(backdrop, Backdrop):
            backdrop = read_backdrop([backdrop] if isinstance(backdrop, str | Path) else backdrop, self.grid)
        look = Look(title, subtitle, source, style, theme, dpi, backdrop, tiles)
        return formats.write(self._contents, Path(path), look)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release back from ``.npz``, ``.parquet``, ``.geojson`` or ``.tif``.

        A file from a stranger is safe to load: nothing in the file is executed, and a file whose parts do not fit
        together is refused. The privacy loss is computed again from the event, and a file that states a smaller loss is
        refused too.

        Args:
            path: The file.

        Returns:
            The release.

        Raises:
            UnreadableData: The file does not exist, is damaged, is not a release, or has another file version; or its
                guarantee does not follow from its event.
            UnknownFormat: The ending is none of these.
        """
        return cls(*formats.read(path))

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata of the release (everything except the numbers of the map) as plain fields."""
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
        UnreadableData: The file is not a valid release, or its guarantee does not follow from its event.
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
