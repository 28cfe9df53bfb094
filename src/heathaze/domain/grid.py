"""Boxes (rectangles) and grids (rectangles divided into cells). A grid is the public frame of every map.

A grid cannot be made from data, because bounds taken from the data would reveal extreme positions (errata X4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, shown, whole
from heathaze.domain.projection import EARTH_RADIUS_METRES, MERCATOR_LATITUDE, Projection
from heathaze.errors import InvalidBounds, InvalidInput, expect
from heathaze.types import Booleans, Floats, Integers

MAX_SIDE = 2**20
"""The largest number of cells along a side. The quadtree then has depth 20 and node codes below 2^40."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle, in the coordinates of the grid that it is used with.

    Args:
        x: Lower and upper bound of the horizontal axis; longitude in degrees on the globe.
        y: Lower and upper bound of the vertical axis; latitude in degrees on the globe.

    Raises:
        InvalidBounds: A pair of bounds is reversed, empty or not finite.

    >>> Box.over(lon=(-74.0, -73.9), lat=(40.7, 40.8))
    Box(x=(-74.0, -73.9), y=(40.7, 40.8))
    """

    x: Interval
    y: Interval

    def __post_init__(self) -> None:
        assign(self, x=_interval("x", self.x), y=_interval("y", self.y))

    @classmethod
    def over(cls, lon: Interval, lat: Interval) -> Box:
        """Return a box in degrees.

        Args:
            lon: West and east bound.
            lat: South and north bound.

        Raises:
            InvalidBounds: A pair of bounds is reversed, empty or not finite.
        """
        return cls(_interval("lon", lon), _interval("lat", lat))

    @classmethod
    def plane(cls, x: Interval, y: Interval) -> Box:
        """Return a box in the units of a plane, such as metres or pixels.

        Args:
            x: Smallest and largest x.
            y: Smallest and largest y.

        Raises:
            InvalidBounds: A pair of bounds is reversed, empty or not finite.
        """
        return cls(x, y)


@dataclass(frozen=True)
class Grid:
    """A rectangle of ``rows`` × ``cols`` cells. Make one with :meth:`over` or :meth:`plane`.

    Cell (0, 0) is the north-west corner, or on a plane the corner of smallest x and y. A point on the border between
    two cells belongs to the cell south or east of the border, or on a plane to the cell of larger x or y. The outermost
    south and east borders belong to the last row and column.

    Args:
        x: West and east border in degrees, or the smallest and largest x of a plane.
        y: South and north border in degrees, or the smallest and largest y of a plane.
        rows: The number of rows.
        cols: The number of columns.
        projection: Whether x and y are degrees on the globe or coordinates of a plane.

    >>> grid = Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=256)
    >>> grid.shape, grid.depth
    ((256, 256), 8)
    >>> row, col, inside = grid.cell_of([-74.10], [40.90])
    >>> int(row[0]), int(col[0]), bool(inside[0])
    (0, 0, True)
    """

    x: Interval
    y: Interval
    rows: int
    cols: int
    projection: Projection

    def __post_init__(self) -> None:
        expect(Projection, self.projection, "The projection")
        names = ("lon", "lat") if self.projection.is_geographic else ("x", "y")
        assign(self, x=_interval(names[0], self.x), y=_interval(names[1], self.y))
        if self.projection.is_geographic:
            _check_globe(self.x, self.y, self.projection)
        assign(self, rows=whole(self.rows, "rows", most=MAX_SIDE), cols=whole(self.cols, "columns", most=MAX_SIDE))

    @classmethod
    def over(
        cls,
        lon: Interval,
        lat: Interval,
        size: int | None = None,
        shape: tuple[int, int] | None = None,
        projection: str | Projection = Projection.EQUIRECTANGULAR,
    ) -> Grid:
        """Return a grid on the globe.

        Args:
            lon: West and east bound in degrees, −180 to 180.
            lat: South and north bound in degrees, −90 to 90.
            size: Cells along each side, 1 to 2^20 (give this or ``shape``).
            shape: (rows, columns), each 1 to 2^20.
            projection: ``"equirectangular"`` (rows equal in latitude) or ``"web-mercator"`` (rows equal on web maps).

        Raises:
            InvalidBounds: A pair of bounds is reversed, empty, not finite, off the globe, or probably swapped.
            InvalidInput: The size, shape or projection cannot be used.
        """
        kind = _projection(projection)
        if not kind.is_geographic:
            raise InvalidInput("Grid.over is for longitude and latitude; use Grid.plane for metres or pixels.")
        rows, cols = _shape(size, shape)
        return cls(lon, lat, rows, cols, kind)

    @classmethod
    def plane(cls, x: Interval, y: Interval, shape: tuple[int, int] | None = None, size: int | None = None) -> Grid:
        """Return a grid on a plane, for pixels and metres. Row 0 holds the smallest y.

        Args:
            x: Smallest and largest x.
            y: Smallest and largest y.
            shape: (rows, columns), each 1 to 2^20 (give this or ``size``).
            size: Cells along each side, 1 to 2^20.

        Raises:
            InvalidBounds: A pair of bounds is reversed, empty or not finite.
            InvalidInput: The size or shape cannot be used.

        >>> Grid.plane(x=(0, 320), y=(0, 240), shape=(240, 320)).depth
        9
        """
        rows, cols = _shape(size, shape)
        return cls(x, y, rows, cols, Projection.PLANE)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.rows, self.cols

    @property
    def cells(self) -> int:
        """The number of cells of the grid."""
        return self.rows * self.cols

    @property
    def depth(self) -> int:
        """The depth ℓ of the quadtree: the longer side of the grid is padded to 2^ℓ cells (errata E0-11)."""
        return (max(self.rows, self.cols) - 1).bit_length()

    @property
    def box(self) -> Box:
        """The whole rectangle."""
        return Box(self.x, self.y)

    @property
    def cell_size(self) -> tuple[float, float]:
        """Height and width of a cell in the middle of the map, in metres on the globe or in the units of a plane.

        >>> height, width = Grid.over(lon=(0, 1), lat=(-0.5, 0.5), size=100).cell_size
        >>> round(height), round(width)
        (1112, 1112)
        """
        height = (self.y[1] - self.y[0]) / self.rows
        width = (self.x[1] - self.x[0]) / self.cols
        if self.projection.is_geographic:
            degree = EARTH_RADIUS_METRES * math.pi / 180
            middle = math.radians((self.y[0] + self.y[1]) / 2)
            return height * degree, width * degree * math.cos(middle)
        return height, width

    # ── coordinates to cells and back; `down` and `across` are positions measured in cells ──────────────────────────

    def down(self, y: npt.ArrayLike) -> Floats:
        """Convert y coordinates to positions in cells: 0 at the top border, ``rows`` at the bottom border.

        Args:
            y: Coordinates.

        Returns:
            One position for each coordinate; a part of a cell is a fraction.
        """
        south, north = self._projected_y()
        projected = self.projection.forward(y)
        if not self.projection.is_geographic:
            return (projected - south) * (self.rows / (north - south))
        return (north - projected) * (self.rows / (north - south))

    def across(self, x: npt.ArrayLike) -> Floats:
        """Convert x coordinates to positions in cells: 0 at the left border, ``cols`` at the right border.

        Args:
            x: Coordinates.

        Returns:
            One position for each coordinate; a part of a cell is a fraction.
        """
        return (np.asarray(x, dtype=np.float64) - self.x[0]) * (self.cols / (self.x[1] - self.x[0]))

    def y_at(self, down: npt.ArrayLike) -> Floats:
        """Convert vertical positions in cells to y coordinates; the inverse of :meth:`down`.

        Args:
            down: Positions from the top border, in cells.

        Returns:
            One coordinate for each position.
        """
        south, north = self._projected_y()
        step = (north - south) / self.rows
        position = np.asarray(down, dtype=np.float64)
        if not self.projection.is_geographic:
            return south + position * step
        return self.projection.backward(north - position * step)

    def x_at(self, across: npt.ArrayLike) -> Floats:
        """Convert horizontal positions in cells to x coordinates; the inverse of :meth:`across`.

        Args:
            across: Positions from the left border, in cells.

        Returns:
            One coordinate for each position.
        """
        return self.x[0] + np.asarray(across, dtype=np.float64) * ((self.x[1] - self.x[0]) / self.cols)

    def _projected_y(self) -> tuple[float, float]:
        low, high = self.projection.forward(self.y).tolist()
        return low, high

    def cell_of(self, x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Integers, Integers, Booleans]:
        """Return the cell of each point as row and column, and whether the point lies in the grid.

        Args:
            x: Horizontal coordinates; longitudes on the globe.
            y: Vertical coordinates; latitudes on the globe.

        Returns:
            Rows, columns, and whether each point lies inside. Points with NaN or infinite coordinates lie outside. The
            row and column of a point outside have no meaning.
        """
        xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        inside = (xs >= self.x[0]) & (xs <= self.x[1]) & (ys >= self.y[0]) & (ys <= self.y[1])
        down = self.down(np.where(inside, ys, self.y[0]))
        across = self.across(np.where(inside, xs, self.x[0]))
        if self.projection is Projection.WEB_MERCATOR:
            # The logarithms of different engines differ in the last bit. Rounding to 26 binary places puts a point on a
            # border into the same cell in every engine (see count_cells.sql).
            down = np.round(down * 2.0**26) / 2.0**26
        row = np.clip(np.floor(down), 0, self.rows - 1).astype(np.int64)
        col = np.clip(np.floor(across), 0, self.cols - 1).astype(np.int64)
        return row, col, inside

    def nearest_cell(self, x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Integers, Integers]:
        """Return the nearest cell of each point as row and column, also for points outside the grid (errata E1-6).

        Args:
            x: Horizontal coordinates; longitudes on the globe.
            y: Vertical coordinates; latitudes on the globe.

        >>> row, col = Grid.plane(x=(0, 4), y=(0, 2), shape=(2, 4)).nearest_cell([9.0], [-1.0])
        >>> int(row[0]), int(col[0])
        (0, 3)
        """
        row, col, _ = self.cell_of(np.clip(x, *self.x), np.clip(y, *self.y))
        return row, col

    # ── other sizes and files ───────────────────────────────────────────────────────────────────────────────────────

    def resized(self, shape: tuple[int, int]) -> Grid:
        """Return a grid over the same rectangle with another number of cells.

        Args:
            shape: (rows, columns), each 1 to 2^20.
        """
        return Grid(self.x, self.y, *shape, self.projection)

    def to_dict(self) -> dict[str, Any]:
        """Convert the grid to plain numbers and texts, for files.

        Returns:
            The fields; :meth:`from_dict` reads them.
        """
        return {
            "x": list(self.x),
            "y": list(self.y),
            "rows": self.rows,
            "cols": self.cols,
            "projection": self.projection.value,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Grid:
        """Build a grid from the dictionary that :meth:`to_dict` returned.

        Args:
            fields: The dictionary.

        Returns:
            The grid.

        Raises:
            KeyError: A field is missing.
            ValueError: A field has a value that no grid has.
        """
        x, y = fields["x"], fields["y"]
        return cls(
            (x[0], x[1]), (y[0], y[1]), int(fields["rows"]), int(fields["cols"]), Projection(fields["projection"])
        )


def _projection(name: str | Projection) -> Projection:
    try:
        return Projection(name)
    except ValueError:
        raise InvalidInput(f"There is no projection {name!r}; choose 'equirectangular' or 'web-mercator'.") from None


def _shape(size: int | None, shape: tuple[int, int] | None) -> tuple[int, int]:
    if size is None and shape is None:
        raise InvalidInput("The grid has no number of cells; give size=256 (cells a side) or shape=(rows, columns).")
    if size is not None and shape is not None:
        raise InvalidInput("Give either size (cells a side) or shape (rows, columns), and not both.")
    if shape is None:
        side = whole(size, "size", "cells a side", most=MAX_SIDE)
        return side, side
    if not hasattr(shape, "__len__") or len(shape) != 2:
        raise InvalidInput(f"shape is {shape!r}; give two numbers, (rows, columns).")
    return shape


def _interval(name: str, interval: Interval) -> Interval:
    try:
        low, high = (float(bound) for bound in interval)
    except (TypeError, ValueError, OverflowError):
        raise InvalidBounds(f"{name} is {shown(interval)}; give two numbers, the lower bound first.") from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidBounds(f"{name} is {low} to {high}; both bounds must be finite numbers.")
    if low > high:
        raise InvalidBounds(f"{name} runs from {low} to {high}, which is reversed; give the lower bound first.")
    if low == high or not math.isfinite(high - low):
        raise InvalidBounds(f"{name} runs from {low} to {high}, which holds no area; give two different bounds.")
    return low, high


def _check_globe(lon: Interval, lat: Interval, projection: Projection) -> None:
    def within(interval: Interval, limit: float) -> bool:
        return abs(interval[0]) <= limit and abs(interval[1]) <= limit

    lon_fits, lat_fits = within(lon, 180), within(lat, 90)
    if not lat_fits and within(lat, 180) and within(lon, 90):
        raise InvalidBounds(
            f"lat runs from {lat[0]} to {lat[1]}, outside −90 to 90, while lon would fit a latitude: "
            "longitude and latitude are probably swapped."
        )
    if not lon_fits:
        raise InvalidBounds(
            f"lon runs from {lon[0]} to {lon[1]}, outside −180 to 180; give degrees, west before east "
            "(for metres or pixels use Grid.plane)."
        )
    if not lat_fits:
        raise InvalidBounds(f"lat runs from {lat[0]} to {lat[1]}, outside −90 to 90; give degrees, south before north.")
    if projection is Projection.WEB_MERCATOR and (lat[0] < -MERCATOR_LATITUDE or lat[1] > MERCATOR_LATITUDE):
        raise InvalidBounds(
            f"lat runs from {lat[0]} to {lat[1]}; Web-Mercator ends at ±{MERCATOR_LATITUDE}: "
            "choose a smaller box or the equirectangular projection."
        )


def check_near(grid: Grid, x: float, y: float) -> None:
    """Refuse a position with swapped coordinates, or farther outside the map than the map is wide or high.

    Devices call it before they pay. The error is shown on the device only, and it contains no coordinate.

    Args:
        grid: The map.
        x: The position's x, or longitude.
        y: The position's y, or latitude.

    Raises:
        InvalidInput: The position is probably a mistake.

    >>> check_near(Grid.plane(x=(0, 2), y=(0, 1), size=8), 2.5, 0.5)
    """

    def beyond(value: float, side: tuple[float, float]) -> float:
        """The distance from the map along one axis, as a multiple of the map's side."""
        return max(side[0] - value, value - side[1], 0.0) / (side[1] - side[0])

    outside = max(beyond(x, grid.x), beyond(y, grid.y))
    first, second = ("longitude", "latitude") if grid.projection.is_geographic else ("x", "y")
    if outside > 0 and max(beyond(y, grid.x), beyond(x, grid.y)) == 0:
        raise InvalidInput(
            f"{first.capitalize()} and {second} are probably swapped: the position lies outside the map, and lies on "
            f"it if they are exchanged; give {first} first. Nothing was charged and nothing reported."
        )
    if outside > 1:
        raise InvalidInput(
            f"The position lies far outside the map; check that {first} comes first and that this is the right map. "
            "Nothing was charged and nothing reported. To report the nearest cell of the map, give far=True, or --far."
        )
