"""The privacy loss of decoys, compared with the enumeration of all counts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from heathaze.errors import InvalidInput
from heathaze.privacy.accountant import compose
from heathaze.privacy.decoy_loss import delta_of_decoys, epsilon_of_decoys
from heathaze.privacy.events import (
    Composition,
    DecoyCounts,
    DiscreteGaussian,
    DiscreteLaplace,
    MixedReports,
    event_from_dict,
    event_to_dict,
    needs_delta,
)
from heathaze.privacy.shuffling import Blanket

EPSILONS = (0.0, 0.3, 0.7, 1.2, 2.0)


def decoy_counts(level: DecoyCounts) -> dict[tuple[int, ...], float]:
    """The law of the numbers of decoys at all nodes: every person's every decoy, one after the other."""
    each, more = divmod(level.decoys, 1)
    law = {(0,) * level.nodes: 1.0}
    for present in [1.0] * (level.people * int(each)) + [float(more)] * level.people:
        following: dict[tuple[int, ...], float] = {}
        for counts, mass in law.items():
            following[counts] = following.get(counts, 0.0) + mass * (1 - present)
            for node in range(level.nodes):
                key = (*counts[:node], counts[node] + 1, *counts[node + 1 :])
                following[key] = following.get(key, 0.0) + mass * present / level.nodes
        law = following
    return law


def seen(level: DecoyCounts, own: int) -> dict[tuple[int, ...], float]:
    """The law of the counts that a server sees, without the true nodes of the others."""
    return {(*counts[:own], counts[own] + 1, *counts[own + 1 :]): mass for counts, mass in decoy_counts(level).items()}


def exact_delta(levels: list[DecoyCounts], epsilon: float) -> float:
    """δ between a person in the first node and a person in the second node of every level."""
    pairs = []
    for level in levels:
        first, second = seen(level, 0), seen(level, 1)
        pairs.append([(first.get(key, 0.0), second.get(key, 0.0)) for key in {*first, *second}])
    total = 0.0
    for chosen in itertools.product(*pairs):
        p, q = math.prod(pair[0] for pair in chosen), math.prod(pair[1] for pair in chosen)
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


CASES = [
    [DecoyCounts(1, 2, Fraction(2))],
    [DecoyCounts(2, 2, Fraction(3))],
    [DecoyCounts(3, 3, Fraction(2))],
    [DecoyCounts(3, 4, Fraction(3, 2))],
    [DecoyCounts(3, 2, Fraction(1, 2))],
    [DecoyCounts(2, 2, Fraction(2)), DecoyCounts(2, 3, Fraction(5, 2))],
    [DecoyCounts(3, 2, Fraction(3)), DecoyCounts(3, 2, Fraction(7, 4))],
]


@pytest.mark.parametrize("levels", CASES, ids=str)
def test_delta_is_never_below_the_exact_value(levels: list[DecoyCounts]) -> None:
    for epsilon in EPSILONS:
        exact = exact_delta(levels, epsilon)
        assert exact <= delta_of_decoys(levels, epsilon) <= 1.01 * exact + 1e-9


def test_the_enumeration_notices_a_missing_decoy() -> None:
    """The comparison can fail: what is computed for three decoys is too little for two."""
    assert delta_of_decoys([DecoyCounts(1, 2, Fraction(3))], 0.3) < exact_delta([DecoyCounts(1, 2, Fraction(2))], 0.3)


def test_one_level_by_hand() -> None:
    """One person with two decoys at two nodes: (A + 1, B) is (1, 2), (2, 1), (3, 0) with chances ¼, ½, ¼."""
    expected = 0.5 * (1 - math.exp(0.5) / 2) + 0.25
    assert delta_of_decoys([DecoyCounts(1, 2, Fraction(2))], 0.5) == pytest.approx(expected, rel=1e-3)


def test_many_decoys_are_like_gaussian_noise() -> None:
    """With many decoys at a node, the count has normal noise of their variance, and two counts change by one each."""
    at_a_node, levels = 1000, 5
    found = epsilon_of_decoys([DecoyCounts(10**5, 16, Fraction(16, 100))] * levels, 1e-6)
    normal = compose(
        [DiscreteGaussian(1, Fraction(math.isqrt(10**6 * at_a_node // 2 // levels), 1000))], Fraction(1, 10**6)
    )
    assert 0.8 * float(normal.epsilon) < found < 1.0 * float(normal.epsilon)


def test_more_people_and_more_decoys_are_more_private() -> None:
    few = epsilon_of_decoys([DecoyCounts(1000, 16, Fraction(5))], 1e-6)
    assert epsilon_of_decoys([DecoyCounts(1100, 16, Fraction(5))], 1e-6) < few
    assert epsilon_of_decoys([DecoyCounts(1000, 16, Fraction(11, 2))], 1e-6) < few
    assert epsilon_of_decoys([DecoyCounts(1000, 16, Fraction(5))] * 2, 1e-6) > few


def test_epsilon_and_delta_are_inverses() -> None:
    levels = [DecoyCounts(5000, 16, Fraction(2)), DecoyCounts(5000, 64, Fraction(4))]
    epsilon = epsilon_of_decoys(levels, 1e-5)
    assert delta_of_decoys(levels, epsilon) == pytest.approx(1e-5, rel=1e-3)


def test_what_cannot_be_promised_is_refused() -> None:
    with pytest.raises(InvalidInput, match="hide nobody"):
        epsilon_of_decoys([DecoyCounts(2, 16, Fraction(1))], 1e-6)
    with pytest.raises(InvalidInput, match="at least 1e-11"):
        epsilon_of_decoys([DecoyCounts(1000, 16, Fraction(5))], 1e-13)


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_accountant_composes_all_levels_at_once() -> None:
    levels = [DecoyCounts(5000, 16, Fraction(2)), DecoyCounts(5000, 64, Fraction(4))]
    event, delta = Composition(tuple(levels)), Fraction(1, 10**6)
    assert needs_delta(event)
    assert float(compose([event], delta).epsilon) == epsilon_of_decoys(levels, 1e-6)
    both = compose([event, DiscreteLaplace(1, Fraction(2))], delta).epsilon
    assert both == compose([event], delta).epsilon + Fraction(1, 2)
    gaussian = DiscreteGaussian(1, Fraction(20))
    shared = compose([event, gaussian], delta)
    assert shared.delta == delta
    assert shared.epsilon == compose([event], delta / 2).epsilon + compose([gaussian], delta / 2).epsilon
    with pytest.raises(InvalidInput, match="no pure epsilon"):
        compose([event])


def test_mixed_reports_are_accounted_by_their_blanket() -> None:
    event = MixedReports(10_000, (1, 3), (1, 1))
    coin = Blanket.of_matrix(np.array([[0.75, 0.25], [0.25, 0.75]]))
    found = float(compose([event], Fraction(1, 10**6)).epsilon)
    assert found == pytest.approx(coin.epsilon(10_000, 1e-6), rel=1e-5)
    twice = compose([event, event], Fraction(1, 10**6)).epsilon
    assert twice == 2 * compose([event], Fraction(1, 2 * 10**6)).epsilon


@pytest.mark.parametrize("event", [DecoyCounts(7, 4, Fraction(5, 2)), MixedReports(9, (2, 5, 9), (1, 4, 1))])
def test_events_survive_a_file(event: DecoyCounts | MixedReports) -> None:
    assert event_from_dict(event_to_dict(event)) == event


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "decoy-counts", "people": 5, "nodes": 1, "decoys": "1"},
        {"kind": "decoy-counts", "people": 0, "nodes": 4, "decoys": "1"},
        {"kind": "decoy-counts", "people": 5, "nodes": 4, "decoys": "0"},
        {"kind": "decoy-counts", "people": 10**9, "nodes": 2, "decoys": "1000000"},
        {"kind": "mixed-reports", "people": 5, "weights": [3, 1], "counts": [1, 1]},
        {"kind": "mixed-reports", "people": 5, "weights": [1, 3], "counts": [1]},
        {"kind": "mixed-reports", "people": 5, "weights": [1, 3], "counts": [1, 0]},
        {"kind": "mixed-reports", "people": 5, "weights": "13", "counts": [1, 1]},
        {"kind": "cloned-reports", "people": 5, "epsilon": "0"},
        {"kind": "cloned-reports", "people": 10**10, "epsilon": "1"},
        {"kind": "mixed-reports", "people": 5, "weights": [1, 2**300], "counts": [1, 1]},
    ],
)
def test_absurd_events_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        event_from_dict(fields)
