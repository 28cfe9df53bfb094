"""``heathaze sensors``: readings that hide where the sources are, and what they still tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from heathaze.cli.console import Json, Quiet, err, out, say_json, steps
from heathaze.cli.ledger import open_existing
from heathaze.cli.options import check_picture, check_place
from heathaze.errors import CannotWrite, InvalidInput, UnreadableData

if TYPE_CHECKING:
    from heathaze.sensors.figure import Mark
    from heathaze.sensors.layout import Layout
    from heathaze.sensors.physics.field import Field
    from heathaze.sensors.readings_file import ReadingsFile
    from heathaze.sensors.recovery.posterior import Sources

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Heat sources behind sensors: protect readings, and locate sources in protected ones.",
)

LayoutFile = Annotated[
    Path,
    typer.Option("--layout", help="CSV of sensor, x, y in metres (or sensor, x; or edges: from, to, weight, length)."),
]
Diffusivity = Annotated[
    float | None, typer.Option("--diffusivity", help="How quickly heat spreads: square metres a unit of time.")
]
Length = Annotated[float | None, typer.Option("--length", help="Of a line, in metres.")]
Size = Annotated[
    tuple[float, float] | None, typer.Option("--size", metavar="WIDTH HEIGHT", help="Of a plate, in metres.")
]
Walls = Annotated[
    str | None, typer.Option("--walls", help="Of a plate: open, where heat leaves, or insulated, where it stays.")
]


@app.command(no_args_is_help=True)
def protect(
    file: Annotated[
        Path, typer.Argument(metavar="READINGS", help="CSV of sensor, time, value; time since heat was set free.")
    ],
    layout: LayoutFile,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Privacy loss of all readings together.")],
    reach: Annotated[
        float,
        typer.Option("--reach", help="Hide where a source of strength 1 is within this distance, in metres or edges."),
    ],
    output: Annotated[Path, typer.Option("--out", "-o", help="Where to write the protected readings (.csv).")],
    diffusivity: Diffusivity = None,
    length: Length = None,
    size: Size = None,
    walls: Walls = None,
    delta: Annotated[
        float, typer.Option("--delta", help="For Gaussian noise; 0 for Laplace noise, which is pure and larger.")
    ] = 1e-5,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="Pay from the budget of these sources.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add noise to readings, just enough that sources cannot be told from others within the reach.

    Values are what the sources add: subtract the background first. Example: heathaze sensors protect readings.csv
    --layout layout.csv --size 12 8 --walls insulated --diffusivity 0.01 --reach 0.5 --epsilon 1 --out protected.csv
    """
    from heathaze.sensors.layout import Layout
    from heathaze.sensors.readings import Readings
    from heathaze.sensors.readings_file import ReadingsFile

    for source in (file, layout, ledger):
        check_place(output, overwrite=overwrite, source=None if source is None else str(source))
    plan, raw = Layout.read(layout), ReadingsFile.read(file)
    if raw.about is not None:
        raise InvalidInput(f"{file} is protected already; noise on noise hides nothing more. Take the raw readings.")
    physics = _physics(plan, None, diffusivity, length, size, walls)
    with steps(2, silent=quiet or json) as begin:
        begin("How much the readings tell")
        mechanism = Readings(_field(plan, raw, physics), reach, epsilon, delta)
        deviation = mechanism.deviation
        begin("Adding noise")
        budget = None if ledger is None else open_existing(ledger, delta=delta)
        noisy = mechanism.protect(raw.values, ledger=budget)
    noisy.save(output, raw.sensors, raw.times, physics=physics)
    if json:
        about = {"guarantee": noisy.guarantee.to_dict(), "deviation": deviation, "physics": physics}
        say_json({**about, "readings": int(np.isfinite(noisy.values).sum()), "written": [str(output)]})
    elif not quiet:
        out.print(str(noisy.guarantee), markup=False)
        out.print(
            f"Noise of each reading: ± {deviation:.3g} (standard deviation). A source of strength 1 raises the reading "
            f"of a sensor by at most {_largest(mechanism.field):.3g}; one that raises it twice as much has strength 2, "
            "and is hidden within half the reach.",
            markup=False,
        )
        out.print(f"wrote {output}", style="bold", markup=False)


@app.command(no_args_is_help=True)
def locate(
    file: Annotated[Path, typer.Argument(metavar="READINGS", help="CSV of sensor, time, value, as protect writes it.")],
    layout: LayoutFile,
    sigma: Annotated[
        float | None, typer.Option("--sigma", help="Noise of each reading, for files that protect did not write.")
    ] = None,
    diffusivity: Diffusivity = None,
    length: Length = None,
    size: Size = None,
    walls: Walls = None,
    number: Annotated[int | None, typer.Option("--number", help="How many sources there are, if it is known.")] = None,
    strength: Annotated[float | None, typer.Option("--strength", help="How strong each is, if it is known.")] = None,
    at_most: Annotated[int, typer.Option("--at-most", help="No more sources than this.")] = 5,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="CSV of x, y (or node) and strength, to compare with: not private.")
    ] = None,
    picture: Annotated[Path | None, typer.Option("--out", "-o", help="Also draw what was found (.png).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the picture if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say where the sources are likely to be, how strong, and how surely. Spends nothing: what it reads is public.

    Example: heathaze sensors locate protected.csv --layout layout.csv --out sources.png
    """
    from heathaze.sensors.layout import Layout
    from heathaze.sensors.readings_file import ReadingsFile
    from heathaze.sensors.recovery.posterior import find_sources

    check_picture(picture, overwrite=overwrite)
    plan, readings = Layout.read(layout), ReadingsFile.read(file)
    sources = [] if truth is None else _true_sources(truth, plan)
    about = _checked_about(file, readings)
    noise = sigma if sigma is not None else about.get("deviation")
    if noise is None:
        raise InvalidInput(f"{file} does not say how large its noise is; give --sigma, or protect it first.")
    physics = _physics(plan, about.get("physics"), diffusivity, length, size, walls)
    with steps(3, silent=quiet or json) as begin:
        begin("Reading")
        field = _field(plan, readings, physics)
        there = np.isfinite(readings.values)
        seen = field if there.all() else field.only(there)
        begin("Looking for sources")
        values = readings.values[there]
        found = find_sources(seen, values, noise, number=number, strengths=strength, at_most=at_most)
        begin("Comparing and drawing")
        distance = _distance(field, found, sources) if sources else None
        if picture is not None:
            _draw(field, found, sources, distance, plan, about, picture)
    told = _told(plan, found, distance, about)
    if found.widened > 1 and not json:
        err.print(
            f"No sources in this physics explain the readings; their noise was taken to be {found.widened:.2g} times "
            "what it is. Was the background subtracted? Are diffusivity, size and times right?",
            markup=False,
        )
    if json:
        say_json(told | ({} if picture is None else {"written": [str(picture)]}))
    elif not quiet:
        _tell(told, _several(field))
        if picture is not None:
            out.print(f"wrote {picture}", style="bold", markup=False)


@app.command()
def example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder, for four small files.")],
    seed: Annotated[int, typer.Option("--seed", help="Which made-up room.")] = 0,
) -> None:
    """Write a made-up room to try the other commands on: layout.csv, readings.csv, truth.csv and README.txt."""
    from heathaze.datasets.rooms import DIFFUSIVITY, SIZE, TIMES, room
    from heathaze.sensors.layout import Layout
    from heathaze.sensors.readings_file import ReadingsFile

    if folder.exists():
        raise CannotWrite(f"{folder} exists already; name a new folder.")
    made = room(seed)
    names = tuple(f"s{index:02d}" for index in range(len(made.sensors)))
    field = Layout(names, made.sensors).field(TIMES, diffusivity=DIFFUSIVITY, size=SIZE, walls="insulated")
    values = field.responses(made.sources) @ made.strengths
    physics = f"--size {SIZE[0]:g} {SIZE[1]:g} --walls insulated --diffusivity {DIFFUSIVITY:g}"
    texts = {
        "layout.csv": _csv("sensor,x,y", ([name, *place] for name, place in zip(names, made.sensors, strict=True))),
        "truth.csv": _csv("x,y,strength", ([*place, 1] for place in made.sources)),
        "README.txt": (
            "A made-up room with three sources of heat. In this folder:\n\n"
            f"heathaze sensors protect readings.csv --layout layout.csv {physics} --reach 0.2 --epsilon 4 "
            "--out protected.csv\n"
            "heathaze sensors locate protected.csv --layout layout.csv --truth truth.csv --out sources.png\n"
        ),
    }
    try:
        folder.mkdir(parents=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise CannotWrite(f"Cannot write into {folder}: {(problem.strerror or 'refused').lower()}.") from None
    ReadingsFile(names, TIMES, values).write(folder / "readings.csv")
    out.print(f"wrote {', '.join(str(folder / name) for name in [*texts, 'readings.csv'])}", style="bold", markup=False)
    out.print(texts["README.txt"].split("\n\n", 1)[1].strip(), markup=False)


# ── the physics and the readings ────────────────────────────────────────────────────────────────────────────────────


def _physics(
    plan: Layout,
    told: Mapping[str, Any] | None,
    diffusivity: float | None,
    length: float | None,
    size: tuple[float, float] | None,
    walls: str | None,
) -> dict[str, Any]:
    """What the command line says, and where it is silent what the file says of itself."""
    before = dict(told or {})
    if diffusivity is None and "diffusivity" not in before:
        raise InvalidInput(
            "Say how quickly heat spreads: --diffusivity, in square metres (on a graph, weights) a unit of time."
        )
    if plan.dimensions == 2 and walls is None and "walls" not in before:
        raise InvalidInput(
            "Say whether heat leaves the plate: --walls open, or --walls insulated where it stays. Insulated ones need "
            "more noise."
        )
    sides = None if plan.dimensions == 0 else [length] if plan.dimensions == 1 and length is not None else size
    if plan.dimensions and sides is None and before.get("size") is None:
        wanted = "--length LENGTH" if plan.dimensions == 1 else "--size WIDTH HEIGHT"
        raise InvalidInput(f"Say how large the {'line' if plan.dimensions == 1 else 'plate'} is: {wanted}, in metres.")
    return {
        "diffusivity": before.get("diffusivity") if diffusivity is None else diffusivity,
        "size": before.get("size") if sides is None else list(sides),
        "walls": (walls or before.get("walls") or "open") if plan.dimensions else "open",
    }


def _field(plan: Layout, readings: ReadingsFile, physics: Mapping[str, Any]) -> Field:
    return plan.field(readings.times, sensors=readings.sensors, **physics)


def _csv(header: str, rows: Iterable[Iterable[object]]) -> str:
    return "\n".join([header, *(",".join(str(entry) for entry in row) for row in rows)]) + "\n"


# ── what was found ──────────────────────────────────────────────────────────────────────────────────────────────────


def _true_sources(path: Path, plan: Layout) -> list[Mark]:
    """Places and strengths from a file: coordinates, or names of nodes."""
    from heathaze.sensors.figure import Mark
    from heathaze.sensors.layout import number, read_table

    rows = read_table(path)
    axes = ("x", "y")[: plan.dimensions] if plan.dimensions else ("node",)
    missing = {*axes, "strength"} - set(rows[0])
    if missing:
        raise UnreadableData(
            f"{path} lacks the column {sorted(missing)[0]!r}; the truth has {', '.join(axes)}, strength."
        )
    if plan.dimensions:
        places = [tuple(number(path, row, axis) for axis in axes) for row in rows]
    else:
        places = [(float(plan.number_of(row["node"], what="node")),) for row in rows]
    found = [Mark(place, number(path, row, "strength")) for place, row in zip(places, rows, strict=True)]
    if any(mark.strength <= 0 for mark in found):
        raise UnreadableData(f"{path} has a strength that is not positive; sources add heat.")
    return found


def _marks(found: Sources) -> list[Mark]:
    from heathaze.sensors.figure import Mark

    return [
        Mark(source.position or (float(source.node or 0),), source.strength, source.position_error)
        for source in found.found
    ]


def _distance(field: Field, found: Sources, truth: list[Mark]) -> float:
    """How far the answer lies from the truth: the mean way of the strength, in units of length."""
    from heathaze.sensors.emd import graph_emd, line_emd, plane_emd

    places, strengths = np.array([mark.place for mark in truth]), np.array([mark.strength for mark in truth])
    if field.network is not None:
        masses = np.bincount(places[:, 0].astype(np.int64), strengths, minlength=field.shape[1])
        return graph_emd(field.network, masses, found.shares)
    assert field.positions is not None
    if places.shape[1] == 1:
        return line_emd(places[:, 0], strengths, field.positions[:, 0], found.shares)
    return plane_emd(places, strengths, field.positions, found.shares)


def _draw(
    field: Field,
    found: Sources,
    truth: list[Mark],
    distance: float | None,
    plan: Layout,
    about: Mapping[str, Any],
    path: Path,
) -> None:
    from heathaze.sensors.figure import draw_sources

    count = len(found.found)
    draw_sources(
        field,
        found.shares,
        found.density(field),
        _marks(found),
        path=path,
        title=f"{count or 'No'} source{'' if count == 1 else 's'} found behind {len(plan.names)} sensors",
        caption=about["guarantee"]["sentence"] if "guarantee" in about else "The readings carry no guarantee.",
        truth=truth,
        sensors=plan.positions,
        distance="" if distance is None else f"{distance:.3g} {_several(field)} on average",
    )


def _several(field: Field) -> str:
    """The unit of length, in the plural."""
    from heathaze.sensors.readings import several

    return several(field.unit, Fraction(2))


def _told(plan: Layout, found: Sources, distance: float | None, about: Mapping[str, Any]) -> dict[str, Any]:
    sources = [
        {
            **({"node": plan.names[source.node]} if plan.dimensions == 0 and source.node is not None else {}),
            **({"position": list(source.position)} if source.position is not None else {}),
            "within": source.position_error,
            "strength": source.strength,
            "strength_interval": list(source.strength_interval),
            "probability": source.probability,
        }
        for source in found.found
    ]
    return {
        "sources": sources,
        "number": found.number.tolist(),
        "total": found.total,
        "total_interval": list(found.total_interval),
        "noise_widened": found.widened,
        **({} if distance is None else {"distance_to_truth": distance}),
        **({} if "guarantee" not in about else {"guarantee": about["guarantee"]["sentence"]}),
    }


def _largest(field: Field) -> float:
    """The most that a source of strength 1 adds to a reading, at any candidate place, or some thousand of them."""
    where = np.unique(np.linspace(0, field.shape[1] - 1, 2000).astype(np.int64))
    if field.bounds is None or field.positions is None:
        return float(field.responses(where[:: max(1, field.shape[0] * len(where) // 2**24)]).max())
    return float(field.responses(field.positions[where]).max())


def _checked_about(path: Path, readings: ReadingsFile) -> dict[str, Any]:
    """What the file says of itself, if it says it as we do."""
    about = dict(readings.about or {})
    physics, guarantee = about.get("physics", {}), about.get("guarantee", {"sentence": ""})
    fine = (
        isinstance(about.get("deviation", 1.0), int | float)
        and isinstance(physics, dict)
        and isinstance(physics.get("diffusivity", 1.0), int | float)
        and isinstance(physics.get("size") or [], list)
        and all(isinstance(side, int | float) for side in physics.get("size") or [])
        and isinstance(guarantee, dict)
        and isinstance(guarantee.get("sentence"), str)
    )
    if not fine:
        raise UnreadableData(f"The first line of {path} was changed; take the file as `heathaze sensors` wrote it.")
    return about


def _tell(told: Mapping[str, Any], unit: str) -> None:
    from rich.table import Table

    if not told["sources"]:
        out.print("No source stands out: the readings are likelier without any.", style="bold", markup=False)
    table = Table("source", "where", f"90 % within ({unit})", "strength", "90 %", "any there", box=None, pad_edge=False)
    for index, source in enumerate(told["sources"], start=1):
        where = source["node"] if "node" in source else ", ".join(f"{x:.3g}" for x in source["position"])
        low, high = source["strength_interval"]
        table.add_row(
            f"{index}",
            where,
            f"{source['within']:.3g}",
            f"{source['strength']:.3g}",
            f"{low:.3g} to {high:.3g}",
            f"{100 * source['probability']:.0f} %",
        )
    if told["sources"]:
        out.print(table)
    chances = [f"{count}: {100 * chance:.0f} %" for count, chance in enumerate(told["number"]) if chance > 0.005]
    low, high = told["total_interval"]
    out.print(f"How many sources: {', '.join(chances)}. Total strength {told['total']:.3g} ({low:.3g} to {high:.3g}).")
    if "distance_to_truth" in told:
        out.print(
            f"Distance to the truth: {told['distance_to_truth']:.3g} {unit} on average (earth mover's; not private).",
            markup=False,
        )
    if "guarantee" in told:
        out.print(told["guarantee"], style="dim", markup=False)
