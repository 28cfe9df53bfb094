"""What mechanisms share whose reports support several cells at once, the true one more often than any other."""

from __future__ import annotations

import numpy as np

from heathaze.local.channels import Convolution


def membership_channel(shape: tuple[int, int], own: float, other: float) -> Convolution:
    """The share of all tallies that a cell gets, from Pr[true cell is supported] and Pr[another cell is].

    Pr[u | v] = (other + (own − other) · [u = v]) / (own + (n − 1) · other)
    """
    total = own + (shape[0] * shape[1] - 1) * other
    return Convolution(
        shape, np.full((1, 1), (own - other) / total), other / total, np.ones(shape, dtype=np.bool_), (0, 0)
    )


def blocks(reports: int, cells: int) -> range:
    """Where each block of reports begins, its step being their number: reports × cells × 8 bytes are some 32 MB."""
    return range(0, reports, max(1, 2**22 // cells))
