"""A prior for maps: the logarithm of the density is a sum of random surfaces, from coarse to fine.

    log f = c + Σ_level s_level · up(z_level),   z independent standard normal,   s_level = height · fall^level

The surface of level l has one knot at the centre of each of the 2^l × 2^l squares of the box. The vector z_level holds
the heights of the knots, and ``up`` interpolates them bilinearly. The constant c makes the density sum to 1. ``fall``
is the factor by which the height decreases from one level to the next: small for smooth maps, near 1 for maps with
spikes. The surfaces are added on a logarithmic scale, so a place can be a thousand times as dense as its neighbour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heathaze.types import Floats


@dataclass(frozen=True)
class LogPyramid:
    """The prior on a grid: the linear map from the heights of knots to a log-density, and the adjoint of this map.

    Args:
        shape: Rows and columns of the grid.
        height: Standard deviation of the coarsest surface.
        fall: Ratio of the standard deviations of neighbouring levels.

    >>> LogPyramid((2, 2), 1.0, 0.5).density(np.zeros(5)).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """

    shape: tuple[int, int]
    height: float
    fall: float

    @property
    def depth(self) -> int:
        """Level of the finest surface, which has one knot for each cell."""
        return (max(self.shape) - 1).bit_length()

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of the knots of every level."""
        rows, cols = self.shape
        steps = [1 << (self.depth - level) for level in range(self.depth + 1)]
        return [(-(-rows // step), -(-cols // step)) for step in steps]

    @property
    def size(self) -> int:
        """The number of knots of all levels."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def scales(self) -> list[float]:
        """Standard deviation of the surface of every level."""
        return [self.height * self.fall**level for level in range(self.depth + 1)]

    def surface(self, knots: Floats) -> Floats:
        """Compute the logarithm of a density from the knots, up to a constant.

        Args:
            knots: Standardised heights of all knots, level after level.
        """
        total = np.zeros((1, 1))
        at = 0
        for level, (shape, scale) in enumerate(zip(self.shapes, self.scales, strict=True)):
            here = scale * knots[at : at + math.prod(shape)].reshape(shape)
            at += math.prod(shape)
            total = here if level == 0 else _finer(total, shape) + here
        return total

    def adjoint(self, slopes: Floats) -> Floats:
        """Apply the adjoint of :meth:`surface`: turn derivatives with respect to cells into ones with respect to knots.

        Args:
            slopes: One derivative for each cell.
        """
        parts: list[Floats] = []
        shapes = self.shapes
        for level in range(self.depth, -1, -1):
            parts.append(self.scales[level] * slopes.ravel())
            if level:
                slopes = _coarser(slopes, shapes[level - 1])
        return np.concatenate(parts[::-1])

    def density(self, knots: Floats) -> Floats:
        """Compute the density from the knots; it sums to 1.

        Args:
            knots: Standardised heights of all knots, level after level.
        """
        surface = self.surface(knots)
        mass = np.exp(surface - surface.max())
        return np.asarray(mass / mass.sum())

    def lifted(self, knots: Floats, coarser: LogPyramid) -> Floats:
        """Convert the knots of a prior on a coarser grid of the same box into knots of this prior.

        The levels that the coarser prior does not have are set to zero.

        Args:
            knots: Heights of the knots of the coarser prior.
            coarser: The coarser prior.
        """
        lifted = np.zeros(self.size)
        at = beside = 0
        for level, (shape, there) in enumerate(zip(self.shapes, coarser.shapes, strict=False)):
            block = knots[beside : beside + math.prod(there)].reshape(there)
            fitting = np.pad(block, [(0, max(0, shape[k] - there[k])) for k in (0, 1)], mode="edge")
            scaled = fitting[: shape[0], : shape[1]] * (coarser.scales[level] / self.scales[level])
            lifted[at : at + math.prod(shape)] = scaled.ravel()
            at, beside = at + math.prod(shape), beside + math.prod(there)
        return lifted


def _finer(surface: Floats, shape: tuple[int, int]) -> Floats:
    """Interpolate a surface bilinearly at the centres of squares half the size; constant beyond the outermost knots."""
    return _finer_rows(_finer_rows(surface, shape[0]).T, shape[1]).T


def _finer_rows(surface: Floats, rows: int) -> Floats:
    fine = np.empty((2 * surface.shape[0], surface.shape[1]))
    np.multiply(surface, 0.75, out=fine[0::2])
    fine[1::2] = fine[0::2]
    quarter = 0.25 * surface
    fine[2::2] += quarter[:-1]
    fine[0] += quarter[0]
    fine[1:-1:2] += quarter[1:]
    fine[-1] += quarter[-1]
    return fine[:rows]


def _coarser(slopes: Floats, shape: tuple[int, int]) -> Floats:
    """Apply the adjoint of the bilinear interpolation :func:`_finer`."""
    return _coarser_rows(_coarser_rows(slopes, shape[0]).T, shape[1]).T


def _coarser_rows(slopes: Floats, rows: int) -> Floats:
    if slopes.shape[0] < 2 * rows:
        slopes = np.pad(slopes, ((0, 2 * rows - slopes.shape[0]), (0, 0)))
    even, odd = slopes[0::2], slopes[1::2]
    coarse = 0.75 * (even + odd)
    coarse[:-1] += 0.25 * even[1:]
    coarse[0] += 0.25 * even[0]
    coarse[1:] += 0.25 * odd[:-1]
    coarse[-1] += 0.25 * odd[-1]
    return np.asarray(coarse)
