"""From values to colours: perceptually even, safe for colour-blind readers, on scales that allow zeros."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heathaze.domain.grid import Grid
from heathaze.domain.projection import Projection
from heathaze.errors import InvalidInput
from heathaze.types import Floats

Bytes = npt.NDArray[np.uint8]

PALETTES = ("inferno", "cividis", "viridis")
"""Lightness grows evenly in all three, so they also work in grey and for every common colour blindness."""

DECADES = 4
"""A logarithmic scale shows at most this many powers of ten; smaller values take the lowest colour."""

MAX_ASPECT = 12.0
"""A map with a larger ratio of sides is drawn squeezed: a plane may have seconds on one axis and years on the other."""


class Scale(enum.Enum):
    """How a value becomes a position on the colour bar."""

    LINEAR = "linear"
    SQRT = "sqrt"
    LOG = "log"

    @classmethod
    def parse(cls, name: str | Scale) -> Scale:
        """A scale by its name.

        >>> Scale.parse("sqrt")
        <Scale.SQRT: 'sqrt'>
        """
        try:
            return cls(name)
        except ValueError:
            raise InvalidInput(f"There is no colour scale {name!r}; choose 'linear', 'sqrt' or 'log'.") from None


@dataclass(frozen=True)
class Shade:
    """One colour scale for one or more maps: ``top`` has the brightest colour, ``low`` and all below the darkest.

    >>> shade = Shade.of([[0.0, 0.25], [0.75, 1.0]], "sqrt")
    >>> shade.forward([0.0, 0.25, 1.0, 2.0]).tolist()
    [0.0, 0.5, 1.0, 1.0]
    """

    scale: Scale
    low: float
    top: float

    @classmethod
    def of(cls, values: npt.ArrayLike, scale: str | Scale = Scale.SQRT) -> Shade:
        """From zero to the largest value; a logarithmic scale starts at the smallest positive value, within 4 decades.

        Args:
            values: The values to be shown.
            scale: ``"linear"``, ``"sqrt"`` or ``"log"``.
        """
        kind = Scale.parse(scale)
        array = np.asarray(values, dtype=np.float64)
        top = float(array.max(initial=0.0))
        if top <= 0:
            return cls(kind, 0.0, 1.0) if kind is not Scale.LOG else cls(kind, 10.0**-DECADES, 1.0)
        if kind is not Scale.LOG:
            return cls(kind, 0.0, top)
        smallest = float(array[array > 0].min())
        # One value only: leave one decade below it, so that the bar has a length.
        return cls(kind, min(max(smallest, top * 10.0**-DECADES), top / 10), top)

    def forward(self, values: npt.ArrayLike) -> Floats:
        """Position on the colour bar, 0 to 1."""
        array = np.clip(np.asarray(values, dtype=np.float64), self.low, self.top)
        if self.scale is Scale.LOG:
            return np.log(array / self.low) / math.log(self.top / self.low)
        return np.sqrt(array / self.top) if self.scale is Scale.SQRT else array / self.top

    def backward(self, positions: npt.ArrayLike) -> Floats:
        """Undo :meth:`forward` between ``low`` and ``top``."""
        array = np.asarray(positions, dtype=np.float64)
        if self.scale is Scale.LOG:
            return self.low * (self.top / self.low) ** array
        return self.top * (array**2 if self.scale is Scale.SQRT else array)

    def ticks(self) -> list[float]:
        """A few round values along the bar, not too close to each other, ascending."""
        if self.scale is Scale.LOG:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.top) + 1e-9)
            return [10.0**power for power in range(first, last + 1)]
        ticks = [0.0]
        # Down from the top in the 1-2-5 series, keeping what is at least an eighth of the bar above the tick below.
        step = 10.0 ** math.floor(math.log10(self.top))
        wanted = [factor * step * 10.0**-power for power in range(3) for factor in (1, 2, 5)]
        for value in sorted(value for value in wanted if value <= self.top * (1 + 1e-9)):
            if float(self.forward(value)) - float(self.forward(ticks[-1])) >= 0.125:
                ticks.append(value)
        return ticks

    def colours(self, values: npt.ArrayLike, palette: str = PALETTES[0]) -> Bytes:
        """Red, green and blue of every value, 0 to 255.

        Args:
            values: The values.
            palette: One of :data:`PALETTES`.
        """
        return colour_table(palette)[np.round(self.forward(values) * 255).astype(np.intp)]


def colour_table(palette: str) -> Bytes:
    """The 256 colours of a palette, darkest first.

    Args:
        palette: One of :data:`PALETTES`.

    Returns:
        (256, 3) numbers from 0 to 255.
    """
    import matplotlib

    if palette not in PALETTES:
        raise InvalidInput(f"There is no palette {palette!r}; choose {', '.join(PALETTES)}.")
    colours = matplotlib.colormaps[palette](np.arange(256), bytes=True)
    return np.asarray(colours, dtype=np.uint8)[:, :3]


def height_over_width(grid: Grid) -> float:
    """Height of the map over its width, as it is to be drawn.

    Metres over metres at the middle latitude (equirectangular), projected over projected (Web-Mercator), units over
    units (plane); never beyond 12 to 1.

    >>> round(height_over_width(Grid.over(lon=(0, 1), lat=(59.5, 60.5), size=8)), 2)
    2.0
    """
    low, high = (float(y) for y in grid.projection.forward(grid.y))
    height, width = high - low, grid.x[1] - grid.x[0]
    if grid.projection is Projection.WEB_MERCATOR:
        width = math.radians(width)
    elif grid.projection is Projection.EQUIRECTANGULAR:
        width *= math.cos(math.radians((grid.y[0] + grid.y[1]) / 2))
    return min(max(height / width, 1 / MAX_ASPECT), MAX_ASPECT)


def sigmas(grid: Grid) -> tuple[float, ...]:
    """Widths in cells of a light and a strong smoothing for pictures; none on a grid below 64 cells a side.

    A private map is rough where it is uncertain. The paper's heat map smooths by 1/64 of the side, which lies between.

    >>> sigmas(Grid.plane(x=(0, 1), y=(0, 1), size=256))
    (2.0, 5.0)
    >>> sigmas(Grid.plane(x=(0, 1), y=(0, 1), size=32))
    ()
    """
    side = max(grid.shape)
    return () if side < 64 else (side / 128, side * 2.5 / 128)


def degrees(value: float, positive: str, negative: str, places: int) -> str:
    """A coordinate as text.

    Args:
        value: Degrees.
        positive: Letter of the positive direction.
        negative: Letter of the negative direction.
        places: Decimals.

    >>> degrees(-74.05, "E", "W", 2), degrees(0.0, "E", "W", 0)
    ('74.05°W', '0°')
    """
    rounded = round(value, places)
    return f"{abs(rounded):.{places}f}°" + ("" if rounded == 0 else positive if rounded > 0 else negative)


def percent(share: float) -> str:
    """A share as text, in percent.

    >>> percent(0.5), percent(0.000123), percent(5e-7), percent(0)
    ('50 %', '0.0123 %', '0.00005 %', '0 %')
    """
    text = f"{100 * share:.3g}"
    return f"{f'{float(text):.{_places(float(text))}f}'.rstrip('0')} %" if "e" in text else f"{text} %"


def _places(value: float) -> int:
    return max(0, 2 - math.floor(math.log10(abs(value))))
