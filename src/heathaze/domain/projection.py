"""Projections of a map: equirectangular (degrees), Web-Mercator, or a plane.

A projection changes the vertical axis only; the horizontal axis is linear in all three projections. Grids are regular
in projected coordinates, so cells, quadtrees and densities work in the same way for every projection.
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
"""The latitude, in degrees, at which Web-Mercator maps end, so that the world map is a square."""


class Projection(enum.Enum):
    """The projection of the vertical axis of a grid."""

    PLANE = "plane"
    EQUIRECTANGULAR = "equirectangular"
    WEB_MERCATOR = "web-mercator"

    @property
    def is_geographic(self) -> bool:
        """Whether the axes are longitude and latitude."""
        return self is not Projection.PLANE

    def forward(self, y: npt.ArrayLike) -> Floats:
        """Project vertical coordinates. Web-Mercator maps latitude φ, in radians, to ln tan(π/4 + φ/2).

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
        """Convert projected vertical coordinates back; the inverse of :meth:`forward`.

        >>> round(float(Projection.WEB_MERCATOR.backward(Projection.WEB_MERCATOR.forward(51.5))), 12)
        51.5
        """
        values = np.asarray(y, dtype=np.float64)
        if self is Projection.WEB_MERCATOR:
            return np.arctan(np.exp(values)) * (360 / math.pi) - 90
        return values
