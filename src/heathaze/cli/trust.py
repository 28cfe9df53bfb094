"""``heathaze trust``: the same synthetic cities in every model of trust, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from heathaze.cli.common import Json, Quiet, check_picture, out, say_json, say_written, steps


def trust(
    epsilon: Annotated[float, Option("--epsilon", help="Privacy loss if one person's position is replaced.")],
    people: Annotated[int, Option("--people", help="The number of people, from 100 to 200,000.")],
    size: Annotated[int, Option("--size", help="Cells along a side, 8 to 256.")] = 64,
    cities: Annotated[
        int, Option("--cities", help="Number of synthetic cities to average over; more take longer.")
    ] = 5,
    picture: Annotated[Path | None, Option("--out", "-o", help="Also draw the maps and the table (.png).")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the picture if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare maps of synthetic cities in every model of trust. No data is read and nothing is charged.

    Example: heathaze trust --epsilon 1 --people 10000 --out trust.png
    """
    from heathaze.trust import ADJACENCY, HEADINGS, MODELS, compare_trust, draw_trust, table_of

    check_picture(picture, overwrite=overwrite)
    with steps(len(MODELS), silent=quiet or json) as begin:
        rows = compare_trust(
            epsilon, people, size=size, cities=cities, progress=lambda model: begin(f"Making the maps: {model}")
        )
        if picture is not None:
            which = "a synthetic city" if cities == 1 else f"each of {cities} synthetic cities"
            what = f"{people:,} people of {which}, ε = {epsilon:g} (with a shuffler δ = 10⁻⁶)"
            draw_trust(rows, picture, title=f"The price of trust: {what}")
    if json:
        names = ("model", "emd", "coverage", "width", "sent", "trusted")
        found = [{name: getattr(row, name) for name in names} for row in rows]
        say_json({"models": found} | ({} if picture is None else {"written": [str(picture)]}))
    elif not quiet:
        from rich.table import Table

        table = Table(*(heading.replace("\n", " ") for heading in HEADINGS), box=None, pad_edge=False)
        for row in table_of(rows):
            table.add_row(*row)
        out.print(table)
        out.print(ADJACENCY, style="dim")
        say_written(filter(None, [picture]))
