"""Positions that are reported: nobody's rows change which of another person's may be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heathaze.ingest.positions import positions
from heathaze.testing.neighbour_fuzz import ROUND, PositionChecker, Recipe, hostile_table

SEED = 15


def test_the_net_on_positions(tmp_path: Path) -> None:
    checker = PositionChecker(tmp_path)
    for number in range(len(ROUND)):
        checker.check_positions(hostile_table(SEED, number))
    checker.report.raise_if_any()
    assert checker.report.refused <= 0.36 * len(ROUND)


@pytest.mark.slow
def test_the_net_on_positions_at_length(tmp_path: Path) -> None:
    checker = PositionChecker(tmp_path)
    for number in range(1000, 1000 + 20 * len(ROUND)):
        checker.check_positions(hostile_table(SEED, number))
    checker.report.raise_if_any()


def test_the_net_catches_a_reader_that_drops_far_positions(tmp_path: Path) -> None:
    def trimmed(source: Any, grid: Any, **options: Any) -> Any:
        found = positions(source, grid, **options)
        return found[np.abs(found[:, 0] - np.median(found[:, 0])) <= np.ptp(found[:, 0]) / 2]

    checker = PositionChecker(tmp_path, trimmed)
    for number in range(20):
        checker.check_positions(hostile_table(SEED, number, Recipe("arrow")))
    assert checker.report.violations
