"""Wasserstein distances with the Euclidean ground metric, exact, for small grids (POT's network simplex)."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np

from heathaze.errors import InvalidInput, MissingExtra, TooLarge
from heathaze.metrics.pair import Map, pair
from heathaze.types import Floats

MAX_PAIRS = 2**24
"""Costs are held for every pair of cells with mass: 128 MB of float64 at this limit (64 × 64 full cells)."""

Unit = Literal["box", "cells"]


def w1(truth: Map, estimate: Map, *, unit: Unit = "box") -> float:
    """The least mean Euclidean distance over which the mass must travel.

        W₁(p, q) = min over γ of  Σ γ(x, y) · ‖x − y‖₂

    Units, arguments and errors as for :func:`heathaze.metrics.emd`, which uses ‖·‖₁ and reaches larger grids.

    >>> a = [[1, 0], [0, 0]]
    >>> round(w1(a, [[0, 0], [0, 1]], unit="cells") ** 2, 12)
    2.0
    """
    return _wasserstein(truth, estimate, 1, unit)


def w2(truth: Map, estimate: Map, *, unit: Unit = "box") -> float:
    """The root of the least mean squared Euclidean distance (errata E1-9: the root belongs to it).

        W₂(p, q) = √ min over γ of  Σ γ(x, y) · ‖x − y‖₂²

    >>> w2([[1, 0, 0]], [[0, 0, 1]], unit="cells")
    2.0
    """
    return _wasserstein(truth, estimate, 2, unit)


def _wasserstein(truth: Map, estimate: Map, power: int, unit: Unit) -> float:
    if unit not in ("box", "cells"):
        raise InvalidInput(f"There is no unit {unit!r}; choose 'box' (longer side is 1) or 'cells'.")
    p, q = pair(truth, estimate)
    length = 1 / max(p.shape) if unit == "box" else 1.0
    from_, to = np.argwhere(p > 0), np.argwhere(q > 0)
    if len(from_) * len(to) > MAX_PAIRS:
        raise TooLarge(
            f"The maps have {p.shape[0]} × {p.shape[1]} cells and too many hold mass for exact transport between all "
            "pairs; resample them to at most 64 × 64, or use emd."
        )
    squares = ((from_[:, None, :] - to[None, :, :]) ** 2).sum(axis=2).astype(np.float64)
    cost = np.sqrt(squares) if power == 1 else squares
    least = _solver()(_to_one(p[p > 0]), _to_one(q[q > 0]), cost, numItermax=10_000_000)
    return length * math.pow(max(float(least), 0.0), 1 / power)


def _to_one(mass: Floats) -> Floats:
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def _solver() -> Any:
    try:
        with warnings.catch_warnings():
            # POT's own files contain escape sequences that Python warns about when it first compiles them.
            warnings.simplefilter("ignore")
            from ot.lp import emd2
    except ImportError:
        raise MissingExtra('w1 and w2 need POT; install the package POT (the extra "eval").') from None
    return emd2
