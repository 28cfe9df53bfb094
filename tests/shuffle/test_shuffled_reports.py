"""Reports of local mechanisms through a shuffler."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import heathaze as hz
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.local import (
    DiskArea,
    HybridUniformExponential,
    LocalHashing,
    Mixture,
    PlanarLaplace,
    RandomizedResponse,
    SquareWave2D,
    SubsetExponential,
    UnaryEncoding,
)
from heathaze.local.mechanism import Estimator, LocalMechanism
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import ClonedReports, event_from_dict, event_to_dict
from heathaze.privacy.guarantee import Trust
from heathaze.privacy.shuffling import Blanket, largest_local_epsilon
from heathaze.release.formats.metadata import _check_promise
from heathaze.shuffle import Device, Mixed, Server, Shuffler, estimate, simulate
from heathaze.shuffle.mechanism import promise
from heathaze.shuffle.shuffled_reports import ShuffledReports
from tests.privacy.enumeration import everyone, exact_deltas

GRID = hz.Grid.plane(x=(0, 12), y=(0, 12), size=12)
LINE, SQUARE = hz.Grid.plane(x=(0, 3), y=(0, 1), shape=(1, 3)), hz.Grid.plane(x=(0, 2), y=(0, 2), size=2)


@pytest.mark.parametrize(
    "mechanism",
    [
        DiskArea(GRID, 3),
        HybridUniformExponential(GRID, 3),
        RandomizedResponse(GRID, 3),
        LocalHashing(GRID, 3),
        SquareWave2D(GRID, 3),
        SquareWave2D(GRID, 3, "users"),
        SquareWave2D(LINE, 3),
        Mixture(GRID, 3, radius=2, hashing="3/8"),
        Mixture(GRID, 3, radius=0, hashing="1/2"),
        Mixture(GRID, 3, radius=2, hashing=0),
        UnaryEncoding(hz.Grid.plane(x=(0, 3), y=(0, 3), size=3), 3),
        hz.local.default(GRID, 3),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_the_event_has_the_blanket_of_the_matrix(mechanism: Estimator) -> None:
    shuffled = ShuffledReports(mechanism, 2000)
    exact = Blanket.of_matrix(mechanism.transition_matrix()).epsilon(2000, 1e-6)
    assert float(shuffled.epsilon) == pytest.approx(exact, rel=1e-5)
    assert event_from_dict(event_to_dict(shuffled.event)) == shuffled.event


def matrices() -> list[tuple[LocalMechanism, np.ndarray, int]]:
    """Mechanisms on 3 or 4 cells, their transition matrices (for two seeds of hashing), and a number of people."""
    found: list[tuple[LocalMechanism, np.ndarray, int]] = []
    for local in (1, 2):
        hashing = LocalHashing(LINE, local)
        mixture = Mixture(LINE, local, radius=0, hashing="1/3")
        seeds = [seed for seed in range(100) if len(set(hashing.transition_matrix([seed])[:, 0])) > 1][:2]
        both = np.hstack([mixture.disc.transition_matrix() * 2 / 3, mixture.hash.transition_matrix(seeds) / 3])
        found += [(hashing, hashing.transition_matrix(seeds), 4), (mixture, both, 3)]
        others = (UnaryEncoding(LINE, local), SquareWave2D(SQUARE, local), SquareWave2D(SQUARE, local, "users"))
        found += [(one, one.transition_matrix(), 3) for one in others]
    return found


@pytest.mark.parametrize(
    ("mechanism", "matrix", "people"), matrices(), ids=lambda one: type(one).__name__ if hasattr(one, "grid") else ""
)
def test_epsilon_is_never_below_the_exact_value(mechanism: LocalMechanism, matrix: np.ndarray, people: int) -> None:
    deltas = (0.3, 0.1, 0.03, 0.01, 1e-3)
    cloned = ClonedReports(people, mechanism.epsilon)
    for event in (ShuffledReports(mechanism, people).event, cloned):
        epsilons = [float(compose([event], Fraction(delta)).epsilon) for delta in deltas]
        exact = exact_deltas(matrix[:, matrix.max(axis=0) > 0], people, epsilons, everyone(len(matrix), people))
        assert (exact <= np.array(deltas) * (1 + 1e-9)).all()


def test_reports_of_unknown_weights_are_accounted_as_clones() -> None:
    class Own(LocalMechanism):
        """A mechanism of a user, of which only ε is known."""

    shuffled = ShuffledReports(Own(GRID, 4), 10_000)  # type: ignore[arg-type]
    assert shuffled.event == ClonedReports(10_000, Fraction(4))
    assert float(shuffled.epsilon) == pytest.approx(0.601, abs=5e-4)
    assert event_from_dict(event_to_dict(shuffled.event)) == shuffled.event
    calibrated = ShuffledReports.calibrated(GRID, 1, 10_000, kind=Own)  # type: ignore[arg-type]
    clones = largest_local_epsilon(Blanket.clones, 1, 10_000, 1e-6)
    assert float(calibrated.alone) == pytest.approx(clones, rel=1e-5)
    _check_promise(promise(calibrated), calibrated.event)
    fields = promise(calibrated).to_dict() | {"alone": "4"}
    with pytest.raises(PromiseBroken, match="without the shuffler"):
        _check_promise(hz.Guarantee.from_dict(fields), calibrated.event)


@pytest.mark.parametrize("kind", [hz.local.default, LocalHashing, UnaryEncoding, SquareWave2D])
def test_every_mechanism_can_be_calibrated(kind: type) -> None:
    shuffled = ShuffledReports.calibrated(GRID, 1, 10_000, kind=kind)
    assert 1 - 1e-4 < shuffled.epsilon <= 1
    assert 5.4 < shuffled.alone < 7  # the bound for any mechanism allows 4.80
    _check_promise(promise(shuffled), shuffled.event)
    fields = promise(shuffled).to_dict() | {"alone": "5"}
    with pytest.raises(PromiseBroken, match="without the shuffler"):
        _check_promise(hz.Guarantee.from_dict(fields), shuffled.event)


@pytest.mark.parametrize(
    "mechanism",
    [kind(GRID, 8) for kind in (hz.local.default, LocalHashing, UnaryEncoding, SquareWave2D)],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_a_map_end_to_end(mechanism: Estimator) -> None:
    shuffled = ShuffledReports(mechanism, 300, 1e-4)
    server = Server(shuffled)
    shuffler, corner = Shuffler(server.study), 0
    for k in range(300):
        place = (11.5, 0.5) if k % 3 else (0.5, 11.5)
        shuffler.accept(Device(server.study).submit(place, randomness=hz.Simulation(k)))
        corner += k % 3 > 0
    release = estimate(server.open(shuffler.mix()))
    assert release.total == 300
    values = release.density.values
    assert values[:4, 8:].sum() / values.sum() == pytest.approx(corner / 300, abs=0.2)
    assert release.knows_uncertainty


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


def test_mechanisms_without_an_epsilon_for_any_two_positions_are_refused() -> None:
    for mechanism in (PlanarLaplace(GRID, 1), SubsetExponential(GRID, 1)):
        with pytest.raises(InvalidInput, match="distant positions"):
            ShuffledReports(mechanism, 1000)
        with pytest.raises(InvalidInput, match="distant positions"):
            ShuffledReports.calibrated(GRID, 1, 1000, kind=type(mechanism))
    with pytest.raises(InvalidInput, match=r"hz\.local\.default"):
        ShuffledReports("DiskArea", 1000)  # type: ignore[arg-type]


def test_a_report_that_says_nothing_is_accounted_by_its_epsilon() -> None:
    shuffled = ShuffledReports(DiskArea(hz.Grid.plane(x=(0, 1), y=(0, 1), size=1), 1, radius=0), 1000)
    assert isinstance(shuffled.event, ClonedReports)


def test_missing_and_repeated_reports_are_refused() -> None:
    shuffled = ShuffledReports(RandomizedResponse(GRID, 3), 1000)
    reports = shuffled.draw(np.zeros(1000, np.int64), hz.Simulation(1))[0]
    for wrong in (reports[:-1], np.concatenate([reports, reports[:1]])):
        with pytest.raises(InvalidInput, match="each person sends one"):
            estimate(Mixed(shuffled, wrong, 1000))
    assert math.isfinite(shuffled.epsilon)


def test_a_device_can_pay_where_shuffling_hardly_helps() -> None:
    shuffled = ShuffledReports(RandomizedResponse(hz.Grid.plane(x=(0, 4), y=(0, 4), size=4), 0.5), 2, 1e-12)
    assert float(shuffled.epsilon) == pytest.approx(0.5, rel=1e-9)
    simulate(shuffled, [(0.5, 0.5)] * 2, randomness=hz.Simulation(1))
