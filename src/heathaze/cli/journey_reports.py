"""Reports about journeys on the command line: what ``heathaze randomize`` and ``heathaze estimate`` do with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heathaze.cli.common import (
    check_place,
    check_somewhere,
    complain,
    err,
    load_reports,
    out,
    save_reports,
    say_json,
    say_written,
    steps,
)
from heathaze.cli.ledger import open_existing
from heathaze.cli.mechanisms import build_journeys
from heathaze.errors import InvalidInput, UnreadableData

if TYPE_CHECKING:
    from heathaze.domain.grid import Grid
    from heathaze.trajectories.reports import JourneyReports


def randomize_journeys(
    file: str,
    grid: Grid,
    epsilon: float,
    output: Path,
    *,
    mechanism: str | None,
    squares: int | None,
    person: str | None,
    trip: str | None,
    time: str,
    pause: float | None,
    unit: str | None,
    ledger: Path | None,
    columns: Mapping[str, Any],
    json: bool,
    quiet: bool,
) -> None:
    """Read journeys, and write one report for each person; or for each journey, with the unit "trip"."""
    from heathaze.ingest.journeys import read_journeys
    from heathaze.trajectories.device import Device, randomize
    from heathaze.trajectories.mechanism import promise

    chosen = build_journeys(mechanism, grid, epsilon, squares=squares)
    if unit not in (None, "person", "trip"):
        raise InvalidInput(f"There is no unit {unit!r} for reports about journeys; choose 'person' or 'trip'.")
    if person is None and unit != "trip" and ledger is None:
        raise InvalidInput(
            "No person column was named. Give --person COLUMN, which says whose journey a row is; or --unit trip, "
            "which makes every journey a report (a person with many journeys is then protected less)."
        )
    # A person outside the map also sends a report. A missing report would reveal that the person is not on the map.
    read: dict[str, Any] = {"trip": trip, "time": time, "pause": pause, "outside": True, **columns}
    if ledger is None:
        secret = read_journeys(file, grid, person=person, unit=unit or "person", **read)
        check_somewhere(grid, secret.lines.x, secret.lines.y, several=unit != "trip" and secret.units > 1)
        reports = randomize(chosen, secret.lines, secret.owner if (unit or "person") == "person" else None)
    else:
        # The file is that of one person's device, and all journeys in it are this person's.
        budget = open_existing(ledger)
        secret = read_journeys(file, grid, person=person, unit="trip" if person is None else "person", **read)
        if person is not None and secret.units > 1:
            raise InvalidInput(
                "With --ledger the file must hold the journeys of one person, and this file has several people. "
                "Nothing was charged and nothing reported."
            )
        reports = Device(chosen, ledger=budget).randomize(secret.lines)
    save_reports(reports, promise(chosen, reports.unit), output, json=json, quiet=quiet)


def are_journeys(path: Path) -> bool:
    """Whether a file begins with reports about journeys; False for a file that cannot be read."""
    from heathaze.local.chunks import unpack_chunks

    try:
        next(unpack_chunks(path, journeys=True))
    except UnreadableData:
        return False
    return True


def estimate_journeys(
    files: list[Path],
    outputs: list[Path],
    *,
    number: int | None,
    picture: Path | None,
    title: str,
    source: str,
    wanted: str | None,
    overwrite: bool,
    json: bool,
    quiet: bool,
) -> bool:
    """Generate made-up journeys from files of reports; return whether all files were used."""
    from heathaze.trajectories.estimate import estimate
    from heathaze.trajectories.figure import check_drawable, draw
    from heathaze.trajectories.journey_files import check_ending

    if picture is not None:
        check_drawable(picture, beside_truth=False)
    if not outputs:
        raise InvalidInput("Say where the journeys go: --out made-up.parquet; or .geojsonl, or .gpx.")
    for path in outputs:
        if path.suffix.lower() in (".html", ".png"):
            raise InvalidInput(
                f"{path} would be a picture of journeys; give it as --picture {path}, and a file of journeys as --out "
                "made-up.parquet."
            )
    with steps(3, silent=quiet or json) as begin:
        begin("Reading reports")
        reports, refused = _joined(files, wanted)
        for path in outputs:
            check_ending(path, reports.mechanism.grid)
        for path in [*outputs, *([] if picture is None else [picture])]:
            for file in files:
                check_place(path, file, overwrite=overwrite)
        begin("Estimating and making up journeys")
        made = estimate(reports, number=number)
        if made.caution:
            err.print(made.caution)
        begin("Writing")
        written = [made.save(path) for path in outputs]
        if picture is not None:
            written.append(draw(made, picture, title=title, source=source))
    if json:
        fields = {"journeys": len(made.lines), "reports": len(reports), "refused": refused, "caution": made.caution}
        about = {"guarantee": made.guarantee.to_dict(), "provenance": made.provenance.to_dict()}
        say_json({**fields, **about, "written": [str(path) for path in written]})
    elif not quiet:
        out.print(str(made.guarantee))
        out.print(f"{len(reports):,} reports counted, {len(made.lines):,} journeys made up.")
        say_written(written)
    return not refused


def _joined(files: list[Path], wanted: str | None) -> tuple[JourneyReports, list[str]]:
    """Join the reports of all usable files; print a sentence for each other file, and return their names."""
    from heathaze.trajectories.estimate import read_reports
    from heathaze.trajectories.reports import Joining

    loaded, refused = load_reports(files, read_reports, wanted)
    joining = Joining()
    for path, more in loaded.items():
        try:
            joining.add(more)
        except InvalidInput as problem:
            complain(f"{path}: {problem} Left out.")
            refused.append(str(path))
    if not loaded:
        raise UnreadableData("No file of reports could be used, so there are no journeys.")
    return joining.joined(), refused
