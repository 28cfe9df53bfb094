"""Densities: the distribution of mass over the cells of a grid.

There are two classes with the same methods. :class:`Density` holds one number per cell. :class:`TreeDensity` holds a
few squares of a quadtree, each with a mass that is spread evenly over its cells. The memory of a tree density grows
with the number of squares and not with the number of cells, so it suits a grid of 2^20 cells a side. A tree
density is rendered for a window or at a coarser size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign
from heathaze.domain.grid import Box, Grid
from heathaze.domain.quadtree import deinterleave, node_extent
from heathaze.domain.region import Region
from heathaze.errors import InvalidBounds, InvalidInput, TooLarge, expect
from heathaze.types import Floats, Integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array


MAX_DENSE_CELLS = 2**24
"""The largest number of cells of a dense map (128 MB of float64). Render a window or a coarser size instead."""


@dataclass(frozen=True, eq=False)
class Density:
    """A density with one number per cell.

    Args:
        grid: The grid.
        values: One number of at least 0 for each cell, with sum 1. ``values[0, 0]`` is the north-west corner, or on a
            plane the corner of smallest x and y.

    Raises:
        InvalidInput: The values do not fit the grid, or are not a density.

    >>> grid = Grid.plane(x=(0, 2), y=(0, 2), size=2)
    >>> Density.from_mass(grid, [[3, 0], [0, 1]]).mass_in(Box.plane(x=(0, 1), y=(0, 1)))
    0.75
    """

    grid: Grid
    values: Floats

    def __post_init__(self) -> None:
        expect(Grid, self.grid, "The grid")
        values = np.array(self.values, dtype=np.float64)
        if values.shape != self.grid.shape:
            raise InvalidInput(
                f"The values have shape {values.shape}, the grid has {self.grid.shape}; give one for each cell."
            )
        if not np.isfinite(values).all() or (values < 0).any():
            raise InvalidInput(
                "A density holds finite numbers that are not negative; use Density.from_mass to clean up."
            )
        if not math.isclose(values.sum(), 1.0, abs_tol=1e-6):
            raise InvalidInput("A density sums to 1; use Density.from_mass to normalise.")
        values.flags.writeable = False
        assign(self, values=values)

    @classmethod
    def from_mass(cls, grid: Grid, mass: npt.ArrayLike) -> Density:
        """Normalise masses of cells to a density; masses that are all zero give the uniform density (errata E0-3).

        Args:
            grid: The grid.
            mass: One finite number of at least 0 for each cell.

        Returns:
            The density, whose cells sum to 1.

        Raises:
            InvalidInput: A number is negative or not finite, or the shape is not that of the grid.
        """
        values = np.asarray(mass, dtype=np.float64)
        if not np.isfinite(values).all() or (values < 0).any():
            raise InvalidInput("The mass of a cell is negative or not finite; give a number of at least 0 for each.")
        total = values.sum()
        if total <= 0:
            return cls.uniform(grid)
        return cls(grid, values / total)

    @classmethod
    def uniform(cls, grid: Grid) -> Density:
        """Return the density that is the same in every cell.

        Args:
            grid: The grid.

        Raises:
            TooLarge: The grid has more than 2^24 cells.
        """
        _check_dense(grid)
        return cls(grid, np.full(grid.shape, 1.0 / grid.cells))

    def dense(self) -> Density:
        """Return the density itself, which is dense already; the counterpart of :meth:`TreeDensity.dense`."""
        return self

    def mass_in(self, region: Box | Region) -> float:
        """Return the share of the mass inside a region, from 0 to 1.

        A cell that the border of the region cuts counts by the part of its area that lies inside.

        Args:
            region: A box in the coordinates of the grid, or a region of the grid.

        Raises:
            InvalidBounds: The box lies outside the grid.
        """
        if isinstance(region, Region):
            return min(float((self.values * coverage(region)).sum()), 1.0)
        return min(float(self.mass_between(*_window(self.grid, region)).item()), 1.0)

    def render(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Density:
        """Return the density within a window, on another number of cells, normalised to sum 1.

        Args:
            window: The window; the whole grid if left out.
            shape: (rows, columns) of the result. If left out, the cells keep their size, but a window gets at most 1024
                cells a side.

        Raises:
            InvalidBounds: The window lies outside the grid.
            TooLarge: The result has more than 2^24 cells.
        """
        if window is None and shape in (None, self.grid.shape):
            return self
        target, down, across = _target(self.grid, window, shape)
        return Density.from_mass(target, np.maximum(self.mass_between(down, across), 0))

    def resample(self, shape: tuple[int, int]) -> Density:
        """Return the same density on a grid with another number of cells.

        Args:
            shape: (rows, columns).

        >>> float(Density.uniform(Grid.plane(x=(0, 1), y=(0, 1), size=6)).resample((4, 4)).values[0, 0])
        0.0625
        """
        return self.render(shape=shape)

    def smooth(self, sigma: float) -> Density:
        """Return the paper's heat map H: a Gaussian blur of the density p that moves no mass out of the grid.

            H = K (p ⊘ z zᵀ) Kᵀ,   K[a, b] = exp(−(a − b)² / 2σ²),   z = Kᵀ 1

        ⊘ divides cell by cell. Each cell is divided by the weight of its Gaussian inside the grid, so the total mass
        stays 1 (errata E0-10; with the index that the paper prints, a fifth of the mass is lost).

        Args:
            sigma: Standard deviation σ of the Gaussian, in cells, at least 0.

        Raises:
            InvalidInput: ``sigma`` is negative or not finite.
        """
        from scipy.ndimage import convolve1d

        if not (math.isfinite(sigma) and sigma >= 0):
            raise InvalidInput(f"sigma is {sigma}; give a width in cells of at least 0.")
        if sigma == 0:
            return self
        values = self.values
        for axis, length in enumerate(self.grid.shape):
            # The kernel is cut at 8σ, where it is exp(−8²/2) ≈ 1e-14, below the rounding error of the sum.
            radius = min(math.ceil(8 * sigma), length - 1)
            kernel = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * sigma**2))
            staying = convolve1d(np.ones(length), kernel, mode="constant")
            scaled = values / (staying[:, None] if axis == 0 else staying[None, :])
            values = convolve1d(scaled, kernel, axis=axis, mode="constant")
        return Density.from_mass(self.grid, np.maximum(values, 0))

    def squares(self) -> tuple[Floats, Floats, Floats]:
        """Return the centres of the cells that hold mass, as positions down and across in cells, and their masses."""
        rows, cols = np.nonzero(self.values)
        return rows + np.float64(0.5), cols + np.float64(0.5), self.values[rows, cols]

    def place(self, uniforms: Floats) -> tuple[Floats, Floats]:
        """Turn uniform numbers into sample points of the density.

        Args:
            uniforms: One row of three independent uniform numbers in [0, 1) for each point.

        Returns:
            The coordinates x and y of the points.
        """
        flat = np.cumsum(self.values.ravel())
        cell = np.minimum(np.searchsorted(flat, uniforms[:, 0] * flat[-1], side="right"), self.grid.cells - 1)
        row, col = np.divmod(cell, self.grid.cols)
        return self.grid.x_at(col + uniforms[:, 2]), self.grid.y_at(row + uniforms[:, 1])

    def mass_between(self, down: Floats, across: Floats) -> Floats:
        """Return the mass of each rectangle between neighbouring borders.

        Args:
            down: Borders between rows of rectangles, as rising positions in cells.
            across: Borders between columns of rectangles.
        """
        rows, cols = (
            _overlap(np.arange(length), np.arange(1, length + 1), borders)
            for length, borders in zip(self.grid.shape, (down, across), strict=True)
        )
        return np.asarray(rows @ (cols @ self.values.T).T)


@dataclass(frozen=True, eq=False)
class TreeDensity:
    """A density as disjoint squares of the quadtree, each with a mass that is spread evenly over its cells.

    Args:
        grid: The grid.
        levels: Level of each square.
        codes: Code of each square (see :mod:`heathaze.domain.quadtree`).
        mass: Mass of each square, at least 0, with sum 1.

    Raises:
        InvalidInput: The arrays differ in length, name a square that the grid does not have, or are not a density.
    """

    grid: Grid
    levels: Integers
    codes: Integers
    mass: Floats

    def __post_init__(self) -> None:
        expect(Grid, self.grid, "The grid")
        levels = np.array(self.levels, dtype=np.int64)
        codes = np.array(self.codes, dtype=np.int64)
        mass = np.array(self.mass, dtype=np.float64)
        if not levels.shape == codes.shape == mass.shape or levels.ndim != 1:
            raise InvalidInput("A tree density needs one level, one code and one mass for each square.")
        if not np.isfinite(mass).all() or (mass < 0).any() or not math.isclose(mass.sum(), 1.0, abs_tol=1e-6):
            raise InvalidInput("The masses of a tree density are finite, not negative, and sum to 1.")
        if ((levels < 0) | (levels > self.grid.depth)).any() or ((codes < 0) | (codes >> (2 * levels) != 0)).any():
            raise InvalidInput("A tree density names a square that its grid does not have.")
        for name, array in (("levels", levels), ("codes", codes), ("mass", mass)):
            array.flags.writeable = False
            assign(self, **{name: array})

    @classmethod
    def from_mass(cls, grid: Grid, levels: npt.ArrayLike, codes: npt.ArrayLike, mass: npt.ArrayLike) -> TreeDensity:
        """Normalise masses of squares to a density; masses that are all zero give the uniform density (errata E0-3).

        The arguments have the same meaning as in the class, but the masses may have any sum.
        """
        values = np.asarray(mass, dtype=np.float64)
        total = values.sum()
        if total <= 0:
            return cls(grid, np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1))
        held = values > 0
        return cls(grid, np.asarray(levels)[held], np.asarray(codes)[held], values[held] / total)

    def dense(self) -> Density:
        """Return the density with one number per cell.

        Raises:
            TooLarge: The grid has more than 2^24 cells.
        """
        _check_dense(self.grid)
        return self.render()

    def mass_in(self, region: Box | Region) -> float:
        """Return the share of the mass inside a region, as :meth:`Density.mass_in` does."""
        if isinstance(region, Region):
            parts = [(self.levels == level, level) for level in np.unique(self.levels)]
            return min(float(sum(region.parts(int(level), self.codes[at]) @ self.mass[at] for at, level in parts)), 1.0)
        return min(float(self.mass_between(*_window(self.grid, region)).item()), 1.0)

    def render(self, window: Box | None = None, shape: tuple[int, int] | None = None) -> Density:
        """Return the density within a window, as :meth:`Density.render` does."""
        target, down, across = _target(self.grid, window, shape)
        return Density.from_mass(target, self.mass_between(down, across))

    def squares(self) -> tuple[Floats, Floats, Floats]:
        """Return the centres of the squares, as positions down and across in cells, and their masses."""
        top, bottom, left, right = node_extent(self.grid, self.levels, self.codes)
        return (top + bottom) / 2, (left + right) / 2, self.mass

    def place(self, uniforms: Floats) -> tuple[Floats, Floats]:
        """Turn uniform numbers into sample points of the density, as :meth:`Density.place` does."""
        top, bottom, left, right = node_extent(self.grid, self.levels, self.codes)
        total = np.cumsum(self.mass)
        k = np.minimum(np.searchsorted(total, uniforms[:, 0] * total[-1], side="right"), len(total) - 1)
        down = top[k] + uniforms[:, 1] * (bottom - top)[k]
        across = left[k] + uniforms[:, 2] * (right - left)[k]
        return self.grid.x_at(across), self.grid.y_at(down)

    def mass_between(self, down: Floats, across: Floats) -> Floats:
        """Return the mass of each rectangle between neighbouring borders, as :meth:`Density.mass_between` does."""
        return _spread_squares(self.grid, self.levels, self.codes, self.mass, down, across)


def render_deviations(
    grid: Grid,
    levels: Integers,
    codes: Integers,
    deviations: Floats,
    window: Box | None = None,
    shape: tuple[int, int] | None = None,
) -> Floats:
    """Render the standard deviation of every cell of an image from the standard deviations of quadtree squares.

    The masses of the squares are independent. A cell that holds a part of a square gets this part of the square's
    standard deviation. The variances of several squares in a cell add.

    Args:
        grid: The grid.
        levels: Level of each square.
        codes: Code of each square.
        deviations: Standard deviation of the mass of each square.
        window: As in :meth:`Density.render`.
        shape: As in :meth:`Density.render`.
    """
    target, down, across = _target(grid, window, shape)
    variances = _spread_squares(grid, levels, codes, deviations**2, down, across, power=2)
    return np.sqrt(variances).reshape(target.shape)


def coverage(region: Region) -> Floats:
    """Return the part of the area of each cell that lies in a region, as an array of the grid's shape.

    Args:
        region: The region.

    Raises:
        TooLarge: The grid has more than 2^24 cells.
    """
    _check_dense(region.grid)
    image = np.zeros(region.grid.shape)
    for level, codes, part in region.covered():
        if level == region.grid.depth:
            image[deinterleave(codes)] = part
            continue
        for top, bottom, left, right in zip(*node_extent(region.grid, level, codes), strict=True):
            image[top:bottom, left:right] = 1
    return image


def part_inside(grid: Grid, level: int, codes: Integers, box: Box | Region) -> Floats:
    """Return the part of the area of each quadtree node that lies in a box or region, from 0 to 1.

    Args:
        grid: The grid.
        level: The level of all nodes.
        codes: Code of each node.
        box: The box, in the coordinates of the grid, or a region of the grid.

    Raises:
        InvalidBounds: The box lies outside the grid.
    """
    if isinstance(box, Region):
        return box.parts(level, codes)
    down, across = _window(grid, box)
    top, bottom, left, right = node_extent(grid, level, codes)
    height = np.clip(np.minimum(bottom, down[1]) - np.maximum(top, down[0]), 0, None)
    width = np.clip(np.minimum(right, across[1]) - np.maximum(left, across[0]), 0, None)
    return np.asarray(height * width / ((bottom - top) * (right - left)))


def _spread_squares(
    grid: Grid, levels: Integers, codes: Integers, numbers: Floats, down: Floats, across: Floats, power: int = 1
) -> Floats:
    """Spread a number of each quadtree square over the cells of an image, given the borders of the cells.

    A cell gets Σ_k number_k · (part of square k's rows)^power · (part of square k's columns)^power, where a part is the
    share of the rows or columns of square k that lie in the cell.
    """
    from scipy.sparse import coo_array

    image = np.zeros((len(down) - 1, len(across) - 1))
    # Squares of one level lie in common rows and columns, so a level needs only one product of sparse matrices.
    for level in np.unique(levels):
        here = np.flatnonzero(levels == level)
        top, _, left, _ = node_extent(grid, int(level), codes[here])
        row_starts, row_of = np.unique(top, return_inverse=True)
        col_starts, col_of = np.unique(left, return_inverse=True)
        size = 1 << (grid.depth - int(level))
        rows = _overlap(row_starts, np.minimum(row_starts + size, grid.rows), down).power(power)
        cols = _overlap(col_starts, np.minimum(col_starts + size, grid.cols), across).power(power)
        squares = coo_array((numbers[here], (row_of, col_of)), shape=(len(row_starts), len(col_starts)))
        image += (rows @ squares.tocsr() @ cols.T).toarray()
    return image


def _check_dense(grid: Grid) -> None:
    if grid.cells > MAX_DENSE_CELLS:
        raise TooLarge(
            f"A dense map of {grid.rows} × {grid.cols} cells has more than 2^24 cells; "
            "ask for a window or a coarser size with render(window=…, shape=…)."
        )


def _window(grid: Grid, box: Box) -> tuple[Floats, Floats]:
    """Return the borders of a box in cells, clipped to the grid; refuse a box outside the grid."""
    ys = (max(box.y[0], grid.y[0]), min(box.y[1], grid.y[1]))
    xs = (max(box.x[0], grid.x[0]), min(box.x[1], grid.x[1]))
    if ys[0] >= ys[1] or xs[0] >= xs[1]:
        raise InvalidBounds(f"The box {box.x} × {box.y} lies outside the map; give a box within {grid.x} × {grid.y}.")
    return np.sort(grid.down(ys)), grid.across(xs)


def _target(grid: Grid, window: Box | None, shape: tuple[int, int] | None) -> tuple[Grid, Floats, Floats]:
    """Return the grid of a rendered image, and the borders of its cells measured in cells of the original grid."""
    if window is None:
        target = grid if shape is None else grid.resized(shape)
        down, across = np.array([0.0, grid.rows]), np.array([0.0, grid.cols])
    else:
        down, across = _window(grid, window)
        if shape is None:
            shape = (_sensible(down[1] - down[0]), _sensible(across[1] - across[0]))
        low, high = sorted(grid.y_at(down).tolist())
        west, east = grid.x_at(across).tolist()
        target = Grid((west, east), (low, high), *shape, grid.projection)
    _check_dense(target)
    return target, _even(down, target.rows), _even(across, target.cols)


def _even(ends: Floats, parts: int) -> Floats:
    return np.linspace(ends[0], ends[1], parts + 1)


def _sensible(extent: float) -> int:
    return max(1, min(1024, round(extent)))


def _overlap(starts: Integers, ends: Integers, borders: Floats) -> csr_array:
    """Return the sparse matrix whose entry (t, s) is the part of source interval s that lies in target interval t.

    Source s is [starts[s], ends[s]), and target t is [borders[t], borders[t + 1]).
    """
    from scipy.sparse import csr_array

    first = np.clip(np.searchsorted(borders, starts, side="right") - 1, 0, len(borders) - 2)
    last = np.clip(np.searchsorted(borders, ends, side="left") - 1, 0, len(borders) - 2)
    counts = np.maximum(last - first + 1, 0)
    source = np.repeat(np.arange(len(starts)), counts)
    target = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + first[source]
    part = np.minimum(ends[source], borders[target + 1]) - np.maximum(starts[source], borders[target])
    share = np.maximum(part, 0) / (ends - starts)[source]
    return csr_array((share, (target, source)), shape=(len(borders) - 1, len(starts)))
