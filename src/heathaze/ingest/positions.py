"""Read positions from a file of visits, to be randomised on the same device."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.ingest.columns import VISITS, Columns, check_names
from heathaze.ingest.count import Only, kept_rows, read_visits
from heathaze.ingest.places import open_visits
from heathaze.ingest.source import Dialect
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.types import Floats


def positions(
    source: Any,
    grid: Grid,
    *,
    person: str | None,
    lon: str = "lon",
    lat: str = "lat",
    x: str = "x",
    y: str = "y",
    only: Only | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    separator: str | None = None,
    decimal: str = ".",
    layer: str | None = None,
    randomness: Randomness | None = None,
) -> Floats:
    """Read positions as rows (x, y): one row for every visit, or one random visit of every person.

    Visits without a finite position are left out. Visits outside the map are kept, because a local mechanism moves them
    to the border of the map (errata E1-6).

    Args:
        source: A path, or a table in memory, as in :func:`heathaze.count`.
        grid: The public grid.
        person: Column with the person of a visit, or None for a position of every visit.
        lon: Column of the longitude in degrees (grids on the globe).
        lat: Column of the latitude in degrees.
        x: Column of the horizontal coordinate (grids on a plane).
        y: Column of the vertical coordinate.
        only: Columns with the value or values to keep; other rows are not read.
        format: The format of a file, if its ending does not say.
        encoding: Encoding of a text file.
        separator: Separator of a CSV file.
        decimal: Decimal sign of numbers that are written as text: "." or ",".
        layer: Layer of a GeoPackage that has several.
        randomness: The source of random bits. Leave it out, except in tests and papers.

    Returns:
        Rows (x, y), in a random order.

    Raises:
        UnreadableData: The source cannot be read, or has no position.

    >>> visits = {"who": np.array([1, 1, 2]), "x": np.array([0.5, 0.5, 1.5]), "y": np.array([0.5, 0.5, 0.5])}
    >>> plane = Grid.plane(x=(0, 2), y=(0, 1), shape=(1, 2))
    >>> len(positions(visits, plane, person=None)), len(positions(visits, plane, person="who"))
    (3, 2)
    """
    from heathaze.ingest.engines.duckdb import open_duckdb

    if format == "mds" and person is not None:
        raise InvalidInput(
            "Trips of MDS do not say who rode; leave person out, which protects each position by itself."
        )
    geographic = grid.projection.is_geographic
    columns = Columns(lon if geographic else x, lat if geographic else y, person, only=kept_rows(only), decimal=decimal)
    check_names(columns, geographic)
    given = os.fspath(source) if isinstance(source, os.PathLike) else source
    dialect = Dialect(format, encoding, separator, layer)
    with open_visits(given, dialect, columns, grid.projection) as table, open_duckdb() as engine:
        read_visits(engine, table, columns, Unit.VISIT if person is None else Unit.PERSON)
        number = "0" if person is None else "dense_rank() over (order by unit)"
        found = engine.fetch(f"select {number} as person, x, y from {VISITS} where isfinite(x) and isfinite(y)")
    rows = np.column_stack([found["x"], found["y"]]).astype(np.float64)
    if not len(rows):
        raise UnreadableData("There is not a single position in the file; there is nothing to report.")
    # The rows are shuffled, so that their order reveals nothing about people. The first row of each person is taken.
    order = np.argsort((randomness or SecureRandomness()).words(len(rows)))
    if person is not None:
        _, first = np.unique(found["person"][order], return_index=True)
        order = order[np.sort(first)]
    return np.asarray(rows[order])
