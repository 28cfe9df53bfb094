"""``heathaze compare``: measure how far a release is from the raw data. The output is not private."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from heathaze import metrics
from heathaze.cli import common
from heathaze.cli.common import Json, check_new, out, say_json, say_written
from heathaze.cli.reading import READING, Reading, reads_file
from heathaze.domain.density import TreeDensity
from heathaze.errors import InvalidInput, UnknownFormat
from heathaze.release.release import load

_WARNING = "NOT PRIVATE: these numbers are computed from the raw data. Do not publish them."
_MOVED = "mean distance that mass must move, as a share of the map's longer side"


@reads_file
def compare(
    file: Annotated[Path, Argument(metavar="RELEASE", help="A release: .npz .parquet .geojson or .tif.")],
    truth: Annotated[str, Option("--truth", help="The file of visits from which the release was made.")],
    person: common.Person = None,
    read: Reading = READING,
    time: common.Time = None,
    time_format: common.TimeFormat = "iso",
    time_zone: common.TimeZone = None,
    weight_column: common.WeightColumn = None,
    sigma: Annotated[float, Option("--sigma", help="Blur both maps by this standard deviation, in cells.")] = 0.0,
    picture: Annotated[
        Path | None, Option("--out", "-o", help="Also draw truth and release side by side (.png): not private.")
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace an output file that exists.")] = False,
    engine: common.Engine = "duckdb",
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
        check_new(picture, truth, overwrite=overwrite)
    how = release.provenance
    columns = read.arguments() | {"time": time, "time_format": time_format, "time_zone": time_zone}
    columns |= {"weight": how.weight, "weight_column": weight_column, "at_most": how.at_most}
    counts = count(truth, release.grid, person=person, **columns, unit=unit, engine=engine)
    true = TreeDensity.from_mass(release.grid, [release.grid.depth] * len(counts.codes), counts.codes, counts.mass)
    shape = (min(256, release.grid.rows), min(256, release.grid.cols))
    ours, theirs = release.render(shape=shape).smooth(sigma), true.render(shape=shape).smooth(sigma)
    measured = {
        "similarity": (metrics.similarity(ours, theirs), "1 is equal, 0 is disjoint"),
        "pearson": (metrics.pearson(ours, theirs), "1 is equal"),
        "kl": (metrics.kl(theirs, ours), "0 is equal"),
        "total_variation": (metrics.total_variation(ours, theirs), "0 is equal, 1 is disjoint"),
        "emd": (float(metrics.emd(ours, theirs)), _MOVED),
    }
    if picture is not None:
        from heathaze.maps.figure import draw

        panels = [("truth (NOT PRIVATE)", theirs), ("release", ours)]
        draw(panels, caption=f"{_WARNING} {release.guarantee.short}", path=picture)
    if json:
        numbers = {name: value for name, (value, _) in measured.items()}
        say_json({"warning": _WARNING, "private": False, "metrics": numbers})
        return
    out.print(_WARNING, style="bold red")  # on standard output, like the numbers, so that both stay together
    for name, (value, meaning) in measured.items():
        out.print(f"{name:16s} {value:8.4f}  {meaning}")
    if picture is not None:
        say_written([picture])
