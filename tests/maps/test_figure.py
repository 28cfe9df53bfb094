"""Pictures: looked at pixel by pixel."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.maps.figure import draw
from heathaze.maps.shade import colour_table

BRIGHTEST, DARKEST = colour_table("inferno")[255].astype(int), colour_table("inferno")[0].astype(int)


def _picture(*densities: Density, **options: object) -> np.ndarray[tuple[int, int, int], np.dtype[np.int64]]:
    file = io.BytesIO()
    draw([(f"panel {k}", density) for k, density in enumerate(densities)], caption="A promise.", path=file, **options)  # type: ignore[arg-type]
    return np.asarray(Image.open(file).convert("RGB")).astype(np.int64)


def _where(picture: np.ndarray, colour: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Rows and columns of the pixels of a colour, without the colour bar at the right."""
    near = np.abs(picture - colour).sum(axis=2) < 12
    near[:, -int(1.15 * 150) :] = False
    return np.argwhere(near)


def _corner(grid: Grid, row: int, col: int) -> Density:
    mass = np.zeros(grid.shape)
    mass[row, col] = 1
    return Density.from_mass(grid, mass)


@pytest.mark.parametrize(
    "grid",
    [
        Grid.over(lon=(5, 6), lat=(50, 51), size=4),
        Grid.over(lon=(5, 65), lat=(10, 70), size=4, projection="web-mercator"),
        Grid.plane(x=(0, 4), y=(0, 4), size=4),
    ],
    ids=lambda grid: grid.projection.value,
)
def test_cell_0_0_is_drawn_at_the_upper_left(grid: Grid) -> None:
    bright, dark = (_where(_picture(_corner(grid, 0, 0)), colour) for colour in (BRIGHTEST, DARKEST))
    assert len(bright) * 13 < len(dark) < len(bright) * 17
    assert (bright.min(axis=0) <= dark.min(axis=0) + 2).all()
    assert (bright.max(axis=0) < dark.mean(axis=0)).all()


@pytest.mark.parametrize(
    ("grid", "ratio"),
    [
        (Grid.plane(x=(0, 320), y=(0, 240), shape=(24, 32)), 0.75),
        (Grid.plane(x=(0, 10), y=(0, 50), shape=(5, 1)), 5.0),
        (Grid.over(lon=(0, 1), lat=(59.5, 60.5), size=8), 2.0),
        (Grid.over(lon=(0, 8), lat=(-0.5, 0.5), shape=(1, 8)), 1 / 8),
    ],
    ids=["pixels", "tall", "north", "wide"],
)
def test_the_map_has_its_shape_in_metres(grid: Grid, ratio: float) -> None:
    bright = _where(_picture(Density.uniform(grid), scale="linear"), BRIGHTEST)
    height, width = bright.max(axis=0) - bright.min(axis=0) + 1
    assert height / width == pytest.approx(ratio, rel=0.03)
    assert len(bright) > 0.97 * height * width


def test_panels_share_one_scale() -> None:
    grid = Grid.plane(x=(0, 4), y=(0, 4), size=4)
    peak, flat = _corner(grid, 1, 1), Density.uniform(grid)
    together = _picture(peak, flat, scale="linear")
    assert together.shape[1] > 1.5 * _picture(peak).shape[1]
    # On the scale of the peak a uniform map is a sixteenth of the way up: dark, not bright.
    sixteenth = _where(together, colour_table("inferno")[16].astype(int))
    assert len(sixteenth) == pytest.approx(len(_where(_picture(flat), BRIGHTEST)), rel=0.05)


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log"])
def test_scales_with_zeros_are_not_blank(scale: str) -> None:
    grid = Grid.plane(x=(0, 64), y=(0, 64), size=64)
    mass = np.random.default_rng(1).pareto(1, grid.shape) * (np.indices(grid.shape).sum(axis=0) % 3 > 0)
    picture = _picture(Density.from_mass(grid, mass), scale=scale)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100


def test_strange_texts_and_a_title() -> None:
    grid = Grid.plane(x=(0, 1), y=(0, 1), size=1)
    file = io.BytesIO()
    panels = [("$x^{ </script> \u6771\u4eac", Density.uniform(grid))]
    draw(panels, caption="$\\frac{ " * 40, path=file, title="\U0001f5fa $ " * 30, units="$")
    picture = Image.open(file)
    assert picture.format == "PNG"
    assert picture.size[1] > picture.size[0]
    assert picture.text == {}  # type: ignore[attr-defined]


def test_what_cannot_be_drawn_is_refused() -> None:
    here, there = (Grid.plane(x=(0, k), y=(0, 1), size=2) for k in (1, 2))
    with pytest.raises(InvalidInput, match="different grids"):
        _picture(Density.uniform(here), Density.uniform(there))
    with pytest.raises(InvalidInput, match="at least one panel"):
        _picture()
    with pytest.raises(InvalidInput, match="no colour scale"):
        _picture(Density.uniform(here), scale="cubic")


def test_a_long_label_takes_more_lines_on_a_low_picture() -> None:
    """So that it does not run into the caption below or the panel beside."""
    grid = Grid.plane(x=(0, 8), y=(0, 1), shape=(2, 16))
    short, long = (
        _picture(Density.uniform(grid), units="share of people" + text)
        for text in ("", " per cell, smoothed by 2 cells")
    )
    assert short.shape[0] == long.shape[0]
    assert short.shape[1] < long.shape[1]
    # The bar, its numbers and its label stay about as high as the map, 4.6 / √8 inches.
    rows = np.flatnonzero((long[:, -int(1.0 * 150) :].min(axis=2) < 200).any(axis=1))
    assert rows[-1] - rows[0] < 150 * (4.6 / np.sqrt(8) + 0.3)


def test_no_global_state_of_pyplot_is_touched() -> None:
    before = "matplotlib.pyplot" in sys.modules
    _picture(Density.uniform(Grid.plane(x=(0, 1), y=(0, 1), size=2)))
    assert ("matplotlib.pyplot" in sys.modules) == before
