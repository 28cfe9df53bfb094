"""The paper's algorithms as printed. NOT PRIVATE: used only to show their errors (errata E2-1 to E2-10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from heathaze.marketplace.baselines import marginal_gain
from heathaze.marketplace.features import Features
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import PureSteps
from heathaze.privacy.randomness import Randomness

# ── the bid, Algorithm 3 line 6 ─────────────────────────────────────────────────────────────────────────────────────


def printed_bid(hashes: np.ndarray, target_mean: np.ndarray, summary_mean: np.ndarray, round_: int) -> np.ndarray:
    """The bid as printed, with its two terms swapped: g_ℓ·h − g̃·h · ℓ/(ℓ + 1) (E2-1).

    Here h is the hash of a point, g̃ the mean hash of the target, g_ℓ that of the summary, and ℓ the round.
    """
    return hashes @ summary_mean - hashes @ target_mean * (round_ / (round_ + 1))


@dataclass(frozen=True)
class Bids:
    """The numbers of instances in which each bid chooses the point with the largest or smallest marginal gain."""

    instances: int
    corrected: int
    printed: int
    printed_worst: int
    round_for_members: int


def bids_on_instances(instances: int, *, candidates: int = 50, seeds: int = 10, seed: int = 0) -> Bids:
    """Compare the printed and corrected bids with brute force on random instances.

    Each instance has a seed set, points already chosen, candidates, and a target around another place.
    """
    corrected = printed = worst = by_round = 0
    for number in range(instances):
        rng = np.random.default_rng([seed, number])
        features = Features(5, gamma=0.1, seed=number)
        round_ = int(rng.integers(1, 20))
        taken = np.arange(seeds + round_ - 1)
        hashes = features.of(rng.normal(size=(len(taken) + candidates, 5)))
        target = features.of(rng.normal(rng.normal(0, 0.5, 5), 0.7, (40, 5))).mean(axis=0)
        left, mean, q = np.arange(len(taken), len(hashes)), hashes[taken].mean(axis=0), len(taken)
        gains = [marginal_gain(hashes, target, taken, row) for row in left]
        best, scores = int(np.argmax(gains)), hashes[left]
        corrected += int(np.argmax(scores @ (target - q / (q + 1) * mean))) == best
        by_round += int(np.argmax(scores @ (target - round_ / (round_ + 1) * mean))) == best
        taken_as_printed = int(np.argmax(printed_bid(scores, target, mean, round_)))
        printed += taken_as_printed == best
        worst += taken_as_printed == int(np.argmin(gains))
    return Bids(instances, corrected, printed, worst, by_round)


def printed_choice(
    hashes: np.ndarray, target_mean: np.ndarray, count: int, *, swapped: bool, reconsider: bool
) -> np.ndarray:
    """The points that Algorithm 3 chooses without noise, with the printed bid or ours, and with or without line 16."""
    summed, rows, free = np.zeros(hashes.shape[1]), [], np.ones(len(hashes), dtype=bool)
    for q in range(count):
        mean = summed / max(q, 1)
        scores = printed_bid(hashes, target_mean, mean, q + 1) if swapped else hashes @ (target_mean - summed / (q + 1))
        row = int(np.argmax(np.where(free, scores, -np.inf)))
        rows.append(row)
        free[row] = reconsider
        summed += hashes[row]
    return np.array(rows)


# ── the auction, Algorithm 3 lines 11 to 16 ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class PrintedAuction:
    """The auction as printed, NOT PRIVATE: the i-th highest bid is asked with probability e^{−ε(i − 1)} (E2-6).

    Rank 1 is always asked.
    """

    epsilon: Fraction

    def odds(self, ranks: np.ndarray) -> np.ndarray:
        """Probability of being asked, by rank from 1 on."""
        return np.exp(-float(self.epsilon) * (ranks - 1))

    def run(self, bids: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Which owners are asked."""
        return asked(bids, self.odds, randomness)


@dataclass(frozen=True)
class RepairedAuction:
    """The repaired auction of E2-6, with a logistic coin: rank i is asked with probability 1/(1 + e^{ε(i − 1) − a}).

    The highest bid is missed with probability 1/(1 + e^a).
    """

    epsilon: Fraction
    missed: float

    def odds(self, ranks: np.ndarray) -> np.ndarray:
        """Probability of being asked, by rank from 1 on."""
        offset = math.log(1 / self.missed - 1)
        return 1 / (1 + np.exp(np.minimum(float(self.epsilon) * (ranks - 1) - offset, 700)))

    def run(self, bids: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Which owners are asked."""
        return asked(bids, self.odds, randomness)

    def expected_asks(self, owners: int) -> float:
        """How many of so many owners are asked in a round."""
        return float(self.odds(np.arange(1, owners + 1)).sum())


def asked(bids: np.ndarray, odds, randomness: Randomness) -> np.ndarray:
    """Throw a coin for every owner, with a probability that depends on the rank of its bid."""
    ranks = np.empty(len(bids))
    ranks[np.argsort(-bids, kind="stable")] = np.arange(1, len(bids) + 1)
    return randomness.uniforms(len(bids)) < odds(ranks)


def not_asked_loss(epsilon: float, rank: int) -> float:
    """The privacy loss of "not asked": the logarithm of the ratio of its probabilities at a rank and the next rank.

    The loss is infinite for rank 1, which is always asked.
    """
    here, below = -math.expm1(-epsilon * (rank - 1)), -math.expm1(-epsilon * rank)
    return math.inf if here == 0 else math.log(below / here)


def first_honest_rank(epsilon: float) -> int:
    """The first rank from which the privacy loss of "not asked" is at most the stated ε."""
    rank = 1
    while not_asked_loss(epsilon, rank) > epsilon:
        rank += 1
    return rank


# ── the hash h₂, Algorithm 2 ────────────────────────────────────────────────────────────────────────────────────────


def choice_loss(rate: float, dimension: int, change: float) -> float:
    """The privacy loss of a choice with probability ∝ exp(rate · ψ), if every score ψ changes by at most ``change``.

    The worst case is enumerated: one score rises by ``change``, and all others fall by ``change``.
    """
    before = np.array([0.0, *[change] * (dimension - 1)]) * rate
    after = np.array([change, *[0.0] * (dimension - 1)]) * rate
    first = [odds[0] - np.logaddexp.reduce(odds) for odds in (before, after)]
    return float(first[1] - first[0])


def composed(steps: Sequence[tuple[float, int]], delta: float) -> tuple[float, float]:
    """The ε of many steps by theorem 7 (Kairouz, Oh, Viswanath): the second bound, and the smallest of the three.

    Steps are given as pairs of an ε and the number of steps with this ε.
    """
    total = sum(count * epsilon for epsilon, count in steps)
    drift = sum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in steps)
    squares = sum(count * 2 * epsilon**2 for epsilon, count in steps)
    second = drift + math.sqrt(squares * math.log(1 / delta))
    third = drift + math.sqrt(squares * math.log(math.e + math.sqrt(squares) / delta))
    return second, min(total, second, third)


def concentrated(steps: int, delta: Fraction) -> float:
    """The ε of steps of h₂ by zCDP, if one record is replaced: with ε = 0.01, a choice costs 4ε and its noise 2ε."""
    choices, noises = PureSteps(Fraction(1, 25), steps, True), PureSteps(Fraction(1, 50), steps, False)
    return float(compose([choices, noises], delta).epsilon)


def summary_epsilon(points: int, iterations: int = 5) -> float:
    """The ε of one step of h₂ on the summary by section 4: 0.01/√(p T) for p rounds of T steps."""
    return 0.01 / math.sqrt(points * iterations)


def correlations(points: int, rounds: Sequence[int], *, seeds: int = 150, dimension: int = 140, seed: int = 0):
    """The correlation of h₂'s estimate of the summary with the true mean, some rounds after a perfect start (E2-4).

    Every round takes 5 steps of Algorithm 2 with the printed ε, and starts from the distribution of the round before.
    """
    rng = np.random.default_rng(seed)
    epsilon = summary_epsilon(points)
    # √(d/2) h, as Algorithm 2 scales it: numbers in [−1, 1], here around a mean of their own.
    middle = rng.uniform(-0.6, 0.6, dimension)
    summed = np.clip(middle + rng.normal(0, 0.3, (seeds, dimension)), -1, 1).sum(axis=0)
    grid = np.linspace(-1, 1, 2 * dimension + 1)
    tilts = np.array([_tilt(mean, grid) for mean in summed / seeds])
    found = {}
    for round_ in range(1, max(rounds) + 1):
        summed += np.clip(middle + rng.normal(0, 0.3, dimension), -1, 1)
        q = seeds + round_
        means = _means(tilts, grid)
        average = np.zeros(dimension)
        for _ in range(5):
            scores = epsilon * np.abs(q * means - summed)
            odds = np.exp(scores - scores.max())
            chosen = int(rng.choice(dimension, p=odds / odds.sum()))
            noisy = summed[chosen] + rng.laplace(0, 1 / epsilon)
            tilts[chosen] += (noisy - q * means[chosen]) / (2 * q)
            means[chosen] = _means(tilts[[chosen]], grid)[0]
            average += means / 5
        if round_ in rounds:
            found[round_] = float(np.corrcoef(average, summed)[0, 1])
    return found


def _means(tilts: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The mean of s on the grid with probabilities ∝ exp(tilt · s), for each tilt."""
    exponents = tilts[:, None] * grid
    odds = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return (odds @ grid) / odds.sum(axis=1)


def _tilt(mean: float, grid: np.ndarray) -> float:
    from scipy.optimize import brentq

    return float(brentq(lambda tilt: _means(np.array([tilt]), grid)[0] - mean, -200, 200))


# ── theorem 1, and what h₁ hides ────────────────────────────────────────────────────────────────────────────────────


def beta(size: int) -> Fraction:
    """The largest kernel value at which J is submodular on sets of this size, by equation 20 (E2-10)."""

    def a(s: int) -> Fraction:
        return -Fraction(1, s)

    def b(s: int) -> Fraction:
        return Fraction(1, s) + 1

    return (2 * a(size + 1) - a(size + 2) - a(size)) / (b(size) + b(size + 2))


def inverted(seed: int, *, columns: int = 10, frequencies: int = 70) -> float:
    """The distance between a point and its reconstruction from the hash h₁ by the Gauss–Newton method (E2-8)."""
    features = Features(columns, gamma=0.1, frequencies=frequencies, seed=seed)
    truth = np.random.default_rng(seed).uniform(0, 1, columns)
    wanted = features.of(truth[None])[0]
    point = np.full(columns, 0.5)
    for _ in range(50):
        cosines, sines = np.split(features.of(point[None])[0], 2)
        slopes = np.hstack([-sines * features.omega, cosines * features.omega])
        point = point + np.linalg.lstsq(slopes.T, wanted - np.hstack([cosines, sines]), rcond=None)[0]
    return float(np.abs(point - truth).max())
