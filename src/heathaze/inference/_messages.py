"""Compiled belief propagation on a tree of halvings (numba): messages up, beliefs down, samples.

The message of a node is the log-likelihood of all counts at and below the node, as a function of the node's mass. It is
stored at POINTS evenly spaced masses and is linear in between. A halving divides the mass x of a node into y for the
left half and x − y for the right half, and the message integrates over y:

    message(x) = noise(x) + log ∫ exp(left(y) + right(x − y)) dF(y / x)

Here noise(x) is the log-likelihood of the node's own count, left and right are the messages of the halves, and F is the
prior of the share (see prior.py). The integral is evaluated at the stored masses of the half with the sharper message,
and at QUANTILES quantiles of the prior. So neither a narrow likelihood nor a narrow prior is missed.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from heathaze.types import Floats, Integers

POINTS = 21
"""The number of masses at which a message is stored."""

QUANTILES = 5
"""The number of quantiles of the prior at which the integral of a halving is evaluated."""

SPAN = 6.0
"""A message covers this many standard deviations on either side of the best linear estimate of the node's mass."""

NEGLIGIBLE = 15.0
"""The integral leaves out a division whose log-likelihood is lower than the largest one by more than this."""

_ROOM = POINTS + QUANTILES + 2


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
def place_grids(left: Integers, right: Integers, mean: Floats, variance: Floats, low: Floats, step: Floats) -> None:
    """Choose the masses at which each node stores its message: ``low``, ``low`` + ``step``, and so on.

    If nothing was measured at or below a node, its masses go from 0 to the largest mass of its parent.
    """
    for node in range(len(left)):
        if variance[node] < np.inf:
            deviation = math.sqrt(variance[node])
            low[node] = max(0.0, mean[node] - SPAN * deviation)
            top = max(mean[node], 0.0) + SPAN * deviation
            step[node] = (top - low[node]) / (POINTS - 1)
            if low[node] == 0.0 and mean[node] > step[node]:
                # The likelihood of Laplace noise has a sharp peak: place a point exactly on it.
                step[node] = mean[node] / math.floor(mean[node] / step[node])
            step[node] = max(step[node], 1e-12 * top, 1e-300)  # floats could not represent a smaller step
        elif node == 0:
            low[node], step[node] = 0.0, 1.0
        top = low[node] + (POINTS - 1) * step[node]
        for half in (left[node], right[node]):
            if half >= 0 and variance[half] == np.inf:
                low[half], step[half] = 0.0, top / (POINTS - 1)


@nb.njit(cache=True, inline="always")
def _between(low: float, step: float, message: Floats, x: float) -> float:
    """Evaluate a message at mass x: linear between its points, and not rising beyond the first and the last point."""
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
    """Compute the prior's weight F(l1) − F(l0) between two logits without cancellation.

    F is the logistic distribution function; e0 = exp(−|l0|) and e1 = exp(−|l1|).
    """
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
    """Integrate over the divisions of mass x of a node into y for half ``a`` and x − y for half ``b``.

    The values of y are written to ``ys`` and, if ``weigh``, their posterior weights to ``ws``. Returned are the number
    of values and the logarithm of the integral.
    """
    sharp, odds = sharpness[node], log_odds[node]
    left_is_sharper = step[a] <= step[b]
    ls, es, heights, likelihoods = scratch[0], scratch[1], scratch[2], scratch[3]
    # 1. Collect the values of y in ascending order: zero, the stored masses of the sharper half merged with the
    # quantiles of the prior, and x.
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
    # 2. Add the messages of both halves at each y. Values of y with a negligible likelihood at either end are left out
    # before anything costly is computed.
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
    # 3. Between two values of y the likelihood is taken as exponential, like the tails of Laplace noise. With linear
    # interpolation, the long stretch between a sharp peak and the next quantile would get far too much weight.
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
    if total <= 0:  # the prior underflows where the likelihood is large: use the likelihood without the prior
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
    """Compute the messages of the nodes from ``start`` to ``stop``, which belong to one stage.

    The messages of all later stages must have been computed before.
    """
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
    """Compute the belief about the total mass from the message of the root, and return the log-evidence."""
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
    """Add a weight to a belief at mass y, divided between the two stored masses next to y."""
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
    """Compute the beliefs and both moments of the halves of the nodes from ``start`` to ``stop``, which form one stage.

    A belief is the posterior probability of each stored mass of a node.
    """
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
    """Draw one sample of all masses: first the root's mass from its belief, then each division given the mass above.

    ``uniforms`` holds one uniform random number for each node.
    """
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
    """Draw a mass: one of the points ``ys`` with weights ``ws``, then a mass between the midpoints on either side."""
    target = uniform * ws[:count].sum()
    for q in range(count):
        if target < ws[q]:
            start = 0.5 * (ys[max(q - 1, 0)] + ys[q])
            stop = 0.5 * (ys[q] + ys[min(q + 1, count - 1)])
            return start + (stop - start) * target / ws[q]
        target -= ws[q]
    return ys[count - 1]
