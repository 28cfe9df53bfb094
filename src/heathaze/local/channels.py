"""Channels: the probability of each reported outcome for each true cell, as a linear map and its adjoint.

A channel stands for a stochastic matrix M with one row for each cell and one column for each outcome. M is usually too
large to be stored. Estimation needs only two products: ``forward`` computes fᵀM for a density f over the cells, and
``backward`` computes Mr for a vector r over the outcomes.
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
    """The probability of each outcome for each true cell: a stochastic matrix M, cells × outcomes."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""

    @property
    def outcomes(self) -> int:
        """The number of outcomes, which is the number of columns of M."""

    def forward(self, density: Floats) -> Floats:
        """fᵀM: the probability of each outcome if true cells follow the density f.

        Args:
            density: The density f: the probability of each cell (rows × columns).
        """

    def backward(self, ratio: Floats) -> Floats:
        """Mr: the expectation of r over the outcomes, for each true cell.

        Args:
            ratio: The vector r, one number for each outcome.

        Returns:
            One number for each cell (rows × columns).
        """


@dataclass(frozen=True, eq=False)
class Convolution:
    """A channel that is a convolution: a base probability of every outcome, and a kernel around the true cell.

        Pr[u | v] = base + scale[v] · kernel[u − v]     for outcomes u of the frame that can occur, else 0

    The products are computed by FFT (errata E1-13). Sides are padded to lengths with small prime factors, because the
    FFT of a prime length takes many times as long.

    Args:
        shape: Rows and columns of the grid.
        kernel: The kernel, with odd numbers of rows and columns; the true cell is its middle.
        base: The smallest probability of each outcome that can occur.
        occurs: How many outcomes each cell of the frame stands for: 1 or 0, or more if cells were merged. The frame is
            the grid with a margin on each side.
        margin: How many rows the frame has above and below the grid, and how many columns left and right of it.
        scale: The factor of the kernel for each true cell; 1 if left out.
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
        """fᵀM as base plus convolution. Negative rounding errors are set to zero before the base is added."""
        from scipy.fft import irfft2, rfft2

        lifted = density if self.scale is None else density * self.scale
        if self.kernel.size == 1:
            near = np.asarray(lifted * self.kernel)
            return np.where(self.occurs > 0, near + self._bases * density.sum(), 0.0).ravel()
        blurred = irfft2(rfft2(lifted, self._padded) * self._spectrum, self._padded)
        top, left = self._corner
        near = blurred[top : top + self.occurs.shape[0], left : left + self.occurs.shape[1]]
        return np.where(self.occurs > 0, np.maximum(near, 0.0) + self._bases * density.sum(), 0.0).ravel()

    def backward(self, ratio: Floats) -> Floats:
        """Mr as base plus correlation."""
        from scipy.fft import irfft2, rfft2

        placed = np.where(self.occurs > 0, ratio.reshape(self.occurs.shape), 0.0)
        everywhere = float((placed * self._bases).sum())
        if self.kernel.size == 1:
            own = placed * self.kernel
            return np.asarray((own if self.scale is None else own * self.scale) + everywhere)
        top, left = self._corner
        if top or left:
            placed = np.pad(placed, ((top, 0), (left, 0)))
        gathered = irfft2(rfft2(placed, self._padded) * self._spectrum.conj(), self._padded)
        near = np.maximum(gathered[: self.shape[0], : self.shape[1]], 0.0)
        return np.asarray((near if self.scale is None else near * self.scale) + everywhere)

    def merged(self, factor: int) -> tuple[Convolution, Integers]:
        """The same channel on a coarser grid: a square of cells becomes one cell, a square of outcomes one outcome.

            kernel'[Δ] = Σ_δ kernel[δ] · t(δ − factor·Δ),   t(x) = max(0, factor − |x|) / factor   on either axis

        Here δ is an offset in cells, Δ an offset in squares, and t the share of cells for which a shift by δ cells is a
        shift by Δ squares. The coarse channel is exact for densities that are constant within each square, if
        ``factor`` divides the sides and there is no scale. Otherwise the coarse channel is nearly exact, and its rows
        sum to 1.

        Args:
            factor: The number of cells on a side of a square.

        Returns:
            The coarse channel, and the index of the coarse outcome to which each outcome belongs.
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
        """First row and column of the frame in the full convolution, which extends half a kernel beyond the grid."""
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
    """The share of cells that a shift by δ cells moves by Δ squares of ``factor`` cells.

    The result is a matrix with one row for each Δ and one column for each δ.
    """
    wide = -(-half_width // factor) + 1
    apart = np.arange(-half_width, half_width + 1)[None, :] - factor * np.arange(-wide, wide + 1)[:, None]
    return np.asarray(np.maximum(0, factor - np.abs(apart)) / factor)


def _block_means(values: Floats, factor: int) -> Floats:
    """The mean of every square of ``factor`` × ``factor`` values.

    Squares at the last rows and columns may be smaller.
    """
    rows, cols = (np.arange(0, side, factor) for side in values.shape)
    sums = np.add.reduceat(np.add.reduceat(values, rows, axis=0), cols, axis=1)
    sizes = np.add.reduceat(np.add.reduceat(np.ones_like(values), rows, axis=0), cols, axis=1)
    return np.asarray(sums / sizes)


@dataclass(frozen=True, eq=False)
class Separable:
    """The channel of reports whose row and column are randomised independently.

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
        """The number of pairs (outcome of the row, outcome of the column)."""
        return int(self.down.shape[1] * self.across.shape[1])

    def forward(self, density: Floats) -> Floats:
        """fᵀM: multiply by the matrix of the rows and by the matrix of the columns."""
        return (self.down.T @ density @ self.across).ravel()

    def backward(self, ratio: Floats) -> Floats:
        """Mr: multiply by the matrix of the rows and by the matrix of the columns."""
        return np.asarray(self.down @ ratio.reshape(self.down.shape[1], -1) @ self.across.T)


@dataclass(frozen=True, eq=False)
class Matrix:
    """A channel that stores its whole matrix: for small grids, and to test the other channels.

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
    """The channel of reports that hold either the row or the column; a fair coin chooses which.

        Pr[a | (r, c)] = down[r, a] / 2,   Pr[b | (r, c)] = across[c, b] / 2

    Here a is an outcome of the row r, and b an outcome of the column c. Outcomes of rows come before outcomes of
    columns.

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
        """The number of outcomes of rows plus the number of outcomes of columns."""
        return int(self.down.shape[1] + self.across.shape[1])

    def forward(self, density: Floats) -> Floats:
        """fᵀM: the marginal density of the rows and the marginal density of the columns, each times its matrix."""
        return np.concatenate([density.sum(axis=1) @ self.down, density.sum(axis=0) @ self.across]) / 2

    def backward(self, ratio: Floats) -> Floats:
        """Mr: one number for each row plus one number for each column."""
        down, across = np.split(ratio, [self.down.shape[1]])
        return np.asarray((self.down @ down)[:, None] + (self.across @ across)[None, :]) / 2


@dataclass(frozen=True, eq=False)
class Stacked:
    """The channel of reports that each go through one of several channels, which a public coin chooses.

        Pr[outcome u of channel i | v] = shareᵢ · Prᵢ[u | v]

    The outcomes of the first channel come before those of the second, and so on.

    Args:
        parts: The channels, on the same grid.
        shares: The share of each channel in all counts; the shares sum to 1.

    >>> coin = Matrix((1, 2), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> Stacked((coin, coin), (0.25, 0.75)).forward(np.array([[1.0, 0.0]])).round(3).tolist()
    [0.225, 0.025, 0.675, 0.075]
    """

    parts: tuple[Channel, ...]
    shares: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        return self.parts[0].shape

    @property
    def outcomes(self) -> int:
        """The number of outcomes of all channels."""
        return sum(part.outcomes for part in self.parts)

    def forward(self, density: Floats) -> Floats:
        """fᵀM: the probabilities of the outcomes of each channel, times its share."""
        found = [share * part.forward(density) for part, share in zip(self.parts, self.shares, strict=True)]
        return np.concatenate(found)

    def backward(self, ratio: Floats) -> Floats:
        """Mr: the sum over the channels, each times its share."""
        pieces = np.split(ratio, np.cumsum([part.outcomes for part in self.parts])[:-1])
        total = np.zeros(self.shape)
        for part, share, piece in zip(self.parts, self.shares, pieces, strict=True):
            total += share * part.backward(piece)
        return total

    def merged(self, factor: int) -> tuple[Stacked, Integers]:
        """The same channels on a coarser grid; see :meth:`Convolution.merged`. Every channel must be a convolution."""
        parts, outcome, before = [], [], 0
        for part in self.parts:
            assert isinstance(part, Convolution)
            coarse, places = part.merged(factor)
            parts.append(coarse)
            outcome.append(before + places)
            before += coarse.outcomes
        return Stacked(tuple(parts), self.shares), np.concatenate(outcome)


def membership_channel(shape: tuple[int, int], own: float, other: float) -> Convolution:
    """The channel of a mechanism whose reports support several cells, the true cell more often than any other cell.

    A tally counts how many reports support each cell. The outcome u is one such count, and its probability is the
    expected share of cell u in all counts. With v the true cell and n the number of cells,

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
