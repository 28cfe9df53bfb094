"""Sensitivity: how much the readings can change, Δ₂ and Δ₁, if sources move by at most α; see ``sensitivity.md``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from heathaze.checks import positive
from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness
from heathaze.sensors.physics.field import Field
from heathaze.sensors.sensitivity._continuous import Kind, Rate

TOLERANCE = 1e-6
"""Relative error of an "exact" rate on plates."""

TOLERANCE_ON_LINES = 1e-9
"""The same on lines, where it costs little."""

TOLERANCE_L1 = 1e-4
"""The same for ‖·‖₁, on plates."""


@dataclass(frozen=True)
class Sensitivity:
    """The largest change of the vector of all readings between neighbours.

    Neighbours are two sets of sources with the same total strength whose earth mover's distance, not divided by the
    total, is at most ``reach``: one becomes the other by moving strength, strength times distance at most ``reach``.

    Args:
        reach: The paper's α, in units of strength times ``unit``. It is not called alpha, which is the error rate of a
            test everywhere else in this package.
        rate: The largest change in ‖·‖₂ for each unit of strength and of length, rounded up.
        rate_l1: The same in ‖·‖₁.
        unit: The unit of length: "metre" on lines and plates.
        failure_probability: Of rates that are too small, over the random choices of the search: 0, or 2^−64 on large
            graphs with many sensors. It has to be subtracted from δ.
    """

    reach: float
    rate: Rate
    rate_l1: Rate
    unit: str
    failure_probability: float = 0.0

    @property
    def per_length(self) -> float:
        """‖·‖₂ for each unit of strength and of length."""
        return self.rate.value

    @property
    def l2(self) -> float:
        """Δ₂ = reach · rate, rounded up: for Gaussian noise."""
        return math.nextafter(self.reach * self.rate.value, math.inf)

    @property
    def l1(self) -> float:
        """Δ₁ = reach · rate, rounded up: for Laplace noise."""
        return math.nextafter(self.reach * self.rate_l1.value, math.inf)

    @property
    def kind(self) -> Kind:
        """Whether Δ₂ is "exact" or a "bound"."""
        return self.rate.kind

    @property
    def where(self) -> tuple[int, int] | tuple[float, ...]:
        """The two candidates, or the place in a continuous space, where readings change fastest."""
        return self.rate.where


def sensitivity(
    field: Field, reach: float, *, between: bool | None = None, randomness: Randomness | None = None
) -> Sensitivity:
    """Δ₂ and Δ₁ of all readings of a field together, for sources that move by at most ``reach`` (errata E4-2, E4-3).

        Δ = reach · max ‖M_i − M_j‖ / d(i, j)

    The maximum is over the edges of a network, or over all pairs of candidates. If sources may lie between candidates,
    it is the supremum of the norm of the Jacobian. The result is rounded up: it is multiplied by 1 + 1e-9, and 1e-12 of
    the largest response over the distance is added, or the rounding error of a graph if that is more (errata E4-6,
    E4-8).

    Args:
        field: What is read; several snapshots as one :class:`~heathaze.sensors.physics.Snapshots`.
        reach: The paper's α: strength times distance, positive.
        between: Whether sources may lie between candidates; True by default in a continuous space.
        randomness: For graphs with many sensors, whose edges are screened by random combinations of readings.

    Returns:
        The sensitivity in both norms, and where it was found.

    Raises:
        InvalidInput: The reach is not positive, or the field does not say how far places are apart.
        TooLarge: There are too many pairs of candidates.

    >>> from heathaze.sensors.physics import Graph
    >>> complete = Graph([(i, j) for j in range(10) for i in range(j)], tau=0.2)
    >>> round(sensitivity(complete, reach=1).l2 ** 2, 8)  # 2 e^(−2τn)
    0.03663128
    """
    alpha = positive(reach, "reach", "how far a unit of strength may move")
    unit = getattr(field, "unit", "unit of the positions")
    continuous = field.bounds is not None if between is None else between
    if continuous:
        return Sensitivity(alpha, *_anywhere(field), unit)
    if field.network is not None:
        from heathaze.privacy.randomness import SecureRandomness
        from heathaze.sensors.sensitivity._discrete import steepest_edge

        rate, rate_l1, failure_probability = steepest_edge(field, field.network, randomness or SecureRandomness())
        return Sensitivity(alpha, rate, rate_l1, unit, failure_probability)
    from heathaze.sensors.sensitivity._discrete import steepest_pair

    if field.positions is None:
        raise InvalidInput("The field has neither positions nor a network, so distances are unknown; give one of them.")
    return Sensitivity(alpha, *steepest_pair(field, field.positions), unit)


def _anywhere(field: Field) -> tuple[Rate, Rate]:
    """Both rates where sources may lie between candidates."""
    from heathaze.sensors.physics.field import SmoothField
    from heathaze.sensors.sensitivity._continuous import (
        MOST_WORK_L1,
        absolute,
        euclidean,
        largest_stretch,
        largest_sum,
        steepest,
    )

    if field.bounds is None or not isinstance(field, SmoothField):
        raise InvalidInput("between is True, and sources of this field lie at its candidates alone; leave it out.")
    on_a_line = field.bounds.shape[1] == 1
    rate = steepest(field, largest_stretch, euclidean, TOLERANCE_ON_LINES if on_a_line else TOLERANCE)
    rate_l1 = steepest(field, largest_sum, absolute, TOLERANCE_L1 / 100 if on_a_line else TOLERANCE_L1, MOST_WORK_L1)
    # ‖·‖₁ ≤ √readings · ‖·‖₂, should the search have ended early.
    if (simple := math.sqrt(field.shape[0]) * rate.value) < rate_l1.value:
        rate_l1 = Rate(simple, "bound", rate.where)
    return rate, rate_l1
