"""GeoJSON files of a release: a polygon for each certain square, or for each cell of a release without error bars.

The file follows RFC 7946, with longitude and latitude of WGS 84, or the coordinates of a plane. The properties of a
polygon are the columns of :mod:`heathaze.release.formats.cells`. The member ``heathaze`` has all other fields of the
release, from which it loads back.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from heathaze.errors import UnreadableData
from heathaze.maps.sheet import Look
from heathaze.release.formats import metadata
from heathaze.release.formats.cells import counted, has_deviations, rectangles_of

_LONGEST_FILE = 2**30
"""The largest file that is read, in bytes; reading takes about ten times the size of the file in memory."""

_EXACT = "share_of_total"
"""The column that is written with all digits, because a release without error bars is loaded from it."""


def write(contents: metadata.Contents, target: Path, look: Look) -> None:  # noqa: ARG001
    """Write a release as GeoJSON, polygon by polygon, so that the whole text is never in memory."""
    estimate, grid = contents.estimate, contents.estimate.grid
    rectangles = rectangles_of(estimate, counted(contents.guarantee, contents.provenance))
    places = _places(
        min((grid.x[1] - grid.x[0]) / grid.cols, (grid.y[1] - grid.y[0]) / grid.rows),
        max(abs(bound) for bound in (*grid.x, *grid.y)),
    )
    about = metadata.to_json(contents, with_density=has_deviations(estimate))
    bounds = [grid.x[0], grid.y[0], grid.x[1], grid.y[1]]
    names = list(rectangles.columns)
    with target.open("w", encoding="ascii", newline="\n") as file:
        head = f'{{"type": "FeatureCollection", "bbox": {json.dumps(bounds)}, "heathaze": {about}'
        file.write(head + ', "features": [')
        between = "\n"
        for (x0, y0, x1, y1), *values in zip(
            rectangles.bounds.round(places).tolist(),
            *(column.tolist() for column in rectangles.columns.values()),
            strict=True,
        ):
            properties = ", ".join(
                f'"{name}": {_written(value, exact=name == _EXACT)}' for name, value in zip(names, values, strict=True)
            )
            # The ring runs counterclockwise, as RFC 7946 requires, from the corner with the smallest x and y.
            file.write(
                f'{between}{{"type": "Feature", "properties": {{{properties}}}, "geometry": {{"type": "Polygon", '
                f'"coordinates": [[[{x0!r}, {y0!r}], [{x1!r}, {y0!r}], [{x1!r}, {y1!r}], [{x0!r}, {y1!r}], '
                f"[{x0!r}, {y0!r}]]]}}}}"
            )
            between = ",\n"
        file.write("\n]}\n")


def _written(value: object, *, exact: bool) -> str:
    """Write a property: whole numbers and texts as they are, other numbers with six significant digits."""
    return f"{value:.6g}" if isinstance(value, float) and not exact else json.dumps(value)


def read(path: Path) -> metadata.Contents:
    """Read a release from the properties of the polygons of a GeoJSON file."""
    if path.stat().st_size > _LONGEST_FILE:
        raise UnreadableData(f"{path} is larger than 1 GiB; load such a release from .npz or .parquet.")
    collection = json.loads(path.read_bytes())
    if not isinstance(collection, dict) or "heathaze" not in collection:
        raise UnreadableData(f"{path} is not a release of Heathaze; save one with release.save(…).")
    fields = metadata.check(collection["heathaze"])
    if (squares := metadata.to_contents_of_squares(fields)) is not None:
        return squares
    grid = metadata.grid_of(fields)
    properties = [feature["properties"] for feature in collection["features"]]
    first, second, share = ([one[name] for one in properties] for name in (*metadata.KEYS[fields["form"]], _EXACT))
    if any(type(number) not in (int, float) for number in share):
        raise UnreadableData(f"{path} has something else than numbers for shares; it is damaged or was edited.")
    return metadata.to_contents(fields, metadata.density_of(fields["form"], grid, first, second, share))


def _places(cell: float, largest: float) -> int:
    """Choose the decimals of coordinates: enough for a thousandth of a cell, but no more than a float has."""
    return max(0, min(math.ceil(3 - math.log10(cell)), 15 - math.ceil(math.log10(max(largest, 1.0)))))
