"""Options that several commands share, spelled once."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
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


# TODO-merged from cli.outputs: What may be written where, checked before anything is read or paid; and files that appear together or not at all.


def check_new(path: Path, *, overwrite: bool, source: str) -> None:
    """Refuse an output of a release that cannot be written, that exists, or that is the data itself."""
    check_writable(path)
    check_place(path, overwrite=overwrite, source=source)


def check_picture(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a picture, if one is wanted, that is no PNG, cannot be written or exists."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise UnknownFormat(f"{path} does not end in .png, the only picture this command draws.")
    check_new(path, overwrite=overwrite, source="")


def check_place(path: Path, *, overwrite: bool, source: str | None) -> None:
    """Refuse a file whose directory is not there, that exists, or that is the data itself."""
    if not path.parent.is_dir():
        raise CannotWrite(f"Cannot write {path}: there is no directory {path.parent}; make it first.")
    if not path.exists():
        return
    if path.is_dir():
        raise CannotWrite(f"{path} is a directory; name a file to write.")
    if source is not None and Path(source).exists() and path.samefile(source):
        raise CannotWrite(f"{path} is one of the files that are read; choose another name for the output.")
    if not overwrite:
        raise CannotWrite(f"{path} exists already; choose another name, or add --overwrite.")


@contextlib.contextmanager
def together(paths: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Hidden files beside the outputs, which take their places all together once everything is written, or none."""
    parts: dict[Path, Path] = {}
    try:
        try:
            for path in paths:
                descriptor, name = tempfile.mkstemp(prefix=".heathaze-", suffix=path.suffix, dir=path.resolve().parent)
                os.close(descriptor)
                parts[path] = Path(name)
            yield parts
            for part in parts.values():
                part.chmod(0o666 & ~_umask())
                with part.open("rb") as file:
                    os.fsync(file.fileno())
            for path, part in parts.items():
                part.replace(path)
        except OSError as problem:
            raise CannotWrite(
                f"Cannot write {', '.join(map(str, paths))}: {(problem.strerror or 'the disk refused').lower()}. "
                "Nothing was left behind."
            ) from None
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now
