"""The iterative solver of the earth mover's distance (emd.py): it finds a flow of mass and a dual potential.

The solver approximates Beckmann's problem. Let f be the difference of two maps and m a flow across borders of cells:

    min Σ |m|   over flows m with   div m = f

The bounds in _certificates.py are computed from the flow and the potential. Douglas–Rachford splitting (which is ADMM
on the dual) alternates two cheap steps:

1. Projection. The flow with divergence f that is nearest to a flow w is w + ∇φ with Δφ = f − div w. A cosine transform
   solves this Poisson equation, since cosines are the eigenvectors of the Laplacian of a grid without outflow.
2. Proximal step. The flow over each border (ℓ1), or the vector of both flows of each cell (ℓ2), is shrunk by t.

At the fixed point ∇φ / t is the sign of the flow (ℓ1) or its direction (ℓ2). So φ / t has slopes of at most 1 and is an
optimal dual potential.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from heathaze.types import Floats

Metric = Literal["l1", "l2"]

RELAXATION = 1.8
"""The factor of over-relaxation. Every value below 2 converges, and 1.8 takes about half as many steps as 1."""

THREADED = 2**18
"""From this many cells, transforms use two threads. On smaller maps, starting threads takes longer than it saves."""


class Guess(NamedTuple):
    """A flow whose divergence is f up to rounding, and a dual potential with slopes of about 1."""

    right: Floats
    down: Floats
    potential: Floats


class Beckmann:
    """The state of the iterative solver for one difference f of two maps, with Σ f = 0 and Σ |f| = 2.

    Args:
        f: The surplus of each cell; negative where mass is missing.
        metric: The norm in which the length of the flow is minimised.
        dtype: float32 halves the time of a step, and is enough for a gap of 1e-5 of the longer side.
    """

    def __init__(self, f: Floats, metric: Metric, dtype: type[np.floating[Any]]) -> None:
        from heathaze.metrics import _kernels

        self._step = _kernels.step_l1 if metric == "l1" else _kernels.step_l2
        self._unlevelled = _kernels.unlevelled
        self._exact_f, self._f = f, f.astype(dtype)
        self._inverse = _inverse_laplacian(f.shape)
        self._working_inverse = self._inverse.astype(dtype)
        self._right, self._down = np.zeros(f.shape, dtype), np.zeros(f.shape, dtype)
        # The step size t is the mean flow over a border in the least-squares solution, so t has the size of the flows.
        phi = _solve(f, self._inverse)
        t = sum(float(np.abs(np.diff(phi, axis=axis)).sum()) for axis in (0, 1)) / f.size
        self._t = max(t, float(np.finfo(np.float32).tiny))
        self.steps = 0

    def advance(self, steps: int) -> None:
        """Take some steps of Douglas–Rachford splitting."""
        kind = self._f.dtype.type
        rest = np.empty_like(self._f)
        for _ in range(steps):
            self._unlevelled(self._right, self._down, self._f, rest)
            phi = _solve(rest, self._working_inverse)
            self._step(self._right, self._down, phi, kind(self._t), kind(RELAXATION))
        self.steps += steps

    def guess(self) -> Guess:
        """Project the present state to a flow with divergence f, in float64, and return it with the potential."""
        right, down = self._right.astype(np.float64), self._down.astype(np.float64)
        rest = np.empty_like(self._exact_f)
        self._unlevelled(right, down, self._exact_f, rest)
        phi = _solve(rest, self._inverse)
        right[:, :-1] += phi[:, :-1] - phi[:, 1:]
        down[:-1] += phi[:-1] - phi[1:]
        return Guess(right, down, phi / self._t)


def level(f: Floats) -> tuple[Floats, Floats]:
    """Find the flow with divergence f that has the least sum of squares; not the cheapest flow, but found fast."""
    phi = _solve(f, _inverse_laplacian(f.shape))
    right, down = np.zeros_like(f), np.zeros_like(f)
    right[:, :-1] = phi[:, :-1] - phi[:, 1:]
    down[:-1] = phi[:-1] - phi[1:]
    return right, down


def _inverse_laplacian(shape: tuple[int, ...]) -> Floats:
    """Compute the inverse eigenvalues of the grid's Laplacian, for the Poisson equation.

    A path of n cells has the eigenvalues 2 − 2 cos(πk / n). The constant has the eigenvalue 0; its inverse is set to 0.
    """
    rows, cols = (2 - 2 * np.cos(np.pi * np.arange(n) / n) for n in shape)
    values = rows[:, None] + cols[None, :]
    values[0, 0] = np.inf
    return np.asarray(1 / values, dtype=np.float64)


def _solve(right_side: Any, inverse: Any) -> Any:
    """Solve the Poisson equation Δφ = right side by cosine transforms, without flow over the edge of the map."""
    from scipy.fft import dctn, idctn

    workers = 2 if right_side.size >= THREADED else 1
    waves = dctn(right_side, workers=workers)
    waves *= inverse
    return idctn(waves, overwrite_x=True, workers=workers)
