"""The iteration behind :mod:`heathaze.metrics.emd`. It finds flows and potentials; _certificates makes bounds of them.

    min Σ |m|   over flows m across borders of cells with   div m = f                                       (Beckmann)

Douglas–Rachford splitting (which is ADMM on the dual) alternates two steps that are both cheap. The nearest flow with
the right divergence is w + ∇φ with Δφ = f − div w. This Poisson equation is solved by a cosine transform, since the
cosines are the eigenvectors of the Laplacian of a grid without outflow. The proximal step is a shrinkage of each border
(ℓ1) or of each cell's arrow (ℓ2). At the fixed point ∇φ / t is the sign of the flow, so φ / t is a potential of slope 1
and an optimal dual.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from heathaze.types import Floats

Metric = Literal["l1", "l2"]

RELAXATION = 1.8
"""Over-relaxation; every value below 2 converges, and 1.8 takes about half the steps of 1."""

THREADED = 2**18
"""From this many cells on the transforms use two threads; on smaller maps starting them costs more than it gains."""


class Guess(NamedTuple):
    """A flow that levels f up to rounding, and a potential with slopes of about 1."""

    right: Floats
    down: Floats
    potential: Floats


class Beckmann:
    """The state of the iteration for one f, which has Σ f = 0 and Σ |f| = 2.

    Args:
        f: What each cell has too much.
        metric: Whose length of the flow is minimised.
        dtype: float32 halves the time of a step; it is enough for a gap of 1e-5 of the longer side.
    """

    def __init__(self, f: Floats, metric: Metric, dtype: type[np.floating[Any]]) -> None:
        from heathaze.metrics import _kernels

        self._step = _kernels.step_l1 if metric == "l1" else _kernels.step_l2
        self._unlevelled = _kernels.unlevelled
        self._exact_f, self._f = f, f.astype(dtype)
        self._inverse = _inverse_laplacian(f.shape)
        self._working_inverse = self._inverse.astype(dtype)
        self._right, self._down = np.zeros(f.shape, dtype), np.zeros(f.shape, dtype)
        # The step is the mean of the flow that the Poisson equation alone gives: the size of what is shrunk.
        phi = _solve(f, self._inverse)
        t = sum(float(np.abs(np.diff(phi, axis=axis)).sum()) for axis in (0, 1)) / f.size
        self._t = max(t, float(np.finfo(np.float32).tiny))
        self.steps = 0

    def advance(self, steps: int) -> None:
        """Take some steps."""
        kind = self._f.dtype.type
        rest = np.empty_like(self._f)
        for _ in range(steps):
            self._unlevelled(self._right, self._down, self._f, rest)
            phi = _solve(rest, self._working_inverse)
            self._step(self._right, self._down, phi, kind(self._t), kind(RELAXATION))
        self.steps += steps

    def guess(self) -> Guess:
        """The projection of the present state, in float64."""
        right, down = self._right.astype(np.float64), self._down.astype(np.float64)
        rest = np.empty_like(self._exact_f)
        self._unlevelled(right, down, self._exact_f, rest)
        phi = _solve(rest, self._inverse)
        right[:, :-1] += phi[:, :-1] - phi[:, 1:]
        down[:-1] += phi[:-1] - phi[1:]
        return Guess(right, down, phi / self._t)


def level(f: Floats) -> tuple[Floats, Floats]:
    """The flow of least squares that levels f. It is not the cheapest flow, but takes one transform."""
    phi = _solve(f, _inverse_laplacian(f.shape))
    right, down = np.zeros_like(f), np.zeros_like(f)
    right[:, :-1] = phi[:, :-1] - phi[:, 1:]
    down[:-1] = phi[:-1] - phi[1:]
    return right, down


def _inverse_laplacian(shape: tuple[int, ...]) -> Floats:
    """1 / eigenvalue, where those of a path of n cells are 2 − 2 cos(πk / n); the constant has none and is dropped."""
    rows, cols = (2 - 2 * np.cos(np.pi * np.arange(n) / n) for n in shape)
    values = rows[:, None] + cols[None, :]
    values[0, 0] = np.inf
    return np.asarray(1 / values, dtype=np.float64)


def _solve(right_side: Any, inverse: Any) -> Any:
    """φ with Δφ = right side, without flow over the edge."""
    from scipy.fft import dctn, idctn

    workers = 2 if right_side.size >= THREADED else 1
    waves = dctn(right_side, workers=workers)
    waves *= inverse
    return idctn(waves, overwrite_x=True, workers=workers)
