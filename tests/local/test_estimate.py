"""The server: it is given reports and nothing else, and its releases say what they promise and how sure they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heathaze.datasets.city import synthetic_city
from heathaze.domain.grid import Box, Grid
from heathaze.errors import InvalidInput, kind_of
from heathaze.ingest.counts import Counts
from heathaze.local import (
    Device,
    DiskArea,
    HybridUniformExponential,
    LocalHashing,
    PlanarLaplace,
    RandomizedResponse,
    Reports,
    SquareWave2D,
    SubsetExponential,
    Tally,
    UnaryEncoding,
    estimate,
    randomize,
)
from heathaze.local.mechanism import Estimator
from heathaze.metrics import similarity
from heathaze.privacy.guarantee import Adjacency, Trust, Unit
from heathaze.privacy.randomness import Simulation
from heathaze.release.formats import LOADABLE
from heathaze.release.release import Release, load
from tests.local.enumeration import plane

MECHANISMS: list[Callable[..., Estimator]] = [
    DiskArea,
    HybridUniformExponential,
    LocalHashing,
    PlanarLaplace,
    RandomizedResponse,
    SquareWave2D,
    SubsetExponential,
    UnaryEncoding,
]


def reports_of(mechanism: Estimator, city: np.ndarray, people: int, seed: int = 1) -> Reports:
    """Reports that may be saved: drawn by a simulation, but not marked as such."""
    source = Simulation(seed)
    cells = np.minimum(np.searchsorted(np.cumsum(city.ravel()), source.uniforms(people)), city.size - 1)
    return Reports(mechanism, mechanism.draw(cells, source))


@pytest.fixture(scope="module")
def release() -> Release:
    grid = Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), shape=(12, 10))
    return estimate(reports_of(DiskArea(grid, 3.5), synthetic_city((12, 10), 0), 5_000), draws=8)


# ── nothing but reports ─────────────────────────────────────────────────────────────────────────────────────────────


POINTS: list[Any] = [
    [(0.5, 0.5), (1.5, 1.5)],
    ((0.5, 0.5),),
    (0.5, 0.5),
    np.zeros((3, 2)),
    np.zeros((3, 1), dtype=np.int64),
    {"x": [0.5], "y": [0.5]},
    [],
    None,
    "points.csv",
    Path("points.csv"),
]


@pytest.mark.parametrize("points", POINTS, ids=str)
def test_positions_cannot_be_given(points: Any) -> None:
    with pytest.raises(InvalidInput, match=f"not {kind_of(points)}; positions are randomised on the device"):
        estimate(points)


def test_neither_can_counts_nor_lists_of_reports() -> None:
    secret = Counts(plane(2, 2), np.array([0, 3]), np.array([5, 5]), bound=5, one=5, unit=Unit.PERSON)
    reports = reports_of(DiskArea(plane(3, 3), 1), np.full((3, 3), 1 / 9), 5)
    for thing in (secret, [reports], Device(reports.mechanism), reports.mechanism, reports.values):
        with pytest.raises(InvalidInput, match="estimate takes Reports or a Tally of them"):
            estimate(thing)  # type: ignore[arg-type]


def test_no_reports_make_no_map() -> None:
    nothing = Reports(DiskArea(plane(3, 3), 1), np.zeros((0, 1), dtype=np.int64))
    for empty in (nothing, Tally.of(nothing)):
        with pytest.raises(InvalidInput, match="There are no reports"):
            estimate(empty)


@pytest.mark.parametrize("draws", [1, -1, -24])
def test_one_draw_says_nothing(draws: int) -> None:
    reports = reports_of(DiskArea(plane(3, 3), 1), np.full((3, 3), 1 / 9), 5)
    with pytest.raises(InvalidInput, match=f"draws is {draws}; give 0, or at least 2"):
        estimate(reports, draws=draws)


# ── the plumbing, exactly ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
def test_without_noise_the_map_is_the_histogram() -> None:
    """ε = 1000 and radius 0: a report is the truth but for one in 10^9."""
    grid = plane(6, 5)
    points = Simulation(1).uniforms(4_000).reshape(2_000, 2) ** 2 * [5, 6]
    release = estimate(randomize(DiskArea(grid, 1000, radius=0), points, randomness=Simulation(2)), draws=0)
    wanted = np.histogram2d(points[:, 1], points[:, 0], bins=(6, 5), range=((0, 6), (0, 5)))[0]
    np.testing.assert_allclose(release.density.values * 2_000, wanted, rtol=0, atol=1e-5)
    assert release.total == 2_000
    share = release.mass_in(Box.plane(x=(0, 2), y=(0, 3)))
    assert share == pytest.approx(wanted[:3, :2].sum() / 2_000, abs=1e-8)


@pytest.mark.parametrize("make", MECHANISMS)
def test_every_mechanism_finds_the_busy_corner(make: Callable[..., Estimator]) -> None:
    truth = np.full((6, 5), 0.2 / 30)
    truth[1, 3] += 0.8
    release = estimate(reports_of(make(plane(6, 5), 3), truth, 20_000), draws=0)
    assert release.density.values.argmax() == 1 * 5 + 3
    assert similarity(truth, release.density.values) > 0.8
    assert release.total == 20_000
    assert not release.knows_uncertainty


@pytest.mark.parametrize("make", MECHANISMS)
def test_a_map_of_one_cell_works(make: Callable[..., Estimator], tmp_path: Path) -> None:
    reports = randomize(make(plane(1, 1), 1), np.full((7, 2), 0.5))
    release = estimate(reports, draws=3)
    assert release.density.values.tolist() == [[1.0]]
    assert release.total == 7
    assert release.uncertainty.tolist() == [[0.0]]
    assert load(release.save(tmp_path / "one.npz")).density.values.tolist() == [[1.0]]
    whole = release.mass_in(Box.plane(x=(0, 1), y=(0, 1)))
    assert (whole, whole.low, whole.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (2, 1)])
@pytest.mark.parametrize("make", MECHANISMS)
def test_maps_of_one_row_work(make: Callable[..., Estimator], shape: tuple[int, int]) -> None:
    release = estimate(reports_of(make(plane(*shape), 2), np.full(shape, 1 / max(shape)), 500), draws=2)
    assert release.density.values.shape == shape
    assert release.uncertainty.shape == shape


def test_reports_and_their_tally_make_the_same_map() -> None:
    reports = reports_of(DiskArea(plane(6, 5), 2), synthetic_city((6, 5), 0), 500)
    first, second = estimate(reports, draws=2), estimate(Tally.of(reports), draws=2)
    assert (first.density.values == second.density.values).all()
    assert first.drawn is not None
    assert second.drawn is not None
    assert (first.drawn.shares == second.drawn.shares).all()


# ── what a release says ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_guarantee_is_local(release: Release) -> None:
    sentence = str(release.guarantee)
    for part in (
        "local differential privacy with ε = 3.5 (pure, δ = 0)",
        "If one person's position is replaced by any other, the chance of any report",
        "unit: person",
        "adjacency: any-two-positions",
        "trust: nobody, because each device randomised its own position",
        "Each further report of the same person adds to this privacy loss.",
    ):
        assert part in sentence
    assert release.guarantee.trust is Trust.LOCAL
    assert release.total == 5_000
    assert release.provenance.mechanism == "DiskArea"
    assert release.provenance.parameters["epsilon"] == "7/2"
    assert release.provenance.event == {"kind": "randomized-report", "epsilon": "7/2"}
    assert release.provenance.ledger_entry is None


@pytest.mark.parametrize(
    ("unit", "words"), [("visit", "the position of one visit"), ("person", "one person's position")]
)
def test_the_unit_is_the_reports_own(unit: str, words: str) -> None:
    reports = randomize(DiskArea(plane(2, 2), 1), [(0.5, 0.5)] * 9, unit=unit)
    guarantee = estimate(reports, draws=0).guarantee
    assert guarantee.unit is Unit(unit)
    assert f"If {words} is replaced by any other" in str(guarantee)


@pytest.mark.parametrize("make", [PlanarLaplace, SubsetExponential])
def test_a_price_for_each_metre_says_so(make: Callable[..., Estimator]) -> None:
    globe = Grid.over(lon=(-74.1, -73.78), lat=(40.58, 40.90), size=4)
    release = estimate(reports_of(make(globe, "1/5000"), np.full((4, 4), 1 / 16), 50), draws=0)
    assert release.guarantee.adjacency is Adjacency.PER_METRE
    assert "geo-indistinguishability with ε = 0.0002 per metre (no differential privacy" in str(release.guarantee)
    assert "differential privacy" not in release.guarantee.short
    flat = estimate(reports_of(make(plane(4, 4), 1), np.full((4, 4), 1 / 16), 50), draws=0)
    assert "per unit of length" in str(flat.guarantee)


def test_one_report_makes_a_map() -> None:
    release = estimate(randomize(DiskArea(plane(4, 4), 1), (0.5, 0.5)), draws=2)
    assert release.total == 1
    assert release.density.values.sum() == pytest.approx(1)


# ── how sure, also after saving ─────────────────────────────────────────────────────────────────────────────────────


def test_a_release_knows_how_sure_it_is(release: Release) -> None:
    assert release.drawn is not None
    assert release.drawn.shares.shape == (8, 12, 10)
    share = release.mass_in(Box.over(lon=(-74.10, -73.94), lat=(40.74, 40.90)))
    assert share.low is not None
    assert share.high is not None
    assert 0 <= share.low < share < share.high <= 1
    wider = release.mass_in(Box.over(lon=(-74.10, -73.94), lat=(40.74, 40.90)), confidence=0.99)
    assert wider.high is not None
    assert wider.high > share.high
    assert (release.uncertainty > 0).all()
    assert release.hotspots(0.9)


@pytest.mark.parametrize("ending", LOADABLE)
def test_drawn_maps_come_back(release: Release, ending: str, tmp_path: Path) -> None:
    """In single precision, so to seven digits."""
    back = load(release.save(tmp_path / f"a{ending}"))
    np.testing.assert_allclose(back.density.values, release.density.values, rtol=1e-6 if ending == ".tif" else 0)
    assert (back.total, back.guarantee, back.provenance) == (release.total, release.guarantee, release.provenance)
    assert back.knows_uncertainty
    assert back.drawn is not None
    assert release.drawn is not None
    assert (back.drawn.side, back.drawn.within) == (release.drawn.side, release.drawn.within)
    np.testing.assert_allclose(back.drawn.shares, release.drawn.shares, rtol=1e-6)
    np.testing.assert_allclose(back.uncertainty, release.uncertainty, rtol=1e-4)
    box = Box.over(lon=(-74.0, -73.9), lat=(40.6, 40.7))
    first, second = release.mass_in(box), back.mass_in(box)
    assert (second, second.low, second.high) == pytest.approx((first, first.low, first.high), rel=1e-4)
    assert len(back.hotspots(0.9)) == len(release.hotspots(0.9))


def test_a_map_without_draws_comes_back_without(tmp_path: Path) -> None:
    release = estimate(randomize(DiskArea(plane(4, 4), 1), [(0.5, 0.5)] * 20), draws=0)
    assert release.drawn is None
    back = load(release.save(tmp_path / "a.geojson"))
    assert not back.knows_uncertainty
    assert "drawn" not in json.loads((tmp_path / "a.geojson").read_text())["heathaze"]
    assert back.mass_in(Box.plane(x=(0, 2), y=(0, 2))).low is None


def test_a_fine_map_is_drawn_coarsely(tmp_path: Path) -> None:
    """130 × 70 cells: maps of 33 × 18 squares of 4 × 4 cells; inside of them the prior says how sure."""
    release = estimate(reports_of(DiskArea(plane(130, 70), 5), synthetic_city((130, 70), 0), 2_000), draws=2)
    assert release.drawn is not None
    assert (release.drawn.side, release.drawn.shares.shape) == (4, (2, 33, 18))
    assert release.drawn.within > 0
    assert release.uncertainty.shape == (130, 70)
    back = load(release.save(tmp_path / "fine.npz"))
    np.testing.assert_allclose(back.uncertainty, release.uncertainty, rtol=1e-3)
