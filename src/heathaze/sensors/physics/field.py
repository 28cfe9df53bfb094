"""What a field is: a linear map from the strengths of sources at places to the readings of sensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from heathaze.sensors.physics.network import Network
from heathaze.types import Floats


class Field(Protocol):
    """What sensors read of sources: readings = M · strengths, with M of shape (readings, places).

    A source lies at one of the candidate places; in a continuous space also between them (:meth:`responses`).
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Readings (sensors times snapshots), and candidate places."""

    @property
    def positions(self) -> Floats | None:
        """Coordinates of the candidates, shape (places, dimensions); None on a graph, whose places are its nodes."""

    @property
    def bounds(self) -> Floats | None:
        """Lower and upper corner of a continuous space, shape (2, dimensions); None where space is discrete."""

    @property
    def network(self) -> Network | None:
        """The graph whose nodes are the places; None elsewhere."""

    @property
    def unit(self) -> str:
        """What distances are measured in, such as "metre"."""

    def apply(self, strengths: Floats) -> Floats:
        """M · strengths, for one vector or for the columns of a matrix."""

    def adjoint(self, readings: Floats) -> Floats:
        """Mᵀ · readings, for one vector or for the columns of a matrix."""

    def responses(self, where: npt.ArrayLike) -> Floats:
        """What a unit source at each place adds to every reading: shape (readings, len(where)).

        Args:
            where: Coordinates, shape (k, dimensions), in a continuous space; numbers of candidates elsewhere.
        """

    def only(self, rows: npt.ArrayLike) -> Field:
        """The same field with some of its readings.

        Args:
            rows: A mask of the readings, or their numbers.
        """


@runtime_checkable
class SmoothField(Field, Protocol):
    """A field over a continuous space. Its readings change smoothly as a source moves."""

    def jacobian(self, where: npt.ArrayLike) -> Floats:
        """Derivatives of the readings of a unit source by its place: shape (readings, len(where), dimensions)."""

    def taylor(self, middles: Floats, half: Floats) -> Taylor:
        """Derivatives and bounds for the boxes middle ± half."""


@dataclass(frozen=True, eq=False)
class Taylor:
    """Derivatives of the readings of a unit source in k boxes of places, for the search for the steepest place.

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
        """The readings of several fields, one after the other."""
        return cls(
            np.concatenate([part.slopes for part in parts]),
            np.concatenate([part.bends for part in parts]),
            np.concatenate([part.most_slope for part in parts]),
            np.concatenate([part.most_twist for part in parts]),
        )
