"""``heathaze summarize``: buy rows of private owners that match a private target."""

from __future__ import annotations

import contextlib
import itertools
import json as json_module
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from typer.core import TyperCommand

from heathaze.cli.console import Json, Quiet, err, out, say_json, steps
from heathaze.cli.ledger import open_existing
from heathaze.cli.outputs import check_picture, check_place
from heathaze.errors import CannotWrite, InvalidInput, UnknownFormat

if TYPE_CHECKING:
    from heathaze.mechanisms.summaries import Purchase
    from heathaze.mechanisms.summaries.features import Features
    from heathaze.mechanisms.summaries.study import Study
    from heathaze.mechanisms.summaries.tables import Table, Tables
    from heathaze.mechanisms.summaries.ways import Way
    from heathaze.privacy.ledger import Ledger

Floats = npt.NDArray[np.float64]

NOT_PRIVATE = "Not private: for the eyes of the consumer and the curator."
THIS = "this purchase"
SEEN = 2.0
_SHOWN = 12
"""Steps of the progress bar, about."""

STUDY = Path("study.toml")
"""Read if no other is named and it is there."""

_SEVERAL = ("--owners", "--ledger-owners")


class SeveralValues(TyperCommand):
    """A command in which ``--owners A B C`` is short for ``--owners A --owners B --owners C``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before every further value."""
        repeated: list[str] = []
        option: str | None = None
        fresh = False
        for word in args:
            if word.startswith("-"):
                name = word.split("=", 1)[0]
                option = name if name in _SEVERAL else None
                fresh = option == word
            elif option is not None and not fresh:
                repeated.append(option)
            else:
                fresh = False
            repeated.append(word)
        return list(super().parse_args(ctx, repeated))


def summarize(
    target: Annotated[
        Path | None, typer.Option("--target", help="Rows to match: .parquet or .csv. Private.", show_default=False)
    ] = None,
    owners: Annotated[
        list[Path] | None,
        typer.Option("--owners", metavar="FILE...", help="Rows of each owner, a file each.", show_default=False),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(
            "--study", help="TOML: public ranges and levels of the columns that count.", show_default=STUDY.name
        ),
    ] = None,
    points: Annotated[int | None, typer.Option("--points", help="How many rows to buy.", show_default=False)] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon", help="Privacy loss of a record of the target, and of an owner's.", show_default=False
        ),
    ] = None,
    delta: Annotated[float, typer.Option("--delta", help="Chance that the promise fails.")] = 1e-6,
    output: Annotated[Path, typer.Option("--out", "-o", help="Where to write the rows: .parquet or .csv.")] = Path(
        "chosen.parquet"
    ),
    report: Annotated[
        Path | None, typer.Option("--report", help="Also write all numbers (.json): not private.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Also draw the purchase (.png): not private.")
    ] = None,
    check: Annotated[
        Path | None, typer.Option("--check", help="Rows like the target that took no part, to measure against.")
    ] = None,
    seen: Annotated[
        float | None,
        typer.Option("--seen", help="Points the curator may see for each one it buys.", show_default=f"{SEEN:g}"),
    ] = None,
    rounds: Annotated[bool, typer.Option("--rounds", help="The paper's protocol, round by round.")] = False,
    baselines: Annotated[
        bool | None,
        typer.Option(
            "--baselines/--no-baselines",
            help="Compare with choices that are not private.",
            show_default="with a report or picture",
        ),
    ] = None,
    ledger_target: Annotated[Path | None, typer.Option("--ledger-target", help="Pay from the target's budget.")] = None,
    ledger_owners: Annotated[
        list[Path] | None,
        typer.Option("--ledger-owners", metavar="FILE...", help="Pay from each owner's budget, in the same order."),
    ] = None,
    write_study: Annotated[
        Path | None, typer.Option("--write-study", help="Write a study file to fill in for the target, and stop.")
    ] = None,
    example: Annotated[
        Path | None, typer.Option("--example", help="Write a made-up market into a new folder, and stop.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace output files that exist.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Buy rows of owners who do not trust each other, so that the rows match a target.

    Owners are told nothing but noisy numbers; the buyer gets raw rows. Example: heathaze summarize --target
    town.parquet --owners a.parquet b.parquet --study study.toml --points 500 --epsilon 2 --out chosen.parquet
    """
    from heathaze.mechanisms.summaries import summarize as buy
    from heathaze.mechanisms.summaries.study import Study
    from heathaze.mechanisms.summaries.tables import Tables

    if example is not None:
        _write_example(example, quiet=quiet)
        return
    if target is None:
        raise InvalidInput("Say which rows to match: --target FILE; or --example FOLDER to make up a market.")
    with Tables() as tables:
        if study is None and STUDY.is_file():
            study = STUDY
        if study is None or write_study is not None:
            _ask_for_study(tables.read(target), write_study, overwrite=overwrite, quiet=quiet)
            return
        if points is None or epsilon is None or not owners:
            raise InvalidInput(
                "Say from whom to buy, how much, and at which privacy loss: --owners FILE FILE --points 500 --epsilon "
                "2; or --write-study FILE for a study to fill in."
            )
        # Everything that can be refused is refused before anything is paid.
        named = _names(owners, target)
        outputs = [path for path in (output, report, picture) if path is not None]
        sources = [target, *owners, study, check, ledger_target, *(ledger_owners or [])]
        _check_outputs(output, report, picture, [path for path in sources if path is not None], overwrite=overwrite)
        market = _Market.read(tables, Study.read(study), target, named, check)
        plan = _plan(market, points, epsilon, delta, seen, rounds=rounds)
        plan.check_signal()
        budgets = _Budgets.open(ledger_target, ledger_owners, tuple(named), delta)
        if not (quiet or json):
            _tell_before(plan)
        with _together(outputs[1:]) as parts, steps(_SHOWN, silent=quiet or json) as begin:
            with _together([output]) as rows:
                bought = buy(
                    plan,
                    market.target,
                    market.owners,
                    target_ledger=budgets.target,
                    owner_ledgers=budgets.owners,
                    progress=_now_and_then(begin, steps_to_come=2 * points if rounds else 2),
                )
                if not len(bought.rows):
                    raise InvalidInput(f"Nothing was bought; budgets are charged. {' '.join(bought.notes)}")
                begin("Writing the rows")
                tables.write(rows[output], market.files, bought.owners, bought.rows)
            # What was paid for is safe now, whatever becomes of the rest.
            with _after(output):
                begin("Comparing")
                compared = baselines if baselines is not None else report is not None or picture is not None
                told = _told(plan, bought, market, compared=compared) | {"written": [str(path) for path in outputs]}
                if report is not None:
                    parts[report].write_text(json_module.dumps(told, ensure_ascii=False, indent=2) + "\n", "utf-8")
                if picture is not None:
                    _draw(plan, market, bought, told, parts[picture])
    if json:
        say_json(told)
    elif not quiet:
        _tell(told, ledgers=budgets.target is not None and bool(budgets.owners))


@dataclass(frozen=True, eq=False, repr=False)
class _Market:
    """Everything that was read: files, and their rows as points."""

    study: Study
    files: Mapping[str, Table]
    target: Floats
    owners: Mapping[str, Floats]
    held_out: Floats | None

    @classmethod
    def read(
        cls, tables: Tables, study: Study, target: Path, owners: Mapping[str, Path], check: Path | None
    ) -> _Market:
        """Read and encode; refuse what cannot be compared or written together."""
        wanted, *held_out = [_some_rows(tables, path, study) for path in (target, check) if path is not None]
        files = {name: tables.read(path) for name, path in owners.items()}
        points = {name: tables.encode(table, study).points for name, table in files.items()}
        tables.check_names(files)
        return cls(study, files, wanted, points, held_out[0] if held_out else None)


def _now_and_then(begin: Callable[[str], None], steps_to_come: int) -> Callable[[str], None]:
    """Rounds take thousands of steps; a dozen of them are shown."""
    every, said = max(1, steps_to_come // _SHOWN), itertools.count()

    def say(what: str) -> None:
        if next(said) % every == 0:
            begin(what)

    return say


def _some_rows(tables: Tables, path: Path, study: Study) -> Floats:
    table = tables.read(path)
    if not table.rows:
        raise InvalidInput(f"{path} has no rows; there is nothing to match.")
    return tables.encode(table, study).points


# ── what may be refused ─────────────────────────────────────────────────────────────────────────────────────────────


def _ask_for_study(table: Table, path: Path | None, *, overwrite: bool, quiet: bool) -> None:
    """Write a study to fill in, or say that one is needed. Names of columns are public; nothing else is told."""
    from heathaze.mechanisms.summaries.study import skeleton, write_skeleton

    columns = {name: table.is_number(name) for name in table.types}
    if path is None:
        raise InvalidInput(
            "A purchase needs a study file, --study study.toml: the public ranges and levels of the columns that "
            "count, known to all and never taken from the data. --write-study study.toml writes this one, to be filled "
            "in:\n\n" + skeleton(columns)
        )
    check_place(path, overwrite=overwrite, source=str(table.path))
    write_skeleton(columns, path)
    if not quiet:
        out.print(f"wrote {path}; fill in ranges and levels from public knowledge.", style="bold", markup=False)


def _names(owners: Sequence[Path], target: Path) -> dict[str, Path]:
    """Owners are called like their files, without the ending; with the folder where two would have one name."""
    for index, path in enumerate(owners):
        for other in owners[:index]:
            if path == other or (path.exists() and other.exists() and path.samefile(other)):
                raise InvalidInput(f"{path} is given twice as an owner; its records would be paid for twice: once.")
        if path == target or (path.exists() and target.exists() and path.samefile(target)):
            raise InvalidInput(f"{path} is the target and an owner at once; leave it out of the owners.")
    stems = [_stem(path) for path in owners]
    return {
        stem if stems.count(stem) == 1 else str(path.parent / stem): path
        for stem, path in zip(stems, owners, strict=True)
    }


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet") or path.name


def _check_outputs(
    output: Path, report: Path | None, picture: Path | None, sources: Sequence[Path], *, overwrite: bool
) -> None:
    if output.suffix.lower() not in (".parquet", ".csv"):
        raise UnknownFormat(f"{output} ends in neither .parquet nor .csv, the formats of bought rows.")
    if report is not None and report.suffix.lower() != ".json":
        raise UnknownFormat(f"{report} does not end in .json, the only format of reports.")
    check_picture(picture, overwrite=overwrite)
    paths = [path for path in (output, report, picture) if path is not None]
    if len({path.resolve() for path in paths}) < len(paths):
        raise CannotWrite("Two outputs have the same name; give each its own.")
    for path in paths:
        for source in sources:
            check_place(path, overwrite=overwrite, source=str(source))


def _plan(market: _Market, points: int, epsilon: float, delta: float, seen: float | None, *, rounds: bool) -> Way:
    from heathaze.mechanisms.summaries.herding import Herding
    from heathaze.mechanisms.summaries.rounds import Rounds

    features, members = market.study.features, len(market.target)
    if not rounds:
        return Herding(features, points, members, epsilon, delta, SEEN if seen is None else seen)
    if seen is not None:
        raise InvalidInput("--seen goes without --rounds: in rounds, the curator sees what all who are asked send.")
    return Rounds(features, points, members, epsilon, delta)


@dataclass(frozen=True)
class _Budgets:
    """The ledgers of a purchase, as far as they were named."""

    target: Ledger | None
    owners: Mapping[str, Ledger]

    @classmethod
    def open(cls, target: Path | None, owners: Sequence[Path] | None, names: Sequence[str], delta: float) -> _Budgets:
        """Ledgers of owners are in the order of the owners; they are there already."""
        if owners and len(owners) != len(names):
            raise InvalidInput(
                f"There are {len(names)} owners and {len(owners)} ledgers of owners; give one for each, in the same "
                "order."
            )
        return cls(
            None if target is None else open_existing(target, delta=delta),
            {name: open_existing(path, delta=delta) for name, path in zip(names, owners or (), strict=False)},
        )


@contextlib.contextmanager
def _together(paths: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Hidden files beside the outputs, which take their places all together once everything is written, or none."""
    parts: dict[Path, Path] = {}
    try:
        try:
            for path in paths:
                descriptor, name = tempfile.mkstemp(prefix=".heathaze-", suffix=path.suffix, dir=path.resolve().parent)
                os.close(descriptor)
                parts[path] = Path(name)
            yield parts
            for part in parts.values():
                part.chmod(0o666 & ~_umask())
                with part.open("rb") as file:
                    os.fsync(file.fileno())
            for path, part in parts.items():
                part.replace(path)
        except OSError as problem:
            raise CannotWrite(
                f"Cannot write {', '.join(map(str, paths))}: {(problem.strerror or 'the disk refused').lower()}. "
                "Nothing was left behind."
            ) from None
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def _after(output: Path) -> Iterator[None]:
    """Say that the rows are there, if something goes wrong after they were written."""
    try:
        yield
    except BaseException:
        err.print(f"The bought rows are in {output}; only what follows them failed.", style="bold", markup=False)
        raise


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


# ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────────


def _tell_before(plan: Way) -> None:
    target, *summary = plan.noise_to_signals
    of_summary = f"; of the summary's {max(summary):.2g} at first, {min(summary):.2g} at last" if summary else ""
    out.print(
        f"Noise to signal: of the target's mean hash {target:.2g}{of_summary}. So long is the noise, and a mean "
        "hash is no longer than 1; a purchase with more than 1 is refused.",
        markup=False,
    )
    out.print(f"To each record of the target: {plan.guarantee_for_target}", markup=False)
    out.print(f"To each record of an owner: {plan.guarantee_for_owners}", markup=False)


def _told(plan: Way, bought: Purchase, market: _Market, *, compared: bool) -> dict[str, Any]:
    """All numbers of a purchase."""
    from heathaze.mechanisms.summaries.attribution import attribution
    from heathaze.metrics.mmd import mmd_squared

    gamma = plan.features.gamma
    table = attribution(bought, market.target, gamma, tuple(market.owners))
    choices = {THIS: bought.points} | (_baselines(plan.features, market, len(bought.rows)) if compared else {})
    measured = market.target if market.held_out is None else market.held_out
    return {
        "private": False,
        "for": NOT_PRIVATE,
        "guarantees": {
            "target": plan.guarantee_for_target.to_dict(),
            "owners": plan.guarantee_for_owners.to_dict(),
        },
        "noise_to_signal": list(plan.noise_to_signals),
        "plan": plan.parameters(),
        "points": len(bought.rows),
        "seen": bought.seen,
        "parsimony": bought.parsimony,
        "owners": [row.to_dict() | {"offered": int(bought.offered.get(row.owner, 0))} for row in table],
        "mmd_squared": {name: mmd_squared(measured, chosen, gamma) for name, chosen in choices.items()},
        "mmd_against": "the target" if market.held_out is None else "rows like the target that took no part",
        "notes": list(bought.notes),
    }


def _baselines(features: Features, market: _Market, count: int) -> dict[str, Floats]:
    from heathaze.mechanisms.summaries.baselines import greedy, target_only, uniform
    from heathaze.privacy.randomness import SecureRandomness

    return {
        "greedy, not private": greedy(features, market.target, market.owners, count).points,
        "uniform": uniform(market.owners, count, SecureRandomness()).points,
        "most like the target": target_only(features, market.target, market.owners, count).points,
    }


def _tell(told: Mapping[str, Any], *, ledgers: bool) -> None:
    from rich.table import Table

    table = Table("owner", "offered", "chosen", "share", "value", "missed", box=None, pad_edge=False)
    for row in told["owners"]:
        table.add_row(
            row["owner"],
            f"{row['offered']:,}",
            f"{row['chosen']:,}",
            f"{100 * row['share']:.1f} %",
            f"{row['value']:.3g}",
            f"{row['missed']:.3g}",
        )
    out.print(table)
    out.print(
        f"The curator saw {told['seen']:,} points and bought {told['points']:,}: parsimony {told['parsimony']:.2f}.",
        markup=False,
    )
    apart = ", ".join(f"{name} {value:.2g}" for name, value in told["mmd_squared"].items())
    out.print(f"MMD² from {told['mmd_against']}, exact kernel: {apart}. {NOT_PRIVATE}", markup=False)
    for note in told["notes"]:
        err.print(note, markup=False)
    if not ledgers:
        err.print(
            "Not all ledgers were named, so nothing counts how often these records are used (--ledger-target, "
            "--ledger-owners).",
            style="dim",
            markup=False,
        )
    for path in told["written"]:
        out.print(f"wrote {path}", style="bold", markup=False)


def _draw(plan: Way, market: _Market, bought: Purchase, told: Mapping[str, Any], path: Path) -> None:
    from heathaze.maps.summary_figure import Seller, draw_purchase, some_others

    whose, features = np.array(bought.owners), plan.features
    sellers = [
        Seller(name, features.of(points[rows]), features.of(points[some_others(len(points), rows)]))
        for name, points in market.owners.items()
        for rows in (bought.rows[whose == name],)
    ]
    draw_purchase(
        features.of(market.target),
        sellers,
        told["mmd_squared"],
        title=f"{told['points']:,} points bought from {len(sellers)} owners, {told['seen']:,} seen by the curator",
        caption=(
            "NOT PRIVATE: the picture shows single records, for the eyes of the consumer and the curator. MMD² is "
            f"measured from {told['mmd_against']}. What owners were told: {plan.guarantee_for_owners.short}."
        ),
        path=path,
    )


# ── a made-up market ────────────────────────────────────────────────────────────────────────────────────────────────


def _write_example(folder: Path, *, quiet: bool) -> None:
    import duckdb

    from heathaze.datasets.owners import market
    from heathaze.mechanisms.summaries.study import Study

    if folder.exists():
        raise CannotWrite(f"{folder} exists already; name a new folder.")
    made = market()
    tables = {"town": made.target, "more_of_town": market(1, target=2000, each=1).target, **made.owners}
    owners = " ".join(f"{name}.parquet" for name in made.owners)
    command = (
        f"heathaze summarize --target town.parquet --owners {owners} --study study.toml --points 500 --epsilon 2 "
        "--delta 1e-6 --check more_of_town.parquet --out chosen.parquet --report report.json --picture purchase.png"
    )
    try:
        folder.mkdir(parents=True)
        (folder / "README.txt").write_text(
            "A made-up market: households of a town, and of five suppliers. In this folder:\n\n" + command + "\n",
            encoding="utf-8",
        )
        for name, table in tables.items():
            with duckdb.connect() as connection:
                connection.register("households", table)
                connection.sql("select * from households").write_parquet(str(folder / f"{name}.parquet"))
    except (OSError, duckdb.IOException):
        raise CannotWrite(f"Cannot write into {folder}; choose another place.") from None
    Study.of(made.columns, seed=7).write(folder / "study.toml")
    if not quiet:
        names = [f"{name}.parquet" for name in tables]
        out.print(
            f"wrote {', '.join(str(folder / name) for name in [*names, 'study.toml', 'README.txt'])}",
            style="bold",
            markup=False,
        )
        out.print(command, markup=False)
