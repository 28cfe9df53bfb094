"""Projections: how the axes of a map are measured, in degrees, on a Web-Mercator map, or on a plane.

A projection changes the vertical axis only; the horizontal one is linear in all three. Grids are regular in projected
coordinates, so cells, quadtrees and densities are the same for all of them.
"""

from __future__ import annotations

import enum
import math

import numpy as np
import numpy.typing as npt

from heathaze.types import Floats

EARTH_RADIUS_METRES = 6_371_008.8
"""Mean radius of the Earth (IUGG)."""

MERCATOR_LATITUDE = 85.051128
"""Web-Mercator maps end at this latitude in degrees, where the world map becomes a square."""


class Projection(enum.Enum):
    """How the vertical axis of a grid is projected."""

    PLANE = "plane"
    EQUIRECTANGULAR = "equirectangular"
    WEB_MERCATOR = "web-mercator"

    @property
    def is_geographic(self) -> bool:
        """Whether the axes are longitude and latitude."""
        return self is not Projection.PLANE

    def forward(self, y: npt.ArrayLike) -> Floats:
        """Project the vertical coordinate. Web-Mercator is y = ln tan(π/4 + φ/2), in radians.

        Args:
            y: Latitudes in degrees, or coordinates of a plane.

        >>> float(Projection.EQUIRECTANGULAR.forward(40.0))
        40.0
        >>> round(float(Projection.WEB_MERCATOR.forward(MERCATOR_LATITUDE)), 5) == round(math.pi, 5)
        True
        """
        values = np.asarray(y, dtype=np.float64)
        if self is Projection.WEB_MERCATOR:
            return np.log(np.tan(math.pi / 4 + values * (math.pi / 360)))
        return values

    def backward(self, y: npt.ArrayLike) -> Floats:
        """Return the vertical coordinate that :meth:`forward` projected.

        >>> round(float(Projection.WEB_MERCATOR.backward(Projection.WEB_MERCATOR.forward(51.5))), 12)
        51.5
        """
        values = np.asarray(y, dtype=np.float64)
        if self is Projection.WEB_MERCATOR:
            return np.arctan(np.exp(values)) * (360 / math.pi) - 90
        return values
