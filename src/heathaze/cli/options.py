"""Options that several commands share, and checks of output files before data is read or a ledger is charged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heathaze.domain.grid import Grid, Interval
from heathaze.errors import CannotWrite, InvalidInput, UnknownFormat
from heathaze.release.formats import check_writable

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
Engine = Annotated[
    str, typer.Option("--engine", help="duckdb (built in), or spark for data that one machine cannot hold.")
]


def grid_from(
    lon: Interval | None,
    lat: Interval | None,
    x: Interval | None,
    y: Interval | None,
    size: int | None,
    shape: tuple[int, int] | None,
    projection: str,
) -> Grid:
    """Build the grid of the map from options of the command line, never from the data."""
    if size is None and shape is None:
        size = 256
    if lon is not None and lat is not None and x is None and y is None:
        return Grid.over(lon=lon, lat=lat, size=size, shape=shape, projection=projection)
    if x is not None and y is not None and lon is None and lat is None:
        return Grid.plane(x=x, y=y, size=size, shape=shape)
    raise InvalidInput(
        "The map has no bounds. Give --lon WEST EAST and --lat SOUTH NORTH in degrees, or --x LOW HIGH and --y LOW "
        "HIGH on a plane. Bounds are never taken from the data, because they would reveal extreme positions."
    )


def person_from(person: str | None, unit: str | None) -> str | None:
    """Check the option for the person column, which may be left out only with ``--unit visit``."""
    if person is None and unit not in ("visit", None):
        raise InvalidInput(f"--unit {unit} needs --person COLUMN, which says whose visit a row is.")
    if person is None and unit is None:
        raise InvalidInput(
            "No person column was named. Give --person COLUMN, which says whose visit a row is; or --unit visit, which "
            "protects single visits (a person with many visits is then protected less)."
        )
    return person


def check_new(path: Path, *, overwrite: bool, source: str) -> None:
    """Refuse an output file of an unknown release type, or one that :func:`check_place` refuses."""
    check_writable(path)
    check_place(path, overwrite=overwrite, source=source)


def check_picture(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a picture that is not a PNG, or one that :func:`check_place` refuses. None means no picture."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise UnknownFormat(f"Unknown picture type {path.suffix or path}; expected .png.")
    check_new(path, overwrite=overwrite, source="")


def check_place(path: Path, *, overwrite: bool, source: str | None) -> None:
    """Refuse an output file if its directory is missing, if the file exists already, or if it is an input file."""
    if not path.parent.is_dir():
        raise CannotWrite(f"Cannot write {path}: there is no directory {path.parent}; make it first.")
    if not path.exists():
        return
    if path.is_dir():
        raise CannotWrite(f"{path} is a directory; name a file to write.")
    if source is not None and Path(source).exists() and path.samefile(source):
        raise CannotWrite(f"{path} is also an input file; choose another name for the output.")
    if not overwrite:
        raise CannotWrite(f"{path} exists already; choose another name, or add --overwrite.")
