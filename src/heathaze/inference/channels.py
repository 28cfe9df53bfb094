"""From the distribution of cells to the distribution of what is tallied, and back: the two products that EM needs.

A channel is a stochastic matrix M, cells × outcomes, that is never written out. ``forward`` is fᵀM, ``backward`` is Mr.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Channel(Protocol):
    """A stochastic matrix from the cells of a grid to a row of outcomes."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""

    @property
    def outcomes(self) -> int:
        """How many outcomes there are."""

    def forward(self, density: Floats) -> Floats:
        """Probability of every outcome, for a density over the cells (rows × columns)."""

    def backward(self, ratio: Floats) -> Floats:
        """For every cell, the expectation of a number that each outcome has."""


@dataclass(frozen=True, eq=False)
class Convolution:
    """A kernel around the true cell, on top of the same small probability for every outcome; by FFT (errata E1-13).

        Pr[u | v] = base + scale[v] · kernel[u − v]     for outcomes u of the frame that can occur, else 0

    Padded to lengths with small factors: a prime length takes many times as long.

    Args:
        shape: Rows and columns of the grid.
        kernel: Odd number of rows and columns, the true cell in the middle.
        base: What every outcome has at least.
        occurs: Which cells of the frame are outcomes: the grid and, on each side, as much as ``margin`` says.
        margin: How many cells the frame has beyond the grid, down and across.
        scale: Factor of the kernel for every cell; 1 where left out.
    """

    shape: tuple[int, int]
    kernel: Floats
    base: float
    occurs: npt.NDArray[np.bool_]
    margin: tuple[int, int]
    scale: Floats | None = None

    @property
    def outcomes(self) -> int:
        """Cells of the frame."""
        return self.occurs.size

    def forward(self, density: Floats) -> Floats:
        """Base plus convolution; what rounding leaves below zero is cut before the base is added."""
        from scipy.fft import irfft2, rfft2

        lifted = density if self.scale is None else density * self.scale
        blurred = irfft2(rfft2(lifted, self._padded) * self._spectrum, self._padded)
        top, left = self._corner
        near = blurred[top : top + self.occurs.shape[0], left : left + self.occurs.shape[1]]
        return np.where(self.occurs, np.maximum(near, 0.0) + self.base * density.sum(), 0.0).ravel()

    def backward(self, ratio: Floats) -> Floats:
        """Base plus correlation."""
        from scipy.fft import irfft2, rfft2

        placed = np.where(self.occurs, ratio.reshape(self.occurs.shape), 0.0)
        top, left = self._corner
        if top or left:
            placed = np.pad(placed, ((top, 0), (left, 0)))
        gathered = irfft2(rfft2(placed, self._padded) * self._spectrum.conj(), self._padded)
        near = np.maximum(gathered[: self.shape[0], : self.shape[1]], 0.0)
        return np.asarray((near if self.scale is None else near * self.scale) + self.base * placed.sum())

    @property
    def _corner(self) -> tuple[int, int]:
        """Where the frame begins in the full convolution, which reaches half a kernel beyond the grid."""
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


@dataclass(frozen=True, eq=False)
class Separable:
    """Row and column are randomised on their own: Pr[(a, b) | (r, c)] = down[r, a] · across[c, b]."""

    down: Floats
    across: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        return self.down.shape[0], self.across.shape[0]

    @property
    def outcomes(self) -> int:
        """Pairs of a row's and a column's outcome."""
        return self.down.shape[1] * self.across.shape[1]

    def forward(self, density: Floats) -> Floats:
        """Both sides, one after the other."""
        return (self.down.T @ density @ self.across).ravel()

    def backward(self, ratio: Floats) -> Floats:
        """Both sides, one after the other."""
        return np.asarray(self.down @ ratio.reshape(self.down.shape[1], -1) @ self.across.T)


@dataclass(frozen=True, eq=False)
class Dense:
    """A matrix written out: for small grids, and to check the others."""

    shape: tuple[int, int]
    matrix: Floats

    @property
    def outcomes(self) -> int:
        """Columns of the matrix."""
        return self.matrix.shape[1]

    def forward(self, density: Floats) -> Floats:
        """fᵀM."""
        return np.asarray(density.ravel() @ self.matrix)

    def backward(self, ratio: Floats) -> Floats:
        """Mr."""
        return np.asarray((self.matrix @ ratio).reshape(self.shape))
