"""What recovery needs to know of the physics: a linear map from sources at places to the readings of sensors."""

from __future__ import annotations

from typing import Protocol

import numpy.typing as npt

from heathaze.sensors.physics.network import Network
from heathaze.types import Floats


class Field(Protocol):
    """A field that sources feed and sensors read: readings = M · strengths, M of shape (readings, places).

    A source lies at one of ``places`` candidates; where space is continuous, also between them (:meth:`responses`).
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Readings (sensors times snapshots), and candidate places."""

    @property
    def positions(self) -> Floats | None:
        """Where the candidates are, shape (places, dimensions); nothing on a graph, whose places are its nodes."""

    @property
    def bounds(self) -> Floats | None:
        """Lower and upper corner of where sources may be, shape (2, dimensions); nothing unless space is continuous."""

    @property
    def network(self) -> Network | None:
        """The graph, where places are its nodes."""

    @property
    def unit(self) -> str:
        """What distances are measured in, such as "metre"."""

    def apply(self, strengths: Floats) -> Floats:
        """M · strengths, for one vector or for the columns of a matrix."""

    def adjoint(self, readings: Floats) -> Floats:
        """Mᵀ · readings, for one vector or for the columns of a matrix."""

    def responses(self, where: npt.ArrayLike) -> Floats:
        """What a unit source adds to every reading, a column for each place asked: shape (readings, len(where)).

        ``where`` holds coordinates, shape (k, dimensions), on a continuous space, and numbers of candidates elsewhere.
        """

    def only(self, rows: npt.ArrayLike) -> Field:
        """The same field with some readings alone: a mask, or their numbers."""
