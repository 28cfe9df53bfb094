"""Privacy amplification by shuffling: how private local reports become when nobody knows who sent which.

People send one report each, and a shuffler mixes the reports before a server sees them. The guarantee is for
replacement: one person's position is changed, and the number of people is public.

**Privacy blanket** (Balle, Bell, Gascón, Nissim 2019). Let R_x(y) be the probability of report y at position x, and ω a
function with ω(y) ≤ R_x(y) for all x. Every person draws from ω with probability γ = Σ_y ω(y), whatever their position,
and from the rest of their distribution otherwise. Suppose that all reports from the rest are known, and also whose they
are. The report of the person whose position changes is still hidden among the reports from ω. With n people,

    δ(ε) ≤ E[(X_1 + … + X_n)₊] / (γ n),   X = 0 with probability 1 − γ,   X = L with probability γ,
    L = γ (R_x(W) − e^ε R_x'(W)) / ω(W),   W drawn from ω / γ.

The law of L depends on the pair x, x'. Let a = γ R_x(W) / ω(W), and let b be the same ratio for x'. Among all joint
laws of a and b with given marginals, the one that pairs the largest a with the smallest b gives the largest E[f(L)] for
every convex f. The code therefore needs the marginals only. Equal marginals of different x are kept once.

**Numbers.** L is rounded to a lattice so that its mean stays the same: an atom is divided between the two nearest
points. This makes E[f(L)] larger for every convex f, and the same holds for sums of independent L. So the lattice
bounds δ from above. The law of the sum is computed by a discrete Fourier transform, after an exponential tilt that
moves the part of the law that matters to the middle. Everything that is cut off or rounded is added to δ.

**Bounds that know ε of a report only.** :meth:`Blanket.clones` is "Hiding among the clones" (Feldman, McMillan, Talwar
2021). :meth:`Blanket.stronger` is their bound of 2023. The errata of that paper (arXiv 2208.04591) say that its general
proof has an error, and restrict it to a class of mechanisms. It is here for comparison; nothing is accounted with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heathaze.errors import InvalidInput
from heathaze.types import Floats

_LATTICE = 0.02
"""Step of the lattice, as a fraction of the standard deviation of L. It adds at most 1e-4 to the variance of L."""

_MOST_POINTS = 2**20
"""The most points of the discrete Fourier transform. If more would be needed, the lattice is made coarser."""

_ROUNDING = 2.0**-44
"""Bound on the relative error of one factor of the transform: 2^-52 for each operation, at most 256 operations."""

_CLOSE = 1e-6
"""An ε that is searched for is at most this much too large, relatively."""

Law = tuple[Floats, Floats]
"""Values and probabilities of a random number a = γ R_x(W) / ω(W); the values ascend and their mean is 1."""


@dataclass(frozen=True, eq=False)
class Blanket:
    """The part of a report that does not depend on the position, and how much the whole report differs from it.

    Args:
        share: γ, the probability that a report is drawn from the blanket.
        laws: The distinct laws of a = γ R_x(W) / ω(W), over all positions x.

    >>> coin = Blanket.of_matrix(np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> coin.share, round(coin.epsilon(10_000, 1e-6), 3)
    (0.5, 0.049)
    """

    share: float
    laws: tuple[Law, ...]

    @classmethod
    def of_matrix(cls, matrix: Floats) -> Blanket:
        """Compute the blanket of a mechanism from its transition matrix: ω(y) = min over x of R_x(y).

        Args:
            matrix: Pr[report | position], one row for each position.

        Raises:
            InvalidInput: A row is not a distribution, or a report is possible at some positions only.
        """
        rows = np.asarray(matrix, dtype=np.float64)
        if rows.ndim != 2 or not (rows >= 0).all() or not np.allclose(rows.sum(axis=1), 1, rtol=0, atol=1e-9):
            raise InvalidInput("A transition matrix has one row for each position, and each row sums to 1.")
        rows = rows[:, rows.max(axis=0) > 0]
        blanket = rows.min(axis=0)
        if not (blanket > 0).all():
            raise InvalidInput(
                "A report is possible at some positions and impossible at others, so it has no finite epsilon and "
                "shuffling cannot hide it."
            )
        share = float(blanket.sum())
        laws = [_law(share * row / blanket, blanket / share) for row in rows]
        return cls(share, _distinct(laws))

    @classmethod
    def of_weights(cls, weights: Floats, counts: Floats) -> Blanket:
        """Compute the blanket of a mechanism with the same law of weights at every position, of which the least is 1.

        The probability of a report is that of a public distribution β, times a weight, divided by the mean weight. All
        weights are at least 1, so ω = β / (mean weight) is a blanket: no position gives a report less probability. The
        mechanisms of the local model are of this kind.

        Args:
            weights: The different weights, all at least 1, in units of the least.
            counts: How likely each weight is if the report is drawn from β, in any unit. If β is uniform, they are the
                numbers of reports with each weight.
        """
        total, number = float((weights * counts).sum()), float(counts.sum())
        share = number / total
        return cls(share, (_law(share * np.asarray(weights, np.float64), np.asarray(counts, np.float64) / number),))

    @classmethod
    def clones(cls, local: float) -> Blanket:
        """The bound of Feldman, McMillan, Talwar 2021 (Theorem 3.1) for any mechanism, from ε of one report.

        Args:
            local: ε of one report.
        """
        return cls(math.exp(-local), (_two_clones(local),))

    @classmethod
    def stronger(cls, local: float) -> Blanket:
        """The bound of Feldman, McMillan, Talwar 2023 (Theorem 3.2), which does not hold for all mechanisms.

        Args:
            local: ε of one report.
        """
        return cls(2 / (math.exp(local) + 1), (_two_clones(local),))

    def delta(self, epsilon: float, people: int) -> float:
        """Compute an upper bound on δ of the shuffled reports at an ε.

        Args:
            epsilon: ε of the shuffled reports, at least 0.
            people: The number of people, one report each.
        """
        found = [_delta((a - math.exp(epsilon) * b, masses), self.share, people) for a, b, masses in self._pairs]
        return min(1.0, max(found))

    @functools.cached_property
    def _pairs(self) -> list[tuple[Floats, Floats, Floats]]:
        return [_opposed(first, second) for first in self.laws for second in self.laws]

    def epsilon(self, people: int, delta: float) -> float:
        """Compute an upper bound on ε of the shuffled reports at a δ.

        Args:
            people: The number of people, one report each.
            delta: δ, above 0.
        """
        if self.delta(0.0, people) <= delta:
            return 0.0
        top = math.log(max(float(values[-1]) for values, _ in self.laws) / min(float(v[0]) for v, _ in self.laws))
        return _least(lambda epsilon: self.delta(epsilon, people) <= delta, top * (1 + 1e-9))


def clones_closed_form(local: float, people: int, delta: float) -> float:
    """Compute the closed form of Feldman, McMillan, Talwar 2021 (Theorem 3.1) of the ε of shuffled reports.

        ε = ln(1 + 8 (e^ε₀ − 1) / (e^ε₀ + 1) · (√(e^ε₀ ln(4/δ) / n) + e^ε₀ / n)),   if ε₀ ≤ ln(n / (16 ln(2/δ)))

    Beyond that range the formula promises nothing, and ε₀ is returned.

    Args:
        local: ε₀, the ε of one report.
        people: n, the number of people, one report each.
        delta: δ, above 0.

    >>> round(clones_closed_form(1.0, 10_000, 1e-6), 3)
    0.214
    """
    odds = math.exp(local)
    if local > math.log(people / (16 * math.log(2 / delta))):
        return local
    return math.log1p(8 * (odds - 1) / (odds + 1) * (math.sqrt(odds * math.log(4 / delta) / people) + odds / people))


def largest_local_epsilon(
    blanket: Callable[[float], Blanket], epsilon: float, people: int, delta: float, most: float = 20.0
) -> float:
    """Find the largest ε of one report with which the shuffled reports keep a promised ε: the inverse of amplification.

    Args:
        blanket: Gives the blanket for an ε of one report, such as ``Blanket.clones``.
        epsilon: The promised ε of the shuffled reports.
        people: The number of people, one report each. Give the least number that the shuffler accepts.
        delta: The promised δ, above 0.
        most: The largest ε of one report that is tried.

    >>> round(largest_local_epsilon(Blanket.clones, 1.0, 10_000, 1e-6), 2)
    4.8
    """
    # Without a shuffler, a report of the promised ε keeps the promise.
    return -_least(lambda local: blanket(-local).delta(epsilon, people) <= delta, -epsilon, -most)


def _least(holds: Callable[[float], bool], high: float, low: float = 0.0) -> float:
    """Bisect for the least number at which a condition holds; it holds at ``high``, and at the result."""
    if low and holds(low):
        return low
    while high - low > _CLOSE * max(abs(high), abs(low)):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# ── laws ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _two_clones(local: float) -> Law:
    """The law of a for a pair of clones: 2 / (e^ε₀ + 1) or 2 e^ε₀ / (e^ε₀ + 1), each with probability 1/2."""
    odds = math.exp(local)
    return np.array([2 / (odds + 1), 2 * odds / (odds + 1)]), np.array([0.5, 0.5])


def _law(values: Floats, masses: Floats) -> Law:
    """Sort the values, and join equal ones (up to rounding errors) at their mean, which keeps the mean of the law."""
    order = np.argsort(values)
    values, masses = values[order], masses[order]
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf) > 1e-12 * values)
    joined = np.add.reduceat(masses, starts)
    return np.add.reduceat(masses * values, starts) / joined, joined


def _distinct(laws: list[Law]) -> tuple[Law, ...]:
    found: list[Law] = []
    for values, masses in laws:
        if not any(
            len(v) == len(values) and np.allclose(v, values, rtol=1e-11) and np.allclose(m, masses, rtol=0, atol=1e-13)
            for v, m in found
        ):
            found.append((values, masses))
    return tuple(found)


def _opposed(first: Law, second: Law) -> tuple[Floats, Floats, Floats]:
    """Pair the largest a with the smallest b: the values of a and of b in each pair, and the probability of the pair.

    The masses are compared as integers, because differences of floats would lose an atom of mass 2^-53 or less.
    """
    (values, masses), (others, other_masses) = first, second
    ours, theirs = _as_integers(masses), _as_integers(other_masses[::-1])
    whole, other_whole = sum(ours), sum(theirs)
    ours, theirs = [mass * other_whole for mass in ours], [mass * whole for mass in theirs]
    a, b, both = [], [], []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        mass = min(ours[i], theirs[j])
        a.append(values[i])
        b.append(others[len(others) - 1 - j])
        both.append(mass / (whole * other_whole))
        ours[i] -= mass
        theirs[j] -= mass
        i, j = i + (ours[i] == 0), j + (theirs[j] == 0)
    return np.array(a), np.array(b), np.array(both)


def _as_integers(masses: Floats) -> list[int]:
    """Scale masses by one power of two that makes all of them integers."""
    ratios = [mass.as_integer_ratio() for mass in masses.tolist()]
    scale = max(below for _, below in ratios)  # denominators of floats are powers of two
    return [above * (scale // below) for above, below in ratios]


# ── the sum ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _delta(law: Law, share: float, people: int) -> float:
    """Compute an upper bound on E[(X_1 + … + X_n)₊] / (γ n), where X is drawn from a law with probability γ, else 0."""
    if law[0].max() <= 0:
        return 0.0
    step = _LATTICE * math.sqrt(float((law[1] * law[0] ** 2).sum()))
    values, masses = np.append(law[0], 0.0), np.append(share * law[1], 1 - share)
    variance = float((masses * values**2).sum() - (masses * values).sum() ** 2)
    tilt = _tilt(values, masses, 1 / math.sqrt(people * variance))
    # Under the tilted law, the sum has about mean 0. Above 45 / tilt it hardly counts.
    weights = masses * np.exp(tilt * (values - values.max()))
    mean = float((weights * values).sum() / weights.sum())
    spread = math.sqrt(people * float((weights * (values - mean) ** 2).sum() / weights.sum()))
    above, below = 45 / tilt, 12 * spread + 20 * float(np.abs(values).max())
    step = max(step, (above + below) / _MOST_POINTS)
    return _positive_part(values, masses, tilt, step, (above, below), people) / (share * people)


def _tilt(values: Floats, masses: Floats, least: float) -> float:
    """The exponent θ for which the tilted law has mean 0, so that E[e^(θX)] is least; but at least ``least``."""

    def mean(tilt: float) -> float:
        weights = masses * np.exp(tilt * (values - values.max()))
        return float((weights * values).sum())

    low = high = least
    while mean(high) < 0:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < 0 else (low, middle)
    return high


def _positive_part(
    values: Floats, masses: Floats, tilt: float, step: float, ends: tuple[float, float], people: int
) -> float:
    """Compute an upper bound on E[S₊] for the sum S of independent draws from a law.

        E[S₊] = M^n Σ_{s > 0} s e^(−θ s) q(s),   M = E[e^(θX)],   q = law of S if X has the law e^(θx) p(x) / M

    Args:
        values: The values of X.
        masses: Their probabilities.
        tilt: θ.
        step: Step of the lattice.
        ends: How far the lattice reaches above and below 0.
        people: n, the number of draws.
    """
    from scipy.fft import irfft, next_fast_len, rfft

    at = np.floor(values / step)
    part = values / step - at
    places, masses = np.concatenate([at, at + 1]), np.concatenate([masses * (1 - part), masses * part])
    places, masses = places[masses > 0], masses[masses > 0]
    # The largest and the smallest sum on the lattice are often within reach.
    largest, smallest = people * int(places.max()), -people * int(places.min())
    top, low = min(math.ceil(ends[0] / step), largest), min(math.ceil(ends[1] / step), smallest)
    size = next_fast_len(top + low + 1, True)
    weights = masses * np.exp(tilt * step * (places - places.max()))
    moment = float(weights.sum())
    tilted = np.bincount(places.astype(np.int64) % size, weights / moment, size)
    law = np.maximum(irfft(rfft(tilted) ** people, size), 0.0)
    s = step * np.arange(1, top + 1)
    found = float((s * np.exp(-tilt * s) * law[1 : top + 1]).sum())
    # Sums above the lattice: s e^(−θs) falls for s > 1/θ. Sums below it only make the result larger.
    cut = 0.0 if top == largest else s[-1] * math.exp(-tilt * s[-1])
    # Errors of the transform: at most n · rounding in each factor, so √size · n · rounding in the sum of |errors|. The
    # largest s e^(−θs) is 1 / (e θ).
    wrong = people * _ROUNDING * math.sqrt(size) / (math.e * tilt)
    scale = people * (math.log(moment) + tilt * step * float(places.max()) + _ROUNDING)
    return (found + cut + wrong) * math.exp(min(scale, 600.0))  # min avoids an overflow; any δ above 1 is no guarantee
