"""The arguments of every metric: two maps of the same shape, each divided by its sum, and the unit of length."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from heathaze.domain.density import Density, TreeDensity
from heathaze.domain.grid import Grid
from heathaze.errors import InvalidInput
from heathaze.types import Floats

Map = Density | TreeDensity | npt.ArrayLike
"""A density, or a two-dimensional array of mass."""

LengthUnit = Literal["box", "cells"]
"""``"box"``: the longer side of the map is 1. ``"cells"``: the side of a cell is 1."""


def pair(truth: Map, estimate: Map) -> tuple[Floats, Floats]:
    """Convert the two maps that a metric compares to arrays that sum to 1.

    Args:
        truth: A density or an array of mass.
        estimate: Another map of the same shape; if both are densities, on the same rectangle.

    Returns:
        Two arrays of the same shape, not negative, each summing to 1.

    Raises:
        InvalidInput: The shapes or the rectangles differ, or a map holds a negative or non-finite number, or no mass.

    >>> p, q = pair([[3, 1]], [[0, 5]])
    >>> p.tolist(), q.tolist()
    ([[0.75, 0.25]], [[0.0, 1.0]])
    """
    if isinstance(truth, Density | TreeDensity) and isinstance(estimate, Density | TreeDensity):
        _check_place(truth.grid, estimate.grid)
    p, q = _normalised("truth", truth), _normalised("estimate", estimate)
    if p.shape != q.shape:
        raise InvalidInput(
            f"The truth has shape {p.shape}, the estimate has {q.shape}; bring both to one shape with resample."
        )
    return p, q


def cells_in_unit(shape: tuple[int, ...], unit: LengthUnit) -> int:
    """Compute the length of a metric's unit in cells.

    Args:
        shape: Rows and columns of a map.
        unit: ``"box"`` or ``"cells"``.

    Raises:
        InvalidInput: The unit is neither ``"box"`` nor ``"cells"``.

    >>> cells_in_unit((10, 20), "box"), cells_in_unit((10, 20), "cells")
    (20, 1)
    """
    if unit not in ("box", "cells"):
        raise InvalidInput(f"There is no unit {unit!r}; choose 'box' (longer side is 1) or 'cells'.")
    return max(shape) if unit == "box" else 1


def _normalised(name: str, values: Map) -> Floats:
    if isinstance(values, Density | TreeDensity):
        values = values.dense().values  # A density sums to 1 only within 1e-6, so it is normalised too.
    try:
        mass = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"The {name} is not an array of numbers; give a Density (release.density) or rows of mass."
        ) from None
    if mass.ndim != 2 or mass.size == 0:
        raise InvalidInput(f"The {name} has shape {mass.shape}; a map has rows and columns, at least one of each.")
    if not np.isfinite(mass).all():
        raise InvalidInput(f"The {name} holds a number that is NaN or infinite; a map holds finite mass.")
    if (mass < 0).any():
        raise InvalidInput(f"The {name} holds a negative number; set noise below zero to zero before comparing.")
    largest = mass.max()
    if largest <= 0:
        raise InvalidInput(f"The {name} holds no mass, so it cannot be compared; give at least one positive cell.")
    # The map is divided by its largest value first, so that the sum neither underflows nor overflows.
    scaled = mass / largest
    return np.asarray(scaled / scaled.sum(), dtype=np.float64)


def _check_place(one: Grid, other: Grid) -> None:
    """Refuse two densities on different rectangles.

    A difference of a thousandth of a cell is allowed, because files may round the bounds of a grid.
    """
    if one.shape != other.shape:
        raise InvalidInput(
            f"The truth has shape {one.shape}, the estimate has {other.shape}; bring both to one shape with resample."
        )
    corners_x, corners_y = one.across(other.x), one.down(other.y)
    same = (
        one.projection == other.projection
        and np.allclose(corners_x, (0, one.cols), rtol=0, atol=1e-3)
        and np.allclose(np.sort(corners_y), (0, one.rows), rtol=0, atol=1e-3)
    )
    if not same:
        raise InvalidInput(
            "The two densities lie on different rectangles; compare maps of the same box and projection."
        )
