"""``heathaze mechanisms``: list mechanisms, print their pages, and build a mechanism from command-line options."""

from __future__ import annotations

from importlib.resources import files
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from heathaze.cli.common import Json, out, say_json, say_table
from heathaze.errors import InvalidInput

if TYPE_CHECKING:
    from heathaze.central.mechanism import Mechanism
    from heathaze.domain.grid import Grid
    from heathaze.local.mechanism import Estimator
    from heathaze.trajectories.mechanism import JourneyMechanism

_MECHANISMS = {
    "central": {
        "adaptive-tree": "the default: any number of people, any resolution; the map states its own uncertainty",
        "pyramid": "the paper on central heat maps: few people or few places, any resolution; --w nodes kept per level",
        "priv-tree": "squares are split where their noisy counts are large; each is counted once; for comparison",
        "adaptive-grid": "coarse blocks, each divided further by its noisy count; --people if known; for comparison",
        "uniform-grid": "equal blocks, as coarse as the noise requires; --people if known; for comparison",
        "dawa": "buckets of similar cells along a curve, chosen privately and counted; for comparison",
        "dense": "one level of squares, for many people who are spread out; needs --people, a public guess",
        "flat": "noise on every cell; a baseline",
        "flat-top": "noise on every cell, and only the largest kept; needs --share; a baseline",
    },
    "distributed": {
        "adaptive-quadtree": "the default, and the paper on secure sums: regions that are split where many people are",
        "flat-sum": "every cell in one round; a baseline",
        "hierarchical": "every level in one round, with equal budgets; for comparison",
        "count-min": "a sketch of every level; for comparison",
        "adaptive-grid-sum": "coarse blocks, each divided further by its noisy count; for comparison",
        "spatial-decomposition": "every level in one round, with more budget for finer ones; for comparison",
    },
    "local": {
        "mixture": "the default: disk-area or local-hashing, as a public coin decides; --radius, --people if known",
        "disk-area": "the paper on the local model: a cell from a disc around the true one; --radius",
        "hybrid-uniform-exponential": "like disk-area, but less likely far away; --radius; for comparison",
        "square-wave": "row and column are randomised separately; for comparison",
        "randomized-response": "the true cell or any other; for few cells or a large epsilon",
        "unary-encoding": "one bit for every cell; large reports; a baseline",
        "local-hashing": "a hash of the cell; a baseline",
        "planar-laplace": "epsilon per metre: hides the exact place, not the part of town",
        "subset-exponential": "epsilon per metre: a set of cells; for comparison",
    },
    "trajectories": {
        "journey-trees": "made-up journeys for a trusted curator: noisy trees of places, pairs and shapes",
        "local-journeys": "made-up journeys without any trusted party: one randomised fact about a journey per report",
        "ldp-trace": "the paper LDPTrace, corrected: length, start, end and one move of a journey; for comparison",
        "pivot-trace": "the paper PivotTrace, corrected: places of a journey, moved at random; for comparison",
    },
    "sensors": {
        "readings": "the paper on sensors: readings that hide where the sources are, within a distance",
        "escrow": "like readings, with noise that the holder of a key can remove; off unless asked for",
    },
    "marketplace": {
        "herding": "the default: each owner by itself chooses rows that together match a noisy target",
        "private-greedy": "the paper on buying data, corrected: bids, round by round; for comparison",
    },
}
"""The mechanisms of each model, with a phrase on their use. The page of each is ``heathaze/<model>/<name>.md``."""

DEFAULT = "adaptive-tree"
LOCAL_DEFAULT = "mixture"
JOURNEYS_DEFAULT = "local-journeys"

_USED_BY = {
    "central": "is a central mechanism; use it with `heathaze publish`",
    "distributed": "works on sums over devices; use `hz.distributed`, and try it with `heathaze rehearse`",
    "local": "is a local mechanism; use it with `heathaze randomize`",
    "trajectories": "makes up journeys; use `heathaze journeys`, or `heathaze randomize --time COLUMN`",
    "sensors": "protects readings of sensors; use `heathaze sensors`",
    "marketplace": "buys rows from owners; use `heathaze market`",
}

_TAKE_PEOPLE = ("dense", "adaptive-grid", "uniform-grid")


def build(
    name: str | None, grid: Grid, epsilon: float, *, people: int | None, share: float | None, w: int | None
) -> Mechanism:
    """Build a central mechanism from its name and options on the command line."""
    from heathaze import central

    name = _find(name or DEFAULT, "central")
    if people is not None and name not in _TAKE_PEOPLE:
        raise InvalidInput(
            f"--people goes with --mechanism {', '.join(_TAKE_PEOPLE[:-1])} or {_TAKE_PEOPLE[-1]}; {name} chooses its "
            "resolution without it, so leave it out."
        )
    if (share is not None) != (name == "flat-top"):
        raise InvalidInput("--share (the fraction of cells to keep) and --mechanism flat-top go together.")
    if w is not None and name != "pyramid":
        raise InvalidInput("--w goes with --mechanism pyramid: how many nodes to keep per level.")
    if name == "dense" and people is None:
        raise InvalidInput("--mechanism dense needs --people N, a public guess of the number of people.")
    made: Mechanism = _made(central, name, grid, epsilon, people=people, share=share, w=w)
    return made


def build_local(name: str | None, grid: Grid, epsilon: float, *, radius: int | None, people: int | None) -> Estimator:
    """Build a local mechanism from its name and options on the command line."""
    from heathaze import local

    name = _find(name or LOCAL_DEFAULT, "local")
    if radius is not None and name not in ("mixture", "disk-area", "hybrid-uniform-exponential"):
        raise InvalidInput(
            f"--radius goes with --mechanism mixture, disk-area or hybrid-uniform-exponential; {name} has none."
        )
    if people is not None and name != "mixture":
        raise InvalidInput(f"--people goes with --mechanism mixture; {name} does not use it, so leave it out.")
    made: Estimator = _made(local, name, grid, epsilon, radius=radius, people=people)
    return made


def build_journeys(name: str | None, grid: Grid, epsilon: float, *, squares: int | None) -> JourneyMechanism:
    """Build a local mechanism for journeys from its name and options on the command line."""
    from heathaze import trajectories

    name = _find(name or JOURNEYS_DEFAULT, "trajectories")
    if name == "journey-trees":
        raise InvalidInput("journey-trees needs a trusted curator; use it with `heathaze journeys`.")
    made: JourneyMechanism = _made(trajectories, name, grid, epsilon, squares=squares)
    return made


def _made(package: ModuleType, name: str, grid: Grid, epsilon: float, **given: float | None) -> Any:
    """Make a mechanism with the options that were given; its class is the one of the package that matches ``name``."""
    (found,) = (getattr(package, known) for known in package.__all__ if _letters(known) == _letters(name))
    return found(grid, epsilon, **{option: value for option, value in given.items() if value is not None})


def _find(name: str, *models: str) -> str:
    """Find a mechanism by name in the table: ``DiskArea`` and ``disk_area`` are ``disk-area``. Refuse other models."""
    plain = _letters(name)
    names = [known for model in models for known in _MECHANISMS[model]]
    for known in names:
        if _letters(known) == plain:
            return known
    for model, others in _MECHANISMS.items():
        if any(_letters(other) == plain for other in others):
            raise InvalidInput(f"{name} {_USED_BY[model]}. This command knows {', '.join(names)}.")
    raise InvalidInput(f"Unknown mechanism {name!r}; choose one of {', '.join(names)}.")


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").removesuffix("2d")


def mechanisms(
    name: Annotated[str | None, Argument(help="Print the page of this mechanism.")] = None, json: Json = False
) -> None:
    """List the mechanisms, or print the page of one: its promise, proof, cost and departures from the paper."""
    model_of = {known: model for model, names in _MECHANISMS.items() for known in names}
    if name is not None:
        name = _find(name, *_MECHANISMS)
        model, module = model_of[name], name.removesuffix("-sum").replace("-", "_")
        page = (files(f"heathaze.{model}") / f"{module}.md").read_text(encoding="utf-8")
        if json:
            say_json({"name": name, "model": model, "page": page})
            return
        from rich.markdown import Markdown

        out.print(Markdown(page) if out.is_terminal else page, soft_wrap=False)
        return
    listed = [{"name": known, "model": model, "for": _MECHANISMS[model][known]} for known, model in model_of.items()]
    if json:
        say_json({"mechanisms": listed})
        return
    say_table({"name": "{name}", "model": "{model}", "for": "{for}"}, listed)
    out.print(
        "`heathaze mechanisms NAME` prints a page: promise, proof, cost, departures from the paper. `heathaze publish` "
        "uses the central ones, where a curator is trusted; `heathaze rehearse` tries surveys by secure sums, the "
        "distributed model; `heathaze randomize` uses the local ones, where only the own device is trusted; `heathaze "
        "sensors` and `heathaze market` use the others."
    )
