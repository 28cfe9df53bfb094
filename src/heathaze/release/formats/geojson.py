"""GeoJSON files of a release: a polygon for each cell (or square of the tree) that holds mass.

The file follows RFC 7946, with longitude and latitude of WGS 84, or the coordinates of a plane. A polygon has these
properties: ``share`` of the total; ``estimate``, the estimated number of units; ``row`` and ``col`` of a cell, or
``level`` and ``code`` of a square; and ``sd``, the standard deviation of the share, if the release has error bars. The
member ``heathaze`` has all other fields of the release.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from heathaze.errors import UnreadableData
from heathaze.maps.mosaic import Look
from heathaze.release.formats import metadata
from heathaze.release.formats.cells import cells_of

_LONGEST_FILE = 2**30
"""The largest file that is read, in bytes; reading takes about ten times the size of the file in memory."""


def write(contents: metadata.Contents, target: Path, look: Look) -> None:  # noqa: ARG001
    """Write a release as GeoJSON, polygon by polygon, so that the whole text is never in memory."""
    cells, grid = cells_of(contents.estimate), contents.estimate.grid
    first, second = cells.keys
    places = _places(
        min((grid.x[1] - grid.x[0]) / grid.cols, (grid.y[1] - grid.y[0]) / grid.rows),
        max(abs(bound) for bound in (*grid.x, *grid.y)),
    )
    columns = (*cells.keys.values(), cells.share, cells.share * contents.estimate.total)
    spreads = [""] * len(cells.share)
    if cells.deviation is not None:
        spreads = [f', "sd": {deviation:.6g}' for deviation in cells.deviation.tolist()]
    corners = (column.round(places) for column in (cells.low_x, cells.low_y, cells.high_x, cells.high_y))
    bounds = [grid.x[0], grid.y[0], grid.x[1], grid.y[1]]
    with target.open("w", encoding="ascii", newline="\n") as file:
        head = f'{{"type": "FeatureCollection", "bbox": {json.dumps(bounds)}, "heathaze": {metadata.to_json(contents)}'
        file.write(head + ', "features": [')
        between = "\n"
        for a, b, share, estimate, x0, y0, x1, y1, spread in zip(
            *(column.tolist() for column in columns), *(column.tolist() for column in corners), spreads, strict=True
        ):
            # The ring runs counterclockwise, as RFC 7946 requires, from the corner with the smallest x and y.
            file.write(
                f'{between}{{"type": "Feature", "properties": {{"{first}": {a}, "{second}": {b}, "share": {share!r}, '
                f'"estimate": {estimate:.6g}{spread}}}, "geometry": {{"type": "Polygon", "coordinates": '
                f"[[[{x0!r}, {y0!r}], [{x1!r}, {y0!r}], [{x1!r}, {y1!r}], [{x0!r}, {y1!r}], [{x0!r}, {y0!r}]]]}}}}"
            )
            between = ",\n"
        file.write("\n]}\n")


def read(path: Path) -> metadata.Contents:
    """Read a release from the properties of the polygons of a GeoJSON file."""
    if path.stat().st_size > _LONGEST_FILE:
        raise UnreadableData(f"{path} is larger than 1 GiB; load such a release from .npz or .parquet.")
    collection = json.loads(path.read_bytes())
    if not isinstance(collection, dict) or "heathaze" not in collection:
        raise UnreadableData(f"{path} is not a release of Heathaze; save one with release.save(…).")
    fields = metadata.check(collection["heathaze"])
    grid = metadata.grid_of(fields)
    properties = [feature["properties"] for feature in collection["features"]]
    first, second, share = ([one[name] for one in properties] for name in (*metadata.KEYS[fields["form"]], "share"))
    if any(type(number) not in (int, float) for number in share):
        raise UnreadableData(f"{path} has something else than numbers for shares; it is damaged or was edited.")
    return metadata.to_contents(fields, metadata.density_of(fields["form"], grid, first, second, share))


def _places(cell: float, largest: float) -> int:
    """Choose the decimals of coordinates: enough for a thousandth of a cell, but no more than a float has."""
    return max(0, min(math.ceil(3 - math.log10(cell)), 15 - math.ceil(math.log10(max(largest, 1.0)))))
