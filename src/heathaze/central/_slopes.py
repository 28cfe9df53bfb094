"""Compiled core of tree_fit: convex piecewise linear functions as sorted (slope, length) lists, all integers.

Slopes are scaled by 2^bottom, so a node of height h (0 = last level) has weight 2^h and a left-out child of a node of
height h costs 2^h − 1 for each unit of mass (t_i of errata E0-8). For every node

    f_n(x) = 2^h |c_n − x| + min { Σ f_child(x_child) : Σ x_child = x, x_child ≥ 0 }

The minimum over splits (infimal convolution) merges the children's lists by slope. Adding 2^h |c − x| lowers the slopes
before max(c, 0) and raises those behind. Equal neighbours are joined, so a list is never longer than the number of
possible slopes, and the cost is linear in the nodes where the tree is full.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from heathaze.types import Integers

ENDLESS = np.int64(2**62)
_LEFT_OUT = -1


@nb.njit(cache=True)
def _next_child(heads: Integers, ends: Integers, slopes: Integers, left_out: Integers, family: Integers) -> int:
    """Which child has the smallest next slope; the first one on a tie; −1 when all are used up."""
    best = -1
    best_slope = ENDLESS
    for child in range(4):
        if family[child] >= 0:
            if heads[child] < ends[child] and slopes[heads[child]] < best_slope:
                best, best_slope = child, slopes[heads[child]]
        elif family[child] == _LEFT_OUT and left_out[child] < best_slope:
            best, best_slope = child, left_out[child]
    return best


@nb.njit(cache=True)
def _room(heights: Integers, family: Integers) -> Integers:
    """Where the list of each node begins: room for its children's segments and two more, or for every slope."""
    begin = np.zeros(len(heights) + 1, dtype=np.int64)
    size = np.zeros(len(heights), dtype=np.int64)
    for node in range(len(heights) - 1, -1, -1):
        wanted = 3
        for child in range(4):
            if family[node, child] >= 0:
                wanted += size[family[node, child]]
        size[node] = min(wanted, np.int64(2) ** (heights[node] + 2) + 2)
    for node in range(len(heights)):
        begin[node + 1] = begin[node] + size[node]
    return begin


@nb.njit(cache=True)
def _append(slopes: Integers, lengths: Integers, start: int, end: int, slope: int, length: int) -> int:
    """Add a segment, joined to the last one where the slopes are equal."""
    if length == 0:
        return end
    if end > start and slopes[end - 1] == slope:
        lengths[end - 1] = min(ENDLESS, lengths[end - 1] + length)
        return end
    slopes[end], lengths[end] = slope, length
    return end + 1


@nb.njit(cache=True)
def _append_with_count(
    slopes: Integers, lengths: Integers, start: int, end: int, slope: int, length: int, weight: int, before: int
) -> tuple[int, int]:
    """Add a segment of the children's function plus the node's own 2^h |c − x|; ``before`` is what is left below c."""
    first = min(before, length)
    end = _append(slopes, lengths, start, end, slope - weight, first)
    rest = ENDLESS if length == ENDLESS else length - first
    end = _append(slopes, lengths, start, end, slope + weight, rest)
    return end, before - first


@nb.njit(cache=True)
def fit_masses(heights: Integers, counts: Integers, family: Integers, roots: int) -> tuple[Integers, Integers]:
    """Mass of each selected node, and of each node's left-out children.

    ``family[n]`` holds, for each quadrant, the index of the selected child (always larger than n), −1 where the child
    was left out, −2 where there is none. The first ``roots`` nodes are the roots.
    """
    nodes = len(heights)
    start = _room(heights, family)
    end = start[:-1].copy()
    slopes = np.empty(start[-1], dtype=np.int64)
    lengths = np.empty(start[-1], dtype=np.int64)
    heads, ends, left_out = np.zeros(4, np.int64), np.zeros(4, np.int64), np.zeros(4, np.int64)

    for node in range(nodes - 1, -1, -1):
        weight = np.int64(1) << heights[node]
        before = max(counts[node], np.int64(0))
        at = start[node]
        if heights[node] == 0:
            at, before = _append_with_count(slopes, lengths, start[node], at, 0, ENDLESS, weight, before)
            end[node] = at
            continue
        for child in range(4):
            left_out[child] = weight - 1
            if family[node, child] >= 0:
                heads[child], ends[child] = start[family[node, child]], end[family[node, child]]
        while True:
            child = _next_child(heads, ends, slopes, left_out, family[node])
            slope, length = left_out[child], ENDLESS
            if family[node, child] >= 0:
                slope, length = slopes[heads[child]], lengths[heads[child]]
                heads[child] += 1
            at, before = _append_with_count(slopes, lengths, start[node], at, slope, length, weight, before)
            if length == ENDLESS:
                break  # whatever is steeper behind an endless segment is never used
        end[node] = at

    mass = np.zeros(nodes, dtype=np.int64)
    left_out_mass = np.zeros((nodes, 4), dtype=np.int64)
    for node in range(roots):
        for segment in range(start[node], end[node]):
            if slopes[segment] < 0:
                mass[node] += lengths[segment]
    for node in range(nodes):
        if heights[node] == 0:
            continue
        left = mass[node]
        for child in range(4):
            left_out[child] = (np.int64(1) << heights[node]) - 1
            if family[node, child] >= 0:
                heads[child], ends[child] = start[family[node, child]], end[family[node, child]]
        while left > 0:
            child = _next_child(heads, ends, slopes, left_out, family[node])
            if family[node, child] >= 0:
                given = min(left, lengths[heads[child]])
                mass[family[node, child]] += given
                heads[child] += 1
            else:
                given = left
                left_out_mass[node, child] += given
            left -= given
    return mass, left_out_mass
