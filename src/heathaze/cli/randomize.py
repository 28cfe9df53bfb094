"""``heathaze randomize``: turn positions into private reports, on the device that holds the positions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from heathaze.cli import common
from heathaze.cli.common import Json, Quiet, check_place, save_reports
from heathaze.cli.journey_reports import randomize_journeys
from heathaze.cli.ledger import open_existing
from heathaze.cli.mechanisms import LOCAL_DEFAULT, build_local
from heathaze.cli.reading import READING, Reading, reads_file
from heathaze.errors import InvalidInput
from heathaze.local.device import Device
from heathaze.local.device import randomize as on_device
from heathaze.local.mechanism import promise


@reads_file
def randomize(
    epsilon: Annotated[float, Option("--epsilon", help="Privacy loss of one report; smaller is more private.")],
    output: Annotated[Path, Option("--out", "-o", help="Where to write the reports, for example my.reports.")],
    file: Annotated[
        str | None,
        Argument(metavar="POINTS", help="Positions: .csv, .csv.gz, .parquet or .jsonl, one position per row."),
    ] = None,
    lon: common.Lon = None,
    lat: common.Lat = None,
    x: common.X = None,
    y: common.Y = None,
    size: common.Size = None,
    shape: common.Shape = None,
    projection: common.Projection = "equirectangular",
    person: Annotated[
        str | None, Option("--person", help="Column that says whose position a row is; each person sends one report.")
    ] = None,
    unit: Annotated[
        str | None,
        Option(
            "--unit",
            help="visit (or trip): every row (or journey) is a report, and the losses of a person's reports add up.",
        ),
    ] = None,
    time: Annotated[
        str | None, Option("--time", help="Column of times: report journeys, not positions; with --trip or --pause.")
    ] = None,
    trip: Annotated[str | None, Option("--trip", help="Column that says which journey a row is part of.")] = None,
    pause: Annotated[
        float | None, Option("--pause", help="A journey ends before a gap of more than this many seconds.")
    ] = None,
    squares: Annotated[
        int | None,
        Option(
            "--squares",
            help="For journeys: squares along each side of their grid; local-journeys takes 16, 32 or 64.",
            show_default="64; other mechanisms: 6",
        ),
    ] = None,
    read: Reading = READING,
    mechanism: Annotated[
        str | None, Option("--mechanism", help="See `heathaze mechanisms`.", show_default=LOCAL_DEFAULT)
    ] = None,
    radius: Annotated[
        int | None, Option("--radius", help="Radius of the disc, in cells.", show_default="that of the best map")
    ] = None,
    people: Annotated[
        int | None, Option("--people", help="Public guess of the number of people who report, for mixture.")
    ] = None,
    ledger: Annotated[
        Path | None, Option("--ledger", help="On one person's device: charge the person's own ledger.")
    ] = None,
    memory: Annotated[
        Path | None, Option("--memory", help="On one person's device: keep the report in this file, for --again.")
    ] = None,
    again: Annotated[
        bool, Option("--again", help="Send the report in --memory again: costs no budget, reads no position.")
    ] = False,
    far: Annotated[
        bool, Option("--far", help="On one person's device: report a position far outside the map as the nearest cell.")
    ] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the output if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn positions into private reports on the device; `heathaze estimate` makes a map from many reports.

    With --time, a report is about a journey, and `heathaze estimate` makes up journeys.

    Example: heathaze randomize visits.parquet --lon -74.10 -73.78 --lat 40.58 40.90 --size 64 --person user_id
    --epsilon 3.5 --out nyc.reports
    """
    from heathaze.ingest.positions import positions

    if time is not None:
        if file is None or again or memory is not None or far or radius is not None or people is not None:
            raise InvalidInput(
                "Reports about journeys (--time) need a file, and have no --memory, --again, --far, --radius and "
                "--people; leave these out."
            )
        if size is not None or shape is not None:
            raise InvalidInput("Journeys have no cells; say --squares instead of --size or --shape.")
        check_place(output, file, ledger, memory, overwrite=overwrite)
        randomize_journeys(
            file, common.grid_from(lon, lat, x, y, None, None, projection), epsilon, output, mechanism=mechanism,
            squares=squares, person=person, trip=trip, time=time, pause=pause, unit=unit, ledger=ledger,
            columns=read.arguments(), json=json, quiet=quiet,
        )  # fmt: skip
        return
    if trip is not None or pause is not None or squares is not None:
        raise InvalidInput(
            "--trip, --pause and --squares belong to journeys, which need --time COLUMN; leave them out for a map."
        )
    grid = common.grid_from(lon, lat, x, y, size, shape, projection)
    chosen = build_local(mechanism, grid, epsilon, radius=radius, people=people)
    check_place(output, file, ledger, memory, overwrite=overwrite)
    on_one_device = ledger is not None or memory is not None
    if again:
        if memory is None:
            raise InvalidInput("--again needs --memory FILE, the file that keeps the earlier report.")
        reports = Device(chosen, memory=memory).again()
        save_reports(reports, promise(reports.mechanism, reports.unit), output, json=json, quiet=quiet)
        return
    if file is None:
        raise InvalidInput(
            "Say which positions to randomise: heathaze randomize POINTS …; or --again to repeat a report."
        )
    whose = None if on_one_device else _whose(person, unit)
    found = positions(file, chosen.grid, person=whose, **read.arguments())
    if not on_one_device:
        common.check_somewhere(chosen.grid, found[:, 0], found[:, 1], several=len(found) > 1)
        reports = on_device(chosen, found, unit="visit" if whose is None else "person")
    elif len(found) != 1:
        raise InvalidInput(
            "With --ledger or --memory the file must hold one position of one person, and this file has several; give "
            "a file with one row. Nothing was charged and nothing reported."
        )
    else:
        budget = None if ledger is None else open_existing(ledger)
        reports = Device(chosen, ledger=budget, memory=memory).randomize(found[0], far=far)
    save_reports(reports, promise(reports.mechanism, reports.unit), output, json=json, quiet=quiet)


def _whose(person: str | None, unit: str | None) -> str | None:
    """Check the options --person and --unit of reports; return the person column, or None if every row is a report."""
    if unit not in (None, "person", "visit"):
        raise InvalidInput(f"There is no unit {unit!r} for reports; choose 'person' (with --person COLUMN) or 'visit'.")
    if unit == "visit" and person is not None:
        raise InvalidInput(
            "--unit visit makes every row a report, but --person makes one row of each person a report; "
            "give only one of the two."
        )
    return common.person_from(person, unit)
