"""Output of ``heathaze market``: tables and pictures of how files fit the study, of the plan and of the purchase."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.cli.common import err, out, say_json, say_table, say_written
from heathaze.errors import InvalidInput
from heathaze.types import Floats

if TYPE_CHECKING:
    from heathaze.ingest.tables import Table, Tables
    from heathaze.marketplace import Purchase
    from heathaze.marketplace.columns import ColumnFit
    from heathaze.marketplace.features import Features
    from heathaze.marketplace.plan import Plan
    from heathaze.marketplace.study import Encoded, Study


# ── what was read ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class MarketTables:
    """The input of a purchase: the tables of target and owners, and their rows encoded as points."""

    study: Study
    files: Mapping[str, Table]
    target: Floats
    owners: Mapping[str, Floats]
    held_out: Floats | None
    fits: Mapping[Path, Mapping[str, ColumnFit]]

    @classmethod
    def read(
        cls, tables: Tables, study: Study, target: Path, owners: Mapping[str, Path], check: Path | None
    ) -> MarketTables:
        """Read and encode the files of a purchase; refuse files whose rows cannot be compared or written together."""
        wanted = {path: _some_rows(tables, path, study) for path in (target, check) if path is not None}
        files = {name: tables.read(path) for name, path in owners.items()}
        sold = {name: study.encode_file(tables, table) for name, table in files.items()}
        tables.check_names(files)
        points = {name: encoded.points for name, encoded in sold.items()}
        fits = {path: encoded.fits for path, encoded in wanted.items()}
        fits |= {files[name].path: encoded.fits for name, encoded in sold.items()}
        return cls(study, files, wanted[target].points, points, None if check is None else wanted[check].points, fits)


def _some_rows(tables: Tables, path: Path, study: Study) -> Encoded:
    table = tables.read(path)
    if not table.rows:
        raise InvalidInput(f"{path} has no rows; there is nothing to match.")
    return study.encode_file(tables, table)


# ── how files fit the study ─────────────────────────────────────────────────────────────────────────────────────────

HOLDERS = "Not private: for the holder of the file."


def check_files(path: Path | None, files: Sequence[Path], *, json: bool) -> None:
    """Print for each file and column how many values lie outside the study's ranges and levels, or are missing.

    A misspelt level would otherwise spoil a purchase without an error.
    """
    from rich.table import Table

    from heathaze.ingest.tables import Tables
    from heathaze.marketplace.columns import NumberColumn
    from heathaze.marketplace.study import Study

    if path is None or not files:
        raise InvalidInput("Say what to check: --check-study --study study.toml and --target FILE or --owners FILE.")
    study = Study.read(path)
    with Tables() as tables:
        fits = {file: study.encode_file(tables, tables.read(file)).fits for file in files}
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
            both = (outside, "") if isinstance(column, NumberColumn) else ("", outside)
            table.add_row(str(file), column.name, *both, _percent(fit.missing, fit))
    out.print(table)
    out.print(HOLDERS)


def warn_of_misfits(fits: Mapping[Path, Mapping[str, ColumnFit]]) -> None:
    """Warn of columns in which most values lie outside the study's ranges and levels, or are missing."""
    doubtful = [(path, name, fit) for path, each in fits.items() for name, fit in each.items() if fit.doubtful]
    for path, name, fit in doubtful:
        err.print(
            f"{path}: in the column {name!r}, {_percent(fit.outside, fit)} of the values do not fit the study and "
            f"{_percent(fit.missing, fit)} are missing or cannot be read; check the study and the file."
        )
    if doubtful:
        err.print(f"--check-study prints this for every column. {HOLDERS}", style="dim")


def _share(count: int, fit: ColumnFit) -> float:
    return count / max(1, fit.rows)


def _percent(count: int, fit: ColumnFit) -> str:
    return f"{100 * _share(count, fit):.1f} %"


# ── the plan and the purchase ───────────────────────────────────────────────────────────────────────────────────────

NOT_PRIVATE = "Not private: for the consumer and the curator."
THIS = "this purchase"
UNIFORM = "uniform"
_MUCH_NOISE = 0.5
"""The noise, as a share of the signal, above which private greedy is often no better than chance."""


def announce(plan: Plan, fits: Mapping[Path, Mapping[str, ColumnFit]], *, json: bool) -> None:
    """Print the noise and the guarantees of a purchase before any ledger is charged, and warn of what is doubtful."""
    warn_of_misfits(fits)
    if not json:
        target, *summary = (f"{100 * ratio:.0f} %" for ratio in plan.noise_to_signals)
        of_summary = f", of the summary's {summary[0]} at first and {summary[-1]} at last" if summary else ""
        out.print(
            f"The noise of the target's mean hash is {target} of the greatest possible signal{of_summary} (above 100 % "
            "a purchase is refused)."
        )
        out.print(f"To each record of the target: {plan.guarantee_for_target.short}")
        out.print(f"To each record of an owner: {plan.guarantee_for_owners.short}")
        out.print("In full below, and in the report (--report).", style="dim")
    if plan.parameters()["protocol"] == "private-greedy" and plan.noise_to_signal > _MUCH_NOISE:
        err.print(
            f"The noise of private greedy is up to {100 * plan.noise_to_signal:.0f} % of the greatest possible signal; "
            "herding, the default, needs less: leave out --private-greedy."
        )


def warn_of_chance(report: Mapping[str, Any]) -> None:
    """Warn if rows taken at random would match the target better than the bought rows."""
    apart = report["mmd_squared"]
    if apart[THIS] > apart.get(UNIFORM, math.inf):
        herding = report["plan"]["protocol"] == "herding"
        instead = "take a larger epsilon or target" if herding else "leave out --private-greedy"
        err.print(
            f"This purchase is farther from {report['mmd_against']} than rows taken at random, which cost no privacy; "
            f"{instead}."
        )


def report_of(plan: Plan, bought: Purchase, market: MarketTables, *, compared: bool) -> dict[str, Any]:
    """Collect all numbers of a purchase, for --report and --json."""
    from heathaze.marketplace.mmd import attribution, mmd_squared

    gamma = plan.features.gamma
    table = attribution(bought, market.target, gamma, tuple(market.owners))
    choices = {THIS: bought.points} | (_baselines(plan.features, market, len(bought.rows)) if compared else {})
    measured = market.target if market.held_out is None else market.held_out
    return {
        "private": False,
        "for": NOT_PRIVATE,
        "guarantees": {"target": plan.guarantee_for_target.to_dict(), "owners": plan.guarantee_for_owners.to_dict()},
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


def _baselines(features: Features, market: MarketTables, count: int) -> dict[str, Floats]:
    from heathaze.marketplace.baselines import greedy, target_only, uniform
    from heathaze.privacy.randomness import SecureRandomness

    return {
        "greedy, not private": greedy(features, market.target, market.owners, count).points,
        UNIFORM: uniform(market.owners, count, SecureRandomness()).points,
        "most like the target": target_only(features, market.target, market.owners, count).points,
    }


def tell(report: Mapping[str, Any], *, ledgers: bool, json: bool, quiet: bool) -> None:
    """Print a purchase: a row for each owner, the distances to the target, the guarantees and the notes."""
    if not quiet:
        warn_of_chance(report)
    if json:
        say_json(dict(report))
    if json or quiet:
        return
    columns = {
        "owner": "{owner}",
        "offered": "{offered:,}",
        "chosen": "{chosen:,}",
        "share": "{percent:.1f} %",
        "value": "{value:.3g}",
        "missed": "{missed:.3g}",
    }
    say_table(columns, ({"percent": 100 * row["share"], **row} for row in report["owners"]))
    out.print(
        f"The curator saw {report['seen']:,} points and bought {report['points']:,}: parsimony "
        f"{report['parsimony']:.2f}."
    )
    apart = ", ".join(f"{name} {value:.2g}" for name, value in report["mmd_squared"].items())
    out.print(f"MMD² from {report['mmd_against']}, exact kernel: {apart}. {NOT_PRIVATE}")
    for whom, promise in report["guarantees"].items():
        whose = "the target" if whom == "target" else "an owner"
        out.print(f"To each record of {whose}: {promise['sentence']}", style="dim")
    for note in report["notes"]:
        err.print(note)
    if not ledgers:
        err.print(
            "Not all ledgers were named, so nothing counts how often these records are used (--ledger-target, "
            "--ledger-owners).",
            style="dim",
        )
    say_written(report["written"])


def draw(plan: Plan, market: MarketTables, bought: Purchase, report: Mapping[str, Any], path: Path) -> None:
    """Draw a purchase. NOT PRIVATE."""
    from heathaze.marketplace.figure import Seller, draw_purchase, some_others

    whose, features = np.array(bought.owners), plan.features
    sellers = [
        Seller(name, features.of(points[rows]), features.of(points[some_others(len(points), rows)]))
        for name, points in market.owners.items()
        for rows in (bought.rows[whose == name],)
    ]
    draw_purchase(
        features.of(market.target),
        sellers,
        report["mmd_squared"],
        title=f"{report['points']:,} points bought from {len(sellers)} owners, {report['seen']:,} seen by the curator",
        measured="the target" if market.held_out is None else "rows like the target",
        caption=(
            "NOT PRIVATE: the picture shows single records, for the consumer and the curator. MMD² is "
            f"measured from {report['mmd_against']}. What owners were sent has {plan.guarantee_for_owners.loss} "
            "differential privacy for each record; adjacency: "
            f"{plan.guarantee_for_target.adjacency.value} for records of the target, "
            f"{plan.guarantee_for_owners.adjacency.value} for records of owners."
        ),
        path=path,
    )
