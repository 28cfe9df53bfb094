"""The claims about range queries, as tests on the results of the trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from harness.claims import Claim, repeats
from harness.results import Point, Results
from protocol import DEFAULT, ERROR, HELD, LEAK, MADE_UP, TOTAL, WIDTH, peers


def all_claims(results: Results, config: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Claim]:
    """All claims that the available results can test; those listed as open do not fail the run."""
    found: list[Claim] = []
    for setting in sorted({point.figure for point, _, _ in results.values}):
        real, made_up = points_of(results, setting)
        if real:
            found += _errors(results, setting, real, config)
            found += _authors(results, setting, real, config)
            found += _intervals(results, setting, real, config)
        found += _made_up(results, setting, made_up, config)
        found += _totals(results, setting, real + made_up, config)
    open_ = set(config["open"]["claims"])
    found = [Claim(c.text, c.paper, c.ours, c.holds, departure=c.text in open_) for c in found]
    return found + list(repeats(results, expected))


def points_of(results: Results, setting: str) -> tuple[list[Point], list[Point]]:
    """The points of a setting: real data, and made-up data."""
    points = sorted({point for point, _, _ in results.values if point.figure == setting})
    return [p for p in points if p.source not in MADE_UP], [p for p in points if p.source in MADE_UP]


def geometric(values: Sequence[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def over_best(results: Results, point: Point, method: str, config: Mapping[str, Any]) -> float:
    """The error of a method over the best peer's; on made-up data over the best of our other mechanisms'."""
    known = peers(config).get((point.figure, point.source))
    if known is None:
        others = [results.mean(point, name, ERROR) for name in results.methods(point) if name != DEFAULT]
        return results.mean(point, method, ERROR) / min(others)
    return over_peer(results, point, method, min(known.values(), key=lambda errors: np.mean(list(errors.values()))))


def over_peer(results: Results, point: Point, method: str, errors: Mapping[int, float]) -> float:
    """The mean error of a method over that of a peer, on the samples on which both were run."""
    found = results.of(point, method, ERROR)
    both = [trial for trial in errors if trial < len(found)]
    return float(np.mean(found[both]) / np.mean([errors[trial] for trial in both]))


def _errors(results: Results, setting: str, points: list[Point], config: Mapping[str, Any]) -> Iterator[Claim]:
    ratios = {point.source: over_best(results, point, DEFAULT, config) for point in points}
    wanted, each = config["error"]["mean"], config["error"]["each"][setting]
    mean, worst = geometric(list(ratios.values())), max(ratios, key=lambda name: ratios[name])
    yield Claim(
        f"errors {setting}: the default over the best peer, mean", f"below {wanted:g}", f"{mean:.2f}", mean < wanted
    )
    yield Claim(
        f"errors {setting}: the default over the best peer, on every data set",
        f"at most {each:g}",
        f"{ratios[worst]:.2f} ({worst})",
        ratios[worst] <= each,
    )


def _made_up(results: Results, setting: str, points: list[Point], config: Mapping[str, Any]) -> Iterator[Claim]:
    wanted = config["error"]["made_up"]
    mean = geometric([over_best(results, point, DEFAULT, config) for point in points])
    yield Claim(
        f"errors {setting}, made-up data: the default over our best other mechanism, mean",
        f"below {wanted:g}",
        f"{mean:.2f}",
        mean < wanted,
    )


def _authors(results: Results, setting: str, points: list[Point], config: Mapping[str, Any]) -> Iterator[Claim]:
    known = peers(config)
    for name, against in config["authors"].items():
        theirs = {point: known[point.figure, point.source].get(against["theirs"]) for point in points}
        ratios = [over_peer(results, point, name, errors) for point, errors in theirs.items() if errors]
        if ratios:
            mean = geometric(ratios)
            yield Claim(
                f"authors {setting}: {name} over the authors' {against['theirs']}, mean",
                f"at most {against['most']:g}",
                f"{mean:.2f}",
                mean <= against["most"],
            )


def _totals(results: Results, setting: str, points: list[Point], config: Mapping[str, Any]) -> Iterator[Claim]:
    most = config["total"]["most"][setting]
    means = {
        name: float(np.mean([results.mean(point, name, TOTAL) for point in points]))
        for name in config["total"]["methods"]
    }
    worst = max(means, key=lambda name: abs(means[name] - 1))
    yield Claim(
        f"totals {setting}: the total over the number of people, mean of each mechanism",
        f"1 ± {most:g}",
        f"{means[worst]:.4f} ({worst})",
        abs(means[worst] - 1) <= most,
    )


def _intervals(results: Results, setting: str, points: list[Point], config: Mapping[str, Any]) -> Iterator[Claim]:
    wanted = config["intervals"]
    held = {point.source: results.mean(point, DEFAULT, HELD) for point in points}
    low, high = wanted["mean"]
    mean = float(np.mean(list(held.values())))
    yield Claim(
        f"intervals {setting}: share that holds, mean", f"{low:g} to {high:g}", f"{mean:.3f}", low <= mean <= high
    )
    for names, least, words in (
        ([name for name in held if name not in wanted["hard"]], wanted["each"], "every data set"),
        ([name for name in held if name in wanted["hard"]], wanted["each_hard"], " and ".join(wanted["hard"])),
    ):
        if names:
            worst = min(names, key=lambda name: held[name])
            yield Claim(
                f"intervals {setting}: share that holds, {words}",
                f"at least {least:g}",
                f"{held[worst]:.3f} ({worst})",
                held[worst] >= least,
            )
    # The means of "before" are over all data sets, so a run on fewer of them is not compared.
    for metric, name in ((WIDTH, "width"), (LEAK, "leak")):
        if setting in wanted[name] and len(points) == len(config["data"]["sets"]):
            ratio = float(np.mean([results.mean(point, DEFAULT, metric) for point in points]))
            ratio /= config["before"][name][setting]
            yield Claim(
                f"intervals {setting}: {name} over that of before",
                f"at most {wanted[name][setting]:g}",
                f"{ratio:.2f}",
                ratio <= wanted[name][setting],
            )
