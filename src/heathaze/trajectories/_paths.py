"""Compiled loops (numba) that draw made-up journeys on the squares of a map: cheapest paths, and their bending.

Squares are numbered row · columns + column. All functions work on public numbers only.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from heathaze.types import Floats, Integers

Steps = npt.NDArray[np.uint8]
Metres = npt.NDArray[np.float32]

_DOWN = np.array([-1, -1, -1, 0, 0, 1, 1, 1])
_ACROSS = np.array([-1, 0, 1, -1, 1, -1, 0, 1])
_NOWHERE = 255


@nb.njit(cache=True)
def cheapest_paths(
    roots: Integers,
    price: Floats,
    tilt: Floats,
    rows: int,
    cols: int,
    height: float,
    width: float,
    step: Steps,
    metres: Metres,
) -> None:
    """Find the cheapest path from some squares to every square, by Dijkstra's algorithm with a binary heap.

    A step between two of the eight neighbours costs its length times the mean price of the two squares.

    Args:
        roots: The squares in which paths begin.
        price: The price of a metre in each square.
        tilt: Rows of factors of the prices. Paths from different squares use different rows.
        rows: Rows of the map.
        cols: Columns of the map.
        height: Height of a square in metres.
        width: Width of a square in metres.
        step: The rows of the roots are filled: for each last square the last step of the path, an index into the eight
            neighbours.
        metres: The rows of the roots are filled: the metres of the path to each last square.
    """
    squares = rows * cols
    span = np.empty(8)
    for k in range(8):
        span[k] = math.hypot(_DOWN[k] * height, _ACROSS[k] * width)
    cost = np.empty(squares)
    done = np.empty(squares, np.bool_)
    heap_cost = np.empty(8 * squares + 1)
    heap_square = np.empty(8 * squares + 1, np.int64)
    for root in roots:
        step[root] = _NOWHERE
        metres[root] = 0.0
        factor = tilt[root % len(tilt)]
        cost[:] = np.inf
        done[:] = False
        cost[root] = 0.0
        heap_cost[0], heap_square[0] = 0.0, root
        size = 1
        while size:
            here, paid = heap_square[0], heap_cost[0]
            size -= 1
            last_cost, last_square = heap_cost[size], heap_square[size]
            at = 0
            while True:
                child = 2 * at + 1
                if child >= size:
                    break
                if child + 1 < size and heap_cost[child + 1] < heap_cost[child]:
                    child += 1
                if heap_cost[child] >= last_cost:
                    break
                heap_cost[at], heap_square[at] = heap_cost[child], heap_square[child]
                at = child
            heap_cost[at], heap_square[at] = last_cost, last_square
            if done[here]:
                continue
            done[here] = True
            row, col = here // cols, here % cols
            own = price[here] * factor[here]
            for k in range(8):
                below, right = row + _DOWN[k], col + _ACROSS[k]
                if below < 0 or below >= rows or right < 0 or right >= cols:
                    continue
                there = below * cols + right
                if done[there]:
                    continue
                new = paid + span[k] * 0.5 * (own + price[there] * factor[there])
                if new < cost[there]:
                    cost[there] = new
                    step[root, there] = k
                    metres[root, there] = metres[root, here] + span[k]
                    at = size
                    size += 1
                    while at > 0 and heap_cost[(at - 1) // 2] > new:
                        heap_cost[at], heap_square[at] = heap_cost[(at - 1) // 2], heap_square[(at - 1) // 2]
                        at = (at - 1) // 2
                    heap_cost[at], heap_square[at] = new, there


@nb.njit(cache=True)
def _draw(weights: Floats, uniform: float) -> int:
    total = weights.sum()
    if not total > 0:
        return -1
    left = uniform * total
    for k in range(len(weights)):
        left -= weights[k]
        if left < 0:
            return k
    return len(weights) - 1


@nb.njit(cache=True)
def next_places(
    here: Integers, end: Integers, rest: Floats, left: Integers, metres: Metres, liking: Floats, uniforms: Floats
) -> Integers:
    """Choose the next place through which each journey is led, so that its path has about the wanted length.

    The last place is chosen so that the whole path has about the wanted length. The places before it are equal shares
    of the length apart.

    Args:
        here: The square that each journey has reached.
        end: The last square of each journey.
        rest: The length that each journey has left, in metres.
        left: The number of places that each journey still has, including the place that is chosen now.
        metres: Metres of the path from a square to each square; only the rows of ``here`` and ``end`` are read.
        liking: How often journeys pass each square.
        uniforms: A uniform number for each journey.

    Returns:
        A square for each journey, or −1 if none fits.
    """
    chosen = np.empty(len(here), np.int64)
    weights = np.empty(len(liking))
    for i in range(len(here)):
        legs = left[i] + 1
        for v in range(len(liking)):
            out, back = float(metres[here[i], v]), float(metres[end[i], v])
            if left[i] == 1:
                off = (out + back - rest[i]) / (0.06 * rest[i])
            else:
                off = (out - rest[i] / legs) / (0.8 * rest[i] / legs)
                if out + back > rest[i]:
                    off = 9.0
            weights[v] = liking[v] * math.exp(-0.5 * off * off) if abs(off) < 6 else 0.0
        chosen[i] = _draw(weights, uniforms[i])
    return chosen


@nb.njit(cache=True)
def _steps(root: int, to: int, step: Steps, cols: int) -> int:
    count, here = 0, to
    while here != root:
        k = step[root, here]
        here = here - _DOWN[k] * cols - _ACROSS[k]
        count += 1
    return count


@nb.njit(cache=True)
def follow(start: Integers, end: Integers, via: Integers, step: Steps, cols: int) -> tuple[Integers, Integers]:
    """List the squares of each journey: the cheapest paths from its start through its places to its end.

    Returns:
        The squares of all journeys, and the offset of each journey.
    """
    most = via.shape[1]
    offsets = np.zeros(len(start) + 1, np.int64)
    for i in range(len(start)):
        here, count = start[i], 1
        for k in range(most + 1):
            to = end[i] if k == most or via[i, k] < 0 else via[i, k]
            count += _steps(here, to, step, cols)
            here = to
            if k < most and via[i, k] < 0:
                break
        offsets[i + 1] = offsets[i] + count
    squares = np.empty(offsets[-1], np.int64)
    for i in range(len(start)):
        at, here = offsets[i], start[i]
        squares[at] = here
        for k in range(most + 1):
            to = end[i] if k == most or via[i, k] < 0 else via[i, k]
            count = _steps(here, to, step, cols)
            back = to
            for j in range(count):
                squares[at + count - j] = back
                s = step[here, back]
                back = back - _DOWN[s] * cols - _ACROSS[s]
            at += count
            here = to
            if k < most and via[i, k] < 0:
                break
    return squares, offsets


@nb.njit(cache=True)
def _length(x: Floats, y: Floats, dx: Floats, dy: Floats, amount: float) -> float:
    total = 0.0
    for k in range(1, len(x)):
        across = x[k] - x[k - 1] + amount * (dx[k] - dx[k - 1])
        down = y[k] - y[k - 1] + amount * (dy[k] - dy[k - 1])
        total += math.sqrt(across * across + down * down)
    return total


@nb.njit(cache=True)
def bend(
    x: Floats, y: Floats, offsets: Integers, length: Floats, shake_x: Floats, shake_y: Floats, most: float
) -> None:
    """Smooth or shake the points of each journey, in place, until it has about the wanted length.

    Smoothing shortens a journey: each inner point moves towards the middle of its neighbours. Shaking lengthens it:
    each inner point moves by a random offset times an amount of at most ``most``, found by bisection.
    """
    for i in range(len(offsets) - 1):
        a, b = offsets[i], offsets[i + 1]
        px, py, dx, dy = x[a:b], y[a:b], shake_x[a:b], shake_y[a:b]
        dx[0] = dy[0] = dx[-1] = dy[-1] = 0.0
        if len(px) < 3:
            continue
        for turn in range(40):
            if turn >= 2 and _length(px, py, dx, dy, 0.0) <= length[i]:
                break
            before_x, before_y = px[0], py[0]
            for k in range(1, len(px) - 1):
                keep_x, keep_y = px[k], py[k]
                px[k] = 0.25 * before_x + 0.5 * keep_x + 0.25 * px[k + 1]
                py[k] = 0.25 * before_y + 0.5 * keep_y + 0.25 * py[k + 1]
                before_x, before_y = keep_x, keep_y
        low, high = 0.0, most
        if _length(px, py, dx, dy, 0.0) >= length[i]:
            high = 0.0
        for _ in range(12):
            middle = 0.5 * (low + high)
            if _length(px, py, dx, dy, middle) < length[i]:
                low = middle
            else:
                high = middle
        for k in range(len(px)):
            px[k] += high * dx[k]
            py[k] += high * dy[k]
