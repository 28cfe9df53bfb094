"""Options that several commands share, spelled once."""

from __future__ import annotations

from typing import Annotated

import typer

from heathaze.domain.grid import Grid, Interval
from heathaze.errors import InvalidInput

Lon = Annotated[
    tuple[float, float] | None, typer.Option("--lon", metavar="WEST EAST", help="Longitude bounds of the map, degrees.")
]
Lat = Annotated[
    tuple[float, float] | None,
    typer.Option("--lat", metavar="SOUTH NORTH", help="Latitude bounds of the map, degrees."),
]
X = Annotated[
    tuple[float, float] | None,
    typer.Option("--x", metavar="LOW HIGH", help="For a plane (metres, pixels): bounds of x."),
]
Y = Annotated[
    tuple[float, float] | None,
    typer.Option("--y", metavar="LOW HIGH", help="For a plane (metres, pixels): bounds of y; drawn downwards."),
]
Size = Annotated[int | None, typer.Option("--size", help="Cells along each side, 1 to 1048576.", show_default="256")]
Shape = Annotated[
    tuple[int, int] | None, typer.Option("--shape", metavar="ROWS COLS", help="Rows and columns, instead of --size.")
]
Projection = Annotated[str, typer.Option("--projection", help="equirectangular or web-mercator.")]

Person = Annotated[str | None, typer.Option("--person", help="Column that says whose visit a row is.")]
LonColumn = Annotated[str, typer.Option("--lon-column", help="Column with the longitude.")]
LatColumn = Annotated[str, typer.Option("--lat-column", help="Column with the latitude.")]
XColumn = Annotated[str, typer.Option("--x-column", help="Column with x, on a plane.")]
YColumn = Annotated[str, typer.Option("--y-column", help="Column with y, on a plane.")]
Time = Annotated[str | None, typer.Option("--time", help="Column with the time; needed for --unit person-day.")]
Unit = Annotated[
    str | None,
    typer.Option("--unit", help="What is protected: person, person-day or visit.", show_default="person"),
]
Engine = Annotated[str, typer.Option("--engine", help="duckdb (built in) or spark (more than one machine can hold).")]


def grid_from(
    lon: Interval | None,
    lat: Interval | None,
    x: Interval | None,
    y: Interval | None,
    size: int | None,
    shape: tuple[int, int] | None,
    projection: str,
) -> Grid:
    """The public frame of the map, from the command line and never from the data."""
    if size is None and shape is None:
        size = 256
    if lon is not None and lat is not None and x is None and y is None:
        return Grid.over(lon=lon, lat=lat, size=size, shape=shape, projection=projection)
    if x is not None and y is not None and lon is None and lat is None:
        return Grid.plane(x=x, y=y, size=size, shape=shape)
    raise InvalidInput(
        "Say where the map lies: --lon WEST EAST and --lat SOUTH NORTH in degrees, or --x LOW HIGH and --y LOW HIGH on "
        "a plane. Bounds are never taken from the data, because that would leak them."
    )


def person_from(person: str | None, unit: str | None) -> str | None:
    """The person column; leaving it out is allowed only where each row is its own unit."""
    if person is None and unit not in ("visit", None):
        raise InvalidInput(f"--unit {unit} needs --person COLUMN, which says whose visit a row is.")
    if person is None and unit is None:
        raise InvalidInput(
            "Say whose visits these are: --person COLUMN; or --unit visit if each row stands for itself "
            "(then a person with many rows is protected less)."
        )
    return person
