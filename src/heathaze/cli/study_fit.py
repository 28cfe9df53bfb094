"""How files fit a study, for whoever holds them: a misspelt level would else spoil a purchase in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heathaze.cli.console import err, out, say_json
from heathaze.errors import InvalidInput

if TYPE_CHECKING:
    from heathaze.marketplace.study import Fit

HOLDERS = "Not private: for the eyes of whoever holds the file."


def check_files(path: Path | None, files: Sequence[Path], *, json: bool) -> None:
    """Print for each file and column how many of the values say nothing."""
    from rich.table import Table

    from heathaze.ingest.tables import Tables
    from heathaze.marketplace.study import Number, Study

    if path is None or not files:
        raise InvalidInput("Say what to check: --check-study --study study.toml and --target FILE or --owners FILE.")
    study = Study.read(path)
    with Tables() as tables:
        fits = {file: tables.encode(tables.read(file), study).fits for file in files}
    if json:
        columns = [
            {
                "file": str(file),
                "column": name,
                "outside": _share(fit.outside, fit),
                "missing": _share(fit.missing, fit),
            }
            for file, each in fits.items()
            for name, fit in each.items()
        ]
        say_json({"private": False, "for": HOLDERS, "columns": columns})
        return
    table = Table("file", "column", "outside of the range", "none of the levels", "missing", box=None, pad_edge=False)
    for file, each in fits.items():
        for column in study.columns:
            fit = each[column.name]
            outside = _percent(fit.outside, fit)
            both = (outside, "") if isinstance(column, Number) else ("", outside)
            table.add_row(str(file), column.name, *both, _percent(fit.missing, fit))
    out.print(table)
    out.print(HOLDERS, markup=False)


def warn_of_misfits(fits: Mapping[Path, Mapping[str, Fit]]) -> None:
    """Name columns in which most values say nothing."""
    doubtful = [(path, name, fit) for path, each in fits.items() for name, fit in each.items() if fit.doubtful]
    for path, name, fit in doubtful:
        err.print(
            f"{path}: in the column {name!r}, {_percent(fit.outside, fit)} of the values are not as the study says and "
            f"{_percent(fit.missing, fit)} are missing or cannot be read; check the study and the file.",
            markup=False,
        )
    if doubtful:
        err.print(f"--check-study prints this for every column. {HOLDERS}", style="dim", markup=False)


def _share(count: int, fit: Fit) -> float:
    return count / max(1, fit.rows)


def _percent(count: int, fit: Fit) -> str:
    return f"{100 * _share(count, fit):.1f} %"
