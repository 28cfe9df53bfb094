"""The picture and the tables of appendix D."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from accounting import EVEN, LDP_TRACE, METHODS, ONE, ONE_OURS, PADDED, PIVOT_TRACE, PRINTED
from claims import ACCOUNTINGS, counted
from harness.claims import Claim, summary
from harness.pictures import curves, panels, save
from harness.readme import between
from harness.results import Results

# Okabe and Ito's colours, which colour-blind readers can distinguish; marker and dash differ too.
STYLES = {
    PRINTED: ("#56B4E9", "o", ":"),
    PADDED: ("#CC79A7", "v", "--"),
    ONE: ("#009E73", "^", "-."),
    ONE_OURS: ("#0072B2", "o", "-"),
    LDP_TRACE: ("#D55E00", "D", "-"),
    PIVOT_TRACE: ("#E69F00", "s", "-"),
    EVEN: ("#777777", "", ":"),
}
NAMES = {"gowalla": "New York, Gowalla", "city": "a synthetic city"}

Means = Mapping[str, Sequence[float]]
"""The mean and standard error of each result, by its name in expected.json."""


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw figure 14 for every data set."""
    sources = [source for source in NAMES if source in results.sources("epsilon")]
    figure, axes = panels(
        len(sources), 2, "Figure 14 · journeys: W₂ of the map of points, by what a person pays", width=5.6
    )
    for row, source in enumerate(sources):
        for axis, name in zip(axes[2 * row : 2 * row + 2], ("cells", "epsilon"), strict=True):
            points = results.series(name, source)
            curves(axis, results, points, "W2", STYLES, "W₂, side of the box = 1" if name == "cells" else "")
            axis.set_title(f"{NAMES[source]}, {'ε = 1.5' if name == 'cells' else '15 × 15 cells'}", fontsize=9)
            axis.set_xticks([point.x for point in points])
            axis.set_xlabel("cells a side, d" if name == "cells" else "printed ε", fontsize=8.5)
            axis.set_ylim(bottom=0)
    note = "mean and 95 % band; ε covers a whole journey, but for DAM with ε a point, which costs up to 200ε"
    return [save(figure, axes, folder / "figure14.png", note)]


def filled_in(readme: str, results: Results, _: Mapping[str, Any], claims: Sequence[Claim]) -> str:
    """The text of README.md with new tables between its marks."""
    readme = between(readme, "orders", _orders(results))
    readme = between(readme, "trends", _trends(claims))
    return with_tables(readme, summary(results))


def with_tables(readme: str, means: Means) -> str:
    """The text of README.md with new tables of W₂ between its marks."""
    return between(readme, "W2", _w2(means))


def _w2(means: Means) -> Iterator[Sequence[str]]:
    over = [("epsilon", x, f"15, {x:g}") for x in (0.5, 1, 1.5, 2, 2.5)]
    columns = [*over, *(("cells", x, f"{x}, 1.5") for x in (5, 10, 20))]
    yield "data", "mechanism", *(f"d, ε = {text}" if not place else text for place, (_, _, text) in enumerate(columns))
    for source in NAMES:
        for method in METHODS:
            row = [means[f"{figure} | {source} | {x:g} | {method} | W2"][0] for figure, x, _ in columns]
            yield NAMES[source] if method == METHODS[0] else "", method, *(f"{value:.3f}" for value in row)


def _orders(results: Results) -> Iterator[Sequence[str]]:
    rivals = (LDP_TRACE, PIVOT_TRACE, EVEN)
    yield "DAM with", *(f"{rival}, {source}" for source in NAMES for rival in rivals)
    for method, words in ACCOUNTINGS.items():
        cells = []
        for source in NAMES:
            for rival in rivals:
                ahead, even, behind = counted(results, source, method, rival)
                cells.append(f"{ahead} / {even} / {behind}" + (" **no**" if behind else ""))
        yield words, *cells


def _trends(claims: Sequence[Claim]) -> Iterator[Sequence[str]]:
    yield "claim", "the paper", "here", "holds"
    for claim in claims:
        if claim.text.startswith(("fig. 14(", *(f"fig. 14, {source}: {LDP_TRACE}" for source in NAMES))) or (
            claim.text.endswith(f"{PIVOT_TRACE} better than {EVEN}")
        ):
            yield claim.text, claim.paper, claim.ours, claim.verdict.removesuffix(", see README")
