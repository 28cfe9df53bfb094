"""``heathaze compare``: measure how far a release is from the raw data. The output is not private."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heathaze import metrics
from heathaze.cli import options
from heathaze.cli.console import Json, out, say_json
from heathaze.cli.options import check_new
from heathaze.domain.density import TreeDensity
from heathaze.errors import InvalidInput, UnknownFormat
from heathaze.release.release import load

_WARNING = "NOT PRIVATE: these numbers are computed from the raw data. Do not publish them."


def compare(
    file: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release: .npz .parquet .geojson or .tif.")],
    truth: Annotated[str, typer.Option("--truth", help="The file of visits from which the release was made.")],
    person: options.Person = None,
    lon_column: options.LonColumn = "lon",
    lat_column: options.LatColumn = "lat",
    x_column: options.XColumn = "x",
    y_column: options.YColumn = "y",
    time: options.Time = None,
    sigma: Annotated[float, typer.Option("--sigma", help="Blur both maps by this standard deviation, in cells.")] = 0.0,
    picture: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Also draw truth and release side by side (.png): not private."),
    ] = None,
    engine: options.Engine = "duckdb",
    json: Json = False,
) -> None:
    """Measure how far a release is from the truth. The output is not private."""
    from heathaze.ingest.count import count

    release = load(file)
    unit = release.guarantee.unit.value
    if person is None and unit != "visit":
        raise InvalidInput("Name the column of the person, as when the map was published: --person COLUMN.")
    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise UnknownFormat(f"{picture} does not end in .png; compare draws .png only.")
        check_new(picture, overwrite=False, source=truth)
    how = release.provenance
    counts = count(
        truth,
        release.grid,
        person=person,
        lon=lon_column,
        lat=lat_column,
        x=x_column,
        y=y_column,
        weight=how.weight,
        at_most=how.at_most,
        unit=unit,
        time=time,
        engine=engine,
    )
    true = TreeDensity.from_mass(release.grid, [release.grid.depth] * len(counts.codes), counts.codes, counts.mass)
    shape = (min(256, release.grid.rows), min(256, release.grid.cols))
    ours, theirs = release.render(shape=shape).smooth(sigma), true.render(shape=shape).smooth(sigma)
    numbers = {
        "similarity": metrics.similarity(ours, theirs),
        "pearson": metrics.pearson(ours, theirs),
        "kl": metrics.kl(theirs, ours),
        "total_variation": metrics.total_variation(ours, theirs),
        "emd": float(metrics.emd(ours, theirs)),
    }
    if picture is not None:
        from heathaze.maps.figure import draw

        panels = [("truth (NOT PRIVATE)", theirs), ("release", ours)]
        draw(panels, caption=f"{_WARNING} {release.guarantee.short}", path=picture)
    if json:
        say_json({"warning": _WARNING, "private": False, "metrics": numbers})
        return
    out.print(_WARNING, style="bold red", markup=False)  # in the same stream, so that it stays with the numbers
    meanings = {
        "similarity": "1 is equal, 0 is disjoint",
        "pearson": "1 is equal",
        "kl": "0 is equal",
        "total_variation": "0 is equal, 1 is disjoint",
        "emd": "mean distance that mass must move, as a share of the map's longer side",
    }
    for name, value in numbers.items():
        out.print(f"{name:16s} {value:8.4f}  {meanings[name]}", markup=False)
