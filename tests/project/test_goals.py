"""Verdicts of the benchmark of made-up journeys: which goals count, and which are called missed."""

from __future__ import annotations

import pytest

from benchmarks.journeys_quality import MODELS, main, verdict


@pytest.mark.parametrize(
    ("measure", "ours", "epsilon", "reports", "open_", "said"),
    [
        ("density_10", 0.80, 1.0, 10_000, False, "0.80 of the best; met"),
        ("density_10", 0.90, 1.0, 10_000, False, "0.90 of the best; MISSED"),
        ("density_10", 0.90, 1.0, 10_000, True, "0.90 of the best; missed, open"),
        ("density_10", 0.90, 0.5, 4_000, False, "0.90 of the best; no goal below a signal of 4,000"),
        ("query", 9.0, 1.0, 10_000, False, ""),
    ],
)
def test_a_goal_counts_where_reports_are_enough(measure, ours, epsilon, reports, open_, said) -> None:
    rivals = {"LDPTrace N=6": {"density_10": 1.0, "query": 1.0}}
    assert verdict(measure, ours, rivals, epsilon, MODELS["local"], reports, open_) == said


def test_more_matching_patterns_are_better_and_some_goals_count_once() -> None:
    rivals = {"AdaTrace": {"pattern_f1": 0.5, "trip_10": 0.5}}
    assert verdict("pattern_f1", 0.6, rivals, 2.0, MODELS["central"], 10, False).endswith("met")
    assert verdict("pattern_f1", 0.4, rivals, 2.0, MODELS["central"], 10, False).endswith("MISSED")
    assert verdict("trip_10", 0.6, rivals, 2.0, MODELS["central"], 10, False) == ""


def test_a_folder_without_journeys_is_a_mistake_if_it_was_named(tmp_path) -> None:
    assert main(["--shared", str(tmp_path)]) == 1
