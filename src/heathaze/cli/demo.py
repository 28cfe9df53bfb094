"""``heathaze demo``: make a synthetic city with its geography, publish it, and draw the map in light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from heathaze.cli.common import Json, Quiet, say_guarantee, say_json, say_written, steps
from heathaze.errors import CannotWrite


def demo(
    folder: Annotated[Path, Option("--out", "-o", help="Folder to write into.")] = Path("demo"),
    epsilon: Annotated[float, Option("--epsilon", help="Privacy loss of the release.")] = 1.0,
    people: Annotated[int, Option("--people", help="Number of synthetic people.")] = 20_000,
    visits: Annotated[int, Option("--visits", help="Number of synthetic visits.")] = 200_000,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a synthetic city, publish it, and draw the map as pictures and pages."""
    from heathaze.central import default
    from heathaze.datasets import rides, write_parquet
    from heathaze.datasets.city import CITY, city
    from heathaze.datasets.geography import city_geography, write_geojson
    from heathaze.domain.grid import Grid
    from heathaze.ingest.count import count
    from heathaze.maps.backdrop_files import read_backdrop
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
        outlines = write_geojson(city_geography(), folder / "outlines.geojson")
        look: dict[str, Any] = {
            "title": "Where people are, in a city that is made up",
            "source": "synthetic people and outlines",
            "backdrop": read_backdrop([outlines], grid),
        }
        written = [
            write_parquet(table, folder / "visits.parquet"),
            write_parquet(rides(), folder / "rides.parquet"),
            outlines,
            release.save(folder / "city.npz"),
            release.save(folder / "city.png", **look),
            release.save(folder / "city-dark.png", **look, theme="dark"),
            release.save(folder / "city.html", **look),
            release.save(folder / "city-dark.html", **look, theme="dark"),
        ]
    if json:
        say_json(release.to_dict() | {"written": [str(path) for path in written]})
    elif not quiet:
        say_guarantee(release.guarantee)
        say_written(written)
