"""The claims of the paper on the disk area mechanism, and goals for the estimators, as tests on the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from harness.claims import Claim, Difference, difference, golden, repeats
from harness.results import Point, Results
from protocol import METRICS

FIGURES = ("few_cells", "many_cells", "small_epsilon", "large_epsilon", "wide_discs")
REAL = ("gowalla", "accidents")
WHERE = {
    "few_cells": "d = {x:g}, ε = 3.5",
    "many_cells": "d = {x:g}, ε = 5",
    "small_epsilon": "d = 5, ε = {x:g}",
    "large_epsilon": "d = 15, ε = {x:g}",
    "wide_discs": "d = 15, ε = {x:g}",
}
DEPARTURES = {
    ("radius", "szipf"), ("MDSW", "szipf"), ("users", "szipf"), ("users", "gowalla"), ("HUEM", "szipf"),
    ("SEM", "normal"), ("SEM", "mnormal"), ("SEM", "accidents"), ("small", "normal"), ("small", "gowalla"),
    ("shrink", "gowalla"), ("shrink", "accidents"),
}  # fmt: skip
"""The claims and data sets that do not hold here; the README explains them."""


def all_claims(results: Results, config: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Claim]:
    """All claims that the available results can test."""
    found: list[Claim] = []
    for source in (name for name in config["data"] if name in results.sources("figure8")):
        found += _figure8(results, source)
        found += _figure9(results, source)
    found += _estimators(results, config)
    found += _golden(results, config)
    found += repeats(results, expected)
    return found


# ── figures 8, 9 and 13 ─────────────────────────────────────────────────────────────────────────────────────────────


def _figure8(results: Results, source: str) -> Iterator[Claim]:
    points = results.series("figure8", source)
    middle = points[len(points) // 2]
    far = [point for point in points if abs(point.x - middle.x) > 1]
    rivals = [_lead(results, (middle, "DAM"), (point, "DAM")) for point in far]
    yield Claim(
        f"fig. 8, {source}: W2 of DAM over b is least at the paper's b = {middle.x:g} or beside it",
        "falls, then rises",
        ", ".join(f"b = {point.x:g}: {results.mean(point, 'DAM', 'W2'):.4f}" for point in points),
        not any((-lead).clear for lead in rivals),
        ("radius", source) in DEPARTURES,
    )


def _figure9(results: Results, source: str) -> Iterator[Claim]:
    figure = "fig. 13" if source in REAL else "fig. 9"
    # On one cell every map is right.
    points = [point for name in FIGURES for point in results.series(name, source) if "cells" not in name or point.x > 1]
    over_epsilon = [point for point in points if "cells" not in point.figure]
    fine = [point for point in points if point.figure == "large_epsilon" or point.x >= 10]
    grown = [point for point in over_epsilon if point.x >= 2.1]
    small = [point for point in over_epsilon if point.x <= 1.4]
    orders = {
        "MDSW": ("DAM better than MDSW, ε/2 for each coordinate", "always", "DAM", "MDSW", points),
        "users": ("DAM better than MDSW, half of the people for each", "always", "DAM", "MDSW, users", points),
        "HUEM": ("DAM better than HUEM from ε = 2.1 on", "as ε grows", "DAM", "HUEM", grown),
        "SEM": ("DAM better than SEM-Geo-I on fine grids, d ≥ 10", "when d is large", "DAM", "SEM-Geo-I", fine),
        "small": ("SEM-Geo-I better than DAM at ε ≤ 1.4, d = 5", "slightly", "SEM-Geo-I", "DAM", small),
        "shrink": ("DAM better than DAM-NS", "on real data", "DAM", "DAM-NS", points if source in REAL else []),
    }
    for key, (text, paper, winner, loser, rows) in orders.items():
        rows = [point for point in rows if {winner, loser} <= set(results.methods(point))]
        if rows:
            leads = {point: _lead(results, (point, winner), (point, loser)) for point in rows}
            yield _order(leads, f"{figure}, {source}: {text}", paper, (key, source) in DEPARTURES)
    yield _trends(results, source, figure)


def _order(leads: Mapping[Point, Difference], text: str, paper: str, departure: bool) -> Claim:
    """A claim about several rows, which holds if no row contradicts it significantly."""
    ahead = [point for point, lead in leads.items() if lead.clear]
    behind = [point for point, lead in leads.items() if (-lead).clear]
    even = len(leads) - len(ahead) - len(behind)
    words = f"better in {len(ahead)}, even in {even}, worse in {len(behind)} of {len(leads)} rows"
    if behind:
        worst = min(behind, key=lambda point: leads[point].mean)
        words += f"; worst at {WHERE[worst.figure].format(x=worst.x)}: {_fine(leads[worst])}"
    return Claim(text, paper, words, not behind, departure, undecided=not ahead)


def _trends(results: Results, source: str, figure: str) -> Claim:
    """The claims that W₂ falls as ε grows, and that W₂ in cells rises with d."""
    texts, holds = [], []
    for name in ("small_epsilon", "large_epsilon"):
        series = results.series(name, source)
        first, last = series[0], series[-1]
        holds.append(_lead(results, (last, "DAM"), (first, "DAM")).clear)
        texts.append(f"ε {first.x:g} to {last.x:g}: {_w2(results, first):.4f} → {_w2(results, last):.4f}")
    series = [point for point in results.series("many_cells", source) if point.x > 1]
    first, last = series[0], series[-1]
    holds.append(_w2(results, last) * last.x > _w2(results, first) * first.x)
    texts.append(
        f"d {first.x:g} to {last.x:g}: {_w2(results, first) * first.x:.3f} → {_w2(results, last) * last.x:.3f} cells"
    )
    return Claim(
        f"{figure}, {source}: W2 of DAM falls with ε, and rises with d in cells",
        "so it is",
        "; ".join(texts),
        all(holds),
    )


# ── estimators ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _estimators(results: Results, config: Mapping[str, Any]) -> Iterator[Claim]:
    rows = sorted({point for point, _, _ in results.values if point.figure.startswith("estimators")})
    for point in (row for row in rows if row.source == "gowalla" and row.figure.endswith("= 64")):
        less = 1 - results.mean(point, "ours", "EMD") / results.mean(point, "EM", "EMD")
        more = _gain(results, point, "ours", "SIM")
        yield Claim(
            f"{point.figure}, gowalla, ε = {point.x:g}: ours against converged EM",
            "EMD −15 %, SIM +0.1 at least",
            f"EMD −{less:.0%}, SIM {more}",
            less >= 0.15 and more.mean >= 0.1,
        )
    names = config["methods"]["estimators"]
    for rival in (name for name in names if name != "ours"):
        leads = {
            (point, metric): _gain(results, point, "ours", metric, rival) for point in rows for metric in ("EMD", "SIM")
        }
        behind = [key for key, lead in leads.items() if (-lead).clear]
        words = (
            f"better in {sum(lead.clear for lead in leads.values())}, worse in {len(behind)} of {len(leads)} numbers"
        )
        for metric in ("EMD", "SIM"):
            lags = {point: leads[point, metric] for point in rows if (point, metric) in behind}
            if lags:
                worst = min(lags, key=lambda point: lags[point].mean)
                place = f"{worst.source}, {worst.figure[12:]}, ε = {worst.x:g}"
                words += f"; worst {metric} {_fine(lags[worst])} at {place}"
        yield Claim(
            f"estimators: ours never worse than {'converged EM' if rival == 'EM' else rival}",
            "never" if rival == "EM" else "–",
            words,
            not behind,
            rival != "EM",
        )


def _gain(results: Results, point: Point, method: str, metric: str, rival: str = "EM") -> Difference:
    return difference(METRICS[metric], results.of(point, method, metric), results.of(point, rival, metric))


def _golden(results: Results, config: Mapping[str, Any]) -> Iterator[Claim]:
    rounding = {metric: 0.5 * 10.0**-digits for metric, digits in config["golden"]["digits"].items()}
    for value in config["golden"]["values"]:
        point = Point(f"estimators, d = {value['d']}", "gowalla", value["epsilon"])
        if (point, value["method"], "EMD") not in results.values:
            continue
        known = {metric: value[metric] for metric in ("EMD", "SIM")}
        texts, scores = golden(results, point, value["method"], known, config["golden"]["runs"], rounding)
        yield Claim(
            f"gowalla, d = {value['d']}, ε = {value['epsilon']:g}: {value['method']} agrees with an independent "
            "implementation, within 3 se",
            ", ".join(f"{metric} {number:g}" for metric, number in known.items()),
            ", ".join(texts),
            bool(np.abs(scores).max() <= 3),
        )


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lead(results: Results, ours: tuple[Point, str], other: tuple[Point, str]) -> Difference:
    """The paired difference of W₂ between two mechanisms; positive if ours is smaller."""
    return difference(METRICS["W2"], results.of(*ours, "W2"), results.of(*other, "W2"))


def _w2(results: Results, point: Point) -> float:
    return results.mean(point, "DAM", "W2")


def _fine(lead: Difference) -> str:
    return f"{lead.mean:+.4f} ± {lead.error:.4f}"
