"""Values to colours."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.maps.shade import PALETTES, Scale, Shade, colour_table, degrees, height_over_width, percent, sigmas

SCALES = [scale.value for scale in Scale]
positive = st.floats(1e-12, 1e6)


@pytest.mark.parametrize("scale", SCALES)
@given(values=st.lists(st.one_of(st.just(0.0), positive), min_size=1, max_size=20))
def test_order_is_kept_and_everything_fits_the_bar(scale: str, values: list[float]) -> None:
    shade = Shade.of(values, scale)
    positions = shade.forward(sorted(values))
    assert (np.diff(positions) >= 0).all()
    assert ((positions >= 0) & (positions <= 1)).all()
    assert shade.forward(0.0) == 0
    if max(values) > 0:
        assert shade.forward(max(values)) == pytest.approx(1)


@pytest.mark.parametrize("scale", SCALES)
@given(top=positive, part=st.floats(0, 1))
def test_backward_undoes_forward(scale: str, top: float, part: float) -> None:
    shade = Shade.of([top / 100, top], scale)
    value = shade.low + part * (shade.top - shade.low)
    assert shade.backward(shade.forward(value)) == pytest.approx(value, rel=1e-6, abs=top * 1e-12)


@pytest.mark.parametrize("scale", SCALES)
@given(top=positive, decades=st.floats(0, 8))
def test_ticks_are_few_ascending_and_on_the_bar(scale: str, top: float, decades: float) -> None:
    shade = Shade.of([0.0, top * 10**-decades, top], scale)
    ticks = shade.ticks()
    assert ticks == sorted(set(ticks))
    assert 1 <= len(ticks) <= 9
    assert all(shade.low * (1 - 1e-6) <= tick <= shade.top * (1 + 1e-6) for tick in ticks)


@pytest.mark.parametrize("scale", SCALES)
def test_maps_without_mass_or_with_one_value(scale: str) -> None:
    assert Shade.of([0.0, 0.0], scale).forward([0.0, 0.0]).tolist() == [0, 0]
    assert Shade.of([0.5], scale).forward([0.5]).tolist() == [1]
    assert math.isfinite(Shade.of([], scale).top)


def test_a_logarithm_shows_four_decades() -> None:
    shade = Shade.of([1e-12, 1e-3, 1.0], "log")
    assert shade.low == pytest.approx(1e-4)
    assert shade.forward([1e-12, 1e-4, 1e-2, 1.0]).tolist() == pytest.approx([0, 0, 0.5, 1])


@pytest.mark.parametrize("palette", PALETTES)
def test_lightness_grows_along_every_palette(palette: str) -> None:
    """So the order is seen whatever colours the eye can tell apart, and in grey."""
    table = colour_table(palette).astype(float) / 255
    linear = np.where(table <= 0.04045, table / 12.92, ((table + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance[::8]) > 0).all()
    assert luminance[-1] - luminance[0] > 0.5
    assert Shade.of([0, 1.0]).colours([[0.0, 1.0]], palette).tolist() == [
        [colour_table(palette)[0].tolist(), colour_table(palette)[255].tolist()]
    ]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InvalidInput, match="choose 'linear', 'sqrt' or 'log'"):
        Shade.of([1.0], "cubic")
    with pytest.raises(InvalidInput, match="choose inferno, cividis, viridis"):
        colour_table("jet")


def test_shapes_are_drawn_in_metres() -> None:
    assert height_over_width(Grid.over(lon=(0, 1), lat=(-0.5, 0.5), size=3)) == pytest.approx(1)
    assert height_over_width(Grid.over(lon=(0, 2), lat=(59.5, 60.5), size=3)) == pytest.approx(1)
    assert height_over_width(Grid.over(lon=(0, 1), lat=(0, 0.5), shape=(7, 3))) == pytest.approx(0.5, rel=1e-4)
    assert height_over_width(Grid.plane(x=(0, 320), y=(0, 240), shape=(3, 4))) == 0.75
    world = Grid.over(lon=(-180, 180), lat=(-85.051128, 85.051128), size=4, projection="web-mercator")
    assert height_over_width(world) == pytest.approx(1, rel=1e-6)
    assert height_over_width(Grid.plane(x=(0, 1), y=(0, 1e6), size=2)) == 12


def test_numbers_for_the_reader() -> None:
    assert degrees(40.9, "N", "S", 1) == "40.9°N"
    assert degrees(-0.001, "N", "S", 2) == "0.00°"
    assert [percent(share) for share in (1, 0.0005, 1.23456e-9, 0)] == ["100 %", "0.05 %", "0.000000123 %", "0 %"]
    assert sigmas(Grid.plane(x=(0, 1), y=(0, 1), shape=(3, 128))) == (1.0, 2.5)
