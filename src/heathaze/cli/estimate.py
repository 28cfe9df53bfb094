"""``heathaze estimate``: make a map from files of reports."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from heathaze.cli import common
from heathaze.cli.common import Json, Quiet, check_new, check_place, complain, out, say_json, say_written, steps
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.local.estimate import estimate as from_reports
from heathaze.local.mechanism import fingerprint
from heathaze.local.tally import Tally
from heathaze.maps.backdrop import read_backdrop
from heathaze.maps.mosaic import Look


def estimate(
    files: Annotated[
        list[Path], Argument(metavar="REPORTS…", help="Files of `heathaze randomize`, or tallies saved before.")
    ],
    output: Annotated[
        list[Path] | None,
        Option(
            "--out", "-o", help="Where to write: .html .png .svg .pdf .tif .geojson .gpkg .parquet .npz; repeatable."
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

    A file that cannot be used is named and skipped. The other files are counted, and the exit code is 1.

    Example: heathaze estimate nyc.reports --out nyc.html
    """
    outputs = output or []
    look: dict[str, Any] = {"title": title, "subtitle": subtitle, "source": source, "style": style, "theme": theme}
    Look(**look, dpi=dpi)
    if not outputs and state is None:
        raise InvalidInput("Say where the map goes: --out nyc.html; or --state FILE to keep the tally for later.")
    for path in outputs:
        check_new(path, overwrite=overwrite, source=str(files[0]))
    if state is not None:
        check_place(state, overwrite=True, source=None)
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
            out.print(str(release.guarantee))
        out.print(f"{tally.reports:,} reports counted.")
        say_written(written)
    if refused:
        raise Exit(1)


def _added(tally: Tally | None, files: list[Path], wanted: str | None) -> tuple[Tally | None, list[str]]:
    """Add the reports of all usable files to a tally; print a sentence for each other file, and return their names."""
    loaded, refused = {}, []
    for path in files:
        try:
            loaded[path] = Tally.load(path)
        except UnreadableData as problem:
            complain(f"{problem} Left out.")
            refused.append(str(path))
    parts = [] if tally is None else [tally]
    if tally is None and loaded:
        # The parameters of most files are used, so that one wrong file does not decide.
        kinds = Counter(fingerprint(more.mechanism) for more in loaded.values())
        wanted = wanted or kinds.most_common(1)[0][0]
        loaded = dict(sorted(loaded.items(), key=lambda item: fingerprint(item[1].mechanism) != wanted))
        if fingerprint(next(iter(loaded.values())).mechanism) != wanted:
            raise InvalidInput(f"No file has the parameters {wanted}.")
    if not loaded:
        return tally, refused
    try:
        return Tally.sum([*parts, *loaded.values()]), refused  # at once, which is quick
    except InvalidInput:
        for path, more in loaded.items():
            try:
                tally = more if tally is None else tally + more
            except InvalidInput as problem:
                complain(f"{path}: {problem} Left out.")
                refused.append(str(path))
        return tally, refused
