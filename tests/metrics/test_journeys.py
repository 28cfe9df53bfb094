"""Metrics of made-up journeys: exact values on journeys that a reader can follow, and independence of the sampling."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import heathaze as hz
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput
from heathaze.metrics.journeys import jensen_shannon

PLANE = hz.Grid.plane(x=(0, 4), y=(0, 4), size=4)
METRICS = {
    hz.metrics.density_divergence: 0.0,
    hz.metrics.trip_divergence: 0.0,
    hz.metrics.length_divergence: 0.0,
    hz.metrics.diameter_divergence: 0.0,
    hz.metrics.query_error: 0.0,
    hz.metrics.hot_spot_ndcg: 1.0,
    hz.metrics.pattern_f1: 1.0,
}
"""Each metric with its value for equal journeys. Kendall's τ of equal journeys is below 1 where cells are tied."""


def wandering(number: int = 40) -> Lines:
    steps = np.random.default_rng(1).normal(0, 0.5, (number, 12, 2))
    return Lines.from_points(np.clip(2 + steps.cumsum(axis=1), 0, 3.999))


def denser(lines: Lines) -> Lines:
    """The same lines with four times as many points."""
    return Lines.from_points(
        np.concatenate([np.linspace(a, b, 5)[:-1] for a, b in itertools.pairwise(rows)] + [rows[-1:]])
        for rows in np.split(np.column_stack([lines.x, lines.y]), lines.offsets[1:-1])
    )


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_more_points_on_the_same_lines_change_nothing(metric) -> None:
    lines = wandering()
    dense = denser(lines)
    assert metric(lines, lines, PLANE) == METRICS[metric]
    # Lines are followed in quarters of a cell; a step that is divided otherwise may skip another corner of a cell.
    assert metric(lines, dense, PLANE) == pytest.approx(METRICS[metric], abs=0.1)


def test_more_points_hardly_change_the_order_of_cells() -> None:
    lines = wandering()
    assert hz.metrics.kendall_tau(lines, denser(lines), PLANE) == pytest.approx(
        hz.metrics.kendall_tau(lines, lines, PLANE), abs=0.05
    )
    other = Lines.from_points([[(0.5, 0.5), (3.5, 3.5)]] * 9)
    assert hz.metrics.kendall_tau(lines, other, PLANE) < 0.5


def test_jensen_shannon_by_hand() -> None:
    expected = 0.5 * (0.5 * math.log(0.5 / 0.375) + 0.5 * math.log(0.5 / 0.625)) + 0.5 * (
        0.25 * math.log(0.25 / 0.375) + 0.75 * math.log(0.75 / 0.625)
    )
    assert jensen_shannon([1, 1], [1, 3]) == pytest.approx(expected, abs=1e-15)
    with pytest.raises(InvalidInput, match="no mass"):
        jensen_shannon([0, 0], [1, 1])


def test_density_counts_every_visit() -> None:
    one = Lines.from_points([[(0.5, 0.5), (3.5, 0.5), (0.5, 0.5)]])  # cells 0 1 2 3 2 1 0
    two = Lines.from_points([[(0.5, 0.5), (3.5, 0.5)]])  # cells 0 1 2 3
    assert one.visits(PLANE)[1].tolist() == [0, 1, 2, 3, 2, 1, 0]
    expected = jensen_shannon([2, 2, 2, 1], [1, 1, 1, 1])
    assert hz.metrics.density_divergence(one, two, PLANE) == pytest.approx(expected)
    assert hz.metrics.trip_divergence(one, two, PLANE) == pytest.approx(math.log(2))


def test_lengths_have_twenty_buckets_up_to_the_longest_true_journey() -> None:
    truth = Lines.from_points([[(0, 0), (2.0, 0)], [(0, 0), (0.11, 0)]])  # buckets 19 and 1
    made_up = Lines.from_points([[(0, 0), (4, 0)], [(0, 0), (0.15, 0)]])  # the last bucket is open
    assert hz.metrics.length_divergence(truth, made_up, PLANE) == 0
    other = Lines.from_points([[(0, 0), (2.0, 0)], [(0, 0), (0.25, 0)]])  # bucket 2
    assert hz.metrics.length_divergence(truth, other, PLANE) == pytest.approx(math.log(2) / 2)


def test_a_query_compares_visits_per_journey() -> None:
    plane = hz.Grid.plane(x=(0, 1), y=(0, 1), size=1)
    one = Lines.from_points([[(0.5, 0.5)]])
    twice = Lines.from_points([[(0.5, 0.5)], [(0.6, 0.5)]])
    assert hz.metrics.query_error(one, twice, plane) == 0
    # The only cell is in a square if its centre is; there all of one visit is missing, elsewhere nothing is.
    far = hz.Grid.plane(x=(0, 3), y=(0, 1), shape=(1, 3))
    left, right = Lines.from_points([[(0.5, 0.5)]]), Lines.from_points([[(2.5, 0.5)]])
    assert hz.metrics.query_error(left, right, far) > 0.3


def test_hot_spots_lose_gain_with_their_rank() -> None:
    def stays(*cells: int) -> Lines:
        return Lines.from_points([[(cell % 4 + 0.5, cell // 4 + 0.5)] for cell in cells])

    truth = stays(0, 0, 0, 1, 1, 2)
    swapped = stays(1, 1, 1, 0, 0, 2)
    best = 1 + 0.5 / math.log2(3) + 1 / 3 / 2 + 0.25 / math.log2(5) + 0.2 / math.log2(6)
    found = 0.5 + 1 / math.log2(3) + 1 / 3 / 2 + 0.25 / math.log2(5) + 0.2 / math.log2(6)
    assert hz.metrics.hot_spot_ndcg(truth, swapped, PLANE) == pytest.approx(found / best)


def test_kendall_counts_pairs_of_cells() -> None:
    row = hz.Grid.plane(x=(0, 3), y=(0, 1), shape=(1, 3))
    truth = Lines.from_points([[(0.5, 0.5)]] * 3 + [[(1.5, 0.5)]] * 2 + [[(2.5, 0.5)]])
    made_up = Lines.from_points([[(0.5, 0.5)]] * 2 + [[(1.5, 0.5)]] * 3 + [[(2.5, 0.5)]])
    assert hz.metrics.kendall_tau(truth, truth, row) == 1
    assert hz.metrics.kendall_tau(truth, made_up, row) == pytest.approx((2 - 1) / 3)
    with pytest.raises(InvalidInput, match="2 to 4096"):
        hz.metrics.kendall_tau(truth, truth, hz.Grid.plane(x=(0, 1), y=(0, 1), size=65))


def test_patterns_are_runs_of_visits() -> None:
    row = hz.Grid.plane(x=(0, 3), y=(0, 1), shape=(1, 3))
    there = Lines.from_points([[(0.5, 0.5), (2.5, 0.5)]])  # 01, 12, 012
    half = Lines.from_points([[(0.5, 0.5), (1.5, 0.5)]])  # 01
    assert hz.metrics.pattern_f1(there, half, row) == pytest.approx(2 * 1 / (3 + 1))
    assert hz.metrics.pattern_f1(there, half, row, most=1) == 1
    with pytest.raises(InvalidInput, match="128"):
        hz.metrics.pattern_f1(there, half, hz.Grid.plane(x=(0, 1), y=(0, 1), size=12))


def test_nothing_is_compared_with_nothing() -> None:
    with pytest.raises(InvalidInput, match="no made-up journeys"):
        hz.metrics.density_divergence(wandering(), Lines.from_points([]), PLANE)
