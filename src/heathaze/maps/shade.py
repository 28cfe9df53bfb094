"""Colours of maps: colour scales and palettes that are perceptually even and safe for colour-blind readers."""

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
"""The palettes of maps. Lightness grows evenly in each, so they work in grey and for every common colour blindness."""

DECADES = 4
"""A logarithmic scale shows at most this many powers of ten; smaller values get the darkest colour."""

MAX_ASPECT = 12.0
"""The largest ratio of the sides of a drawn map. Longer maps are squeezed; a plane may have any units on its axes."""


class Scale(enum.Enum):
    """The function that turns a value into a position on the colour bar."""

    LINEAR = "linear"
    SQRT = "sqrt"
    LOG = "log"

    @classmethod
    def parse(cls, name: str | Scale) -> Scale:
        """Find a colour scale by its name.

        >>> Scale.parse("sqrt")
        <Scale.SQRT: 'sqrt'>
        """
        try:
            return cls(name)
        except ValueError:
            raise InvalidInput(f"There is no colour scale {name!r}; choose 'linear', 'sqrt' or 'log'.") from None


@dataclass(frozen=True)
class Shade:
    """One colour scale for one or more maps: the value ``top`` gets the brightest colour, ``low`` the darkest.

    Values outside this range are clipped to it.

    >>> shade = Shade.of([[0.0, 0.25], [0.75, 1.0]], "sqrt")
    >>> shade.forward([0.0, 0.25, 1.0, 2.0]).tolist()
    [0.0, 0.5, 1.0, 1.0]
    """

    scale: Scale
    low: float
    top: float

    @classmethod
    def of(cls, values: npt.ArrayLike, scale: str | Scale = Scale.SQRT) -> Shade:
        """Make the colour scale of some values, from zero to the largest value.

        A logarithmic scale starts at the smallest positive value, but at most 4 decades below the largest.

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
        # The bar covers at least one decade, even if all values are equal.
        return cls(kind, min(max(smallest, top * 10.0**-DECADES), top / 10), top)

    def forward(self, values: npt.ArrayLike) -> Floats:
        """Compute the position of each value on the colour bar, from 0 to 1."""
        array = np.clip(np.asarray(values, dtype=np.float64), self.low, self.top)
        if self.scale is Scale.LOG:
            return np.log(array / self.low) / math.log(self.top / self.low)
        return np.sqrt(array / self.top) if self.scale is Scale.SQRT else array / self.top

    def backward(self, positions: npt.ArrayLike) -> Floats:
        """Compute the value at each position on the colour bar, the inverse of :meth:`forward`."""
        array = np.asarray(positions, dtype=np.float64)
        if self.scale is Scale.LOG:
            return self.low * (self.top / self.low) ** array
        return self.top * (array**2 if self.scale is Scale.SQRT else array)

    def ticks(self) -> list[float]:
        """Choose a few round values along the colour bar, not too close to each other, ascending."""
        if self.scale is Scale.LOG:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.top) + 1e-9)
            return [10.0**power for power in range(first, last + 1)]
        ticks = [0.0]
        # Candidates are the values 1, 2 and 5 times powers of ten. A candidate is kept if it is at least an eighth of
        # the bar above the last tick.
        step = 10.0 ** math.floor(math.log10(self.top))
        wanted = [factor * step * 10.0**-power for power in range(3) for factor in (1, 2, 5)]
        for value in sorted(value for value in wanted if value <= self.top * (1 + 1e-9)):
            if float(self.forward(value)) - float(self.forward(ticks[-1])) >= 0.125:
                ticks.append(value)
        return ticks

    def colours(self, values: npt.ArrayLike, palette: str = PALETTES[0]) -> Bytes:
        """Compute the colour of every value: red, green and blue from 0 to 255.

        Args:
            values: The values.
            palette: One of :data:`PALETTES`.
        """
        return colour_table(palette)[np.round(self.forward(values) * 255).astype(np.intp)]


def colour_table(palette: str) -> Bytes:
    """Return the 256 colours of a palette, darkest first.

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
    """Compute the ratio of height to width with which a map is drawn.

    Both are in metres at the middle latitude (equirectangular), in projected units (Web-Mercator), or in the units of
    the plane. The ratio is limited to the range from 1/12 to 12.

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
    """Choose a light and a strong smoothing for pictures of a map: two widths of a Gaussian, in cells.

    A private map is rough where it is uncertain. The paper smooths heat maps by 1/64 of the side, which lies between
    the two widths. A grid whose longer side has fewer than 64 cells is not smoothed.

    >>> sigmas(Grid.plane(x=(0, 1), y=(0, 1), size=256))
    (2.0, 5.0)
    >>> sigmas(Grid.plane(x=(0, 1), y=(0, 1), size=32))
    ()
    """
    side = max(grid.shape)
    return () if side < 64 else (side / 128, side * 2.5 / 128)


def degrees(value: float, positive: str, negative: str, places: int) -> str:
    """Format a coordinate of a map as text, in degrees.

    Args:
        value: The coordinate in degrees.
        positive: Letter of the positive direction.
        negative: Letter of the negative direction.
        places: The number of decimals.

    >>> degrees(-74.05, "E", "W", 2), degrees(0.0, "E", "W", 0)
    ('74.05°W', '0°')
    """
    rounded = round(value, places)
    return f"{abs(rounded):.{places}f}°" + ("" if rounded == 0 else positive if rounded > 0 else negative)


def percent(share: float) -> str:
    """Format a share for the colour bar of a map as text, in percent.

    >>> percent(0.5), percent(0.000123), percent(5e-7), percent(0)
    ('50 %', '0.0123 %', '0.00005 %', '0 %')
    """
    text = f"{100 * share:.3g}"
    return f"{f'{float(text):.{_places(float(text))}f}'.rstrip('0')} %" if "e" in text else f"{text} %"


def _places(value: float) -> int:
    return max(0, 2 - math.floor(math.log10(abs(value))))
