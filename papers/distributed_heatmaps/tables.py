"""Make the tables of the README from the means and claims of a full run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from experiments import table1
from figures import NAMES, ROWS
from harness.claims import Claim, summary
from harness.readme import between, with_claims
from harness.results import Point, Results

Means = Mapping[str, Sequence[float]]
"""The mean and standard error of each result, by its name in expected.json."""

PAPER_TABLE_1 = {
    "non-private": "7.75 / 6.19 / 6.55",
    "the paper's": "7.88 / 6.99 / 7.02",
    "adaptive grid, as printed": "9.67 / 9.89 / 9.96",
    "hierarchical, best split": "8.81 / 7.75 / 7.79",
    "spatial decomposition, best layer": "8.56 / 7.72 / 7.78",
    "count-min, best split": "11.62 / 11.69 / 11.73",
    "flat": "41.40 / 21.40 / 21.93",
}
PAPER_TABLE_2 = {
    "non-private": "1.2",
    "single place": "13.0",
    "mass 1": "18.3",
    "mass 100": "19.2, 16.9",
    "mass 10,000": "7.7",
    "mass 1,000,000": "8.3",
}
PAPER_TABLE_3 = {
    "no noise, T = 10": "7.75, 12,734",
    "fixed ε, T = 10": "8.81, 43,450",
    "scheduled ε, T = 10": "7.95, 340",
    "scheduled ε, adaptive T": "7.88, 340",
    "ours, all rounds": "–",
}
COLUMNS = (("table1", 10_000), ("table1", 100_000), (table1(0.1), 100_000))
VISITS = (("gowalla", 3_000), ("city", 3_000))
RASTERS = {**NAMES, "country": "synthetic country"}
SOURCES = (*RASTERS, "gowalla", "city")


def filled_in(readme: str, results: Results, _: object, claims: Sequence[Claim]) -> str:
    """The text of README.md with new tables of the results and claims that a run has."""
    starts = ("table 1", "table 2", "table 3", "table 4", "table 5", "fig.")
    tested = [start for start in starts if any(claim.text.startswith(start) for claim in claims)]
    return with_claims(with_tables(readme, summary(results)), claims, tested, _claims)


def with_tables(readme: str, means: Means) -> str:
    """The text of README.md with new tables of the means that a run has."""
    tables = {"table1": _table1, "table2": _table2, "table3": _table3, "shards": _table4, "earlier": _table5}
    measured = {name.split(" | ")[0] for name in means}
    for number, (figure, rows) in enumerate(tables.items(), start=1):
        if figure in measured:
            readme = between(readme, f"table {number}", rows(means))
    return readme


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _table1(means: Means) -> Iterator[Sequence[str]]:
    yield "algorithm", "the paper", *NAMES.values(), "integers, Manhattan"
    for row in ROWS:
        errors = [" / ".join(_error(_mean(means, *at, row, source)) for at in COLUMNS) for source in NAMES]
        sent = [_integers(_mean(means, *at, row, "manhattan", "numbers")) for at in COLUMNS]
        integers = sent[0] if len(set(sent)) == 1 else " / ".join(sent)
        yield f"{row} *" if "best" in row else row, PAPER_TABLE_1.get(row, "–"), *errors, integers


def _table2(means: Means) -> Iterator[Sequence[str]]:
    yield "", "the paper, MSE", "gowalla: MSE, L1", "integers", "bits", "city: MSE, L1", "integers", "bits"
    for row, paper in PAPER_TABLE_2.items():
        cells = [row, paper]
        for source, people in VISITS:

            def of(method: str, metric: str, source: str = source, people: int = people) -> float:
                return _mean(means, "table2", people, method, source, metric)

            text = f"{of(row, 'MSE'):.2f}, {of(row, 'L1'):.2f}"
            if row != "non-private":
                text += f" (ours {of(f'{row}, ours', 'MSE'):.2f}, {of(f'{row}, ours', 'L1'):.2f})"
            bits = "–" if row == "non-private" else f"{of(row, 'bits'):.0f}"
            cells += [text, f"{of(row, 'numbers'):,.0f}", bits]
        yield cells


def _table3(means: Means) -> Iterator[Sequence[str]]:
    metrics = ("MSE", "L1", "MAPE", "sMAPE", "MAAPE")
    yield "", "the paper: MSE, integers", "data", *metrics, "integers"
    for row, paper in PAPER_TABLE_3.items():
        for place, (source, name) in enumerate(NAMES.items()):
            errors = [_error(_mean(means, "table3", 10_000, row, source, metric)) for metric in metrics]
            sent = f"{_mean(means, 'table3', 10_000, row, source, 'numbers'):,.0f}"
            yield row if place == 0 else "", paper if place == 0 else "", name, *errors, sent


def _table4(means: Means) -> Iterator[Sequence[str]]:
    yield "people", "shards", *(f"{name}: MSE, kB" for name in RASTERS.values())
    for people in (10_000, 100_000):
        for row in ("non-private", "1 shard", "10 shards"):
            cells = []
            for source in RASTERS:

                def of(metric: str, source: str = source, row: str = row, people: int = people) -> float:
                    return _mean(means, "shards", people, row, source, metric)

                text = _error(of("MSE"))
                if row != "non-private":
                    times = of("MSE") / _mean(means, "shards", people, "non-private", source)
                    text += f" ({times:.2f} times), {(of('sent') + of('received')) / 1000:.0f}"
                cells.append(text)
            yield f"{people:,}" if row == "non-private" else "", row.removesuffix("s").removesuffix(" shard"), *cells


def _table5(means: Means) -> Iterator[Sequence[str]]:
    yield "people", "earlier map", *RASTERS.values()
    for people in (10_000, 100_000):
        for place, row in enumerate(("the truth", "an earlier survey", "mirrored", "mirrored in squares")):
            cells = []
            for source in RASTERS:
                times, error = means[f"earlier | {source} | {people:g} | {row} | times"]
                cells.append(f"{times:.3f} ± {error:.3f}" if error else f"{times:.3f}")
            yield f"{people:,}" if place == 0 else "", row, *cells


def _mean(means: Means, figure: str, x: float, method: str, source: str, metric: str = "MSE") -> float:
    point = Point(figure, source, x)
    return means[f"{point.figure} | {point.source} | {point.x:g} | {method} | {metric}"][0]


def _integers(value: float) -> str:
    return f"{value / 1e6:.2f} million" if value >= 1e6 else f"{value:,.0f}"


def _error(value: float) -> str:
    """Write an error with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


# ── claims ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _claims(claims: Sequence[Claim], _: str) -> Iterator[Sequence[str]]:
    """The rows of a table of claims in the README; a claim about several data sets has one row."""
    rows: dict[tuple[str, str], list[tuple[str, Claim]]] = {}
    for claim in claims:
        source = next(name for name in SOURCES if f", {name}" in claim.text)
        text = re.sub(r"^table \d[:,] ", "", claim.text.replace(f", {source}", "", 1))
        rows.setdefault((text, claim.paper), []).append((source, claim))
    yield "claim", "theirs", "ours", "holds"
    for (text, paper), found in rows.items():
        names = [RASTERS.get(source, source) for source, _ in found]
        ours = "<br>".join(f"{name}: {claim.ours}" for name, (_, claim) in zip(names, found, strict=True))
        said = [claim.verdict.removesuffix(", see README") for _, claim in found]
        if len(set(said)) > 1:
            said = [f"{name}: {verdict}" for name, verdict in zip(names, said, strict=True)]
        holds = "<br>".join(dict.fromkeys(said))
        yield text, paper, re.sub(r"(?<=\d)%", " %", ours), holds
