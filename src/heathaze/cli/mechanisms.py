"""``heathaze mechanisms``: what there is to choose from, and each one's page."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import Annotated

import typer

from heathaze.central import AdaptiveGrid, Dense, Flat, FlatTop, PrivTree, Pyramid, UniformGrid, default
from heathaze.central.mechanism import Mechanism
from heathaze.cli.console import Json, out, say_json
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.local import (
    DiskArea,
    HybridUniformExponential,
    LocalHashing,
    PlanarLaplace,
    RandomizedResponse,
    SquareWave2D,
    SubsetExponential,
    UnaryEncoding,
)
from heathaze.local.mechanism import Estimator

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

_LOCAL = {
    "disk-area": (
        DiskArea,
        "a cell of a disc around the true one; --radius; the paper on the local model; the default",
    ),
    "hybrid-uniform-exponential": (HybridUniformExponential, "rings that fade with the distance; --radius; a rival"),
    "square-wave": (SquareWave2D, "row and column on their own; a rival"),
    "randomized-response": (RandomizedResponse, "the true cell or any other; for few cells or a large epsilon"),
    "unary-encoding": (UnaryEncoding, "a bit for every cell; a baseline, large reports"),
    "local-hashing": (LocalHashing, "a hash of the cell; a baseline, slow to tally"),
    "planar-laplace": (PlanarLaplace, "epsilon per metre: hides where exactly, not which part of town"),
    "subset-exponential": (SubsetExponential, "epsilon per metre: a set of cells; a rival"),
}

LOCAL_DEFAULT = "disk-area"

_DISTRIBUTED = {
    "adaptive-quadtree": (
        "adaptive_quadtree",
        "regions that find their own size; the paper on secure sums; the default",
    ),
    "flat-sum": ("flat", "every cell at once; a baseline"),
    "hierarchical": ("hierarchical", "every level at once, the budget in equal parts; a rival"),
    "count-min": ("count_min", "a sketch of every level; a rival"),
    "adaptive-grid-sum": ("adaptive_grid", "coarse blocks, each cut again by what it holds; a rival"),
    "spatial-decomposition": ("spatial_decomposition", "every level at once, more budget for finer ones; a rival"),
}
"""Page of each; none is for the command line, but for surveys of devices."""

_SENSORS = {
    "readings": "readings of sensors that hide where sources are, within a reach; the paper on sensors",
    "escrow": "the same with noise that a key holder can take off again; off unless asked for",
}
"""For `heathaze sensors`, and `hz.sensors`."""

_SUMMARIES = {
    "herding": "rows of private owners that match a private target; owners herd on their own; the default",
    "rounds": "the same as the paper on buying data has it, corrected: bids, round by round; a rival",
}
"""For `heathaze summarize`, and `hz.marketplace`."""

_GUESSED = ("dense", "adaptive-grid", "uniform-grid")
"""Those that use a guess of the number of people."""


def build(
    name: str | None, grid: Grid, epsilon: float, *, people: int | None, share: float | None, w: int | None
) -> Mechanism:
    """A mechanism by its name and options on the command line."""
    name = _known(name or DEFAULT, _PURPOSES)
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


def build_local(name: str | None, grid: Grid, epsilon: float, *, radius: int | None) -> Estimator:
    """A local mechanism by its name and options on the command line."""
    name = _known(name or LOCAL_DEFAULT, _LOCAL)
    if radius is None:
        mechanism: Estimator = _LOCAL[name][0](grid, epsilon)
        return mechanism
    if name == "disk-area":
        return DiskArea(grid, epsilon, radius=radius)
    if name == "hybrid-uniform-exponential":
        return HybridUniformExponential(grid, epsilon, radius=radius)
    raise InvalidInput(f"--radius goes with --mechanism disk-area or hybrid-uniform-exponential; {name} has none.")


def _known(name: str, names: Iterable[str]) -> str:
    """The name as we write it, if there is such a mechanism; ``DiskArea`` and ``disk_area`` are ``disk-area``."""
    plain = _letters(name)
    for known in names:
        if _letters(known) == plain:
            return known
    elsewhere: list[tuple[Iterable[str], str]] = [
        (_PURPOSES, "a curator: use it with `heathaze publish`"),
        (_LOCAL, "no curator: use `heathaze randomize`"),
        (_DISTRIBUTED, "devices to survey: use `hz.distributed`, and try it with `heathaze rehearse`"),
        (_SENSORS, "sensors: use `heathaze sensors`"),
        (_SUMMARIES, "owners to buy from: use `heathaze summarize`"),
    ]
    for others, hint in elsewhere:
        if any(_letters(other) == plain for other in others):
            raise InvalidInput(f"{name} needs {hint}. Here there are {', '.join(names)}.")
    raise InvalidInput(f"There is no mechanism {name!r}; choose one of {', '.join(names)}.")


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").removesuffix("2d")


def mechanisms(
    name: Annotated[str | None, typer.Argument(help="Print this mechanism's page.")] = None,
    json: Json = False,
) -> None:
    """List the mechanisms, or print the page of one: its promise, proof, cost and departures from the paper."""
    purposes = {key: ("central", use) for key, use in _PURPOSES.items()}
    purposes |= {key: ("distributed", use) for key, (_, use) in _DISTRIBUTED.items()}
    purposes |= {key: ("local", use) for key, (_, use) in _LOCAL.items()}
    purposes |= {key: ("sensors", use) for key, use in _SENSORS.items()}
    purposes |= {key: ("marketplace", use) for key, use in _SUMMARIES.items()}
    if name is not None:
        name = _known(name, purposes)
        trust = purposes[name][0]
        module = _DISTRIBUTED[name][0] if name in _DISTRIBUTED else name.replace("-", "_")
        page = (files(f"heathaze.{trust}") / f"{module}.md").read_text(encoding="utf-8")
        if json:
            say_json({"name": name, "trust": trust, "page": page})
            return
        from rich.markdown import Markdown

        out.print(Markdown(page) if out.is_terminal else page, markup=False, soft_wrap=False)
        return
    if json:
        listed = [{"name": key, "trust": trust, "for": use} for key, (trust, use) in purposes.items()]
        say_json({"mechanisms": listed})
        return
    from rich.table import Table

    table = Table("name", "trust", "for", box=None, pad_edge=False)
    for key, (trust, use) in purposes.items():
        table.add_row(key, trust, use)
    out.print(table)
    out.print(
        "`heathaze mechanisms NAME` prints a page: promise, proof, cost, departures from the paper. Central ones are "
        "for `publish`, where a curator is trusted; distributed ones for surveys by secure sums (`rehearse`); local "
        "ones for `randomize`, where nobody is trusted; those of sensors for `heathaze sensors`, of summaries for "
        "`heathaze summarize`.",
        markup=False,
    )
