"""The picture of a purchase: looked at pixel by pixel."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.figure import Figure
from PIL import Image

from heathaze.errors import InvalidInput
from heathaze.marketplace.figure import (
    COLOURS,
    Seller,
    _draw_distances,
    _fewer,
    draw_purchase,
    principal_axes,
    some_others,
)

Picture = npt.NDArray[np.int64]


def _seller(name: str, seed: int, bought: int, at: float = 0.0) -> Seller:
    hashes = np.random.default_rng(seed).normal(at, 0.3, size=(200, 6))
    return Seller(name, hashes[:bought], hashes[bought:])


def _picture(sellers: list[Seller], distances: dict[str, float] | None = None, **words: str) -> Picture:
    target = np.random.default_rng(0).normal(0, 0.3, size=(80, 6))
    told = {"title": "A purchase", "caption": "Not private."} | words
    file = io.BytesIO()
    draw_purchase(target, sellers, distances or {"this purchase": 1e-3, "uniform": 1e-1}, path=file, **told)
    image = Image.open(file)
    assert "Software" not in image.info
    return np.asarray(image.convert("RGB")).astype(np.int64)


def _count(picture: Picture, colour: str, left: float = 0.0, right: float = 1.0) -> int:
    wanted = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    width = picture.shape[1]
    part = picture[:, int(left * width) : int(right * width)]
    return int((np.abs(part - wanted).sum(axis=2) < 12).sum())


def test_bars_are_as_long_as_purchases() -> None:
    picture = _picture([_seller("one", 1, 150), _seller("two", 2, 50)])
    long, short = (_count(picture, colour, 0.6) for colour in COLOURS[:2])
    assert long == pytest.approx(3 * short, rel=0.05)


def test_bought_points_are_bright_on_the_left() -> None:
    few, many = (_count(_picture([_seller("one", 1, bought)]), COLOURS[0], 0, 0.55) for bought in (5, 100))
    assert many > 5 * few > 0


def _dots(distances: dict[str, float]) -> list[float]:
    """Where the dots of the lower right are, from left to right over the width, from the topmost on."""
    picture = _picture([_seller("one", 1, 5)], distances)
    tall, wide, _ = picture.shape
    found = []
    for colour in ("#1f2328", "#6b7280"):
        wanted = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
        is_dot = np.abs(picture[tall // 2 :, int(0.68 * wide) :] - wanted).sum(axis=2) < 12
        # Letters and axes are thin; only dots are filled over several pixels in both directions.
        filled = np.lib.stride_tricks.sliding_window_view(is_dot, (8, 8)).all(axis=(2, 3))
        found.append(float(np.nonzero(filled)[1].mean() / wide))
    return found


def test_dots_are_as_far_apart_as_distances_on_a_logarithmic_scale() -> None:
    near, far = _dots({"this purchase": 1e-3, "uniform": 1e-2}), _dots({"this purchase": 1e-3, "uniform": 1.0})
    assert near[0] < near[1]
    room = [np.log10(decades * 1.8 * 4) for decades in (10, 1000)]
    apart = [(right - left) * width for (left, right), width in zip((near, far), room, strict=True)]
    assert apart[1] == pytest.approx(3 * apart[0], rel=0.03)


@pytest.mark.parametrize("distances", [{"one": 2.1e-3, "two": 2.2e-3}, {"one": 1e-9, "two": 1.0}, {"one": 0.0}])
def test_the_axis_of_distances_has_ticks(distances: dict[str, float]) -> None:
    axes = Figure().add_subplot()
    _draw_distances(axes, distances, "the target")
    low, high = axes.get_xlim()
    assert 2 <= sum(low <= tick <= high for tick in axes.get_xticks()) <= 12
    assert axes.get_title("left") == "How far from the target"


def test_many_owners_with_odd_names_fit() -> None:
    names = ["_hidden", r"$\frac$ ^_{", "a" * 200, *(f"owner {k}" for k in range(40))]
    sellers = [_seller(name, k, k % 9) for k, name in enumerate(names)]
    picture = _picture(sellers, title="$x_{", caption="word " * 200, measured="rows like the target")
    border = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    assert (border == 255).all()
    assert picture.shape[0] > _picture([_seller("one", 1, 5)]).shape[0]


def test_of_very_many_owners_the_smallest_are_one() -> None:
    sellers = _fewer([_seller(f"owner {k}", k, 1 + (k == 70)) for k in range(100)])
    assert len(sellers) == 24
    assert (sellers[-1].name, len(sellers[-1].bought)) == ("77 others", 77)
    assert "owner 70" in {seller.name for seller in sellers}


def test_a_distance_of_zero_and_an_owner_without_points() -> None:
    nobody = Seller("nobody", np.empty((0, 6)), np.empty((0, 6)))
    picture = _picture([nobody, _seller("one", 1, 20)], {"this purchase": 0.0})
    assert _count(picture, COLOURS[0], 0.6) == 0
    assert _count(picture, COLOURS[1], 0.6) > 0


def test_the_axes_are_those_in_which_the_target_varies_most() -> None:
    rng = np.random.default_rng(4)
    points = rng.normal(size=(500, 3)) * [0.1, 5.0, 1.0] + 7
    middle, axes = principal_axes(points)
    assert middle == pytest.approx([7, 7, 7], abs=1)
    assert np.abs(axes).round(1).tolist() == [[0, 0], [1, 0], [0, 1]]
    assert (axes[[1, 2], [0, 1]] > 0).all()


def test_others_are_thinned_evenly_and_hold_none_that_was_bought() -> None:
    bought = np.arange(0, 10_000, 7)
    rows = some_others(10_000, bought)
    assert len(rows) <= 800
    assert not np.isin(rows, bought).any()
    assert np.diff(rows).max() < 30


@pytest.mark.parametrize("which", ["target", "sellers", "distances"])
def test_nothing_to_draw(which: str) -> None:
    arguments = {"target": np.zeros((3, 6)), "sellers": [_seller("one", 1, 2)], "distances": {"this": 1.0}}
    arguments[which] = arguments[which][:0] if which == "target" else type(arguments[which])()
    with pytest.raises(InvalidInput, match="needs a target, an owner and a distance"):
        draw_purchase(**arguments, title="", caption="", path=io.BytesIO())  # type: ignore[arg-type]
