"""What a search for the steepest place needs to know of a field over a box of places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from heathaze.sensors.physics.field import Field
from heathaze.types import Floats


@dataclass(frozen=True, eq=False)
class Taylor:
    """Readings of a unit source near the middles of k boxes of places.

    Args:
        slopes: First derivatives at the middle, shape (readings, k, dimensions).
        bends: Second derivatives there, shape (readings, k, dimensions, dimensions).
        most_slope: Upper bound of the length of the first derivative anywhere in the box, shape (readings, k).
        most_twist: Upper bound of the norm of the third derivative anywhere in the box, shape (readings, k).
    """

    slopes: Floats
    bends: Floats
    most_slope: Floats
    most_twist: Floats

    @classmethod
    def stacked(cls, parts: list[Self]) -> Self:
        """The readings of several fields below one another."""
        return cls(
            np.concatenate([part.slopes for part in parts]),
            np.concatenate([part.bends for part in parts]),
            np.concatenate([part.most_slope for part in parts]),
            np.concatenate([part.most_twist for part in parts]),
        )


@runtime_checkable
class SmoothField(Field, Protocol):
    """A field over a continuous space, whose readings change smoothly as a source moves."""

    def jacobian(self, where: npt.ArrayLike) -> Floats:
        """How readings change as a unit source moves: shape (readings, len(where), dimensions)."""

    def taylor(self, middles: Floats, half: Floats) -> Taylor:
        """All that :class:`Taylor` holds, for the boxes middle ± half."""
