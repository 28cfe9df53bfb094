"""``heathaze demo``: make a synthetic city, publish it, and draw truth and release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from heathaze.cli.common import Json, Quiet, out, say_json, say_written, steps
from heathaze.errors import CannotWrite


def demo(
    folder: Annotated[Path, Option("--out", "-o", help="Folder to write into.")] = Path("demo"),
    epsilon: Annotated[float, Option("--epsilon", help="Privacy loss of the release.")] = 1.0,
    people: Annotated[int, Option("--people", help="Number of synthetic people.")] = 20_000,
    visits: Annotated[int, Option("--visits", help="Number of synthetic visits.")] = 200_000,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a synthetic city, publish it, and draw truth and release side by side."""
    from heathaze.central import default
    from heathaze.datasets import write_parquet
    from heathaze.datasets.city import CITY, city
    from heathaze.domain.density import Density
    from heathaze.domain.grid import Grid
    from heathaze.ingest.count import count
    from heathaze.maps.figure import draw
    from heathaze.publishing import publish

    grid = Grid.over(lon=CITY.x, lat=CITY.y, size=256)
    mechanism = default(grid, epsilon)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"Cannot create the folder {folder}: {error.strerror}; choose another with --out.") from None
    with steps(4, silent=quiet or json) as begin:
        begin(f"Making a city of {people:,} synthetic people")
        table = city(people, visits)
        begin("Counting, with the same total weight for each person")
        counts = count(table, grid, person="person")
        begin(f"Publishing at epsilon {epsilon:g}")
        release = publish(mechanism, counts)
        begin("Drawing")
        # The people are synthetic, so the truth may be drawn; with real people this picture would not be private.
        truth = Density.from_mass(grid, counts.dense())
        panels = [("truth (synthetic people)", truth.smooth(1.5)), (f"release, ε = {epsilon:g}", release.smooth(1.5))]
        draw(panels, caption=str(release.guarantee), path=folder / "city.png")
        written = [
            write_parquet(table, folder / "visits.parquet"),
            folder / "city.png",
            release.save(folder / "city.html"),
            release.save(folder / "city.npz"),
        ]
    if json:
        say_json(release.to_dict() | {"written": [str(path) for path in written]})
    elif not quiet:
        out.print(str(release.guarantee))
        say_written(written)
