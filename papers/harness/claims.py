"""Claims of a paper with the paper's number and ours, and the statistical test of a difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.results import Point, Results


@dataclass(frozen=True)
class Claim:
    """A claim, the paper's value, our value, and whether the claim holds here.

    A documented departure does not fail the run. ``undecided`` means that no result supports the claim.
    """

    text: str
    paper: str
    ours: str
    holds: bool
    departure: bool = False
    undecided: bool = False

    @property
    def verdict(self) -> str:
        if self.holds:
            return "undecided" if self.undecided else "yes"
        return "no, see README" if self.departure else "NO"

    @property
    def fails(self) -> bool:
        return not (self.holds or self.departure)


@dataclass(frozen=True)
class Difference:
    """The mean difference between two methods with its standard error; a positive difference is better."""

    mean: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether the difference is positive by more than two standard errors."""
        return self.mean > 2 * self.error

    def __neg__(self) -> Difference:
        return Difference(-self.mean, self.error)

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f}"


def difference(sign: int, ours: np.ndarray, other: np.ndarray) -> Difference:
    """The mean over runs of how much better ``ours`` is; methods of a run see the same data, so differences are paired.

    ``sign`` is 1 where a larger value is better, and −1 where a smaller value is better.
    """
    gains = sign * (ours - other)
    return Difference(float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains))))


def golden(
    results: Results,
    point: Point,
    method: str,
    known: Mapping[str, float],
    runs: int,
    rounding: Mapping[str, float] | None = None,
) -> tuple[list[str], list[float]]:
    """Compare our means with those of an independent implementation, as a text and as differences in standard errors.

    The standard error of the difference between a mean over r runs and our mean over R runs is sd · √(1/r + 1/R), where
    sd is the standard deviation of our runs. The known numbers were rounded, so a difference of up to ``rounding``
    does not count.
    """
    texts, scores = [], []
    for metric, value in known.items():
        found = results.of(point, method, metric)
        error = found.std(ddof=1) * np.sqrt(1 / runs + 1 / len(found))
        away = float(found.mean() - value)
        beyond = max(0.0, abs(away) - (rounding or {}).get(metric, 0.0))
        scores.append(float(np.copysign(beyond / error, away)))
        digits = 3 if abs(value) >= 0.02 else 4
        texts.append(f"{metric} {found.mean():.{digits}f} ({scores[-1]:+.1f} se)")
    return texts, scores


def summary(results: Results) -> dict[str, list[float]]:
    """The mean and standard error of every result, for expected.json."""
    return {
        f"{point.figure} | {point.source} | {point.x:g} | {method} | {metric}": [
            float(f"{results.mean(point, method, metric):.6g}"),
            float(f"{results.error(point, method, metric):.3g}"),
        ]
        for point, method, metric in results.values
    }


def repeats(results: Results, expected: Mapping[str, Any]) -> Iterator[Claim]:
    """The claim that every mean is the same as when expected.json was written."""
    ours = summary(results)
    common = [key for key in ours if key in expected]
    if not common:
        return
    away = {
        key: abs(ours[key][0] - expected[key][0]) / (np.hypot(ours[key][1], expected[key][1]) + 1e-6) for key in common
    }
    worst = max(away, key=lambda key: away[key])
    yield Claim(
        "every mean repeats expected.json within 3 se",
        "–",
        f"{len(common)} means, at most {away[worst]:.1f} se ({worst})" if away[worst] > 0.1 else f"{len(common)} means",
        away[worst] <= 3,
    )
