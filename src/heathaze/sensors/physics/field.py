"""The interface of a field: a linear map from the strengths of sources at places to the readings of sensors."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from heathaze.sensors.physics.network import Network
from heathaze.types import Floats


class Field(Protocol):
    """Interface of a field: readings = M · strengths, with a matrix M of shape (readings, candidate places).

    A source lies at one of the candidate places. In a continuous space a source may also lie between candidates, see
    :meth:`responses`.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of readings (sensors × snapshots), and number of candidate places."""

    @property
    def positions(self) -> Floats | None:
        """Coordinates of the candidates, shape (places, dimensions); None on a graph, whose places are its nodes."""

    @property
    def bounds(self) -> Floats | None:
        """Lower and upper corner of a continuous space, shape (2, dimensions); None if only candidates are possible."""

    @property
    def network(self) -> Network | None:
        """The network whose nodes are the places; None if places have coordinates."""

    @property
    def unit(self) -> str:
        """Unit of distances, such as "metre"."""

    def apply(self, strengths: Floats) -> Floats:
        """Readings M · strengths of the field, for one vector or for each column of a matrix."""

    def adjoint(self, readings: Floats) -> Floats:
        """Adjoint Mᵀ · readings of the field, for one vector or for each column of a matrix."""

    def responses(self, where: npt.ArrayLike) -> Floats:
        """Readings of a source of strength 1 at each of some places, shape (readings, len(where)).

        Args:
            where: Coordinates, shape (k, dimensions), in a continuous space; otherwise indices of candidates.
        """

    def only(self, rows: npt.ArrayLike) -> Field:
        """The same field with only some of its readings.

        Args:
            rows: A mask over the readings, or indices of readings.
        """


@runtime_checkable
class SmoothField(Field, Protocol):
    """Interface of a field over a continuous space, whose readings change smoothly as a source moves."""

    def jacobian(self, where: npt.ArrayLike) -> Floats:
        """Derivatives of the readings by the coordinates of a unit source, shape (readings, len(where), dimensions)."""

    def taylor(self, middles: Floats, half: Floats) -> Taylor:
        """Derivatives of the readings at the middles of boxes, and bounds over the boxes middle ± half."""


@dataclass(frozen=True, eq=False)
class Taylor:
    """Derivatives of the readings of a unit source in k boxes of places, for the computation of the sensitivity.

    Args:
        slopes: First derivatives at the middle of each box, shape (readings, k, dimensions).
        bends: Second derivatives at the middle of each box, shape (readings, k, dimensions, dimensions).
        most_slope: Upper bound of the length of the first derivative in the whole box, shape (readings, k).
        most_twist: Upper bound of the norm of the third derivative in the whole box, shape (readings, k).
    """

    slopes: Floats
    bends: Floats
    most_slope: Floats
    most_twist: Floats

    @classmethod
    def stacked(cls, parts: list[Self]) -> Self:
        """Join the derivatives of several fields over the same boxes, one field's readings after the other's."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))
