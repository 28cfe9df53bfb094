"""Audits: an empirical lower bound on ε from many runs of a mechanism on two neighbouring datasets.

Differential privacy of a mechanism M on neighbouring datasets D and D′ means Pr[M(D) ∈ S] ≤ e^ε Pr[M(D′) ∈ S] + δ for
every set S of outcomes. So estimates of both probabilities of any one set S bound ε from below:

    ε ≥ ln((p − δ) / q),   p a lower bound of Pr[M(D) ∈ S], q an upper bound of Pr[M(D′) ∈ S]

Half of the runs are used to choose the set S that distinguishes the datasets best. The other half, which is independent
of the choice, gives p and q. A lower bound above the declared ε proves a violation. A lower bound below the declared ε
proves only that this attack failed. The method follows Ding, Wang, Wang, Zhang and Kifer, "Detecting violations of
differential privacy" (2018), and Jagielski, Ullman and Oprea, "Auditing differentially private machine learning"
(2020).
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
"""The number of thresholds that are tried; more thresholds would only add sets that hardly differ."""

_MOST_VALUES = 2000
"""Each single value is tried as a set if there are at most this many different values."""


class Auditable(Protocol[Data, Outcome]):
    """The interface of a mechanism that can be audited; every :class:`heathaze.central.mechanism.Mechanism` has it."""

    @property
    def epsilon(self) -> Fraction:
        """The declared ε."""

    def run(self, counts: Data, randomness: Randomness) -> Outcome:
        """Draw the noise and return the noisy outcome."""


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    ``lower_bound`` is the certified lower bound on ε, and ``declared`` the ε that the mechanism declares. ``runs`` is
    the number of runs on each dataset. ``confidence`` is the probability that a correct mechanism is not accused.
    """

    lower_bound: float
    declared: float
    runs: int
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether the bound is above the declared ε: a violation, except with probability 1 − confidence."""
        return self.lower_bound > self.declared

    def __str__(self) -> str:
        verdict = "which breaks the guarantee" if self.violated else "no violation found"
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
    """Run a mechanism ``runs`` times on each of two neighbouring datasets and bound ε from the outcomes.

    Args:
        mechanism: The mechanism to attack; its ``epsilon`` is taken as pure (δ = 0).
        first: One dataset.
        second: Its neighbour, with one unit more or less.
        statistic: The number that the attacker computes from an outcome, for example the total or the mass of the cell
            that differs.
        runs: The number of runs on each dataset. At the default confidence, a few times 14 · e^ε runs are needed to
            observe a loss of ε.
        randomness: The source of random bits; ``Simulation(seed)`` makes the audit repeatable.
        confidence: Probability that a correct mechanism is not accused, between 0 and 1.

    Returns:
        The result of the audit.

    Raises:
        InvalidInput: There are fewer than four runs, or the confidence is out of range.
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
    """Return a lower bound on ε that is wrong with probability at most 1 − ``confidence``.

    Args:
        first: Outcomes of at least four independent runs on one dataset, one number for each run.
        second: Outcomes of at least four independent runs on a neighbouring dataset.
        confidence: Between 0 and 1.
        delta: The declared δ, at least 0 and below 1.

    Returns:
        The certified bound; 0 if the outcomes do not distinguish the datasets.

    Raises:
        InvalidInput: There are too few outcomes, an outcome is NaN, or a value is out of range.

    Cost: O(n log n) for n outcomes.

    >>> lower_bound(np.zeros(1000), np.ones(1000)) > 3
    True
    >>> lower_bound(np.zeros(1000), np.zeros(1000))
    0.0
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or b.ndim != 1 or min(len(a), len(b)) < 4 or np.isnan(a).any() or np.isnan(b).any():
        raise InvalidInput(
            "An audit needs at least four results of the mechanism on each of the two datasets; each is one number, "
            "not NaN."
        )
    if not 0 < confidence < 1 or not 0 <= delta < 1:
        raise InvalidInput(
            f"confidence is {confidence} and delta is {delta}; give a confidence between 0 and 1, and 0 ≤ delta < 1."
        )
    doubt = (1 - confidence) / 2
    # Outcomes are independent, so the even ones may choose the set and the odd ones bound its probabilities.
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
    """Return candidate sets of outcomes for an audit, as the lower and upper ends of intervals.

    The sets are the outcomes below or above a threshold, and single values if there are few.
    """
    ordered = np.sort(outcomes)
    count = len(ordered)
    # The best set is often a rare one, so thresholds are closer together towards both ends of the outcomes.
    tail = np.unique(np.geomspace(1, count, _MOST_THRESHOLDS).astype(int)) - 1
    even = np.linspace(0, count - 1, _MOST_THRESHOLDS).astype(int)
    thresholds = np.unique(ordered[np.concatenate([tail, count - 1 - tail, even])])
    values = np.unique(ordered)
    single = values if len(values) <= _MOST_VALUES else values[:0]
    endless = np.full(len(thresholds), np.inf)
    return np.concatenate([-endless, thresholds, single]), np.concatenate([thresholds, endless, single])


def _bounds(likely: Floats, rare: Floats, low: Floats, high: Floats, doubt: float, delta: float) -> Floats:
    """Compute the lower bound ln((p − δ)/q) on ε for each candidate set.

    p and q are one-sided Clopper–Pearson bounds, each of which is wrong with probability at most ``doubt``.
    """
    from scipy.special import betaincinv

    hits, others = _hits(likely, low, high), _hits(rare, low, high)
    # The quantile is not defined without any hit, where p = 0, and if every outcome is a hit, where q = 1.
    p = np.where(hits > 0, betaincinv(np.maximum(hits, 1), len(likely) - hits + 1, doubt), 0.0)
    q = np.where(others < len(rare), betaincinv(others + 1, np.maximum(len(rare) - others, 1), 1 - doubt), 1.0)
    return np.log(np.maximum(p - delta, np.finfo(float).tiny)) - np.log(q)


def _hits(outcomes: Floats, low: Floats, high: Floats) -> Integers:
    """Count the outcomes in each candidate set."""
    ordered = np.sort(outcomes)
    return np.searchsorted(ordered, high, side="right") - np.searchsorted(ordered, low, side="left")
