"""The claims of "Differentially Private Heatmaps", as tests on the results of the trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from claims_appendices import BASELINE, OURS, appendix_claims
from claims_appendices import gain as _gain
from harness.claims import Claim, Difference, difference, golden, repeats
from harness.results import Point, Results
from protocol import METRICS


def all_claims(results: Results, config: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Claim]:
    """All claims that the available results can test."""
    found: list[Claim] = []
    for source in results.sources("figure1"):
        found += _figure1(results, source)
    for source in results.sources("users"):
        found += _figure2(results, source)
    found += _mixtures(results)
    found += appendix_claims(results, config)
    found += _golden(results, config)
    found += repeats(results, expected)
    return found


# ── figure 1 ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure1(results: Results, source: str) -> Iterator[Claim]:
    points = results.series("figure1", source)
    # The paper says 0.2 to 5 and all four; KL starts later here (README, "What does not repeat").
    for metrics, low, high, departure in (
        (("SIM", "CC", "EMD"), 0.5, 5, False),
        (("KL",), 2, 5, False),
        (("KL",), 0.5, 1, True),
    ):
        at = [point for point in points if low <= point.x <= high]
        leads = {metric: _least_lead(results, at, metric) for metric in metrics}
        yield Claim(
            f"fig. 1, {source}: {', '.join(metrics)} better than flat and top t % at ε = {_listed(at)}",
            "better on all",
            "least certain lead " + ", ".join(f"{metric} {lead}" for metric, lead in leads.items()),
            all(lead.clear for lead in leads.values()),
            departure,
        )
    gains = {metric: _gain(results, points[0], points[-1], OURS, metric) for metric in METRICS}
    yield Claim(
        f"fig. 1, {source}: pyramid improves from ε = {points[0].x:g} to {points[-1].x:g}",
        "all four improve",
        "gain " + ", ".join(f"{metric} {gain}" for metric, gain in gains.items()),
        all(gain.clear for gain in gains.values()),
    )


def _least_lead(results: Results, points: list[Point], metric: str) -> Difference:
    """The least significant advantage of the pyramid over any other method at any of the points."""
    leads = [
        difference(METRICS[metric], results.of(point, OURS, metric), results.of(point, rival, metric))
        for point in points
        for rival in results.methods(point)
        if rival != OURS
    ]
    return min(leads, key=lambda lead: lead.mean / lead.error)


# ── figure 2 ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure2(results: Results, source: str) -> Iterator[Claim]:
    users, sizes = results.series("users", source), results.series("resolution", source)
    if not sizes:
        return
    yield Claim(
        f"fig. 2, {source}: EMD falls from {users[0].x:g} to {users[-1].x:g} people",
        "pyramid and flat fall",
        ", ".join(f"{method} {_step(results, users, method, 'EMD')}" for method in (OURS, BASELINE)),
        all(_gain(results, users[0], users[-1], method, "EMD").clear for method in (OURS, BASELINE)),
    )
    means = [results.mean(point, OURS, "EMD") for point in sizes]
    spread = max(means) / min(means)
    growth = results.mean(sizes[-1], BASELINE, "EMD") / results.mean(sizes[0], BASELINE, "EMD")
    yield Claim(
        f"fig. 2, {source}: EMD from {sizes[0].x:g} to {sizes[-1].x:g} cells a side",
        "pyramid nearly constant, flat grows",
        f"pyramid within ×{spread:.2f}, flat ×{growth:.2f}",
        spread < 1.25 < growth,
    )


# ── appendix E.3 ────────────────────────────────────────────────────────────────────────────────────────────────────


def _mixtures(results: Results) -> Iterator[Claim]:
    denser, more = results.series("sparsity", "mixture"), results.series("clusters", "mixture")
    if not (denser and more):
        return
    same = f"fig. 10: the same Gaussians, from {denser[0].x:.0%} to {denser[-1].x:.0%} of cells"
    grown = f"fig. 11: from {more[0].x:g} to {more[-1].x:g} Gaussians"
    for text, series, method, word, departure in (
        (same, denser, BASELINE, "rises", False),
        (same, denser, OURS, "falls", True),
        (grown, more, BASELINE, "rises", False),
        (grown, more, OURS, "falls", False),
    ):
        gain = _gain(results, series[0], series[-1], method, "SIM")
        yield Claim(
            f"{text}: SIM of {method} {word}",
            word,
            f"{_step(results, series, method, 'SIM')} ({gain})",
            gain.clear if word == "rises" else (-gain).clear,
            departure,
        )
    slow, fast = (-_gain(results, series[0], series[-1], OURS, "SIM") for series in (denser, more))
    yield Claim(
        "fig. 10 and 11: pyramid loses less when the Gaussians stay",
        "slower",
        f"SIM lost {slow} against {fast}",
        Difference(fast.mean - slow.mean, float(np.hypot(fast.error, slow.error))).clear,
    )


# ── the independent implementation ──────────────────────────────────────────────────────────────────────────────────


def _golden(results: Results, config: Mapping[str, Any]) -> Iterator[Claim]:
    points = {point.x: point for point in results.series("golden", "gowalla")}
    for value in config["golden"]["values"] if points else []:
        point, method = points[value["epsilon"]], value["method"]
        measured = [metric for metric in METRICS if metric in value and (point, method, metric) in results.values]
        known = {metric: value[metric] for metric in measured}
        texts, scores = golden(results, point, method, known, config["golden"]["runs"])
        yield Claim(
            f"gowalla: {method} at ε = {value['epsilon']} agrees with an independent implementation, within 3 se",
            ", ".join(f"{metric} {value[metric]}" for metric in measured),
            ", ".join(texts),
            bool(np.abs(scores).max() <= 3),
        )


# ── numbers and words ───────────────────────────────────────────────────────────────────────────────────────────────


def _step(results: Results, series: list[Point], method: str, metric: str) -> str:
    return f"{results.mean(series[0], method, metric):.3f} → {results.mean(series[-1], method, metric):.3f}"


def _listed(points: list[Point]) -> str:
    return ", ".join(f"{point.x:g}" for point in points)
