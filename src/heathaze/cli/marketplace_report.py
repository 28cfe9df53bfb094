"""What ``heathaze summarize`` tells of a purchase: before it, after it, and in a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.cli.console import err, out
from heathaze.types import Floats

if TYPE_CHECKING:
    from pathlib import Path

    from heathaze.cli.marketplace import Market
    from heathaze.marketplace import Purchase
    from heathaze.marketplace.features import Features
    from heathaze.marketplace.protocol import Way


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
    from heathaze.marketplace.baselines import greedy, target_only, uniform
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
