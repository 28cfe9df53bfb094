"""Lines: which cells, lengths and distances a journey has, and what is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from heathaze.domain.grid import Grid
from heathaze.domain.lines import Lines
from heathaze.errors import InvalidInput

PLANE = Grid.plane(x=(0, 8), y=(0, 8), size=8)


def test_a_line_visits_the_cells_it_crosses() -> None:
    whose, cell = Lines.from_points([[(0.5, 0.5), (0.5, 3.5)], [(7.5, 7.5)]]).visits(PLANE)
    assert whose.tolist() == [0, 0, 0, 0, 1]
    assert cell.tolist() == [0, 8, 16, 24, 63]


def test_a_point_outside_visits_the_nearest_cell() -> None:
    assert Lines.from_points([[(-5.0, 99.0)]]).visits(PLANE)[1].tolist() == [56]


@pytest.mark.parametrize("side", [*range(1, 33), 48, 100, 127])
def test_a_line_along_a_border_visits_the_cells_of_that_border(side: int) -> None:
    """Between two points at the border, rounding led to cells beyond it on most maps."""
    grid = Grid.plane(x=(0, side), y=(0, side), size=side)
    for beyond in (0.0, 0.3):
        low, high, far = -beyond, side + beyond, np.arange(side)
        borders = {
            "south": ([(0, high), (side, high)], (side - 1) * side + far),
            "north": ([(0, low), (side, low)], far),
            "east": ([(high, 0), (high, side)], far * side + side - 1),
            "west": ([(low, 0), (low, side)], far * side),
        }
        for points, wanted in borders.values():
            assert Lines.from_points([points]).visits(grid)[1].tolist() == wanted.tolist()


def test_lengths_are_metres_on_the_globe() -> None:
    globe = Grid.over(lon=(9, 11), lat=(52, 54), size=16)
    lines = Lines.from_points([[(10, 52.5), (10, 53.5)], [(9.5, 53), (10.5, 53), (9.5, 53)]])
    assert lines.lengths(globe) == pytest.approx([111_195, 2 * 66_919], rel=1e-4)
    assert lines.distances(globe) == pytest.approx([111_195, 0], rel=1e-4)


def test_a_diameter_is_hardly_too_small() -> None:
    clouds = np.random.default_rng(3).random((50, 30, 2)) * 8
    exact = np.sqrt(((clouds[:, :, None] - clouds[:, None]) ** 2).sum(-1).max(axis=(1, 2)))
    found = Lines.from_points(clouds).diameters(PLANE)
    assert (found <= exact + 1e-9).all()
    assert (found >= exact * 0.995).all()


def test_some_journeys_can_be_taken() -> None:
    lines = Lines.from_points([[(0, 0), (1, 0)], [(2, 2)], [(3, 3), (4, 3), (5, 3)]])
    some = lines.take(np.array([2, 0, 2]))
    assert some.x.tolist() == [3, 4, 5, 0, 1, 3, 4, 5]
    assert some.offsets.tolist() == [0, 3, 5, 8]


@pytest.mark.parametrize("journeys", [[[]], [[(0.0, np.nan)]], [[(1.0, 2.0, 3.0)]]])
def test_what_is_no_journey_is_refused_without_its_points(journeys) -> None:
    with pytest.raises(InvalidInput) as error:
        Lines.from_points(journeys)
    assert "1.0" not in str(error.value)
    assert repr(Lines.from_points([[(1.25, 2.5)]])) == "<Lines>"


@pytest.mark.parametrize("block", [1, 5, 64])
def test_blocks_change_no_visit(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    lines = Lines.from_points([generator.uniform(-1, 9, (points, 2)) for points in (1, 9, 2, 30, 1)])
    whole = lines.visits(PLANE)
    monkeypatch.setattr("heathaze.domain.lines._BLOCK", block)
    for parts, expected in zip(lines.visits(PLANE), whole, strict=True):
        assert parts.tolist() == expected.tolist()


def test_many_jumps_across_a_map_take_little_memory() -> None:
    side = np.where(np.arange(40_000) % 2, 7.99, 0.01)
    lines = Lines(side, side[::-1].copy(), np.array([0, len(side)]))
    tracemalloc.start()
    try:
        whose, _ = lines.visits(PLANE.resized((64, 64)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(whose) > 2_000_000
    assert peak < 250e6  # all steps at once take 600 MB


def test_an_error_about_text_quotes_none() -> None:
    for points in ([("home", 1)], [(1, 2), (3,)], [(None, 1)]):
        with pytest.raises(InvalidInput) as refused:
            Lines.from_points([points])
        assert "home" not in str(refused.value)
