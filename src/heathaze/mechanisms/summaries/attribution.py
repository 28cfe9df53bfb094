"""What each owner contributed to a purchase: how much its points brought the whole nearer to the target.

Post-processing of the purchase, for those who may see the purchase: the curator and the consumer. An owner who is told
its value learns something about the others' records and the target, which no promise covers; see attribution.md for how
to pay owners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heathaze.errors import InvalidInput
from heathaze.metrics.mmd import centred, check_gamma, kernel_means

Floats = npt.NDArray[np.float64]


class Choice(Protocol):
    """Points in the order of choice and whose they are: a purchase, or a baseline."""

    @property
    def owners(self) -> Sequence[str]:
        """Whose each point is."""

    @property
    def points(self) -> Floats:
        """A row for each."""


@dataclass(frozen=True)
class Contribution:
    """Of one owner.

    ``share`` is of the chosen points, ``value`` the sum of its points' marginal gains, and ``missed`` how much farther
    from the target the purchase would be without its points, in MMD².
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
    """How many points each owner sold, and what they were worth when they were chosen.

    With J(S) = 2 mean k(t, x) − mean k(x, x′) over t of the target and x, x′ of S, so that MMD²(S) is the same constant
    minus J(S) for every S, and with J(∅) = 0, the point chosen at step q is worth J(S_q) − J(S_{q−1}). All values
    together are J of the whole. A point may be worth less than nothing.

    Values favour whoever was chosen first: the first points do most of the work. ``missed`` does not depend on the
    order: J of the whole minus J without the owner's points. It does not add up to anything, and is below 0 where the
    rest alone would match better.

    NOT PRIVATE: for the eyes of the curator and the consumer alone.

    Args:
        purchase: What was bought, in the order of choice.
        target: The consumer's points, encoded alike.
        gamma: Of the study.
        owners: Names to list first, in this order, also those from whom nothing was bought.

    Returns:
        One row for each owner; then those that are not in ``owners``, in the order of their first point.

    Cost: chosen points × (chosen points × owners + target) × columns.

    >>> from heathaze.mechanisms.summaries.baselines import greedy
    >>> from heathaze.mechanisms.summaries.features import Features
    >>> chosen = greedy(Features(1, gamma=1.0), [[0.0], [3.0]], {"a": [[0.0]], "b": [[3.0]]}, 2)
    >>> [(row.owner, row.chosen, round(row.value, 2)) for row in attribution(chosen, [[0.0], [3.0]], 1.0)]
    [('a', 1, 0.0), ('b', 1, 0.5)]
    """
    gains = marginal_gains(purchase.points, target, gamma)
    names = tuple(dict.fromkeys((*owners, *purchase.owners)))
    places = {name: place for place, name in enumerate(names)}
    whose = np.array([places[name] for name in purchase.owners], dtype=np.int64)
    counts = np.bincount(whose, minlength=len(names))
    values = np.bincount(whose, weights=gains, minlength=len(names))
    missed = gains.sum() - _without(whose, len(names), purchase.points, target, gamma)
    return tuple(
        Contribution(name, int(count), float(count) / max(1, len(gains)), float(value), float(loss))
        for name, count, value, loss in zip(names, counts, values, missed, strict=True)
    )


def _without(
    whose: npt.NDArray[np.int64], names: int, points: npt.ArrayLike, target: npt.ArrayLike, gamma: float
) -> Floats:
    """J of the points that remain when those of each owner are taken away."""
    wanted, chosen = centred(np.asarray(target, dtype=np.float64), np.asarray(points, dtype=np.float64))
    near = kernel_means(chosen, wanted, gamma) if len(chosen) else np.empty(0)
    left = np.zeros(names)
    for name in range(names):
        rest = chosen[whose != name]
        if len(rest):
            left[name] = 2 * near[whose != name].mean() - kernel_means(rest, rest, gamma).mean()
    return left


def marginal_gains(points: npt.ArrayLike, target: npt.ArrayLike, gamma: float) -> Floats:
    """J(S_q) − J(S_{q−1}) for every point in the order of choice; see :func:`attribution`."""
    check_gamma(gamma)
    wanted, chosen = np.asarray(target, dtype=np.float64), np.asarray(points, dtype=np.float64)
    if wanted.ndim != 2 or chosen.ndim != 2 or wanted.shape[1] != chosen.shape[1] or not len(wanted):
        raise InvalidInput(
            f"The target has shape {wanted.shape} and the chosen points {chosen.shape}; give tables with the same "
            "columns, and at least one point as target."
        )
    if not len(chosen):
        return np.empty(0)
    wanted, chosen = centred(wanted, chosen)
    near = np.cumsum(kernel_means(chosen, wanted, gamma))
    # Σ k(x, x′) over the first q points grows by 1 and twice the kernel of the new point with those before.
    before = [
        q * float(kernel_means(chosen[q : q + 1], chosen[:q], gamma)[0]) if q else 0.0 for q in range(len(chosen))
    ]
    within = np.cumsum(1 + 2 * np.array(before))
    q = np.arange(1, len(chosen) + 1)
    return np.diff(2 * near / q - within / q**2, prepend=0.0)
