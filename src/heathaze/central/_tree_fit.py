"""Compiled core of tree_fit.py: a dynamic program on convex piecewise linear cost functions, all in integers.

Let f_n(x) be the least cost of the tree below node n if the node holds mass x. With c_n the noisy count of the node and
h its height above the last level,

    f_n(x) = 2^h |c_n − x| + min { Σ f_child(x_child) : Σ x_child = x, x_child ≥ 0 }

A function f_n is kept as a list of segments (slope, length), sorted by slope. All slopes are multiplied by 2^bottom,
with ``bottom`` the last level, so that they are integers. A child that was left out (not selected) costs 2^h − 1 for
each unit of mass, with h the height of its parent (t_i in errata E0-8).

The minimum over all divisions of x (an infimal convolution) merges the children's lists by slope. Adding 2^h |c_n − x|
lowers every slope where x < max(c_n, 0) by 2^h and raises every other slope by 2^h. Neighbouring segments of equal
slope are joined, so a list has at most as many segments as there are possible slopes. The cost of the whole program is
therefore linear in the number of nodes if the tree is full.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from heathaze.types import Integers

ENDLESS = np.int64(2**62)
_LEFT_OUT = -1


@nb.njit(cache=True)
def _next_child(heads: Integers, ends: Integers, slopes: Integers, left_out: Integers, family: Integers) -> int:
    """Find the child whose next segment has the smallest slope: the first child on a tie, −1 if no segment is left."""
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
    """Compute where the list of segments of each node begins in the common array.

    A node has room for all segments of its children and three more, or for every possible slope if that is less.
    """
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
    """Append a segment to a node's list, or lengthen the last segment if it has the same slope."""
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
    """Append a segment of the children's function, and add to it the slope of the node's own term 2^h |c − x|.

    ``before`` is the distance from the start of the segment to c. A segment that contains c becomes two segments.
    """
    first = min(before, length)
    end = _append(slopes, lengths, start, end, slope - weight, first)
    rest = ENDLESS if length == ENDLESS else length - first
    end = _append(slopes, lengths, start, end, slope + weight, rest)
    return end, before - first


@nb.njit(cache=True)
def _divide_evenly(mass: int, room: Integers, given: Integers) -> int:
    """Divide mass evenly among children whose next segments have equal slopes; return the mass that does not fit in.

    ``given[c]`` becomes the share of child c, at most ``room[c]``. A remainder of fewer units than children goes to the
    first children that have room, one unit each.
    """
    given[:] = 0
    while mass > 0:
        open_children = 0
        for child in range(4):
            open_children += given[child] < room[child]
        if open_children == 0:
            break
        share = max(mass // open_children, 1)
        for child in range(4):
            more = min(share, room[child] - given[child], mass)
            given[child] += more
            mass -= more
    return mass


@nb.njit(cache=True)
def fit_masses(heights: Integers, counts: Integers, family: Integers, roots: int) -> tuple[Integers, Integers]:
    """Find the fitted mass of each selected node of the tree, and of the left-out children of each node.

    ``family[n]`` holds one number for each of the four children of node n: the index of the child if it was selected
    (always larger than n), −1 if it was left out, and −2 if it does not exist. The first ``roots`` nodes are the roots.
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
                break  # an endless segment takes all the mass that is left, so steeper segments are never used
        end[node] = at

    mass = np.zeros(nodes, dtype=np.int64)
    room, given = np.zeros(4, np.int64), np.zeros(4, np.int64)
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
            first = _next_child(heads, ends, slopes, left_out, family[node])
            slope = slopes[heads[first]] if family[node, first] >= 0 else left_out[first]
            for child in range(4):
                room[child] = 0
                if family[node, child] >= 0:
                    if heads[child] < ends[child] and slopes[heads[child]] == slope:
                        room[child] = lengths[heads[child]]
                        heads[child] += 1
                elif family[node, child] == _LEFT_OUT and left_out[child] == slope:
                    room[child] = ENDLESS
            left = _divide_evenly(left, room, given)
            for child in range(4):
                if family[node, child] >= 0:
                    mass[family[node, child]] += given[child]
                else:
                    left_out_mass[node, child] += given[child]
    return mass, left_out_mass
