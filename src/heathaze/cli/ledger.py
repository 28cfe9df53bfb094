"""``heathaze ledger``: open a ledger and show what was spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from heathaze.cli.common import Json, out, say_json
from heathaze.errors import LedgerError
from heathaze.privacy.ledger import Ledger

app = Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Open a ledger, which is the privacy budget of a dataset, or show what was spent.",
)

File = Annotated[Path, Argument(metavar="LEDGER", help="The ledger file, one for each dataset.")]


@app.command("open", no_args_is_help=True)
def open_ledger(
    file: File,
    total: Annotated[float, Option("--total", help="The ε that may ever be spent on the data.")],
    delta: Annotated[float, Option("--delta", help="δ for Gaussian noise; 0 allows no Gaussian noise.")] = 0,
    json: Json = False,
) -> None:
    """Open a new ledger with a total budget. An existing ledger with the same total stays as it is."""
    _print(Ledger.open(file, total=total, delta=delta), json=json)


@app.command("show", no_args_is_help=True)
def show_ledger(file: File, json: Json = False) -> None:
    """Check the ledger and print its charges."""
    _print(open_existing(file), json=json)


def open_existing(file: Path, delta: float = 0) -> Ledger:
    """Open a ledger that exists. Only ``heathaze ledger open`` makes a new ledger.

    Args:
        file: The ledger.
        delta: The δ that the command needs, which the error sentence suggests.

    Raises:
        LedgerError: There is no such file.
    """
    if not file.exists():
        allowed = f" --delta {delta:g}" if delta else ""
        raise LedgerError(f"There is no ledger {file}; open one with `heathaze ledger open {file} --total 2{allowed}`.")
    return Ledger.open(file)


def _print(ledger: Ledger, *, json: bool) -> None:
    entries = ledger.entries()
    if json:
        say_json(
            {
                "total": str(ledger.total),
                "spent": str(ledger.spent),
                "remaining": str(ledger.remaining),
                "unit": None if ledger.unit is None else ledger.unit.value,
                "entries": [
                    entry.reference() | {"time": entry.time, "note": entry.note, "guarantee": entry.guarantee.to_dict()}
                    for entry in entries
                ],
            }
        )
        return
    at = f" at δ = {float(ledger.delta):g} (Gaussian noise adds up less than linearly)" if ledger.delta else ""
    out.print(
        f"{float(ledger.spent):g} of {float(ledger.total):g} spent{at}, {float(ledger.remaining):g} left; the chain of "
        f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'} is intact."
    )
    for entry in entries:
        promised = entry.guarantee
        per = "" if promised.adjacency.length is None else f" per {promised.adjacency.length}"
        within = "" if promised.reach is None else f" within {promised.reach}"
        line = f"  {entry.number}  {entry.time}  {promised.loss}{per}  {promised.unit.value}{within}"
        out.print(f"{line}  {_printable(entry.note)}")


def _printable(note: str) -> str:
    """Write the note of a ledger's entry on one line, with control characters escaped."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in note)
