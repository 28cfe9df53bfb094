"""Drawn maps: what their spread says about squares, boxes and cells."""

from __future__ import annotations

import numpy as np
import pytest

from heathaze.domain.density import Density
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import deinterleave
from heathaze.errors import InvalidInput
from heathaze.inference.drawn_maps import INFLATION, DrawnMaps, DrawnPosterior
from heathaze.privacy.randomness import Simulation

GRID = Grid.plane(x=(0, 6), y=(0, 4), shape=(4, 6))


def shares(maps: int, *shape: int, seed: int = 1) -> np.ndarray:
    drawn = Simulation(seed).uniforms(maps * int(np.prod(shape))).reshape(maps, *shape) + 0.1
    return drawn / drawn.sum(axis=(1, 2), keepdims=True)


def posterior(side: int = 1, within: float = 0.0, grid: Grid = GRID, total: float = 1000.0) -> DrawnPosterior:
    """Eight maps around their own mean."""
    squares = [-(-length // side) for length in grid.shape]
    drawn = DrawnMaps(grid, side, shares(8, *squares), within)
    mean = np.repeat(np.repeat(drawn.shares.mean(axis=0), side, axis=0), side, axis=1)
    return DrawnPosterior(drawn, Density.from_mass(grid, mean[: grid.rows, : grid.cols]), total)


def believed(drawn: np.ndarray, estimate: np.ndarray | float, total: float = 1000.0) -> tuple[np.ndarray, np.ndarray]:
    """Centre and deviation of shares, written out: spread about the centre, widened, and the variance of a count."""
    centre = np.maximum(drawn.mean(axis=0), estimate)
    variance = INFLATION**2 * ((drawn - centre) ** 2).mean(axis=0) + centre * (1 - centre) / total
    return centre, np.sqrt(variance)


def test_boxes_are_summed_map_by_map() -> None:
    found = posterior()
    left = found.drawn.shares[:, :, :3].sum(axis=(1, 2))
    box = Box.plane(x=(0, 3), y=(0, 4))
    assert found.belief(box, left.mean()) == pytest.approx(believed(left, left.mean()), rel=1e-12)
    half = found.drawn.shares[:, 1, 2] / 2 + found.drawn.shares[:, 2, 2] / 2
    box = Box.plane(x=(2, 3), y=(1.5, 2.5))
    assert found.belief(box, half.mean()) == pytest.approx(believed(half, half.mean()), rel=1e-12)
    assert found.belief(GRID.box, 1.0) == pytest.approx((1.0, 0.0), abs=1e-7)  # all of it is there, surely


def test_an_estimate_beside_its_maps_is_less_sure() -> None:
    """An estimate above the maps is the centre, and how far they lie below counts; below them their mean is."""
    found, box = posterior(), Box.plane(x=(0, 1), y=(0, 1))
    drawn = found.drawn.shares[:, 0, 0]
    above = found.belief(box, drawn.max() * 2)
    assert above == pytest.approx(believed(drawn, drawn.max() * 2), rel=1e-12)
    assert above[1] > found.belief(box, drawn.mean())[1]
    assert found.belief(box, 0.0) == pytest.approx(believed(drawn, drawn.mean()), rel=1e-12)


@pytest.mark.parametrize("side", [1, 2])
def test_levels_are_the_quadtree(side: int) -> None:
    found = posterior(side)
    assert len(found.levels) == GRID.depth + 1 - (side.bit_length() - 1)
    for level, belief in enumerate(found.levels):
        length = 2 ** (GRID.depth - level)
        rows, cols = deinterleave(belief.codes)
        for at, (row, col) in enumerate(zip(rows.tolist(), cols.tolist(), strict=True)):
            top, left = row * length, col * length
            corner = Box.plane(x=(left, min(6, left + length)), y=(top, min(4, top + length)))
            expected = np.array(found.belief(corner, found.density.mass_in(corner)))
            assert (belief.mean[at], belief.deviation[at]) == pytest.approx(1000 * expected, rel=1e-9, abs=1e-4)
        assert (np.diff(belief.codes) > 0).all()
        assert belief.mean.sum() == pytest.approx(1000)
        assert belief.leaf.all() == (level == len(found.levels) - 1)
        assert belief.measured.all()
    assert found.levels[0].deviation == pytest.approx(0, abs=1e-4)  # how many reports there are is known
    level, codes, mean, deviation = found.squares
    assert (level == len(found.levels) - 1).all()
    assert (codes == found.levels[-1].codes).all()
    assert (mean == found.levels[-1].mean).all()
    assert (deviation == found.levels[-1].deviation).all()


def test_cells_are_rendered_map_by_map() -> None:
    found = posterior()
    drawn = found.drawn.shares
    np.testing.assert_allclose(found.deviations(), believed(drawn, drawn.mean(axis=0))[1], rtol=1e-9)
    halved = found.drawn.shares.reshape(8, 2, 2, 3, 2).sum(axis=(2, 4))
    np.testing.assert_allclose(found.deviations(shape=(2, 3)), believed(halved, halved.mean(axis=0))[1], rtol=1e-9)


def test_a_square_is_divided_as_the_estimate_divides_it() -> None:
    drawn = DrawnMaps(GRID, 2, shares(5, 2, 3), 0.0)
    mass = Simulation(3).uniforms(24).reshape(4, 6) + 0.05
    mass[:2, :2] = 0.0  # a square that the estimate leaves empty is divided evenly
    found = DrawnPosterior(drawn, Density.from_mass(GRID, mass), 100.0)
    for density, map_ in zip(found._fine, drawn.shares, strict=True):
        sums = density.values.reshape(2, 2, 3, 2).sum(axis=(1, 3))
        np.testing.assert_allclose(sums, map_, rtol=1e-12)
        np.testing.assert_allclose(density.values[:2, :2], map_[0, 0] / 4, rtol=1e-12)
        ratio = density.values[2:, 4:] / mass[2:, 4:]
        np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-12)


def test_sides_that_do_not_divide() -> None:
    grid = Grid.plane(x=(0, 7), y=(0, 5), shape=(5, 7))
    found = posterior(4, grid=grid)
    assert found.drawn.shares.shape == (8, 2, 2)
    assert found.deviations().shape == (5, 7)
    assert all(density.values.sum() == pytest.approx(1) for density in found._fine)
    assert found._squares.sum() == pytest.approx(1)


def test_within_a_square_the_prior_speaks() -> None:
    """Cells finer than a square doubt at least by the given part of themselves; a whole square does not."""
    sure, unsure = posterior(2, within=0.0), posterior(2, within=0.5)
    between, all_ = sure.deviations(), unsure.deviations()
    np.testing.assert_allclose(all_, np.hypot(between, 0.5 * unsure.density.values), rtol=1e-12)
    np.testing.assert_allclose(unsure.deviations(shape=(2, 3)), sure.deviations(shape=(2, 3)), rtol=1e-12)


GOOD = {"grid": GRID, "side": 1, "shares": shares(3, 4, 6), "within": 0.0}
BAD = {
    "one map": {"shares": shares(1, 4, 6)},
    "no maps": {"shares": np.zeros((0, 4, 6))},
    "flat": {"shares": shares(3, 4, 6)[0]},
    "another shape": {"shares": shares(3, 6, 4)},
    "other squares": {"side": 2},
    "side zero": {"side": 0},
    "a negative side": {"side": -2},
    "side three": {"side": 3, "shares": shares(3, 2, 2)},
    "a side beyond the map": {"side": 16, "shares": shares(3, 1, 1)},
    "nan": {"shares": np.where(np.arange(6) == 2, np.nan, shares(3, 4, 6))},
    "infinite": {"shares": np.where(np.arange(6) == 2, np.inf, shares(3, 4, 6))},
    "negative": {"shares": shares(3, 4, 6) - 0.04},
    "sum of two": {"shares": 2 * shares(3, 4, 6)},
    "one of them empty": {"shares": shares(3, 4, 6) * np.array([1, 0, 1])[:, None, None]},
    "negative within": {"within": -0.1},
    "within of nothing known": {"within": 1e3},
    "within nan": {"within": float("nan")},
}


@pytest.mark.parametrize("name", list(BAD))
def test_what_are_no_maps_is_refused(name: str) -> None:
    DrawnMaps(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"drawn map|Drawn maps"):
        DrawnMaps(**GOOD | BAD[name])  # type: ignore[arg-type]


def test_the_maps_cannot_be_changed() -> None:
    mine = shares(3, 4, 6)
    maps = DrawnMaps(GRID, 1, mine, 0.0)
    mine[:] = 0
    assert maps.shares.sum() == pytest.approx(3)
    with pytest.raises(ValueError, match="read-only"):
        maps.shares[0, 0, 0] = 1.0


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_an_interval_of_a_box_is_that_of_its_squares(confidence: float) -> None:
    found = posterior()
    ends = found.intervals(confidence)[-1]
    rows, cols = deinterleave(found.levels[-1].codes)
    for row, col, low, high in zip(rows.tolist(), cols.tolist(), *ends, strict=True):
        box = Box.plane(x=(col, col + 1), y=(row, row + 1))
        own = found.interval(box, found.density.mass_in(box), confidence)
        assert own == pytest.approx((low / 1000, high / 1000), rel=1e-6)
    whole = found.interval(GRID.box, 1.0, confidence)
    assert whole == pytest.approx((1, 1), abs=1e-6)


def test_a_share_near_one_is_as_sure_as_the_rest() -> None:
    found = posterior()
    most, rest = Box.plane(x=(0, 6), y=(0, 3)), Box.plane(x=(0, 6), y=(3, 4))
    low, high = found.interval(most, found.density.mass_in(most), 0.9)
    other = found.interval(rest, found.density.mass_in(rest), 0.9)
    assert (1 - high, 1 - low) == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.4, 0.99, 1.0])
def test_an_interval_holds_its_own_value(share: float) -> None:
    found = posterior()
    for box in (Box.plane(x=(0, 1), y=(0, 1)), Box.plane(x=(0.5, 3.2), y=(0, 3)), Box.plane(x=(0, 6), y=(0, 3))):
        low, high = found.interval(box, share, 0.9)
        assert 0 <= low <= share <= high <= 1


def test_a_few_people_may_be_where_the_maps_have_nobody() -> None:
    """Even an exact count of zero would be likely up to a mean of 2.3 people: Pr[0] = e^−2.3 = 0.1."""
    drawn = shares(8, 4, 6)
    drawn[:, 0, 0] = 0
    drawn /= drawn.sum(axis=(1, 2), keepdims=True)
    found = DrawnPosterior(DrawnMaps(GRID, 1, drawn, 0.0), Density.from_mass(GRID, drawn.mean(axis=0)), 1000.0)
    assert found.interval(Box.plane(x=(0, 1), y=(0, 1)), 0.0, 0.9) == pytest.approx((0, 2.3026e-3), rel=1e-4)
