"""Compiled belief propagation on a tree of halvings (numba): messages up, beliefs down, samples.

A message is the logarithm of a likelihood as a function of a node's mass, kept at POINTS evenly spaced masses and
linear in between. A halving integrates over where the mass x of a node divides, y to the left and x − y to the right:

    message(x) = noise(x) + log ∫ exp(left(y) + right(x − y)) dF(y / x)

with F the prior of the share (see prior.py). The integral is a sum over the masses at which the sharper half keeps its
message, and over QUANTILES places of the prior, so that neither a sharp likelihood nor a sharp prior is missed.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from heathaze.types import Floats, Integers

POINTS = 21
QUANTILES = 5
SPAN = 6.0
"""A message covers this many standard deviations of what was measured at and below the node to either side."""

NEGLIGIBLE = 15.0
"""A place less likely than the most likely one by a factor of exp(−15) is left out."""

_ROOM = POINTS + QUANTILES + 2


@nb.njit(cache=True)
def combine(left: Integers, right: Integers, value: Floats, scale: Floats, mean: Floats, variance: Floats) -> None:
    """Best linear estimate of every node from what was measured at and below it; infinite variance: nothing was."""
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
def place_grids(left: Integers, right: Integers, mean: Floats, variance: Floats, low: Floats, step: Floats) -> None:
    """The masses at which each node keeps its message; a node without counts takes its parent's largest mass."""
    for node in range(len(left)):
        if variance[node] < np.inf:
            deviation = math.sqrt(variance[node])
            low[node] = max(0.0, mean[node] - SPAN * deviation)
            top = max(mean[node], 0.0) + SPAN * deviation
            step[node] = (top - low[node]) / (POINTS - 1)
            if low[node] == 0.0 and mean[node] > step[node]:
                # The peak of Laplace noise is a corner: let a point fall on it.
                step[node] = mean[node] / math.floor(mean[node] / step[node])
            step[node] = max(step[node], 1e-12 * top, 1e-300)  # no numbers are too sharp to tell apart
        elif node == 0:
            low[node], step[node] = 0.0, 1.0
        top = low[node] + (POINTS - 1) * step[node]
        for half in (left[node], right[node]):
            if half >= 0 and variance[half] == np.inf:
                low[half], step[half] = 0.0, top / (POINTS - 1)


@nb.njit(cache=True, inline="always")
def _between(low: float, step: float, message: Floats, x: float) -> float:
    """A message at any mass: linear between its points, never rising beyond them."""
    at = (x - low) / step
    if at < 0:
        return message[0] + max(message[1] - message[0], 0.0) * at
    last = message.shape[0] - 1
    if at >= last:
        return message[last] + min(message[last] - message[last - 1], 0.0) * (at - last)
    k = int(at)
    return message[k] + (message[k + 1] - message[k]) * (at - k)


@nb.njit(cache=True, inline="always")
def _weight_between(l0: float, e0: float, l1: float, e1: float) -> float:
    """F(l1) − F(l0) of the logistic distribution without cancellation, e = exp(−|l|)."""
    if l1 <= 0:
        return (e1 - e0) / ((1 + e0) * (1 + e1))
    if l0 >= 0:
        return (e0 - e1) / ((1 + e0) * (1 + e1))
    return 1 - e0 / (1 + e0) - e1 / (1 + e1)


@nb.njit(cache=True)
def _divide(
    x: float,
    node: int,
    a: int,
    b: int,
    sharpness: Floats,
    log_odds: Floats,
    ratios: Floats,
    logits: Floats,
    low: Floats,
    step: Floats,
    messages: Floats,
    ys: Floats,
    ws: Floats,
    scratch: Floats,
    weigh: bool,
) -> tuple[int, float]:
    """Places y at which mass x may divide, their weights if ``weigh``, and the logarithm of the integral."""
    sharp, odds = sharpness[node], log_odds[node]
    left_is_sharper = step[a] <= step[b]
    ls, es, heights, likelihoods = scratch[0], scratch[1], scratch[2], scratch[3]
    # 1. The places, ascending: zero, the sharper half's own masses among the quantiles of the prior, and x.
    count = 1
    ys[0], ls[0] = 0.0, -np.inf
    k = 0
    j = 0
    if left_is_sharper:
        while k < POINTS and low[a] + k * step[a] <= 0:
            k += 1
    else:
        while k < POINTS and low[b] + (POINTS - 1 - k) * step[b] >= x:
            k += 1
    while True:
        y = np.inf
        if k < POINTS:
            y = low[a] + k * step[a] if left_is_sharper else x - (low[b] + (POINTS - 1 - k) * step[b])
            if y >= x:
                y = np.inf
        quantile = ratios[j] * x if j < QUANTILES else np.inf
        if y < quantile:
            ys[count], ls[count] = y, np.nan
            k += 1
        elif quantile < np.inf:
            ys[count], ls[count] = quantile, logits[j]
            j += 1
        else:
            break
        count += 1
    ys[count], ls[count] = x, np.inf
    count += 1
    # 2. What both halves say there; places that cannot matter are left out before anything costly is computed.
    most = -np.inf
    for q in range(count):
        heights[q] = _between(low[a], step[a], messages[a], ys[q]) + _between(low[b], step[b], messages[b], x - ys[q])
        most = max(most, heights[q])
        ws[q] = 0.0
    first, last = 0, count - 1
    while heights[first] < most - NEGLIGIBLE and heights[first + 1] < most - NEGLIGIBLE:
        first += 1
    while heights[last] < most - NEGLIGIBLE and heights[last - 1] < most - NEGLIGIBLE:
        last -= 1
    # 3. Between two places the likelihood is taken as exponential, as the tails of Laplace noise are. A straight line
    # would give the long stretch between a sharp peak and the next quantile far more than it has.
    for q in range(first, last + 1):
        if math.isnan(ls[q]):
            ls[q] = sharp * (math.log(ys[q] / (x - ys[q])) - odds)
        es[q] = math.exp(-abs(ls[q]))
        likelihoods[q] = math.exp(heights[q] - most)
    total = 0.0
    for q in range(first + 1, last + 1):
        weight = _weight_between(ls[q - 1], es[q - 1], ls[q], es[q])
        rise = heights[q] - heights[q - 1]
        flat = abs(rise) < 1e-3
        mean = 0.5 * (likelihoods[q - 1] + likelihoods[q]) if flat else (likelihoods[q] - likelihoods[q - 1]) / rise
        total += weight * mean
        if weigh:
            far = 0.5 if flat else 0.0
            if not flat and rise > -700:
                far = 1.0 / (1.0 - math.exp(-rise)) - 1.0 / rise
            ws[q - 1] += weight * mean * (1.0 - far)
            ws[q] += weight * mean * far
    if total <= 0:  # the likelihood sits where the prior has less than the smallest number: take its peak
        for q in range(first, last + 1):
            ws[q] = likelihoods[q]
        return count, most - 745.0
    return count, most + math.log(total)


@nb.njit(cache=True)
def _fill_ratios(sharp: float, odds: float, logits: Floats, ratios: Floats) -> None:
    for j in range(QUANTILES):
        ratios[j] = 1.0 / (1.0 + math.exp(-min(max(logits[j] / sharp + odds, -700.0), 700.0)))


@nb.njit(cache=True)
def _logits() -> Floats:
    places = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.log(places / (1 - places))


@nb.njit(cache=True, nogil=True)
def upward(
    start: int,
    stop: int,
    left: Integers,
    right: Integers,
    value: Floats,
    scale: Floats,
    sharpness: Floats,
    log_odds: Floats,
    low: Floats,
    step: Floats,
    messages: Floats,
) -> None:
    """Fill the messages of some nodes of a stage; those of later stages are there already."""
    logits, ratios = _logits(), np.empty(QUANTILES)
    ys, ws, scratch = np.empty(_ROOM), np.empty(_ROOM), np.empty((4, _ROOM))
    for node in range(start, stop):
        a, b = left[node], right[node]
        if b >= 0:
            _fill_ratios(sharpness[node], log_odds[node], logits, ratios)
        for k in range(POINTS):
            x = low[node] + k * step[node]
            height = -abs(value[node] - x) / scale[node] if scale[node] < np.inf else 0.0
            if b >= 0 and x > 0:
                height += _divide(
                    x, node, a, b, sharpness, log_odds, ratios, logits, low, step, messages, ys, ws, scratch, False
                )[1]
            elif b >= 0:
                height += _between(low[a], step[a], messages[a], 0.0) + _between(low[b], step[b], messages[b], 0.0)
            elif a >= 0:
                height += _between(low[a], step[a], messages[a], x)
            messages[node, k] = height


@nb.njit(cache=True)
def root(low: Floats, step: Floats, messages: Floats, beliefs: Floats, first: Floats, second: Floats) -> float:
    """The belief about the whole, from its message, and the logarithm of the evidence."""
    most = messages[0].max()
    total = 0.0
    for k in range(POINTS):
        beliefs[0, k] = math.exp(messages[0, k] - most) * (0.5 if k in (0, POINTS - 1) else 1.0)
        total += beliefs[0, k]
    first[0], second[0] = 0.0, 0.0
    for k in range(POINTS):
        beliefs[0, k] /= total
        x = low[0] + k * step[0]
        first[0] += beliefs[0, k] * x
        second[0] += beliefs[0, k] * x * x
    return most + math.log(total * step[0])


@nb.njit(cache=True, inline="always")
def _deposit(low: float, step: float, belief: Floats, y: float, weight: float) -> None:
    """Share a weight between the two points of a grid around y."""
    at = (y - low) / step
    if at <= 0:
        belief[0] += weight
    elif at >= POINTS - 1:
        belief[POINTS - 1] += weight
    else:
        k = int(at)
        belief[k] += weight * (1 - (at - k))
        belief[k + 1] += weight * (at - k)


@nb.njit(cache=True, nogil=True)
def downward(
    start: int,
    stop: int,
    left: Integers,
    right: Integers,
    sharpness: Floats,
    log_odds: Floats,
    low: Floats,
    step: Floats,
    messages: Floats,
    beliefs: Floats,
    first: Floats,
    second: Floats,
) -> None:
    """Hand the beliefs (weights of each mass) of some nodes of a stage to their halves, with both moments."""
    logits, ratios = _logits(), np.empty(QUANTILES)
    ys, ws, scratch = np.empty(_ROOM), np.empty(_ROOM), np.empty((4, _ROOM))
    for node in range(start, stop):
        a, b = left[node], right[node]
        if a < 0:
            continue
        if b >= 0:
            _fill_ratios(sharpness[node], log_odds[node], logits, ratios)
        for k in range(POINTS):
            belief = beliefs[node, k]
            if belief < 1e-9:
                continue
            x = low[node] + k * step[node]
            if b < 0 or x <= 0:
                for half in (a, b):
                    if half >= 0:
                        _deposit(low[half], step[half], beliefs[half], x, belief)
                        first[half] += belief * x
                        second[half] += belief * x * x
                continue
            count, _ = _divide(
                x, node, a, b, sharpness, log_odds, ratios, logits, low, step, messages, ys, ws, scratch, True
            )
            total = ws[:count].sum()
            for q in range(count):
                weight = belief * ws[q] / total
                if weight > 1e-12:
                    y, z = ys[q], x - ys[q]
                    _deposit(low[a], step[a], beliefs[a], y, weight)
                    _deposit(low[b], step[b], beliefs[b], z, weight)
                    first[a] += weight * y
                    second[a] += weight * y * y
                    first[b] += weight * z
                    second[b] += weight * z * z


@nb.njit(cache=True)
def draw(
    left: Integers,
    right: Integers,
    sharpness: Floats,
    log_odds: Floats,
    low: Floats,
    step: Floats,
    messages: Floats,
    beliefs: Floats,
    uniforms: Floats,
    mass: Floats,
) -> None:
    """One sample of all masses: the root from its belief, then every division in turn; one uniform a node."""
    logits, ratios = _logits(), np.empty(QUANTILES)
    ys, ws, scratch = np.empty(_ROOM), np.empty(_ROOM), np.empty((4, _ROOM))
    grid = np.empty(POINTS)
    for k in range(POINTS):
        grid[k] = low[0] + k * step[0]
    mass[0] = _pick(grid, beliefs[0], POINTS, uniforms[0])
    for node in range(len(left)):
        a, b = left[node], right[node]
        x = mass[node]
        if a >= 0 and (b < 0 or x <= 0):
            mass[a] = x
            if b >= 0:
                mass[b] = 0.0
        elif a >= 0:
            _fill_ratios(sharpness[node], log_odds[node], logits, ratios)
            count, _ = _divide(
                x, node, a, b, sharpness, log_odds, ratios, logits, low, step, messages, ys, ws, scratch, True
            )
            mass[a] = _pick(ys, ws, count, uniforms[a])
            mass[b] = x - mass[a]


@nb.njit(cache=True)
def _pick(ys: Floats, ws: Floats, count: int, uniform: float) -> float:
    """A point by its weight, and a place around it as far as half-way to its neighbours."""
    target = uniform * ws[:count].sum()
    for q in range(count):
        if target < ws[q]:
            start = 0.5 * (ys[max(q - 1, 0)] + ys[q])
            stop = 0.5 * (ys[q] + ys[min(q + 1, count - 1)])
            return start + (stop - start) * target / ws[q]
        target -= ws[q]
    return ys[count - 1]
