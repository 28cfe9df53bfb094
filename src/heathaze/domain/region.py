"""Regions: polygons on a map, such as a district, given as a shapely geometry or as GeoJSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import children, exists, node_extent
from heathaze.errors import InvalidBounds, InvalidInput, MissingExtra, kind_of
from heathaze.types import Floats, Integers


@dataclass(frozen=True, eq=False)
class Region:
    """A polygon or several polygons, in cells of one grid. Make one with :meth:`on`.

    The corners of a polygon are moved to the projection of the grid, and its edges are straight lines there.

    Args:
        grid: The grid.
        shape: A shapely geometry whose coordinates are positions across and down, in cells of the grid.
    """

    grid: Grid
    shape: Any

    @classmethod
    def on(cls, grid: Grid, given: Any) -> Region:
        """Make a region of a grid.

        Args:
            grid: The grid.
            given: A polygon or multipolygon in the coordinates of the grid: a shapely geometry, a GeoJSON geometry or
                Feature (or a FeatureCollection, whose polygons are joined), or an object with ``__geo_interface__``.

        Raises:
            InvalidInput: The value is not a polygon, or its border crosses itself.
            InvalidBounds: The polygon lies outside the grid.
            MissingExtra: shapely is not installed.

        >>> grid = Grid.plane(x=(0, 4), y=(0, 4), size=4)
        >>> triangle = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 4], [0, 0]]]}
        >>> Region.on(grid, triangle).parts(0, np.array([0])).tolist()
        [0.5]
        """
        try:
            import shapely
            import shapely.geometry
        except ImportError:
            raise MissingExtra("Polygons need the package shapely; install shapely (the extra 'geo').") from None
        shape = given
        if not isinstance(given, shapely.Geometry):
            try:
                shape = shapely.union_all([shapely.geometry.shape(part) for part in _geometries(given)])
            except (shapely.errors.ShapelyError, TypeError, ValueError, KeyError, AttributeError, IndexError):
                raise InvalidInput(
                    f"The region is {kind_of(given)}; give a Box, a shapely polygon or GeoJSON with polygons."
                ) from None
        if shape.geom_type not in ("Polygon", "MultiPolygon") or shape.is_empty:
            raise InvalidInput(f"The region is a {shape.geom_type}; give a polygon that has an area.")
        if not shape.is_valid:
            reason = shapely.is_valid_reason(shape).partition("[")[0]
            raise InvalidInput(f"The polygon is broken ({reason}); repair it with shapely.make_valid.")
        west, south, east, north = shape.bounds
        if east <= grid.x[0] or west >= grid.x[1] or north <= grid.y[0] or south >= grid.y[1]:
            raise InvalidBounds(f"The region lies outside the map; give one within {grid.x} × {grid.y}.")
        # Clip the polygon to the map before it is projected, because Web-Mercator has no poles.
        shape = shapely.intersection(shape, shapely.box(grid.x[0], grid.y[0], grid.x[1], grid.y[1]))
        if not shape.area:
            raise InvalidBounds(f"The region lies outside the map; give one within {grid.x} × {grid.y}.")
        placed = shapely.transform(shape, lambda xy: np.column_stack([grid.across(xy[:, 0]), grid.down(xy[:, 1])]))
        shapely.prepare(placed)
        return cls(grid, placed)

    @property
    def is_box(self) -> bool:
        """Whether the region is a rectangle along the axes, as a box is."""
        return bool(self.shape.area >= self.shape.envelope.area * (1 - 1e-9))

    def parts(self, level: int, codes: Integers) -> Floats:
        """Return the part of the area of each quadtree node that lies in the region, from 0 to 1.

        Args:
            level: The level of all nodes.
            codes: Code of each node.
        """
        import shapely

        top, bottom, left, right = node_extent(self.grid, level, codes)
        boxes = shapely.box(left, top, right, bottom)
        found: Floats = shapely.covers(self.shape, boxes).astype(np.float64)
        cut = np.flatnonzero((found == 0) & shapely.intersects(self.shape, boxes))
        areas = ((bottom - top) * (right - left))[cut]
        found[cut] = np.minimum(shapely.area(shapely.intersection(self.shape, boxes[cut])) / areas, 1)
        return found

    def covered(self) -> Iterator[tuple[int, Integers, Floats]]:
        """Cover the region with disjoint quadtree nodes: those wholly inside, and the cells that its border cuts.

        Yields:
            A level, the codes of some nodes of this level, and the part of each node that lies in the region.
        """
        codes = np.zeros(1, np.int64)
        for level in range(self.grid.depth + 1):
            part = self.parts(level, codes)
            whole = (part >= 1) if level < self.grid.depth else (part > 0)
            yield level, codes[whole], part[whole]
            below = children(codes[(part > 0) & ~whole])
            codes = below[exists(self.grid, level + 1, below)] if level < self.grid.depth else below[:0]


def region_of(grid: Grid, given: Any) -> Box | Region:
    """Return a box as it is, and anything else as a region of the grid.

    Raises:
        InvalidInput: The value is a region of another grid, or not a polygon.
        InvalidBounds: The region lies outside the grid.
    """
    if isinstance(given, Region) and given.grid != grid:
        raise InvalidInput("The region belongs to another grid; give its polygon, or make it with Region.on.")
    return given if isinstance(given, Box | Region) else Region.on(grid, given)


def _geometries(given: Any) -> list[Any]:
    """List the geometries of GeoJSON, or of an object that describes itself as GeoJSON."""
    fields = given if isinstance(given, Mapping) else given.__geo_interface__
    if fields["type"] == "FeatureCollection":
        return [feature["geometry"] for feature in fields["features"]]
    return [fields["geometry"] if fields["type"] == "Feature" else fields]
