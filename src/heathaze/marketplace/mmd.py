"""The maximum mean discrepancy (MMD), a distance between two sets of points, and what each owner's points contribute.

The distance is defined by a kernel k:

    MMD²(D, D') = mean k(x, x') − 2 mean k(x, y) + mean k(y, y'),   k(x, y) = exp(−γ ‖x − y‖²)

Here x and x' run over the points of D, and y and y' over the points of D'. This is equation 1 of Sarpatwar et al.
(2019). The means include the pairs of a point with itself, so MMD² is never negative. Two samples of m₁ and m₂ points
from one distribution have an MMD² of up to about 1/m₁ + 1/m₂, not 0. The kernel is computed exactly, because a distance
computed by random features would be too small for points that were chosen by the same features.

Attribution says how much the points of each owner contributed to bringing a purchase near to the target. Attribution is
computed from the purchase, for the curator and the consumer, who may see the purchase. An owner who learns the owner's
own value learns something about the target and the records of other owners, and no promise covers this.
``attribution.md`` says how to pay owners instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heathaze.checks import positive
from heathaze.errors import InvalidInput
from heathaze.types import Floats, Integers

BLOCK = 2**20
"""Number of kernel values held in memory at a time: 8 MB, which fits into the processor's cache."""

LARGEST = 1e150
"""Largest coordinate of a point; the square of a larger number could overflow."""


def mmd_squared(truth: npt.ArrayLike, estimate: npt.ArrayLike, gamma: float) -> float:
    """Measure the squared maximum mean discrepancy between two tables of points, with the kernel exp(−gamma ‖x − y‖²).

    Args:
        truth: One point per row.
        estimate: Other points with the same columns, one per row; their number may differ.
        gamma: The kernel's parameter γ, positive.

    Returns:
        MMD², a number from 0 to 2 without a unit.

    Raises:
        InvalidInput: The tables are empty, have different columns or hold numbers that are not finite.

    Cost: number of pairs of points × columns, in blocks of some megabytes. Comparing 60,000 points of 784 columns with
    2,000 points takes a minute and a half on one core.

    >>> mmd_squared([[0.0], [1.0]], [[1.0], [0.0]], gamma=0.5)
    0.0
    >>> round(mmd_squared([[0.0]], [[100.0]], gamma=0.5), 6)
    2.0
    """
    one, other = _table("truth", truth), _table("estimate", estimate)
    if one.shape[1] != other.shape[1]:
        raise InvalidInput(
            f"Points of the truth have {one.shape[1]} columns, points of the estimate have {other.shape[1]}; "
            "give tables with the same columns."
        )
    gamma = positive(gamma, "gamma", "the kernel's γ")
    one, other = centred(one, other)
    apart = _mean_within(one, gamma) - 2 * float(kernel_means(one, other, gamma).mean()) + _mean_within(other, gamma)
    # MMD² is a squared length, so a value below 0 can only come from rounding.
    return max(0.0, apart)


def kernel_means(points: Floats, others: Floats, gamma: float) -> Floats:
    """For each point, compute the mean of the kernel between this point and all ``others``.

    Args:
        points: One point per row.
        others: The other points, one per row.
        gamma: The kernel's parameter γ.

    Returns:
        One mean for each point.
    """
    means = np.empty(len(points))
    squares = (others**2).sum(axis=1)
    for rows in _blocks(len(points), len(others)):
        means[rows] = _kernel(points[rows], others, squares, gamma).mean(axis=1)
    return means


def centred(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Shift two tables of points by the mean of the first, so that a large offset costs no accuracy of distances."""
    middle = one.mean(axis=0)
    return one - middle, other - middle


def _mean_within(points: Floats, gamma: float) -> float:
    """Mean of the kernel over all pairs of points of one table; each pair of different blocks is computed once."""
    points = points - points.mean(axis=0)  # centred again, because the mean of the other table may lie far away
    total, squares = 0.0, (points**2).sum(axis=1)
    for rows in _blocks(len(points), len(points)):
        kernel = _kernel(points[rows], points[rows.start :], squares[rows.start :], gamma)
        size = len(kernel)
        total += float(kernel[:, :size].sum()) + 2 * float(kernel[:, size:].sum())
    return total / len(points) ** 2


def _kernel(points: Floats, others: Floats, squares: Floats, gamma: float) -> Floats:
    """Kernel values exp(−γ ‖x − y‖²) for all pairs of points, computed in place.

    The squared distance is ‖x‖² + ‖y‖² − 2 x·y. Rounding may make this negative, so it is clipped at 0.
    """
    kernel: Floats = points @ others.T
    kernel *= -2
    kernel += (points**2).sum(axis=1)[:, None]
    kernel += squares
    np.maximum(kernel, 0, out=kernel)
    kernel *= -gamma
    return np.exp(kernel, out=kernel)


def _blocks(count: int, width: int) -> Iterator[slice]:
    size = max(1, BLOCK // width)
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _table(name: str, points: npt.ArrayLike) -> Floats:
    try:
        table = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"The {name} is not a table of numbers; give one row of numbers for each point.") from None
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidInput(f"The {name} has shape {table.shape}; give a table with one row for each point, not empty.")
    if not np.isfinite(table).all() or np.abs(table).max() > LARGEST:
        raise InvalidInput(
            f"The {name} holds a number that is NaN, infinite or larger than {LARGEST:g}; drop or scale such numbers."
        )
    return table


# ── attribution ─────────────────────────────────────────────────────────────────────────────────────────────────────

_NOTHING = 1e-12
"""Differences between mean kernels below this are rounding errors, because kernels lie in [0, 1] and have 16 digits."""


class Choice(Protocol):
    """Chosen points and their owners: the result of a purchase or of a baseline, to which attribution applies."""

    @property
    def owners(self) -> Sequence[str]:
        """The name of the owner of each chosen point."""

    @property
    def points(self) -> Floats:
        """The chosen points, one per row."""


@dataclass(frozen=True)
class Contribution:
    """The contribution of one owner to a purchase. NOT PRIVATE.

    Args:
        owner: Name of the owner.
        chosen: Number of the owner's points that were chosen.
        share: Fraction of the chosen points that are the owner's.
        value: Shapley value of the owner's points.
        missed: Amount by which MMD² from the target would grow without the owner's points.
    """

    owner: str
    chosen: int = field(repr=False)
    share: float = field(repr=False)
    value: float = field(repr=False)
    missed: float = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The contribution as plain numbers, for reports that are not public."""
        return dataclasses.asdict(self)


def attribution(
    purchase: Choice, target: npt.ArrayLike, gamma: float, owners: Sequence[str] = ()
) -> tuple[Contribution, ...]:
    """Compute each owner's contribution to a purchase. NOT PRIVATE: only for the curator and the consumer.

    Let k be the kernel, and J(S) = 2 mean k(t, x) − mean k(x, x′), where t runs over the target and x, x′ run over a
    set S of points. MMD² between target and S is a constant minus J(S), so a larger J is a better match.

    ``value`` is the sum of the :func:`shapley_values` of the owner's points. The values of all owners add up to J of
    the purchase. The values do not depend on the order in which points were chosen, and may be negative.

    ``missed`` is J of the purchase minus J of the purchase without the owner's points. It is negative if the purchase
    would match better without the owner. ``missed`` of several owners cannot be added up.

    Args:
        purchase: The purchase, or another choice of points.
        target: The consumer's points, encoded like the chosen points.
        gamma: The kernel's parameter γ, as in the study.
        owners: Names to list first, in this order; owners who sold nothing are listed only if named here.

    Returns:
        One contribution for each of ``owners``, then one for each other owner, in the order of their first point.

    Raises:
        InvalidInput: The target is empty or has other columns, or γ is not positive.

    Cost: chosen points × (chosen points × owners + target points) × columns.

    >>> from heathaze.marketplace.baselines import greedy
    >>> from heathaze.marketplace.features import Features
    >>> chosen = greedy(Features(1, gamma=1.0), [[0.0], [3.0]], {"a": [[0.0]], "b": [[3.0]]}, 2)
    >>> [(row.owner, row.chosen, round(row.value, 2)) for row in attribution(chosen, [[0.0], [3.0]], 1.0, "ab")]
    [('a', 1, 0.25), ('b', 1, 0.25)]
    """
    near, alike, chosen = _kernels(purchase.points, target, gamma)
    worth = _shared(near, alike)
    names = tuple(dict.fromkeys((*owners, *purchase.owners)))
    places = {name: place for place, name in enumerate(names)}
    whose = np.array([places[name] for name in purchase.owners], dtype=np.int64)
    counts = np.bincount(whose, minlength=len(names))
    values = np.bincount(whose, weights=worth, minlength=len(names))
    missed = worth.sum() - _without(whose, len(names), near, chosen, gamma)
    missed[(np.abs(missed) < _NOTHING) | (counts == 0)] = 0
    return tuple(
        Contribution(name, int(count), float(count) / max(1, len(worth)), float(value), float(loss))
        for name, count, value, loss in zip(names, counts, values, missed, strict=True)
    )


def shapley_values(points: npt.ArrayLike, target: npt.ArrayLike, gamma: float) -> Floats:
    """Attribute a purchase to single points: the Shapley value is a point's mean gain over all orders of adding points.

    Let p be the number of chosen points, k the kernel, and a_i the mean of k(t, x_i) over the points t of the target.
    The game is v(S) = (2/p) Σ a_i − (1/p²) ΣΣ k(x_i, x_j), summed over the points i and j in S. For all p points, v is
    the J of :func:`attribution`. The Shapley value of point i has a closed form (``attribution.md``):

        value_i = (2 a_i − (1/p) Σ_j k(x_i, x_j)) / p

    Args:
        points: The chosen points, one per row.
        target: The points of the target, one per row.
        gamma: The kernel's parameter γ, positive.

    Raises:
        InvalidInput: The target is empty or has other columns, or γ is not positive.
    """
    near, alike, _ = _kernels(points, target, gamma)
    return _shared(near, alike)


def _shared(near: Floats, alike: Floats) -> Floats:
    return (2 * near - alike) / max(1, len(near))


def _kernels(points: npt.ArrayLike, target: npt.ArrayLike, gamma: float) -> tuple[Floats, Floats, Floats]:
    """Mean kernel of each chosen point with the target and with all chosen points (itself included).

    The third result is the chosen points, shifted by the target's mean for numerical accuracy.
    """
    gamma = positive(gamma, "gamma", "the kernel's γ")
    wanted, chosen = np.asarray(target, dtype=np.float64), np.asarray(points, dtype=np.float64)
    if wanted.ndim != 2 or chosen.ndim != 2 or wanted.shape[1] != chosen.shape[1] or not len(wanted):
        raise InvalidInput(
            f"The target has shape {wanted.shape} and the chosen points have shape {chosen.shape}; give tables with "
            "the same columns, and at least one target point."
        )
    if not len(chosen):
        return np.empty(0), np.empty(0), chosen
    wanted, chosen = centred(wanted, chosen)
    return kernel_means(chosen, wanted, gamma), kernel_means(chosen, chosen, gamma), chosen


def _without(whose: Integers, names: int, near: Floats, chosen: Floats, gamma: float) -> Floats:
    """For each owner, compute the objective J of the chosen points of all other owners."""
    left = np.zeros(names)
    for name in range(names):
        rest = chosen[whose != name]
        if len(rest):
            left[name] = 2 * near[whose != name].mean() - kernel_means(rest, rest, gamma).mean()
    return left
