"""``heathaze journeys``: turn a file of journeys into made-up journeys that may be published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from heathaze.cli import common
from heathaze.cli.common import Json, Quiet, check_place, err, out, say_json, say_ledger, say_written, steps
from heathaze.cli.ledger import open_existing
from heathaze.cli.reading import READING, Reading, reads_file
from heathaze.errors import InvalidInput

PANELS = {
    "What every set of journeys needs": ("lon", "lat", "person", "trip", "time", "epsilon", "output"),
    "Where and when: the frame of the journeys": ("x", "y", "squares", "hours"),
    "Who: what is protected together": ("unit", "ledger", "label"),
    "What: the file of journeys": (
        "pause", "lon_column", "lat_column", "x_column", "y_column", "only", "format", "encoding", "separator",
        "decimal", "layer",
    ),
    "Output": ("number", "speed", "picture", "beside_truth", "title", "source", "overwrite", "json", "quiet"),
}  # fmt: skip
"""The groups of options in the help, in their order."""


@reads_file
def journeys(
    file: Annotated[
        str, Argument(help="Positions, one per row: .csv .tsv .parquet .jsonl .geojson .geoparquet .gpkg .gpx .shp.")
    ],
    time: Annotated[str, Option("--time", help="Column with the time, or a number that orders a journey's positions.")],
    epsilon: Annotated[float, Option("--epsilon", help="Privacy loss of this release; smaller is more private.")],
    output: Annotated[list[Path], Option("--out", "-o", help="Where to write: .parquet .geojsonl .gpx; repeatable.")],
    lon: common.Lon = None,
    lat: common.Lat = None,
    x: common.X = None,
    y: common.Y = None,
    squares: Annotated[
        int,
        Option(
            "--squares",
            help="Squares along each side of the grid on which journeys are counted and made up: 8, 16, 32 or 64.",
        ),
    ] = 64,
    person: Annotated[str | None, Option("--person", help="Column that says whose journey a row is.")] = None,
    trip: Annotated[str | None, Option("--trip", help="Column that says which journey a row is part of.")] = None,
    pause: Annotated[
        float | None, Option("--pause", help="A journey ends before a gap of more than this many seconds.")
    ] = None,
    unit: Annotated[
        str,
        Option("--unit", help="What is protected: person, or trip (the losses of a person's journeys then add up)."),
    ] = "person",
    number: Annotated[
        int | None,
        Option(
            "--number", help="Number of journeys to make up.", show_default="noisy number of units, at most 100,000"
        ),
    ] = None,
    hours: Annotated[
        bool, Option("--hours", help="Measure the hours in which journeys begin, so that made-up journeys have times.")
    ] = False,
    speed: Annotated[float, Option("--speed", help="Speed of made-up journeys in metres per second; public.")] = 4.0,
    read: Reading = READING,
    ledger: Annotated[Path | None, Option("--ledger", help="Charge this ledger (see `heathaze ledger open`).")] = None,
    label: Annotated[str, Option("--label", help="A text for the ledger's entry.")] = "",
    picture: common.JourneysPicture = None,
    beside_truth: Annotated[
        bool,
        Option("--beside-truth", help="Draw the true journeys beside the made-up ones. Such a picture is not private."),
    ] = False,
    title: common.JourneysTitle = "",
    source: common.Source = "",
    overwrite: Annotated[bool, Option("--overwrite", help="Replace output files that exist.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn a file of journeys into made-up journeys that may be published.

    Example: heathaze journeys rides.parquet --lon 9.90 10.10 --lat 53.50 53.62 --person user --trip ride --time time
    --epsilon 1 --out made-up.parquet
    """
    from heathaze.ingest.journeys import read_journeys
    from heathaze.trajectories.figure import check_drawable, draw
    from heathaze.trajectories.journey_files import check_ending
    from heathaze.trajectories.journey_trees import JourneyTrees
    from heathaze.trajectories.made_up import check_speed
    from heathaze.trajectories.publishing import publish

    # Everything that can be refused is refused before the data is read and before anything is paid.
    grid = common.grid_from(lon, lat, x, y, None, None, "equirectangular")
    mechanism = JourneyTrees(grid, epsilon, squares, hours=hours)
    check_speed(speed)
    columns = read.arguments()
    if person is None and unit != "trip":
        raise InvalidInput(
            "No person column was named. Give --person COLUMN, which says whose journey a row is; or --unit trip, "
            "which protects single journeys (a person with many journeys is then protected less)."
        )
    if beside_truth and picture is None:
        raise InvalidInput("--beside-truth draws a picture; say where: --picture FILE.png.")
    for path in output:
        check_ending(path, grid)
        check_place(path, file, ledger, overwrite=overwrite)
    if picture is not None:
        check_drawable(picture, beside_truth=beside_truth)
        check_place(picture, file, ledger, overwrite=overwrite)
    budget = None if ledger is None else open_existing(ledger)
    with steps(3, silent=quiet or json) as begin:
        begin("Reading")
        secret = read_journeys(file, grid, person=person, trip=trip, time=time, pause=pause, unit=unit, **columns)
        begin("Paying, drawing noise and making up journeys")
        made = publish(mechanism, secret, number=number, speed=speed, ledger=budget, label=label)
        for caution in (made.caution, made.caution_about_hours):
            if caution:
                err.print(caution)
        begin("Writing")
        written = [made.save(path) for path in output]
        if picture is not None:
            truth = secret.lines if beside_truth else None
            written.append(draw(made, picture, truth=truth, title=title, source=source))
    if json:
        fields = {"journeys": len(made.lines), "guarantee": made.guarantee.to_dict()}
        fields |= {"caution": made.caution, "caution_about_hours": made.caution_about_hours}
        say_json(fields | {"provenance": made.provenance.to_dict(), "written": [str(path) for path in written]})
        return
    if quiet:
        return
    out.print(str(made.guarantee))
    say_ledger(budget)
    out.print(f"{len(made.lines):,} journey{'s' if len(made.lines) > 1 else ''} made up.")
    say_written(written)
