"""Compiled belief propagation on a tree of halvings (numba): messages up, beliefs down, samples.

The message of a node is the log-likelihood of all counts at and below the node, as a function of the node's mass. It is
stored at POINTS evenly spaced masses (_grids.py) and is linear in between. A halving divides the mass x of a node into
y for the left half and x − y for the right half, and the message integrates over y:

    message(x) = noise(x) + log ∫ exp(left(y) + right(x − y)) dF(y)

Here noise(x) is the log-likelihood of the node's own count, left and right are the messages of the halves, and F is the
prior of the share (see prior.py): slabs, and the two spikes y = 0 and y = x. The integral is evaluated at the stored
masses of the half with the sharper message, and at fixed distances from the centre of the prior. So neither a narrow
likelihood nor a narrow prior is missed.

All kernels that use this integral are in this file: numba would not compile a kernel again if the integral changed in
another file.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from heathaze.inference.prior import SLABS
from heathaze.types import Floats, Integers

POINTS = 21
"""The number of masses at which a message is stored."""

_AWAY = np.array([0.12, 0.35, 0.8, 1.5, 2.6, 4.2, 6.5])
AROUND = np.concatenate([-_AWAY[::-1], [0.0], _AWAY])
"""The distances from the centre of the prior, in log-odds, at which the integral of a halving is evaluated."""

_SLABS = len(SLABS)
_CONCENTRATIONS = np.array(SLABS)
_NEAR = len(AROUND)
_ROWS, _ROOM = 9, POINTS + _NEAR + 4


@nb.njit(cache=True, inline="always", error_model="numpy")
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


@nb.njit(cache=True, error_model="numpy")
def _fill_lines(message: Floats, heights: Floats, slopes: Floats) -> None:
    """Write a message as straight lines, in which :func:`_add_heights` looks values up without a branch.

    ``at`` steps above the lowest stored mass, the message is heights[k] + slopes[k] · at with k = ⌊at⌋ + 1, where k is
    at least 0 and at most POINTS.
    """
    last = POINTS - 1
    for k in range(last):
        slopes[k + 1] = message[k + 1] - message[k]
        heights[k + 1] = message[k] - slopes[k + 1] * k
    slopes[0], heights[0] = max(slopes[1], 0.0), message[0]
    slopes[POINTS] = min(slopes[last], 0.0)
    heights[POINTS] = message[last] - slopes[POINTS] * last


@nb.njit(cache=True, error_model="numpy")
def _add_heights(count: int, low: float, rate: float, lines: Floats, masses: Floats, sums: Floats) -> None:
    """Add a message at some masses to ``sums``; ``rate`` is one over the distance of its stored masses."""
    for q in range(count):
        at = (masses[q] - low) * rate
        k = int(min(max(at + 1.0, 0.0), float(POINTS)))
        sums[q] += lines[0, k] + lines[1, k] * at


@nb.njit(cache=True, inline="always", error_model="numpy")
def _exp(t: float) -> float:
    """Compute exp(t) for t ≤ 0 as (1 + u + u²/2 + u³/6 + u⁴/24 + u⁵/120)^256 with u = t/256, and at least exp(−300).

    The relative error is below 1e-10 for t > −5, 2e-8 for t > −15 and 1e-4 for t > −60. There are no branches, so the
    compiler computes several at once.
    """
    u = max(t, -300.0) / 256
    e = 1 + u * (1 + u * (1 / 2 + u * (1 / 6 + u * (1 / 24 + u / 120))))
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    return e * e


@nb.njit(cache=True, error_model="numpy")
def _add_tails(start: int, stop: int, ls: Floats, sharp: float, weight: float, tails: Floats) -> None:
    """Add the weight of a slab beyond some logits, on the side away from the centre, to ``tails``."""
    for q in range(start, stop):
        e = _exp(-abs(ls[q]) * sharp)
        tails[q] += weight * e / (1 + e)


@nb.njit(cache=True, error_model="numpy")
def _collect(
    x: float,
    a: int,
    b: int,
    mu: float,
    least: float,
    ratios: Floats,
    low: Floats,
    step: Floats,
    ys: Floats,
    ls: Floats,
) -> int:
    """Collect the values of y at which a division of mass x is evaluated, in ascending order.

    They are 0, the ``least`` mass of a half that is not empty, the stored masses of the half with the sharper message
    merged with the fixed distances from the centre, x − ``least``, and x. Their logits minus the centre are written to
    ``ls``; a logit that is costly to compute is left as NaN. The function returns the number of values.
    """
    ys[0] = 0.0
    ys[1], ls[1] = least, math.log(least / (x - least)) - mu
    count, end = 2, x - least
    left_is_sharper = step[a] <= step[b]
    k, j = 0, 0
    while j < _NEAR and ratios[j] * x <= least:
        j += 1
    while end > least:
        y = np.inf
        if k < POINTS:
            y = low[a] + k * step[a] if left_is_sharper else x - (low[b] + (POINTS - 1 - k) * step[b])
            if y <= least:
                k += 1
                continue
        near = ratios[j] * x if j < _NEAR else np.inf
        if min(y, near) >= end:
            break
        if y < near:
            ys[count], ls[count] = y, np.nan
            k += 1
        else:
            ys[count], ls[count] = near, AROUND[j]
            j += 1
        count += 1
    if end > least:
        ys[count], ls[count] = end, math.log(end / least) - mu
        count += 1
    ys[count] = x
    return count + 1


@nb.njit(cache=True, error_model="numpy")
def _divide(
    x: float,
    a: int,
    b: int,
    group: int,
    mu: float,
    weights: Floats,
    spike: float,
    lump: float,
    ratios: Floats,
    low: Floats,
    step: Floats,
    lines: Floats,
    scratch: Floats,
) -> tuple[int, float]:
    """Integrate over the divisions of mass x of a node into y for half ``a`` and x − y for half ``b``.

    ``ratios`` and ``lines`` come from :func:`_prepare`. ``scratch`` is filled with one column for each y: 0 y itself, 1
    its logit minus the centre, 2 the weight of the slabs beyond it, 3 its log-likelihood, 4 its likelihood as a part of
    the largest, 5 the posterior weight between the y before and this one, 6 the mean likelihood there. The first and
    the last column are the two spikes, and 5 holds their whole weight. Row 7 holds the sharpness of the slabs, and 8
    the mass of the other half. The function returns the number of columns and the
    logarithm of the integral.
    """
    ys, ls, tails, heights, likelihoods = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    between, means, sharps, others = scratch[5], scratch[6], scratch[7], scratch[8]
    # 1. Collect the values of y in ascending order, and add the messages of both halves at each.
    count = _collect(x, a, b, mu, 0.5 * min(lump, x), ratios, low, step, ys, ls)
    last = count - 1
    for q in range(count):
        heights[q], others[q] = 0.0, x - ys[q]
    _add_heights(count, low[a], 1.0 / step[a], lines[0], ys, heights)
    _add_heights(count, low[b], 1.0 / step[b], lines[1], others, heights)
    most = heights[0]
    for q in range(1, count):
        most = max(most, heights[q])
    for q in range(count):
        likelihoods[q] = _exp(heights[q] - most) if heights[q] > most - 300 else 0.0
    # 2. Compute the weight of all slabs beyond each y, on the side away from the centre.
    for q in range(1, last):
        if math.isnan(ls[q]):
            ls[q] = math.log(ys[q] / (x - ys[q])) - mu
        tails[q] = 0.0
    slab_weight = 0.0
    for slab in range(_SLABS):
        sharps[slab] = (0.5 if group % 2 == 0 else 0.25) / (1.0 / _CONCENTRATIONS[slab] + lump / x)
        slab_weight += weights[slab]
        _add_tails(1, last, ls, sharps[slab], weights[slab], tails)
    # 3. Integrate between neighbouring values of y.
    _integrate(last, slab_weight, ls, tails, heights, likelihoods, means, between)
    # 4. The spikes: one half is empty, or has less than half a person.
    share = ratios[_NEAR // 2]
    below = tails[1] if ls[1] <= 0 else slab_weight - tails[1]
    above = tails[last - 1] if ls[last - 1] >= 0 else slab_weight - tails[last - 1]
    means[0], means[last] = likelihoods[0], likelihoods[last]
    between[0] = (spike * (1 - share) + below) * means[0]
    between[last] = (spike * share + above) * means[last]
    total = 0.0
    for q in range(count):
        total += between[q]
    if not total > 0:  # the prior underflows where the likelihood is large: take the most likely division
        best = 0
        for q in range(count):
            between[q] = 0.0
            if heights[q] > heights[best]:
                best = q
        between[best] = 1.0
        return count, most - 745.0
    return count, most + math.log(total)


@nb.njit(cache=True, error_model="numpy")
def _integrate(
    last: int,
    slab_weight: float,
    ls: Floats,
    tails: Floats,
    heights: Floats,
    likelihoods: Floats,
    means: Floats,
    between: Floats,
) -> None:
    """Compute the mean likelihood and the posterior weight of the slabs between neighbouring values of y.

    Between two values of y the likelihood is taken as exponential, like the tails of Laplace noise. With linear
    interpolation, the long stretch between a sharp peak and the next point would get far too much weight.
    """
    means[1] = between[1] = 0.0
    for q in range(2, last):
        rise = heights[q] - heights[q - 1]
        even = 0.5 * (likelihoods[q - 1] + likelihoods[q])
        mean = even if abs(rise) < 1e-3 else (likelihoods[q] - likelihoods[q - 1]) / rise
        across = slab_weight - tails[q - 1] - tails[q]
        weight = tails[q] - tails[q - 1] if ls[q] <= 0 else (tails[q - 1] - tails[q] if ls[q - 1] >= 0 else across)
        means[q] = mean
        between[q] = weight * mean


@nb.njit(cache=True, error_model="numpy")
def _prepare(a: int, b: int, mu: float, messages: Floats, ratios: Floats, lines: Floats) -> None:
    """Compute what all divisions of one node need: the shares around the centre, and the lines of both messages."""
    for j in range(_NEAR):
        ratios[j] = 1.0 / (1.0 + math.exp(-(AROUND[j] + mu)))
    _fill_lines(messages[a], lines[0, 0], lines[0, 1])
    _fill_lines(messages[b], lines[1, 0], lines[1, 1])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def upward(
    start: int,
    stop: int,
    left: Integers,
    right: Integers,
    value: Floats,
    scale: Floats,
    group: Integers,
    centre: Floats,
    weights: Floats,
    spikes: Floats,
    lump: float,
    low: Floats,
    step: Floats,
    messages: Floats,
) -> None:
    """Compute the messages of the nodes from ``start`` to ``stop``, which belong to one stage.

    The messages of all later stages must have been computed before.
    """
    ratios, lines, scratch = np.empty(_NEAR), np.empty((2, 2, POINTS + 1)), np.empty((_ROWS, _ROOM))
    for node in range(start, stop):
        a, b, kind = left[node], right[node], group[node]
        if b >= 0:
            _prepare(a, b, centre[node], messages, ratios, lines)
        for k in range(POINTS):
            x = low[node] + k * step[node]
            height = -abs(value[node] - x) / scale[node] if scale[node] < np.inf else 0.0
            if b >= 0 and x > 0:
                height += _divide(
                    x,
                    a,
                    b,
                    kind,
                    centre[node],
                    weights[kind],
                    spikes[kind],
                    lump,
                    ratios,
                    low,
                    step,
                    lines,
                    scratch,
                )[1]
            elif b >= 0:
                height += _between(low[a], step[a], messages[a], 0.0) + _between(low[b], step[b], messages[b], 0.0)
            elif a >= 0:
                height += _between(low[a], step[a], messages[a], x)
            messages[node, k] = height


@nb.njit(cache=True, error_model="numpy")
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


@nb.njit(cache=True, inline="always", error_model="numpy")
def _deposit(low: float, rate: float, belief: Floats, y: float, weight: float) -> None:
    """Add a weight to a belief at mass y, divided between the two stored masses next to y."""
    at = (y - low) * rate
    if at <= 0:
        belief[0] += weight
    elif at >= POINTS - 1:
        belief[POINTS - 1] += weight
    else:
        k = int(at)
        belief[k] += weight * (1 - (at - k))
        belief[k + 1] += weight * (at - k)


@nb.njit(cache=True, error_model="numpy")
def _locate(count: int, ys: Floats, heights: Floats, far: Floats, within: Floats) -> None:
    """Compute where the mass between two values of y lies, if its density is exponential between them.

    ``far`` is the mean of the place, from 0 at the y before to 1 at this y, and ``within`` the variance of y.
    """
    far[0], within[0], far[count - 1], within[count - 1] = 1.0, 0.0, 1.0, 0.0
    far[1], within[1] = 1.0, 0.0
    for q in range(2, count - 1):
        rise, wide = heights[q] - heights[q - 1], ys[q] - ys[q - 1]
        e = _exp(-abs(rise))
        part = 1 / (1 - e) if rise > 0 else -e / (1 - e)
        far[q] = 0.5 + rise / 12 if abs(rise) < 0.05 else part - 1 / rise
        spread = 1 / 12 if abs(rise) < 0.05 else 1 / rise**2 - e / (1 - e) ** 2
        within[q] = wide * wide * spread


@nb.njit(cache=True, nogil=True, error_model="numpy")
def downward(
    start: int,
    stop: int,
    left: Integers,
    right: Integers,
    group: Integers,
    centre: Floats,
    weights: Floats,
    spikes: Floats,
    lump: float,
    low: Floats,
    step: Floats,
    messages: Floats,
    beliefs: Floats,
    first: Floats,
    second: Floats,
    used: Floats,
    slope: Floats,
) -> None:
    """Compute the beliefs and both moments of the halves of the nodes from ``start`` to ``stop``, which form one stage.

    A belief is the posterior probability of each stored mass of a node. If ``used`` has a row for each node, it
    receives the posterior probability of each slab and of the spikes (last column), and ``slope`` the derivative of the
    log-evidence with respect to the node's centre.
    """
    ratios, lines, scratch = np.empty(_NEAR), np.empty((2, 2, POINTS + 1)), np.empty((_ROWS, _ROOM))
    ys, heights, between = scratch[0], scratch[3], scratch[5]
    far, within, ends = np.empty(_ROOM), np.empty(_ROOM), np.empty(_ROOM)
    for node in range(start, stop):
        a, b, kind = left[node], right[node], group[node]
        if a < 0:
            continue
        if b >= 0:
            _prepare(a, b, centre[node], messages, ratios, lines)
        for k in range(POINTS):
            belief = beliefs[node, k]
            if belief < 1e-9:
                continue
            x = low[node] + k * step[node]
            if b < 0 or x <= 0:
                for half in (a, b):
                    if half >= 0:
                        _deposit(low[half], 1 / step[half], beliefs[half], x, belief)
                        first[half] += belief * x
                        second[half] += belief * x * x
                continue
            count, _ = _divide(
                x,
                a,
                b,
                kind,
                centre[node],
                weights[kind],
                spikes[kind],
                lump,
                ratios,
                low,
                step,
                lines,
                scratch,
            )
            _locate(count, ys, heights, far, within)
            total = 0.0
            for q in range(count):
                total += between[q]
            sum_a, square_a, sum_b, square_b = 0.0, 0.0, 0.0, 0.0
            for q in range(count):
                weight = belief * between[q] / total
                y = ys[q] if far[q] == 1.0 else ys[q - 1] + far[q] * (ys[q] - ys[q - 1])
                sum_a += weight * y
                square_a += weight * (y * y + within[q])
                sum_b += weight * (x - y)
                square_b += weight * ((x - y) ** 2 + within[q])
                # The belief in the masses between two values of y goes to both.
                ends[q] = weight * far[q]
                if q > 0:
                    ends[q - 1] += weight * (1 - far[q])
            first[a] += sum_a
            second[a] += square_a
            first[b] += sum_b
            second[b] += square_b
            for q in range(count):
                if ends[q] > 1e-12:
                    _deposit(low[a], 1 / step[a], beliefs[a], ys[q], ends[q])
                    _deposit(low[b], 1 / step[b], beliefs[b], x - ys[q], ends[q])
            if len(used):
                slope[node] += belief * _attribute(
                    count, centre[node], weights[kind], spikes[kind], scratch, belief, used[node]
                )


@nb.njit(cache=True, error_model="numpy")
def _attribute(
    count: int, mu: float, weights: Floats, spike: float, scratch: Floats, belief: float, used: Floats
) -> float:
    """Divide the posterior weight of a halving among slabs and spikes; return the slope in the centre."""
    ls, tails, between, means, sharps = scratch[1], scratch[2], scratch[5], scratch[6], scratch[7]
    last = count - 1
    total = between[:count].sum()
    share = 1.0 / (1.0 + math.exp(-mu))
    slope = 0.0
    for slab in range(_SLABS):
        w, sharp = weights[slab], sharps[slab]
        before, density_before = 0.0, 0.0
        part = 0.0
        tails[1:last] = 0.0
        _add_tails(1, last, ls, sharp, 1.0, tails)
        for q in range(1, last + 1):
            cdf, density = 1.0, 0.0
            if q < last:
                cdf = tails[q] if ls[q] <= 0 else 1 - tails[q]
                density = sharp * tails[q] * (1 - tails[q])
            mean = means[0] if q == 1 else means[q]
            part += (cdf - before) * mean
            slope += w * mean * (density_before - density)
            before, density_before = cdf, density
        used[slab] += belief * w * part / total
    used[_SLABS] += belief * spike * ((1 - share) * means[0] + share * means[last]) / total
    return slope / total


@nb.njit(cache=True, error_model="numpy")
def _inside(q: int, count: int, weights: Floats, sharps: Floats, ls: Floats) -> float:
    """Compute the weight of all slabs in column q of a division."""
    last = count - 1
    weight = 0.0
    for slab in range(_SLABS):
        if weights[slab] > 0:
            low = 0.0
            high = 1.0
            if q > 1:
                low = 1.0 / (1.0 + math.exp(-min(max(sharps[slab] * ls[q - 1], -700.0), 700.0)))
            if q == 0:
                high = 1.0 / (1.0 + math.exp(-min(max(sharps[slab] * ls[1], -700.0), 700.0)))
            elif q < last:
                high = 1.0 / (1.0 + math.exp(-min(max(sharps[slab] * ls[q], -700.0), 700.0)))
            weight += weights[slab] * (high - low)
    return weight


@nb.njit(cache=True, nogil=True, error_model="numpy")
def draw(
    left: Integers,
    right: Integers,
    group: Integers,
    centre: Floats,
    weights: Floats,
    spikes: Floats,
    lump: float,
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
    ratios, lines, scratch = np.empty(_NEAR), np.empty((2, 2, POINTS + 1)), np.empty((_ROWS, _ROOM))
    target = uniforms[0]
    mass[0] = low[0]
    for k in range(POINTS):
        if target < beliefs[0, k]:
            mass[0] = max(low[0] + (k + target / beliefs[0, k] - 0.5) * step[0], low[0])
            break
        target -= beliefs[0, k]
    for node in range(len(left)):
        a, b, kind = left[node], right[node], group[node]
        x = mass[node]
        if a >= 0 and (b < 0 or x <= 0):
            mass[a] = x
            if b >= 0:
                mass[b] = 0.0
        elif a >= 0:
            _prepare(a, b, centre[node], messages, ratios, lines)
            count, _ = _divide(
                x,
                a,
                b,
                kind,
                centre[node],
                weights[kind],
                spikes[kind],
                lump,
                ratios,
                low,
                step,
                lines,
                scratch,
            )
            mass[a] = _pick(x, count, centre[node], weights[kind], scratch, uniforms[a])
            mass[b] = x - mass[a]


@nb.njit(cache=True, error_model="numpy")
def _pick(x: float, count: int, mu: float, weights: Floats, scratch: Floats, uniform: float) -> float:
    """Draw one division: a spike, or a slab between two neighbouring values of y."""
    ys, ls, heights, between, sharps = scratch[0], scratch[1], scratch[3], scratch[5], scratch[7]
    target = uniform * between[:count].sum()
    chosen = count - 1
    for q in range(count):
        if target < between[q]:
            chosen = q
            break
        target -= between[q]
    if chosen in (0, count - 1):
        return ys[chosen]
    at = min(target / between[chosen], 1.0)
    # The slab, by its weight between the two values of y; then the place between them, where the likelihood is
    # exponential in the slab's distribution function.
    whole = _inside(chosen, count, weights, sharps, ls)
    at *= whole
    for slab in range(_SLABS):
        if weights[slab] > 0:
            low = 1.0 / (1.0 + math.exp(-min(max(sharps[slab] * ls[chosen - 1], -700.0), 700.0)))
            high = 1.0 / (1.0 + math.exp(-min(max(sharps[slab] * ls[chosen], -700.0), 700.0)))
            here = weights[slab] * (high - low)
            if at < here:
                part = at / here
                rise = heights[chosen] - heights[chosen - 1]
                if abs(rise) > 1e-3:
                    if rise > 0:
                        part = 1 + math.log(part + (1 - part) * math.exp(-rise)) / rise
                    else:
                        part = math.log(1 - part + part * math.exp(rise)) / rise
                cdf = low + part * (high - low)
                if 0 < cdf < 1:
                    logit = math.log(cdf / (1 - cdf)) / sharps[slab] + mu
                    y = x / (1.0 + math.exp(-min(max(logit, -700.0), 700.0)))
                    return min(max(y, ys[chosen - 1]), ys[chosen])
                return ys[chosen]
            at -= here
    return ys[chosen]
