"""The claims of appendices A to F of "Differentially Private Heatmaps": figures 4 to 9, 12 and 13, and the theory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from bounds import conjecture_excess
from communication import megabytes, needed_messages, nodes, printed_messages
from harness.claims import Claim, Difference, difference
from harness.results import Point, Results
from protocol import METRICS

OURS, BASELINE = "pyramid", "flat"


def appendix_claims(results: Results, config: Mapping[str, Any]) -> Iterator[Claim]:
    """All claims about the appendices that the available results can test."""
    for source in results.sources("users_at_1"):
        yield from _figures_4_to_7(results, source)
    for source in results.sources("gaze"):
        yield from _figure8(results, source)
    for source in results.sources("rounding"):
        yield from _figures_12_and_13(results, source, config)
    if results.series("places", "places"):
        yield from _places(results)
    if results.series("heat", "synthetic"):
        yield from _heat(results, config)


def gain(results: Results, before: Point, after: Point, method: str, metric: str) -> Difference:
    """The improvement of a metric from one point to another; negative if the metric gets worse."""
    return difference(METRICS[metric], results.of(after, method, metric), results.of(before, method, metric))


# ── appendix E.1 ────────────────────────────────────────────────────────────────────────────────────────────────────


def _figures_4_to_7(results: Results, source: str) -> Iterator[Claim]:
    for figure, name, epsilon in (("4", "users", 10), ("6", "users_at_1", 1)):
        points = results.series(name, source)
        # At ε = 1 the flat map is nearly uniform, and its EMD hardly moves (README, "What does not repeat").
        apart = () if epsilon == 10 else ("EMD",)
        tests = [(OURS, tuple(METRICS), False), (BASELINE, tuple(one for one in METRICS if one not in apart), False)]
        tests += [(BASELINE, apart, True)] if apart else []
        for method, metrics, departure in tests if points else ():
            found = {metric: gain(results, points[0], points[-1], method, metric) for metric in metrics}
            yield Claim(
                f"fig. {figure}, {source}: {', '.join(metrics)} of {method} improve from {points[0].x:g} to "
                f"{points[-1].x:g} people, ε = {epsilon}",
                "improve",
                "gain " + ", ".join(f"{metric} {one}" for metric, one in found.items()),
                all(one.clear for one in found.values()),
                departure,
            )
    for figure, name, epsilon in (("5", "resolution", 10), ("7", "resolution_at_1", 1)):
        points = results.series(name, source)
        if not points:
            continue
        changes = {metric: gain(results, points[0], points[-1], OURS, metric) for metric in METRICS}
        losses = {metric: -gain(results, points[0], points[-1], BASELINE, metric) for metric in METRICS}
        yield Claim(
            f"fig. {figure}, {source}: from {points[0].x:g} to {points[-1].x:g} cells a side the pyramid changes less "
            f"than flat, ε = {epsilon}",
            "nearly constant",
            ", ".join(f"{metric} {changes[metric].mean:+.3f} / {-losses[metric].mean:+.3f}" for metric in METRICS),
            all(abs(changes[metric].mean) < abs(losses[metric].mean) for metric in METRICS if metric != "KL"),
        )
        yield Claim(
            f"fig. {figure}, {source}: flat suffers from {points[0].x:g} to {points[-1].x:g} cells a side, "
            f"ε = {epsilon}",
            "on all four",
            "loss " + ", ".join(f"{metric} {one}" for metric, one in losses.items()),
            all(one.clear for one in losses.values()),
        )
    yield from _thresholds(results, source)


def _thresholds(results: Results, source: str) -> Iterator[Claim]:
    """ "For most metrics and parameters, they are worse than the original baseline" at ε = 1."""
    points = results.series("users_at_1", source) + results.series("resolution_at_1", source)
    worse = [
        (-difference(sign, results.of(point, method, metric), results.of(point, BASELINE, metric))).clear
        for point in points
        for method in results.methods(point)
        if method.startswith("top")
        for metric, sign in METRICS.items()
    ]
    yield Claim(
        f"fig. 6 and 7, {source}: top t % is worse than flat at ε = 1",
        "for most metrics and parameters",
        f"clearly worse in {sum(worse)} of {len(worse)}",
        sum(worse) > len(worse) / 2,
    )


# ── appendix E.2 ────────────────────────────────────────────────────────────────────────────────────────────────────


def _figure8(results: Results, source: str) -> Iterator[Claim]:
    points = results.series("gaze", source)
    for metrics, low, high, departure in (
        (("SIM", "CC", "EMD"), 5, 10, False),
        (("KL",), 5, 10, source == "made-up gaze"),  # its fixations are spread more widely than the real ones
        (tuple(METRICS), 1, 2, True),
        (tuple(METRICS), 20, 20, True),
    ):
        at = [point for point in points if low <= point.x <= high]
        if not at:
            continue
        leads = {
            metric: min(
                (
                    difference(METRICS[metric], results.of(point, OURS, metric), results.of(point, rival, metric))
                    for point in at
                    for rival in results.methods(point)
                    if rival != OURS
                ),
                key=lambda lead: lead.mean / lead.error,
            )
            for metric in metrics
        }
        yield Claim(
            f"fig. 8, {source}: {', '.join(metrics)} better than flat and top t % at ε = "
            + ", ".join(f"{point.x:g}" for point in at),
            "better on all",
            "least certain lead " + ", ".join(f"{metric} {lead}" for metric, lead in leads.items()),
            all(lead.clear for lead in leads.values()),
            departure,
        )
    last = points[-1]
    yield Claim(
        f"fig. 8, {source}: flat is poor even at ε = {last.x:g}",
        "poor on all four",
        ", ".join(f"{metric} {results.mean(last, BASELINE, metric):.2f}" for metric in METRICS),
        results.mean(last, BASELINE, "SIM") < 0.5 * results.mean(last, OURS, "SIM"),
    )


# ── appendix F ──────────────────────────────────────────────────────────────────────────────────────────────────────


def communication(config: Mapping[str, Any]) -> dict[int, tuple[int, float, int, float]]:
    """For each B: messages and megabytes as printed, and with the number of messages that the proof needs."""
    frame, rounding = config["gaze"], config["full"]["rounding"]
    people, (wide, high) = frame["people"], frame["pixels"]
    m = nodes((frame["size"] * high // wide, frame["size"]))
    found = {}
    for scale in (scale for scale in rounding["scales"] if scale):
        q = scale * people
        printed = printed_messages(people, rounding["epsilon"], rounding["delta"], m, q)
        needed = needed_messages(people, rounding["epsilon"], rounding["delta"], m, q)
        found[scale] = printed, megabytes(printed, m, q), needed, megabytes(needed, m, q)
    return found


def _figures_12_and_13(results: Results, source: str, config: Mapping[str, Any]) -> Iterator[Claim]:
    sent = communication(config)
    r, printed, needed, ours = sent[256]
    yield Claim(
        "fig. 12: what one person sends at B = 256, 320 × 240, n = 50, ε = 5, δ = 1e-5",
        "about 10 MB",
        f"{printed:.1f} MB by the printed formula (r = {r}), {ours:.1f} MB with r = {needed}",
        abs(printed - 10) < 1,
        departure=True,
    )
    yield Claim(
        "fig. 12: the printed r is enough at n = 50 for every B",
        "private",
        ", ".join(f"B {scale}: {row[0]} printed, {row[2]} needed" for scale, row in sent.items()),
        all(row[0] >= row[2] for row in sent.values()),
    )
    points = {point.x: point for point in results.series("rounding", source)}
    central = results.of(points[0], "central", "EMD")
    at = results.of(points[256], "systematic", "EMD")
    # The runs are paired: the same image, people and random bits of the noise.
    ratio = at.mean() / central.mean()
    error = float(_error(at - ratio * central) / central.mean())
    certain, few = abs(ratio - 1) + 2 * error <= 0.02, error > 0.005
    yield Claim(
        f"fig. 13, {source}: at B = 256 the EMD is within 2 % of the central model",
        "nearly maximal utility",
        f"ratio {ratio:.4f} ± {error:.4f}",
        certain or (few and abs(ratio - 1) <= 0.02 + 2 * error),
        undecided=not certain,
    )
    coarse = results.of(points[1], "systematic", "EMD")
    loss = -difference(METRICS["EMD"], coarse, central)
    yield Claim(f"fig. 13, {source}: B = 1 is worse than the central model in EMD", "worse", f"by {loss}", loss.clear)
    down = {metric: -difference(METRICS[metric], results.of(points[1], "rounded down", metric),
                                results.of(points[1], "systematic", metric)) for metric in METRICS}  # fmt: skip
    yield Claim(
        f"fig. 13, {source}: rounding down, as printed, loses against systematic rounding at B = 1",
        "not compared",
        "loss " + ", ".join(f"{metric} {one}" for metric, one in down.items()),
        all(one.clear for one in down.values()),
    )


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


# ── appendices A and C ──────────────────────────────────────────────────────────────────────────────────────────────


def _places(results: Results) -> Iterator[Claim]:
    steps, crowds = results.series("places", "places"), results.series("crowds", "places")
    coresets = {point: results.mean(point, OURS, "coreset") for point in steps + crowds}
    limits = {point: results.mean(point, "upper bound", "coreset") for point in steps + crowds}
    share = max(coresets[point] / limits[point] for point in coresets)
    yield Claim(
        "A.1: the cost of the coreset is off by at most the theorem's bound, for every tested set of centres",
        "O(√k/ε)",
        f"at most {share:.2%} of the bound with its constants",
        share <= 1,
    )
    first, last = steps[0], steps[-1]
    growth, allowed = coresets[last] / coresets[first], float(np.sqrt(last.x / first.x))
    yield Claim(
        f"A.1: the error grows no faster than √k from k = {first.x:g} to {last.x:g}",
        f"at most ×{allowed:.1f}",
        f"×{growth:.2f} ({coresets[first]:.1f} → {coresets[last]:.1f} people × side)",
        growth <= 1.25 * allowed,
    )
    few, many = crowds[0], crowds[-1]
    yield Claim(
        f"A.1: the error does not grow with the people, from {few.x:g} to {many.x:g}",
        "independent of n",
        f"{coresets[few]:.1f} → {coresets[many]:.1f} people × side",
        coresets[many] <= 1.25 * coresets[few],
    )
    centres = [results.mean(point, OURS, "centres") for point in (few, many)]
    yield Claim(
        "A.2: what the release's centres cost the people does not grow with the people (the optimum is 0)",
        "independent of n",
        f"{centres[0]:.1f} → {centres[1]:.1f} people × side",
        centres[1] <= 1.25 * centres[0] + 1,
    )
    lower = min(
        results.mean(point, OURS, "EMD") / results.mean(point, "lower bound", "EMD") for point in steps + crowds
    )
    yield Claim("C.1: the error lies above the packing bound", "above", f"at least ×{lower:.0f}", lower >= 1)
    tight = [results.mean(point, OURS, "EMD") / results.mean(point, "lower bound", "EMD") for point in (first, last)]
    yield Claim(
        f"C.1: the bound is tight in k, so the gap does not grow from k = {first.x:g} to {last.x:g}",
        "tight up to a constant",
        f"×{tight[0]:.0f} → ×{tight[1]:.0f}",
        tight[1] <= 1.25 * tight[0],
    )


# ── appendix B ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _heat(results: Results, config: Mapping[str, Any]) -> Iterator[Claim]:
    heat, sigma = config["full"]["heat"], config["protocol"]["sigma"]
    points = results.series("heat", "synthetic")
    for metric, lemma, sign in (("EMD", "B.1", 1), ("KL", "B.3", 1), ("SIM", "B.5", -1)):
        rooms = [
            sign * (results.of(point, width, f"{metric} bound") - results.of(point, width, metric))
            for point in points
            for width in results.methods(point)
        ]
        yield Claim(
            f"{lemma}: {metric} of heat maps is bounded by the EMD before smoothing, in every run",
            "holds (proved without borders)",
            f"least room {min(room.min() for room in rooms):.4f} in {sum(map(len, rooms))} pairs",
            all((room >= 0).all() for room in rooms),
        )
    widths = [(sigma * size, size) for size in (64, 128, 256, 320, 512)] + [(sigma * 320, 240)]
    widths += [(heat["size"] / width, heat["size"]) for width in heat["widths"]]
    excess = max(max(conjecture_excess(*pair)) for pair in widths)
    yield Claim(
        "B: the lemmas hold for heat maps that are cut off at the border, on every grid of this folder",
        "conjectured",
        f"proven by enumerating pairs of cells (largest excess {excess:.0e}, rounding)",
        excess <= 1e-11,
    )
