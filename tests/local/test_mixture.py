"""The mixture: its coin is fair and public, its halves are the two mechanisms, and its map is better than either's."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from heathaze.datasets.city import synthetic_city
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput, UnreadableData
from heathaze.inference.smooth_map import learn_prior
from heathaze.local import DiskArea, LocalHashing, Mixture, Reports, Tally, default, estimate
from heathaze.local.channels import Stacked
from heathaze.local.disk_area import informative_radius, paper_radius
from heathaze.local.estimate import smooth_map
from heathaze.local.local_hashing import SEEDS
from heathaze.local.mechanism import Estimator
from heathaze.local.mixture import best_mixture
from heathaze.metrics import similarity
from heathaze.privacy.randomness import Simulation
from tests.local.enumeration import assert_channel_is, draws, plane, worst_loss


@pytest.mark.parametrize("share", ["1/3", "5/8", 0, 1])
def test_the_coin_shows_its_share_whatever_the_cell_is(share: str | int) -> None:
    """Within 5.3 standard errors, so that a false alarm has probability 1e-7."""
    mechanism = Mixture(plane(5, 6), 1, radius=1, hashing=share)
    for cell in (0, 17, 29):
        hashed = int((draws(mechanism, cell, 40_000, seed=cell) >= mechanism.disc.outcomes).sum())
        expected = float(Fraction(share))
        assert abs(hashed - 40_000 * expected) <= 5.3 * math.sqrt(40_000 * expected * (1 - expected))


def test_a_report_is_of_either_mechanism() -> None:
    """The halves are drawn by the mechanisms themselves, so a split gives reports that each of them counts."""
    mechanism = Mixture(plane(5, 6), 2, radius=1, hashing="1/2")
    cells = np.arange(3000) % 30
    discs, hashed = mechanism.split(mechanism.draw(cells, Simulation(1)))
    assert len(discs) + len(hashed) == 3000
    tallies = mechanism.tally(mechanism.draw(cells, Simulation(1)))
    assert (tallies[: mechanism.disc.outcomes] == DiskArea(plane(5, 6), 2, radius=1).tally(discs)).all()
    assert (tallies[mechanism.disc.outcomes :] == LocalHashing(plane(5, 6), 2).tally(hashed)).all()
    assert mechanism.limit - 1 == mechanism.disc.outcomes + (SEEDS - 1) * mechanism.hash.buckets + 8 - 1


def test_a_coin_that_looks_at_the_cell_would_leak() -> None:
    """Two cells with shares 1/2 and 3/4: the loss is more than ε, and the enumeration sees it."""
    fair, other = (Mixture(plane(1, 2), 1, radius=0, hashing=share).transition_matrix() for share in ("1/2", "3/4"))
    assert worst_loss(fair) <= 1
    assert worst_loss(np.vstack([fair[0], other[1]])) > 1.2


def test_the_channel_is_both_channels() -> None:
    """Counts of many reports of one cell, against the channel, within six standard errors."""
    mechanism, count = Mixture(plane(4, 5), 2, radius=1, hashing="1/4"), 200_000
    channel = mechanism.channel()
    assert isinstance(channel, Stacked)
    assert channel.outcomes == mechanism.outcomes
    assert channel.backward(np.ones(channel.outcomes)) == pytest.approx(1)
    one = np.zeros((4, 5))
    one.flat[8] = 1
    own, other = mechanism.hash.support
    counts_of_a_report = 3 / 4 + (own + 19 * other) / 4
    expected = channel.forward(one) * counts_of_a_report * count
    tallies = mechanism.tally(draws(mechanism, 8, count))
    assert (np.abs(tallies - expected) <= 6 * np.sqrt(expected)).all()
    dense = np.vstack([channel.forward(row.reshape(4, 5)) for row in np.eye(20)])
    assert_channel_is(channel, dense)


def test_a_coarser_channel_is_exact_for_flat_squares() -> None:
    channel = Mixture(plane(8, 12), 3, radius=2, hashing="1/2").channel()
    assert isinstance(channel, Stacked)
    coarse, outcome = channel.merged(2)
    density = Simulation(1).uniforms(24).reshape(4, 6)
    density /= density.sum()
    fine = np.repeat(np.repeat(density, 2, axis=0), 2, axis=1) / 4
    merged = np.bincount(outcome, channel.forward(fine), coarse.outcomes)
    np.testing.assert_allclose(coarse.forward(density), merged, rtol=0, atol=1e-12)


@pytest.mark.parametrize("share", [-0.1, 1.1, "2", "half", None, float("nan"), "1/0"])
def test_shares_out_of_range_are_refused(share: object) -> None:
    if share is not None:
        with pytest.raises(InvalidInput, match="hashing is"):
            Mixture(plane(4, 4), 1, hashing=share)  # type: ignore[arg-type]


def test_reports_of_a_kind_that_never_occurs_are_refused() -> None:
    for share, other in ((0, 1), (1, 0)):
        mechanism, wrong = (Mixture(plane(4, 4), 1, radius=1, hashing=number) for number in (share, other))
        with pytest.raises(InvalidInput, match="never makes"):
            mechanism.tally(draws(wrong, 3, 10))
    with pytest.raises(InvalidInput, match="outside 0"):
        Mixture(plane(4, 4), 1).tally(np.array([[-1]]))


def test_the_default_is_chosen_from_public_facts() -> None:
    for side in (1, 2, 5, 15, 64, 256):
        for epsilon in (0.1, 1, 3.5, 5, 9, 100):
            grid = plane(side, side)
            radius, share = best_mixture(grid, epsilon)
            assert 0 <= radius <= paper_radius(grid, epsilon) + 1
            assert 0 <= share <= 1
            made = default(grid, epsilon)
            assert (made.radius, made.hashing) == (radius, share)
    assert best_mixture(plane(1, 1), 1) == (0, 0)
    assert default(Grid.plane(x=(0, 1), y=(0, 1), size=64), 3.5, people=10**6) == Mixture(
        Grid.plane(x=(0, 1), y=(0, 1), size=64), 3.5, people=10**6
    )


@pytest.mark.parametrize(
    ("side", "epsilon", "people"), [(15, 5, 2_999), (64, 3.5, 10_000), (64, 1, 10**6), (128, 5, 300)]
)
def test_few_people_send_the_discs_of_the_paper(side: int, epsilon: float, people: int) -> None:
    """Too few people, a weak signal, a disc as wide as the map: then all reports are the paper's discs."""
    grid = plane(side, side)
    assert best_mixture(grid, epsilon, people=people) == (math.floor(paper_radius(grid, epsilon)), 0)


def test_a_mixture_without_hashing_is_estimated_as_discs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prior has the same candidates, and its map is the same but for rounding; a real mixture has one more."""
    module, tried = importlib.import_module("heathaze.local.estimate"), []

    def spy(shape: tuple[int, int], falls: tuple[float, ...], *others: object, **named: object) -> object:
        tried.append(falls)
        return learn_prior(shape, falls, *others, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "learn_prior", spy)
    disc = DiskArea(plane(16, 16), 3, radius=4)
    reports = disc.draw(np.arange(2000) % 200, Simulation(1))
    mechanisms = disc, Mixture(disc.grid, 3, radius=4, hashing=0), Mixture(disc.grid, 3, radius=4, hashing="1/2")
    found = [smooth_map(one.channel(), one.tally(reports)).density for one in mechanisms]
    assert tried[0] == tried[1] == tried[2][:-1]
    assert np.abs(found[1] - found[0]).sum() < 0.01


def test_many_people_mix_on_fine_grids_too() -> None:
    assert best_mixture(plane(64, 64), 3.5) == (7, Fraction(3, 8))
    assert best_mixture(plane(64, 64), 5) == (4, Fraction(3, 8))
    assert best_mixture(plane(128, 128), 3.5) == (15, Fraction(1, 8))


def counted(mechanism: Estimator, city: np.ndarray, people: int, seed: int) -> Tally:
    source = Simulation(seed)
    cells = np.minimum(np.searchsorted(np.cumsum(city.ravel()), source.uniforms(people)), city.size - 1)
    return Tally.of(Reports(mechanism, mechanism.draw(cells, source), simulated=True))


def test_a_map_of_both_is_better_than_of_discs_alone() -> None:
    """A city of streets one cell wide, 64 × 64 cells, 100,000 people, ε = 5; discs have the most informative radius."""
    city, grid = synthetic_city((64, 64), 2), plane(64, 64)
    alike = []
    for mechanism in (DiskArea(grid, 5, radius=informative_radius(grid, 5)), Mixture(grid, 5)):
        fitted = smooth_map(mechanism.channel(), counted(mechanism, city, 100_000, 1).counts)
        alike.append(similarity(city, fitted.density))
    assert alike[1] > alike[0] + 0.05


def test_a_tally_that_no_reports_make_is_refused(tmp_path: Path) -> None:
    mechanism = Mixture(plane(6, 6), 1, radius=2, hashing="1/2")
    good = replace(counted(mechanism, synthetic_city((6, 6), 0), 50, 1), simulated=False)
    assert (Tally.load(good.save(tmp_path / "good.tally")).counts == good.counts).all()
    discs = int(good.counts[: mechanism.disc.outcomes].sum())
    corner, cell = good.counts.copy(), good.counts.copy()
    corner[0] += 1  # the corner of the frame is outside of every disc
    cell[-1] = 50 - discs + 1  # more than there are hashed reports
    for number, counts in enumerate((corner, cell)):
        with pytest.raises(UnreadableData, match="do not fit together"):
            Tally.load(replace(good, counts=counts).save(tmp_path / f"{number}.tally"))


def test_a_release_says_how_it_was_made() -> None:
    mechanism = Mixture(plane(6, 6), 3)
    release = estimate(counted(mechanism, synthetic_city((6, 6), 0), 2_000, 1), draws=4)
    assert release.provenance.mechanism == "Mixture"
    assert release.provenance.parameters == mechanism.parameters()
    assert release.knows_uncertainty
    assert release.total == 2_000
