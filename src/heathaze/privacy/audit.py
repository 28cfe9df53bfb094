"""Attack a promise: an empirical lower bound on ε from many runs on two neighbouring datasets.

ε-differential privacy says Pr[M(D) ∈ S] ≤ e^ε Pr[M(D′) ∈ S] + δ for every set S of outcomes. So any set whose two
probabilities are known well enough bounds ε from below:

    ε ≥ ln((p − δ) / q),   p a lower bound of Pr[M(D) ∈ S], q an upper bound of Pr[M(D′) ∈ S]

Half of the runs look for the set that tells the datasets apart best; the other half, which had no part in the choice,
bounds its probabilities. A bound above the declared ε proves a violation; a bound below proves nothing, it only says
that this attack failed. After Ding, Wang, Wang, Zhang and Kifer, "Detecting violations of differential privacy" (2018),
and Jagielski, Ullman and Oprea, "Auditing differentially private machine learning" (2020).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness
from heathaze.types import Floats, Integers

Data = TypeVar("Data", contravariant=True)
Outcome = TypeVar("Outcome", covariant=True)

_MOST_THRESHOLDS = 200
"""Thresholds tried; more would only choose among sets that hardly differ."""

_MOST_VALUES = 2000
"""Single values are tried if there are no more of them than these; otherwise none stands out."""


class Auditable(Protocol[Data, Outcome]):
    """What can be audited: every :class:`heathaze.protocols.Mechanism`."""

    @property
    def epsilon(self) -> Fraction:
        """The declared loss."""

    def run(self, counts: Data, randomness: Randomness) -> Outcome:
        """Draw the noise."""


@dataclass(frozen=True)
class Audit:
    """What an attack found."""

    lower_bound: float
    declared: float
    runs: int
    confidence: float

    @property
    def violated(self) -> bool:
        """Was more than the declared ε observed? Then the promise is broken, up to 1 − confidence."""
        return self.lower_bound > self.declared

    def __str__(self) -> str:
        verdict = "which breaks the promise" if self.violated else "no violation found"
        return (
            f"ε is at least {self.lower_bound:.4g} and {self.declared:.4g} was declared: {verdict} ({self.runs} runs)"
        )


def audit(
    mechanism: Auditable[Data, Outcome],
    first: Data,
    second: Data,
    statistic: Callable[[Outcome], float],
    *,
    runs: int,
    randomness: Randomness,
    confidence: float = 1 - 1e-6,
) -> Audit:
    """Run a mechanism ``runs`` times on each of two neighbours and see what the outcomes betray.

    Args:
        mechanism: What to attack; its ``epsilon`` is taken as a pure promise (δ = 0).
        first: One dataset.
        second: Its neighbour, with one unit more or less.
        statistic: The number the attacker looks at, for example the total or the mass of the cell that differs.
        runs: Runs on each dataset. To see a loss of ε takes a few times 14 · e^ε runs at the default confidence.
        randomness: ``Simulation(seed)`` makes the audit repeatable.
        confidence: Probability that an honest mechanism is not accused.
    """
    outcomes = [
        np.array([statistic(mechanism.run(data, randomness)) for _ in range(runs)], dtype=np.float64)
        for data in (first, second)
    ]
    found = lower_bound(*outcomes, confidence=confidence)
    return Audit(found, float(mechanism.epsilon), runs, confidence)


def lower_bound(
    first: npt.ArrayLike, second: npt.ArrayLike, *, confidence: float = 1 - 1e-6, delta: float = 0.0
) -> float:
    """A number that ε is not below, unless something of probability 1 − ``confidence`` happened.

    Args:
        first: Outcomes (one number each) of independent runs on one dataset.
        second: Outcomes on its neighbour.
        confidence: Below 1; the bounds on both probabilities share what is missing.
        delta: The promised δ.

    Returns:
        The certified bound; 0 if the outcomes betray nothing.

    Cost: O(n log n) for n outcomes.

    >>> lower_bound(np.zeros(1000), np.ones(1000)) > 3
    True
    >>> lower_bound(np.zeros(1000), np.zeros(1000))
    0.0
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or b.ndim != 1 or min(len(a), len(b)) < 4 or np.isnan(a).any() or np.isnan(b).any():
        raise InvalidInput("An audit needs at least four outcomes on each dataset, one number (not NaN) each.")
    if not 0 < confidence < 1 or not 0 <= delta < 1:
        raise InvalidInput(f"confidence is {confidence} and delta {delta}; give numbers above and below 1.")
    doubt = (1 - confidence) / 2
    # Outcomes are independent, so every other one is as good a half as any.
    best, chosen = 0.0, None
    for likely, rare in ((a, b), (b, a)):
        low, high = _candidates(np.concatenate([likely[::2], rare[::2]]))
        bounds = _bounds(likely[::2], rare[::2], low, high, doubt, delta)
        place = int(np.argmax(bounds))
        if bounds[place] > best:
            best, chosen = float(bounds[place]), (likely, rare, low[[place]], high[[place]])
    if chosen is None:
        return 0.0
    likely, rare, low, high = chosen
    return max(0.0, float(_bounds(likely[1::2], rare[1::2], low, high, doubt, delta)[0]))


def _candidates(outcomes: Floats) -> tuple[Floats, Floats]:
    """Sets of outcomes, each from a lower to an upper end: below or above a threshold, and single values if few."""
    ordered = np.sort(outcomes)
    count = len(ordered)
    # The best sets are often rare ones, so thresholds stand closer together towards the ends.
    tail = np.unique(np.geomspace(1, count, _MOST_THRESHOLDS).astype(int)) - 1
    even = np.linspace(0, count - 1, _MOST_THRESHOLDS).astype(int)
    thresholds = np.unique(ordered[np.concatenate([tail, count - 1 - tail, even])])
    values = np.unique(ordered)
    single = values if len(values) <= _MOST_VALUES else values[:0]
    endless = np.full(len(thresholds), np.inf)
    return np.concatenate([-endless, thresholds, single]), np.concatenate([thresholds, endless, single])


def _bounds(likely: Floats, rare: Floats, low: Floats, high: Floats, doubt: float, delta: float) -> Floats:
    """ln((p − δ)/q) for each set, p and q one-sided Clopper–Pearson bounds that each err with probability ``doubt``."""
    from scipy.special import betaincinv

    hits, others = _hits(likely, low, high), _hits(rare, low, high)
    # No hit at all bounds p by 0, all hits bound q by 1; the quantile below is not defined there.
    p = np.where(hits > 0, betaincinv(np.maximum(hits, 1), len(likely) - hits + 1, doubt), 0.0)
    q = np.where(others < len(rare), betaincinv(others + 1, np.maximum(len(rare) - others, 1), 1 - doubt), 1.0)
    return np.log(np.maximum(p - delta, np.finfo(float).tiny)) - np.log(q)


def _hits(outcomes: Floats, low: Floats, high: Floats) -> Integers:
    """How many outcomes lie in each set."""
    ordered = np.sort(outcomes)
    return np.searchsorted(ordered, high, side="right") - np.searchsorted(ordered, low, side="left")
