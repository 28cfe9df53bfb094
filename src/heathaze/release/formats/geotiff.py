"""GeoTIFF files of a release: a cloud-optimised raster that every GIS reads (extra ``geo``).

The first band (float32) is the estimated number of people (or of what the map counts) in each cell. If the release has
error bars, a second band is the standard deviation of this number. The raster is tiled and has overviews, so a viewer
reads only the part that it shows.

Equirectangular grids use the reference system EPSG:4326 with north up, and Web-Mercator grids EPSG:3857. Planes have no
reference system. A raster has one number for each cell, so a tree becomes dense. A grid of more than 2^24 cells is
written with fewer cells, at most 4096 along a side, and its provenance then has ``rendered_from``. Such a map is not
refused, because its budget is already spent.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from heathaze.domain.density import MAX_DENSE_CELLS, Density
from heathaze.domain.grid import Grid
from heathaze.domain.projection import Projection
from heathaze.errors import UnreadableData
from heathaze.maps.sheet import Look
from heathaze.release.formats import metadata
from heathaze.release.formats.cells import counted, has_deviations

_MERCATOR_RADIUS = 6_378_137.0
"""The radius of the sphere of EPSG:3857, in metres."""

_LONGEST_FILE = 2**29
_SIDE = 4096


def write(contents: metadata.Contents, target: Path, look: Look) -> None:  # noqa: ARG001
    """Write a release as a GeoTIFF raster."""
    from rasterio.errors import NotGeoreferencedWarning
    from rasterio.io import MemoryFile
    from rasterio.shutil import copy

    raster = _rastered(contents)
    grid, total = raster.estimate.grid, max(raster.estimate.total, 0.0) or 1.0
    unit = counted(contents.guarantee, contents.provenance).replace("-", "_")
    bands = {f"{unit}_per_cell": raster.estimate.density.dense().values * total}
    if has_deviations(contents.estimate):
        bands[f"{unit}_per_cell_sd"] = contents.estimate.posterior.deviations(shape=grid.shape) * total
    place = {"height": grid.rows, "width": grid.cols, "crs": _CRS[grid.projection], "transform": _transform(grid)}
    plain = {"driver": "GTiff", "dtype": "float32", "count": len(bands)}
    # The raster is made in memory first, because GDAL does not always report a full disk.
    with MemoryFile() as memory, MemoryFile(ext=".tif") as made, warnings.catch_warnings():
        # rasterio warns that a plane has no reference system.
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with memory.open(**plain, **place) as dataset:
            for number, (description, values) in enumerate(bands.items(), start=1):
                dataset.write(values.astype(np.float32), number)
                dataset.set_band_description(number, description)
                dataset.set_band_unit(number, f"{unit} per cell")
            dataset.update_tags(HEATHAZE=metadata.to_json(raster))
        copy(memory.name, made.name, driver="COG", compress="DEFLATE", predictor="YES", overview_resampling="AVERAGE")
        target.write_bytes(made.getbuffer())


def read(path: Path) -> metadata.Contents:
    """Read a release from a GeoTIFF raster, always as a dense map."""
    from rasterio.io import MemoryFile

    if path.stat().st_size > _LONGEST_FILE:
        raise UnreadableData(f"{path} is larger than any raster Heathaze writes; it is not a release.")
    # The raster is read from memory, because GDAL would otherwise open other files in the same folder.
    with MemoryFile(path.read_bytes()) as memory, memory.open(driver="GTiff") as dataset:
        text = dataset.tags().get("HEATHAZE")
        if text is None:
            raise UnreadableData(f"{path} is a raster, but not a release of Heathaze; save one with release.save(…).")
        fields = metadata.from_json(text)
        grid = metadata.grid_of(fields)
        fits = (dataset.height, dataset.width) == grid.shape and dataset.count in (1, 2)
        if not fits or set(dataset.dtypes) != {"float32"}:
            raise UnreadableData(f"{path} does not fit its grid; it is damaged or was edited.")
        values = dataset.read(1)
    return metadata.to_contents(fields, Density.from_mass(grid, values))


_CRS = {Projection.EQUIRECTANGULAR: "EPSG:4326", Projection.WEB_MERCATOR: "EPSG:3857", Projection.PLANE: None}


def _rastered(contents: metadata.Contents) -> metadata.Contents:
    """Make a release dense for a raster, with fewer cells if the grid has more than 2^24."""
    estimate, guarantee, provenance = contents
    grid, density = estimate.grid, estimate.density
    if grid.cells <= MAX_DENSE_CELLS:
        return contents._replace(estimate=dataclasses.replace(estimate, density=density.dense()))
    coarser = density.render(shape=(min(grid.rows, _SIDE), min(grid.cols, _SIDE)))
    extra = {**provenance.extra, "rendered_from": [grid.rows, grid.cols]}
    # The noisy counts belong to the finer grid, so the raster does not carry them.
    return metadata.Contents(
        dataclasses.replace(estimate, density=coarser, noisy=None),
        guarantee,
        dataclasses.replace(provenance, extra=extra),
    )


def _transform(grid: Grid) -> Any:
    """Make the raster's transform from (column, row) to coordinates; row 0 is north, or the smallest y of a plane."""
    from rasterio.transform import Affine

    left, right = grid.x
    low, high = grid.y
    if grid.projection is Projection.WEB_MERCATOR:
        left, right = (_MERCATOR_RADIUS * math.radians(lon) for lon in (left, right))
        low, high = (_MERCATOR_RADIUS * float(grid.projection.forward(lat)) for lat in (low, high))
    top, bottom = (high, low) if grid.projection.is_geographic else (low, high)
    return Affine((right - left) / grid.cols, 0.0, left, 0.0, (bottom - top) / grid.rows, top)
