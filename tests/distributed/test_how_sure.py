"""How sure a map from a survey is: never surer than what was asked, however smooth the prior is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heathaze as hz
from heathaze.distributed import AdaptiveQuadtree, Cohort, Device, Population, Survey, run_survey, simulate
from heathaze.domain.quadtree import deinterleave
from heathaze.errors import InvalidInput
from heathaze.inference.drawn_maps import DrawnMaps

GRID = hz.Grid.plane(x=(0, 64), y=(0, 64), size=64)
SPOT = hz.Box.plane(x=(20, 22), y=(40, 42))


def clump(people: int, seed: int) -> hz.Release:
    """Everybody within two cells of one spot, far from the middle of any region."""
    places = np.random.default_rng(seed).uniform((20, 40), (22, 42), (people, 2))
    population = Population.from_table(GRID, np.arange(people), *places.T)
    survey = Survey(AdaptiveQuadtree(GRID, 1), Cohort(people, dropout=0, colluding=0))
    return simulate(survey, population, randomness=hz.Simulation(seed)).estimate()


@pytest.mark.parametrize("people", [40, 100, 400])
def test_no_false_hotspot_and_no_false_interval(people: int) -> None:
    """Few people, all in one spot: the prior would put them anywhere in their region, and be sure of it."""
    real = []
    for seed in range(3):
        release = clump(people, seed)
        for spot in release.hotspots(0.9):
            (west, east), (south, north) = spot.box.x, spot.box.y
            real.append(west < 22 and east > 20 and south < 42 and north > 40)
        share = release.mass_in(SPOT)
        assert share.high > 0.9
        quarter = release.mass_in(hz.Box.plane(x=(0, 32), y=(32, 64)))
        assert quarter.low <= 1 <= quarter.high + 0.05
    assert sum(real) >= 0.8 * len(real), "people are in nearly all of them"


def hot_spots_of_an_even_map(people: int, seed: int) -> list[hz.Hotspot]:
    population = Population.from_raster(GRID, np.ones((64, 64)), people, hz.Simulation(seed))
    survey = Survey(AdaptiveQuadtree(GRID, 1), Cohort(people))
    return simulate(survey, population, randomness=hz.Simulation(seed + 1)).estimate().hotspots(0.9)


@pytest.mark.parametrize("people", [100, 1_000])
def test_an_even_map_has_no_hot_spots(people: int) -> None:
    """Nobody lives closer together than anybody else."""
    assert not hot_spots_of_an_even_map(people, 1)


@pytest.mark.slow
@pytest.mark.parametrize("people", [100, 1_000, 10_000])
def test_an_even_map_hardly_ever_has_hot_spots(people: int) -> None:
    """At most one map of ten; 20 maps of each number of people."""
    assert sum(bool(hot_spots_of_an_even_map(people, 10 + 2 * seed)) for seed in range(20)) <= 2


def test_nothing_is_measured_inside_a_region() -> None:
    release = clump(100, 0)
    asked = release.drawn.asked
    for level, belief in enumerate(release.posterior.levels):
        side = 64 >> level
        for code, measured in zip(belief.codes.tolist(), belief.measured.tolist(), strict=True):
            row, col = (int(part[0]) for part in deinterleave([code]))
            inside = asked[row * side : (row + 1) * side, col * side : (col + 1) * side]
            assert measured == (inside.min() >= level)
    everywhere = release.mass_in(hz.Box.plane(x=(0, 64), y=(0, 64)))
    assert release.posterior.unresolved(hz.Box.plane(x=(0, 64), y=(0, 64))) == 0
    assert everywhere.low == pytest.approx(1)


def test_the_deviation_of_a_cell_knows_its_region() -> None:
    release = clump(100, 0)
    region = release.posterior.levels[1]
    fullest = float(region.mean.max() / release.total)
    cells = release.uncertainty
    assert cells.shape == (64, 64)
    assert cells.max() >= fullest * np.sqrt(1 / 1024) * 0.9, "all of a quarter may sit in one of its 1,024 cells"
    assert release.render_uncertainty(SPOT).shape == release.render(SPOT).values.shape


def test_what_was_asked_is_kept_in_files(tmp_path: Path) -> None:
    places = np.random.default_rng(1).uniform((20, 40), (22, 42), (30, 2))
    devices = [Device(place, budget=1) for place in places]
    survey = Survey(AdaptiveQuadtree(GRID, 1), Cohort(30, dropout="1/5", colluding=0))
    release = run_survey(survey, devices).estimate(draws=4)
    for name in ("map.npz", "map.geojson"):
        again = hz.load(release.save(tmp_path / name))
        assert np.array_equal(again.drawn.asked, release.drawn.asked)
        assert again.mass_in(SPOT).high == pytest.approx(release.mass_in(SPOT).high, abs=1e-3)


def test_levels_that_no_square_has_are_refused() -> None:
    shares = np.full((2, 8, 8), 1 / 64)
    for asked in (np.zeros((8, 7)), np.full((8, 8), -1), np.full((8, 8), 7)):
        with pytest.raises(InvalidInput, match="one level of the grid for each square"):
            DrawnMaps(GRID, 8, shares, 1.0, asked)
