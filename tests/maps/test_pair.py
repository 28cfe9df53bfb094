"""The picture of a map beside how sure it is."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from heathaze.domain.grid import Grid
from heathaze.maps.pair import BLUES, NEAR, draw_pair, nearness
from heathaze.maps.sheet import PAPER, Look, Words
from heathaze.maps.squares import UNKNOWN, WHITE, Squares, ramp

GRID = Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.62), size=4)
WORDS = Words("Density of people", "About 900 people.", "A plain sentence.", "The exact guarantee.", "Published today.")


def _squares() -> Squares:
    """Cells in one class, each with another interval; one white and one unknown."""
    people = np.full(16, 100.0)
    kinds = np.zeros(16, np.int64)
    kinds[:2] = WHITE, UNKNOWN
    low, high = people.copy(), people.copy()
    high[:2] = 200
    low[2:6], high[6:10], high[10:14], high[14:] = 75, 140, 169, 171
    return Squares(
        GRID, (1.0, 3000.0), "people per km²", np.full(16, 2), np.arange(16), kinds, people, low, high, people, 0.9
    )


def test_nearness_is_the_farther_end_of_the_interval() -> None:
    assert nearness(_squares()).tolist() == [WHITE, UNKNOWN, *[0] * 4, *[1] * 4, *[2] * 4, *[3] * 2]
    # Whoever sees a colour can rely on the number that its legend says.
    assert NEAR == (0.3, 0.5, 0.7)
    both = replace(_squares(), low=np.full(16, 30.0), high=np.full(16, 110.0))
    assert set(nearness(both)[2:].tolist()) == {2}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_maps_have_their_colours(theme: str) -> None:
    file = io.BytesIO()
    draw_pair(_squares(), WORDS, Look(style="pair", theme=theme), file)
    picture = np.asarray(Image.open(file).convert("RGB")) / 255
    assert np.allclose(picture[2, 2], to_rgb(PAPER[theme]), atol=0.01)
    # The maps are in the upper part; the legend below has the same colours.
    upper = picture[: int(0.6 * len(picture))]
    halves = np.array_split(upper, 2, axis=1)

    def area(half: np.ndarray, colour: str) -> int:
        return int(np.isclose(half, to_rgb(colour), atol=0.01).all(axis=2).sum())

    cell = area(halves[1], BLUES[theme][0]) / 4
    assert cell > 5_000
    assert [round(area(halves[1], blue) / cell) for blue in BLUES[theme]] == [4, 4, 4, 2]
    assert area(halves[0], ramp(2, theme)[0]) == pytest.approx(14 * cell, rel=0.05)
    assert area(halves[0], BLUES[theme][0]) == area(halves[1], ramp(2, theme)[0]) == 0
