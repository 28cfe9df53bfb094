"""The net on journeys: nobody's rows change which facts are counted of anybody else's journeys."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heathaze.ingest.journeys import read_journeys
from heathaze.testing.neighbour_fuzz import ROUND, Recipe, hostile_table
from heathaze.testing.neighbour_fuzz.journeys import JourneyChecker

SEED = 19


def checked(folder: Path, numbers: range) -> JourneyChecker:
    checker = JourneyChecker(folder)
    for number in numbers:
        checker.check_journeys(hostile_table(SEED, number))
    return checker


def test_the_net_on_journeys(tmp_path: Path) -> None:
    checker = checked(tmp_path, range(len(ROUND)))
    checker.report.raise_if_any()
    # what is refused is not compared, so most tables must be read
    assert checker.report.tables >= 10
    assert checker.report.refused <= 0.5 * checker.report.tables


def test_the_net_catches_people_who_share_the_id_of_a_trip(tmp_path: Path) -> None:
    def nobodys_trips(source: Any, grid: Any, **options: Any) -> Any:
        return read_journeys(source, grid, **options | {"person": None, "unit": "trip"})

    checker = JourneyChecker(tmp_path, nobodys_trips)
    for number in (80, 88):  # people share ids of trips in these tables
        checker.check_journeys(hostile_table(SEED, number, Recipe("arrow", "local times")))
    assert checker.report.violations


@pytest.mark.slow
def test_the_net_on_journeys_at_length(tmp_path: Path) -> None:
    checked(tmp_path, range(1000, 1000 + 6 * len(ROUND))).report.raise_if_any()


def test_the_net_catches_hours_that_depend_on_everybodys_times(tmp_path: Path) -> None:
    def since_the_middle(source: Any, grid: Any, **options: Any) -> Any:
        found = read_journeys(source, grid, **options)
        late = np.mod(found.begins - np.median(found.begins), 86_400)
        return dataclasses.replace(found, begins=late)

    checker = JourneyChecker(tmp_path, since_the_middle)
    for number in range(12):
        checker.check_journeys(hostile_table(SEED, number, Recipe("arrow", "local times")))
    assert checker.report.violations
