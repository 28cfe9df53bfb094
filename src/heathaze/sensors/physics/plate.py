"""A plate as field: heat on a rectangle with open or insulated walls, read by sensors on the rectangle."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from heathaze.checks import assign, shown, whole
from heathaze.errors import InvalidInput
from heathaze.sensors.physics._base import FieldBase, block, coordinates, length, sensor_places, spread
from heathaze.sensors.physics.field import Taylor
from heathaze.sensors.physics.line import Axis
from heathaze.types import Floats, Integers

Walls = Literal["open", "insulated"]

MOST_ACROSS = 4096
"""Largest number of candidate cells along the longer side of a plate."""


@dataclass(frozen=True, eq=False, init=False)
class Plate(FieldBase):
    """Field of heat on a rectangle with sensors on it: reading = p(x) · q(y) for a unit source at (x, y).

    Here p and q are the heat kernels along the two axes (:class:`~heathaze.sensors.physics.line.Axis`). The kernel is
    such a product for open and for insulated walls, so the matrix of sensors × places is never stored.

    Args:
        shape: Width and height in metres.
        sensors: Positions in metres from the lower left corner, shape (m, 2).
        T: Diffusivity times time, in square metres.
        walls: "open" if heat leaves through the walls, "insulated" if it stays.
        candidates: Number of cells along the longer side, 1 to 4,096. The middle of each cell is a candidate place.
            Candidates are ordered by rows from bottom to top, and within a row from left to right, so
            ``strengths.reshape(plate.grid_shape)`` is a map.

    Raises:
        InvalidInput: A number is out of range, or sensors lie outside or at one place.

    >>> plate = Plate((2, 1), [(0.5, 0.5), (1.5, 0.5)], 0.1, candidates=4)
    >>> plate.shape, plate.grid_shape, plate.positions[[0, 1, 4]].tolist()
    ((2, 8), (2, 4), [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75]])
    """

    size: tuple[float, float]
    sensors: Floats
    T: float
    walls: Walls
    candidates: int

    network = None
    unit = "metre"
    nonnegative = True

    def __init__(
        self,
        shape: tuple[float, float],
        sensors: npt.ArrayLike,
        T: float,
        walls: Walls = "open",
        *,
        candidates: int = 64,
    ) -> None:
        try:
            width, height = shape
        except (TypeError, ValueError):
            raise InvalidInput(
                f"The shape of the plate is {shown(shape)}; give its width and height in metres."
            ) from None
        size = length(width, "The width of the plate", "metres"), length(height, "The height of the plate", "metres")
        if walls not in ("open", "insulated"):
            raise InvalidInput(f"walls is {walls!r}; give 'open' where heat leaves, or 'insulated' where it stays.")
        if max(size) > 1000 * min(size):
            raise InvalidInput(
                f"The plate is {size[0]:g} by {size[1]:g}; where one side is over 1,000 times the other, use a Line."
            )
        where = sensor_places(sensors, np.array(size))
        where.flags.writeable = False
        across = whole(candidates, "candidates", "cells across the longer side", most=MOST_ACROSS)
        assign(self, size=size, sensors=where, T=spread(T, max(size)), walls=walls, candidates=across)

    @property
    def grid_shape(self) -> tuple[int, int]:
        """Number of rows and of columns of candidate cells on the plate."""
        width, height = self.size
        cell = max(self.size) / self.candidates
        return max(1, round(height / cell)), max(1, round(width / cell))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of sensors, and number of candidate places on the plate."""
        rows, cols = self.grid_shape
        return len(self.sensors), rows * cols

    @functools.cached_property
    def positions(self) -> Floats:
        """Coordinates of the middles of the plate's candidate cells, shape (places, 2)."""
        x, y = self._middles
        return np.stack([np.tile(x, len(y)), np.repeat(y, len(x))], axis=1)

    @property
    def bounds(self) -> Floats:
        """Lower left and upper right corner of the plate."""
        return np.array([[0.0, 0.0], self.size])

    def apply(self, strengths: Floats) -> Floats:
        """Readings M · strengths of the plate's sensors: along x for each row of candidates, then along y.

        Args:
            strengths: Strength of each candidate source.

        Returns:
            One number for each reading.
        """
        along_x, along_y = self._grid_kernels
        found = block(strengths, self.shape[1], "strengths")
        maps = found.reshape(len(along_y[0]), len(along_x[0]), -1)  # (rows, columns, k)
        # y_j = Σ_r q_j(r) Σ_c p_j(c) f(r, c), the inner sum as one product of matrices
        inner = np.tensordot(maps, along_x, axes=(1, 1))  # (rows, k, sensors)
        out: Floats = np.einsum("rkj,jr->jk", inner, along_y)
        return out[:, 0] if found.ndim == 1 else out

    def adjoint(self, readings: Floats) -> Floats:
        """Adjoint Mᵀ · readings of the plate's matrix.

        Args:
            readings: One number for each reading.

        Returns:
            One number for each candidate source.
        """
        along_x, along_y = self._grid_kernels
        found = block(readings, self.shape[0], "readings")
        columns = [((along_y * column[:, None]).T @ along_x).ravel() for column in found.reshape(len(found), -1).T]
        return columns[0] if found.ndim == 1 else np.stack(columns, axis=1) if columns else np.empty((self.shape[1], 0))

    def responses(self, where: npt.ArrayLike) -> Floats:
        """Readings of a unit source at each of some coordinates on the plate, which have shape (k, 2).

        Args:
            where: Coordinates (x, y) in metres.

        Returns:
            One column of readings for each coordinate pair.
        """
        x, y = coordinates(where, 2, "sources").T
        along_x, along_y = self.axes
        return np.asarray(along_x.derivatives(x, 0)[0] * along_y.derivatives(y, 0)[0])

    def jacobian(self, where: npt.ArrayLike) -> Floats:
        """Derivatives of the readings by the coordinates of a unit source on the plate, shape (sensors, k, 2).

        Args:
            where: Coordinates (x, y) in metres, shape (k, 2).

        Returns:
            The derivatives per metre.
        """
        x, y = coordinates(where, 2, "sources").T
        along_x, along_y = self.axes
        p, q = along_x.derivatives(x, 1), along_y.derivatives(y, 1)
        return np.stack([p[1] * q[0], p[0] * q[1]], axis=-1)

    def taylor(self, middles: Floats, half: Floats) -> Taylor:
        """Derivatives of the readings at the middles of boxes of the plate, and bounds over the boxes.

        Args:
            middles: Middles of the boxes in metres, shape (k, 2).
            half: Half the width and half the height of the boxes in metres.

        Returns:
            The derivatives and their bounds.
        """
        along_x, along_y = self.axes
        p, q = along_x.derivatives(middles[:, 0], 2), along_y.derivatives(middles[:, 1], 2)
        mixed = p[1] * q[1]
        bends = np.stack([np.stack([p[2] * q[0], mixed], axis=-1), np.stack([mixed, p[0] * q[2]], axis=-1)], axis=-1)
        P, Q = along_x.envelopes(middles[:, 0], float(half[0])), along_y.envelopes(middles[:, 1], float(half[1]))
        most_slope = np.hypot(P[1] * Q[0], P[0] * Q[1])
        # Frobenius norm of the third derivative: xxx and yyy occur once, xxy and xyy three times.
        most_twist = np.sqrt((P[3] * Q[0]) ** 2 + 3 * (P[2] * Q[1]) ** 2 + 3 * (P[1] * Q[2]) ** 2 + (P[0] * Q[3]) ** 2)
        return Taylor(np.stack([p[1] * q[0], p[0] * q[1]], axis=-1), bends, most_slope, most_twist)

    def _with(self, rows: Integers) -> Self:
        return type(self)(self.size, self.sensors[rows], self.T, self.walls, candidates=self.candidates)

    @functools.cached_property
    def axes(self) -> tuple[Axis, Axis]:
        """Heat kernels of the plate along x and along y."""
        insulated = self.walls == "insulated"
        (width, height), (x, y) = self.size, self.sensors.T
        return Axis(width, x, self.T, insulated), Axis(height, y, self.T, insulated)

    @property
    def _middles(self) -> tuple[Floats, Floats]:
        (width, height), (rows, cols) = self.size, self.grid_shape
        return (np.arange(cols) + 0.5) * width / cols, (np.arange(rows) + 0.5) * height / rows

    @functools.cached_property
    def _grid_kernels(self) -> tuple[Floats, Floats]:
        """Heat kernels p at the columns and q at the rows of candidates; shapes (sensors, columns), (sensors, rows)."""
        (along_x, along_y), (x, y) = self.axes, self._middles
        return along_x.derivatives(x, 0)[0], along_y.derivatives(y, 0)[0]
