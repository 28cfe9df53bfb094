"""What the commands share: output on the terminal, common options, and checks of output files.

``heathaze --help`` imports this file, so numpy and the packages that need numpy are imported inside functions.
"""

from __future__ import annotations

import contextlib
import glob
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from rich.console import Console
from typer import Option

from heathaze.errors import CannotWrite, InvalidInput, UnknownFormat, UnreadableData, WeakPrivacy
from heathaze.files import replacing

if TYPE_CHECKING:
    from heathaze.domain.grid import Grid, Interval
    from heathaze.local.reports import ReportSet
    from heathaze.local.tally import Tally
    from heathaze.privacy.guarantee import Guarantee
    from heathaze.privacy.ledger import Ledger
    from heathaze.trajectories.reports import JourneyReports
    from heathaze.types import Floats

Loaded = TypeVar("Loaded", bound="Tally | JourneyReports")

# Sentences are wrapped on a terminal, and stay on one line in files and pipes. Square brackets are printed as they are.
out = Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
err = Console(stderr=True, highlight=False, markup=False, soft_wrap=not sys.stderr.isatty())

# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Json = Annotated[bool, Option("--json", help="Print one JSON object for machines, and nothing else.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]
Lon = Annotated[
    tuple[float, float] | None, Option("--lon", metavar="WEST EAST", help="Longitude bounds of the map, degrees.")
]
Lat = Annotated[
    tuple[float, float] | None, Option("--lat", metavar="SOUTH NORTH", help="Latitude bounds of the map, degrees.")
]
X = Annotated[
    tuple[float, float] | None, Option("--x", metavar="LOW HIGH", help="For a plane (metres, pixels): bounds of x.")
]
Y = Annotated[
    tuple[float, float] | None,
    Option("--y", metavar="LOW HIGH", help="For a plane (metres, pixels): bounds of y; drawn downwards."),
]
Size = Annotated[int | None, Option("--size", help="Cells along each side, 1 to 1048576.", show_default="256")]
Shape = Annotated[
    tuple[int, int] | None, Option("--shape", metavar="ROWS COLS", help="Rows and columns, instead of --size.")
]
Projection = Annotated[str, Option("--projection", help="equirectangular or web-mercator.")]

Person = Annotated[str | None, Option("--person", help="Column that says whose visit a row is.")]
Time = Annotated[str | None, Option("--time", help="Column with the time; needed for --unit person-day.")]
Unit = Annotated[
    str | None, Option("--unit", help="What is protected: person, person-day, trip or visit.", show_default="person")
]
TimeFormat = Annotated[
    str, Option("--time-format", help="iso, seconds or milliseconds (since 1970), or a format such as %d.%m.%Y %H:%M.")
]
TimeZone = Annotated[
    str | None,
    Option("--time-zone", help="Zone in which days begin, such as Europe/Berlin.", show_default="UTC"),
]
WeightColumn = Annotated[
    str | None,
    Option(
        "--weight-column",
        help="Column of numbers, such as seconds spent; a person's weight is divided in proportion to them.",
    ),
]
Title = Annotated[str, Option("--title", help="Title of a picture or page.", show_default="what is counted")]
JourneysTitle = Annotated[str, Option("--title", help="Title of a picture or page.", show_default="Made-up journeys")]
Subtitle = Annotated[str, Option("--subtitle", help="Text below the title.", show_default="how many")]
Source = Annotated[str, Option("--source", help="Source of the data, printed below a picture.")]
Style = Annotated[
    str, Option("--style", help="Style of pictures: squares, glow (for slides), pair or report (for print).")
]
Theme = Annotated[
    str | None, Option("--theme", help="Colours of pictures: light or dark.", show_default="light; glow: dark")
]
Dpi = Annotated[int, Option("--dpi", help="Dots per inch of a .png.")]
Backdrop = Annotated[
    list[Path] | None,
    Option(
        "--backdrop",
        metavar="FILE",
        help="Public outlines and names for pictures and pages: .geojson .gpkg .parquet .shp; repeatable.",
    ),
]
Tiles = Annotated[
    str,
    Option(
        "--tiles",
        metavar="ADDRESS",
        help="For .html: street tiles, as https://…/{z}/{x}/{y}.png; loaded only after the reader agrees.",
    ),
]
JourneysPicture = Annotated[
    Path | None, Option("--picture", help="Draw the made-up journeys: a .png, or a page .html with a time slider.")
]
Engine = Annotated[str, Option("--engine", help="duckdb (built in), or spark for data that one machine cannot hold.")]


def grid_from(
    lon: Interval | None,
    lat: Interval | None,
    x: Interval | None,
    y: Interval | None,
    size: int | None,
    shape: tuple[int, int] | None,
    projection: str,
) -> Grid:
    """Build the grid of the map from options of the command line, never from the data."""
    from heathaze.domain.grid import Grid

    if size is None and shape is None:
        size = 256
    if lon is not None and lat is not None and x is None and y is None:
        return Grid.over(lon=lon, lat=lat, size=size, shape=shape, projection=projection)
    if x is not None and y is not None and lon is None and lat is None:
        return Grid.plane(x=x, y=y, size=size, shape=shape)
    raise InvalidInput(
        "The map has no bounds. Give --lon WEST EAST and --lat SOUTH NORTH in degrees, or --x LOW HIGH and --y LOW "
        "HIGH on a plane. Bounds are never taken from the data, because they would reveal extreme positions."
    )


def person_from(person: str | None, unit: str | None) -> str | None:
    """Check the option for the person column, which may be left out only with ``--unit visit``."""
    if person is None and unit not in ("visit", None):
        raise InvalidInput(f"--unit {unit} needs --person COLUMN, which says whose visit a row is.")
    if person is None and unit is None:
        raise InvalidInput(
            "No person column was named. Give --person COLUMN, which says whose visit a row is; or --unit visit, which "
            "protects single visits (a person with many visits is then protected less)."
        )
    return person


def load_reports(
    files: Iterable[Path], load: Callable[[Path], Loaded], wanted: str | None, *, sort: bool = True
) -> tuple[dict[Path, Loaded], list[str]]:
    """Load files of reports; print a sentence for each file that cannot be used.

    Args:
        files: The files.
        load: How to load one of them.
        wanted: The fingerprint of the parameters that files should have. If None, it is the fingerprint that most
            files have, so that one wrong file cannot decide which parameters are right.
        sort: Whether to put the files with these parameters first.

    Returns:
        The contents of the files that could be loaded, and the names of the files that could not.

    Raises:
        InvalidInput: No file has the parameters that are wanted.
    """
    from heathaze.local.mechanism import fingerprint

    loaded: dict[Path, Loaded] = {}
    refused: list[str] = []
    for path in files:
        try:
            loaded[path] = load(path)
        except InvalidInput as problem:
            complain(f"{problem} Left out." if isinstance(problem, UnreadableData) else f"{path}: {problem} Left out.")
            refused.append(str(path))
    if sort and loaded:
        found = {path: fingerprint(more.mechanism) for path, more in loaded.items()}
        first = wanted or Counter(found.values()).most_common(1)[0][0]
        if first not in found.values():
            raise InvalidInput(f"No file has the parameters {first}.")
        loaded = {path: loaded[path] for path in sorted(loaded, key=lambda path: found[path] != first)}
    return loaded, refused


# ── checks of output files ──────────────────────────────────────────────────────────────────────────────────────────


Inputs = str | Path | None
"""An input file, a pattern of input files, or nothing."""


def check_new(path: Path, *inputs: Inputs, overwrite: bool) -> None:
    """Refuse an output file of an unknown release type, or one that :func:`check_place` refuses."""
    from heathaze.release.formats import check_writable

    check_writable(path)
    check_place(path, *inputs, overwrite=overwrite)


def check_picture(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a picture that is not a PNG, or one that :func:`check_place` refuses. None means no picture."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise UnknownFormat(f"Unknown picture type {path.suffix or path}; expected .png.")
    check_new(path, overwrite=overwrite)


def check_place(path: Path, *inputs: Inputs, overwrite: bool) -> None:
    """Refuse an output file that exists, is an input file, or cannot be written; called before anything is paid.

    Args:
        path: The output file.
        inputs: The input files of the command. The command never replaces them, whatever ``overwrite`` is, because
            raw data would be lost.
        overwrite: Whether a file that exists may be replaced.
    """
    if path.is_dir():
        raise CannotWrite(f"{path} is a directory; name a file to write.")
    if path.exists():
        if any(path.samefile(file) for given in inputs if given is not None for file in _files(given)):
            raise CannotWrite(f"{path} is also an input file; choose another name for the output.")
        if not overwrite:
            raise CannotWrite(f"{path} exists already; choose another name, or add --overwrite.")
    with replacing(path, keep=False):
        pass


def _files(given: str | Path) -> list[str]:
    """List the files that an input names: a file or folder that exists, or all files that match a pattern."""
    return [str(given)] if Path(given).exists() else glob.glob(str(given), recursive=True)


def check_somewhere(grid: Grid, x: Floats, y: Floats, *, several: bool) -> None:
    """Warn if most positions lie outside the map, and refuse if all do: the bounds are probably wrong.

    Without ``several`` the file holds the positions of one person. Such a file is never refused, because the error
    would reveal that the person is not on the map.
    """
    inside = grid.cell_of(x, y)[2]
    if inside.any() and not inside.mean() > 0.5:
        err.print("More than half of the positions lie outside the map and are moved to its border; check the bounds.")
    if several and not inside.any():
        swapped = grid.cell_of(y, x)[2].any()
        hint = "longitude and latitude are probably swapped" if swapped else "check the bounds and the columns"
        raise InvalidInput(f"No position lies inside the map, so all would be moved to its border; {hint}.")


# ── output ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def complain(sentence: str) -> None:
    """Print an error of a command: one red sentence on standard error."""
    err.print(f"heathaze: {sentence}", style="red")


@contextlib.contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Print each warning of Heathaze once, as a sentence on standard error; leave warnings of other packages alone."""
    printed: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, WeakPrivacy):
            usual(message, category, *rest, **more)
        elif str(message) not in printed:
            printed.add(str(message))
            err.print(f"heathaze: warning: {message}", style="yellow")

    with warnings.catch_warnings():
        usual = warnings.showwarning
        warnings.simplefilter("always", WeakPrivacy)
        warnings.showwarning = show
        yield


def say_json(fields: dict[str, Any]) -> None:
    """Print the result of a command as one JSON object on standard output."""
    sys.stdout.write(json.dumps(fields, ensure_ascii=False, indent=2) + "\n")


def say_table(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a table; ``columns`` has the heading of each column and the format of its cells, such as "{share:.2f}"."""
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(cell.format(**row) for cell in columns.values()))
    out.print(table)


def say_guarantee(guarantee: Guarantee) -> None:
    """Print the guarantee as one sentence for everybody, and then in its exact terms."""
    out.print(guarantee.plain)
    if exact := guarantee.exact:
        out.print(exact)


def say_ledger(ledger: Ledger | None) -> None:
    """Print how much of a ledger is spent; without a ledger, print that nothing counts the releases."""
    if ledger is not None:
        out.print(f"Ledger: {float(ledger.spent):g} of {float(ledger.total):g} spent.")
    else:
        err.print(
            "No ledger was named, so nothing counts how often these people are published (--ledger).", style="dim"
        )


def save_reports(reports: ReportSet, guarantee: Guarantee, path: Path, *, json: bool, quiet: bool) -> None:
    """Write reports to a file, and print their guarantee."""
    from heathaze.local.mechanism import fingerprint

    reports.save(path)
    if json:
        made = {"mechanism": type(reports.mechanism).__name__, "parameters": reports.mechanism.parameters()}
        about = {"fingerprint": fingerprint(reports.mechanism), "guarantee": guarantee.to_dict()}
        say_json({"reports": len(reports), **made, **about, "written": [str(path)]})
    elif not quiet:
        out.print(str(guarantee))
        out.print(f"wrote {path}: {len(reports):,} report{'s' if len(reports) > 1 else ''}", style="bold")


def say_written(paths: Iterable[object]) -> None:
    """Print the names of files that a command has written."""
    for path in paths:
        out.print(f"wrote {path}", style="bold")


def advise_backdrop(grid: Grid, written: Iterable[Path]) -> None:
    """Advise the user to give a file of geography if a picture or page shows a place on the globe without any."""
    from heathaze.maps.backdrop import ADVICE, needs_backdrop

    if needs_backdrop(grid) and any(path.suffix.lower() in (".html", ".png", ".svg", ".pdf") for path in written):
        err.print(ADVICE, style="dim")


@contextlib.contextmanager
def steps(total: int, *, silent: bool) -> Iterator[Callable[[str], None]]:
    """Show the progress of a command over a few named steps.

    On a terminal this is a progress bar, which disappears at the end. In a file or pipe, each step that begins after
    two seconds prints a line, so that logs of long runs show progress and short runs print nothing.

    Args:
        total: The number of steps.
        silent: Show nothing.

    Yields:
        A function to call with a step's name when the step begins.
    """
    if silent:
        yield lambda _name: None
        return
    if not err.is_terminal:
        begun = time.monotonic()

        def log(name: str) -> None:
            if time.monotonic() - begun > 2:
                err.print(f"{name} …")

        yield log
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task("", total=total)
        started = False

        def begin(name: str) -> None:
            nonlocal started
            progress.update(task, description=name, advance=1 if started else 0)
            started = True

        yield begin
