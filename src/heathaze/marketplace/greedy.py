"""Choosing points one by one so that their mean hash, or their mean kernel, follows the target's (errata E2-1).

With S the q points taken so far, ḡ their mean hash and g̃ the target's, the objective is

    J(S) = 2 g̃·ḡ − ‖ḡ‖²,                                       (equation 3 of the paper)
    J(S ∪ {x}) − J(S) = 2/(q + 1) · (g̃·h − q/(q + 1) · ḡ·h) + what does not depend on x,

for hashes h of one length. So the best next point has the largest g̃·h − q/(q + 1) · ḡ·h. The paper prints the two terms
the other way round, which takes the worst. Nothing here is private; who calls it decides who sees the rows.
"""

from __future__ import annotations

import numpy as np

from heathaze.errors import InvalidInput
from heathaze.marketplace.mmd import centred, check_gamma, kernel_means
from heathaze.types import Floats, Integers

LARGE = 2**22
"""Numbers in a table of points from which on products are made in single precision: half the memory to walk through."""


def herd(hashes: Floats, target_mean: Floats, count: int) -> Integers:
    """The rows of ``count`` hashes whose mean follows ``target_mean``, in the order of choice; of equals the first.

    ``target_mean`` may carry noise. Fewer come back where there are fewer. A longer herd begins with the shorter one.

    Cost: hashes × their length for each row chosen.

    >>> herd(np.eye(3), np.array([0.2, 0.5, 0.3]), 2).tolist()
    [1, 2]
    """
    count = _possible(count, len(hashes))
    rough = hashes.astype(np.float32)
    # Products of single precision are off by at most this part of both lengths; whoever is that near is looked at
    # again in double precision, so that the choice is the one of double precision.
    longest = float(np.sqrt((hashes**2).sum(axis=1).max(initial=0)))
    off = 2 * (hashes.shape[1] + 4) * 2.0**-24 * longest
    taken = np.zeros(len(hashes), dtype=bool)
    summed = np.zeros(hashes.shape[1])
    rows = np.empty(count, dtype=np.int64)
    for q in range(count):
        wanted = target_mean - summed / (q + 1)  # g̃ − q/(q + 1) ḡ
        scores = rough @ wanted.astype(np.float32)
        scores[taken] = -np.inf
        near = np.flatnonzero(scores >= scores.max() - off * float(np.sqrt(wanted @ wanted)))
        near = near[~taken[near]]
        # A row at a time and not by a matrix product, which may round equal rows differently.
        row = near[np.argmax((hashes[near] * wanted).sum(axis=1))]
        rows[q], taken[row] = row, True
        summed += hashes[row]
    return rows


def kernel_greedy(points: Floats, target: Floats, gamma: float, count: int) -> Integers:
    """The same with the exact kernel exp(−gamma ‖x − y‖²) and with the target's points instead of their hashes.

    Cost: points × columns for each row chosen, and points × target × columns once.

    >>> kernel_greedy(np.array([[0.0], [5.0], [1.0]]), np.array([[0.1], [1.0]]), 0.5, 2).tolist()
    [2, 0]
    """
    check_gamma(gamma)
    count = _possible(count, len(points))
    if not count:
        return np.empty(0, dtype=np.int64)
    points, target = centred(points, target)
    wanted = kernel_means(points, target, gamma)
    table = points.astype(np.float32) if points.size > LARGE else points
    squares = (points**2).sum(axis=1)
    with_taken = np.zeros(len(points))
    rows = np.empty(count, dtype=np.int64)
    for q in range(count):
        row = int(np.argmax(wanted - with_taken / (q + 1)))
        rows[q], wanted[row] = row, -np.inf
        distances = squares + squares[row] - 2.0 * (table @ table[row])
        with_taken += np.exp(-gamma * np.maximum(distances, 0))
    return rows


def marginal_gain(hashes: Floats, target_mean: Floats, taken: Integers, row: int) -> float:
    """J(S ∪ {x}) − J(S) from its definition, S the rows taken and x one more; J(∅) = 0. For tests and for values.

    >>> float(marginal_gain(np.eye(2), np.array([0.5, 0.5]), np.array([], dtype=np.int64), 0))
    0.0
    """
    return _objective(hashes[[*taken, row]], target_mean) - _objective(hashes[taken], target_mean)


def _objective(chosen: Floats, target_mean: Floats) -> float:
    if not len(chosen):
        return 0.0
    mean = chosen.mean(axis=0)
    return float(2 * target_mean @ mean - mean @ mean)


def _possible(count: int, there: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise InvalidInput(f"The number of points to choose is {count!r}; give a whole number, 0 or larger.")
    return min(int(count), there)
