"""``heathaze plan``: predict the quality of a map before any data is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from heathaze.cli import common
from heathaze.cli.common import Json, Quiet, check_picture, out, say_json, say_written, steps

if TYPE_CHECKING:
    from heathaze.planning import Plan

_MEANING = (
    "EMD: mean distance that mass must move to turn one map into the other, as a share of the map's longer side (0 is "
    "equal). SIM: share of the mass that both maps have in common (1 is equal). Both compare heat maps blurred by 1/64 "
    "of the side (compare --sigma 4 on 256 cells). Signal: the smallest size of squares at which at most a quarter of "
    "the mass lies in a wrong square. In brackets: 10 % and 90 % quantiles over the cities."
)


def plan(
    epsilon: Annotated[float, Option("--epsilon", help="Privacy loss of the planned release.")],
    people: Annotated[int, Option("--people", help="A public guess of the number of people.")],
    lon: common.Lon = None,
    lat: common.Lat = None,
    x: common.X = None,
    y: common.Y = None,
    size: common.Size = None,
    shape: common.Shape = None,
    projection: common.Projection = "equirectangular",
    cities: Annotated[
        int | None,
        Option("--cities", help="Number of synthetic cities; more give a better prediction.", show_default="5"),
    ] = None,
    picture: Annotated[Path | None, Option("--out", "-o", help="Also draw EMD and SIM against epsilon (.png).")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the picture if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict the quality of a map from synthetic cities. No data is read and nothing is charged.

    This takes about a minute for 20,000 people; fewer --cities are quicker.

    Example: heathaze plan --lon -74.10 -73.78 --lat 40.58 40.90 --people 20000 --epsilon 1 --out plan.png
    """
    from heathaze.planning import plan as rehearse

    grid = common.grid_from(lon, lat, x, y, size, shape, projection)
    check_picture(picture, overwrite=overwrite)
    with steps(5 if cities is None else cities, silent=quiet or json) as begin:

        def progress(city: int, of: int) -> None:
            begin(f"Trying it on synthetic city {city} of {of}")

        found = rehearse(grid, epsilon, people, cities=cities, progress=progress)
        if picture is not None:
            _draw(found, picture)
    if json:
        say_json(found.to_dict() | ({} if picture is None else {"written": [str(picture)]}))
    elif not quiet:
        _tell(found, picture)


def _tell(found: Plan, picture: Path | None) -> None:
    from rich.table import Table

    table = Table("", "ε", "EMD", "SIM", "signal down to", box=None, pad_edge=False)
    for row in found.rows:
        asked = row == found.row
        table.add_row(
            "→" if asked else "",
            f"{row.epsilon:g}",
            f"{row.emd:.4f} ({row.emd_low:.4f} to {row.emd_high:.4f})",
            f"{row.sim:.2f} ({row.sim_low:.2f} to {row.sim_high:.2f})",
            row.signal if row.level else "nothing",
            style="bold" if asked else None,
        )
    out.print(table)
    out.print(str(found.row), style="bold")
    if found.words:
        out.print(found.words)
    out.print(_MEANING, style="dim")
    say_written(filter(None, [picture]))


def _draw(found: Plan, path: Path) -> None:
    from heathaze.maps.figure import Curve, draw_plan

    rows = found.rows
    draw_plan(
        [row.epsilon for row in rows],
        Curve([row.emd for row in rows], [row.emd_low for row in rows], [row.emd_high for row in rows]),
        Curve([row.sim for row in rows], [row.sim_low for row in rows], [row.sim_high for row in rows]),
        marked=found.epsilon,
        title=f"What to expect for about {found.people:,} people",
        caption=f"{found.row} {found.words} Simulated on {found.cities} synthetic cities; no data was read.",
        path=path,
    )
