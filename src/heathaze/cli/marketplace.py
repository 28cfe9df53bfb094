"""``heathaze market``: buy rows that match a private target from owners whose data is private."""

from __future__ import annotations

import contextlib
import itertools
import json as json_module
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from heathaze.cli.console import Json, Quiet, complain, err, out, say_json, steps
from heathaze.cli.ledger import open_existing
from heathaze.cli.marketplace_report import (
    MarketTables,
    check_files,
    draw,
    print_plan,
    print_report,
    report_of,
    warn_of_chance,
    warn_of_misfits,
    warn_of_noise,
)
from heathaze.cli.options import check_picture, check_place
from heathaze.errors import CannotWrite, InvalidInput, LedgerError, UnknownFormat
from heathaze.files import replacing

if TYPE_CHECKING:
    from heathaze.ingest.tables import Table
    from heathaze.marketplace.plan import Plan
    from heathaze.privacy.ledger import Ledger

SEEN = 2.0
_SHOWN = 12
"""The approximate number of steps of the progress bar."""

STUDY = Path("study.toml")
"""The study file that is read if --study is not given and this file exists."""

_SEVERAL = ("--owners", "--ledger-owners")


class SeveralValues(TyperCommand):
    """A command that accepts several values after an option: ``--owners A B C`` means ``--owners A --owners B …``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the option again before every further value."""
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


app = typer.Typer(add_completion=False)


@app.command(no_args_is_help=True, cls=SeveralValues)
def market(
    target: Annotated[
        Path | None, typer.Option("--target", help="Rows to match: .parquet or .csv. Private.", show_default=False)
    ] = None,
    owners: Annotated[
        list[Path] | None,
        typer.Option("--owners", metavar="FILE...", help="One file of rows for each owner.", show_default=False),
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
            "--epsilon", help="Privacy loss of each record of the target and of each owner.", show_default=False
        ),
    ] = None,
    delta: Annotated[float, typer.Option("--delta", help="Probability that the guarantee fails.")] = 1e-6,
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
        Path | None,
        typer.Option("--check", help="Other rows like the target, to measure how well the bought rows match."),
    ] = None,
    seen: Annotated[
        float | None,
        typer.Option(
            "--seen", help="Number of points the curator may see for each point it buys.", show_default=f"{SEEN:g}"
        ),
    ] = None,
    private_greedy: Annotated[
        bool, typer.Option("--private-greedy", help="The paper's protocol, corrected; it matches less well.")
    ] = False,
    baselines: Annotated[
        bool | None,
        typer.Option(
            "--baselines/--no-baselines",
            help="Compare with choices that are not private.",
            show_default="with a report, picture or check",
        ),
    ] = None,
    ledger_target: Annotated[
        Path | None, typer.Option("--ledger-target", help="Charge this ledger for the target.")
    ] = None,
    ledger_owners: Annotated[
        list[Path] | None,
        typer.Option(
            "--ledger-owners", metavar="FILE...", help="Charge these ledgers, one for each owner, in the same order."
        ),
    ] = None,
    write_study: Annotated[
        Path | None, typer.Option("--write-study", help="Write a study file to fill in for the target, and stop.")
    ] = None,
    check_study: Annotated[
        bool, typer.Option("--check-study", help="Print how files fit the study, and stop: not private.")
    ] = False,
    example: Annotated[
        Path | None, typer.Option("--example", help="Write a synthetic market into a new folder, and stop.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace output files that exist.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Buy rows that match a target from owners who do not trust each other.

    Owners receive only noisy numbers; the buyer receives raw rows. All parties run in this one process, so the command
    is for a curator who holds all files, or for a rehearsal. Example: heathaze market --target town.parquet --owners
    a.parquet b.parquet --study study.toml --points 500 --epsilon 2 --out chosen.parquet
    """
    from heathaze.ingest.tables import Tables
    from heathaze.marketplace import buy
    from heathaze.marketplace.study import Study

    if example is not None:
        _write_example(example, quiet=quiet)
        return
    if study is None and STUDY.is_file():
        study = STUDY
    if check_study:
        check_files(study, [path for path in (target, *(owners or ()), check) if path is not None], json=json)
        return
    if target is None:
        raise InvalidInput("Say which rows to match: --target FILE; or --example FOLDER to write a synthetic market.")
    with Tables() as tables:
        if study is None or write_study is not None:
            _ask_for_study(tables.read(target), write_study, overwrite=overwrite, quiet=quiet)
            return
        if not owners or points is None or epsilon is None:
            raise _forgotten(owners, points, epsilon)
        # Every check comes before the first payment.
        named = _names(owners, target)
        outputs = [path for path in (output, report, picture) if path is not None]
        sources = [target, *owners, study, check, ledger_target, *(ledger_owners or [])]
        _check_outputs(output, report, picture, [path for path in sources if path is not None], overwrite=overwrite)
        data = MarketTables.read(tables, Study.read(study), target, named, check)
        plan = _plan(data, points, epsilon, delta, seen, private_greedy=private_greedy)
        plan.check_signal()
        budgets = _Budgets.open(ledger_target, ledger_owners, tuple(named), delta)
        budgets.check(plan)
        if not quiet:
            warn_of_misfits(data.fits)
        if not (quiet or json):
            print_plan(plan)
        if private_greedy and not quiet:
            warn_of_noise(plan)
        with replacing(*outputs[1:]) as hidden, steps(_SHOWN, silent=quiet or json) as begin:
            parts = dict(zip(outputs[1:], hidden, strict=True))
            with replacing(output) as (rows,), _stopped():
                bought = buy(
                    plan,
                    data.target,
                    data.owners,
                    target_ledger=budgets.target,
                    owner_ledgers=budgets.owners,
                    progress=_now_and_then(begin, steps_to_come=2 * points if private_greedy else 2),
                )
                if not len(bought.rows):
                    raise InvalidInput(f"Nothing was bought; budgets are charged. {' '.join(bought.notes)}")
                begin("Writing the rows")
                tables.write(rows, data.files, bought.owners, bought.rows)
            # The bought rows are on the disk, so a later error cannot lose them.
            with _after(output):
                begin("Comparing")
                compared = baselines if baselines is not None else bool(report or picture or check)
                written = {"written": [str(path) for path in outputs]}
                numbers = report_of(plan, bought, data, compared=compared) | written
                if report is not None:
                    parts[report].write_text(json_module.dumps(numbers, ensure_ascii=False, indent=2) + "\n", "utf-8")
                if picture is not None:
                    draw(plan, data, bought, numbers, parts[picture])
    if not quiet:
        warn_of_chance(numbers)
    if json:
        say_json(numbers)
    elif not quiet:
        print_report(numbers, ledgers=budgets.target is not None and bool(budgets.owners))


def _now_and_then(begin: Callable[[str], None], steps_to_come: int) -> Callable[[str], None]:
    """Show about a dozen of a purchase's steps as progress; private greedy takes thousands of steps."""
    every, said = max(1, steps_to_come // _SHOWN), itertools.count()

    def say(what: str) -> None:
        if next(said) % every == 0:
            begin(what)

    return say


def _write_example(folder: Path, *, quiet: bool) -> None:
    """Write a synthetic market into a folder, to try ``heathaze market`` on."""
    from heathaze.datasets import owners as made_up
    from heathaze.datasets.parquet import write_parquet
    from heathaze.marketplace.study import Study

    if folder.exists():
        raise CannotWrite(f"{folder} exists already; name a new folder.")
    made = made_up.market()
    tables = {"town": made.target, "more_of_town": made_up.market(1, target=2000, each=1).target, **made.owners}
    owners = " ".join(f"{name}.parquet" for name in made.owners)
    command = (
        f"heathaze market --target town.parquet --owners {owners} --study study.toml --points 500 --epsilon 2 "
        "--delta 1e-6 --check more_of_town.parquet --out chosen.parquet --report report.json --picture purchase.png"
    )
    try:
        folder.mkdir(parents=True)
        (folder / "README.txt").write_text(
            "A synthetic market: households of a town and of five owners. Run in this folder:\n\n" + command + "\n",
            encoding="utf-8",
        )
        for name, table in tables.items():
            write_parquet(table, folder / f"{name}.parquet")
    except OSError:
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


# ── what may be refused ─────────────────────────────────────────────────────────────────────────────────────────────


def _forgotten(owners: object, points: object, epsilon: object) -> InvalidInput:
    """Return the error that names the required options of ``heathaze market`` that are missing."""
    wanted = (
        (owners, "from whom to buy: --owners FILE FILE"),
        (points, "how many rows to buy: --points 500"),
        (epsilon, "at which privacy loss: --epsilon 2"),
    )
    missing = [words for given, words in wanted if not given and given != 0]
    hint = "; or --write-study FILE for a study to fill in" if len(missing) == len(wanted) else ""
    return InvalidInput(f"Say {', and '.join(missing)}{hint}.")


def _ask_for_study(table: Table, path: Path | None, *, overwrite: bool, quiet: bool) -> None:
    """Write a study file to fill in, or raise an error that shows it. It has only names and types of columns."""
    from heathaze.marketplace.study import skeleton, write_skeleton

    columns = {name: table.kind(name) for name in table.types}
    if path is None:
        raise InvalidInput(
            "A purchase needs a study file, --study study.toml. It lists the public ranges and levels of the columns "
            "that count, which are known to all and never taken from the data. --write-study study.toml writes this "
            "file, to be filled in:\n\n" + skeleton(columns)
        )
    check_place(path, overwrite=overwrite, source=str(table.path))
    write_skeleton(columns, path)
    if not quiet:
        out.print(f"wrote {path}; fill in ranges and levels from public knowledge.", style="bold", markup=False)


def _names(owners: Sequence[Path], target: Path) -> dict[str, Path]:
    """Name each owner after its file, without the ending; with folder and ending if two names would be equal."""
    for index, path in enumerate(owners):
        for other in owners[:index]:
            if path == other or (path.exists() and other.exists() and path.samefile(other)):
                raise InvalidInput(f"{path} is given twice as an owner; name each owner once.")
        if path == target or (path.exists() and target.exists() and path.samefile(target)):
            raise InvalidInput(f"{path} is the target and an owner at once; leave it out of the owners.")
    for name in (_stem, lambda path: str(path.parent / _stem(path)), str):
        named = {name(path): path for path in owners}
        if len(named) == len(owners):
            break
    return named


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet") or path.name


def _check_outputs(
    output: Path, report: Path | None, picture: Path | None, sources: Sequence[Path], *, overwrite: bool
) -> None:
    if output.suffix.lower() not in (".parquet", ".csv"):
        raise UnknownFormat(
            f"Unknown file type {output.suffix or output}; bought rows are written as .parquet or .csv."
        )
    if report is not None and report.suffix.lower() != ".json":
        raise UnknownFormat(f"Unknown file type {report.suffix or report}; a report is written as .json.")
    check_picture(picture, overwrite=overwrite)
    paths = [path for path in (output, report, picture) if path is not None]
    if len({path.resolve() for path in paths}) < len(paths):
        raise CannotWrite("Two outputs have the same name; give each its own.")
    for path in paths:
        for source in sources:
            check_place(path, overwrite=overwrite, source=str(source))


def _plan(
    data: MarketTables, points: int, epsilon: float, delta: float, seen: float | None, *, private_greedy: bool
) -> Plan:
    from heathaze.marketplace.herding import Herding
    from heathaze.marketplace.private_greedy import PrivateGreedy

    features, members = data.study.features, len(data.target)
    if not private_greedy:
        return Herding(features, points, members, epsilon, delta, SEEN if seen is None else seen)
    if seen is not None:
        raise InvalidInput(
            "--seen and --private-greedy exclude each other: in private greedy the curator sees the points that "
            "all asked owners send. Leave one of the two options out."
        )
    return PrivateGreedy(features, points, members, epsilon, delta)


@dataclass(frozen=True)
class _Budgets:
    """The ledgers of a purchase that were named on the command line."""

    target: Ledger | None
    owners: Mapping[str, Ledger]

    @classmethod
    def open(cls, target: Path | None, owners: Sequence[Path] | None, names: Sequence[str], delta: float) -> _Budgets:
        """Open the ledgers of a purchase, which must exist. Ledgers of owners are in the order of the owners."""
        if owners and len(owners) != len(names):
            raise InvalidInput(
                f"There are {len(names)} owners and {len(owners)} ledgers of owners; give one for each, in the same "
                "order."
            )
        paths = [path.resolve() for path in (target, *(owners or ())) if path is not None]
        twice = [path for path in paths if paths.count(path) > 1]
        if twice:
            raise InvalidInput(
                f"The ledger {twice[0]} is named twice; give a separate ledger for the target and for each owner."
            )
        return cls(
            None if target is None else open_existing(target, delta=delta),
            {name: open_existing(path, delta=delta) for name, path in zip(names, owners or (), strict=False)},
        )

    def check(self, plan: Plan) -> None:
        """Refuse a purchase that a party cannot pay, before any party has paid."""
        charges = [("The target", self.target, plan.guarantee_for_target, plan.event_for_target)]
        charges += [
            (f"The owner {name}", ledger, plan.guarantee_for_owners, plan.event_for_owners)
            for name, ledger in self.owners.items()
        ]
        for who, ledger, guarantee, event in charges:
            try:
                if ledger is not None:
                    ledger.check(guarantee, event)
            except LedgerError as error:
                raise type(error)(f"{who} cannot pay, so no ledger was charged. {error}") from None


@contextlib.contextmanager
def _stopped() -> Iterator[None]:
    """If a purchase is interrupted, say that ledgers may have been charged."""
    try:
        yield
    except KeyboardInterrupt:
        complain("Stopped while buying: budgets may have been charged (look at the ledgers); nothing was bought.")
        raise typer.Exit(130) from None


@contextlib.contextmanager
def _after(output: Path) -> Iterator[None]:
    """If an error occurs after the bought rows were written, say where the rows are."""
    try:
        yield
    except BaseException:
        err.print(f"The bought rows are in {output}; only a later step failed.", style="bold", markup=False)
        raise
