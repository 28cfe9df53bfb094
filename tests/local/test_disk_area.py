"""DiskArea: the errata's golden numbers and closed forms, the clip, the choice of the radius."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.local.disk_area import (
    MAX_RADIUS,
    DiskArea,
    best_area_ratio,
    best_radius,
    disk_share,
    disk_window,
    informative_radius,
    largest_radius,
    paper_radius,
)
from heathaze.local.hybrid_uniform_exponential import HybridUniformExponential, ring_window
from heathaze.local.weights import floor_exp
from tests.local.enumeration import plane, worst_loss

UNIT = Grid.plane(x=(0, 1), y=(0, 1), size=1)

# ── golden numbers (errata part 6) ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("epsilon", "b"),
    [
        (0.7, 0.997669216924),
        (1.4, 0.680195544563),
        (2.1, 0.470482696439),
        (3.5, 0.233247334375),
        (5, 0.114224743593),
        (7, 0.045544319016),
        (9, 0.018378946009),
    ],
)
def test_the_continuous_radius(epsilon: float, b: float) -> None:
    assert paper_radius(UNIT, epsilon) == pytest.approx(b, abs=1e-12)


def test_the_continuous_radius_at_both_ends() -> None:
    assert paper_radius(UNIT, 1e-6) == pytest.approx(1.487263423230, abs=1e-6)
    assert 0 <= paper_radius(UNIT, 1000) < 1e-200
    # The series takes over where the formula begins to cancel, without a step.
    assert best_area_ratio(0.01 - 1e-9) == pytest.approx(best_area_ratio(0.01 + 1e-9), rel=1e-8)


def test_the_continuous_probabilities() -> None:
    """p = e^ε q and q = 1/(π b² e^ε + 4b + 1) at ε = 3.5."""
    b = paper_radius(UNIT, 3.5)
    q = 1 / (math.pi * b**2 * math.exp(3.5) + 4 * b + 1)
    assert (q * math.exp(3.5), q) == pytest.approx((4.361338099328, 0.131700998820), rel=1e-11)


def test_the_radii_of_fifteen_cells() -> None:
    radii = {0.7: 14, 1.4: 10, 2.1: 7, 2.8: 4, 3.5: 3, 5: 1, 6: 1, 7: 0, 8: 0, 9: 0}
    assert {epsilon: math.floor(paper_radius(plane(15, 15), epsilon)) for epsilon in radii} == radii


def test_the_window_of_the_papers_default() -> None:
    window = DiskArea(plane(15, 15), 3.5, radius=3).window
    assert window.half_width == (3, 3)
    assert window.outputs.size == 437
    assert window.low == 2**32
    assert window.low + window.excess.max() == floor_exp(2**32, Fraction(7, 2)) == 142229783154
    share = window.excess / window.excess.max()
    assert (share == 1).sum() == 29
    assert window.support.sum() == 29 + 16
    assert share.sum() == pytest.approx(33.968537849534, abs=1e-7)
    assert 437 - share.sum() == pytest.approx(403.031462150466, abs=1e-7)
    assert (window.low + window.excess.max()) / window.total == pytest.approx(2.167362264378e-2, rel=1e-9)
    assert window.low / window.total == pytest.approx(6.544866931249e-4, rel=1e-9)


# ── closed forms (errata E1-3) ──────────────────────────────────────────────────────────────────────────────────────


def octant(radius: int) -> tuple[int, set[tuple[int, int]]]:
    """Whole cells strictly between the axis and the diagonal, counted; cut cells there, listed: from the shares."""
    x, y = np.meshgrid(np.arange(radius + 2), np.arange(radius + 2), indexing="ij")
    _, support = disk_share(x, y, radius)
    strict, inside = (x > y) & (y > 0), x**2 + y**2 <= radius**2
    cut = np.argwhere(strict & support & ~inside)
    return int((strict & inside).sum()), {(int(a), int(b)) for a, b in cut}


def test_the_octants_count() -> None:
    assert [octant(b)[0] for b in range(2, 14)] == [0, 1, 3, 6, 9, 13, 18, 24, 31, 38, 45, 55]


def test_closed_forms_of_whole_and_cut_cells() -> None:
    for b in range(1, 201):
        whole = sum(max(0, math.isqrt(b * b - i * i) - i) for i in range(1, b + 1))
        cut = set()
        for i in range(1, b + 1):
            x = (math.isqrt(4 * b * b - (2 * i - 1) ** 2 - 1) + 1) // 2
            if x > i and x * x + i * i > b * b:
                cut.add((x, i))
        assert (whole, cut) == octant(b), b


def test_outputs_by_theorem_vi_2() -> None:
    """|outputs| = d² + 4bd − 4b − 1 + the cells of the disc, whole and cut."""
    for b in range(1, 13):
        for d in range(1, 10):
            window = disk_window((d, d), Fraction(1), b)
            assert window.outputs.size == d * d + 4 * b * d - 4 * b - 1 + window.support.sum(), (b, d)


# ── known bugs put back ─────────────────────────────────────────────────────────────────────────────────────────────


def unclipped(shape: tuple[int, int], epsilon: float, radius: int) -> np.ndarray:
    """The matrix as printed: shares that may be negative (errata E1-2)."""
    window = disk_window(shape, Fraction(epsilon), radius)
    x = np.abs(np.arange(-radius, radius + 1))[:, None]
    inside = x**2 + x.T**2 <= radius**2
    delta = radius / np.sqrt(np.maximum(x**2 + x.T**2, 1)) - 1
    share = np.where(inside, 1.0, np.where(window.support, 4 * (delta * x + 0.5) * (delta * x.T + 0.5), 0.0))
    rows, cols = shape
    matrix = np.zeros((rows, cols, *window.frame))
    matrix.reshape(rows * cols, -1)[:, window.outputs] = 1
    for row in range(rows):
        for col in range(cols):
            matrix[row, col, row : row + len(x), col : col + len(x)] += share * math.expm1(epsilon)
    flat = matrix.reshape(rows * cols, -1)
    return flat / flat.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("size", "epsilon", "radius", "realised"),
    [(15, 3.5, 3, 3.5846), (15, 2.1, 7, 2.767), (20, 1.4, 13, 1.751), (15, 0.7, 14, 0.756)],
)
def test_the_printed_shares_leak_and_ours_do_not(size: int, epsilon: float, radius: int, realised: float) -> None:
    assert worst_loss(unclipped((size, size), epsilon, radius)) == pytest.approx(realised, abs=1e-3)
    ours = DiskArea(plane(size, size), epsilon, radius)
    assert epsilon - 1e-6 <= worst_loss(ours.transition_matrix()) <= epsilon


# ── the rings of HUEM ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_rings_of_the_papers_default() -> None:
    window = HybridUniformExponential(plane(15, 15), 3.5, radius=3).window
    assert window.low / window.total == pytest.approx(1.315822e-3, rel=1e-6)
    assert window.outputs.size == 437
    # The simpler form, exp(ε · max(0, 1 − r/b)) at the cells' middles, is another mechanism.
    r = np.hypot(*np.mgrid[-3:4, -3:4])
    assert 1 / (437 + np.expm1(3.5 * np.maximum(0, 1 - r / 3)).sum()) == pytest.approx(1.8214e-3, rel=1e-4)


@pytest.mark.parametrize("radius", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("epsilon", ["0.1", "3.5"])
def test_rings_are_a_union_of_discs(epsilon: str, radius: int) -> None:
    """Appendix A: weight = 1 + Σ_j share of disc j · (w_j − w_{j+1}), to what rounding leaves."""
    window = ring_window((9, 9), Fraction(epsilon), radius)
    x = np.abs(np.arange(-radius, radius + 1))[:, None]
    levels = [math.exp(float(Fraction(epsilon)) * (1 - (j - 1) / radius)) for j in range(1, radius + 2)]
    levels[-1] = 1.0
    discs = [disk_share(x, x.T, j)[0] * (levels[j - 1] - levels[j]) for j in range(1, radius + 1)]
    np.testing.assert_allclose(window.excess / window.low, np.sum(discs, axis=0), atol=1e-8 * levels[0])


def test_rings_without_epsilon_leak() -> None:
    """The main text's p_j = q·e^(1 − (j−1)/b) breaks the promise for ε < 1 (errata E1-8)."""
    printed = ring_window((15, 15), Fraction(1), 3)  # the weights do not depend on ε, so they are those of ε = 1
    assert worst_loss(printed.transition_matrix()) > 0.7 + 0.29
    assert worst_loss(ring_window((15, 15), Fraction("0.7"), 3).transition_matrix()) <= 0.7


# ── the choice of the radius ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", [(1, 7), (5, 5), (9, 9), (15, 15), (6, 20)])
def test_the_radius_tells_most(shape: tuple[int, int]) -> None:
    grid = plane(*shape)
    for epsilon in ("0.1", "0.7", "2.1", "3.5", "5", "9"):
        windows = [disk_window(shape, Fraction(epsilon), b) for b in range(largest_radius(shape) + 1)]
        told = [window.information_bound() for window in windows]
        assert informative_radius(grid, epsilon) == int(np.argmax(told)), epsilon
        rings = [ring_window(shape, Fraction(epsilon), b).information() for b in range(largest_radius(shape) + 1)]
        assert HybridUniformExponential(grid, epsilon).radius == int(np.argmax(rings)), epsilon


def test_the_discrete_optimum_of_errata_e1_5() -> None:
    assert math.floor(paper_radius(plane(5, 5), 3.5)) == 1
    assert informative_radius(plane(5, 5), 3.5) == 0
    assert informative_radius(plane(15, 15), 3.5) == 3
    assert DiskArea(plane(1, 1), 0.1).radius == HybridUniformExponential(plane(1, 1), 0.1).radius == 0


def test_the_radius_of_the_best_map() -> None:
    """A fraction of the paper's radius; at d = 15, ε = 3.5 radius 1 beats 3 (errata E1-16)."""
    assert [best_radius(plane(side, side), 3.5) for side in (1, 5, 15, 16, 64, 256)] == [0, 0, 1, 1, 5, 21]
    assert [best_radius(plane(64, 64), epsilon) for epsilon in (0.1, 1, 5, 9, 1000)] == [31, 19, 3, 0, 0]
    assert DiskArea(plane(64, 64), 3.5).radius == 5
    assert best_radius(plane(4096, 4096), "0.01") == largest_radius((4096, 4096))


def test_information_is_what_its_definition_says() -> None:
    """Against the matrix: mutual information with all cells equally likely, and the bound above it."""
    for window in (disk_window((5, 7), Fraction(2), 2), ring_window((1, 6), Fraction(1), 3)):
        matrix = window.transition_matrix()
        matrix = matrix[:, matrix.any(axis=0)]
        told = (matrix * np.log(matrix / matrix.mean(axis=0))).sum(axis=1).mean()
        assert window.information() == pytest.approx(told, abs=1e-12)
        noise = -(matrix[0] * np.log(matrix[0])).sum()
        assert window.information_bound() == pytest.approx(math.log(matrix.shape[1]) - noise, abs=1e-12)
        assert window.information() <= window.information_bound()


@pytest.mark.parametrize("radius", [-1, 31, 1.5, True, "3"])
def test_a_bad_radius_gets_a_sentence(radius: object) -> None:
    for mechanism in (DiskArea, HybridUniformExponential):
        with pytest.raises(InvalidInput, match=r"radius is .*; give cells of this map, a whole number from 0 to 30"):
            mechanism(plane(15, 15), 1, radius=radius)  # type: ignore[arg-type]


def test_windows_too_large_to_write_out_are_not_begun() -> None:
    assert largest_radius((4096, 4096)) == 2048
    assert largest_radius((2**20, 16)) < 100
    assert DiskArea(plane(400, 2), 0.1).radius <= MAX_RADIUS
    assert isinstance(DiskArea(plane(15, 15), 1, radius=np.int64(2)).parameters()["radius"], int)  # type: ignore[arg-type]
