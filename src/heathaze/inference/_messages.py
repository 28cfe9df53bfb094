"""Compiled belief propagation on a tree of halvings (numba): messages up, beliefs down, samples.

The message of a node is the log-likelihood of all counts at and below the node, as a function of the node's mass. It is
stored at POINTS evenly spaced masses and is linear in between. A halving divides the mass x of a node into y for the
left half and x − y for the right half, and the message integrates over y:

    message(x) = noise(x) + log ∫ exp(left(y) + right(x − y)) dF(y)

Here noise(x) is the log-likelihood of the node's own count, left and right are the messages of the halves, and F is the
prior of the share (see prior.py): slabs, and the two spikes y = 0 and y = x. The integral is evaluated at the stored
masses of the half with the sharper message, and at fixed distances from the centre of the prior. So neither a narrow
likelihood nor a narrow prior is missed.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from heathaze.inference.prior import SLABS
from heathaze.types import Floats, Integers

POINTS = 21
"""The number of masses at which a message is stored."""

SPAN = 6.0
"""A message covers this many standard deviations on either side of the best linear estimate of the node's mass."""

NEGLIGIBLE = 15.0
"""The integral leaves out a division whose log-likelihood is lower than the largest one by more than this."""

_AWAY = np.array([0.12, 0.35, 0.8, 1.5, 2.6, 4.2, 6.5])
AROUND = np.concatenate([-_AWAY[::-1], [0.0], _AWAY])
"""The distances from the centre of the prior, in log-odds, at which the integral of a halving is evaluated."""

_SLABS = len(SLABS)
_CONCENTRATIONS = np.array(SLABS)
_NEAR = len(AROUND)
_ROOM = POINTS + _NEAR + 4


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


@nb.njit(cache=True)
def _add_tails(start: int, stop: int, ls: Floats, sharp: float, weight: float, tails: Floats) -> None:
    """Add the weight of a slab beyond some logits, on the side away from the centre, to ``tails``.

    exp(t) is computed as (1 + u + u²/2 + u³/6 + u⁴/24)^256 with u = t/256, whose relative error is below 1e-8 for
    t > −5 and 1e-3 for t > −60. It has no branches, so the compiler computes several logits at once. With math.exp, all
    of inference takes a third longer.
    """
    for q in range(start, stop):
        u = max(-abs(ls[q]) * sharp / 256, -1.2)
        e = 1 + u * (1 + u * (1 / 2 + u * (1 / 6 + u * (1 / 24))))
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        tails[q] += weight * e / (1 + e)


@nb.njit(cache=True)
def _fill_tails(start: int, stop: int, ls: Floats, sharps: Floats, weights: Floats, tails: Floats) -> None:
    """Compute the weight of all slabs beyond some logits, on the side away from the centre."""
    tails[start:stop] = 0.0
    for slab in range(_SLABS):
        _add_tails(start, stop, ls, sharps[slab], weights[slab], tails)


@nb.njit(cache=True)
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
    ``ls``; a logit that is costly to compute is left as NaN. Returned is the number of values.
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


@nb.njit(cache=True)
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
    messages: Floats,
    scratch: Floats,
    where: bool,
) -> tuple[int, float]:
    """Integrate over the divisions of mass x of a node into y for half ``a`` and x − y for half ``b``.

    ``scratch`` is filled with one column for each y: 0 y itself, 1 its logit minus the centre, 2 the weight of the
    slabs beyond it, 3 its log-likelihood, 4 its likelihood as a part of the largest, 5 the posterior weight between the
    y before and this one, 6 the part of that weight that belongs to this y (only if ``where``). The first and the last
    column are the two spikes, and 5 holds their whole weight. Row 7 holds the sharpness of the slabs, and 8 the mean
    likelihood between the y before and this one. Returned are the number of columns and the logarithm of the integral.
    """
    ys, ls, tails, heights, likelihoods = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    between, far, sharps, means = scratch[5], scratch[6], scratch[7], scratch[8]
    slab_weight = 0.0
    for slab in range(_SLABS):
        sharps[slab] = (0.5 if group % 2 == 0 else 0.25) / (1.0 / _CONCENTRATIONS[slab] + lump / x)
        slab_weight += weights[slab]
    share = 1.0 / (1.0 + math.exp(-mu))
    # 1. Collect the values of y in ascending order.
    count = _collect(x, a, b, mu, 0.5 * min(lump, x), ratios, low, step, ys, ls)
    last = count - 1
    # 2. Add the messages of both halves at each y. Values of y with a negligible likelihood at either end are left out
    # before anything costly is computed.
    most = -np.inf
    for q in range(count):
        heights[q] = _between(low[a], step[a], messages[a], ys[q]) + _between(low[b], step[b], messages[b], x - ys[q])
        most = max(most, heights[q])
        between[q] = 0.0
        far[q] = 0.0
        means[q] = 0.0
    begin, stop = 1, last - 1
    while begin < stop and heights[begin] < most - NEGLIGIBLE and heights[begin + 1] < most - NEGLIGIBLE:
        begin += 1
    while stop > begin and heights[stop] < most - NEGLIGIBLE and heights[stop - 1] < most - NEGLIGIBLE:
        stop -= 1
    # 3. Between two values of y the likelihood is taken as exponential, like the tails of Laplace noise. With linear
    # interpolation, the long stretch between a sharp peak and the next point would get far too much weight.
    for q in range(begin, stop + 1):
        if math.isnan(ls[q]):
            ls[q] = math.log(ys[q] / (x - ys[q])) - mu
        likelihoods[q] = math.exp(heights[q] - most)
    _fill_tails(begin, stop + 1, ls, sharps, weights, tails)
    if begin > 1:
        _fill_tails(1, 2, ls, sharps, weights, tails)
    if stop < last - 1:
        _fill_tails(last - 1, last, ls, sharps, weights, tails)
    total = 0.0
    for q in range(begin + 1, stop + 1):
        weight = slab_weight - tails[q - 1] - tails[q]
        if ls[q] <= 0:
            weight = tails[q] - tails[q - 1]
        elif ls[q - 1] >= 0:
            weight = tails[q - 1] - tails[q]
        rise = heights[q] - heights[q - 1]
        flat = abs(rise) < 1e-3
        mean = 0.5 * (likelihoods[q - 1] + likelihoods[q]) if flat else (likelihoods[q] - likelihoods[q - 1]) / rise
        means[q] = mean
        between[q] = weight * mean
        total += between[q]
        far[q] = 0.5
        if where and not flat:
            far[q] = 1.0 / (1.0 - math.exp(-rise)) - 1.0 / rise if rise > -700 else 0.0
    # 4. The spikes: one half is empty, or has less than half a person.
    below = tails[1] if ls[1] <= 0 else slab_weight - tails[1]
    above = tails[last - 1] if ls[last - 1] >= 0 else slab_weight - tails[last - 1]
    means[0], means[last] = math.exp(heights[0] - most), math.exp(heights[last] - most)
    between[0] = (spike * (1 - share) + below) * means[0]
    between[last] = (spike * share + above) * means[last]
    total += between[0] + between[last]
    if not total > 0:  # the prior underflows where the likelihood is large: take the most likely division
        best = 0
        for q in range(count):
            between[q] = 0.0
            if heights[q] > heights[best]:
                best = q
        between[best], far[best] = 1.0, 1.0
        return count, most - 745.0
    return count, most + math.log(total)


@nb.njit(cache=True, inline="always")
def _fill_ratios(mu: float, ratios: Floats) -> None:
    for j in range(_NEAR):
        ratios[j] = 1.0 / (1.0 + math.exp(-(AROUND[j] + mu)))


@nb.njit(cache=True, nogil=True)
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
    ratios, scratch = np.empty(_NEAR), np.empty((9, _ROOM))
    for node in range(start, stop):
        a, b, kind = left[node], right[node], group[node]
        if b >= 0:
            _fill_ratios(centre[node], ratios)
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
                    messages,
                    scratch,
                    False,
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


@nb.njit(cache=True, inline="always")
def _variance(rise: float) -> float:
    """Compute the variance of a number between 0 and 1 whose log-density rises by ``rise``."""
    if abs(rise) < 0.05:
        return 1.0 / 12.0
    if abs(rise) > 40:
        return 1.0 / rise**2
    return 1.0 / rise**2 - 0.25 / math.sinh(0.5 * rise) ** 2


@nb.njit(cache=True, nogil=True)
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
    ratios, scratch = np.empty(_NEAR), np.empty((9, _ROOM))
    ys, heights, between, far = scratch[0], scratch[3], scratch[5], scratch[6]
    for node in range(start, stop):
        a, b, kind = left[node], right[node], group[node]
        if a < 0:
            continue
        if b >= 0:
            _fill_ratios(centre[node], ratios)
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
                messages,
                scratch,
                True,
            )
            total = between[:count].sum()
            for q in range(count):
                weight = belief * between[q] / total
                if weight <= 1e-12:
                    continue
                y, within = ys[q], 0.0
                if 0 < q < count - 1:
                    # The mass between two values of y: the belief goes to both, and the moments are those of an
                    # exponential density between them.
                    y = ys[q - 1] + far[q] * (ys[q] - ys[q - 1])
                    within = (ys[q] - ys[q - 1]) ** 2 * _variance(heights[q] - heights[q - 1])
                    for end, part in ((ys[q - 1], weight * (1 - far[q])), (ys[q], weight * far[q])):
                        _deposit(low[a], step[a], beliefs[a], end, part)
                        _deposit(low[b], step[b], beliefs[b], x - end, part)
                else:
                    _deposit(low[a], step[a], beliefs[a], y, weight)
                    _deposit(low[b], step[b], beliefs[b], x - y, weight)
                first[a] += weight * y
                second[a] += weight * (y * y + within)
                first[b] += weight * (x - y)
                second[b] += weight * ((x - y) ** 2 + within)
            if len(used):
                slope[node] += belief * _attribute(
                    count, centre[node], weights[kind], spikes[kind], scratch, belief, used[node]
                )


@nb.njit(cache=True)
def _attribute(
    count: int, mu: float, weights: Floats, spike: float, scratch: Floats, belief: float, used: Floats
) -> float:
    """Divide the posterior weight of a halving among slabs and spikes; return the slope in the centre."""
    ls, tails, between, sharps, means = scratch[1], scratch[2], scratch[5], scratch[7], scratch[8]
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
                if math.isnan(ls[q]):  # left out, as negligible
                    continue
                cdf = tails[q] if ls[q] <= 0 else 1 - tails[q]
                density = sharp * tails[q] * (1 - tails[q])
            mean = means[0] if q == 1 else means[q]
            part += (cdf - before) * mean
            slope += w * mean * (density_before - density)
            before, density_before = cdf, density
        used[slab] += belief * w * part / total
    used[_SLABS] += belief * spike * ((1 - share) * means[0] + share * means[last]) / total
    return slope / total


@nb.njit(cache=True)
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


@nb.njit(cache=True)
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
    ratios, scratch = np.empty(_NEAR), np.empty((9, _ROOM))
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
            _fill_ratios(centre[node], ratios)
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
                messages,
                scratch,
                False,
            )
            mass[a] = _pick(x, count, centre[node], weights[kind], scratch, uniforms[a])
            mass[b] = x - mass[a]


@nb.njit(cache=True)
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
