"""``heathaze estimate``: make a map from files of reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from heathaze.cli import common
from heathaze.cli.common import (
    Json,
    Quiet,
    check_new,
    check_place,
    complain,
    load_reports,
    out,
    say_guarantee,
    say_json,
    say_written,
    steps,
)
from heathaze.cli.journey_reports import are_journeys, estimate_journeys
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.local.estimate import estimate as from_reports
from heathaze.local.tally import Tally
from heathaze.maps.backdrop_files import read_backdrop
from heathaze.maps.sheet import Look


def estimate(
    files: Annotated[
        list[Path], Argument(metavar="REPORTS…", help="Files of `heathaze randomize`, or tallies saved before.")
    ],
    output: Annotated[
        list[Path] | None,
        Option(
            "--out",
            "-o",
            help="Where to write: .html .png .svg .pdf .tif .geojson .gpkg .parquet .npz; repeatable. "
            "Journeys: .parquet .geojsonl .gpx.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        Option(
            "--state", help="A tally of earlier reports; it is loaded if it exists, and saved with the new reports."
        ),
    ] = None,
    wanted: Annotated[
        str | None,
        Option(
            "--fingerprint",
            help="Count only reports with this fingerprint of their parameters.",
            show_default="the most common",
        ),
    ] = None,
    number: Annotated[
        int | None,
        Option("--number", help="Number of journeys to make up.", show_default="number of reports, at most 100,000"),
    ] = None,
    picture: common.JourneysPicture = None,
    title: common.Title = "",
    subtitle: common.Subtitle = "",
    source: common.Source = "",
    style: common.Style = "squares",
    theme: common.Theme = None,
    dpi: common.Dpi = 150,
    backdrop: common.Backdrop = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace output files that exist.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a map from reports.

    Reports about journeys become made-up journeys.

    A file that cannot be used is named and skipped. The other files are counted, and the exit code is 1.

    Example: heathaze estimate nyc.reports --out nyc.html
    """
    outputs = output or []
    if any(are_journeys(path) for path in files):
        if state is not None:
            raise InvalidInput("Reports about journeys have no tally to keep; leave --state out, and keep the files.")
        about: dict[str, Any] = {
            "number": number,
            "picture": picture,
            "title": title,
            "source": source,
            "wanted": wanted,
            "overwrite": overwrite,
            "json": json,
            "quiet": quiet,
        }
        if not estimate_journeys(files, outputs, **about):
            raise Exit(1)
        return
    if number is not None:
        raise InvalidInput("--number goes with reports about journeys, and these files have none; leave it out.")
    if picture is not None:
        raise InvalidInput(
            "--picture goes with reports about journeys; the picture of a map is an output: --out map.png."
        )
    look: dict[str, Any] = {"title": title, "subtitle": subtitle, "source": source, "style": style, "theme": theme}
    Look(**look, dpi=dpi)
    if not outputs and state is None:
        raise InvalidInput("Say where the map goes: --out nyc.html; or --state FILE to keep the tally for later.")
    for path in outputs:
        check_new(path, *files, *(backdrop or []), overwrite=overwrite)
    if state is not None:
        check_place(state, overwrite=True)
    with steps(3, silent=quiet or json) as begin:
        begin("Tallying reports")
        tally = Tally.load(state) if state is not None and state.exists() else None
        tally, refused = _added(tally, files, wanted)
        if tally is None:
            raise UnreadableData("No file of reports could be used, so there is no map.")
        if state is not None:
            tally.save(state)
        written: list[Path] = [] if state is None else [state]
        if outputs:
            begin("Estimating the map and its uncertainty")
            release = from_reports(tally)
            begin("Writing")
            look["backdrop"] = read_backdrop(backdrop, release.grid) if backdrop else None
            written += [release.save(path, **look, dpi=dpi) for path in outputs]
    if json:
        about = release.to_dict() if outputs else {}
        say_json(about | {"reports": tally.reports, "refused": refused, "written": [str(path) for path in written]})
    elif not quiet:
        if outputs:
            say_guarantee(release.guarantee)
        out.print(f"{tally.reports:,} reports counted.")
        say_written(written)
    if refused:
        raise Exit(1)


def _added(tally: Tally | None, files: list[Path], wanted: str | None) -> tuple[Tally | None, list[str]]:
    """Add the reports of all usable files to a tally; print a sentence for each other file, and return their names."""
    loaded, refused = load_reports(files, Tally.load, wanted, sort=tally is None)
    parts = [] if tally is None else [tally]
    if not loaded:
        return tally, refused
    try:
        return Tally.sum([*parts, *loaded.values()]), refused  # one call is quicker than adding in pairs
    except InvalidInput:
        for path, more in loaded.items():
            try:
                tally = more if tally is None else tally + more
            except InvalidInput as problem:
                complain(f"{path}: {problem} Left out.")
                refused.append(str(path))
        return tally, refused
