"""Geo-indistinguishability: weights that fall with the distance from the true cell, for a privacy loss per metre.

Under geo-indistinguishability ε is a price for each unit of length: two positions at distance d have a privacy loss of
at most ε · d. The proof needs a distance between cells that is a metric, depends only on the offset of the two cells,
and is never larger than the true distance of their middles. ``planar_laplace.md`` proves that :func:`cell_lengths`
gives such a distance.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from heathaze.domain.grid import Grid
from heathaze.domain.projection import EARTH_RADIUS_METRES, Projection
from heathaze.errors import InvalidInput, PromiseBroken
from heathaze.local.disk_area import MAX_FRAME, mirrored
from heathaze.local.weights import LARGEST_TOTAL
from heathaze.privacy.guarantee import Adjacency
from heathaze.privacy.loss import Number, exact
from heathaze.types import Booleans, Integers

MAX_CUTOFF = 256
"""The longest cutoff (the distance beyond which weights are equal), in cells."""

LARGEST_BASE = 0.01
"""With the default cutoff, at most this share of all weight is spread evenly over the outputs.

The share may be larger if the cutoff would have to be longer than allowed.
"""

_FINEST, _COARSEST = 40, 28
"""The smallest weight is a whole number from 2^28 to 2^40; these are the exponents."""

_ROUNDING = Fraction(2, 2**_COARSEST)
"""η: an upper bound on how much rounding changes the difference of the logarithms of two weights."""

_DEEPEST = 43
"""The largest weight is at most e^43 times the smallest weight, so that all weights fit into 62 bits."""


def adjacency_by_length(grid: Grid) -> Adjacency:
    """The adjacency of geo-indistinguishability: ε per metre on the globe, ε per unit of length on a plane."""
    return Adjacency.PER_METRE if grid.projection.is_geographic else Adjacency.PER_LENGTH


def cell_lengths(grid: Grid) -> tuple[Fraction, Fraction]:
    """Height h and width w of a cell for a lower bound on distances, in metres or the plane's unit of length.

    If two cells are i rows and j columns apart, √((i·h)² + (j·w)²) is at most the distance of their middles. On a plane
    h and w are exact. On the globe h and w are height and width of the smallest cell, multiplied by

        s = sin(D/2) / (D/2),   where D is the larger extent of the map in radians.

    The factor s is needed because the proof bounds the length of the way on the Earth's surface from below by the
    length of the straight line through the Earth.

    Returns:
        Height and width, in metres on the globe, in the unit of length on a plane.

    >>> [float(length) for length in cell_lengths(Grid.plane(x=(0, 30), y=(0, 10), size=10))]
    [1.0, 3.0]
    """
    if not grid.projection.is_geographic:
        height, width = (Fraction(axis[1]) - Fraction(axis[0]) for axis in (grid.y, grid.x))
        return height / grid.rows, width / grid.cols
    latitudes = np.radians(grid.y_at(np.arange(grid.rows) + 0.5))
    shrunk = float(np.cos(latitudes).min())
    across = math.radians(grid.x[1] - grid.x[0]) / grid.cols
    if grid.projection is Projection.WEB_MERCATOR:
        # The height of a row in latitude is cos(latitude) times its height on the map.
        south, north = grid.projection.forward(grid.y).tolist()
        # On a very small map the difference of the two projected bounds loses digits. Subtract the largest possible
        # error.
        lost = 8 * math.ulp(max(abs(south), abs(north)))
        down = max(north - south - lost, 0.0) / grid.rows * shrunk
    else:
        down = math.radians(grid.y[1] - grid.y[0]) / grid.rows
    half = max(float(np.ptp(latitudes)), across * (grid.cols - 1)) / 2
    metres = EARTH_RADIUS_METRES * (math.sin(half) / half if half else 1.0)
    return _rounded_down(metres * down), _rounded_down(metres * across * shrunk)


def _rounded_down(length: float) -> Fraction:
    """Round a length down to 30 binary digits, so that it is never overstated and every machine gets the same length.

    The length is first reduced by more than the rounding error of the functions above.
    """
    fraction, exponent = math.frexp(length * (1 - 2.0**-30))
    return Fraction(math.floor(fraction * 2.0**30)) * Fraction(2) ** (exponent - 30)


def smallest_distance(grid: Grid) -> Fraction:
    """The smallest distance between two cells of a grid; for a grid of one cell, the shorter side of the cell."""
    lengths = cell_lengths(grid)
    steps = [length for side, length in zip(grid.shape, lengths, strict=True) if side > 1]
    return min(steps or lengths)


# ── the cutoff: where the weights stop falling ──────────────────────────────────────────────────────────────────────


def parse_cutoff(grid: Grid, epsilon: Fraction, cutoff: Number | None, *, margin: bool) -> Fraction:
    """Check the cutoff, the distance beyond which weights are equal, or choose the default; in the unit of length.

    Args:
        grid: The public grid.
        epsilon: How much the logarithm of the weights falls per unit of length.
        cutoff: The caller's choice, or None for the default.
        margin: Whether cells in a margin around the grid are outputs too, or only cells of the grid.

    Raises:
        InvalidInput: ε is too small for this grid, or the cutoff is not positive, too long, or needs too many bits.
    """
    unit = adjacency_by_length(grid).length
    if epsilon * smallest_distance(grid) < 2 * _ROUNDING:
        raise InvalidInput(
            f"epsilon is so small for each {unit} that two neighbouring cells can hardly be told apart; use a coarser "
            "grid or a larger epsilon."
        )
    if cutoff is None:
        return _default_cutoff(grid, epsilon, margin=margin)
    try:
        length = exact(cutoff)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InvalidInput(f"cutoff is {cutoff!r}; give a positive length, in the {unit} of the grid.") from None
    if length <= 0 or isinstance(cutoff, bool):
        raise InvalidInput(f"cutoff is {cutoff}; give a positive length, in the {unit} of the grid.")
    sides = _sides(grid, length, margin=margin)
    if max(sides) > MAX_CUTOFF or _outputs(grid, sides, margin=margin) > MAX_FRAME:
        raise InvalidInput(f"cutoff is {cutoff}, too many cells to write out; give at most {MAX_CUTOFF} cells.")
    if epsilon * length > _DEEPEST or sum(_masses(grid, epsilon, length, margin=margin)) > 2.0 ** (61 - _COARSEST):
        raise InvalidInput(
            f"cutoff is {cutoff}, over which the weights would fall further than 62 bits can tell; give a shorter one."
        )
    return length


def _default_cutoff(grid: Grid, epsilon: Fraction, *, margin: bool) -> Fraction:
    """The default cutoff: the shortest multiple of 1/(8ε) that spreads a share of at most LARGEST_BASE evenly.

    With this cutoff, at most the share :data:`LARGEST_BASE` of all weight is spread evenly over the outputs. A cutoff
    is never longer than the longer side of the map or than :data:`MAX_CUTOFF` cells, and never so long that a tally
    cannot count every possible output. If these limits exclude the default, the longest allowed cutoff is taken.
    """
    step = smallest_distance(grid)
    longer_side = max(side * length for side, length in zip(grid.shape, cell_lengths(grid), strict=True))

    def too_many(cells: int) -> bool:
        return _outputs(grid, _sides(grid, cells * step, margin=margin), margin=margin) > MAX_FRAME

    # The longest cutoff that fits, in cells. If not even one cell fits, take half a cell, which reaches no other cell.
    cells = bisect.bisect_left(range(1, min(MAX_CUTOFF, math.floor(longer_side / step)) + 1), True, key=too_many)
    longest = cells * step if cells else step / 2

    def enough(eighths: int) -> bool:
        even, near = _masses(grid, epsilon, Fraction(eighths, 8) / epsilon, margin=margin)
        return even <= LARGEST_BASE * (even + near)

    eighths = range(1, min(8 * _DEEPEST, math.floor(8 * epsilon * longest)) + 1)
    first = bisect.bisect_left(eighths, True, key=enough)
    return Fraction(eighths[first], 8) / epsilon if first < len(eighths) else longest


def _sides(grid: Grid, cutoff: Fraction, *, margin: bool) -> tuple[int, int]:
    """How many rows and columns the cutoff spans. Along an axis of one cell, the number is 0."""
    height, width = cell_lengths(grid)
    down, across = math.floor(cutoff / height), math.floor(cutoff / width)
    if not margin:
        return min(down, grid.rows - 1), min(across, grid.cols - 1)
    return down if grid.rows > 1 else 0, across if grid.cols > 1 else 0


def _outputs(grid: Grid, sides: tuple[int, int], *, margin: bool) -> int:
    """An upper bound on the number of outputs: the cells of the grid, and of its margin if there is one."""
    if not margin:
        return grid.cells
    return (grid.rows + 2 * sides[0]) * (grid.cols + 2 * sides[1])


def _masses(grid: Grid, epsilon: Fraction, cutoff: Fraction, *, margin: bool) -> tuple[float, float]:
    """The total weight that is spread evenly over the outputs, and the total weight added to it near the true cell.

    Both weights are floats, in units of the smallest weight.
    """
    sides = _sides(grid, cutoff, margin=margin)
    height, width = (float(length) for length in cell_lengths(grid))
    distance = np.hypot(*np.meshgrid(height * np.arange(sides[0] + 1), width * np.arange(sides[1] + 1), indexing="ij"))
    near = np.expm1(float(epsilon) * np.maximum(float(cutoff) - distance, 0.0))
    return float(_outputs(grid, sides, margin=margin)), float(mirrored(near).sum())


# ── the weights ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Decay:
    """The whole-number weight of every offset, low + excess: about low · exp(ε · max(0, cutoff − distance)).

    For any output and any two true cells, the logarithms of the output's weights differ by at most ε times the distance
    of the two cells.

    Args:
        low: The smallest weight.
        excess: The weight added to ``low``, one entry for each offset from the true cell. The array has odd numbers of
            rows and columns, and the true cell is its middle.
        support: Whether each offset is within the cutoff.
    """

    low: int
    excess: Integers
    support: Booleans


def decay(grid: Grid, epsilon: Fraction, cutoff: Fraction, *, margin: bool) -> Decay:
    """The weights that fall with the distance from the true cell up to the cutoff, as fine as 62 bits allow.

        weight at distance r = ⌊K · exp(ε' · max(0, cutoff − r))⌋,   ε' = ε − η / (smallest distance of two cells)

    K is the smallest weight, a power of two. Rounding changes the difference of two logarithms by at most η. The
    distance d of two different cells is at least the smallest distance, so ε'd + η ≤ εd. The weights are computed in
    decimals, so that every machine gets the same weights.

    Args:
        grid: The public grid.
        epsilon: How much the logarithm of the weights falls per unit of length.
        cutoff: The cutoff that :func:`parse_cutoff` returned.
        margin: Whether cells in a margin around the grid are outputs too, or only cells of the grid.

    Raises:
        PromiseBroken: The weights do not fit into 62 bits.
    """
    sides = _sides(grid, cutoff, margin=margin)
    with localcontext(Context(prec=40, rounding=ROUND_FLOOR, traps=[])):
        slower, end = _decimal(epsilon - _ROUNDING / smallest_distance(grid)), _decimal(cutoff)
        down, across = (
            [_decimal((length * steps) ** 2) for steps in range(side + 1)]
            for side, length in zip(sides, cell_lengths(grid), strict=True)
        )
        squares = [[a + b for b in across] for a in down]
        weights = {
            square: math.floor(2**_FINEST * (slower * max(Decimal(0), end - square.sqrt())).exp())
            for square in {square for row in squares for square in row}
        }
        quarter = np.array([[weights[square] for square in row] for row in squares], dtype=object)
        support = np.array([[square <= end * end for square in row] for row in squares], dtype=np.bool_)
    total = _outputs(grid, sides, margin=margin) * 2**_FINEST + int(mirrored(quarter - 2**_FINEST).sum())
    shift = max(0, total.bit_length() - (LARGEST_TOTAL.bit_length() - 1))
    if shift > _FINEST - _COARSEST:
        raise PromiseBroken(
            "The weights of this cutoff do not fit into 62 bits; give a shorter cutoff or a smaller epsilon."
        )
    low = 2 ** (_FINEST - shift)
    return Decay(low, mirrored((quarter >> shift) - low).astype(np.int64), mirrored(support))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
