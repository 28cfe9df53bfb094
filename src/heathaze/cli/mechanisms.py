"""``heathaze mechanisms``: what there is to choose from, and each one's page."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

import typer

from heathaze.cli.console import Json, out, say_json
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.mechanisms.central import Dense, Flat, FlatTop, Pyramid
from heathaze.mechanisms.protocols import Mechanism

_PURPOSES = {
    "pyramid": "few people or few places, any resolution; the default; --w nodes kept a level",
    "dense": "many people, spread out; needs --people, a public guess of how many; the default where that is given",
    "flat": "noise on every cell; a baseline",
    "flat-top": "noise on every cell, the largest kept; needs --share; a baseline",
}


def build(
    name: str | None, grid: Grid, epsilon: float, *, people: int | None, share: float | None, w: int | None
) -> Mechanism:
    """A mechanism by its name and options on the command line."""
    name = (name or ("pyramid" if people is None else "dense")).lower().replace("_", "-")
    if name not in _PURPOSES:
        raise InvalidInput(f"There is no mechanism {name!r}; choose one of {', '.join(_PURPOSES)}.")
    if (people is not None) != (name == "dense"):
        raise InvalidInput("--people (about how many people you expect) and --mechanism dense go together.")
    if (share is not None) != (name == "flat-top"):
        raise InvalidInput("--share (the fraction of cells to keep) and --mechanism flat-top go together.")
    if w is not None and name != "pyramid":
        raise InvalidInput("--w goes with --mechanism pyramid: how many nodes to keep a level.")
    if people is not None:
        return Dense(grid, epsilon, people=people)
    if share is not None:
        return FlatTop(grid, epsilon, share=share)
    if name == "flat":
        return Flat(grid, epsilon)
    return Pyramid(grid, epsilon) if w is None else Pyramid(grid, epsilon, w=w)


def mechanisms(
    name: Annotated[str | None, typer.Argument(help="Print this mechanism's page.")] = None,
    json: Json = False,
) -> None:
    """List the mechanisms, or print the page of one: its promise, proof, cost and departures from the paper."""
    if name is not None:
        name = name.lower().replace("_", "-")
        if name not in _PURPOSES:
            raise InvalidInput(f"There is no mechanism {name!r}; choose one of {', '.join(_PURPOSES)}.")
        page = (files("heathaze.mechanisms.central") / f"{name.replace('-', '_')}.md").read_text(encoding="utf-8")
        if json:
            say_json({"name": name, "trust": "central", "page": page})
            return
        from rich.markdown import Markdown

        out.print(Markdown(page) if out.is_terminal else page, markup=False, soft_wrap=False)
        return
    if json:
        say_json({"mechanisms": [{"name": key, "trust": "central", "for": use} for key, use in _PURPOSES.items()]})
        return
    from rich.table import Table

    table = Table("name", "trust", "for", box=None, pad_edge=False)
    for key, use in _PURPOSES.items():
        table.add_row(key, "central", use)
    out.print(table)
    out.print(
        "`heathaze mechanisms NAME` prints a page: promise, proof, cost, departures from the paper.", markup=False
    )
