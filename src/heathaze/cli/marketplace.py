"""``heathaze market``: buy rows that match a private target from owners whose data is private."""

from __future__ import annotations

import contextlib
import itertools
import json as json_module
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option, Typer
from typer.core import TyperCommand

from heathaze.cli.common import Json, Quiet, check_picture, check_place, complain, err, out, say_written, steps
from heathaze.cli.ledger import open_existing
from heathaze.cli.marketplace_report import MarketTables, announce, check_files, draw, report_of, tell
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
        option = ""
        for word in args:
            if word.startswith("-"):
                name = word.split("=", 1)[0]
                option = name if name in _SEVERAL else ""
            elif option and repeated[-1] != option:
                repeated.append(option)
            repeated.append(word)
        return list(super().parse_args(ctx, repeated))


app = Typer(add_completion=False)


@app.command(no_args_is_help=True, cls=SeveralValues)
def market(
    target: Annotated[
        Path | None, Option("--target", help="Rows to match: .parquet or .csv. Private.", show_default=False)
    ] = None,
    owners: Annotated[
        list[Path] | None,
        Option("--owners", metavar="FILE...", help="One file of rows for each owner.", show_default=False),
    ] = None,
    study: Annotated[
        Path | None,
        Option("--study", help="TOML: public ranges and levels of the columns that count.", show_default=STUDY.name),
    ] = None,
    points: Annotated[int | None, Option("--points", help="How many rows to buy.", show_default=False)] = None,
    epsilon: Annotated[
        float | None,
        Option("--epsilon", help="Privacy loss of each record of the target and of each owner.", show_default=False),
    ] = None,
    delta: Annotated[
        float, Option("--delta", help="The δ of the guarantee, a small probability by which its bound may be exceeded.")
    ] = 1e-6,
    output: Annotated[Path, Option("--out", "-o", help="Where to write the rows: .parquet or .csv.")] = Path(
        "chosen.parquet"
    ),
    report: Annotated[Path | None, Option("--report", help="Also write all numbers (.json): not private.")] = None,
    picture: Annotated[Path | None, Option("--picture", help="Also draw the purchase (.png): not private.")] = None,
    check: Annotated[
        Path | None, Option("--check", help="Other rows like the target, to measure how well the bought rows match.")
    ] = None,
    seen: Annotated[
        float | None,
        Option("--seen", help="Number of points the curator may see for each point it buys.", show_default=f"{SEEN:g}"),
    ] = None,
    private_greedy: Annotated[
        bool, Option("--private-greedy", help="Use the paper's protocol, corrected; the bought rows match less well.")
    ] = False,
    baselines: Annotated[
        bool | None,
        Option(
            "--baselines/--no-baselines",
            help="Compare with choices that are not private.",
            show_default="with a report, picture or check",
        ),
    ] = None,
    ledger_target: Annotated[Path | None, Option("--ledger-target", help="Charge this ledger for the target.")] = None,
    ledger_owners: Annotated[
        list[Path] | None,
        Option(
            "--ledger-owners", metavar="FILE...", help="Charge these ledgers, one for each owner, in the same order."
        ),
    ] = None,
    write_study: Annotated[
        Path | None, Option("--write-study", help="Write a study file to fill in for the target, and stop.")
    ] = None,
    check_study: Annotated[
        bool, Option("--check-study", help="Print how files fit the study, and stop: not private.")
    ] = False,
    example: Annotated[
        Path | None, Option("--example", help="Write a synthetic market into a new folder, and stop.")
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace output files that exist.")] = False,
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
        sources = [target, *owners, study, check, ledger_target, *(ledger_owners or [])]
        outputs = _check_outputs(output, report, picture, sources, overwrite=overwrite)
        data = MarketTables.read(tables, Study.read(study), target, named, check)
        plan = _plan(data, points, epsilon, delta, seen, private_greedy=private_greedy)
        plan.check_signal()
        of_target, of_owners = _open_ledgers(plan, ledger_target, ledger_owners or [], tuple(named))
        if not quiet:
            announce(plan, data.fits, json=json)
        with replacing(*outputs[1:]) as hidden, steps(_SHOWN, silent=quiet or json) as begin:
            parts = dict(zip(outputs[1:], hidden, strict=True))
            with replacing(output) as (rows,), _stopped():
                progress = _now_and_then(begin, steps_to_come=2 * points if private_greedy else 2)
                bought = buy(
                    plan, data.target, data.owners, target_ledger=of_target, owner_ledgers=of_owners, progress=progress
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
    tell(numbers, ledgers=of_target is not None and bool(of_owners), json=json, quiet=quiet)


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
    from heathaze.datasets import write_parquet
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
        about = "A synthetic market: households of a town and of five owners. Run in this folder:"
        (folder / "README.txt").write_text(f"{about}\n\n{command}\n", encoding="utf-8")
        for name, table in tables.items():
            write_parquet(table, folder / f"{name}.parquet")
    except OSError:
        raise CannotWrite(f"Cannot write into {folder}; choose another place.") from None
    Study.of(made.columns, seed=7).write(folder / "study.toml")
    if not quiet:
        names = [*(f"{name}.parquet" for name in tables), "study.toml", "README.txt"]
        say_written([", ".join(str(folder / name) for name in names)])
        out.print(command)


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
    """Write a study file to fill in, or raise an error that shows it. The file has only names and types of columns."""
    from heathaze.marketplace.study import skeleton, write_skeleton

    columns = {name: table.kind(name) for name in table.types}
    if path is None:
        raise InvalidInput(
            "A purchase needs a study file, --study study.toml. It lists the public ranges and levels of the columns "
            "that count, which are known to all and never taken from the data. --write-study study.toml writes this "
            "file, to be filled in:\n\n" + skeleton(columns)
        )
    check_place(path, table.path, overwrite=overwrite)
    write_skeleton(columns, path)
    if not quiet:
        say_written([f"{path}; fill in ranges and levels from public knowledge."])


def _names(owners: Sequence[Path], target: Path) -> dict[str, Path]:
    """Name each owner after its file, without the ending; with folder and ending if two names would be equal."""
    for index, path in enumerate(owners):
        if any(_same(path, other) for other in owners[:index]):
            raise InvalidInput(f"{path} is given twice as an owner; name each owner once.")
        if _same(path, target):
            raise InvalidInput(f"{path} is the target and an owner at once; leave it out of the owners.")
    for name in (_stem, lambda path: str(path.parent / _stem(path)), str):
        named = {name(path): path for path in owners}
        if len(named) == len(owners):
            break
    return named


def _same(one: Path, other: Path) -> bool:
    return one == other or (one.exists() and other.exists() and one.samefile(other))


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet") or path.name


def _check_outputs(
    output: Path, report: Path | None, picture: Path | None, sources: Sequence[Path | None], *, overwrite: bool
) -> list[Path]:
    """Refuse outputs that cannot be written, or that are inputs too, and return their paths."""
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
    for path, source in itertools.product(paths, filter(None, sources)):
        check_place(path, source, overwrite=overwrite)
    return paths


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


def _open_ledgers(
    plan: Plan, target: Path | None, owners: Sequence[Path], names: Sequence[str]
) -> tuple[Ledger | None, dict[str, Ledger]]:
    """Open the ledgers of target and owners, which must exist; refuse a purchase that one of them cannot pay."""
    if owners and len(owners) != len(names):
        raise InvalidInput(
            f"There are {len(names)} owners and {len(owners)} ledgers of owners; give one for each, in the same order."
        )
    paths = [path.resolve() for path in (target, *owners) if path is not None]
    twice = [path for path in paths if paths.count(path) > 1]
    if twice:
        raise InvalidInput(
            f"The ledger {twice[0]} is named twice; give a separate ledger for the target and for each owner."
        )
    delta = float(plan.delta)
    of_target = None if target is None else open_existing(target, delta=delta)
    of_owners = {name: open_existing(path, delta=delta) for name, path in zip(names, owners, strict=False)}
    charges = [("The target", of_target, plan.guarantee_for_target, plan.event_for_target)]
    charges += [
        (f"The owner {name}", ledger, plan.guarantee_for_owners, plan.event_for_owners)
        for name, ledger in of_owners.items()
    ]
    for who, ledger, guarantee, event in charges:
        try:
            if ledger is not None:
                ledger.check(guarantee, event)
        except LedgerError as error:
            raise type(error)(f"{who} cannot pay, so no ledger was charged. {error}") from None
    return of_target, of_owners


@contextlib.contextmanager
def _stopped() -> Iterator[None]:
    """If a purchase is interrupted, say that ledgers may have been charged."""
    try:
        yield
    except KeyboardInterrupt:
        complain("Stopped while buying: budgets may have been charged (look at the ledgers); nothing was bought.")
        raise Exit(130) from None


@contextlib.contextmanager
def _after(output: Path) -> Iterator[None]:
    """If an error occurs after the bought rows were written, say where the rows are."""
    try:
        yield
    except BaseException:
        err.print(f"The bought rows are in {output}; only a later step failed.", style="bold")
        raise
