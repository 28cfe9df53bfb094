"""Reports of local mechanisms through a shuffler."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import heathaze as hz
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.local import DiskArea, HybridUniformExponential, LocalHashing, PlanarLaplace, RandomizedResponse
from heathaze.privacy.accountant import compose
from heathaze.privacy.guarantee import Trust
from heathaze.privacy.shuffling import Blanket
from heathaze.release.formats.metadata import _check_promise
from heathaze.shuffle import Mixed, estimate, simulate
from heathaze.shuffle.mechanism import promise
from heathaze.shuffle.shuffled_reports import ShuffledReports

GRID = hz.Grid.plane(x=(0, 12), y=(0, 12), size=12)


@pytest.mark.parametrize("kind", [DiskArea, HybridUniformExponential, RandomizedResponse])
def test_the_event_has_the_blanket_of_the_matrix(kind: type) -> None:
    mechanism = kind(GRID, 3)
    shuffled = ShuffledReports(mechanism, 2000)
    exact = Blanket.of_matrix(mechanism.transition_matrix()).epsilon(2000, 1e-6)
    assert exact * (1 - 1e-5) <= float(shuffled.epsilon) <= exact * 1.05


@pytest.mark.parametrize(("epsilon", "people"), [(1, 10_000), ("0.2", 5000), (2, 300)])
def test_a_calibrated_mechanism_keeps_its_promise(epsilon: object, people: int) -> None:
    shuffled = ShuffledReports.calibrated(GRID, epsilon, people)
    wanted = Fraction(str(epsilon))
    assert 0.98 * wanted < shuffled.epsilon <= wanted < shuffled.alone
    assert compose([shuffled.event], shuffled.delta).epsilon <= shuffled.epsilon


def test_few_people_need_their_own_epsilon() -> None:
    alone = ShuffledReports(RandomizedResponse(GRID, 1), 2)
    assert alone.epsilon <= 1
    nearly = ShuffledReports.calibrated(GRID, 1, 2)
    assert 1 - 1e-5 < nearly.alone < 1.2


def test_the_guarantee_says_what_is_left_without_the_shuffler() -> None:
    shuffled = ShuffledReports.calibrated(GRID, 1, 10_000)
    found = promise(shuffled)
    assert (found.trust, found.people, found.alone) == (Trust.SHUFFLER, 10_000, shuffled.alone)
    assert "if shuffler and server collude, each report keeps ε = " in str(found)
    _check_promise(found, shuffled.event)
    better = [{"people": 9999}, {"alone": shuffled.alone / 2}, {"epsilon": "1/2"}]
    for edit in better:
        fields = found.to_dict() | {name: str(v) if isinstance(v, Fraction) else v for name, v in edit.items()}
        with pytest.raises(PromiseBroken):
            _check_promise(hz.Guarantee.from_dict(fields), shuffled.event)


def test_a_decoy_guarantee_with_something_left_is_refused() -> None:
    decoys = hz.shuffle.Decoys(GRID, 2, 1000)
    fields = promise(decoys).to_dict() | {"alone": "5"}
    with pytest.raises(PromiseBroken, match="without the shuffler"):
        _check_promise(hz.Guarantee.from_dict(fields), decoys.event)


def test_the_map_is_near_the_truth() -> None:
    shuffled = ShuffledReports.calibrated(GRID, 1, 10_000)
    rng = np.random.default_rng(1)
    people = np.clip(rng.normal((4, 7), (1.2, 2.0), (10_000, 2)), 0, 11.99)
    row, col = GRID.nearest_cell(people[:, 0], people[:, 1])
    truth = np.bincount(row * 12 + col, minlength=144).reshape(12, 12)
    release = estimate(simulate(shuffled, people, randomness=hz.Simulation(1)))
    alone = hz.local.estimate(hz.local.randomize(DiskArea(GRID, 1), people, randomness=hz.Simulation(1)), draws=0)
    found, nobody = (float(hz.metrics.emd(truth, one.density)) for one in (release, alone))
    assert found < 0.02 < nobody
    assert release.total == 10_000
    assert release.provenance.simulated


def test_mechanisms_without_a_known_blanket_are_refused() -> None:
    for mechanism in (LocalHashing(GRID, 1), PlanarLaplace(GRID, 1), "DiskArea"):
        with pytest.raises(InvalidInput, match="blanket"):
            ShuffledReports(mechanism, 1000)


def test_a_window_that_covers_every_report_is_refused() -> None:
    with pytest.raises(InvalidInput, match="smaller radius"):
        ShuffledReports(DiskArea(hz.Grid.plane(x=(0, 1), y=(0, 1), size=1), 1, radius=0), 1000)


def test_missing_and_repeated_reports_are_refused() -> None:
    shuffled = ShuffledReports(RandomizedResponse(GRID, 3), 1000)
    reports = shuffled.draw(np.zeros(1000, np.int64), hz.Simulation(1))[0]
    for wrong in (reports[:-1], np.concatenate([reports, reports[:1]])):
        with pytest.raises(InvalidInput, match="each person sends one"):
            estimate(Mixed(shuffled, wrong, 1000))
    assert math.isfinite(shuffled.epsilon)
