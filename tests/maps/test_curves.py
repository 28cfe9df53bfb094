"""The picture of a plan: looked at pixel by pixel."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from heathaze.errors import InvalidInput
from heathaze.maps.figure import Curve, draw_plan

EPSILONS = [0.25, 0.5, 1, 2, 4]
ORANGE, BLUE = (0xD5, 0x5E, 0x00), (0x00, 0x72, 0xB2)


def _picture(emd: list[float], marked: float = 1, spread: float = 0.1) -> npt.NDArray[np.int64]:
    sim = [1 - value for value in emd]
    curves = [Curve(v, [x * (1 - spread) for x in v], [x * (1 + spread) for x in v]) for v in (emd, sim)]
    file = io.BytesIO()
    draw_plan(EPSILONS, *curves, marked=marked, title="What to expect", caption="In words.", path=file)
    return np.asarray(Image.open(file).convert("RGB")).astype(np.int64)


def _where(picture: npt.NDArray[np.int64], colour: tuple[int, int, int]) -> npt.NDArray[np.int64]:
    return np.argwhere(np.abs(picture - colour).sum(axis=2) < 12)


def test_the_error_falls_on_the_left_and_the_similarity_rises_on_the_right() -> None:
    picture = _picture([0.5, 0.4, 0.3, 0.2, 0.1])
    middle = picture.shape[1] / 2
    left, right = _where(picture, ORANGE), _where(picture, BLUE)
    assert left[:, 1].max() < middle < right[:, 1].min()
    # The curve alone, without the legend: its first and last columns.
    first, last = (left[left[:, 1] == column, 0].mean() for column in (left[:, 1].min(), left[:, 1].max()))
    assert first < last


def test_the_given_epsilon_is_marked() -> None:
    """A large dot where the curve meets the marked epsilon; it moves with it."""
    places = []
    for marked in (0.5, 2):
        dots = _where(_picture([0.3] * 5, marked), ORANGE)
        columns, heights = np.unique(dots[:, 1], return_counts=True)
        places.append(columns[heights.argmax()])
    assert places[1] - places[0] > 150


def test_a_wider_spread_makes_a_wider_band() -> None:
    bands = []
    for spread in (0.05, 0.4):
        picture = _picture([0.3, 0.28, 0.26, 0.24, 0.22], spread=spread)
        tint = np.abs(picture - (246, 219, 199)).sum(axis=2) < 12
        bands.append(int(tint[:, : picture.shape[1] // 2].sum()))
    assert bands[1] > 3 * bands[0] > 0


def test_an_epsilon_that_is_not_drawn_cannot_be_marked() -> None:
    with pytest.raises(InvalidInput, match="none of those drawn"):
        _picture([0.3] * 5, marked=3)
