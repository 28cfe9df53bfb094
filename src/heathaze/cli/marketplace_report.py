"""What ``heathaze summarize`` tells of a purchase: before it, after it, and in a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.cli.console import err, out, say_json
from heathaze.errors import InvalidInput
from heathaze.types import Floats

if TYPE_CHECKING:
    from pathlib import Path

    from heathaze.cli.marketplace import Market
    from heathaze.marketplace import Purchase
    from heathaze.marketplace.features import Features
    from heathaze.marketplace.protocol import Way
    from heathaze.marketplace.study import Fit


# TODO-merged from cli.study_fit: How files fit a study, for whoever holds them: a misspelt level would else spoil a purchase in silence.

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


NOT_PRIVATE = "Not private: for the eyes of the consumer and the curator."
THIS = "this purchase"
UNIFORM = "uniform"
_MUCH_NOISE = 0.5
"""Of the signal. Rounds with more are often no better than chance."""


def tell_before(plan: Way) -> None:
    target, *summary = (f"{100 * ratio:.0f} %" for ratio in plan.noise_to_signals)
    of_summary = f", of the summary's {summary[0]} at first and {summary[-1]} at last" if summary else ""
    out.print(
        f"The noise of the target's mean hash is {target} of the greatest possible signal{of_summary} (above 100 % a "
        "purchase is refused).",
        markup=False,
    )
    out.print(f"To each record of the target: {plan.guarantee_for_target.short}", markup=False)
    out.print(f"To each record of an owner: {plan.guarantee_for_owners.short}", markup=False)
    out.print("In full below, and in the report (--report).", style="dim", markup=False)


def warn_of_noise(plan: Way) -> None:
    if plan.noise_to_signal > _MUCH_NOISE:
        err.print(
            f"In these rounds noise is up to {100 * plan.noise_to_signal:.0f} % of the greatest possible signal; "
            "herding, the default, needs less: leave out --rounds.",
            markup=False,
        )


def warn_of_chance(told: Mapping[str, Any]) -> None:
    apart = told["mmd_squared"]
    if apart[THIS] > apart.get(UNIFORM, math.inf):
        instead = "leave out --rounds" if told["plan"]["way"] == "rounds" else "take a larger epsilon or target"
        err.print(
            f"This purchase is farther from {told['mmd_against']} than rows taken by chance, which cost no privacy; "
            f"{instead}.",
            markup=False,
        )


def what_is_told(plan: Way, bought: Purchase, market: Market, *, compared: bool) -> dict[str, Any]:
    """All numbers of a purchase."""
    from heathaze.marketplace.attribution import attribution
    from heathaze.marketplace.mmd import mmd_squared

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


def _baselines(features: Features, market: Market, count: int) -> dict[str, Floats]:
    from heathaze.marketplace.greedy import greedy, target_only, uniform
    from heathaze.privacy.randomness import SecureRandomness

    return {
        "greedy, not private": greedy(features, market.target, market.owners, count).points,
        UNIFORM: uniform(market.owners, count, SecureRandomness()).points,
        "most like the target": target_only(features, market.target, market.owners, count).points,
    }


def tell(told: Mapping[str, Any], *, ledgers: bool) -> None:
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
    for whom, promise in told["guarantees"].items():
        whose = "the target" if whom == "target" else "an owner"
        out.print(f"To each record of {whose}: {promise['sentence']}", style="dim", markup=False)
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


def draw(plan: Way, market: Market, bought: Purchase, told: Mapping[str, Any], path: Path) -> None:
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
        told["mmd_squared"],
        title=f"{told['points']:,} points bought from {len(sellers)} owners, {told['seen']:,} seen by the curator",
        measured="the target" if market.held_out is None else "rows like the target",
        caption=(
            "NOT PRIVATE: the picture shows single records, for the eyes of the consumer and the curator. MMD² is "
            f"measured from {told['mmd_against']}. What owners were told has {plan.guarantee_for_owners.loss} "
            "differential privacy for each record; adjacency: "
            f"{plan.guarantee_for_target.adjacency.value} for records of the target, "
            f"{plan.guarantee_for_owners.adjacency.value} for records of owners."
        ),
        path=path,
    )
