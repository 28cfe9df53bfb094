"""Files of made-up journeys: GeoParquet, GeoJSON lines and GPX.

| ending | what it holds |
|---|---|
| ``.parquet`` | a row for each point: ``journey``, ``step``, ``lon``, ``lat`` (``x``, ``y`` on a plane), ``geometry`` |
| ``.geojsonl`` | a line for each journey: a feature with a LineString |
| ``.gpx`` | a track for each journey; for maps on the globe only |

If hours were measured, each point also has a time in seconds since the midnight before its journey begins: the column
``second`` in Parquet, and the list ``seconds`` of a journey in GeoJSON. GPX requires a date, and the made-up date is
DAY.

Every file says in its metadata that the journeys are made up, with the guarantee and how they were made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput, UnknownFormat
from heathaze.files import replacing
from heathaze.release.formats.parquet import write_table
from heathaze.types import Floats

ENDINGS = (".parquet", ".geojsonl", ".gpx")
"""The endings of files of made-up journeys."""

DAY = np.datetime64("2000-01-01T00:00:00", "s")
"""The day of all made-up journeys in GPX, which has no times without a date."""


def check_ending(path: Path, grid: Grid) -> None:
    """Refuse a file of another ending, and GPX for a map on a plane.

    Raises:
        UnknownFormat: The ending is not one of ENDINGS.
        InvalidInput: The ending is .gpx and the map is on a plane, but GPX holds only degrees.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UnknownFormat(f"Unknown type of journeys {path.suffix or path.name}; give {', '.join(ENDINGS)}.")
    if path.suffix.lower() == ".gpx" and not grid.projection.is_geographic:
        raise InvalidInput("GPX holds longitudes and latitudes only; write journeys on a plane as .parquet.")


def write(
    lines: Lines, grid: Grid, about: Mapping[str, Any], sentence: str, path: Path, seconds: Floats | None = None
) -> Path:
    """Write made-up journeys to a file, completely or not at all.

    Args:
        lines: The made-up journeys.
        grid: The public frame.
        about: Guarantee and provenance.
        sentence: The guarantee in words.
        path: The file.
        seconds: The time of each point in seconds since midnight, if times are known.

    Raises:
        UnknownFormat: The ending is not one of ENDINGS.
        CannotWrite: The file cannot be written; nothing is left behind.
    """
    check_ending(path, grid)
    with replacing(path) as (draft,):
        if path.suffix.lower() == ".parquet":
            _parquet(lines, grid, about, draft, seconds)
        else:
            is_gpx = path.suffix.lower() == ".gpx"
            made = _gpx(lines, sentence, seconds) if is_gpx else _geojson(lines, grid, about, seconds)
            with draft.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(made)
    return path


def _parquet(lines: Lines, grid: Grid, about: Mapping[str, Any], draft: Path, seconds: Floats | None) -> None:
    names = ("lon", "lat") if grid.projection.is_geographic else ("x", "y")
    points = np.empty(len(lines.x), np.dtype([("order", "u1"), ("kind", "<u4"), ("x", "<f8"), ("y", "<f8")]))
    points["order"], points["kind"], points["x"], points["y"] = 1, 1, lines.x, lines.y
    block = points.tobytes()
    owner = lines.owner
    geometry = np.empty(len(points), object)
    geometry[:] = [block[at : at + points.itemsize] for at in range(0, len(block), points.itemsize)]
    table = {
        "journey": owner,
        "step": np.arange(len(owner)) - lines.offsets[owner],
        names[0]: lines.x,
        names[1]: lines.y,
        **({} if seconds is None else {"second": np.round(seconds, 1)}),
        "geometry": geometry,
    }
    about = {"kind": "made-up journeys", **about}
    write_table(table, {"geometry_types": ["Point"]}, grid, json.dumps(about), draft)


def _geojson(lines: Lines, grid: Grid, about: Mapping[str, Any], seconds: Floats | None) -> Iterator[str]:
    for number, (x, y) in enumerate(_each(lines)):
        fields: dict[str, Any] = {"journey": number, "made_up": True}
        if number == 0:
            fields["heathaze"] = about
        if seconds is not None:
            there = slice(int(lines.offsets[number]), int(lines.offsets[number + 1]))
            fields["seconds"] = np.round(seconds[there], 1).tolist()
        points = [list(pair) for pair in zip(_short(x, grid), _short(y, grid), strict=True)]
        feature = {"type": "LineString", "coordinates": points}
        yield json.dumps({"type": "Feature", "properties": fields, "geometry": feature}) + "\n"


def _gpx(lines: Lines, sentence: str, seconds: Floats | None) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield '<gpx version="1.1" creator="Heathaze" xmlns="http://www.topografix.com/GPX/1/1">\n'
    yield f"<metadata><desc>Made-up journeys. {escape(sentence)}</desc></metadata>\n"
    for number, (x, y) in enumerate(_each(lines)):
        times = ["/>"] * len(x)
        if seconds is not None:
            there = slice(int(lines.offsets[number]), int(lines.offsets[number + 1]))
            moments = (DAY + np.round(seconds[there]).astype("timedelta64[s]")).astype(str)
            times = [f"><time>{moment}Z</time></trkpt>" for moment in moments]
        points = "".join(f'<trkpt lat="{b:.6f}" lon="{a:.6f}"{t}' for a, b, t in zip(x, y, times, strict=True))
        yield f"<trk><name>made-up {number}</name><trkseg>{points}</trkseg></trk>\n"
    yield "</gpx>\n"


def _each(lines: Lines) -> Iterator[tuple[list[float], list[float]]]:
    x, y = lines.x.tolist(), lines.y.tolist()
    for first, last in zip(lines.offsets[:-1].tolist(), lines.offsets[1:].tolist(), strict=True):
        yield x[first:last], y[first:last]


def _short(values: list[float], grid: Grid) -> list[float]:
    """Round degrees to 6 places (about 0.1 m), and leave the units of a plane as they are."""
    return [round(value, 6) for value in values] if grid.projection.is_geographic else values
