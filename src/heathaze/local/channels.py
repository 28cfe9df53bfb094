"""Channels: from the distribution of cells to the distribution of outcomes, and the adjoint.

A channel is a stochastic matrix M, cells × outcomes, that is not written out. ``forward`` is fᵀM, ``backward`` is Mr.
Estimation needs only these two products.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from heathaze.types import Booleans, Floats, Integers


class Channel(Protocol):
    """A stochastic matrix from the cells of a grid to a row of outcomes."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""

    @property
    def outcomes(self) -> int:
        """How many outcomes there are."""

    def forward(self, density: Floats) -> Floats:
        """fᵀM: the probability of each outcome.

        Args:
            density: The probability of each cell (rows × columns).
        """

    def backward(self, ratio: Floats) -> Floats:
        """Mr: for each cell, the expectation of a number that belongs to each outcome.

        Args:
            ratio: One number for each outcome.

        Returns:
            One number for each cell (rows × columns).
        """


@dataclass(frozen=True, eq=False)
class Convolution:
    """A kernel around the true cell on top of an equal probability of every outcome; by FFT (errata E1-13).

        Pr[u | v] = base + scale[v] · kernel[u − v]     for outcomes u of the frame that can occur, else 0

    Lengths are padded to numbers with small factors, because the FFT of a prime length takes many times as long.

    Args:
        shape: Rows and columns of the grid.
        kernel: The kernel; odd numbers of rows and columns, the true cell in the middle.
        base: The least probability of each outcome.
        occurs: How many outcomes each cell of the frame stands for: 1 or 0, or more if cells were merged. The frame is
            the grid with a margin on each side.
        margin: How many cells the frame has on each side of the grid, down and across.
        scale: A factor of the kernel for each cell; 1 if left out.
    """

    shape: tuple[int, int]
    kernel: Floats
    base: float
    occurs: Booleans | Floats
    margin: tuple[int, int]
    scale: Floats | None = None

    @property
    def outcomes(self) -> int:
        """The number of cells of the frame."""
        return self.occurs.size

    def forward(self, density: Floats) -> Floats:
        """Base plus convolution. Rounding errors below zero are set to zero before the base is added."""
        from scipy.fft import irfft2, rfft2

        lifted = density if self.scale is None else density * self.scale
        blurred = irfft2(rfft2(lifted, self._padded) * self._spectrum, self._padded)
        top, left = self._corner
        near = blurred[top : top + self.occurs.shape[0], left : left + self.occurs.shape[1]]
        return np.where(self.occurs > 0, np.maximum(near, 0.0) + self._bases * density.sum(), 0.0).ravel()

    def backward(self, ratio: Floats) -> Floats:
        """Base plus correlation."""
        from scipy.fft import irfft2, rfft2

        placed = np.where(self.occurs > 0, ratio.reshape(self.occurs.shape), 0.0)
        everywhere = float((placed * self._bases).sum())
        top, left = self._corner
        if top or left:
            placed = np.pad(placed, ((top, 0), (left, 0)))
        gathered = irfft2(rfft2(placed, self._padded) * self._spectrum.conj(), self._padded)
        near = np.maximum(gathered[: self.shape[0], : self.shape[1]], 0.0)
        return np.asarray((near if self.scale is None else near * self.scale) + everywhere)

    def merged(self, factor: int) -> tuple[Convolution, Integers]:
        """The same channel on a coarser grid: squares of cells become one cell, and squares of outcomes one outcome.

            kernel'[Δ] = Σ_δ kernel[δ] · t(δ − factor·Δ),   t(x) = max(0, factor − |x|) / factor   on either axis

        It is exact for densities that are constant within each square, if ``factor`` divides the sides and there is no
        scale. Otherwise it is nearly exact, and its rows sum to 1.

        Args:
            factor: Cells on a side of a square.

        Returns:
            The coarse channel, and the number of the coarse outcome for each outcome.
        """
        shape = tuple(-(-side // factor) for side in self.shape)
        margin = tuple(-(-side // factor) for side in self.margin)
        down, across = (_tents(length // 2, factor) for length in self.kernel.shape)
        places = [
            (np.arange(length) - beyond) // factor + wider
            for length, beyond, wider in zip(self.occurs.shape, self.margin, margin, strict=True)
        ]
        frame = (shape[0] + 2 * margin[0], shape[1] + 2 * margin[1])
        outcome = (places[0][:, None] * frame[1] + places[1][None, :]).ravel()
        weights = self.occurs.astype(np.float64).ravel()
        occurs = np.asarray(np.bincount(outcome, weights, frame[0] * frame[1]), dtype=np.float64).reshape(frame)
        scale = np.ones(shape) if self.scale is None else _block_means(self.scale, factor)
        merged = Convolution(
            (shape[0], shape[1]), down @ self.kernel @ across.T, self.base, occurs, (margin[0], margin[1]), scale
        )
        even = float(self.base * occurs.sum())
        near = merged.backward(np.ones(merged.outcomes)) - even
        scale = scale * np.divide(1 - even, near, out=np.ones_like(near), where=near > 0)
        return dataclasses.replace(merged, scale=scale), outcome

    @functools.cached_property
    def _bases(self) -> Floats:
        return np.asarray(self.base * self.occurs)

    @property
    def _corner(self) -> tuple[int, int]:
        """Where the frame begins in the full convolution, which extends half a kernel beyond the grid."""
        return self.kernel.shape[0] // 2 - self.margin[0], self.kernel.shape[1] // 2 - self.margin[1]

    @functools.cached_property
    def _padded(self) -> tuple[int, int]:
        from scipy.fft import next_fast_len

        full = [side + length - 1 for side, length in zip(self.shape, self.kernel.shape, strict=True)]
        return next_fast_len(full[0], True), next_fast_len(full[1], True)

    @functools.cached_property
    def _spectrum(self) -> npt.NDArray[np.complex128]:
        from scipy.fft import rfft2

        return np.asarray(rfft2(self.kernel, self._padded))


def _tents(half_width: int, factor: int) -> Floats:
    """Matrix (coarse offsets × fine offsets): which part of a shift by δ cells is a shift by Δ squares."""
    wide = -(-half_width // factor) + 1
    apart = np.arange(-half_width, half_width + 1)[None, :] - factor * np.arange(-wide, wide + 1)[:, None]
    return np.asarray(np.maximum(0, factor - np.abs(apart)) / factor)


def _block_means(values: Floats, factor: int) -> Floats:
    """The mean of every square of ``factor`` × ``factor`` numbers; squares at the far border may be smaller."""
    rows, cols = (np.arange(0, side, factor) for side in values.shape)
    sums = np.add.reduceat(np.add.reduceat(values, rows, axis=0), cols, axis=1)
    sizes = np.add.reduceat(np.add.reduceat(np.ones_like(values), rows, axis=0), cols, axis=1)
    return np.asarray(sums / sizes)


@dataclass(frozen=True, eq=False)
class Separable:
    """The row and the column are randomised independently.

        Pr[(a, b) | (r, c)] = down[r, a] · across[c, b]

    Args:
        down: Pr[outcome | row].
        across: Pr[outcome | column].
    """

    down: Floats
    across: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        return self.down.shape[0], self.across.shape[0]

    @property
    def outcomes(self) -> int:
        """The number of pairs of an outcome of a row and an outcome of a column."""
        return int(self.down.shape[1] * self.across.shape[1])

    def forward(self, density: Floats) -> Floats:
        """Multiply by one matrix, then by the other."""
        return (self.down.T @ density @ self.across).ravel()

    def backward(self, ratio: Floats) -> Floats:
        """Multiply by one matrix, then by the other."""
        return np.asarray(self.down @ ratio.reshape(self.down.shape[1], -1) @ self.across.T)


@dataclass(frozen=True, eq=False)
class Matrix:
    """A channel whose matrix is written out, for small grids and to check the others.

    Args:
        shape: Rows and columns of the grid.
        matrix: Pr[outcome | cell], one row for each cell.

    >>> Matrix((1, 2), np.array([[0.9, 0.1], [0.2, 0.8]])).forward(np.array([[0.5, 0.5]])).round(2).tolist()
    [0.55, 0.45]
    """

    shape: tuple[int, int]
    matrix: Floats

    @property
    def outcomes(self) -> int:
        """The number of columns of the matrix."""
        return int(self.matrix.shape[1])

    def forward(self, density: Floats) -> Floats:
        """fᵀM."""
        return np.asarray(density.ravel() @ self.matrix)

    def backward(self, ratio: Floats) -> Floats:
        """Mr."""
        return np.asarray((self.matrix @ ratio).reshape(self.shape))


@dataclass(frozen=True, eq=False)
class Marginals:
    """A fair coin chooses whether the row or the column is reported. Outcomes of rows come before those of columns.

        Pr[a | (r, c)] = down[r, a] / 2,   Pr[b | (r, c)] = across[c, b] / 2

    Args:
        down: Pr[outcome | row].
        across: Pr[outcome | column].
    """

    down: Floats
    across: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        return self.down.shape[0], self.across.shape[0]

    @property
    def outcomes(self) -> int:
        """The number of outcomes of rows and of columns together."""
        return int(self.down.shape[1] + self.across.shape[1])

    def forward(self, density: Floats) -> Floats:
        """The density of the rows and that of the columns, each multiplied by its matrix."""
        return np.concatenate([density.sum(axis=1) @ self.down, density.sum(axis=0) @ self.across]) / 2

    def backward(self, ratio: Floats) -> Floats:
        """A number for each row plus a number for each column."""
        down, across = np.split(ratio, [self.down.shape[1]])
        return np.asarray((self.down @ down)[:, None] + (self.across @ across)[None, :]) / 2


def membership_channel(shape: tuple[int, int], own: float, other: float) -> Convolution:
    """The channel of a mechanism whose reports support several cells at once, the true one more often than the others.

    A tally counts how often each cell is supported; an outcome is one cell's share of all counts.

        Pr[u | v] = (other + (own − other) · [u = v]) / (own + (n − 1) · other)

    Args:
        shape: Rows and columns of the grid.
        own: Probability that a report supports the true cell.
        other: Probability that a report supports any other cell.
    """
    total = own + (shape[0] * shape[1] - 1) * other
    return Convolution(
        shape, np.full((1, 1), (own - other) / total), other / total, np.ones(shape, dtype=np.bool_), (0, 0)
    )
