"""Make the tables of the README from the results and claims of a full run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from claims import geometric, over_best, points_of
from harness.claims import Claim
from harness.readme import between, with_claims
from harness.results import Results
from protocol import DEFAULT, HELD, LEAK, SHARES, TOTAL, WIDTH, peers

CLAIMS = ("errors", "authors", "totals", "intervals")
"""The prefixes of claims that have their own table in the README."""


def filled_in(readme: str, results: Results, config: Mapping[str, Any], claims: Sequence[Claim]) -> str:
    """The text of README.md with new tables between its marks."""
    for name, rows in (
        ("errors", _errors(results, config)),
        ("apart", _apart(results)),
        ("intervals", _intervals(results)),
    ):
        readme = between(readme, name, rows)
    return with_claims(readme, claims, CLAIMS)


def _settings(results: Results) -> list[str]:
    return sorted({point.figure for point, _, _ in results.values})


def _errors(results: Results, config: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Error over the best peer's: mean over the real data sets, and the worst of them."""
    yield "", *_settings(results)
    points = {setting: points_of(results, setting)[0] for setting in _settings(results)}
    for method in config["methods"]:
        cells = []
        for some in points.values():
            ratios = [over_best(results, point, method, config) for point in some]
            cells.append(f"{geometric(ratios):.2f} ({max(ratios):.1f})")
        yield method, *cells
    known = peers(config)
    for name in ("DAWA-float", "AGrid", "HB", "Identity", "QuadTree", "UGrid"):
        cells = []
        for some in points.values():
            rows = [
                {peer: np.mean(list(errors.values())) for peer, errors in known[point.figure, point.source].items()}
                for point in some
            ]
            ratios = [float(row[name] / min(row.values())) for row in rows if name in row]
            cells.append(f"{geometric(ratios):.2f} ({max(ratios):.1f})" if ratios else "–")
        yield f"*{name}*", *cells


def _apart(results: Results) -> Iterator[Sequence[str]]:
    """Errors of shares and totals apart: the error of shares over the default's, and the error of the total."""
    settings = _settings(results)
    yield "", *(f"{setting}: shares, total" for setting in settings)
    points = {setting: points_of(results, setting)[0] for setting in settings}
    for method in results.methods(next(iter(points.values()))[0]):
        cells = []
        for some in points.values():
            ratio = geometric([results.mean(p, method, SHARES) / results.mean(p, DEFAULT, SHARES) for p in some])
            total = float(np.sqrt(np.mean([(results.of(p, method, TOTAL) - 1) ** 2 for p in some])))
            cells.append(f"{ratio:.2f}, {100 * total:.3g} %")
        yield method, *cells


def _intervals(results: Results) -> Iterator[Sequence[str]]:
    """The share of intervals that hold, their mean width, and the people in empty blocks."""
    settings = _settings(results)
    yield "", *(f"{setting}: holds, width, leak" for setting in settings)
    sources = [point.source for some in points_of(results, settings[0]) for point in some]
    found: dict[str, dict[str, Sequence[float]]] = {}
    for setting in settings:
        for point in (point for some in points_of(results, setting) for point in some):
            values = [results.mean(point, DEFAULT, metric) for metric in (HELD, WIDTH, LEAK)]
            found.setdefault(point.source, {})[setting] = values
    for source in sources:
        rows = [found[source][setting] for setting in settings]
        yield source, *(f"{held:.3f}, {100 * width:.3g} %, {100 * leak:.3g} %" for held, width, leak in rows)
    real = [point.source for point in points_of(results, settings[0])[0]]
    means = [np.mean([found[source][setting] for source in real], axis=0) for setting in settings]
    yield (
        "mean of the real data",
        *(f"{held:.3f}, {100 * width:.3g} %, {100 * leak:.3g} %" for held, width, leak in means),
    )
