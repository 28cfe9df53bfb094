"""The claims of the paper on the disk area mechanism, and goals for the estimators, as tests on the results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from claims_theory import theory_claims
from harness.claims import Claim, Difference, difference, golden, repeats
from harness.results import Point, Results
from protocol import METRICS
from sources import parts_of, points_of

FIGURES = ("few_cells", "many_cells", "small_epsilon", "large_epsilon", "wide_discs")
PARTS = ("crime parts", "gowalla parts")
WHOLE = ("crime", "gowalla", "accidents")
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
    ("shrink", "gowalla"), ("shrink", "accidents"), ("table III", "crime parts"), ("radius", "crime parts"),
    ("MDSW", "crime parts"), ("shrink", "crime parts"), ("radius", "gowalla parts"), ("users", "gowalla parts"),
    ("SEM", "gowalla parts"), ("shrink", "gowalla parts"), ("shrink", "crime"), ("grown", "crime"),
}  # fmt: skip
"""The claims and data sets that do not hold here; the README explains them."""

Leads = Mapping[Point, Difference]


def all_claims(results: Results, config: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Claim]:
    """All claims that the available results can test."""
    found: list[Claim] = list(theory_claims(config))
    sources = [name for name in config["data"] if name in results.sources("figure8")]
    found += _table3(sources, config)
    for source in sources:
        found += _figure8(results, source)
        found += _figure9(results, source)
    found += _most(results, sources)
    found += _appendix_c(results)
    found += _estimators(results, config)
    found += _golden(results, config)
    found += repeats(results, expected)
    if set(sources) >= {source for _, source in DEPARTURES}:
        found.append(_exact(found))
    return found


def _exact(claims: list[Claim]) -> Claim:
    """The claim that every listed departure is a claim that does not hold; otherwise the list has to be corrected."""
    held = [claim.text for claim in claims if claim.departure and claim.holds]
    return Claim(
        "every departure that README.md names is one",
        "–",
        "; ".join(["so it is" if not held else f"{len(held)} hold", *held]),
        not held,
    )


# ── table III ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _table3(sources: list[str], config: Mapping[str, Any]) -> Iterator[Claim]:
    for source in (name for name in sources if name in PARTS):
        printed = config["table3"][source]
        parts = parts_of(source, config)
        theirs = sum(part["reports"] for part in parts)
        yield Claim(
            f"table III, {printed['paper']}: the parts have at most the points of the data set, as printed",
            f"{theirs:,} of {printed['points']:,}",
            "more parts than whole (errata E1-10)" if theirs > printed["points"] else "so it is",
            theirs <= printed["points"],
            ("table III", source) in DEPARTURES,
        )
        ours = [len(points_of(source, 0, config, part)[0]) for part in range(len(parts))]
        whole = len(points_of(printed["whole"], 0, config)[0])
        yield Claim(
            f"table III, {source}: the parts do not overlap, and have at most the points of the data set",
            "three squares",
            f"{sum(ours):,} of {whole:,}: " + ", ".join(f"{count:,}" for count in ours),
            sum(ours) <= whole and not any(_overlap(*pair) for pair in itertools.combinations(parts, 2)),
        )


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(max(one[side][0], other[side][0]) < min(one[side][1], other[side][1]) for side in ("x", "y"))


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


def orders(results: Results, source: str) -> Iterator[tuple[str, str, str, Leads]]:
    """The paper's statements that one mechanism is better than another: key, text, the paper's words, and the leads."""
    # On one cell every map is right.
    points = [point for name in FIGURES for point in results.series(name, source) if "cells" not in name or point.x > 1]
    over_epsilon = [point for point in points if "cells" not in point.figure]
    fine = [point for point in points if point.figure == "large_epsilon" or point.x >= 10]
    grown = [point for point in over_epsilon if point.x >= 2.1]
    small = [point for point in over_epsilon if point.x <= 1.4]
    real = points if source in (*PARTS, *WHOLE) else []
    stated = {
        "MDSW": ("DAM better than MDSW, ε/2 for each coordinate", "always", "DAM", "MDSW", points),
        "users": ("DAM better than MDSW, half of the people for each", "always", "DAM", "MDSW, users", points),
        "HUEM": ("DAM better than HUEM from ε = 2.1 on", "as ε grows", "DAM", "HUEM", grown),
        "SEM": ("DAM better than SEM-Geo-I on fine grids, d ≥ 10", "when d is large", "DAM", "SEM-Geo-I", fine),
        "small": ("SEM-Geo-I better than DAM at ε ≤ 1.4, d = 5", "slightly", "SEM-Geo-I", "DAM", small),
        "shrink": ("DAM better than DAM-NS", "on real data", "DAM", "DAM-NS", real),
    }
    for key, (text, paper, winner, loser, rows) in stated.items():
        rows = [point for point in rows if {winner, loser} <= set(results.methods(point))]
        if rows:
            yield key, text, paper, {point: _lead(results, (point, winner), (point, loser)) for point in rows}


def _figure9(results: Results, source: str) -> Iterator[Claim]:
    figure = "fig. 13" if source in WHOLE else "fig. 9"
    for key, text, paper, leads in orders(results, source):
        yield _order(leads, f"{figure}, {source}: {text}", paper, (key, source) in DEPARTURES)
    yield _trends(results, source, figure)


def counted(leads: Leads) -> tuple[list[Point], list[Point], list[Point]]:
    """The points at which a lead is clearly positive, undecided, and clearly negative."""
    ahead = [point for point, lead in leads.items() if lead.clear]
    behind = [point for point, lead in leads.items() if (-lead).clear]
    return ahead, [point for point in leads if point not in {*ahead, *behind}], behind


def _order(leads: Leads, text: str, paper: str, departure: bool) -> Claim:
    """A claim about several rows, which holds if no row contradicts it significantly."""
    ahead, even, behind = counted(leads)
    words = f"better in {len(ahead)}, even in {len(even)}, worse in {len(behind)} of {len(leads)} rows"
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


def _most(results: Results, sources: list[str]) -> Iterator[Claim]:
    """The two statements about most of the curves of figure 9(a) to 9(e): small grids at ε = 3.5."""
    sources = [source for source in sources if source not in WHOLE]
    leads, rises, falls = {}, [], []
    for source in sources:
        points = [point for point in results.series("few_cells", source) if point.x > 1]
        leads |= {point: _lead(results, (point, "HUEM"), (point, "MDSW")) for point in points}
        for method in results.methods(points[0]):
            first, last = (results.mean(point, method, "W2") * point.x for point in (points[0], points[-1]))
            (rises if last > first else falls).append(f"{method} on {source}")
    ahead, even, behind = counted(leads)
    yield Claim(
        "fig. 9(a)–(e): HUEM better than MDSW in more rows than worse",
        "in most cases",
        f"better in {len(ahead)}, even in {len(even)}, worse in {len(behind)} of {len(leads)} rows",
        len(ahead) > len(behind),
    )
    yield Claim(
        "fig. 9(a)–(e): W2 in cells rises with d",
        "in most mechanisms, but not for MDSW on SZipf",
        f"{len(rises)} of {len(rises) + len(falls)} curves rise" + (f"; not {', '.join(falls)}" if falls else ""),
        len(rises) > len(falls),
    )


def _appendix_c(results: Results) -> Iterator[Claim]:
    """The two statements of appendix C about the full domain of Crime."""
    if not {"crime", "crime parts"} <= set(results.sources("figure8")):
        return
    turned, compared = [], 0
    for figure in FIGURES:
        for whole, part in zip(results.series(figure, "crime"), results.series(figure, "crime parts"), strict=True):
            for rival in (method for method in results.methods(whole) if method != "DAM"):
                one, other = (_lead(results, (point, "DAM"), (point, rival)) for point in (whole, part))
                compared += 1
                if (one.clear and (-other).clear) or ((-one).clear and other.clear):
                    turned.append(f"{rival} at {WHERE[figure].format(x=whole.x)}")
    yield Claim(
        "fig. 13, crime: the order of the methods is that of the parts",
        "similar",
        f"reversed in {len(turned)} of {compared} comparisons with DAM" + (f": {', '.join(turned)}" if turned else ""),
        20 * len(turned) <= compared,
    )
    points = results.series("large_epsilon", "crime")
    leads = {point: _lead(results, (point, "SEM-Geo-I"), (point, "DAM")) for point in points}
    text = "fig. 13, crime: SEM-Geo-I better than DAM, ε ≥ 5, d = 15"
    yield _order(leads, text, "slightly, when ε increases", ("grown", "crime") in DEPARTURES)


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
