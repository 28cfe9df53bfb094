"""Compiled kernels that choose the masses at which a node stores its message (numba); _messages.py computes messages.

A node stores its message where its mass may be: around the best linear estimate of the mass from the counts at and
below the node. The same estimate gives the first, rough surface of the prior (_beliefs.py).
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from heathaze.types import Floats, Integers

SPAN = 6.0
"""A message covers this many standard deviations on either side of the best linear estimate of the node's mass."""


@nb.njit(cache=True)
def combine(left: Integers, right: Integers, value: Floats, scale: Floats, mean: Floats, variance: Floats) -> None:
    """Compute the best linear estimate of every node's mass from the counts at and below the node, with its variance.

    The variance is infinite if nothing was measured at or below the node.
    """
    for node in range(len(left) - 1, -1, -1):
        precision = 0.0
        weighted = 0.0
        if scale[node] < np.inf:
            precision = 1.0 / (2.0 * scale[node] ** 2)
            weighted = precision * value[node]
        below = 0.0
        spread = 0.0
        if left[node] >= 0:
            below, spread = mean[left[node]], variance[left[node]]
            if right[node] >= 0:
                below += mean[right[node]]
                spread += variance[right[node]]
            if spread < np.inf:
                precision += 1.0 / spread
                weighted += below / spread
        mean[node] = weighted / precision if precision > 0 else 0.0
        variance[node] = 1.0 / precision if precision > 0 else np.inf


@nb.njit(cache=True)
def place_grids(
    left: Integers, right: Integers, mean: Floats, variance: Floats, low: Floats, step: Floats, points: int
) -> None:
    """Choose the ``points`` masses at which each node stores its message: ``low``, ``low`` + ``step``, and so on.

    If nothing was measured at or below a node, its masses go from 0 to the largest mass of its parent.
    """
    for node in range(len(left)):
        if variance[node] < np.inf:
            deviation = math.sqrt(variance[node])
            low[node] = max(0.0, mean[node] - SPAN * deviation)
            top = max(mean[node], 0.0) + SPAN * deviation
            step[node] = (top - low[node]) / (points - 1)
            if low[node] == 0.0 and mean[node] > step[node]:
                # The likelihood of Laplace noise has a sharp peak: place a point exactly on it.
                step[node] = mean[node] / math.floor(mean[node] / step[node])
            step[node] = max(step[node], 1e-12 * top, 1e-300)  # floats could not represent a smaller step
        elif node == 0:
            low[node], step[node] = 0.0, 1.0
        top = low[node] + (points - 1) * step[node]
        for half in (left[node], right[node]):
            if half >= 0 and variance[half] == np.inf:
                low[half], step[half] = 0.0, top / (points - 1)
