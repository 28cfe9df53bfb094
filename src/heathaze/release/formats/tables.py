"""A release as a table in memory: a DataFrame of pandas or GeoPandas, a Dataset of xarray, or GeoJSON.

Every table names its units: shares of the total, and numbers of people (or person-days, visits, presences) with their
standard deviation. The packages are optional and are imported when they are used.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.errors import MissingExtra
from heathaze.release.formats.cells import counted, rectangles_of
from heathaze.release.formats.metadata import Contents

CRS = "OGC:CRS84"
"""Longitude and latitude of WGS 84, in this order."""


def to_pandas(contents: Contents) -> Any:
    """Make a DataFrame with a row for each certain square; without error bars, for each cell that holds mass.

    Args:
        contents: The parts of the release.
    """
    return _package("pandas").DataFrame(_columns(contents))


def to_geopandas(contents: Contents) -> Any:
    """Make a GeoDataFrame with a rectangle for each certain square; without error bars, for each cell with mass.

    Args:
        contents: The parts of the release.
    """
    geopandas, shapely = _package("geopandas"), _package("shapely")
    columns = _columns(contents)
    low_x, low_y, high_x, high_y = (columns.pop(name) for name in _edges(contents.estimate.grid))
    crs = CRS if contents.estimate.grid.projection.is_geographic else None
    return geopandas.GeoDataFrame(columns, geometry=shapely.box(low_x, low_y, high_x, high_y), crs=crs)


def to_xarray(contents: Contents) -> Any:
    """Make a Dataset on the cells of the grid, with the coordinates of their centres and the coordinate system.

    Args:
        contents: The parts of the release.

    Raises:
        TooLarge: The grid has more than 2^24 cells.
    """
    xarray = _package("xarray")
    estimate, guarantee, provenance = contents
    grid, units = estimate.grid, counted(guarantee, provenance)
    axes = ("lat", "lon") if grid.projection.is_geographic else ("y", "x")
    share = estimate.density.dense().values
    variables: dict[str, tuple[Any, Any, dict[str, str]]] = {
        "share": (axes, share, {"long_name": f"share of all {units}", "units": "1"}),
        _field(units): (axes, share * estimate.total, {"long_name": f"estimated {units}", "units": units}),
    }
    if estimate.knows_uncertainty:
        spread = estimate.posterior.deviations() * estimate.total
        variables[f"{_field(units)}_sd"] = (axes, spread, {"long_name": "standard deviation", "units": units})
    coordinates: dict[str, Any] = {
        axes[0]: grid.y_at(np.arange(grid.rows) + 0.5),
        axes[1]: grid.x_at(np.arange(grid.cols) + 0.5),
    }
    found = xarray.Dataset(variables, coordinates, {"guarantee": str(guarantee)})
    if grid.projection.is_geographic:
        found[axes[0]].attrs = {"standard_name": "latitude", "units": "degrees_north"}
        found[axes[1]].attrs = {"standard_name": "longitude", "units": "degrees_east"}
        found = found.assign_coords(spatial_ref=((), 0, {"grid_mapping_name": "latitude_longitude", **_crs()}))
        for name in variables:
            found[name].attrs["grid_mapping"] = "spatial_ref"
    return found


def geo_interface(contents: Contents) -> dict[str, Any]:
    """Describe the certain squares, or without error bars the cells with mass, as a GeoJSON FeatureCollection.

    Args:
        contents: The parts of the release.
    """
    columns = {name: values.tolist() for name, values in _columns(contents).items()}
    edges = zip(*(columns.pop(name) for name in _edges(contents.estimate.grid)), strict=True)
    features = []
    for place, (x0, y0, x1, y1) in enumerate(edges):
        ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]
        properties = {name: values[place] for name, values in columns.items()}
        geometry = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    return {"type": "FeatureCollection", "features": features}


def _crs() -> dict[str, str]:
    """Describe longitude and latitude by name, and in full if pyproj is installed, which comes with GeoPandas."""
    try:
        from pyproj import CRS as Described
    except ImportError:
        return {"crs": CRS}
    return {"crs": CRS, "crs_wkt": Described(CRS).to_wkt()}


def _columns(contents: Contents) -> dict[str, Any]:
    estimate, guarantee, provenance = contents
    found = rectangles_of(estimate, counted(guarantee, provenance))
    return found.columns | dict(zip(_edges(estimate.grid), found.bounds.T, strict=True))


def _edges(grid: Grid) -> tuple[str, str, str, str]:
    if grid.projection.is_geographic:
        return "lon_west", "lat_south", "lon_east", "lat_north"
    return "x_low", "y_low", "x_high", "y_high"


def _field(units: str) -> str:
    return units.replace("-", "_")


def _package(name: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(f"This table needs the package {name}; install {name} (the extra 'notebook').") from None
