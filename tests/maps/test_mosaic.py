"""Pictures of certain squares: every square has the colour of its class, and doubt looks like nothing else."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.maps.backdrop import COLOURS
from heathaze.maps.figure import new_figure, save_figure
from heathaze.maps.mosaic import (
    PAPER,
    Look,
    Words,
    _draw_mosaic,
    _legend_texts,
    _sizes,
    _table,
    draw_glow,
    draw_squares,
)
from heathaze.maps.squares import HATCHING, UNKNOWN, WHITE, Squares, ramp
from tests.maps.mosaics import island

WORDS = Words("Density of people", "About 900 people.", "A plain sentence.", "The exact guarantee.", "Published today.")
GRID = Grid.over(lon=(9.9, 10.1), lat=(53.5, 53.62), size=64)


def _squares(grid: Grid = GRID) -> Squares:
    """Four quarters: white, unknown, class 0, and one that is divided into classes 1 and 2 and single cells."""
    levels = np.array([1, 1, 1, 2, 2, 2, *[grid.depth] * 4 ** (grid.depth - 2)])
    first_cell = 15 << (2 * (grid.depth - 2))
    codes = np.array([0, 1, 2, 12, 13, 14, *range(first_cell, first_cell + 4 ** (grid.depth - 2))])
    kinds = np.array([WHITE, UNKNOWN, 0, 1, 2, 1, *[2] * 4 ** (grid.depth - 2)])
    people = np.array([1.0, 20, 40, 150, 500, 120, *np.linspace(2, 3, 4 ** (grid.depth - 2))])
    return Squares(
        grid, (3.0, 10.0, 30.0), "people per km²", levels, codes, kinds, people, people / 2, people * 2, people, 0.9
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_square_has_the_colour_of_its_class(theme: str) -> None:
    """The map alone, 320 × 320 pixels on 1.6 inches; a cell is 0.025 inches wide, so single cells have no seam."""
    figure = new_figure(1.6, 1.6)
    figure.set(facecolor=PAPER[theme])
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    _draw_mosaic(axes, _squares(), Look(theme=theme), 1.6, 1.6)
    axes.texts[0].set_visible(False)  # the word "densest" and its line
    file = io.BytesIO()
    save_figure(figure, file, dpi=200)
    picture = np.asarray(Image.open(file).convert("RGB")) / 255
    colours = [np.array(to_rgb(colour)) for colour in ramp(3, theme)]

    def at(row: int, col: int) -> np.ndarray:
        return np.asarray(picture[row, col])

    assert np.allclose(at(80, 80), to_rgb(PAPER[theme]))
    assert np.allclose(at(240, 80), colours[0], atol=0.01)
    assert np.allclose(at(200, 200), colours[1], atol=0.01)
    assert np.allclose(at(200, 280), colours[2], atol=0.01)
    # The seam between two squares of one class is paper; between single cells there is none.
    assert (np.abs(picture[160:240, 160:240] - colours[1]).max(axis=2) > 0.1).mean() < 0.1
    assert np.abs(picture[244:316, 244:316] - colours[2]).max() < 0.02
    # Hatching has two colours, its ground and its lines, and covers all of the unknown square.
    unknown = picture[5:155, 165:315].reshape(-1, 3)
    ground, lines = (np.array(to_rgb(colour)) for colour in HATCHING[theme])
    assert 0.3 < np.isclose(unknown, ground, atol=0.01).all(axis=1).mean() < 0.9
    nearer = np.abs(unknown - lines).sum(axis=1) < np.abs(unknown - ground).sum(axis=1)
    assert nearer.reshape(150, 150)[:, :75].mean() == pytest.approx(nearer.mean(), abs=0.05)
    assert nearer.mean() > 0.05


def test_the_legend_says_what_is_there() -> None:
    squares = _squares()
    texts = dict(_legend_texts(squares))
    assert list(texts) == [2, 1, 0, WHITE, UNKNOWN]
    assert [texts[kind][0] for kind in (2, 1, 0)] == ["30 and more", "10 to 30", "3 to 10"]
    assert texts[WHITE] == ["under 3: nobody, or thinly", "spread (about 1 people in all)"]
    assert texts[UNKNOWN][0] == "unknown: may be few or many"
    sizes = _sizes(squares, 6.0, 6.0)
    assert [round(width, 3) for width, _, _ in sizes] == [round(6 / 64, 3)]
    assert sizes[0][2] == "210 m"
    table = _table(squares)
    assert table[1][2] == "about 500 (250 to 1,000)"
    assert len(table) == 1 + 6
    empty = Squares(GRID, (1.0,), "people per km²", *np.array([[0], [0], [WHITE]]), *np.zeros((4, 1)), 0.9)  # type: ignore[misc]
    assert _table(empty) == _table(empty)[:1]
    assert [kind for kind, _ in _legend_texts(empty)] == [0, WHITE]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
@pytest.mark.parametrize("style", ["squares", "report"])
def test_pictures_of_every_shape_are_drawn(kind: str, style: str) -> None:
    for grid in (GRID.resized((16, 16)), Grid.plane(x=(0, 4000), y=(0, 100), shape=(16, 16))):
        file = io.BytesIO()
        draw_squares(_squares(grid), WORDS, Look(title="A $title$ in 東京", style=style, source="a city"), file, kind)
        assert len(file.getvalue()) > 5_000


def test_dots_per_inch_and_paper() -> None:
    sizes = []
    for dpi, theme in ((50, "light"), (100, "dark")):
        file = io.BytesIO()
        draw_squares(_squares(), WORDS, Look(dpi=dpi, theme=theme), file)
        image = Image.open(file).convert("RGB")
        sizes.append(image.size)
        assert np.allclose(np.array(image.getpixel((1, 1))) / 255, to_rgb(PAPER[theme]), atol=0.01)
    assert sizes[1] == pytest.approx(np.array(sizes[0]) * 2, abs=2)


def test_the_glowing_map_is_dark_and_bright_where_people_are(tmp_path: Path) -> None:
    values = np.full(GRID.shape, 1e-6)
    values[20:24, 30:34] = 1.0
    path = tmp_path / "glow.png"
    draw_glow(Density.from_mass(GRID, values), 5e4, "people per km²", WORDS, Look(style="glow", dpi=60), path)
    picture = np.asarray(Image.open(path).convert("L"))
    assert np.median(picture) < 40
    assert picture.max() > 220


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_backdrop_is_drawn_onto_the_panel(theme: str) -> None:
    sizes = []
    for backdrop in (None, island(GRID)):
        picture = io.BytesIO()
        draw_squares(_squares(), WORDS, Look(backdrop=backdrop, theme=theme), picture)
        water = tuple(bytes.fromhex(COLOURS[theme]["water"][1:]))
        sizes.append((np.asarray(Image.open(picture).convert("RGB")) == water).all(axis=2).mean())
    assert sizes[0] < 0.001
    assert sizes[1] > 0.01


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"style": "oil"}, "There is no style 'oil'; choose squares, glow, pair or report"),
        ({"theme": "pink"}, "There is no theme 'pink'"),
        ({"style": "glow", "theme": "light"}, "The style glow has no light theme"),
        ({"style": "pair", "theme": "dark"}, "The style pair has no dark theme"),
        ({"dpi": 0}, "dpi"),
        ({"dpi": 5000}, "dpi"),
    ],
)
def test_looks_that_do_not_exist(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Look(**wrong)  # type: ignore[arg-type]
