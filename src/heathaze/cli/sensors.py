"""``heathaze sensors``: protect readings of sensors, and locate heat sources from protected readings."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from heathaze.cli.common import Json, Quiet, check_picture, check_place, err, out, say_json, steps
from heathaze.cli.ledger import open_existing
from heathaze.errors import CannotWrite, InvalidInput, UnreadableData

if TYPE_CHECKING:
    from heathaze.privacy.guarantee import Guarantee
    from heathaze.sensors.figure import Mark
    from heathaze.sensors.layout import Layout
    from heathaze.sensors.noisy_readings import NoisyReadings
    from heathaze.sensors.physics.field import Field
    from heathaze.sensors.recovery.posterior import Sources

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Protect readings of heat sensors, and locate heat sources from protected readings.",
)

LayoutFile = Annotated[
    Path,
    typer.Option("--layout", help="CSV of sensor, x, y in metres (or sensor, x; or edges: from, to, weight, length)."),
]
Diffusivity = Annotated[
    float | None, typer.Option("--diffusivity", help="How quickly heat spreads, in square metres per unit of time.")
]
Length = Annotated[float | None, typer.Option("--length", help="Length of a line, in metres.")]
Size = Annotated[
    tuple[float, float] | None, typer.Option("--size", metavar="WIDTH HEIGHT", help="Size of a plate, in metres.")
]
Walls = Annotated[
    str | None, typer.Option("--walls", help="Walls of a plate: open (heat leaves) or insulated (heat stays).")
]


@app.command(no_args_is_help=True)
def protect(
    file: Annotated[
        Path,
        typer.Argument(metavar="READINGS", help="CSV of sensor, time, value; time counts from the release of heat."),
    ],
    layout: LayoutFile,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Privacy loss of all readings together.")],
    reach: Annotated[
        float,
        typer.Option(
            "--reach", help="Distance, in metres or edges, by which the place of a source of strength 1 is hidden."
        ),
    ],
    output: Annotated[Path, typer.Option("--out", "-o", help="Where to write the protected readings (.csv).")],
    diffusivity: Diffusivity = None,
    length: Length = None,
    size: Size = None,
    walls: Walls = None,
    delta: Annotated[
        float, typer.Option("--delta", help="δ of Gaussian noise; 0 takes Laplace noise, which is pure and larger.")
    ] = 1e-5,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="Charge this ledger, the budget of the sources.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add noise to readings, which hides whether sources moved within the reach.

    Subtract the background first: a value is the heat of the sources. Example: heathaze sensors protect readings.csv
    --layout layout.csv --size 12 8 --walls insulated --diffusivity 0.01 --reach 0.5 --epsilon 1 --out protected.csv
    """
    from heathaze.ingest.readings import RawReadings
    from heathaze.sensors.layout import Layout
    from heathaze.sensors.noisy_readings import read_header
    from heathaze.sensors.readings import Readings

    check_place(output, file, layout, ledger, overwrite=overwrite)
    plan, raw = Layout.read(layout), RawReadings.read(file)
    if read_header(file) is not None:
        raise InvalidInput(f"{file} is protected already; more noise hides nothing more. Give the raw readings.")
    physics = _physics(plan, {}, diffusivity, length, size, walls)
    with steps(2, silent=quiet or json) as begin:
        begin("Computing the sensitivity of the readings")
        mechanism = Readings(plan.field(raw.times, sensors=raw.sensors, **physics), reach, epsilon, delta)
        deviation = mechanism.deviation
        begin("Adding noise")
        budget = None if ledger is None else open_existing(ledger, delta=delta)
        noisy = mechanism.protect(raw.values, ledger=budget)
    noisy.save(output, raw.sensors, raw.times, physics=physics)
    guarantee = mechanism.guarantee()
    if json:
        header = {"guarantee": guarantee.to_dict(), "deviation": deviation, "physics": physics}
        say_json({**header, "readings": int(np.isfinite(noisy.values).sum()), "written": [str(output)]})
    elif not quiet:
        out.print(str(guarantee), markup=False)
        out.print(
            f"Noise of each reading: ± {deviation:.3g} (standard deviation). A source of strength 1 raises the reading "
            f"of a sensor by at most {_largest(mechanism.field):.3g}. A source of strength 2 raises it twice as much "
            "and is hidden within half the reach.",
            markup=False,
        )
        out.print(f"wrote {output}", style="bold", markup=False)


@app.command(no_args_is_help=True)
def locate(
    file: Annotated[Path, typer.Argument(metavar="READINGS", help="CSV that `heathaze sensors protect` wrote.")],
    layout: LayoutFile,
    sigma: Annotated[
        float | None,
        typer.Option(
            "--sigma",
            help="Standard deviation of each reading's noise, if `heathaze sensors protect` did not write the file.",
        ),
    ] = None,
    diffusivity: Diffusivity = None,
    length: Length = None,
    size: Size = None,
    walls: Walls = None,
    number: Annotated[int | None, typer.Option("--number", help="Number of sources, if known.")] = None,
    strength: Annotated[float | None, typer.Option("--strength", help="Strength of each source, if known.")] = None,
    at_most: Annotated[int, typer.Option("--at-most", help="Largest number of sources to look for.")] = 5,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="CSV of x, y (or node) and strength, to compare with: not private.")
    ] = None,
    picture: Annotated[Path | None, typer.Option("--out", "-o", help="Also draw the located sources (.png).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the picture if it exists.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the likely places and strengths of the sources, with intervals. This costs no privacy budget.

    Example: heathaze sensors locate protected.csv --layout layout.csv --out sources.png
    """
    from heathaze.sensors.layout import Layout
    from heathaze.sensors.noisy_readings import NoisyReadings, NoisyTable

    check_picture(picture, overwrite=overwrite)
    plan, header = Layout.read(layout), NoisyTable.read(file).header
    sources = [] if truth is None else _true_sources(truth, plan)
    if sigma is None and "deviation" not in header:
        raise InvalidInput(f"{file} does not say how large its noise is; give --sigma, or protect it first.")
    physics = _physics(plan, header.get("physics", {}), diffusivity, length, size, walls)
    with steps(3, silent=quiet or json) as begin:
        begin("Reading")
        noisy = NoisyReadings.load(file, plan, deviation=sigma, **physics)
        begin("Looking for sources")
        found = noisy.sources(number=number, strengths=strength, at_most=at_most)
        begin("Comparing and drawing")
        distance = _distance(noisy.field, found, sources) if sources else None
        if picture is not None:
            _draw(noisy, found, sources, distance, plan, picture)
    report = _report(plan, found, distance, noisy.guarantee)
    if found.widened > 1 and not json:
        err.print(
            f"No sources in this physics explain the readings, so the noise was taken to be {found.widened:.2g} times "
            "as large. Was the background subtracted? Are diffusivity, size and times right?",
            markup=False,
        )
    if json:
        say_json(report | ({} if picture is None else {"written": [str(picture)]}))
    elif not quiet:
        _print_report(report, _plural_unit(noisy.field))
        if picture is not None:
            out.print(f"wrote {picture}", style="bold", markup=False)


@app.command()
def example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder, for four small files.")],
    seed: Annotated[int, typer.Option("--seed", help="Seed of the synthetic room.")] = 0,
) -> None:
    """Write a synthetic room to try the other commands on: layout.csv, readings.csv, truth.csv and README.txt."""
    from heathaze.datasets.rooms import DIFFUSIVITY, SIZE, TIMES, room
    from heathaze.files import csv_text
    from heathaze.sensors.layout import Layout

    if folder.exists():
        raise CannotWrite(f"{folder} exists already; name a new folder.")
    made = room(seed)
    names = tuple(f"s{index:02d}" for index in range(len(made.sensors)))
    field = Layout(names, made.sensors).field(TIMES, diffusivity=DIFFUSIVITY, size=SIZE, walls="insulated")
    values = (field.responses(made.sources) @ made.strengths).tolist()
    taken = [(name, time) for time in TIMES for name in names]
    readings = ([*key, value] for key, value in zip(taken, values, strict=True))
    placed = ([name, *place] for name, place in zip(names, made.sensors, strict=True))
    physics = f"--size {SIZE[0]:g} {SIZE[1]:g} --walls insulated --diffusivity {DIFFUSIVITY:g}"
    texts = {
        "layout.csv": csv_text(["sensor", "x", "y"], placed),
        "truth.csv": csv_text(["x", "y", "strength"], ([*place, 1] for place in made.sources)),
        "README.txt": (
            "A synthetic room with three sources of heat. Run in this folder:\n\n"
            f"heathaze sensors protect readings.csv --layout layout.csv {physics} --reach 0.2 --epsilon 4 "
            "--out protected.csv\n"
            "heathaze sensors locate protected.csv --layout layout.csv --truth truth.csv --out sources.png\n"
        ),
        "readings.csv": csv_text(["sensor", "time", "value"], readings),
    }
    try:
        folder.mkdir(parents=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise CannotWrite(f"Cannot write into {folder}: {(problem.strerror or 'refused').lower()}.") from None
    out.print(f"wrote {', '.join(str(folder / name) for name in texts)}", style="bold", markup=False)
    out.print(texts["README.txt"].split("\n\n", 1)[1].strip(), markup=False)


# ── the physics and the readings ────────────────────────────────────────────────────────────────────────────────────


def _physics(
    plan: Layout,
    known: Mapping[str, Any],
    diffusivity: float | None,
    length: float | None,
    size: tuple[float, float] | None,
    walls: str | None,
) -> dict[str, Any]:
    """Collect the parameters of the physics from the command line, or else from the first line of the readings."""
    if diffusivity is None and "diffusivity" not in known:
        raise InvalidInput(
            "Say how quickly heat spreads: --diffusivity, in square metres (on a graph, weights) per unit of time."
        )
    if plan.dimensions == 2 and walls is None and "walls" not in known:
        raise InvalidInput(
            "Say whether heat leaves the plate: --walls open, or --walls insulated if it stays. Insulated walls need "
            "more noise."
        )
    sides = None if plan.dimensions == 0 else [length] if plan.dimensions == 1 and length is not None else size
    if plan.dimensions and sides is None and known.get("size") is None:
        wanted = "--length LENGTH" if plan.dimensions == 1 else "--size WIDTH HEIGHT"
        raise InvalidInput(f"Say how large the {'line' if plan.dimensions == 1 else 'plate'} is: {wanted}, in metres.")
    return {
        "diffusivity": known.get("diffusivity") if diffusivity is None else diffusivity,
        "size": known.get("size") if sides is None else list(sides),
        "walls": (walls or known.get("walls") or "open") if plan.dimensions else "open",
    }


# ── what was found ──────────────────────────────────────────────────────────────────────────────────────────────────


def _true_sources(path: Path, plan: Layout) -> list[Mark]:
    """Read the true sources from a file: coordinates or names of nodes, and strengths."""
    from heathaze.files import read_table
    from heathaze.sensors.figure import Mark

    rows = read_table(path)
    axes = ("x", "y")[: plan.dimensions] if plan.dimensions else ("node",)
    missing = {*axes, "strength"} - set(rows[0])
    if missing:
        raise UnreadableData(
            f"{path} lacks the column {sorted(missing)[0]!r}; the truth has {', '.join(axes)}, strength."
        )
    if plan.dimensions:
        places = [tuple(row.number(axis) for axis in axes) for row in rows]
    else:
        places = [(float(plan.number_of(row["node"], what="node")),) for row in rows]
    found = [Mark(place, row.number("strength")) for place, row in zip(places, rows, strict=True)]
    if any(mark.strength <= 0 for mark in found):
        raise UnreadableData(f"{path} has a strength that is not positive; sources add heat.")
    return found


def _distance(field: Field, found: Sources, truth: list[Mark]) -> float:
    """Compute the earth mover's distance between located and true sources, in units of length."""
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
    noisy: NoisyReadings, found: Sources, truth: list[Mark], distance: float | None, plan: Layout, path: Path
) -> None:
    from heathaze.sensors.figure import Mark, draw_sources

    count, field = len(found.found), noisy.field
    marks = [
        Mark(source.position or (float(source.node or 0),), source.strength, source.position_error)
        for source in found.found
    ]
    draw_sources(
        field,
        found.shares,
        found.density(field),
        marks,
        path=path,
        title=f"{count or 'No'} source{'' if count == 1 else 's'} found behind {len(plan.names)} sensors",
        caption="The readings carry no guarantee." if noisy.guarantee is None else str(noisy.guarantee),
        truth=truth,
        sensors=plan.positions,
        distance="" if distance is None else f"{distance:.3g} {_plural_unit(field)} on average",
    )


def _plural_unit(field: Field) -> str:
    from heathaze.sensors.readings import unit_after

    return unit_after(Fraction(2), field.unit)


def _report(plan: Layout, found: Sources, distance: float | None, guarantee: Guarantee | None) -> dict[str, Any]:
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
        **({} if guarantee is None else {"guarantee": str(guarantee)}),
    }


def _largest(field: Field) -> float:
    """Return the largest value that a source of strength 1 adds to a reading, over at most 2,000 places."""
    where = np.unique(np.linspace(0, field.shape[1] - 1, 2000).astype(np.int64))
    if field.bounds is None or field.positions is None:
        return float(field.responses(where[:: max(1, field.shape[0] * len(where) // 2**24)]).max())
    return float(field.responses(field.positions[where]).max())


def _print_report(report: Mapping[str, Any], unit: str) -> None:
    from rich.table import Table

    if not report["sources"]:
        out.print("No source was found: zero is the most likely number of sources.", style="bold", markup=False)
    table = Table("source", "where", f"90 % within ({unit})", "strength", "90 %", "any there", box=None, pad_edge=False)
    for index, source in enumerate(report["sources"], start=1):
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
    if report["sources"]:
        out.print(table)
    chances = [f"{count}: {100 * chance:.0f} %" for count, chance in enumerate(report["number"]) if chance > 0.005]
    low, high = report["total_interval"]
    total = f"Total strength {report['total']:.3g} ({low:.3g} to {high:.3g})."
    out.print(f"How many sources: {', '.join(chances)}. {total}")
    if "distance_to_truth" in report:
        out.print(
            f"Distance to the truth: {report['distance_to_truth']:.3g} {unit} on average (earth mover's; not private).",
            markup=False,
        )
    if "guarantee" in report:
        out.print(report["guarantee"], style="dim", markup=False)
