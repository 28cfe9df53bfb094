"""``heathaze publish``: turn a file of visits into a private map."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from heathaze.cli import common
from heathaze.cli.common import (
    Json,
    Quiet,
    check_new,
    complain,
    out,
    say_guarantee,
    say_json,
    say_ledger,
    say_written,
    steps,
)
from heathaze.cli.ledger import open_existing
from heathaze.cli.mechanisms import DEFAULT, build
from heathaze.cli.reading import READING, Reading, reads_file
from heathaze.errors import CannotWrite
from heathaze.maps.backdrop_files import read_backdrop
from heathaze.maps.page import check_tiles
from heathaze.maps.sheet import Look
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.ledger import Ledger
from heathaze.release.release import Release

if TYPE_CHECKING:
    from heathaze.planning import PlanRow

_MANY = 100_000
"""If people · ε is at least this, each simulated city takes seconds and cities differ little, so two are simulated."""


PANELS = {
    "The five that every map needs": ("lon", "lat", "person", "epsilon", "output"),
    "Where: the frame of the map": ("x", "y", "size", "shape", "projection"),
    "Who: whose visits are protected together": ("unit", "at_most", "weight", "weight_column", "ledger", "label"),
    "What: the file of visits": (
        "lon_column", "lat_column", "x_column", "y_column", "time", "time_format", "time_zone", "only", "format",
        "encoding", "separator", "decimal", "layer", "engine",
    ),
    "How: the mechanism": ("mechanism", "people", "w", "share"),
    "Output": (
        "title", "subtitle", "source", "backdrop", "tiles", "style", "theme", "dpi", "overwrite", "with_plan",
        "json", "quiet",
    ),
}  # fmt: skip
"""The groups of options in the help, in their order."""


@reads_file
def publish(
    file: Annotated[
        str, Argument(help="Visits, one per row: .csv .tsv .parquet .jsonl .geojson .geoparquet .gpkg .gpx .shp.")
    ],
    epsilon: Annotated[float, Option("--epsilon", help="Privacy loss of this release; smaller is more private.")],
    output: Annotated[
        list[Path],
        Option(
            "--out", "-o", help="Where to write: .html .png .svg .pdf .tif .geojson .gpkg .parquet .npz; repeatable."
        ),
    ],
    lon: common.Lon = None,
    lat: common.Lat = None,
    x: common.X = None,
    y: common.Y = None,
    size: common.Size = None,
    shape: common.Shape = None,
    projection: common.Projection = "equirectangular",
    person: common.Person = None,
    unit: common.Unit = None,
    at_most: Annotated[
        int | None, Option("--at-most", help="Keep at most this many different cells per person.", show_default="all")
    ] = None,
    weight: Annotated[
        str,
        Option("--weight", help="share: a person's visits sum to 1. presence: 1 per distinct cell (needs --at-most)."),
    ] = "share",
    read: Reading = READING,
    time: common.Time = None,
    time_format: common.TimeFormat = "iso",
    time_zone: common.TimeZone = None,
    weight_column: common.WeightColumn = None,
    people: Annotated[
        int | None,
        Option("--people", help="For dense, uniform-grid and adaptive-grid: a public guess of the number of people."),
    ] = None,
    mechanism: Annotated[
        str | None, Option("--mechanism", help="See `heathaze mechanisms`.", show_default=DEFAULT)
    ] = None,
    w: Annotated[
        int | None, Option("--w", help="For pyramid: number of nodes kept on each level.", show_default="20")
    ] = None,
    share: Annotated[float | None, Option("--share", help="For flat-top: fraction of cells to keep.")] = None,
    engine: common.Engine = "duckdb",
    ledger: Annotated[Path | None, Option("--ledger", help="Charge this ledger (see `heathaze ledger open`).")] = None,
    label: Annotated[str, Option("--label", help="A text for the ledger's entry, such as the name of the map.")] = "",
    with_plan: Annotated[
        bool, Option("--plan", help="Also predict the quality of such a map, from synthetic cities (up to a minute).")
    ] = False,
    title: common.Title = "",
    subtitle: common.Subtitle = "",
    source: common.Source = "",
    style: common.Style = "squares",
    theme: common.Theme = None,
    dpi: common.Dpi = 150,
    backdrop: common.Backdrop = None,
    tiles: common.Tiles = "",
    overwrite: Annotated[bool, Option("--overwrite", help="Replace output files that exist.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn a file of visits into a private map.

    Example: heathaze publish visits.parquet --lon -74.10 -73.78 --lat 40.58 40.90 --person user_id --epsilon 1 --out
    nyc.html
    """
    from heathaze.ingest.count import count
    from heathaze.publishing import publish as through_the_door

    # Everything that can be refused is refused before the data is read and before anything is paid.
    grid = common.grid_from(lon, lat, x, y, size, shape, projection)
    chosen = build(mechanism, grid, epsilon, people=people, share=share, w=w)
    whose = common.person_from(person, unit)
    columns = read.arguments() | {"time": time, "time_format": time_format, "time_zone": time_zone}
    look: dict[str, Any] = {
        "title": title,
        "subtitle": subtitle,
        "source": source,
        "style": style,
        "theme": theme,
        "dpi": dpi,
        "backdrop": read_backdrop(backdrop, grid) if backdrop else None,
        "tiles": tiles,
    }
    Look(**look)
    check_tiles(tiles, grid)
    for path in output:
        check_new(path, file, ledger, *(backdrop or []), overwrite=overwrite)
    budget = None if ledger is None else open_existing(ledger)

    with_plan = with_plan and not quiet
    with steps(4 if with_plan else 3, silent=quiet or json) as begin:
        begin("Reading and counting")
        columns |= {"weight": weight, "weight_column": weight_column, "at_most": at_most}
        counts = count(file, grid, person=whose, **columns, unit=unit, engine=engine)
        try:
            with _reserved(output, cells=grid.cells):
                begin("Paying and drawing noise")
                release = through_the_door(chosen, counts, ledger=budget, label=label)
            begin("Writing")
            written = _save(release, output, look)
        except KeyboardInterrupt:
            there = ", ".join(str(path) for path in output if path.exists()) or "none"
            complain(
                f"Stopped while publishing: a charge may have been made (look at the ledger); outputs there: {there}."
            )
            raise Exit(130) from None
        # The release is on the disk, so a later error cannot lose it.
        if with_plan:
            begin("Trying it on synthetic cities, to say what to expect")
        expected = _expected(release) if with_plan else None
    _tell(release, written, budget, expected, json=json, quiet=quiet)
    if not (backdrop or json or quiet):
        common.advise_backdrop(grid, written)


@contextlib.contextmanager
def _reserved(paths: list[Path], cells: int) -> Iterator[None]:
    """Reserve disk space for the outputs while the budget is charged: a full disk is noticed before the charge."""
    held: list[str] = []
    try:
        try:
            for path in paths:
                # Pictures and pages have at most 1,024 cells a side, however many the grid has.
                most = 2**20 if path.suffix.lower() in (".png", ".svg", ".pdf", ".html") else 2**24
                bytes_needed = 4 * 2**20 + 24 * min(cells, most)
                descriptor, name = tempfile.mkstemp(prefix=".heathaze-", dir=path.resolve().parent)
                held.append(name)
                with os.fdopen(descriptor, "wb") as file:
                    if hasattr(os, "posix_fallocate"):
                        os.posix_fallocate(file.fileno(), 0, bytes_needed)
        except OSError as error:
            raise CannotWrite(
                f"There is no room for the output ({error.strerror}); {path.name} may need about "
                f"{bytes_needed // 2**20} MB. Nothing was charged."
            ) from None
        yield
    finally:
        for name in held:
            with contextlib.suppress(OSError):
                os.unlink(name)


def _save(release: Release, paths: list[Path], look: Mapping[str, Any]) -> list[Path]:
    """Write the release to every output file; if one fails, keep the paid release in another folder that has room."""
    try:
        return [release.save(path, **look) for path in paths]
    except CannotWrite as error:
        rescue = Path(tempfile.mkdtemp(prefix="heathaze-")) / "release.npz"
        release.save(rescue)
        raise CannotWrite(f"{error} The budget is charged, so the release was kept: {rescue}") from None


def _expected(release: Release) -> PlanRow | None:
    """Predict the quality of a release from its noisy total.

    The result is None if the weight is "presence", because a plan gives each unit the weight 1, or if the plan fails.
    """
    from heathaze import planning

    if release.provenance.weight != "share":
        return None
    try:
        units = min(max(1, round(release.total)), planning.MOST_PEOPLE)
        many = units * release.guarantee.loss.epsilon > _MANY
        return planning.plan(release.grid, release.guarantee.loss.epsilon, units, cities=2 if many else 3, times=()).row
    except (Exception, KeyboardInterrupt):
        # The release is paid for and written; a plan that fails must not make the command fail.
        return None


def _tell(
    release: Release, written: list[Path], budget: Ledger | None, expected: PlanRow | None, *, json: bool, quiet: bool
) -> None:
    units = {Unit.PERSON: "people", Unit.PERSON_DAY: "person-days"}.get(
        release.guarantee.unit, f"{release.guarantee.unit.value}s"
    )
    if json:
        fields: dict[str, Any] = release.to_dict() | {"written": [str(path) for path in written]}
        fields["plan"] = None if expected is None else expected.to_dict() | {"sentence": expected.sentence(units)}
        if budget is not None:
            fields["ledger"] = {"total": str(budget.total), "spent": str(budget.spent)}
        say_json(fields)
        return
    if quiet:
        return
    say_guarantee(release.guarantee)
    out.print(f"About {max(0.0, release.total):,.0f} {units} lie in the map.")
    say_ledger(budget)
    say_written(written)
    if expected is not None:
        usual = release.provenance.mechanism == "AdaptiveTree"
        prefix = "Plan, on synthetic cities: " if usual else "Plan, on synthetic cities with the default mechanism: "
        out.print(prefix + expected.sentence(units))
