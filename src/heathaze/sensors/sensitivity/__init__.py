"""Sensitivity of readings: the largest change in ‖·‖₂ (Δ₂) and ‖·‖₁ (Δ₁) if sources move by at most the reach α.

The page ``sensitivity.md`` has the theorem and its proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from heathaze.checks import positive
from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.sensors.physics.field import Field
from heathaze.sensors.sensitivity._continuous import Kind, Rate, steepest_place
from heathaze.sensors.sensitivity._discrete import steepest_edge, steepest_pair


@dataclass(frozen=True)
class Sensitivity:
    """Sensitivity: the largest change of the vector of all readings between neighbouring sets of sources.

    Two sets of sources are neighbours if they have the same total strength, and if one can be turned into the other by
    moving strength, with the sum of strength × distance at most ``reach``. That sum is the earth mover's distance
    without division by the total strength.

    Args:
        reach: The paper's α, in units of strength times ``unit``. The name alpha is not used, because it is the error
            rate of a test elsewhere in this package.
        rate: Largest change of the readings in ‖·‖₂ if strength 1 moves by length 1, rounded up.
        rate_l1: Largest change of the readings in ‖·‖₁ if strength 1 moves by length 1, rounded up.
        unit: Unit of length: "metre" on lines and plates.
        failure_probability: Probability that the rates are too small. It is 0, or 2^−64 on large graphs with many
            sensors, where the search is random. It must be subtracted from δ.
    """

    reach: float
    rate: Rate
    rate_l1: Rate
    unit: str
    failure_probability: float = 0.0

    @property
    def per_length(self) -> float:
        """Largest change of the readings in ‖·‖₂ if strength 1 moves by length 1."""
        return self.rate.value

    @property
    def l2(self) -> float:
        """Sensitivity Δ₂ = reach · rate in ‖·‖₂, rounded up, for Gaussian noise."""
        return math.nextafter(self.reach * self.rate.value, math.inf)

    @property
    def l1(self) -> float:
        """Sensitivity Δ₁ = reach · rate_l1 in ‖·‖₁, rounded up, for Laplace noise."""
        return math.nextafter(self.reach * self.rate_l1.value, math.inf)

    @property
    def kind(self) -> Kind:
        """Whether Δ₂ is "exact" within the tolerance, or an upper "bound"."""
        return self.rate.kind

    @property
    def where(self) -> tuple[int, int] | tuple[float, ...]:
        """Where readings change fastest: indices of two candidates, or coordinates in a continuous space."""
        return self.rate.where


def sensitivity(
    field: Field, reach: float, *, between: bool | None = None, randomness: Randomness | None = None
) -> Sensitivity:
    """Compute the sensitivity of all readings of a field together, if sources move by at most ``reach``.

        Δ = reach · max ‖M_i − M_j‖ / d(i, j)                     (errata E4-2, E4-3)

    Here M_i are the readings of a unit source at place i, and d(i, j) is the distance between two places. The maximum
    is over the edges of a network, or over all pairs of candidates. If sources may lie between candidates, the maximum
    is the supremum of the norm of the Jacobian. The result is rounded up: it is multiplied by 1 + 1e-9, and a margin
    for rounding errors is added. The margin is 1e-12 of the largest response over the distance, or the rounding error
    of a graph over the distance if the rounding error is larger (errata E4-6, E4-8).

    Args:
        field: The field; give several snapshots as one :class:`~heathaze.sensors.physics.Snapshots`.
        reach: The paper's α, strength times distance, positive.
        between: Whether sources may lie between candidates. By default True in a continuous space.
        randomness: Source of the random sketches that are used on graphs with many sensors.

    Returns:
        The sensitivity in both norms, and the places where readings change fastest.

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
        return Sensitivity(alpha, *steepest_place(field), unit)
    if field.network is not None:
        rate, rate_l1, failure_probability = steepest_edge(field, field.network, randomness or SecureRandomness())
        return Sensitivity(alpha, rate, rate_l1, unit, failure_probability)
    if field.positions is None:
        raise InvalidInput("The field has neither positions nor a network, so distances are unknown; give one of them.")
    return Sensitivity(alpha, *steepest_pair(field, field.positions), unit)
