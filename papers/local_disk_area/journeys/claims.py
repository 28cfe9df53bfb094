"""The claims of appendix D, as tests on the results: at the printed accounting and at ε for a whole journey."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from accounting import EVEN, LDP_TRACE, ONE, ONE_OURS, PADDED, PADDED_OURS, PIVOT_TRACE, PRINTED
from harness.claims import Claim, Difference, difference, repeats
from harness.results import Point, Results

ACCOUNTINGS = {
    PRINTED: "as printed, ε for each point (up to 200ε a person)",
    PADDED: "ε/200 for each of 200 padded points",
    PADDED_OURS: "ε/200 for each of 200 padded points, our smooth map",
    ONE: "ε for one point a person",
    ONE_OURS: "ε for one point a person, our smooth map",
}
DEPARTURES = {
    (PADDED, LDP_TRACE, "gowalla"), (PADDED, PIVOT_TRACE, "gowalla"), (PADDED, EVEN, "gowalla"),
    (PADDED_OURS, PIVOT_TRACE, "gowalla"), (ONE, PIVOT_TRACE, "gowalla"), (LDP_TRACE, EVEN, "gowalla"),
    (PADDED, LDP_TRACE, "city"), (PADDED, PIVOT_TRACE, "city"), (PADDED, EVEN, "city"),
    (PADDED_OURS, LDP_TRACE, "city"), (PADDED_OURS, PIVOT_TRACE, "city"), (PADDED_OURS, EVEN, "city"),
    (ONE, PIVOT_TRACE, "city"), (ONE, EVEN, "city"), (ONE_OURS, PIVOT_TRACE, "city"), (ONE_OURS, EVEN, "city"),
    (LDP_TRACE, EVEN, "city"),
}  # fmt: skip
"""Mechanism, rival and data set of the claims that do not hold here; the README explains them."""


def all_claims(results: Results, config: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Claim]:
    """All claims that the available results can test."""
    found: list[Claim] = []
    for source in (name for name in config["data"] if name in results.sources("epsilon")):
        found += _orders(results, source)
        found += _trends(results, source)
    found += repeats(results, expected)
    return found


def counted(results: Results, source: str, method: str, rival: str) -> tuple[int, int, int]:
    """At how many points a method is clearly better than a rival, about as good, and clearly worse."""
    leads = [_lead(results, point, method, rival) for point in points_of(results, source)]
    ahead, behind = sum(lead.clear for lead in leads), sum((-lead).clear for lead in leads)
    return ahead, len(leads) - ahead - behind, behind


def points_of(results: Results, source: str) -> list[Point]:
    """All points of figure 14 with more than one cell; the one that both panels have counts once."""
    cells = [point for point in results.series("cells", source) if point.x > 1]
    over = results.series("epsilon", source)
    shared = {point for point in over if any(_same(results, point, other) for other in cells)}
    return [*cells, *(point for point in over if point not in shared)]


def _same(results: Results, point: Point, other: Point) -> bool:
    return bool((results.of(point, PRINTED, "W2") == results.of(other, PRINTED, "W2")).all())


def _lead(results: Results, point: Point, method: str, rival: str) -> Difference:
    return difference(-1, results.of(point, method, "W2"), results.of(point, rival, "W2"))


def _orders(results: Results, source: str) -> Iterator[Claim]:
    for method, words in ACCOUNTINGS.items():
        for rival in (LDP_TRACE, PIVOT_TRACE, EVEN):
            ahead, even, behind = counted(results, source, method, rival)
            paper = "always" if rival != EVEN else "–"
            yield Claim(
                f"fig. 14, {source}: DAM better than {rival}; {words}",
                paper,
                f"better at {ahead}, undecided at {even}, worse at {behind} points",
                not behind,
                (method, rival, source) in DEPARTURES,
                undecided=not ahead,
            )
    for rival in (LDP_TRACE, PIVOT_TRACE):
        ahead, even, behind = counted(results, source, rival, EVEN)
        yield Claim(
            f"fig. 14, {source}: {rival} better than {EVEN}",
            "–",
            f"better at {ahead}, undecided at {even}, worse at {behind} points",
            not behind,
            (rival, EVEN, source) in DEPARTURES,
            undecided=not ahead,
        )


def _trends(results: Results, source: str) -> Iterator[Claim]:
    over = results.series("epsilon", source)
    for method in (PRINTED, PIVOT_TRACE):
        fall = difference(-1, results.of(over[-1], method, "W2"), results.of(over[0], method, "W2"))
        yield Claim(
            f"fig. 14(b), {source}: W2 of {method} falls from ε = {over[0].x:g} to {over[-1].x:g}",
            "falls" if method == PRINTED else "falls slightly",
            " → ".join(f"{results.mean(point, method, 'W2'):.3f}" for point in (over[0], over[-1])),
            not (-fall).clear,
            undecided=not fall.clear,
        )
    cells = [point for point in results.series("cells", source) if point.x > 1]
    if len(cells) < 2:
        return
    for method in (PRINTED, LDP_TRACE, PIVOT_TRACE):
        first, last = (results.mean(point, method, "W2") * point.x for point in (cells[0], cells[-1]))
        yield Claim(
            f"fig. 14(a), {source}: W2 of {method} in cells rises from d = {cells[0].x:g} to {cells[-1].x:g}",
            "rises",
            f"{first:.2f} → {last:.2f}",
            last > first,
        )
