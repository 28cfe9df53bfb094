"""An ε above 10 is warned of in one sentence, and one above 1000 refused, whichever way it comes in."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heathaze as hz
from heathaze.errors import InvalidInput, WeakPrivacy
from heathaze.marketplace import Consumer, Features, Herding, Owner
from heathaze.privacy.loss import warn_if_weak

GRID = hz.Grid.plane(x=(0, 4), y=(0, 4), size=4)
VISITS = {"person": [1, 2, 3], "x": [0.5, 1.5, 2.5], "y": [0.5, 1.5, 2.5]}
FEATURES = Features(columns=2, gamma=0.5)
POINTS = np.linspace(0, 1, 120).reshape(60, 2)


def publish(epsilon: Any, _: Path) -> None:
    hz.publish(hz.central.Flat(GRID, epsilon), hz.count(VISITS, GRID, person="person", x="x", y="y"))


def plan(epsilon: Any, _: Path) -> None:
    hz.plan(GRID, epsilon, people=20, cities=1, times=())


def randomize(epsilon: Any, _: Path) -> None:
    hz.local.randomize(hz.local.RandomizedResponse(GRID, epsilon), [(0.5, 0.5)])


def report(epsilon: Any, _: Path) -> None:
    hz.local.Device(hz.local.RandomizedResponse(GRID, epsilon)).randomize((0.5, 0.5))


def estimate(epsilon: Any, _: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPrivacy)
        reports = hz.local.randomize(hz.local.RandomizedResponse(GRID, epsilon), [(0.5, 0.5)] * 20)
    hz.local.estimate(reports, draws=0)


def survey(epsilon: Any, _: Path) -> None:
    hz.distributed.Survey(hz.distributed.AdaptiveQuadtree(GRID, epsilon), hz.distributed.Cohort(20))


def budget(epsilon: Any, _: Path) -> None:
    hz.distributed.Device((0.5, 0.5), budget=epsilon)


def _readings(epsilon: Any) -> hz.sensors.Readings:
    return hz.sensors.Readings(hz.sensors.Line(4, 3, 0.1), reach=0.1, epsilon=epsilon)


def protect(epsilon: Any, _: Path) -> None:
    _readings(epsilon).protect([0.1, 0.2, 0.3])


def card(epsilon: Any, _: Path) -> None:
    _readings(epsilon).card()


def consumer(epsilon: Any, _: Path) -> None:
    Consumer(Herding(FEATURES, points=10, target_points=60, epsilon=epsilon), POINTS)


def owner(epsilon: Any, _: Path) -> None:
    Owner(Herding(FEATURES, points=10, target_points=60, epsilon=epsilon), POINTS)


def total(epsilon: Any, folder: Path) -> None:
    hz.Ledger.open(folder / "a.ledger", total=epsilon)


WAYS: list[Callable[[Any, Path], None]] = [
    publish, plan, randomize, report, estimate, survey, budget, protect, card, consumer, owner, total,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_an_epsilon_above_10_is_warned_of_in_the_callers_own_file(way: Callable[..., None], tmp_path: Path) -> None:
    with pytest.warns(WeakPrivacy, match=r"is 11, above 10: .* e\^11 ≈ 5\.99e\+04 times as likely") as told:
        way(11, tmp_path)
    assert {Path(one.filename) for one in told} == {Path(__file__)}


@pytest.mark.parametrize("way", WAYS)
def test_an_epsilon_of_10_is_not(way: Callable[..., None], tmp_path: Path) -> None:
    way(10, tmp_path)  # a warning would be an error here


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("epsilon", [1001, Fraction(10_001, 10), math.inf])
def test_an_epsilon_above_1000_is_refused(way: Callable[..., None], epsilon: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"(above 1000|infinite), which promises nothing"):
        way(epsilon, tmp_path)


def test_a_warning_that_is_an_error_stops_before_anything_is_charged(tmp_path: Path) -> None:
    with pytest.warns(WeakPrivacy, match="total is 50"):
        ledger = hz.Ledger.open(tmp_path / "a.ledger", total=50)
    counts = hz.count(VISITS, GRID, person="person", x="x", y="y")
    with pytest.raises(WeakPrivacy, match="epsilon is 11"):
        hz.publish(hz.central.Flat(GRID, 11), counts, ledger=ledger)
    device = hz.local.Device(hz.local.RandomizedResponse(GRID, 11), ledger=ledger)
    with pytest.raises(WeakPrivacy, match="epsilon is 11"):
        device.randomize((0.5, 0.5))
    with pytest.raises(WeakPrivacy, match="epsilon is 11"):
        _readings(11).protect([0.1, 0.2, 0.3], ledger=ledger)
    assert ledger.entries() == []


def test_a_price_by_length_is_no_epsilon_to_be_warned_of() -> None:
    """20 for each kilometre is little; that depends on the unit of the plane."""
    hz.local.randomize(hz.local.PlanarLaplace(GRID, 20), [(0.5, 0.5)])


def test_a_huge_loss_is_told_without_its_factor() -> None:
    with pytest.warns(WeakPrivacy, match=r"may make any outcome e\^1000 times as likely"):
        warn_if_weak(1000)
    warn_if_weak(math.inf)  # for checks of the plumbing
