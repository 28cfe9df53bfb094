"""PlanarLaplace: the price for each unit of length, between all pairs of cells, on planes and on the globe."""

from __future__ import annotations

import itertools
import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from heathaze.domain.grid import Grid
from heathaze.domain.projection import EARTH_RADIUS_METRES
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.local import geo_indistinguishability as _distance
from heathaze.local.geo_indistinguishability import MAX_CUTOFF, cell_lengths, decay
from heathaze.local.planar_laplace import PlanarLaplace
from heathaze.privacy.guarantee import Adjacency
from tests.local.enumeration import distances, losses, plane, worst_loss

GRIDS = [plane(1, 7), plane(2, 3, 1, 5), plane(5, 5), plane(9, 9, 3, 1), plane(4, 7, 0.25, 1.5), plane(8, 3, 100, 40)]
NEW_YORK = Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), shape=(7, 9))


def ways(grid: Grid) -> np.ndarray:
    """Great-circle distances between the middles of every two cells, in metres (haversine)."""
    lat = np.radians(grid.y_at(np.arange(grid.rows) + 0.5))
    lon = np.radians(grid.x_at(np.arange(grid.cols) + 0.5))
    lat, lon = (part.ravel() for part in np.meshgrid(lat, lon, indexing="ij"))
    half = np.sin((lat - lat[:, None]) / 2) ** 2
    half += np.cos(lat) * np.cos(lat[:, None]) * np.sin((lon - lon[:, None]) / 2) ** 2
    return 2 * EARTH_RADIUS_METRES * np.arcsin(np.sqrt(np.minimum(half, 1)))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("price", ["0.01", "0.3", "2"])
def test_no_pair_of_cells_pays_more_than_its_distance(grid: Grid, price: str) -> None:
    epsilon = float(price) / min(grid.cell_size)
    mechanism = PlanarLaplace(grid, epsilon)
    found, allowed = losses(mechanism.transition_matrix()), float(mechanism.epsilon) * distances(grid)
    assert (found <= allowed + 1e-13).all()
    # Within the cutoff the price is attained: the report of the one cell, seen from the other.
    near = (distances(grid) <= float(mechanism.cutoff)) & (distances(grid) > 0)
    assert near.any()
    assert (found[near] >= allowed[near] * (1 - 1e-6) - 1e-12).all()
    # Beyond it no report betrays more: also an ordinary epsilon, of ε · cutoff.
    assert worst_loss(mechanism.transition_matrix()) <= float(mechanism.epsilon * mechanism.cutoff) + 1e-13


def overspent(mechanism: PlanarLaplace) -> bool:
    """Does log(weight / weight') exceed ε · distance for some pair of offsets? By 50 digits."""
    window, (rows, cols) = mechanism.window, mechanism.grid.shape
    # Weights around the window as well, as far as another cell's window can lie.
    weights = np.pad(window.excess, ((2 * rows, 2 * rows), (2 * cols, 2 * cols))) + window.low
    with localcontext(Context(prec=50)):
        height, width, price = (
            Decimal(f.numerator) / f.denominator for f in (*cell_lengths(mechanism.grid), mechanism.epsilon)
        )
        logs = {int(weight): Decimal(int(weight)).ln() for weight in np.unique(weights)}
        for down, across in itertools.product(range(rows), range(-cols + 1, cols)):
            allowed = price * ((down * height) ** 2 + (across * width) ** 2).sqrt()
            here, there = (
                weights[rows:-rows, cols:-cols],
                np.roll(weights, (down, across), (0, 1))[rows:-rows, cols:-cols],
            )
            pairs = {tuple(pair) for pair in np.stack([here.ravel(), there.ravel()], axis=1).tolist()}
            if any(abs(logs[a] - logs[b]) > allowed for a, b in pairs):
                return True
    return False


CLOSE = [(plane(3, 4, 1, 1.25), "0.05"), (plane(4, 3, 7, 2), "0.6"), (plane(5, 5), "1"), (plane(1, 7), "0.00001")]


def test_the_price_is_kept_in_whole_numbers() -> None:
    assert not any(overspent(PlanarLaplace(grid, epsilon)) for grid, epsilon in CLOSE)


def test_without_slack_the_rounding_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_distance, "_ROUNDING", Fraction(0))
    assert all(overspent(PlanarLaplace(grid, epsilon)) for grid, epsilon in CLOSE)


@pytest.mark.parametrize(
    "grid",
    [
        NEW_YORK,
        Grid.over(lon=(-10, 30), lat=(35, 70), shape=(6, 9)),
        Grid.over(lon=(-10, 30), lat=(35, 70), shape=(9, 6), projection="web-mercator"),
        Grid.over(lon=(-170, 175), lat=(-80, 85), shape=(7, 9), projection="web-mercator"),
        Grid.over(lon=(-180, 180), lat=(-90, 90), shape=(6, 8)),
        Grid.over(lon=(2.3500, 2.3501), lat=(48.8500, 48.8501), shape=(5, 5), projection="web-mercator"),
        Grid.over(lon=(0, 1), lat=(0, 1), shape=(1, 5)),
    ],
    ids=str,
)
def test_distances_on_the_globe_are_never_overstated(grid: Grid) -> None:
    height, width = (float(length) for length in cell_lengths(grid))
    row, col = np.divmod(np.arange(grid.cells), grid.cols)
    ours = np.hypot((row - row[:, None]) * height, (col - col[:, None]) * width)
    assert (ours <= ways(grid) + 1e-9 * ours).all()
    mechanism = PlanarLaplace(grid, epsilon=1 / min(height, width) if min(height, width) < 1e6 else 1e-6)
    assert mechanism.adjacency is Adjacency.PER_METRE
    assert (losses(mechanism.transition_matrix()) <= float(mechanism.epsilon) * ways(grid) + 1e-12).all()


def test_a_city_loses_little_by_the_bound() -> None:
    height, width = cell_lengths(NEW_YORK)
    assert (float(height), float(width)) == pytest.approx(NEW_YORK.cell_size, rel=0.005)


def test_little_weight_lies_beyond_the_default_cutoff() -> None:
    for grid, epsilon in ((plane(64, 64), 0.5), (plane(64, 64), 10), (NEW_YORK.resized((256, 256)), 0.002)):
        mechanism = PlanarLaplace(grid, epsilon)
        window = mechanism.window
        assert 0.005 < window.low * window.outputs.size / window.total <= 0.01
        assert max(window.half_width) <= MAX_CUTOFF
        assert window.low >= 2**36
        assert mechanism == PlanarLaplace(grid, epsilon, cutoff=mechanism.parameters()["cutoff"])


def test_the_law_is_the_planar_laplace_law() -> None:
    """Near the true cell probabilities fall by e^−ε for each unit of length."""
    mechanism = PlanarLaplace(plane(30, 30), 0.5)
    kernel = mechanism.window.probabilities()
    middle = len(kernel) // 2
    for row, col in ((1, 0), (0, 3), (3, 4), (6, 8)):
        ratio = kernel[middle + row, middle + col] / kernel[middle, middle]
        assert ratio == pytest.approx(math.exp(-0.5 * math.hypot(row, col)), rel=1e-6)


def test_along_a_single_row_nothing_is_reported_beside_it() -> None:
    mechanism = PlanarLaplace(plane(1, 7), 1)
    assert mechanism.window.frame[0] == 1
    assert mechanism.adjacency is Adjacency.PER_LENGTH
    assert PlanarLaplace(plane(1, 1), 1).transition_matrix().tolist() == [[1]]


@pytest.mark.parametrize("cutoff", [0, -1, "far", math.nan, math.inf, True])
def test_a_bad_cutoff_gets_a_sentence(cutoff: object) -> None:
    with pytest.raises(InvalidInput, match=r"cutoff is .*; give a positive length"):
        PlanarLaplace(plane(5, 5), 1, cutoff=cutoff)  # type: ignore[arg-type]


def test_a_cutoff_beyond_all_bounds_gets_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="too many cells to write out"):
        PlanarLaplace(plane(5, 5), 0.01, cutoff=300)
    for cutoff in (50, 30):
        with pytest.raises(InvalidInput, match="further than 62 bits can tell"):
            PlanarLaplace(plane(5, 5), 1, cutoff=cutoff)
    with pytest.raises(InvalidInput, match="use a coarser grid or a larger epsilon"):
        PlanarLaplace(plane(1000, 1000, 1e-4, 1e-4), 1e-5)
    assert PlanarLaplace(plane(5, 5), 1, cutoff=0.25).window.half_width == (0, 0)


def test_weights_that_do_not_fit_are_refused_where_they_are_made() -> None:
    """Callers look at the cutoff first; a caller that forgets to gets no weights."""
    with pytest.raises(PromiseBroken, match="do not fit into 62 bits; give a shorter cutoff or a smaller epsilon"):
        decay(plane(5, 5), Fraction(1), Fraction(30), margin=True)
