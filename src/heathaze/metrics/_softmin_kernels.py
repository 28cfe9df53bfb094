"""Compiled part of sinkhorn: single soft minima in logarithms, where products of floats underflow."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from heathaze.types import Floats, Integers


@nb.njit(cache=True)
def logsumexp_at(h: Floats, weight: float, rows: Integers, cols: Integers, out: Floats) -> None:
    """out[i, j] = log Σ_k exp(h[i, k] − weight·(j − k)²) for the given (i, j); −∞ counts for nothing."""
    for i, j in zip(rows, cols):  # noqa: B905 - numba knows no strict
        best = -np.inf
        for k in range(h.shape[1]):
            best = max(best, h[i, k] - weight * (j - k) * (j - k))
        out[i, j] = best
        if best > -np.inf:
            total = 0.0
            for k in range(h.shape[1]):
                total += math.exp(h[i, k] - weight * (j - k) * (j - k) - best)
            out[i, j] = best + math.log(total)
