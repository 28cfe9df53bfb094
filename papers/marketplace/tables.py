"""Make the tables of the README from the means and claims of a full run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from experiments import EPSILON, OVER_EPSILON, OVER_OWNERS, OVER_POINTS, OVER_SEEN
from harness.claims import Claim, summary
from harness.readme import between, with_claims
from harness.results import Point, Results
from printed import RepairedAuction, composed, concentrated, summary_epsilon
from protocol import (
    EXACT,
    GREEDY,
    HERDING,
    MMD,
    NETWORK,
    POOL,
    PRIVATE,
    REFERENCES,
    RIGHT,
    ROUNDS,
    SEEN,
    SHARE,
    SVM,
    UNIFORM,
)

Means = Mapping[str, Sequence[float]]
"""The mean and standard error of each result, by its name in expected.json."""

CLAIMS = ("bid", "theorem", "MWEM", "auction", "hash", "mnist", "adult", "digits")
"""The prefixes of claims that have their own table in the README."""

MISSED = (0.05, 1e-3, 1e-6, 1e-9)


def filled_in(readme: str, results: Results, config: Mapping[str, Any], claims: Sequence[Claim]) -> str:
    """The text of README.md with new tables of results and claims between its marks."""
    return with_claims(with_tables(readme, summary(results), config), claims, CLAIMS)


def with_tables(readme: str, means: Means, config: Mapping[str, Any]) -> str:
    """The text of README.md with new tables of results between its marks."""
    for name in config["full"]["runs"]:
        readme = between(readme, f"epsilon, {name}", _over_epsilon(means, config, name))
        readme = between(readme, f"points, {name}", _over_points(means, config, name))
    for name, rows in (
        ("seen", _over_seen(means, config)),
        ("owners", _over_owners(means, config)),
        ("accounting", _accounting()),
        ("asks", _asks()),
    ):
        readme = between(readme, name, rows)
    return readme


# ── what was chosen ─────────────────────────────────────────────────────────────────────────────────────────────────


def _over_epsilon(means: Means, config: Mapping[str, Any], name: str) -> Iterator[Sequence[str]]:
    epsilons = config["full"]["epsilons"][name]
    yield "", *(f"ε = {epsilon:g}" for epsilon in epsilons), "SVM", "network", "right owner", "seen"
    middle = Point(OVER_EPSILON, name, EPSILON)
    for method in (*PRIVATE, *REFERENCES):
        found = [_thousand(means, Point(OVER_EPSILON, name, epsilon), method) for epsilon in epsilons]
        if method in REFERENCES:
            found = [found[0], *["″"] * (len(found) - 1)]
        svm, network, share = (f"{_of(means, middle, method, metric)[0]:.1%}" for metric in (SVM, NETWORK, SHARE))
        yield method, *found, svm, network, share, f"{_of(means, middle, method, SEEN)[0]:.3g}"


def _over_points(means: Means, config: Mapping[str, Any], name: str) -> Iterator[Sequence[str]]:
    methods = (HERDING, ROUNDS, GREEDY, EXACT, POOL, RIGHT, UNIFORM)
    yield "points", *methods, "herding / greedy"
    for points in config["full"]["points"][name]:
        at = Point(OVER_POINTS, name, points)
        ratio = _of(means, at, HERDING)[0] / _of(means, at, GREEDY)[0]
        yield f"{points:,}", *(_thousand(means, at, method) for method in methods), f"{ratio:.2f}"


def _over_seen(means: Means, config: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for name, values in config["full"]["seen"].items():
        yield f"{name}: seen for each point bought", *(f"{seen:g}" for seen in values)
        for method in (HERDING, POOL):
            yield method, *(_thousand(means, Point(OVER_SEEN, name, seen), method) for seen in values)


def _over_owners(means: Means, config: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for name, values in config["full"]["owners"].items():
        yield f"{name}: owners", *map(str, values)
        for method in (HERDING, ROUNDS, POOL, UNIFORM):
            yield method, *(_thousand(means, Point(OVER_OWNERS, name, owners), method) for owners in values)


def _thousand(means: Means, point: Point, method: str) -> str:
    mean, error = _of(means, point, method)
    digits = 2 if mean < 0.01 else 1
    return f"{1000 * mean:.{digits}f} ± {1000 * error:.{digits}f}"


def _of(means: Means, point: Point, method: str, metric: str = MMD) -> Sequence[float]:
    return means[f"{point.figure} | {point.source} | {point.x:g} | {method} | {metric}"]


# ── what is computed ────────────────────────────────────────────────────────────────────────────────────────────────


def _accounting() -> Iterator[Sequence[str]]:
    """The table of erratum E2-3: the smallest of theorem 7's bounds."""
    yield "", "claimed", "1 release a step", "2 releases", "a point set to zero", "a point replaced", "the same in zCDP"
    small = summary_epsilon(1000)
    for name, claimed, epsilon, steps, delta in (
        ("target: 1,656 steps, ε = 0.01, δ = 0.01", "1.4", 0.01, 1656, 0.01),
        ("target, δ = 1e-6", "–", 0.01, 1656, 1e-6),
        ("summary: 5,000 steps, ε = 0.01/√5000, δ = 1e-4", "0.043", small, 5000, 1e-4),
    ):
        kinds = ((1,), (1, 1), (2, 1), (4, 2))
        found = [composed([(factor * epsilon, steps) for factor in factors], delta)[1] for factors in kinds]
        apart = f"{concentrated(steps, Fraction(str(delta))):.3g}" if epsilon == 0.01 else ""
        yield name, claimed, *(f"{value:.4g}" for value in found), apart


def _asks() -> Iterator[Sequence[str]]:
    """The table of erratum E2-6: the number of owners, of 10,000, that are asked."""
    yield "ε of a coin", *(f"top bid missed once in {1 / missed:,.0f}" for missed in MISSED)
    for epsilon in ("0.02", "0.1", "0.5", "1"):
        coins = [RepairedAuction(Fraction(epsilon), missed).expected_asks(10**4) for missed in MISSED]
        yield epsilon, *(f"{asks:.3g}" if asks < 1000 else f"{asks:,.0f}" for asks in coins)


# ── claims ──────────────────────────────────────────────────────────────────────────────────────────────────────────
