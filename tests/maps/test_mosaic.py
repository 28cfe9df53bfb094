"""Pictures of certain squares: every square has the colour of its class, and doubt looks like nothing else."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from heathaze.domain.density import Density
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.maps.backdrop import COLOURS, Backdrop, Shape
from heathaze.maps.figure import new_figure, save_figure
from heathaze.maps.mosaic import (
    _ground_texts,
    _legend_texts,
    _sizes,
    _table,
    draw_glow,
    draw_mosaic,
    draw_squares,
    legend_length,
)
from heathaze.maps.sheet import PAPER, Look, Sheet, Words
from heathaze.maps.squares import HATCHING, RAMPS, UNKNOWN, WHITE, Squares, ramp
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
    draw_mosaic(axes, _squares(), Look(theme=theme), 1.6, 1.6)
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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_unknown_squares_of_every_size_look_alike_from_afar(theme: str) -> None:
    """Small ones were drawn in the colour of the lines once, which the legend does not have."""
    squares = _squares()
    squares.kinds[6:] = UNKNOWN  # single cells
    figure = new_figure(1.6, 1.6)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    draw_mosaic(axes, squares, Look(theme=theme), 1.6, 1.6)
    file = io.BytesIO()
    save_figure(figure, file, dpi=200)
    picture = np.asarray(Image.open(file).convert("RGB")) / 255
    large, small = picture[5:75, 240:315].mean(axis=(0, 1)), picture[250:315, 250:315].mean(axis=(0, 1))
    ground, lines = (np.array(to_rgb(colour)) for colour in HATCHING[theme])
    assert np.abs(small - large).max() < 0.4 * np.abs(lines - ground).max()
    assert np.abs(small - to_rgb(PAPER[theme])).min() > 0.05


def test_the_legend_says_what_is_there() -> None:
    squares = _squares()
    texts = dict(_legend_texts(squares))
    assert list(texts) == [2, 1, 0, WHITE, UNKNOWN]
    assert [texts[kind][0] for kind in (2, 1, 0)] == ["30 and more", "10 to 30", "3 to 10"]
    assert texts[WHITE] == ["under 3: nobody, or thinly", "spread (about 1 people in all)"]
    assert texts[UNKNOWN] == ["unknown: may be few or many", "(most of this area: below 40)"]
    table = _table(squares)
    assert table[1][2] == "about 500 (250 to 1,000)"
    assert len(table) == 1 + 6
    empty = Squares(GRID, (1.0,), "people per km²", *np.array([[0], [0], [WHITE]]), *np.zeros((4, 1)), 0.9)  # type: ignore[misc]
    assert _table(empty) == _table(empty)[:1]
    assert [kind for kind, _ in _legend_texts(empty)] == [0, WHITE]


def test_the_legend_has_the_smallest_and_the_largest_size_of_the_map() -> None:
    """The coloured squares are half, a quarter and 1/64 of the map; the white and the hatched one do not count."""
    squares = _squares()
    small, middle, large = _sizes(squares, 2.0, 2.0)
    assert (small.width, small.height, small.lines) == (2 / 64, 2 / 64, ("210 m",))
    assert (middle.width, middle.lines) == (0.5, ("3.3 km",))
    assert (large.width, large.lines) == (1.0, ("6.6 km",))
    assert small.to_scale
    assert large.to_scale
    # On a larger map the largest size does not fit; it is drawn smaller and says so.
    small, middle, large = _sizes(squares, 4.0, 4.0)
    assert [one.to_scale for one in (small, middle, large)] == [True, True, False]
    assert (small.width, middle.width) == (4 / 64, 4 / 4)
    assert large.lines == ("6.6 km", "(drawn smaller)")
    assert large.width < 4 / 2
    # Without room for three, the ends stay.
    small, large = _sizes(squares, 6.8, 5.2)
    assert (small.lines, large.lines) == (("210 m",), ("6.6 km", "(drawn smaller)"))
    # A map of few people has one size, or two.
    few = Squares(GRID, (1.0,), "people per km²", *np.array([[2] * 16, range(16), [0] * 16]), *np.ones((4, 16)), 0.9)  # type: ignore[misc]
    assert [(one.width, one.lines) for one in _sizes(few, 4.0, 4.0)] == [(1.0, ("3.3 km",))]


@pytest.mark.parametrize("style", ["squares", "report"])
def test_sizes_in_the_legend_have_the_scale_of_the_map(style: str) -> None:
    """The legend of the drawn picture has a square that is exactly as large as a square of the map."""
    squares, sheets = _squares(), []

    class Kept(Sheet):
        def save(self, *_: object) -> None:
            sheets.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heathaze.maps.mosaic.Sheet", Kept)
        draw_squares(squares, WORDS, Look(style=style), io.BytesIO())
    (sheet,) = sheets
    shown = sheet.axes.get_window_extent()
    sizes = [axes.get_window_extent() for axes in sheet.figure.axes[1:]]
    assert any(
        one.width == pytest.approx(shown.width / 64) and one.height == pytest.approx(shown.height / 64) for one in sizes
    )
    # Nothing in the column leaves the paper, or reaches the text below.
    assert max(one.x1 for one in sizes) < sheet.figure.bbox.width
    renderer = sheet.figure.canvas.get_renderer()
    texts = {text.get_text(): text.get_window_extent(renderer) for text in sheet.figure.texts}
    (densest,) = (where for text, where in texts.items() if text.startswith("about 500 people per km²"))
    below = "Densest places" if style == "report" else "A plain sentence."
    assert densest.y0 > texts[below].y1
    assert "On another map, the same colour can mean\nanother density: compare the numbers." in texts


def test_the_legend_names_water_and_what_lies_outside() -> None:
    squares = _squares()
    district = Shape("border", True, (np.array([[0, 0], [0.5, 0], [0.5, 1], [0, 1.0]]),))
    assert _ground_texts(squares, None) == []
    assert _ground_texts(squares, island(GRID)) == [("water", ["water", "(no square on it: under 3)"])]
    assert _ground_texts(squares, Backdrop((district,), (), 1.0)) == [
        ("outside", ["outside the outlines: water", "or other places", "(no square on it: under 3)"])
    ]
    heights = [legend_length(squares, backdrop) for backdrop in (None, island(GRID))]
    assert heights[1] > heights[0]


def test_water_and_outside_are_no_class() -> None:
    """For every reader, their tints differ from paper, from hatching and from each class; matrices of Machado 2009."""
    sights = (
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    )
    to_xyz = np.array([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]])

    def lab(colour: str, sight: object) -> np.ndarray:
        channels = np.array(to_rgb(colour))
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        xyz = to_xyz @ np.clip(np.array(sight) @ linear, 0, 1)
        x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    for theme in ("light", "dark"):
        for ground, sight in itertools.product(("water", "outside"), sights):
            away = [
                np.linalg.norm(lab(COLOURS[theme][ground], sight) - lab(other, sight))
                for other in (PAPER[theme], *RAMPS[theme], HATCHING[theme][0])
            ]
            # Hatching differs by its lines too; a difference of 2.3 is just noticeable.
            assert min(away[:-1]) > 8, (theme, ground)
            assert away[-1] > 4, (theme, ground)


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


def test_the_glowing_map_marks_water() -> None:
    """The image hides tints, so level lines lie above it: more than coasts and names alone."""
    density = Density.from_mass(GRID, np.ones(GRID.shape))
    wave = tuple(bytes.fromhex(COLOURS["dark"]["wave"][1:]))
    shares = []
    for kind in ("land", "border"):
        backdrop = Backdrop(tuple(replace(shape, kind=kind) for shape in island(GRID).shapes if shape.closed), (), 1.0)
        picture = io.BytesIO()
        draw_glow(density, 5e4, "people per km²", WORDS, Look(style="glow", dpi=300, backdrop=backdrop), picture)
        pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
        shares.append((np.abs(pixels - wave).max(axis=2) < 12).mean())
    assert shares[0] > 0.002
    assert shares[1] < 0.0002


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
        ({"dpi": 0}, "dpi"),
        ({"dpi": 5000}, "dpi"),
    ],
)
def test_looks_that_do_not_exist(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Look(**wrong)  # type: ignore[arg-type]
