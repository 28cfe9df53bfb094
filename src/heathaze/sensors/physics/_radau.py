"""Upper bounds of ‖exp(−τL)v‖² for v = e_i − e_j or e_i, many at once, from the neighbourhood of each alone.

The squared norm is ∫ exp(−2τλ) dμ(λ), μ the spectral measure of L at v. A few Lanczos steps from v give the
quadrature of Gauss and Radau with one node at 0, below which L has no eigenvalue. Its error has the sign of an odd
derivative of exp(−2τλ), which is negative: the quadrature is never below the integral (Golub and Meurant, *Matrices,
Moments and Quadrature with Applications*, section 6). It is sharp while τ times the degrees is small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from heathaze.types import Floats, Integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_ROOM = 2**22
"""Numbers in the Lanczos vectors of what is treated together."""

_NOTHING = 1e-10
"""A Lanczos vector this much shorter than the degrees is rounding: the measure has no further point."""


def squared_norms(laplacian: csr_array, moves: Integers, tau: float, steps: int) -> Floats:
    """A bound for each row of ``moves``: two nodes, for v = e_i − e_j, or one, for v = e_i."""
    # Rows next to one another in this order cost about as much as one another.
    size = neighbours(laplacian, steps)[moves].sum(axis=1)
    order = np.argsort(size, kind="stable")
    cuts = np.searchsorted(np.cumsum(size[order]), np.arange(_ROOM, size.sum(), _ROOM))
    bounds = np.empty(len(moves))
    for part in np.split(order, np.unique(cuts)):
        if len(part):
            bounds[part] = _quadrature(laplacian, moves[part], tau, steps)
    return bounds


def neighbours(laplacian: csr_array, steps: int) -> Floats:
    """How many numbers a Lanczos vector has so many steps from each node, at most."""
    reach = np.diff(laplacian.indptr).astype(np.float64)
    for _ in range(steps - 1):
        reach = (laplacian != 0) @ reach
    return np.asarray(reach)


def _quadrature(laplacian: Any, moves: Integers, tau: float, steps: int) -> Floats:
    from scipy.sparse import csr_array

    count, ends = moves.shape
    signs = np.tile([1.0, -1.0][:ends], count) / math.sqrt(ends)
    now = csr_array((signs, (np.repeat(np.arange(count), ends), moves.ravel())), shape=(count, laplacian.shape[0]))
    before, beta = None, np.zeros(count)
    jacobi = np.zeros((count, steps + 1, steps + 1))
    small = _NOTHING * float(laplacian.diagonal().max())
    for step in range(steps):
        after = now @ laplacian
        alpha = _row_dots(after, now)
        after = after - _scaled(now, alpha)
        if before is not None:
            after = after - _scaled(before, beta)
        jacobi[:, step, step] = alpha
        beta = np.sqrt(_row_dots(after, after))
        beta[beta < small] = 0
        jacobi[:, step, step + 1] = jacobi[:, step + 1, step] = beta
        before, now = now, _scaled(after, np.divide(1, beta, out=np.zeros(count), where=beta > 0))
    jacobi[:, steps, steps] = _last_pivot(jacobi, steps)
    nodes, vectors = np.linalg.eigh(jacobi)
    # ‖v‖² is the number of ends.
    return ends * np.einsum("ek,ek->e", vectors[:, 0, :] ** 2, np.exp(-2 * tau * np.maximum(nodes, 0)))  # type: ignore[no-any-return]


def _last_pivot(jacobi: Floats, steps: int) -> Floats:
    """The last diagonal entry with which 0 is an eigenvalue: β²ₙ over the last pivot of the part above it."""
    pivot = jacobi[:, 0, 0].copy()
    last = np.zeros(len(jacobi))
    for step in range(1, steps + 1):
        beta = jacobi[:, step, step - 1]
        last = np.divide(beta**2, pivot, out=np.zeros(len(jacobi)), where=beta > 0)
        if step < steps:
            pivot = jacobi[:, step, step] - last
    return last


def _row_dots(one: Any, other: Any) -> Floats:
    return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float64).ravel()


def _scaled(rows: Any, factors: Floats) -> Any:
    scaled = rows.copy()
    scaled.data = rows.data * np.repeat(factors, np.diff(rows.indptr))
    return scaled
