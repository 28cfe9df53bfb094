"""The weights of a local mechanism's reports, from which :mod:`heathaze.privacy.shuffling` computes what mixing hides.

    Pr[report y | position x] = β(y) · w_x(y) / (mean weight),   Y drawn from β: w_x(Y) has the same law for every x

Here β is a public distribution over reports. A law is a dictionary from each weight to its probability under β, both
as whole numbers; the unit of the probabilities is arbitrary. ``shuffled_reports.md`` has the proofs.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np

from heathaze.local._window import Window
from heathaze.local.local_hashing import LocalHashing
from heathaze.local.mechanism import LocalMechanism, WindowMechanism
from heathaze.local.mixture import Mixture
from heathaze.local.square_wave import SquareWave2D
from heathaze.local.unary_encoding import WORDS, UnaryEncoding
from heathaze.privacy.events import ClonedReports, LocalReports, MixedReports

Law = Counter[int]


def event_of_reports(mechanism: LocalMechanism, people: int) -> LocalReports:
    """The event of mixed reports of a mechanism whose ε holds for any two positions.

    Args:
        mechanism: The local mechanism. If its weights are not known here, only its ε is used.
        people: The least number of people whose reports the adversary does not know.
    """
    law = _law(mechanism)
    if len(law) < 2:
        return ClonedReports(people, mechanism.epsilon)
    weights = sorted(law)
    return MixedReports(people, tuple(weights), tuple(law[weight] for weight in weights))


def _law(mechanism: LocalMechanism) -> Law:
    """The law of the weights, or an empty one if it is not known."""
    if isinstance(mechanism, WindowMechanism):
        return _of_window(mechanism.window)
    if isinstance(mechanism, LocalHashing):
        low, high = mechanism.weights
        return Counter({low: mechanism.buckets - 1}) + Counter({high: 1})
    if isinstance(mechanism, UnaryEncoding):
        # β sets every bit with probability A / 2^64, as if no cell were the true one.
        rare = mechanism.threshold
        return Counter({rare: WORDS - rare}) + Counter({WORDS - rare: rare})
    if isinstance(mechanism, Mixture):
        return _by_coin(1 - mechanism.hashing, _law(mechanism.disc), _law(mechanism.hash))
    if isinstance(mechanism, SquareWave2D):
        down, across = _of_window(mechanism.down), _of_window(mechanism.across)
        return _both(down, across) if mechanism.split == "budget" else _by_coin(Fraction(1, 2), down, across)
    return Counter()


def _of_window(window: Window) -> Law:
    """The weights of all outputs; β is uniform."""
    raised, counts = np.unique(window.excess[window.excess > 0], return_counts=True)
    law: Law = Counter({window.low: window.outputs.size - int(counts.sum())})
    law.update({window.low + excess: count for excess, count in zip(raised.tolist(), counts.tolist(), strict=True)})
    return +law


def _both(first: Law, second: Law) -> Law:
    """The law of the product of two independent weights."""
    law: Law = Counter()
    for one, mass in first.items():
        for other, further in second.items():
            law[one * other] += mass * further
    return law


def _by_coin(share: Fraction, first: Law, second: Law) -> Law:
    """The law of a report that a public coin draws in the first way with probability ``share``, or in the second way.

    Weights are scaled so that the smallest ones of both laws are equal. A law with smallest weight l and mean weight m
    has a privacy blanket of the share l/m. So β draws a report in one of the two ways with a probability proportional
    to the way's share times its l/m.
    """
    unit = math.lcm(min(first), min(second))
    law: dict[int, Fraction] = {}
    for part, chance in ((first, share), (second, 1 - share)):
        least, total = min(part), sum(weight * mass for weight, mass in part.items())
        for weight, mass in part.items():
            scaled = weight * (unit // least)
            law[scaled] = law.get(scaled, Fraction(0)) + chance * Fraction(least * mass, total)
    common = math.lcm(*(mass.denominator for mass in law.values()))
    return +Counter({weight: int(mass * common) for weight, mass in law.items()})
