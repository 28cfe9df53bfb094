"""What the paper says, as statements that a number can contradict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from experiments import Point, Results
from protocol import METRICS

OURS = "pyramid"
BASELINE = "flat"


@dataclass(frozen=True)
class Claim:
    """A statement, the paper's value, ours, and whether it holds. A documented departure does not fail the run."""

    text: str
    paper: str
    ours: str
    holds: bool
    departure: bool = False

    @property
    def verdict(self) -> str:
        if self.holds:
            return "yes"
        return "no, see README" if self.departure else "NO"

    @property
    def fails(self) -> bool:
        return not (self.holds or self.departure)


def all_claims(results: Results, config: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Claim]:
    """Every claim that the results can speak to."""
    found: list[Claim] = []
    for source in results.sources("figure1"):
        found += _figure1(results, source)
    for source in results.sources("users"):
        found += _figure2(results, source)
    found += _mixtures(results)
    found += _golden(results, config)
    found += _repeats(results, expected)
    return found


# ── figure 1 ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure1(results: Results, source: str) -> Iterator[Claim]:
    points = results.series("figure1", source)
    moderate = [point for point in points if 0.5 <= point.x <= 5]
    for metrics, low, departure in ((("SIM", "CC", "EMD"), 0.5, False), (("KL",), 2, False), (("KL",), 0.5, True)):
        at = [point for point in moderate if (point.x >= low if not departure else point.x < 2)]
        least = {metric: _least_lead(results, at, metric) for metric in metrics}
        yield Claim(
            f"fig. 1, {source}: {', '.join(metrics)} better than flat and top t % at ε = {_listed(at)}",
            "better on all",
            "least lead " + ", ".join(f"{metric} {lead:+.3f}" for metric, lead in least.items()),
            min(least.values()) > 0,
            departure,
        )
    gains = {metric: _gain(results, points[0], points[-1], OURS, metric) for metric in METRICS}
    yield Claim(
        f"fig. 1, {source}: pyramid improves from ε = {points[0].x:g} to {points[-1].x:g}",
        "all four improve",
        _signed(gains),
        min(gains.values()) > 0,
    )


def _least_lead(results: Results, points: list[Point], metric: str) -> float:
    """The smallest lead of the pyramid over any rival at any of the points, in the metric's unit."""
    return min(
        METRICS[metric] * (results.mean(point, OURS, metric) - results.mean(point, rival, metric))
        for point in points
        for rival in results.methods(point)
        if rival != OURS
    )


# ── figure 2 ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure2(results: Results, source: str) -> Iterator[Claim]:
    users, sizes = results.series("users", source), results.series("resolution", source)
    fewest, most = users[0], users[-1]
    yield Claim(
        f"fig. 2, {source}: EMD falls from {fewest.x:g} to {most.x:g} people",
        "pyramid and flat fall",
        ", ".join(f"{m} {_step(results, fewest, most, m)}" for m in (OURS, BASELINE)),
        all(_gain(results, fewest, most, method, "EMD") > 0 for method in (OURS, BASELINE)),
    )
    means = [results.mean(point, OURS, "EMD") for point in sizes]
    growth = results.mean(sizes[-1], BASELINE, "EMD") / results.mean(sizes[0], BASELINE, "EMD")
    spread = max(means) / min(means)
    yield Claim(
        f"fig. 2, {source}: EMD from {sizes[0].x:g} to {sizes[-1].x:g} cells a side",
        "pyramid nearly constant, flat grows",
        f"pyramid within ×{spread:.2f}, flat ×{growth:.2f}",
        spread < 1.25 < growth,
    )


# ── appendix E.3 ────────────────────────────────────────────────────────────────────────────────────────────────────


def _mixtures(results: Results) -> Iterator[Claim]:
    denser, more = results.series("sparsity", "mixture"), results.series("clusters", "mixture")
    for text, series in (
        (f"fig. 10: same 20 Gaussians, from {denser[0].x:.0%} to {denser[-1].x:.0%} of cells", denser),
        (f"fig. 11: from {more[0].x:g} to {more[-1].x:g} Gaussians", more),
    ):
        yield Claim(
            text,
            "pyramid's SIM falls, flat's rises",
            ", ".join(f"{m} {_step(results, series[0], series[-1], m, 'SIM')}" for m in (OURS, BASELINE)),
            _gain(results, series[0], series[-1], OURS, "SIM") < 0
            and _gain(results, series[0], series[-1], BASELINE, "SIM") > 0,
        )
    slow, fast = (-_gain(results, series[0], series[-1], OURS, "SIM") for series in (denser, more))
    yield Claim(
        "fig. 10 and 11: pyramid loses less when the Gaussians stay",
        "slower",
        f"SIM lost {slow:.3f} against {fast:.3f}",
        slow < fast,
    )


# ── the independent implementation, and ourselves earlier ───────────────────────────────────────────────────────────


def _golden(results: Results, config: Mapping[str, Any]) -> Iterator[Claim]:
    """Standard error of a difference of means over r and over our R runs, both with our spread: sd · √(1/r + 1/R)."""
    points = {point.x: point for point in results.series("golden", "gowalla")}
    for value in config["golden"]["values"] if points else []:
        point, method = points[value["epsilon"]], value["method"]
        texts, scores = [], []
        for metric in (metric for metric in METRICS if metric in value):
            runs = results.of(point, method, metric)
            error = runs.std(ddof=1) * np.sqrt(1 / config["golden"]["runs"] + 1 / len(runs))
            scores.append((runs.mean() - value[metric]) / error)
            texts.append(f"{metric} {runs.mean():.3f} ({scores[-1]:+.1f} se)")
        yield Claim(
            f"gowalla: {method} at ε = {value['epsilon']} agrees with an independent implementation, within 3 se",
            ", ".join(f"{metric} {value[metric]}" for metric in METRICS if metric in value),
            ", ".join(texts),
            bool(np.abs(scores).max() <= 3),
        )


def summary(results: Results) -> dict[str, dict[str, float]]:
    """Mean and standard error of everything, for expected.json."""
    return {
        f"{point.figure} | {point.source} | {point.x:g} | {method} | {metric}": {
            "mean": float(f"{results.mean(point, method, metric):.6g}"),
            "error": float(f"{results.error(point, method, metric):.3g}"),
        }
        for point, method, metric in results.values
    }


def _repeats(results: Results, expected: Mapping[str, Any]) -> Iterator[Claim]:
    ours = summary(results)
    common = [key for key in ours if key in expected]
    if not common:
        return
    away = {
        key: abs(ours[key]["mean"] - expected[key]["mean"])
        / (np.hypot(ours[key]["error"], expected[key]["error"]) + 1e-6)
        for key in common
    }
    worst = max(away, key=lambda key: away[key])
    yield Claim(
        "every mean repeats expected.json within 3 se",
        "–",
        f"{len(common)} means, at most {away[worst]:.1f} se ({worst})" if away[worst] > 0.1 else f"{len(common)} means",
        away[worst] <= 3,
    )


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gain(results: Results, before: Point, after: Point, method: str, metric: str) -> float:
    """How much better the metric gets from one point to another; negative when it gets worse."""
    return METRICS[metric] * (results.mean(after, method, metric) - results.mean(before, method, metric))


def _step(results: Results, before: Point, after: Point, method: str, metric: str = "EMD") -> str:
    return f"{results.mean(before, method, metric):.3f} → {results.mean(after, method, metric):.3f}"


def _signed(gains: Mapping[str, float]) -> str:
    return ", ".join(f"{metric} {METRICS[metric] * gain:+.3f}" for metric, gain in gains.items())


def _listed(points: list[Point]) -> str:
    return ", ".join(f"{point.x:g}" for point in points)
