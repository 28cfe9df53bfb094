"""What each owner contributed to a purchase: how much nearer to the target its points brought the whole.

This is post-processing of the purchase, for the curator and the consumer, who may see the purchase. An owner who learns
its value learns something about the others' records and the target, which no promise covers; ``attribution.md`` says
how to pay owners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heathaze.checks import positive
from heathaze.errors import InvalidInput
from heathaze.marketplace.mmd import centred, kernel_means
from heathaze.types import Floats, Integers

_NOTHING = 1e-12
"""Kernels are between 0 and 1 and have 16 digits; differences of their means below this are rounding."""


class Choice(Protocol):
    """Points and their owners: a purchase, or a baseline."""

    @property
    def owners(self) -> Sequence[str]:
        """The owner of each point."""

    @property
    def points(self) -> Floats:
        """A row for each point."""


@dataclass(frozen=True)
class Contribution:
    """What one owner contributed. NOT PRIVATE.

    Args:
        owner: Its name.
        chosen: How many of its points were chosen.
        share: Its part of the chosen points.
        value: The Shapley value of its points.
        missed: How much farther from the target the purchase would be without its points, in MMD².
    """

    owner: str
    chosen: int = field(repr=False)
    share: float = field(repr=False)
    value: float = field(repr=False)
    missed: float = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for reports that are not public."""
        return {name: getattr(self, name) for name in ("owner", "chosen", "share", "value", "missed")}


def attribution(
    purchase: Choice, target: npt.ArrayLike, gamma: float, owners: Sequence[str] = ()
) -> tuple[Contribution, ...]:
    """How many points each owner sold, and what they contribute. NOT PRIVATE: for the curator and the consumer alone.

    With J(S) = 2 mean k(t, x) − mean k(x, x′) over t of the target and x, x′ of S, MMD²(S) is the same constant minus
    J(S) for every S. The value of an owner is the sum of its points' :func:`shapley_values`; all values together are J
    of the whole, and the order in which points were chosen does not matter. Values may be negative.

    ``missed`` is J of the whole minus J without the owner's points. The numbers of several owners do not add up, and
    one is negative where the rest alone would match better.

    Args:
        purchase: What was bought.
        target: The consumer's points, encoded alike.
        gamma: γ of the study.
        owners: Names to list first, in this order, also those from whom nothing was bought.

    Returns:
        One row for each of ``owners``, then for other owners in the order of their first point.

    Raises:
        InvalidInput: The target is empty or has other columns, or γ is not positive.

    Cost: chosen points × (chosen points × owners + target) × columns.

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
    """The Shapley value of each point: its mean gain over all orders in which the points could have been added.

    The game is v(S) = (2/p) Σ a_i − (1/p²) ΣΣ k(x_i, x_j) over i, j of S, with a_i = mean k(t, x_i) and p the number of
    all points, so that v of all is J. Its Shapley value is exact (``attribution.md``):

        value_i = (2 a_i − (1/p) Σ_j k(x_i, x_j)) / p

    Args:
        points: The chosen points, a row each.
        target: The target's points, a row each.
        gamma: γ of the kernel, positive.

    Raises:
        InvalidInput: The target is empty or has other columns, or γ is not positive.
    """
    near, alike, _ = _kernels(points, target, gamma)
    return _shared(near, alike)


def _shared(near: Floats, alike: Floats) -> Floats:
    return (2 * near - alike) / max(1, len(near))


def _kernels(points: npt.ArrayLike, target: npt.ArrayLike, gamma: float) -> tuple[Floats, Floats, Floats]:
    """For each point its mean kernel with the target and with all points, itself too; and the points, centred."""
    gamma = positive(gamma, "gamma", "the kernel's γ")
    wanted, chosen = np.asarray(target, dtype=np.float64), np.asarray(points, dtype=np.float64)
    if wanted.ndim != 2 or chosen.ndim != 2 or wanted.shape[1] != chosen.shape[1] or not len(wanted):
        raise InvalidInput(
            f"The target has shape {wanted.shape} and the chosen points {chosen.shape}; give tables with the same "
            "columns, and at least one point as target."
        )
    if not len(chosen):
        return np.empty(0), np.empty(0), chosen
    wanted, chosen = centred(wanted, chosen)
    return kernel_means(chosen, wanted, gamma), kernel_means(chosen, chosen, gamma), chosen


def _without(whose: Integers, names: int, near: Floats, chosen: Floats, gamma: float) -> Floats:
    """J of the points that remain when those of each owner are taken away."""
    left = np.zeros(names)
    for name in range(names):
        rest = chosen[whose != name]
        if len(rest):
            left[name] = 2 * near[whose != name].mean() - kernel_means(rest, rest, gamma).mean()
    return left
