"""Make the tables of the README from the means and claims of a full run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calibration import best_possible, calibrations
from harness.claims import Claim, summary
from harness.readme import between, with_claims
from harness.results import Point, Results
from protocol import BEST, KNOWN, POSTERIOR, PRINTED, PURSUIT, UNIFORM

Means = Mapping[str, Sequence[float]]
"""The mean and standard error of each result, by its name in expected.json."""

METHODS = (PURSUIT, POSTERIOR, KNOWN, UNIFORM)
CEILING = (4, 6, 8)
"""The values of ε for which the best possible rate of figure 3 is computed."""
CLAIMS = ("fig. 1", "table", "fig. 2", "fig. 3", "EMD", "realised", "lab")
"""The prefixes of claims that have their own table in the README."""


def filled_in(readme: str, results: Results, config: Mapping[str, Any], claims: Sequence[Claim]) -> str:
    """The text of README.md with new tables of results and claims between its marks."""
    return with_claims(with_tables(readme, summary(results), config), claims, CLAIMS)


def with_tables(readme: str, means: Means, config: Mapping[str, Any]) -> str:
    """The text of README.md with new tables of results between its marks."""
    for name, rows in (
        ("table, apart", _table(means, config, "apart")),
        ("table, anywhere", _table(means, config, "anywhere")),
        ("figure 3", _figure3(means, config)),
        ("ceiling", _ceiling(config)),
        ("printed", _printed(config)),
        ("lab", _lab(means, config)),
    ):
        readme = between(readme, name, rows)
    return readme


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(means: Means, config: Mapping[str, Any], places: str) -> Iterator[Sequence[str]]:
    golden = config["golden"]
    theirs = {PURSUIT: golden["basis_pursuit"], KNOWN: golden["posterior"], UNIFORM: golden["uniform"]}
    yield "reach (σ)", *METHODS, "posterior / basis pursuit"
    for reach in config["full"]["table"]["reaches"]:
        point = Point("table", places, float(reach))
        sigma = _of(means, point, UNIFORM, "sigma")[0]
        cells = [f"{'none' if point.x == 0 else reach} ({sigma:.2g})"]
        for method in METHODS:
            mean, error = _of(means, point, method)
            trial = f" (trial: {theirs[method][reach]:.3f})" if places == "apart" and method in theirs else ""
            cells.append(f"{mean:.3f} ± {error:.3f}{trial}")
        ratio = _of(means, point, POSTERIOR)[0] / _of(means, point, PURSUIT)[0]
        yield *cells, f"{ratio:.2f}"


def _figure3(means: Means, config: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    figure = config["full"]["figure3"]
    yield "edges between communities", "method", "right community", "no answer", "mass in it", "EMD in edges"
    for length in figure["runs"]:
        point = Point("figure3", "block model", int(length))
        low, high = best_possible(config, int(length), figure["graphs"])
        yield f"length {length}", "no method can exceed", f"{low:.1%} to {high:.1%}", "", "", ""
        for method in (PURSUIT, PRINTED, POSTERIOR, KNOWN, BEST):
            right, silent, share = (_of(means, point, method, metric)[0] for metric in ("right", "nothing", "share"))
            emd, error = _of(means, point, method)
            yield "", method, f"{right:.0%}", f"{silent:.0%}", f"{share:.0%}", f"{emd:.2f} ± {error:.2f}"


def _ceiling(config: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """The table of the best possible rate of finding the right community, by ε."""
    yield "ε", "no method can exceed"
    for epsilon in CEILING:
        low, high = best_possible(config, 1, config["full"]["figure3"]["graphs"], epsilon=epsilon)
        yield f"{epsilon:g}", f"{low:.1%} to {high:.1%}"


def _printed(config: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield "how σ is chosen", "where", "nominal ε", "δ", "μ = Δ₂/σ", "realised ε"
    for row in calibrations(config):
        found = row.realised
        text = f"{found:,.0f}" if found >= 100 else f"{found:.3g}"
        yield row.name, row.where, f"{row.nominal:g}", f"{row.delta:g}", f"{row.mu:.3g}", text


def _lab(means: Means, config: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield "ε", *METHODS
    for epsilon in config["full"]["lab"]["epsilons"]:
        found = [_of(means, Point("lab", "lab", epsilon), method) for method in METHODS]
        yield f"{epsilon:g}", *(f"{mean:.1f} ± {error:.1f}" for mean, error in found)


def _of(means: Means, point: Point, method: str, metric: str = "EMD") -> Sequence[float]:
    return means[f"{point.figure} | {point.source} | {point.x:g} | {method} | {metric}"]


# ── claims ──────────────────────────────────────────────────────────────────────────────────────────────────────────
