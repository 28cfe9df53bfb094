"""Make the tables of the README from the results and claims of a full run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from claims import counted, orders
from harness.claims import Claim, summary
from harness.readme import between
from harness.results import Results
from sources import parts_of, points_of

Means = Mapping[str, Sequence[float]]
"""The mean and standard error of each result, by its name in expected.json."""

SOURCES = {
    "crime parts": "crime parts",
    "gowalla parts": "gowalla parts",
    "normal": "Normal",
    "szipf": "SZipf",
    "mnormal": "MNormal",
    "crime": "crime",
    "gowalla": "gowalla",
    "accidents": "accidents",
}
METHODS = ("DAM", "DAM-NS", "HUEM", "MDSW", "MDSW, users", "SEM-Geo-I")
SETTINGS = {
    "5, 3.5": ("few_cells", 5),
    "15, 3.5": ("wide_discs", 3.5),
    "20, 5": ("many_cells", 20),
    "15, 9": ("large_epsilon", 9),
}
ESTIMATORS = ("EM", "EM, 60 steps", "EMS", "ours")


STATEMENTS = (
    "table III",
    "fig. 9(a)",
    "fig. 13, crime: the order",
    "fig. 13, crime: SEM-Geo-I better than DAM, ε ≥ 5",
)
"""The beginnings of the claims that are about more than one data set, or about one alone."""
THEORY = ("definition", "theorem", "eq.", "Algorithm")


def filled_in(readme: str, results: Results, config: Mapping[str, Any], claims: Sequence[Claim]) -> str:
    """The text of README.md with new tables of results and claims between its marks."""
    readme = between(readme, "table III", _table3(config))
    readme = between(readme, "theory", _listed(claims, THEORY))
    readme = between(readme, "claims", _claims(results, claims))
    readme = between(readme, "statements", _listed(claims, STATEMENTS))
    return with_tables(readme, summary(results))


def with_tables(readme: str, means: Means) -> str:
    """The text of README.md with new tables of W₂ and of the estimators between its marks."""
    return between(between(readme, "W2", _w2(means)), "estimators", _estimators(means))


# ── table III and the claims ────────────────────────────────────────────────────────────────────────────────────────


def _table3(config: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield "part", "the paper's square", "its points", "square here", "its points"
    for source, printed in config["table3"].items():
        for index, (square, part) in enumerate(zip(printed["squares"], parts_of(source, config), strict=True)):
            name = f"{printed['paper']}, {part['name']}"
            held = len(points_of(source, 0, config, index)[0])
            same = "the same" if _square(square) == _square(part) else _square(part)
            yield name, _square(square), f"{part['reports']:,}", same, f"{held:,}"


def _square(box: Mapping[str, Any]) -> str:
    lat, lon = ("…".join(f"{end:.2f}".replace("-", "−") for end in box[side]) for side in ("y", "x"))
    return f"lat {lat}, lon {lon}"


def _listed(claims: Sequence[Claim], starts: tuple[str, ...]) -> Iterator[Sequence[str]]:
    yield "claim", "the paper", "here", "holds"
    for claim in claims:
        if claim.text.startswith(starts):
            yield claim.text, claim.paper, claim.ours, claim.verdict.removesuffix(", see README")


def _claims(results: Results, claims: Sequence[Claim]) -> Iterator[Sequence[str]]:
    yield "claim", "the paper", *SOURCES.values()
    found: dict[tuple[str, str], dict[str, str]] = {}
    for source in SOURCES:
        for _, text, paper, leads in orders(results, source):
            ahead, even, behind = counted(leads)
            no = " **no**" if behind else ""
            found.setdefault((text, paper), {})[source] = f"{len(ahead)} / {len(even)} / {len(behind)}{no}"
    for (text, paper), row in found.items():
        yield text, paper, *(row.get(source, "–") for source in SOURCES)
    least = {
        claim.text.split(":")[0].removeprefix("fig. 8, "): claim.holds for claim in claims if "fig. 8" in claim.text
    }
    text = "fig. 8: no b is clearly better than the paper's 3 but its neighbours"
    yield text, "falls, then rises", *("yes" if least[source] else "**no**" for source in SOURCES)
    for name, words in (("small_epsilon", "from ε = 0.7 to 3.5, d = 5"), ("large_epsilon", "from ε = 5 to 9, d = 15")):
        yield f"W₂ of DAM falls {words}", "falls", *(_ends(results, name, source) for source in SOURCES)
    text = "in cells it rises from d = 2 to 20, ε = 5"
    yield text, "rises", *(_ends(results, "many_cells", source, cells=True) for source in SOURCES)


def _ends(results: Results, name: str, source: str, *, cells: bool = False) -> str:
    points = [point for point in results.series(name, source) if not cells or point.x > 1]
    first, last = (results.mean(point, "DAM", "W2") * (point.x if cells else 1) for point in (points[0], points[-1]))
    return f"{first:.2f} → {last:.2f}" if cells else f"{first:.3f} → {last:.3f}"


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _w2(means: Means) -> Iterator[Sequence[str]]:
    yield "d, ε", "data", "DAM", "DAM-NS", "HUEM", "MDSW, ε/2", "MDSW, users", "SEM-Geo-I"
    for setting, (figure, x) in SETTINGS.items():
        cells = int(setting.split(",")[0])
        for source, name in SOURCES.items():
            row = [means.get(f"{figure} | {source} | {x:g} | {method} | W2") for method in METHODS]
            texts = ["–" if found is None else f"{found[0]:.4f} / {found[0] * cells:.2f}" for found in row]
            yield setting if source == next(iter(SOURCES)) else "", name, *texts


def _estimators(means: Means) -> Iterator[Sequence[str]]:
    yield "d, ε", "data", *ESTIMATORS
    for cells in (15, 64):
        for epsilon in (3.5, 5):
            measured = [
                source
                for source in SOURCES
                if f"estimators, d = {cells} | {source} | {epsilon:g} | ours | EMD" in means
            ]
            for source in measured:
                key = f"estimators, d = {cells} | {source} | {epsilon:g}"
                row = [[means[f"{key} | {name} | {metric}"][0] for metric in ("EMD", "SIM")] for name in ESTIMATORS]
                first = f"{cells}, {epsilon:g}" if source == measured[0] else ""
                yield first, SOURCES[source], *(f"{emd:.4f} / {sim:.3f}" for emd, sim in row)
