"""``heathaze randomize``: turn positions into private reports, on the device that holds the positions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from heathaze.cli import common
from heathaze.cli.common import Json, Quiet, check_place, err, out, say_json
from heathaze.cli.ledger import open_existing
from heathaze.cli.mechanisms import LOCAL_DEFAULT, build_local
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.local.device import Device
from heathaze.local.device import randomize as on_device
from heathaze.local.mechanism import Estimator, fingerprint, promise
from heathaze.local.reports import Reports
from heathaze.types import Floats


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
        str | None, Option("--unit", help="visit: every row is a report, and a person's reports add up.")
    ] = None,
    lon_column: common.LonColumn = "lon",
    lat_column: common.LatColumn = "lat",
    x_column: common.XColumn = "x",
    y_column: common.YColumn = "y",
    only: common.Only = None,
    format: common.Format = None,
    encoding: common.Encoding = "utf-8",
    separator: common.Separator = None,
    decimal: common.Decimal = "point",
    layer: common.Layer = None,
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

    Example: heathaze randomize visits.parquet --lon -74.10 -73.78 --lat 40.58 40.90 --size 64 --person user_id
    --epsilon 3.5 --out nyc.reports
    """
    from heathaze.ingest.positions import positions

    grid = common.grid_from(lon, lat, x, y, size, shape, projection)
    chosen = build_local(mechanism, grid, epsilon, radius=radius, people=people)
    check_place(output, overwrite=overwrite, source=file)
    on_one_device = ledger is not None or memory is not None
    if again:
        if memory is None:
            raise InvalidInput("--again needs --memory FILE, the file that keeps the earlier report.")
        _tell(Device(chosen, memory=memory).again(), output, json=json, quiet=quiet)
        return
    if file is None:
        raise InvalidInput(
            "Say which positions to randomise: heathaze randomize POINTS …; or --again to repeat a report."
        )
    whose = None if on_one_device else _whose(person, unit)
    written_as = common.file_from(format, encoding, separator, decimal, layer, only)
    columns = {"lon": lon_column, "lat": lat_column, "x": x_column, "y": y_column, **written_as}
    found = positions(file, chosen.grid, person=whose, **columns)
    if not on_one_device:
        _check_somewhere(chosen.grid, found)
        reports = on_device(chosen, found, unit="visit" if whose is None else "person")
    elif len(found) != 1:
        raise InvalidInput(
            "With --ledger or --memory the file must hold one position of one person, and this file has several; give "
            "a file with one row. Nothing was charged and nothing reported."
        )
    else:
        budget = None if ledger is None else open_existing(ledger)
        reports = Device(chosen, ledger=budget, memory=memory).randomize(found[0], far=far)
    _tell(reports, output, json=json, quiet=quiet)


def _whose(person: str | None, unit: str | None) -> str | None:
    """Check the options --person and --unit of reports; return the person column, or None if every row is a report."""
    if unit not in (None, "person", "visit"):
        raise InvalidInput(f"There is no unit {unit!r} for reports; choose 'person' (with --person COLUMN) or 'visit'.")
    if unit == "visit" and person is not None:
        raise InvalidInput("--unit visit makes every row a report, --person one row of each person; leave one out.")
    return common.person_from(person, unit)


def _check_somewhere(grid: Grid, found: Floats) -> None:
    """Warn if most positions lie outside the map, and refuse if all do: the bounds are probably wrong.

    A file of one position is never refused, because the error would reveal that the position lies outside.
    """
    inside = grid.cell_of(found[:, 0], found[:, 1])[2]
    if inside.any() and not inside.mean() > 0.5:
        err.print("More than half of the positions lie outside the map and are moved to its border; check the bounds.")
    if not inside.any() and len(found) > 1:
        swapped = grid.cell_of(found[:, 1], found[:, 0])[2].any()
        hint = "longitude and latitude are probably swapped" if swapped else "check the bounds and the columns"
        raise InvalidInput(f"No position lies inside the map, so all would be moved to its border; {hint}.")


def _tell(reports: Reports, output: Path, *, json: bool, quiet: bool) -> None:
    reports.save(output)
    mechanism: Estimator = reports.mechanism
    guarantee = promise(mechanism, reports.unit)
    if json:
        made = {"mechanism": type(mechanism).__name__, "parameters": mechanism.parameters()}
        about = {"fingerprint": fingerprint(mechanism), "guarantee": guarantee.to_dict(), "written": [str(output)]}
        say_json({"reports": len(reports), **made, **about})
    elif not quiet:
        out.print(str(guarantee))
        out.print(f"wrote {output}: {len(reports):,} report{'s' if len(reports) > 1 else ''}", style="bold")
