"""Error bars: shares with intervals, hotspots that are real, and refusals where nobody knows."""

import pickle

import numpy as np
import pytest

import heathaze as hz
from heathaze.domain.grid import Box, Grid
from heathaze.errors import InvalidInput
from heathaze.inference.noisy_counts import NoisyCounts
from heathaze.inference.posterior import posterior
from heathaze.ingest.counts import Counts
from heathaze.privacy.guarantee import Unit
from heathaze.release.release import Release


def _release(
    epsilon: float = 1, seed: int = 1, mechanism=hz.central.default, people: int = 4000
) -> tuple[Release, np.ndarray]:
    grid = Grid.over(lon=(10, 11), lat=(50, 51), size=32)
    rng = np.random.default_rng(seed)
    places = np.where(
        rng.random((people, 1)) < 0.6, rng.normal((8, 20), 1.5, (people, 2)), rng.uniform(0, 32, (people, 2))
    )
    mass = np.zeros((32, 32), np.int64)
    np.add.at(mass, tuple(np.clip(places, 0, 31).astype(int).T), 1)
    rows, cols = np.nonzero(mass)
    counts = Counts.from_cells(grid, rows, cols, mass[rows, cols], bound=1, one=1, unit=Unit.PERSON)
    return hz.publish(mechanism(grid, epsilon), counts, randomness=hz.Simulation(seed)), mass


def test_a_share_is_a_number_with_an_interval() -> None:
    release, mass = _release()
    box = Box.over(lon=(10.5, 10.8), lat=(50.6, 50.9))
    share = release.mass_in(box)
    assert isinstance(share, float)
    assert share == pytest.approx(release.estimate.density.mass_in(box))
    assert 0 <= share.low < share < share.high <= 1
    assert f"{share:.2f}" == f"{float(share):.2f}"
    assert repr(share).count("90 %") == 1
    assert pickle.loads(pickle.dumps(share)).high == share.high
    assert abs(share - mass[3:13, 16:26].sum() / mass.sum()) < 0.1


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
def test_more_confidence_is_a_wider_interval_and_more_budget_a_narrower_one() -> None:
    box = Box.over(lon=(10.5, 10.8), lat=(50.6, 50.9))
    widths = [
        release.mass_in(box, c).high - release.mass_in(box, c).low
        for release in [_release()[0]]
        for c in (0.5, 0.9, 0.99)
    ]
    assert widths[0] < widths[1] < widths[2]
    sharper = _release(epsilon=20)[0].mass_in(box, 0.9)
    assert sharper.high - sharper.low < widths[1]


def test_the_whole_map_holds_everything_for_sure() -> None:
    release, _ = _release()
    share = release.mass_in(release.grid.box)
    assert (share.low, float(share), share.high) == pytest.approx((1, 1, 1))


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
def test_uncertainty_has_the_shape_of_the_map_and_falls_with_the_budget() -> None:
    rough, sharp = _release(epsilon=0.1)[0], _release(epsilon=20)[0]
    assert rough.uncertainty.shape == rough.density.values.shape == (32, 32)
    assert (rough.uncertainty > 0).all()
    assert rough.uncertainty.mean() > 2 * sharp.uncertainty.mean()


def test_rendered_uncertainty_follows_the_rendered_map() -> None:
    release, _ = _release()
    window = Box.over(lon=(10.25, 10.75), lat=(50.25, 50.75))
    assert release.render_uncertainty(window, (8, 4)).shape == release.render(window, (8, 4)).values.shape
    # Of blocks of four cells each: variances add, and no block is less sure than its least sure cell would be alone.
    coarse, fine = release.render_uncertainty(shape=(16, 16)), release.uncertainty
    assert np.allclose(coarse**2, (fine**2).reshape(16, 2, 16, 2).sum(axis=(1, 3)))


def test_hotspots_are_where_the_people_are() -> None:
    release, mass = _release()
    spots = release.hotspots(0.95)
    assert spots
    assert [spot.times for spot in spots] == sorted((spot.times for spot in spots), reverse=True)
    average = mass.sum() / mass.size
    for spot in spots:
        top, bottom = sorted(release.grid.down(spot.box.y).round().astype(int))
        left, right = release.grid.across(spot.box.x).round().astype(int)
        block = mass[top:bottom, left:right]
        assert block.sum() > 1.5 * average * block.size  # real, not noise
        assert spot.times > 2
        assert spot.share.low <= spot.share <= spot.share.high
    # They do not overlap: together they hold no more than there is.
    assert sum(spot.share for spot in spots) <= 1


def test_noise_alone_has_no_hotspots() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=64)
    nobody = Counts.from_cells(grid, [], [], [], bound=1, one=1, unit=Unit.PERSON)
    for seed in range(5):
        release = hz.publish(hz.central.default(grid, 1), nobody, randomness=hz.Simulation(seed))
        assert len(release.hotspots(0.99)) <= 1


@pytest.mark.parametrize(("north_west", "stands_out"), [(25, False), (55, False), (65, True)])
def test_a_total_alone_is_no_reason_to_name_a_hotspot(north_west: int, stands_out: bool) -> None:
    """The total of 100 is certain. Four counts with noise of scale 10 stand out above 10 · ln(4 / 0.01) = 60."""
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
    found = posterior(
        NoisyCounts(grid, [0, 1, 1, 1, 1], [0, 0, 1, 2, 3], [100, north_west, 20, 20, 20], [1] + [10] * 4)
    )
    assert found.stands_out == stands_out
    alone = posterior(NoisyCounts(Grid.plane(x=(0, 1), y=(0, 1), size=1), [0], [0], [100], [1]))
    assert not alone.stands_out


def test_even_people_have_no_hotspots() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=16)
    rows, cols = np.divmod(np.arange(256), 16)
    counts = Counts.from_cells(grid, rows, cols, np.full(256, 50), bound=1, one=1, unit=Unit.PERSON)
    assert hz.publish(hz.central.default(grid, 1), counts, randomness=hz.Simulation(3)).hotspots(0.9) == []


def test_other_mechanisms_say_that_they_do_not_know() -> None:
    release, _ = _release(mechanism=hz.central.Pyramid)
    assert not release.knows_uncertainty
    share = release.mass_in(release.grid.box)
    assert share.low is None
    assert share.high is None
    assert "%" not in repr(share)
    for ask in (lambda: release.uncertainty, release.hotspots):
        with pytest.raises(InvalidInput, match="A map by Pyramid has no error bars"):
            ask()


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 90, float("nan")])
def test_bad_confidence_gets_a_sentence(confidence: float) -> None:
    release, _ = _release()
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        release.mass_in(release.grid.box, confidence)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        release.hotspots(confidence)


def test_bad_times_gets_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="above 0"):
        _release()[0].hotspots(times=0)
