"""``heathaze look``: look at a file of visits and propose the command that publishes it."""

from __future__ import annotations

import shlex
from typing import Annotated

from typer import Argument

from heathaze.cli.common import Json, out, say_json, say_table
from heathaze.ingest.look import Look
from heathaze.ingest.look import look as look_at

_WARNING = (
    "FOR YOUR EYES ONLY: these are guesses from the first rows of the data. Check them, and do not publish this text."
)
_MEANINGS = {
    "lon": "longitude, or x",
    "lat": "latitude, or y",
    "person": "whose visit a row is",
    "time": "when (for --unit person-day)",
    "weight": "a weight (for --weight-column)",
}


def look(
    file: Annotated[str, Argument(metavar="FILE", help="A file of visits, or a pattern in quotes.")], json: Json = False
) -> None:
    """Look at a file of visits and propose the command that publishes it. For your eyes only.

    Example: heathaze look visits.csv
    """
    found = look_at(file)
    command = _command(file, found)
    if json:
        say_json({"warning": _WARNING, "private": False, **vars(found), "command": command})
        return
    out.print(_WARNING, style="bold red")
    dialect = ", ".join(f"{name} {value}" for name, value in found.options.items())
    out.print(f"Format: {found.format}" + (f" ({dialect})" if dialect else ""))
    roles = {column: _MEANINGS[role] for role, column in found.roles.items()}
    rows = [{"name": name, "role": roles.get(name, "")} for name in found.columns]
    say_table({"column": "{name}", "probably": "{role}"}, rows)
    for note in found.notes:
        out.print(note)
    out.print("Choose the bounds from a map, not from the data: WEST EAST SOUTH NORTH would reveal extreme positions.")
    out.print(command, style="bold", soft_wrap=True)


def _command(file: str, found: Look) -> str:
    """Write the command that publishes the file, with words in capitals where the curator must choose."""
    words = ["heathaze", "publish", shlex.quote(file), "--lon WEST EAST --lat SOUTH NORTH"]
    words.append(f"--person {shlex.quote(found.roles.get('person', 'COLUMN'))} --epsilon 1")
    columns = {role: found.roles.get(role, "COLUMN") for role in ("lon", "lat")}
    words += [f"--{role}-column {shlex.quote(name)}" for role, name in columns.items() if name != role]
    # Times are read only for the unit person-day.
    words += [f"--{name} {shlex.quote(value)}" for name, value in found.options.items() if name != "time-format"]
    return " ".join([*words, "--out map.html"])
