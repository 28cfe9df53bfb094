"""The options of a file of positions: its columns, how it is written, and which of its rows are read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

from typer import Option

from heathaze.errors import InvalidInput

_SIGNS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "point": ".", "\\t": "\t"}


@dataclass(frozen=True)
class Reading:
    """The values of the options. Each field is an option of the commands with :func:`reads_file`."""

    lon_column: Annotated[str, Option("--lon-column", help="Column with the longitude.")] = "lon"
    lat_column: Annotated[str, Option("--lat-column", help="Column with the latitude.")] = "lat"
    x_column: Annotated[str, Option("--x-column", help="Column with x, on a plane.")] = "x"
    y_column: Annotated[str, Option("--y-column", help="Column with y, on a plane.")] = "y"
    only: Annotated[
        list[str] | None,
        Option("--only", metavar="COLUMN=VALUE", help="Read only rows with this value; repeatable."),
    ] = None
    format: Annotated[
        str | None,
        Option(
            "--format",
            help="csv, tsv, parquet, jsonl, geojson, geoparquet, gpkg, gpx, shp or mds.",
            show_default="by the file's ending",
        ),
    ] = None
    encoding: Annotated[str, Option("--encoding", help="Of a text file: utf-8, utf-16, latin-1 or windows-1252.")] = (
        "utf-8"
    )
    separator: Annotated[
        str | None,
        Option(
            "--separator", help="Separator of a CSV file: comma, semicolon, tab or bar.", show_default="by its header"
        ),
    ] = None
    decimal: Annotated[str, Option("--decimal", help="Decimal sign of numbers in text: point or comma.")] = "point"
    layer: Annotated[str | None, Option("--layer", help="Layer of a GeoPackage that has several.")] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments with which functions of ``heathaze.ingest`` read the file.

        Raises:
            InvalidInput: A condition is not written as COLUMN=VALUE.
        """
        kept: dict[str, list[str]] = {}
        for given in self.only or []:
            column, equals, value = given.partition("=")
            if not equals or not column:
                raise InvalidInput(f"--only is {given!r}; give the name of a column and a value: --only COLUMN=VALUE.")
            kept.setdefault(column, []).append(value)
        return {
            "lon": self.lon_column,
            "lat": self.lat_column,
            "x": self.x_column,
            "y": self.y_column,
            "format": self.format,
            "encoding": self.encoding,
            "separator": None if self.separator is None else _SIGNS.get(self.separator, self.separator),
            "decimal": _SIGNS.get(self.decimal, self.decimal),
            "layer": self.layer,
            "only": kept or None,
        }


READING = Reading()
"""What is read if no option is given: the default in a command's signature, which :func:`reads_file` replaces."""


def reads_file(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter ``read`` of a command with one option for each field of :class:`Reading`."""
    types = get_type_hints(Reading, include_extras=True)
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name]
        )
        for field in fields(Reading)
    ]
    own = inspect.signature(command, eval_str=True)
    others = [given.replace(kind=inspect.Parameter.KEYWORD_ONLY) for given in own.parameters.values()]
    place = next(number for number, given in enumerate(others) if given.name == "read")
    parameters = [*others[:place], *options, *others[place + 1 :]]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        read = Reading(**{option.name: given.pop(option.name) for option in options})
        command(**given, read=read)

    with_options.__dict__.update(
        __signature__=own.replace(parameters=parameters),
        __annotations__={given.name: given.annotation for given in parameters},
    )
    return with_options
