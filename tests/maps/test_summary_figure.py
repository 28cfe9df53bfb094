"""The picture of a purchase: looked at pixel by pixel."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from heathaze.errors import InvalidInput
from heathaze.maps.summary_figure import COLOURS, Seller, _fewer, draw_purchase, principal_axes, some_others

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


def test_a_longer_distance_is_a_longer_bar() -> None:
    grey = "#6b7280"
    bars = [
        _count(_picture([_seller("one", 1, 5)], {"this purchase": 1e-3, "uniform": apart}), grey, 0.6)
        for apart in (2e-3, 1.0)
    ]
    assert bars[1] > 1.3 * bars[0]


def test_many_owners_with_odd_names_fit() -> None:
    names = ["_hidden", r"$\frac$ ^_{", "a" * 200, *(f"owner {k}" for k in range(40))]
    picture = _picture([_seller(name, k, k % 9) for k, name in enumerate(names)], title="$x_{", caption="word " * 200)
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
