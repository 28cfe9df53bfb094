"""``heathaze mechanisms``: what there is to choose from, and each one's page."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

import typer

from heathaze.cli.console import Json, out, say_json
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.mechanisms.central import (
    AdaptiveGrid,
    Dense,
    Flat,
    FlatTop,
    PrivTree,
    Pyramid,
    UniformGrid,
    default,
)
from heathaze.mechanisms.protocols import Mechanism

_PURPOSES = {
    "adaptive-tree": "any number of people, any resolution; says how sure it is; the default",
    "pyramid": "the paper on central heat maps; few people or few places, any resolution; --w nodes kept a level",
    "priv-tree": "squares split where noisy counts say so, each counted once; a rival",
    "adaptive-grid": "coarse blocks, each cut again by what it holds; --people if you can guess how many; a rival",
    "uniform-grid": "even blocks, as coarse as noise asks for; --people if you can guess how many; a rival",
    "dense": "many people, spread out; one level of squares; needs --people, a public guess of how many",
    "flat": "noise on every cell; a baseline",
    "flat-top": "noise on every cell, the largest kept; needs --share; a baseline",
}

DEFAULT = "adaptive-tree"

_GUESSED = ("dense", "adaptive-grid", "uniform-grid")
"""Those that use a guess of the number of people."""


def build(
    name: str | None, grid: Grid, epsilon: float, *, people: int | None, share: float | None, w: int | None
) -> Mechanism:
    """A mechanism by its name and options on the command line."""
    name = (name or DEFAULT).lower().replace("_", "-")
    if name not in _PURPOSES:
        raise InvalidInput(f"There is no mechanism {name!r}; choose one of {', '.join(_PURPOSES)}.")
    if people is not None and name not in _GUESSED:
        raise InvalidInput(
            f"--people goes with --mechanism {', '.join(_GUESSED[:-1])} or {_GUESSED[-1]}; {name} finds its resolution "
            "without a guess, so leave it out."
        )
    if (share is not None) != (name == "flat-top"):
        raise InvalidInput("--share (the fraction of cells to keep) and --mechanism flat-top go together.")
    if w is not None and name != "pyramid":
        raise InvalidInput("--w goes with --mechanism pyramid: how many nodes to keep a level.")
    if name == "dense":
        if people is None:
            raise InvalidInput("--mechanism dense needs --people N: about how many people you expect, a public guess.")
        return Dense(grid, epsilon, people=people)
    if name == "adaptive-grid":
        return AdaptiveGrid(grid, epsilon, people=people)
    if name == "uniform-grid":
        return UniformGrid(grid, epsilon, people=people)
    if share is not None:
        return FlatTop(grid, epsilon, share=share)
    if name == "flat":
        return Flat(grid, epsilon)
    if name == "priv-tree":
        return PrivTree(grid, epsilon)
    if name == "pyramid":
        return Pyramid(grid, epsilon) if w is None else Pyramid(grid, epsilon, w=w)
    return default(grid, epsilon)


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
